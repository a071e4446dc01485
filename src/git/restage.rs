//! What an index holds as a tree, and letting it hold another one by touching only the paths that differ.

use super::Repo;
use super::command;
use super::landing::{Checkout, FEW, index_line};
use crate::domain::baseline::Content;
use crate::domain::oid::Oid;
use crate::error::Result;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

impl Checkout {
    /// The tree of what is staged.
    ///
    /// # Errors
    /// `git-failed` while paths are unmerged, or while another process has the index.
    pub fn staged_tree(&self, repo: &Repo) -> Result<Oid> {
        // What another process is about to put there must not be passed over.
        let is_locked = self.git_dir.join("index.lock").exists();
        if !is_locked && let Some(tree) = repo.index_tree(&self.git_dir.join("index"))? {
            return Ok(tree);
        }
        let own = self.own_index()?;
        let mut command = own.git()?;
        command.arg("write-tree");
        let tree = command::named(&command::successful(command)?)?;
        own.publish()?;
        Ok(tree)
    }

    /// As [`Checkout::stage`] for an index that is known to hold the tree `old`. The next `git status` looks
    /// at the paths that differ, and at no other. The caller keeps landings away; `scratch` is a name on the
    /// index's file system that is not in use.
    ///
    /// # Errors
    /// As [`Checkout::stage`].
    pub fn restage(&self, repo: &Repo, old: Oid, new: Oid, scratch: &Path) -> Result<()> {
        if self.stage_fast(repo, old, new, scratch)? {
            return Ok(());
        }
        let changes = repo.tree_changes(&[old], new)?;
        if changes.len() > FEW {
            return self.stage(new);
        }
        let paths: Vec<_> = changes.into_iter().map(|change| change.path).collect();
        // Another process has the index, or it is not as it was known: the long way waits for both.
        self.stage_from(repo, new, &paths)
            .or_else(|_| self.stage(new))
    }

    /// Lets the index hold at these paths what a tree holds there, if anything, and leaves all others as they are.
    /// What an index can hide of a file is uncovered by it.
    ///
    /// # Errors
    /// `git-failed` while another process has the index; `repo-corrupt` when a tree is missing.
    pub fn stage_from(&self, repo: &Repo, tree: Oid, paths: &[Vec<u8>]) -> Result<()> {
        let contents = contents(repo, tree, paths)?;
        let lines = paths.iter().zip(contents);
        let lines: Vec<_> = lines
            .map(|(path, content)| index_line(path, content))
            .collect();
        let own = self.own_index()?;
        own.feed(&["update-index", "-z", "--index-info"], &lines)?;
        own.publish()
    }
}

/// What a tree holds at each of these paths that is no directory, if anything.
pub(super) fn contents(repo: &Repo, tree: Oid, paths: &[Vec<u8>]) -> Result<Vec<Option<Content>>> {
    let mut directories: HashMap<&[u8], Files> = HashMap::new();
    let mut contents = Vec::with_capacity(paths.len());
    for path in paths {
        let (directory, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&b""[..], path.as_slice()),
        };
        let files = match directories.entry(directory) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(files(repo, tree, directory)?),
        };
        contents.push(files.get(name).copied());
    }
    Ok(contents)
}

/// What a directory of a tree holds that is no directory, by name.
type Files = HashMap<Vec<u8>, Content>;

/// Those of the directory at a path, which may not be there.
fn files(repo: &Repo, tree: Oid, directory: &[u8]) -> Result<Files> {
    let mut tree = tree;
    for name in directory.split(|&byte| byte == b'/') {
        if name.is_empty() {
            continue;
        }
        let entries = repo.read_tree(tree)?.into_iter();
        let below = { entries }.find(|entry| entry.name == name && entry.is_directory());
        match below {
            Some(below) => tree = below.oid,
            None => return Ok(Files::new()),
        }
    }
    let entries = repo.read_tree(tree)?.into_iter();
    let files = { entries }.filter(|entry| !entry.is_directory());
    Ok(files
        .map(|entry| (entry.name, (entry.mode, entry.oid)))
        .collect())
}
