//! Layered worktrees: two agents over one frozen base, beside a sweep of bases that none uses, and `materialize`.
//!
//! Every process may die at each step, and whoever comes next goes on from what lies on the disk. A base is taken and removed under one
//! lock; an upper directory is mounted by one run at a time, whose processes may outlive the one that began it.

use crate::Outcome;
use stateright::{Model, Property};

const AGENTS: usize = 2;

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An agent takes a base without looking whether it is there still.
    TakesBlindly,
    /// It asks for the record alone, which a sweep that was killed has left.
    AsksForTheRecord,
    /// A sweep does not ask again, under the lock, who uses a base.
    SweepsByTheList,
    /// A sweep removes the record first, and then the files that it names.
    RemovesTheRecordFirst,
    /// A run asks for the lock of the agent alone, which dies with the process that began a run.
    ForgetsTheUpper,
    /// A run says that it is over before what it wrote is on the disk.
    AcknowledgesUnsynced,
    /// `materialize` takes the layer away before the files are in its place.
    RemovesTheLayerFirst,
    /// What comes after a killed `materialize` does not ask whether the files are in its place.
    TrustsTheNote,
}

pub struct World(pub Option<Fault>);

/// What lies on the disk of an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Disk {
    /// Whether its worktree is layered: the record names the base.
    is_layered: bool,
    /// How much of its work is in the upper directory, and of that how much is sure to outlast a power loss.
    upper: u8,
    synced: u8,
    /// How much is in the directory beside the worktree, once it is whole.
    aside: Option<u8>,
    /// How much is in its place, where that is an ordinary worktree.
    place: Option<u8>,
    /// The note of a `materialize`: that it began, or what it is about to exchange.
    note: Option<bool>,
}

/// What works for an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum At {
    /// It is being made: nothing, or an upper directory over a base that was chosen and not taken.
    New,
    Chosen,
    Idle,
    /// A run has it mounted, and has written or not, or has told what it wrote to be synced.
    Runs {
        is_synced: bool,
    },
    /// `materialize`, which holds both locks, has gone so far.
    Gathers,
    Noted,
    Exchanged,
}

/// What a sweep does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sweep {
    Idle,
    /// It has listed a base that none uses.
    Listed,
    /// It holds the lock, and has removed the one half.
    Half,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The files of the base, and the record that names them.
    files: bool,
    record: bool,
    disks: [Disk; AGENTS],
    at: [At; AGENTS],
    /// Processes of a run that outlived the one that began it, and still have the upper directory mounted.
    strays: [bool; AGENTS],
    sweep: Sweep,
    /// How much work each agent was told is kept.
    told: [u8; AGENTS],
    runs: u8,
    deaths: u8,
    /// Whether there was at most one mount of each upper directory.
    is_alone: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Choose(usize),
    Take(usize),
    Run(usize),
    Write(usize),
    Sync(usize),
    End(usize),
    StrayEnds(usize),
    Gather(usize),
    Note(usize),
    Exchange(usize),
    Settle(usize),
    Die(usize),
    List,
    RemoveOne,
    RemoveOther,
    SweepDies,
    PowerLoss,
}

impl World {
    fn has(&self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }

    /// What a command does first where a `materialize` was killed.
    fn settle(&self, disk: &mut Disk) {
        let Some(is_noted) = disk.note.take() else {
            return;
        };
        // The inode of what is in the place tells the exchange, and the note tells the inode.
        let is_exchanged = is_noted && (disk.place.is_some() || self.has(Fault::TrustsTheNote));
        disk.aside = None;
        disk.is_layered &= !is_exchanged;
    }
}

fn uses(state: &State) -> bool {
    state.disks.iter().any(|disk| disk.is_layered)
}

/// What a look at the agent's work finds.
fn seen(disk: &Disk) -> u8 {
    match disk.is_layered {
        true => disk.upper,
        false => disk.place.unwrap_or(0),
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            files: true,
            record: true,
            disks: [Disk::default(), Disk::default()],
            at: [At::New; AGENTS],
            strays: [false; AGENTS],
            sweep: Sweep::Idle,
            told: [0; AGENTS],
            runs: 3,
            deaths: 2,
            is_alone: true,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        for one in 0..AGENTS {
            let is_unmounted = !state.strays[one];
            match state.at[one] {
                At::New => steps.push(Step::Choose(one)),
                // The sweep holds the lock from its second look to its end.
                At::Chosen if state.sweep != Sweep::Half => steps.push(Step::Take(one)),
                At::Chosen => {}
                At::Idle => {
                    let may_mount = is_unmounted || self.has(Fault::ForgetsTheUpper);
                    if state.disks[one].is_layered && state.runs > 0 && may_mount {
                        steps.push(Step::Run(one));
                    }
                    if state.disks[one].is_layered && is_unmounted {
                        steps.push(Step::Gather(one));
                    }
                }
                At::Runs { is_synced } => {
                    steps.push(Step::Write(one));
                    if !is_synced {
                        steps.push(Step::Sync(one));
                    }
                    if is_synced || self.has(Fault::AcknowledgesUnsynced) {
                        steps.push(Step::End(one));
                    }
                }
                At::Gathers => steps.push(Step::Note(one)),
                At::Noted => steps.push(Step::Exchange(one)),
                At::Exchanged => steps.push(Step::Settle(one)),
            }
            if state.strays[one] {
                steps.push(Step::StrayEnds(one));
            }
            if state.deaths > 0 && !matches!(state.at[one], At::New | At::Idle) {
                steps.push(Step::Die(one));
            }
        }
        match state.sweep {
            Sweep::Idle if state.record && !uses(state) => steps.push(Step::List),
            Sweep::Idle => {}
            Sweep::Listed => steps.push(Step::RemoveOne),
            Sweep::Half => steps.push(Step::RemoveOther),
        }
        if state.deaths > 0 {
            if state.sweep != Sweep::Idle {
                steps.push(Step::SweepDies);
            }
            steps.push(Step::PowerLoss);
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Choose(one) => {
                // One that finds none makes one, from its beginning.
                (next.files, next.record) = match state.sweep {
                    Sweep::Half => return None,
                    _ => (true, true),
                };
                next.at[one] = At::Chosen;
            }
            Step::Take(one) => {
                next.at[one] = At::New;
                let files = state.files || self.has(Fault::AsksForTheRecord);
                if state.record && files || self.has(Fault::TakesBlindly) {
                    next.disks[one].is_layered = true;
                    next.at[one] = At::Idle;
                }
            }
            Step::Run(one) => {
                self.settle(&mut next.disks[one]);
                if next.disks[one].is_layered {
                    next.runs -= 1;
                    next.is_alone &= !state.strays[one];
                    next.at[one] = At::Runs { is_synced: false };
                }
            }
            Step::Write(one) => {
                if state.disks[one].upper > 1 {
                    return None;
                }
                next.disks[one].upper += 1;
                next.at[one] = At::Runs { is_synced: false };
            }
            Step::Sync(one) => {
                next.disks[one].synced = state.disks[one].upper;
                next.at[one] = At::Runs { is_synced: true };
            }
            Step::End(one) => {
                next.told[one] = state.disks[one].upper;
                next.at[one] = At::Idle;
            }
            Step::StrayEnds(one) => next.strays[one] = false,
            Step::Gather(one) => {
                self.settle(&mut next.disks[one]);
                let disk = &mut next.disks[one];
                if disk.is_layered {
                    (disk.note, disk.aside) = (Some(false), Some(disk.upper));
                    next.at[one] = At::Gathers;
                }
            }
            Step::Note(one) => {
                next.disks[one].note = Some(true);
                if self.has(Fault::RemovesTheLayerFirst) {
                    next.disks[one].is_layered = false;
                }
                next.at[one] = At::Noted;
            }
            Step::Exchange(one) => {
                next.disks[one].place = next.disks[one].aside.take();
                next.at[one] = At::Exchanged;
            }
            Step::Settle(one) => {
                self.settle(&mut next.disks[one]);
                next.at[one] = At::Idle;
            }
            Step::Die(one) => {
                next.deaths -= 1;
                next.at[one] = match state.at[one] {
                    At::Chosen => At::New,
                    At::Runs { .. } => {
                        next.strays[one] = true;
                        At::Idle
                    }
                    _ => At::Idle,
                };
            }
            Step::List => next.sweep = Sweep::Listed,
            Step::RemoveOne => {
                if uses(state) && !self.has(Fault::SweepsByTheList) {
                    next.sweep = Sweep::Idle;
                    return Some(next);
                }
                match self.has(Fault::RemovesTheRecordFirst) {
                    true => next.record = false,
                    false => next.files = false,
                }
                next.sweep = Sweep::Half;
            }
            Step::RemoveOther => {
                (next.files, next.record) = (false, false);
                next.sweep = Sweep::Idle;
            }
            Step::SweepDies => {
                next.deaths -= 1;
                next.sweep = Sweep::Idle;
            }
            // Nothing works any more, and what was not synced is gone.
            Step::PowerLoss => {
                next.deaths -= 1;
                next.sweep = Sweep::Idle;
                for one in 0..AGENTS {
                    next.strays[one] = false;
                    next.disks[one].upper = state.disks[one].synced;
                    next.at[one] = match state.at[one] {
                        At::New | At::Chosen => At::New,
                        _ => At::Idle,
                    };
                }
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always("an agent's base is there", |_: &World, state: &State| {
                !uses(state) || state.record && state.files
            }),
            Property::always("files of a base are named", |_: &World, state: &State| {
                state.record || !state.files
            }),
            Property::always("an upper has one mount", |_: &World, state: &State| state.is_alone),
            Property::always("what was told to be kept is seen", |_: &World, state: &State| {
                (0..AGENTS).all(|one| seen(&state.disks[one]) >= state.told[one])
            }),
            Property::sometimes("both agents share the base", |_: &World, state: &State| {
                state.disks.iter().all(|disk| disk.is_layered)
            }),
            Property::sometimes("a base is swept", |_: &World, state: &State| {
                !state.record && !state.files
            }),
            Property::sometimes("work is in an ordinary worktree", |_: &World, state: &State| {
                state.disks.iter().any(|disk| !disk.is_layered && disk.place > Some(0))
            }),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let bounds = "2 agents over 1 base, 3 runs, a sweep, materialize, 2 deaths or power losses";
    crate::explore("layers", bounds, World(fault))
}
