//! Signals that ask this process to end, while it has something to see to first.
//!
//! As long as an [`Interrupts`] is held they are handed to its supervisor, which ends the command, and this
//! process ends in its own time. While none is held they do what they always do.

use crate::error::{Error, Result};
use crate::system::{self, Handle};
use rustix::process::Signal;
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requests to end that a process can meet.
const REQUESTS: [Signal; 3] = [Signal::HUP, Signal::INT, Signal::TERM];

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
        let holder = Arc::new(Mutex::new(Holder {
            received,
            supervisor: None,
        }));
        holders.push(Arc::clone(&holder));
        Ok(Interrupts { holder })
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

/// Starts the thread that hands signals out, once.
fn hand_out() -> std::io::Result<()> {
    let mut running = locked(&HANDED_OUT);
    if *running {
        return Ok(());
    }
    let ignored = system::ignored_signals();
    let wanted = REQUESTS.into_iter().filter(|signal| {
        // nohup(1) and shells in the background mean it.
        ignored & (1 << (signal.as_raw() - 1)) == 0
    });
    let mut signals = Signals::new(wanted.map(Signal::as_raw))?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for number in signals.forever() {
                let holders = locked(&HOLDERS);
                match Signal::from_named_raw(number) {
                    Some(signal) if !holders.is_empty() => {
                        holders.iter().for_each(|one| locked(one).take(signal));
                    }
                    _ => drop(emulate_default_handler(number)),
                }
            }
        })?;
    *running = true;
    Ok(())
}

/// Requests to end, ends of children and two signals more, as they come, for a process that does nothing
/// else.
pub(super) fn listen(more: [Signal; 2]) -> std::io::Result<Receiver<Signal>> {
    let wanted = REQUESTS.into_iter().chain([Signal::CHILD]).chain(more);
    let mut signals = Signals::new(wanted.map(Signal::as_raw))?;
    let (send, received) = mpsc::channel();
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for number in signals.forever() {
                let known = Signal::from_named_raw(number);
                if known.is_some_and(|signal| send.send(signal).is_err()) {
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
