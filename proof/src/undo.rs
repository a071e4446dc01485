//! `undo` and redo of landings, beside people who commit and processes that die.
//!
//! Rows are real events: which operations are taken back, and what the agents are then, is read by the product's rules, and where the branch
//! goes is decided by `domain::operation::retreat`.

use crate::Outcome;
use crate::rows::{Line, Said, fold, oid};
use git_agent::domain::life::agent::{Move, State as AgentState};
use git_agent::domain::life::operation::retreat;
use stateright::{Model, Property};

/// What an undo leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves the branch although something was built on the landing.
    MovesWhatWasBuiltUpon,
    /// It moves the branch wherever that is by now.
    SwapsWithoutCompare,
    /// It writes the row before the branch moves.
    RecordsFirst,
}

pub struct World(pub Option<Fault>);

/// A commit of the branch: who made it, and what it stands on, is the list of those below it.
type Branch = Vec<Commit>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Commit {
    /// Brings the work of that agent.
    Landing(u8),
    /// A person's.
    Person(u8),
}

/// Where a process is that undoes or lands something.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Idle,
    /// It takes that operation back, and moves the branch from one place to another.
    Planned(u8, Branch, Branch),
    /// The branch has moved.
    Moved(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    branch: Branch,
    /// What each agent's row says. Operation 1 lands agent 0, operation 2 agent 1; later ones are undos.
    rows: [Vec<Line>; 2],
    at: At,
    operations: u8,
    undos: u8,
    commits: u8,
    deaths: u8,
    /// What the branch was at when each agent landed.
    bases: [Option<Branch>; 2],
    /// Whether the branch was as the rows say when they were written.
    is_true: bool,
    /// Whether each move of the branch left all that people committed where it was.
    is_kept: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Land(usize),
    Commit,
    Plan(u8),
    Move,
    Record,
    Die,
}

/// The name of what a branch is at.
fn tip(branch: &[Commit]) -> git_agent::domain::value::oid::Oid {
    let mut number = 1;
    for commit in branch {
        number = number * 5
            + match commit {
                Commit::Landing(agent) => 1 + agent,
                Commit::Person(count) => 3 + count,
            };
    }
    oid(number)
}

impl World {
    /// The agent that an operation is about, and the operation that it comes to: a landing, or the undo of one.
    fn subject(state: &State, operation: u8) -> Option<(usize, bool)> {
        let at =
            state.rows.iter().position(|lines| lines.iter().any(|line| line.0 == operation))?;
        let line = state.rows[at].iter().find(|line| line.0 == operation)?;
        match line.1 {
            Said::Merged(_) => Some((at, true)),
            Said::Undone(other) => World::subject(state, other).map(|(at, lands)| (at, !lands)),
            _ => None,
        }
    }

    fn has_landed(state: &State, agent: usize) -> bool {
        fold(agent as u8, &state.rows[agent]).state == AgentState::Merged
    }

    /// Where the branch goes when an operation is taken back: to before the landing, or to it again.
    fn goal(&self, state: &State, agent: usize, lands: bool) -> Option<Branch> {
        let without = state.bases[agent].clone()?;
        let mut with = without.clone();
        with.push(Commit::Landing(agent as u8));
        let (from, to) = if lands { (without, with) } else { (with, without) };
        let moves = [(tip(&from), tip(&to))];
        let goes = retreat(tip(&state.branch), &moves) == Some(tip(&from));
        (goes || self.0 == Some(Fault::MovesWhatWasBuiltUpon)).then_some(from)
    }

    /// Writes that an operation was taken back.
    fn record(next: &mut State, operation: u8) -> Option<()> {
        let (agent, lands) = World::subject(next, operation)?;
        let is_there = next.branch.contains(&Commit::Landing(agent as u8));
        next.is_true &= is_there != lands;
        next.operations += 1;
        next.undos -= 1;
        next.rows[agent].push((next.operations, Said::Undone(operation)));
        Some(())
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            branch: Vec::new(),
            rows: [vec![(8, Said::Done)], vec![(9, Said::Done)]],
            at: At::Idle,
            operations: 9,
            undos: 3,
            commits: 1,
            deaths: 1,
            bases: [None, None],
            is_true: true,
            is_kept: true,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.commits > 0 {
            steps.push(Step::Commit);
        }
        match state.at {
            At::Idle => {
                for agent in 0..2 {
                    if !state.rows[agent].iter().any(|line| line.0 == 1 + agent as u8) {
                        steps.push(Step::Land(agent));
                    }
                }
                if state.undos > 0 {
                    steps.extend((1..3).chain(10..=state.operations).map(Step::Plan));
                }
            }
            At::Planned(..) => steps.push(Step::Move),
            At::Moved(..) => steps.push(Step::Record),
        }
        if state.at != At::Idle && state.deaths > 0 {
            steps.push(Step::Die);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Land(agent) => {
                let row = fold(agent as u8, &state.rows[agent]);
                row.may(Move::Merge).ok()?;
                next.bases[agent] = Some(state.branch.clone());
                next.branch.push(Commit::Landing(agent as u8));
                next.rows[agent].push((1 + agent as u8, Said::Merged(0)));
            }
            Step::Commit => {
                next.commits -= 1;
                next.branch.push(Commit::Person(state.commits));
            }
            Step::Plan(operation) => {
                let (agent, lands) = World::subject(state, operation)?;
                // Only what counts still is taken back, and only the last decision about an agent.
                let last = state.rows[agent].last().map(|line| line.0);
                if last != Some(operation) {
                    return None;
                }
                let goal = self.goal(state, agent, lands)?;
                next.at = At::Planned(operation, state.branch.clone(), goal);
                if self.0 == Some(Fault::RecordsFirst) {
                    World::record(&mut next, operation)?;
                }
            }
            Step::Move => {
                let At::Planned(operation, from, to) = &state.at else {
                    return None;
                };
                if state.branch != *from && self.0 != Some(Fault::SwapsWithoutCompare) {
                    next.at = At::Idle;
                    return Some(next);
                }
                let is_persons = |commit: &&Commit| matches!(commit, Commit::Person(_));
                let mut persons = state.branch.iter().filter(is_persons);
                next.is_kept &= persons.all(|commit| to.contains(commit));
                next.branch = to.clone();
                next.at = At::Moved(*operation);
            }
            Step::Record => {
                let At::Moved(operation) = state.at else {
                    return None;
                };
                if self.0 != Some(Fault::RecordsFirst) {
                    World::record(&mut next, operation)?;
                }
                next.at = At::Idle;
            }
            Step::Die => {
                next.deaths -= 1;
                next.at = At::Idle;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        fn is_there(state: &State, agent: usize) -> bool {
            state.branch.contains(&Commit::Landing(agent as u8))
        }
        vec![
            Property::always(
                "no undo takes away what a person committed",
                |_: &World, state: &State| state.is_kept,
            ),
            Property::always(
                "rows say what was so when they were written",
                |_: &World, state: &State| state.is_true,
            ),
            Property::always(
                "what was killed is completed by the same call",
                |world: &World, state: &State| {
                    let is_open =
                        |agent: usize| World::has_landed(state, agent) != is_there(state, agent);
                    let completes = |agent: usize| {
                        let last = state.rows[agent].last().map_or(0, |line| line.0);
                        let subject = World::subject(state, last);
                        let goal = subject.and_then(|(_, lands)| world.goal(state, agent, lands));
                        goal.as_ref() == Some(&state.branch)
                    };
                    // What someone built on it meanwhile stays; `--revert` is for that.
                    let is_free = |agent: usize| {
                        let base = state.bases[agent].as_ref();
                        base.is_some_and(|base| {
                            let (last, below) = state.branch.split_last().unzip();
                            state.branch == *base
                                || below == Some(base.as_slice())
                                    && last == Some(&Commit::Landing(agent as u8))
                        })
                    };
                    let is_fine =
                        |agent: usize| !is_open(agent) || !is_free(agent) || completes(agent);
                    state.at != At::Idle || (0..2).all(is_fine)
                },
            ),
            Property::sometimes(
                "a landing is taken back and made again",
                |_: &World, state: &State| {
                    state.undos == 1 && World::has_landed(state, 0) && is_there(state, 0)
                },
            ),
            Property::sometimes(
                "an undo is refused because of what was built",
                |_: &World, state: &State| {
                    state.branch.first() == Some(&Commit::Landing(0)) && state.branch.len() == 3
                },
            ),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let bounds = "2 landings, 3 undos of landings and of undos, 1 commit by a person, 1 death";
    crate::explore("undo", bounds, World(fault))
}
