//! Runs a program in our place: its streams, its directory and its environment are ours.

use crate::error::{Error, Exit, Result};
use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What `exec` says to a script without a `#!` line; git runs such a hook with `sh`.
const NO_FORMAT: i32 = 8;

/// Runs a program to its end and gives its status, 128 and the signal's number for one that was killed.
/// `input` is what it reads on standard input, when we have read ours already.
///
/// # Errors
/// `io` when it cannot be started.
pub fn run(program: &Path, arguments: &[OsString], input: Option<&[u8]>) -> Result<Exit> {
    let start = |command: &mut Command| {
        let stdin = if input.is_some() {
            Stdio::piped()
        } else {
            Stdio::inherit()
        };
        command.args(arguments).stdin(stdin).spawn()
    };
    let started = match start(&mut Command::new(program)) {
        Err(error) if error.raw_os_error() == Some(NO_FORMAT) => {
            start(Command::new("/bin/sh").arg(program))
        }
        other => other,
    };
    let fail = |source| Error::io(format!("could not run {}", program.display()), source);
    let mut child = started.map_err(fail)?;
    feed(&mut child, input.unwrap_or_default()).map_err(fail)?;
    let status = child.wait().map_err(fail)?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(match code.map(u8::try_from) {
        Some(Ok(0)) => Exit::Yes,
        Some(Ok(code)) => Exit::Child(code),
        _ => Exit::Child(1),
    })
}

/// A program need not read what it is given.
fn feed(child: &mut Child, input: &[u8]) -> std::io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else {
        return Ok(());
    };
    match stdin.write_all(input) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
