//! Words that people know from other tools for verbs of ours.

use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
use std::ffi::OsString;

/// Words that mean exactly a verb of ours, and stand for it.
const SYNONYMS: &[(&[&str], &str)] = &[
    (&["new", "start"], "spawn"),
    (&["ls"], "list"),
    (&["rm", "remove", "delete"], "discard"),
    (&["switch", "cd", "open"], "enter"),
    (&["land"], "merge"),
];

/// Words that could mean several things, and the one command that is most likely wanted.
const NEAR: &[(&[&str], &str)] = &[
    (
        &["create"],
        "to make an agent, run git agent spawn \"<task>\"",
    ),
    (&["add"], "to make an agent, run git agent spawn \"<task>\""),
    (
        &["abort"],
        "to end a run and keep the work, run git agent stop <agent>",
    ),
    (
        &["prune", "clean"],
        "to see which worktrees are done with, run git agent gc",
    ),
    (
        &["checkout", "shell", "attach"],
        "to have a shell in an agent's worktree, run git agent enter <agent>",
    ),
    (
        &["exec"],
        "to run a command in an agent's worktree, run git agent run <agent> -- <command>",
    ),
    (
        &["finish"],
        "to land an agent's work, run git agent merge <agent>",
    ),
    (&["kill"], "to end a run, run git agent stop <agent>"),
    (&["version"], "to see the version, run git agent --version"),
    (
        &["settings"],
        "to list the settings, run git agent setup config",
    ),
];

/// The verb that a word stands for. `status` asks for the agent around it, as `git status` asks for the worktree around it,
/// and outside of agents for all of them.
fn verb(word: &str) -> Option<&'static str> {
    if matches!(word, "status" | "st") {
        return Some(if is_in_worktree() { "show" } else { "list" });
    }
    let entry = SYNONYMS.iter().find(|(words, _)| words.contains(&word));
    entry.map(|(_, verb)| *verb)
}

/// Where that cannot be told, the list is the better answer.
fn is_in_worktree() -> bool {
    let home = Env::of_process().and_then(|env| CurrentAgent::find(&env, &[&env.directory]));
    home.is_ok_and(|home| home.is_some())
}

/// A verb that is not ours, and the hint for it where one of ours is meant.
pub(super) fn meant(arguments: &[OsString]) -> Option<(&str, &'static str)> {
    let verb = arguments[place(arguments)?].to_str()?;
    let entry = NEAR.iter().find(|(words, _)| words.contains(&verb));
    entry.map(|(_, hint)| (verb, *hint))
}

/// Which of the arguments is the verb. `--format` is the one option before it whose value is a word of its own.
pub(super) fn place(arguments: &[OsString]) -> Option<usize> {
    (1..arguments.len()).find(|place| {
        let is_option = arguments[*place].as_encoded_bytes().starts_with(b"-");
        !is_option && arguments[place - 1] != "--format"
    })
}

/// The arguments with our verb where another tool's word for it stands, also after `help`.
pub(super) fn translated(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let mut place = place(&arguments);
    if place.is_some_and(|place| arguments[place] == "help") {
        place = place.map(|place| place + 1);
    }
    let word = place.and_then(|place| arguments.get_mut(place));
    if let Some(word) = word
        && let Some(verb) = word.to_str().and_then(verb)
    {
        *word = verb.into();
    }
    arguments
}
