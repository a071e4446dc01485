//! The answer of `train`: `git-agent.train/1`.

use crate::domain::FindingCode;
use crate::domain::landing::train::Purpose;
use crate::domain::value::named::named;
use crate::error::{Code, Error};
use crate::ops::agent_report::AgentRef;
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// What became of every agent, and which checks ran for it.
#[derive(Debug, Serialize)]
#[serde(tag = "schema", rename = "git-agent.train/1")]
pub struct TrainReport {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// Every agent: as they were named, or in the order of the train.
    pub items: Vec<ItemReport>,
    /// The branches that agents landed on, or would.
    pub targets: Vec<TrainTarget>,
    /// Every check, in order.
    pub runs: Vec<TrainRun>,
    /// Trees on which a check failed and then succeeded.
    pub flaky: Vec<FlakyReport>,
    /// How many checks ran.
    pub checks_run: usize,
    /// How many of them made sure that a red answer is no accident, or told with which other agent one fails. The others find culprits.
    pub checks_again: usize,
    /// How many answers were known.
    pub checks_known: usize,
    /// What the fence around the checks was: `full`, `partial`, `none` or `off`.
    pub sandbox: &'static str,
    /// How long it all took, in milliseconds.
    pub duration_ms: u64,
    /// What the caller should know of what came after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl TrainReport {
    /// Whether every agent landed, or would.
    pub fn is_success(&self) -> bool {
        self.items.iter().all(|item| item.outcome.has_landed())
    }

    /// The error of an agent that the caller named and that there is not.
    pub fn misnamed(&self) -> Option<&Error> {
        let is_misnamed =
            |error: &&Error| matches!(error.code(), Code::AgentUnknown | Code::AgentAmbiguous);
        let mut errors = self.items.iter().filter_map(|item| item.error.as_ref());
        errors.find(is_misnamed)
    }

    /// The agents that conflict, by their full ids.
    pub fn conflicting(&self) -> Vec<String> {
        let refused = |item: &ItemReport| {
            let error = item.error.as_ref();
            error.is_some_and(|error| !error.told().conflicts.is_empty())
        };
        let conflicts = |item: &&ItemReport| {
            !item.outcome.has_landed() && (!item.conflicts.is_empty() || refused(item))
        };
        let items = self.items.iter().filter(conflicts);
        items.filter_map(|item| item.agent_id.clone()).collect()
    }

    /// Says of an agent why it could not be tried again.
    pub fn not_solved(&mut self, agent: &str, error: &Error) {
        let is_it = |item: &&mut ItemReport| item.agent_id.as_deref() == Some(agent);
        for item in self.items.iter_mut().filter(is_it) {
            item.reason = Some(error.to_string());
        }
    }

    /// Takes over what became of agents that another train tried again.
    pub fn take_over(&mut self, again: TrainReport) {
        for new in again.items {
            let mut items = self.items.iter_mut();
            if let Some(item) = items.find(|item| item.agent_id == new.agent_id) {
                *item = new;
            }
        }
        for target in again.targets {
            self.targets.retain(|known| known.refname != target.refname);
            self.targets.push(target);
        }
        self.runs.extend(again.runs);
        self.flaky.extend(again.flaky);
        self.checks_run += again.checks_run;
        self.checks_again += again.checks_again;
        self.checks_known += again.checks_known;
        self.duration_ms += again.duration_ms;
    }
}

named! {
    /// How far an agent's work came.
    pub enum TrainOutcome {
        /// It has landed.
        Landed = "landed",
        /// It had landed before, and only the row did not say so.
        AlreadyMerged = "already-merged",
        /// It would be stacked at its place.
        Planned = "planned",
        /// It is green on top of the others, and landing was not asked for.
        Accepted = "accepted",
        /// The checks are red with it and green without it.
        Rejected = "rejected",
        /// It conflicts with what landed.
        Conflicts = "conflicts",
        /// It was not stacked: judging it, or its state, forbids that.
        Refused = "refused",
        /// No answer was found: there were no more check runs, or the target itself is red.
        Undecided = "undecided",
    }
}

impl TrainOutcome {
    /// Whether it landed, or may.
    fn has_landed(self) -> bool {
        matches!(
            self,
            TrainOutcome::Landed
                | TrainOutcome::AlreadyMerged
                | TrainOutcome::Planned
                | TrainOutcome::Accepted
        )
    }
}

/// What became of one agent.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
pub struct ItemReport {
    /// What the caller named, or the agent's id.
    pub target: String,
    /// The agent's id; absent where none was found.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// The alias.
    pub name: Option<String>,
    /// How far it came.
    pub outcome: TrainOutcome,
    /// The branch to land on, full name.
    pub lands_on: Option<String>,
    /// The commit that brought its work.
    pub commit: Option<String>,
    /// The tree of the target with its work.
    pub tree: Option<String>,
    /// Where it conflicts; absent where it does not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<PathText>,
    /// The check that failed with its work.
    pub check: Option<FailedCheck>,
    /// The agent together with whose work, and only together, the check fails.
    pub fails_with: Option<AgentRef>,
    /// Why it did not land, in words.
    pub reason: Option<String>,
    /// What kept it from landing.
    #[serde(skip)]
    pub error: Option<Error>,
    /// What the caller should know though the work has landed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// A check command that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedCheck {
    /// The command line.
    pub command: String,
    /// The status as a shell gives it: 128 + n for signal n, 124 when the time was up.
    pub exit_code: u8,
    /// Whether its time was up.
    pub timed_out: bool,
    /// How it failed, as the end of a sentence.
    #[serde(skip)]
    pub how: String,
    /// The tree it ran on.
    pub tree: String,
    /// The end of what it wrote, both streams.
    pub output: String,
    /// Whether it is a command of `[setup]`; absent for a check command.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub setup: bool,
}

impl FailedCheck {
    /// The finding that it amounts to.
    pub(super) fn finding(&self) -> FindingCode {
        if self.setup {
            FindingCode::CommandSetupFailed
        } else if self.timed_out {
            FindingCode::CommandTimedOut
        } else {
            FindingCode::CommandFailed
        }
    }
}

/// Where a branch was, and where the train brought it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrainTarget {
    /// Its full name.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The remote whose branch that is; absent for this clone's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Where it was.
    pub before: String,
    /// Where it is.
    pub oid: String,
    /// Whether the checks fail on it without any agent's work.
    pub red: bool,
}

/// Why a check ran, or did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunReason {
    /// It ran: nothing is known of these commands on this tree in this environment.
    NeverRun,
    /// It ran: it failed before, and may do better.
    WasRed,
    /// It did not run: it is known to succeed.
    KnownGreen,
    /// It did not run: there are no commands.
    NoCommands,
    /// It did not run, because this is a dry run.
    DryRun,
}

impl RunReason {
    /// Whether it ran.
    pub(super) fn is_run(self) -> bool {
        matches!(self, RunReason::NeverRun | RunReason::WasRed)
    }
}

/// One check of a tree.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TrainRun {
    /// The branch that the stack stands on.
    pub lands_on: String,
    /// The tree.
    pub tree: String,
    /// Whose work is stacked, in order; none for the target alone.
    pub stack: Vec<String>,
    /// The commands, in order.
    pub commands: Vec<String>,
    /// Whether they succeeded; absent in a dry run where that is not known.
    pub green: Option<bool>,
    /// What the answer is needed for.
    pub purpose: Purpose,
    /// Why they ran, or did not.
    pub why: RunReason,
    /// The first command that failed.
    pub failed: Option<String>,
    /// How long it took, in milliseconds; 0 where nothing ran.
    pub duration_ms: u64,
    /// Whether they ran over a base that worktrees share; absent where they ran in a copy of all files, or not now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layered: bool,
}

/// A tree on which the same check failed and then succeeded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlakyReport {
    /// The tree.
    pub tree: String,
    /// Whose work is stacked, in order.
    pub stack: Vec<String>,
    /// The command that failed once; absent where that was in an earlier train.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}
