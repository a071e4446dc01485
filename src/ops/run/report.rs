//! What a finished run answers: `git-agent.run/2`.

use super::RunPlan;
use super::enclosure::SandboxReport;
use super::output::Output;
use super::stage::Stage;
use crate::agents::{Ctx, who::names};
use crate::domain::life::run::Outcome;
use crate::domain::life::sandbox::refused_write;
use crate::domain::value::shell::word;
use crate::domain::{Agent, Ending, HostSession, Run, State, Verdict};
use crate::error::Result;
use crate::hosts::output::Told;
use crate::hosts::{CostControl, Host};
use crate::ops::agent_report::{SessionReport, rfc3339};
use crate::ops::run_row::{RunRow, SUCCESS};
use crate::ops::spawn::SpawnReport;
use crate::ops::verify::VerifyReport;
use crate::proc::capture::Logged;
use crate::store::files::{fsx, layout};
use crate::wire::output::answer::MOST_BYTES;
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};
use std::time::Duration;

/// How many words of the end of the standard output are given back.
const SUMMARY_WORDS: usize = 500;
/// Where they are looked for: this many bytes at its end.
const SUMMARY_BYTES: u64 = 64 * 1024;

/// A command that is over.
pub(super) struct Ended {
    pub outcome: Outcome,
    pub started: DateTime<Utc>,
    pub ended: DateTime<Utc>,
    pub duration: Duration,
    /// Whether this process was asked to end meanwhile.
    pub interrupted: bool,
    pub out: Logged,
    pub err: Logged,
    pub sandbox: SandboxReport,
    /// What its host told.
    pub told: Told,
    /// What the row keeps of that.
    pub session: HostSession,
}

impl Ended {
    pub(super) fn is_success(&self) -> bool {
        self.outcome.is_success() && !self.interrupted
    }
}

/// The answer of `run`. Absent means not applicable, null that it could not be determined.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.run/2")]
pub struct RunReport {
    /// `success` for a command that ended with status 0 and whose work was not rejected, `rejected` where it was,
    /// else `failed`, also where judging failed and where the agent said that it failed.
    pub status: &'static str,
    /// What the agent said when it declared that it failed; absent where it did not.
    pub failure: Option<String>,
    /// Whether the agent asked and waits for an answer; absent where it does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waiting: bool,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// Its alias.
    pub name: Option<String>,
    /// What names it in a command, for people.
    #[serde(skip)]
    pub handle: String,
    /// The number of the run among those of its agent.
    pub run: u32,
    /// The command, shortened, with its placeholders.
    pub command: String,
    /// The status as a shell gives it: 128 + n for signal n, 124 when the time was up.
    pub exit_code: u8,
    /// What ended it: `exit`, `signal`, `timeout`, `stopped`, or `lost` when that is unknown.
    pub ended: &'static str,
    /// Whether its time was up.
    pub timed_out: bool,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it ended, RFC 3339.
    pub ended_at: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// How long it might have taken, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// What it might have cost, in US dollars.
    pub max_cost_usd: Option<f64>,
    /// The log of its standard output, absolute.
    pub stdout_path: String,
    /// The log of its standard error, absolute.
    pub stderr_path: String,
    /// How many bytes it wrote to its standard output.
    pub stdout_bytes: u64,
    /// How many bytes it wrote to its standard error.
    pub stderr_bytes: u64,
    /// How many bytes of both, from the middle, are not in the logs.
    #[serde(skip_serializing_if = "is_zero")]
    pub cut_bytes: u64,
    /// What the sandbox enforced.
    pub sandbox: SandboxReport,
    /// The file of the agent's answer, absolute; absent when none was asked for, null when none was written.
    pub output_file: Option<Option<String>>,
    /// The last message of a host that we know, else the end of the standard output, of a host's standard error where
    /// that is empty; at most 500 words.
    pub summary: String,
    /// What the host told of the session.
    #[serde(flatten)]
    pub session: SessionReport,
    /// `accept` or `reject`; absent when nothing was judged, null when judging failed.
    pub verdict: Option<Option<&'static str>>,
    /// The whole verdict.
    pub verify: Option<VerifyReport>,
    /// The agent as `spawn` answers it, when the run made it.
    pub spawn: Option<SpawnReport>,
    /// The runs of the agents that took over, one after the other; absent where none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub handoffs: Vec<RunReport>,
    /// What the command tried to push, one command line each; absent where it tried nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub push_refused: Vec<String>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl RunReport {
    pub(super) fn new(
        ctx: &Ctx,
        agent: &Agent,
        plan: &RunPlan,
        stage: &Stage,
        ended: &Ended,
        spawn: Option<SpawnReport>,
    ) -> RunReport {
        let outcome = ended.outcome;
        let told = ended.told.clone();
        let mut warnings = spawn.as_ref().map_or(Vec::new(), |spawn| spawn.warnings.clone());
        warnings.extend(plan.inputs.warnings.iter().cloned());
        // The spawn of this run has said them already.
        let new: Vec<String> =
            stage.warnings.iter().filter(|warning| !warnings.contains(warning)).cloned().collect();
        warnings.extend(new);
        warnings.extend(stage.enclosure.warnings.iter().cloned());
        warnings.extend(ended.sandbox.warnings());
        let is_fenced = !matches!(ended.sandbox.enforced, None | Some("off" | "none"));
        warnings.extend(
            refused(ctx.env.home.as_deref(), stage).filter(|_| is_fenced && !ended.is_success()),
        );
        let control = plan.inputs.host.map(Host::cost_control);
        let is_added_up = matches!(control, Some(CostControl::Cost | CostControl::Tokens));
        if is_added_up && ended.out.cut > 0 && ended.session.cost_micro_usd.is_some() {
            warnings.push(
                "the log of the host was cut, so the session cost more than is told".to_owned(),
            );
        }
        for (path, logged) in [(&stage.stdout, &ended.out), (&stage.stderr, &ended.err)] {
            if let Some(trouble) = &logged.trouble {
                let path = path.display();
                warnings.push(format!("the log {path} is not complete: {trouble}"));
            }
        }
        RunReport {
            status: if ended.is_success() { SUCCESS } else { "failed" },
            failure: None,
            waiting: false,
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            name: agent.name.as_ref().map(ToString::to_string),
            handle: names::for_command(ctx, agent.id, agent.name.as_ref()),
            run: stage.number,
            command: stage.description.clone(),
            exit_code: outcome.code,
            ended: outcome.ending.as_str(),
            timed_out: outcome.ending == Ending::Timeout,
            started_at: rfc3339(ended.started),
            ended_at: rfc3339(ended.ended),
            duration_ms: millis(ended.duration),
            timeout_ms: plan.limit.map(millis),
            max_cost_usd: plan.inputs.task().max_cost,
            stdout_path: stage.stdout.to_string_lossy().into_owned(),
            stderr_path: stage.stderr.to_string_lossy().into_owned(),
            stdout_bytes: ended.out.bytes,
            stderr_bytes: ended.err.bytes,
            cut_bytes: ended.out.cut + ended.err.cut,
            sandbox: ended.sandbox.clone(),
            output_file: None,
            summary: summary(told.words, plan.inputs.host, stage),
            session: SessionReport::from(&ended.session),
            verdict: None,
            verify: None,
            spawn,
            handoffs: Vec::new(),
            push_refused: ended.sandbox.push_refused.clone(),
            warnings,
        }
    }

    /// Whether the agent was accepted: its command succeeded, and nothing rejected its work.
    pub fn is_accepted(&self) -> bool {
        self.status == SUCCESS
    }

    /// The status to end with: that of the command, and 1 where that is 0 and the run was no success.
    pub fn exit_status(&self) -> u8 {
        match self.exit_code {
            0 => u8::from(self.status != SUCCESS),
            code => code,
        }
    }

    /// Adds what became of the answer that was asked for.
    pub(super) fn answered(&mut self, output: &mut Output) {
        let path = output.path().to_string_lossy().into_owned();
        self.output_file = Some(None);
        match output.collect().and_then(|()| output.is_written()) {
            Ok(true) => self.output_file = Some(Some(path)),
            Ok(false) => self.warnings.push(format!("the agent wrote no output file at {path}")),
            Err(error) => {
                self.warnings.push(format!("the output file at {path} is not believed: {error}"))
            }
        }
    }

    /// Adds what the agent said of itself, which counts more than how its command ended and how its work was judged.
    pub(super) fn declared(&mut self, agent: &Agent) {
        // What the agent says of itself counts for more than how its host ended.
        if agent.declared && agent.state == State::Failed {
            self.status = "failed";
            self.failure = Some(agent.summary.clone().unwrap_or_default());
        }
    }

    /// Adds what became of judging the work. The run itself is over and told of in either case.
    pub(super) fn judged(&mut self, verified: Result<Verdict>) {
        match verified {
            Ok(verdict) => {
                if !verdict.is_accepted() {
                    self.status = "rejected";
                }
                let report = VerifyReport::from(verdict);
                self.verdict = Some(Some(report.word()));
                self.verify = Some(report);
            }
            // Work that cannot be judged must not look as if it could land.
            Err(error) => {
                self.status = "failed";
                self.verdict = Some(None);
                self.warnings.push(format!("the work could not be judged: {error}"));
            }
        }
    }
}

/// The host's last message, else the end of its standard output, else of its standard error. Of a command of the
/// caller's, the end of its standard output.
fn summary(words: Option<String>, host: Option<&dyn Host>, stage: &Stage) -> String {
    let out = || end_of(&stage.stdout, SUMMARY_BYTES);
    let mut text = last_words(&words.unwrap_or_else(out));
    // A host that fails says why on standard error, and nothing else.
    if text.is_empty() && host.is_some() {
        text = last_words(&end_of(&stage.stderr, SUMMARY_BYTES));
    }
    text
}

/// What to try where a command failed and says that it could not write something: a program that keeps a cache of its own outside of
/// those that the sandbox moves. The command chooses these words, so no other place than a cache is offered.
fn refused(home: Option<&Path>, stage: &Stage) -> Option<String> {
    let ends = [&stage.stderr, &stage.stdout].map(|log| end_of(log, SUMMARY_BYTES));
    let path = ends.iter().find_map(|text| refused_write(text))?;
    Some(advice(home, path))
}

fn advice(home: Option<&Path>, path: &str) -> String {
    let caches = home.map(|home| home.join(".cache"));
    let cache = caches.and_then(|caches| {
        let inside = Path::new(path).strip_prefix(&caches).ok()?;
        match inside.components().next()? {
            Component::Normal(name) => Some(caches.join(name)),
            _ => None,
        }
    });
    match cache {
        Some(cache) => format!(
            "the command could not write {path}; where the sandbox refused that, --allow-write {} opens this cache for one run",
            word(cache.as_os_str().as_bytes())
        ),
        None => format!(
            "the command could not write {path}; if the sandbox refused that, do not open the place to an agent unless you know that \
             no program of yours reads settings or code there"
        ),
    }
}

/// Keeps the agent's final answer, of which `verify` reads fields: what the host says that it was, else the end of standard output; and the file
/// that it was to write its answer to.
///
/// # Errors
/// `disk-full`, `io`.
pub(super) fn keep_answer(
    ctx: &Ctx,
    agent: &Agent,
    told: &Told,
    stage: &Stage,
    file: Option<&Path>,
) -> Result<()> {
    // Where a file was asked for, that is the answer, and what is said besides is a summary of it.
    let written = file.map(|file| end_of(file, MOST_BYTES));
    let answer = written
        .filter(|text| !text.is_empty())
        .or_else(|| told.words.clone())
        .unwrap_or_else(|| end_of(&stage.stdout, MOST_BYTES));
    fsx::write_private(&layout::answer(ctx.repo.common_dir(), agent.id), answer.as_bytes())
}

/// The end of a log as text; nothing where it cannot be read, which a warning tells.
fn end_of(path: &Path, most: u64) -> String {
    fsx::end_of(path, most).unwrap_or_default()
}

fn last_words(text: &str) -> String {
    let text = text.trim();
    let mut starts =
        text.split_whitespace().rev().map(|word| word.as_ptr() as usize - text.as_ptr() as usize);
    match starts.nth(SUMMARY_WORDS - 1) {
        Some(start) => text[start..].to_owned(),
        None => text.to_owned(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

// What a run answers that the caller does not wait for.

/// What is known when a command has begun to work: `git-agent.run/2`, with the keys that a run under way has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartReport {
    /// The run.
    #[serde(flatten)]
    pub row: RunRow,
    /// The agent as `spawn` answers it, when the run made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn: Option<SpawnReport>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl StartReport {
    pub(super) fn new(
        ctx: &Ctx,
        agent: &Agent,
        run: &Run,
        spawn: Option<&SpawnReport>,
    ) -> StartReport {
        StartReport {
            row: RunRow::of(ctx, agent, run, true),
            spawn: spawn.cloned(),
            warnings: spawn.map_or(Vec::new(), |spawn| spawn.warnings.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_but_a_cache_is_offered_to_be_opened() {
        let offered = |path: &str| {
            let advice = advice(Some(Path::new("/home/a")), path);
            let (_, option) = advice.split_once("--allow-write ")?;
            Some(option.split(' ').next()?.to_owned())
        };
        let cache = Some("/home/a/.cache/tool".to_owned());
        assert_eq!(offered("/home/a/.cache/tool/x/lock"), cache);
        for path in [
            "/home/a/.cache",
            "/home/a/.cache/../.bashrc",
            "/home/a/.claude/settings.json",
            "/home/a/r/.git/hooks/post-checkout",
            "/home/b/.cache/tool",
            "/",
        ] {
            assert_eq!(offered(path), None, "{path}");
        }
    }

    #[test]
    fn a_summary_is_the_last_five_hundred_words_as_they_stand() {
        assert_eq!(last_words("  one\n\n  two \n"), "one\n\n  two");
        assert_eq!(last_words(""), "");
        let long = "é word\n".repeat(600);
        let summary = last_words(&long);
        assert_eq!(summary.split_whitespace().count(), SUMMARY_WORDS);
        assert!(summary.starts_with("é word\né"), "{summary}");
    }
}
