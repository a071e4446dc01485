//! The list that ps(1) writes.

use super::Process;
use rustix::process::Pid;

/// Reads lines of number, parent, state and start time. One that is dead and only waiting to be noticed is left out.
pub(super) fn parse(list: &[u8]) -> Vec<Process> {
    let list = String::from_utf8_lossy(list);
    list.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<Process> {
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
    fn a_list_is_read_without_the_dead() {
        let list = b"    1     0 Ss   Sun Nov 22 05:02:32 2026\n  42     1 Z+   Sun Nov 22 05:02:33 2026\nrubbish\n";
        let found = parse(list);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].pid, Pid::INIT);
        assert_eq!(found[0].parent, 0);
        assert_eq!(found[0].start, "Sun Nov 22 05:02:32 2026");
    }
}
