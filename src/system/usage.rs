//! What a tree of processes takes, by proc(5): asked of the tree alone, because a look at all processes of a machine takes milliseconds.

use super::TreeUsage;
use rustix::process::Pid;
use std::fs;
use std::io;

/// Adds up what is below a process, without it. With `exact`, memory that several share counts once, and files that the kernel can drop do not
/// count, which takes a walk through its tables; else the sum is at least that.
///
/// # Errors
/// That the kernel does not tell.
pub(crate) fn usage_below(root: Pid, exact: bool) -> io::Result<TreeUsage> {
    let mut usage = TreeUsage::default();
    let (_, mut open) = threads_and_children(root.as_raw_nonzero().get())?;
    while let Some(pid) = open.pop() {
        // One that has ended takes nothing; its children, if it had any, are our orphans and are counted at the next look.
        let Ok((threads, children)) = threads_and_children(pid) else {
            continue;
        };
        open.extend(children);
        usage.tasks += threads;
        let exactly = if exact { own_memory(pid) } else { None };
        usage.memory += exactly.unwrap_or_else(|| resident(pid));
    }
    Ok(usage)
}

/// How many threads a process has, and the children of all of them.
fn threads_and_children(pid: i32) -> io::Result<(u64, Vec<i32>)> {
    let (mut threads, mut children) = (0, Vec::new());
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        threads += 1;
        // The kernel lists children by the thread that started them.
        let told = fs::read_to_string(thread?.path().join("children"))?;
        let told = told.split_ascii_whitespace();
        children.extend(told.filter_map(|pid| pid.parse::<i32>().ok()));
    }
    Ok((threads, children))
}

/// Bytes in memory, those of files and those that others have too among them.
fn resident(pid: i32) -> u64 {
    kilobytes(pid, "status", &["VmRSS:"]).unwrap_or(0)
}

/// Bytes that no file holds, those that were swapped out too, each divided by the number of those who share it. `None` before Linux 5.9, and
/// for a process that gives nothing of itself away.
fn own_memory(pid: i32) -> Option<u64> {
    kilobytes(pid, "smaps_rollup", &["Pss_Anon:", "Pss_Shmem:", "SwapPss:"])
}

/// The sum of these lines of a file about a process, in bytes.
fn kilobytes(pid: i32, file: &str, names: &[&str]) -> Option<u64> {
    let told = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let each = names.iter().map(|name| -> Option<u64> {
        let line = told.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_ascii_whitespace().next()?.parse().ok()
    });
    Some(each.sum::<Option<u64>>()? << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_tree_is_added_up_with_its_grandchildren() {
        // A shell gives what runs beside it /dev/null to read, whose end would end it before it is counted: it is handed the pipe itself.
        let beside = "exec 3<&0; sh -c 'echo there; read -r line; true' <&3 & wait; true";
        let mut shell = Command::new("sh")
            .args(["-c", beside])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut byte = [0];
        let out = shell.stdout.as_mut().expect("piped");
        io::Read::read_exact(out, &mut byte).expect("there");
        let pid = i32::try_from(shell.id()).ok().and_then(Pid::from_raw);
        let below = |exact| usage_below(pid.expect("a number"), exact).expect("told");
        let (rough, exact) = (below(false), below(true));
        assert_eq!((rough.tasks, exact.tasks), (1, 1));
        assert!(exact.memory > 0 && exact.memory <= rough.memory, "{exact:?} {rough:?}");
        shell.kill().expect("killed");
        shell.wait().expect("over");
    }
}
