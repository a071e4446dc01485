//! Linux: proc(5), pidfd_open(2), prctl(2), inotify(7), openat2(2).

mod lock_holders;

use super::{DIRECTORY, Holders, Occupant, Process, ResourceLimits, open_directory_by_steps};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{CWD, IFlags, RenameFlags, ioctl_getflags, ioctl_setflags, renameat_with};
use rustix::fs::{FileType, MemfdFlags, Mode, RawDir, ResolveFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
    prlimit, set_child_subreaper, set_parent_process_death_signal,
};
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

impl Process {
    /// Every process there is now.
    ///
    /// # Errors
    /// That the kernel does not list them.
    pub(crate) fn all() -> io::Result<Vec<Process>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            found.extend(pid.and_then(Pid::from_raw).and_then(Process::read));
        }
        Ok(found)
    }

    /// Every process whose standard input is that file. The files of another user's process cannot be seen.
    ///
    /// # Errors
    /// That the kernel does not list them, or the file is not there.
    pub(crate) fn reading(file: &Path) -> io::Result<Vec<Process>> {
        let file = fs::metadata(file)?;
        let mut all = Process::all()?;
        all.retain(|process| {
            let input = fs::metadata(process.file("fd/0"));
            input.is_ok_and(|input| (input.dev(), input.ino()) == (file.dev(), file.ino()))
        });
        Ok(all)
    }

    /// Whether it was started with this variable, `NAME=value`. Only its owner may see that.
    pub(crate) fn has_variable(&self, variable: &[u8]) -> bool {
        let environment = fs::read(self.file("environ")).unwrap_or_default();
        let mut variables = environment.split(|&byte| byte == 0);
        variables.any(|one| one == variable)
    }

    /// Whether it was started with a variable of this name, or runs this program. Only its owner may see that.
    pub(crate) fn is_of_agent(&self, name: &[u8], program: Option<&Path>) -> bool {
        let environment = fs::read(self.file("environ")).unwrap_or_default();
        let mut variables = environment.split(|&byte| byte == 0);
        let is_named = |one: &[u8]| one.strip_prefix(name).is_some_and(|value| !value.is_empty());
        let running = fs::metadata(self.file("exe")).ok();
        let ours = program.and_then(|program| fs::metadata(program).ok());
        let is_ours = running.zip(ours).is_some_and(|(running, ours)| {
            (running.dev(), running.ino()) == (ours.dev(), ours.ino())
        });
        variables.any(is_named) || is_ours
    }

    /// Sends it a signal. The handle is made first and the process looked at through its number after, so what is
    /// signalled is what was meant.
    pub(crate) fn signal(&self, signal: Signal) {
        let handle = pidfd_open(self.pid, PidfdFlags::empty());
        // By its number and its start alone: its parent may have obeyed the same signal a moment ago, and
        // it has another one since.
        if !self.is_there() {
            return;
        }
        // One that has ended meanwhile needs no signal, and before Linux 5.3 there are no handles.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            Err(_) => kill_process(self.pid, signal),
        };
    }

    /// Whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        Process::read(self.pid).is_some_and(|now| now.is_same(self))
    }

    /// The process that called this hook: the nearest one above us that lives longer than the call. What only passes the
    /// call on, such as `git agent`, `sh -c "git-agent hook stop"` or a wrapper of a package manager, does not.
    pub(crate) fn of_host() -> Option<Process> {
        let line = line_of(getpid());
        let host = line.into_iter().skip(1).find(|one| {
            let words = fs::read(one.file("cmdline")).unwrap_or_default();
            !passes_on(&String::from_utf8_lossy(&words))
        });
        // The process that adopts orphans did not call.
        host.filter(|host| host.pid != Pid::INIT)
    }

    /// What the kernel says of it under this name.
    fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid.as_raw_nonzero()))
    }

    /// Its program's name; `None` for one that is gone.
    fn name(&self) -> Option<String> {
        let name = fs::read(self.file("comm")).ok()?;
        Some(String::from_utf8_lossy(&name).trim_end().to_owned())
    }

    /// `None` for one that is gone, or dead and only waiting to be noticed.
    fn read(pid: Pid) -> Option<Process> {
        let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let (state, parent, start) = parse(&text)?;
        let start = start.to_owned();
        (!matches!(state, b'Z' | b'X')).then_some(Process { pid, parent, start })
    }
}

/// Whether a command line, its words ended by NUL, only passes a call of a hook on. A shell that does more than that is one that
/// stays.
fn passes_on(words: &str) -> bool {
    let words: Vec<&str> = words.split('\0').collect();
    let program = words.first().and_then(|word| word.rsplit('/').next());
    let is_call = |text: &str| {
        let is_ours = text.contains("git-agent") || text.contains("git agent");
        is_ours && text.contains(" hook ") && !text.contains([';', '&', '\n'])
    };
    match words.get(1..).unwrap_or_default() {
        ["agent", ..] if program == Some("git") => true,
        ["-c", script, ..] => is_call(script),
        _ => is_call(&words.join(" ")),
    }
}

/// A process and those that started it, as far as the kernel tells.
fn line_of(pid: Pid) -> Vec<Process> {
    let mut line = Vec::new();
    let mut next = Some(pid);
    // No chain of processes is as long; numbers are given again, so that a circle can be read.
    while let Some(process) = next.and_then(Process::read).filter(|_| line.len() < 256) {
        next = Pid::from_raw(process.parent);
        line.push(process);
    }
    line
}

impl Occupant {
    /// Every process that stands in a directory or below it. Where another user's processes stand cannot be seen.
    pub(crate) fn all_inside(directory: &Path) -> Vec<Occupant> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let inside = entries.filter_map(|entry| {
            let name = entry.file_name();
            let pid = Pid::from_raw(name.to_str()?.parse().ok()?)?;
            let place = fs::read_link(entry.path().join("cwd")).ok()?;
            place.starts_with(directory).then_some(pid)
        });
        let inside: Vec<Pid> = inside.collect();
        if inside.is_empty() {
            return Vec::new();
        }
        let ours = line_of(getpid());
        inside.into_iter().filter_map(|pid| Occupant::read(pid, &ours)).collect()
    }

    fn read(pid: Pid, ours: &[Process]) -> Option<Occupant> {
        let line = line_of(pid);
        let process = line.first()?;
        let name = process.name()?;
        let [group, session, terminal] = groups(&fs::read(process.file("stat")).ok()?)?;
        let own = pid.as_raw_nonzero().get();
        Some(Occupant {
            is_ancestor: ours.iter().any(|one| one.is_same(process)),
            shares_group: group == rustix::process::getpgrp().as_raw_nonzero().get(),
            leads_terminal: session == own && terminal != 0,
            is_of_git_agent: is_of_git_agent(&line),
            pid: own,
            name,
            line,
        })
    }
}

/// Whether a process, before those that started it, is a command of this program or a git that one started: two trains look at
/// one worktree without being in each other's way.
fn is_of_git_agent(line: &[Process]) -> bool {
    for process in line {
        let name = process.name();
        let words = fs::read(process.file("cmdline")).unwrap_or_default();
        match name.as_deref() {
            Some("git-agent") => return true,
            Some("git") if words.starts_with(b"git\0agent\0") => return true,
            Some("git") => {}
            _ => return false,
        }
    }
    false
}

/// Process group, session and terminal of proc_pid_stat(5).
fn groups(stat: &[u8]) -> Option<[i32; 3]> {
    let mut fields = behind_name(stat)?.split_ascii_whitespace().skip(2);
    let mut next = || fields.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

/// What comes behind the name of proc_pid_stat(5), which may hold anything, parentheses too.
fn behind_name(stat: &[u8]) -> Option<&str> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    std::str::from_utf8(stat.get(end + 1..)?).ok()
}

/// State, parent and start time of proc_pid_stat(5).
fn parse(stat: &[u8]) -> Option<(u8, i32, &str)> {
    let mut fields = behind_name(stat)?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    Some((state, parent, fields.nth(17)?))
}

/// Whether there is a process with that number.
pub(crate) fn is_alive(pid: Pid) -> bool {
    Path::new("/proc").join(pid.as_raw_nonzero().to_string()).exists()
}

/// Which start of the machine this is; `None` where the kernel does not tell.
pub(crate) fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The signals that this process was told to ignore by the process that started it, as a mask whose bit 0 is
/// signal 1.
pub(crate) fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// A child of ours, for signals from another thread.
#[derive(Debug)]
pub(crate) struct Handle(OwnedFd);

impl Handle {
    /// Of a child that was not waited for yet, so that the number is still its own.
    ///
    /// # Errors
    /// Those of pidfd_open(2).
    pub(crate) fn of(child: Pid) -> io::Result<Handle> {
        Ok(Handle(pidfd_open(child, PidfdFlags::empty())?))
    }

    /// Sends it a signal. One that is gone has nothing left to end.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = pidfd_send_signal(&self.0, signal);
    }
}

/// Has this process adopt what loses its parent below it.
///
/// # Errors
/// Those of prctl(2).
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Has this process get a signal, or none any more, when its parent is gone. Asking who the parent is would not do: the signal comes
/// with the end of its first thread.
///
/// # Errors
/// Those of prctl(2).
pub(crate) fn announce_orphaning(signal: Option<Signal>) -> io::Result<()> {
    Ok(set_parent_process_death_signal(signal)?)
}

/// Has this process, and the command that it becomes, die with its parent.
///
/// # Errors
/// Those of prctl(2).
pub(crate) fn die_with_parent() -> io::Result<()> {
    announce_orphaning(Some(Signal::KILL))
}

/// An empty file without a name.
///
/// # Errors
/// Those of memfd_create(2).
pub(crate) fn blank_file() -> io::Result<File> {
    Ok(memfd_create("git-agent", MemfdFlags::CLOEXEC).map(File::from)?)
}

/// Opens a directory below another one through no link.
///
/// # Errors
/// Those of openat(2).
pub(crate) fn open_directory(root: BorrowedFd<'_>, path: &[u8]) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(root, path, DIRECTORY, Mode::empty(), resolve) {
        // A kernel older than 5.6, or a fence that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => open_directory_by_steps(root, path),
        opened => opened,
    }
}

/// Moves a file out of the upper directory of an overlay; a whiteout takes its place in the same step.
pub(crate) fn rename_off_layer(from: &OwnedFd, name: &OsStr, to: &Path) -> io::Result<()> {
    Ok(renameat_with(from, name, CWD, to, RenameFlags::WHITEOUT)?)
}

/// Has one file share the blocks of another; `false` where the file system cannot.
pub(crate) fn clone_blocks(to: &File, from: &File) -> bool {
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// Whether [`make_pipe`] can be had.
pub(crate) const HAS_NAMED_PIPES: bool = true;

/// Makes a pipe with a name, which only this user may use.
///
/// # Errors
/// Those of mkfifoat(2).
pub(crate) fn make_pipe(path: &Path) -> io::Result<()> {
    Ok(rustix::fs::mkfifoat(rustix::fs::CWD, path, Mode::RUSR | Mode::WUSR)?)
}

/// Word from the kernel that a file which was open for writing was closed.
pub(crate) struct ClosingWatch(OwnedFd);

impl ClosingWatch {
    /// `None` where the kernel does not tell.
    pub(crate) fn begin(path: &Path) -> Option<ClosingWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
        inotify::add_watch(&inotify, path, WatchFlags::CLOSE_WRITE).ok()?;
        Some(ClosingWatch(inotify))
    }

    /// Waits until it was closed, for `patience` at most.
    pub(crate) fn wait(&self, patience: Duration) {
        let timeout = Timespec::try_from(patience).unwrap_or_default();
        // An interrupted wait is a short one.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&timeout));
        let mut buffer = [MaybeUninit::uninit(); 1024];
        let mut events = Reader::new(&self.0, &mut buffer);
        // Read empty, or the next wait would end at once because of what has been told already.
        while events.next().is_ok() {}
    }
}

/// Tells every name in a directory and what it stands for, `.` and `..` among them; `None` as soon as they cannot be read or
/// `on` gives it.
pub(crate) fn each_name(
    directory: &OwnedFd,
    mut on: impl FnMut(&CStr, FileType) -> Option<()>,
) -> Option<()> {
    // Of most directories this holds all names, and nothing is allocated.
    let mut buffer = [MaybeUninit::uninit(); 8192];
    let mut entries = RawDir::new(directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.ok()?;
        on(entry.file_name(), entry.file_type())?;
    }
    Some(())
}

/// The longest command line and environment that are looked at, in bytes.
const LONGEST_WORDS: u64 = 1 << 20;

impl Holders {
    /// Looks at every process; a git counts as at work that stands in one of the places or was told of one. One that cannot be looked
    /// at, as another user's, may hold the lock files of its own user. `None` where the kernel lists no processes.
    pub(crate) fn look(places: &[PathBuf]) -> Option<Holders> {
        let mut holders = Holders { open: HashMap::new(), at_work: None, hidden: HashMap::new() };
        let own = getpid();
        for process in Process::all().ok()? {
            if process.pid == own {
                continue;
            }
            let pid = process.pid.as_raw_nonzero().get();
            let open = fs::read_dir(process.file("fd"));
            // One that ends while it is looked at cannot be looked at either, and has let go of everything.
            let is_hidden = open.as_ref().is_err_and(is_refused);
            for file in open.into_iter().flatten().flatten() {
                if let Ok(file) = fs::metadata(file.path()) {
                    holders.open.insert((file.dev(), file.ino()), pid);
                }
            }
            if is_hidden && process.is_git() {
                let users = process.users().into_iter();
                holders.hidden.extend(users.map(|user| (user, pid)));
            } else if !is_hidden && process.is_git() && process.is_about(places) {
                holders.at_work = Some(pid);
            }
        }
        Some(holders)
    }
}

/// Whether the kernel keeps another user's process to itself.
fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

impl Process {
    /// Whether it is a git, and not one that only waits for a program of ours: our locks tell themselves whose they are.
    fn is_git(&self) -> bool {
        let name = fs::read(self.file("comm")).unwrap_or_default();
        let name = name.trim_ascii_end();
        let line = self.words("cmdline");
        let mut words = line.split(|&byte| byte == 0).skip(1);
        let verb = loop {
            match words.next() {
                // Options of git's own that take a word.
                Some(b"-C" | b"-c" | b"--git-dir" | b"--work-tree" | b"--namespace") => {
                    words.next();
                }
                Some(word) if word.starts_with(b"-") => {}
                word => break word,
            }
        };
        let waits = verb == Some(b"agent".as_slice());
        name.starts_with(b"git") && name != b"git-agent" && !waits
    }

    /// The users as which it runs: real, effective, saved, and that of the files that it makes. The owner of its directory does not
    /// tell, which is root for a process that gives nothing of itself away.
    fn users(&self) -> Vec<u32> {
        let status = fs::read_to_string(self.file("status")).unwrap_or_default();
        let numbers = status.split_once("Uid:").map_or("", |(_, rest)| rest);
        let numbers = numbers.split_ascii_whitespace().take(4);
        numbers.filter_map(|number| number.parse().ok()).collect()
    }

    fn is_about(&self, places: &[PathBuf]) -> bool {
        let stands = match fs::read_link(self.file("cwd")) {
            Ok(stands) => stands,
            Err(error) => return is_refused(&error),
        };
        let told = [self.words("cmdline"), self.words("environ")].concat();
        let names = |place: &PathBuf| {
            let place = place.as_os_str().as_bytes();
            told.windows(place.len().max(1)).any(|part| part == place)
        };
        places.iter().any(|place| stands.starts_with(place) || names(place))
    }

    fn words(&self, name: &str) -> Vec<u8> {
        let mut words = Vec::new();
        let file = File::open(self.file(name));
        let _ = file.map(|file| file.take(LONGEST_WORDS).read_to_end(&mut words));
        words
    }
}

/// Lets the directories that will be made in this one lie far apart on the disk, as those of users below `/home` do (`chattr +T`,
/// ext4(5)). A hint, which most other file systems do not know.
pub(crate) fn spread_directories(directory: &Path) {
    let mark =
        |directory: File| ioctl_setflags(&directory, ioctl_getflags(&directory)? | IFlags::TOPDIR);
    let _ = File::open(directory).map(mark);
}

/// A mount in a directory or at it, as the kernel writes its path (proc_pid_mountinfo(5)); `None` where none is, or none is known.
pub(crate) fn mount_below(directory: &Path) -> Option<PathBuf> {
    let mut sought = Vec::new();
    for byte in directory.as_os_str().as_bytes() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => sought.extend(format!("\\{byte:03o}").bytes()),
            _ => sought.push(*byte),
        }
    }
    let listed = fs::read("/proc/self/mountinfo").ok()?;
    let mut places = listed.split(|byte| *byte == b'\n').filter_map(|line| {
        let place = line.split(|byte| *byte == b' ').nth(4)?;
        let rest = place.strip_prefix(sought.as_slice())?;
        (rest.is_empty() || rest.starts_with(b"/")).then_some(place)
    });
    places.next().map(|place| PathBuf::from(OsStr::from_bytes(place)))
}

/// Bounds what a child may take from now on. One that has ended already takes nothing.
pub(crate) fn limit(child: u32, limits: &ResourceLimits) {
    let Some(pid) = i32::try_from(child).ok().and_then(Pid::from_raw) else {
        return;
    };
    for (resource, bound) in [(Resource::Data, limits.memory), (Resource::Cpu, limits.seconds)] {
        let bound = Some(bound);
        let limit = Rlimit { current: bound, maximum: bound };
        // A lower limit that the user has set stays.
        let _ = prlimit(Some(pid), resource, limit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let stat = b"7 (a) R 1 (b) S 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3\n";
        assert_eq!(parse(stat), Some((b'S', 42, "98765")));
        assert_eq!(groups(stat), Some([7, 7, 0]));
        assert_eq!(parse(b"7 (sh) S 42"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn what_only_passes_a_hook_on_is_no_host() {
        let passes = |words: &[&str]| passes_on(&words.join("\0"));
        assert!(passes(&["git", "agent", "hook", "stop"]));
        assert!(passes(&["/bin/sh", "-c", "git-agent hook pre-tool"]));
        assert!(passes(&["sh", "-c", "/opt/bin/git-agent hook stop"]));
        assert!(passes(&["node", "/usr/lib/git-agent.js", "hook", "stop"]));
        assert!(!passes(&["sh", "-c", "git agent hook stop; sleep 9"]));
        assert!(!passes(&["node", "claude"]));
        assert!(!passes(&["bash", "host.sh"]));
        assert!(!passes(&[""]));
    }

    #[test]
    fn a_process_that_lost_its_parent_is_signalled_all_the_same() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("started");
        let pid = i32::try_from(child.id()).expect("a number");
        let seen = Pid::from_raw(pid).and_then(Process::read).expect("there");
        let before = Process { parent: 1, ..seen };
        before.signal(Signal::TERM);
        let until = std::time::Instant::now() + Duration::from_secs(10);
        while child.try_wait().expect("asked").is_none() && std::time::Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(child.try_wait().expect("asked").is_some(), "it was ended");
        // Another process of that number is not meant.
        let other = Process { start: "0".to_owned(), ..before };
        assert!(!other.is_there());
        let _ = child.kill();
    }

    #[test]
    fn a_git_that_this_program_started_is_told_from_a_persons() {
        use std::io::{BufRead, BufReader};
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("there");
        for (program, is_ours) in [("git-agent", true), ("make", false)] {
            let beside = tempfile::tempdir().expect("a directory");
            let [caller, git] = [program, "git"].map(|name| beside.path().join(name));
            for file in [&caller, &git] {
                fs::copy("/bin/sh", file).expect("copied");
            }
            let script = r#""$1" -c 'cd "$0" && echo there && read line' "$2"; true"#;
            let mut child = std::process::Command::new(&caller)
                .args(["-c", script, "sh"])
                .args([&git, &top])
                .stdin(std::process::Stdio::piped())
                .stdout(std::process::Stdio::piped())
                .spawn()
                .expect("started");
            let mut line = String::new();
            let output = child.stdout.take().expect("an output");
            BufReader::new(output).read_line(&mut line).expect("read");
            let found = Occupant::all_inside(&top);
            let seen: Vec<_> =
                found.iter().map(|one| (one.name.as_str(), one.is_of_git_agent)).collect();
            assert_eq!(seen, [("git", is_ours)], "{program}");
            drop(child.stdin.take());
            child.wait().expect("over");
        }
    }

    #[test]
    fn who_stands_in_a_directory_is_found() {
        let top = tempfile::tempdir().expect("a directory");
        let top = top.path().canonicalize().expect("there");
        assert!(Occupant::all_inside(&top).is_empty());
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .current_dir(&top)
            .spawn()
            .expect("started");
        let found = Occupant::all_inside(&top);
        let own = Process::read(getpid()).expect("this process");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].is_at_or_below(&own) && !found[0].is_ancestor);
        assert!(!found[0].leads_terminal && !found[0].is_of_git_agent);
        child.kill().expect("killed");
        child.wait().expect("over");
        assert!(Occupant::all_inside(&top).is_empty());
    }
}
