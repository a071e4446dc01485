//! The steps of a landing, in the order that makes every stop harmless.

use crate::agents::checks::check_run::{CheckRequest, CheckRoom};
use crate::agents::checks::check_worktree::{CheckSetup, CheckWorktree};
use crate::agents::context::branch_swap::{
    UnderLock, index_scratch, move_with_worktrees, moved, swap,
};
use crate::agents::life::{at_work, liveness};
use crate::agents::stock::commands::{in_one_line, run_hook_of};
use crate::agents::upkeep::own_checkout::require_own_branch;
use crate::agents::upkeep::spool::{Notice, notify};
use crate::agents::upkeep::{clone, publish};
use crate::agents::work::{landed_at_work, simulated, stacked};
use crate::agents::{Ctx, place::worktree, stock::commands};
use crate::domain::life::sandbox::Mode;
use crate::domain::settings::repository_settings::HookMoment;
use crate::domain::{Agent, AgentId, CommandRun, Move, Oid, State, What};
use crate::error::{Code, Error, Result};
use crate::git::config::Identities;
use crate::git::files::admin_dir::belongs_to;
use crate::git::{Checkout, Repo, Tip, landing};
use crate::ops::merge::{
    LandingReport, LandingState, MergePlan, Method, hold, land_alone, remote, untold,
};
use crate::proc::signals::Deferred;
use crate::store::files::lock::Guard;
use crate::store::files::{fsx, layout, lock};
use crate::store::ledger::RecordedLanding;
use crate::store::mailbox::reader;
use crate::store::{Ledger, chain::keep, landing::spawn_commit};
use std::cell::Cell;

/// The steps of a landing of uncommitted work on a branch that is checked out.
pub const STEPS: [&str; 11] = [
    "committed",
    "locked",
    "emptied",
    "written",
    "indexed",
    "moved",
    "staged",
    "advanced",
    "landed",
    "forgotten",
    "merged",
];

/// The steps of a landing of uncommitted work on a remote's branch that is checked out here: before what is checked out, the agent's
/// branch and the remote's move.
pub fn push_steps() -> Vec<&'static str> {
    let (commit, rest) = STEPS.split_at(1);
    let (checked_out, rest) = rest.split_at(5);
    let (own, end) = rest.split_at(2);
    [commit, own, &remote::STEPS, checked_out, end].concat()
}

/// Carries out a plan.
///
/// # Errors
/// `lost-race` when either branch moved, or the agent's state changed, since the plan was made: nothing
/// has landed then. `target-dirty`, `lock-timeout`, `hook-failed`, those of the ledger.
pub fn execute(ctx: &Ctx, plan: &MergePlan) -> Result<LandingReport> {
    before(ctx, plan)?;
    land_alone(ctx, plan)
}

/// Runs what the repository has for the moment before a landing. It may object; what it runs changes nothing of what was
/// judged. Gives whether there is any.
///
/// # Errors
/// `hook-failed`, `io`.
pub(crate) fn before(ctx: &Ctx, plan: &MergePlan) -> Result<bool> {
    let is_asked = plan.hooks && plan.landed.is_none();
    Ok(is_asked && run_hook_of(ctx, HookMoment::BeforeMerge, &plan.agent)?)
}

/// Lands plans for one target that stand on each other, with one commit each and one move of the target. The first
/// stands on the target; the base of the others is the landing before them.
///
/// # Errors
/// As [`execute`], with the number of the plan that fails, if it is one of them; none has landed then. Where only the rows
/// could not be written, the work has landed, and a warning says so.
pub(crate) fn execute_stack(
    ctx: &Ctx,
    plans: &[MergePlan],
) -> Result<Vec<LandingReport>, (Option<usize>, Error)> {
    let mut at = None;
    ask_git_hooks(ctx, plans, &mut at)
        .and_then(|()| land_and_record(ctx, plans, &mut at))
        .map_err(|error| (at, error))
}

fn land_and_record(
    ctx: &Ctx,
    plans: &[MergePlan],
    at: &mut Option<usize>,
) -> Result<Vec<LandingReport>> {
    let ledger = ctx.ledger();
    let (landings, guards) = hold(ctx, &ledger, plans, at)?;
    // The landing itself, unless an earlier one was killed right after it.
    let (landed, deferred) = match plans {
        [only] if only.landed.is_some() => (None, None),
        _ => {
            // What cannot be recorded does not land.
            ledger.require_writable()?;
            let (stack, deferred) = land_stack(ctx, plans, at)?;
            (Some(stack), deferred)
        }
    };
    let top = match (&landed, plans) {
        (Some(stack), _) => stack.last().map(|one| one.commit),
        (None, plans) => plans.first().map(|plan| plan.base),
    };
    // Before the rows are written: after a kill in between, the same command does what is missing.
    let behind = remote::follow(ctx, plans, top)?;
    let outcomes = plans.iter().enumerate().map(|(number, plan)| {
        let landed = landed.as_ref().map(|all| {
            let landed = all.get(number);
            landed.ok_or_else(|| Error::bug("a plan that landed without its commit"))
        });
        outcome_of(ctx, plan, landed.transpose()?)
    });
    let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
    let (mut reports, brought): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
    let recorded = record(ctx, &ledger, plans, &brought, &guards);
    if landed.is_some()
        && let Err(error) = &recorded
    {
        for (report, landing) in reports.iter_mut().zip(&brought) {
            report.warnings.push(unrecorded(landing, error));
        }
    } else {
        recorded?;
    }
    // The commands below are the user's and may call this program, which would wait for these
    // locks. A request to end that came while files moved ends this process here.
    drop((guards, landings, deferred));
    for plan in plans {
        notify(&ctx.repo, Notice::Landed, &plan.agent, State::Merged.as_str());
    }
    for (plan, report) in plans.iter().zip(&mut reports) {
        report.warnings.extend(said_otherwise(ctx, &plan.agent));
        if let Some(warning) = &behind {
            // What has this branch checked out stays where it is, too.
            report.worktrees.clear();
            report.warnings.push(warning.clone());
        }
        // The work has landed, so a hook that fails is a warning.
        if plan.hooks {
            let ran = run_hook_of(ctx, HookMoment::AfterMerge, &plan.agent);
            report.warnings.extend(ran.err().as_ref().map(in_one_line));
        }
        if holds_for_hooks(ctx, plan) {
            release_at_rest(ctx, &ledger, &plan.agent);
        }
    }
    Ok(reports)
}

/// Whether an agent keeps its values until the commands after its landing have run: they clear up what those name.
fn holds_for_hooks(ctx: &Ctx, plan: &MergePlan) -> bool {
    plan.hooks && commands::leased(ctx, plan.agent.id).is_ok_and(|held| !held.is_empty())
}

/// Lets go of what a merged agent held, unless it goes on by now; then `gc` does one day.
fn release_at_rest(ctx: &Ctx, ledger: &Ledger<'_>, agent: &Agent) {
    if at_work::look(ctx, agent).is_none()
        && let Ok(_alone) = liveness::lock(ctx, agent)
        && let Ok(Some(Agent { state: State::Merged, .. })) = ledger.agent(agent.spawn_commit)
    {
        worktree::release(ctx, agent);
    }
}

/// The warning that an agent's own word stood against what has landed, which the person who named it may not have seen.
fn said_otherwise(ctx: &Ctx, agent: &Agent) -> Option<String> {
    let short = agent.id.short();
    let reason = agent.summary.as_deref().unwrap_or("without a reason");
    if agent.declared && agent.state == State::Failed {
        Some(format!("agent {short} had said that it failed: {reason}"))
    } else {
        let is_open = reader::is_open(ctx.repo.common_dir(), agent);
        let lacks = if is_open { "had no answer" } else { "had not gone on since its answer" };
        let asked = agent.asked || is_open && !agent.declared;
        asked.then(|| format!("agent {short} asked before it landed, and {lacks}"))
    }
}

/// The warning that work has landed and its row does not say so.
fn unrecorded(landing: &RecordedLanding, error: &Error) -> String {
    let short = AgentId::from_spawn_commit(landing.spawn_commit).short();
    format!(
        "agent {short} has landed as {}, and that could not be recorded: {}; to record it, run the same command again",
        landing.commit.short(),
        in_one_line(error)
    )
}

/// What is answered of a landing, and what its row is to say; `None` for one that was killed before its row was written.
fn outcome_of(
    ctx: &Ctx,
    plan: &MergePlan,
    landed: Option<&LandedWork>,
) -> Result<(LandingReport, RecordedLanding)> {
    let mut report = LandingReport::new(ctx, plan, LandingState::Merged);
    let (tip, commit, from) = match landed {
        Some(one) => {
            report.committed = (one.tip != plan.work.tip).then(|| one.tip.to_hex());
            report.warnings.extend(one.warning(plan));
            report.warnings.extend(untold(ctx, plan));
            (one.tip, one.commit, Some(one.from))
        }
        None => {
            report.outcome = LandingState::AlreadyMerged;
            let earlier = plan.landed.as_ref().map(|landed| landed.commit);
            let commit = earlier.unwrap_or(plan.base);
            // Only a landing that was killed before its row was written has moved the branch.
            let recorded = plan.agent.landed.as_ref().map(|(landed, _)| *landed);
            let moved = if recorded == Some(commit) {
                None
            } else {
                let reason = reason(std::slice::from_ref(plan));
                ctx.repo.last_reflog_move_by(&plan.target, &reason)?
            };
            let moved = moved.filter(|(_, to)| *to == commit);
            (plan.work.tip, commit, moved.map(|(from, _)| from))
        }
    };
    report.commit = Some(commit.to_hex());
    let brought = RecordedLanding {
        spawn_commit: plan.agent.spawn_commit,
        commit,
        into: plan.target.clone(),
        tip: Some(tip),
        from,
        with: with_landing(plan, landed.filter(|one| one.advances)),
    };
    Ok((report, brought))
}

/// What a row says along with a landing: the verdict by which the work landed, and the commit that was made of uncommitted work. Before
/// the work has landed neither is recorded, so that a landing that is refused moves no agent.
fn with_landing(plan: &MergePlan, landed: Option<&LandedWork>) -> Vec<What> {
    let agent = &plan.agent;
    let is_new = agent.verdict.as_ref() != Some(&plan.verdict);
    let is_whole = plan.is_whole && plan.is_checked;
    let is_recorded = is_whole && is_new && agent.may(Move::Accept).is_ok();
    let verdict = is_recorded.then(|| What::Verified(plan.verdict.clone()));
    let commit = landed.map(|one| What::Committed { commit: one.tip, tree: plan.work.tree });
    verdict.into_iter().chain(commit).collect()
}

/// Writes down which commits brought the agents' work, and lets go of what the agents held.
fn record(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    plans: &[MergePlan],
    brought: &[RecordedLanding],
    guards: &[Option<Guard>],
) -> Result<()> {
    // Before the rows say merged, so that a landing that was killed here deletes them when it is run again. The work has
    // landed whether or not this succeeds; `gc` and `doctor` find what is left.
    for (plan, guard) in plans.iter().zip(guards) {
        let _ = at_work::forget_prompt(ctx, &plan.agent, guard.as_ref());
    }
    ctx.reached("forgotten");
    // No question of what is legal any more: it has landed.
    ledger.append_landings(brought, &ctx.actor()?, ctx.now(), |_| Ok(()))?;
    ctx.reached("merged");
    for (plan, guard) in plans.iter().zip(guards) {
        remote::forget_landing(ctx, plan);
        // What goes on in it needs its values, and its worktree.
        let is_over = guard.is_some() || at_work::look(ctx, &plan.agent).is_none();
        if is_over && !holds_for_hooks(ctx, plan) {
            worktree::release(ctx, &plan.agent);
        }
    }
    Ok(())
}

/// The judged work as a commit that no branch is at yet where a part of it was not committed: the tip that lands.
fn commit_of_work(ctx: &Ctx, plan: &MergePlan, who: &Identities) -> Result<Oid> {
    let repo = &ctx.repo;
    // The swap asks once more under the lock of the branch; this refusal comes before anything is
    // written.
    if repo.tip(&plan.branch)? != Tip::At(plan.work.tip) {
        return Err(moved(&plan.branch));
    }
    if plan.work.tree == repo.tree_of(plan.work.tip)? {
        return Ok(plan.work.tip);
    }
    require_own_branch(ctx, &plan.agent)?;
    // The commit that committing everything makes, as it was judged.
    let message = plan.work_message();
    let commit = write(repo, plan.work.tree, &[plan.work.tip], &message, who)?;
    if goes_on_apart(ctx, plan) {
        keep::keep(repo, &[commit], &landed_at_work(&plan.agent), ctx.now())?;
    }
    Ok(commit)
}

/// Whether the agent's branch stays where it is: a clone, and a fenced run, go on from the branch as they know it, in a repository of their
/// own. Were the branch moved, their next commits could not be published. The row names what has landed, and the next landing goes on
/// from there.
fn goes_on_apart(ctx: &Ctx, plan: &MergePlan) -> bool {
    let has_run_repo =
        || publish::run_repo(ctx, &plan.agent).is_some_and(|run_repo| run_repo.exists());
    clone::is_one(ctx, plan.agent.id) || plan.now && has_run_repo()
}

/// Moves the agent's branch, and the index of its worktree, to the commit of its work. The index goes first: seen from it, a branch that
/// lags behind has everything staged, which is judged the same.
fn advance(ctx: &Ctx, plan: &MergePlan, tip: Oid, who: &Identities) -> Result<()> {
    let repo = &ctx.repo;
    let name = layout::worktree_name(plan.agent.id);
    let worktree = repo.worktree(&name);
    // A list entry may name a directory that is another worktree's by now.
    let worktree = worktree.filter(|found| belongs_to(&found.path, &repo.admin_dir(&name)));
    let scratch_place = ctx.temporary_place();
    let place = worktree
        .map(|worktree| landing::linked_at(repo, &name, &worktree.path, &scratch_place))
        .transpose()?;
    if let Some(place) = &place {
        let staged = keep_what_is_only_staged(ctx, plan, place)?;
        place.restage(repo, staged, plan.work.tree, &index_scratch(repo)?)?;
    }
    ctx.reached("staged");
    let reason = format!("agent: work of {}", plan.agent.id.short());
    // Seen from the worktree, so that the reflog of its HEAD is written along with the branch's.
    let own = place.as_ref().map_or(repo.common_dir(), |place| &place.git_dir);
    let own = Repo::open_git_dir(own)?;
    let way = (plan.work.tip, tip);
    swap(&own, &plan.branch, way, who, &reason, &mut || Ok(()))?;
    ctx.reached("advanced");
    Ok(())
}

/// What was staged and then changed again is in no file any more; the index is about to forget it. Gives
/// the tree of what was staged.
fn keep_what_is_only_staged(ctx: &Ctx, plan: &MergePlan, place: &Checkout) -> Result<Oid> {
    let staged = place.staged_tree(&ctx.repo)?;
    let tip_tree = ctx.repo.tree_of(plan.work.tip)?;
    if staged == tip_tree || staged == plan.work.tree {
        return Ok(staged);
    }
    let id = plan.agent.id;
    let message = format!("agent: staged by {}\n", id.short());
    let who = ctx.identities()?;
    let commit = ctx.repo.write_commit(&who.commit(staged, &[plan.work.tip], &message))?;
    keep::keep(&ctx.repo, &[commit], &format!("staged {id}"), ctx.now())?;
    let what = What::Salvaged { commit };
    ctx.ledger().append(plan.agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
    Ok(staged)
}

/// One landing of a stack.
struct LandedWork {
    /// The tip of the agent's branch that landed.
    tip: Oid,
    /// The commit that brought it.
    commit: Oid,
    /// Where the branch was before.
    from: Oid,
    /// Whether the agent's branch moves to that tip: it was made of uncommitted work.
    advances: bool,
    /// Whether the spawn commit landed too, because commits after it are signed.
    with_spawn: bool,
}

impl LandedWork {
    fn warning(&self, plan: &MergePlan) -> Option<String> {
        let what = "its commits are signed and land as they are, with the empty commit by which it was spawned";
        self.with_spawn.then(|| format!("agent {}: {what}", plan.agent.id.short()))
    }
}

/// Brings the work to the target, worktrees and ref together. Gives what became of each plan.
///
/// What is not committed becomes a commit of its agent's branch as late as that can be, so that a landing which is refused leaves it as it
/// was: once the target is locked, its hooks agree and its worktrees have moved. A remote cannot be locked, so there it comes before the push.
fn land_stack(
    ctx: &Ctx,
    plans: &[MergePlan],
    at: &mut Option<usize>,
) -> Result<(Vec<LandedWork>, Option<Deferred>)> {
    let repo = &ctx.repo;
    let who = ctx.identities()?;
    let Some(first) = plans.first() else {
        return Ok((Vec::new(), None));
    };
    // The landing commits, each with its judged tree.
    let mut stack: Vec<LandedWork> = Vec::new();
    for (number, plan) in plans.iter().enumerate() {
        *at = Some(number);
        let tip = commit_of_work(ctx, plan, &who)?;
        let below = stack.last().map_or(first.base, |one| one.commit);
        let landing = LandedWork {
            advances: tip != plan.work.tip && !goes_on_apart(ctx, plan),
            ..landing_commit(ctx, plan, below, tip, &who)?
        };
        remote::note_landing(ctx, plan, (tip, landing.commit, landing.from))?;
        stack.push(landing);
    }
    *at = None;
    ctx.reached("committed");
    let top = stack.last().map_or(first.base, |one| one.commit);
    // Asked under the lock of the target: a commit that came to an agent's branch since it was
    // judged must not be left behind unnoticed.
    let are_judged = || {
        for plan in plans {
            if repo.tip(&plan.branch)? != Tip::At(plan.work.tip) {
                return Err(moved(&plan.branch));
            }
        }
        Ok(())
    };
    let blamed = Cell::new(None);
    let advance_all = || {
        for (number, (plan, one)) in plans.iter().zip(&stack).enumerate() {
            if one.advances {
                blamed.set(Some(number));
                advance(ctx, plan, one.tip, &who)?;
            }
        }
        blamed.set(None);
        Ok(())
    };
    let landed = if let Some(there) = &first.remote {
        are_judged().and_then(|()| advance_all()).and_then(|()| {
            let agents: Vec<_> = plans.iter().map(|plan| plan.agent.id).collect();
            let mut of_push = None;
            let pushed = there.push(ctx, (first.base, top), &agents, &mut of_push);
            blamed.set(agents.iter().position(|agent| of_push == Some(*agent)));
            pushed.map(|()| None)
        })
    } else {
        let under_lock = UnderLock { require: &are_judged, finish: &advance_all };
        let landed = move_target(ctx, plans, (first.base, top), &under_lock);
        landed.inspect(|_| ctx.reached("landed"))
    };
    *at = blamed.get();
    landed.map(|deferred| (stack, deferred))
}

/// Writes the commit that brings the work on top of `below`; for a fast forward it is the tip.
fn landing_commit(
    ctx: &Ctx,
    plan: &MergePlan,
    below: Oid,
    tip: Oid,
    who: &Identities,
) -> Result<LandedWork> {
    let repo = &ctx.repo;
    let mut with_spawn = false;
    let parents = match plan.method {
        Method::NoFf => {
            // What it was built upon is there already where that has landed in another form, and does not come again.
            let begins = |target| stacked::landed_below(ctx, &plan.agent, target);
            let replay = stacked::offered(repo, &plan.agent, begins, (None, below), tip)?;
            replay.write(repo)?;
            replay.copy_notes(repo)?;
            if replay.tip != tip {
                keep_tip(ctx, plan, tip)?;
            }
            with_spawn = replay.is_signed;
            vec![below, replay.tip]
        }
        Method::Squash => {
            keep_tip(ctx, plan, tip)?;
            vec![below]
        }
        Method::FfOnly => {
            let commit = tip;
            return Ok(LandedWork { tip, commit, from: below, with_spawn, advances: false });
        }
    };
    let commit = write(repo, plan.merged_tree, &parents, &plan.message(), who)?;
    Ok(LandedWork { tip, commit, from: below, with_spawn, advances: false })
}

/// Keeps the history of work that does not land itself: it hangs on the branch alone from now on, and branches are deleted.
fn keep_tip(ctx: &Ctx, plan: &MergePlan, tip: Oid) -> Result<()> {
    let why = format!("squashed {}", plan.agent.id);
    keep::keep(&ctx.repo, &[tip], &why, ctx.now())?;
    Ok(())
}

/// Writes a commit that becomes history, and is signed as the user's own merges are.
fn write(repo: &Repo, tree: Oid, parents: &[Oid], message: &str, who: &Identities) -> Result<Oid> {
    repo.write_commit_as_user(&who.commit(tree, parents, message))
}

// The branch of this clone that work lands on, and the worktrees that move along with it.

/// Moves the branch that the plans are for, and with it the worktrees that have it checked out.
pub(super) fn move_target(
    ctx: &Ctx,
    plans: &[MergePlan],
    way: (Oid, Oid),
    under_lock: &UnderLock<'_>,
) -> Result<Option<Deferred>> {
    let Some(first) = plans.first() else {
        return Ok(None);
    };
    let target = (first.target.as_str(), first.checkouts.as_slice());
    move_with_worktrees(ctx, target, way, &reason(plans), under_lock)
}

/// What the reflog of the branch says of a landing.
fn reason(plans: &[MergePlan]) -> String {
    match plans {
        [only] => format!("agent: merge {}", only.agent.id.short()),
        _ => format!("agent: merge {} agents", plans.len()),
    }
}

// The git hooks that `[merge] hooks` names: asked before anything lands, in a worktree of what would.
//
// Each hook sees what it would see in `git commit` on top of the target: the files of the merged tree, all differences from the target
// staged. It runs behind the fence, after the set-up, where check commands run, and no lock of the landing is held meanwhile.

/// Asks the hooks about each landing of a stack, and leaves in `at` the number of the one that they refuse.
///
/// # Errors
/// `hook-refused` where one fails or changes files; those of making a worktree and of starting a command.
pub(super) fn ask_git_hooks(ctx: &Ctx, plans: &[MergePlan], at: &mut Option<usize>) -> Result<()> {
    let Some(first) = plans.first() else {
        return Ok(());
    };
    let mut below = first.base;
    for (number, plan) in plans.iter().enumerate() {
        if plan.landed.is_some() || plan.git_hooks.is_empty() {
            continue;
        }
        *at = Some(number);
        let commit = simulated(&ctx.repo, plan.merged_tree, &[below])?;
        ask(ctx, plan, below, commit)?;
        below = commit;
    }
    *at = None;
    Ok(())
}

fn ask(ctx: &Ctx, plan: &MergePlan, below: Oid, commit: Oid) -> Result<()> {
    let (common, id) = (ctx.repo.common_dir(), plan.agent.id);
    let short = id.short();
    // Checks of the same agent run in the same place.
    fsx::create_dir(&layout::agent_dir(common, id))?;
    let _alone = lock::hold(common, &layout::verify_lock(&short))?;
    let enforcement = ctx.kernel()?.enforcement(Mode::Auto)?;
    let policy = spawn_commit::require_policy(&ctx.repo, &plan.agent)?;
    let setup = CheckSetup::for_work(ctx, &policy, plan.base)?;
    let request = CheckRequest {
        // Hooks look at what is staged, and what they change is looked for.
        for_commands: false,
        commit,
        place: Some(CheckWorktree::of(ctx, &short)?),
        setup: &setup,
        fence: (Mode::Auto, &enforcement),
        variables: &commands::leased(ctx, id)?,
    };
    let mut room = CheckRoom::open(ctx, request)?;
    if let Some(failed) = room.set_up()? {
        let what = format!("the set-up command `{}` before the git hooks", failed.command);
        return Err(refused(plan, &what, &failed));
    }
    for name in &plan.git_hooks {
        let (run, has_changed) = room.run_hook(name, below)?;
        let what = format!("the git hook {name} of the repository");
        if !run.is_success() {
            return Err(refused(plan, &what, &run));
        }
        if has_changed {
            let what = format!("{what} changed files of what would land");
            return Err(refusal(plan, &what, run.output).hint(
                "to land what it makes of them, run it in the agent's worktree, and commit there",
            ));
        }
    }
    Ok(())
}

fn refused(plan: &MergePlan, what: &str, run: &CommandRun) -> Error {
    let how = format!("{what} {}", run.end);
    refusal(plan, &how, run.output.clone())
}

fn refusal(plan: &MergePlan, what: &str, said: String) -> Error {
    let short = plan.agent.id.short();
    Error::new(
        Code::HookRefused,
        format!("{what}, so the work of agent {short} does not land"),
    )
    .because(said.trim().to_owned())
    .hint(format!(
        "to land it without the hooks of [merge] and [hooks], run git agent merge {short} --no-hooks"
    ))
}
