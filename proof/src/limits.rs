//! When commands begin under `jobs` and `memory_total`: a queue of tickets, each a file that its command and the supervisor lock.
//!
//! No process tells another anything: each counts the tickets before its own that are held. What it may do then is asked of the product's
//! `Limits::obstacle`. A command may be killed while it waits, and while it works, and then its supervisor works on and holds the ticket.

use crate::Outcome;
use git_agent::domain::life::limits::{Limit, Limits};
use stateright::{Model, Property};

const COMMANDS: usize = 4;
/// What each may take of the memory, in units; the third could begin where the second cannot.
const MEMORY: [u64; COMMANDS] = [2, 3, 1, 2];
const JOBS: u64 = 2;
const TOTAL: u64 = 4;
const UNIT: u64 = 1 << 20;

/// What a command leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It counts only those that work.
    ForgetsTheWaiting,
    /// The supervisor does not hold the ticket.
    HoldsAlone,
    /// It takes its number without a lock: another may take the same one.
    TakesWithoutLock,
    /// It counts on each look anew who has a ticket, also those that came later.
    CountsLater,
}

pub struct World(pub Option<Fault>);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Away,
    /// It has seen which number is free, and who is before it.
    Counted(u8, Vec<usize>),
    /// It has a ticket.
    Waits,
    Works,
    /// The command was killed, and its supervisor works on.
    Orphan,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    at: [At; COMMANDS],
    /// The number of each ticket, and the commands that were before it.
    tickets: [Option<(u8, Vec<usize>)>; COMMANDS],
    /// In which order they came.
    came: Vec<usize>,
    /// The highest number that was seen, as the files of old tickets tell.
    last: u8,
    deaths: u8,
    /// Whether none began that had no right to: one that came before it, and waits, could have begun as well.
    is_in_order: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Count(usize),
    Take(usize),
    Look(usize),
    Die(usize),
    End(usize),
}

impl World {
    fn has(&self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }

    /// Whether the ticket of a command is held.
    fn is_held(&self, at: &At) -> bool {
        match at {
            At::Waits => !self.has(Fault::ForgetsTheWaiting),
            At::Works => true,
            At::Orphan => !self.has(Fault::HoldsAlone),
            At::Away | At::Counted(..) | At::Over => false,
        }
    }

    fn held(&self, state: &State) -> Vec<usize> {
        (0..COMMANDS).filter(|one| self.is_held(&state.at[*one])).collect()
    }

    fn may_begin(&self, state: &State, one: usize) -> bool {
        let Some((_, before)) = &state.tickets[one] else {
            return false;
        };
        let before = match self.has(Fault::CountsLater) {
            true => (0..COMMANDS).filter(|other| *other != one).collect(),
            false => before.clone(),
        };
        let held = before.iter().filter(|other| self.is_held(&state.at[**other]));
        let ahead: Vec<u64> = held.map(|other| MEMORY[*other] * UNIT).collect();
        let mut limits = Limits::default();
        limits.tighten(Limit::Jobs, JOBS);
        limits.tighten(Limit::MemoryTotal, TOTAL * UNIT);
        limits.tighten(Limit::Memory, MEMORY[one] * UNIT);
        limits.obstacle(&ahead).is_none()
    }
}

fn works(state: &State) -> impl Iterator<Item = usize> {
    (0..COMMANDS).filter(|one| matches!(state.at[*one], At::Works | At::Orphan))
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            at: std::array::from_fn(|_| At::Away),
            tickets: std::array::from_fn(|_| None),
            came: Vec::new(),
            last: 0,
            deaths: 2,
            is_in_order: true,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        // Between the count and the ticket a lock is held.
        let is_locked = state.at.iter().any(|at| matches!(at, At::Counted(..)));
        for one in 0..COMMANDS {
            match &state.at[one] {
                At::Away if !is_locked || self.has(Fault::TakesWithoutLock) => {
                    steps.push(Step::Count(one));
                }
                At::Away | At::Over => continue,
                At::Counted(..) => steps.push(Step::Take(one)),
                At::Waits => steps.push(Step::Look(one)),
                At::Works | At::Orphan => steps.push(Step::End(one)),
            }
            if state.deaths > 0 && !matches!(state.at[one], At::Away | At::Orphan) {
                steps.push(Step::Die(one));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Count(one) => {
                // A ticket that none holds was left by a dead command: it is removed, but its number is not given again while
                // it is the highest of those that are seen.
                next.at[one] = At::Counted(state.last + 1, self.held(state));
            }
            Step::Take(one) => {
                let At::Counted(number, before) = &state.at[one] else {
                    return None;
                };
                next.tickets[one] = Some((*number, before.clone()));
                next.last = *number;
                next.came.push(one);
                next.at[one] = At::Waits;
            }
            Step::Look(one) => {
                if !self.may_begin(state, one) {
                    return None;
                }
                let place = state.came.iter().position(|other| *other == one)?;
                let earlier = state.came[..place].iter();
                let mut waiting = earlier.filter(|other| state.at[**other] == At::Waits);
                next.is_in_order &= waiting.all(|other| self.may_begin(state, *other));
                next.at[one] = At::Works;
            }
            Step::Die(one) => {
                next.deaths -= 1;
                next.at[one] = match &state.at[one] {
                    At::Works => At::Orphan,
                    _ => At::Over,
                };
            }
            Step::End(one) => next.at[one] = At::Over,
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("the limits hold", |_: &World, state: &State| {
                let memory: u64 = works(state).map(|one| MEMORY[one]).sum();
                works(state).count() as u64 <= JOBS && memory <= TOTAL
            }),
            Property::always("commands begin as they came", |_: &World, state: &State| {
                state.is_in_order
            }),
            Property::always("no two have one number", |_: &World, state: &State| {
                let tickets = state.tickets.iter().flatten();
                let mut numbers: Vec<u8> = tickets.map(|(number, _)| *number).collect();
                numbers.sort_unstable();
                numbers.windows(2).all(|pair| pair[0] != pair[1])
            }),
            Property::always(
                "where none works the first that waits may begin",
                |world: &World, state: &State| {
                    let is_idle = works(state).next().is_none();
                    let first = state.came.iter().find(|one| state.at[**one] == At::Waits);
                    !is_idle || first.is_none_or(|one| world.may_begin(state, *one))
                },
            ),
            Property::sometimes("one waits behind another", |world: &World, state: &State| {
                let waits = |one: usize| state.at[one] == At::Waits;
                (0..COMMANDS).any(|one| waits(one) && !world.may_begin(state, one))
            }),
            Property::sometimes("two work at a time", |_: &World, state: &State| {
                works(state).count() == 2
            }),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let bounds = "4 commands with 2, 3, 1 and 2 of 4 units of memory, 2 jobs, 2 deaths";
    crate::explore("limits", bounds, World(fault))
}
