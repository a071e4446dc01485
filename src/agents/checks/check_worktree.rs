//! The worktree that check commands run in, and what it needs before they can, beside the agents' own.

use crate::agents::checks::check_layer::{CheckLayer, CheckPlace};
use crate::agents::context::ctx::Ctx;
use crate::agents::place::ignored_files::{self, WantedFiles};
use crate::agents::stock::frozen::{self, FrozenBase};
use crate::agents::stock::furnish::WantedContent;
use crate::agents::stock::pool::{self, Slot};
use crate::agents::{context::untrusted, place::worktree, stock::layered, who::authority};
use crate::domain::life::sandbox::Layering;
use crate::domain::paths::install_inputs::is_install_input;
use crate::domain::settings::repository_settings::PATH;
use crate::domain::{Glob, Oid, RepositorySettings, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::files::separate::separate;
use crate::git::landing::linked_at;
use crate::git::{NewWorktree, Repo};
use crate::hosts::WORKTREE_DIR;
use crate::store::files::{fsx, layout, lock};
use crate::store::settings::{repository_settings, roles};
use crate::wire::row::journal::SlotRecord;
use crate::wire::row::policy::Policy;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the check commands of one agent run.
#[derive(Clone)]
pub(crate) struct CheckWorktree {
    pub(crate) name: String,
    /// The worktree.
    pub(crate) path: PathBuf,
    /// Its admin directory.
    pub(crate) admin_dir: PathBuf,
    /// What it is made of, where it is layered.
    pub(crate) layer: PathBuf,
}

impl CheckWorktree {
    /// That of the agent with these first eight digits, whether anything is there or not.
    pub(crate) fn of(ctx: &Ctx, short_id: &str) -> Result<CheckWorktree> {
        let name = layout::verify_worktree_name(short_id);
        Ok(CheckWorktree {
            path: ctx.repo.root()?.join(WORKTREE_DIR).join(&name),
            admin_dir: ctx.repo.admin_dir(&name),
            layer: layout::check_layer(ctx.repo.common_dir(), short_id),
            name,
        })
    }

    /// Whether nothing is there but what a verify made: an admin directory with our lock, and the directory
    /// that it alone claims. One that was killed early left a directory that holds no more than the
    /// way to an admin directory that never was.
    pub(crate) fn is_ours(&self, repo: &Repo) -> bool {
        let is_linked = belongs_to(&self.path, &self.admin_dir);
        match repo.worktree(&self.name) {
            Some(linked) => {
                let is_elsewhere = belongs_to(&linked.path, &self.admin_dir);
                // Our lock alone proves nothing: a person may have moved the worktree, and use it
                // elsewhere.
                linked.lock_reason.as_deref() == Some(layout::VERIFY_LOCK_REASON)
                    && (is_linked || !is_there(&self.path) && !is_elsewhere)
            }
            None => !is_there(&self.admin_dir) && self.is_bare(is_linked),
        }
    }

    /// Whether its HEAD is not where the verify put it: the worktree was used since.
    pub(crate) fn has_moved(&self) -> bool {
        let head = untrusted::text(&self.admin_dir, "HEAD").unwrap_or_default();
        let log = untrusted::log(&self.admin_dir, Path::new("logs/HEAD"));
        head.starts_with("ref: ") || String::from_utf8_lossy(&log).lines().count() > 1
    }

    /// Whether the directory is absent, or holds nothing but a `.git` file that leads to our place.
    fn is_bare(&self, is_linked: bool) -> bool {
        let Ok(metadata) = fs::symlink_metadata(&self.path) else {
            return true;
        };
        let is_empty = || {
            let mut entries = fs::read_dir(&self.path).into_iter().flatten();
            entries.all(|entry| entry.is_ok_and(|entry| is_linked && entry.file_name() == ".git"))
        };
        metadata.is_dir() && is_empty()
    }

    /// Whether something is there and ours: by its lock, or by leading to an admin directory that was removed.
    fn is_left(&self, ctx: &Ctx) -> bool {
        let is_orphan = || !self.admin_dir.exists() && belongs_to(&self.path, &self.admin_dir);
        let is_there = self.admin_dir.exists() || self.path.join(".git").exists();
        is_orphan() || (is_there && self.is_ours(&ctx.repo))
    }

    /// Removes what is there, which the caller knows to be ours, and the directories above that were made for
    /// it alone. The caller holds the lock of spawns, which make the same parents.
    pub(crate) fn remove(&self, common_dir: &Path) -> Result<()> {
        // The layer first, which nothing else names.
        for directory in [&self.layer, &self.path, &self.admin_dir] {
            if is_there(directory) {
                fsx::remove_by_trash(common_dir, directory)?;
            }
        }
        // Others are not empty.
        for directory in self.path.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Whether a check may run here: nothing is there but what a killed verify left.
    pub(crate) fn is_free(&self, repo: &Repo) -> bool {
        self.is_ours(repo) && !self.has_moved()
    }

    /// Removes what a killed verify left.
    pub(crate) fn make_way(&self, repo: &Repo) -> Result<()> {
        let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
        if self.is_free(repo) { self.remove(repo.common_dir()) } else { Err(self.taken()) }
    }

    fn taken(&self) -> Error {
        Error::new(
            Code::PathExists,
            format!(
                "the check commands would run in {}, and what is there was not made for them",
                self.path.display()
            ),
        )
        .because("only what a verify itself left there is removed")
        .hint(format!(
            "to move it out of the way, run git worktree move -f -f {} <elsewhere>",
            shell::path(&self.path)
        ))
        .hint("to see whose it is, run git worktree list --verbose")
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The first eight digits of the agents whose verifies, and the numbers of the trains, that may have left a worktree: by the admin
/// directories, and by the directories of those that have lost theirs.
pub(crate) fn candidates(ctx: &Ctx) -> Result<BTreeSet<String>> {
    let beside = fs::read_dir(ctx.repo.root()?.join(WORKTREE_DIR));
    let beside = beside
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let linked = ctx.repo.worktrees()?.into_iter().map(|one| one.name);
    Ok(beside
        .chain(linked)
        .filter_map(|name| layout::agent_of_verify_worktree(&name).map(str::to_owned))
        .collect())
}

/// The check worktree of an agent or a train that a killed process left; `None` where there is none, or a process uses it.
pub(crate) fn left_behind(ctx: &Ctx, short_id: &str) -> Result<Option<CheckWorktree>> {
    let place = CheckWorktree::of(ctx, short_id)?;
    let is_left = place.is_left(ctx) && alone(ctx, short_id).is_ok();
    Ok(is_left.then_some(place))
}

/// Removes a check worktree that a killed process left; `false` where there is none any more, or its HEAD has moved.
///
/// # Errors
/// `lock-timeout` where a process uses it; `io`.
pub(crate) fn clear(ctx: &Ctx, short_id: &str) -> Result<bool> {
    // A verify holds this lock while it uses the worktree, so what is there now belongs to none.
    let _alone = alone(ctx, short_id)?;
    let common = ctx.repo.common_dir();
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let place = CheckWorktree::of(ctx, short_id)?;
    let is_left = place.is_left(ctx) && !place.has_moved();
    if is_left {
        place.remove(common)?;
    }
    Ok(is_left)
}

/// Keeps a verify of that agent away; fails while there is one. Where it has no directory there is no lock to
/// take, and no verify that took it.
fn alone(ctx: &Ctx, short_id: &str) -> Result<Option<lock::Guard>> {
    let common = ctx.repo.common_dir();
    let name = layout::verify_lock(short_id);
    let exists = layout::agents_dir(common).join(&name).exists();
    exists.then(|| lock::hold_for(common, &name, Duration::ZERO)).transpose()
}

/// A check worktree with a commit checked out, which is gone when this is dropped.
pub(crate) struct CheckStage<'a> {
    ctx: &'a Ctx,
    place: CheckWorktree,
    /// The directory that was made; absent until it is.
    made: Option<(u64, u64)>,
    /// The warm worktree that it was, if it was one.
    slot: Option<Slot>,
    /// What it is made of, if it has no files of its own.
    pub(crate) layer: Option<CheckLayer>,
}

impl<'a> CheckStage<'a> {
    /// Makes one. What a killed process left there goes first; the caller keeps all others away.
    ///
    /// # Errors
    /// `path-exists` when something else is there; `io`, `disk-full`, `git-failed`.
    pub(crate) fn build(ctx: &'a Ctx, place: CheckWorktree, commit: Oid) -> Result<CheckStage<'a>> {
        let stage = CheckStage::begin(ctx, place, commit)?;
        let what = "checking out files for the checks";
        worktree::check_out(ctx, what, &stage.place.path, &stage.place.admin_dir, commit)?;
        Ok(stage)
    }

    /// As [`CheckStage::build`], over a frozen base. Outside of a mount there is nothing in it.
    ///
    /// # Errors
    /// As there, and those of [`CheckLayer::lay`].
    pub(crate) fn over(
        ctx: &'a Ctx,
        place: CheckWorktree,
        commit: Oid,
        base: &FrozenBase,
    ) -> Result<CheckStage<'a>> {
        let mut stage = CheckStage::begin(ctx, place, commit)?;
        let place = CheckPlace {
            name: &stage.place.name,
            path: &stage.place.path,
            admin_dir: &stage.place.admin_dir,
            layer: &stage.place.layer,
        };
        stage.layer = Some(CheckLayer::lay(ctx, base, place, commit)?);
        Ok(stage)
    }

    /// Makes one that holds nothing but its `.git` file.
    fn begin(ctx: &'a Ctx, place: CheckWorktree, commit: Oid) -> Result<CheckStage<'a>> {
        let repo = &ctx.repo;
        let common_dir = repo.common_dir();
        place.make_way(repo)?;
        let mut stage = CheckStage { ctx, place, made: None, slot: None, layer: None };
        {
            let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
            repo.add_worktree(&NewWorktree {
                name: &stage.place.name,
                path: &stage.place.path,
                branch: None,
                commit,
                scratch: &layout::tmp_dir(common_dir),
                lock_reason: layout::VERIFY_LOCK_REASON,
                identity: &ctx.identities()?.committer,
            })?;
        }
        stage.made = identity(&stage.place.path);
        Ok(stage)
    }

    /// Takes a warm worktree, which no agent has had. What agents wrote runs in it from here on, so no agent gets it any more, and
    /// no other check.
    ///
    /// # Errors
    /// `git-failed`, `path-exists`, `io`.
    pub(crate) fn from_slot(ctx: &'a Ctx, mut slot: Slot, commit: Oid) -> Result<CheckStage<'a>> {
        // From here on a kill leaves a slot that is not whole, which no agent can claim.
        slot.write(None)?;
        ctx.reached("slot-taken");
        let place = CheckWorktree {
            name: slot.name.clone(),
            path: slot.path.clone(),
            admin_dir: slot.admin_dir.clone(),
            layer: layout::check_layer(ctx.repo.common_dir(), &slot.name),
        };
        let stage =
            CheckStage { ctx, made: identity(&place.path), place, slot: Some(slot), layer: None };
        // Ignored files stay: they are what the set-up made. All others are as the commit has them.
        let place = &stage.place;
        let scratch = ctx.temporary_place();
        linked_at(&ctx.repo, &place.name, &place.path, &scratch)?.check_out(commit)?;
        // A person may have linked files from a store there since the set-up. A check could write through such a link, and so into what
        // the next check reads.
        separate(&place.path)?;
        fsx::write_atomic(&place.admin_dir.join("HEAD"), format!("{commit}\n").as_bytes())?;
        Ok(stage)
    }

    /// The worktree.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Its admin directory, free of symlinks.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn admin_dir(&self) -> Result<PathBuf> {
        let place = &self.place.admin_dir;
        fs::canonicalize(place).at("could not resolve", place)
    }

    /// Where commands find the files of the base, if it is over one.
    pub(crate) fn base(&self) -> Option<PathBuf> {
        self.layer.as_ref().map(CheckLayer::base)
    }

    fn tear_down(&mut self) -> Result<()> {
        let common_dir = self.ctx.repo.common_dir();
        {
            let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
            // A command may have removed what says whose directory it is; it is the one that was made.
            let is_as_made = self.made.is_some() && identity(&self.place.path) == self.made;
            if is_as_made || self.place.is_ours(&self.ctx.repo) {
                self.place.remove(common_dir)?;
            }
        }
        if let Some(slot) = self.slot.take() {
            // The slot's name is given up only now, so that a kill before leaves what `sweep`
            // finds.
            slot.forget(self.ctx)?;
            pool::refill_later(self.ctx);
        }
        Ok(())
    }
}

/// What tells a directory from another one at the same path.
fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

impl Drop for CheckStage<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed when the place is needed again.
        let _ = self.tear_down();
    }
}

// What a worktree needs before check commands can run in it: `[setup]` and `.worktreeinclude` of the target's tip.
//
// They are read from the target and not from the merged tree, so an agent cannot choose the commands. The files that they read are the
// agent's, though: a package manager runs what `package.json` says. So they run behind the same fence as the checks.

/// The set-up of check worktrees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckSetup {
    copy: Vec<Glob>,
    include: Option<Vec<u8>>,
    /// The commands, in order.
    pub(crate) run: Vec<String>,
    /// What a warm worktree or a base has to be set up with to serve.
    setup: String,
    /// Whether the settings ask for a pool.
    pool: bool,
    /// Whether a frozen base that was set up with the same may serve.
    layers: bool,
    /// The commit that says all this. A warm worktree or a base serves only if it was set up in as much of its history as is trusted.
    commit: Option<Oid>,
    /// Whether results are taken over where the target moved in other projects alone.
    pub(crate) reuses_checks: bool,
}

impl CheckSetup {
    /// What the settings at a commit say.
    ///
    /// # Errors
    /// `settings-invalid`; those of reading objects.
    pub(crate) fn at(ctx: &Ctx, commit: Oid) -> Result<CheckSetup> {
        let roles = roles::load(&ctx.repo, commit)?;
        CheckSetup::of(ctx, &repository_settings::load(&ctx.repo, commit, &roles)?, commit)
    }

    /// As [`CheckSetup::at`] for the work of an agent. Where others wrote what it started from, that is the target too, and says
    /// nothing; programs of a fork get no ignored files, and none that a warm worktree has of them.
    ///
    /// # Errors
    /// As [`CheckSetup::at`].
    pub(crate) fn for_work(ctx: &Ctx, policy: &Policy, target: Oid) -> Result<CheckSetup> {
        let mut setup = CheckSetup::at(ctx, policy.settings().unwrap_or(target))?;
        // Neither the files of the user nor a warm worktree with them is shown to what strangers
        // wrote.
        if policy.is_of_fork() {
            setup.copy.clear();
            (setup.include, setup.pool, setup.layers) = (None, false, false);
            setup.setup = pool::setup_hash(&setup.files(), &setup.run);
        }
        Ok(setup)
    }

    /// What the settings of a commit say.
    ///
    /// # Errors
    /// `settings-invalid` for a glob that is none; `git-failed` when git cannot list the ignored files.
    pub(crate) fn of(ctx: &Ctx, settings: &RepositorySettings, commit: Oid) -> Result<CheckSetup> {
        let globs = settings.setup_copy.iter().flatten();
        let copy: Result<Vec<Glob>, _> = globs.map(|glob| Glob::parse(glob)).collect();
        let mut setup = CheckSetup {
            copy: copy.map_err(|rule| Error::new(Code::SettingsInvalid, rule))?,
            include: settings.include.clone(),
            run: settings.setup_run.clone().unwrap_or_default(),
            setup: String::new(),
            pool: settings.pool_size > 0,
            layers: settings.layered != Some(Layering::Off),
            commit: Some(commit),
            reuses_checks: settings.reuses_checks,
        };
        setup.setup = pool::wanted_setup(ctx, &setup.files(), &setup.run)?;
        Ok(setup)
    }

    /// The ignored files that it copies.
    fn files(&self) -> WantedFiles<'_> {
        WantedFiles { copy: &self.copy, include: self.include.as_deref() }
    }

    /// What tells it from another set-up, of other files as well.
    pub(crate) fn hash(&self) -> &str {
        &self.setup
    }

    /// Copies the ignored files that it names from the main worktree.
    ///
    /// # Errors
    /// `io`, `disk-full`; `git-failed` when git cannot list the files.
    pub(crate) fn copy_files(&self, ctx: &Ctx, worktree: &Path) -> Result<()> {
        let wanted = self.files();
        if wanted.is_empty() {
            return Ok(());
        }
        match ctx.repo.main_worktree()? {
            Some(root) => ignored_files::bring(ctx, &root, worktree, &wanted).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Takes a warm worktree that was set up as this tree would be: with the same commands, from files that are the same.
    /// A pool that fails is one without worktrees.
    pub(crate) fn claim(&self, ctx: &Ctx, tree: Oid) -> Option<pool::Slot> {
        if !self.pool {
            return None;
        }
        let rate = |record: &SlotRecord| {
            // What set-up left and git does not ignore goes when the slot is brought to the tree.
            let is_usable = record.setup == self.setup && !record.leftovers;
            let before = Oid::from_hex(&record.tree).filter(|_| is_usable)?;
            // One that cannot be moved to an agent's place is of less use to others.
            self.is_unchanged(ctx, before, tree).then_some(u32::from(!record.pinned))
        };
        pool::claim(ctx, self.trusted(ctx).ok()??, |_, record| rate(record)).ok()?
    }

    /// What may serve has to be in this commit. It is asked when something might, as it takes a look at every agent.
    fn trusted(&self, ctx: &Ctx) -> Result<Option<Oid>> {
        self.commit.map_or(Ok(None), |commit| authority::trusted_part(ctx, commit))
    }

    /// The trusted base that was set up as this tree would be, with which the least of its files differ; `None` where there is none that could be
    /// mounted.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn base(&self, ctx: &Ctx, tree: Oid) -> Result<Option<FrozenBase>> {
        if !self.may_be_layered(ctx, tree)? {
            return Ok(None);
        }
        let mut fitting = Vec::new();
        for base in frozen::all(ctx)? {
            let before =
                Oid::from_hex(&base.record.tree).filter(|_| base.is_set_up_with(&self.setup));
            let changes = before.and_then(|before| self.changes(ctx, before, tree));
            fitting.extend(changes.map(|changes| (changes, base)));
        }
        fitting.sort_by_key(|(changes, _)| *changes);
        let trusted = if fitting.is_empty() { None } else { self.trusted(ctx)? };
        let Some(trusted) = trusted else {
            return Ok(None);
        };
        for (_, base) in fitting {
            let made_of = (base.record.commit.as_str(), base.record.tree.as_str());
            if pool::may_serve(ctx, trusted, made_of) && base.check()? {
                return Ok(Some(base).filter(|_| layered::is_possible(ctx)));
            }
        }
        Ok(None)
    }

    /// Whether settings and submodules, which have worktrees of their own, let a check of this tree run over a base.
    fn may_be_layered(&self, ctx: &Ctx, tree: Oid) -> Result<bool> {
        Ok(self.layers && ctx.repo.entry_at(tree, ".gitmodules")?.is_none())
    }

    /// Makes a base of a commit that is trusted, unless there is one, where set-up commands would run once for each check without it.
    ///
    /// # Errors
    /// Those of [`frozen::obtain`].
    pub(crate) fn make_base(&self, ctx: &Ctx, commit: Oid) -> Result<()> {
        // Who asks for a pool has warm worktrees for that.
        if self.run.is_empty() || self.pool {
            return Ok(());
        }
        let tree = ctx.repo.tree_of(commit)?;
        // A base is made without a fence.
        if !self.may_be_layered(ctx, tree)?
            || self.trusted(ctx)? != Some(commit)
            || self.base(ctx, tree)?.is_some()
            || !layered::is_possible(ctx)
        {
            return Ok(());
        }
        let wanted = WantedContent { commit, tree, files: self.files(), run: &self.run };
        frozen::obtain(ctx, &wanted).map(drop)
    }

    /// Whether set-up would read the same files in both trees, as far as their names tell.
    fn is_unchanged(&self, ctx: &Ctx, before: Oid, after: Oid) -> bool {
        self.changes(ctx, before, after).is_some()
    }

    /// In how many files two trees differ that set-up does not read; `None` where it reads one of them.
    fn changes(&self, ctx: &Ctx, before: Oid, after: Oid) -> Option<usize> {
        let changes = ctx.repo.tree_changes(&[before], after).ok()?;
        // A set-up command that names a file most likely reads it.
        let is_named = |path: &str| self.run.iter().any(|command| command.contains(path));
        let is_read = changes.iter().any(|change| {
            let path = String::from_utf8_lossy(&change.path);
            is_install_input(&path) || path == PATH || is_named(&path)
        });
        (!is_read).then_some(changes.len())
    }
}
