//! What clap does not let through: help and version are answers, the rest is an error like any other,
//! in clap's words.

use super::command_line;
use super::ui::{Format, Ui};
use crate::error::{Code, Error, Exit};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Shows it, in the format that the command line asks for, and gives the status to end with.
pub(super) fn show(error: clap::Error, arguments: &[OsString]) -> Exit {
    let format = Format::asked_for(arguments);
    // A command that lacks a word shows its help, which no program reads.
    let lacks = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if !error.use_stderr() || lacks && format == Format::Text {
        let _ = error.print();
        return if lacks { Code::Usage.exit() } else { Exit::Yes };
    }
    let command = command_of(arguments);
    let error = if lacks {
        Error::new(Code::Usage, format!("{command} needs more words than that"))
    } else {
        in_our_terms(&without_hidden_verbs(error))
    };
    let error = match meant(arguments) {
        Some(hint) => error.hint(hint),
        None => error,
    };
    Ui::of_process(format).fail(&error.hint(format!("to see what it takes, run {command} -h")))
}

/// The first paragraph is the message, what follows are tips and the usage. clap's last words name `--help`,
/// which git takes for itself right after `git agent`.
fn in_our_terms(error: &clap::Error) -> Error {
    let text = error.render().to_string();
    let mut paragraphs = text.trim().split("\n\n");
    let message = joined(paragraphs.next().unwrap_or_default());
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let mut refusal = Error::new(Code::Usage, message);
    for paragraph in paragraphs.map(str::trim) {
        if paragraph.starts_with("tip: ") {
            for tip in paragraph.lines().map(str::trim) {
                refusal = refusal.hint(tip.strip_prefix("tip: ").unwrap_or(tip));
            }
        } else if let Some(usage) = paragraph.strip_prefix("Usage: ") {
            refusal = refusal.hint(format!("usage: {}", joined(usage)));
        }
    }
    refusal
}

/// Where words lead that other tools have for a verb of ours.
const WORDS: &[(&[&str], &str)] = &[
    (
        &["status", "st", "ls"],
        "to see where agents stand, run git agent list",
    ),
    (
        &["switch", "cd", "checkout"],
        "to work in an agent's worktree as the agent does, run git agent enter <agent>; to go there, cd \"$(git agent path <agent>)\"",
    ),
    (
        &["shell", "attach"],
        "to have a shell in an agent's worktree, run git agent enter <agent>",
    ),
    (
        &["exec"],
        "to run a command in an agent's worktree, run git agent run <agent> -- <command>",
    ),
    (
        &["new", "create", "add", "start"],
        "to make an agent, run git agent spawn",
    ),
    (
        &["rm", "remove", "delete", "prune"],
        "to remove an agent's worktree, run git agent discard <agent>",
    ),
    (
        &["land", "finish"],
        "to land an agent's work, run git agent merge <agent>",
    ),
    (&["kill"], "to end a run, run git agent stop <agent>"),
    (&["version"], "to see the version, run git agent --version"),
    (&["settings"], "to list the settings, run git agent config"),
];

/// The hint for a verb that is not ours and has one of ours for it.
fn meant(arguments: &[OsString]) -> Option<&'static str> {
    let words = arguments.iter().skip(1).filter_map(|word| word.to_str());
    let verb = words.into_iter().find(|word| !word.starts_with('-'))?;
    let entry = WORDS.iter().find(|(words, _)| words.contains(&verb));
    entry.map(|(_, hint)| *hint)
}

/// The lines of a paragraph as one.
fn joined(paragraph: &str) -> String {
    let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
    lines.join(" ")
}

/// The command that was called, as far as there is one: `git agent hooks repair`.
fn command_of(arguments: &[OsString]) -> String {
    let mut command = &command_line();
    let mut path = String::from("git agent");
    for word in arguments.iter().take_while(|word| *word != "--") {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            path.push_str(&format!(" {}", below.get_name()));
        }
    }
    path
}

/// Takes what is not for people out of what clap takes for the word that was meant.
fn without_hidden_verbs(mut error: clap::Error) -> clap::Error {
    // All of them, in a message; the hint to ask for help leads to those that are for people.
    error.remove(ContextKind::ValidSubcommand);
    let verbs = command_line();
    let is_shown = |word: &String| {
        verbs
            .find_subcommand(word)
            .is_some_and(|verb| !verb.is_hide_set())
    };
    if let Some(ContextValue::Strings(mut words)) = error.remove(ContextKind::SuggestedSubcommand) {
        words.retain(is_shown);
        // clap has the likeliest one last.
        words.reverse();
        if words.is_empty() {
            error.remove(ContextKind::Suggested);
        } else {
            let words = ContextValue::Strings(words);
            error.insert(ContextKind::SuggestedSubcommand, words);
        }
    }
    error
}
