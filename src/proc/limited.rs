//! A program that must not take longer than a moment, whatever it waits for.

use crate::error::{Error, Result};
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long processes that were asked to end have for it. git removes its lock files then, which takes milliseconds.
const GRACE: Duration = Duration::from_millis(100);

/// How often the end is looked for: this is what a program takes longer than it needs.
const PERIOD: Duration = Duration::from_millis(5);

/// Runs a program in a process group of its own, with our streams but without standard input. `None` when it had to be
/// ended because the time was up. Nothing of the group is left either way, such as an ssh that still tries to connect.
///
/// # Errors
/// `io` when it cannot be started or waited for.
pub fn run(program: &Path, words: &[OsString], limit: Duration) -> Result<Option<ExitStatus>> {
    use std::os::unix::process::CommandExt;
    let fail = |error| Error::io("could not run a part of this command", error);
    let end = Instant::now() + limit;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        // Git starts helpers such as ssh, and one signal to the group reaches all of them.
        .process_group(0)
        .spawn()
        .map_err(fail)?;
    let group = { i32::try_from(child.id()).ok() }.and_then(Pid::from_raw);
    let status = wait_until(&mut child, end.checked_sub(GRACE).unwrap_or(end)).map_err(fail)?;
    let Some(group) = group else {
        return Ok(status);
    };
    // The number of a group is not given anew while a process is in it, so this reaches what is left of ours, or nothing.
    // Also after a normal end, because a helper may have stayed behind.
    let _ = kill_process_group(group, Signal::TERM);
    while Instant::now() < end && test_kill_process_group(group).is_ok() {
        // A child that was not waited for counts as a member.
        child.try_wait().map_err(fail)?;
        std::thread::sleep(PERIOD);
    }
    let _ = kill_process_group(group, Signal::KILL);
    child.wait().map_err(fail)?;
    Ok(status)
}

fn wait_until(child: &mut Child, end: Instant) -> std::io::Result<Option<ExitStatus>> {
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= end {
            return Ok(status);
        }
        std::thread::sleep(PERIOD);
    }
}
