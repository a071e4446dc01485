//! The last moment of this program in a process that becomes a command.

use crate::error::{Code, Error};
use crate::system;
use rustix::process::{getppid, ioctl_tiocsctty, setsid};
use rustix::stdio::{dup2_stdin, stdout};
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Becomes the command: in a session of its own, so that it has no terminal to ask questions on, or with `terminal` the one that
/// is our standard output, and bound to die with the process `supervisor` above it. Comes back only with the reason why it
/// could not.
pub fn launch(supervisor: u32, terminal: bool, program: &OsStr, arguments: &[OsString]) -> Error {
    // Fails in a process that leads its session already, which is what is wanted.
    let _ = setsid();
    let fail = |error: std::io::Error| Error::io("could not prepare a command", error);
    // Only the leader of a session can take a terminal, so this comes after `setsid`.
    if terminal && let Err(error) = ioctl_tiocsctty(stdout()).and_then(|()| dup2_stdin(stdout())) {
        return fail(error.into());
    }
    if let Err(error) = system::die_with_parent() {
        return fail(error);
    }
    // The supervisor may have died before the line above, and then the signal never comes.
    if !is_below(supervisor) {
        return fail(std::io::Error::other("the process above it is gone"));
    }
    replace(Command::new(program).args(arguments))
}

/// Lets this program take its own place, with other variables: those without a value go. Comes back only with the reason why it
/// could not.
pub fn again(
    program: &Path,
    arguments: &[OsString],
    variables: &[(&'static str, Option<OsString>)],
) -> Error {
    let mut command = Command::new(program);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(name) = arguments.first() {
        command.arg0(name);
    }
    replace(command.args(arguments.iter().skip(1)))
}

/// Lets a command take the place of this process. Comes back only with the reason why it could not.
pub(super) fn replace(command: &mut Command) -> Error {
    let error = command.exec();
    failed(command, error)
}

/// Why a command could not be started.
pub(super) fn failed(command: &Command, error: std::io::Error) -> Error {
    let name = command.get_program().to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => not_found(&name),
        _ => Error::new(
            Code::CommandNotRunnable,
            format!("the command `{name}` could not be run"),
        )
        .because(error),
    }
}

/// What is said of a command that does not exist.
pub fn not_found(name: &str) -> Error {
    Error::new(
        Code::CommandNotFound,
        format!("the command `{name}` was not found"),
    )
}

/// Whether that process is still our parent. A death signal asked for too late never comes.
pub(super) fn is_below(parent: u32) -> bool {
    getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent))
}
