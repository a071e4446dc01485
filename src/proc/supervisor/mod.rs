//! The process between us and a command: what starts it and waits for it.

mod build_jobs;
mod control_group;
mod keep;

use crate::domain::life::run::Outcome;
use crate::error::{Error, Result};
use crate::git::core::command::LOCAL_VARIABLES;
use crate::proc::signals::Interrupts;
pub use crate::proc::supervisor::keep::TreeBounds;
use crate::system::{Handle, Process};
pub use build_jobs::{BuildSlots, JOBSERVER_VARIABLES, knows_named_pipes};
pub use keep::{SupervisorOrder, keep, lead};
use rustix::process::{Pid, Signal};
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A command to be watched over.
pub struct SupervisedCommand<'a> {
    /// This program's own file.
    pub program: &'a Path,
    /// The command's words.
    pub command: &'a [OsString],
    /// Where it runs.
    pub directory: &'a Path,
    /// Variables that it gets beside ours. What ties a process to a repository is taken away.
    pub variables: &'a [(Cow<'static, str>, OsString)],
    /// Variables that it does not get.
    pub without: &'a [&'static str],
    /// The file that is its standard input; nothing is on it without one.
    pub input: Option<&'a Path>,
    /// Whether its standard output is a terminal that is to be its own, and its standard input too.
    pub terminal: bool,
    /// How long it may take.
    pub limit: Duration,
    /// A directory that goes when it is over.
    pub scratch: Option<&'a Path>,
    /// What its processes may take.
    pub bounds: TreeBounds,
    /// The compile jobs that it shares with others, by a pipe in its scratch directory.
    pub builds: Option<&'a BuildSlots>,
    /// The ticket that it holds as long as anything of the command is left.
    pub ticket: Option<&'a Path>,
    /// A blank file that the supervisor holds open while it lives, and notes the outcome in. An OS lock on it is
    /// therefore held until nothing of the command is left, whatever becomes of us.
    pub slate: &'a File,
    /// Where it writes its answer.
    pub stdout: Stdio,
    /// Where it writes the rest.
    pub stderr: Stdio,
}

/// A supervisor at work. Dropped without waiting, it is left to itself.
#[derive(Debug)]
pub struct Supervisor<'a> {
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

/// Starts a command below a supervisor. The calling thread has to stay until it is over: with it the supervisor
/// loses its parent.
///
/// # Errors
/// `io` when the supervisor cannot be started.
pub fn start<'a>(
    supervised: SupervisedCommand<'a>,
    interrupts: Option<&Interrupts>,
) -> Result<Supervisor<'a>> {
    let fail = |error| Error::io("could not watch over a command", error);
    let mut command = Command::new(supervised.program);
    for variable in LOCAL_VARIABLES.iter().chain(supervised.without) {
        command.env_remove(variable);
    }
    command
        .arg("supervisor")
        .arg(format!("--parent={}", std::process::id()))
        .arg(format!("--limit={}", supervised.limit.as_millis()));
    for (option, most) in
        [("--memory", supervised.bounds.memory), ("--pids", supervised.bounds.pids)]
    {
        command.args(most.map(|most| format!("{option}={most}")));
    }
    let builds = supervised.builds;
    command.args(builds.map(|slots| format!("--builds={}", slots.count)));
    for (option, path) in [
        ("--build-slots", builds.map(|slots| slots.directory.as_path())),
        ("--input", supervised.input),
        ("--scratch", supervised.scratch),
        ("--ticket", supervised.ticket),
    ] {
        if let Some(path) = path {
            command.arg(option).arg(path);
        }
    }
    if supervised.terminal {
        command.arg("--terminal");
    }
    let child = command
        .arg("--")
        .args(supervised.command)
        .envs(supervised.variables.iter().map(|(name, value)| (name.as_ref(), value)))
        .current_dir(supervised.directory)
        .stdin(supervised.slate.try_clone().map_err(fail)?)
        .stdout(supervised.stdout)
        .stderr(supervised.stderr)
        // What the terminal sends is for us to pass on.
        .process_group(0)
        .spawn()
        .map_err(fail)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let (Some(interrupts), Some(pid)) = (interrupts, pid) {
        // It was not waited for yet, so the number is still its own.
        interrupts.tell(Handle::of(pid).map_err(fail)?);
    }
    Ok(Supervisor { child, slate: supervised.slate, scratch: supervised.scratch })
}

impl Supervisor<'_> {
    /// Waits until nothing of the command is left. Where the supervisor was killed, that is seen to here.
    ///
    /// # Errors
    /// `io` when it cannot be waited for.
    pub fn wait(mut self) -> Result<Outcome> {
        let fail = |error| Error::io("could not wait for a command", error);
        let status = self.child.wait().map_err(fail)?;
        Ok(noted(self.slate).unwrap_or_else(|| {
            // Nothing was noted: the supervisor was killed, and its processes live on.
            self.scratch.inspect(|scratch| end(scratch));
            // One that listens does not die of what asks it to end: it was asked in its first moments, with nothing started yet.
            let asked = status.signal().and_then(Signal::from_named_raw);
            asked.and_then(keep::stopped_by).unwrap_or(Outcome::LOST)
        }))
    }
}

/// Asks the supervisor that holds this slate to end its command, if there is one: with TERM, time to end and
/// KILL, or with KILL alone. It can be asked more than once.
///
/// # Errors
/// `io` when processes cannot be listed.
pub fn ask_to_end(slate: &Path, at_once: bool) -> std::io::Result<()> {
    let signal = if at_once { keep::AT_ONCE } else { Signal::TERM };
    let supervisors = Process::reading(slate)?;
    supervisors.iter().for_each(|one| one.signal(signal));
    Ok(())
}

/// Lets the process of this number go on if it works for the run of that slate: a terminal may have stopped it, and then it records
/// nothing. Where the run `is_over` it judges what came of it, and is asked to end.
pub fn wake(slate: &Path, pid: u32, is_over: bool) {
    if let Some(process) = Process::holding(pid, slate) {
        if is_over {
            process.signal(Signal::TERM);
        }
        process.signal(Signal::CONT);
    }
}

/// The outcome that a supervisor noted in a slate; `None` when it did not come to that.
pub fn noted(slate: &File) -> Option<Outcome> {
    let mut bytes = [0; 64];
    let count = slate.read_at(&mut bytes, 0).ok()?;
    Outcome::parse(std::str::from_utf8(bytes.get(..count)?).ok()?)
}

// What a command leaves behind when it killed its supervisor.
//
// No process adopted it then, so only its environment tells whose it was: the place for temporary files that
// was made for this one run. A process that changed its environment is not found.

/// How long KILL is given before it is sent to whatever was started meanwhile.
const PAUSE: Duration = Duration::from_millis(20);
/// How often KILL is sent. What is left after five seconds hangs in the kernel.
const VOLLEYS: u32 = 250;

/// Ends every process that has `scratch` as its `TMPDIR`.
fn end(scratch: &Path) {
    let mut wanted = OsString::from("TMPDIR=").into_vec();
    wanted.extend_from_slice(scratch.as_os_str().as_bytes());
    for _ in 0..VOLLEYS {
        // Where the kernel does not list processes, none is found.
        let mut strays = Process::all().unwrap_or_default();
        strays.retain(|process| process.has_variable(&wanted));
        if strays.is_empty() {
            return;
        }
        strays.iter().for_each(|one| one.signal(Signal::KILL));
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::life::run::Ending;

    #[test]
    fn a_supervisor_that_is_asked_to_end_before_it_listens_was_stopped() {
        let place = tempfile::tempdir().expect("a directory");
        let stopped = |code| Outcome { ending: Ending::Stopped, code };
        // HUP and INT are not among them: below `nohup`, or started with `&` by a script, every process has them ignored.
        for (signal, outcome) in
            [("TERM", stopped(143)), ("USR2", stopped(137)), ("KILL", Outcome::LOST)]
        {
            // The shell takes the first word that a supervisor is given for the name of a script.
            let script = place.path().join("supervisor");
            std::fs::write(script, format!("kill -{signal} $$\n")).expect("written");
            let slate = tempfile::tempfile().expect("a file");
            let supervised = SupervisedCommand {
                program: Path::new("/bin/sh"),
                command: &[],
                directory: place.path(),
                variables: &[],
                without: &[],
                input: None,
                terminal: false,
                limit: Duration::from_secs(60),
                scratch: None,
                bounds: TreeBounds::default(),
                builds: None,
                ticket: None,
                slate: &slate,
                stdout: Stdio::null(),
                stderr: Stdio::null(),
            };
            let over = start(supervised, None).and_then(Supervisor::wait);
            assert_eq!(over.expect("ends"), outcome, "{signal}");
        }
    }
}
