//! Systems without the interfaces of Linux, macOS first of all: ps(1), lsof(8), sysctl(8) and what POSIX has.
//!
//! What they lack is made up for as far as it can be: a supervisor asks who its parent is, for none is told; and a
//! process that leaves its parent below a supervisor goes to process 1, so that only its group or its environment
//! still tells whose it was.

use super::{
    FencedHolder, HolderSearch, Holders, Occupant, Process, ResourceLimits,
    open_directory_by_steps, parse_ps,
};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType};
use rustix::process::{Pid, Signal, getpid, getppid, kill_process, test_kill_process};
use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often a supervisor asks who its parent is.
const LOOK: Duration = Duration::from_millis(200);

/// What processes take is not told in a way that is cheap enough to ask several times a second.
pub(crate) fn usage_below(_root: Pid, _exact: bool) -> io::Result<super::TreeUsage> {
    Err(io::ErrorKind::Unsupported.into())
}

impl Occupant {
    /// Every process that stands in a directory or below it: not told, because asking takes seconds.
    pub(crate) fn all_inside(_directory: &Path) -> Vec<Occupant> {
        Vec::new()
    }
}

/// What a program of the system writes.
fn ask(program: &str, arguments: &[&[u8]]) -> io::Result<Vec<u8>> {
    let mut command = Command::new(program);
    // The start of a process is compared as text, which must not depend on who asks.
    command.env("LC_ALL", "C").env("TZ", "UTC");
    for argument in arguments {
        command.arg(std::ffi::OsStr::from_bytes(argument));
    }
    Ok(command.output()?.stdout)
}

impl Process {
    /// Every process there is now.
    ///
    /// # Errors
    /// That there is no ps(1).
    pub(crate) fn all() -> io::Result<Vec<Process>> {
        let columns: [&[u8]; 9] =
            [b"-A", b"-o", b"pid=", b"-o", b"ppid=", b"-o", b"stat=", b"-o", b"lstart="];
        Ok(parse_ps(&ask("ps", &columns)?))
    }

    /// Every process whose standard input is that file.
    ///
    /// # Errors
    /// That there is no ps(1) or no lsof(8).
    pub(crate) fn reading(file: &Path) -> io::Result<Vec<Process>> {
        let path = file.as_os_str().as_bytes();
        let pids = ask("lsof", &[b"-t", b"-a", b"-d", b"0", b"--", path])?;
        let pids = String::from_utf8_lossy(&pids);
        let mut all = Process::all()?;
        all.retain(|process| {
            let pid = process.pid.as_raw_nonzero().to_string();
            pids.lines().any(|line| line == pid)
        });
        Ok(all)
    }

    /// The process of this number if it has that file open.
    pub(crate) fn holding(pid: u32, file: &Path) -> Option<Process> {
        let (number, path) = (pid.to_string(), file.as_os_str().as_bytes());
        let pids = ask("lsof", &[b"-t", b"-a", b"-p", number.as_bytes(), b"--", path]).ok()?;
        let is_it = String::from_utf8_lossy(&pids).lines().any(|line| line == number);
        let mut all = Process::all().ok()?.into_iter();
        all.find(|process| is_it && process.pid.as_raw_nonzero().to_string() == number)
    }

    /// Whether it was started with this variable, `NAME=value`, as far as the system shows it.
    pub(crate) fn has_variable(&self, variable: &[u8]) -> bool {
        let pid = self.pid.as_raw_nonzero().to_string();
        let shown = ask("ps", &[b"-E", b"-ww", b"-o", b"command=", b"-p", pid.as_bytes()]);
        let shown = shown.unwrap_or_default();
        let mut words = shown.split(u8::is_ascii_whitespace);
        words.any(|word| word == variable)
    }

    /// Whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        Process::all().is_ok_and(|all| all.iter().any(|one| one.is_same(self)))
    }

    /// The process that called this hook, which cannot be told from those that pass the call on.
    pub(crate) fn of_host() -> Option<Process> {
        None
    }

    /// Whether it was started with a variable of this name, as far as the system shows it. Which program it runs is not told.
    pub(crate) fn is_of_agent(&self, name: &[u8], _program: Option<&Path>) -> bool {
        let pid = self.pid.as_raw_nonzero().to_string();
        let shown = ask("ps", &[b"-E", b"-ww", b"-o", b"command=", b"-p", pid.as_bytes()]);
        let shown = shown.unwrap_or_default();
        let mut words = shown.split(u8::is_ascii_whitespace);
        words.any(|word| word.strip_prefix(name).is_some_and(|value| !value.is_empty()))
    }

    /// Sends it a signal, if it is still there.
    pub(crate) fn signal(&self, signal: Signal) {
        // By its number and its start alone: its parent may have obeyed the same signal a moment ago.
        if self.is_there() {
            // One that has ended meanwhile needs no signal.
            let _ = kill_process(self.pid, signal);
        }
    }
}

/// Whether there is a process with that number.
pub(crate) fn is_alive(pid: Pid) -> bool {
    // One that may not be signalled is there.
    !matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH))
}

/// Which start of the machine this is; `None` where the system does not tell.
pub(crate) fn boot_id() -> Option<String> {
    let id = ask("sysctl", &[b"-n", b"kern.bootsessionuuid"]).ok()?;
    let id = String::from_utf8(id).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The signals that this process was told to ignore. No safe interface tells of them here: none.
pub(crate) fn ignored_signals() -> u64 {
    0
}

/// A child of ours, for signals from another thread.
#[derive(Debug)]
pub(crate) struct Handle(Pid);

impl Handle {
    /// Of a child that was not waited for yet, so that the number is still its own.
    ///
    /// # Errors
    /// None here.
    pub(crate) fn of(child: Pid) -> io::Result<Handle> {
        Ok(Handle(child))
    }

    /// Sends it a signal. One that is gone has nothing left to end.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(self.0, signal);
    }
}

/// Nothing adopts here; see above.
///
/// # Errors
/// None here.
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// Has this process get a signal, or none any more, when its parent is gone.
///
/// # Errors
/// That no thread can be started.
pub(crate) fn announce_orphaning(signal: Option<Signal>) -> io::Result<()> {
    static IS_WANTED: AtomicBool = AtomicBool::new(false);
    IS_WANTED.store(signal.is_some(), Ordering::Relaxed);
    let Some(signal) = signal else {
        return Ok(());
    };
    let parent = getppid();
    let look = std::thread::Builder::new().name("parent".into());
    look.spawn(move || {
        while getppid() == parent {
            std::thread::sleep(LOOK);
        }
        if IS_WANTED.load(Ordering::Relaxed) {
            let _ = kill_process(getpid(), signal);
        }
    })
    .map(drop)
}

/// A process that becomes another program cannot arrange for that here: its supervisor ends it.
///
/// # Errors
/// None here.
pub(crate) fn die_with_parent() -> io::Result<()> {
    Ok(())
}

/// An empty file without a name.
///
/// # Errors
/// That `/tmp` takes none.
pub(crate) fn blank_file() -> io::Result<File> {
    let unique = uuid::Uuid::new_v4();
    let path = Path::new("/tmp").join(format!("git-agent-{unique}"));
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    // At once, so that no kill leaves it behind.
    std::fs::remove_file(&path)?;
    Ok(file)
}

/// Opens a directory below another one through no link.
///
/// # Errors
/// Those of openat(2).
pub(crate) fn open_directory(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    open_directory_by_steps(root, path)
}

/// There are no overlays.
pub(crate) fn rename_off_layer(_from: &OwnedFd, _name: &OsStr, _to: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has one file share the blocks of another: not known here.
pub(crate) fn clone_blocks(_to: &File, _from: &File) -> bool {
    false
}

/// Whether [`make_pipe`] can be had.
pub(crate) const HAS_NAMED_PIPES: bool = false;

/// Makes a pipe with a name: not known here.
pub(crate) fn make_pipe(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Word from the kernel that a file was closed: not known here.
pub(crate) enum ClosingWatch {}

impl ClosingWatch {
    /// `None` where the kernel does not tell.
    pub(crate) fn begin(_path: &Path) -> Option<ClosingWatch> {
        None
    }

    /// Never comes to it.
    pub(crate) fn wait(&self, _patience: Duration) {
        match *self {}
    }
}

/// Tells every name in a directory and what it stands for, `.` and `..` among them; `None` as soon as they cannot be read or
/// `on` gives it.
pub(crate) fn each_name(
    directory: &OwnedFd,
    mut on: impl FnMut(&CStr, FileType) -> Option<()>,
) -> Option<()> {
    for entry in Dir::read_from(directory).ok()? {
        let entry = entry.ok()?;
        on(entry.file_name(), entry.file_type())?;
    }
    Some(())
}

impl Holders {
    /// No interface tells of the files of all processes.
    pub(crate) fn look(_places: &[PathBuf]) -> Option<Holders> {
        None
    }
}

impl FencedHolder {
    /// There is no fence here.
    pub(crate) fn of(_file: &File, _search: HolderSearch) -> Option<FencedHolder> {
        None
    }
}

/// A mount in a directory: not known here.
pub(crate) fn mount_below(_directory: &Path) -> Option<PathBuf> {
    None
}

/// Other systems bound no process that runs; what it reads was looked through before.
pub(crate) fn limit(_child: u32, _limits: &ResourceLimits) {}

/// Would let directories lie apart on the disk, which no file system here is told.
pub(crate) fn spread_directories(_directory: &Path) {}
