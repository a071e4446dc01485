//! Which tracked paths a path could collide with where file names ignore case.

use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::domain::scope::fold;
use crate::error::Result;
use crate::git::{Repo, tree};

impl Repo {
    /// The deepest entries of a tree whose path is that of `path` or of a directory above it but for
    /// case: all that a `CaseIndex` needs to find the twins of that path. Reads only the trees on the
    /// way, not the whole.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn spellings_near(&self, root: Oid, path: &RepoPath) -> Result<Vec<RepoPath>> {
        let mut found = Vec::new();
        let mut level = vec![(Vec::new(), root)];
        for part in path.parts() {
            let folded = fold(part);
            let mut next = Vec::new();
            for (prefix, tree) in level {
                for entry in self.read_tree(tree)? {
                    if fold(&entry.name) != folded {
                        continue;
                    }
                    let path = [prefix.as_slice(), &entry.name].concat();
                    found.extend(RepoPath::parse(&path));
                    if entry.mode == tree::DIRECTORY {
                        next.push(([path.as_slice(), b"/"].concat(), entry.oid));
                    }
                }
            }
            level = next;
        }
        Ok(found)
    }
}
