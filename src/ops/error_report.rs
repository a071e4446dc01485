//! An error as JSON has it: on standard error, and in the items of a batch; what remedies are called there.

use crate::domain::{Agent, Finding, value::shell};
use crate::error::{Error, FileProblem, GitPlace, Remedy};
use crate::hosts;
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// What failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// A stable name.
    pub code: &'static str,
    /// What failed and on what.
    pub message: String,
    /// What is below it, the nearest first.
    pub causes: Vec<String>,
    /// What to do, with commands to run.
    pub hints: Vec<String>,
    /// The codes of what rejects the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<&'static str>,
    /// The paths on which the work conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<PathText>,
    /// The paths that are in the way, or out of scope.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathText>,
    /// What is wrong with a file that was read, in order of position.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemReport>,
}

/// One thing that is wrong with a file.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
    /// The file, as it was given.
    pub file: String,
    /// The line, from 1; absent where it is about the whole file.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// The key that it is about; without one the text, which is absent where it may hold a secret.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub suggestion: Option<String>,
}

impl From<&Error> for ErrorReport {
    fn from(error: &Error) -> ErrorReport {
        let facts = error.told();
        // What people read below the message, programs read as facts.
        let details = if facts.is_empty() { error.details() } else { &[] };
        let texts = |paths: &[Vec<u8>]| {
            let paths = paths.iter().map(Vec::as_slice);
            paths.map(PathText::from).collect()
        };
        ErrorReport {
            code: error.code().name(),
            message: error.message().to_owned(),
            causes: details.iter().cloned().chain(error.causes()).collect(),
            hints: error.hints(remedy_command),
            findings: facts.findings.clone(),
            conflicts: texts(&facts.conflicts),
            paths: texts(&facts.paths),
            problems: facts.problems.iter().map(ProblemReport::from).collect(),
        }
    }
}

impl From<&FileProblem> for ProblemReport {
    fn from(problem: &FileProblem) -> ProblemReport {
        ProblemReport {
            file: problem.file.clone(),
            line: problem.position.map(|(line, _)| line),
            column: problem.position.map(|(_, column)| column),
            key: problem.key.clone(),
            message: problem.message.clone(),
            suggestion: problem.suggestion.clone(),
        }
    }
}

// What the remedies that lower layers name are called on the command line.

/// The command for a remedy.
pub fn remedy_command(remedy: &Remedy) -> String {
    match remedy {
        Remedy::Accept(id) => format!("git agent mark accept {id} -m <why>"),
        Remedy::Agents => "git agent list --all".to_owned(),
        Remedy::Agent(id) => format!("git agent show {id}"),
        Remedy::Place(id) => format!("git agent path {id}"),
        Remedy::Materialize(who) => format!("git agent materialize {who}"),
        Remedy::Update(id) => format!("git agent update {id} --conflicts"),
        Remedy::CommitMerge(id) => format!("git agent update {id}"),
        Remedy::History(id) => format!("git agent show --log {id}"),
        Remedy::Histories => "git agent show --log".to_owned(),
        Remedy::Wait(id) => format!("git agent wait {id}"),
        Remedy::Stop(id) => format!("git agent stop {id}"),
        Remedy::Rescue(id) => format!("git agent rescue {id}"),
        Remedy::Reopen(id) => format!("git agent rescue {id} --reopen"),
        Remedy::Undo(operation) => format!("git agent undo {operation}"),
        Remedy::Operations => "git agent undo --list".to_owned(),
        Remedy::Retry(id) => format!("git agent retry {id}"),
        Remedy::Revert(commit) => format!("git revert {commit}"),
        Remedy::LandElsewhere(id) => format!("git agent merge {id} --into <branch>"),
        Remedy::StatusInside(id) => {
            format!("git agent run {id} --no-verify -- git status --ignored")
        }
        Remedy::GitIn(place, words) => {
            let git = git_words(place);
            format!("{git} {}", words.join(&format!(" && {git} ")))
        }
        Remedy::Running => "git agent ps".to_owned(),
        Remedy::Settings => "git agent setup config".to_owned(),
        Remedy::Collect => "git agent gc --yes".to_owned(),
        Remedy::Roles => "git agent roles".to_owned(),
        Remedy::Examine => "git agent doctor".to_owned(),
        Remedy::Repair => "git agent doctor --fix".to_owned(),
        Remedy::RepairHooks(None) => "git agent doctor hooks repair".to_owned(),
        Remedy::RepairHooks(Some(who)) => format!("git agent doctor hooks repair {who}"),
        Remedy::Messages(None) => "git agent inbox".to_owned(),
        Remedy::Messages(Some(reader)) => format!("git agent inbox --agent '{reader}'"),
        Remedy::ExpireMessages => "git agent inbox --expire".to_owned(),
        Remedy::SpawnFrom(task) => format!("git agent spawn {task}"),
        Remedy::SpawnFromCommit => "git agent spawn --base <revision> …".to_owned(),
        Remedy::CheckTask(file) => format!("git agent spawn --dry-run {file}"),
        Remedy::Synchronise => "git agent sync".to_owned(),
        Remedy::SynchroniseAll => "git config agent.sync all && git agent sync".to_owned(),
        Remedy::Register(host) => format!("git agent init --host {host}"),
    }
}

/// The words by which git is called in a worktree.
pub(super) fn git_words(place: &GitPlace) -> String {
    match place {
        GitPlace::At(top) => format!("git -C {}", shell::path(top)),
        GitPlace::Mount(id) => format!("git agent enter {id} -- git"),
    }
}

/// The advice to a user who lacks what another clone keeps.
pub fn to_have_what_others_keep() -> String {
    let command = remedy_command(&Remedy::SynchroniseAll);
    format!("to have what other clones keep, run {command}")
}

/// The command by which the agent goes on: in its session where it has one.
pub(super) fn command_to_go_on(agent: &Agent) -> String {
    let way = if hosts::has_session(agent) { "--resume" } else { "--host <host>" };
    format!("git agent run {} {way}", agent.id.short())
}

/// What to do about a finding, with the command where there is one.
pub fn fix_command(finding: &Finding) -> String {
    match &finding.remedy {
        Some(remedy) => format!("{}, run {}", finding.fix, remedy_command(remedy)),
        None => finding.fix.clone(),
    }
}
