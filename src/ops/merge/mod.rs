//! `merge`: an agent's work lands, exactly as it was judged.
//!
//! ```text
//! plan     Agent ─> verify (known verdict or a new one) ─> method, target ─> MergePlan
//! execute  uncommitted work as one commit ─> landing commit ─> [ref lock: worktrees, agent's branch, ref] ─> pointer ─> row
//! ```
//!
//! The landing commit has the tree that the verdict names; nothing is merged again. A landing that is refused leaves everything as it was,
//! and the order of the steps makes every stop harmless: until the ref moves, beginning again does the same once more; after that,
//! beginning again finds the work landed and writes down what is missing (`landed`). A kill between worktree and ref leaves the landing
//! staged in that worktree, which the next landing takes back, and the ref's `.lock` file, which it clears
//! ([`crate::git::files::lock_file`]). A kill while files move leaves an `index.lock` that says whose it is, and files that are missing or
//! new, which the next landing takes for what they are.
//!
//! Deliberately absent: removing worktree and branch, which is `discard`'s, and every git hook of the
//! repository that `[merge] hooks` does not name: no merge takes place in a worktree, and a hook could change what was judged. Those that it
//! names may object (`git_hooks`). The commands of `[hooks]` run before and after it, in the main worktree, and change nothing of what
//! lands.

mod execute;
mod message;
mod plan;
mod remote;

use crate::agents::context::branch_swap::pull;
use crate::agents::life::{at_work, liveness};
use crate::agents::place::worktree::AgentWorktree;
use crate::agents::{Ctx, place::worktree};
use crate::domain::judge::evidence::MergeOutcome;
use crate::domain::judge::finding::FindingCode;
use crate::domain::judge::folded_paths::by_code;
use crate::domain::paths::change::Content;
use crate::domain::value::named::named;
use crate::domain::{Agent, Finding, Move, Oid, Verdict, branch_name, value::shell};
use crate::error::{Code, Error, ErrorFacts, Exit, Remedy, Result};
use crate::git::Repo;
use crate::git::changes::gitlinks;
use crate::git::core::tree::GITLINK;
use crate::git::files::admin_dir::MODULES;
use crate::git::refs::REMOTE_COPIES;
use crate::ops::agent_report::TargetReport;
use crate::store::Ledger;
use crate::store::files::lock::Guard;
use crate::store::files::{layout, lock};
use crate::store::landing::taken_back::TargetMessages;
use crate::wire::output::path_text::PathText;
pub use execute::{STEPS, execute, push_steps};
pub(crate) use execute::{before, execute_stack};
pub use plan::{MergePlan, judged_plan, plan};
pub use remote::RemoteTarget;
pub(crate) use remote::fetch_targets;
pub(crate) use remote::require_start;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

named! {
    /// How work lands.
    pub enum Method {
        /// By a merge commit, always.
        NoFf = "no-ff",
        /// As one commit without the branch's history.
        Squash = "squash",
        /// By moving the target, or not at all.
        FfOnly = "ff-only",
    }
}

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct MergeOptions {
    /// How to land; the setting `agent.merge`, else a merge commit, when absent.
    pub method: Option<Method>,
    /// The branch to land on; the one that the agent started from when absent.
    pub into: Option<String>,
    /// The remote whose branch the work lands on, in place of this clone's; the usual one where it is empty.
    pub push: Option<String>,
    /// The commit that the branch is taken to be at; the one that it is at when absent.
    pub base_at: Option<Oid>,
    /// Whether the caller has fetched that branch; before a rehearsal it always has.
    pub is_fetched: bool,
    /// Leaves the check commands to the caller, who runs them on exactly what lands.
    pub leave_checks: bool,
    /// Takes what is there although something works in the agent.
    pub now: bool,
    /// Leaves the commands of `[hooks]` and the git hooks of `[merge]` out.
    pub no_hooks: bool,
    /// The message of the landing commit, in place of the one made from the agent's summary.
    pub message: Option<String>,
}

impl MergeOptions {
    /// Checks that the branch that `--into` names is in this clone, before any agent is judged.
    ///
    /// # Errors
    /// `usage` for what can be no branch, `base-not-commit`.
    pub(crate) fn require_into(&self, ctx: &Ctx) -> Result<()> {
        match (&self.into, &self.push) {
            (Some(name), None) => ctx.repo.resolve_commit(&full_branch(ctx, name)?).map(drop),
            (Some(name), Some(_)) => full_branch(ctx, name).map(drop),
            _ => Ok(()),
        }
    }
}

/// The full name of the branch that the caller names: what moves where that is a symbolic ref.
///
/// # Errors
/// `usage` for a revision, which work cannot land on, and for what can be no name at all.
fn full_branch(ctx: &Ctx, name: &str) -> Result<String> {
    let full = if name.starts_with("refs/") { name.into() } else { format!("refs/heads/{name}") };
    if Repo::is_valid_ref(&full) {
        return Ok(ctx.repo.branch_behind(&full));
    }
    let what = format!("`{name}` cannot be the name of a branch");
    Err(Error::new(Code::Usage, what).hint("to see the branches that there are, run git branch"))
}

// Landing one agent, as often as other processes get in the way.

/// How often an agent is tried when another process moves a branch meanwhile.
const ATTEMPTS: usize = 10;

/// After so many moves of the target while `before_merge` ran it is that command that moves it: each of its commits makes the work be
/// judged again, after which it would run again.
const MOVED_BY_HOOK: usize = 3;

/// Lands one agent, and judges it anew where another process moved a branch after it was judged.
///
/// # Errors
/// As [`plan`] and [`execute`]; `lost-race` when another process was quicker every time; `hook-failed` for a `before_merge` that
/// moves the target.
pub fn land(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<LandingReport> {
    // However many land at the same moment, one that came too late is overtaken only by those that come after it: each of
    // the others that came too late waits for its turn.
    let (mut turn, mut moved) = (None, 0);
    for _ in 0..ATTEMPTS {
        // What judging fails with stays: a worktree that goes away meanwhile is not to be judged without it.
        let plan = judged_plan(ctx, who, options)?.accepted()?;
        let tip = || Ok::<_, Error>(ctx.repo.branch_tip(&plan.target)?.oid());
        let begun = tip()?;
        let has_run = before(ctx, &plan)?;
        moved += usize::from(has_run && begun != tip()?);
        if moved == MOVED_BY_HOOK {
            let what = format!("before_merge of [hooks] moves {}", branch_name(&plan.target));
            return Err(Error::new(Code::HookFailed, what).hint(
                "what it does there belongs into after_merge; to land without it, pass --no-hooks",
            ));
        }
        match land_alone(ctx, &plan) {
            Err(error) if error.code() == Code::LostRace => {
                // Where the turns take too long, it goes on without.
                let take = || lock::hold(ctx.repo.common_dir(), layout::LANDING_TURN).ok();
                turn = turn.or_else(take);
            }
            landed => return landed,
        }
    }
    Err(Error::new(
        Code::LostRace,
        format!("other processes moved a branch {ATTEMPTS} times while {who} was about to land"),
    ))
}

/// Lands a plan that no other stands on, after the repository was asked.
fn land_alone(ctx: &Ctx, plan: &MergePlan) -> Result<LandingReport> {
    let mut reports = execute_stack(ctx, std::slice::from_ref(plan)).map_err(|(_, error)| error)?;
    reports.pop().ok_or_else(|| Error::bug("a landing has no report"))
}

/// Whether the next agent would fail in the same way: the machine, the repository or this program is at fault, and
/// not the state of one agent.
pub(crate) fn concerns_all(code: Code) -> bool {
    // In general these are faults of the repository or the machine; here it is mostly one agent's
    // branch, objects or worktree that is damaged, and the others can go on.
    let is_of_one = matches!(
        code,
        Code::AgentNeedsNewer
            | Code::BaseNotCommit
            | Code::BranchGone
            | Code::GitFailed
            | Code::HistoryIncomplete
            | Code::Io
            | Code::FileTooLong
            | Code::NoTarget
            | Code::RepoCorrupt
            | Code::RoleInvalid
            | Code::SettingsInvalid
            | Code::WorktreeForeign
    );
    let is_refusal = matches!(code.exit(), Exit::No | Exit::Refused | Exit::TryAgain);
    !is_of_one && !is_refusal
}

// Work that was judged: a plan, or the error that says why it does not land.

/// How an agent's work was judged.
#[derive(Debug)]
pub enum JudgedPlan {
    /// It lands, like this.
    Lands(Box<MergePlan>),
    /// It does not land.
    NotAccepted(Box<NotAccepted>),
}

impl JudgedPlan {
    /// The plan of work that lands.
    ///
    /// # Errors
    /// `not-accepted`, naming the findings.
    pub fn accepted(self) -> Result<MergePlan> {
        match self {
            JudgedPlan::Lands(plan) => Ok(*plan),
            JudgedPlan::NotAccepted(refused) => Err(refused.error()),
        }
    }
}

/// An agent whose work was judged and does not land.
#[derive(Debug)]
pub struct NotAccepted {
    agent: Agent,
    /// What rejects the work, or leaves a part of it unjudged.
    pub verdict: Verdict,
    /// The remote's branch that it was judged against, in place of this clone's.
    against: Option<RemoteTarget>,
}

impl NotAccepted {
    /// The codes of what rejects the work, and the paths on which it conflicts.
    fn facts(&self) -> ErrorFacts {
        let rejecting = self.verdict.findings.iter().filter(|one| one.rejects());
        let mut findings: Vec<_> = rejecting.map(|one| one.code.name()).collect();
        findings.dedup();
        let conflicts = match self.verdict.outcome() {
            Some(MergeOutcome::Conflicts(conflicts)) => conflicts.as_slice(),
            _ => &[],
        };
        ErrorFacts {
            findings,
            conflicts: conflicts.iter().map(|one| one.path.clone()).collect(),
            ..ErrorFacts::default()
        }
    }

    /// The error that names what rejects the work.
    pub(crate) fn error(&self) -> Error {
        let short = self.agent.id.short();
        // One that accepts only half was judged: its notes say what was left out.
        let telling = |finding: &&Finding| finding.rejects() || self.verdict.is_accepted();
        let mut lines = Vec::new();
        for folded in by_code(self.verdict.findings.iter().filter(telling)) {
            let named =
                folded.named.iter().map(|finding| format!("  {} {}", folded.code, finding.message));
            lines.extend(named);
            if folded.more > 0 {
                lines.push(format!("  {} more {}", folded.more, folded.code));
            }
            lines.extend(folded.places.iter().map(|place| format!("    {place}")));
        }
        Error::new(
            Code::NotAccepted,
            format!("agent {short} has no accepting verdict, so its work does not land"),
        )
        .detail(lines.join("\n"))
        .facts(self.facts())
        .hint({
            // On the branch that is recorded the work may well be accepted, or on what was fetched of it where it is behind.
            let recorded = self.agent.base.as_ref().and_then(|base| base.refname.as_ref());
            let lacks_base = |one: &Finding| one.code == FindingCode::ProvenanceBaseRewritten;
            let recorded = recorded.filter(|_| !self.verdict.findings.iter().any(lacks_base));
            let judged = self.verdict.base_ref.as_ref().filter(|judged| recorded != Some(judged));
            let judged = self.against.as_ref().map(|there| &there.copy).or(judged);
            let base =
                judged.map(|base| format!(" --base {}", shell::word(branch_name(base).as_bytes())));
            let base = base.unwrap_or_default();
            format!("to see how to mend it, run git agent verify {short}{base}")
        })
    }
}

// The answer of `merge`: `git-agent.merge/2`.

named! {
    /// How far a landing came.
    pub enum LandingState {
        /// A dry run found that it would land.
        Planned = "planned",
        /// It has landed.
        Merged = "merged",
        /// It had landed before, and only the row did not say so.
        AlreadyMerged = "already-merged",
    }
}

/// One landing, planned or done.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.merge/2")]
pub struct LandingReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// How far it came.
    pub outcome: LandingState,
    /// `no-ff`, `squash` or `ff-only`: how it lands, or would have landed where it had already.
    pub method: &'static str,
    /// The branch it lands on, and where it was.
    pub target: TargetReport,
    /// The remote whose branch that is; absent for this clone's.
    pub remote: Option<String>,
    /// The agent's branch as it was judged.
    pub tip: String,
    /// How many paths were not committed.
    pub uncommitted: usize,
    /// These paths.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uncommitted_paths: Vec<PathText>,
    /// New files that editors and file managers left, which do not land.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub editor_files: Vec<PathText>,
    /// The tree that was judged and that the branch gets.
    pub merged_tree: String,
    /// The first line of the landing commit's message.
    pub subject: String,
    /// The commit made of the uncommitted work.
    pub committed: Option<String>,
    /// The commit that brought the work.
    pub commit: Option<String>,
    /// The worktrees that have the branch checked out and move along.
    pub worktrees: Vec<String>,
    /// What the caller should know though the work has landed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl LandingReport {
    fn new(ctx: &Ctx, plan: &MergePlan, outcome: LandingState) -> LandingReport {
        let moving = plan.checkouts.iter().filter(|_| !plan.stays_behind);
        let tops = moving.map(|checkout| &checkout.top);
        LandingReport {
            agent_id: plan.agent.id.to_string(),
            short_id: plan.agent.id.short(),
            outcome,
            method: plan.method.as_str(),
            target: TargetReport::new(Some(&plan.target), Some(plan.base)),
            remote: plan.remote.as_ref().map(|there| there.remote.clone()),
            tip: plan.work.tip.to_hex(),
            uncommitted: plan.work.uncommitted.len(),
            uncommitted_paths: PathText::all(&plan.work.uncommitted),
            editor_files: PathText::all(&plan.work.droppings),
            merged_tree: plan.merged_tree.to_hex(),
            subject: plan.landing_subject(),
            committed: None,
            commit: { plan.landed.as_ref() }.map(|landed| landed.commit.to_hex()),
            warnings: { plan.landed.iter() }
                .filter_map(|landed| landed.copy.as_ref())
                .map(|copy| {
                    let what = not_pulled(&plan.target, copy);
                    format!("{what}; to bring that along, run {}", pull(ctx, &plan.target, copy))
                })
                .collect(),
            worktrees: tops.map(|top| top.to_string_lossy().into_owned()).collect(),
        }
    }
}

/// What the caller should know of work that lands although it may not be all, or more than what is new.
fn untold(ctx: &Ctx, plan: &MergePlan) -> Vec<String> {
    let id = plan.agent.id;
    let known = ctx.repo.worktree(&layout::worktree_name(id));
    let lost = known.filter(|_| AgentWorktree::of(&ctx.repo, id).is_none());
    let lost = lost.map(|lost| {
        let (place, id) = (lost.path.display(), id.short());
        format!(
            "the worktree of agent {id} is not there, so only what it had committed lands: {place}"
        )
    });
    lost.into_iter().chain(unpublished(ctx, plan)).chain(brought_again(ctx, plan)).collect()
}

/// The warning that a person took an earlier landing back, which this one brings again.
fn brought_again(ctx: &Ctx, plan: &MergePlan) -> Option<String> {
    let messages = TargetMessages::default();
    let back = messages.taken_back(&ctx.repo, &plan.agent, plan.base, plan.work.tip).ok()??;
    let by = back.commit.short();
    Some(format!(
        "commit {by} took back an earlier landing of this work, which this one brings again"
    ))
}

/// The warning that the work leads to commits of submodules which no other clone can fetch; `None` where it leads to none that are new.
fn unpublished(ctx: &Ctx, plan: &MergePlan) -> Option<String> {
    let name = layout::worktree_name(plan.agent.id);
    let modules = ctx.repo.admin_dir(&name).join(MODULES);
    if !modules.is_dir() {
        return None;
    }
    let base = ctx.repo.read_commit(plan.base).ok()?.tree;
    let changed = ctx.repo.differences(base, plan.merged_tree).ok()?;
    let leads = |side: Option<Content>| side.is_some_and(|(mode, _)| mode == GITLINK);
    // One that is known as published may stand beside one that is not: what no remote has is told of all of them together.
    if !changed.iter().any(|one| leads(one.new))
        || !gitlinks::have_own_commits(&modules, &ctx.temporary_place())
    {
        return None;
    }
    Some(format!(
        "submodules have commits that no remote of theirs has; until they are pushed from {}, no other clone can fetch them",
        ctx.repo.worktree(&name)?.path.display()
    ))
}

fn not_pulled(target: &str, copy: &str) -> String {
    let copy = copy.trim_start_matches(REMOTE_COPIES);
    format!("{copy} has the work already, and {} does not", branch_name(target))
}

// What a landing holds: the lock of landings, and the agents.

/// How often agents that are let go again are tried to be held.
const TRIES: usize = 8;

/// Holds the lock of landings and the agents of the plans, as [`hold_all`] does.
///
/// # Errors
/// As [`hold_all`]; `lock-timeout`.
fn hold(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    plans: &[MergePlan],
    at: &mut Option<usize>,
) -> Result<(Guard, Vec<Option<Guard>>)> {
    let mut tries = 0..TRIES;
    loop {
        // One landing at a time, and none while an agent is discarded: both read and change rows,
        // branches and worktrees.
        let landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
        let held = hold_all(ctx, ledger, plans, at);
        let is_busy = |error: &Error| error.code() == Code::AgentBusy;
        if !held.as_ref().is_err_and(is_busy) || tries.next().is_none() {
            return Ok((landings, held?));
        }
        // A command that is over soon may have the agent, and wait for the lock of landings.
        drop(landings);
        if let Some(plan) = at.and_then(|number| plans.get(number)) {
            at_work::require_at_rest(ctx, &plan.agent)?;
        }
    }
}

/// Holds the agents at rest, and makes sure that each is as it was judged: nothing begins to work in them until their rows say that
/// they have landed.
fn hold_all(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    plans: &[MergePlan],
    at: &mut Option<usize>,
) -> Result<Vec<Option<Guard>>> {
    let mut guards = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        *at = Some(number);
        // With `--now` a run may hold the lock of the agent, and goes on.
        let guard = if plan.now {
            None
        } else {
            at_work::hold_at_rest(ctx, &plan.agent, liveness::lock_at_once)?
        };
        let agent = ledger.agent(plan.agent.spawn_commit)?;
        let agent = agent.as_ref().unwrap_or(&plan.agent);
        agent.may(Move::Merge)?;
        // What is on the target already is only written down.
        if plan.landed.is_none() {
            agent.require_as_judged(&plan.agent)?;
        }
        if !plan.now {
            at_work::require_same_run(&plan.agent, agent)?;
        }
        guards.push(guard);
    }
    *at = None;
    Ok(guards)
}

/// Checks that there is something to land.
///
/// # Errors
/// `nothing-to-land`.
pub(crate) fn require_changes(verdict: &Verdict) -> Result<()> {
    if !matches!(verdict.outcome(), Some(MergeOutcome::Nothing { .. })) {
        return Ok(());
    }
    let short = verdict.agent.short();
    let refused = |what: &str| Error::new(Code::NothingToLand, format!("agent {short} {what}"));
    Err(if verdict.has(FindingCode::WorktreeGone) {
        refused("committed nothing, and its worktree is not here")
            .remedy("to find out what became of it", Remedy::Examine)
    } else if verdict.has(FindingCode::WorktreeNotJudged) {
        refused("committed nothing, and its worktree is in another clone")
            .hint("to have what is committed and published there since, run git agent sync")
    } else {
        refused("changed nothing").hint(format!("to clear it away, run git agent discard {short}"))
    })
}

/// Refuses work whose worktree lost its directory while something was staged there, which is in its index and nowhere else.
pub(super) fn require_nothing_staged(ctx: &Ctx, agent: &Agent, verdict: &Verdict) -> Result<()> {
    let index = worktree::admin_dir(&ctx.repo, agent.id).join("index");
    if !verdict.has(FindingCode::WorktreeGone) || !index.exists() {
        return Ok(());
    }
    let Some(staged) = ctx.repo.index_tree(&index)? else { return Ok(()) };
    // The branch may have gone on elsewhere: an index that is merely older holds what a commit of the branch does.
    let mut at = Some(verdict.tip);
    while let Some(oid) = at {
        let commit = ctx.repo.read_commit(oid)?;
        if commit.tree == staged {
            return Ok(());
        }
        at = commit.parents.first().copied().filter(|_| oid != agent.spawn_commit);
    }
    let id = agent.id.short();
    let what =
        format!("the directory of agent {id}'s worktree is gone, and its index holds staged work");
    Err(Error::new(Code::WorktreeDirty, what).remedy("to make the directory again", Remedy::Repair))
}
