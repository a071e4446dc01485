//! What the benches share: processes, times, repositories, agents.

#![allow(dead_code, reason = "each bench takes what it needs of this")]

pub(crate) mod agents;
pub(crate) mod clock;
pub(crate) mod repository;
pub(crate) mod rows;
pub(crate) mod storm;

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// The program that is measured: the one that the variable `GIT_AGENT_MEASURED` named when the bench was built, else
/// the one that cargo built along with it, which has what only the tests' crates ask for in it, too.
pub(crate) const AGENT: &str = match option_env!("GIT_AGENT_MEASURED") {
    Some(program) => program,
    None => env!("CARGO_BIN_EXE_git-agent"),
};

/// The words of the command line, without the `--bench` that cargo adds of its own.
pub(crate) fn arguments() -> Vec<String> {
    let words = std::env::args().skip(1);
    words.filter(|word| word != "--bench").collect()
}

/// One command line in a directory, by a user with a name, who is no agent.
pub(crate) fn command(directory: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(directory);
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "bench");
        command.env(format!("GIT_{name}_EMAIL"), "bench@localhost");
    }
    command.env_remove("GIT_AGENT_ID").stdin(Stdio::null());
    command
}

/// Runs what must succeed.
pub(crate) fn run(directory: &Path, words: &[&str]) -> Output {
    let output = command(directory, words).output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    output
}

/// Runs a git command that must succeed.
pub(crate) fn git(directory: &Path, words: &[&str]) -> Output {
    run(directory, &[&["git"], words].concat())
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
