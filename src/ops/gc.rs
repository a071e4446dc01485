//! `gc`: discards the agents that are provably finished, and sweeps what killed processes left.
//!
//! Finished is an agent that was discarded in this clone and left something behind; one that was merged, where the branch
//! that it was merged into holds what its branch holds; one that is ready, idle, done or
//! failed, whose committed work the base branch, or the copy of it that was fetched, has already (`landed`), and whose
//! worktree is clean;
//! and, with `--older-than`, one that was rejected so long ago. Everything else is kept and the reason
//! said. Each removal is a whole [`discard`] with its own second look, so nothing that it removes is lost.

pub mod expire;

use crate::agents::life::at_work::{forget_prompt, shown_state};
use crate::agents::place::kept_worktree::KeptWorktree;
use crate::agents::stock::{frozen, pool};
use crate::agents::who::authority::{require_orchestrator, require_whole_view};
use crate::agents::work::stacked;
use crate::agents::{Ctx, checks::check_worktree, place::worktree, upkeep::half_made, who::lookup};
use crate::domain::{Agent, AgentId, Move, Oid, State};
use crate::error::{Error, Result};
use crate::git::Tip;
use crate::git::files::temporary;
use crate::ops::agent_report::TargetReport;
use crate::ops::discard::{self, DiscardOptions, DiscardPlan, NotKept, WorktreeSnapshot};
use crate::ops::gc::expire::RemoteSweep;
use crate::ops::status;
use crate::store::files::large_files::LargeFile;
use crate::store::files::place::Journal;
use crate::store::files::{briefing, fsx, large_files, layout, leases, lock};
use crate::store::ledger::RecordedLanding;
use crate::store::ledger::belief::Closed;
use crate::store::ledger::landing_commit::{CommittedWork, FirstParents};
use crate::store::{OwnBranch, RecordedPlaces, ledger::agent_branch};
use expire::{ExpiryPlan, LifeEnd, SalvageItem};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Whatever has lain in the trash for a day is not being deleted any more, in seconds.
const TRASH_AGE: i64 = 86_400;

/// What the caller asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcOptions {
    /// Also agents that were rejected this long ago.
    pub older_than: Option<Duration>,
    /// Lets go of what was kept this long ago, of agents that are over.
    pub expire_salvage: Option<Duration>,
    /// Removes agents until so many bytes are free on the disk, and no more.
    pub until: Option<u64>,
    /// Salvages ignored files too.
    pub with_ignored: bool,
    /// Also the branches of agents on this remote, whose work has landed there; empty for the usual one.
    pub remote: Option<String>,
}

/// What would be swept and what not.
pub struct GcPlan {
    items: Vec<(GcItem, Option<DiscardPlan>)>,
    free_bytes: Option<u64>,
    large: Vec<GcLargeFile>,
    around: WorktreeSnapshot,
    expiry: Option<ExpiryPlan>,
    remote: Option<RemoteSweep>,
    options: GcOptions,
    trash: Vec<String>,
    trash_bytes: u64,
    interrupted: bool,
    /// Warm worktrees that were never finished.
    slots: usize,
    /// Frozen bases that no agent uses.
    bases: Vec<String>,
    /// Whose check worktrees killed processes left.
    checks: Vec<String>,
    /// Temporary directories that no process uses.
    temporary: usize,
    /// The agents that are over and whose prompts are still here.
    told: Vec<Agent>,
    /// The first eight digits of the ids of agents that are over and still hold values.
    holders: Vec<String>,
}

/// The answer of `gc`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.gc/3")]
pub struct GcReport {
    /// Whether nothing was done yet.
    pub dry_run: bool,
    /// Every agent that has something left in this clone, oldest first.
    pub agents: Vec<GcItem>,
    /// How many bytes of the disk are free without what is removed; absent where the caller does not want so many.
    pub free_bytes: Option<u64>,
    /// What was kept so long ago, oldest agent first; absent unless it was asked for.
    pub salvage: Option<Vec<SalvageItem>>,
    /// The branches of agents on a remote; absent unless they were asked for.
    pub remote: Option<RemoteSweep>,
    /// The files above 64 MiB that discards have set aside, which `rescue` gives back.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub large: Vec<GcLargeFile>,
    /// How many old directories lie in the trash, or lay there.
    pub trash: usize,
    /// How many bytes of the disk they take, as far as 100,000 files tell.
    pub trash_bytes: u64,
    /// How many prompts of agents that are over are deleted, with what was confidential in their tasks and logs.
    pub prompts: usize,
    /// How many warm worktrees are removed that killed processes left half made.
    pub slots: usize,
    /// The bases of layered worktrees that are removed because no agent uses them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bases: Vec<String>,
    /// What was kept of half-made warm worktrees, where a person had worked in one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptWorktree>,
    /// How many worktrees are removed that killed checks left.
    pub check_worktrees: usize,
    /// How many temporary directories of killed commands are removed, of any repository.
    pub temporary: usize,
    /// How many agents that are over give back the values that they held.
    pub leases: usize,
    /// Whether there are spawns under way; those that were interrupted are taken apart.
    pub spawning: bool,
    /// Names in the trash that are still to be deleted.
    #[serde(skip)]
    pub doomed: Vec<String>,
    /// What the caller asked for.
    #[serde(skip)]
    pub options: GcOptions,
}

/// What becomes of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GcItem {
    /// The id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The state.
    pub state: &'static str,
    /// `remove`, `removed` or `keep`.
    pub action: &'static str,
    /// Why, in words.
    pub why: String,
    /// The commit that brought its work, where no row says so yet; it is recorded before the agent is removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landed: Option<GcLanding>,
    /// The files that are not kept.
    #[serde(flatten)]
    pub not_kept: NotKept,
}

/// A file that a discard has set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GcLargeFile {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The file.
    #[serde(flatten)]
    pub file: LargeFile,
}

/// A commit that brought an agent's work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GcLanding {
    /// The commit.
    pub commit: String,
    /// The branch that it is on.
    pub target: TargetReport,
}

/// Looks at every agent that has something left; writes nothing but objects.
///
/// # Errors
/// `orchestrator-only` in a sandbox; those of the ledger and of git.
pub fn plan(ctx: &Ctx, options: GcOptions) -> Result<GcPlan> {
    require_whole_view(ctx)?;
    let common = ctx.repo.common_dir();
    // Before the agents are read, so that the agent that holds a value is among them.
    let held = leases::held(common)?;
    let mut agents = lookup::agents(ctx)?;
    agents.sort_unstable_by_key(|agent| (agent.started, agent.id));
    let around = WorktreeSnapshot::read(ctx)?;
    let expiry = match options.expire_salvage {
        Some(age) => Some(expire::plan(ctx, &agents, age)?),
        None => None,
    };
    let remote = options
        .remote
        .as_deref()
        .map(|name| expire::plan_remote(ctx, &agents, name))
        .transpose()?;
    // Of a row with an event that is not understood here, nothing is known to be over. What works in an agent that was merged may
    // still read its prompt.
    let is_over = |agent: &&Agent| !shown_state(common, agent).is_open() && agent.needs.is_none();
    let (over, open): (Vec<&Agent>, Vec<&Agent>) = agents.iter().partition(is_over);
    let open: HashSet<String> = open.iter().map(|agent| agent.id.short()).collect();
    let told =
        over.into_iter().filter(|agent| briefing::is_here(common, agent.id)).cloned().collect();
    let large = set_aside(ctx, &agents)?;
    let mut judge = Judge::new(ctx, &options, &agents, &around)?;
    let items = judge.all(agents)?;
    let free_bytes = options.until.map(|_| judge.free);
    // What belongs to no agent any more.
    let trash = fsx::left_behind(common, ctx.now().timestamp() - TRASH_AGE);
    let old: Vec<PathBuf> = trash.iter().map(|name| layout::trash_dir(common).join(name)).collect();
    Ok(GcPlan {
        items,
        free_bytes,
        large,
        around,
        expiry,
        remote,
        options,
        trash_bytes: fsx::disk_use(&old),
        trash,
        interrupted: Journal::any(common),
        slots: pool::count_left(ctx)?,
        bases: frozen::unused(ctx)?,
        checks: check_worktrees(ctx)?,
        temporary: temporary::count_left(&ctx.temporary_place()),
        told,
        holders: { held.into_keys() }
            .filter(|short| !open.contains(short) && !is_running_train(common, short))
            .collect(),
    })
}

/// Whether this is the place of a train that runs.
fn is_running_train(common: &Path, short: &str) -> bool {
    // What cannot be asked may be running.
    let is_held = || lock::is_held(common, &layout::verify_lock(short)).unwrap_or(true);
    layout::is_train_place(short) && is_held()
}

/// The files that discards have set aside.
fn set_aside(ctx: &Ctx, agents: &[Agent]) -> Result<Vec<GcLargeFile>> {
    let mut large = Vec::new();
    for agent in agents {
        let files = large_files::of_agent(ctx.repo.common_dir(), agent.id)?.into_iter();
        large.extend(files.map(|file| GcLargeFile {
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            file,
        }));
    }
    Ok(large)
}

/// What deciding about an agent takes that is known of all of them at once.
struct Judge<'a> {
    ctx: &'a Ctx,
    options: &'a GcOptions,
    around: &'a WorktreeSnapshot,
    places: RecordedPlaces,
    closed: Closed,
    /// The branch that has all of an agent's work, for each that may be finished.
    landed: HashMap<AgentId, Result<Option<String>>>,
    targets: Targets,
    /// How many bytes of the disk are free, with those that removals free; counted where the caller wants so many.
    free: u64,
}

impl<'a> Judge<'a> {
    fn new(
        ctx: &'a Ctx,
        options: &'a GcOptions,
        agents: &[Agent],
        around: &'a WorktreeSnapshot,
    ) -> Result<Judge<'a>> {
        let in_question = stacked::aimed(ctx, agents.iter().filter(|agent| is_in_question(agent)));
        let in_question = in_question.iter().map(AsRef::as_ref);
        Ok(Judge {
            closed: ctx.ledger().closed_here()?,
            landed: agent_branch::have_landed(&ctx.repo, in_question),
            places: RecordedPlaces::new(&ctx.repo)?,
            targets: Targets::default(),
            free: match options.until {
                Some(_) => fsx::free_space(&ctx.repo.root()?)?,
                None => 0,
            },
            ctx,
            options,
            around,
        })
    }

    /// Decides about each of the agents of which something is left, oldest first.
    fn all(&mut self, agents: Vec<Agent>) -> Result<Vec<(GcItem, Option<DiscardPlan>)>> {
        let mut items = Vec::new();
        let activity = self.ctx.activity("looking for finished agents");
        let count = agents.len();
        for (index, agent) in agents.into_iter().enumerate() {
            activity.now(&format!("judging agent {} of {count}", index + 1));
            // An agent of which nothing is left is history, and is not listed.
            if has_something(self.ctx, &self.places, &agent)? {
                items.push(self.decide(agent));
            }
        }
        Ok(items)
    }

    fn decide(&mut self, agent: Agent) -> (GcItem, Option<DiscardPlan>) {
        let (ctx, options) = (self.ctx, self.options);
        // Whether a merged one has more than what landed is about to be asked.
        let state = match agent.state {
            State::Merged => State::Merged,
            _ => status::state(ctx, &agent),
        };
        let mut item = GcItem {
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            state: state.as_str(),
            action: "keep",
            why: String::new(),
            landed: None,
            not_kept: NotKept::default(),
        };
        let landed = self.landed.remove(&agent.id).unwrap_or(Ok(None));
        let end = landed.and_then(|landed| {
            let known = (state, landed.as_deref());
            let end = expire::life_end(ctx, &agent, known, &self.closed, options)?;
            Ok((end, landed))
        });
        let (landed, target) = match end {
            Ok((LifeEnd::Proven(reason, target), landed)) => {
                item.why = reason;
                (landed, target)
            }
            Ok((LifeEnd::Open(doubt), _)) => {
                item.state = status::state(ctx, &agent).as_str();
                item.why = doubt;
                return (item, None);
            }
            // An agent that cannot be judged is one more that is kept.
            Err(error) => {
                item.why = format!("it cannot be judged: {error}");
                return (item, None);
            }
        };
        // The agents come oldest first, so the newest finished ones stay where there is room.
        if options.until.is_some_and(|until| self.free >= until) {
            item.why.push_str(", and enough is free without it");
            return (item, None);
        }
        let removal = DiscardOptions {
            with_ignored: options.with_ignored,
            // What comes while hooks run and others are removed has landed nowhere.
            unmoved: true,
            // Never by force: what lives in another clone is not for this one to end.
            ..DiscardOptions::default()
        };
        let plan = match discard::plan_for(ctx, agent, removal, self.around) {
            Ok(plan) => plan.of_landed(target),
            Err(refusal) => {
                item.keep_for(&refusal);
                return (item, None);
            }
        };
        item.action = "remove";
        if options.until.is_some() {
            let name = layout::worktree_name(plan.agent().id);
            let place = ctx.repo.worktree(&name).map(|worktree| worktree.path);
            // What goes is counted as free at once, though the trash is emptied later.
            self.free += fsx::disk_use(&place.into_iter().collect::<Vec<_>>());
        }
        if let Some(target) = landed {
            // Where it cannot be found, the agent is removed without one.
            let landing = self.targets.landing(ctx, plan.agent(), &target);
            item.tell_landing(landing.unwrap_or(None));
        }
        (item, Some(plan))
    }
}

impl GcItem {
    fn keep_for(&mut self, refusal: &Error) {
        self.action = "keep";
        self.why = format!("{}, but {refusal}", self.why);
    }
}

impl GcPlan {
    /// What would be done, with the ignored files that would not be kept: looked for here, because who carries
    /// the plan out finds them on the way.
    pub fn report(&self, ctx: &Ctx) -> GcReport {
        let mut report = self.outline();
        for (item, (_, removal)) in report.agents.iter_mut().zip(&self.items) {
            // What would not be kept takes reading every worktree, which only a rehearsal does.
            match removal.as_ref().map(|removal| removal.not_kept(ctx)) {
                Some(Ok(not_kept)) => item.not_kept = not_kept,
                Some(Err(refusal)) => item.keep_for(&refusal),
                None => {}
            }
        }
        report
    }

    fn outline(&self) -> GcReport {
        GcReport {
            dry_run: true,
            agents: self.items.iter().map(|(item, _)| item.clone()).collect(),
            free_bytes: self.free_bytes,
            salvage: self.expiry.as_ref().map(ExpiryPlan::report),
            remote: self.remote.clone(),
            trash: self.trash.len(),
            trash_bytes: self.trash_bytes,
            prompts: self.told.len(),
            slots: self.slots,
            bases: self.bases.clone(),
            kept: Vec::new(),
            large: self.large.clone(),
            check_worktrees: self.checks.len(),
            temporary: self.temporary,
            leases: self.holders.len(),
            spawning: self.interrupted,
            doomed: Vec::new(),
            options: self.options.clone(),
        }
    }
}

/// Carries out a plan. One agent that cannot be removed does not stop the others.
///
/// # Errors
/// Those of taking interrupted spawns apart, and of letting go of what was kept; `orchestrator-only`.
pub fn execute(ctx: &Ctx, plan: GcPlan) -> Result<GcReport> {
    require_orchestrator(ctx)?;
    let mut report = plan.outline();
    report.dry_run = false;
    // What killed processes left goes first: half-made worktrees would be in the way of removals.
    half_made::sweep(ctx)?;
    half_made::sweep_left_over(ctx)?;
    (report.slots, report.kept) = pool::sweep(ctx)?;
    report.temporary = temporary::sweep(&ctx.temporary_place());
    let cleared = plan.checks.iter().map(|short| check_worktree::clear(ctx, short));
    // One that is in use by now stays.
    report.check_worktrees = cleared.filter(|done| matches!(done, Ok(true))).count();
    report.doomed = plan.trash;
    let mut around = plan.around;
    let removals: Vec<_> = plan.items.into_iter().map(|(_, removal)| removal).collect();
    let landings: Vec<_> = report
        .agents
        .iter()
        .zip(&removals)
        .filter_map(|(item, removal)| item.landing_of(removal.as_ref()?.agent()))
        .collect();
    // Where one of them changed meanwhile, each is asked for itself.
    let are_recorded = record(ctx, &landings).is_ok();
    if !landings.is_empty() {
        ctx.reached("recorded");
    }
    let (activity, count) = (ctx.activity("removing agents"), report.agents.len());
    let mut doomed = Vec::new();
    for (index, (item, removal)) in report.agents.iter_mut().zip(removals).enumerate() {
        let Some(removal) = removal else { continue };
        let landing = item.landing_of(removal.agent());
        let landing = landing.filter(|_| !are_recorded);
        match record(ctx, landing.as_slice()) {
            Ok(()) => doomed.push((index, removal)),
            Err(refusal) => item.keep_for(&refusal),
        }
    }
    let (places, removals): (Vec<usize>, Vec<DiscardPlan>) = doomed.into_iter().unzip();
    let mut places = places.into_iter();
    discard::execute_each(ctx, removals, &mut around, &mut |removed| {
        let Some(index) = places.next() else { return };
        activity.now(&format!("removed agent {} of {count}", index + 1));
        let Some(item) = report.agents.get_mut(index) else {
            return;
        };
        match removed {
            Ok(removed) => {
                item.action = "removed";
                for warning in removed.warnings {
                    item.why.push_str(&format!("; {warning}"));
                }
                item.not_kept = removed.not_kept;
                report.doomed.extend(removed.trash);
            }
            Err(refusal) => item.keep_for(&refusal),
        }
    });
    drop(activity);
    // After the agents that used them.
    report.bases = frozen::sweep(ctx)?;
    for short in &plan.holders {
        leases::free(ctx.repo.common_dir(), short)?;
    }
    for agent in plan.told {
        forget_prompt(ctx, &agent, None)?;
    }
    if let Some(sweep) = &mut report.remote {
        expire::sweep_remote(ctx, sweep)?;
    }
    if let Some(expiry) = plan.expiry {
        report.salvage = Some(expire::execute(ctx, expiry)?);
    }
    Ok(report)
}

/// Whose check worktrees were left by killed processes and can go.
fn check_worktrees(ctx: &Ctx) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for short in check_worktree::candidates(ctx)? {
        let place = check_worktree::left_behind(ctx, &short)?;
        if place.is_some_and(|place| !place.has_moved()) {
            left.push(short);
        }
    }
    Ok(left)
}

fn has_something(ctx: &Ctx, places: &RecordedPlaces, agent: &Agent) -> Result<bool> {
    let branch = OwnBranch::of(&ctx.repo, agent)?.is_some();
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    let worktree = places.of(agent);
    Ok(branch || admin_dir.exists() || worktree.is_some_and(|path| path.exists()))
}

/// Whether the base branch has to be asked about an agent.
fn is_in_question(agent: &Agent) -> bool {
    // The row of an agent whose commits were made by hand says ready to the end.
    use State::{Done, Failed, Idle, Ready};
    matches!(agent.state, Ready | Idle | Done | Failed) && !agent.deferred
}

// The landings of others that `gc` finds and records: work that a forge squashed, or a person merged by hand.

/// The branches that work lands on, each read once.
#[derive(Default)]
struct Targets(HashMap<String, FirstParents>);

impl Targets {
    /// The commit that brought an agent's work to `target`, which is the branch that it lands on or a copy of it, and that
    /// branch; `None` where no single commit did.
    fn landing(&mut self, ctx: &Ctx, agent: &Agent, target: &str) -> Result<Option<(Oid, String)>> {
        let (repo, base) = (&ctx.repo, agent.base.as_ref());
        let (Some(start), Some(into)) =
            (base.map(|base| base.oid), stacked::target_of(ctx, agent)?)
        else {
            return Ok(None);
        };
        let tips = (agent_branch::local(repo, agent)?, repo.branch_tip(target)?);
        let (Tip::At(tip), Tip::At(top)) = tips else {
            return Ok(None);
        };
        let line = match self.0.entry(target.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(FirstParents::read(repo, top, BTreeSet::new())?),
        };
        let brought = line.brought(repo, CommittedWork { agent, tip, start })?;
        Ok(brought.map(|commit| (commit, into)))
    }
}

impl GcItem {
    /// Says as which commit the work landed.
    fn tell_landing(&mut self, landing: Option<(Oid, String)>) {
        if let Some((commit, into)) = landing {
            self.why = format!("{}, landed as {}", self.why, commit.short());
            self.landed = Some(GcLanding {
                commit: commit.to_hex(),
                target: TargetReport::new(Some(&into), None),
            });
        }
    }

    /// What its agent's row is to say of its landing, if anything.
    fn landing_of(&self, agent: &Agent) -> Option<RecordedLanding> {
        let landed = self.landed.as_ref()?;
        Some(RecordedLanding {
            spawn_commit: agent.spawn_commit,
            commit: Oid::from_hex(&landed.commit)?,
            into: landed.target.refname.clone().unwrap_or_default(),
            tip: None,
            from: None,
            with: Vec::new(),
        })
    }
}

/// Records landings in the agents' rows, before the branches go that tell of them: all or none.
///
/// # Errors
/// Those of the ledger; `agent-state` when the state of an agent changed meanwhile.
fn record(ctx: &Ctx, landings: &[RecordedLanding]) -> Result<()> {
    let may_land = |row: Option<&Agent>| row.map_or(Ok(()), |row| row.may(Move::Merge));
    ctx.ledger().append_landings(landings, &ctx.actor()?, ctx.now(), may_land)
}
