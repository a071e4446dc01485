//! `overlap`: which live agents get in each other's way, before anything lands.
//!
//! ```text
//! ledger -> [Work] -> scopes:  languages meet? which tracked paths?      (policies and one tree)
//!                  -> changes: the same paths since their bases?           (trees and `git status`)
//!                  -> merge:   do the pairs that are near each other merge (git merge-tree, remembered)
//!                  -> order:   the most that can land without a conflict, tried out step by step
//! ```
//!
//! Cheapest first: only pairs whose changes are near each other are merged. Nothing here decides
//! anything: what lands is judged by `verify` and `merge`. Objects for work that is not committed and for merges are
//! written to a temporary directory; merges are remembered in the disposable cache.
//!
//! Deliberately absent: agents that may change nothing have no scope here, and what one agent did to the
//! branch it lands on is `verify`'s business unless an order is asked for.

mod cache;
mod changes;
mod merges;
mod order;
mod report;
mod scopes;

pub use merges::MergeState;
pub use order::Step;
pub(crate) use order::order_of;
pub use report::{
    ChangesReport, LiveAgent, MergeReport, OverlapReport, PairReport, Problem, ScopesReport,
};

use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::agents::scratch::Scratch;
use crate::agents::work::{Work, is_live};
use crate::domain::agent::Agent;
use crate::error::{Code, Error, Result};
use crate::store::ledger::Ledger;
use changes::Changes;
use merges::Merges;
use scopes::Scopes;
use std::collections::BTreeSet;

/// What the caller asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OverlapOptions {
    /// One agent: it against all others. Several: among themselves. None: everybody.
    pub agents: Vec<String>,
    /// Compare scopes.
    pub scopes: bool,
    /// Compare changes.
    pub changes: bool,
    /// Try merges.
    pub merge: bool,
    /// Work out a landing order.
    pub order: bool,
}

/// Everything that was looked at: the agents, and what was found out about them.
struct Scene {
    agents: Vec<Work>,
    /// The pairs that are asked about, each with the older agent first.
    pairs: Vec<(usize, usize)>,
    scopes: Option<Scopes>,
    /// One per agent.
    changes: Vec<Option<Changes>>,
    merges: Option<Merges>,
    /// What could not be found out, one sentence each.
    problems: Vec<(usize, String)>,
}

/// Compares live agents.
///
/// # Errors
/// `agent-unknown`; `agent-state` for an agent that is named and no longer live; those of git and the
/// file system.
pub fn overlap(ctx: &Ctx, options: &OverlapOptions) -> Result<OverlapReport> {
    if options.changes || options.merge || options.order {
        with_scratch(ctx, |ctx| compare(ctx, options))
    } else {
        compare(ctx, options)
    }
}

/// Calls `work` where the objects that it writes are not kept.
fn with_scratch<T>(ctx: &Ctx, work: impl FnOnce(&Ctx) -> Result<T>) -> Result<T> {
    if ctx.repo.is_scratch() {
        return work(ctx);
    }
    let scratch = Scratch::make(ctx, "overlap")?;
    work(&ctx.with_scratch_objects(scratch.path())?)
}

fn compare(ctx: &Ctx, options: &OverlapOptions) -> Result<OverlapReport> {
    let mut scene = Scene::look(ctx, options)?;
    if options.scopes {
        scene.scopes = Some(Scopes::compare(ctx, &scene)?);
    }
    if options.changes || options.merge || options.order {
        changes::gather(ctx, &mut scene)?;
    }
    if options.merge || options.order {
        let landing = if options.order {
            order::candidates(&scene)
        } else {
            Vec::new()
        };
        scene.merges = Some(Merges::try_out(ctx, &mut scene, landing)?);
    }
    let steps = if options.order {
        Some(order::order(ctx, &scene)?)
    } else {
        None
    };
    Ok(report::report(&scene, options, steps))
}

impl Scene {
    fn look(ctx: &Ctx, options: &OverlapOptions) -> Result<Scene> {
        let ledger = Ledger::new(&ctx.repo);
        let mut chosen = BTreeSet::new();
        for who in &options.agents {
            let agent = lookup::agent(ctx, &ledger, who)?;
            require_live(&agent)?;
            chosen.insert(agent.spawn_commit);
        }
        let mut agents = ledger.agents()?;
        agents.retain(is_live);
        // An order is one among those that are named, even of one.
        if chosen.len() > 1 || options.order && !chosen.is_empty() {
            agents.retain(|agent| chosen.contains(&agent.spawn_commit));
        }
        agents.sort_by_key(|agent| (agent.started, agent.spawn_commit));
        let agents: Vec<Work> = agents
            .into_iter()
            .map(|agent| Work::look_up(ctx, agent))
            .collect::<Result<_>>()?;
        Ok(Scene::of(ctx, agents, |agent| {
            chosen.is_empty() || chosen.contains(&agent.spawn_commit)
        }))
    }

    /// The scene of these agents; the pairs in it are those with an agent that is asked about.
    fn of(ctx: &Ctx, agents: Vec<Work>, is_asked: impl Fn(&Agent) -> bool) -> Scene {
        let asked = |index: usize| is_asked(&agents[index].agent);
        let pairs = (0..agents.len())
            .flat_map(|one| (one + 1..agents.len()).map(move |two| (one, two)))
            .filter(|(one, two)| asked(*one) || asked(*two))
            .collect();
        let problems = agents.iter().enumerate();
        let problems = problems
            .filter_map(|(index, live)| Some((index, why_unknown(ctx, live)?.to_owned())))
            .collect();
        Scene {
            changes: agents.iter().map(|_| None).collect(),
            agents,
            pairs,
            scopes: None,
            merges: None,
            problems,
        }
    }
}

/// Why it is unknown what an agent may touch; `None` where it is known.
fn why_unknown(ctx: &Ctx, live: &Work) -> Option<&'static str> {
    match (&live.policy, live.agent.binding_policy()) {
        (Some(_), _) => None,
        (None, Some(blob)) if !ctx.repo.is_at_hand(blob) => Some("its scope is not in this clone"),
        (None, _) => Some("this version cannot read its scope"),
    }
}

fn require_live(agent: &Agent) -> Result<()> {
    if is_live(agent) {
        return Ok(());
    }
    let short = agent.id.short();
    Err(Error::new(
        Code::AgentState,
        format!(
            "agent {short} is {}; only live agents can overlap",
            agent.state
        ),
    )
    .hint(format!(
        "to see its history, run git agent show --log {short}"
    )))
}
