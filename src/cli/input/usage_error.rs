//! What clap does not let through: help and version are answers, the rest is an error like any other,
//! in clap's words.

use crate::agents::{CurrentAgent, Env};
use crate::cli::command_line;
use crate::cli::out::ui::{Format, Ui};
use crate::domain::value::shell;
use crate::error::{Code, Error, Exit};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Shows it, in the format that the command line asks for, and gives the status to end with.
pub(in crate::cli) fn show(error: clap::Error, arguments: &[OsString]) -> Exit {
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
    let error = match (meant(arguments), foreign_option(arguments)) {
        (Some((word, hint)), _) => {
            Error::new(Code::Usage, format!("there is no command `{word}`")).hint(hint)
        }
        // Nor do the options of git that clap finds like it.
        (None, Some(hint)) => error.hint_only(hint),
        (None, None) => {
            let is_json = error.message().contains("'--json'");
            let json = is_json.then(|| format!("for JSON, run {}", with_format(arguments)));
            let error = json.into_iter().fold(error, Error::hint);
            error.hint(format!("to see what it takes, run {command} -h"))
        }
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
            let tips = paragraph.lines().map(str::trim);
            // A word that looks like an option is one that was mistyped, and hardly ever the name of something.
            for tip in tips.filter(|tip| !tip.contains("as a value, use '-- ")) {
                refusal = refusal.hint(tip.strip_prefix("tip: ").unwrap_or(tip));
            }
        } else if let Some(usage) = paragraph.strip_prefix("Usage: ") {
            // Some commands can be called in two ways.
            let usage = joined(usage).replace(" git agent ", " or git agent ");
            refusal = refusal.hint(format!("usage: {usage}"));
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
    // What follows is the command of a run.
    for word in arguments.iter().take_while(|word| *word != "--") {
        if let Some(below) = command.find_subcommand(word) {
            command = below;
            path.push_str(&format!(" {}", below.get_name()));
        }
    }
    path
}

/// The same line with the option that it means.
fn with_format(arguments: &[OsString]) -> String {
    let meant = |word: &OsString| match word.to_string_lossy().as_ref() {
        "--json" => "--format=json".to_owned(),
        word => word.to_owned(),
    };
    let words: Vec<String> = arguments.iter().skip(1).map(meant).collect();
    format!("git agent {}", shell::line(&words))
}

/// Takes what is not for people out of what clap takes for the word that was meant.
fn without_hidden_verbs(mut error: clap::Error) -> clap::Error {
    // All of them, in a message; the hint to ask for help leads to those that are for people.
    error.remove(ContextKind::ValidSubcommand);
    let verbs = command_line();
    let is_shown =
        |word: &String| verbs.find_subcommand(word).is_some_and(|verb| !verb.is_hide_set());
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

// Words that people know from other tools for verbs of ours.

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
    (&["create"], "to make an agent, run git agent spawn \"<task>\""),
    (&["add"], "to make an agent, run git agent spawn \"<task>\""),
    (&["abort"], "to end a run and keep the work, run git agent stop <agent>"),
    (&["prune", "clean"], "to see which worktrees are done with, run git agent gc"),
    (
        &["checkout", "shell", "attach"],
        "to have a shell in an agent's worktree, run git agent enter <agent>",
    ),
    (&["exec"], "to run a command in an agent's worktree, run git agent run <agent> -- <command>"),
    (&["finish"], "to land an agent's work, run git agent merge <agent>"),
    (&["kill"], "to end a run, run git agent stop <agent>"),
    (&["version"], "to see the version, run git agent --version"),
    (&["settings"], "to list the settings, run git agent setup config"),
];

/// The verb that a word stands for. `status` asks for the agent that is named behind it, else for the one around it, as `git status` asks
/// for the worktree around it, and outside of agents for all of them.
fn verb(word: &str, is_of_one: bool) -> Option<&'static str> {
    if matches!(word, "status" | "st") {
        return Some(if is_of_one || is_in_worktree() { "show" } else { "list" });
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
pub(in crate::cli) fn meant(arguments: &[OsString]) -> Option<(&str, &'static str)> {
    let verb = verb_among(arguments)?.1.to_str()?;
    let entry = NEAR.iter().find(|(words, _)| words.contains(&verb));
    entry.map(|(_, hint)| (verb, *hint))
}

/// Options of git's commands that ours of the same name lack, and what is meant.
const FOREIGN: &[(&str, &[&str], &str)] = &[
    (
        "merge",
        &["--abort", "--continue", "--quit"],
        "a landing goes through or changes nothing; to take back one that is done, run git agent undo",
    ),
    (
        "commit",
        &["-a", "-am", "--all"],
        "where nothing is staged, all changes are committed; run git agent commit -m <text>",
    ),
];

/// The hint for an option that git's command of the same name has.
fn foreign_option(arguments: &[OsString]) -> Option<&'static str> {
    let (place, verb) = verb_among(arguments)?;
    let follows = arguments.get(place + 1);
    if verb == "config" && follows.is_some_and(|word| !word.as_encoded_bytes().starts_with(b"-")) {
        return Some("to set what git agent reads, run git config <key> <value>");
    }
    let is_given = |option: &&str| arguments.iter().any(|one| one == *option);
    let mut known = FOREIGN.iter().filter(|(of, ..)| verb == *of);
    known.find_map(|(_, options, hint)| options.iter().any(is_given).then_some(*hint))
}

/// Which of the arguments is the verb, and its place. `--format` is the one option before it whose value is a word of its
/// own.
pub(in crate::cli) fn verb_among(arguments: &[OsString]) -> Option<(usize, &OsString)> {
    let mut pairs = (1..).zip(arguments.iter().zip(arguments.iter().skip(1)));
    let (place, (_, verb)) = pairs.find(|(_, (before, one))| {
        !one.as_encoded_bytes().starts_with(b"-") && *before != "--format"
    })?;
    Some((place, verb))
}

/// The arguments with our verb where another tool's word for it stands, also after `help`.
pub(in crate::cli) fn translated(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let place = verb_among(&arguments);
    let place = place.map(|(place, verb)| place + usize::from(verb == "help"));
    // `git status <path>` is about that path alone.
    let is_of_one = place
        .and_then(|place| arguments.get(place + 1))
        .is_some_and(|next| !next.as_encoded_bytes().starts_with(b"-"));
    let word = place.and_then(|place| arguments.get_mut(place));
    if let Some(word) = word
        && let Some(verb) = word.to_str().and_then(|word| verb(word, is_of_one))
    {
        *word = verb.into();
    }
    arguments
}
