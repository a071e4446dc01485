//! What a run answers, for people and for machines.

use crate::cli::out::render::table::{labelled, wrapped};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, HINT, paint, width};
use crate::cli::out::ui::Answer;
use crate::domain::Finding;
use crate::domain::judge::evidence::MergeOutcome;
use crate::domain::mail::message::plain;
use crate::ops::agent_report::SessionReport;
use crate::ops::run::{RunOutline, RunReport, SandboxReport, StartReport};
use std::time::Duration;

/// Where a line ends on wide terminals and where there is none.
const WIDEST: usize = 80;

/// So many reasons of a rejection are told.
const FEW: usize = 3;

impl Answer for StartReport {
    fn text(&self) -> String {
        let row = &self.row;
        let id = &row.agent_id[..8];
        let mut text = format!("run {} of {} began\n", row.run, paint(BOLD, id));
        if let Some(path) = self.spawn.as_ref().and_then(|spawn| spawn.worktree_path.as_ref()) {
            text.push_str(&format!("  worktree {path}\n"));
        }
        text.push_str(&format!("  output: git agent show --follow {id}\n"));
        text.push_str(&format!("  to wait for it, run git agent wait {id}\n"));
        text
    }
}

impl Answer for RunOutline {
    fn text(&self) -> String {
        format!("{}\n", self.command_line)
    }
}

impl Answer for RunReport {
    fn text(&self) -> String {
        let who = &self.handle;
        let style = if self.status == "success" { GOOD } else { BAD };
        let end = ending(self.ended, self.exit_code, self.timeout_ms);
        let mut text = format!("run {} of {} {}", self.run, paint(BOLD, who), paint(style, &end));
        // A time limit says by itself how long it took.
        if self.ended != "timeout" {
            let took = format!("({})", seconds(self.duration_ms));
            text.push_str(&format!(" {}", paint(DIM, &took)));
        }
        text.push('\n');
        if let Some(path) = self.spawn.as_ref().and_then(|spawn| spawn.worktree_path.as_ref()) {
            text.push_str(&format!("  worktree {path}\n"));
        }
        text.push_str(&cost(&self.session));
        if let Some(Some(file)) = &self.output_file {
            text.push_str(&format!("  output {file}\n"));
        }
        text.push_str(&format!("  output: git agent show --output {who}\n"));
        text.push_str(&sandbox(&self.sandbox));
        if self.cut_bytes > 0 {
            text.push_str(&format!("  left out of the logs: {} bytes\n", self.cut_bytes));
        }
        if let Some(failure) = &self.failure {
            let said = paint(BAD, "the agent says that it failed:");
            text.push_str(&format!("  {said} {}\n", plain(failure)));
        }
        if self.waiting {
            text.push_str("  the agent asked and waits for an answer: git agent inbox\n");
        }
        let verified = self.verify.as_ref();
        let is_accepted = verified.is_some_and(|report| report.verdict.is_accepted());
        match &self.verdict {
            Some(Some(verdict)) if is_accepted => {
                text.push_str(&format!("  verdict {}\n", paint(GOOD, verdict)));
                // What its agent calls failed is not for landing without a second thought, nor is what it has a
                // question about.
                let is_over = self.failure.is_none() && !self.waiting;
                let landing = verified
                    .filter(|report| report.verdict.can_land() && is_over)
                    .and_then(|report| report.verdict.landing.as_ref())
                    // What has landed already has no next step.
                    .filter(|landing| !matches!(landing.outcome, MergeOutcome::Landed { .. }));
                if let Some(landing) = landing {
                    let next = paint(HINT, "next:");
                    let into = match &landing.refname {
                        Some(name) if name.starts_with("refs/heads/") => "",
                        // A branch that only a remote has.
                        Some(name) if name.starts_with("refs/remotes/") => " --push",
                        _ => " --into <branch>",
                    };
                    text.push_str(&format!(
                        "{next} git agent diff {who}, then git agent merge {who}{into}\n"
                    ));
                }
            }
            Some(Some(verdict)) => {
                text.push_str(&format!("  verdict {}\n", paint(BAD, verdict)));
                let findings = verified.map_or(&[][..], |report| &report.verdict.findings);
                text.push_str(&reasons(findings));
                text.push_str(&format!(
                    "{} to see how to mend it, run git agent verify {who}\n",
                    paint(HINT, "hint:")
                ));
            }
            Some(None) | None => {}
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.agent_id))
    }
}

/// The first of what rejects the work; more of it `verify` shows.
fn reasons(findings: &[Finding]) -> String {
    let rejecting: Vec<_> = findings.iter().filter(|one| one.rejects()).collect();
    let width = width().min(WIDEST);
    let mut text: String = rejecting
        .iter()
        .take(FEW)
        .map(|one| {
            let line = labelled(BAD, one.code.name(), &one.message, 6, width);
            format!("    {line}\n")
        })
        .collect();
    if let Some(more @ 1..) = rejecting.len().checked_sub(FEW) {
        text.push_str(&format!("    and {more} more\n"));
    }
    text
}

/// What a session cost, as far as its host said: `cost $0.25, 27 tokens in, 36 out`.
fn cost(session: &SessionReport) -> String {
    let cost = session.cost_usd.map(|cost| format!("${cost:.2}"));
    let tokens = session.input_tokens.zip(session.output_tokens);
    let tokens = tokens.map(|(input, output)| format!("{input} tokens in, {output} out"));
    let parts: Vec<_> = cost.into_iter().chain(tokens).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("  cost {}\n", parts.join(", "))
}

/// What the sandbox enforced; nothing where none was requested.
fn sandbox(report: &SandboxReport) -> String {
    match (report.enforced, &report.why) {
        (Some("off"), _) => String::new(),
        (Some(word), why) => {
            let why = why.iter().map(|why| format!(": {why}")).collect::<String>();
            let open = report.missing.join(", ");
            // What is open is named even where the sandbox was enforced, because that word alone
            // promises more.
            let open = Some(open).filter(|open| !open.is_empty());
            let open = open.map(|open| format!("; open: {open}")).unwrap_or_default();
            let line = format!("  sandbox {word}{why}{open}");
            format!("{}\n", wrapped(&line, 4, width().min(WIDEST)))
        }
        (None, _) => "  sandbox unknown: the command did not start\n".to_owned(),
    }
}

/// How a command ended, in words.
pub(in crate::cli) fn ending(ended: &str, code: u8, limit_ms: Option<u64>) -> String {
    match (ended, limit_ms) {
        ("exit", _) => format!("ended with status {code}"),
        // The status is that of a shell: 128 and the number of the signal.
        ("signal", _) => format!("was ended by signal {}", code.saturating_sub(128)),
        ("timeout", Some(limit)) => format!("exceeded its time limit of {}", seconds(limit)),
        // Rows of earlier versions do not say what the limit was.
        ("timeout", None) => "exceeded its time limit".to_owned(),
        ("stopped", _) => "was stopped".to_owned(),
        ("limit-memory", _) => "was ended: it took more memory than a run may".to_owned(),
        ("limit-pids", _) => "was ended: it had more processes than a run may".to_owned(),
        ("limit-cost", _) => "was ended: it, or the day, has cost what it may".to_owned(),
        _ => "was lost".to_owned(),
    }
}

pub(super) fn seconds(millis: u64) -> String {
    format!("{:.1} s", Duration::from_millis(millis).as_secs_f64())
}
