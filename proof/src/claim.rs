//! Claims: of several clones that are given a task, one works on it and its work lands.
//!
//! Each clone has one process, because a lock keeps others of the same clone away. Clocks of clones are wrong by as much as each world says,
//! and only tell the difference between two moments truly. A process that dies leaves the record of its claim in its clone; the next
//! process of that clone finds it there.
//!
//! Two worlds. In the *timely* one a holder that lives renews its claim before it runs out, and there must never be two holders. In the
//! *late* one a holder may be stopped for any time, as a laptop that sleeps is, and someone who may push deletes the claim: then two may
//! believe that they hold it, and what must hold is that no work lands but the one of the clone that the claim names, once.

use crate::Outcome;
use git_agent::domain::life::claim::{Bid, ClaimMessage, ClaimState, bid};
use stateright::{Model, Property};
use std::time::Duration;

const CLONES: usize = 3;
/// How long a claim holds, in moments of the model, each a second.
const TTL: u8 = 2;

/// What a clone leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It takes a claim that looks old at once.
    BelievesClocks,
    /// It moves the claim wherever that is.
    SwapsWithoutCompare,
    /// It deletes a claim that it took over and gives back.
    DeletesTakeover,
    /// Its work lands without the claim.
    LandsWithoutToken,
    /// A push that fails lets it forget the claim that it had.
    ForgetsAtFailure,
}

/// A world of claims.
pub struct World {
    pub fault: Option<Fault>,
    /// Whether holders renew in time, whatever happens.
    pub is_timely: bool,
    /// How far the clocks may be wrong, in seconds.
    pub clocks: &'static [i64],
    /// When the world ends.
    pub end: u8,
    pub deaths: u8,
    /// How many pushes fail.
    pub failures: u8,
    /// How often someone deletes the claim.
    pub deletions: u8,
}

/// What the remote has: a commit of the claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// Which commit it is.
    number: u8,
    state: ClaimState,
    clone: u8,
    nonce: u8,
    seconds: i64,
}

/// Where the process of a clone is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Idle,
    /// It has seen what the remote has, and may take it.
    Bids(Option<Token>),
    /// It watches, for so long.
    Watches(Token, u8),
    /// It holds the claim: its nonce, its newest commit, and how old that is.
    Holds(u8, u8, u8),
    /// Its work is about to land, and this is what the remote had: the claim, and how often its branch had moved.
    Lands(u8, u8, u8, Option<Token>, usize),
    /// It has nothing to do any more.
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    now: u8,
    clocks: [i64; CLONES],
    remote: Option<Token>,
    /// How many commits and nonces were made.
    made: u8,
    at: [At; CLONES],
    /// What each clone remembers of a claim that it took: the nonce that the remote may have. What a failed push was to bring is there
    /// too, and no one will ever see it.
    records: [Option<u8>; CLONES],
    deaths: u8,
    failures: u8,
    deletions: u8,
    /// Whether each clone took its claim over from another.
    took_over: [bool; CLONES],
    /// Whose work landed.
    landed: Vec<u8>,
    /// Whether each landing was by the clone that the claim named.
    is_fenced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Tick,
    Look(usize),
    Take(usize),
    /// Its push fails, and it gives up for now.
    Fail(usize),
    /// A look while it watches: nothing moved, or something did.
    Watch(usize),
    Renew(usize),
    LookToLand(usize),
    Land(usize),
    Release(usize),
    Die(usize),
    Delete,
}

impl World {
    fn clock(state: &State, clone: usize) -> i64 {
        1000 + i64::from(state.now) + state.clocks[clone]
    }

    fn message(token: Token) -> ClaimMessage {
        ClaimMessage {
            state: token.state,
            clone: token.clone.to_string(),
            nonce: token.nonce.to_string(),
            ttl: Duration::from_secs(TTL.into()),
            agent: None,
            seconds: token.seconds,
        }
    }

    /// A new commit of the claim, by that clone. It counts once the remote has it: what no one has seen is as if it had not been made.
    fn token(state: &State, clone: usize, nonce: Option<u8>, stands: ClaimState) -> Token {
        let number = state.made + 1;
        Token {
            number,
            state: stands,
            clone: clone as u8,
            // No other clone draws the same.
            nonce: nonce.unwrap_or(number * CLONES as u8 + clone as u8),
            seconds: World::clock(state, clone),
        }
    }

    /// A push of the claim with a lease.
    fn swap(&self, next: &mut State, from: Option<Token>, to: Option<Token>) -> bool {
        let is_there = next.remote == from || self.fault == Some(Fault::SwapsWithoutCompare);
        if is_there {
            next.remote = to;
            next.made += u8::from(to.is_some());
        }
        is_there
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let mut states = Vec::new();
        // The first clone's clock is the one that the others are measured by.
        for second in self.clocks {
            for third in self.clocks {
                states.push(State {
                    now: 0,
                    clocks: [0, *second, *third],
                    remote: None,
                    made: 0,
                    at: [At::Idle; CLONES],
                    records: [None; CLONES],
                    deaths: self.deaths,
                    failures: self.failures,
                    deletions: self.deletions,
                    took_over: [false; CLONES],
                    landed: Vec::new(),
                    is_fenced: true,
                });
            }
        }
        states
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        // A holder renews three times in the time that its claim holds; one that is late by twice that still is in time.
        let is_late = |at: &At| matches!(at, At::Holds(_, _, age) | At::Lands(_, _, age, ..) if *age + 1 >= TTL);
        if state.now < self.end && !(self.is_timely && state.at.iter().any(is_late)) {
            steps.push(Step::Tick);
        }
        if state.deletions > 0 && state.remote.is_some() {
            steps.push(Step::Delete);
        }
        for clone in 0..CLONES {
            match state.at[clone] {
                At::Idle => steps.push(Step::Look(clone)),
                At::Bids(_) => {
                    steps.push(Step::Take(clone));
                    if state.failures > 0 {
                        steps.push(Step::Fail(clone));
                    }
                }
                At::Watches(..) => steps.push(Step::Watch(clone)),
                At::Holds(_, _, age) => {
                    if age > 0 {
                        steps.push(Step::Renew(clone));
                    }
                    steps.push(Step::LookToLand(clone));
                    steps.push(Step::Release(clone));
                }
                At::Lands(..) => steps.push(Step::Land(clone)),
                At::Over => {}
            }
            if state.deaths > 0 && !matches!(state.at[clone], At::Idle | At::Over) {
                steps.push(Step::Die(clone));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Tick => {
                next.now += 1;
                for at in &mut next.at {
                    match at {
                        // An age above the limit says no more than one at it.
                        At::Holds(_, _, age) | At::Lands(_, _, age, ..) => {
                            *age = (*age + 1).min(TTL)
                        }
                        At::Watches(_, left) => *left = left.saturating_sub(1),
                        _ => {}
                    }
                }
            }
            Step::Delete => {
                next.deletions -= 1;
                next.remote = None;
            }
            Step::Look(clone) => {
                let found = state.remote.map(World::message);
                let own = state.records[clone].map(|nonce| nonce.to_string());
                let bid = bid(found.as_ref(), own.as_slice(), World::clock(state, clone));
                next.at[clone] = match (bid, state.remote) {
                    (Bid::Take, found) => At::Bids(found),
                    (Bid::Watch(_), found) if self.fault == Some(Fault::BelievesClocks) => {
                        At::Bids(found)
                    }
                    (Bid::Watch(time), Some(found)) => At::Watches(found, time.as_secs() as u8),
                    // It leaves the task to the holder, and may be asked again.
                    (Bid::Leave, _) => return None,
                    (Bid::Watch(_), None) | (Bid::Done, _) => At::Over,
                };
            }
            Step::Watch(clone) => {
                let At::Watches(found, left) = state.at[clone] else {
                    return None;
                };
                next.at[clone] = match state.remote == Some(found) {
                    true if left == 0 => At::Bids(Some(found)),
                    true => return None,
                    false => At::Idle,
                };
            }
            Step::Take(clone) => {
                let At::Bids(found) = state.at[clone] else {
                    return None;
                };
                let token = World::token(&next, clone, None, ClaimState::Held);
                next.at[clone] = At::Idle;
                // What it remembers is written before the push, so that a death after it forgets nothing.
                if self.swap(&mut next, found, Some(token)) {
                    next.records[clone] = Some(token.nonce);
                    next.at[clone] = At::Holds(token.nonce, token.number, 0);
                    next.took_over[clone] = found.is_some();
                }
            }
            Step::Fail(clone) => {
                next.failures -= 1;
                next.at[clone] = At::Idle;
                if self.fault == Some(Fault::ForgetsAtFailure) {
                    next.records[clone] = None;
                }
            }
            Step::Renew(clone) => {
                let At::Holds(nonce, number, _) = state.at[clone] else {
                    return None;
                };
                let own = state.remote.filter(|one| one.number == number);
                // What was deleted is put back; what is another's is lost.
                let is_gone = state.remote.is_none();
                if own.is_none() && !is_gone && self.fault != Some(Fault::SwapsWithoutCompare) {
                    next.at[clone] = At::Over;
                    return Some(next);
                }
                let token = World::token(&next, clone, Some(nonce), ClaimState::Held);
                self.swap(&mut next, state.remote, Some(token));
                next.at[clone] = At::Holds(nonce, token.number, 0);
            }
            Step::LookToLand(clone) => {
                let At::Holds(nonce, number, age) = state.at[clone] else {
                    return None;
                };
                // A claim that another clone has is lost. Where there is none, work lands without one.
                let is_own = |one: Token| one.nonce == nonce;
                let is_lost = state.remote.is_some_and(|one| !is_own(one));
                next.at[clone] = if is_lost && self.fault != Some(Fault::LandsWithoutToken) {
                    At::Over
                } else {
                    At::Lands(nonce, number, age, state.remote, state.landed.len())
                };
            }
            Step::Land(clone) => {
                let At::Lands(nonce, number, age, found, base) = state.at[clone] else {
                    return None;
                };
                let named = state.remote.is_none_or(|one| one.nonce == nonce);
                if state.landed.len() != base {
                    // The branch has moved: its work is judged again.
                    next.at[clone] = At::Holds(nonce, number, age);
                    return Some(next);
                }
                next.at[clone] = At::Over;
                if self.fault != Some(Fault::LandsWithoutToken) {
                    // The branch and the claim move together or not at all.
                    let done = World::token(&next, clone, Some(nonce), ClaimState::Done);
                    if !self.swap(&mut next, found, found.map(|_| done)) {
                        return Some(next);
                    }
                }
                next.landed.push(clone as u8);
                next.is_fenced &= named;
            }
            Step::Release(clone) => {
                let At::Holds(nonce, number, _) = state.at[clone] else {
                    return None;
                };
                let own = state.remote.filter(|one| one.number == number);
                if own.is_some() {
                    // One from whom it was taken over finds that it is lost.
                    let stays =
                        state.took_over[clone] && self.fault != Some(Fault::DeletesTakeover);
                    let free = World::token(&next, clone, Some(nonce), ClaimState::Released);
                    self.swap(&mut next, own, stays.then_some(free));
                }
                next.records[clone] = None;
                next.at[clone] = At::Over;
            }
            Step::Die(clone) => {
                next.deaths -= 1;
                next.at[clone] = At::Idle;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        fn holders(state: &State) -> usize {
            let holds = |at: &&At| matches!(at, At::Holds(..) | At::Lands(..));
            state.at.iter().filter(holds).count()
        }
        let mut properties = vec![
            // A deletion of the claim of work that is under way frees the task.
            Property::always(
                "the work of one clone lands, once",
                |world: &World, state: &State| {
                    state.landed.len() <= 1 || state.deletions < world.deletions
                },
            ),
            Property::always(
                "what lands is by the clone that the claim names",
                |_: &World, state: &State| state.is_fenced,
            ),
            Property::always("a clone knows its own claim", |_: &World, state: &State| {
                let held = state.remote.filter(|one| one.state == ClaimState::Held);
                held.is_none_or(|one| state.records[usize::from(one.clone)] == Some(one.nonce))
            }),
            Property::sometimes("work lands", |_: &World, state: &State| !state.landed.is_empty()),
            Property::sometimes(
                "a claim of a dead process is taken over",
                |_: &World, state: &State| {
                    let holds = |at: &At| matches!(at, At::Holds(..));
                    state.deaths == 0 && state.now >= TTL && state.at.iter().any(holds)
                },
            ),
        ];
        if self.is_timely {
            let one = |_: &World, state: &State| holders(state) <= 1;
            properties.push(Property::always("one clone holds the claim", one));
        } else {
            let two = |_: &World, state: &State| holders(state) > 1;
            properties.push(Property::sometimes("two clones believe that they hold it", two));
        }
        properties
    }
}

pub fn explore_timely(fault: Option<Fault>) -> Outcome {
    let world = World {
        fault,
        is_timely: true,
        clocks: &[-100, 100],
        end: 4,
        deaths: 1,
        failures: 1,
        deletions: 0,
    };
    let bounds = "3 clones, clocks wrong by 100 s either way, a claim holds 2 of 4 moments, 1 death, 1 push fails";
    crate::explore("claim-timely", bounds, world)
}

pub fn explore_late(fault: Option<Fault>) -> Outcome {
    let world = World {
        fault,
        is_timely: false,
        clocks: &[-100, 100],
        end: 2,
        deaths: 1,
        failures: 1,
        deletions: 1,
    };
    let bounds = "3 clones, clocks wrong by 100 s, holders may stop for any time, 1 death, 1 push fails, 1 claim deleted";
    crate::explore("claim-late", bounds, world)
}
