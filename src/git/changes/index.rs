//! Reading an index: versions 2 to 4 and the TREE extension (git's `gitformat-index`).
//!
//! Only what `git commit` would make of it matters, so stat data are kept for `glance` alone, the checksum is passed
//! over (git itself reads without checking it) and entries that only intend to be added are left out. A
//! split or sparse index, and any required extension that we do not know, is left to git.
//!
//! The cached trees are believed: `git commit` believes them too, and writes the tree they name.

mod known_tree;
mod rewrite;
mod written;

pub(super) use known_tree::known_tree;
pub(in crate::git) use rewrite::{Edits, Rewritten};
pub(in crate::git) use written::{StatData, Written, stat_data};

use super::compare::{Directory, Item};
use super::index_tree::{self, CachedTree};
use super::{Content, canonical_mode, tree};
use crate::domain::oid::Oid;
use std::cmp::Ordering;
use std::ops::Range;

const HEADER: usize = 12;
/// Stat data, oid and flags; the path follows.
const FIXED: usize = 62;
const CHECKSUM: usize = 20;
/// No file has a longer path on Linux (`PATH_MAX`). Git looks at an index that has one, so that what costs a step for
/// each directory of a path stays cheap here.
const LONGEST_PATH: usize = 4096;
/// How many times as long as the file what version 4 shortens may become: a writer can make a few bytes stand for a
/// long path as often as it likes.
const GROWTH: usize = 8;

/// The part of an index that a commit is made of.
#[derive(Debug, Default)]
pub(in crate::git) struct Index {
    /// The file, followed by the paths that version 4 shortens. Copying nothing else halves the time.
    bytes: Vec<u8>,
    /// The length of the file.
    file: usize,
    pub(super) entries: Vec<Entry>,
    /// Cached trees, parents before children; the first is the top.
    trees: Vec<CachedTree>,
    /// Whether there is more to it than paths with their content: an entry that is unmerged, to be passed
    /// over or of a mode that git does not write; an extension that says something about entries.
    pub(in crate::git) is_flagged: bool,
}

#[derive(Debug)]
pub(in crate::git) struct Entry {
    path: Range<u32>,
    pub(in crate::git) content: Content,
    /// Where its stat data begin.
    at: u32,
}

impl Index {
    /// Reads an index file; `None` when it is malformed or for git alone to read.
    pub(in crate::git) fn parse(file: Vec<u8>) -> Option<Index> {
        let end = file.len().checked_sub(CHECKSUM)?;
        if file.get(..4)? != b"DIRC" {
            return None;
        }
        let version = be32(&file, 4)?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = usize::try_from(be32(&file, 8)?).ok()?;
        let mut index = Index {
            // An entry takes more bytes than this, so a made-up count reserves nothing absurd.
            entries: Vec::with_capacity(count.min(end / FIXED)),
            file: file.len(),
            bytes: file,
            ..Index::default()
        };
        let longest = index.bytes.len().saturating_mul(GROWTH);
        let mut position = HEADER;
        let mut previous = 0..0;
        for _ in 0..count {
            (position, previous) = index.read_entry(position, version, previous)?;
            if index.bytes.len() > longest {
                return None;
            }
        }
        index.read_extensions(position, end)?;
        Some(index)
    }

    /// Whether some entry is a submodule.
    pub(in crate::git) fn has_submodules(&self) -> bool {
        self.submodules().next().is_some()
    }

    /// The paths of the submodules.
    pub(in crate::git) fn submodules(&self) -> impl Iterator<Item = &[u8]> {
        let links = { self.entries.iter() }.filter(|entry| entry.content.0 == tree::GITLINK);
        links.map(|entry| self.path(entry))
    }

    /// All of it, as the new side of a comparison, with its tree where that is known.
    pub(super) fn top(&self) -> (Option<Oid>, Directory) {
        let oid = self.trees.first().and_then(|tree| Some(tree.valid?.1));
        let directory = Directory::Index {
            entries: 0..self.entries.len(),
            cached: (!self.trees.is_empty()).then_some(0),
        };
        (oid, directory)
    }

    /// The names directly in a directory. `skip` is the length of its path with the final slash.
    pub(super) fn level(
        &self,
        entries: Range<usize>,
        cached: Option<usize>,
        skip: usize,
    ) -> Vec<(&[u8], Item)> {
        self.level_where(entries, cached, skip, |_| true)
    }

    /// As [`Index::level`], with the cached trees of those directories alone that are `believed`.
    pub(super) fn level_where(
        &self,
        entries: Range<usize>,
        cached: Option<usize>,
        skip: usize,
        is_believed: impl Fn(&[u8]) -> bool,
    ) -> Vec<(&[u8], Item)> {
        let children = |tree| index_tree::cached_children(&self.bytes, &self.trees, tree);
        let children = cached.map(children).unwrap_or_default();
        let mut names = Vec::new();
        let mut at = entries.start;
        while at < entries.end {
            let entry = &self.entries[at];
            let rest = self.path(entry).get(skip..).unwrap_or_default();
            let Some(slash) = rest.iter().position(|&byte| byte == b'/') else {
                names.push((rest, Item::File(entry.content)));
                at += 1;
                continue;
            };
            let name = &rest[..slash];
            let cached = children.get(name).copied();
            let valid = cached.filter(|_| is_believed(name));
            let valid = valid.and_then(|tree| self.trees[tree].valid);
            // Of no entries, or of more than there are: git does not believe that, either.
            let valid = valid.filter(|(count, _)| *count > 0 && *count <= entries.end - at);
            let length = match valid {
                // Entries that only intend to be added make a tree invalid, so none is missing.
                Some((count, _)) => count,
                None => self.entries[at..entries.end].partition_point(|entry| {
                    let path = self.path(entry);
                    path.get(skip..skip + slash + 1) == Some(&rest[..=slash])
                }),
            };
            let directory = Directory::Index {
                entries: at..at + length,
                cached,
            };
            let oid = valid.map(|(_, oid)| oid);
            names.push((name, Item::Directory { oid, directory }));
            // A malformed count must not keep this loop in its place.
            at += length.max(1);
        }
        names
    }

    /// Reads the entry at `position`, after one whose path is `previous`; gives the position after it
    /// and its path.
    fn read_entry(
        &mut self,
        position: usize,
        version: u32,
        previous: Range<usize>,
    ) -> Option<(usize, Range<usize>)> {
        let fixed = self.bytes.get(position..position + FIXED)?;
        let mode = be32(fixed, 24)?;
        let oid = Oid::from_slice(&fixed[40..60])?;
        let flags = u16::from_be_bytes([fixed[60], fixed[61]]);
        let mut at = position + FIXED;
        let mut intends = false;
        // The four high bits: assume-valid, extended, and the stage.
        self.is_flagged |= flags & 0xf000 != 0 || canonical_mode(mode) != mode;
        if version < 3 && flags & 0x4000 != 0 {
            return None;
        }
        if version >= 3 && flags & 0x4000 != 0 {
            // `intent-to-add` among the extended flags.
            intends = self.bytes.get(at)? & 0x20 != 0;
            at += 2;
        }
        let (path, end) = match version {
            4 => self.shortened_path(at, previous.clone())?,
            _ => {
                let length = match usize::from(flags & 0xfff) {
                    // Longer than the field can say.
                    0xfff => self.bytes.get(at..)?.iter().position(|&byte| byte == 0)?,
                    length => length,
                };
                let end = at + length;
                // One to eight terminators fill the entry to a multiple of eight.
                (at..end, end + 8 - (end - position) % 8)
            }
        };
        let bytes = self.bytes.get(path.clone())?;
        // Only a sparse index has directories for entries.
        if mode == tree::DIRECTORY {
            return None;
        }
        // Git goes by this number where it fits, not by the terminator; but it shows and compares no more of a path
        // than what is before a NUL.
        let is_told = bytes.len() == usize::from(flags & 0xfff) || bytes.len() >= 0xfff;
        if !is_told || memchr::memchr(0, bytes).is_some() || bytes.len() > LONGEST_PATH {
            return None;
        }
        let unmerged = flags & 0x3000 != 0;
        match self.bytes[previous].cmp(bytes) {
            // The other stages of a path in conflict.
            Ordering::Equal if unmerged && self.ends_unmerged_at(bytes) => {}
            // The writer of this hides something from a reader that trusts the order.
            Ordering::Equal | Ordering::Greater => return None,
            // `git commit` makes nothing of such an entry.
            Ordering::Less if intends && !unmerged => {}
            Ordering::Less => self.entries.push(Entry {
                path: u32::try_from(path.start).ok()?..u32::try_from(path.end).ok()?,
                // Of a conflict no single content is known; a zero name equals that of no blob.
                content: (canonical_mode(mode), if unmerged { Oid::ZERO } else { oid }),
                at: u32::try_from(position).ok()?,
            }),
        }
        Some((end, path))
    }

    /// Whether the last entry is a path in conflict: a merged one has no other stages.
    fn ends_unmerged_at(&self, path: &[u8]) -> bool {
        let last = self.entries.last();
        last.is_some_and(|last| last.content.1.is_zero() && self.path(last) == path)
    }

    /// Version 4: how much to cut off the previous path, then what to put at its end, and NUL.
    fn shortened_path(
        &mut self,
        at: usize,
        previous: Range<usize>,
    ) -> Option<(Range<usize>, usize)> {
        let (cut, at) = varint(&self.bytes, at)?;
        let kept = previous.len().checked_sub(cut)?;
        let length = self.bytes.get(at..)?.iter().position(|&byte| byte == 0)?;
        let start = self.bytes.len();
        self.bytes
            .extend_from_within(previous.start..previous.start + kept);
        self.bytes.extend_from_within(at..at + length);
        Some((start..self.bytes.len(), at + length + 1))
    }

    fn read_extensions(&mut self, mut at: usize, end: usize) -> Option<()> {
        while at < end {
            let signature = self.bytes.get(at..at + 4)?;
            let length = usize::try_from(be32(&self.bytes, at + 4)?).ok()?;
            let body = at + 8..(at + 8).checked_add(length).filter(|&after| after <= end)?;
            at = body.end;
            match signature {
                b"TREE" => self.trees = index_tree::cached_tree_ids(&self.bytes, body)?,
                // What was resolved, the untracked cache, the file system monitor: not where entries are.
                b"REUC" | b"UNTR" | b"FSMN" => {}
                // A lower-case letter says that a reader must know it (`link`, `sdir`).
                [first, ..] if !first.is_ascii_uppercase() => return None,
                _ => self.is_flagged = true,
            }
        }
        // An entry that reaches into the checksum is none.
        (at == end).then_some(())
    }

    /// How many bytes it takes in memory, about.
    pub(super) fn size(&self) -> usize {
        let trees = self.trees.capacity() * size_of::<CachedTree>();
        self.bytes.capacity() + self.entries.capacity() * size_of::<Entry>() + trees
    }

    pub(super) fn path(&self, entry: &Entry) -> &[u8] {
        // Made from positions in these bytes, which only grow.
        let position = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let path = position(entry.path.start)..position(entry.path.end);
        self.bytes.get(path).unwrap_or_default()
    }
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Git's offset encoding (`varint.c: decode_varint`): the value and the position after it.
fn varint(data: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *data.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *data.get(at)?;
        // Git adds one at each further byte, so that no value has two encodings.
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}
