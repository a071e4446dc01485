//! The walk over directories that differ.
//!
//! The new side is a tree or what the index holds, the old sides are trees. A directory whose tree is
//! that of any old side is left at once: nothing in it can differ from all of them. What remains is
//! compared name by name, one level at a time, with a list of open directories instead of recursion, so
//! that no depth of nesting is too much.

use super::index::Index;
use super::{Content, canonical_mode, kind_of};
use crate::domain::change::Change;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::objects::repeated::RepeatedTrees;
use crate::git::{Repo, tree};
use std::collections::BTreeMap;
use std::ops::Range;

/// A directory on the new side.
#[derive(Clone, Debug)]
pub(super) enum Directory {
    /// There is none.
    Absent,
    /// A tree object.
    Tree(Oid),
    /// Entries of the index, and its cached tree if it has one.
    Index {
        entries: Range<usize>,
        cached: Option<usize>,
    },
}

/// One name in a directory of the new side.
#[derive(Clone, Debug)]
pub(super) enum Item {
    File(Content),
    Directory {
        /// The tree, where it is known without looking inside.
        oid: Option<Oid>,
        directory: Directory,
    },
}

/// A directory that differs, or may.
struct Open {
    /// Its path; empty for the top, else ending in `/`.
    prefix: Vec<u8>,
    /// The tree of each old side; `None` where it has no such directory.
    old: Vec<Option<Oid>>,
    new: Directory,
}

/// What stands under one name on all sides.
struct Name {
    old: Vec<Option<Content>>,
    new: Option<Item>,
}

impl Repo {
    /// How a tree differs from all of `old` at once, ordered by path. Without an old one, everything
    /// in it was added.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree or a symlink's blob is missing.
    pub fn tree_changes(&self, old: &[Oid], new: Oid) -> Result<Vec<Change>> {
        self.compare(old, Some(new), Directory::Tree(new), None)
    }

    /// As [`Repo::tree_changes`] for any new side; `index` is what [`Directory::Index`] refers to.
    pub(super) fn compare(
        &self,
        old: &[Oid],
        oid: Option<Oid>,
        new: Directory,
        index: Option<&Index>,
    ) -> Result<Vec<Change>> {
        let old: Vec<Option<Oid>> = match old {
            [] => vec![Some(Oid::EMPTY_TREE)],
            trees => trees.iter().copied().map(Some).collect(),
        };
        let mut changes = Vec::new();
        let mut open = Vec::new();
        if oid.is_none() || !old.contains(&oid) {
            open.push(Open {
                prefix: Vec::new(),
                old,
                new,
            });
        }
        let mut trees = RepeatedTrees::default();
        while let Some(directory) = open.pop() {
            for (name, sides) in self.names(&mut trees, &directory, index)? {
                let mut path = directory.prefix.clone();
                path.extend_from_slice(&name);
                changes.extend(self.file_change(&path, &sides)?);
                open.extend(below(path, &sides));
            }
        }
        changes.sort_unstable();
        Ok(changes)
    }

    /// Every name in a directory, on any side.
    fn names(
        &self,
        trees: &mut RepeatedTrees,
        open: &Open,
        index: Option<&Index>,
    ) -> Result<BTreeMap<Vec<u8>, Name>> {
        let mut names: BTreeMap<Vec<u8>, Name> = BTreeMap::new();
        let sides = open.old.len();
        let absent = || Name {
            old: vec![None; sides],
            new: None,
        };
        for (side, tree) in open.old.iter().enumerate() {
            let Some(tree) = tree else { continue };
            for entry in trees.read(self, *tree)? {
                let name = names.entry(entry.name).or_insert_with(absent);
                name.old[side] = Some((canonical_mode(entry.mode), entry.oid));
            }
        }
        match (&open.new, index) {
            (Directory::Tree(tree), _) => {
                for entry in trees.read(self, *tree)? {
                    let mode = canonical_mode(entry.mode);
                    let item = match mode {
                        tree::DIRECTORY => Item::Directory {
                            oid: Some(entry.oid),
                            directory: Directory::Tree(entry.oid),
                        },
                        _ => Item::File((mode, entry.oid)),
                    };
                    names.entry(entry.name).or_insert_with(absent).new = Some(item);
                }
            }
            (Directory::Index { entries, cached }, Some(index)) => {
                for (name, item) in index.level(entries.clone(), *cached, open.prefix.len()) {
                    names.entry(name.to_owned()).or_insert_with(absent).new = Some(item);
                }
            }
            _ => {}
        }
        Ok(names)
    }

    /// What happened to the file at `path`, if there is or was one that differs from all old sides.
    fn file_change(&self, path: &[u8], sides: &Name) -> Result<Option<Change>> {
        let as_file =
            |content: &Option<Content>| content.filter(|(mode, _)| *mode != tree::DIRECTORY);
        let new = match sides.new {
            Some(Item::File(content)) => Some(content),
            _ => None,
        };
        if sides.old.iter().any(|old| as_file(old) == new) {
            return Ok(None);
        }
        let Some(kind) = kind_of(sides.old.first().and_then(as_file), new) else {
            return Ok(None);
        };
        let link = match new {
            Some((tree::SYMLINK, blob)) if !blob.is_zero() => Some(self.read_blob(blob)?),
            _ => None,
        };
        Ok(Some(Change {
            path: path.to_owned(),
            kind,
            link,
        }))
    }
}

/// The directory under a name, if what is below it can differ from all old sides.
fn below(mut path: Vec<u8>, sides: &Name) -> Option<Open> {
    let old: Vec<Option<Oid>> = sides
        .old
        .iter()
        .map(|content| content.and_then(|(mode, oid)| (mode == tree::DIRECTORY).then_some(oid)))
        .collect();
    let new = match &sides.new {
        Some(Item::Directory { oid, directory }) => {
            if oid.is_some() && old.contains(oid) {
                return None;
            }
            directory.clone()
        }
        // Nothing here, and nothing there either.
        _ if old.contains(&None) => return None,
        _ => Directory::Absent,
    };
    path.push(b'/');
    Some(Open {
        prefix: path,
        old,
        new,
    })
}
