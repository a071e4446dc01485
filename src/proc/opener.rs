//! Programs of the user that show something, such as a browser.

use super::launch::failed;
use crate::error::Result;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

/// Shows something with a program on this terminal, where `on_terminal` says that there is one, and waits for its end: a
/// browser for terminals needs it that long. Elsewhere nothing that it says reaches our streams, which hold an answer.
///
/// # Errors
/// `command-not-found`, `command-not-runnable`; `io` where its end cannot be waited for.
pub fn open(program: &Path, words: &[String], on_terminal: bool) -> Result<ExitStatus> {
    let mut command = prepared(program, words, on_terminal);
    command.status().map_err(|error| failed(&command, error))
}

/// The same for a caller that goes on at once.
///
/// # Errors
/// As [`open`].
pub fn open_beside(program: &Path, words: &[String]) -> Result<()> {
    let mut command = prepared(program, words, false);
    let mut child = command.spawn().map_err(|error| failed(&command, error))?;
    // One that ends is not left as a zombie for as long as we live.
    thread::spawn(move || child.wait());
    Ok(())
}

fn prepared(program: &Path, words: &[String], on_terminal: bool) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    if !on_terminal {
        let streams = command.stdin(Stdio::null()).stdout(Stdio::null());
        streams.stderr(Stdio::null());
    }
    command
}
