//! Reading an index: versions 2 to 4 and the TREE extension (git's `gitformat-index`).
//!
//! Only what `git commit` would make of it matters, so stat data and the checksum are passed over (git
//! itself reads without checking the latter) and entries that only intend to be added are left out. A
//! split or sparse index, and any required extension that we do not know, is left to git.
//!
//! The cached trees are believed: `git commit` believes them too, and writes the tree they name.

use super::compare::{Directory, Item};
use super::{Content, canonical_mode};
use crate::domain::oid::Oid;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;

const HEADER: usize = 12;
/// Stat data, oid and flags; the path follows.
const FIXED: usize = 62;
const CHECKSUM: usize = 20;

/// The part of an index that a commit is made of.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: Vec<Entry>,
    /// All paths, one after the other.
    paths: Vec<u8>,
    /// Cached trees, parents before children; the first is the top.
    trees: Vec<CachedTree>,
}

#[derive(Debug)]
struct Entry {
    path: Range<usize>,
    content: Content,
}

/// One directory of the TREE extension.
#[derive(Debug)]
struct CachedTree {
    name: Vec<u8>,
    /// How many entries are below it, and their tree; `None` when something below it was changed.
    valid: Option<(usize, Oid)>,
    /// The position after the last tree below it.
    end: usize,
}

impl Index {
    /// Reads an index file; `None` when it is malformed or for git alone to read.
    pub(super) fn parse(data: &[u8]) -> Option<Index> {
        let content = data.get(..data.len().checked_sub(CHECKSUM)?)?;
        if content.get(..4)? != b"DIRC" {
            return None;
        }
        let version = be32(content, 4)?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = usize::try_from(be32(content, 8)?).ok()?;
        let mut index = Index {
            // An entry takes more bytes than this, so a made-up count reserves nothing absurd.
            entries: Vec::with_capacity(count.min(content.len() / FIXED)),
            paths: Vec::with_capacity(content.len() / 2),
            trees: Vec::new(),
        };
        let mut position = HEADER;
        let mut previous = Range::default();
        for _ in 0..count {
            position = index.read_entry(content, position, version, &mut previous)?;
        }
        index.read_extensions(content, position)?;
        Some(index)
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
        let children = cached.map(|tree| self.children(tree)).unwrap_or_default();
        let mut names = Vec::new();
        let mut at = entries.start;
        while at < entries.end {
            let entry = &self.entries[at];
            let rest = self.paths[entry.path.clone()]
                .get(skip..)
                .unwrap_or_default();
            let Some(slash) = rest.iter().position(|&byte| byte == b'/') else {
                names.push((rest, Item::File(entry.content)));
                at += 1;
                continue;
            };
            let name = &rest[..slash];
            let cached = children.get(name).copied();
            let valid = cached.and_then(|tree| self.trees[tree].valid);
            let length = match valid {
                // Entries that only intend to be added make a tree invalid, so none is missing.
                Some((count, _)) if count > 0 && at + count <= entries.end => count,
                _ => self.entries[at..entries.end].partition_point(|entry| {
                    let path = &self.paths[entry.path.clone()];
                    path.get(skip..skip + slash + 1) == Some(&rest[..=slash])
                }),
            };
            let directory = Directory::Index {
                entries: at..at + length,
                cached,
            };
            let oid = valid.map(|(_, oid)| oid);
            names.push((name, Item::Directory { oid, directory }));
            at += length.max(1);
        }
        names
    }

    fn children(&self, tree: usize) -> HashMap<&[u8], usize> {
        let mut children = HashMap::new();
        let mut at = tree + 1;
        while at < self.trees[tree].end {
            children.insert(self.trees[at].name.as_slice(), at);
            at = self.trees[at].end;
        }
        children
    }

    /// Reads the entry at `position` and gives the position after it.
    fn read_entry(
        &mut self,
        data: &[u8],
        position: usize,
        version: u32,
        previous: &mut Range<usize>,
    ) -> Option<usize> {
        let fixed = data.get(position..position + FIXED)?;
        let mode = be32(fixed, 24)?;
        let oid = Oid::from_slice(&fixed[40..60])?;
        let flags = u16::from_be_bytes([fixed[60], fixed[61]]);
        let mut at = position + FIXED;
        let mut intends = false;
        if version >= 3 && flags & 0x4000 != 0 {
            intends = data.get(at)? & 0x20 != 0;
            at += 2;
        }
        let start = self.paths.len();
        if version == 4 {
            // The path is the previous one, shortened, with something new at its end.
            let (strip, after) = varint(data, at)?;
            let kept = previous.len().checked_sub(strip)?;
            self.paths
                .extend_from_within(previous.start..previous.start + kept);
            at = after;
        }
        let rest = data.get(at..)?;
        let length = match usize::from(flags & 0xfff) {
            // Shorter than the field can say, and not shortened: the length is known.
            length @ ..0xfff if version < 4 => length,
            _ => rest.iter().position(|&byte| byte == 0)?,
        };
        self.paths.extend_from_slice(rest.get(..length)?);
        let path = start..self.paths.len();
        *previous = path.clone();
        at += length;
        let end = match version {
            4 => at + 1,
            // One to eight terminators fill the entry to a multiple of eight.
            _ => at + 8 - (at - position) % 8,
        };
        let unmerged = flags & 0x3000 != 0;
        let content = (canonical_mode(mode), if unmerged { Oid::ZERO } else { oid });
        if mode == super::tree::DIRECTORY {
            return None;
        }
        let before = self
            .entries
            .last()
            .map(|last| &self.paths[last.path.clone()]);
        match before.map(|before| before.cmp(&self.paths[path.clone()])) {
            // The other stages of a path in conflict.
            Some(Ordering::Equal) if unmerged => return Some(end),
            // Whoever wrote this hides something from a reader that trusts the order.
            Some(Ordering::Equal | Ordering::Greater) => return None,
            _ if intends => {}
            _ => self.entries.push(Entry { path, content }),
        }
        Some(end)
    }

    fn read_extensions(&mut self, data: &[u8], mut at: usize) -> Option<()> {
        while at < data.len() {
            let signature = data.get(at..at + 4)?;
            let length = usize::try_from(be32(data, at + 4)?).ok()?;
            let body = data.get(at + 8..(at + 8).checked_add(length)?)?;
            match signature {
                b"TREE" => self.trees = read_trees(body).unwrap_or_default(),
                // A lower-case letter says that a reader must know it (`link`, `sdir`).
                [first, ..] if !first.is_ascii_uppercase() => return None,
                _ => {}
            }
            at += 8 + length;
        }
        Some(())
    }
}

/// Reads the TREE extension: per directory name, NUL, entries below (-1: unknown), blank,
/// subdirectories, LF, and the tree's oid where the entries are known.
fn read_trees(mut data: &[u8]) -> Option<Vec<CachedTree>> {
    let mut trees: Vec<CachedTree> = Vec::new();
    // The directories whose subdirectories are still to come: position, and how many.
    let mut open: Vec<(usize, usize)> = Vec::new();
    while !data.is_empty() {
        let (name, rest) = split(data, 0)?;
        let (entries, rest) = split(rest, b' ')?;
        let (children, rest) = split(rest, b'\n')?;
        let entries: i64 = std::str::from_utf8(entries).ok()?.parse().ok()?;
        let children: usize = std::str::from_utf8(children).ok()?.parse().ok()?;
        let (valid, rest) = match usize::try_from(entries) {
            Ok(entries) => (
                Some((entries, Oid::from_slice(rest.get(..20)?)?)),
                &rest[20..],
            ),
            Err(_) => (None, rest),
        };
        data = rest;
        trees.push(CachedTree {
            name: name.to_owned(),
            valid,
            end: trees.len() + 1,
        });
        if let Some((_, left)) = open.last_mut() {
            *left = left.checked_sub(1)?;
        }
        open.push((trees.len() - 1, children));
        while let Some((done, _)) = open.pop_if(|(_, left)| *left == 0) {
            trees[done].end = trees.len();
        }
    }
    open.is_empty().then_some(trees)
}

fn split(data: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let position = data.iter().position(|&byte| byte == at)?;
    Some((&data[..position], &data[position + 1..]))
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
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}
