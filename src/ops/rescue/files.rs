//! Kept work as files.

use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::ops::Ctx;
use crate::store::{fsx, layout, policy};
use std::fs;
use std::path::Path;

/// Where the bundle goes for an agent that had none in its worktree.
const BUNDLE_DIR: &str = ".agent";

/// Fills a directory that is empty: the work, and beside it the bundle where the worktree had it.
pub(super) fn write(
    ctx: &Ctx,
    agent: &Agent,
    (work, bundle): (Option<Oid>, Option<Oid>),
    directory: &Path,
) -> Result<()> {
    require_empty(directory)?;
    fs::create_dir_all(directory).at("could not make", directory)?;
    if let Some(commit) = work {
        checkout(ctx, commit, directory)?;
    }
    let Some(bundle) = bundle else {
        return Ok(());
    };
    let policy = match agent.policy {
        Some(blob) => policy::load(&ctx.repo, blob)?,
        None => None,
    };
    let inside = policy.and_then(|policy| policy.bundle_dir);
    let place = directory.join(inside.as_deref().unwrap_or(BUNDLE_DIR));
    require_empty(&place)?;
    fs::create_dir_all(&place).at("could not make", &place)?;
    checkout(ctx, bundle, &place)
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
