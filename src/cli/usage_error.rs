//! What clap does not let through: help and version are answers, the rest is an error like any other,
//! in clap's words.

use super::ui::{Format, Ui};
use super::{command_line, synonyms};
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
    // A word of another tool has one answer, which what clap suggests would hide.
    let error = match synonyms::meant(arguments) {
        Some((word, hint)) => {
            Error::new(Code::Usage, format!("there is no command `{word}`")).hint(hint)
        }
        None => error.hint(format!("to see what it takes, run {command} -h")),
    };
    Ui::of_process(format).fail(&error)
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

/// The lines of a paragraph as one.
fn joined(paragraph: &str) -> String {
    let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
    lines.join(" ")
}

/// The command that was called, as far as there is one: `git agent doctor hooks repair`.
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
