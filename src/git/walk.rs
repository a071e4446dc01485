//! Walks over the files of a tree.

use super::Repo;
use super::tree::DIRECTORY;
use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::error::Result;

impl Repo {
    /// Gives every tracked path of a tree to `visit`, in git's order, until it answers `false`.
    /// Entries that no worktree can hold (`.git`, `..`) are passed over.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn each_tracked_path(
        &self,
        tree: Oid,
        visit: &mut dyn FnMut(&RepoPath) -> bool,
    ) -> Result<()> {
        self.walk(tree, &mut Vec::new(), visit).map(|_| ())
    }

    fn walk(
        &self,
        tree: Oid,
        prefix: &mut Vec<u8>,
        visit: &mut dyn FnMut(&RepoPath) -> bool,
    ) -> Result<bool> {
        for entry in self.read_tree(tree)? {
            let length = prefix.len();
            prefix.extend_from_slice(&entry.name);
            let go_on = if entry.mode == DIRECTORY {
                prefix.push(b'/');
                self.walk(entry.oid, prefix, visit)?
            } else {
                RepoPath::parse(prefix).map_or(true, |path| visit(&path))
            };
            prefix.truncate(length);
            if !go_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
