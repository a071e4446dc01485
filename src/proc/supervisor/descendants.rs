//! Every process below one, however far it moved away from its parent.

use crate::system::Process;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::HashMap;
use std::io;

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
    for process in Process::all()? {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        // Removed, so that a list that was read while numbers were given anew cannot lead in a
        // circle.
        let own = children.remove(&pid).unwrap_or_default();
        open.extend(own.iter().map(|child| child.pid.as_raw_nonzero().get()));
        found.extend(own);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_below_its_parent() {
        let parent = rustix::process::getppid().expect("a parent");
        let own = rustix::process::getpid();
        let found = below(parent).expect("/proc");
        assert!(found.iter().any(|process| process.pid == own));
    }
}
