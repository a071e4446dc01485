//! The terminal while something is kept on it: the alternate screen, without echo, until the user has had
//! enough. Whatever ends us short of KILL gives the terminal back as it was.

use super::ui::Ui;
use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The alternate screen, and no cursor.
const TAKE: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const REST_OF_LINE: &str = "\x1b[K";
const REST_OF_SCREEN: &str = "\x1b[J";

/// A terminal that was taken.
pub(super) struct Screen {
    before: Option<Termios>,
    alarm: Alarm,
}

impl Screen {
    /// Whether standard output is a terminal.
    pub(super) fn is_there() -> bool {
        isatty(stdout())
    }

    /// Takes the terminal.
    pub(super) fn take(ui: &mut Ui) -> Result<Screen> {
        let alarm = Alarm::set()?;
        let before = tcgetattr(stdin()).ok();
        if let Some(before) = &before {
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // A stopped program would leave the shell on the wrong screen.
            modes.special_codes[SpecialCodeIndex::VSUSP] = 0;
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
        let screen = Screen { before, alarm };
        ui.control(TAKE)?;
        Ok(screen)
    }

    /// Shows a text from the top of the screen, without flicker.
    pub(super) fn draw(&self, ui: &mut Ui, text: &str) -> Result<()> {
        ui.control(HOME)?;
        for line in text.lines() {
            ui.print(line)?;
            ui.control(&format!("{REST_OF_LINE}\r\n"))?;
        }
        ui.control(REST_OF_SCREEN)
    }

    /// Waits until it is time to look again, or something happens.
    pub(super) fn wait(&self, interval: Duration) -> Result<Wake> {
        self.alarm.wait(interval, self.before.is_some())
    }

    /// Gives the terminal back.
    pub(super) fn leave(self, ui: &mut Ui) -> Result<()> {
        ui.control(LEAVE)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
    }
}

// What ends the waiting: time, a signal, a key.

/// Why the waiting is over.
pub(super) enum Wake {
    /// It is time to look again.
    Time,
    /// The terminal may have another size.
    Resized,
    /// The user interrupted, or another process ends this one.
    Ended,
}

/// Signals that arrive as bytes from now on, so that one can wait for them.
struct Alarm {
    end: UnixStream,
    resize: UnixStream,
}

impl Alarm {
    fn set() -> Result<Alarm> {
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
    fn wait(&self, interval: Duration, keys: bool) -> Result<Wake> {
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
