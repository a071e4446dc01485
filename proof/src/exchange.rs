//! `sync`: the ledgers of several clones, exchanged through one remote by pushes that race.
//!
//! A step is one thing that the remote is asked for; what a clone does between two of them touches nothing that others see. A fetch
//! gets what a ref is at by then, not what it was listed at. A clone that dies keeps its refs and forgets the rest.
//!
//! Two worlds: in the first only clones of git-agent write to the remote. In the second, the one with a *loss*, someone resets the
//! remote once, as `git push --mirror` from another repository does: then what clones have must come back.

use crate::Outcome;
use git_agent::domain::value::oid::Oid;
use git_agent::domain::value::ref_update::{Arrival, arrival, contained};
use git_agent::git::record::notes::union_of_lines;
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex};

/// What a clone leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It deletes outboxes although another clone was faster at the shared ref.
    DeletesWhenLate,
    /// It moves the shared ref by force.
    PushesByForce,
    /// It takes the remote's ledger instead of uniting.
    TakesTheirs,
    /// It has no outbox, and does not look whether what it pushed is there.
    TrustsThePush,
    /// It takes any ref below the outboxes for one of ours.
    TakesForeignRefs,
}

pub struct World {
    pub fault: Option<Fault>,
    pub clones: usize,
    /// How many exchanges each clone begins.
    pub exchanges: u8,
    pub deaths: u8,
    pub losses: u8,
}

// Commits. They are known by a number, and equal ones have the same, as in git.

/// The number of a commit.
type Commit = u16;

/// A commit that someone else pushed to a name that looks like an outbox.
const FOREIGN: Commit = 0;

struct Node {
    row: Vec<u8>,
    ancestors: BTreeSet<Commit>,
}

#[derive(Default)]
struct History {
    nodes: Vec<Node>,
    numbers: HashMap<(Vec<u8>, Vec<Commit>), Commit>,
}

static HISTORY: LazyLock<Mutex<History>> = LazyLock::new(|| {
    let mut history = History::default();
    history.commit(b"no row".to_vec(), Vec::new());
    Mutex::new(history)
});

impl History {
    fn commit(&mut self, row: Vec<u8>, parents: Vec<Commit>) -> Commit {
        let key = (row.clone(), parents.clone());
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        let number = Commit::try_from(self.nodes.len()).expect("few commits");
        let mut ancestors = BTreeSet::from([number]);
        for parent in parents {
            ancestors.extend(&self.nodes[usize::from(parent)].ancestors);
        }
        self.nodes.push(Node { row, ancestors });
        self.numbers.insert(key, number);
        number
    }
}

fn with<T>(read: impl FnOnce(&mut History) -> T) -> T {
    read(&mut HISTORY.lock().expect("unpoisoned"))
}

fn row(commit: Commit) -> Vec<u8> {
    with(|history| history.nodes[usize::from(commit)].row.clone())
}

fn is_ancestor(ancestor: Commit, of: Commit) -> bool {
    with(|history| history.nodes[usize::from(of)].ancestors.contains(&ancestor))
}

fn append(tip: Option<Commit>, line: &[u8]) -> Commit {
    let row = union_of_lines([tip.map(row).unwrap_or_default().as_slice(), line]);
    with(|history| history.commit(row, tip.into_iter().collect()))
}

/// As `git::notes::union_commit`: parents are sorted, and a side that has everything needs no merge.
fn unite(ours: Option<Commit>, theirs: Commit) -> Commit {
    let Some(ours) = ours else { return theirs };
    let united = union_of_lines([row(ours).as_slice(), &row(theirs)]);
    for (older, newer) in [(ours, theirs), (theirs, ours)] {
        if is_ancestor(older, newer) && row(newer) == united {
            return newer;
        }
    }
    let parents = vec![ours.min(theirs), ours.max(theirs)];
    with(|history| history.commit(united, parents))
}

/// The name that the product's rules know a commit by.
fn name(commit: Commit) -> Oid {
    let mut bytes = [0; 20];
    bytes[..2].copy_from_slice(&commit.to_be_bytes());
    Oid::from_bytes(bytes)
}

// The world.

/// The refs of the remote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Remote {
    shared: Option<Commit>,
    outboxes: BTreeMap<u8, Commit>,
}

/// The name that the foreign ref has among the outboxes.
const STRANGER: u8 = 9;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clone_ {
    tip: Option<Commit>,
    /// What the shared ref of the remote was last seen at.
    seen: Option<Commit>,
    /// Whether its outbox was needed last time.
    used_outbox: bool,
    /// Whether its one event is still to be written.
    is_fresh: bool,
    left: u8,
    at: At,
}

/// Where an exchange is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum At {
    Idle,
    /// It is to push what is new, unless the remote is crowded, and then to list.
    Begun,
    Pushed {
        is_crowded: bool,
    },
    /// It has listed the remote, and is to fetch.
    Listed {
        is_crowded: bool,
        listed: Remote,
    },
    /// It is united with what it fetched. `from` is what it saw the shared ref at, `united` the outboxes that it has.
    United {
        is_crowded: bool,
        listed: Remote,
        from: Option<Commit>,
        united: BTreeMap<u8, Commit>,
        tip: Option<Commit>,
    },
    /// It has pushed the shared ref, and is to list.
    Sent {
        from: Option<Commit>,
        united: BTreeMap<u8, Commit>,
        tip: Commit,
    },
    /// Another clone was faster: it is to push its outbox.
    Late {
        united: BTreeMap<u8, Commit>,
        tip: Commit,
    },
    /// It has, and is to list.
    Boxed {
        united: BTreeMap<u8, Commit>,
        tip: Commit,
    },
    /// The remote has everything, and outboxes may go that are listed as they were united.
    Clean {
        united: BTreeMap<u8, Commit>,
        listed: Remote,
        tip: Option<Commit>,
        is_late: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    remote: Remote,
    clones: Vec<Clone_>,
    deaths: u8,
    losses: u8,
    /// The rows of which an exchange said that they are on the remote.
    told: BTreeSet<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Write(usize),
    Begin(usize),
    /// The next thing that this clone asks the remote for.
    Go(usize),
    Die(usize),
    /// Someone empties the remote.
    Lose,
}

fn lines(row: &[u8]) -> BTreeSet<Vec<u8>> {
    let lines = row.split(|&byte| byte == b'\n').filter(|line| !line.is_empty());
    lines.map(<[u8]>::to_vec).collect()
}

impl Remote {
    fn names(outboxes: &BTreeMap<u8, Commit>) -> BTreeMap<String, Oid> {
        let named = outboxes.iter();
        named.map(|(clone, commit)| (clone.to_string(), name(*commit))).collect()
    }

    /// A push that a remote takes where it goes forward.
    fn forward(&mut self, to: Commit, is_forced: bool) {
        if is_forced || self.shared.is_none_or(|is| is_ancestor(is, to)) {
            self.shared = Some(to);
        }
    }

    fn outbox_forward(&mut self, clone: u8, to: Commit) {
        let is = self.outboxes.get(&clone);
        if is.is_none_or(|is| is_ancestor(*is, to)) {
            self.outboxes.insert(clone, to);
        }
    }

    fn rows(&self) -> BTreeSet<Vec<u8>> {
        let commits = self.shared.into_iter().chain(self.outboxes.values().copied());
        commits.flat_map(|commit| lines(&row(commit))).collect()
    }
}

impl World {
    /// The next request of one clone.
    fn go(&self, state: &State, number: usize) -> State {
        let mut next = state.clone();
        let me = number as u8;
        let is_forced = self.fault == Some(Fault::PushesByForce);
        let (remote, clone) = (&mut next.remote, &mut next.clones[number]);
        clone.at = match clone.at.clone() {
            At::Idle => return next,
            At::Begun => {
                // A clone that is new, or needed its outbox last time, expects others.
                let is_crowded = clone.seen.is_none() || clone.used_outbox;
                if let (Some(seen), Some(tip), false) = (clone.seen, clone.tip, is_crowded)
                    && seen != tip
                    && is_ancestor(seen, tip)
                    && remote.shared == Some(seen)
                {
                    remote.shared = Some(tip);
                }
                At::Pushed { is_crowded }
            }
            At::Pushed { is_crowded } => At::Listed { is_crowded, listed: remote.clone() },
            At::Listed { is_crowded, listed } => {
                // What vanished between the list and the fetch is a race: the remote is listed again.
                let is_there = |outbox: &u8| remote.outboxes.contains_key(outbox);
                if (listed.shared.is_some() && remote.shared.is_none())
                    || !listed.outboxes.keys().all(is_there)
                {
                    clone.at = At::Pushed { is_crowded: true };
                    return next;
                }
                // What was seen before is united before its copy is overwritten, should an earlier exchange have died in between.
                if let Some(seen) = clone.seen {
                    clone.tip = Some(unite(clone.tip, seen));
                }
                let mut united = BTreeMap::new();
                for outbox in listed.outboxes.keys() {
                    let theirs = remote.outboxes[outbox];
                    let is_ours = theirs != FOREIGN;
                    if !is_ours && self.fault != Some(Fault::TakesForeignRefs) {
                        continue;
                    }
                    if is_ours {
                        clone.tip = Some(unite(clone.tip, theirs));
                    }
                    united.insert(*outbox, theirs);
                }
                let shared = listed.shared.and(remote.shared);
                if let Some(theirs) = shared {
                    clone.tip = match self.fault {
                        Some(Fault::TakesTheirs) => Some(theirs),
                        _ => Some(unite(clone.tip, theirs)),
                    };
                    clone.seen = Some(theirs);
                }
                At::United {
                    is_crowded: is_crowded || !united.is_empty(),
                    listed,
                    from: shared,
                    united,
                    tip: clone.tip,
                }
            }
            At::United { is_crowded, listed, from, united, tip } => match tip {
                Some(tip) if from != Some(tip) => {
                    remote.forward(tip, is_forced);
                    if is_crowded && self.fault != Some(Fault::TrustsThePush) {
                        remote.outbox_forward(me, tip);
                    }
                    At::Sent { from, united, tip }
                }
                _ => At::Clean {
                    united,
                    // The list of the beginning is the proof where nothing is sent.
                    listed,
                    tip,
                    is_late: false,
                },
            },
            At::Sent { from, mut united, tip } => {
                let is = remote.shared.map(name);
                let arrived = arrival(name(tip), from.map(name), is, true);
                let is_late = arrived != Arrival::There && self.fault != Some(Fault::TrustsThePush);
                // An outbox that was pushed along is needed no more.
                united.insert(me, tip);
                match remote.outboxes.get(&me) == Some(&tip) {
                    false if is_late => At::Late { united, tip },
                    _ => At::Clean { united, listed: remote.clone(), tip: Some(tip), is_late },
                }
            }
            At::Late { united, tip } => {
                remote.outbox_forward(me, tip);
                At::Boxed { united, tip }
            }
            At::Boxed { united, tip } => {
                if remote.outboxes.get(&me) == Some(&tip) {
                    At::Clean { united, listed: remote.clone(), tip: Some(tip), is_late: true }
                } else {
                    // Another clone has united it and deleted it already.
                    At::Pushed { is_crowded: true }
                }
            }
            At::Clean { united, listed, tip, is_late } => {
                clone.used_outbox = is_late;
                if let Some(shared) = listed.shared {
                    // What is not here is not noted.
                    let is_here = clone.tip.is_some_and(|tip| is_ancestor(shared, tip));
                    clone.seen = if is_here { Some(shared) } else { clone.seen };
                }
                if !is_late || self.fault == Some(Fault::DeletesWhenLate) {
                    let named = Remote::names(&united);
                    let listed = Remote::names(&listed.outboxes);
                    for (outbox, at) in contained(&named, &listed) {
                        let outbox: u8 = outbox.parse().expect("a number");
                        let is = remote.outboxes.get(&outbox).copied().map(name);
                        if is == Some(at) {
                            remote.outboxes.remove(&outbox);
                        }
                    }
                }
                next.told.extend(tip.map(|tip| lines(&row(tip))).unwrap_or_default());
                At::Idle
            }
        };
        next
    }

    /// Where it all leads when each clone, one after the other, exchanges without any trouble, twice.
    fn settled(&self, state: &State) -> State {
        let mut state = state.clone();
        for _ in 0..2 {
            for number in 0..self.clones {
                state.clones[number].at = At::Begun;
                while state.clones[number].at != At::Idle {
                    state = self.go(&state, number);
                }
            }
        }
        state
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let fresh = Clone_ {
            tip: None,
            seen: None,
            used_outbox: false,
            is_fresh: true,
            left: self.exchanges,
            at: At::Idle,
        };
        vec![State {
            remote: Remote { shared: None, outboxes: BTreeMap::from([(STRANGER, FOREIGN)]) },
            clones: vec![fresh; self.clones],
            deaths: self.deaths,
            losses: self.losses,
            told: BTreeSet::new(),
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for (number, clone) in state.clones.iter().enumerate() {
            if clone.is_fresh {
                steps.push(Step::Write(number));
            }
            match clone.at {
                At::Idle if clone.left > 0 => steps.push(Step::Begin(number)),
                At::Idle => {}
                _ => {
                    steps.push(Step::Go(number));
                    if state.deaths > 0 {
                        steps.push(Step::Die(number));
                    }
                }
            }
        }
        if state.losses > 0 {
            steps.push(Step::Lose);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Write(number) => {
                let clone = &mut next.clones[number];
                clone.is_fresh = false;
                clone.tip = Some(append(clone.tip, format!("by {number}").as_bytes()));
            }
            Step::Begin(number) => {
                let clone = &mut next.clones[number];
                (clone.left, clone.at) = (clone.left - 1, At::Begun);
            }
            Step::Go(number) => next = self.go(state, number),
            Step::Die(number) => {
                next.deaths -= 1;
                next.clones[number].at = At::Idle;
            }
            Step::Lose => {
                next.losses -= 1;
                next.remote.shared = None;
                next.remote.outboxes.retain(|outbox, _| *outbox == STRANGER);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("a clone has what was written in it", |_: &World, state: &State| {
                let has = |(number, clone): (usize, &Clone_)| {
                    let line = format!("by {number}").into_bytes();
                    clone.is_fresh || clone.tip.is_some_and(|tip| lines(&row(tip)).contains(&line))
                };
                state.clones.iter().enumerate().all(has)
            }),
            Property::always(
                "the remote has what was acknowledged",
                |world: &World, state: &State| {
                    state.losses < world.losses || state.told.is_subset(&state.remote.rows())
                },
            ),
            Property::always("what is not ours stays on the remote", |_: &World, state: &State| {
                state.remote.outboxes.get(&STRANGER) == Some(&FOREIGN)
            }),
            Property::always("ledgers converge", |world: &World, state: &State| {
                let is_over = |clone: &Clone_| clone.at == At::Idle && clone.left == 0;
                if !state.clones.iter().all(is_over) {
                    return true;
                }
                let end = world.settled(state);
                let tip = end.clones[0].tip;
                let is_same = |clone: &Clone_| clone.tip == tip;
                end.clones.iter().all(is_same)
                    && end.remote.shared == tip
                    && end.remote.outboxes.len() == 1
            }),
            Property::sometimes("an outbox is used", |_: &World, state: &State| {
                state.clones.iter().any(|clone| clone.used_outbox)
            }),
            Property::sometimes("the shared ref has all rows", |_: &World, state: &State| {
                let all = state.remote.shared.map(|shared| lines(&row(shared)).len());
                all == Some(state.clones.len())
            }),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let world = World { fault, clones: 3, exchanges: 1, deaths: 1, losses: 0 };
    let bounds = "3 clones, 1 event and 1 exchange each, 1 death, 1 foreign ref";
    crate::explore("exchange", bounds, world)
}

pub fn explore_loss(fault: Option<Fault>) -> Outcome {
    let world = World { fault, clones: 2, exchanges: 2, deaths: 1, losses: 1 };
    let bounds = "2 clones, 1 event and 2 exchanges each, 1 death, the remote is emptied once";
    crate::explore("exchange-loss", bounds, world)
}
