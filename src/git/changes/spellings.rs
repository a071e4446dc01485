//! Which tracked paths a path could collide with where file names ignore case.

use crate::domain::oid::Oid;
use crate::domain::path::RepoPath;
use crate::domain::scope::fold;
use crate::error::Result;
use crate::git::{Repo, tree};
use std::collections::HashMap;

/// The entries of one tree by the folded form of their names.
type Folded = HashMap<Vec<u8>, Vec<tree::Entry>>;

/// Looks paths up in a tree without regard to case. Reads only the trees on the way, each of them once.
pub struct Spellings<'r> {
    repo: &'r Repo,
    root: Oid,
    trees: HashMap<Oid, Folded>,
}

impl<'r> Spellings<'r> {
    /// For the paths of the tree `root`. Nothing is read yet.
    pub fn new(repo: &'r Repo, root: Oid) -> Spellings<'r> {
        Spellings {
            repo,
            root,
            trees: HashMap::new(),
        }
    }

    /// The deepest entries whose path is, but for case, that of `path` or of a directory above it: all
    /// that a `CaseIndex` needs to find the twins of that path.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn near(&mut self, path: &RepoPath) -> Result<Vec<RepoPath>> {
        let mut deepest = Vec::new();
        let mut level = vec![(Vec::new(), self.root)];
        for part in path.parts() {
            let folded = fold(part);
            let mut found = Vec::new();
            let mut next = Vec::new();
            for (prefix, tree) in level {
                for entry in self.tree(tree)?.get(&folded).into_iter().flatten() {
                    let path = [prefix.as_slice(), &entry.name].concat();
                    if entry.is_directory() {
                        next.push(([path.as_slice(), b"/"].concat(), entry.oid));
                    }
                    found.push(path);
                }
            }
            if found.is_empty() {
                break;
            }
            deepest = found;
            level = next;
        }
        // A name that no worktree can hold collides with nothing.
        let paths = deepest.iter().filter_map(|path| RepoPath::parse(path).ok());
        Ok(paths.collect())
    }

    fn tree(&mut self, oid: Oid) -> Result<&Folded> {
        if !self.trees.contains_key(&oid) {
            let mut folded = Folded::new();
            for entry in self.repo.read_tree(oid)? {
                folded.entry(fold(&entry.name)).or_default().push(entry);
            }
            self.trees.insert(oid, folded);
        }
        Ok(&self.trees[&oid])
    }
}
