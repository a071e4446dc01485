//! `mcp`: this process becomes the server that speaks the Model Context Protocol, a program of its own.

use crate::agents::Env;
use crate::error::{Code, Result};
use crate::proc::launch::again;
use std::convert::Infallible;
use std::path::PathBuf;

const SERVER: &str = "git-agent-mcp";

/// Starts the server beside this program, else the one on `PATH`, in the place of this process. It is told which program this is, so that
/// it does not call another version.
///
/// # Errors
/// `command-not-found`, `command-not-runnable`, `io`.
pub fn become_server(env: &Env) -> Result<Infallible> {
    let own = env.require_program()?;
    let beside = Some(own.with_file_name(SERVER)).filter(|path| path.is_file());
    let server = beside.unwrap_or_else(|| PathBuf::from(SERVER));
    let arguments = [server.as_os_str(), "--git-agent".as_ref(), own.as_os_str()];
    let error = again(&server, &arguments.map(Into::into), &[]);
    if error.code() != Code::CommandNotFound {
        return Err(error);
    }
    let repository = env!("CARGO_PKG_REPOSITORY");
    Err(error.hint(format!("it comes with the archive, the npm package and the .deb of a release; to install it alone, run cargo install --locked --git {repository} {SERVER}")))
}
