//! What it takes to read the worktree of an agent that is to go.

use crate::agents::ctx::Ctx;
use crate::agents::scratch;
use crate::agents::untrusted::WorktreeView;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::ignore::Rules;
use crate::git::uncommitted::Source;
use crate::ops::discard::DiscardOptions;
use crate::ops::discard::gate::Place;
use crate::store::{fsx, spawn_commit};
use std::fs;
use std::path::{Path, PathBuf};

/// What it takes to read a worktree: the rules that bind, and room for a copy of its index.
pub(super) struct Reading {
    settings: Repo,
    view: WorktreeView,
    rules: Rules,
    bundle_dir: Option<String>,
    sparse: bool,
    index: PathBuf,
    /// Where the files are; an empty directory stands in for those that are gone.
    contents: PathBuf,
    _scratch: Scratch,
}

impl Reading {
    pub(super) fn begin(
        ctx: &Ctx,
        agent: &Agent,
        place: &Place,
        options: DiscardOptions,
    ) -> Result<Reading> {
        let bundle_dir = bundle_dir(ctx, agent)?;
        let mut rules = ctx.ignore_rules()?.without(bundle_dir.as_deref());
        if options.with_ignored {
            rules = rules.with_ignored();
        }
        // With the settings of that worktree, which say what git would have made of its files.
        let settings = Repo::open_git_dir(&place.admin_dir)?;
        // Beside others of its kind: two discards may be at work.
        let scratch = Scratch(fsx::unique_name(&scratch::directory(ctx).join("salvage")));
        let empty = scratch.0.join("empty");
        fs::create_dir_all(&empty).at("could not make", &empty)?;
        let contents = place.contents().unwrap_or_else(|| empty.clone());
        let view = WorktreeView::make(&settings, &place.admin_dir, &contents, &scratch.0)?;
        Ok(Reading {
            view,
            sparse: settings.config_bool("core.sparseCheckout")? == Some(true),
            index: scratch.0.join("index"),
            settings,
            rules,
            bundle_dir,
            contents,
            _scratch: scratch,
        })
    }

    pub(super) fn source<'a>(&'a self, place: &'a Place, tip: Oid) -> Source<'a> {
        Source {
            repo: &self.settings,
            worktree: &self.contents,
            admin_dir: &place.admin_dir,
            view: &self.view,
            tip,
            // What was only staged is nowhere on disk, and is kept as well.
            staged: true,
            sparse: self.sparse,
            rules: &self.rules,
            names_ignored: false,
            index: &self.index,
        }
    }

    /// The bundle's directory in the worktree, where it is one.
    pub(super) fn bundle(&self, source: &Source<'_>) -> Option<&Path> {
        let inside = self.bundle_dir.as_deref()?;
        real_directory(source.worktree, inside).map(|_| Path::new(inside))
    }
}

/// Where the agent's bundle is in its worktree, if anywhere.
pub(super) fn bundle_dir(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    // No amendment moves it, and one that is not here must not be in the way.
    Ok(spawn_commit::at_spawn(&ctx.repo, agent)?.and_then(|policy| policy.bundle_dir))
}

/// The bundle's directory, unless a symlink stands in for a part of the way.
pub(super) fn real_directory(top: &Path, inside: &str) -> Option<PathBuf> {
    let mut path = top.to_owned();
    for part in inside.split('/') {
        path.push(part);
        // By a link on the way another directory would be taken for the bundle.
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return None;
        }
    }
    Some(path)
}

/// A directory of files that go when it does.
pub(super) struct Scratch(pub(super) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
