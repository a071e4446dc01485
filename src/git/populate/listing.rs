//! What a worktree of a commit consists of: the files of its tree in index order, with one arena for
//! all their paths, and the directories with their oids for the index's TREE extension.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::tree;
use gix::bstr::{BStr, ByteSlice};
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stat};
use gix::objs::{Find, Kind};
use gix::validate::path::component;
use std::ops::Range;

/// Trees nested deeper than this are refused, as git does by default (`core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// The content of a tree, flattened.
pub(super) struct Listing {
    /// Every file, symlink and submodule entry, strictly ascending by path as an index demands.
    pub(super) index: State,
    /// Every directory, parents before children, siblings in tree order; the first is the root.
    pub(super) directories: Vec<Directory>,
    directory_paths: Vec<u8>,
}

/// A directory of a [`Listing`].
pub(super) struct Directory {
    /// Its tree.
    pub(super) oid: Oid,
    /// How many index entries are below it, at any depth.
    pub(super) entries: usize,
    /// How many directories are directly in it.
    pub(super) children: usize,
    path: Range<usize>,
}

impl Listing {
    /// The path of a directory; empty for the root.
    pub(super) fn directory_path(&self, directory: &Directory) -> &[u8] {
        &self.directory_paths[directory.path.clone()]
    }

    /// Reads the tree `root` and everything below it.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing or malformed; `path-invalid` for a name that must never
    /// be written to disk (`..`, `.git` and what file systems take for it, a name with `/`, a symlink
    /// called `.gitmodules`). Nothing has been written by then.
    pub(super) fn load(
        objects: &impl Find,
        root: Oid,
        validate: component::Options,
    ) -> Result<Listing> {
        let mut listing = Listing::new();
        let mut buffer = Vec::new();
        let mut path = Vec::new();
        let mut open = vec![listing.open(objects, root, &path, &mut buffer)?];
        while let Some(level) = open.last_mut() {
            path.truncate(level.path_len);
            let Some(entry) = level.entries.next() else {
                let below = listing.index.entries().len() - level.entries_before;
                listing.directories[level.directory].entries = below;
                open.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            let mode = canonical_mode(entry.mode);
            require_safe_name(&entry.name, mode, path.as_bstr(), validate)?;
            if let Some(mode) = mode {
                listing.push(mode, entry.oid, path.as_bstr())?;
                continue;
            }
            listing.directories[level.directory].children += 1;
            if open.len() == MAX_DEPTH {
                return Err(Error::new(
                    Code::RepoCorrupt,
                    format!("tree {root} is nested more than {MAX_DEPTH} levels deep"),
                ));
            }
            open.push(listing.open(objects, entry.oid, &path, &mut buffer)?);
        }
        Ok(listing)
    }

    /// A listing of nothing.
    pub(super) fn new() -> Listing {
        Listing {
            index: State::new(gix::hash::Kind::Sha1),
            directories: Vec::new(),
            directory_paths: Vec::new(),
        }
    }

    /// Adds a directory of which nothing else is known yet; gives its position.
    pub(super) fn enter(&mut self, oid: Oid, path: &[u8]) -> usize {
        let path_start = self.directory_paths.len();
        self.directory_paths.extend_from_slice(path);
        self.directories.push(Directory {
            oid,
            entries: 0,
            children: 0,
            path: path_start..self.directory_paths.len(),
        });
        self.directories.len() - 1
    }

    fn open(
        &mut self,
        objects: &impl Find,
        oid: Oid,
        path: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<Level> {
        Ok(Level {
            entries: read_tree(objects, oid, buffer)?.into_iter(),
            directory: self.enter(oid, path),
            entries_before: self.index.entries().len(),
            path_len: path.len(),
        })
    }

    /// Adds a file, which comes after all others.
    ///
    /// # Errors
    /// `repo-corrupt` where it does not.
    pub(super) fn push(&mut self, mode: Mode, oid: Oid, path: &BStr) -> Result<()> {
        // A tree that is out of order or names a path twice would become an index that git misreads.
        let last = self.index.entries().last();
        if last.is_some_and(|last| last.path(&self.index) >= path) {
            return Err(Error::new(
                Code::RepoCorrupt,
                format!("a tree is not in order at {path}"),
            )
            .hint("to check the repository, run git fsck"));
        }
        self.index.dangerously_push_entry(
            Stat::default(),
            gix::ObjectId::Sha1(*oid.as_bytes()),
            Flags::empty(),
            mode,
            path,
        );
        Ok(())
    }
}

/// A directory whose entries are being read.
struct Level {
    entries: std::vec::IntoIter<tree::Entry>,
    directory: usize,
    entries_before: usize,
    path_len: usize,
}

fn read_tree(objects: &impl Find, oid: Oid, buffer: &mut Vec<u8>) -> Result<Vec<tree::Entry>> {
    if oid == Oid::EMPTY_TREE {
        return Ok(Vec::new());
    }
    let corrupt = |what: &str| {
        Error::new(Code::RepoCorrupt, format!("tree {oid} {what}"))
            .hint("to check the repository, run git fsck")
    };
    let id = gix::ObjectId::Sha1(*oid.as_bytes());
    match objects.try_find(&id, buffer) {
        Ok(Some(object)) if object.kind == Kind::Tree => {
            tree::parse(object.data).ok_or_else(|| corrupt("is malformed"))
        }
        Ok(Some(_)) => Err(corrupt("is no tree")),
        Ok(None) => Err(corrupt("is missing")),
        Err(error) => Err(corrupt("could not be read").because(error.to_string())),
    }
}

/// The mode that the index records, `None` for a directory (git's `cache.h: canon_mode`).
pub(super) fn canonical_mode(mode: u32) -> Option<Mode> {
    const TYPE: u32 = 0o170_000;
    match mode & TYPE {
        tree::DIRECTORY => None,
        tree::SYMLINK => Some(Mode::SYMLINK),
        0o100_000 if mode & 0o100 != 0 => Some(Mode::FILE_EXECUTABLE),
        0o100_000 => Some(Mode::FILE),
        _ => Some(Mode::COMMIT),
    }
}

/// Requires that a name of the tree, at `path`, may be written to disk; `mode` is `None` for a directory.
///
/// # Errors
/// `path-invalid`.
pub(super) fn require_safe_name(
    name: &[u8],
    mode: Option<Mode>,
    path: &BStr,
    validate: component::Options,
) -> Result<()> {
    let symlink = (mode == Some(Mode::SYMLINK)).then_some(component::Mode::Symlink);
    gix::validate::path::component(name.as_bstr(), symlink, validate).map_err(|reason| {
        Error::new(
            Code::PathInvalid,
            format!("the tree holds a path that is not safe to write: {path}"),
        )
        .because(reason.to_string())
    })?;
    Ok(())
}
