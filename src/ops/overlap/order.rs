//! A landing order for what is done, tried out step by step.

use crate::agents::work::simulated;
use crate::agents::{Ctx, Work, life::at_work};
use crate::domain::landing::landing_order::most_without_conflict;
use crate::domain::{Oid, State, branch_name};
use crate::error::Result;
use crate::git::history::merge::{Stack, StackMerger};
use crate::git::{MergeResult, Repo};
use crate::ops::agent_report::{AgentRef, TargetReport};
use crate::ops::overlap::merges::{MergeState, Merges, PairOutcome};
use crate::ops::overlap::{Scene, scopes, with_scratch};
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use std::collections::BTreeMap;

/// One step of a landing order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OrderStep {
    /// Who lands.
    #[serde(flatten)]
    pub agent: AgentRef,
    /// The branch to land on.
    pub target: TargetReport,
    /// `clean`, `conflicts` or `unrelated`, after the steps before it.
    pub state: MergeState,
    /// The paths on which it conflicts.
    pub conflicts: Vec<PathText>,
    /// Whom it conflicts with on the other side of the choice.
    pub conflicts_with: Vec<AgentRef>,
    /// Why it stands here.
    pub why: String,
}

/// The agents that could land now: done and waiting for no answer, not deferred, with a branch here and one to land on.
pub(super) fn candidates(ctx: &Ctx, scene: &Scene) -> Vec<usize> {
    let up = |live: &Work| {
        let done = live.agent.state == State::Done && !live.agent.deferred;
        let waits = at_work::waits_for_answer(ctx.repo.common_dir(), &live.agent);
        done && !waits && live.tip.is_some() && live.target_tip.is_some()
    };
    let all = scene.agents.iter().enumerate();
    all.filter_map(|(index, live)| up(live).then_some(index)).collect()
}

/// The order in which judged work should land, as places in `works`. The tip of each is the commit that holds all of the
/// work; where none has a worktree, git objects alone are read.
///
/// # Errors
/// Those of git and the file system.
pub(crate) fn order_of(ctx: &Ctx, works: Vec<Work>) -> Result<Vec<usize>> {
    with_scratch(ctx, |ctx| {
        let mut scene = Scene::of(ctx, works, |_| true);
        let Scene { pairs, agents, .. } = &mut scene;
        let target = |at: &usize| agents.get(*at).map(|live| &live.target);
        // Work for different branches does not meet.
        pairs.retain(|(one, two)| target(one) == target(two));
        scopes::gather(ctx, &mut scene)?;
        let all: Vec<usize> = (0..scene.agents.len()).collect();
        let merges = Merges::try_out(ctx, &mut scene, Vec::new())?;
        let (first, later) = split(&merges, &all);
        Ok([first, later].concat())
    })
}

/// Those that land first, of which no two conflict, and those that conflict with one of these.
fn split(merges: &Merges, able: &[usize]) -> (Vec<usize>, Vec<usize>) {
    let first = most_without_conflict(able, |one, two| merges.conflict(one, two));
    let is_later = |index: &usize| !first.contains(index);
    let later = able.iter().copied().filter(is_later).collect();
    (first, later)
}

/// Orders the candidates, branch by branch.
pub(super) fn order(ctx: &Ctx, scene: &Scene) -> Result<Vec<OrderStep>> {
    let Some(merges) = &scene.merges else {
        return Ok(Vec::new());
    };
    let mut by_target: BTreeMap<(&str, Oid), Vec<usize>> = BTreeMap::new();
    for index in candidates(ctx, scene) {
        let live = scene.agent(index)?;
        let Some(tip) = live.target_tip else { continue };
        let touched = scene.changes.get(&index);
        let has_work = touched.is_some_and(|touched| !touched.paths.is_empty());
        if has_work && merges.commits.contains_key(&index) {
            let name = live.target.as_deref().unwrap_or_default();
            by_target.entry((name, tip)).or_default().push(index);
        }
    }
    let mut steps = Vec::new();
    for ((target, tip), agents) in by_target {
        steps.extend(order_for(ctx, scene, merges, target, tip, &agents)?);
    }
    Ok(steps)
}

fn order_for(
    ctx: &Ctx,
    scene: &Scene,
    merges: &Merges,
    target: &str,
    tip: Oid,
    agents: &[usize],
) -> Result<Vec<OrderStep>> {
    // What conflicts with the branch as it is lands in no order.
    let pairs: Vec<_> =
        agents.iter().map(|index| Ok((tip, merges.commit(*index)?))).collect::<Result<_>>()?;
    let alone: Vec<PairOutcome> =
        ctx.repo.merge_many(&pairs, tip)?.into_iter().map(PairOutcome::from).collect();
    let (able, stuck): (Vec<_>, Vec<_>) =
        agents.iter().zip(alone).partition(|(_, outcome)| outcome.is_clean());
    let able: Vec<usize> = able.into_iter().map(|(index, _)| *index).collect();
    let (first, later) = split(merges, &able);

    let order: Vec<usize> = first.iter().chain(&later).copied().collect();
    let commits: Vec<Oid> =
        order.iter().map(|index| merges.commit(*index)).collect::<Result<_>>()?;
    let mut trial = Trial::new(&ctx.repo, tip, &commits)?;
    let mut steps = Vec::new();
    for (at, (index, commit)) in order.iter().zip(commits).enumerate() {
        let others = if first.contains(index) { &later } else { &first };
        let against = others
            .iter()
            .filter(|other| merges.conflict(*index, **other))
            .map(|other| Ok(AgentRef::of(&scene.agent(*other)?.agent)));
        let conflicts_with: Vec<AgentRef> = against.collect::<Result<_>>()?;
        let outcome = trial.land(at, commit)?;
        steps.push(OrderStep {
            why: why(first.contains(index), &outcome, !conflicts_with.is_empty()),
            conflicts_with,
            ..step(scene.agent(*index)?, target, outcome)
        });
    }
    for (index, outcome) in stuck {
        let why = format!("conflicts with {} as it is", branch_name(target));
        steps.push(OrderStep { why, ..step(scene.agent(*index)?, target, outcome) });
    }
    Ok(steps)
}

fn step(live: &Work, target: &str, outcome: PairOutcome) -> OrderStep {
    OrderStep {
        agent: AgentRef::of(&live.agent),
        target: TargetReport::new(Some(target), live.target_tip),
        state: outcome.state,
        conflicts: outcome.conflicts,
        conflicts_with: Vec::new(),
        why: String::new(),
    }
}

fn why(is_first: bool, outcome: &PairOutcome, is_contested: bool) -> String {
    let why = match (is_first, is_contested, outcome.is_clean()) {
        (true, false, true) => "conflicts with no other",
        (true, true, true) => "goes before what it conflicts with",
        (true, _, false) => "conflicts with what lands before it, taken together",
        (false, _, true) => "merges after all with what it conflicts with",
        (false, _, false) => "waits for what it conflicts with",
    };
    why.to_owned()
}

/// The branch to land on, with what has landed on trial.
struct Trial<'r> {
    repo: &'r Repo,
    merger: StackMerger<'r>,
    stack: Stack,
}

impl<'r> Trial<'r> {
    fn new(repo: &'r Repo, tip: Oid, commits: &[Oid]) -> Result<Trial<'r>> {
        Ok(Trial {
            repo,
            merger: StackMerger::new(repo, tip, commits)?,
            stack: Stack { commit: tip, tree: repo.tree_of(tip)?, members: Vec::new() },
        })
    }

    /// Merges one more; what conflicts is left out.
    fn land(&mut self, at: usize, commit: Oid) -> Result<PairOutcome> {
        let merge = self.merger.merge(&self.stack, at)?;
        // What conflicts is left out, and the next one is tried on what has landed without it.
        if let MergeResult::Clean { tree } = merge.result {
            let parents = [self.stack.commit, commit];
            self.stack.commit = simulated(self.repo, tree, &parents)?;
            self.stack.tree = tree;
            self.stack.members.push(at);
        }
        Ok(PairOutcome::from(merge))
    }
}
