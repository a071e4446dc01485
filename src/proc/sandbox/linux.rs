//! The helper of a fence on Linux.

use super::report::Report;
use super::{FENCED, FenceOutcome, Plan, landlock, mounts, namespaces, overlay, wrap};
use crate::domain::life::run::{self, Ending};
use crate::domain::life::sandbox::{Fence, Landlock, LayerMount, Level, Namespaces};
use crate::error::{Code, Error, Result};
use crate::proc::{launch, supervisor};
use crate::system;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, chdir, getcwd, getpgrp, set_dumpable_behavior,
    setrlimit, setsid,
};
use rustix::stdio::stdin;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// This program's own file, also where its path is hidden.
const OWN_FILE: &str = "/proc/self/exe";

/// Requests to end. The supervisor, and the terminal, send them to each process below.
const REQUESTS: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// How long the command waits for its terminal, and how often it looks.
const PATIENCE: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

/// What is asked of the kernel.
pub(super) struct PendingLevel {
    landlock: Landlock,
    namespaces: namespaces::Probe,
}

/// Asks for the highest level that can be enforced here; of namespaces not where it is known that all can be had.
///
/// # Errors
/// What this system lacks.
pub(super) fn ask(program: &Path, has_namespaces: bool) -> Result<PendingLevel, String> {
    let landlock = landlock::offer()?;
    let namespaces =
        if has_namespaces { namespaces::Probe::Known } else { namespaces::Probe::start(program) };
    Ok(PendingLevel { landlock, namespaces })
}

/// What was answered.
///
/// # Errors
/// What this system lacks.
pub(super) fn answer(asked: PendingLevel) -> Result<Level, String> {
    let landlock = asked.landlock;
    let (namespaces, why) = asked.namespaces.answer();
    if landlock == Landlock::Links && namespaces == Namespaces::None {
        let why = "Landlock of this kernel lets files be truncated (before Linux 6.2), and there are \
                   no namespaces in which they would be read-only";
        return Err(why.to_owned());
    }
    Ok(Level { landlock, namespaces, why })
}

pub(super) use namespaces::{layers_refused, probe};

pub(super) fn probe_layer(layer: &LayerMount) -> Result<(), String> {
    if namespaces::hides_proc() {
        return Err("a part of /proc is hidden here".to_owned());
    }
    namespaces::enter(Namespaces::Processes, &mut of_layer(layer))
}

/// Nothing but the mount of a layered worktree.
fn of_layer(layer: &LayerMount) -> Fence {
    Fence { layer: Some(layer.clone()), ..Fence::default() }
}

/// As [`super::become_mounted`]. Comes back only with the reason why it could not.
pub(super) fn become_mounted(layer: &LayerMount, command: &[OsString]) -> Error {
    let refused = |why: String| Error::new(Code::SandboxUnavailable, why);
    // A command that nothing waits for any more must not keep the mount.
    if let Err(error) = system::die_with_parent() {
        return refused(format!("could not follow the process above: {error}"));
    }
    let directory = getcwd(Vec::new());
    let made = namespaces::enter(Namespaces::Mounts, &mut of_layer(layer));
    if let Err(why) = made.and_then(|()| overlay::cover(layer)) {
        return refused(why);
    }
    // What was the current directory may be covered now.
    let followed = directory.and_then(chdir);
    if let Err(error) = followed {
        return refused(format!("could not go to the current directory: {error}"));
    }
    let (program, arguments) = command.split_first().unzip();
    let arguments = arguments.unwrap_or_default();
    launch::replace(Command::new(program.unwrap_or(&OsString::new())).args(arguments))
}

/// As [`super::enter`].
pub(super) fn enter(plan: &Plan<'_>, is_first: bool, command: &[OsString]) -> Result<u8> {
    // What a caller left open, a fence does not see: a file that is open for writing can be written, whatever the fence says of its
    // path. The command gets its three streams and nothing else. `make -j` outside of the run thereby lends it no jobs.
    close_fds::set_fds_cloexec(3, &[]);
    if is_first {
        return lead(plan, command);
    }
    // Opened before any namespace is made: it lies outside of the fence and cannot be opened by
    // path afterwards.
    let mut report = Report::create(plan.report)?;
    // Held until the last process of the namespace is gone: of two mounts of one upper directory the kernel says no more than that
    // the behaviour is undefined.
    let mut _lock = None;
    if let Some(layer) = &plan.fence.layer {
        _lock = Some(report.or_say(overlay::lock(layer))?);
        if plan.level.namespaces != Namespaces::Processes {
            let why = "a layered worktree needs namespaces of mounts and of processes";
            report.or_say::<()>(Err(why.to_owned()))?;
        }
    }
    let mut fence = plan.fence.clone();
    if plan.level.namespaces > Namespaces::None {
        let made = namespaces::enter(plan.level.namespaces, &mut fence);
        report.or_say(made.and_then(|()| overlay::find_places(&mut fence)))?;
    }
    let plan = Plan { fence: &fence, ..*plan };
    let plan = &plan;
    // Without a namespace of processes this process restricts itself and becomes the command; with
    // one it cannot, as only its children are in there.
    if plan.level.namespaces == Namespaces::Processes {
        return stand_by(plan, &report, command);
    }
    restrict(plan, &mut report)?;
    Err(launch::replace(&mut built(command)?))
}

/// Starts the first process of the new namespace and ends as the command does.
fn stand_by(plan: &Plan<'_>, report: &Report, command: &[OsString]) -> Result<u8> {
    let fail = |error: io::Error| Error::io("could not start the sandbox", error);
    // The command is asked itself, and what takes its time to end must not end with us. No thread may be started here: the
    // kernel allows none in a process whose children are to live in another namespace.
    for signal in REQUESTS {
        let ignored = Arc::new(AtomicBool::new(false));
        flag::register(signal.as_raw(), ignored).map_err(fail)?;
    }
    let plan = Plan { report: &report.handle(), ..*plan };
    let mut words = wrap(Path::new(OWN_FILE), &plan, command).into_iter();
    let mut first = Command::new(words.next().unwrap_or_default());
    first.args(words.by_ref().take(1)).arg("--first").args(words);
    if plan.fence.terminal {
        // The terminal is that of our session, which none in the namespace can name. A group of processes that it can name
        // takes the foreground, as shells expect.
        first.process_group(0);
    }
    let mut first = first.spawn().map_err(fail)?;
    if plan.fence.terminal
        && let Some(group) = i32::try_from(first.id()).ok().and_then(Pid::from_raw)
    {
        tcsetpgrp(stdin(), group).map_err(|error| fail(error.into()))?;
    }
    let status = first.wait().map_err(fail)?;
    Ok(end_as(status, report.end()?))
}

/// The status to end with; does not come back from a command that a signal ended.
fn end_as(status: ExitStatus, command: Option<run::Outcome>) -> u8 {
    let signal = match command {
        Some(end) if end.ending == Ending::Signal => Some(i32::from(end.code) - 128),
        Some(end) => return end.code,
        // It was killed, or it said itself what went wrong.
        None => status.signal(),
    };
    if let Some(signal) = signal {
        // The memory of this process tells nothing of the command's.
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        let _ = setrlimit(Resource::Core, none);
        let _ = emulate_default_handler(signal);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// What the first process of the namespace does.
fn lead(plan: &Plan<'_>, command: &[OsString]) -> Result<u8> {
    let fail = |error: io::Error| Error::io("could not start the sandbox", error);
    let mut report = Report::append(plan.report)?;
    // If the process above us is gone already, the supervisor has become our parent and ends us.
    system::die_with_parent().map_err(fail)?;
    if plan.fence.terminal {
        wait_for_foreground();
    } else {
        // Nothing in here may have a terminal, and the groups of processes have numbers that can be named.
        let _ = setsid();
    }
    // Restricted before the command is started: it inherits all of it, and no moment is left in
    // which it has more.
    restrict(plan, &mut report)?;
    // The command belongs to the same user and must not reach into what this process has open.
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(|error| fail(error.into()))?;
    let mut started = built(command)?;
    let ended = supervisor::lead(&mut started).map_err(|error| launch::failed(&started, error))?;
    // The report was opened before the fence stood, so it can still be written.
    report.say(&FenceOutcome::Ended(ended))?;
    Ok(ended.code)
}

/// A process that reads a terminal from the background is stopped.
fn wait_for_foreground() {
    for _ in 0..PATIENCE {
        if tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp()) {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Restricts this process for good.
fn restrict(plan: &Plan<'_>, report: &mut Report) -> Result<()> {
    let has_processes = plan.level.namespaces == Namespaces::Processes;
    let arranged = if plan.level.namespaces > Namespaces::None {
        mounts::arrange(plan.fence, has_processes)
    } else {
        Ok(())
    };
    report.or_say(arranged.and_then(|()| landlock::restrict(plan.fence, plan.level)))?;
    report.say(&FenceOutcome::Fenced)
}

fn built(command: &[OsString]) -> Result<Command> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::bug("a command has a first word"));
    };
    let mut built = Command::new(program);
    built.args(arguments).env(FENCED, "1");
    Ok(built)
}

impl Report {
    /// Passes on what went well; of what did not, the supervisor is told.
    fn or_say<T>(&mut self, result: Result<T, String>) -> Result<T> {
        match result {
            Ok(value) => Ok(value),
            Err(why) => {
                self.say(&FenceOutcome::Refused(why.clone()))?;
                Err(Error::new(Code::SandboxUnavailable, why))
            }
        }
    }
}
