//! Uncommitted work as the tree that committing it would make.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::scratch::{self, Scratch};
use crate::agents::context::untrusted::WorktreeView;
use crate::agents::place::worktree::AgentWorktree;
use crate::agents::who::scope_guard::ScopeGuard;
use crate::agents::work::{self, Work, tip_of};
use crate::domain::{Agent, Change, ChangeKind, Oid, State};
use crate::error::{IoContext, Result};
use crate::git::changes::{Glance, Staging};
use crate::git::uncommitted;
use crate::git::uncommitted::{Uncommitted, glance};
use crate::store::{self, files::fsx, landing::spawn_commit, ledger::agent_branch};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Removes a file when it goes out of scope.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// What is in a worktree and in no commit.
pub(crate) struct Snapshot {
    /// What is staged, whatever the files say.
    pub staged: Vec<Change>,
    /// What committing the rest as well would make, without what was there before the agent.
    pub found: Uncommitted,
    /// The paths that are as setup left them; `None` where setup left none.
    pub from_setup: Option<Vec<Vec<u8>>>,
    /// New files that editors and file managers left, which are no work.
    pub droppings: Vec<Vec<u8>>,
}

/// The tree that committing everything in an agent's worktree on top of `tip` would make, as `verify` judges it; `None`
/// when there is nothing to commit.
///
/// # Errors
/// `lost-race` when the worktree goes away; those of git and the file system.
pub(crate) fn uncommitted_tree(
    ctx: &Ctx,
    agent: &Agent,
    tip: Oid,
    place: &AgentWorktree,
    bundle_dir: Option<&str>,
) -> Result<Option<Oid>> {
    Ok(uncommitted(ctx, agent, tip, place, bundle_dir)?.tree)
}

fn uncommitted(
    ctx: &Ctx,
    agent: &Agent,
    tip: Oid,
    place: &AgentWorktree,
    bundle_dir: Option<&str>,
) -> Result<Uncommitted> {
    place.undisturbed(|| Ok(snapshot(ctx, agent, tip, place, bundle_dir, false)?.found))
}

/// Takes what was there before the agent out of the changes that a quick look at its worktree found.
///
/// # Errors
/// As [`uncommitted_tree`].
pub(crate) fn without_baseline(
    ctx: &Ctx,
    agent: &Agent,
    place: &AgentWorktree,
    bundle_dir: Option<&str>,
    mut changes: Vec<Change>,
) -> Result<Vec<Change>> {
    let is_dropping =
        |change: &Change| change.kind == ChangeKind::Untracked && work::is_dropping(&change.path);
    changes.retain(|change| !is_dropping(change));
    let Some(known) = store::chain::facts::of_agent(&ctx.repo, agent)? else {
        return Ok(changes);
    };
    // Only where a path of the set-up changed again are the contents compared, which costs a whole
    // snapshot.
    if changes.iter().any(|change| known.is_at(&change.path)) {
        let tip = tip_of(ctx, agent)?;
        let before = ctx.repo.tree_of(tip)?;
        let tree = uncommitted_tree(ctx, agent, tip, place, bundle_dir)?;
        let work = ctx.repo.tree_changes(&[before], tree.unwrap_or(before))?;
        let work: HashSet<&[u8]> = work.iter().map(|change| change.path.as_slice()).collect();
        changes.retain(|change| !known.is_at(&change.path) || work.contains(&*change.path));
    }
    Ok(changes)
}

/// What the worktree of an agent has beside the work that landed on `target`, in words; `None` where all of it is in commits that
/// stay when the agent goes.
///
/// # Errors
/// Those of git and the file system.
pub(crate) fn beside_landed(
    ctx: &Ctx,
    agent: &Agent,
    place: &AgentWorktree,
    target: &str,
) -> Result<Option<&'static str>> {
    let repo = &ctx.repo;
    let tip = agent_branch::local(repo, agent)?.oid();
    // Files are compared with HEAD, which may be at a commit that no branch has.
    let Some(head) = repo.commit_at(&place.admin_dir)? else {
        return Ok(Some("HEAD of its worktree is at no commit"));
    };
    if tip != Some(head) {
        let is_held = |by: Option<Oid>| by.map_or(Ok(false), |by| repo.is_ancestor(head, by));
        if !is_held(tip)? && !is_held(repo.branch_tip(target)?.oid())? {
            return Ok(Some("HEAD of its worktree is at a commit that has not landed"));
        }
    }
    let policy = spawn_commit::if_here(repo, agent)?;
    let bundle_dir = policy.and_then(|policy| policy.bundle_dir);
    let changes = glance(&Glance {
        repo: Some(repo),
        top: &place.path,
        admin_dir: &place.admin_dir,
        rules: &ctx.ignore_rules()?.without(bundle_dir.as_deref()),
        scratch: &ctx.temporary_place(),
    })?;
    let changes = without_baseline(ctx, agent, place, bundle_dir.as_deref(), changes)?;
    let is_kept = changes.is_empty() || has_landed(ctx, agent, place, &changes)?;
    Ok((!is_kept).then_some("its worktree holds uncommitted work"))
}

/// Whether what is changed in the worktree of a merged agent has landed, although its branch does not say so: that of a clone stays where the
/// clone knows it, and work that the target had already is not committed.
///
/// # Errors
/// Those of git and the file system.
pub(crate) fn has_landed(
    ctx: &Ctx,
    agent: &Agent,
    place: &AgentWorktree,
    changes: &[Change],
) -> Result<bool> {
    let (State::Merged, Some((_, into))) = (agent.state, &agent.landed) else {
        return Ok(false);
    };
    let tip = agent_branch::local(&ctx.repo, agent)?.oid();
    let target = ctx.repo.branch_tip(into)?.oid();
    let last = agent.landed_tip.filter(|last| ctx.repo.has_object(*last));
    let scratch = Scratch::make(ctx, "look")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    let mut work = Work::look_up(&apart, agent.clone())?;
    work.place = Some(place.clone());
    let (repo, tree) = (&apart.repo, work.tree(&apart)?);
    if last != tip && last.map(|oid| repo.tree_of(oid)).transpose()? == Some(tree) {
        return Ok(true);
    }
    let (Some(tip), Some(target)) = (tip, target) else {
        return Ok(false);
    };
    let changed: BTreeSet<_> = repo.changed_paths(repo.tree_of(tip)?, tree)?;
    let lacking: BTreeSet<_> = repo.changed_paths(repo.tree_of(target)?, tree)?;
    // What no tree holds, as a nested repository, is nowhere else.
    let is_there =
        |change: &Change| changed.contains(&change.path) && !lacking.contains(&change.path);
    Ok(changes.iter().all(is_there))
}

/// What `commit` would find changed in an agent's worktree that has nothing staged, and the tree that holds it.
/// Whatever no commit could hold is among it as untracked, a directory with a slash at its end.
pub(crate) fn work_to_commit(
    ctx: &Ctx,
    fence: &ScopeGuard<'_>,
    worktree: &Path,
    admin_dir: &Path,
) -> Result<(Vec<Change>, Oid)> {
    let (agent, bundle) = (fence.agent(), fence.policy().bundle_dir.as_deref());
    let place = AgentWorktree::new(worktree, admin_dir);
    let tip = tip_of(ctx, agent)?;
    let before = ctx.repo.tree_of(tip)?;
    let found = uncommitted(ctx, agent, tip, &place, bundle)?;
    let tree = found.tree.unwrap_or(before);
    let mut changes = ctx.repo.tree_changes(&[before], tree)?;
    // A tree holds neither of these, so a scope could not judge them otherwise.
    let unseen = [found.nested, found.unreadable, found.refused].concat().into_iter();
    changes.extend(unseen.map(|path| Change { path, kind: ChangeKind::Untracked, link: None }));
    Ok((changes, tree))
}

/// The tree that committing these paths, which `git status` named, would make on top of `tip`. A third of the
/// work of [`uncommitted_tree`], and blind to what an index can hide.
pub(crate) fn tree_with(
    ctx: &Ctx,
    tip: Oid,
    place: &AgentWorktree,
    paths: &[Vec<u8>],
) -> Result<Oid> {
    let scratch = scratch::directory(ctx);
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let index = Temporary(fsx::unique_name(&scratch.join("index")));
    let view = WorktreeView::make(&ctx.repo, &place.admin_dir, &place.path, &scratch)?;
    let source = uncommitted::WorktreeSource {
        repo: &ctx.repo,
        worktree: &place.path,
        admin_dir: &place.admin_dir,
        view: &view,
        tip,
        staged: true,
        sparse: false,
        rules: &ctx.ignore_rules()?,
        names_ignored: false,
        index: &index.0,
    };
    uncommitted::tree_with(&source, paths)
}

/// Looks at an agent's worktree. With `names_ignored` the answer names what git ignores there.
///
/// # Errors
/// Those of git and the file system.
pub(crate) fn snapshot(
    ctx: &Ctx,
    agent: &Agent,
    tip: Oid,
    place: &AgentWorktree,
    bundle_dir: Option<&str>,
    names_ignored: bool,
) -> Result<Snapshot> {
    let (staged, mut found) = look(ctx, tip, place, bundle_dir, names_ignored)?;
    let (mut from_setup, mut droppings) = (None, Vec::new());
    if agent.baseline.is_some() || found.tree.is_some() {
        let before = ctx.repo.tree_of(tip)?;
        let tree = found.tree.unwrap_or(before);
        let rest = work::without(&ctx.repo, agent, before, tree, &staged, false)?;
        // What is staged counts as work even where the files are as they were.
        let is_work = |tree: &Oid| *tree != before || !staged.is_empty();
        found.tree = Some(rest.tree).filter(is_work);
        (from_setup, droppings) = (rest.from_setup, rest.droppings);
    }
    Ok(Snapshot { staged, found, from_setup, droppings })
}

/// The tree that committing everything in a worktree on top of `tip` would make, however it came there; `None` when
/// there is nothing to commit.
///
/// # Errors
/// Those of git and the file system.
pub(crate) fn whole_tree(
    ctx: &Ctx,
    tip: Oid,
    place: &AgentWorktree,
    bundle_dir: Option<&str>,
) -> Result<Option<Oid>> {
    Ok(look(ctx, tip, place, bundle_dir, false)?.1.tree)
}

/// What is staged in a worktree, and all that is in it and in no commit, however it came there.
///
/// # Errors
/// Those of git and the file system.
pub(crate) fn look(
    ctx: &Ctx,
    tip: Oid,
    place: &AgentWorktree,
    bundle_dir: Option<&str>,
    names_ignored: bool,
) -> Result<(Vec<Change>, Uncommitted)> {
    let own = ctx.repo.seen_from(&place.admin_dir)?;
    let staged = own.staged_changes(&Staging::default())?;
    // A fenced agent that checks its own work may write no other directory of git's.
    let scratch = if ctx.env.fenced && !ctx.repo.is_scratch() {
        place.admin_dir.clone()
    } else {
        scratch::directory(ctx)
    };
    fs::create_dir_all(&scratch).at("could not make", &scratch)?;
    let index = Temporary(fsx::unique_name(&scratch.join("index")));
    let view = WorktreeView::make(&own, &place.admin_dir, &place.path, &scratch)?;
    let found = uncommitted::snapshot(&uncommitted::WorktreeSource {
        repo: &own,
        worktree: &place.path,
        admin_dir: &place.admin_dir,
        view: &view,
        tip,
        // While a merge waits, an index that is what the other side has is the work, though nothing of it is the agent's own.
        staged: !staged.is_empty() || !ctx.repo.merged_trees(&place.admin_dir).is_empty(),
        sparse: own.config_bool("core.sparseCheckout")? == Some(true),
        rules: &ctx.ignore_rules()?.without(bundle_dir),
        names_ignored,
        index: &index.0,
    })?;
    Ok((staged, found))
}
