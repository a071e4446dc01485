//! An agent's uncommitted work as commits, and the proof that nothing was missed.
//!
//! The work is one commit on the tip, as `git stash` would make it: where what is staged differs from
//! what is in the worktree, the index is a second parent. The same state gives the same commit,
//! whenever it is asked for, so a salvage that is repeated is recognised. Content is stored as
//! committing would store it: `.gitattributes` decides about line ends and filters.
//!
//! `beside` walks the disk and names every file that is in none of the trees and not ignored: what git
//! does not look at (a nested repository, a broken `.git` directory, files inside a submodule's
//! place) is found there and is the reason to refuse a removal.

mod beside;
mod tour;

pub use beside::{Beside, beside, unkeepable};
pub use tour::{FilesAsTheyAre, TOO_DEEP};
pub use tour::{write_admin, write_files as write_files_as_they_are};

use super::Repo;
use super::command;
use super::files::untrusted;
use super::objects::{Commit, Identity, NewCommit};
use super::uncommitted::Trees;
use crate::domain::oid::Oid;
use crate::error::Result;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use walkdir::WalkDir;

/// So many commits back from a tip are known to be kept with it before git is asked.
const NEAR: usize = 100;

/// The trailer that says what a salvage commit holds.
pub const TRAILER: &str = "Salvage";
/// The trailer's value for the work: the worktree, and in a second parent the index.
pub const WORK: &str = "work";
/// The trailer's value for the bundle.
pub const BUNDLE: &str = "bundle";

/// Writes the commit that holds what is staged, modified and untracked; `None` when the tip holds it all.
/// `whose` is a line for the message, such as `Agent-Id: …`.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn write_work(repo: &Repo, tip: &Commit, found: &Trees, whose: &str) -> Result<Option<Oid>> {
    let staged = found.staged.unwrap_or(found.tree);
    if found.tree == tip.tree && staged == tip.tree {
        return Ok(None);
    }
    let mut parents = vec![tip.oid];
    // A second parent only where it says something that neither the tip nor the worktree does.
    if staged != found.tree && staged != tip.tree {
        parents.push(write(repo, tip, staged, &[tip.oid], "index", whose)?);
    }
    write(repo, tip, found.tree, &parents, WORK, whose).map(Some)
}

/// Writes a commit without parents that holds a directory byte for byte; `None` when there is none, or
/// nothing in it. Symlinks are kept as symlinks.
///
/// # Errors
/// `discard-refused` for an entry named `.git`, which no tree can hold; `io` for what cannot be read.
pub fn write_bundle(
    repo: &Repo,
    tip: &Commit,
    directory: &Path,
    whose: &str,
) -> Result<Option<Oid>> {
    if !fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(None);
    }
    match tour::write_directory(repo, directory)? {
        Some(tree) => write(repo, tip, tree, &[], BUNDLE, whose).map(Some),
        None => Ok(None),
    }
}

/// The object names in what git prints, one a line.
fn oids_in(output: &[u8]) -> impl Iterator<Item = Oid> {
    let lines = output.split(|&byte| byte == b'\n');
    lines.filter_map(|line| Oid::from_hex(std::str::from_utf8(line).ok()?))
}

fn write(
    repo: &Repo,
    tip: &Commit,
    tree: Oid,
    parents: &[Oid],
    what: &str,
    whose: &str,
) -> Result<Oid> {
    // At the time of the tip: the clock would give each salvage of the same state a name of its
    // own.
    let who = Identity::stand_in(tip.seconds);
    repo.write_commit(&NewCommit::ours(
        &who,
        tree,
        parents,
        &format!("agent: salvage {what}\n\n{TRAILER}: {what}\n{whose}\nGit-Agent: 1\n"),
    ))
}

impl Repo {
    /// Commits that an admin directory alone may still name, and those in the reflog of `branch`. None that `tip` has
    /// among its ancestors.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`, `io`.
    pub fn leftover_commits(
        &self,
        admin_dir: &Path,
        branch: Option<&str>,
        tip: Oid,
    ) -> Result<Vec<Oid>> {
        let mut named = self.commits_named_in(admin_dir, branch);
        named.remove(&tip);
        // Nearly always the commits that the branch was at before, a few steps back.
        // Its failing only means that git is asked about more commits.
        let _ = self.take_nearest(tip, NEAR, &mut named);
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = self.plumbing();
        command.args(["merge-base", "--independent", &tip.to_hex()]);
        command.args(named.iter().map(|oid| oid.to_hex()));
        let Ok(output) = command::successful(command) else {
            // Where history is broken, too much is kept rather than too little.
            return Ok(named.into_iter().collect());
        };
        Ok(oids_in(&output).filter(|oid| *oid != tip).collect())
    }

    /// Commits that an admin directory, or the reflog of `branch`, names and no ref that all worktrees share holds: what
    /// removing the worktree and the branch's reflog would leave to the next garbage collection.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn unreferenced_commits(&self, admin_dir: &Path, branch: Option<&str>) -> Result<Vec<Oid>> {
        let mut named = self.commits_named_in(admin_dir, branch);
        if named.is_empty() {
            return Ok(Vec::new());
        }
        // `--all` would count the HEAD of the very worktree that is to go, so the refs are named by a pattern.
        let mut command = self.plumbing();
        command.arg("rev-list");
        command.args(named.iter().map(|oid| oid.to_hex()));
        command.args(["--not", "--glob=refs/*"]);
        // Where git cannot tell, all of them stay named, and too much is kept rather than too
        // little.
        if let Ok(output) = command::successful(command) {
            let unheld: BTreeSet<Oid> = oids_in(&output).collect();
            named.retain(|oid| unheld.contains(oid));
        }
        if named.len() < 2 {
            return Ok(named.into_iter().collect());
        }
        let mut command = self.plumbing();
        // Those that others lead to need no ref of their own.
        command.args(["merge-base", "--independent"]);
        command.args(named.iter().map(|oid| oid.to_hex()));
        Ok(match command::successful(command) {
            Ok(output) => oids_in(&output).collect(),
            // Where history is broken, too much is kept rather than too little.
            Err(_) => named.into_iter().collect(),
        })
    }

    /// Every commit that a file of an admin directory or the reflog of `branch` names. Git keeps commits there under many
    /// names: `HEAD`, `ORIG_HEAD`, reflogs, refs of the worktree's own, and in lower case what a rebase, an `am` or a
    /// sequencer has stopped at (`rebase-merge/orig-head`, `done`, `autostash`), so every file is read but the index.
    fn commits_named_in(&self, admin_dir: &Path, branch: Option<&str>) -> BTreeSet<Oid> {
        let mut named: BTreeSet<Oid> = BTreeSet::new();
        if let Some(branch) = branch {
            // One that is no file tells nothing.
            named.extend(self.reflog_oids(branch).unwrap_or_default());
        }
        let files = WalkDir::new(admin_dir).into_iter().flatten();
        for file in files.filter(|entry| entry.file_type().is_file()) {
            let inside = file.path().strip_prefix(admin_dir).unwrap_or(file.path());
            let name = inside.as_os_str().as_encoded_bytes();
            if !name.starts_with(b"index") && !name.starts_with(b"sharedindex.") {
                let text = untrusted::log(admin_dir, inside);
                let text = String::from_utf8_lossy(&text);
                named.extend(text.split_ascii_whitespace().filter_map(Oid::from_hex));
            }
        }
        // A ref of a worktree's own may be an annotated tag; what it stands on is what there is to lose.
        let commit = |oid: Oid| match self.has_object(oid) {
            true if self.read_commit(oid).is_ok() => Some(oid),
            true => { self.resolve_commit(&oid.to_hex()).ok() }.map(|found| found.commit),
            // A reflog outlives the objects that garbage collection took.
            false => None,
        };
        named.into_iter().filter_map(commit).collect()
    }

    /// Writes the files of a tree into an empty directory, as a checkout would. Nothing is overwritten.
    ///
    /// # Errors
    /// `git-failed` when git refuses a path or a filter fails.
    pub fn write_files(&self, tree: Oid, directory: &Path, index: &Path) -> Result<()> {
        self.write_index(tree, index)?;
        self.on_index(directory, index, &["checkout-index", "--all"])
    }

    /// Writes an index file that holds a tree and knows no file.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn write_index(&self, tree: Oid, index: &Path) -> Result<()> {
        self.on_index(self.common_dir(), index, &["read-tree", &tree.to_hex()])
    }

    fn on_index(&self, directory: &Path, index: &Path, words: &[&str]) -> Result<()> {
        let mut command = self.git_among_files(directory)?;
        command
            .env("GIT_DIR", self.common_dir())
            .env("GIT_WORK_TREE", directory)
            .env("GIT_INDEX_FILE", index)
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.bare=false"])
            .args(words);
        command::successful(command).map(|_| ())
    }
}
