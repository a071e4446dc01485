//! What there is to know about the terminal that we write to, and the few styles of our texts.

use anstyle::{AnsiColor, Style};
use rustix::stdio::{stderr, stdout};
use rustix::termios::{isatty, tcgetwinsize};
use std::os::fd::BorrowedFd;

/// How many characters fit into a line: the terminal's width, and on anything else no limit.
pub(in crate::cli) fn width() -> usize {
    size(stdout()).map_or(usize::MAX, |(columns, _)| columns.max(40))
}

/// How many characters fit into a line of standard error, which is a terminal.
pub(in crate::cli) fn narration_width() -> usize {
    size(stderr()).map_or(80, |(columns, _)| columns.max(20))
}

/// The columns and rows of a terminal; `None` where it does not say.
pub(in crate::cli) fn size(stream: BorrowedFd<'_>) -> Option<(usize, usize)> {
    let size = tcgetwinsize(stream).ok()?;
    let is_known = size.ws_col > 0 && size.ws_row > 0;
    is_known.then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Whether the answer is read by a person as it is written.
pub(in crate::cli) fn is_terminal() -> bool {
    isatty(stdout())
}

// The few styles of our texts. The stream decides whether they are shown.

pub(in crate::cli) const PLAIN: Style = Style::new();
pub(in crate::cli) const BOLD: Style = Style::new().bold();
pub(in crate::cli) const DIM: Style = Style::new().dimmed();
pub(in crate::cli) const GOOD: Style = AnsiColor::Green.on_default();
pub(in crate::cli) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(in crate::cli) const WARN: Style = AnsiColor::Yellow.on_default();
pub(in crate::cli) const HINT: Style = AnsiColor::Cyan.on_default();

/// The text in a style.
pub(in crate::cli) fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}
