//! Writing notes with git's own fan-out, touching nothing but the paths to them.
//!
//! The rule (`notes.c: determine_fanout`): a level is split into two-digit directories iff each of the 16
//! values of its next digit leads to at least two notes or to a directory. It is applied level by
//! level from the root, and only where all levels above were split.
//!
//! No id of an agent begins with `a`, so git's rule alone would never split the rows of any number of agents. A level
//! with most of the 256 possible directories is split as well, which git reads as it reads any other.
//!
//! For a set that only grows the tree is a function of the set alone.

use super::{Directories, Level, lines, read_level};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::{Repo, tree};
use std::collections::BTreeMap;

/// A level that would have so many directories is split, whatever digits are missing. Random keys of all digits have
/// that many only long after git's own rule split them.
const MANY_DIRECTORIES: usize = 192;

/// What to do with one note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// This blob becomes the note, whatever was there.
    Replace(Oid),
    /// The lines of this blob join whatever is there.
    Union(Oid),
}

/// Notes to be written, by annotated object.
pub type Batch = BTreeMap<Oid, Put>;

/// Writes notes into a tree ([`Oid::EMPTY_TREE`] to begin with) and gives the new tree. Levels on the
/// way are normalised: mixed depths become one, duplicates are united, entries that are no notes stay.
///
/// # Errors
/// `repo-corrupt` when a tree or a blob that is needed is missing; `disk-full`, `repo-read-only`.
pub fn put(repo: &Repo, tree: Oid, batch: Batch) -> Result<Oid> {
    if batch.is_empty() {
        return Ok(tree);
    }
    Ok(put_level(repo, tree, &mut Vec::new(), batch)?.unwrap_or(Oid::EMPTY_TREE))
}

/// Gives the tree of the level, or `None` when nothing is left in it.
fn put_level(repo: &Repo, tree: Oid, prefix: &mut Vec<u8>, batch: Batch) -> Result<Option<Oid>> {
    let mut level = read_level(repo, tree, prefix)?;
    if is_split(&level, &batch, prefix.len()) {
        let mut entries = std::mem::take(&mut level.others);
        let mut waiting = BTreeMap::<u8, Batch>::new();
        let flat = level
            .notes
            .drain(..)
            .map(|(key, blob)| (key, Put::Union(blob)));
        // The batch comes last, so that what it replaces stays replaced.
        for (key, value) in flat.chain(batch) {
            let below = waiting.entry(key.as_bytes()[prefix.len()]).or_default();
            join(repo, below, key, value)?;
        }
        for (byte, tree) in level.directories {
            if !waiting.contains_key(&byte) {
                entries.push(directory(byte, tree));
            } else if let Some(below) = waiting.remove(&byte) {
                entries.extend(put_below(repo, tree, prefix, byte, below)?);
            }
        }
        for (byte, below) in waiting {
            entries.extend(put_below(repo, Oid::EMPTY_TREE, prefix, byte, below)?);
        }
        return write(repo, entries);
    }
    let mut notes = Batch::new();
    let mut entries = std::mem::take(&mut level.others);
    flatten(
        repo,
        (&mut Directories::default(), level),
        prefix,
        (&mut notes, &mut entries),
    )?;
    for (key, value) in batch {
        join(repo, &mut notes, key, value)?;
    }
    for (key, value) in notes {
        let (Put::Replace(oid) | Put::Union(oid)) = value;
        let name = key.to_hex().into_bytes().split_off(prefix.len() * 2);
        entries.push(tree::Entry {
            mode: tree::FILE,
            name,
            oid,
        });
    }
    write(repo, entries)
}

fn put_below(
    repo: &Repo,
    tree: Oid,
    prefix: &mut Vec<u8>,
    byte: u8,
    below: Batch,
) -> Result<Option<tree::Entry>> {
    prefix.push(byte);
    let tree = put_level(repo, tree, prefix, below);
    prefix.pop();
    Ok(tree?.map(|tree| directory(byte, tree)))
}

/// Whether this level is split with the batch already in it.
fn is_split(level: &Level, batch: &Batch, depth: usize) -> bool {
    let mut counts = [0usize; 16];
    let mut directories = [false; 256];
    for (byte, _) in &level.directories {
        counts[usize::from(byte >> 4)] += 2;
        directories[usize::from(*byte)] = true;
    }
    let flat = level.notes.iter().map(|(key, _)| key);
    // Within one level git's order of names is the order of the keys.
    let is_flat = |key: &Oid| level.notes.binary_search_by_key(key, |note| note.0).is_ok();
    let new = batch.keys().filter(|key| !is_flat(key));
    for key in flat.chain(new) {
        let byte = key.as_bytes()[depth];
        counts[usize::from(byte >> 4)] += 1;
        directories[usize::from(byte)] = true;
    }
    let directories = directories.iter().filter(|&&is_used| is_used).count();
    counts.iter().all(|&count| count >= 2) || directories >= MANY_DIRECTORIES
}

/// Moves the notes of the level and of all directories below it into `notes`. What is no note keeps
/// its directory.
fn flatten(
    repo: &Repo,
    (seen, level): (&mut Directories, Level),
    prefix: &mut Vec<u8>,
    (notes, entries): (&mut Batch, &mut Vec<tree::Entry>),
) -> Result<()> {
    for (key, blob) in level.notes {
        join(repo, notes, key, Put::Union(blob))?;
    }
    for (byte, tree) in level.directories {
        prefix.push(byte);
        let mut below = seen.read_level(repo, tree, prefix)?;
        let mut rest = std::mem::take(&mut below.others);
        flatten(repo, (&mut *seen, below), prefix, (&mut *notes, &mut rest))?;
        prefix.pop();
        entries.extend(write(repo, rest)?.map(|tree| directory(byte, tree)));
    }
    Ok(())
}

/// Adds one note to a batch, uniting it with what the batch holds for the same object.
fn join(repo: &Repo, batch: &mut Batch, key: Oid, value: Put) -> Result<()> {
    let joined = match (batch.remove(&key), value) {
        (Some(Put::Union(one)), Put::Union(two)) if one != two => {
            let bodies = [repo.read_blob(one)?, repo.read_blob(two)?];
            Put::Union(repo.write_blob(&lines::union(bodies.iter().map(Vec::as_slice)))?)
        }
        (Some(Put::Replace(oid)), Put::Union(_)) => Put::Replace(oid),
        (_, value) => value,
    };
    batch.insert(key, joined);
    Ok(())
}

fn directory(byte: u8, oid: Oid) -> tree::Entry {
    tree::Entry {
        mode: tree::DIRECTORY,
        name: format!("{byte:02x}").into_bytes(),
        oid,
    }
}

fn write(repo: &Repo, entries: Vec<tree::Entry>) -> Result<Option<Oid>> {
    if entries.is_empty() {
        return Ok(None);
    }
    repo.write_tree(entries).map(Some)
}
