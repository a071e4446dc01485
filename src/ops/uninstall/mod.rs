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

use crate::agents::life::liveness::Liveness;
use crate::agents::place::kept_worktree::KeptWorktree;
use crate::agents::who::authority::require_orchestrator;
use crate::agents::work::stacked;
use crate::agents::{
    Ctx, context::run_repo, life::liveness, place::worktree, stock::pool, who::lookup, work::bundle,
};
use crate::domain::{Agent, Oid, State, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::config::ConfigFile;
use crate::hosts::{self, WORKTREE_DIR};
use crate::ops::init::{self, InitOptions, InitPlan};
use crate::ops::status;
use crate::store::files::place::Journal;
use crate::store::files::{added, briefing, fsx, layout, lock};
use crate::store::mailbox::spool;
use crate::store::{Mailbox, OwnBranch, chain::keep};
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 5] = ["hosts", "pool", "settings", "refs", "files"];

/// What other commands hold while they write, in the order in which they take it.
const LOCKS: [&str; 4] =
    [layout::LANDING_LOCK, layout::SPAWN_LOCK, layout::LEDGER_LOCK, layout::MAIL_LOCK];

/// The setting for the place of worktrees, which `init` makes once a person has agreed to it.
const WORKTREE_PLACE: &str = "agent.worktreeDir";

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
    require_nothing(ctx, options)?;
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
    require_nothing(ctx, options)?;
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
    for bundle in bundles(ctx)? {
        fsx::remove_by_trash(common_dir, &bundle)?;
        let _ = bundle.parent().map(fs::remove_dir);
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
                items.remove("host", &host.path);
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
    // Who agreed to it in `init` may go on with it for other tools.
    if ctx.repo.setting_in(ConfigFile::Shared, WORKTREE_PLACE)?.is_some() {
        items.keep("setting", WORKTREE_PLACE, "git config --unset removes it");
    }
    for line in added::remove_exclude(&ctx.repo, true)? {
        items.remove("exclude", &line);
    }
    for bundle in bundles(ctx)? {
        items.remove("files", &bundle.to_string_lossy());
    }
    if layout::agents_dir(common_dir).exists() {
        for what in files(ctx)? {
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
        dry_run: true,
        items: items.into(),
        kept: Vec::new(),
        lost: lost(ctx, options)?,
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
            of_user: false,
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
#[serde(tag = "schema", rename = "git-agent.uninstall/1")]
pub struct UninstallReport {
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
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
    /// Where discards have set aside files above 64 MiB and repositories of submodules.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<String>,
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

// What agents have left in this clone, and what would be lost with our files and refs.

/// Refuses while an agent has a worktree, a branch or a run here, or something that is still to be recorded.
///
/// # Errors
/// `uninstall-refused`; those of the ledger.
fn require_nothing(ctx: &Ctx, options: UninstallOptions) -> Result<()> {
    let common_dir = ctx.repo.common_dir();
    let mut lines = Vec::new();
    for agent in lookup::agents(ctx)? {
        if let Some(what) = what_is_left(ctx, &agent)? {
            let (id, state) = (agent.id.short(), status::state(ctx, &agent));
            let command = way_out(ctx, &agent, state)?;
            lines.push(format!("{id} ({state}) has {what}: {command}"));
        }
    }
    let refused = |what: &str| Error::new(Code::UninstallRefused, what);
    if !lines.is_empty() {
        let what = match lines.len() {
            1 => "an agent has something left in this clone".to_owned(),
            count => format!("{count} agents have something left in this clone"),
        };
        return Err(refused(&what)
            .detail(lines.join("\n"))
            .hint("to see which work is provably finished, run git agent gc"));
    }
    if let Some(kept) = only_copies(common_dir, options)?.first() {
        let what = format!("{} is the only copy of an agent's work", kept.display());
        let word = shell::path(kept);
        return Err(refused(&what).hint(format!("to keep it, run mv {word} <elsewhere>")));
    }
    // The journal of a spawn is the only list of what it has made so far.
    if Journal::any(common_dir) {
        return Err(refused("a spawn is under way or was interrupted")
            .hint("to take spawns apart that were interrupted, run git agent doctor --fix"));
    }
    if let Some(id) = spool::waiting(common_dir).first() {
        return Err(refused(&format!(
            "agent {id} left messages or events that are not recorded yet"
        ))
        .hint("to record them, run git agent doctor --fix"));
    }
    Ok(())
}

/// What lies among our files and nowhere else: repositories of clones and of runs that could not be read, and, unless kept work is to go
/// as well, files that were too long to be read.
fn only_copies(common_dir: &Path, options: UninstallOptions) -> Result<Vec<PathBuf>> {
    let is_copy =
        |name: &str| name.starts_with("clone.git") || SET_ASIDE.contains(&name) && !options.ledger;
    let mut found = of_agents(common_dir, is_copy);
    let directories = fs::read_dir(layout::agents_dir(common_dir)).into_iter().flatten().flatten();
    found.extend(directories.flat_map(|directory| run_repo::left_in(&directory.path())));
    found.sort_unstable();
    Ok(found)
}

/// The directories of an agent with what a discard has moved away: files above 64 MiB, repositories of submodules.
const SET_ASIDE: [&str; 2] = ["large", "modules"];

/// What has such a name in the directory of an agent, sorted.
fn of_agents(common_dir: &Path, is_it: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let inside = |directory: &Path| fs::read_dir(directory).into_iter().flatten().flatten();
    let directories = inside(&layout::agents_dir(common_dir));
    let entries = directories.flat_map(|directory| inside(&directory.path()));
    let named = entries.filter(|entry| entry.file_name().to_str().is_some_and(&is_it));
    let mut found: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    found.sort_unstable();
    found
}

/// The tasks and the output of runs that go, one line for each agent that has any.
fn files(ctx: &Ctx) -> Result<Vec<String>> {
    let common_dir = ctx.repo.common_dir();
    let mut found = Vec::new();
    for agent in lookup::agents(ctx)? {
        let directory = layout::agent_dir(common_dir, agent.id);
        let names = [briefing::TASK, "run", "sessions"].map(|name| directory.join(name));
        let names = names.iter().filter(|name| name.exists());
        found.extend(names.map(|name| name.to_string_lossy().into_owned()));
    }
    Ok(found)
}

/// What shared agents left below the root.
fn bundles(ctx: &Ctx) -> Result<Vec<PathBuf>> {
    let agents = lookup::agents(ctx)?.into_iter();
    let bundles = agents.map(|agent| bundle::of_shared(ctx, &agent));
    let bundles: Result<Vec<_>> = bundles.filter_map(Result::transpose).collect();
    let common = layout::agents_dir(ctx.repo.common_dir());
    Ok(bundles?.into_iter().filter(|path| !path.starts_with(&common)).collect())
}

/// What an agent has left in this clone; `None` where that is nothing.
fn what_is_left(ctx: &Ctx, agent: &Agent) -> Result<Option<&'static str>> {
    let is_here = || lookup::is_local(ctx, agent);
    // Either may be there without the other: git's record, and the directory.
    let has_worktree = worktree::admin_dir(&ctx.repo, agent.id).exists()
        || worktree::find(&ctx.repo, agent).is_some_and(|worktree| worktree.exists())
        || worktree::cut_off(&ctx.repo, agent.id).is_some();
    Ok(if has_worktree {
        Some("a worktree")
    } else if OwnBranch::of(&ctx.repo, agent)?.is_some() {
        Some("a branch")
    } else if agent.state.is_open() && is_here() {
        Some("work that is not decided about")
    } else {
        None
    })
}

/// The command that ends an agent.
fn way_out(ctx: &Ctx, agent: &Agent, state: State) -> Result<String> {
    let id = agent.id.short();
    let is_running = match &agent.run {
        Some(run) => liveness::of_run(ctx.repo.common_dir(), agent, run)? == Liveness::Alive,
        None => false,
    };
    Ok(match agent.state {
        _ if is_running => format!("git agent stop {id}"),
        State::Merged if state != State::Idle => "git agent gc --yes".to_owned(),
        State::Merged | State::Done => {
            // One that was spawned where no branch was checked out is told where to land.
            let target = stacked::target_of(ctx, agent)?;
            let is_branch = target.is_some_and(|target| target.starts_with("refs/heads/"));
            let place = if is_branch { "" } else { " --into <branch>" };
            format!("git agent merge {id}{place}, or git agent discard {id}")
        }
        _ => format!("git agent discard {id}"),
    })
}

/// What nothing brings back.
fn lost(ctx: &Ctx, options: UninstallOptions) -> Result<Lost> {
    let common_dir = ctx.repo.common_dir();
    let agents = lookup::agents(ctx)?;
    let mut lost = Lost::default();
    for agent in &agents {
        let task = layout::agent_dir(common_dir, agent.id).join(briefing::TASK);
        lost.tasks += usize::from(task.exists());
        let logs = ["out", "err"].map(|stream| liveness::logged(common_dir, agent, stream).len());
        lost.logs += logs.iter().sum::<usize>();
    }
    if options.ledger {
        lost.rows = agents.len();
        lost.messages = !Mailbox::new(&ctx.repo).is_empty()?;
        let kept = keep::passing(&ctx.repo)?;
        lost.kept_commits = kept.iter().map(|link| link.commits.len()).sum();
        let set_aside = of_agents(common_dir, |name| SET_ASIDE.contains(&name)).into_iter();
        lost.set_aside = set_aside.map(|path| path.to_string_lossy().into_owned()).collect();
    }
    Ok(lost)
}
