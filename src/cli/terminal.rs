//! What there is to know about the terminal that we write to.

use rustix::stdio::{stderr, stdout};
use rustix::termios::{isatty, tcgetwinsize};

/// How many characters fit into a line: the terminal's width, and on anything else no limit.
pub(super) fn width() -> usize {
    tcgetwinsize(stdout()).map_or(usize::MAX, |size| usize::from(size.ws_col).max(40))
}

/// How many characters fit into a line of standard error, which is a terminal.
pub(super) fn narration_width() -> usize {
    let columns = tcgetwinsize(stderr()).map_or(0, |size| usize::from(size.ws_col));
    // Some terminals do not say.
    if columns == 0 { 80 } else { columns.max(20) }
}

/// How many lines the terminal shows; on anything else no limit.
pub(super) fn height() -> usize {
    tcgetwinsize(stdout()).map_or(usize::MAX, |size| usize::from(size.ws_row))
}

/// Whether the answer is read by a person as it is written.
pub(super) fn is_terminal() -> bool {
    isatty(stdout())
}

/// Whether people look at both of our streams.
pub(super) fn is_watched() -> bool {
    isatty(stdout()) && isatty(stderr())
}
