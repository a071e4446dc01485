//! Notes trees, read and written raw: objects annotated by blobs, named by the annotated object's
//! hex digits, with the first pairs of digits split off into directories where there are many.
//!
//! git's own reader accepts any depth and mixture, and so does this one. The writer ([`fanout`])
//! applies git's own rule, so its trees are byte-identical to those of `git notes add`. libgit2's
//! notes API is not used: it writes flat trees (5 MB and 370 ms per append at 100,000 notes) and
//! overwrites what others wrote meanwhile. `git notes` is not used either: it does not compare
//! before it swaps (349 of 400 acknowledged appends lost with 16 writers).

pub mod fanout;
pub mod lines;
pub mod union;

use super::Repo;
use super::tree;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use std::collections::{BTreeSet, HashSet};

/// One level of a notes tree, told apart as git tells it apart (`notes.c: load_subtree`).
#[derive(Debug, Default)]
struct Level {
    /// Annotated object and blob.
    notes: Vec<(Oid, Oid)>,
    /// The two digits of a fan-out directory as a byte, and its tree.
    directories: Vec<(u8, Oid)>,
    /// Everything that is no note. It belongs to other tools and stays.
    others: Vec<tree::Entry>,
}

/// Reads the level at `prefix`, the bytes that the directories above it spell.
fn read_level(repo: &Repo, tree: Oid, prefix: &[u8]) -> Result<Level> {
    let mut level = Level::default();
    for entry in repo.read_tree(tree)? {
        match digits(&entry.name).as_deref() {
            Some(&[byte]) if entry.is_directory() && prefix.len() < 19 => {
                level.directories.push((byte, entry.oid));
            }
            Some(rest) if rest.len() + prefix.len() == 20 && entry.is_file() => {
                let key = [prefix, rest].concat();
                level
                    .notes
                    .extend(Oid::from_slice(&key).map(|key| (key, entry.oid)));
            }
            _ => level.others.push(entry),
        }
    }
    Ok(level)
}

/// The bytes that lower-case hex digits spell; `None` for any other name.
fn digits(name: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    if !name.len().is_multiple_of(2) {
        return None;
    }
    name.chunks_exact(2)
        .map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?))
        .collect()
}

/// The blobs that annotate `key`: none, one, or several where a tree holds the note at more than one
/// depth.
///
/// # Errors
/// `repo-corrupt` when a tree is missing.
pub fn lookup(repo: &Repo, tree: Oid, key: Oid) -> Result<Vec<Oid>> {
    let found = lookup_many(repo, tree, &BTreeSet::from([key]))?;
    Ok(found.into_iter().map(|(_, blob)| blob).collect())
}

/// The body of a note, its duplicates united; empty when there is none.
///
/// # Errors
/// `repo-corrupt` when a tree or a blob is missing.
pub fn body(repo: &Repo, tree: Oid, key: Oid) -> Result<Vec<u8>> {
    united(repo, &lookup(repo, tree, key)?)
}

/// The lines of all these blobs, each once.
///
/// # Errors
/// `repo-corrupt` when one is missing.
pub fn united(repo: &Repo, blobs: &[Oid]) -> Result<Vec<u8>> {
    let bodies: Vec<_> = blobs
        .iter()
        .map(|blob| repo.read_blob(*blob))
        .collect::<Result<_>>()?;
    Ok(lines::union(bodies.iter().map(Vec::as_slice)))
}

/// As [`lookup`], for many objects: each tree on the way to them is read once. An object without a note is not in
/// the answer.
///
/// # Errors
/// As [`lookup`].
pub fn lookup_many(repo: &Repo, tree: Oid, keys: &BTreeSet<Oid>) -> Result<Vec<(Oid, Oid)>> {
    let mut found = Vec::new();
    let keys: Vec<Oid> = keys.iter().copied().collect();
    lookup_below(repo, tree, &mut Vec::new(), &keys, &mut found)?;
    Ok(found)
}

/// Looks for keys that all begin with the prefix, in their order.
fn lookup_below(
    repo: &Repo,
    tree: Oid,
    prefix: &mut Vec<u8>,
    keys: &[Oid],
    found: &mut Vec<(Oid, Oid)>,
) -> Result<()> {
    let level = read_level(repo, tree, prefix)?;
    let notes = level.notes.into_iter();
    found.extend(notes.filter(|(key, _)| keys.binary_search(key).is_ok()));
    let depth = prefix.len();
    for (byte, tree) in level.directories {
        let start = keys.partition_point(|key| key.as_bytes()[depth] < byte);
        let end = keys.partition_point(|key| key.as_bytes()[depth] <= byte);
        if start < end {
            prefix.push(byte);
            lookup_below(repo, tree, prefix, &keys[start..end], found)?;
            prefix.pop();
        }
    }
    Ok(())
}

/// Every note whose annotated object begins with these hex digits (as values 0 to 15), with
/// duplicates where the tree has them.
///
/// # Errors
/// As [`lookup`].
pub fn with_prefix(repo: &Repo, tree: Oid, nibbles: &[u8]) -> Result<Vec<(Oid, Oid)>> {
    let mut found = Vec::new();
    Directories::default().collect(repo, tree, &mut Vec::new(), nibbles, &mut found)?;
    Ok(found)
}

/// Every note, in the order of the annotated objects, with duplicates where the tree has them.
///
/// # Errors
/// As [`lookup`].
pub fn all(repo: &Repo, tree: Oid) -> Result<Vec<(Oid, Oid)>> {
    let mut notes = with_prefix(repo, tree, &[])?;
    notes.sort_unstable();
    Ok(notes)
}

/// Whether the top of a tree looks as that of a notes tree does: nothing but notes and their directories.
///
/// # Errors
/// As [`lookup`].
pub fn is_notes_tree(repo: &Repo, tree: Oid) -> Result<bool> {
    Ok(read_level(repo, tree, &[])?.others.is_empty())
}

/// The directories that one walk over a notes tree has opened.
///
/// What is below two directories of one tree has different names, so no directory stands in it twice, unless the tree was
/// made by hand: a few small trees that lead to each other would then stand for more notes than any memory holds.
#[derive(Debug, Default)]
struct Directories(HashSet<Oid>);

impl Directories {
    /// Reads the level of a directory.
    fn read_level(&mut self, repo: &Repo, tree: Oid, prefix: &[u8]) -> Result<Level> {
        if !prefix.is_empty() && !self.0.insert(tree) {
            return Err(Error::new(
                Code::RepoCorrupt,
                format!("directory {tree} is in a tree of notes twice, and git never writes one so"),
            )
            .hint("to see which commits hold it, run git log refs/notes/agents refs/notes/agents-mail"));
        }
        read_level(repo, tree, prefix)
    }

    fn collect(
        &mut self,
        repo: &Repo,
        tree: Oid,
        prefix: &mut Vec<u8>,
        nibbles: &[u8],
        found: &mut Vec<(Oid, Oid)>,
    ) -> Result<()> {
        let level = self.read_level(repo, tree, prefix)?;
        let agrees = |bytes: &[u8]| {
            let spelled = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            spelled.zip(nibbles).all(|(one, &two)| one == two)
        };
        found.extend(
            level
                .notes
                .into_iter()
                .filter(|(key, _)| agrees(key.as_bytes())),
        );
        for (byte, tree) in level.directories {
            prefix.push(byte);
            if agrees(prefix) {
                self.collect(repo, tree, prefix, nibbles, found)?;
            }
            prefix.pop();
        }
        Ok(())
    }
}
