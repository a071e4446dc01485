//! One child process with everything it starts.
//!
//! ```text
//! start in a new group ── wait ──┬── it ends ──────────────────────┐
//!                                └── time is up: TERM, grace, KILL ─┴── KILL what the group still holds
//! ```
//!
//! Both output streams go into one pipe, whose end is kept. A process that left the group and still
//! holds the pipe cannot make us wait: the pipe is given a moment to drain and is then left alone.

use super::tail::Tail;
use crate::error::{Error, Result};
use crate::git::command::LOCAL_VARIABLES;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Variables that tell a process it is inside an agent.
pub const AGENT_VARIABLES: &[&str] = &["GIT_AGENT_ID", "GIT_AGENT_DEPTH", "GIT_AGENT_WORKTREE"];

/// How long a process has to end after TERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long the pipe has to drain when everybody in the group is gone.
const DRAIN: Duration = Duration::from_millis(500);
/// How much of the output is kept, in bytes.
const KEPT: usize = 64 * 1024;

/// A command line for the shell.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What `sh -c` gets.
    pub script: &'a str,
    /// Where it runs.
    pub directory: &'a Path,
    /// How long it may take.
    pub limit: Duration,
}

/// A job that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// How it ended.
    pub end: End,
    /// The end of what it wrote to both streams.
    pub output: String,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, with a status as the shell gives it: 128 + n for signal n.
    Status(u8),
    /// By us, when its time was up.
    TimedOut,
}

/// Runs a job to its end. Its environment is ours without what ties a process to a repository or an
/// agent; it has no standard input.
///
/// # Errors
/// `io` when it cannot be started or waited for.
pub fn run(job: &Job<'_>) -> Result<Finished> {
    let fail = |error| Error::io(format!("could not run `{}`", job.script), error);
    let (reader, writer) = std::io::pipe().map_err(fail)?;
    let mut command = Command::new("sh");
    for variable in LOCAL_VARIABLES.iter().chain(AGENT_VARIABLES) {
        command.env_remove(variable);
    }
    command
        .args(["-c", job.script])
        .current_dir(job.directory)
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(fail)?)
        .stderr(writer)
        .process_group(0);
    let mut child = command.spawn().map_err(fail)?;
    // The command holds our ends of the pipe, which would never let it end.
    drop(command);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (tail, drained) = collect(reader).map_err(fail)?;
    let (send, ended) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("wait".into())
        .spawn(move || send.send(child.wait()))
        .map_err(fail)?;

    let mut timed_out = false;
    let status = match ended.recv_timeout(job.limit) {
        Ok(status) => status,
        Err(_) => {
            timed_out = true;
            signal(group, Signal::TERM);
            ended.recv_timeout(GRACE).unwrap_or_else(|_| {
                signal(group, Signal::KILL);
                ended
                    .recv()
                    .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            })
        }
    };
    signal(group, Signal::KILL);
    let status = status.map_err(fail)?;
    let _ = drained.recv_timeout(DRAIN);
    let output = tail.lock().unwrap_or_else(PoisonError::into_inner).text();
    Ok(Finished {
        end: match timed_out {
            true => End::TimedOut,
            false => End::Status(shell_status(status)),
        },
        output,
    })
}

/// Signals every process of the group; one that is gone already needs none.
fn signal(group: Option<Pid>, signal: Signal) {
    if let Some(group) = group {
        let _ = kill_process_group(group, signal);
    }
}

/// Reads a pipe to its end on a thread of its own, which tells when it is there.
fn collect(mut reader: std::io::PipeReader) -> std::io::Result<(Arc<Mutex<Tail>>, Receiver<()>)> {
    let tail = Arc::new(Mutex::new(Tail::new(KEPT)));
    let shared = Arc::clone(&tail);
    let (send, drained) = mpsc::sync_channel(1);
    std::thread::Builder::new()
        .name("output".into())
        .spawn(move || {
            let mut buffer = [0; 8192];
            while let Ok(count @ 1..) = reader.read(&mut buffer) {
                let mut tail = shared.lock().unwrap_or_else(PoisonError::into_inner);
                tail.push(&buffer[..count]);
            }
            let _ = send.send(());
        })?;
    Ok((tail, drained))
}

fn shell_status(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(script: &str, limit: Duration) -> Finished {
        let directory = Path::new("/");
        run(&Job {
            script,
            directory,
            limit,
        })
        .expect("sh starts")
    }

    #[test]
    fn ends_are_told_apart() {
        let check = |script: &str, end: End, output: &str| {
            let finished = finish(script, Duration::from_secs(60));
            assert_eq!(
                (finished.end, finished.output.as_str()),
                (end, output),
                "{script}"
            );
        };
        check("echo out; echo err >&2", End::Status(0), "out\nerr\n");
        check("exit 7", End::Status(7), "");
        check("kill -9 $$", End::Status(137), "");
        check("no-such-command-here 2>/dev/null", End::Status(127), "");
    }

    #[test]
    fn the_time_limit_ends_everything_that_was_started() {
        let limit = Duration::from_millis(200);
        // Neither ignores us nor leaves a child behind: the group ends as a whole.
        let finished = finish("sleep 1000 & trap '' TERM; echo begun; sleep 1000", limit);
        assert_eq!(finished.end, End::TimedOut);
        assert_eq!(finished.output, "begun\n");
    }

    #[test]
    fn what_a_command_leaves_running_is_ended_with_it() {
        let finished = finish("sleep 1000 & echo $!", Duration::from_secs(60));
        assert_eq!(finished.end, End::Status(0));
        let pid: i32 = finished.output.trim().parse().expect("a pid");
        let is_over = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
            stat.map_or(true, |stat| stat.contains(") Z ") || stat.contains(") X "))
        };
        // A killed process takes a moment to go; one that was not killed stays for 1000 s.
        while !is_over() {
            std::thread::yield_now();
        }
    }
}
