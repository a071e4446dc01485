//! A check worktree over a frozen base: the files of a commit for what it differs by, and no copy of the rest.
//!
//! ```text
//! <common dir>/agents/<id8>/check-layer/   as the layer of an agent ([`crate::agents::stock::layered`])
//! <worktree>/.git                          as in any check worktree
//! ```
//!
//! The upper directory begins as the difference between the base and the commit, which git writes in a mount of its own. Each command
//! gets another mount of it, in the namespaces of its fence. It goes with the check worktree, and nothing in it is ever read as work.

use crate::agents::context::ctx::Ctx;
use crate::agents::stock::frozen::FrozenBase;
use crate::agents::stock::layered::{self, Prepared};
use crate::domain::Oid;
use crate::domain::life::sandbox::LayerMount;
use crate::error::{Error, Result};
use crate::git::files::layer::WorktreeLayer;
use crate::git::landing::linked_at;
use crate::proc::sandbox;
use crate::store::files::fsx;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a check worktree is, and what belongs to it.
#[derive(Clone, Copy)]
pub(crate) struct CheckPlace<'a> {
    /// Its name.
    pub name: &'a str,
    /// The worktree.
    pub path: &'a Path,
    /// Its admin directory.
    pub admin_dir: &'a Path,
    /// Where its layer goes.
    pub layer: &'a Path,
}

/// What a check worktree is made of.
pub(crate) struct CheckLayer {
    directory: PathBuf,
    layer: WorktreeLayer,
    base: FrozenBase,
    /// The worktree.
    place: PathBuf,
}

impl CheckLayer {
    /// Lays the files of a commit over a base, for a worktree that holds nothing but its `.git` file.
    ///
    /// # Errors
    /// `lost-race` where the base was removed meanwhile; `sandbox-unavailable`, `git-failed`, `io`, `disk-full`.
    pub(crate) fn lay(
        ctx: &Ctx,
        base: &FrozenBase,
        place: CheckPlace<'_>,
        commit: Oid,
    ) -> Result<CheckLayer> {
        fsx::create_dir(place.layer)?;
        layered::take(ctx, base, place.layer, place.path, place.admin_dir)?;
        let none = || Error::bug("a layer that was taken has a record");
        let laid = CheckLayer {
            directory: place.layer.to_owned(),
            layer: WorktreeLayer::at(place.layer).ok_or_else(none)?,
            base: base.clone(),
            place: place.path.to_owned(),
        };
        let before = Oid::from_hex(&base.record.tree).ok_or_else(none)?;
        if ctx.repo.tree_of(commit)? == before {
            return Ok(laid);
        }
        let scratch = ctx.temporary_place();
        let checkout = linked_at(&ctx.repo, place.name, place.path, &scratch)?;
        let prepared = laid.prepare()?;
        let program = ctx.env.require_program()?;
        let within = |git: &Command| {
            let mut inside = sandbox::within(program, &prepared.mount, git);
            inside.stdin(Stdio::null());
            inside
        };
        checkout.move_within(before, commit, &within)?;
        Ok(laid)
    }

    /// A mount for one command, which takes the lock of the upper directory by itself.
    ///
    /// # Errors
    /// `lock-timeout` where a process of another command is left; `io`.
    pub(crate) fn mount(&self) -> Result<LayerMount> {
        Ok(self.prepare()?.mount)
    }

    /// What commands have written, and the files in which the commit differs from the base.
    pub(crate) fn upper(&self) -> &Path {
        &self.layer.upper
    }

    /// Where commands find the same files as in the worktree: virtual environments hold this path.
    pub(crate) fn base(&self) -> PathBuf {
        let place = &self.base.place;
        fs::canonicalize(place).unwrap_or_else(|_| place.clone())
    }

    fn prepare(&self) -> Result<Prepared> {
        let upper = &self.layer.upper;
        layered::prepare_in(&self.directory, upper, &self.base, &self.place)
    }
}
