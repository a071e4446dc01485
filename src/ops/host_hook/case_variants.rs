//! What is on disk under the names of a path and their variants by case.

use crate::domain::path::RepoPath;
use crate::domain::scope::{CaseIndex, is_case_variant};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The names in those directories of a worktree that were asked about, each listed once. Only the
/// directories on the way to a path are, so that the size of the repository does not matter.
#[derive(Debug)]
pub(super) struct Listings {
    root: PathBuf,
    known: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl Listings {
    pub(super) fn new(root: &Path) -> Listings {
        Listings {
            root: root.to_owned(),
            known: HashMap::new(),
        }
    }

    /// Every spelling of a path, and of the directories above it, that is there.
    pub(super) fn spellings(&mut self, path: &RepoPath) -> CaseIndex {
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut level = vec![Vec::new()];
        for part in path.parts() {
            let mut next = Vec::new();
            // Every spelling of a directory leads to one of its own, as on a file system that tells
            // them apart.
            for directory in &level {
                let names = self.names(directory).iter();
                for name in names.filter(|name| *name == part || is_case_variant(name, part)) {
                    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
                    next.push([directory, slash, name].concat());
                }
            }
            found.extend(next.iter().cloned());
            level = next;
        }
        let paths = found.iter().filter_map(|path| RepoPath::parse(path).ok());
        CaseIndex::of(&paths.collect::<Vec<_>>())
    }

    fn names(&mut self, directory: &[u8]) -> &[Vec<u8>] {
        self.known.entry(directory.to_owned()).or_insert_with(|| {
            let entries = fs::read_dir(self.root.join(OsStr::from_bytes(directory)));
            let entries = entries.into_iter().flatten().flatten();
            entries
                .map(|entry| entry.file_name().as_bytes().to_owned())
                .collect()
        })
    }
}
