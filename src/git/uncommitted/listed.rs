//! What git lists when it looks at everything.

use super::{Source, git, write_rules};
use crate::error::Result;
use crate::git::command;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;

/// What git lists, by what has to be done about it.
#[derive(Default)]
pub(super) struct Listed {
    /// Tracked files that git is told to pass over.
    pub(super) hidden: Vec<Vec<u8>>,
    /// Tracked files that differ, or may.
    pub(super) changed: Vec<Vec<u8>>,
    /// Untracked files.
    pub(super) new: Vec<Vec<u8>>,
    /// Paths with more than one stage.
    pub(super) unmerged: Vec<Vec<u8>>,
    /// Directories that are repositories of their own, with a slash at the end.
    pub(super) nested: Vec<Vec<u8>>,
}

impl Listed {
    /// Adds what `git ls-files -z -v` gave.
    pub(super) fn read(&mut self, source: &Source<'_>, output: &[u8]) {
        for entry in output.split(|&byte| byte == 0) {
            let [tag, b' ', path @ ..] = entry else {
                continue;
            };
            let path = path.to_vec();
            match tag {
                b'H' => {}
                // Changed and removed; a removed file is listed under both.
                b'C' => self.changed.push(path),
                b'R' => {}
                b'M' | b'm' => self.unmerged.push(path),
                b'?' if path.ends_with(b"/") => self.nested.push(path),
                b'?' => self.new.push(path),
                b'S' if source.sparse && !is_there(source, &path) => {}
                _ => self.hidden.push(path),
            }
        }
        self.unmerged.dedup();
    }
}

/// Two children at once: one looks at every file that is tracked, the other at every directory.
///
/// # Errors
/// `git-missing`, `git-failed`; those of [`write_rules`].
pub(super) fn list(source: &Source<'_>) -> Result<Listed> {
    let mut tracked = git(source);
    tracked.args([
        "ls-files",
        "-z",
        "-v",
        "--cached",
        "--deleted",
        "--modified",
    ]);
    let tracked = command::start(tracked)?;
    let untracked = untracked(source, None);
    let tracked = tracked.successful();
    let output = [untracked?, tracked?].concat();
    let mut listed = Listed::default();
    listed.read(source, &output);
    Ok(listed)
}

/// What git lists of the files that are neither tracked nor ignored, in these places or everywhere.
///
/// # Errors
/// As [`list`].
pub(super) fn untracked(source: &Source<'_>, names: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
    write_rules(source, names)?;
    let mut command = git(source);
    command
        .env("GIT_LITERAL_PATHSPECS", "1")
        .args(["ls-files", "-z", "-v", "--others", "--exclude-from"])
        .arg(source.ignore)
        .arg("--")
        .args(
            names
                .into_iter()
                .flatten()
                .map(|name| OsStr::from_bytes(name)),
        );
    command::successful(command)
}

fn is_there(source: &Source<'_>, path: &[u8]) -> bool {
    let path = source.worktree.join(OsStr::from_bytes(path));
    fs::symlink_metadata(path).is_ok()
}
