//! The terminal while something is kept on it: the alternate screen, key by key, until the user has had enough. Whatever
//! ends us short of KILL gives the terminal back as it was.

mod keys;

pub(super) use keys::Key;

use super::terminal;
use super::ui::Ui;
use crate::error::{Error, Result};
use keys::KeyReader;
use ratatui_core::backend::Backend;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Color;
use ratatui_crossterm::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The alternate screen, no cursor, and marks around what is pasted.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l\x1b[?25h\x1b[?1049l";
const CLEAR: &str = "\x1b[2J";

/// So long the rest of a sequence may take that begins with ESC, until that was the key.
const ESCAPE: Duration = Duration::from_millis(50);

/// So long a stop that was asked for may take to come; a process group without a shell that minds it is never stopped.
const STOP: Duration = Duration::from_millis(200);

/// How the terminal was, while it is taken: the one place that says so to a panic, to a signal and to the usual end.
static TAKEN: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    modes: Option<Termios>,
    out: File,
}

/// A terminal that was taken.
pub(super) struct Screen {
    out: File,
    backend: CrosstermBackend<BufWriter<File>>,
    /// What is on the terminal; `None` where that is not known.
    shown: Option<Buffer>,
    is_coloured: bool,
    signals: Signals,
    keys: KeyReader,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take(ui: &Ui) -> Result<Screen> {
        // Before the terminal is taken, so that no signal can leave it taken.
        let signals = Signals::register().map_err(failed)?;
        let out = ui.terminal()?;
        let backend = CrosstermBackend::new(BufWriter::new(out.try_clone().map_err(failed)?));
        give_back_on_panic();
        let mut screen = Screen {
            out,
            backend,
            shown: None,
            is_coloured: ui.is_coloured(),
            signals,
            keys: KeyReader::default(),
        };
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal again after [`Screen::leave`].
    pub(super) fn enter(&mut self) -> Result<()> {
        let modes = tcgetattr(stdin()).ok();
        let before = Before {
            modes: modes.clone(),
            out: self.out.try_clone().map_err(failed)?,
        };
        // First said, then done: whatever happens in between gives back what was.
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        if let Some(mut raw) = modes {
            raw.make_raw();
            let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        }
        self.shown = None;
        self.out.write_all(TAKE.as_bytes()).map_err(failed)
    }

    /// Gives the terminal back.
    pub(super) fn leave(&self) {
        give_back();
    }

    /// Shows what is drawn, of which only what differs from before is written.
    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Buffer)) -> Result<()> {
        let (columns, rows) = terminal::size(stdout()).unwrap_or((80, 24));
        let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let mut next = Buffer::empty(Rect::new(0, 0, cells(columns), cells(rows)));
        render(&mut next);
        if !self.is_coloured {
            for cell in &mut next.content {
                (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            }
        }
        let before = match self.shown.take() {
            Some(before) if before.area == next.area => before,
            // Another size, or something else was on the terminal.
            _ => {
                self.say(CLEAR)?;
                Buffer::empty(next.area)
            }
        };
        let changes = before.diff(&next);
        self.backend.draw(changes.into_iter()).map_err(failed)?;
        Backend::flush(&mut self.backend).map_err(failed)?;
        self.shown = Some(next);
        Ok(())
    }

    /// Writes what is no part of the picture, such as the bell.
    pub(super) fn say(&mut self, sequence: &str) -> Result<()> {
        self.out.write_all(sequence.as_bytes()).map_err(failed)
    }

    /// Draws everything anew next time.
    pub(super) fn forget(&mut self) {
        self.shown = None;
    }

    /// Waits that long at most for a key, a signal, or a byte on `wake`.
    pub(super) fn wait(&mut self, longest: Duration, mut wake: &UnixStream) -> Result<Wake> {
        let is_open = self.keys.is_escape_open();
        let longest = if is_open { ESCAPE } else { longest };
        let timeout = Timespec::try_from(longest).ok();
        let input = stdin();
        let fds = [&self.signals.end, &self.signals.redraw, wake];
        let mut events: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).into();
        let modes = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // Standard input that is no terminal has no keys.
        if modes.as_ref().is_some_and(|before| before.modes.is_some()) {
            events.push(PollFd::new(&input, PollFlags::IN));
        }
        drop(modes);
        match poll(&mut events, timeout.as_ref()) {
            Ok(0) if is_open => return Ok(Wake::Keys(self.keys.close_escape())),
            Ok(0) => return Ok(Wake::Time),
            // The signal's own byte is read in the next round.
            Err(Errno::INTR) => return Ok(Wake::Time),
            Err(error) => return Err(failed(error.into())),
            Ok(_) => {}
        }
        let ready: Vec<_> = { events.iter() }
            .map(|event| !event.revents().is_empty())
            .collect();
        let mut bytes = [0; 4096];
        if ready[0] {
            return Ok(Wake::Ended);
        }
        if ready[1] {
            while (&self.signals.redraw)
                .read(&mut bytes)
                .is_ok_and(|count| count > 0)
            {}
            return Ok(Wake::Redraw);
        }
        if ready.get(3).is_some_and(|ready| *ready) {
            return Ok(match rustix::io::read(stdin(), &mut bytes) {
                Err(Errno::INTR) => Wake::Time,
                // The terminal is gone.
                Ok(0) | Err(_) => Wake::Ended,
                Ok(count) => Wake::Keys(self.keys.read(&bytes[..count])),
            });
        }
        // The bytes only say that there is something to fetch.
        let _ = wake.read(&mut bytes);
        Ok(Wake::News)
    }

    /// Stops the job as Ctrl-Z does elsewhere, and takes the terminal again when it goes on.
    pub(super) fn stop(&mut self) -> Result<()> {
        give_back();
        // The whole group, as the terminal does it: our parent may be `git`, which waits for us.
        let _ = kill_current_process_group(Signal::TSTP);
        let timeout = Timespec::try_from(STOP).ok();
        // The stop may come after the call has returned; going on is told by SIGCONT.
        let mut event = [PollFd::new(&self.signals.redraw, PollFlags::IN)];
        let _ = poll(&mut event, timeout.as_ref());
        self.enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// A panic ends the program without unwinding, and its message belongs on the usual screen.
fn give_back_on_panic() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        hook(panic);
    }));
}

/// Gives the terminal back, once; nothing where it is not taken.
fn give_back() {
    let before = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Before { modes, mut out }) = before {
        // There is nothing left to report a failure on.
        let _ = out.write_all(LEAVE.as_bytes());
        if let Some(modes) = modes {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("could not draw on the terminal", error)
}

/// Why the waiting is over.
pub(super) enum Wake {
    /// The time is up.
    Time,
    /// Keys were pressed, all that came at once.
    Keys(Vec<Key>),
    /// Something was written to the stream.
    News,
    /// The terminal may have another size, or shows something else.
    Redraw,
    /// Another process ends this one, or the terminal is gone.
    Ended,
}

/// Signals that arrive as bytes, so that one can wait for them.
struct Signals {
    end: UnixStream,
    redraw: UnixStream,
}

impl Signals {
    fn register() -> std::io::Result<Signals> {
        let end = arriving(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        let redraw = arriving(&[SIGWINCH, SIGCONT])?;
        redraw.set_nonblocking(true)?;
        Ok(Signals { end, redraw })
    }
}

/// A stream on which each of those signals arrives as a byte.
fn arriving(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (stream, arrived) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(*signal, arrived.try_clone()?)?;
    }
    Ok(stream)
}

/// An interrupt that ends a command in good order, such as Ctrl-C.
pub(super) struct Interrupt(UnixStream);

impl Interrupt {
    /// From now on interrupts are waited for. A hangup is none: what `nohup` started goes on.
    pub(super) fn register() -> Result<Interrupt> {
        let stream = arriving(&[SIGINT, SIGTERM]);
        let stream = stream.map_err(|error| Error::io("could not wait for an interrupt", error));
        Ok(Interrupt(stream?))
    }

    /// Whether one came before so much time was over.
    pub(super) fn comes_within(&self, longest: Duration) -> bool {
        let timeout = Timespec::try_from(longest).ok();
        let mut event = [PollFd::new(&self.0, PollFlags::IN)];
        // A signal that is none of ours, such as SIGCONT, only makes a round short.
        matches!(poll(&mut event, timeout.as_ref()), Ok(1..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_gives_the_terminal_back_before_it_speaks() {
        let (mut screen, out) = UnixStream::pair().expect("a pair");
        let out = File::from(std::os::fd::OwnedFd::from(out));
        *TAKEN.lock().expect("the lock") = Some(Before { modes: None, out });
        give_back_on_panic();
        let panicked = std::thread::spawn(|| panic!("drawn wrongly")).join();
        assert!(panicked.is_err());
        // The other end is closed with what was taken, so that this ends.
        let mut said = String::new();
        screen.read_to_string(&mut said).expect("read");
        assert_eq!(said, LEAVE);
        assert!(TAKEN.lock().expect("the lock").is_none());
    }
}
