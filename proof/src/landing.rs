//! Landings of two agents on two targets, beside agents that fail, people who move branches, and processes that die.
//!
//! A landing judges without any lock, and decides under the landing lock, which the operating system takes back from a dead process.
//! Rows are real events, and whether a landing may go on is asked of the product's `Agent`.

use crate::Outcome;
use crate::rows::{Line, Said, fold};
use git_agent::domain::life::agent::Move;
use stateright::{Model, Property};

/// The agents, and the branches that their work lands on, by who lands what where.
const LANDINGS: [(u8, usize); 3] = [(0, 0), (1, 0), (0, 1)];

/// What a landing leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves the target wherever that is.
    SwapsWithoutCompare,
    /// It asks the row whether it allows a landing, and not whether it was decided about since.
    AsksTheRowAlone,
    /// It does not look whether the agent's branch is where it was judged.
    ForgetsTheBranch,
    /// It writes the row before the target has moved.
    RecordsFirst,
    /// A run of it that is made again does not ask whether the work is there.
    LandsAgain,
}

pub struct World(pub Option<Fault>);

/// A target: the work that is on it, each piece an agent and the version of its branch, and how often people moved it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    work: Vec<(u8, u8)>,
    moved: u8,
}

/// What a landing was judged on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    version: u8,
    base: Target,
    /// How many lines the agent's row had.
    known: usize,
}

/// Where a landing is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Idle,
    Judged(Plan),
    /// It holds the lock, has asked the row, and is to move the target.
    Allowed(Plan),
    /// The target has moved, the row is to be written.
    Moved(Plan),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    targets: [Target; 2],
    /// The version of each agent's branch.
    versions: [u8; 2],
    rows: [Vec<Line>; 2],
    at: [At; 3],
    /// Which landing holds the lock.
    lock: Option<usize>,
    deaths: u8,
    /// How often people may move a target, agents go on working, and decisions be made.
    moves: u8,
    works: u8,
    decisions: u8,
    /// Whether each move of a target by a landing was from and to what was judged.
    is_judged: bool,
    /// Whether no agent landed that had failed, or was put off, before the landing looked for the last time.
    is_allowed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Judge(usize),
    Lock(usize),
    Move(usize),
    Record(usize),
    Die(usize),
    Decide(usize, Said),
    Work(usize),
    MoveTarget(usize),
}

impl World {
    fn has(&self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }
}

fn merged(lines: &[Line], target: usize) -> bool {
    lines.iter().any(|line| line.1 == Said::Merged(target as u8))
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let target = Target { work: Vec::new(), moved: 0 };
        vec![State {
            targets: [target.clone(), target],
            versions: [1; 2],
            rows: [vec![(1, Said::Done)], vec![(2, Said::Done)]],
            at: [At::Idle, At::Idle, At::Idle],
            lock: None,
            deaths: 1,
            moves: 1,
            works: 1,
            decisions: 1,
            is_judged: true,
            is_allowed: true,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for one in 0..LANDINGS.len() {
            match &state.at[one] {
                At::Idle => steps.push(Step::Judge(one)),
                At::Judged(_) if state.lock.is_none() => steps.push(Step::Lock(one)),
                At::Judged(_) | At::Over => {}
                At::Allowed(_) => steps.push(Step::Move(one)),
                At::Moved(_) => steps.push(Step::Record(one)),
            }
            if state.deaths > 0 && !matches!(state.at[one], At::Idle | At::Over) {
                steps.push(Step::Die(one));
            }
        }
        for agent in 0..2 {
            if state.decisions > 0 {
                steps.push(Step::Decide(agent, Said::Failed));
                steps.push(Step::Decide(agent, Said::Deferred));
            }
            if state.works > 0 {
                steps.push(Step::Work(agent));
            }
            if state.moves > 0 {
                steps.push(Step::MoveTarget(agent));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Judge(one) => {
                let (agent, target) = LANDINGS[one];
                let base = state.targets[target].clone();
                // What a landing that was killed has brought is written down first.
                let lines = &mut next.rows[usize::from(agent)];
                if base.work.iter().any(|one| one.0 == agent) && !merged(lines, target) {
                    lines.push((10, Said::Merged(target as u8)));
                }
                let row = fold(agent, lines);
                let known = lines.len();
                // Only what is done lands without a person who names it.
                let is_wanted = row.state == git_agent::domain::life::agent::State::Done
                    || row.state == git_agent::domain::life::agent::State::Merged;
                let version = state.versions[usize::from(agent)];
                let is_there = base.work.contains(&(agent, version));
                next.at[one] = if is_there && !self.has(Fault::LandsAgain) {
                    At::Over
                } else if is_wanted && !row.deferred {
                    At::Judged(Plan { version, base, known })
                } else {
                    At::Over
                };
            }
            Step::Lock(one) => {
                let At::Judged(plan) = &state.at[one] else {
                    return None;
                };
                let (agent, target) = LANDINGS[one];
                let lines = &state.rows[usize::from(agent)];
                let now = fold(agent, lines);
                let judged = fold(agent, &lines[..plan.known]);
                let as_judged = now.require_as_judged(&judged);
                let is_same = as_judged.is_ok() || self.has(Fault::AsksTheRowAlone);
                next.at[one] = if now.may(Move::Merge).is_ok() && is_same {
                    next.lock = Some(one);
                    // What stands in the row by now was known to the one who lets it land.
                    let decided = lines[plan.known..].iter().map(|line| line.1);
                    let mut decided =
                        decided.filter(|said| matches!(said, Said::Failed | Said::Deferred));
                    next.is_allowed &= decided.next().is_none();
                    if self.has(Fault::RecordsFirst) {
                        next.rows[usize::from(agent)]
                            .push((10 + one as u8, Said::Merged(target as u8)));
                    }
                    At::Allowed(plan.clone())
                } else {
                    At::Over
                };
            }
            Step::Move(one) => {
                let At::Allowed(plan) = &state.at[one] else {
                    return None;
                };
                let (agent, target) = LANDINGS[one];
                let is_judged = state.targets[target] == plan.base
                    && state.versions[usize::from(agent)] == plan.version;
                let branch = state.versions[usize::from(agent)] == plan.version;
                let branch = branch || self.has(Fault::ForgetsTheBranch);
                let base =
                    state.targets[target] == plan.base || self.has(Fault::SwapsWithoutCompare);
                if !branch || !base {
                    // Something moved: it is judged again.
                    (next.at[one], next.lock) = (At::Idle, None);
                    return Some(next);
                }
                let mut landed = plan.base.clone();
                landed.work.push((agent, plan.version));
                next.targets[target] = landed;
                next.is_judged &= is_judged;
                next.at[one] = At::Moved(plan.clone());
            }
            Step::Record(one) => {
                let (agent, target) = LANDINGS[one];
                if !self.has(Fault::RecordsFirst) {
                    let line = (10 + one as u8, Said::Merged(target as u8));
                    next.rows[usize::from(agent)].push(line);
                }
                (next.at[one], next.lock) = (At::Over, None);
            }
            // The lock dies with it, and someone lands the agent again.
            Step::Die(one) => {
                next.deaths -= 1;
                next.at[one] = At::Idle;
                next.lock = state.lock.filter(|holder| *holder != one);
            }
            Step::Decide(agent, said) => {
                let row = fold(agent as u8, &state.rows[agent]);
                let step = match said {
                    Said::Failed => Move::Fail,
                    _ => Move::Defer,
                };
                row.may(step).ok()?;
                next.decisions -= 1;
                next.rows[agent].push((3, said));
            }
            Step::Work(agent) => {
                next.works -= 1;
                next.versions[agent] += 1;
            }
            Step::MoveTarget(target) => {
                next.moves -= 1;
                next.targets[target].moved += 1;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always(
                "a target moves only from and to what was judged",
                |_: &World, state: &State| state.is_judged,
            ),
            Property::always(
                "what failed or was put off does not land",
                |_: &World, state: &State| state.is_allowed,
            ),
            Property::always("what people did stays on the target", |_: &World, state: &State| {
                let moved: u8 = state.targets.iter().map(|target| target.moved).sum();
                moved + state.moves == 1
            }),
            Property::always(
                "what a row says has landed is on the target",
                |_: &World, state: &State| {
                    let is_there = |agent: usize, target: usize| {
                        let mut work = state.targets[target].work.iter();
                        work.any(|one| usize::from(one.0) == agent)
                    };
                    let is_true = |agent: usize, target: usize| {
                        !merged(&state.rows[agent], target) || is_there(agent, target)
                    };
                    (0..2).all(|agent| (0..2).all(|target| is_true(agent, target)))
                },
            ),
            Property::always("no work lands twice", |_: &World, state: &State| {
                state.targets.iter().all(|target| {
                    let mut work = target.work.clone();
                    work.sort_unstable();
                    work.dedup();
                    work.len() == target.work.len()
                })
            }),
            Property::always(
                "who is not interrupted any more writes what landed",
                |_: &World, state: &State| {
                    let is_over = state.at.iter().all(|at| *at == At::Over);
                    let is_told = |target: usize| {
                        let mut work = state.targets[target].work.iter();
                        work.all(|one| merged(&state.rows[usize::from(one.0)], target))
                    };
                    !is_over || (0..2).all(is_told)
                },
            ),
            Property::sometimes("all three land", |_: &World, state: &State| {
                state.targets[0].work.len() >= 2 && !state.targets[1].work.is_empty()
            }),
            Property::sometimes(
                "a landing is overtaken and judged again",
                |_: &World, state: &State| {
                    state.targets[0].moved == 1 && state.targets[0].work.len() == 2
                },
            ),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let bounds =
        "2 agents, 2 targets, 3 landings, 1 death, 1 decision, 1 more version, 1 move by a person";
    crate::explore("landing", bounds, World(fault))
}
