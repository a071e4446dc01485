//! Commands that write files of a layered worktree, or have a hook look at them: this program runs again where it
//! is mounted.
//!
//! They are refused at first, before they have changed anything, with an error that names the agent. In the mount the worktree is an
//! ordinary one, so what an update, a landing or a commit takes there is written once, for both kinds.

use crate::agents::stock::layered::{Mounted, run_mounted};
use crate::agents::{Ctx, upkeep::publish, who::lookup};
use crate::domain::{Agent, Oid};
use crate::error::{Code, Error, Result};
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;

/// Runs the words after `git agent` where the layered worktree of an agent is mounted; gives the status to end with, and what the caller
/// should know besides.
///
/// # Errors
/// `run-active` while a command works there, `layer-invalid`, `lock-timeout`, `io`.
pub fn again(ctx: &Ctx, who: &str, words: &[OsString]) -> Result<(u8, Option<String>)> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    let (output, warning) = run_mounted(ctx, &agent, words, Mounted::ForCaller)?;
    let status = output.status;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    let code = code.and_then(|code| u8::try_from(code).ok());
    Ok((code.unwrap_or(u8::MAX), warning))
}

/// Moves the worktree of an agent from the commit that it is at to the agent's branch; called in the mount.
///
/// # Errors
/// Those of [`publish::catch_up`].
pub fn catch_up(ctx: &Ctx, who: &str, seen: &str) -> Result<()> {
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    let seen = Oid::from_hex(seen);
    let seen = seen.ok_or_else(|| Error::new(Code::Usage, "that is no name of a commit"))?;
    publish::catch_up(ctx, &agent, seen)
}

/// Commits an agent's work in the mount, for a run that is over. That there is nothing in scope to commit is no error there.
pub(super) fn commit(ctx: &Ctx, agent: &Agent, summary: &str) -> Result<()> {
    let id = agent.id.to_string();
    let words = ["commit", &id, "-m", summary, "--format", "json"];
    // The run has a base of its own that is whole.
    let (output, _) = run_mounted(ctx, agent, &words, Mounted::ForRun)?;
    let answer: Value = serde_json::from_slice(&output.stderr).unwrap_or_default();
    let error = answer.get("error").unwrap_or(&Value::Null);
    let is_no_error = [Code::NothingToLand, Code::OutOfScope].map(Code::name);
    if output.status.success() || is_no_error.iter().any(|code| error["code"] == *code) {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let causes = error["causes"].as_array().into_iter().flatten();
    let causes: Vec<String> = causes.map(text).collect();
    Err(Error::new(Code::CommitRefused, text(&error["message"])).because(causes.join("\n")))
}
