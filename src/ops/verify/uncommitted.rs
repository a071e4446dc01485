//! What nobody has committed, as the tree that committing it would make.

use super::subject::{Place, tip_of};
use crate::domain::change::{Change, ChangeKind};
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::Staging;
use crate::git::uncommitted::{self, Uncommitted};
use crate::ops::Ctx;
use crate::ops::check::Fence;
use crate::store::{fsx, layout};
use std::fs;
use std::path::{Path, PathBuf};

/// Removes a file when it goes out of scope.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What committing everything in an agent's worktree on top of `tip` would make, as `verify` judges it.
fn uncommitted(
    ctx: &Ctx,
    tip: Oid,
    place: &Place,
    bundle_dir: Option<&str>,
) -> Result<Uncommitted> {
    place.undisturbed(|| Ok(snapshot(ctx, tip, place, bundle_dir, false)?.1))
}

/// The tree of that; `None` when there is nothing to commit.
///
/// # Errors
/// As [`uncommitted`].
pub(in crate::ops) fn uncommitted_tree(
    ctx: &Ctx,
    tip: Oid,
    place: &Place,
    bundle_dir: Option<&str>,
) -> Result<Option<Oid>> {
    Ok(uncommitted(ctx, tip, place, bundle_dir)?.tree)
}

/// What `commit` would find changed in an agent's worktree that has nothing staged, and the tree that holds it.
/// Whatever no commit could hold is among it, as a directory: with a slash at its end.
pub(in crate::ops) fn work_to_commit(
    ctx: &Ctx,
    fence: &Fence<'_>,
    worktree: &Path,
    admin_dir: &Path,
) -> Result<(Vec<Change>, Oid)> {
    let (agent, bundle) = (fence.agent(), fence.policy().bundle_dir.as_deref());
    let place = Place {
        path: worktree.to_owned(),
        admin_dir: admin_dir.to_owned(),
    };
    let tip = tip_of(ctx, agent)?;
    let before = ctx.repo.read_commit(tip)?.tree;
    let found = uncommitted(ctx, tip, &place, bundle)?;
    let tree = found.tree.unwrap_or(before);
    let mut changes = ctx.repo.tree_changes(&[before], tree)?;
    let nested = [found.nested, found.unreadable].concat().into_iter();
    changes.extend(nested.map(|path| Change {
        path,
        kind: ChangeKind::Untracked,
        link: None,
    }));
    Ok((changes, tree))
}

/// The tree that committing these paths, which `git status` named, would make on top of `tip`. A third of the
/// work of [`uncommitted_tree`], and blind to what an index can hide.
pub(in crate::ops) fn tree_with(
    ctx: &Ctx,
    tip: Oid,
    place: &Place,
    paths: &[Vec<u8>],
) -> Result<Oid> {
    let scratch = layout::tmp_dir(ctx.repo.common_dir());
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let index = Temporary(fsx::unique_name(&scratch.join("index")));
    let source = uncommitted::Source {
        repo: &ctx.repo,
        worktree: &place.path,
        admin_dir: &place.admin_dir,
        tip,
        staged: true,
        sparse: false,
        rules: &ctx.ignore_rules()?,
        names_ignored: false,
        index: &index.0,
    };
    uncommitted::tree_with(&source, paths)
}

/// What is staged, and what committing everything on top of `tip` would make; with `names_ignored`, what would be
/// left out of that because it is ignored.
///
/// # Errors
/// Those of git and the file system.
pub(super) fn snapshot(
    ctx: &Ctx,
    tip: Oid,
    place: &Place,
    bundle_dir: Option<&str>,
    names_ignored: bool,
) -> Result<(Vec<Change>, Uncommitted)> {
    let own = Repo::open_git_dir(&place.admin_dir)?;
    let staged = own.staged_changes(&Staging::default())?;
    // A fenced agent that checks its own work may write no other directory of git's.
    let scratch = if ctx.env.fenced {
        place.admin_dir.clone()
    } else {
        layout::tmp_dir(ctx.repo.common_dir())
    };
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let index = Temporary(fsx::unique_name(&scratch.join("index")));
    let found = uncommitted::snapshot(&uncommitted::Source {
        repo: &own,
        worktree: &place.path,
        admin_dir: &place.admin_dir,
        tip,
        staged: !staged.is_empty(),
        sparse: own.config_bool("core.sparseCheckout")? == Some(true),
        rules: &ctx.ignore_rules()?.without(bundle_dir),
        names_ignored,
        index: &index.0,
    })?;
    Ok((staged, found))
}
