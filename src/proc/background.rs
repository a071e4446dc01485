//! Processes that outlive this one.

use crate::git::command::LOCAL_VARIABLES;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts a program and does not wait for it: in its own process group, so that an interrupt from the
/// terminal does not reach it, and without our streams, so that nobody waits for their end. One that
/// cannot start is no error.
pub fn start<'a>(program: &Path, words: impl Iterator<Item = &'a str>, directory: &Path) {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    for variable in LOCAL_VARIABLES {
        command.env_remove(variable);
    }
    let _ = command
        .args(words)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
}
