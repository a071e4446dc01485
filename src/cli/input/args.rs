//! Arguments that several verbs take, and arguments that are words.

use crate::agents::Ctx;
use crate::agents::who::current::require_current;
use crate::agents::who::lookup::remote_name;
use crate::cli::out::ui::{Format, Ui};
use crate::cli::verbs::board;
use crate::domain::value::diagnostic::nearest;
use crate::domain::{Agent, AgentId, Layering, State};
use crate::error::{Code, Error, Exit, Result};
use crate::ops::error_report::remedy_command;
use crate::ops::run;
use crate::ops::sync::claim::{self, Acquired, ClaimReport, TaskClaim};
use crate::ops::sync::{self, SyncOptions};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use std::ffi::OsStr;
use std::num::ParseIntError;
use std::path::Path;

/// How an agent is named on the command line.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct OwnAgentArg {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree; without one, the agent whose
    /// worktree this is
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

impl OwnAgentArg {
    /// As [`or_current`].
    ///
    /// # Errors
    /// As [`current`].
    pub(in crate::cli) fn or_current(&self, ctx: &Ctx, ui: &mut Ui) -> Result<String> {
        or_current(ctx, ui, self.agent.as_deref())
    }
}

/// What was named, else as [`current`].
pub(in crate::cli) fn or_current(ctx: &Ctx, ui: &mut Ui, named: Option<&str>) -> Result<String> {
    match named {
        Some(named) => Ok(named.to_owned()),
        None => current(ctx, ui),
    }
}

/// The id of the agent that this process works for, else of one that a person picks on the terminal.
///
/// # Errors
/// `usage` where it works for none and none is picked.
pub(in crate::cli) fn current(ctx: &Ctx, ui: &mut Ui) -> Result<String> {
    match require_current(ctx) {
        Err(error) if error.code() == Code::Usage && ui.may_pick() => {
            board::pick(ctx, ui)?.ok_or(error)
        }
        other => Ok(other?.to_string()),
    }
}

/// Whose messages.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ReaderArg {
    /// Receiver: an agent's id, name or branch, or any other name; by default the agent whose worktree this is, else `user`
    #[arg(long, short = 'a', value_name = "NAME")]
    pub(in crate::cli) agent: Option<String>,
}

/// `--sync` of a verb that changes something.
#[derive(Clone, Debug, Default, clap::Args)]
pub(in crate::cli) struct SyncArg {
    /// Exchange the ledger with this remote afterwards, as git agent sync does
    #[arg(long, value_name = "REMOTE", conflicts_with = "dry_run")]
    sync: Option<String>,
}

impl SyncArg {
    /// The remote that was named.
    pub(in crate::cli) fn remote(&self) -> Option<&str> {
        self.sync.as_deref()
    }

    /// Checks that there is such a remote, before anything is made that could not be sent to it.
    ///
    /// # Errors
    /// `usage`.
    pub(in crate::cli) fn require_remote(&self, ctx: &Ctx) -> Result<()> {
        let Some(remote) = self.remote() else {
            return Ok(());
        };
        remote_name(ctx, Some(remote)).map(drop)
    }

    /// Synchronises after a run that ended like that, whatever its answer was. The status is that of the run, unless it was
    /// successful and this is not: what a machine did that is switched off next is on the remote or nowhere.
    pub(in crate::cli) fn after_run(&self, ctx: &Ctx, ui: &mut Ui, exit: Exit) -> Exit {
        match self.exchange(ctx, ui) {
            Ok(warnings) => {
                warnings.iter().for_each(|text| ui.warn(text));
                exit
            }
            Err(error) => {
                let failed = ui.fail(&error);
                if exit.code() == 0 { failed } else { exit }
            }
        }
    }

    /// Synchronises after a command that has given its answer. What it made or landed stands whatever the remote says, so
    /// its status stands, too, and the next exchange sends what this one could not.
    pub(in crate::cli) fn after(&self, ctx: &Ctx, ui: &mut Ui) {
        match self.exchange(ctx, ui) {
            Ok(warnings) => warnings.iter().for_each(|text| ui.warn(text)),
            Err(error) if ui.format() == Format::Text => ui.warn(&not_exchanged(&error)),
            Err(error) => drop(ui.fail(&error)),
        }
    }

    /// As [`SyncArg::after`], before the answer is given: the warnings are part of it.
    pub(in crate::cli) fn warnings(&self, ctx: &Ctx, ui: &mut Ui) -> Vec<String> {
        self.exchange(ctx, ui).unwrap_or_else(|error| vec![not_exchanged(&error)])
    }

    /// Gives the warnings of the exchange, which is none where no remote was named.
    fn exchange(&self, ctx: &Ctx, ui: &mut Ui) -> Result<Vec<String>> {
        let Some(remote) = &self.sync else {
            return Ok(Vec::new());
        };
        let _activity = ui.activity("waiting for the remote");
        let report = sync::sync(ctx, &SyncOptions::with(Some(remote.clone())))?;
        Ok(report.warnings)
    }
}

/// The warning of an exchange that failed after something was done: what, why, and what helps.
fn not_exchanged(error: &Error) -> String {
    let mut text = format!("the ledger was not exchanged: {error}");
    for cause in error.causes() {
        text.push_str(&format!("\n  {}", cause.replace('\n', "\n  ")));
    }
    for hint in error.hints(remedy_command) {
        text.push_str(&format!("\n  {hint}"));
    }
    text.push_str("\n  what is new goes with the next git agent sync");
    text
}

/// `--layered` of a verb that makes agents.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct LayeredArg {
    /// Share the files of the base with other agents and store only this agent's changes: off, auto (if possible), on
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "on", value_parser = one_of(Layering::ALL.map(Layering::as_str), Layering::read))]
    pub(in crate::cli) layered: Option<Layering>,
}

/// `--push` of a verb that lands work.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct PushArg {
    /// Land on the branch of a remote, judged against what the remote has, and then sync with it
    ///
    /// Without a name the remote is agent.remote, origin, or the only one. The branch and the claims on the tasks (run
    /// --claim) move together or not at all. If the remote's branch moves meanwhile, the work is judged again. This
    /// clone's branch follows if it can be fast-forwarded.
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    push: Option<String>,
}

impl PushArg {
    /// The remote that work lands on; empty for the usual one.
    pub(in crate::cli) fn remote(&self) -> Option<String> {
        self.push.clone()
    }

    /// The exchange that follows, because the rows travel with what has landed.
    ///
    /// # Errors
    /// `usage` when there is no such remote.
    pub(in crate::cli) fn after_landing(&self, ctx: &Ctx, dry_run: bool) -> Result<SyncArg> {
        let remote = self.push.as_deref().filter(|_| !dry_run);
        let named = |remote: &str| {
            let wanted = Some(remote).filter(|name| !name.is_empty());
            remote_name(ctx, wanted)
        };
        Ok(SyncArg { sync: remote.map(named).transpose()? })
    }
}

/// Refuses to read two tasks from standard input, of which the second would be empty.
///
/// # Errors
/// `usage`.
pub(in crate::cli) fn require_one_input<'a>(tasks: impl Iterator<Item = &'a Path>) -> Result<()> {
    match tasks.filter(|task| task.as_os_str() == "-").count() {
        0 | 1 => Ok(()),
        _ => Err(Error::new(
            Code::Usage,
            "`-` stands more than once, and standard input can be read once",
        )
        .hint("to make several agents, write each task into a file of its own")),
    }
}

/// Reads a number of things that is more than none.
pub(in crate::cli) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("it takes one at least".to_owned()),
        other => other.map_err(|error: ParseIntError| error.to_string()),
    }
}

/// A reader of the word for a state.
pub(in crate::cli) fn states() -> OneOf<State> {
    fn words() -> impl Iterator<Item = &'static str> {
        State::ALL.into_iter().map(State::as_str)
    }
    one_of(words(), |word| State::parse(word).ok_or_else(|| choices("states", words())))
}

// Arguments that are words.

/// Reads one of a few words, which help, pages and completions name. What is wrong with another one is said
/// by `read`.
#[derive(Clone)]
pub(in crate::cli) struct OneOf<T> {
    words: Vec<&'static str>,
    read: fn(&str) -> Result<T, String>,
}

/// A reader of one of these words.
pub(in crate::cli) fn one_of<T>(
    words: impl IntoIterator<Item = &'static str>,
    read: fn(&str) -> Result<T, String>,
) -> OneOf<T> {
    OneOf { words: words.into_iter().collect(), read }
}

/// What to say of a word that is none of those.
pub(in crate::cli) fn choices<'a>(what: &str, words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.into_iter().collect();
    format!("the {what} are {}", words.join(", "))
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let read = self.read;
        let parser = StringValueParser::new().try_map(move |word| read(&word));
        let parsed = parser.parse_ref(command, argument, value);
        parsed.map_err(|mut error| {
            let meant = nearest(&value.to_string_lossy(), self.words.iter().copied());
            if let Some(meant) = meant {
                let meant = ContextValue::String(meant.to_owned());
                error.insert(ContextKind::SuggestedValue, meant);
            }
            error
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.words.iter().map(PossibleValue::new)))
    }
}

/// Takes any word, where the operation says what is wrong with it.
pub(in crate::cli) fn any(word: &str) -> Result<String, String> {
    Ok(word.to_owned())
}

/// Reads a text that says something.
pub(in crate::cli) fn some_words(text: &str) -> Result<String, String> {
    if text.trim().is_empty() { Err("it takes some words".to_owned()) } else { Ok(text.to_owned()) }
}

// `--claim` of `run` and `spawn`: the claim on a task, and what this clone did under it before.

/// What became of the wish for a claim.
pub(in crate::cli) enum TaskState {
    /// It is held, and there may be an agent of an earlier attempt in this clone.
    Held(Box<TaskClaim>, Box<Option<Agent>>),
    /// The task is done already.
    Done(ClaimReport),
}

/// Takes the claim of that key on a remote, for a verb that was given so many tasks. It names `agent`, unless there is one
/// of an earlier attempt.
///
/// # Errors
/// `usage` for several tasks; those of [`claim::acquire`] and of the ledger.
pub(in crate::cli) fn acquire_claim(
    ctx: &Ctx,
    verb: &str,
    tasks: usize,
    remote: Option<&str>,
    key: &str,
    agent: Option<AgentId>,
) -> Result<TaskState> {
    if tasks > 1 {
        let what = "--claim is for one task, and several are given";
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to take several, run git agent {verb} --claim for each")));
    }
    let claim = match claim::acquire(ctx, remote, key, agent)? {
        Acquired::Held(claim) => claim,
        Acquired::Done(report) => return Ok(TaskState::Done(report)),
    };
    let earlier = claim.earlier_agent().map(|id| run::earlier(ctx, id));
    let earlier = earlier.transpose()?.flatten();
    Ok(TaskState::Held(claim, Box::new(earlier)))
}
