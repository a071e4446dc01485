//! Who holds a lock of ours, where a command behind a fence does.

use super::{Process, line_of};
use crate::system::{FencedHolder, HolderSearch};
use rustix::process::{Pid, getpid, getuid};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

impl FencedHolder {
    /// The one that holds a lock on a file; `None` where no process does, or one that is behind no fence. In a fence of mounts our files are
    /// not seen, so this is for those without.
    ///
    /// proc_locks(5) names the process that took the lock, which may have handed it to a child and be gone; then every process is asked. One
    /// that hides itself (prctl(2): PR_SET_DUMPABLE) in a run without namespaces is suspected then, where it is looked for.
    pub(crate) fn of(file: &File, search: HolderSearch) -> Option<FencedHolder> {
        let metadata = file.metadata().ok()?;
        let file = (metadata.dev(), metadata.ino());
        let locks = held_locks()?;
        let takers: Vec<Process> = locks
            .lines()
            .filter_map(|line| taker(line, file.1))
            .filter_map(Process::read)
            .collect();
        let is_taker = !takers.is_empty();
        let mut fenced = if is_taker || search == HolderSearch::Taker {
            takers
        } else {
            Process::all().unwrap_or_default()
        };
        // Compared with our own: this process may itself run in a container with a filter.
        let own = Restrictions::of(getpid());
        fenced.retain(|one| Restrictions::of(one.pid).filters > own.filters);
        let seen = |one: &&Process| one.holds_by_reading(file).unwrap_or(is_taker);
        let hidden = |one: &&Process| {
            search == HolderSearch::Hidden
                && one.holds_by_reading(file).is_none()
                && Restrictions::of(one.pid).namespaces == own.namespaces
                && one.users().contains(&getuid().as_raw())
                && line_of(one.pid).iter().any(Process::is_supervisor)
        };
        let holder = fenced.iter().find(seen).or(fenced.iter().find(hidden))?;
        let name = fs::read(holder.file("comm")).unwrap_or_default();
        let line = line_of(holder.pid).into_iter();
        Some(FencedHolder {
            pid: holder.pid.as_raw_nonzero().get(),
            name: String::from_utf8_lossy(&name).trim_end().to_owned(),
            supervisors: line.filter(Process::is_supervisor).collect(),
        })
    }
}

/// So long a list of locks serves. The kernel stops all that lock and unlock anywhere while it makes one, and takes milliseconds;
/// a `list` asks about each agent at work. What has to be seen twice to count is looked for at longer intervals.
const LIST_SERVES: Duration = Duration::from_millis(20);

/// The text of proc_locks(5).
fn held_locks() -> Option<Arc<str>> {
    static LAST: Mutex<Option<(Instant, Arc<str>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, list)) = last.as_ref().filter(|(read, _)| read.elapsed() < LIST_SERVES) {
        return Some(Arc::clone(list));
    }
    let list: Arc<str> = fs::read_to_string("/proc/locks").ok()?.into();
    *last = Some((Instant::now(), Arc::clone(&list)));
    Some(list)
}

/// The process that took a lock of flock(2), by a line of proc_locks(5) about the file with that number.
fn taker(line: &str, number: u64) -> Option<Pid> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [_, "FLOCK", _, _, pid, place, ..] = words[..] else {
        // Those that wait have an arrow before the word.
        return None;
    };
    // By the file's number alone, as the device is written in another form on some file systems.
    let is_meant = place.rsplit(':').next() == Some(&number.to_string());
    is_meant.then(|| Pid::from_raw(pid.parse().ok()?)).flatten()
}

/// What binds a process for good.
struct Restrictions {
    /// How many filters of system calls it has: a fence adds one.
    filters: u32,
    /// In how many namespaces of processes it has a number.
    namespaces: usize,
}

impl Restrictions {
    fn of(pid: Pid) -> Restrictions {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero()));
        let status = status.unwrap_or_default();
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let value = |name: &str| line(name)?.trim().parse().ok();
        // Before Linux 5.9 it is only known whether there is one.
        let filters = value("Seccomp_filters:").or_else(|| Some(value("Seccomp:")? / 2));
        Restrictions {
            filters: filters.unwrap_or(0),
            namespaces: line("NSpid:").map_or(1, |numbers| numbers.split_whitespace().count()),
        }
    }
}

impl Process {
    /// The process of this number if it has that file open. The files of another user's process cannot be seen.
    pub(crate) fn holding(pid: u32, file: &Path) -> Option<Process> {
        let process = Process::read(Pid::from_raw(i32::try_from(pid).ok()?)?)?;
        let file = fs::metadata(file).ok()?;
        let mut open = fs::read_dir(process.file("fd")).ok()?.flatten();
        let is_it = |found: fs::Metadata| (found.dev(), found.ino()) == (file.dev(), file.ino());
        open.any(|one| fs::metadata(one.path()).is_ok_and(is_it)).then_some(process)
    }

    /// Whether it has a lock on the file through a descriptor that only reads it. Our own commands open their locks for writing, which no
    /// fence allows. `None` for one that lets nothing be seen of itself, as the first process of a run in namespaces.
    fn holds_by_reading(&self, file: (u64, u64)) -> Option<bool> {
        let open = fs::read_dir(self.file("fd")).ok()?;
        let mut open = open.flatten().filter(|one| {
            let found = fs::metadata(one.path());
            found.is_ok_and(|found| (found.dev(), found.ino()) == file)
        });
        Some(open.any(|one| {
            let told = self.file("fdinfo").join(one.file_name());
            let told = fs::read_to_string(told).unwrap_or_default();
            let flags = told.lines().find_map(|line| line.strip_prefix("flags:"));
            let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
            let only_reads = flags.is_some_and(|flags| flags & 3 == 0);
            only_reads && told.lines().any(|line| line.starts_with("lock:"))
        }))
    }

    /// Whether it is a supervisor of this program's.
    fn is_supervisor(&self) -> bool {
        let line = self.words("cmdline");
        let mut words = line.split(|&byte| byte == 0).skip(1);
        let is_verb = words.next() == Some(b"supervisor");
        is_verb && words.next().is_some_and(|word| word.starts_with(b"--parent="))
    }
}
