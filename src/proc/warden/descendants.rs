//! Every process below one, however far it moved away from its parent.

use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open, pidfd_send_signal,
};
use std::collections::HashMap;
use std::fs;
use std::io;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: i32,
    /// In clock ticks since the machine started.
    start: u64,
}

/// Signals every descendant of `root` that is there now. Where the kernel does not list processes, it is the
/// group of `main`.
pub(super) fn signal(root: Pid, main: Pid, signal: Signal) {
    match below(root) {
        Ok(descendants) => descendants.iter().for_each(|one| one.signal(signal)),
        Err(_) => drop(kill_process_group(main, signal)),
    }
}

fn below(root: Pid) -> io::Result<Vec<Process>> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok());
        if let Some(process) = pid.and_then(Pid::from_raw).and_then(Process::read) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        let own = children.remove(&pid).unwrap_or_default();
        open.extend(own.iter().map(|child| child.pid.as_raw_nonzero().get()));
        found.extend(own);
    }
    Ok(found)
}

impl Process {
    /// `None` for one that is gone, or dead and only waiting to be noticed.
    fn read(pid: Pid) -> Option<Process> {
        let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let (state, parent, start) = parse(&text)?;
        (!matches!(state, b'Z' | b'X')).then_some(Process { pid, parent, start })
    }

    /// The handle is made first and the process looked at through its number after, so what is signalled is
    /// what was meant.
    fn signal(&self, signal: Signal) {
        let handle = pidfd_open(self.pid, PidfdFlags::empty());
        if Process::read(self.pid).is_none_or(|now| now.start != self.start) {
            return;
        }
        // One that has ended meanwhile needs no signal, and before Linux 5.3 there are no handles.
        let _ = match handle {
            Ok(handle) => pidfd_send_signal(handle, signal),
            Err(_) => kill_process(self.pid, signal),
        };
    }
}

/// State, parent and start time of proc_pid_stat(5). The name before them may hold anything, parentheses
/// too.
fn parse(stat: &[u8]) -> Option<(u8, i32, u64)> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let start = fields.nth(17)?.parse().ok()?;
    Some((state, parent, start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_parentheses_do_not_shift_the_fields() {
        let stat = b"7 (a) R 1 (b) S 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 98765 1 2 3\n";
        assert_eq!(parse(stat), Some((b'S', 42, 98765)));
        assert_eq!(parse(b"7 (sh) S 42"), None);
        assert_eq!(parse(b""), None);
    }

    #[test]
    fn this_process_is_below_its_parent() {
        let parent = rustix::process::getppid().expect("a parent");
        let own = rustix::process::getpid();
        let found = below(parent).expect("/proc");
        assert!(found.iter().any(|process| process.pid == own));
    }
}
