//! The branch, or the directory of files, in which kept work comes back.

use crate::agents::Ctx;
use crate::agents::real_path::real_path;
use crate::domain::{Agent, Oid, branch_name};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::refs::full_name;
use crate::ops::rescue::{RescueDestination, RescuePlan};
use crate::store::{fsx, layout, spawn_commit};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many numbered names a branch is tried under.
const BRANCH_VARIANTS: usize = 1000;

impl RescuePlan {
    /// Whether a branch is what would be made: a rescue before this one did it and may have been killed.
    pub(super) fn is_made(&self, ctx: &Ctx, branch: &str) -> Result<bool> {
        Ok(self.commit.is_some() && ctx.repo.tip(branch)?.oid() == self.commit)
    }

    /// Makes the branch and gives its full name.
    pub(super) fn make_branch(&self, ctx: &Ctx, commit: Oid) -> Result<String> {
        let reason = format!("agent: rescue {}", self.agent.id.short());
        let who = ctx.identities()?.committer;
        let make = |name: &str| ctx.repo.create_branch(name, commit, &who, &reason);
        if let RescueDestination::Branch(name) = &self.destination {
            let full = full_name(name)?;
            return if self.is_made(ctx, &full)? || make(&full)? {
                Ok(full)
            } else {
                Err(taken(&full))
            };
        }
        let own = self.agent.branch.as_deref().unwrap_or_default();
        let own = branch_name(own);
        let slug = own.strip_prefix("agent/").unwrap_or(own);
        let wanted = full_name(&format!("rescued/{slug}"))?;
        let numbered = (2..=BRANCH_VARIANTS).map(|number| format!("{wanted}-{number}"));
        for name in std::iter::once(wanted.clone()).chain(numbered) {
            if make(&name)? {
                return Ok(name);
            }
        }
        Err(taken(&wanted))
    }
}

fn taken(branch: &str) -> Error {
    Error::new(Code::BranchExists, format!("{branch} exists already"))
        .hint("to choose another name, pass --branch <name>")
}

// Kept work as files.

/// Where the bundle goes for an agent that had none in its worktree.
const BUNDLE_DIR: &str = ".agent";

/// The commit with the work, and the one with the bundle.
type Kept = (Option<Oid>, Option<Oid>);

/// Fills a directory that is empty: the work, and beside it the bundle where the worktree had it; gives what
/// its owner should know. That happens elsewhere, where the file system allows it, and the directory gets everything by one rename, so
/// that no kill leaves a part that looks like the whole.
pub(super) fn write(
    ctx: &Ctx,
    agent: &Agent,
    kept: Kept,
    directory: &Path,
) -> Result<Option<String>> {
    require_empty(directory)?;
    let above = directory.parent().unwrap_or(directory);
    fs::create_dir_all(above).at("could not make", above)?;
    // Filled beside and renamed: a look finds all of it or nothing.
    let half_made = half_made(ctx, directory, above)?;
    let filled = fill(ctx, agent, kept, &half_made);
    ctx.reached("filled");
    let moved = filled.map(|warning| fs::rename(&half_made, directory).map(|()| warning));
    if let Ok(Ok(warning)) = moved {
        return Ok(warning);
    }
    let _ = fs::remove_dir_all(&half_made);
    moved?.or_else(|_| {
        // What cannot be replaced, such as a mount point, is filled where it is.
        require_empty(directory)?;
        fill(ctx, agent, kept, directory)
    })
}

/// A place on the same file system, with our other half-made things if they are there.
fn half_made(ctx: &Ctx, directory: &Path, above: &Path) -> Result<PathBuf> {
    let scratch = layout::tmp_dir(ctx.repo.common_dir());
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    // Renaming does not cross file systems.
    Ok(fsx::unique_name(&if device(&scratch) == device(above) {
        scratch.join("rescued")
    } else {
        directory.to_owned()
    }))
}

/// Fills a directory with the work, and with the bundle where the worktree had it; gives what its owner should know.
///
/// # Errors
/// `git-failed`, `io`, `disk-full`.
pub(super) fn fill(
    ctx: &Ctx,
    agent: &Agent,
    (work, bundle): Kept,
    directory: &Path,
) -> Result<Option<String>> {
    fs::create_dir_all(directory).at("could not make", directory)?;
    if let Some(commit) = work {
        checkout(ctx, commit, directory)?;
    }
    let Some(bundle) = bundle else {
        return Ok(None);
    };
    let policy = spawn_commit::if_here(&ctx.repo, agent)?;
    let wanted = policy.and_then(|policy| policy.bundle_dir);
    let wanted = wanted.as_deref().unwrap_or(BUNDLE_DIR);
    let inside = free_name(directory, wanted);
    let place = directory.join(&inside);
    fs::create_dir_all(&place).at("could not make", &place)?;
    checkout(ctx, bundle, &place)?;
    Ok((inside != wanted)
        .then(|| format!("the work has something at {wanted}, so the bundle is in {inside}")))
}

/// Where the bundle goes: its own place, or beside the work's files of that name.
fn free_name(directory: &Path, wanted: &str) -> String {
    // The work may also have a file or a symlink on the way there.
    let mut top = PathBuf::new();
    let blocked = Path::new(wanted).components().any(|part| {
        top.push(part);
        let found = fs::symlink_metadata(directory.join(&top));
        found.is_ok_and(|found| !found.is_dir() || top.as_os_str() == wanted)
    });
    if !blocked {
        return wanted.to_owned();
    }
    let name = wanted.replace('/', "-");
    let mut free = format!("{name}.rescued");
    while fs::symlink_metadata(directory.join(&free)).is_ok() {
        free.push_str(".rescued");
    }
    free
}

fn checkout(ctx: &Ctx, commit: Oid, directory: &Path) -> Result<()> {
    let scratch = layout::tmp_dir(ctx.repo.common_dir());
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let index = fsx::unique_name(&scratch.join("rescue"));
    let tree = ctx.repo.read_commit(commit)?.tree;
    let written = ctx.repo.write_files(tree, directory, &index);
    let _ = fs::remove_file(&index);
    written
}

/// Checks that it is empty, and no place that git keeps for itself.
pub(super) fn require_place(ctx: &Ctx, path: &Path) -> Result<()> {
    // By a link, too, it would be inside.
    let inside = |git_dir: &Path| real_path(path).is_some_and(|path| path.starts_with(git_dir));
    let git_dir = fs::canonicalize(ctx.repo.common_dir());
    if git_dir.is_ok_and(|git_dir| inside(&git_dir)) {
        let what = format!("{} is inside the repository's git dir", path.display());
        return Err(Error::new(Code::PathInvalid, what)
            .hint("to choose another place, pass --to <directory>"));
    }
    require_empty(path)
}

/// Checks that nothing can be overwritten: a directory without entries, or nothing at all.
pub(super) fn require_empty(path: &Path) -> Result<()> {
    let there = fs::symlink_metadata(path);
    let empty = || fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    match there {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error).at("could not look at", path),
        Ok(metadata) if metadata.is_dir() && empty() => Ok(()),
        Ok(_) => Err(Error::new(
            Code::PathExists,
            format!("{} is not an empty directory", path.display()),
        )
        .hint("to choose another place, pass --to <directory>")),
    }
}
