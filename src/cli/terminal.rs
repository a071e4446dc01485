//! What there is to know about the terminal that we write to, and the few styles of our texts.

use anstyle::{AnsiColor, Style};
use rustix::stdio::{stderr, stdout};
use rustix::termios::{isatty, tcgetwinsize};
use std::os::fd::BorrowedFd;

/// How many characters fit into a line: the terminal's width, and on anything else no limit.
pub(super) fn width() -> usize {
    size(stdout()).map_or(usize::MAX, |(columns, _)| columns.max(40))
}

/// How many characters fit into a line of standard error, which is a terminal.
pub(super) fn narration_width() -> usize {
    size(stderr()).map_or(80, |(columns, _)| columns.max(20))
}

/// The columns and rows of a terminal; `None` where it does not say.
pub(super) fn size(stream: BorrowedFd<'_>) -> Option<(usize, usize)> {
    let size = tcgetwinsize(stream).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Whether the answer is read by a person as it is written.
pub(super) fn is_terminal() -> bool {
    isatty(stdout())
}

// The few styles of our texts. The stream decides whether they are shown.

pub(super) const PLAIN: Style = Style::new();
pub(super) const BOLD: Style = Style::new().bold();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const WARN: Style = AnsiColor::Yellow.on_default();
pub(super) const HINT: Style = AnsiColor::Cyan.on_default();

/// The text in a style.
pub(super) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
