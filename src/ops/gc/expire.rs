//! `gc --expire-salvage`: lets go of what was kept of agents that are merged or discarded, once it is old.
//!
//! That is salvages, tips, bundles and the histories of squashes: every commit that a link of the keep
//! chain holds and [`keep::passing`] names. Spawn commits are none of them, so rows stay. The rows say
//! first what goes, by an `expired` event, and then all links leave the chain in one step; a kill between
//! the two leaves rows that say it too early, and running it again does the rest.
//!
//! Nothing is deleted here. What a branch or another agent's history still reaches stays reachable; the
//! rest is git's to collect, once the chain's own reflog has expired.

use crate::agents::ctx::Ctx;
use crate::domain::agent::{Agent, State};
use crate::domain::event::What;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::store::belief::Closed;
use crate::store::keep::{self, Passing};
use crate::store::{layout, lock, place};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::time::Duration;

/// The steps, in order, under the names given to [`crate::agents::ctx::Seams::reached`].
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
    let (old, young): (Vec<Passing>, Vec<_>) = keep::passing(&ctx.repo)?
        .into_iter()
        .partition(|link| link.seconds <= limit);
    let ours = Ours {
        common_dir: ctx.repo.common_dir(),
        closed: ctx.ledger().closed_here()?,
        clone: ctx.ledger().clone_number()?,
    };
    let known: HashMap<_, _> = agents.iter().map(|agent| (agent.id, agent)).collect();
    let mut by_agent: BTreeMap<_, Vec<Passing>> = BTreeMap::new();
    for link in old {
        // Without its row it is unknown whether an agent is over.
        if let Some(agent) = known.get(&link.agent) {
            let key = (agent.started, agent.id);
            by_agent.entry(key).or_default().push(link);
        }
    }
    // A commit that a younger link holds too is not let go of.
    let still_kept: HashSet<Oid> = young.into_iter().flat_map(|link| link.commits).collect();
    let items = by_agent.into_iter().map(|((_, id), links)| {
        let agent = known[&id];
        let named = links.iter().flat_map(|link| &link.commits).copied();
        let mut commits: Vec<Oid> = named.filter(|oid| !still_kept.contains(oid)).collect();
        commits.sort_unstable();
        commits.dedup();
        // An event that is not understood here may bring the agent back.
        let is_over = is_over(agent.state) && agent.needs.is_none() && ours.knows(agent);
        let item = item(agent, &links, &commits, is_over);
        let doomed = is_over.then(|| Doomed {
            spawn_commit: agent.spawn_commit,
            links: links.iter().map(|link| link.link).collect(),
            commits,
        });
        (item, doomed)
    });
    Ok(ExpiryPlan {
        items: items.collect(),
    })
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
    let new = doomed.commits.iter().filter(|oid| !said.contains(*oid));
    let new: Vec<Oid> = new.copied().collect();
    // A line of the ledger is short.
    for commits in new.chunks(NAMED) {
        let commits = commits.to_vec();
        // The agent may have been brought back since the plan.
        ledger.append_if(doomed.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
            if row.is_some_and(|row| is_over(row.state)) {
                Ok(What::Expired {
                    commits: commits.clone(),
                })
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

fn item(agent: &Agent, links: &[Passing], commits: &[Oid], is_doomed: bool) -> SalvageItem {
    let seconds = links.iter().map(|link| link.seconds).max().unwrap_or(0);
    let kept = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    let state = agent.state;
    let (action, why) = if is_doomed {
        ("expire", format!("it was {state} and kept until now"))
    } else if is_over(state) {
        (
            "keep",
            format!("its row says {state}, which was not done in this clone"),
        )
    } else {
        ("keep", format!("it is {state}"))
    };
    SalvageItem {
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        state: agent.state.as_str(),
        action,
        why,
        kept_at: kept.to_rfc3339_opts(SecondsFormat::Secs, true),
        commits: commits.iter().map(|oid| oid.to_hex()).collect(),
    }
}
