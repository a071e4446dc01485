//! What stands in the way of a worktree that has to move: untracked files, changed files, and changed
//! files that git was told to pass over.

use super::Checkout;
use super::lock::OwnIndex;
use crate::domain::path::Quoted;
use crate::error::{Code, Error, ErrorFacts, Result};
use crate::git::changes::{Asked, status};
use crate::git::command;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Checkout {
    /// What git does not track and would have to make room for the added paths, ignored or not.
    pub(super) fn in_the_way<'a>(
        &self,
        added: impl Iterator<Item = &'a [u8]>,
        index: &Path,
    ) -> Result<Vec<Vec<u8>>> {
        let occupied: BTreeSet<&[u8]> = added.filter_map(|path| self.occupant(path)).collect();
        if occupied.is_empty() {
            return Ok(Vec::new());
        }
        let command = self.git_on(index, ["ls-files", "--others", "-z"]);
        let listed = command::successful(command)?;
        let blocks = |other: &&[u8]| {
            let ends = (0..other.len()).filter(|&at| other[at] == b'/');
            ends.chain([other.len()])
                .any(|end| occupied.contains(&other[..end]))
        };
        let others = command::names(&listed);
        Ok(others.filter(blocks).map(<[u8]>::to_vec).collect())
    }

    /// The path itself if something is there, or the directory above it that is none.
    fn occupant<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        let ends = (0..path.len()).filter(|&at| path[at] == b'/');
        for end in ends.chain([path.len()]) {
            let place = self.top.join(OsStr::from_bytes(&path[..end]));
            let metadata = fs::symlink_metadata(place).ok()?;
            if end == path.len() || !metadata.is_dir() {
                return Some(&path[..end]);
            }
        }
        None
    }

    /// The refusal that names those of the paths with uncommitted changes, also where git was told to pass
    /// over them.
    pub(super) fn dirty(&self, paths: &BTreeSet<Vec<u8>>, said: &str) -> Result<Error> {
        let hidden: BTreeSet<_> = self.passed_over()?.into_iter().collect();
        let hidden: BTreeSet<_> = hidden.intersection(paths).cloned().collect();
        let index = self.git_dir.join("index");
        let changed = status(
            &self.top,
            &index,
            &|| self.git(),
            Asked::default(),
            self.room(),
        )?;
        let changed = changed.into_iter().map(|change| change.path);
        let mut named: BTreeSet<_> = changed.filter(|path| paths.contains(path)).collect();
        named.extend(hidden.iter().cloned());
        let error = self.blocked(&Vec::from_iter(named), said);
        Ok(if hidden.is_empty() {
            error
        } else {
            error.hint(format!(
                "to see which of them git was told to pass over, run git -C {} ls-files -v",
                self.top.display()
            ))
        })
    }

    /// Lets git look again at what it was told to pass over, where something is there.
    pub(super) fn uncover(&self, own: &OwnIndex<'_>) -> Result<()> {
        let paths = self.passed_over()?;
        for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
            own.feed(&["update-index", flag, "-z", "--stdin"], &paths)?;
        }
        Ok(())
    }

    /// Tracked paths marked assume-unchanged or skip-worktree at which there is something.
    fn passed_over(&self) -> Result<Vec<Vec<u8>>> {
        let mut command = self.git();
        command.args(["ls-files", "-v", "-z", "--cached"]);
        let listed = command::successful(command)?;
        let marked = listed
            .split(|&byte| byte == 0)
            .filter_map(|entry| match entry {
                [tag, b' ', path @ ..] if *tag == b'S' || tag.is_ascii_lowercase() => Some(path),
                _ => None,
            });
        let there = |path: &&[u8]| {
            let place = self.top.join(OsStr::from_bytes(path));
            fs::symlink_metadata(place).is_ok()
        };
        Ok(marked.filter(there).map(<[u8]>::to_vec).collect())
    }

    pub(super) fn blocked(&self, paths: &[Vec<u8>], said: &str) -> Error {
        let top = self.top.display();
        let names: String = paths
            .iter()
            .map(|path| format!("  {}\n", Quoted(path)))
            .collect();
        let error = Error::new(
            Code::TargetDirty,
            format!("landing would touch changed or untracked files in {top}"),
        )
        .hint(format!(
            "to see them all before you move or commit them, run git -C {top} status --ignored"
        ));
        let error = if names.is_empty() {
            error
        } else {
            error.detail(names).facts(ErrorFacts {
                paths: paths.to_vec(),
                ..ErrorFacts::default()
            })
        };
        if said.is_empty() {
            error
        } else {
            error.because(said.to_owned())
        }
    }
}
