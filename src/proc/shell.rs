//! Commands that a task file spells out, run by the shell.

use crate::error::{Error, Result};
use crate::git::command::LOCAL_VARIABLES;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs one command line in a directory, without standard input and free of the caller's repository
/// variables, and waits for it.
///
/// # Errors
/// `io` when there is no shell.
pub fn run(directory: &Path, text: &str) -> Result<Output> {
    let mut shell = Command::new("sh");
    for variable in LOCAL_VARIABLES {
        shell.env_remove(variable);
    }
    shell
        .args(["-c", text])
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::io("could not start sh", source))
}
