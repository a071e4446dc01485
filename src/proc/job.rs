//! A command line for the shell, run to its end below a supervisor. Both of its streams go into one pipe,
//! whose end is kept.

use super::capture::Tail;
use super::supervisor::{self, SupervisedCommand, TreeBounds};
use super::{capture, sandbox};
use crate::domain::judge::test_count::TestCount;
use crate::domain::life::run::{Ending, Outcome};
use crate::error::{Code, Error, Result};
use crate::system;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Variables that tell a process it is inside an agent.
pub const AGENT_VARIABLES: &[&str] = &[
    "GIT_AGENT_ID",
    "GIT_AGENT_DEPTH",
    "GIT_AGENT_LEAD",
    "GIT_AGENT_WORKTREE",
    "GIT_AGENT_SPOOL",
    "GIT_AGENT_MODEL",
    "GIT_AGENT_MAX_COST",
    "GIT_AGENT_MAX_ITERATIONS",
    "GIT_AGENT_OUTPUT_FILE",
    "GIT_AGENT_ALLOW_PUSH",
];

/// How much of the output is kept, in bytes.
const KEPT: usize = 64 * 1024;

/// A command line for the shell.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// This program's own file, to watch over it.
    pub program: &'a Path,
    /// What `sh -c` gets.
    pub script: &'a str,
    /// Where it runs.
    pub directory: &'a Path,
    /// Variables that it gets beside ours.
    pub variables: &'a [(Cow<'static, str>, OsString)],
    /// How long it may take.
    pub limit: Duration,
    /// How much memory and how many processes it may have.
    pub bounds: TreeBounds,
    /// The fence around it, if it has one.
    pub fence: Option<sandbox::Plan<'a>>,
}

/// A job that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub end: End,
    /// The end of what it wrote to both streams.
    pub output: String,
    /// How many tests passed, where it said so.
    pub tests: Option<u64>,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with a status as the shell gives it: 128 + n for signal n.
    Status(u8),
    /// By us, when its time was up.
    TimedOut,
}

impl From<Outcome> for End {
    fn from(outcome: Outcome) -> End {
        match outcome.ending {
            Ending::Timeout => End::TimedOut,
            _ => End::Status(outcome.code),
        }
    }
}

/// Runs a job to its end. Its environment is ours without what ties a process to a repository or an
/// agent; it has no standard input.
///
/// # Errors
/// `io` when it cannot be started or waited for; `sandbox-unavailable` when the kernel refused the fence.
pub fn run(job: &Job<'_>) -> Result<Finished> {
    let fail = |error| Error::io(format!("could not run `{}`", job.script), error);
    let slate = system::blank_file().map_err(fail)?;
    let (reader, writer) = std::io::pipe().map_err(fail)?;
    let shell = ["sh".into(), "-c".into(), job.script.into()];
    let command = match &job.fence {
        Some(plan) => sandbox::wrap(job.program, plan, &shell),
        None => shell.to_vec(),
    };
    let supervised = SupervisedCommand {
        program: job.program,
        command: &command,
        directory: job.directory,
        variables: job.variables,
        without: AGENT_VARIABLES,
        input: None,
        terminal: false,
        limit: job.limit,
        scratch: None,
        bounds: job.bounds,
        builds: None,
        ticket: None,
        slate: &slate,
        // One pipe for both, so that errors stand where they belong in the output.
        stdout: writer.try_clone().map_err(fail)?.into(),
        stderr: writer.into(),
    };
    let supervisor = supervisor::start(supervised, None)?;
    // What is counted may stand before the end that is kept.
    let kept = Arc::new(Mutex::new((Tail::new(KEPT), TestCount::default())));
    let shared = Arc::clone(&kept);
    let drained = capture::drain(reader, move |bytes| {
        let (tail, tests) = &mut *shared.lock().unwrap_or_else(PoisonError::into_inner);
        tail.push(bytes);
        tests.push(bytes);
    })
    .map_err(fail)?;
    // Before the pipe: what the shell left running may keep that open for as long as it likes.
    let outcome = supervisor.wait()?;
    drained.wait();
    // A command that never ran has a status, too, and must not be taken for a check that failed.
    if let Some(plan) = &job.fence
        && let Some(sandbox::FenceOutcome::Refused(why)) = sandbox::read_report(plan.report)?
    {
        return Err(Error::new(Code::SandboxUnavailable, why));
    }
    let (tail, tests) = &mut *kept.lock().unwrap_or_else(PoisonError::into_inner);
    let mut output = tail.text();
    // Its status alone would not tell this from a failure of its own.
    if matches!(outcome.ending, Ending::LimitMemory | Ending::LimitPids) {
        output.push_str(&format!("git-agent ended it: {}\n", outcome.ending.as_str()));
    }
    Ok(Finished { end: outcome.into(), output, tests: tests.passed() })
}
