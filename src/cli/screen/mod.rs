//! The terminal while something is kept on it: the alternate screen, without echo, until the user has had
//! enough. Whatever ends us short of KILL gives the terminal back as it was.

mod alarm;

pub(super) use alarm::Wake;

use super::ui::Ui;
use crate::error::Result;
use alarm::Alarm;
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, isatty, tcgetattr, tcsetattr,
};
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
