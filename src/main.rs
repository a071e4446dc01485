//! The `git-agent` binary: git runs it for `git agent …`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let told = std::panic::take_hook();
    // A panic is a bug of ours, which has a status of its own; the signal of an abort looks like the end that another process made.
    std::panic::set_hook(Box::new(move |panic| {
        told(panic);
        #[allow(clippy::exit, reason = "what is left of the process is not to be trusted")]
        std::process::exit(70);
    }));
    git_agent::cli::main(std::env::args_os())
}
