//! `update`: the branch that an agent's work lands on is merged into the agent's branch.
//!
//! ```text
//! plan     Agent ─> nothing uncommitted ─> git's merge of tip and target, in memory ─> UpdatePlan
//! execute  merge commit ─> [ref lock: worktree, ref] ─> row
//! ```
//!
//! The merge commit has the tree that git made, so `verify` sees nothing in it that the agent added. A conflict is found before
//! anything is written. The steps are named for the tests that stop the process there: `merged`, the commit is written; `locked`,
//! `emptied`, `written` and `indexed`, the worktree moves; `moved`, the branch names the commit; `recorded`, the row does. A kill
//! before `moved` leaves files or an index that are ahead of the branch, and running the command again completes it.
//!
//! With `--conflicts` a merge that conflicts is left in the worktree, and the next `update` commits it once it is resolved
//! (`conflicts`).
//!
//! Deliberately absent: rebasing, which would change commits that a verdict or a message may name.

mod conflicts;

use crate::agents::context::branch_swap::{index_scratch, swap};
use crate::agents::context::ctx::Ctx;
use crate::agents::life::{at_work, liveness};
use crate::agents::upkeep::merge_conflict::UnfinishedMerge;
use crate::agents::upkeep::own_checkout::{own_checkout, require_no_clone};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::who::scope_guard::ScopeGuard;
use crate::agents::work::{self, uncommitted};
use crate::agents::{
    own_changes, place::worktree, stock::layered, upkeep::crash_recovery, who::lookup,
};
use crate::domain::life::agent::{Agent, Move};
use crate::domain::life::event::What;
use crate::domain::paths::change::{Baseline, Change, ChangeKind, Difference};
use crate::domain::paths::path::Quoted;
use crate::domain::value::oid::Oid;
use crate::domain::value::shell;
use crate::error::{Code, Error, ErrorFacts, Remedy, Result};
use crate::git::Repo;
use crate::git::changes::Staging;
use crate::git::history::merge::MergeResult;
use crate::git::landing::{Checkout, ConflictedMerge};
use crate::ops::agent_report::TargetReport;
use crate::ops::error_report::command_to_go_on;
use crate::proc::signals::Deferred;
use crate::store::{chain::facts, landing::taken_back};
use crate::wire::output::path_text::PathText;
pub use conflicts::{CONFLICT_STEPS, RESOLVED_STEPS};
use serde::Serialize;
use std::collections::{BTreeSet, HashSet};

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 7] =
    ["merged", "locked", "emptied", "written", "indexed", "moved", "recorded"];

/// What an update would do.
pub struct UpdatePlan {
    agent: Agent,
    branch: String,
    target: Option<String>,
    target_tip: Oid,
    tip: Oid,
    way: UpdateWay,
    /// Whether it is done although a session or a process works in the agent.
    now: bool,
}

/// What there is to do.
enum UpdateWay {
    /// Nothing: the branch holds the target already.
    UpToDate,
    /// Committing the tree that git merged.
    Merge(Oid),
    /// Leaving the conflicts in the worktree.
    Leave(ConflictedMerge),
    /// Nothing but what a kill left undone: they are there already, and these paths are not resolved.
    Wait(Box<UnfinishedMerge>, Vec<Vec<u8>>),
    /// Committing this tree, in which they are resolved.
    Resolved(Box<UnfinishedMerge>, Oid),
    /// Clearing up behind a commit, of a merge of this one, that was made before a kill.
    Clear(Checkout, Oid),
}

/// The answer of `update`: `git-agent.update/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UpdateReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// `planned`; `updated`; `up-to-date` where the branch held the target already; `conflicts` where they are left in the worktree.
    pub outcome: &'static str,
    /// What is merged into the agent's branch.
    pub target: TargetReport,
    /// The branch's tip before.
    pub tip: String,
    /// The merge commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// The paths that are to be resolved.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<PathText>,
    /// The command by which the agent resolves them.
    #[serde(skip)]
    pub to_go_on: String,
}

/// What the caller asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct UpdateOptions {
    /// Do it though a session or a process works in the agent.
    pub now: bool,
    /// Leave conflicts in the worktree, as git does.
    pub conflicts: bool,
}

/// Looks at everything and merges in memory; writes nothing but objects.
///
/// # Errors
/// `orchestrator-only`, `agent-unknown`; `agent-state` for an agent that is decided about or has no branch; `agent-busy`;
/// `worktree-dirty`, `update-conflicts` and `out-of-scope`, naming the paths; `worktree-busy`; those of git.
pub fn plan(ctx: &Ctx, who: &str, options: UpdateOptions) -> Result<UpdatePlan> {
    let now = options.now;
    require_orchestrator(ctx)?;
    // Whose branch, and whether it can still move.
    // The end of a dead run is recorded first: what it committed belongs to the branch that is
    // about to move.
    let agent = crash_recovery::at_rest(ctx, lookup::agent(ctx, &ctx.ledger(), who)?)?;
    agent.may(Move::Reopen)?;
    lookup::require_worktree_here(ctx, &agent)?;
    let Some(branch) = agent.branch.clone() else {
        return Err(Error::new(
            Code::AgentState,
            format!("agent {} is shared and has no branch", agent.id.short()),
        ));
    };
    // A run of ours works in a repository of its own, which cannot be moved along, so `--now` is no way out.
    at_work::require_no_run(ctx, &agent)?;
    if !now {
        at_work::require_at_rest(ctx, &agent)?;
    }
    let tip = work::tip_of(ctx, &agent)?;
    // What it is brought up to.
    let (target, target_tip) = work::base_of(ctx, &agent, None)?;
    let Some(target_tip) = target_tip else {
        let short = agent.id.short();
        let what = format!("the branch that agent {short} lands on is gone");
        return Err(Error::new(Code::BranchGone, what)
            .hint(format!(
                "to merge another branch, run git agent enter {short} -- git merge <branch>"
            ))
            .remedy("to land on another branch", Remedy::LandElsewhere(short)));
    };
    if let Some(name) = &target {
        let (place, name) = (shell::path(ctx.repo.common_dir()), shell::word(name.as_bytes()));
        let pull = format!("pull --no-rebase {place} {name}");
        require_no_clone(ctx, &agent, "to merge that branch there", &pull)?;
    }
    if let Some(reverted) = taken_back::reverted_on(&ctx.repo, &agent, target_tip, tip)? {
        let error = Error::new(Code::AgentState, reverted.meaning());
        return Err(error.remedy("to bring that work back first", reverted.way_back()));
    }
    // A merge that waits in the worktree comes first, whatever the target is by now.
    let way = match conflicts::pending(ctx, &agent, tip, options)? {
        Some(way) => way,
        None => merged(ctx, &agent, tip, target_tip, options)?,
    };
    // A merge that is unfinished is one of what the target was then.
    let target_tip = match &way {
        UpdateWay::Wait(unfinished, _) | UpdateWay::Resolved(unfinished, _) => unfinished.theirs,
        UpdateWay::Clear(_, theirs) => *theirs,
        _ => target_tip,
    };
    let tree = match &way {
        UpdateWay::Merge(tree) => Some(*tree),
        UpdateWay::Leave(merge) => Some(merge.tree),
        _ => None,
    };
    let plan = UpdatePlan { agent, branch, target, target_tip, tip, way, now };
    if let Some(tree) = tree {
        require_in_scope(ctx, &plan.agent, target_tip, tree)?;
        plan.require_clean(ctx, &plan.place(ctx)?, tree)?;
    }
    Ok(plan)
}

/// Carries out a plan.
///
/// # Errors
/// `agent-busy`, `run-active`; `lost-race` when the branch moved since the plan was made; `target-dirty` when a file appeared that is in
/// the way; those of the ledger.
pub fn execute(ctx: &Ctx, plan: &UpdatePlan) -> Result<UpdateReport> {
    if matches!(plan.way, UpdateWay::UpToDate) {
        return Ok(plan.report());
    }
    layered::require_files(ctx, &plan.agent)?;
    // No run of ours begins meanwhile.
    // With `--now` a session may go on, but no run of ours: that one has a repository of its own.
    let _lock = if plan.now {
        Some(liveness::lock(ctx, &plan.agent)?)
    } else {
        at_work::hold_at_rest(ctx, &plan.agent, liveness::lock)?
    };
    worktree::reopen(ctx, &plan.agent)?;
    match &plan.way {
        UpdateWay::UpToDate => Ok(plan.report()),
        UpdateWay::Merge(tree) => plan.commit(ctx, &plan.place(ctx)?, *tree),
        UpdateWay::Leave(merge) => plan.leave(ctx, merge),
        UpdateWay::Wait(unfinished, _) => plan.complete(ctx, unfinished),
        UpdateWay::Resolved(unfinished, tree) => plan.commit(ctx, &unfinished.place, *tree),
        UpdateWay::Clear(place, _) => plan.clear(ctx, place),
    }
}

impl UpdateReport {
    /// Whether conflicts are left in the worktree.
    pub fn is_conflicting(&self) -> bool {
        self.outcome == "conflicts"
    }
}

impl UpdatePlan {
    /// What would be done.
    pub fn report(&self) -> UpdateReport {
        UpdateReport {
            schema: "git-agent.update/1",
            agent_id: self.agent.id.to_string(),
            short_id: self.agent.id.short(),
            outcome: match self.way {
                UpdateWay::UpToDate => "up-to-date",
                _ => "planned",
            },
            target: TargetReport::new(self.target.as_deref(), Some(self.target_tip)),
            tip: self.tip.to_hex(),
            commit: None,
            conflicts: match &self.way {
                UpdateWay::Leave(merge) => texts(merge.conflicts.iter().map(|one| &one.path)),
                UpdateWay::Wait(_, unresolved) => texts(unresolved.iter()),
                _ => Vec::new(),
            },
            to_go_on: command_to_go_on(&self.agent),
        }
    }

    /// Commits the merge of the target with the tree that came of it, and lets branch and worktree follow.
    fn commit(&self, ctx: &Ctx, place: &Checkout, tree: Oid) -> Result<UpdateReport> {
        let who = ctx.identities()?;
        let commit = ctx.repo.write_commit_as_user(&who.commit(
            tree,
            &[self.tip, self.target_tip],
            &self.message(),
        ))?;
        ctx.reached(STEPS[0]);
        // The branch moves by compare-and-swap, the worktree while its lock is held.
        // Seen from the worktree, so that the reflog of its HEAD is written along with the
        // branch's.
        let own = Repo::open_git_dir(&place.git_dir)?;
        let way = (self.tip, commit);
        let reason = format!("agent: update {}", self.agent.id.short());
        let (mut note, mut deferred) = (None, None);
        swap(&own, &self.branch, way, &who, &reason, &mut || {
            let reached = |step: &str| ctx.reached(step);
            if matches!(self.way, UpdateWay::Resolved(..)) {
                // The files are as they are to be.
                place.stage(tree)?;
                ctx.reached("indexed");
                return Ok(());
            }
            // Until the row says what has moved.
            deferred = Some(Deferred::hold()?);
            note = Some(place.carry(&ctx.repo, way, &index_scratch(&ctx.repo)?, &reached)?);
            Ok(())
        })?;
        drop(note);
        ctx.reached(STEPS[5]);
        if matches!(self.way, UpdateWay::Resolved(..)) {
            conflicts::end_merge(place)?;
            ctx.reached("cleared");
        }
        // The row: what was judged before is not what there is any more.
        self.record(ctx, What::Committed { commit, tree })?;
        drop(deferred);
        ctx.reached(STEPS[6]);
        Ok(UpdateReport { outcome: "updated", commit: Some(commit.to_hex()), ..self.report() })
    }

    fn record(&self, ctx: &Ctx, what: What) -> Result<()> {
        ctx.ledger().append(self.agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
        Ok(())
    }

    fn place(&self, ctx: &Ctx) -> Result<Checkout> {
        own_checkout(ctx, &self.agent)
    }

    /// Refuses uncommitted work, which would be mixed with what the merge brings. What an earlier update wrote or staged before
    /// it was killed is no work.
    fn require_clean(&self, ctx: &Ctx, place: &Checkout, merged: Oid) -> Result<()> {
        // Staged exactly what the merge makes: an earlier call was killed before the branch moved.
        if place.staged_tree(&ctx.repo).ok() == Some(merged) {
            return Ok(());
        }
        let fence = ScopeGuard::around(&ctx.repo, self.agent.clone())?;
        let repo = Repo::open_git_dir(&place.git_dir)?;
        let staged = repo.staged_changes(&Staging::default())?.into_iter();
        let mut paths: BTreeSet<Vec<u8>> = staged.map(|change| change.path).collect();
        let (changes, tree) = uncommitted::work_to_commit(ctx, &fence, &place.top, &place.git_dir)?;
        let is_other: HashSet<Vec<u8>> = ctx.repo.changed_paths(merged, tree)?;
        let before = ctx.repo.tree_of(self.tip)?;
        let is_brought: HashSet<Vec<u8>> = ctx.repo.changed_paths(before, merged)?;
        let others = changes.into_iter().filter(|Change { path, kind, .. }| {
            // What the merge brings and is missing on the disk was about to be written when an
            // earlier call was killed.
            let is_gone = *kind == ChangeKind::Deleted && is_brought.contains(path);
            is_other.contains(path) && !is_gone
        });
        paths.extend(others.map(|change| change.path));
        if paths.is_empty() {
            return self.require_unblocked(ctx, place, merged);
        }
        let short = self.agent.id.short();
        let paths = paths.into_iter().collect();
        Err(refusal(
            Code::WorktreeDirty,
            format!("agent {short} has uncommitted work, so its branch is not updated"),
            ErrorFacts { paths, ..ErrorFacts::default() },
        )
        .hint(format!("to commit it first, run git agent commit {short} -m <message>")))
    }

    /// Refuses files that are in the way of what the merge brings and are no work, as those that set-up left: with the commands that
    /// give them up.
    fn require_unblocked(&self, ctx: &Ctx, place: &Checkout, merged: Oid) -> Result<()> {
        // Where the merge conflicts, it is git that writes it, and says what is in its way.
        if !matches!(self.way, UpdateWay::Merge(_)) {
            return Ok(());
        }
        let scratch = index_scratch(&ctx.repo)?;
        let found = place.require_unblocked(&ctx.repo, self.tip, merged, &scratch);
        let Some(error) = found.err() else { return Ok(()) };
        let baseline = facts::of_agent(&ctx.repo, &self.agent)?;
        let known = baseline.iter().flat_map(Baseline::differences);
        // One look does not name all of them: a new file that is in the way is found before a changed one.
        let before = ctx.repo.tree_of(self.tip)?;
        let is_brought: HashSet<Vec<u8>> = ctx.repo.changed_paths(before, merged)?;
        let blocking = known.filter(|change| is_brought.contains(&change.path));
        let (changed, new): (Vec<_>, Vec<_>) = blocking.partition(|change| change.old.is_some());
        let git = |word: &str, changes: &[&Difference]| {
            let paths: Vec<_> = changes.iter().map(|change| shell::word(&change.path)).collect();
            (!paths.is_empty()).then(|| format!("{word} -- {}", paths.join(" ")))
        };
        let words: Vec<_> =
            [git("restore", &changed), git("clean -fx", &new)].into_iter().flatten().collect();
        Err(if words.is_empty() {
            error
        } else {
            let why = "set-up made or changed them; to give that up";
            error.remedy(why, Remedy::GitIn(place.git_place(), words))
        })
    }

    fn message(&self) -> String {
        let short = |name: &str| name.trim_start_matches("refs/heads/").to_owned();
        let target = self.target.as_deref().map_or_else(
            || format!("commit {}", self.target_tip.short()),
            |name| format!("branch '{}'", short(name)),
        );
        let branch = short(&self.branch);
        format!("Merge {target} into {branch}\n\nAgent-Id: {}\n", self.agent.id)
    }
}

/// What merging the target into the branch takes.
fn merged(
    ctx: &Ctx,
    agent: &Agent,
    tip: Oid,
    target: Oid,
    options: UpdateOptions,
) -> Result<UpdateWay> {
    if ctx.repo.is_ancestor(target, tip)? {
        return Ok(UpdateWay::UpToDate);
    }
    let short = agent.id.short();
    // Where a part of the work has landed as a squash, git would see it conflict with itself.
    let ours = work::to_merge(ctx, agent, target, tip)?;
    match ctx.repo.merge(ours, target)?.result {
        MergeResult::Clean { tree } => Ok(UpdateWay::Merge(tree)),
        MergeResult::Conflicts { conflicts, .. } => {
            if options.conflicts {
                let place = own_checkout(ctx, agent)?;
                let merge = place.conflicted_merge(&ctx.repo, ours, target)?;
                return merge.map(UpdateWay::Leave).ok_or_else(|| Error::bug("git merges one way"));
            }
            let paths = conflicts.into_iter().map(|one| one.path).collect();
            let what = format!(
                "the branch of agent {short} conflicts with what it lands on; nothing was changed"
            );
            Err(conflicts::refusal(what, paths)
                .hint(format!("to leave the conflicts in its worktree, run git agent update {short} --conflicts"))
                .hint(format!("to start again from where the target is now, run git agent retry {short}")))
        }
        MergeResult::Unrelated => Err(Error::new(
            Code::UpdateConflicts,
            format!("the branch of agent {short} has no history in common with what it lands on"),
        )
        .hint(format!("to see its history, run git agent show --log {short}"))),
    }
}

/// Refuses a merge that could not land: git applies a change to where its file is on the target by now.
fn require_in_scope(ctx: &Ctx, agent: &Agent, target: Oid, merged: Oid) -> Result<()> {
    let guard = ScopeGuard::around(&ctx.repo, agent.clone())?;
    // What its owner has not committed is not the agent's.
    let before = own_changes::put_on(&ctx.repo, agent, target)?;
    let violations = guard.judge_landing(before, merged)?;
    if violations.is_empty() {
        return Ok(());
    }
    let short = agent.id.short();
    let paths = violations.into_iter().map(|violation| violation.path);
    Err(refusal(
        Code::OutOfScope,
        format!("merging the target would bring changes of agent {short} to paths that are out of its scope; nothing was changed"),
        ErrorFacts {
            paths: paths.collect(),
            ..ErrorFacts::default()
        },
    )
    .hint(format!(
        "to start again from where the target is now, run git agent retry {short}"
    )))
}

/// An error about paths: people read them below the message.
fn refusal(code: Code, message: String, facts: ErrorFacts) -> Error {
    let paths = facts.paths.iter().chain(&facts.conflicts);
    let lines: Vec<String> = paths.map(|path| format!("  {}", Quoted(path))).collect();
    Error::new(code, message).detail(lines.join("\n")).facts(facts)
}

fn texts<'a>(paths: impl Iterator<Item = &'a Vec<u8>>) -> Vec<PathText> {
    paths.map(|path| PathText::from(path.as_slice())).collect()
}
