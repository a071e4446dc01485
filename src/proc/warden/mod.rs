//! The process between us and a command: what starts it and waits for it.

mod descendants;
mod keep;
mod process;
mod strays;

pub use keep::{Order, keep};

use super::signals::Interrupts;
use crate::domain::run::Outcome;
use crate::error::{Error, Result};
use crate::git::command::LOCAL_VARIABLES;
use process::Process;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A command to be watched over.
pub struct Charge<'a> {
    /// This program's own file.
    pub program: &'a Path,
    /// The command's words.
    pub command: &'a [OsString],
    /// Where it runs.
    pub directory: &'a Path,
    /// Variables that it gets beside ours. What ties a process to a repository is taken away.
    pub variables: &'a [(&'static str, OsString)],
    /// Variables that it does not get.
    pub without: &'a [&'static str],
    /// The file that is its standard input; nothing is on it without one.
    pub input: Option<&'a Path>,
    /// How long it may take.
    pub limit: Duration,
    /// A directory that goes when it is over.
    pub scratch: Option<&'a Path>,
    /// A blank file that the warden holds open while it lives, and notes the outcome in. An OS lock on it is
    /// therefore held until nothing of the command is left, whatever becomes of us.
    pub slate: &'a File,
    /// Where it writes its answer.
    pub stdout: Stdio,
    /// Where it writes the rest.
    pub stderr: Stdio,
}

/// A warden at work. Dropped without waiting, it is left to itself.
#[derive(Debug)]
pub struct Warden<'a> {
    child: Child,
    slate: &'a File,
    scratch: Option<&'a Path>,
}

/// Takes an earlier outcome off a slate.
///
/// # Errors
/// `io`.
pub fn blank(slate: &File) -> Result<()> {
    slate
        .set_len(0)
        .map_err(|error| Error::io("could not clear what an earlier command left", error))
}

/// Starts a command below a warden. The calling thread has to stay until it is over: with it the warden
/// loses its parent.
///
/// # Errors
/// `io` when the warden cannot be started.
pub fn start<'a>(charge: Charge<'a>, interrupts: Option<&Interrupts>) -> Result<Warden<'a>> {
    let fail = |error| Error::io("could not watch over a command", error);
    let mut command = Command::new(charge.program);
    for variable in LOCAL_VARIABLES.iter().chain(charge.without) {
        command.env_remove(variable);
    }
    command
        .arg("warden")
        .arg(format!("--parent={}", std::process::id()))
        .arg(format!("--limit={}", charge.limit.as_millis()));
    for (option, path) in [("--input", charge.input), ("--scratch", charge.scratch)] {
        if let Some(path) = path {
            command.arg(option).arg(path);
        }
    }
    let child = command
        .arg("--")
        .args(charge.command)
        .envs(charge.variables.iter().map(|(name, value)| (name, value)))
        .current_dir(charge.directory)
        .stdin(charge.slate.try_clone().map_err(fail)?)
        .stdout(charge.stdout)
        .stderr(charge.stderr)
        // What the terminal sends is for us to pass on.
        .process_group(0)
        .spawn()
        .map_err(fail)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(interrupts), Some(pid)) = (interrupts, pid) {
        // It was not waited for yet, so the number is still its own.
        let handle = pidfd_open(pid, PidfdFlags::empty());
        interrupts.tell(handle.map_err(|error| fail(error.into()))?);
    }
    Ok(Warden {
        child,
        slate: charge.slate,
        scratch: charge.scratch,
    })
}

impl Warden<'_> {
    /// Waits until nothing of the command is left. Where the warden was killed, that is seen to here.
    ///
    /// # Errors
    /// `io` when it cannot be waited for.
    pub fn wait(mut self) -> Result<Outcome> {
        let fail = |error| Error::io("could not wait for a command", error);
        self.child.wait().map_err(fail)?;
        Ok(noted(self.slate).unwrap_or_else(|| {
            self.scratch.inspect(|scratch| strays::end(scratch));
            Outcome::LOST
        }))
    }
}

/// Asks the warden that holds this slate to end its command, if there is one: with TERM, time to end and
/// KILL, or with KILL alone. It can be asked more than once.
///
/// # Errors
/// `io` when processes cannot be listed.
pub fn ask_to_end(slate: &Path, at_once: bool) -> std::io::Result<()> {
    let slate = std::fs::metadata(slate)?;
    let signal = if at_once { keep::AT_ONCE } else { Signal::TERM };
    for process in Process::all()? {
        // The files of another user's process cannot be seen.
        let input = std::fs::metadata(process.file("fd/0"));
        if input.is_ok_and(|file| (file.dev(), file.ino()) == (slate.dev(), slate.ino())) {
            process.signal(signal);
        }
    }
    Ok(())
}

/// The outcome that a warden noted in a slate; `None` when it did not come to that.
pub fn noted(slate: &File) -> Option<Outcome> {
    let mut bytes = [0; 64];
    let count = slate.read_at(&mut bytes, 0).ok()?;
    Outcome::parse(std::str::from_utf8(&bytes[..count]).ok()?)
}
