//! `git agent mcp`

use crate::agents::ctx::Env;
use crate::error::{Exit, Result};
use crate::ops::mcp::become_server;

/// Serve the agents of this repository to a client of the Model Context Protocol, over standard input and output
///
/// The server is `git-agent-mcp`, a program beside this one or on PATH. Its tools are spawn, run, wait, list, show, diff, verify, merge and send.
#[derive(Debug, clap::Args)]
pub(super) struct McpArgs {}

/// Needs no repository: each tool says for itself that there is none.
pub(super) fn run() -> Result<Exit> {
    match become_server(&Env::of_process()?)? {}
}
