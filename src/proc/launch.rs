//! Processes that become other programs, in our place or without us; one that shows something, one that must not
//! take long.

use crate::error::{Code, Error, Exit, Result};
use crate::git::core::command::LOCAL_VARIABLES;
use crate::proc::AGENT_VARIABLES;
use crate::system::{self, Handle};
use rustix::process::{
    Pid, Signal, getppid, ioctl_tiocsctty, kill_process_group, setsid, test_kill_process_group,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout, stdout};
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Prepares this process to become a command: in a session of its own, so that it has no terminal to ask questions on, or with
/// `terminal` the one that is our standard output, in the control `group` where there is one, and bound to die with the process
/// `supervisor` above it.
///
/// # Errors
/// `io`.
pub fn prepare(supervisor: u32, terminal: bool, group: Option<&Path>) -> Result<()> {
    // Fails in a process that leads its session already, which is what is wanted.
    let _ = setsid();
    let fail = |error: std::io::Error| Error::io("could not prepare a command", error);
    // Only the leader of a session can take a terminal, so this comes after `setsid`.
    if terminal && let Err(error) = ioctl_tiocsctty(stdout()).and_then(|()| dup2_stdin(stdout())) {
        return Err(fail(error.into()));
    }
    system::die_with_parent().map_err(fail)?;
    // All that it starts is in the group from now on, and so is bounded by it.
    if let Some(group) = group {
        std::fs::write(group.join("cgroup.procs"), "0").map_err(fail)?;
    }
    // The supervisor may have died before the death signal was asked for, and then the signal never comes.
    if !is_below(supervisor) {
        return Err(fail(std::io::Error::other("the process above it is gone")));
    }
    Ok(())
}

/// Becomes the command. Comes back only with the reason why it could not.
pub fn launch(program: &OsStr, arguments: &[OsString]) -> Error {
    replace(Command::new(program).args(arguments))
}

/// Lets this program take its own place, with other variables: those without a value go. Comes back only with the reason why it
/// could not.
pub fn again(
    program: &Path,
    arguments: &[OsString],
    variables: &[(&'static str, Option<OsString>)],
) -> Error {
    let mut command = Command::new(program);
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    if let Some(name) = arguments.first() {
        command.arg0(name);
    }
    replace(command.args(arguments.iter().skip(1)))
}

/// Lets a command take the place of this process. Comes back only with the reason why it could not.
pub(super) fn replace(command: &mut Command) -> Error {
    let error = command.exec();
    failed(command, error)
}

/// Why a command could not be started.
pub(super) fn failed(command: &Command, error: std::io::Error) -> Error {
    let name = command.get_program().to_string_lossy();
    match error.kind() {
        ErrorKind::NotFound => not_found(&name),
        _ => Error::new(Code::CommandNotRunnable, format!("the command `{name}` could not be run"))
            .because(error),
    }
}

/// What is said of a command that does not exist.
pub fn not_found(name: &str) -> Error {
    Error::new(Code::CommandNotFound, format!("the command `{name}` was not found"))
}

/// Whether that process is still our parent. A death signal asked for too late never comes.
pub(super) fn is_below(parent: u32) -> bool {
    getppid().is_some_and(|pid| u32::try_from(pid.as_raw_nonzero().get()) == Ok(parent))
}

// This program again, in processes of their own: some outlive this one, others end with it.

/// A program that is called as from a directory, whatever repository our own environment names, and reads nothing.
fn called_from(program: &Path, directory: &Path) -> Command {
    let mut command = Command::new(program);
    for variable in LOCAL_VARIABLES {
        command.env_remove(variable);
    }
    command.current_dir(directory).stdin(Stdio::null());
    command
}

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
    let _ = called_from(program, directory)
        .args(words)
        .envs(variables.iter().map(|(name, value)| (name, value)))
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
/// pipes, shares our standard input, and hears what the terminal sends as we do. With a `directory` it is called as from there.
///
/// # Errors
/// `io` when it cannot be started.
pub fn hand_over(
    program: &Path,
    words: &[OsString],
    directory: Option<&Path>,
) -> Result<HandedOver> {
    let fail = |error| Error::io("could not start a run in the background", error);
    let mut command =
        directory.map_or_else(|| Command::new(program), |place| called_from(program, place));
    let mut child =
        command.args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(fail)?;
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
    let failed = if out.is_empty() { Some(status_of(child.wait().map_err(fail)?)) } else { None };
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
    let mut command = called_from(program, directory);
    for variable in AGENT_VARIABLES {
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
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(fail)?;
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
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

/// Has this process be asked to end when the one that started it is gone, until it lets go of it with [`detach`]: a run that the caller was not
/// told of is not to begin later.
///
/// # Errors
/// `io`.
pub fn end_with_caller() -> Result<()> {
    let fail = |error: std::io::Error| Error::io("could not watch over the caller", error);
    system::announce_orphaning(Some(Signal::TERM)).map_err(fail)
}

/// Leaves the terminal and the streams of the process that started this one, which goes on alone.
///
/// # Errors
/// `io` when the streams cannot be replaced.
pub fn detach() -> Result<()> {
    let fail = |error: std::io::Error| Error::io("could not go into the background", error);
    system::announce_orphaning(None).map_err(fail)?;
    // Fails in a process that leads its session already, which is what is wanted.
    let _ = setsid();
    let nothing = OpenOptions::new().read(true).write(true).open("/dev/null").map_err(fail)?;
    for replace in [dup2_stdin, dup2_stdout, dup2_stderr] {
        replace(&nothing).map_err(|error| fail(error.into()))?;
    }
    Ok(())
}

fn status_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

// Runs a program in our place: its streams, its directory and its environment are ours.

/// What `exec` says to a script without a `#!` line; git runs such a hook with `sh`.
const NO_FORMAT: i32 = 8;

/// Runs a program to its end and gives its status, 128 and the signal's number for one that was killed.
/// `input` is what it reads on standard input, when we have read ours already. The variable `mark` is set for it.
///
/// # Errors
/// `io` when it cannot be started.
pub fn run(
    program: &Path,
    arguments: &[OsString],
    input: Option<&[u8]>,
    mark: &str,
) -> Result<Exit> {
    let start = |command: &mut Command| {
        let stdin = if input.is_some() { Stdio::piped() } else { Stdio::inherit() };
        command.args(arguments).env(mark, "1").stdin(stdin).spawn()
    };
    let started = match start(&mut Command::new(program)) {
        Err(error) if error.raw_os_error() == Some(NO_FORMAT) => {
            start(Command::new("/bin/sh").arg(program))
        }
        other => other,
    };
    let fail = |source| Error::io(format!("could not run {}", program.display()), source);
    let mut child = started.map_err(fail)?;
    feed(&mut child, input.unwrap_or_default()).map_err(fail)?;
    let status = child.wait().map_err(fail)?;
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    Ok(match code.map(u8::try_from) {
        Some(Ok(0)) => Exit::Yes,
        Some(Ok(code)) => Exit::Child(code),
        _ => Exit::Child(1),
    })
}

/// A program need not read what it is given.
fn feed(child: &mut Child, input: &[u8]) -> std::io::Result<()> {
    let Some(mut stdin) = child.stdin.take() else {
        return Ok(());
    };
    match stdin.write_all(input) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

// A program that must not take longer than a moment, whatever it waits for.

/// How long processes that were asked to end have for it. git removes its lock files then, which takes milliseconds.
const GRACE: Duration = Duration::from_millis(100);

/// How often the end is looked for: this is what a program takes longer than it needs.
const PERIOD: Duration = Duration::from_millis(5);

/// Runs a program in a process group of its own, with our streams but without standard input. `None` when it had to be
/// ended because the time was up. Nothing of the group is left either way, such as an ssh that still tries to connect.
///
/// # Errors
/// `io` when it cannot be started or waited for.
pub fn run_limited(
    program: &Path,
    words: &[OsString],
    limit: Duration,
) -> Result<Option<ExitStatus>> {
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
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
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

// Programs of the user that show something, such as a browser.

/// Shows something with a program on this terminal, where `on_terminal` says that there is one, and waits for its end: a
/// browser for terminals needs it that long. Elsewhere nothing that it says reaches our streams, which hold an answer.
///
/// # Errors
/// `command-not-found`, `command-not-runnable`; `io` where its end cannot be waited for.
pub fn open(program: &Path, words: &[String], on_terminal: bool) -> Result<ExitStatus> {
    let mut command = prepared(program, words, on_terminal);
    command.status().map_err(|error| failed(&command, error))
}

/// The same for a caller that goes on at once.
///
/// # Errors
/// As [`open`].
pub fn open_beside(program: &Path, words: &[String]) -> Result<()> {
    let mut command = prepared(program, words, false);
    let mut child = command.spawn().map_err(|error| failed(&command, error))?;
    // One that ends is not left as a zombie for as long as we live.
    thread::spawn(move || child.wait());
    Ok(())
}

fn prepared(program: &Path, words: &[String], on_terminal: bool) -> Command {
    let mut command = Command::new(program);
    command.args(words);
    if !on_terminal {
        let streams = command.stdin(Stdio::null()).stdout(Stdio::null());
        streams.stderr(Stdio::null());
    }
    command
}
