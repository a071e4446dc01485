//! What git lists, found by a walk of our own: git is asked about the names that the index does not know, and
//! about files in doubt, and nothing else.
//!
//! What is tracked and in doubt counts as changed. Git looks into it when it writes the objects, so a doubt costs time
//! and never truth. Git is shown the part of the index that these paths are about: reading and writing all of it twice
//! takes longer than the rest.

use super::Source;
use super::fingerprint::WorktreeFingerprint;
use super::listed::Listed;
use super::update::update_files;
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::changes::{Index, TouchedEntries, Walk, Written, names_may_differ};
use crate::git::files::untrusted;
use crate::git::pool::threads;
use std::collections::BTreeMap;
use std::fs;

/// What a walk found in a worktree.
pub(super) struct Walked {
    pub(super) listed: Listed,
    /// The tree of the index as it is.
    pub(super) staged: Oid,
    /// The tree of everything.
    pub(super) tree: Oid,
    pub(super) fingerprint: WorktreeFingerprint,
}

/// Looks at the worktree and its index, which is read once, and writes the trees; `None` when only git can tell.
///
/// # Errors
/// `git-missing`, `git-failed`, `io`, `disk-full`.
pub(super) fn look(source: &Source<'_>) -> Result<Option<Walked>> {
    if names_may_differ(source.repo)? {
        return Ok(None);
    }
    let Some(written) = Written::load(&source.admin_dir.join("index")) else {
        return Ok(None);
    };
    // An index with a flag, a submodule or a mode of its own is more than its files.
    if written.index.is_flagged || written.index.has_submodules() {
        return Ok(None);
    }
    let walk = Walk {
        top: source.worktree,
        written: &written,
        besides: source.rules.never(),
        threads: threads(),
    };
    let mut names = Vec::new();
    let touched = walk.suspects_since(&mut names)?;
    let Some(mut touched) = touched.filter(|found| found.swapped.is_empty()) else {
        return Ok(None);
    };
    let unchanged = touched.take_unchanged(source.repo, source.worktree, &written.index);
    let Some(staged) = source.repo.tree_of(&written.index)? else {
        return Ok(None);
    };
    let mut listed = Listed::default();
    if !touched.is_empty() {
        let part = part_about(&written.index, &touched);
        fs::write(source.index, part).at("could not write", source.index)?;
    }
    if !touched.unknown.is_empty() {
        listed.read_untracked(source, Some(&touched.unknown))?;
    }
    let mut changed = [touched.tracked.as_slice(), &listed.new].concat();
    changed.retain(|path| !listed.is_hidden_by_directory(path));
    let (tree, kept) = if changed.is_empty() {
        (staged, Index::default())
    } else {
        update_files(source, &changed)?;
        let after = untrusted::read_at(source.index, untrusted::LONGEST_INDEX);
        let Some(after) = after.and_then(Index::parse) else {
            return Ok(None);
        };
        let now = |path: &[u8]| after.find(path).map(|entry| entry.content);
        let edits = changed.iter().map(|path| (path.as_slice(), now(path)));
        // A file in the place of a directory, or a repository that was made meanwhile.
        match source
            .repo
            .tree_of_edited(&written.index, &edits.collect())?
        {
            Some(tree) if !after.has_submodules() => (tree, after),
            _ => return Ok(None),
        }
    };
    Ok(Some(Walked {
        listed,
        staged,
        tree,
        fingerprint: WorktreeFingerprint {
            written,
            names,
            touched,
            unchanged,
            kept,
        },
    }))
}

/// The file of an index with what git needs to tell about these paths: the entries of files in doubt; of each directory
/// that holds a name in question some entry, so that git takes it for a tracked one; and all attributes, which git takes
/// from the index where a file of them is missing.
fn part_about(index: &Index, touched: &TouchedEntries) -> Vec<u8> {
    let beside = |name: &Vec<u8>| {
        let end = name.iter().rposition(|&byte| byte == b'/');
        index.first_below(end.map_or(&b""[..], |slash| &name[..=slash]))
    };
    let beside = touched.unknown.iter().filter_map(beside);
    let paths = touched.tracked.iter().map(Vec::as_slice).chain(beside);
    let content = |path| Some((path, index.find(path)?.content));
    let mut contents: BTreeMap<_, _> = index.attributes().collect();
    contents.extend(paths.filter_map(content));
    Index::of(&contents)
}
