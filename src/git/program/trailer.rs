//! Trailers of a commit message that git is about to use.

use crate::error::Result;
use crate::git::command;
use std::ffi::OsStr;
use std::path::Path;

/// Adds a trailer to a message file unless it has this very one. Git itself does it, because it knows
/// where comments and the diff of `commit --verbose` begin. `directory` is where git looks for its settings, which
/// can name programs: the common dir, never an agent's worktree.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub fn add(directory: &Path, message: &Path, trailer: &str) -> Result<()> {
    interpret(directory, message, "--if-exists=addIfDifferent", trailer)
}

/// Adds a trailer to a message file in the place of one with the same key.
///
/// # Errors
/// As [`add`].
pub fn set(directory: &Path, message: &Path, trailer: &str) -> Result<()> {
    interpret(directory, message, "--if-exists=replace", trailer)
}

fn interpret(directory: &Path, message: &Path, if_exists: &str, trailer: &str) -> Result<()> {
    let arguments = [
        "interpret-trailers",
        "--in-place",
        "--no-divider",
        if_exists,
        "--trailer",
        trailer,
        "--",
    ];
    let arguments = arguments
        .iter()
        .map(OsStr::new)
        .chain([message.as_os_str()]);
    command::run(directory, arguments).map(|_| ())
}

/// Gives a commit message with a trailer at its end, in the block of trailers that it ends with if there is one. A
/// trailer that is in that block already is not added.
pub fn appended(message: &str, trailer: &str) -> String {
    let message = message.trim();
    let trailers = git2::message_trailers_strs(message).ok();
    let known: Vec<String> = { trailers.iter() }
        .flat_map(|trailers| trailers.iter())
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    if known.iter().any(|known| known == trailer) {
        return format!("{message}\n");
    }
    let separator = if known.is_empty() { "\n\n" } else { "\n" };
    format!("{message}{separator}{trailer}\n")
}

/// A commit message without the trailers that it ends with.
pub fn without(message: &str) -> &str {
    let message = message.trim();
    let (before, last) = message.rsplit_once("\n\n").unwrap_or((message, ""));
    let count = git2::message_trailers_strs(message).map_or(0, |found| found.iter().count());
    // A last paragraph that is trailers and nothing else; any other one is text.
    if count > 0 && count >= last.lines().count() && !last.is_empty() {
        before.trim_end()
    } else {
        message
    }
}

/// Gives a message as `git commit` keeps one that is not edited, without needless space.
///
/// # Errors
/// `git-failed`.
pub fn tidied(message: &str) -> Result<String> {
    git2::message_prettify(message, None)
        .map_err(|error| crate::git::repo::failed("could not read the message", error))
}
