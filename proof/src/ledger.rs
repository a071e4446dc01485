//! Appending to a ledger: several processes of one clone and no lock between them, one of which may die at any step.
//!
//! The product's writers queue behind a lock of the operating system; the compare-and-swap of the ref must be enough where that lock
//! does not hold, as on some network file systems. Their clocks differ.

use crate::Outcome;
use chrono::{DateTime, TimeDelta};
use git_agent::domain::value::stamp::Stamp;
use git_agent::git::record::notes::union_of_lines;
use stateright::{Model, Property};

const WRITERS: usize = 3;
/// How many events each of them has to tell.
const EVENTS: u8 = 2;
/// How many of them may die.
const DEATHS: u8 = 2;
/// What their clocks say at the same moment, in seconds.
const CLOCKS: [i64; WRITERS] = [0, -120, 120];

/// What a writer leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves the ref wherever that is.
    SwapsWithoutCompare,
    /// It stamps by its clock alone.
    ForgetsTheLastStamp,
}

pub struct World(pub Option<Fault>);

/// Where a writer is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// It has read the ref: its version and the row.
    Read(u8, Vec<u8>),
    /// It has made a commit on top of that version.
    Built(u8, Vec<u8>, Vec<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// How often the ref has moved, which stands for the commit that it is at, and the row there.
    version: u8,
    row: Vec<u8>,
    writers: Vec<At>,
    left: [u8; WRITERS],
    deaths: u8,
    /// The lines that writers were told are there.
    told: Vec<Vec<u8>>,
    /// Whether each line was, when it was added, the last one of the row.
    in_order: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Read(usize),
    Build(usize),
    Swap(usize),
    Die(usize),
}

impl World {
    fn line(&self, writer: usize, left: u8, row: &[u8]) -> Vec<u8> {
        let last = row
            .split(|&byte| byte == b'\n')
            .rfind(|line| !line.is_empty())
            .and_then(|line| Stamp::parse(std::str::from_utf8(line).ok()?))
            .filter(|_| self.0 != Some(Fault::ForgetsTheLastStamp));
        let moment = 1000 + CLOCKS[writer] + i64::from(EVENTS - left);
        let now = DateTime::UNIX_EPOCH + TimeDelta::seconds(moment);
        Stamp::next(now, writer as u16, last).to_string().into_bytes()
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            version: 0,
            row: Vec::new(),
            writers: vec![At::Idle; WRITERS],
            left: [EVENTS; WRITERS],
            deaths: DEATHS,
            told: Vec::new(),
            in_order: true,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for writer in 0..WRITERS {
            match &state.writers[writer] {
                At::Idle if state.left[writer] > 0 => steps.push(Step::Read(writer)),
                At::Idle => {}
                At::Read(..) => steps.push(Step::Build(writer)),
                At::Built(..) => steps.push(Step::Swap(writer)),
            }
            if state.writers[writer] != At::Idle && state.deaths > 0 {
                steps.push(Step::Die(writer));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Read(writer) => {
                next.writers[writer] = At::Read(state.version, state.row.clone());
            }
            Step::Build(writer) => {
                let At::Read(version, row) = &state.writers[writer] else {
                    return None;
                };
                let line = self.line(writer, state.left[writer], row);
                let built = union_of_lines([row.as_slice(), &line]);
                next.writers[writer] = At::Built(*version, built, line);
            }
            Step::Swap(writer) => {
                let At::Built(version, row, line) = &state.writers[writer] else {
                    return None;
                };
                if *version != state.version && self.0 != Some(Fault::SwapsWithoutCompare) {
                    // It starts over.
                    next.writers[writer] = At::Idle;
                    return Some(next);
                }
                next.in_order &= row.ends_with(&[line.as_slice(), b"\n"].concat());
                (next.version, next.row) = (state.version + 1, row.clone());
                next.told.push(line.clone());
                next.left[writer] -= 1;
                next.writers[writer] = At::Idle;
            }
            // It told no one, so what it wrote may be there or not.
            Step::Die(writer) => {
                next.deaths -= 1;
                next.left[writer] -= 1;
                next.writers[writer] = At::Idle;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always(
                "what was acknowledged is in the ledger",
                |_: &World, state: &State| {
                    let lines: Vec<&[u8]> = state.row.split(|&byte| byte == b'\n').collect();
                    state.told.iter().all(|line| lines.contains(&line.as_slice()))
                },
            ),
            Property::always(
                "rows are in the order in which they were written",
                |_: &World, state: &State| state.in_order,
            ),
            Property::sometimes("all events were written", |_: &World, state: &State| {
                state.told.len() == WRITERS * usize::from(EVENTS)
            }),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let bounds = "3 writers without a lock, 2 events each, clocks 2 minutes apart, 2 deaths";
    crate::explore("ledger", bounds, World(fault))
}
