//! What a supervisor does with its life.
//!
//! ```text
//! working ──┬─ the command ends, something of it is left ─┐
//!           ├─ its time is up ────────────────────────────┼─> ending: TERM ── grace ──> killing: KILL,
//!           └─ we are asked to end, or our parent is gone ┘                        until nothing is left
//! ```
//!
//! Orphans below it become its children, so "nothing is left" is the kernel's answer that it has none.

use super::build_jobs::{BuildJobs, BuildSlots};
use super::control_group::ControlGroup;
use crate::domain::life::limits::{Limit, Limits};
use crate::domain::life::run::{Ending, Outcome};
use crate::error::{Error, Result};
use crate::git::files::{descent, temporary};
use crate::proc::launch::is_below;
use crate::proc::signals;
use crate::system::{self, Process};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process_group, wait};
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// What tells that our parent is gone.
const ORPHANED: Signal = Signal::USR1;
/// What asks a supervisor to end its command without any delay.
pub(super) const AT_ONCE: Signal = Signal::USR2;
/// How long processes have to end after TERM.
const GRACE: Duration = Duration::from_secs(2);
/// How long KILL is given before it is sent to whatever was started meanwhile.
const PAUSE: Duration = Duration::from_millis(20);
/// Longer than any run: the supervisor has the time limit.
const FOREVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// How often KILL is sent. What is left after five seconds hangs in the kernel.
const VOLLEYS: u32 = 250;

/// What a supervisor is told on its command line.
#[derive(Clone, Debug)]
pub struct SupervisorOrder {
    /// This program's own file.
    pub program: PathBuf,
    /// The process that waits for it.
    pub parent: u32,
    /// How long the command may take.
    pub limit: Duration,
    /// What its processes may take.
    pub bounds: TreeBounds,
    /// The compile jobs that it shares with other commands.
    pub builds: Option<BuildSlots>,
    /// What the command reads.
    pub input: Option<PathBuf>,
    /// A directory that goes at the end.
    pub scratch: Option<PathBuf>,
    /// What says that a command is at work, locked by those it works for; held together with them.
    pub ticket: Option<PathBuf>,
    /// Whether the command gets our standard output as its own terminal.
    pub terminal: bool,
    /// The command's words.
    pub command: Vec<OsString>,
}

/// Runs a command and stays until nothing of it is left. Notes the outcome in the file on its standard input
/// and gives the status to end with.
///
/// # Errors
/// `io` when the command cannot be started.
pub fn keep(order: &SupervisorOrder) -> Result<u8> {
    // It is in use as long as anything of the command is left, whatever becomes of our parent.
    let held = order.scratch.as_deref().map(temporary::hold);
    // Taken while our parent has it for certain, and given back by the kernel however this ends.
    let _ticket = order.ticket.as_deref().map(share).transpose();
    let (mut watch, signals) = SupervisorWatch::begin(order)
        .map_err(|error| Error::io("could not start watching over a command", error))?;
    let outcome = watch.until_nothing_is_left(&signals);
    // Noted as soon as nothing is left, and before the cleaning up: who finds no outcome takes the
    // command for lost.
    note(outcome).map_err(|error| Error::io("could not note how a command ended", error))?;
    if let Some(scratch) = &order.scratch {
        // What it left there is no work.
        let _ = descent::remove(scratch);
    }
    drop(held);
    Ok(outcome.code)
}

/// Starts a command as the first process of a namespace of processes, and stays until nothing of it is left. What asks for an
/// end asks the command itself: of signals from outside, the kernel lets none but KILL through to a process like this.
///
/// # Errors
/// Why the command cannot be started.
pub fn lead(command: &mut Command) -> std::io::Result<Outcome> {
    let signals = signals::listen_to([Signal::CHILD].into_iter())?;
    let child = command.spawn()?;
    let mut watch = SupervisorWatch::over(
        child.id(),
        Instant::now() + FOREVER,
        BoundsWatch::new(TreeBounds::default(), None),
    )?;
    Ok(watch.until_nothing_is_left(&signals))
}

/// Locks a file together with those that have locked it.
fn share(path: &Path) -> std::io::Result<File> {
    let file = File::options().read(true).write(true).open(path)?;
    file.lock_shared()?;
    Ok(file)
}

fn note(outcome: Outcome) -> std::io::Result<()> {
    let slate = File::from(rustix::stdio::stdin().try_clone_to_owned()?);
    slate.write_all_at(outcome.to_line().as_bytes(), 0)
}

struct SupervisorWatch {
    main: Pid,
    /// How the command itself ended.
    ended: Option<Outcome>,
    /// Why we ended it.
    reason: Option<Outcome>,
    phase: Phase,
    /// When the phase is over.
    until: Instant,
    bounds: BoundsWatch,
    builds: Option<BuildJobs>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Working,
    Ending,
    Killing(u32),
}

impl SupervisorWatch {
    fn begin(order: &SupervisorOrder) -> std::io::Result<(SupervisorWatch, Receiver<Signal>)> {
        // Before anything is started: an orphan of the first moment would else go to the process
        // above us.
        system::adopt_orphans()?;
        let signals = signals::listen([ORPHANED, AT_ONCE, system::LOCK_HELD])?;
        // After the listening: the signal would else end this process.
        system::announce_orphaning(Some(ORPHANED))?;
        let stdin = match &order.input {
            Some(path) => File::open(path)?.into(),
            None => Stdio::null(),
        };
        // Without the pipe programs compile as they would elsewhere.
        let builds = order
            .builds
            .as_ref()
            .zip(order.scratch.as_deref())
            .and_then(|(slots, scratch)| BuildJobs::begin(slots, scratch).ok());
        let until = Instant::now() + order.limit;
        let bounds = BoundsWatch::new(order.bounds, ControlGroup::make(order.bounds));
        let mut launch = Command::new(&order.program);
        launch
            .arg("launch")
            .arg(format!("--supervisor={}", std::process::id()))
            .args(order.terminal.then_some("--terminal"));
        if let Some(group) = &bounds.group {
            launch.arg("--group").arg(group.directory());
        }
        let child = launch.arg("--").args(&order.command).stdin(stdin).spawn()?;
        let mut watch = SupervisorWatch::over(child.id(), until, bounds)?;
        watch.builds = builds;
        if !is_below(order.parent) {
            // It was gone before its death could be announced.
            watch.asked(ORPHANED);
        }
        Ok((watch, signals))
    }

    fn over(main: u32, until: Instant, bounds: BoundsWatch) -> std::io::Result<SupervisorWatch> {
        let main = i32::try_from(main).ok().and_then(Pid::from_raw);
        Ok(SupervisorWatch {
            main: main.ok_or_else(|| std::io::Error::other("a process has a number"))?,
            ended: None,
            reason: None,
            phase: Phase::Working,
            until,
            bounds,
            builds: None,
        })
    }

    fn until_nothing_is_left(&mut self, signals: &Receiver<Signal>) -> Outcome {
        while self.reap() && self.phase != Phase::Killing(VOLLEYS) {
            // The command has ended and left something: what it started is asked to end as well.
            if self.ended.is_some() && self.phase == Phase::Working {
                self.end(Signal::TERM);
            }
            if self.phase == Phase::Working
                && let Some(outcome) = self.bounds.look(self.main)
            {
                // There is no time to end in: what takes too much goes on taking.
                self.reason = Some(outcome);
                self.kill(0);
            }
            let left = self.until.saturating_duration_since(Instant::now());
            let patience = match (self.phase, &mut self.builds) {
                (Phase::Working, Some(builds)) => {
                    builds.balance();
                    self.bounds.patience(left).min(LOOK)
                }
                (Phase::Working, None) => self.bounds.patience(left),
                _ => left,
            };
            match signals.recv_timeout(patience) {
                // It was only time to look at the bounds.
                Err(RecvTimeoutError::Timeout) if patience < left => {}
                Ok(Signal::CHILD) => {}
                Ok(signal) => self.asked(signal),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    self.time_is_up();
                }
            }
        }
        // What the kernel killed at a limit ended by itself, as far as we saw.
        let reason = self.reason.or_else(|| self.bounds.group.as_ref()?.exceeded());
        reason.or(self.ended).unwrap_or(Outcome::LOST)
    }

    /// Takes note of every child that has ended; `false` when none is left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => self.ended = Some(outcome(status)),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return true,
                // The kernel says that there is no child: with orphans adopted, that is nothing at
                // all.
                Err(_) => return false,
            }
        }
    }

    /// The end was requested: the command is told in the same words. It is told once, because one interrupt
    /// comes twice to a process that was started as `git agent`: from the terminal, and from git.
    fn asked(&mut self, signal: Signal) {
        if signal == system::LOCK_HELD && self.phase == Phase::Working {
            // Others wait: there is no time to end in.
            self.reason = Some(Outcome::LOCK_HELD);
            return self.kill(0);
        }
        if signal == AT_ONCE && matches!(self.phase, Phase::Working | Phase::Ending) {
            if self.phase == Phase::Working {
                self.reason = stopped_by(signal);
            }
            return self.kill(0);
        }
        if self.phase != Phase::Working {
            return;
        }
        // An orphan was not stopped by anyone; its work is lost with the run that wanted it.
        self.reason = stopped_by(signal)
            .or(Some(Outcome { ending: Ending::Lost, code: status_of(Signal::TERM) }));
        // The command knows nothing of this signal of ours.
        self.end(if signal == ORPHANED { Signal::TERM } else { signal });
    }

    fn time_is_up(&mut self) {
        match self.phase {
            Phase::Working => {
                self.reason = Some(Outcome::TIMEOUT);
                self.end(Signal::TERM);
            }
            Phase::Ending => self.kill(0),
            Phase::Killing(volleys) => self.kill(volleys + 1),
        }
    }

    fn end(&mut self, signal: Signal) {
        self.signal(signal);
        // One that is stopped hears nothing else.
        self.signal(Signal::CONT);
        self.phase = Phase::Ending;
        self.until = Instant::now() + GRACE;
    }

    fn kill(&mut self, volleys: u32) {
        self.bounds.group.as_ref().inspect(|group| group.kill());
        self.signal(Signal::KILL);
        self.phase = Phase::Killing(volleys);
        self.until = Instant::now() + PAUSE;
    }

    fn signal(&self, signal: Signal) {
        signal_all(getpid(), self.main, signal);
    }
}

/// The outcome of a command whose end was requested by that signal; `None` for one that requests nothing.
pub(super) fn stopped_by(signal: Signal) -> Option<Outcome> {
    let signal = match signal {
        AT_ONCE => Signal::KILL,
        _ if signals::REQUESTS.contains(&signal) => signal,
        _ => return None,
    };
    Some(Outcome { ending: Ending::Stopped, code: status_of(signal) })
}

fn status_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}

fn outcome(status: WaitStatus) -> Outcome {
    let code = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    match (status.exit_status(), status.terminating_signal()) {
        (_, Some(signal)) => Outcome { ending: Ending::Signal, code: code(128 + signal) },
        (status, None) => Outcome { ending: Ending::Exit, code: status.map_or(u8::MAX, code) },
    }
}

// What a command may take, watched by its supervisor.
//
// Where a control group can be had, the kernel bounds the tree, and the supervisor reads whether it had to. Elsewhere it adds the tree up,
// several times a second: a limit of the kernel for each process bounds no tree. Between two looks a command can pass the limit by what it
// takes in that time.

/// How often the tree is looked at. A fork bomb of a shell makes some fifty processes in that time, and no program fills a tenth of a
/// gigabyte.
const LOOK: Duration = Duration::from_millis(50);

/// How often those that are there are stopped before they are killed. Each time fewer are left that can start others, so that the killing
/// comes to an end.
const STOPS: usize = 5;

/// The most that all processes below a supervisor may take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeBounds {
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
}

impl TreeBounds {
    /// What limits leave to one command.
    pub fn of(limits: &Limits) -> TreeBounds {
        TreeBounds { memory: limits.memory_of_run(), pids: limits.get(Limit::Pids) }
    }

    /// Whether nothing is bounded.
    pub fn is_none(self) -> bool {
        self == TreeBounds::default()
    }

    /// Why they cannot be kept here; `None` where they can.
    pub fn obstacle(self) -> Option<&'static str> {
        if self.is_none() || system::usage_below(getpid(), false).is_ok() {
            return None;
        }
        Some(
            "this system does not tell what the processes of a run take, so `memory` and `pids` are not enforced",
        )
    }
}

/// A supervisor's looks at what its command takes.
struct BoundsWatch {
    bounds: TreeBounds,
    /// The group that keeps them, where there is one.
    group: Option<ControlGroup>,
    due: Instant,
}

impl BoundsWatch {
    fn new(bounds: TreeBounds, group: Option<ControlGroup>) -> BoundsWatch {
        BoundsWatch { bounds, group, due: Instant::now() + LOOK }
    }

    /// How long the supervisor may wait for something else.
    fn patience(&self, left: Duration) -> Duration {
        if self.bounds.is_none() {
            return left;
        }
        left.min(self.due.saturating_duration_since(Instant::now()))
    }

    /// Looks if it is time to; what the command is to end with, where it takes too much.
    fn look(&mut self, main: Pid) -> Option<Outcome> {
        if self.bounds.is_none() || Instant::now() < self.due {
            return None;
        }
        let outcome = self.exceeded();
        if outcome == Some(Outcome::LIMIT_PIDS) {
            for _ in 0..STOPS {
                signal_all(getpid(), main, Signal::STOP);
            }
        }
        // After the look, so that on a busy machine the looks do not follow each other without a pause.
        self.due = Instant::now() + LOOK;
        outcome
    }

    fn exceeded(&self) -> Option<Outcome> {
        if let Some(group) = &self.group {
            return group.exceeded();
        }
        // The rough sum is cheap and never too low, so the exact one is asked for only where that
        // is above the limit.
        let rough = system::usage_below(getpid(), false).ok()?;
        if self.bounds.pids.is_some_and(|most| rough.tasks > most) {
            return Some(Outcome::LIMIT_PIDS);
        }
        let most = self.bounds.memory.filter(|most| rough.memory > *most)?;
        // What processes share was counted for each of them.
        let exact = system::usage_below(getpid(), true).ok()?;
        (exact.memory > most).then_some(Outcome::LIMIT_MEMORY)
    }
}

// Every process below one, however far it moved away from its parent.

/// Signals every descendant of `root` that is there now. Where the kernel does not list processes, it is the
/// group of `main`.
fn signal_all(root: Pid, main: Pid, signal: Signal) {
    match below(root) {
        Ok(descendants) => descendants.iter().for_each(|one| one.signal(signal)),
        Err(_) => drop(kill_process_group(main, signal)),
    }
}

fn below(root: Pid) -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in Process::all()? {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        // Removed, so that a list that was read while numbers were given anew cannot lead in a
        // circle.
        let own = children.remove(&pid).unwrap_or_default();
        open.extend(own.iter().map(|child| child.pid.as_raw_nonzero().get()));
        found.extend(own);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_below_its_parent() {
        let parent = rustix::process::getppid().expect("a parent");
        let own = rustix::process::getpid();
        let found = below(parent).expect("/proc");
        assert!(found.iter().any(|process| process.pid == own));
    }
}
