//! The steps of an undo, in the order that makes every stop harmless.

use super::operations::{self, BranchMove, Obstacle, Operation};
use super::{STEPS, UndoPlan, refusal, require_unblocked};
use crate::agents::context::branch_swap::{UnderLock, move_with_worktrees};
use crate::agents::context::ctx::Ctx;
use crate::agents::context::scratch::Scratch;
use crate::agents::{place::worktree, who::names};
use crate::domain::State;
use crate::domain::life::event::What;
use crate::domain::life::id::OperationId;
use crate::domain::paths::path::Quoted;
use crate::domain::value::oid::Oid;
use crate::error::{Code, Error, ErrorFacts, Result};
use crate::git::history::merge::MergeResult;
use crate::git::refs::Tip;
use crate::ops::agent_report::Reporter;
use crate::ops::discard::{self, DiscardOptions};
use crate::ops::undo::{BranchMoveReport, UndoReport};
use crate::ops::{amend, rescue};
use crate::store::chain::keep;
use crate::store::files::{layout, lock};
use crate::store::ledger::Ledger;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

/// Carries out a plan.
///
/// # Errors
/// `lost-race` when a branch moved since the plan was made; `target-dirty`, naming the paths; `update-conflicts` where a revert
/// conflicts; those of the ledger and of bringing worktrees back.
pub fn execute(ctx: &Ctx, plan: &UndoPlan) -> Result<UndoReport> {
    let repo = &ctx.repo;
    let mut report = plan.answer("undone");
    let landings = lock::hold(repo.common_dir(), layout::LANDING_LOCK)?;
    // Asked again under the lock: another command may have decided about an agent since the plan.
    let operation = require_open(ctx, plan)?;
    if let Some(obstacle) = operation.obstacle() {
        return Err(refusal(ctx, &operation, obstacle)?);
    }
    // All are asked before anything is made again: half of it could not be taken back by the same name.
    let plan_of = |agent| rescue::plan_restore(ctx, agent);
    let restored = plan.restored.iter().map(plan_of).collect::<Result<Vec<_>>>()?;
    // The commits of all reverts are made first, so that a conflict is found before any branch has moved.
    let reverts = Reverts::make(ctx, plan)?;
    report.moves.extend(reverts.moves.iter().map(BranchMoveReport::from));
    // What a branch leaves hangs on nothing else from now on, and taking this back needs it.
    let left: Vec<Oid> =
        plan.moves.iter().filter(|one| one.from != one.to).map(|one| one.from).collect();
    if !left.is_empty() {
        keep::keep(repo, &left, &format!("undone {}", plan.operation), ctx.now())?;
    }
    ctx.reached(STEPS[0]);
    // Until the rows say what has moved.
    let mut deferred = Vec::new();
    let reason = format!("agent: undo {}", plan.operation);
    let moves = plan.moves.iter().chain(&reverts.moves);
    for one in moves.filter(|one| one.from != one.to) {
        let checkouts = repo.checkouts(&one.refname)?;
        let branch = (one.refname.as_str(), checkouts.as_slice());
        let way = (one.from, one.to);
        let moved = move_with_worktrees(ctx, branch, way, &reason, &UnderLock::NOTHING)?;
        deferred.push(moved);
    }
    for agent in &plan.agents {
        // The agents are at work again, and their worktrees have to be protected as before.
        worktree::reopen(ctx, agent)?;
    }
    // A discard, as below, takes this lock itself.
    drop(landings);
    for one in restored {
        report.warnings.extend(rescue::restore(ctx, one)?);
    }
    // Another undo of the same operation may have written its rows meanwhile.
    let landings = lock::hold(repo.common_dir(), layout::LANDING_LOCK)?;
    require_open(ctx, plan)?;
    record(ctx, plan, &reverts.commits)?;
    drop(landings);
    drop(deferred);
    ctx.reached(STEPS[6]);
    let names: Vec<String> = plan.removed.iter().map(|it| it.id.to_string()).collect();
    let mut discarded = Ok(());
    // All are tried; the first failure is the one that is told.
    discard::discard_each(ctx, &names, DiscardOptions::default(), &mut |one| {
        if discarded.is_ok() {
            discarded = one.map(drop);
        }
    });
    discarded?;
    // The rows as they stand now, and the prompts that tell of a policy.
    let ledger = Ledger::new(repo);
    let reporter = Reporter::new(ctx)?;
    for before in &plan.agents {
        let now = ledger.agent(before.spawn_commit)?;
        let now = now.unwrap_or_else(|| before.clone());
        // One that was brought back as what it was, merged or turned down, holds nothing.
        if matches!(now.state, State::Merged | State::Rejected) {
            worktree::release(ctx, &now);
        }
        if now.binding_policy() != before.binding_policy()
            && let Some(policy) = now.binding_policy()
            && let Err(error) = amend::tell(ctx, &now, policy)
        {
            let why = format!("its prompt was not written anew: {error}; the next run does that");
            report.warnings.push(why);
        }
        // The name of before may be another one's by now; what is undone stays so.
        if let Some(name) = &now.name
            && let Ok(warning) = names::shared(&ledger, name, Some(now.id))
        {
            report.warnings.extend(warning);
        }
        report.agents.push(reporter.agent(ctx, &now));
    }
    report.undone_by = Some(repo.operation()?.to_string());
    Ok(report)
}

/// What a plan would do. What keeps its reverts from being made fails here as it would fail there.
///
/// # Errors
/// `target-dirty` and `update-conflicts` as [`execute`]; those of git.
pub fn rehearse(ctx: &Ctx, plan: &UndoPlan) -> Result<UndoReport> {
    if !plan.reverts.is_empty() {
        let scratch = Scratch::make(ctx, "undo")?;
        Reverts::make(&ctx.with_scratch_objects(scratch.path())?, plan)?;
    }
    plan.report(ctx)
}

/// What the plan is about, as the rows tell it now, under the lock of landings. No other undo may have taken a part of it back.
///
/// # Errors
/// `agent-state`; those of the ledger.
fn require_open(ctx: &Ctx, plan: &UndoPlan) -> Result<Operation> {
    let mut operation = operations::meant(ctx, Some(plan.operation.as_str()))?;
    let is_planned = |key: Oid| plan.agents.iter().any(|agent| agent.spawn_commit == key);
    operation.parts.retain(|part| is_planned(part.spawn_commit));
    if operation.parts.iter().any(|part| part.is_taken_back) {
        return Err(refusal(ctx, &operation, Obstacle::TakenBack)?);
    }
    Ok(operation)
}

/// One event for each agent, all by one commit of the ledger. What is discarded again says so itself.
fn record(ctx: &Ctx, plan: &UndoPlan, reverted: &HashMap<Oid, Oid>) -> Result<()> {
    let is_removed = |key: &Oid| plan.removed.iter().any(|agent| agent.spawn_commit == *key);
    let rows = plan.agents.iter().map(|agent| agent.spawn_commit).filter(|key| !is_removed(key));
    let what = |row: Oid| {
        let landing = plan.landings.iter().find(|(key, _)| *key == row);
        What::Undone {
            operation: plan.operation.clone(),
            revert: landing.and_then(|(_, commit)| reverted.get(commit).copied()),
        }
    };
    let rows: Vec<(Oid, What)> = rows.map(|row| (row, what(row))).collect();
    ctx.ledger().append_each(&rows, &ctx.actor()?, ctx.now(), |what, _| Ok(what.clone()))?;
    Ok(())
}

// A landing that something stands on is taken back by a commit on top, as `git revert` does.

/// The trailer of a revert that `undo` made.
const TRAILER: &str = "Agent-Undo";

/// The commits that take landings back, which no branch has yet.
struct Reverts {
    /// How each branch moves: by all of its commits at once.
    moves: Vec<BranchMove>,
    /// What takes each landing back.
    commits: HashMap<Oid, Oid>,
}

impl Reverts {
    /// Makes the commits of a plan; those on one branch stand on each other. Nothing moves.
    ///
    /// # Errors
    /// `update-conflicts`, `target-dirty`, naming the paths; those of git.
    fn make(ctx: &Ctx, plan: &UndoPlan) -> Result<Reverts> {
        let repo = &ctx.repo;
        let mut moves: BTreeMap<&str, BranchMove> = BTreeMap::new();
        let mut commits = HashMap::new();
        for one in &plan.reverts {
            let branch = match moves.entry(&one.refname) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => {
                    let Tip::At(tip) = repo.tip(&one.refname)? else {
                        let what = format!("{} is gone", one.refname);
                        return Err(Error::new(Code::BranchGone, what));
                    };
                    entry.insert(BranchMove { refname: one.refname.clone(), from: tip, to: tip })
                }
            };
            // A command that was killed after the branch had moved goes on from there.
            let commit = match made_before(ctx, one, branch.to, &plan.operation)? {
                Some(commit) => commit,
                None => {
                    branch.to = revert(ctx, one, branch.to, &plan.operation)?;
                    branch.to
                }
            };
            commits.insert(one.to, commit);
        }
        let moves: Vec<_> = moves.into_values().filter(|one| one.from != one.to).collect();
        for one in &moves {
            require_unblocked(ctx, one)?;
        }
        Ok(Reverts { moves, commits })
    }
}

/// Makes the commit on top of `tip` that takes back what the branch gained by a move.
///
/// # Errors
/// `update-conflicts`, naming the paths; those of git.
fn revert(ctx: &Ctx, one: &BranchMove, tip: Oid, operation: &OperationId) -> Result<Oid> {
    let repo = &ctx.repo;
    if !repo.is_ancestor(one.to, tip)? {
        let what = format!("{} does not hold commit {} any more", one.refname, one.to.short());
        return Err(Error::new(Code::UndoBuiltUpon, what)
            .hint(format!("to see where it is, run git log {}", one.refname)));
    }
    let who = ctx.identities()?;
    // A commit that only goes back: merging it takes away what the landing brought, and git finds that one as their base.
    let back =
        repo.write_commit(&who.commit(repo.tree_of(one.from)?, &[one.to], "agent: undo\n"))?;
    let tree = match repo.merge(tip, back)?.result {
        MergeResult::Clean { tree } => tree,
        MergeResult::Conflicts { conflicts, .. } => {
            let conflicts: Vec<_> = conflicts.into_iter().map(|one| one.path).collect();
            let lines: Vec<String> =
                conflicts.iter().map(|path| format!("  {}", Quoted(path))).collect();
            let is_merge = repo.read_commit(one.to)?.parents.len() > 1;
            let parent = if is_merge { "-m 1 " } else { "" };
            let what = format!(
                "what came after commit {} changed the same lines; nothing was changed",
                one.to.short()
            );
            return Err(Error::new(Code::UpdateConflicts, what)
                .detail(lines.join("\n"))
                .facts(ErrorFacts { conflicts, ..ErrorFacts::default() })
                .hint(format!("to take it back by hand, run git revert {parent}{}", one.to)));
        }
        MergeResult::Unrelated => {
            return Err(Error::bug("a landing must have history in common with its branch"));
        }
    };
    let landing = repo.read_commit(one.to)?;
    let subject = landing.message.lines().next().unwrap_or_default();
    let message = format!("Revert \"{subject}\"\n\n{}\n\n{TRAILER}: {operation}\n", says(one));
    repo.write_commit_as_user(&who.commit(tree, &[tip], &message))
}

fn says(one: &BranchMove) -> String {
    format!("This reverts commit {}.", one.to)
}

/// The revert that a call made which was killed before its row said so. It is on top, with others of the same operation.
fn made_before(
    ctx: &Ctx,
    one: &BranchMove,
    tip: Oid,
    operation: &OperationId,
) -> Result<Option<Oid>> {
    let mut commit = ctx.repo.read_commit(tip)?;
    // Several reverts of one operation stand on each other.
    while commit.trailer(TRAILER) == Some(operation.as_str())
        && let [from] = commit.parents[..]
    {
        if commit.message.contains(&says(one)) {
            return Ok(Some(commit.oid));
        }
        commit = ctx.repo.read_commit(from)?;
    }
    Ok(None)
}
