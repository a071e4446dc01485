//! Terminals on the other side of which is the test.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;

/// A terminal of so many rows and columns: the test's side of it, and the side of the program.
pub fn terminal(rows: u16, columns: u16) -> (File, File) {
    let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&outside).expect("granted");
    unlockpt(&outside).expect("unlocked");
    let name = ptsname(&outside, Vec::new()).expect("named");
    let name = name.into_string().expect("UTF-8");
    let inside = File::options().read(true).write(true).open(name);
    tcsetwinsize(&outside, size(rows, columns)).expect("sized");
    (outside.into(), inside.expect("a terminal"))
}

pub fn size(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}
