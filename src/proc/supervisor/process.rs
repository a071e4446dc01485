//! Processes as the kernel lists them.

use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use std::fs;
use std::io;
use std::path::PathBuf;

/// A process that cannot be mistaken for a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) parent: i32,
    /// In clock ticks since the machine started.
    start: u64,
}

impl Process {
    /// Every process there is now.
    pub(super) fn all() -> io::Result<Vec<Process>> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let pid = name.to_str().and_then(|name| name.parse().ok());
            found.extend(pid.and_then(Pid::from_raw).and_then(Process::read));
        }
        Ok(found)
    }

    /// What the kernel says of it under this name.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{name}", self.pid.as_raw_nonzero()))
    }

    /// `None` for one that is gone, or dead and only waiting to be noticed.
    fn read(pid: Pid) -> Option<Process> {
        let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        let (state, parent, start) = parse(&text)?;
        (!matches!(state, b'Z' | b'X')).then_some(Process { pid, parent, start })
    }

    /// The handle is made first and the process looked at through its number after, so what is signalled is
    /// what was meant.
    pub(super) fn signal(&self, signal: Signal) {
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
}
