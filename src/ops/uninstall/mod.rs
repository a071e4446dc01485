//! `uninstall`: takes out of a repository what this program put into it.
//!
//! Where an agent still has a worktree, a branch or a run, nothing is removed. The ledger, the mailbox and what was kept of
//! agents are refs and stay, unless they are asked for too. The steps, each named for the tests that stop the process there;
//! running it again after a kill does the rest, because what was added to files of git is forgotten last:
//!
//! 1. `hosts`: our hooks are out of the settings of agent hosts.
//! 2. `pool`: the warm worktrees are removed.
//! 3. `settings`: `config` and `info/exclude` are as they were: to the byte where nothing else has changed them since, which
//!    [`added::changing`] remembers, and else without what we put in. What the user had set before stays.
//! 4. `refs`: the ledger, the mailbox and the keep chain are gone, if asked for.
//! 5. `files`: `<common dir>/agents` is gone, and so are directories of git that are empty without ours.

mod left;

use super::init;
use super::init::{InitOptions, InitPlan};
use crate::agents::authority::require_orchestrator;
use crate::agents::ctx::Ctx;
use crate::agents::kept_worktree::KeptWorktree;
use crate::agents::pool;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::hosts;
use crate::hosts::WORKTREE_DIR;
use crate::store::{added, layout, lock};
use serde::Serialize;

/// The steps, in order, under the names given to [`crate::agents::ctx::Seams::reached`].
pub const STEPS: [&str; 5] = ["hosts", "pool", "settings", "refs", "files"];

/// What other commands hold while they write, in the order in which they take it.
const LOCKS: [&str; 4] = [
    layout::LANDING_LOCK,
    layout::SPAWN_LOCK,
    layout::LEDGER_LOCK,
    layout::MAIL_LOCK,
];

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct UninstallOptions {
    /// Also the ledger, the mailbox and what was kept of agents.
    pub ledger: bool,
}

/// What would be removed; nothing is written.
///
/// # Errors
/// `uninstall-refused` where agents have something left, `orchestrator-only`, `host-settings-invalid`, `io`.
pub fn plan(ctx: &Ctx, options: UninstallOptions) -> Result<UninstallReport> {
    require_orchestrator(ctx)?;
    left::require_nothing(ctx, options)?;
    look(ctx, options)
}

/// Removes it.
///
/// # Errors
/// As [`plan`]; `lock-timeout`.
pub fn execute(ctx: &Ctx, options: UninstallOptions) -> Result<UninstallReport> {
    // What refuses it is told before any lock is waited for.
    plan(ctx, options)?;
    let common_dir = ctx.repo.common_dir();
    // From here on nothing brings refs back, and nothing fills the pool.
    let _syncs = lock::hold(common_dir, layout::SYNC_LOCK)?;
    let _fillers = lock::hold(common_dir, layout::POOL_LOCK)?;
    let mut report = look(ctx, options)?;
    report.dry_run = false;

    if let Some(plan) = registrations(ctx)? {
        init::execute(ctx, &plan.without_settings())?;
    }
    ctx.reached(STEPS[0]);
    for slot in pool::slots(ctx)? {
        if let Some(slot) = slot? {
            report.kept.extend(slot.remove(ctx)?);
        }
    }
    ctx.reached(STEPS[1]);
    let locks = LOCKS.iter().map(|name| lock::hold(common_dir, name));
    let _locks = locks.collect::<Result<Vec<_>>>()?;
    // A spawn may have been faster.
    left::require_nothing(ctx, options)?;
    // To the byte, where nothing but this program has changed it; else the one setting goes.
    let has_own = added::disable_worktree_config(&ctx.repo, true)? == Some(false);
    let is_put_back = !has_own && added::put_back(common_dir, &common_dir.join("config"))?;
    if is_put_back {
        added::forget_moved_settings(&ctx.repo)?;
    } else {
        added::disable_worktree_config(&ctx.repo, false)?;
        if let Some(plan) = registrations(ctx)? {
            init::execute(ctx, &plan)?;
        }
    }
    added::remove_exclude(&ctx.repo, false)?;
    ctx.reached(STEPS[2]);
    if options.ledger {
        for (name, oid) in refs(ctx)? {
            // Each only where it is as it was listed, so that no row is lost that came since.
            ctx.repo.delete_ref(&name, oid)?;
        }
    }
    ctx.reached(STEPS[3]);
    added::remove_files(common_dir, &ctx.repo.root()?.join(WORKTREE_DIR))?;
    ctx.reached(STEPS[4]);
    Ok(report)
}

/// What there is to remove, and what would be lost with it.
fn look(ctx: &Ctx, options: UninstallOptions) -> Result<UninstallReport> {
    let common_dir = ctx.repo.common_dir();
    let mut items = Items::default();
    if let Some(plan) = registrations(ctx)? {
        let report = plan.report();
        for host in report.hosts {
            if host.action != init::Action::Unchanged {
                items.remove("host", host.path);
            }
        }
        if report.notes == Some(init::Action::Deleted) {
            items.remove("setting", "notes.displayRef");
        }
        if report.log_alias == Some(init::Action::Deleted) {
            items.remove("setting", "the alias for git log");
        }
    }
    for slot in pool::slots(ctx)? {
        match slot? {
            Some(slot) => items.remove("worktree", &slot.path.to_string_lossy()),
            None => items.keep("worktree", "a warm worktree", "a process works on it"),
        }
    }
    match added::disable_worktree_config(&ctx.repo, true)? {
        Some(true) => items.remove("setting", "extensions.worktreeConfig"),
        Some(false) => items.keep(
            "setting",
            "extensions.worktreeConfig",
            "worktrees have settings of their own",
        ),
        None if ctx.repo.reads_worktree_config()? => {
            items.keep("setting", "extensions.worktreeConfig", "it was on before")
        }
        None => {}
    }
    for line in added::remove_exclude(&ctx.repo, true)? {
        items.remove("exclude", &line);
    }
    if layout::agents_dir(common_dir).exists() {
        for what in left::files(ctx)? {
            items.remove("files", &what);
        }
        items.remove("files", &layout::agents_dir(common_dir).to_string_lossy());
    }
    for (name, _) in refs(ctx)? {
        if options.ledger {
            items.remove("ref", &name);
        } else {
            items.keep("ref", &name, "--ledger removes it too");
        }
    }
    Ok(UninstallReport {
        schema: "git-agent.uninstall/1",
        dry_run: true,
        items: items.into(),
        kept: Vec::new(),
        lost: left::lost(ctx, options)?,
    })
}

/// What `init` put in; `None` in a bare repository, and where there is nothing of ours.
fn registrations(ctx: &Ctx) -> Result<Option<InitPlan>> {
    if ctx.repo.workdir().is_none() {
        return Ok(None);
    }
    let plan = init::plan(
        ctx,
        &InitOptions {
            hosts: hosts::registrations().collect(),
            worktrees: false,
            notes: true,
            // The name is of no matter: the alias is found by what it stands for.
            log_alias: Some("lg".to_owned()),
            remove: true,
            only_ours: true,
            from_kit: None,
        },
    )?;
    Ok(Some(plan).filter(|plan| !plan.is_empty()))
}

/// Our refs, and the copies of remotes' refs.
fn refs(ctx: &Ctx) -> Result<Vec<(String, Oid)>> {
    let mut refs = ctx.repo.refs_below("refs/agents/")?;
    for name in [layout::LEDGER_REF, layout::RECEIPTS_REF] {
        refs.extend(ctx.repo.tip(name)?.oid().map(|oid| (name.to_owned(), oid)));
    }
    Ok(refs)
}

// What `uninstall` answers.

/// The answer of `uninstall`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UninstallReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// Whether nothing was removed yet.
    pub dry_run: bool,
    /// What this program put into the repository.
    pub items: Vec<UninstallItem>,
    /// What was kept of warm worktrees that had been edited by hand.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptWorktree>,
    /// What cannot be had back.
    pub lost: Lost,
}

/// One thing that this program put into the repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UninstallItem {
    /// `host`, `setting`, `exclude`, `worktree`, `files` or `ref`.
    pub kind: &'static str,
    /// The path, the key, the line or the name.
    pub what: String,
    /// `remove` or `keep`.
    pub action: &'static str,
    /// Why it is kept, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<&'static str>,
}

/// What cannot be had back, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Output of runs.
    pub logs: usize,
    /// Tasks as they were given, from which agents are spawned once more.
    pub tasks: usize,
    /// Rows of the ledger.
    pub rows: usize,
    /// Whether there are messages among it.
    pub messages: bool,
    /// Commits that hold the work of discarded and merged agents.
    pub kept_commits: usize,
}

/// Items as they are found.
#[derive(Default)]
struct Items(Vec<UninstallItem>);

impl Items {
    fn remove(&mut self, kind: &'static str, what: &str) {
        self.push(kind, what, None);
    }

    fn keep(&mut self, kind: &'static str, what: &str, why: &'static str) {
        self.push(kind, what, Some(why));
    }

    fn push(&mut self, kind: &'static str, what: &str, why: Option<&'static str>) {
        self.0.push(UninstallItem {
            kind,
            what: what.to_owned(),
            action: if why.is_some() { "keep" } else { "remove" },
            why,
        });
    }
}

impl From<Items> for Vec<UninstallItem> {
    fn from(items: Items) -> Self {
        items.0
    }
}
