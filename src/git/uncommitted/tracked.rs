//! What is tracked in a layered worktree: by its index or, while that is the base's still, by the base's tree, of which a few
//! directories tell as much as all of an index.

use crate::domain::Oid;
use crate::domain::change::Difference;
use crate::error::Result;
use crate::git::Repo;
use crate::git::changes::{Content, Index, canonical_mode};
use crate::git::tree::Entry;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Where the tracked files are listed.
pub(super) enum TrackedFiles<'a> {
    /// In an index without flags, submodules and conflicts.
    Index(&'a Index),
    /// In a tree that is as plain.
    Tree(TrackedTree<'a>),
}

/// What is tracked at a path.
pub(super) enum TrackedPath {
    Nothing,
    File(Content),
    /// A directory with something tracked in it.
    Directory,
}

/// A tree of which a directory is read when it is asked about, and once.
pub(super) struct TrackedTree<'a> {
    repo: &'a Repo,
    tree: Oid,
    read: RefCell<HashMap<Oid, Rc<[Entry]>>>,
}

impl TrackedTree<'_> {
    fn entries(&self, tree: Oid) -> Result<Rc<[Entry]>> {
        if let Some(known) = self.read.borrow().get(&tree) {
            return Ok(Rc::clone(known));
        }
        let entries: Rc<[Entry]> = self.repo.read_tree(tree)?.into();
        self.read.borrow_mut().insert(tree, Rc::clone(&entries));
        Ok(entries)
    }

    /// What has this path. A slash at its end asks for a directory.
    fn find(&self, path: &[u8]) -> Result<Option<Entry>> {
        let mut tree = self.tree;
        let mut parts = path.split(|&byte| byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let entries = self.entries(tree)?;
            let Some(entry) = entries.iter().find(|entry| entry.name == part) else {
                return Ok(None);
            };
            match parts.peek() {
                None => return Ok(Some(entry.clone())),
                Some(_) if !entry.is_directory() => return Ok(None),
                Some([]) => return Ok(Some(entry.clone())),
                Some(_) => tree = entry.oid,
            }
        }
        Ok(None)
    }

    /// The tree of a directory that is given with the slash at its end; of the top, with nothing.
    fn directory(&self, directory: &[u8]) -> Result<Option<Oid>> {
        if directory.is_empty() {
            return Ok(Some(self.tree));
        }
        Ok(self.find(directory)?.map(|entry| entry.oid))
    }

    /// Hands out the paths below a tree until one is enough.
    fn each_below(
        &self,
        tree: Oid,
        path: &mut Vec<u8>,
        is_enough: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        for entry in self.entries(tree)?.iter() {
            let length = path.len();
            path.extend_from_slice(&entry.name);
            let is_over = if entry.is_directory() {
                path.push(b'/');
                self.each_below(entry.oid, path, is_enough)?
            } else {
                is_enough(path)
            };
            path.truncate(length);
            if is_over {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'a> TrackedFiles<'a> {
    /// By a tree without submodules.
    pub(super) fn of_tree(repo: &'a Repo, tree: Oid) -> TrackedFiles<'a> {
        TrackedFiles::Tree(TrackedTree {
            repo,
            tree,
            read: RefCell::default(),
        })
    }

    /// What a commit holds of this path, if it is tracked.
    pub(super) fn content(&self, path: &[u8]) -> Result<Option<Content>> {
        Ok(match self.at(path)? {
            TrackedPath::File(content) => Some(content),
            TrackedPath::Nothing | TrackedPath::Directory => None,
        })
    }

    /// What is tracked at a path.
    pub(super) fn at(&self, path: &[u8]) -> Result<TrackedPath> {
        match self {
            TrackedFiles::Index(index) => Ok(match index.find(path) {
                Some(entry) => TrackedPath::File(entry.content),
                None if index.first_below(&[path, b"/"].concat()).is_some() => {
                    TrackedPath::Directory
                }
                None => TrackedPath::Nothing,
            }),
            TrackedFiles::Tree(tree) => Ok(match tree.find(path)? {
                Some(entry) if entry.is_directory() => TrackedPath::Directory,
                Some(entry) => TrackedPath::File((canonical_mode(entry.mode), entry.oid)),
                None => TrackedPath::Nothing,
            }),
        }
    }

    /// Some tracked path below a directory that is given with the slash at its end.
    pub(super) fn one_below(&self, directory: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            TrackedFiles::Index(index) => Ok(index.first_below(directory).map(<[u8]>::to_vec)),
            TrackedFiles::Tree(tree) => {
                let mut found = None;
                let mut take = |path: &[u8]| found.replace(path.to_vec()).is_none();
                if let Some(oid) = tree.directory(directory)? {
                    tree.each_below(oid, &mut directory.to_vec(), &mut take)?;
                }
                Ok(found)
            }
        }
    }

    /// The tracked paths below a directory that is given with the slash at its end.
    pub(super) fn below(&self, directory: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            TrackedFiles::Index(index) => {
                let all = index.paths().skip_while(|path| *path < directory);
                let all = all.take_while(|path| path.starts_with(directory));
                Ok(all.map(<[u8]>::to_vec).collect())
            }
            TrackedFiles::Tree(tree) => {
                let mut found = Vec::new();
                let mut take = |path: &[u8]| {
                    found.push(path.to_vec());
                    false
                };
                if let Some(oid) = tree.directory(directory)? {
                    tree.each_below(oid, &mut directory.to_vec(), &mut take)?;
                }
                Ok(found)
            }
        }
    }

    /// The tree of all that is tracked, with what becomes of some paths; `None` where only a whole new index makes one.
    pub(super) fn edited(
        &self,
        repo: &Repo,
        edits: &BTreeMap<Vec<u8>, Option<Content>>,
    ) -> Result<Option<Oid>> {
        match self {
            TrackedFiles::Index(index) => {
                let edits = edits.iter().map(|(path, new)| (path.as_slice(), *new));
                repo.tree_of_edited(index, &edits.collect())
            }
            TrackedFiles::Tree(tree) if edits.is_empty() => Ok(Some(tree.tree)),
            TrackedFiles::Tree(tree) => {
                let changes = edits.iter().map(|(path, new)| Difference {
                    path: path.clone(),
                    old: None,
                    new: *new,
                });
                repo.tree_after(tree.tree, &changes.collect::<Vec<_>>())
            }
        }
    }
}
