//! What every system does in its own way, one file for each: all that only Linux has is in [`linux`], and what the
//! others have in its place in `elsewhere`. Both have the same items; nothing above asks which system it is on.
//!
//! The fence alone stands elsewhere, beside what starts it (`proc::sandbox`).

#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
mod usage;

#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::*;
#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(target_os = "linux")]
pub(crate) use usage::usage_below;

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, openat};
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

/// A directory that is no link.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a directory below another one through no link, one name at a time.
fn open_directory_by_steps(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let mut names = path.split(|&byte| byte == b'/');
    let first = openat(root, names.next().unwrap_or_default(), DIRECTORY, Mode::empty());
    names.try_fold(first?, |directory, name| openat(&directory, name, DIRECTORY, Mode::empty()))
}

/// The processes that may hold lock files of a repository.
pub(crate) struct Holders {
    /// Which process has a file open, by the file's device and number.
    open: HashMap<(u64, u64), i32>,
    /// A git that is at work in the repository, which may hold a lock that it has closed.
    at_work: Option<i32>,
    /// A git of each other user of which cannot be seen where it is at work.
    hidden: HashMap<u32, i32>,
}

impl Holders {
    /// The process that may hold this file. A file belongs to the user whose process made it.
    pub(crate) fn of(&self, file: &Metadata) -> Option<i32> {
        let open = self.open.get(&(file.dev(), file.ino())).copied();
        // What is seen to have the file open comes before what may have it.
        open.or(self.at_work).or_else(|| self.hidden.get(&file.uid()).copied())
    }
}

/// Among which processes the one behind a fence that holds a lock is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HolderSearch {
    /// The one that took it.
    Taker,
    /// Those that can be seen to have it, where the one that took it is gone.
    Seen,
    /// Those that let nothing be seen of themselves, too: no process of ours is gone while a lock that is worth waiting for is held.
    Hidden,
}

/// A process behind a fence that holds an OS lock on a file. It can only read the file, and that is enough for a lock (flock(2)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FencedHolder {
    /// Its number.
    pub(crate) pid: i32,
    /// Its program's name, as far as the system keeps it.
    pub(crate) name: String,
    /// The supervisors of ours that it is below, the nearest first.
    supervisors: Vec<Process>,
}

impl FencedHolder {
    /// Has the supervisor with that number end its command, the nearest where there are fewer; `false` where there is none.
    pub(crate) fn end_run(&self, number: usize) -> bool {
        let supervisor = self.supervisors.get(number).or(self.supervisors.first());
        supervisor.inspect(|one| one.signal(LOCK_HELD));
        supervisor.is_some()
    }
}

/// What tells a supervisor that its command holds a lock that others wait for. What is no supervisor, or one of an earlier version,
/// ignores it.
pub(crate) const LOCK_HELD: Signal = Signal::URG;

/// What a tree of processes takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeUsage {
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// Processes and threads.
    pub(crate) tasks: u64,
}

/// What a child may take.
pub(crate) struct ResourceLimits {
    /// Bytes of memory that is its own.
    pub(crate) memory: u64,
    /// Seconds of processor time.
    pub(crate) seconds: u64,
}

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: i32,
    /// When it began, as the system writes it.
    start: String,
}

impl Process {
    /// The process as one line of text, for [`Process::parse`].
    pub(crate) fn to_line(&self) -> String {
        format!("{} {}", self.pid.as_raw_nonzero(), self.start)
    }

    /// Reads that line back. Who its parent is, it does not say.
    pub(crate) fn parse(line: &str) -> Option<Process> {
        let (pid, start) = line.split_once(' ')?;
        Some(Process { pid: Pid::from_raw(pid.parse().ok()?)?, parent: 0, start: start.to_owned() })
    }

    /// Whether both are one process. Its parent may have ended meanwhile.
    fn is_same(&self, other: &Process) -> bool {
        (self.pid, &self.start) == (other.pid, &other.start)
    }
}

/// A process that stands in a directory or below it.
#[derive(Clone, Debug)]
pub(crate) struct Occupant {
    /// Its number.
    pub(crate) pid: i32,
    /// Its program's name, as far as the system keeps it.
    pub(crate) name: String,
    /// Whether it is this process, or one of those that started it.
    pub(crate) is_ancestor: bool,
    /// Whether it is in this process's group, as the other parts of a pipe are.
    pub(crate) shares_group: bool,
    /// Whether it leads the session of a terminal, as a person's shell does; what that starts is a process of its own.
    pub(crate) leads_terminal: bool,
    /// Whether it is a command of this program, which takes locks for what it does, or a git that one started.
    pub(crate) is_of_git_agent: bool,
    /// It and those that started it.
    line: Vec<Process>,
}

impl Occupant {
    /// Whether it is a process, or was started by it, directly or not.
    pub(crate) fn is_at_or_below(&self, process: &Process) -> bool {
        self.line.iter().any(|one| one.is_same(process))
    }
}

/// Has all that the file system of a file has to write written.
pub(crate) fn sync_file_system(file: &std::fs::File) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::fs::syncfs(file)?;
    #[cfg(not(target_os = "linux"))]
    file.sync_all()?;
    Ok(())
}

/// Whether a file was written less long ago than this.
pub(crate) fn is_younger(file: &Path, age: Duration) -> bool {
    let written = fs::metadata(file).and_then(|file| file.modified());
    // A time that lies ahead is that of a clock that was set back.
    let elapsed = written.ok().and_then(|time| time.elapsed().ok());
    elapsed.is_some_and(|elapsed| elapsed < age)
}

/// Reads the list that ps(1) writes: lines of number, parent, state and start time. One that is dead and only waiting to be noticed is left out.
#[cfg(any(test, not(target_os = "linux")))]
fn parse_ps(list: &[u8]) -> Vec<Process> {
    let list = String::from_utf8_lossy(list);
    list.lines().filter_map(ps_line).collect()
}

#[cfg(any(test, not(target_os = "linux")))]
fn ps_line(line: &str) -> Option<Process> {
    let mut fields = line.split_ascii_whitespace();
    let pid = Pid::from_raw(fields.next()?.parse().ok()?)?;
    let parent = fields.next()?.parse().ok()?;
    let state = fields.next()?;
    let start = fields.collect::<Vec<_>>().join(" ");
    (!state.starts_with('Z')).then_some(Process { pid, parent, start })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_back_from_its_line() {
        let all = Process::all().expect("a list of processes");
        let own =
            all.iter().find(|one| one.pid == rustix::process::getpid()).expect("this process");
        let read = Process::parse(&own.to_line()).expect("a process");
        assert!(read.is_same(own) && read.is_there());
        let other = Process::parse(&format!("{}0", own.to_line())).expect("a process");
        assert!(!other.is_same(own) && !other.is_there());
        assert_eq!(Process::parse("none"), None);
    }

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

    #[test]
    fn a_list_is_read_without_the_dead() {
        let list = b"    1     0 Ss   Sun Nov 22 05:02:32 2026\n  42     1 Z+   Sun Nov 22 05:02:33 2026\nrubbish\n";
        let found = parse_ps(list);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, Pid::INIT);
        assert_eq!(found[0].parent, 0);
        assert_eq!(found[0].start, "Sun Nov 22 05:02:32 2026");
    }
}
