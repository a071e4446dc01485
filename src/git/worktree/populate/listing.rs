//! What a worktree of a commit consists of: the files of its tree in index order, with one arena for
//! all their paths, and the directories with their oids for the index's TREE extension.

use crate::domain::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::core::tree;
use crate::git::worktree::populate::destination::file_name;
use gix::bstr::{BStr, ByteSlice};
use gix::index::State;
use gix::index::entry::{Flags, Mode, Stat};
use gix::objs::{Find, Kind};
use gix::validate::path::component;
use sha1::{Digest, Sha1};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Trees nested deeper than this are refused, as git does by default (`core.maxTreeDepth`).
const MAX_DEPTH: usize = 2048;

/// The content of a tree, flattened.
pub(super) struct Listing {
    /// Every file, symlink and submodule entry, strictly ascending by path as an index demands.
    pub(super) index: State,
    /// Every directory, parents before children, siblings in tree order; the first is the root.
    pub(super) directories: Vec<ListedDirectory>,
}

/// A directory of a [`Listing`].
pub(super) struct ListedDirectory {
    /// Its tree.
    pub(super) oid: Oid,
    /// How many index entries are below it, at any depth.
    pub(super) entries: usize,
    /// How many directories are directly in it.
    pub(super) children: usize,
    /// Empty for the root.
    name: Vec<u8>,
}

impl Listing {
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
                // The directory's entries are known only now, when all below it were added.
                let below = listing.index.entries().len() - level.entries_before;
                listing.directory(level.directory)?.entries = below;
                open.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&entry.name);
            let mode = canonical_mode(entry.mode);
            // The name is checked before anything is made of it, since `Listing` is all that the
            // writing threads look at.
            require_safe_name(&entry.name, mode, path.as_bstr(), validate)?;
            if let Some(mode) = mode {
                listing.push(mode, entry.oid, path.as_bstr())?;
                continue;
            }
            listing.directory(level.directory)?.children += 1;
            if open.len() == MAX_DEPTH {
                let what = format!("tree {root} is nested more than {MAX_DEPTH} levels deep");
                return Err(Error::new(Code::RepoCorrupt, what));
            }
            open.push(listing.open(objects, entry.oid, &path, &mut buffer)?);
        }
        Ok(listing)
    }

    /// A listing of nothing.
    pub(super) fn new() -> Listing {
        Listing { index: State::new(gix::hash::Kind::Sha1), directories: Vec::new() }
    }

    fn directory(&mut self, position: usize) -> Result<&mut ListedDirectory> {
        let directory = self.directories.get_mut(position);
        directory.ok_or_else(|| Error::bug("a directory that was not entered"))
    }

    /// Adds a directory of which nothing else is known yet; gives its position.
    pub(super) fn enter(&mut self, oid: Oid, path: &[u8]) -> usize {
        self.directories.push(ListedDirectory {
            oid,
            entries: 0,
            children: 0,
            name: file_name(path).to_owned(),
        });
        self.directories.len() - 1
    }

    fn open(
        &mut self,
        objects: &impl Find,
        oid: Oid,
        path: &[u8],
        buffer: &mut Vec<u8>,
    ) -> Result<ListingLevel> {
        Ok(ListingLevel {
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
            let what = format!("a tree is not in order at {path}");
            return Err(
                Error::new(Code::RepoCorrupt, what).hint("to check the repository, run git fsck")
            );
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
struct ListingLevel {
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
        // Old histories hold modes such as 100664, which git reads as one of its two.
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

// Writing an index: version 2 with the TREE extension (git's `gitformat-index`).
//
// Libgit2 and gitoxide write no TREE extension here, without which `git diff --cached` compares
// every entry (46 ms against 11 at 57,000 files), and `git status` likewise.

/// `index.lock`, which by git's protocol keeps other writers away until it becomes the index.
pub(super) struct IndexLock {
    file: File,
    path: PathBuf,
}

impl IndexLock {
    /// Takes the lock in an admin dir.
    ///
    /// # Errors
    /// `io` when it is held, `disk-full`, `repo-read-only`.
    pub(super) fn take(admin_dir: &Path) -> Result<IndexLock> {
        let path = admin_dir.join("index.lock");
        // By git's own protocol, so that no git in the new worktree writes an index of its own
        // meanwhile.
        let file = File::create_new(&path).at("could not create", &path)?;
        Ok(IndexLock { file, path })
    }

    /// The lock file.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Writes the index and puts it in place.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn commit(self, listing: &Listing) -> Result<()> {
        let written = write(BufWriter::with_capacity(1 << 16, &self.file), listing)
            .and_then(|()| std::fs::rename(&self.path, self.path.with_extension("")));
        written.at("could not write", &self.path)
    }
}

fn write(out: impl Write, listing: &Listing) -> std::io::Result<()> {
    let mut out = Hashing { out, hash: Sha1::new() };
    let entries = listing.index.entries();
    out.write_all(b"DIRC\0\0\0\x02")?;
    out.write_all(&length(entries.len())?)?;
    for entry in entries {
        let path = entry.path(&listing.index);
        let stat = &entry.stat;
        // A submodule's stat is of no meaning to git as long as the submodule is not checked out.
        let fields = [
            stat.ctime.secs,
            stat.ctime.nsecs,
            stat.mtime.secs,
            stat.mtime.nsecs,
            stat.dev,
            stat.ino,
            entry.mode.bits(),
            stat.uid,
            stat.gid,
            stat.size,
        ];
        let mut head = [0; 62];
        for (place, field) in head.chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        head[40..60].copy_from_slice(entry.id.as_bytes());
        // Twelve bits; a longer path is found by its terminator.
        let flags = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        head[60..].copy_from_slice(&flags.to_be_bytes());
        out.write_all(&head)?;
        out.write_all(path)?;
        // One to eight terminators fill the entry to a multiple of eight.
        let padding = 8 - (head.len() + path.len()) % 8;
        out.write_all([0; 8].split_at(padding).0)?;
    }
    let tree = tree_extension(listing);
    out.write_all(b"TREE")?;
    out.write_all(&length(tree.len())?)?;
    out.write_all(&tree)?;
    let Hashing { mut out, hash } = out;
    out.write_all(&hash.finalize())?;
    out.flush()
}

/// Per directory, parents first: name, NUL, entries below, blank, subdirectories, LF, oid.
fn tree_extension(listing: &Listing) -> Vec<u8> {
    let mut tree = Vec::with_capacity(listing.directories.len() * 48);
    for directory in &listing.directories {
        tree.extend_from_slice(&directory.name);
        let counts = format!("\0{} {}\n", directory.entries, directory.children);
        tree.extend_from_slice(counts.as_bytes());
        tree.extend_from_slice(directory.oid.as_bytes());
    }
    tree
}

fn length(length: usize) -> std::io::Result<[u8; 4]> {
    u32::try_from(length)
        .map(u32::to_be_bytes)
        .map_err(|_| std::io::Error::new(std::io::ErrorKind::FileTooLarge, "index over 4 GiB"))
}

struct Hashing<W> {
    out: W,
    hash: Sha1,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, data: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(data)?;
        // A short write is continued by the caller with the rest, so only what was written is
        // hashed.
        self.hash.update(data.get(..written).unwrap_or(data));
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
