//! What one notes tree has that another has not, and the union of two, by structure: subtrees with
//! equal names are not opened, so the cost follows the difference and not the size.

use super::fanout::{self, Put};
use super::{Directories, Level};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::git::objects::{Identity, NewCommit};
use std::collections::BTreeSet;

/// Notes: the annotated object and the blob.
type Notes = BTreeSet<(Oid, Oid)>;

/// The notes of `new` that differ from those of `old`. Where the trees are split differently it may name a note that did
/// not change.
///
/// # Errors
/// `repo-corrupt` when a tree is missing.
pub fn added(repo: &Repo, old: Oid, new: Oid) -> Result<Notes> {
    compared(repo, old, new).map(|(_, added)| added)
}

/// As [`added`], after the notes of `old` that differ from those of `new`.
///
/// # Errors
/// As [`added`].
pub fn compared(repo: &Repo, old: Oid, new: Oid) -> Result<(Notes, Notes)> {
    let mut comparison = Comparison::default();
    comparison.go_on(repo, old, new, &mut Vec::new())?;
    Ok(comparison.found)
}

/// Two notes trees, as far as they were compared.
#[derive(Default)]
struct Comparison {
    old: Directories,
    new: Directories,
    found: (Notes, Notes),
}

impl Comparison {
    fn go_on(&mut self, repo: &Repo, old: Oid, new: Oid, prefix: &mut Vec<u8>) -> Result<()> {
        if old == new {
            return Ok(());
        }
        let (old, new) = (
            self.old.read_level(repo, old, prefix)?,
            self.new.read_level(repo, new, prefix)?,
        );
        let (mut known, mut fresh) = (old.notes.clone(), new.notes.clone());
        for &(byte, tree) in &new.directories {
            prefix.push(byte);
            match directory(&old, byte) {
                Some(old) => self.go_on(repo, old, tree, prefix)?,
                None => self.new.collect(repo, tree, prefix, &[], &mut fresh)?,
            }
            prefix.pop();
        }
        // A directory that is gone may have been flattened into this level.
        for &(byte, tree) in &old.directories {
            if directory(&new, byte).is_none() {
                prefix.push(byte);
                self.old.collect(repo, tree, prefix, &[], &mut known)?;
                prefix.pop();
            }
        }
        let (known, fresh): (Notes, Notes) =
            (known.into_iter().collect(), fresh.into_iter().collect());
        self.found.0.extend(known.difference(&fresh));
        self.found.1.extend(fresh.difference(&known));
        Ok(())
    }
}

fn directory(level: &Level, byte: u8) -> Option<Oid> {
    level
        .directories
        .iter()
        .find(|(other, _)| *other == byte)
        .map(|(_, tree)| *tree)
}

/// The union of two notes trees: every note of both, line by line. Nothing is ever dropped, so this is
/// also what restores lines that a foreign writer lost.
///
/// # Errors
/// As [`fanout::put`].
pub fn union(repo: &Repo, one: Oid, two: Oid) -> Result<Oid> {
    let missing = added(repo, one, two)?;
    let mut tree = one;
    let mut batch = fanout::Batch::new();
    for (key, blob) in missing {
        // A second blob for the same object (a tree with duplicates) needs a second pass.
        if batch.contains_key(&key) {
            tree = fanout::put(repo, tree, std::mem::take(&mut batch))?;
        }
        batch.insert(key, Put::Union(blob));
    }
    fanout::put(repo, tree, batch)
}

/// The commit that unites two histories of notes. Two clones that unite the same two commits make the
/// same one, so that neither has to merge the other's merge: parents and trees are taken in the
/// order of the commits' names, author and time depend on nothing else.
///
/// # Errors
/// As [`fanout::put`].
pub fn union_commit(repo: &Repo, ours: Oid, theirs: Oid, subject: &str) -> Result<Oid> {
    let mut parents = [ours, theirs];
    parents.sort_unstable();
    let (one, two) = (repo.read_commit(parents[0])?, repo.read_commit(parents[1])?);
    let tree = union(repo, one.tree, two.tree)?;
    // A side that holds everything and descends from the other needs no merge.
    let base = repo.merge_base(one.oid, two.oid)?;
    for (older, newer) in [(&one, &two), (&two, &one)] {
        if base == Some(older.oid) && newer.tree == tree {
            return Ok(newer.oid);
        }
    }
    let who = Identity::stand_in(one.seconds.max(two.seconds));
    repo.write_commit(&NewCommit {
        tree,
        parents: &parents,
        author: &who,
        committer: &who,
        header: None,
        message: &format!("{subject}\n\nGit-Agent: 1\n"),
    })
}
