//! `gc --expire-salvage`: lets go of what was kept of agents that are merged or discarded, once it is old.
//!
//! That is salvages, tips, bundles and the histories of squashes: every commit that a link of the keep
//! chain holds and [`keep::passing`] names. Spawn commits are none of them, so rows stay. The rows say
//! first what goes, by an `expired` event, and then all links leave the chain in one step; a kill between
//! the two leaves rows that say it too early, and running it again does the rest.
//!
//! Nothing is deleted here. What a branch or another agent's history still reaches stays reachable; the
//! rest is git's to collect, once the chain's own reflog has expired.

use crate::agents::context::histories::Histories;
use crate::agents::life::{at_work, liveness};
use crate::agents::who::lookup::remote_name;
use crate::agents::work::uncommitted::beside_landed;
use crate::agents::work::{has_commits_since, stacked};
use crate::agents::{AgentWorktree, Ctx, place::worktree};
use crate::domain::{Agent, Oid, State, What, branch_name};
use crate::error::{Code, Error, Result};
use crate::git::refs::remote::{self, PushManner, RefChange, RefPush};
use crate::ops::gc::GcOptions;
use crate::ops::status;
use crate::store::chain::keep::Passing;
use crate::store::files::{layout, lock, place};
use crate::store::landing::{landed, spawn_commit};
use crate::store::ledger::belief::Closed;
use crate::store::{chain::keep, ledger::agent_branch};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 2] = ["told", "expired"];

/// How many commits one event names: a line of the ledger is short.
const NAMED: usize = 16;

/// What becomes of what was kept of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SalvageItem {
    /// The id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The state.
    pub state: &'static str,
    /// `expire`, `expired` or `keep`.
    pub action: &'static str,
    /// Why, in words.
    pub why: String,
    /// When the newest of it was kept, RFC 3339.
    pub kept_at: String,
    /// The commits, tips and salvages and bundles.
    pub commits: Vec<String>,
}

/// What would expire.
pub(super) struct ExpiryPlan {
    items: Vec<(SalvageItem, Option<Doomed>)>,
}

/// Links of one agent and the commits that they alone keep.
struct Doomed {
    spawn_commit: Oid,
    links: Vec<Oid>,
    commits: Vec<Oid>,
}

/// Looks for what was kept longer ago than `age`; writes nothing.
///
/// # Errors
/// `repo-corrupt` when the keep chain cannot be read.
pub(super) fn plan(ctx: &Ctx, agents: &[Agent], age: Duration) -> Result<ExpiryPlan> {
    let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
    let limit = ctx.now().timestamp().saturating_sub(age);
    let (old, young): (Vec<Passing>, Vec<_>) =
        keep::passing(&ctx.repo)?.into_iter().partition(|link| link.seconds <= limit);
    let ours = Ours {
        common_dir: ctx.repo.common_dir(),
        closed: ctx.ledger().closed_here()?,
        clone: ctx.ledger().clone_number()?,
    };
    let known: HashMap<_, _> = agents.iter().map(|agent| (agent.id, agent)).collect();
    let mut by_agent: BTreeMap<_, (&Agent, Vec<Passing>)> = BTreeMap::new();
    for link in old {
        // Without its row it is unknown whether an agent is over.
        if let Some(agent) = known.get(&link.agent) {
            let key = (agent.started, agent.id);
            let (_, links) = by_agent.entry(key).or_insert((*agent, Vec::new()));
            links.push(link);
        }
    }
    // A commit that a younger link holds too is not let go of.
    let still_kept: HashSet<Oid> = young.into_iter().flat_map(|link| link.commits).collect();
    let items = by_agent.into_values().map(|(agent, links)| {
        let named = links.iter().flat_map(|link| &link.commits).copied();
        let mut commits: Vec<Oid> = named.filter(|oid| !still_kept.contains(oid)).collect();
        commits.sort_unstable();
        commits.dedup();
        // An event that is not understood here may bring the agent back.
        let is_over = is_over(agent.state) && agent.needs.is_none() && ours.knows(agent);
        let item = item(ctx, agent, &links, &commits, is_over);
        let doomed = is_over.then(|| Doomed {
            spawn_commit: agent.spawn_commit,
            links: links.iter().map(|link| link.link).collect(),
            commits,
        });
        (item, doomed)
    });
    Ok(ExpiryPlan { items: items.collect() })
}

impl ExpiryPlan {
    /// What would be done.
    pub(super) fn report(&self) -> Vec<SalvageItem> {
        self.items.iter().map(|(item, _)| item.clone()).collect()
    }
}

/// Carries out a plan. What belongs to an agent that is not over any more is kept.
///
/// # Errors
/// Those of the ledger and of the keep chain; nothing has expired then, whatever the rows say.
pub(super) fn execute(ctx: &Ctx, plan: ExpiryPlan) -> Result<Vec<SalvageItem>> {
    // A discard keeps first and says so afterwards.
    let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    let mut links = HashSet::new();
    let mut items = Vec::new();
    for (mut item, doomed) in plan.items {
        if let Some(doomed) = doomed {
            match tell(ctx, &doomed) {
                Ok(()) => {
                    item.action = "expired";
                    links.extend(doomed.links);
                }
                Err(refusal) if refusal.code() == Code::AgentState => {
                    (item.action, item.why) = ("keep", refusal.to_string());
                }
                Err(error) => return Err(error),
            }
        }
        items.push(item);
    }
    ctx.reached("told");
    if !links.is_empty() {
        keep::forget(&ctx.repo, &links, ctx.now())?;
    }
    ctx.reached("expired");
    Ok(items)
}

/// Writes into the row what goes, as far as it does not stand there already.
fn tell(ctx: &Ctx, doomed: &Doomed) -> Result<()> {
    let ledger = ctx.ledger();
    let mut said = HashSet::new();
    for event in ledger.events(doomed.spawn_commit)? {
        if let What::Expired { commits } = event.what {
            said.extend(commits);
        }
    }
    let new: Vec<Oid> = doomed.commits.iter().filter(|oid| !said.contains(*oid)).copied().collect();
    // A line of the ledger is short.
    for commits in new.chunks(NAMED) {
        let commits = commits.to_vec();
        // The agent may have been brought back since the plan.
        ledger.append_if(doomed.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
            if row.is_some_and(|row| is_over(row.state)) {
                Ok(What::Expired { commits: commits.clone() })
            } else {
                Err(Error::new(Code::AgentState, "it is not over any more"))
            }
        })?;
    }
    Ok(())
}

fn is_over(state: State) -> bool {
    matches!(state, State::Merged | State::Discarded)
}

/// What this clone knows about its own agents.
struct Ours<'c> {
    common_dir: &'c Path,
    closed: Closed,
    clone: Option<u16>,
}

impl Ours<'_> {
    /// Whether an agent whose row says so is over: of those that were spawned here only one that was closed here. What was
    /// kept is the only copy, and a row that was fetched must not let go of it.
    fn knows(&self, agent: &Agent) -> bool {
        !place::is_of_this_clone(self.common_dir, self.clone, agent) || self.closed.names(agent.id)
    }
}

fn item(
    ctx: &Ctx,
    agent: &Agent,
    links: &[Passing],
    commits: &[Oid],
    is_doomed: bool,
) -> SalvageItem {
    let seconds = links.iter().map(|link| link.seconds).max().unwrap_or(0);
    let kept = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    let state = if is_over(agent.state) { agent.state } else { status::state(ctx, agent) };
    let (action, why) = if is_doomed {
        ("expire", format!("it was {state} and kept until now"))
    } else if is_over(state) {
        ("keep", format!("its row says {state}, which was not done in this clone"))
    } else {
        ("keep", format!("it is {state}"))
    };
    SalvageItem {
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        state: state.as_str(),
        action,
        why,
        kept_at: kept.to_rfc3339_opts(SecondsFormat::Secs, true),
        commits: commits.iter().map(|oid| oid.to_hex()).collect(),
    }
}

// Which agents are provably finished.

/// Whether an agent is over, and why, in words.
pub(super) enum LifeEnd {
    /// It is finished. What its worktree has beside what landed on the branch that is named, if any, is kept.
    Proven(String, Option<String>),
    /// It is kept.
    Open(String),
}

use LifeEnd::{Open, Proven};

/// Whether an agent is finished. `shown` is its state as every answer tells it, `landed` the branch that has its work, `closed` what this
/// clone has merged or discarded itself.
pub(super) fn life_end(
    ctx: &Ctx,
    agent: &Agent,
    (shown, landed): (State, Option<&str>),
    closed: &Closed,
    options: &GcOptions,
) -> Result<LifeEnd> {
    let state = agent.state;
    // A row that came from elsewhere can claim an end that no object here proves.
    if let Some(claimed) = agent.claimed {
        return Ok(Open(format!(
            "it is {state}; its row says {claimed}, which nothing here proves"
        )));
    }
    if liveness::unrecorded_end(ctx.repo.common_dir(), agent).is_some() {
        // Its command may have led git to settings of its own, which are put back when the end is recorded.
        return Ok(Open(format!(
            "its last run died; to record that, run git agent wait {}",
            agent.id.short()
        )));
    }
    if at_work::at_work(ctx, agent).is_some() {
        return Ok(Open("something is at work in it".to_owned()));
    }
    Ok(match state {
        State::Merged | State::Discarded if closed.says(agent.id, State::Discarded) => {
            Proven("it was discarded and left something behind".to_owned(), None)
        }
        State::Merged => end_of_merged(ctx, agent, closed)?,
        State::Discarded => {
            Open("its row says discarded, which was not done in this clone".to_owned())
        }
        State::Spawning => Open("it is being made".to_owned()),
        State::Running | State::Waiting => Open(format!("it is {state}")),
        State::Rejected if !closed.says(agent.id, State::Rejected) => {
            Open("it was rejected, which was not done in this clone".to_owned())
        }
        State::Rejected => {
            // A row from a clock that is ahead counts as new.
            let age = (ctx.now() - agent.updated).to_std().unwrap_or_default();
            match options.older_than {
                Some(limit) if age >= limit => {
                    Proven("it was rejected that long ago".to_owned(), None)
                }
                Some(_) => Open("it was rejected not long enough ago".to_owned()),
                None => Open("it was rejected; --older-than says when that is over".to_owned()),
            }
        }
        State::Ready | State::Idle | State::Done | State::Failed if agent.deferred => {
            Open("the decision about it was put off".to_owned())
        }
        State::Ready | State::Idle | State::Done | State::Failed => match landed {
            None if shown == State::Ready => Open("it is ready".to_owned()),
            None => Open(format!("it is {shown} and has not landed")),
            Some(target) => match in_worktree(ctx, agent, target)? {
                None => {
                    let name = branch_name(target).trim_start_matches("refs/remotes/");
                    Proven(format!("{name} has all of its work"), Some(target.to_owned()))
                }
                Some(beside) => {
                    Open(format!("it is {shown}, its commits have landed, and {beside}"))
                }
            },
        },
    })
}

/// What objects say about an agent whose row says that it was merged.
fn end_of_merged(ctx: &Ctx, agent: &Agent, closed: &Closed) -> Result<LifeEnd> {
    let is_ours = closed.says(agent.id, State::Merged);
    let tip = agent_branch::local(&ctx.repo, agent)?.oid();
    let into = agent.landed.as_ref().map_or("the target", |(_, into)| into);
    // What a commit since takes back in part is there as the branch has it, and is left to land all the same.
    if !landed::as_claimed(&ctx.repo, &stacked::aimed_one(ctx, agent), tip, !is_ours)?
        || has_commits_since(ctx, &Histories::of([agent]), agent)
    {
        return Ok(Open(format!(
            "it was merged, and {into} does not hold what its branch holds now"
        )));
    }
    Ok(match in_worktree(ctx, agent, into)? {
        None => Proven("it was merged".to_owned(), Some(into.to_owned())),
        Some(beside) => Open(format!("it was merged, and {beside}")),
    })
}

/// As [`beside_landed`], of the worktree where it is now.
fn in_worktree(ctx: &Ctx, agent: &Agent, target: &str) -> Result<Option<&'static str>> {
    match worktree::find(&ctx.repo, agent).filter(|worktree| worktree.exists()) {
        Some(top) => {
            let place = AgentWorktree::new(top, worktree::admin_dir(&ctx.repo, agent.id));
            beside_landed(ctx, agent, &place, target)
        }
        None => Ok(None),
    }
}

// The branches of agents on a remote, of which those go whose work the remote's target branch has.
//
// What is deleted is decided from objects alone: the branch holds an agent's spawn commit, and the branch that the agent
// started from, as the remote has it now, has all of its work. Each deletion has a lease: a branch that moved stays.

/// How long the remote is waited for, each time that it is asked.
const LIMIT: Duration = Duration::from_secs(60);

/// What becomes of agents' branches on a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoteSweep {
    /// The remote.
    pub remote: String,
    /// The branches of agents that it has, by name.
    pub branches: Vec<RemoteBranch>,
}

/// One branch of a remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemoteBranch {
    /// The full name there.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The commit it is at.
    pub oid: String,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// `remove`, `removed` or `keep`.
    pub action: &'static str,
    /// Why, in words.
    pub why: String,
}

/// Looks at the branches of agents on a remote, the usual one where no name is given.
///
/// # Errors
/// `usage` for an unknown remote; those of the network.
pub(super) fn plan_remote(ctx: &Ctx, agents: &[Agent], wanted: &str) -> Result<RemoteSweep> {
    let end = Instant::now() + LIMIT;
    let remote = remote_name(ctx, Some(wanted).filter(|name| !name.is_empty()))?;
    let listed = ctx.repo.list_remote(&remote, end)?;
    let there: Vec<(&Agent, &str, Oid)> = agents
        .iter()
        .filter_map(|agent| {
            let branch = agent.branch.as_deref()?;
            Some((agent, branch, *listed.get(branch)?))
        })
        .collect();
    let lacking: Vec<_> = there
        .iter()
        .filter(|(.., is)| !ctx.repo.has_object(*is))
        .map(|(_, name, _)| (*name).to_owned())
        .collect();
    if !lacking.is_empty() {
        // What is not here then was deleted meanwhile, and is kept by what follows.
        ctx.repo.fetch_refs(&remote, &lacking, end)?;
    }
    let own = there.iter().filter(|(agent, _, tip)| {
        // A row may name any branch of the remote; the spawn commit in its history proves whose it
        // is.
        ctx.repo.has_object(*tip) && spawn_commit::is_held_by(&ctx.repo, *tip, agent)
    });
    let own: Vec<_> = own.map(|(agent, _, tip)| (*agent, *tip)).collect();
    let landed = stacked::have_landed_there(ctx, &remote, &listed, &own, end)?;
    // A row may also name a branch into which its agent's spawn commit was merged.
    let is_named_by = |name: &str, agent: &Agent| {
        branch_name(name).starts_with("agent/") && name.contains(&agent.id.short())
    };
    let is_own = |agent: &Agent| own.iter().any(|(one, _)| one.id == agent.id);
    let branches = there.into_iter().map(|(agent, name, tip)| {
        let doubt = if !is_own(agent) {
            Some("nothing proves that it is the agent's".to_owned())
        } else if !is_named_by(name, agent) && !ctx.ledger().is_made_here(agent).unwrap_or(false) {
            Some("another clone made it, and the branch does not bear its id".to_owned())
        } else if matches!(agent.state, State::Running | State::Waiting) {
            Some(format!("the agent is {}", agent.state))
        } else if !landed.contains(&agent.id) {
            Some("its work has not landed there".to_owned())
        } else {
            None
        };
        RemoteBranch {
            refname: name.to_owned(),
            oid: tip.to_hex(),
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            action: if doubt.is_some() { "keep" } else { "remove" },
            why: doubt.unwrap_or_else(|| "its work has landed there".to_owned()),
        }
    });
    let mut branches: Vec<_> = branches.collect();
    branches.sort_by(|one, other| one.refname.cmp(&other.refname));
    Ok(RemoteSweep { remote, branches })
}

/// Deletes what is to go, each branch only if it is where it was seen. What is gone is read from the remote's list.
///
/// # Errors
/// Those of the network.
pub(super) fn sweep_remote(ctx: &Ctx, sweep: &mut RemoteSweep) -> Result<()> {
    let doomed = |one: &&mut RemoteBranch| one.action == "remove";
    let pushes: Vec<_> = sweep
        .branches
        .iter_mut()
        .filter(doomed)
        .filter_map(|one| {
            Some(RefPush::new(one.refname.clone(), RefChange::Delete(Oid::from_hex(&one.oid)?)))
        })
        .collect();
    if pushes.is_empty() {
        return Ok(());
    }
    let end = Instant::now() + LIMIT;
    let manner = PushManner::default();
    let outcome = ctx.repo.push_refs(&sweep.remote, &pushes, manner, end)?;
    let left = ctx.repo.list_remote(&sweep.remote, end)?;
    for one in sweep.branches.iter_mut().filter(doomed) {
        let refusal = outcome.refusals.iter().find(|refusal| refusal.refname == one.refname);
        // What the remote still lists is there, whatever was said of the push.
        one.action = match left.get(&one.refname) {
            None => "removed",
            Some(_) => "keep",
        };
        if one.action == "keep" {
            one.why = match refusal.filter(|refusal| !remote::is_passing(&refusal.reason)) {
                Some(refusal) => {
                    let layer = remote::refusing_layer(&refusal.reason, &outcome.remote_text);
                    format!("the remote does not delete it: {layer} ({})", refusal.reason)
                }
                None => "it moved meanwhile".to_owned(),
            };
        }
    }
    Ok(())
}
