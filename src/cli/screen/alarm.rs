//! What ends the waiting: time, a signal, a key.

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::stdin;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Why the waiting is over.
pub(in crate::cli) enum Wake {
    /// It is time to look again.
    Time,
    /// The terminal may have another size.
    Resized,
    /// The user interrupted, or another process ends this one.
    Ended,
}

/// Signals that arrive as bytes from now on, so that one can wait for them.
pub(super) struct Alarm {
    end: UnixStream,
    resize: UnixStream,
}

impl Alarm {
    pub(super) fn set() -> Result<Alarm> {
        Alarm::register().map_err(|error| Error::io("could not wait for signals", error))
    }

    fn register() -> std::io::Result<Alarm> {
        let (end, ended) = UnixStream::pair()?;
        let (resize, resized) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            pipe::register(signal, ended.try_clone()?)?;
        }
        pipe::register(SIGWINCH, resized)?;
        resize.set_nonblocking(true)?;
        Ok(Alarm { end, resize })
    }

    /// Waits that long at most. `keys` says whether standard input is a terminal.
    pub(super) fn wait(&self, interval: Duration, keys: bool) -> Result<Wake> {
        let timeout = Timespec::try_from(interval).ok();
        let input = stdin();
        let mut events = vec![
            PollFd::new(&self.end, PollFlags::IN),
            PollFd::new(&self.resize, PollFlags::IN),
        ];
        if keys {
            events.push(PollFd::new(&input, PollFlags::IN));
        }
        match poll(&mut events, timeout.as_ref()) {
            Ok(0) => return Ok(Wake::Time),
            // The signal's own byte is read in the next round.
            Err(Errno::INTR) => return Ok(Wake::Resized),
            Err(error) => return Err(Error::io("could not wait for the terminal", error.into())),
            Ok(_) => {}
        }
        let is_ready = |index: usize| {
            let event = events.get(index);
            event.is_some_and(|event| !event.revents().is_empty())
        };
        if is_ready(0) || is_ready(2) && is_last_key() {
            return Ok(Wake::Ended);
        }
        let mut bytes = [0; 64];
        while (&self.resize).read(&mut bytes).is_ok_and(|count| count > 0) {}
        Ok(Wake::Resized)
    }
}

/// Whether the key that was pressed means the end; so does a terminal that is gone.
fn is_last_key() -> bool {
    let mut bytes = [0; 64];
    match rustix::io::read(stdin(), &mut bytes) {
        Ok(count) => count == 0 || bytes[..count].contains(&b'q'),
        Err(_) => true,
    }
}
