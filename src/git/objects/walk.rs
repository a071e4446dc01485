//! Walks over the files of a tree.

use super::repeated::RepeatedTrees;
use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::error::Result;
use crate::git::Repo;
use crate::git::tree::DIRECTORY;
use std::ops::ControlFlow;

/// What a walk does with a tree's paths.
pub trait Visitor {
    /// Whether to look into a directory.
    fn enters(&mut self, directory: &RepoPath) -> bool;

    /// Comes to a tracked path that is no directory; `Break` ends the walk.
    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()>;
}

impl Repo {
    /// Leads a visitor through the tracked paths of a tree, in git's order. Entries that no worktree can
    /// hold (`.git`, `..`) are passed over.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn walk_tracked(&self, tree: Oid, visitor: &mut impl Visitor) -> Result<()> {
        let mut trees = RepeatedTrees::default();
        self.walk(&mut trees, tree, &mut Vec::new(), visitor)
            .map(|_| ())
    }

    fn walk(
        &self,
        trees: &mut RepeatedTrees,
        tree: Oid,
        prefix: &mut Vec<u8>,
        visitor: &mut impl Visitor,
    ) -> Result<ControlFlow<()>> {
        for entry in trees.read(self, tree)? {
            let length = prefix.len();
            prefix.extend_from_slice(&entry.name);
            let next = match RepoPath::parse(prefix) {
                Err(_) => ControlFlow::Continue(()),
                Ok(path) if entry.mode != DIRECTORY => visitor.visit(&path),
                Ok(directory) if visitor.enters(&directory) => {
                    prefix.push(b'/');
                    self.walk(trees, entry.oid, prefix, visitor)?
                }
                Ok(_) => ControlFlow::Continue(()),
            };
            prefix.truncate(length);
            if next.is_break() {
                return Ok(next);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
