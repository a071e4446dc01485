//! This program again, in processes of their own: some outlive this one, others end with it.

use super::AGENT_VARIABLES;
use crate::error::{Error, Result};
use crate::git::command::LOCAL_VARIABLES;
use crate::system::Handle;
use rustix::process::{Pid, Signal, setsid};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// Starts a program and does not wait for it: in its own process group, so that an interrupt from the
/// terminal does not reach it, and without our streams, so that no reader waits for their end. One that
/// cannot start is no error.
pub fn start<'a>(
    program: &Path,
    words: impl Iterator<Item = &'a str>,
    directory: &Path,
    variables: &[(&str, String)],
) {
    use std::os::unix::process::CommandExt;
    let mut command = Command::new(program);
    for variable in LOCAL_VARIABLES {
        command.env_remove(variable);
    }
    let _ = command
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
}

/// What a process said before it went into the background, or ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// What it wrote to its standard output. Nothing means that it failed.
    pub out: Vec<u8>,
    /// What it wrote to its standard error.
    pub err: Vec<u8>,
    /// Its status when it failed, 128 and the signal's number for one that was killed.
    pub failed: Option<u8>,
}

/// Starts this program with other words and waits until it lets go of us with [`detach`]: it speaks into
/// pipes, shares our standard input, and hears what the terminal sends as we do.
///
/// # Errors
/// `io` when it cannot be started.
pub fn hand_over(program: &Path, words: &[OsString]) -> Result<HandedOver> {
    let fail = |error| Error::io("could not start a run in the background", error);
    let mut child = Command::new(program)
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let read = std::thread::scope(|scope| {
        let reader = scope.spawn(|| stderr.map(|mut pipe| pipe.read_to_end(&mut err)));
        // Both pipes are read at once: one that is full would stop the process before it detaches.
        let read = stdout.map(|mut pipe| pipe.read_to_end(&mut out));
        // A thread that only reads does not panic.
        let _ = reader.join();
        read
    });
    read.transpose().map_err(fail)?;
    // A process that went into the background has said where it can be found; one that failed has
    // ended and can be waited for.
    let failed = if out.is_empty() {
        Some(status_of(child.wait().map_err(fail)?))
    } else {
        None
    };
    Ok(HandedOver { out, err, failed })
}

/// A command of this program that ends with the thread that started it.
#[derive(Debug)]
pub struct Ender(Handle);

impl Ender {
    /// Asks the command to end, as a person does who closes the terminal.
    pub fn end(&self) {
        self.0.signal(Signal::TERM);
    }
}

/// What a command of this program said, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSaid {
    /// Its standard output, as much as was asked for.
    pub out: Vec<u8>,
    /// Its standard error.
    pub err: Vec<u8>,
    /// Its status, 128 and the signal's number for one that was killed.
    pub status: u8,
}

/// Runs this program with other words to its end, and gives `most` bytes of what each of its streams said. It does not outlive the
/// calling thread, and `begun` is given what can end it before.
///
/// # Errors
/// `io` when it cannot be started.
pub fn run_to_end(
    program: &Path,
    words: &[OsString],
    directory: &Path,
    variables: &[(&str, String)],
    most: u64,
    begun: impl FnOnce(Ender),
) -> Result<CommandSaid> {
    let fail = |error| Error::io("could not start a command of this program", error);
    let mut command = Command::new(program);
    for variable in LOCAL_VARIABLES.iter().chain(AGENT_VARIABLES) {
        command.env_remove(variable);
    }
    // By way of the process that binds itself to its parent and then becomes the command.
    let mut child = command
        .arg("launch")
        .arg(format!("--supervisor={}", std::process::id()))
        .arg("--")
        .arg(program)
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    if let Some(pid) = { i32::try_from(child.id()).ok() }.and_then(Pid::from_raw) {
        begun(Ender(Handle::of(pid).map_err(fail)?));
    }
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        // What is beyond `most` is not read, and a command that goes on writing finds its pipe closed.
        scope.spawn(|| stderr.map(|pipe| pipe.take(most).read_to_end(&mut err)));
        stdout.map(|pipe| pipe.take(most).read_to_end(&mut out))
    });
    let status = status_of(child.wait().map_err(fail)?);
    Ok(CommandSaid { out, err, status })
}

/// Leaves the terminal and the streams of the process that started this one, which goes on alone.
///
/// # Errors
/// `io` when the streams cannot be replaced.
pub fn detach() -> Result<()> {
    let fail = |error: std::io::Error| Error::io("could not go into the background", error);
    // Fails in a process that leads its session already, which is what is wanted.
    let _ = setsid();
    let nothing = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(fail)?;
    for replace in [dup2_stdin, dup2_stdout, dup2_stderr] {
        replace(&nothing).map_err(|error| fail(error.into()))?;
    }
    Ok(())
}

fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}
