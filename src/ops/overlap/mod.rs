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

mod merges;
mod order;
mod scopes;

use crate::agents::place::projects::owners_in;
use crate::agents::work::is_live;
use crate::agents::{Ctx, Scratch, Work, who::lookup};
use crate::domain::paths::code_owners::CodeOwners;
use crate::domain::{Agent, AgentId, Oid, RepoPath};
use crate::error::{Code, Error, Result};
use crate::ops::agent_report::{AgentRef, TargetReport};
use crate::ops::overlap::scopes::Changes;
use crate::ops::status;
use crate::wire::output::path_text::PathText;
pub use merges::MergeState;
use merges::Merges;
pub use order::OrderStep;
pub(crate) use order::order_of;
use scopes::ScopeComparison;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

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
    scopes: Option<ScopeComparison>,
    /// What each agent touched, as far as it is known.
    changes: BTreeMap<usize, Changes>,
    merges: Option<Merges>,
    /// What could not be found out, one sentence each.
    problems: Vec<(AgentId, String)>,
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
    // A caller that looks has such a directory already.
    if ctx.repo.is_scratch() {
        return work(ctx);
    }
    let scratch = Scratch::make(ctx, "overlap")?;
    work(&ctx.with_scratch_objects(scratch.path())?)
}

fn compare(ctx: &Ctx, options: &OverlapOptions) -> Result<OverlapReport> {
    let mut scene = Scene::look(ctx, options)?;
    if options.scopes {
        scene.scopes = Some(ScopeComparison::compare(ctx, &scene)?);
    }
    if options.changes || options.merge || options.order {
        scopes::gather(ctx, &mut scene)?;
    }
    if options.merge || options.order {
        let landing = if options.order { order::candidates(ctx, &scene) } else { Vec::new() };
        scene.merges = Some(Merges::try_out(ctx, &mut scene, landing)?);
    }
    let steps = if options.order { Some(order::order(ctx, &scene)?) } else { None };
    let owners = owners(ctx, &scene)?;
    report(ctx, &scene, options, (steps, &owners))
}

/// The owners that the branch of each agent names that has changes; each commit is read once.
fn owners(ctx: &Ctx, scene: &Scene) -> Result<HashMap<usize, Rc<CodeOwners>>> {
    let mut known: HashMap<Oid, Option<Rc<CodeOwners>>> = HashMap::new();
    let mut owners = HashMap::new();
    for index in scene.changes.keys() {
        let Some(tip) = scene.agent(*index)?.target_tip else {
            continue;
        };
        let found = match known.entry(tip) {
            Entry::Occupied(found) => found.get().clone(),
            Entry::Vacant(place) => {
                let found = owners_in(&ctx.repo, ctx.repo.tree_of(tip)?)?;
                place.insert(found.map(Rc::new)).clone()
            }
        };
        owners.extend(found.map(|found| (*index, found)));
    }
    Ok(owners)
}

impl Scene {
    fn look(ctx: &Ctx, options: &OverlapOptions) -> Result<Scene> {
        let ledger = ctx.ledger();
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
        // The older agent of a pair comes first, in every clone.
        agents.sort_unstable_by_key(|agent| (agent.started, agent.spawn_commit));
        let agents: Vec<Work> =
            agents.into_iter().map(|agent| Work::look_up(ctx, agent)).collect::<Result<_>>()?;
        Ok(Scene::of(ctx, agents, |agent| {
            chosen.is_empty() || chosen.contains(&agent.spawn_commit)
        }))
    }

    /// The scene of these agents; the pairs in it are those with an agent that is asked about.
    fn of(ctx: &Ctx, agents: Vec<Work>, is_asked: impl Fn(&Agent) -> bool) -> Scene {
        let asked: Vec<bool> = agents.iter().map(|live| is_asked(&live.agent)).collect();
        let mut pairs = Vec::new();
        for (one, is_asked) in asked.iter().enumerate() {
            let others =
                asked.iter().enumerate().skip(one + 1).filter(|(_, other)| *is_asked || **other);
            pairs.extend(others.map(|(two, _)| (one, two)));
        }
        let problem = |live: &Work| Some((live.agent.id, why_unknown(ctx, live)?.to_owned()));
        Scene {
            problems: agents.iter().filter_map(problem).collect(),
            changes: BTreeMap::new(),
            agents,
            pairs,
            scopes: None,
            merges: None,
        }
    }

    fn agent(&self, index: usize) -> Result<&Work> {
        let unknown = || Error::bug("a pair with an agent that is not compared");
        self.agents.get(index).ok_or_else(unknown)
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
        format!("agent {short} is {}; only live agents can overlap", agent.state),
    )
    .hint(format!("to see its history, run git agent show --log {short}")))
}

// The answer of `overlap`: `git-agent.overlap/3`.

/// The live agents and the pairs of them that overlap. Absent means not asked for, null that it could not
/// be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.overlap/3")]
pub struct OverlapReport {
    /// What was compared: some of `scopes`, `changes`, `merge`.
    pub compared: Vec<&'static str>,
    /// The agents, oldest first.
    pub agents: Vec<LiveAgent>,
    /// The pairs that have something in common, the older agent of each first.
    pub pairs: Vec<PairReport>,
    /// How what is done should land, first to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<OrderStep>>,
    /// What could not be found out.
    pub problems: Vec<OverlapProblem>,
}

/// One agent that was compared.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveAgent {
    /// Its names.
    #[serde(flatten)]
    pub agent: AgentRef,
    /// `running`, `done` or `failed`.
    pub state: &'static str,
    /// Whether a decision was put off.
    pub deferred: bool,
    /// Whether it may change files.
    pub edits: bool,
    /// The branch it lands on.
    pub target: Option<TargetReport>,
    /// How many paths it has touched since its base.
    pub touched: Option<Option<usize>>,
}

/// Two agents that have something in common.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairReport {
    /// The id of the older one.
    pub one_id: String,
    /// The id of the other one.
    pub two_id: String,
    /// What both may touch.
    pub scopes: Option<ScopesReport>,
    /// What both have touched.
    pub changes: Option<ChangesReport>,
    /// How their work merges.
    pub merge: Option<PairMergeReport>,
    /// Who owns what both have touched, by the `CODEOWNERS` of the branch that the older one lands on.
    pub owners: Option<Vec<String>>,
}

/// What two agents may both touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScopesReport {
    /// How many tracked paths.
    pub tracked: usize,
    /// The first of these.
    pub examples: Vec<PathText>,
    /// A path that both may write, tracked or not; null where it only could not be ruled out.
    pub example: Option<PathText>,
}

/// What two agents have both touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangesReport {
    /// The paths.
    pub paths: Vec<PathText>,
}

/// How the work of two agents merges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairMergeReport {
    /// `clean`, `conflicts` or `unrelated`.
    pub state: MergeState,
    /// The paths on which they conflict.
    pub conflicts: Vec<PathText>,
    /// Whether libgit2 answered in git's place.
    pub approximate: bool,
}

/// Something that could not be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OverlapProblem {
    /// Whom it is about.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// What is the matter.
    pub message: String,
}

impl OverlapReport {
    /// Whether some pair overlaps in the most telling of the things that were compared: a merge that
    /// conflicts, else the same path touched, else a path that both may touch. Or, in a landing order,
    /// whether an agent cannot land.
    pub fn has_collision(&self) -> bool {
        let stuck = |step: &OrderStep| step.state != MergeState::Clean;
        if self.order.as_ref().is_some_and(|order| order.iter().any(stuck)) {
            return true;
        }
        // The most telling of what was asked decides: scopes that meet are no collision where
        // merges were tried.
        self.pairs.iter().any(|pair| match self.compared.last() {
            Some(&"merge") => pair.conflicts(),
            Some(&"changes") => pair.changes.is_some(),
            _ => pair.scopes.is_some(),
        })
    }
}

impl PairReport {
    /// Whether a merge was tried and did not come out clean.
    pub fn conflicts(&self) -> bool {
        self.merge.as_ref().is_some_and(|merge| merge.state != MergeState::Clean)
    }
}

fn report(
    ctx: &Ctx,
    scene: &Scene,
    options: &OverlapOptions,
    (order, owners): (Option<Vec<OrderStep>>, &HashMap<usize, Rc<CodeOwners>>),
) -> Result<OverlapReport> {
    let compared =
        [("scopes", options.scopes), ("changes", options.changes), ("merge", options.merge)];
    let compared = compared.into_iter().filter_map(|(name, asked)| asked.then_some(name));
    let problems = scene.problems.iter().map(|(id, message)| OverlapProblem {
        agent_id: id.to_string(),
        short_id: id.short(),
        message: message.clone(),
    });
    let pairs = scene.pairs.iter().filter_map(|(one, two)| {
        let owners = owners.get(one).map(Rc::as_ref);
        pair(scene, options, (*one, *two), owners).transpose()
    });
    Ok(OverlapReport {
        compared: compared.collect(),
        agents: agents(ctx, scene, options.changes),
        pairs: pairs.collect::<Result<_>>()?,
        order,
        problems: problems.collect(),
    })
}

fn agents(ctx: &Ctx, scene: &Scene, changes: bool) -> Vec<LiveAgent> {
    let agents =
        scene.agents.iter().enumerate().map(|(index, live)| (live, scene.changes.get(&index)));
    agents
        .map(|(live, touched)| LiveAgent {
            agent: AgentRef::of(&live.agent),
            state: status::state(ctx, &live.agent).as_str(),
            deferred: live.agent.deferred,
            edits: live.policy.as_ref().is_some_and(|policy| policy.edits),
            target: { live.target.as_deref() }
                .map(|target| TargetReport::new(Some(target), live.target_tip)),
            touched: changes.then(|| touched.map(|touched| touched.paths.len())),
        })
        .collect()
}

/// What two agents have in common; `None` for nothing.
fn pair(
    scene: &Scene,
    options: &OverlapOptions,
    (one, two): (usize, usize),
    owners: Option<&CodeOwners>,
) -> Result<Option<PairReport>> {
    let text = |path: &RepoPath| PathText::from(path.as_bytes());
    let scopes = scene.scopes.as_ref().and_then(|scopes| scopes.common(one, two));
    let changes = match (scene.changes.get(&one), scene.changes.get(&two)) {
        (Some(one), Some(two)) if options.changes => one.common(two),
        _ => Vec::new(),
    };
    let merges = scene.merges.as_ref().filter(|_| options.merge);
    let merge = merges.and_then(|merges| merges.outcome(one, two));
    // A clean merge of work that has no path in common is nothing to tell.
    let merge = merge.filter(|merge| !merge.is_clean() || !changes.is_empty());
    if scopes.is_none() && changes.is_empty() && merge.is_none() {
        return Ok(None);
    }
    let owners = owners.map(|owners| owners.of(&changes));
    Ok(Some(PairReport {
        owners: owners.filter(|owners| !owners.is_empty()),
        one_id: scene.agent(one)?.agent.id.to_string(),
        two_id: scene.agent(two)?.agent.id.to_string(),
        scopes: scopes.map(|common| ScopesReport {
            tracked: common.tracked,
            examples: common.examples.iter().map(text).collect(),
            example: common.example.as_ref().map(text),
        }),
        changes: (!changes.is_empty()).then(|| ChangesReport {
            paths: changes.iter().map(|path| PathText::from(path.as_slice())).collect(),
        }),
        merge: merge.map(|merge| PairMergeReport {
            state: merge.state,
            conflicts: merge.conflicts.clone(),
            approximate: merge.approximate,
        }),
    }))
}
