//! How decisions, commits and landings look.

use super::agents::{handle, handle_of, state, state_style};
use crate::cli::style::{BAD, BOLD, DIM, GOOD, WARN, paint};
use crate::cli::ui::Answer;
use crate::domain::agent::State;
use crate::domain::path::Quoted;
use crate::ops::close::MoveReport;
use crate::ops::commit::CommitReport;
use crate::ops::merge::AllReport;
use crate::ops::merge::CloseReport;
use crate::ops::merge::LandingReport;
use crate::ops::merge::{Decision, Fate, LandingState};
use serde_json::{Value, json};

impl Answer for MoveReport {
    fn text(&self) -> String {
        let agent = &self.agent;
        if self.status.is_some() {
            return format!(
                "left in the spool of {}; it is recorded when that is collected\n",
                handle(agent)
            );
        }
        let state = paint(state_style(agent.state), &state(agent));
        format!("{} is {state}\n", handle(agent))
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.agent.agent_id))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for CommitReport {
    fn text(&self) -> String {
        let commit = paint(BOLD, &self.commit[..7]);
        let count = self.paths.len();
        let noun = if count == 1 { "path" } else { "paths" };
        let mut text = format!(
            "committed {commit} for {}: {count} {noun}\n",
            &self.agent_id[..8]
        );
        for path in &self.left_out {
            text.push_str(&format!(
                "  {} {}\n",
                paint(WARN, "left out:"),
                Quoted(&path.to_bytes())
            ));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.agent_id))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for LandingReport {
    fn text(&self) -> String {
        let verb = match self.verdict {
            LandingState::Planned => paint(WARN, "would merge"),
            LandingState::AlreadyMerged => paint(GOOD, "had already merged"),
            LandingState::Merged => paint(GOOD, "merged"),
        };
        let into = self.into.trim_start_matches("refs/heads/");
        let mut text = format!("{verb} {} into {into}", &self.agent_id[..8]);
        if let Some(commit) = &self.commit {
            text.push_str(&format!(" as {}", paint(BOLD, &commit[..7])));
        }
        text.push_str(&format!(" {}\n", paint(DIM, &format!("({})", self.method))));
        text.push_str(&format!("  {}\n", self.subject));
        if self.uncommitted > 0 {
            let count = self.uncommitted;
            text.push_str(&format!("  uncommitted paths, committed first: {count}\n"));
        }
        for worktree in &self.worktrees {
            text.push_str(&format!("  moves along: {worktree}\n"));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        (self.verdict != LandingState::Planned).then(|| format!("git agent log {}", self.agent_id))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for AllReport {
    fn text(&self) -> String {
        let mut text: String = match self.agents.is_empty() {
            true => "(no agents)\n".to_owned(),
            false => self.agents.iter().map(decision_text).collect(),
        };
        let close = self.close.as_ref();
        text.extend(close.map(|close| close_text(close, &self.agents)));
        text
    }

    fn to_see_it(&self) -> Option<String> {
        let mut agents = self.agents.iter();
        let landed = agents.any(|one| one.verdict == Fate::Landed(LandingState::Merged));
        landed.then(|| "git agent list --all".to_owned())
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        let close = self.close.iter().map(|close| json!({ "close": close }));
        let agents = self.agents.iter().map(|one| json!(one));
        agents.chain(close).collect()
    }
}

fn close_text(close: &CloseReport, agents: &[Decision]) -> String {
    let mut text = String::new();
    if !close.running.is_empty() {
        let is_running = |one: &&Decision| close.running.contains(&one.agent_id);
        let running: Vec<_> = agents.iter().filter(is_running).map(who).collect();
        let label = paint(WARN, "still at work:");
        text.push_str(&format!("{label} {}\n", running.join(", ")));
    }
    if let Some(question) = &close.question {
        text.push_str(&format!("{}\n", paint(BOLD, question)));
    }
    for (number, way) in close.ways.iter().enumerate() {
        text.push_str(&format!("  {}. {}\n", number + 1, way.what));
        for command in &way.commands {
            text.push_str(&format!("     {}\n", paint(DIM, command)));
        }
    }
    text
}

/// An agent's id and name.
fn who(one: &Decision) -> String {
    handle_of(&one.agent_id[..8], one.name.as_deref())
}

fn decision_text(one: &Decision) -> String {
    let style = match one.verdict {
        Fate::Landed(LandingState::Merged | LandingState::AlreadyMerged) => GOOD,
        Fate::RejectBundle | Fate::NotMerged | Fate::Left(State::Rejected | State::Failed) => BAD,
        Fate::Landed(LandingState::Planned) | Fate::Deferred | Fate::Left(_) => WARN,
    };
    let verdict = paint(style, one.verdict.as_str());
    let mut text = format!("{} {verdict}", paint(BOLD, &who(one)));
    if let Some(commit) = &one.commit {
        text.push_str(&format!(" {}", &commit[..7]));
    }
    if let Some(reason) = &one.reason {
        text.push_str(&format!(" {}", reason.replace('\n', "\n  ")));
    }
    text.push('\n');
    text
}
