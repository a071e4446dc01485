//! What every system does in its own way, one file for each: all that only Linux has is in [`linux`], and what the
//! others have in its place in `elsewhere`. Both have the same items; nothing above asks which system it is on.
//!
//! The fence alone stands elsewhere, beside what starts it (`proc::sandbox`).

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod ps;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;

use rustix::process::Pid;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    /// When it began, as the system writes it.
    start: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_among_all_and_alive() {
        let own = rustix::process::getpid();
        let all = Process::all().expect("a list of processes");
        assert!(all.iter().any(|process| process.pid == own));
        assert!(is_alive(own));
    }

    #[test]
    fn a_blank_file_is_read_and_written() {
        use std::os::unix::fs::FileExt;
        let file = blank_file().expect("a file");
        file.write_all_at(b"text", 0).expect("written");
        assert_eq!(file.metadata().expect("there").len(), 4);
    }
}
