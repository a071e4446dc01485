//! The `git-agent` binary: git runs it for `git agent …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    git_agent::cli::main(std::env::args_os())
}
