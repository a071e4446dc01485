//! Pieces of text that the answers of several verbs share.

pub(in crate::cli) mod table;

use crate::cli::out::render::table::{cut, labelled};
use crate::cli::out::terminal::{BAD, GOOD, HINT, WARN, paint, width};
use crate::domain::State;
use crate::domain::mail::message::plain;
use crate::domain::work::task::DESCRIPTION_CHARS;
use crate::ops::agent_report::AgentReport;
use crate::ops::error_report::ErrorReport;
use crate::ops::mail::MessageReport;
use crate::ops::status::WorkStatus;
use crate::ops::verify::FindingReport;
use crate::wire::output::sarif::{self, SarifResult};
use anstyle::Style;
use serde_json::Value;

// Findings as text and as SARIF.

/// `2 commits` and what is said of them; empty for none.
pub(in crate::cli) fn counted(count: usize, thing: &str, rest: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!("1 {thing}{rest}"),
        _ => format!("{count} {thing}s{rest}"),
    }
}

/// The word for a verdict, of which there are three: what was not judged is neither accepted nor rejected.
pub(in crate::cli) fn verdict_word(verdict: Option<&str>) -> String {
    match verdict {
        Some("accept") => paint(GOOD, "accepted"),
        Some(_) => paint(BAD, "rejected"),
        None => paint(WARN, "not judged"),
    }
}

/// One finding and how it is mended, for a person.
pub(in crate::cli) fn finding_text(finding: &FindingReport) -> String {
    let style = match finding.severity {
        "error" => BAD,
        _ => WARN,
    };
    format!(
        "  {}\n    {}\n",
        labelled(style, finding.code, &finding.message, 4, width()),
        labelled(HINT, "fix:", &finding.fix, 6, width()),
    )
}

/// Findings as a SARIF log.
pub(in crate::cli) fn sarif_of(verb: &str, findings: &[FindingReport]) -> Value {
    sarif::log(
        verb,
        findings.iter().map(|finding| SarifResult {
            rule: finding.code,
            level: finding.severity,
            message: format!("{}. To mend it: {}.", finding.message, finding.fix),
            path: finding.path.as_ref(),
            subject: finding.commit.as_ref().unwrap_or(&finding.message),
        }),
    )
}

// How messages look. Text of other senders is shown without its control characters.

/// How wide the title of a message is at most.
const TITLE: usize = 80;

/// How far what a message says is moved to the right.
const INDENT: &str = "  ";

/// The first line of what a message is about, no longer than a line of text should be.
pub(in crate::cli) fn title(message: &MessageReport) -> String {
    let line = message.summary.lines().next().unwrap_or_default();
    cut(&plain(line), TITLE)
}

/// A message: what it is about, then whatever else it says.
pub(in crate::cli) fn block(message: &MessageReport, time: &str) -> String {
    let mut text = format!(
        "{} {} from {}\nID: {}\n{time}: {}\n",
        paint(style(message), &format!("[{}]", message.priority)),
        message.kind,
        plain(&message.sender()),
        message.message_id,
        seconds(&message.created),
    );
    if let Some(id) = &message.reply_to {
        text.push_str(&format!("In reply to: {id}\n"));
    }
    text.push_str(&format!("{}\n", plain(&message.summary)));
    let fields = message.payload.as_object().into_iter().flatten();
    // The summary stands above already.
    for (key, value) in fields.filter(|(_, value)| value.as_str() != Some(&message.summary)) {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = plain(&value).replace('\n', &format!("\n{INDENT}{INDENT}"));
        // A key is the sender's text, and must not look like a line of ours.
        let key = plain(key).replace('\n', "\\n");
        text.push_str(&format!("{INDENT}{key}: {value}\n"));
    }
    text
}

pub(in crate::cli) fn style(message: &MessageReport) -> Style {
    match message.priority {
        "critical" => BAD,
        "high" => WARN,
        _ => Style::new(),
    }
}

/// A time without its fraction, which is for machines.
pub(in crate::cli) fn seconds(time: &str) -> String {
    format!("{}Z", time.split('.').next().unwrap_or_default())
}

// How agents look: in a table, alone, as a tree.

pub(in crate::cli) const NO_AGENTS: &str = "(no agents)\n";

/// The states of agents for which there is something to do, those that a person has to see to first.
pub(in crate::cli) const BY_NEED: [State; 8] = {
    use State::{Done, Failed, Idle, Ready, Rejected, Running, Spawning, Waiting};
    [Waiting, Failed, Done, Running, Idle, Ready, Spawning, Rejected]
};

pub(in crate::cli) fn handle(agent: &AgentReport) -> String {
    handle_of(&agent.short_id, agent.name.as_deref())
}

/// What to do about an error, below the line of the agent that it is about.
pub(in crate::cli) fn hint_lines(error: &ErrorReport) -> String {
    let line = |hint: &String| format!("  {} {hint}\n", paint(WARN, "hint:"));
    error.hints.iter().map(line).collect()
}

/// An agent's short id and its name.
pub(in crate::cli) fn handle_of(short_id: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{short_id} {name}"),
        None => short_id.to_owned(),
    }
}

/// What an agent is to do, with a sign where a row holds but the beginning of it.
pub(in crate::cli) fn task(agent: &AgentReport) -> Option<String> {
    let task = agent.description.as_deref()?;
    let is_cut = task.chars().count() >= DESCRIPTION_CHARS;
    Some(format!("{task}{}", if is_cut { "…" } else { "" }))
}

/// An agent's state, and whether it still has a worktree.
pub(in crate::cli) fn state_of_work(agent: &AgentReport, status: &WorkStatus) -> String {
    let state = state(agent);
    match status.worktree_gone.known() {
        Some(true) => format!("{state}, worktree gone"),
        _ => state,
    }
}

pub(in crate::cli) fn state(agent: &AgentReport) -> String {
    if let Some(claimed) = agent.claimed_state {
        return format!("{} (claimed {claimed})", agent.state);
    }
    let run = agent.run.as_ref().map(|run| run.state);
    match (agent.deferred, run) {
        (true, _) => format!("{} (deferred)", agent.state),
        (false, Some("running")) => format!("{} (at work)", agent.state),
        (false, Some("dead")) => format!("{} (run died)", agent.state),
        _ => agent.state.to_owned(),
    }
}

pub(in crate::cli) fn state_style(state: &str) -> Style {
    match state {
        "done" | "merged" => GOOD,
        "failed" | "rejected" => BAD,
        "spawning" => WARN,
        _ => Style::new(),
    }
}
