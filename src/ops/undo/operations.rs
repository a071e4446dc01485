//! The operations that rows tell of: which there are, what each moved, and which is meant.

use crate::agents::context::ctx::Ctx;
use crate::agents::who::lookup;
use crate::domain::life::agent::Agent;
use crate::domain::life::event::{Event, What};
use crate::domain::life::id::{AgentId, OperationId};
use crate::domain::life::operation::{retreat, taken_back};
use crate::domain::value::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::refs::Tip;
use crate::ops::agent_report::{AgentRef, rfc3339};
use crate::ops::undo::{BranchMoveReport, ListedOperation, OperationsReport};
use crate::store::files::place::is_of_this_clone;
use chrono::{DateTime, Utc};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Where a branch was moved, or would be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BranchMove {
    pub(super) refname: String,
    pub(super) from: Oid,
    pub(super) to: Oid,
}

/// What an operation did to one agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A branch moved: that which work landed on, or the agent's own.
    Moved(BranchMove),
    /// Its worktree and its branch were removed.
    Removed,
    /// They were brought back.
    Restored,
    /// Its row alone was changed.
    Decided,
    /// Nothing but its verdict: a part of what was done to other agents, as by a train, and on its own no act.
    Judged,
}

/// What one operation did to one agent.
#[derive(Clone, Debug)]
pub(super) struct RowPart {
    pub(super) spawn_commit: Oid,
    pub(super) effects: Vec<Effect>,
    /// What it is called that was done: the kinds of the events.
    pub(super) kinds: Vec<String>,
    /// A later operation that decided something about the agent, and counts.
    pub(super) built_upon: Option<OperationId>,
    pub(super) is_taken_back: bool,
    /// Whether this clone wrote it.
    is_own: bool,
}

/// What keeps an operation from being taken back.
pub(super) enum Obstacle {
    /// It was done in another clone, where its branches and worktrees are.
    OtherClone,
    /// It made an agent or ran a command too.
    MadeOrRan,
    /// All of it is taken back.
    TakenBack,
    /// About the agent with this spawn commit something was decided later, by this operation, that counts.
    BuiltUpon(Oid, OperationId),
}

impl Obstacle {
    /// How an answer spells it.
    fn as_str(&self) -> &'static str {
        match self {
            Obstacle::OtherClone => "other-clone",
            Obstacle::MadeOrRan => "made-or-ran",
            Obstacle::TakenBack => "undone",
            Obstacle::BuiltUpon(..) => "built-upon",
        }
    }
}

/// What one command wrote.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) id: OperationId,
    pub(super) at: DateTime<Utc>,
    pub(super) by: String,
    /// The number of the clone that it was done in, as its rows say.
    clone: u16,
    /// Whether this clone did it.
    is_own: bool,
    pub(super) parts: Vec<RowPart>,
    /// Whether it made or ran an agent too, which is not taken back.
    pub(super) is_more: bool,
}

impl RowPart {
    /// Whether nothing was done to the agent but that its work was judged.
    pub(super) fn is_judged_only(&self) -> bool {
        self.effects == [Effect::Judged]
    }
}

impl Operation {
    /// Whether something of it still counts and can be taken back.
    pub(super) fn is_open(&self) -> bool {
        !self.is_more && self.parts.iter().any(|part| !part.is_taken_back)
    }

    /// Why it is not taken back in this clone, as far as rows tell. `undo` and its list ask this and nothing else.
    pub(super) fn obstacle(&self) -> Option<Obstacle> {
        let mut open = self.parts.iter().filter(|part| !part.is_taken_back);
        if !self.is_own {
            Some(Obstacle::OtherClone)
        } else if self.is_more {
            Some(Obstacle::MadeOrRan)
        } else if open.clone().next().is_none() {
            Some(Obstacle::TakenBack)
        } else {
            open.find_map(|part| {
                Some(Obstacle::BuiltUpon(part.spawn_commit, part.built_upon.clone()?))
            })
        }
    }

    /// Where it moved each branch, as far as that is not taken back.
    fn open_moves(&self) -> BTreeMap<&str, Vec<(Oid, Oid)>> {
        let open = self.parts.iter().filter(|part| !part.is_taken_back);
        let mut moves: BTreeMap<&str, Vec<(Oid, Oid)>> = BTreeMap::new();
        for one in open.flat_map(|part| &part.effects).filter_map(Effect::branch_move) {
            moves.entry(&one.refname).or_default().push((one.from, one.to));
        }
        moves
    }

    /// Whether it took something back itself.
    pub(super) fn is_undo(&self) -> bool {
        let kinds = self.parts.iter().flat_map(|part| &part.kinds);
        kinds.into_iter().all(|kind| kind == "undone")
    }

    fn is_of_agent(&self) -> bool {
        AgentId::parse(&self.by).is_some()
    }
}

/// Every operation that changed something which can be taken back, newest first.
pub(super) fn all(ctx: &Ctx) -> Result<Vec<Operation>> {
    let rows = ctx.ledger().select_by_origin(|key, events, own| {
        let makes =
            |(event, is_own): &(&Event, &bool)| **is_own && matches!(event.what, What::Spawning(_));
        let made =
            events.iter().zip(own).find(makes).and_then(|(event, _)| event.operation.clone());
        let parts = parts(ctx, key, events, own);
        (made.is_some() || !parts.is_empty()).then_some((made, parts))
    })?;
    let (made, rows): (HashSet<Option<OperationId>>, Vec<_>) = rows.into_iter().unzip();
    let mut rows: Vec<_> = rows.into_iter().flatten().collect();
    // What another clone wrote under the id of an operation of this one is no part of that.
    rows.sort_by_key(|(_, _, part)| !part.is_own);
    let mut operations: BTreeMap<OperationId, Operation> = BTreeMap::new();
    for (last, is_more, part) in rows {
        let Some(id) = last.operation.clone() else {
            continue;
        };
        let operation = operations.entry(id.clone()).or_insert_with(|| Operation {
            id,
            at: last.at.time(),
            by: last.by.clone(),
            clone: last.at.clone_number(),
            is_own: part.is_own,
            parts: Vec::new(),
            is_more: false,
        });
        if operation.is_own != part.is_own {
            continue;
        }
        // It is as old as its last event, in whatever row that is.
        operation.at = operation.at.max(last.at.time());
        operation.is_more |= is_more;
        operation.parts.push(part);
    }
    let mut operations: Vec<Operation> = operations.into_values().collect();
    // A verdict alone is no act: the same work would be judged alike again.
    operations.retain(|operation| !operation.parts.iter().all(RowPart::is_judged_only));
    for operation in &mut operations {
        // What made one agent and decided about another, as a retry does, is not taken back by half.
        operation.is_more |= made.contains(&Some(operation.id.clone()));
    }
    operations.sort_by(|one, other| (other.at, &other.id).cmp(&(one.at, &one.id)));
    Ok(operations)
}

/// What each operation did to the agent of one row, with its last event there and whether it did more than can be taken back.
fn parts(
    ctx: &Ctx,
    spawn_commit: Oid,
    events: &[Event],
    own: &[bool],
) -> Vec<(Event, bool, RowPart)> {
    let undone = taken_back(events);
    let written = events.iter().zip(own);
    let ours = written.clone().filter(|(_, is_own)| **is_own);
    let ours: HashSet<_> = ours.filter_map(|(event, _)| event.operation.as_ref()).collect();
    let mut order: Vec<&OperationId> = Vec::new();
    let mut members: HashMap<&OperationId, Vec<&Event>> = HashMap::new();
    for (event, is_own) in written {
        let Some(operation) = &event.operation else {
            continue;
        };
        if *is_own != ours.contains(operation) {
            continue;
        }
        let of_it = members.entry(operation).or_default();
        if of_it.is_empty() {
            order.push(operation);
        }
        of_it.push(event);
    }
    let row = RowEffects { ctx, spawn_commit, members: &members, agent: OnceCell::new() };
    let mut parts = Vec::new();
    // A change of the name decides nothing, and stands in the way of another one alone.
    let (mut later, mut later_decision): (Option<&OperationId>, Option<&OperationId>) =
        (None, None);
    let (mut is_gone, mut is_back) = (false, false);
    let mut went_on = false;
    // Backwards, so that the next later operation that counts is known at each one.
    for operation in order.into_iter().rev() {
        let effects = row.of(operation, 0);
        let Some(of_it @ [.., last]) = members.get(operation).map(Vec::as_slice) else {
            continue;
        };
        let is_own = ours.contains(operation);
        is_back |= is_own && of_it.iter().any(|event| event.what.brings_back());
        let is_judged_only = effects == [Effect::Judged];
        let had_gone_on = went_on;
        went_on |= of_it.iter().any(|event| matches!(event.what, What::Started(_)));
        // A verdict that something came after holds no more, and keeps nothing from being taken back.
        if effects.is_empty() || is_judged_only && (had_gone_on || later.is_some()) {
            continue;
        }
        // What also spawned or ran something did more than can be taken back.
        let is_more =
            of_it.iter().any(|event| matches!(event.what, What::Spawning(_) | What::Started(_)));
        let renames = |event: &&Event| matches!(event.what, What::Renamed { .. });
        let is_undo = of_it.iter().any(|event| matches!(event.what, What::Undone { .. }));
        let mut kinds: Vec<String> = of_it
            .iter()
            .filter(|event| is_reversible(&event.what))
            .map(|event| event.what.kind().to_owned())
            .collect();
        kinds.dedup();
        // A discard takes back what brought the worktree back, whether it was an undo of that or a new one.
        let is_gone_again = is_gone && effects.contains(&Effect::Restored);
        // And what brought it back otherwise takes back the discard before that.
        let is_removed = effects.contains(&Effect::Removed);
        let is_back_again = is_removed && std::mem::take(&mut is_back);
        let is_taken_back = undone.contains(operation) || is_gone_again || is_back_again;
        is_gone |= !is_taken_back && is_removed;
        let part = RowPart {
            spawn_commit,
            effects,
            kinds,
            built_upon: if of_it.iter().any(renames) { later } else { later_decision }.cloned(),
            is_taken_back,
            is_own,
        };
        parts.push(((*last).clone(), is_more, part));
        // What was taken back, and what takes back, is nothing that could stand on it.
        if !is_taken_back && !is_undo && !is_judged_only {
            later = Some(operation);
            if !of_it.iter().filter(|event| is_reversible(&event.what)).all(renames) {
                later_decision = later;
            }
        }
    }
    parts
}

/// Whether an event is one of those for which there is an undo.
fn is_reversible(what: &What) -> bool {
    match what {
        // Rows of earlier versions do not say what landed.
        What::Merged { tip, .. } => tip.is_some(),
        What::Undone { .. } => true,
        What::Verified(_) => false,
        what => what.is_decision(),
    }
}

struct RowEffects<'r> {
    ctx: &'r Ctx,
    spawn_commit: Oid,
    members: &'r HashMap<&'r OperationId, Vec<&'r Event>>,
    /// The agent, once it was asked for.
    agent: OnceCell<Option<Agent>>,
}

impl RowEffects<'_> {
    /// What an operation did. One that took another back did the opposite of that; no row of ours has more than a few of
    /// them upon each other.
    fn of(&self, operation: &OperationId, depth: usize) -> Vec<Effect> {
        let events = self.members.get(operation).map_or(&[][..], Vec::as_slice);
        let lands = |event: &&&Event| matches!(event.what, What::Merged { .. });
        let is_landing = events.iter().any(|event| lands(&event));
        let keeps = |event: &&Event| matches!(event.what, What::Salvaged { .. });
        let mut effects = Vec::new();
        for event in events {
            match &event.what {
                What::Merged { commit, into, tip: Some(_), from } => {
                    effects.push(from.map_or(Effect::Decided, |from| {
                        // Without it the branch had the work already, and only the row said so.
                        Effect::Moved(BranchMove { refname: into.clone(), from, to: *commit })
                    }))
                }
                // A landing commits the uncommitted work first, and that commit goes where the
                // landing goes.
                What::Committed { commit, .. } if !is_landing => {
                    effects.extend(self.update(*commit).map(Effect::Moved));
                }
                // Of an agent of another clone nothing was here, and only the row says so.
                What::Discarded { tip: None } if !events.iter().any(keeps) && !self.is_here() => {
                    effects.push(Effect::Decided);
                }
                What::Discarded { .. } => effects.push(Effect::Removed),
                What::Undone { revert: Some(commit), operation } => {
                    effects.extend(self.revert(operation, *commit))
                }
                // A row from elsewhere may say that an undo took itself back.
                What::Undone { operation, .. } if depth < 8 => {
                    let inverse = self.of(operation, depth + 1).into_iter().map(inverted);
                    effects.extend(inverse);
                }
                What::Done { .. }
                | What::Failed { .. }
                | What::Rejected { .. }
                | What::Deferred { .. }
                | What::Amended { .. }
                | What::Renamed { .. } => effects.push(Effect::Decided),
                What::Audited(audit) if audit.auditor.is_none() => effects.push(Effect::Decided),
                _ => {}
            }
        }
        let is_judged = |event: &&Event| matches!(event.what, What::Verified(_));
        if effects.is_empty() && events.iter().any(is_judged) {
            effects.push(Effect::Judged);
        }
        effects
    }

    /// How an update moved the agent's branch: by a merge. What else is committed is work, which no undo takes back.
    fn update(&self, commit: Oid) -> Option<BranchMove> {
        let parents = self.ctx.repo.read_commit(commit).ok()?.parents;
        // An update is a merge; any other commit of the agent is its own work.
        let [from, _] = parents[..] else {
            return None;
        };
        Some(BranchMove { refname: self.agent()?.branch.clone()?, from, to: commit })
    }

    fn agent(&self) -> Option<&Agent> {
        let agent = self.agent.get_or_init(|| {
            let agent = self.ctx.ledger().agent(self.spawn_commit);
            agent.ok().flatten()
        });
        agent.as_ref()
    }

    /// Whether the agent was spawned in this clone.
    fn is_here(&self) -> bool {
        let clone = self.ctx.ledger().clone_number().ok().flatten();
        let common = self.ctx.repo.common_dir();
        self.agent().is_some_and(|agent| is_of_this_clone(common, clone, agent))
    }

    fn revert(&self, operation: &OperationId, commit: Oid) -> Option<Effect> {
        let into = self.landed_on(operation, 0)?;
        let from = *self.ctx.repo.read_commit(commit).ok()?.parents.first()?;
        Some(Effect::Moved(BranchMove { refname: into, from, to: commit }))
    }

    /// The branch that an operation landed on, or that of the landing which it took back or did again.
    fn landed_on(&self, operation: &OperationId, depth: usize) -> Option<String> {
        self.members.get(operation)?.iter().find_map(|event| match &event.what {
            What::Merged { into, .. } => Some(into.clone()),
            // As in [`RowEffects::of`].
            What::Undone { operation, .. } if depth < 8 => self.landed_on(operation, depth + 1),
            _ => None,
        })
    }
}

fn inverted(effect: Effect) -> Effect {
    match effect {
        Effect::Moved(BranchMove { refname, from, to }) => {
            Effect::Moved(BranchMove { refname, from: to, to: from })
        }
        Effect::Removed => Effect::Restored,
        Effect::Restored => Effect::Removed,
        Effect::Decided => Effect::Decided,
        Effect::Judged => Effect::Judged,
    }
}

/// The operation that is meant: the one of that id, or the newest that can be taken back, of an agent or of this clone. Only
/// what was done to that agent is left in it where an agent is named.
///
/// # Errors
/// `operation-unknown`, `agent-unknown`, `agent-ambiguous`; those of the ledger.
pub(super) fn meant(ctx: &Ctx, what: Option<&str>) -> Result<Operation> {
    let all = all(ctx)?;
    let ledger = ctx.ledger();
    let is_own = |operation: &&Operation| {
        // What another clone did is taken back there, where its branches and worktrees are.
        operation.is_own && operation.is_open() && !operation.is_undo()
    };
    let unknown = |message: String| {
        Error::new(Code::OperationUnknown, message)
            .hint("to see what can be taken back, run git agent undo --list")
    };
    match what {
        None => {
            // What an agent did itself is nothing that its user has just done.
            let mut own = all.iter().filter(is_own).filter(|it| !it.is_of_agent());
            let newest = own.next().cloned();
            newest.ok_or_else(|| {
                let error = unknown("nothing was done here that could be taken back".into());
                // What was taken back just now is done again by its id alone: a second call is no way forward and back.
                let mut undone = all.iter().filter(|it| it.is_own && it.is_open() && it.is_undo());
                match undone.next() {
                    Some(undo) => error.hint(format!(
                        "to do again what was taken back last, run git agent undo {}",
                        undo.id
                    )),
                    None => error,
                }
            })
        }
        Some(id) if id.starts_with(OperationId::PREFIX) => {
            let mut found = all.into_iter().filter(|it| it.id.as_str().starts_with(id));
            match (found.next(), found.next()) {
                (Some(operation), None) => Ok(operation),
                (Some(_), Some(_)) => {
                    Err(unknown(format!("more than one operation begins with {id}")))
                }
                (None, _) => {
                    Err(unknown(format!("no operation that can be taken back is called {id}")))
                }
            }
        }
        Some(who) => {
            let agent = lookup::agent(ctx, &ledger, who)?;
            let mut own = all.into_iter().filter(|operation| is_own(&operation));
            let newest = own.find_map(|mut operation| {
                let is_its =
                    |part: &RowPart| part.spawn_commit == agent.spawn_commit && !part.is_taken_back;
                operation.parts.retain(is_its);
                (!operation.parts.is_empty()).then_some(operation)
            });
            newest.ok_or_else(|| {
                let id = agent.id.short();
                unknown(format!("nothing that was done here to agent {id} can be taken back"))
            })
        }
    }
}

/// What was done, newest first, across clones.
///
/// # Errors
/// Those of the ledger.
pub fn list(ctx: &Ctx) -> Result<OperationsReport> {
    let ledger = ctx.ledger();
    let agents: HashMap<Oid, Agent> =
        ledger.agents()?.into_iter().map(|agent| (agent.spawn_commit, agent)).collect();
    let all = all(ctx)?;
    let mut tips: HashMap<String, Tip> = HashMap::new();
    // A branch that has gone on is seen from where it is. What else holds a landing is not asked here: that walks the history of every
    // ref.
    let mut has_gone_on = |operation: &Operation| -> Result<bool> {
        for (refname, moves) in operation.open_moves() {
            let tip = match tips.get(refname) {
                Some(tip) => *tip,
                None => *tips.entry(refname.to_owned()).or_insert(ctx.repo.branch_tip(refname)?),
            };
            if tip.oid().is_none_or(|tip| retreat(tip, &moves).is_none()) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let listed = all.into_iter().map(|operation| {
        let parts = || operation.parts.iter();
        let mut kinds: Vec<String> = parts().flat_map(|part| part.kinds.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let moves = parts().flat_map(|part| &part.effects);
        let moves = joined(moves.filter_map(Effect::branch_move).cloned().collect());
        let obstacle = match operation.obstacle() {
            Some(obstacle) => Some(obstacle.as_str()),
            None => has_gone_on(&operation)?.then_some("built-upon"),
        };
        Ok(ListedOperation {
            operation: operation.id.to_string(),
            recorded_at: rfc3339(operation.at),
            by: operation.by.clone(),
            clone: format!("{:04x}", operation.clone),
            events: kinds,
            agents: { parts().filter_map(|part| agents.get(&part.spawn_commit)) }
                .map(AgentRef::of)
                .collect(),
            moves: moves.iter().map(BranchMoveReport::from).collect(),
            undone: parts().all(|part| part.is_taken_back),
            undoable: obstacle.is_none(),
            obstacle,
        })
    });
    let operations = listed.collect::<Result<_>>()?;
    Ok(OperationsReport { schema: "git-agent.operations/1", operations })
}

/// Moves of which one ends where the next begins are one.
fn joined(mut moves: Vec<BranchMove>) -> Vec<BranchMove> {
    let mut joined: Vec<BranchMove> = Vec::new();
    // Several agents of one train moved the branch step by step, and it moves back at once.
    while let Some(mut one) = moves.pop() {
        while let Some(place) =
            moves.iter().position(|it| it.refname == one.refname && it.from == one.to)
        {
            one.to = moves.swap_remove(place).to;
        }
        while let Some(place) =
            moves.iter().position(|it| it.refname == one.refname && it.to == one.from)
        {
            one.from = moves.swap_remove(place).from;
        }
        joined.push(one);
    }
    joined.sort_unstable();
    joined
}

impl Effect {
    /// The branch that moved.
    pub(super) fn branch_move(&self) -> Option<&BranchMove> {
        match self {
            Effect::Moved(one) => Some(one),
            _ => None,
        }
    }
}
