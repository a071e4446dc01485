//! `rescue`: gives back what a discard kept, as a branch, as files, or as the agent that it was.
//!
//! The oids stand in the agent's row: `discarded` names the tip, `salvaged` the work and the bundle,
//! each a commit whose trailer says which. The newest of a kind counts, because a discard that was
//! interrupted has left older ones. Nothing is taken off the keep chain, so the same thing can be
//! rescued any number of times. Nothing that exists is overwritten. An agent that was not discarded, and whose worktree
//! was removed without us, gets one from its branch.

mod branch;

pub(in crate::ops) use branch::from_index;
use branch::{place, places};

use super::agent_report::{AgentReport, Reporter};
use crate::agents::context::real_path::real_path;
use crate::agents::upkeep::{half_made, hooks, own_checkout::require_own_branch};
use crate::agents::who::{authority::require_orchestrator, lookup};
use crate::agents::{Ctx, life::liveness, place::worktree};
use crate::domain::life::event::WORKTREE;
use crate::domain::{Agent, Event, Isolation, Move, Oid, State, What, branch_name};
use crate::error::{Code, Error, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::refs::full_name;
use crate::git::uncommitted::salvage::{BUNDLE, TRAILER, WORK, is_as_it_was};
use crate::git::worktree::set_lock;
use crate::git::{Commit, Tip, repo::program};
use crate::ops::error_report::to_have_what_others_keep;
use crate::store::files::{fsx, large_files, layout};
use crate::store::{chain::keep, landing::spawn_commit};
use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

/// The steps of a rescue to files, in order, under the names given to
/// [`crate::agents::context::ctx::Seams::reached`]; one to a branch has no `filled`.
pub const STEPS: [&str; 3] = ["filled", "made", "told"];

/// Where it goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RescueDestination {
    /// A branch under the first free name made from the agent's own.
    #[default]
    RescuedBranch,
    /// A branch of this name.
    Branch(String),
    /// Files in this directory, which is empty or not there.
    Directory(PathBuf),
    /// The agent itself: branch and worktree where they were.
    Agent,
}

/// What a rescue would give back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RescuePlan {
    agent: Agent,
    destination: RescueDestination,
    /// The commit with the newest work: the salvage, else the tip.
    commit: Option<Oid>,
    bundle: Option<Oid>,
    /// What the caller should know.
    warnings: Vec<String>,
    /// Whether it was taken away by us, and not by hand.
    was_discarded: bool,
    /// Whether the discard left a branch of that name.
    branch_stayed: bool,
}

/// The answer of `rescue`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.rescue/3")]
pub struct RescueReport {
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// The branch that was made, short name.
    pub rescued_branch: Option<String>,
    /// The directory that was filled, absolute.
    pub rescued_directory: Option<String>,
    /// The commit that was given back: the uncommitted work on its tip, or the tip alone.
    pub commit: Option<String>,
    /// The commit that holds the bundle.
    pub bundle_commit: Option<String>,
    /// What the caller should know, such as what was kept and is not here.
    pub warnings: Vec<String>,
}

/// Finds what was kept of an agent; writes nothing. Of what is not all here, the rest is given back.
///
/// # Errors
/// `agent-unknown`; `agent-state` when nothing was kept; `history-incomplete` when none of it is here, as in
/// a clone that did not fetch the keep chain, or not all that a branch needs; `branch-invalid`,
/// `branch-exists`, `path-exists`; `orchestrator-only`.
pub fn plan(ctx: &Ctx, who: &str, destination: RescueDestination) -> Result<RescuePlan> {
    require_orchestrator(ctx)?;
    let ledger = ctx.ledger();
    let agent = lookup::agent(ctx, &ledger, who)?;
    let mut kept = Kept::of(ctx, &ledger.own_events(agent.spawn_commit)?)?;
    let was_discarded = match agent.state {
        State::Discarded => true,
        State::Merged => kept.is_since_landing,
        _ => false,
    };
    if destination == RescueDestination::Agent && !was_discarded {
        kept = Kept::on_branch(ctx, &agent)?;
    }
    let plan = RescuePlan::of(ctx, &kept, agent, destination, was_discarded)?;
    match &plan.destination {
        RescueDestination::Directory(path) => branch::require_place(ctx, &ctx.absolute(path))?,
        RescueDestination::Branch(name) => {
            let full = full_name(name)?;
            // An interrupted rescue has made it already, and goes on.
            if !plan.is_made(ctx, &full)? {
                ctx.repo.require_free_branch(&full)?;
            }
        }
        RescueDestination::RescuedBranch => {}
        RescueDestination::Agent => {
            if plan.was_discarded {
                plan.agent.may(Move::BringBack)?;
            }
            require_places(ctx, &plan)?;
        }
    }
    Ok(plan)
}

/// Plans to make worktree and branch of a discarded agent again.
///
/// # Errors
/// As [`plan`] for [`RescueDestination::Agent`], whatever state the agent is in.
pub(super) fn plan_restore(ctx: &Ctx, agent: &Agent) -> Result<RescuePlan> {
    let kept = Kept::of(ctx, &ctx.ledger().own_events(agent.spawn_commit)?)?;
    let plan = RescuePlan::of(ctx, &kept, agent.clone(), RescueDestination::Agent, true)?;
    require_places(ctx, &plan)?;
    Ok(plan)
}

/// Does so, and leaves the row to the caller. Gives what the user should know.
///
/// # Errors
/// As [`execute`].
pub(super) fn restore(ctx: &Ctx, plan: RescuePlan) -> Result<Vec<String>> {
    let (path, warning) = reopen(ctx, &plan, || Ok(()))?;
    let large = large_files::give_back(ctx.repo.common_dir(), plan.agent.id, &path)?;
    Ok(plan.warnings.into_iter().chain(warning).chain(large).collect())
}

/// Gives it back and tells the row.
///
/// # Errors
/// `branch-exists` when the name was taken meanwhile; `path-exists`, `git-failed`, `io`; those of the
/// ledger.
pub fn execute(ctx: &Ctx, plan: &RescuePlan) -> Result<RescueReport> {
    let mut report = RescueReport {
        agent: Reporter::new(ctx)?.agent(ctx, &plan.agent),
        rescued_branch: None,
        rescued_directory: None,
        commit: plan.commit.map(|oid| oid.to_hex()),
        bundle_commit: plan.bundle.map(|oid| oid.to_hex()),
        warnings: plan.warnings.clone(),
    };
    let to = match (&plan.destination, plan.commit) {
        (RescueDestination::Agent, _) => {
            let record = || record(ctx, plan);
            let (path, warning) = reopen(ctx, plan, record)?;
            report.warnings.extend(warning);
            let common = ctx.repo.common_dir();
            report.warnings.extend(large_files::give_back(common, plan.agent.id, &path)?);
            if plan.was_discarded {
                // The report was made before the row moved.
                report.agent.state = State::Idle.as_str();
            }
            report.rescued_branch =
                plan.agent.branch.as_deref().map(|name| branch_name(name).to_owned());
            report.rescued_directory = Some(path.to_string_lossy().into_owned());
            return Ok(report);
        }
        (RescueDestination::Directory(path), _) => {
            let path = ctx.absolute(path);
            let kept = (plan.commit, plan.bundle);
            report.warnings.extend(branch::write(ctx, &plan.agent, kept, &path)?);
            let common = ctx.repo.common_dir();
            report.warnings.extend(large_files::copy_back(common, plan.agent.id, &path)?);
            let made = real_path(&path).unwrap_or(path);
            let text = made.to_string_lossy().into_owned();
            // The row travels to other clones, and a path may hold the name of its user.
            let told = ctx.public_text(&text, None)?;
            report.rescued_directory = Some(text);
            told
        }
        (_, Some(commit)) => {
            let name = plan.make_branch(ctx, commit)?;
            if is_as_it_was(&ctx.repo.read_commit(commit)?) {
                let id = plan.agent.id.short();
                report.warnings.push(format!(
                    "the files are as they were on the disk, and a checkout of {} would convert them; to have them unchanged, run git agent rescue {id} --to <directory>",
                    branch_name(&name)
                ));
            }
            let large = large_files::of_agent(ctx.repo.common_dir(), plan.agent.id)?;
            if !large.is_empty() {
                let id = plan.agent.id.short();
                report.warnings.push(format!(
                    "{} files above 64 MiB are kept as they are, and no branch holds them; to have them, run git agent rescue {id} --to <directory>",
                    large.len()
                ));
            }
            report.rescued_branch = Some(branch_name(&name).to_owned());
            name
        }
        (_, None) => return Err(plan.only_bundle()),
    };
    ctx.reached("made");
    let what = What::Rescued { to };
    ctx.ledger().append(plan.agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
    ctx.reached("told");
    Ok(report)
}

impl RescuePlan {
    fn of(
        ctx: &Ctx,
        kept: &Kept,
        agent: Agent,
        destination: RescueDestination,
        was_discarded: bool,
    ) -> Result<RescuePlan> {
        let plan = RescuePlan {
            commit: kept.commit,
            bundle: kept.bundle,
            warnings: kept.warnings(&agent),
            was_discarded,
            branch_stayed: kept.branch_stayed,
            destination,
            agent,
        };
        plan.require_something(kept)?;
        plan.require_history(ctx)?;
        Ok(plan)
    }

    fn require_something(&self, kept: &Kept) -> Result<()> {
        let id = self.agent.id.short();
        match (self.commit, self.bundle, &self.destination) {
            // What is known of its bundle can be written again, whatever became of the kept one.
            (_, _, RescueDestination::Agent) if self.is_shared() => Ok(()),
            (None, None, _)
            | (None, _, RescueDestination::Branch(_) | RescueDestination::RescuedBranch)
            // Once it is back, its row says nothing any more of what was kept.
            | (_, _, RescueDestination::Agent)
                if let Some(commit) = kept.absent.last() =>
            {
                let error = keep::absent(&format!("commit {commit}, which was kept of agent {id},"));
                let rest = format!("to have what is here as a branch, run git agent rescue {id}");
                Err(if self.commit.is_some() { error.hint(rest) } else { error })
            }
            (None, None, _) if let Some(time) = kept.expired => Err(Error::new(
                Code::AgentState,
                format!(
                    "what was kept of agent {id} expired on {}",
                    time.format("%Y-%m-%d at %H:%M:%S UTC")
                ),
            )
            .hint(format!("to see what it was, run git agent show --log {id}"))),
            (None, None, _) => Err(Error::new(
                Code::AgentState,
                format!("nothing of agent {id}, which is {}, was put away", self.agent.state),
            )
            .hint(format!("to see what became of it, run git agent show --log {id}"))),
            (None, Some(_), RescueDestination::Directory(_)) | (Some(_), _, _) => Ok(()),
            (None, Some(_), _) => Err(self.only_bundle()),
        }
    }

    /// A branch with a hole in its history would make git's own commands fail.
    fn require_history(&self, ctx: &Ctx) -> Result<()> {
        // In a shallow clone git knows where history ends, so a missing parent does no harm.
        let (Some(commit), false) = (self.commit, ctx.repo.is_shallow()) else {
            return Ok(());
        };
        let parents = ctx.repo.read_commit(commit)?.parents;
        let absent = parents.iter().find(|oid| !ctx.repo.has_object(**oid));
        match (absent, &self.destination) {
            (
                Some(parent),
                RescueDestination::Branch(_)
                | RescueDestination::RescuedBranch
                | RescueDestination::Agent,
            ) => {
                let id = self.agent.id.short();
                let what = format!("commit {parent}, which a branch of agent {id} needs,");
                Err(keep::absent(&what).hint(format!(
                    "to have the files all the same, run git agent rescue {id} --to <directory>"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Whether it had neither branch nor worktree, and a bundle is all that a discard took.
    fn is_shared(&self) -> bool {
        self.agent.isolation == Some(Isolation::Shared)
    }

    fn only_bundle(&self) -> Error {
        let id = self.agent.id.short();
        Error::new(
            Code::AgentState,
            format!("agent {id} left a bundle and no commit that could be a branch"),
        )
        .hint(format!("to have its files, run git agent rescue {id} --to <directory>"))
    }
}

// What a row says was kept, and what of that is here.

/// The newest of each kind that is here.
#[derive(Default)]
struct Kept {
    /// The commit with the newest work: the salvage, else the tip.
    pub commit: Option<Oid>,
    /// The commit that holds the bundle.
    pub bundle: Option<Oid>,
    /// Whether the newest discard named no tip: of a branch that is not proved to be the agent's it takes nothing.
    pub branch_stayed: bool,
    /// Whether the agent was discarded, or work of it was kept, after its last landing.
    pub is_since_landing: bool,
    /// What is missing here and was never let go of, as in a clone that did not fetch the keep chain.
    pub absent: Vec<Oid>,
    /// When the newest was let go of that is not here because of that.
    pub expired: Option<DateTime<Utc>>,
}

impl Kept {
    /// Reads the row and looks for what it names.
    fn of(ctx: &Ctx, events: &[Event]) -> Result<Kept> {
        let gone = expired(ctx, events)?;
        let mut kept = Kept::default();
        let (mut tip, mut work): (Option<Oid>, Option<Commit>) = (None, None);
        let discards = events.iter().filter(|event| matches!(event.what, What::Discarded { .. }));
        let discards: HashSet<_> = discards.filter_map(|event| event.operation.as_ref()).collect();
        for event in events {
            if let What::Discarded { tip } = event.what {
                kept.branch_stayed = tip.is_none();
                kept.is_since_landing = true;
            }
            let is_back = match &event.what {
                What::Undone { operation, .. } => discards.contains(operation),
                what => what.brings_back(),
            };
            if is_back {
                // Its owner had it back, and may have dropped it since.
                (tip, work, kept.bundle, kept.is_since_landing) = (None, None, None, false);
                (kept.absent, kept.expired) = (Vec::new(), None);
                continue;
            }
            let commit = match event.what {
                What::Discarded { tip: Some(commit) } | What::Salvaged { commit } => commit,
                What::Merged { .. } => {
                    kept.is_since_landing = false;
                    continue;
                }
                _ => continue,
            };
            if let Some(time) = gone.get(&commit) {
                kept.expired = Some(*time);
                continue;
            }
            if !ctx.repo.has_object(commit) {
                kept.absent.push(commit);
                continue;
            }
            let found = ctx.repo.read_commit(commit)?;
            match (&event.what, found.trailer(TRAILER)) {
                (What::Salvaged { .. }, Some(WORK)) => {
                    kept.is_since_landing = true;
                    work = Some(found);
                }
                (What::Salvaged { .. }, Some(BUNDLE)) => kept.bundle = Some(commit),
                // The tip, or one that came after the agent was discarded.
                _ => tip = Some(commit),
            }
        }
        // Work that was salvaged by a discard that failed, and was committed afterwards, is in the tip.
        let on_tip = work.filter(|work| tip.is_none() || work.parents.first() == tip.as_ref());
        kept.commit = on_tip.map(|work| work.oid).or(tip);
        Ok(kept)
    }

    /// What to tell a caller that gets less than was kept.
    fn warnings(&self, agent: &Agent) -> Vec<String> {
        let (id, have) = (agent.id.short(), to_have_what_others_keep());
        let absent = self.absent.iter().map(|commit| {
            format!("commit {commit}, which was kept of agent {id}, is not in this clone; {have}")
        });
        let expired = self.expired.map(|time| {
            format!("a part of what was kept of agent {id} expired on {}", time.format("%Y-%m-%d"))
        });
        absent.chain(expired).collect()
    }
}

/// What was let go of and is not whole any more, with the time of that. Until git has collected it, it can
/// be given back like anything else.
fn expired(ctx: &Ctx, events: &[Event]) -> Result<HashMap<Oid, DateTime<Utc>>> {
    let mut gone = HashMap::new();
    for event in events {
        let What::Expired { commits } = &event.what else {
            continue;
        };
        for commit in commits {
            // What expired stays readable until git collects it; from then on it is gone.
            if !ctx.repo.is_complete(*commit)? {
                gone.insert(*commit, event.at.time());
            }
        }
    }
    Ok(gone)
}

// A discarded agent back at its old places, so that work on it can go on.
//
// The branch comes first, then the files, filled beside their place, then git's record of the worktree with an
// index that holds them, then the rename into place. What a kill leaves is what an interrupted discard leaves,
// and the same command goes on. The row is told last: until then the agent is a discarded one.

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const REOPEN_STEPS: [&str; 6] = ["branch", "filled", "linked", "placed", "made", "told"];

/// Checks that the agent's places are known and free, or hold what an interrupted call left.
///
/// # Errors
/// `agent-state` for an agent that had no worktree, and where another worktree has its branch; `branch-exists`, `path-exists`;
/// `worktree-foreign` where this repository is a copy, and the agent works in the other one.
fn require_places(ctx: &Ctx, plan: &RescuePlan) -> Result<()> {
    let agent = &plan.agent;
    if plan.is_shared() {
        return branch::bundle_place(ctx, agent).map(drop);
    }
    let (branch, path) = places(ctx, agent)?;
    require_own_branch(ctx, agent)?;
    let tip = ctx.repo.tip(branch)?;
    if tip != Tip::Absent && (tip.oid().is_none() || tip.oid() != plan.tip(ctx)?) {
        return Err(Error::new(Code::BranchExists, format!("{branch} exists already")).hint(
            format!(
                "to have the work as another branch, run git agent rescue {}",
                agent.id.short()
            ),
        ));
    }
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    if belongs_to(&path, &admin) {
        return Ok(());
    }
    if let Some(other) = worktree::other_repository(&path, &admin) {
        return Err(worktree::works_elsewhere(agent, &path, &other));
    }
    if !admin.exists() {
        branch::require_free(ctx, branch)?;
    }
    branch::require_empty(ctx, &path)
}

/// Makes branch, worktree and hooks again; gives the worktree and what the caller should know.
///
/// # Errors
/// As [`require_places`]; `run-active` where a process works for the agent; `git-failed`, `io`, `disk-full`; what `record`
/// fails with, which tells the row while nothing can begin to work for the agent.
fn reopen(
    ctx: &Ctx,
    plan: &RescuePlan,
    record: impl FnOnce() -> Result<()>,
) -> Result<(PathBuf, Option<String>)> {
    let agent = &plan.agent;
    let _alone = liveness::lock(ctx, agent)?;
    // A rescue that was killed has filled a directory beside the place, under a name that is found in no other way.
    half_made::sweep_left_over(ctx)?;
    if plan.is_shared() {
        let path = branch::write_bundle(ctx, agent, plan.bundle)?;
        ctx.reached("made");
        record()?;
        ctx.reached("told");
        return Ok((path, None));
    }
    let (branch, path) = places(ctx, agent)?;
    let tip = plan.tip(ctx)?.ok_or_else(|| plan.only_bundle())?;

    // The branch, created and never moved.
    if ctx.repo.tip(branch)?.oid() != Some(tip) {
        let reason = format!("agent: rescue {}", agent.id.short());
        let who = ctx.identities()?.committer;
        if !ctx.repo.create_branch(branch, tip, &who, &reason)? {
            let what = format!("{branch} was made meanwhile");
            return Err(Error::new(Code::LostRace, what));
        }
    }
    ctx.reached("branch");

    // The files, and git's record of them.
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    let mut warning = None;
    if !plan.was_discarded && admin.join("index").is_file() {
        // git's record of the worktree is left, and in it what was staged.
        from_index(ctx, agent, &path, &admin)?;
    } else if !belongs_to(&path, &admin) {
        let half_made = fsx::unique_name(&path);
        let placed = place(ctx, plan, &half_made, &path, (branch, tip));
        if placed.is_err() && half_made.exists() {
            fsx::remove_by_trash(ctx.repo.common_dir(), &half_made)?;
        }
        warning = placed?;
    }
    ctx.reached("placed");

    // What binds it there, and the row. An `uninstall` since then took the rules along.
    let policy = spawn_commit::if_here(&ctx.repo, agent)?;
    if let Some(bundle) = policy.and_then(|policy| policy.bundle_dir) {
        warning = warning.or(worktree::hide(ctx, &bundle)?);
    }
    let git = program::ask_version(&path).ok().and_then(program::VersionQuestion::answer);
    hooks::install(ctx, agent.id, &path, git)?;
    if plan.was_discarded {
        worktree::narrow_again(ctx, agent.id, &path)?;
        warning = warning.or(worktree::retake_leases(ctx, agent)?);
    }
    // What has landed or was rejected keeps its worktree without a lock.
    if plan.was_discarded || !matches!(agent.state, State::Merged | State::Rejected) {
        set_lock(&admin, &layout::lock_reason(agent.id))?;
    }
    ctx.reached("made");
    record()?;
    ctx.reached("told");
    Ok((path, warning))
}

/// Tells the row that the agent is back, which never left where it was not discarded.
fn record(ctx: &Ctx, plan: &RescuePlan) -> Result<()> {
    if !plan.was_discarded {
        return Ok(());
    }
    // Its state was asked before: where its places are, a discard by another clone is not believed any more.
    let back = What::Rescued { to: WORKTREE.to_owned() };
    ctx.ledger().append(plan.agent.spawn_commit, &ctx.actor()?, back, ctx.now())?;
    Ok(())
}
