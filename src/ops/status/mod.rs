//! Where an agent's work stands at this moment, as far as this clone can tell.
//!
//! ```text
//! row of the ledger + branch, target, worktree, bundle -> WorkStatus
//! ```
//!
//! Looking changes nothing and nothing fails: what cannot be determined is said to be unknown, so that
//! one broken worktree does not take the list of all others away. Nothing here is a judgement: what is
//! out of scope is counted as `check` would, which an agent that wants to can deceive; a verdict is the
//! ledger's, and stands only while everything that it names is as it was.
//!
//! Deliberately absent: merges that could conflict, and whatever else costs more than looking.

mod survey;

use super::agent_report::{AgentReport, Reporter, rfc3339};
use crate::agents::context::histories::{Apart, Ends, Histories};
use crate::agents::life::at_work::shown_state;
use crate::agents::place::worktree::WorktreeFiles;
use crate::agents::work::{has_commits_since, stacked};
use crate::agents::{
    AgentWorktree, Ctx, ScopeGuard, Scratch, place::worktree, who::lookup, work, work::bundle,
};
use crate::domain::judge::evidence::{Artefact, Contract};
use crate::domain::judge::judge;
use crate::domain::work::bundle::FILES;
use crate::domain::{Agent, AgentId, Change, Evidence, Isolation, Oid, ReportRules, State};
use crate::error::Result;
use crate::git::Tip;
use crate::git::changes::Glance;
use crate::git::files::admin_dir::Worktree;
use crate::git::uncommitted::glance;
use crate::ops::agent_report::TargetReport;
pub use crate::ops::status::survey::OverlapCount;
use crate::ops::status::survey::Surroundings;
pub(super) use crate::ops::status::survey::{MergeKey, OverlapSet, conflicts, merge_key};
use crate::store::{RecordedPlaces, files::layout, ledger::agent_branch};
use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
pub(super) use survey::{Places, survey};

/// So many changed files are asked when they were last written; more say little more.
const ASKED_FOR_TIME: usize = 256;

/// What is true of an agent's work now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkStatus {
    /// The branch's tip; null when the branch is gone.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub tip: Fact<String>,
    /// What it would land on: the target branch as it is now.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub target: Fact<TargetReport>,
    /// The branch that has all of its committed work already, as a forge merged it: the target, or what was fetched of that from
    /// a remote; absent where none has.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub landed_on: Fact<TargetReport>,
    /// Commits of the agent that are to land: those of its branch that the target does not hold, without the spawn commit and
    /// what an earlier landing brought in another form.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub ahead: Fact<usize>,
    /// Commits of the target that the branch does not hold.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub behind: Fact<usize>,
    /// Whether the directory of its worktree is gone, though it was not discarded; absent where it is there.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub worktree_gone: Fact<bool>,
    /// Paths that are staged, modified or untracked in the worktree.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub uncommitted: Fact<usize>,
    /// Paths that were touched, committed or not, and are out of scope.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub out_of_scope: Fact<usize>,
    /// How much of the bundle is as it has to be.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub bundle: Fact<BundleCount>,
    /// The last verdict, `accept` or `reject`; null when it cannot be told whether it still holds.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub verdict: Fact<&'static str>,
    /// Whether what the verdict judged is no longer what there is; absent where it holds, or where there is none.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub verdict_stale: Fact<bool>,
    /// Both in one word for people: `accepted`, `rejected`, `stale` or `none`; `landed` where it has.
    #[serde(skip)]
    pub verdict_word: Fact<&'static str>,
    /// The codes that a rejecting verdict named.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub findings: Fact<Vec<String>>,
    /// With how many live agents it shares touched paths, of those that were looked at together; absent for
    /// none.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub overlap: Fact<OverlapCount>,
    /// When it last did something that shows: an event, a commit, a file; RFC 3339.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub active_at: Fact<String>,
    /// Whether finished work conflicts with what it would land on; only where the board or a report asked.
    #[serde(skip)]
    pub conflicts: bool,
    /// Whether it has work of which its recorded state says nothing: any, of one that was only spawned, and of one that was merged what the
    /// branch it landed on does not hold.
    #[serde(skip)]
    has_work: bool,
    /// What `overlap` is counted from.
    #[serde(skip)]
    touched: survey::Touched,
}

impl WorkStatus {
    /// Why an agent does not go on before a person decides something; `None` where it does, or where that was put off.
    pub fn need(&self, agent: &AgentReport) -> Option<&'static str> {
        if agent.run.as_ref().is_some_and(|run| run.state == "dead") {
            return Some("its run died");
        }
        match agent.state {
            "waiting" => Some("it waits for an answer"),
            "failed" => Some("it failed"),
            "done" if agent.deferred => None,
            "done" => match self.verdict_word.known() {
                Some(&"landed") => None,
                _ if self.conflicts => Some("its work conflicts with what has landed"),
                Some(&"accepted") => Some("its work is accepted and has not landed"),
                Some(&"rejected") => Some("its work is finished and rejected"),
                Some(&"stale") => Some("its work has changed since it was judged"),
                _ => Some("its work is finished and not judged"),
            },
            _ => None,
        }
    }

    /// The state of an agent whose recorded one is given, once its work was looked at.
    pub(super) fn state_of(&self, recorded: &'static str) -> &'static str {
        let is_passed =
            self.has_work && [State::Ready, State::Merged].map(State::as_str).contains(&recorded);
        if is_passed { State::Idle.as_str() } else { recorded }
    }

    /// Says that a branch has the work already. What is not committed has not landed.
    pub(super) fn note_landing(
        &mut self,
        ctx: &Ctx,
        agent: &Agent,
        landings: &HashMap<AgentId, String>,
    ) {
        if let Some(target) = landings.get(&agent.id)
            && self.uncommitted.known().is_none_or(|count| *count == 0)
        {
            let oid = ctx.repo.branch_tip(target).ok().and_then(Tip::oid);
            self.landed_on = Fact::Known(TargetReport::new(Some(target), oid));
            self.verdict_word = Fact::Known("landed");
        }
    }

    /// Puts the last verdict of an agent into the words of the answer; `word` is `None` where it cannot be told whether
    /// it still holds.
    fn judged(&mut self, agent: &Agent, word: Option<&'static str>) {
        self.verdict_word = Fact::of(word.ok_or(()));
        let Some(verdict) = &agent.verdict else {
            return;
        };
        self.verdict = match word {
            Some(_) if verdict.accepted => Fact::Known("accept"),
            Some(_) => Fact::Known("reject"),
            None => Fact::Unknown,
        };
        if word == Some(survey::STALE) {
            self.verdict_stale = Fact::Known(true);
        }
    }
}

/// The state of an agent as every answer tells it: what its row, locks and sessions say, and for one that was only spawned or was merged what
/// is in its branch and its worktree.
pub(super) fn state(ctx: &Ctx, agent: &Agent) -> State {
    let recorded = shown_state(ctx.repo.common_dir(), agent);
    if !matches!(recorded, State::Ready | State::Merged) {
        return recorded;
    }
    let there = place(ctx, agent);
    let histories = Histories::of([agent]);
    let common = Surroundings::new(ctx, &histories);
    let worktree = there.as_ref().map(|one| one.path.as_path());
    let has_work = match recorded {
        State::Ready => {
            let mut look = Look::at_commits(&common, agent, worktree);
            let ahead = look.ahead();
            // Beside commits it does not matter what the files are, and reading them takes longest.
            if !look.has_work(ahead) {
                look.read_files(&common);
            }
            look.has_work(ahead)
        }
        _ => standing(&common, agent, worktree).has_work,
    };
    if has_work { State::Idle } else { recorded }
}

/// An agent for those who decide about it: one that was merged and has work since is idle, as every answer tells.
pub(super) fn as_shown(ctx: &Ctx, agent: Agent) -> Agent {
    let is_open = agent.state == State::Merged && state(ctx, &agent) == State::Idle;
    if is_open { agent.with_work_since() } else { agent }
}

impl Reporter {
    /// What an answer says of an agent.
    pub(in crate::ops) fn agent(&self, ctx: &Ctx, agent: &Agent) -> AgentReport {
        AgentReport { state: state(ctx, agent).as_str(), ..self.row(agent) }
    }
}

/// An agent's worktree, where that is in this clone.
fn place(ctx: &Ctx, agent: &Agent) -> Option<Worktree> {
    let linked = ctx.repo.worktree(&layout::worktree_name(agent.id));
    linked.filter(|worktree| worktree.path.is_dir())
}

/// Looks at one agent's work, wherever its worktree is.
pub(super) fn of(ctx: &Ctx, agent: &Agent) -> WorkStatus {
    let there = place(ctx, agent);
    let histories = Histories::of([agent]);
    let common = Surroundings::new(ctx, &histories);
    let mut status = standing(&common, agent, there.as_ref().map(|one| one.path.as_path()));
    status.note_landing(ctx, agent, &landings(ctx, &[agent]));
    status
}

/// The branches that have the work of these agents already, as far as they may still land. Of a row there is no sign that a
/// forge merged its work, and a verdict on work that is merged looks out of date.
pub(super) fn landings(ctx: &Ctx, agents: &[&Agent]) -> HashMap<AgentId, String> {
    let live = agents.iter().copied().filter(|agent| agent.state.is_live());
    let live = stacked::aimed(ctx, live).into_iter();
    // Nothing can have landed on a branch that stands still, and asking walks through its history.
    let live: Vec<_> = live.filter(|agent| has_moved(ctx, agent)).collect();
    if live.is_empty() {
        return HashMap::new();
    }
    // git writes the trees of the merges that it is asked about, and a look leaves none behind. What cannot be asked is not
    // said to have landed.
    let Ok(scratch) = Scratch::make(ctx, "look") else {
        return HashMap::new();
    };
    let Ok(apart) = ctx.with_scratch_objects(scratch.path()) else {
        return HashMap::new();
    };
    let answers =
        agent_branch::have_landed(&apart.repo, live.iter().map(AsRef::as_ref)).into_iter();
    let landed = answers.filter_map(|(agent, answer)| Some((agent, answer.ok()??)));
    landed.collect()
}

/// Whether the branch that an agent started from is elsewhere than it was then, here or on a remote.
fn has_moved(ctx: &Ctx, agent: &Agent) -> bool {
    let Some((name, began)) =
        agent.base.as_ref().and_then(|base| Some((base.refname.as_ref()?, base.oid)))
    else {
        return false;
    };
    let copies = ctx.repo.fetched_branches(name).unwrap_or_default();
    let own = ctx.repo.branch_tip(name).ok().and_then(Tip::oid);
    own.into_iter().chain(copies.into_iter().map(|(_, oid)| oid)).any(|oid| oid != began)
}

/// Looks at one agent's work. `worktree` is where it is, if it is in this clone.
fn standing(common: &Surroundings<'_>, agent: &Agent, worktree: Option<&Path>) -> WorkStatus {
    let mut standing = WorkStatus {
        findings: match &agent.verdict {
            Some(verdict) if !verdict.accepted => Fact::Known(verdict.findings.clone()),
            _ => Fact::NotApplicable,
        },
        active_at: Fact::Known(rfc3339(agent.updated)),
        ..WorkStatus::default()
    };
    match agent.state {
        // What is there is half of what spawn makes, and no work.
        State::Spawning => {}
        // What is left behind matters, how it got there is history.
        State::Merged | State::Discarded => {
            let fence = || common.fence(agent, true);
            let changes = worktree.map(|top| changes(common, agent, top, fence().as_ref()));
            let is_changed = matches!(&changes, Some(Ok(changes)) if !changes.is_empty());
            if agent.state == State::Merged
                && (is_changed || has_commits_since(common.ctx, common.histories, agent))
            {
                // Judged it was before that came.
                let agent = agent.clone().with_work_since();
                let mut look = Look::at_commits(common, &agent, worktree);
                look.changes = changes.map_or(Fact::Unknown, Fact::of);
                look.tell(&mut standing);
                standing.has_work = true;
            } else {
                standing.judged(agent, Some(survey::recorded_verdict(agent)));
                if let Some(changes) = changes {
                    standing.uncommitted = Fact::of(changes.map(|changes| changes.len()));
                }
            }
        }
        State::Ready
        | State::Running
        | State::Waiting
        | State::Idle
        | State::Done
        | State::Failed
        | State::Rejected => {
            Look::at(common, agent, worktree).tell(&mut standing);
        }
    }
    standing
}

/// What the worktree holds that no commit does, the bundle aside.
fn changes(
    common: &Surroundings<'_>,
    agent: &Agent,
    top: &Path,
    fence: Option<&ScopeGuard<'_>>,
) -> Result<Vec<Change>> {
    let ctx = common.ctx;
    let bundle_dir = fence.and_then(|fence| fence.policy().bundle_dir.as_deref());
    let place = AgentWorktree::new(top, worktree::admin_dir(&ctx.repo, agent.id));
    let changes = glance(&Glance {
        repo: Some(&ctx.repo),
        top,
        admin_dir: &place.admin_dir,
        rules: &common.rules(bundle_dir)?,
        scratch: &ctx.temporary_place(),
    })?;
    let changes = work::uncommitted::without_baseline(ctx, agent, &place, bundle_dir, changes)?;
    // Where that cannot be told, they count.
    let has_landed = || work::uncommitted::has_landed(ctx, agent, &place, &changes);
    let is_over = agent.state == State::Merged && !changes.is_empty();
    Ok(if is_over && has_landed().unwrap_or(false) { Vec::new() } else { changes })
}

/// What every fact about an open agent is made of.
pub(super) struct Look<'a> {
    ctx: &'a Ctx,
    agent: &'a Agent,
    worktree: Option<&'a Path>,
    fence: Option<ScopeGuard<'a>>,
    tip: Option<Oid>,
    target_name: Option<String>,
    target: Option<Oid>,
    /// What the branch and its target do not share.
    apart: Option<Apart>,
    changes: Fact<Vec<Change>>,
}

impl<'a> Look<'a> {
    fn at(common: &Surroundings<'a>, agent: &'a Agent, worktree: Option<&'a Path>) -> Look<'a> {
        let mut look = Look::at_commits(common, agent, worktree);
        look.read_files(common);
        look
    }

    /// As [`Look::at`], but for what is not committed.
    fn at_commits(
        common: &Surroundings<'a>,
        agent: &'a Agent,
        worktree: Option<&'a Path>,
    ) -> Look<'a> {
        let ctx = common.ctx;
        let tip = work::tip_of(ctx, agent).ok();
        let (target_name, target) = common.target(agent);
        let fence = common.fence(agent, tip.is_some() || worktree.is_some());
        let started = match &fence {
            Some(fence) => Oid::from_hex(&fence.policy().base_oid),
            None => agent.base.as_ref().map(|base| base.oid),
        };
        let apart = match (tip, target, started) {
            (Some(tip), Some(target), Some(started)) => {
                let ends = Ends { tip, target, started };
                common.histories.apart(&ctx.repo, agent, ends)
            }
            _ => None,
        };
        let changes = Fact::NotApplicable;
        Look { ctx, agent, worktree, fence, tip, target_name, target, apart, changes }
    }

    fn read_files(&mut self, common: &Surroundings<'a>) {
        self.changes = match (self.agent.isolation, self.worktree) {
            (Some(Isolation::Shared), _) => Fact::NotApplicable,
            // It may be in another clone, so nothing can be said about it.
            (_, None) => Fact::Unknown,
            (_, Some(top)) => Fact::of(changes(common, self.agent, top, self.fence.as_ref())),
        };
    }

    fn tell(&self, standing: &mut WorkStatus) {
        let hex = |oid: Option<Oid>| oid.map_or(Fact::Unknown, |oid| Fact::Known(oid.to_hex()));
        let artefacts = artefacts(self);
        standing.bundle = count(self, artefacts.as_deref());
        let verdict = survey::verdict_now(self, artefacts.as_deref());
        standing.judged(self.agent, verdict);
        if self.agent.isolation == Some(Isolation::Shared) {
            return;
        }
        if self.is_gone() {
            standing.worktree_gone = Fact::Known(true);
        }
        standing.tip = hex(self.tip);
        let target = |oid| TargetReport::new(self.target_name.as_deref(), Some(oid));
        standing.target = Fact::of(self.target.map(target).ok_or(()));
        standing.ahead = self.ahead();
        let behind = self.apart.as_ref().and_then(|apart| apart.behind);
        standing.behind = Fact::of(behind.ok_or(()));
        standing.uncommitted = self.uncommitted();
        standing.out_of_scope = match verdict {
            // An accepting verdict that stands has looked at every path.
            Some(survey::ACCEPTED) => Fact::Known(0),
            _ => Fact::of(survey::paths_out(self).ok_or(())),
        };
        standing.active_at = Fact::Known(rfc3339(self.last_seen()));
        standing.touched = survey::touched(self);
        standing.has_work = self.has_work(standing.ahead);
    }

    /// Whether anything was done in it: only runs and sessions are recorded, and a person who works by hand in the worktree is not.
    fn has_work(&self, ahead: Fact<usize>) -> bool {
        let is_some = |count: Fact<usize>| count.known().map(|count| *count > 0);
        // Beside a target that is gone its commits cannot be counted, but they are there.
        let is_elsewhere = || self.tip.is_some_and(|tip| tip != self.agent.spawn_commit);
        is_some(self.uncommitted()) == Some(true) || is_some(ahead).unwrap_or_else(is_elsewhere)
    }

    /// How many of its commits are to land.
    fn ahead(&self) -> Fact<usize> {
        let (Some(apart), Some(target), Some(tip)) = (&self.apart, self.target, self.tip) else {
            return Fact::Unknown;
        };
        let (repo, ends) = (&self.ctx.repo, (target, tip));
        Fact::of(work::left_to_land(repo, self.agent, ends, &apart.own))
    }

    /// How many paths are changed and not committed.
    fn uncommitted(&self) -> Fact<usize> {
        match &self.changes {
            Fact::Known(changes) => Fact::Known(changes.len()),
            _ => Fact::Unknown,
        }
    }

    /// Whether its worktree is in another clone.
    fn is_elsewhere(&self) -> bool {
        self.worktree.is_none() && !lookup::is_local(self.ctx, self.agent)
    }

    /// Whether it had a worktree in this clone of which nothing is left at its place.
    fn is_gone(&self) -> bool {
        let place = || RecordedPlaces::new(&self.ctx.repo).ok()?.of(self.agent);
        // From inside a sandbox, no other agent's worktree is seen.
        self.worktree.is_none()
            && !self.ctx.env.fenced
            && lookup::is_local(self.ctx, self.agent)
            // A link that leads nowhere is something at its place, too.
            && place().is_some_and(|place| place.symlink_metadata().is_err())
    }

    /// The latest of the last event, the last commit and the last file that was written.
    fn last_seen(&self) -> DateTime<Utc> {
        let commit = self
            .tip
            .and_then(|tip| self.ctx.repo.read_commit(tip).ok())
            .and_then(|commit| DateTime::from_timestamp(commit.seconds, 0));
        let changes = self.changes.known().map_or(&[][..], Vec::as_slice);
        let mut names: Vec<&[u8]> =
            changes.iter().take(ASKED_FOR_TIME).map(|change| change.path.as_slice()).collect();
        let bundle = paths(self);
        names.extend(bundle.iter().map(|path| path.as_bytes()));
        let files = self.worktree.map(|top| WorktreeFiles::of(&self.ctx.repo, self.agent.id, top));
        let written = names.into_iter().filter_map(|name| {
            let file = files.as_ref()?.find(Path::new(OsStr::from_bytes(name)))?;
            let modified = fs::symlink_metadata(file).ok()?.modified().ok()?;
            Some(DateTime::<Utc>::from(modified))
        });
        let times = written.chain(commit);
        times.fold(self.agent.updated, DateTime::max)
    }
}

// A fact that may not apply, or may not be known: the difference that JSON keeps.

/// One fact about an agent. In JSON an absent key is not applicable, `null` was asked and could not be
/// determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// The question makes no sense for this agent, or was not asked.
    #[default]
    NotApplicable,
    /// It was asked and could not be determined.
    Unknown,
    /// The answer.
    Known(T),
}

impl<T> Fact<T> {
    /// The answer of something that may fail.
    fn of<E>(answer: Result<T, E>) -> Fact<T> {
        answer.map_or(Fact::Unknown, Fact::Known)
    }

    /// The answer, where there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::NotApplicable | Fact::Unknown => None,
        }
    }

    /// Whether there is nothing to say, not even that it is unknown.
    pub fn is_absent(&self) -> bool {
        matches!(self, Fact::NotApplicable)
    }
}

impl<T: Serialize> Serialize for Fact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}

// How much of the bundle is there.

/// How many of the artefact files are as `verify` wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BundleCount {
    /// Those with which nothing is wrong.
    pub good: usize,
    /// All of them.
    pub of: usize,
}

/// The six files where the agent writes them, else as the last verdict kept them; `None` when there is no
/// telling.
fn artefacts(look: &Look<'_>) -> Option<Vec<Artefact>> {
    let policy = look.fence.as_ref()?.policy();
    bundle::artefacts(look.ctx, look.agent, look.worktree, policy).ok()
}

/// Counts them, where they are required.
fn count(look: &Look<'_>, artefacts: Option<&[Artefact]>) -> Fact<BundleCount> {
    let (Some(fence), Some(artefacts)) = (&look.fence, artefacts) else {
        return Fact::Unknown;
    };
    let policy = fence.policy();
    if !policy.bundle_required {
        return Fact::NotApplicable;
    }
    let kept = look.agent.verdict.as_ref().and_then(|verdict| verdict.bundle);
    let is_here = |tree: Oid| look.ctx.repo.is_at_hand(tree);
    // A verdict of another clone names a tree that need not have travelled with the row.
    let is_unseen = kept.is_none_or(|tree| look.is_elsewhere() && !is_here(tree));
    let has_worktree = look.agent.isolation != Some(Isolation::Shared);
    if has_worktree && look.worktree.is_none() && is_unseen {
        return Fact::Unknown;
    }
    let contract = Contract {
        agent: Some(look.agent.id),
        boundary: fence.boundary().clone(),
        bundle_required: true,
        spec_sha: policy.spec_sha.clone(),
        uncounted_tests: 0,
        report: ReportRules::default(),
    };
    // Without history, landing and commands there is nothing else to find fault with, and of each file
    // there is at most one.
    let evidence = Evidence { bundle: artefacts.to_vec(), ..Evidence::default() };
    let faults = judge(&contract, &evidence).len();
    Fact::Known(BundleCount { good: FILES.len().saturating_sub(faults), of: FILES.len() })
}

/// The names of the six files, from the top of the worktree.
fn paths(look: &Look<'_>) -> Vec<String> {
    let policy = look.fence.as_ref().map(|fence| fence.policy());
    match policy.and_then(|policy| policy.bundle_dir.as_ref()) {
        Some(directory) => FILES.iter().map(|(name, _)| format!("{directory}/{name}")).collect(),
        None => Vec::new(),
    }
}
