//! What a worktree needs before check commands can run in it: `[setup]` and `.worktreeinclude` of the target's tip.
//!
//! They are read from the target and not from the merged tree, so an agent cannot choose the commands. The files that they read are the
//! agent's, though: a package manager runs what `package.json` says. So they run behind the same fence as the checks.

use crate::agents::ctx::Ctx;
use crate::agents::ignored_files::{self, WantedFiles};
use crate::agents::pool;
use crate::domain::glob::Glob;
use crate::domain::install_inputs::is_install_input;
use crate::domain::oid::Oid;
use crate::domain::repository_settings::{PATH, RepositorySettings};
use crate::error::{Code, Error, Result};
use crate::store::{repository_settings, roles};
use crate::wire::policy::Policy;
use crate::wire::slot::SlotRecord;
use std::path::Path;

/// The set-up of check worktrees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CheckSetup {
    copy: Vec<Glob>,
    include: Option<Vec<u8>>,
    /// The commands, in order.
    pub(crate) run: Vec<String>,
    /// What a warm worktree has to be set up with to serve; `None` where the settings ask for no pool.
    pool: Option<String>,
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
        CheckSetup::of(&repository_settings::load(&ctx.repo, commit, &roles)?)
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
            (setup.include, setup.pool) = (None, None);
        }
        Ok(setup)
    }

    /// What settings say.
    ///
    /// # Errors
    /// `settings-invalid` for a glob that is none.
    pub(crate) fn of(settings: &RepositorySettings) -> Result<CheckSetup> {
        let globs = settings.setup_copy.iter().flatten();
        let copy: Result<Vec<Glob>, _> = globs.map(|glob| Glob::parse(glob)).collect();
        Ok(CheckSetup {
            copy: copy.map_err(|rule| Error::new(Code::SettingsInvalid, rule))?,
            include: settings.include.clone(),
            run: settings.setup_run.clone().unwrap_or_default(),
            pool: pool::wanted_setup(settings),
            reuses_checks: settings.reuses_checks,
        })
    }

    /// What tells it from another set-up.
    pub(crate) fn hash(&self) -> String {
        pool::setup_hash(&self.copy, &self.run, self.include.as_deref())
    }

    /// Copies the ignored files that it names from the main worktree.
    ///
    /// # Errors
    /// `io`, `disk-full`; `git-failed` when git cannot list the files.
    pub(crate) fn copy_files(&self, ctx: &Ctx, worktree: &Path) -> Result<()> {
        if self.copy.is_empty() && self.include.is_none() {
            return Ok(());
        }
        let wanted = WantedFiles {
            copy: &self.copy,
            include: self.include.as_deref(),
        };
        match ctx.repo.main_worktree()? {
            Some(root) => ignored_files::bring(ctx, &root, worktree, &wanted).map(|_| ()),
            None => Ok(()),
        }
    }

    /// Takes a warm worktree that was set up as this tree would be: with the same commands, from files that are the same.
    /// A pool that fails is one without worktrees.
    pub(crate) fn claim(&self, ctx: &Ctx, tree: Oid) -> Option<pool::Slot> {
        let wanted = self.pool.as_deref()?;
        let rate = |record: &SlotRecord| {
            // What set-up left and git does not ignore goes when the slot is brought to the tree.
            let is_usable = record.setup == wanted && !record.leftovers;
            let before = Oid::from_hex(&record.tree).filter(|_| is_usable)?;
            // One that cannot be moved to an agent's place is of less use to others.
            self.is_unchanged(ctx, before, tree)
                .then_some(u32::from(!record.pinned))
        };
        pool::claim(ctx, |_, record| rate(record)).ok()?
    }

    /// Whether set-up would read the same files in both trees, as far as their names tell.
    fn is_unchanged(&self, ctx: &Ctx, before: Oid, after: Oid) -> bool {
        let Ok(changes) = ctx.repo.tree_changes(&[before], after) else {
            return false;
        };
        // A set-up command that names a file most likely reads it.
        let is_named = |path: &str| self.run.iter().any(|command| command.contains(path));
        !changes.iter().any(|change| {
            let path = String::from_utf8_lossy(&change.path);
            is_install_input(&path) || path == PATH || is_named(&path)
        })
    }
}
