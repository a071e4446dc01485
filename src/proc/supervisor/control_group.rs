//! A group of processes that the kernel itself keeps below a limit: cgroups(7) of version 2, where a part of them is left to us.

use super::keep::TreeBounds;
use crate::domain::life::run::Outcome;
use rustix::fs::{Access, access};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where systems mount the tree of groups. Where the controllers belong to version 1 it lies in a directory of this one, without those that we need.
const TREE: &str = "/sys/fs/cgroup";
/// What the names of ours begin with; the number of the supervisor follows.
const PREFIX: &str = "git-agent-";

/// A group for one command. When it is dropped, what is left in it is killed, and it goes.
pub(super) struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Makes one with these bounds. `None` where no part of the tree is left to us: the supervisor then adds up what its command takes.
    pub(super) fn make(bounds: TreeBounds) -> Option<ControlGroup> {
        if bounds.is_none() {
            return None;
        }
        let parent = delegated(Path::new(TREE), bounds)?;
        sweep(&parent);
        let group = ControlGroup(parent.join(format!("{PREFIX}{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        // One that cannot be bounded is dropped, and with it its directory.
        group.bound(bounds).ok()?;
        Some(group)
    }

    fn bound(&self, bounds: TreeBounds) -> io::Result<()> {
        if let Some(memory) = bounds.memory {
            fs::write(self.0.join("memory.max"), memory.to_string())?;
            // Else the kernel kills the largest process, and the rest goes on without it.
            fs::write(self.0.join("memory.oom.group"), "1")?;
            // What is swapped out counts, too. A kernel without swap has no such file.
            let _ = fs::write(self.0.join("memory.swap.max"), "0");
        }
        if let Some(pids) = bounds.pids {
            fs::write(self.0.join("pids.max"), pids.to_string())?;
        }
        Ok(())
    }

    /// Its directory, by which a process enters it.
    pub(super) fn directory(&self) -> &Path {
        &self.0
    }

    /// What a command is to end with that was refused more than it may have.
    pub(super) fn exceeded(&self) -> Option<Outcome> {
        // A kill alone can be due to a group above this one, or to a machine without memory.
        if self.count("memory.events", "oom") > 0 && self.count("memory.events", "oom_kill") > 0 {
            return Some(Outcome::LIMIT_MEMORY);
        }
        (self.count("pids.events", "max") > 0).then_some(Outcome::LIMIT_PIDS)
    }

    fn count(&self, file: &str, name: &str) -> u64 {
        let told = fs::read_to_string(self.0.join(file)).unwrap_or_default();
        let mut lines = told.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(key, _)| *key == name);
        found.and_then(|(_, count)| count.parse().ok()).unwrap_or(0)
    }

    /// Kills all that is in it at once, so that a fork bomb has no time to go on. Before Linux 5.14 nothing happens.
    pub(super) fn kill(&self) {
        let _ = fs::write(self.0.join("cgroup.kill"), "1");
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.kill();
        // The kernel may still be busy with the end of a process; then the next command removes it.
        let _ = fs::remove_dir(&self.0);
    }
}

/// The nearest group, from ours upwards, below which we can make one with these bounds.
///
/// A group that has processes cannot have bounded groups below it, so ours hardly ever can, but the one above it may. Ours is left only where
/// it does not bound what the command asks for: a limit gives no command more. Under systemd, which owns the tree, what an ordinary user may
/// change is that of the user's own manager.
fn delegated(tree: &Path, bounds: TreeBounds) -> Option<PathBuf> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    // Version 2 has this one line; in a namespace that does not show our group the path leads out of the tree.
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    if own.starts_with("..") {
        return None;
    }
    let own = tree.join(own);
    let is_managed = Path::new("/run/systemd/system").exists();
    for group in own.ancestors().take_while(|group| group.starts_with(tree)) {
        if is_managed && group != own && !is_of_manager(group) {
            return None;
        }
        if divides(group, bounds) {
            return Some(group.to_owned());
        }
        if !is_wider(group, bounds) {
            return None;
        }
    }
    None
}

/// Whether a group of systemd's is that of a user's own manager, `user@1000.service`, or below it.
fn is_of_manager(group: &Path) -> bool {
    let mut names = group.iter().map(|name| name.to_string_lossy());
    names.any(|name| name.starts_with("user@") && name.ends_with(".service"))
}

/// Whether we may make groups below this one that have these bounds, and move processes into them.
fn divides(group: &Path, bounds: TreeBounds) -> bool {
    let told = fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
    let has = |name: &str| told.split_ascii_whitespace().any(|one| one == name);
    let is_writable = |path: &Path| access(path, Access::WRITE_OK).is_ok();
    (bounds.memory.is_none() || has("memory"))
        && (bounds.pids.is_none() || has("pids"))
        && is_writable(group)
        && is_writable(&group.join("cgroup.procs"))
}

/// Whether a group allows at least what the bounds do.
fn is_wider(group: &Path, bounds: TreeBounds) -> bool {
    let allows = |file: &str, least: u64| {
        // A group has no such file where nothing is bounded.
        let told = fs::read_to_string(group.join(file)).unwrap_or_default();
        told.trim().parse().is_ok_and(|most: u64| most >= least)
            || matches!(told.trim(), "max" | "")
    };
    // Several commands that leave a group could have more together than it allows, so memory must not be bounded at all.
    allows("memory.max", u64::MAX)
        && allows("memory.high", u64::MAX)
        && allows("pids.max", bounds.pids.unwrap_or(0))
}

/// Removes what supervisors that were killed left. One that has processes stays.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let of = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if of.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with files, as the kernel would show them.
    fn group(place: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(place).expect("made");
        for (name, text) in files.iter().chain(&[("cgroup.procs", "")]) {
            fs::write(place.join(name), text).expect("written");
        }
    }

    #[test]
    fn a_group_that_bounds_memory_is_not_left() {
        let place = tempfile::tempdir().expect("a directory");
        let bounds = TreeBounds { memory: Some(1 << 30), pids: Some(100) };
        for (files, wider) in [
            (&[("memory.max", "max\n"), ("pids.max", "100\n")], true),
            (&[("memory.max", "max\n"), ("pids.max", "99\n")], false),
            (&[("memory.max", "4294967296\n"), ("pids.max", "max\n")], false),
            (&[("memory.high", "4294967296\n"), ("pids.max", "max\n")], false),
        ] {
            let place = place.path().join(files.map(|(_, text)| text.trim()).join("-"));
            group(&place, files);
            assert_eq!(is_wider(&place, bounds), wider, "{files:?}");
        }
    }

    #[test]
    fn a_group_is_divided_only_where_its_controllers_are_handed_down() {
        let place = tempfile::tempdir().expect("a directory");
        let memory = TreeBounds { memory: Some(1 << 30), pids: None };
        group(place.path(), &[("cgroup.subtree_control", "cpu memory\n")]);
        assert!(divides(place.path(), memory));
        let both = TreeBounds { pids: Some(100), ..memory };
        assert!(!divides(place.path(), both));
    }
}
