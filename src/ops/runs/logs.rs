//! `logs`: what a run wrote to its streams.

use crate::agents::ctx::Ctx;
use crate::agents::liveness;
use crate::domain::agent::Agent;
use crate::error::{Code, Error, IoContext, Result};
use crate::ops::runs::named;
use crate::store::{layout, lock};
use serde::Serialize;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// How often a log that is followed is looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// Which log is wanted.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// Whose.
    pub agent: String,
    /// Of which run; the last one when none is named.
    pub run: Option<u32>,
    /// Standard error in place of standard output.
    pub stderr: bool,
    /// Goes on until the run is over.
    pub follow: bool,
}

/// The answer of `logs`, beside the log itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogsReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The number of the run.
    pub run: u32,
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The log, absolute.
    pub path: String,
    /// Its length so far, in bytes.
    pub bytes: u64,
}

/// Hands a log to `take`, piece by piece, until `take` has enough of it.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, `agent-state` when there is no such run here, `io`.
pub fn logs(
    ctx: &Ctx,
    options: &LogOptions,
    take: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<LogsReport> {
    let common = ctx.repo.common_dir();
    let last = named::last_run(ctx, &options.agent)?;
    let number = options.run.unwrap_or(last.run.number());
    let (stream, ending) = if options.stderr {
        ("stderr", "err")
    } else {
        ("stdout", "out")
    };
    let path = liveness::log(common, &last.agent, number, ending);
    let mut file = open(&path, &last.agent, number)?;
    let mut bytes = 0;
    let mut wants_more = copy(&mut file, &path, &mut bytes, take)?;
    // An earlier run writes no more.
    if options.follow && number == last.run.number() {
        let (send, over) = mpsc::channel();
        let name = layout::live_lock(last.agent.id);
        lock::when_free(common, &name, move || {
            // The receiver is gone when the reader has enough.
            let _ = send.send(());
        })?;
        let mut goes_on = true;
        while wants_more && goes_on {
            // What was written last was written before the lock was given back.
            goes_on = over.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout);
            wants_more = copy(&mut file, &path, &mut bytes, take)?;
        }
    }
    Ok(LogsReport {
        schema: "git-agent.logs/1",
        agent_id: last.agent.id.to_string(),
        short_id: last.agent.id.short(),
        run: number,
        stream,
        path: path.to_string_lossy().into_owned(),
        bytes,
    })
}

fn open(path: &Path, agent: &Agent, number: u32) -> Result<File> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let id = agent.id.short();
            Err(Error::new(
                Code::AgentState,
                format!("agent {id} has no run {number} here"),
            )
            .hint(format!("to see its runs, run git agent show --log {id}")))
        }
        other => other.at("could not open", path),
    }
}

/// Copies what is there now; `false` when `take` has enough.
fn copy(
    file: &mut File,
    path: &Path,
    bytes: &mut u64,
    take: &mut dyn FnMut(&[u8]) -> Result<bool>,
) -> Result<bool> {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = file.read(&mut buffer).at("could not read", path)?;
        if count == 0 {
            return Ok(true);
        }
        *bytes += count as u64;
        if !take(&buffer[..count])? {
            return Ok(false);
        }
    }
}
