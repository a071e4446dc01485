//! The tree that committing everything in a worktree would make.
//!
//! A copy of the worktree's index, or of a part of it, is brought up to date by the user's git, so that filters and line
//! ends come out as in a real commit; the worktree and its own index are not touched. What an index can
//! hide is uncovered in the copy: assume-unchanged and skip-worktree are cleared, the file system
//! monitor and the untracked cache are off. Untracked files count as `git add -A` would have it
//! ([`super::changes::ignore`]). No hook runs.
//!
//! A walk of our own finds what git has to look at (`walked`). Where that cannot tell, git looks at everything
//! (`listed`); both end in the same tree.

mod base;
mod fingerprint;
mod layer;
mod listed;
pub mod salvage;

use crate::domain::Oid;
use crate::domain::paths::path::directory_with_slash;
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::changes::gitlinks::{self, NestedPlace};
use crate::git::changes::ignore::Rules;
use crate::git::changes::{Index, TouchedEntries, Walk, Written, names_may_differ};
use crate::git::core::pool::threads;
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::untrusted;
use crate::git::uncommitted::listed::{
    UnwritableFiles, bring_up_to_date, update_files, write_files,
};
use crate::git::worktree::view::{WorktreeView, sparse_words_at};
use crate::git::{Repo, core::command};
pub use base::index_of_copies;
use fingerprint::LayerFingerprint;
pub use fingerprint::{
    SeenWorktree, WorktreeFingerprint, copy_rules, rules_files, untracked_names,
};
pub use layer::{glance, is_plain_index, staged_tree, unsplit_index};
use listed::Listed;
pub use listed::ignored;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Settings that could make git overlook a change. The view keeps git from running something.
const SETTINGS: &[&str] = &[
    "core.untrackedCache=false",
    "core.checkStat=default",
    "core.trustctime=true",
    "core.ignoreStat=false",
    "core.safecrlf=false",
    // No other program reads the copy, and a hash over all of it takes as long as the rest.
    "index.skipHash=true",
];

/// A worktree whose work is to be turned into a tree.
#[derive(Clone, Copy)]
pub struct WorktreeSource<'a> {
    /// The repository, seen from the worktree.
    pub repo: &'a Repo,
    /// Its top.
    pub worktree: &'a Path,
    /// Its admin directory.
    pub admin_dir: &'a Path,
    /// What git looks through instead of that.
    pub view: &'a WorktreeView,
    /// The commit its branch is at.
    pub tip: Oid,
    /// Whether anything is staged.
    pub staged: bool,
    /// Whether files may be absent because the checkout is sparse.
    pub sparse: bool,
    /// What decides which untracked files count.
    pub rules: &'a Rules,
    /// Whether the ignored files are named.
    pub names_ignored: bool,
    /// Where the copy of the index goes; the caller removes it.
    pub index: &'a Path,
}

/// What a worktree holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncommitted {
    /// The tree of everything; absent when there is nothing to commit.
    pub tree: Option<Oid>,
    /// Paths with more than one stage.
    pub unmerged: Vec<Vec<u8>>,
    /// Directories that are repositories of their own.
    pub nested: Vec<Vec<u8>>,
    /// Files that no commit can hold because of their names.
    pub refused: Vec<Vec<u8>>,
    /// Submodules with files that their own commit does not hold.
    pub submodules: Vec<Vec<u8>>,
    /// Directories that could not be read, and so hide whatever is in them.
    pub unreadable: Vec<Vec<u8>>,
    /// What is ignored, as [`ignored`] names it, where [`WorktreeSource::names_ignored`] asks for it.
    pub ignored: Vec<Vec<u8>>,
}

/// Writes the tree of a worktree to the repository.
///
/// # Errors
/// `git-missing`; `git-failed` when git cannot read the index or a file; `io`, `disk-full`.
pub fn snapshot(source: &WorktreeSource<'_>) -> Result<Uncommitted> {
    // A layered worktree has only its `.git` at its own path, and a look there would find every
    // file deleted.
    if let Some(layer) = WorktreeLayer::of(source.admin_dir) {
        require_whole(source)?;
        let found = layer::look(source, &layer, UnwritableFiles::Refused)?;
        let is_work = |tree: &Oid| source.staged || Some(*tree) != found.staged;
        let tree = Some(found.tree).filter(is_work);
        return Ok(Uncommitted::new(tree, found.listed, found.submodules));
    }
    let Some(found) = look_through_walk(source)? else {
        return snapshot_by_git(source);
    };
    // A file that was only touched was looked into for nothing.
    let is_work = |tree: &Oid| source.staged || *tree != found.staged;
    let tree = Some(found.tree).filter(is_work);
    Ok(Uncommitted::new(tree, found.listed, Vec::new()))
}

/// As [`snapshot`], with git looking at everything: what that falls back to, and what it is held against.
///
/// # Errors
/// As [`snapshot`].
pub fn snapshot_by_git(source: &WorktreeSource<'_>) -> Result<Uncommitted> {
    copy_index(source)?;
    let mut listed = listed::list(source)?;
    // The order matters: what was listed tells which entries to clear, and the tree is written from
    // the index that came of it.
    let changed = bring_up_to_date(source, &mut listed)?;
    let is_work = changed || source.staged;
    let written = is_work.then(|| write_tree(source)).transpose()?;
    let (tree, links) = written.unzip();
    // Asked last, by the index that is up to date: a submodule may have been added or removed among
    // the changes.
    let submodules = holding_work(source, links.flatten())?;
    Ok(Uncommitted::new(tree, listed, submodules))
}

impl Uncommitted {
    fn new(tree: Option<Oid>, listed: Listed, submodules: Vec<Vec<u8>>) -> Uncommitted {
        Uncommitted {
            tree,
            unmerged: listed.unmerged,
            nested: listed.nested,
            refused: listed.refused,
            submodules,
            unreadable: listed.unreadable,
            ignored: listed.ignored,
        }
    }
}

/// Refuses a layered worktree whose agent made the checkout sparse: what is absent there looks as what was deleted.
fn require_whole(source: &WorktreeSource<'_>) -> Result<()> {
    if !sparse_words_at(source.admin_dir).contains(&("core.sparsecheckout", true)) {
        return Ok(());
    }
    let name = source.admin_dir.file_name().unwrap_or_default();
    let id = name.to_string_lossy().trim_start_matches("agent-").to_owned();
    let what = format!("agent {id} made its checkout sparse, which a layered worktree cannot be");
    Err(Error::new(Code::LayerInvalid, what)
        .remedy("to make an ordinary worktree of it", Remedy::Materialize(id)))
}

/// Writes the tree that adding these paths to the index as it is would make, for a caller that has asked
/// `git status` already and believes it. Only these files are looked at; no rule is.
///
/// # Errors
/// As [`snapshot`].
pub fn tree_with(source: &WorktreeSource<'_>, paths: &[Vec<u8>]) -> Result<Oid> {
    if let Some(layer) = WorktreeLayer::of(source.admin_dir) {
        return Ok(layer::look(source, &layer, UnwritableFiles::Refused)?.tree);
    }
    copy_index(source)?;
    // A repository inside the worktree is no part of a commit.
    let files: Vec<Vec<u8>> = paths.iter().filter(|path| !path.ends_with(b"/")).cloned().collect();
    update_files(source, &files)?;
    Ok(write_tree(source)?.0)
}

/// The trees of a worktree, for a caller that keeps all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trees {
    /// The tree of the index as it is; absent while paths are unmerged.
    pub staged: Option<Oid>,
    /// The tree of everything.
    pub tree: Oid,
    /// Paths with more than one stage.
    pub unmerged: Vec<Vec<u8>>,
}

/// Writes the tree of the index and the tree of everything to the repository. Where a walk could tell, what it saw comes
/// with them.
///
/// # Errors
/// As [`snapshot`].
pub fn write_trees(source: &WorktreeSource<'_>) -> Result<(Trees, Option<SeenWorktree>)> {
    if let Some(layer) = WorktreeLayer::of(source.admin_dir) {
        // Before the look: what changes between the two makes them differ.
        let seen = LayerFingerprint::take(&layer, source.admin_dir, source.view.room());
        let found = layer::look(source, &layer, UnwritableFiles::Refused)?;
        let trees =
            Trees { staged: found.staged, tree: found.tree, unmerged: found.listed.unmerged };
        return Ok((trees, seen.map(SeenWorktree::Layer)));
    }
    if let Some(found) = look_through_walk(source)? {
        let trees = Trees { staged: Some(found.staged), tree: found.tree, unmerged: Vec::new() };
        let seen = SeenWorktree::Walked(Box::new(found.fingerprint));
        return Ok((trees, Some(seen)));
    }
    copy_index(source)?;
    let mut listed = listed::list(source)?;
    let is_merged = listed.unmerged.is_empty();
    // The tree of the index is taken before the copy is brought up to date, for after that it is
    // gone.
    let staged = is_merged.then(|| write_tree(source)).transpose()?;
    let staged = staged.map(|(tree, _)| tree);
    let changed = bring_up_to_date(source, &mut listed)?;
    let tree = match staged.filter(|_| !changed) {
        Some(staged) => staged,
        None => write_tree(source)?.0,
    };
    let trees = Trees { staged, tree, unmerged: listed.unmerged };
    Ok((trees, None))
}

/// Copies the index to `source.index`, as it is.
///
/// # Errors
/// `git-missing`, `git-failed`, `io`, `disk-full`.
pub fn copy_index(source: &WorktreeSource<'_>) -> Result<()> {
    let index = source.admin_dir.join("index");
    untrusted::require_regular(&index, untrusted::LONGEST_INDEX)?;
    if fs::symlink_metadata(&index).is_err() {
        // An agent that removed the index hides nothing by it.
        let mut command = git(source);
        command.args(["read-tree", &source.tip.to_hex()]);
        return command::successful(command).map(|_| ());
    }
    // A file that was written in the moment in which the index was is looked into, whatever its times say.
    // A copy that looked younger than its entries would take that doubt away, and with it a change.
    untrusted::copy_as_old(&index, source.index, untrusted::LONGEST_INDEX).map(drop)
}

/// The tree of the copy of the index, and the submodules that it lists, where that is known.
fn write_tree(source: &WorktreeSource<'_>) -> Result<(Oid, Option<Vec<Vec<u8>>>)> {
    let index = Index::load(source.index);
    let links = index.as_ref().map(|index| index.submodules().map(<[u8]>::to_vec).collect());
    // Our own writer reuses the subtrees that the index has cached; git's `write-tree` reads the
    // whole index in a process of its own and is asked only where an entry needs it.
    if let Some(index) = &index
        && let Some(tree) = source.repo.tree_of_index(index)?
    {
        return Ok((tree, links));
    }
    let mut command = git(source);
    command.arg("write-tree");
    let output = command::successful(command)?;
    let hex = String::from_utf8_lossy(&output);
    let tree = Oid::from_hex(hex.trim_end());
    let none = || Error::new(Code::GitFailed, "git write-tree named no tree");
    Ok((tree.ok_or_else(none)?, links))
}

/// A `git` on that worktree and the copy of its index.
pub(super) fn git(source: &WorktreeSource<'_>) -> Command {
    let mut command = source.view.git();
    command
        .current_dir(source.worktree)
        .env("GIT_WORK_TREE", source.worktree)
        .env("GIT_INDEX_FILE", source.index)
        // An agent could make a replacement ref, and the tree would be another one than what its
        // files hold.
        .env("GIT_NO_REPLACE_OBJECTS", "1");
    for setting in SETTINGS {
        command.args(["-c", setting]);
    }
    source.rules.configure(&mut command);
    source.repo.redirect_objects(&mut command);
    command
}

// Submodules that hold work: a commit of the repository names a commit of theirs, and none of their files.

/// The submodules with files that are in no commit of theirs, by the copy of the index once that is up to date, or by
/// what is `known` of it. Where there is no submodule nothing is asked.
///
/// # Errors
/// `git-missing`, `git-failed`.
fn holding_work(source: &WorktreeSource<'_>, known: Option<Vec<Vec<u8>>>) -> Result<Vec<Vec<u8>>> {
    let names = match known.or_else(|| gitlinks::of_index(source.index)) {
        Some(names) => names,
        None => gitlinks::listed(git(source))?,
    };
    let room = source.view.room();
    let mut found = gitlinks::holding_work(&NestedPlace::top(source.worktree), &names, room);
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

// What git lists, found by a walk of our own: git is asked about the names that the index does not know, and
// about files in doubt, and nothing else.
//
// What is tracked and in doubt counts as changed. Git looks into it when it writes the objects, so a doubt costs time
// and never truth. Git is shown the part of the index that these paths are about: reading and writing all of it twice
// takes longer than the rest.

/// What a walk found in a worktree.
struct Walked {
    listed: Listed,
    /// The tree of the index as it is.
    staged: Oid,
    /// The tree of everything.
    tree: Oid,
    fingerprint: WorktreeFingerprint,
}

/// Looks at the worktree and its index, which is read once, and writes the trees; `None` when only git can tell.
///
/// # Errors
/// `git-missing`, `git-failed`, `io`, `disk-full`.
fn look_through_walk(source: &WorktreeSource<'_>) -> Result<Option<Walked>> {
    // Where one file can have two spellings, the walk and the index would disagree about what is
    // untracked.
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
    let unchanged =
        touched.take_unchanged(source.repo, source.worktree, &written.index, source.view.git_dir());
    // The index itself has to make a tree before anything is written: where paths are unmerged it
    // cannot, and git tells more about those.
    let Some(staged) = source.repo.tree_of_index(&written.index)? else {
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
    // What became of a file in a directory that cannot be read is unknown; it stays as the index
    // has it, and the directory is named instead.
    changed.retain(|path| !listed.is_hidden_by_directory(path));
    let (tree, kept) = if changed.is_empty() {
        (staged, Index::default())
    } else {
        let is_tracked = |path: &[u8]| written.index.find(path).is_some();
        let next = write_files(source, &changed, &is_tracked)?;
        listed.refused = next.refused;
        let edits = next.contents.iter().map(|(path, content)| (path.as_slice(), *content));
        let edits: BTreeMap<_, _> = edits.collect();
        let kept = edits.iter().filter_map(|(path, content)| Some((*path, (*content)?)));
        let kept = Index::parse(Index::of(&kept.collect()));
        // A file in the place of a directory, or a repository that was made meanwhile.
        match (source.repo.tree_of_edited(&written.index, &edits)?, kept) {
            (Some(tree), Some(kept)) if !kept.has_submodules() => (tree, kept),
            _ => return Ok(None),
        }
    };
    Ok(Some(Walked {
        listed,
        staged,
        tree,
        fingerprint: WorktreeFingerprint { written, names, touched, unchanged, kept },
    }))
}

/// The file of an index with what git needs to tell about these paths: the entries of files in doubt; of each directory
/// that holds a name in question some entry, so that git takes it for a tracked one; and all attributes, which git takes
/// from the index where a file of them is missing.
fn part_about(index: &Index, touched: &TouchedEntries) -> Vec<u8> {
    let beside = |name: &Vec<u8>| index.first_below(directory_with_slash(name));
    let beside = touched.unknown.iter().filter_map(beside);
    let paths = touched.tracked.iter().map(Vec::as_slice).chain(beside);
    let content = |path| Some((path, index.find(path)?.content));
    let mut contents: BTreeMap<_, _> = index.attributes().collect();
    contents.extend(paths.filter_map(content));
    Index::of(&contents)
}
