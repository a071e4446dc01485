//! Signals that ask this process to end, while it has something to see to first.
//!
//! As long as an [`Interrupts`] is held they are handed to its supervisor, which ends the command, and this
//! process ends in its own time. As long as a [`Deferred`] is held they wait. While none is held they do what they always do.
//!
//! A signal's handler sets a flag and writes into a pipe. It is no socket, because sandboxes of agent hosts forbid
//! sending on sockets, and a supervisor that does not hear of its command's end waits until its time is up.

use crate::error::{Error, Result};
use crate::system::{self, Handle};
use rustix::process::Signal;
use signal_hook::flag;
use signal_hook::low_level::{emulate_default_handler, pipe};
use std::io::{self, PipeReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requests to end that a process can meet.
pub(super) const REQUESTS: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];

/// Everybody in this process who holds signals.
static HOLDERS: Mutex<Vec<Arc<Mutex<Holder>>>> = Mutex::new(Vec::new());
/// Whether the thread that hands them out is there.
static HANDED_OUT: Mutex<bool> = Mutex::new(false);

#[derive(Debug, Default)]
struct Holder {
    received: Option<Signal>,
    supervisor: Option<Handle>,
}

impl Holder {
    fn take(&mut self, signal: Signal) {
        self.received.get_or_insert(signal);
        if let Some(supervisor) = &self.supervisor {
            supervisor.signal(signal);
        }
    }
}

/// Keeps requests to end from ending this process.
#[derive(Debug)]
pub struct Interrupts {
    holder: Arc<Mutex<Holder>>,
}

impl Interrupts {
    /// From now on; what comes before there is a supervisor reaches it then, and so does what came to another thread
    /// in this process who still holds it.
    ///
    /// # Errors
    /// `io` when signals cannot be caught.
    pub fn hold() -> Result<Interrupts> {
        hand_out().map_err(|error| Error::io("could not catch signals", error))?;
        let mut holders = locked(&HOLDERS);
        let received = holders.iter().find_map(|one| locked(one).received);
        let holder = Arc::new(Mutex::new(Holder { received, supervisor: None }));
        holders.push(Arc::clone(&holder));
        Ok(Interrupts { holder })
    }

    /// Whether a request came to any who holds them in this process. Where none does, a request has ended the process.
    pub fn is_any_received() -> bool {
        let holders = locked(&HOLDERS);
        holders.iter().any(|one| locked(one).received.is_some())
    }

    /// Names the process that is to be told.
    pub(super) fn tell(&self, supervisor: Handle) {
        let mut holder = locked(&self.holder);
        holder.supervisor = Some(supervisor);
        if let Some(signal) = holder.received {
            holder.take(signal);
        }
    }

    /// The first request that came.
    pub fn received(&self) -> Option<Signal> {
        locked(&self.holder).received
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        locked(&HOLDERS).retain(|holder| !Arc::ptr_eq(holder, &self.holder));
    }
}

/// Lets requests to end wait while something must not stay half done. When it is dropped they do what they always do, unless another
/// in this process holds them.
#[must_use = "requests wait only until this is dropped"]
#[derive(Debug)]
pub struct Deferred(Option<Interrupts>);

impl Deferred {
    /// From now on.
    ///
    /// # Errors
    /// As [`Interrupts::hold`].
    pub fn hold() -> Result<Deferred> {
        Ok(Deferred(Some(Interrupts::hold()?)))
    }
}

impl Drop for Deferred {
    fn drop(&mut self) {
        let received = self.0.take().and_then(|held| held.received());
        if let Some(signal) = received.filter(|_| locked(&HOLDERS).is_empty()) {
            drop(emulate_default_handler(signal.as_raw()));
        }
    }
}

/// Signals that are caught as long as this process lives.
struct Caught {
    flags: Vec<(Signal, Arc<AtomicBool>)>,
    woken: PipeReader,
}

impl Caught {
    fn begin(wanted: impl Iterator<Item = Signal>) -> io::Result<Caught> {
        let (woken, wake) = io::pipe()?;
        let mut flags = Vec::new();
        for signal in wanted {
            let came = Arc::new(AtomicBool::new(false));
            // In this order, so that the flag is set when the reader wakes up.
            flag::register(signal.as_raw(), Arc::clone(&came))?;
            pipe::register(signal.as_raw(), wake.try_clone()?)?;
            flags.push((signal, came));
        }
        Ok(Caught { flags, woken })
    }

    /// Waits until a signal comes, and gives those that came, each once; `None` when no more can come.
    fn next(&mut self) -> Option<Vec<Signal>> {
        let mut wakes = [0; 64];
        loop {
            match self.woken.read(&mut wakes) {
                Ok(0) => return None,
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return None,
                _ => {}
            }
            let came = |(_, flag): &&(Signal, Arc<AtomicBool>)| flag.swap(false, Ordering::SeqCst);
            let came: Vec<Signal> =
                self.flags.iter().filter(came).map(|(signal, _)| *signal).collect();
            if !came.is_empty() {
                return Some(came);
            }
        }
    }
}

/// Hears of the end of children where this process was told to ignore that, as by a supervisor that wants none of its own to stay behind: the
/// kernel would take each away before it is waited for.
pub fn hear_of_children() {
    if is_ignored(Signal::CHILD, system::ignored_signals()) {
        // A handler of any kind will do, and what is started has none.
        let _ = flag::register(Signal::CHILD.as_raw(), Arc::default());
    }
}

fn is_ignored(signal: Signal, mask: u64) -> bool {
    mask & (1 << (signal.as_raw() - 1)) != 0
}

/// Starts the thread that hands signals out, once.
fn hand_out() -> io::Result<()> {
    let mut running = locked(&HANDED_OUT);
    if *running {
        return Ok(());
    }
    let ignored = system::ignored_signals();
    // nohup(1) and shells in the background mean it.
    let wanted = REQUESTS.into_iter().filter(|signal| !is_ignored(*signal, ignored));
    let mut caught = Caught::begin(wanted)?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        while let Some(signals) = caught.next() {
            for signal in signals {
                let holders = locked(&HOLDERS);
                if holders.is_empty() {
                    // The handler is there for good, so what the signal would have done without
                    // it is done here.
                    drop(emulate_default_handler(signal.as_raw()));
                } else {
                    holders.iter().for_each(|one| locked(one).take(signal));
                }
            }
        }
    })?;
    *running = true;
    Ok(())
}

/// Requests to end, ends of children and two signals more, as they come, for a process that does nothing
/// else.
pub(super) fn listen(more: [Signal; 3]) -> io::Result<Receiver<Signal>> {
    let wanted = REQUESTS.into_iter().chain([Signal::CHILD]);
    listen_to(wanted.chain(more))
}

/// Signals as they come, for a process that does nothing else.
pub(super) fn listen_to(wanted: impl Iterator<Item = Signal>) -> io::Result<Receiver<Signal>> {
    let mut caught = Caught::begin(wanted)?;
    let (send, received) = mpsc::channel();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        while let Some(signals) = caught.next() {
            if signals.into_iter().any(|signal| send.send(signal).is_err()) {
                return;
            }
        }
    })?;
    Ok(received)
}

/// What these locks guard is whole after every single assignment.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
