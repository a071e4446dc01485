//! Terminals on the other side of which is the test.

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::Read;

/// A terminal of so many rows and columns: the test's side of it, and the side of the program.
pub fn terminal(rows: u16, columns: u16) -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outside = openpt(flags).expect("a terminal");
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

/// Reads what is written to a terminal, until it is this, or until no process has the terminal open.
pub fn read(outside: &mut File, until: Option<&str>) -> String {
    let (mut seen, mut buffer) = (String::new(), [0; 4096]);
    while until.is_none_or(|text| !seen.contains(text)) {
        match outside.read(&mut buffer) {
            // The end of a terminal is an error on Linux.
            Ok(0) | Err(_) => break,
            Ok(count) => seen.push_str(&String::from_utf8_lossy(&buffer[..count])),
        }
    }
    seen
}
