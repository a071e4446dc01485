//! Publishing from the quarantine, `discard`, and git's garbage collection beside both, while the agent still works and a person may take
//! its branch for something else.
//!
//! Work is in places: committed in the run repository, as objects of the repository, on the agent's branch, under the keep chain; and files in
//! the worktree. Objects that nothing names are deleted by `git gc` once they are old; how old is asked of git's configuration
//! (two weeks unless it is changed), so within one command they stay.

use crate::Outcome;
use stateright::{Model, Property};

/// What a process leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It removes the run repository before its commits are on a branch.
    RemovesFirst,
    /// It forgets commits where the branch was moved by someone else.
    ForgetsWhatCannotMove,
    /// It moves the branch wherever that is.
    SwapsWithoutCompare,
    /// It removes the worktree before what is in it is kept.
    KeepsLater,
    /// It deletes the branch wherever that is.
    DeletesWithoutCompare,
    /// It does not look again at what was written while it kept the files.
    LooksOnce,
    /// git deletes what nothing names at once (`gc.pruneExpire=now`, of which `doctor` warns).
    PrunesAtOnce,
}

pub struct World(pub Option<Fault>);

/// What a branch is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tip {
    /// The agent's spawn commit.
    Base,
    /// The agent's commit.
    Work,
    /// A commit of a person's, on top of the base.
    Person,
    Gone,
}

/// Where the command is that publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Publishing {
    Idle,
    /// The objects are taken in.
    Taken,
    /// The branch has moved, or what it cannot hold is kept.
    Placed,
}

/// Where a discard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Discarding {
    Idle,
    /// It holds the agent for itself; the worktree has a name that no process knows.
    Aside(Tip),
    /// This version of the files is an object; the commit of the branch too.
    Salvaged(Tip, u8),
    /// The keep chain names them.
    Kept(Tip, u8),
    /// It has looked again.
    Proven(Tip),
    /// The worktree is gone.
    Emptied(Tip),
    /// The row says so.
    Recorded(Tip),
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    branch: Tip,
    /// The agent's commit: whether the run repository has it, and whether the repository has its objects.
    in_run_repo: bool,
    in_objects: bool,
    /// Whether the keep chain names the agent's commit, the person's.
    keeps_work: bool,
    keeps_person: bool,
    /// The newest version of the files in the worktree, and the newest one that is an object, and that the keep chain names.
    files: u8,
    salvaged: u8,
    kept_files: u8,
    has_worktree: bool,
    publishing: Publishing,
    discarding: Discarding,
    /// A process that stands in the worktree may still write into it.
    writes: u8,
    persons: u8,
    collections: u8,
    deaths: u8,
    /// Whether the person made a commit, and whether their branch was deleted or moved by us.
    has_person: bool,
    is_spared: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Take,
    Place,
    RemoveRunRepo,
    Discard,
    /// A person commits to the branch, or makes it anew.
    Person,
    /// A process that has the worktree open writes a file.
    Write,
    Collect,
    DiePublishing,
    DieDiscarding,
}

impl World {
    fn has(&self, fault: Fault) -> bool {
        self.0 == Some(fault)
    }
}

impl Model for World {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            branch: Tip::Base,
            in_run_repo: true,
            in_objects: false,
            keeps_work: false,
            keeps_person: false,
            files: 1,
            salvaged: 0,
            kept_files: 0,
            has_worktree: true,
            publishing: Publishing::Idle,
            discarding: Discarding::Idle,
            writes: 1,
            persons: 1,
            collections: 1,
            deaths: 2,
            has_person: false,
            is_spared: true,
        }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        // Both take the agent's lock: a discard waits until what a run left is published, and no run begins during a discard.
        let is_alone = matches!(state.discarding, Discarding::Idle | Discarding::Over);
        if state.in_run_repo && is_alone {
            steps.push(match state.publishing {
                Publishing::Idle => Step::Take,
                Publishing::Taken => Step::Place,
                Publishing::Placed => Step::RemoveRunRepo,
            });
        }
        let is_published = !state.in_run_repo && state.publishing == Publishing::Idle;
        if state.discarding != Discarding::Over && is_published {
            steps.push(Step::Discard);
        }
        if state.persons > 0 {
            steps.push(Step::Person);
        }
        if state.writes > 0 && state.has_worktree {
            steps.push(Step::Write);
        }
        if state.collections > 0 {
            steps.push(Step::Collect);
        }
        if state.deaths > 0 {
            if state.publishing != Publishing::Idle {
                steps.push(Step::DiePublishing);
            }
            if !is_alone {
                steps.push(Step::DieDiscarding);
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Take => {
                next.in_objects = true;
                next.publishing = Publishing::Taken;
                next.in_run_repo = !self.has(Fault::RemovesFirst);
                if self.has(Fault::RemovesFirst) {
                    next.publishing = Publishing::Idle;
                }
            }
            Step::Place => {
                let is_there = state.branch == Tip::Base || state.branch == Tip::Work;
                if is_there || self.has(Fault::SwapsWithoutCompare) {
                    next.is_spared &= state.branch != Tip::Person;
                    next.branch = Tip::Work;
                } else if !self.has(Fault::ForgetsWhatCannotMove) {
                    next.keeps_work = true;
                }
                next.publishing = Publishing::Placed;
            }
            Step::RemoveRunRepo => {
                next.in_run_repo = false;
                next.publishing = Publishing::Idle;
            }
            Step::Discard => {
                next.discarding = match state.discarding {
                    // It asks where the branch is under the locks, and puts the worktree aside, if there is one.
                    Discarding::Idle if self.has(Fault::KeepsLater) => {
                        next.has_worktree = false;
                        Discarding::Aside(state.branch)
                    }
                    Discarding::Idle => Discarding::Aside(state.branch),
                    Discarding::Aside(tip) => {
                        next.salvaged =
                            if state.has_worktree { state.files } else { state.salvaged };
                        Discarding::Salvaged(tip, next.salvaged)
                    }
                    Discarding::Salvaged(tip, files) => {
                        next.kept_files = next.kept_files.max(files);
                        next.keeps_work |= tip == Tip::Work;
                        next.keeps_person |= tip == Tip::Person;
                        Discarding::Kept(tip, files)
                    }
                    Discarding::Kept(tip, files) => {
                        // What was written meanwhile is kept as well.
                        if state.has_worktree && !self.has(Fault::LooksOnce) {
                            next.salvaged = state.files;
                            next.kept_files = state.files;
                        }
                        let _ = files;
                        Discarding::Proven(tip)
                    }
                    Discarding::Proven(tip) => {
                        next.has_worktree = false;
                        Discarding::Emptied(tip)
                    }
                    Discarding::Emptied(tip) => Discarding::Recorded(tip),
                    Discarding::Recorded(tip) => {
                        let is_there =
                            state.branch == tip || self.has(Fault::DeletesWithoutCompare);
                        if is_there && state.branch != Tip::Gone {
                            // A commit that the discard has seen and kept was given up with the branch.
                            next.is_spared &= state.branch != Tip::Person || state.keeps_person;
                            next.branch = Tip::Gone;
                        }
                        Discarding::Over
                    }
                    Discarding::Over => return None,
                };
            }
            Step::Person => {
                next.persons -= 1;
                next.has_person = true;
                next.branch = Tip::Person;
                // Their commit stands on what was there.
                if state.branch == Tip::Work {
                    next.keeps_work = true;
                }
            }
            Step::Write => {
                next.writes -= 1;
                // From the last look until the directory is gone, what is written is lost with a directory that was given up: files that a
                // process still writes into a removed worktree are not acknowledged by anyone.
                if matches!(state.discarding, Discarding::Proven(_)) {
                    return None;
                }
                next.files += 1;
            }
            Step::Collect => {
                next.collections -= 1;
                if self.has(Fault::PrunesAtOnce) {
                    let named = state.branch == Tip::Work || state.keeps_work;
                    next.in_objects &= named;
                    next.salvaged = next.salvaged.min(state.kept_files);
                }
            }
            Step::DiePublishing => {
                next.deaths -= 1;
                next.publishing = Publishing::Idle;
            }
            // The next discard, or `doctor --fix`, goes on from the start; what is aside is found by its name.
            Step::DieDiscarding => {
                next.deaths -= 1;
                next.discarding = Discarding::Idle;
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always(
                "what the agent committed can be had back",
                |_: &World, state: &State| {
                    let is_named = state.branch == Tip::Work || state.keeps_work;
                    state.in_run_repo || is_named && state.in_objects
                },
            ),
            Property::always(
                "what is in the worktree can be had back",
                |_: &World, state: &State| {
                    state.has_worktree
                        || state.kept_files == state.files && state.salvaged == state.files
                },
            ),
            Property::always(
                "a person's commit is neither moved nor deleted by us",
                |_: &World, state: &State| {
                    let is_there = state.branch == Tip::Person || state.keeps_person;
                    state.is_spared && (!state.has_person || is_there)
                },
            ),
            Property::sometimes("all is removed", |_: &World, state: &State| {
                state.discarding == Discarding::Over
                    && state.branch == Tip::Gone
                    && !state.has_worktree
            }),
            Property::sometimes("a branch that a person took stays", |_: &World, state: &State| {
                state.discarding == Discarding::Over && state.branch == Tip::Person
            }),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let bounds =
        "1 agent, 1 publication, 1 discard, git gc, 1 commit by a person, 1 late write, 2 deaths";
    crate::explore("removal", bounds, World(fault))
}
