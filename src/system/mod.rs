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

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::Pid;

/// A directory that is no link.
const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Opens a directory below another one through no link, one name at a time.
fn open_directory_by_steps(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let mut names = path.split(|&byte| byte == b'/');
    let first = openat(
        root,
        names.next().unwrap_or_default(),
        DIRECTORY,
        Mode::empty(),
    );
    names.try_fold(first?, |directory, name| {
        openat(&directory, name, DIRECTORY, Mode::empty())
    })
}

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
    fn a_directory_is_opened_through_no_link() {
        use rustix::fd::AsFd;
        let top = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(top.path().join("a/b")).expect("made");
        std::os::unix::fs::symlink("a", top.path().join("link")).expect("linked");
        std::fs::write(top.path().join("file"), "").expect("written");
        let root = std::fs::File::open(top.path()).expect("opened");
        for open in [open_directory, open_directory_by_steps] {
            let opens = |path: &str| open(root.as_fd(), path.as_bytes()).is_ok();
            for (path, is_one) in [
                (".", true),
                ("a", true),
                ("a/b", true),
                ("a/c", false),
                ("link", false),
                ("link/b", false),
                ("file", false),
                ("file/b", false),
            ] {
                assert_eq!(opens(path), is_one, "{path}");
            }
        }
    }

    #[test]
    fn a_blank_file_is_read_and_written() {
        use std::os::unix::fs::FileExt;
        let file = blank_file().expect("a file");
        file.write_all_at(b"text", 0).expect("written");
        assert_eq!(file.metadata().expect("there").len(), 4);
    }
}
