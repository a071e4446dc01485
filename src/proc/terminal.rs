//! A terminal of its own for a command that a person works with.
//!
//! The command gets no hold on the user's terminal: what is typed is copied to a pseudo-terminal, and what is written there is
//! copied back, byte by byte. The user's terminal hands keys on as they are pressed meanwhile, and is as it was afterwards.

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use signal_hook::SigId;
use signal_hook::low_level::{pipe, unregister};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

/// Whether this process reads from a terminal and writes to one.
pub fn is_here() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// A new terminal, as large as the user's and with its settings.
pub struct Terminal {
    outside: File,
    inside: File,
}

impl Terminal {
    /// Makes one.
    ///
    /// # Errors
    /// `io`, also where this process has no terminal.
    pub fn new() -> Result<Terminal> {
        let make = || -> io::Result<Terminal> {
            let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
            // The call that opens it knows no such flag everywhere, and a command that had this end
            // could type to itself.
            fcntl_setfd(&outside, FdFlags::CLOEXEC)?;
            grantpt(&outside)?;
            unlockpt(&outside)?;
            let name = ptsname(&outside, Vec::new())?;
            // NOCTTY: this process must not get the new terminal for its own.
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            let inside = open(name, flags, Mode::empty())?;
            tcsetattr(&inside, OptionalActions::Now, &tcgetattr(stdin())?)?;
            tcsetwinsize(&inside, tcgetwinsize(stdout())?)?;
            Ok(Terminal { outside: outside.into(), inside: inside.into() })
        };
        make().map_err(|error| Error::io("could not make a terminal", error))
    }

    /// What the command reads and writes.
    ///
    /// # Errors
    /// `io`.
    pub fn inside(&self) -> Result<File> {
        shared(&self.inside)
    }

    /// Where all that it writes is read.
    ///
    /// # Errors
    /// `io`.
    pub fn output(&self) -> Result<File> {
        shared(&self.outside)
    }

    /// Hands what is typed to the command, as long as the answer is held. The command must have been started: with this,
    /// no other process holds the inside.
    ///
    /// # Errors
    /// `io`.
    pub fn attach(self) -> Result<Attached> {
        let Terminal { outside, inside } = self;
        drop(inside);
        let attach = || -> io::Result<Attached> {
            let before = tcgetattr(stdin())?;
            let mut raw = before.clone();
            raw.make_raw();
            // A handler writes a byte for each change of the window's size.
            let (resized, handler) = io::pipe()?;
            let sizes = pipe::register(Signal::WINCH.as_raw(), handler)?;
            let (stopped, stop) = io::pipe()?;
            let attached = Attached { before, sizes, _stop: stop };
            // After `attached` exists, whose drop puts the old settings back whatever fails from
            // here on.
            tcsetattr(stdin(), OptionalActions::Now, &raw)?;
            std::thread::Builder::new()
                .name("keys".into())
                .spawn(move || copy_keys(outside, &stopped, &resized))?;
            Ok(attached)
        };
        attach().map_err(|error| Error::io("could not lead the terminal to a command", error))
    }
}

/// While this is held, the user's terminal is the command's.
pub struct Attached {
    before: Termios,
    sizes: SigId,
    /// Its end is the end of the copying.
    _stop: PipeWriter,
}

impl Drop for Attached {
    fn drop(&mut self) {
        unregister(self.sizes);
        // A terminal that was closed needs no settings.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// Where what the command writes is shown, as it is.
///
/// # Errors
/// `io`.
pub fn screen() -> Result<File> {
    let screen = stdout().try_clone_to_owned();
    screen.map(File::from).map_err(|error| Error::io("could not share the terminal", error))
}

/// Copies what is typed, and the size of the window, until one side is closed.
fn copy_keys(mut outside: File, stopped: &PipeReader, mut resized: &PipeReader) {
    let keys = match stdin().try_clone_to_owned() {
        Ok(keys) => File::from(keys),
        Err(_) => return,
    };
    let mut buffer = [0; 4096];
    loop {
        let mut ready = [
            PollFd::new(&keys, PollFlags::IN),
            PollFd::new(stopped, PollFlags::IN),
            PollFd::new(resized, PollFlags::IN),
        ];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        // Looked at first: keys that come after the command's end are for the shell that follows.
        if !ready[1].revents().is_empty() {
            return;
        }
        if !ready[2].revents().is_empty() {
            let _ = resized.read(&mut buffer);
            // A terminal that is gone has no size.
            let size = tcgetwinsize(stdout());
            let _ = size.and_then(|size| tcsetwinsize(&outside, size));
        }
        if ready[0].revents().is_empty() {
            continue;
        }
        match (&keys).read(&mut buffer) {
            Ok(count @ 1..) => {
                let read = buffer.get(..count).unwrap_or_default();
                if outside.write_all(read).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

fn shared(file: &File) -> Result<File> {
    let shared = file.try_clone();
    shared.map_err(|error| Error::io("could not share a terminal", error))
}
