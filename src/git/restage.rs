//! What an index holds as a tree, and letting it hold another one by touching only the paths that differ.

use super::landing::{Checkout, FEW};
use super::tree::Entry;
use super::{Repo, command, commit};
use crate::domain::oid::Oid;
use crate::error::Result;
use std::path::Path;

impl Checkout {
    /// The tree of what is staged.
    ///
    /// # Errors
    /// `git-failed` while paths are unmerged, or while another process has the index.
    pub fn staged_tree(&self, repo: &Repo) -> Result<Oid> {
        // What another process is about to put there must not be passed over: git refuses.
        let is_locked = self.git_dir.join("index.lock").exists();
        if !is_locked && let Some(tree) = repo.index_tree(&self.git_dir.join("index"))? {
            return Ok(tree);
        }
        let mut command = self.git();
        command.arg("write-tree");
        commit::named(&command::successful(command)?)
    }

    /// As [`Checkout::stage`] for an index that is known to hold the tree `old`. The next `git status` looks
    /// at the paths that differ, and at no other. The caller keeps landings away; `scratch` is a name on the
    /// index's file system that nobody uses.
    ///
    /// # Errors
    /// As [`Checkout::stage`].
    pub fn restage(&self, repo: &Repo, old: Oid, new: Oid, scratch: &Path) -> Result<()> {
        if self.stage_few(repo, old, new, scratch)? {
            return Ok(());
        }
        let changes = repo.tree_changes(&[old], new)?;
        if changes.len() > FEW {
            return self.stage(new);
        }
        let mut lines = Vec::new();
        for change in &changes {
            let (mode, oid) = match entry(repo, new, &change.path)? {
                Some(entry) => (entry.mode, entry.oid),
                None => (0, Oid::ZERO),
            };
            lines.extend_from_slice(format!("{mode:o} {oid}\t").as_bytes());
            lines.extend_from_slice(&change.path);
            lines.push(0);
        }
        let mut update = self.git();
        update.args(["update-index", "-z", "--index-info"]);
        let output = command::feed(update, &lines)?;
        match output.status.success() {
            true => Ok(()),
            // Somebody else has the index, or it is not as it was known: the long way waits for both.
            false => self.stage(new),
        }
    }
}

/// What stands at a path of a tree.
fn entry(repo: &Repo, tree: Oid, path: &[u8]) -> Result<Option<Entry>> {
    let mut names = path.split(|&byte| byte == b'/').peekable();
    let mut tree = tree;
    while let Some(name) = names.next() {
        let entries = repo.read_tree(tree)?.into_iter();
        let Some(found) = { entries }.find(|entry| entry.name == name) else {
            return Ok(None);
        };
        if names.peek().is_none() {
            return Ok(Some(found).filter(|entry| !entry.is_directory()));
        }
        if !found.is_directory() {
            return Ok(None);
        }
        tree = found.oid;
    }
    Ok(None)
}
