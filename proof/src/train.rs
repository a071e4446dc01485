//! Trains: the product's own decision (`domain::train::decide`), in every world of a few candidates and against every way in which checks,
//! other processes and death can answer it.
//!
//! The decision is one function, so a state is the list of the answers that it was given: the checker asks it again from the start
//! with one answer more. A check of a bad stack is red; one of a good stack is green, or red by accident. While checks run, another
//! process may move the target, and then what the decision brings comes too late. A train that is killed, or whose target moved, is
//! followed by another one with what is left.

use crate::Outcome;
use git_agent::domain::landing::train::{Culprit, Track, WantedCheck, decide};
use stateright::{Model, Property};
use std::collections::BTreeSet;

/// What a train leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It moves the target wherever that is.
    SwapsWithoutCompare,
    /// It gives the first answer again where it is asked a second time.
    RemembersRed,
    /// It takes the answer to a part of a stack for the answer to all of it.
    ChecksTheFirstOnly,
}

pub struct World {
    pub fault: Option<Fault>,
    pub candidates: usize,
    pub jobs: usize,
    /// How many checks may fail by accident, how often the target moves, and how many trains are killed.
    pub accidents: u8,
    pub moves: u8,
    pub deaths: u8,
}

/// What is the matter with the candidates, each a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nature {
    bad: u8,
    /// Two that are bad together.
    bad_pair: Option<(u8, u8)>,
    /// Two that conflict.
    conflict: Option<(u8, u8)>,
    /// One that is bad on what another process brings to the target.
    bad_after_move: Option<u8>,
}

/// What the world answers when it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The checks say how it is.
    True,
    /// The first stack that is green is red by accident.
    Accident,
    /// The checks say how it is, and another process moves the target meanwhile.
    Moved,
    /// The train is killed.
    Killed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nature: Nature,
    answers: Vec<Answer>,
}

/// What is on a target: candidates in their order, on what others brought.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stack {
    moved: u8,
    members: Vec<u8>,
}

/// What came of the answers so far.
#[derive(Default)]
struct Story {
    /// Whether one answer more is wanted, and which there can be.
    wanted: Vec<Answer>,
    landed: Vec<u8>,
    rejected: BTreeSet<u8>,
    conflicting: BTreeSet<u8>,
    /// Whether the target was only moved by trains to what was checked and green.
    is_green: bool,
    /// Whether what others brought made the target red, so that nothing can be decided.
    is_red: bool,
    /// Whether each that was rejected is bad on what is good without it.
    is_just: bool,
    /// Whether what was on the target has stayed there.
    is_kept: bool,
    moves: u8,
    accidents: u8,
    deaths: u8,
}

enum Stop {
    Wanted,
    Killed,
}

/// One train.
struct Run<'w> {
    world: &'w World,
    nature: Nature,
    answers: &'w [Answer],
    used: usize,
    story: Story,
    /// What the target is at, and what the train takes it for.
    target: Stack,
    ground: Stack,
    has_moved: bool,
    /// What is to land when the next checks run.
    pending: Vec<(Vec<u8>, Stack)>,
    /// Stacks that a check said were green, and red.
    green: Vec<Stack>,
    red: Vec<Stack>,
    /// The numbers of the candidates.
    queue: Vec<u8>,
}

impl Nature {
    fn is_good(&self, stack: &Stack) -> bool {
        let has = |one: u8| stack.members.contains(&one);
        let is_bad = stack.members.iter().any(|one| self.bad & (1 << one) != 0);
        let is_bad_pair = self.bad_pair.is_some_and(|(one, other)| has(one) && has(other));
        let is_stale = stack.moved > 0 && self.bad_after_move.is_some_and(has);
        !(is_bad || is_bad_pair || is_stale)
    }
}

impl Run<'_> {
    /// What was decided is carried out while the next checks run. Once the target has moved nothing lands any more.
    fn settle(&mut self) {
        for (candidates, stack) in std::mem::take(&mut self.pending) {
            let before = Stack {
                moved: self.ground.moved,
                members: stack.members[..stack.members.len() - candidates.len()].to_vec(),
            };
            let is_there = self.target == before;
            if self.has_moved || (!is_there && self.world.fault != Some(Fault::SwapsWithoutCompare))
            {
                self.has_moved = true;
                continue;
            }
            self.story.is_kept &= is_there;
            self.story.is_green &= self.green.contains(&stack) && self.nature.is_good(&stack);
            self.target = stack;
            self.story.landed.extend(candidates);
        }
    }

    /// The next answer of the world; the ones that there can be where it has not been given yet.
    fn answer(&mut self, has_green: bool) -> Result<Answer, Stop> {
        if let Some(answer) = self.answers.get(self.used) {
            self.used += 1;
            return Ok(*answer);
        }
        let world = self.world;
        let story = &mut self.story;
        story.wanted.push(Answer::True);
        if has_green && story.accidents < world.accidents {
            story.wanted.push(Answer::Accident);
        }
        if story.moves < world.moves {
            story.wanted.push(Answer::Moved);
        }
        if story.deaths < world.deaths {
            story.wanted.push(Answer::Killed);
        }
        Err(Stop::Wanted)
    }
}

impl Track for Run<'_> {
    type Stack = Stack;
    type Error = Stop;

    fn push(&mut self, stack: &Stack, candidate: usize) -> Result<Option<Stack>, Stop> {
        let candidate = self.queue[candidate];
        let meets = |one: u8, other: u8| candidate == one && stack.members.contains(&other);
        if self.nature.conflict.is_some_and(|(one, other)| meets(one, other) || meets(other, one)) {
            return Ok(None);
        }
        let mut pushed = stack.clone();
        pushed.members.push(candidate);
        Ok(Some(pushed))
    }

    fn check(&mut self, questions: &[WantedCheck<Stack>]) -> Result<Option<Vec<bool>>, Stop> {
        self.settle();
        let is_good = |question: &WantedCheck<Stack>| match self.world.fault {
            Some(Fault::ChecksTheFirstOnly) => self.nature.is_good(&Stack {
                moved: question.stack.moved,
                members: question.stack.members.iter().take(1).copied().collect(),
            }),
            _ => self.nature.is_good(&question.stack),
        };
        let mut greens: Vec<bool> = questions.iter().map(is_good).collect();
        if self.world.fault == Some(Fault::RemembersRed) {
            for (question, is_green) in questions.iter().zip(&mut greens) {
                *is_green &= !self.red.contains(&question.stack);
            }
        }
        match self.answer(greens.contains(&true))? {
            Answer::True => {}
            Answer::Accident => {
                self.story.accidents += 1;
                let first = greens.iter().position(|is_green| *is_green);
                first.into_iter().for_each(|at| greens[at] = false);
            }
            Answer::Moved => {
                self.story.moves += 1;
                self.target.moved += 1;
            }
            Answer::Killed => return Err(Stop::Killed),
        }
        for (question, is_green) in questions.iter().zip(&greens) {
            let list = if *is_green { &mut self.green } else { &mut self.red };
            list.push(question.stack.clone());
        }
        Ok(Some(greens))
    }

    fn has_moved(&self) -> bool {
        self.has_moved
    }

    fn land(&mut self, stack: &Stack, candidates: &[usize]) -> Result<(), Stop> {
        let candidates = candidates.iter().map(|one| self.queue[*one]).collect();
        self.pending.push((candidates, stack.clone()));
        Ok(())
    }

    fn reject(&mut self, culprit: &Culprit<Stack>) -> Result<(), Stop> {
        // The row is written with the next settlement, in order; nothing else is decided by it.
        self.settle();
        let mut below = culprit.red.clone();
        let is_top = below.members.pop() == Some(self.queue[culprit.candidate]);
        let is_guilty = self.nature.is_good(&below) && !self.nature.is_good(&culprit.red);
        self.story.is_just &= is_top && is_guilty;
        self.story.rejected.insert(self.queue[culprit.candidate]);
        Ok(())
    }
}

impl World {
    /// What the answers lead to: trains until nothing is left to decide.
    fn story(&self, state: &State) -> Story {
        let mut run = Run {
            world: self,
            nature: state.nature,
            answers: &state.answers,
            used: 0,
            story: Story { is_green: true, is_kept: true, is_just: true, ..Story::default() },
            target: Stack { moved: 0, members: Vec::new() },
            ground: Stack { moved: 0, members: Vec::new() },
            has_moved: false,
            pending: Vec::new(),
            green: Vec::new(),
            red: Vec::new(),
            queue: Vec::new(),
        };
        // Each train but the last was killed, or came too late.
        for _ in 0..=self.moves + self.deaths {
            let story = &run.story;
            let is_open = |one: &u8| !story.landed.contains(one) && !story.rejected.contains(one);
            run.queue = (0..self.candidates as u8).filter(is_open).collect();
            run.ground = run.target.clone();
            (run.has_moved, run.pending) = (false, Vec::new());
            let (start, count) = (run.ground.clone(), run.queue.len());
            match decide(&mut run, start, count, self.jobs) {
                Err(Stop::Wanted) => break,
                // What it remembered of checks is on the disk.
                Err(Stop::Killed) => run.story.deaths += 1,
                Ok(decided) => {
                    run.settle();
                    if !run.has_moved {
                        let own = decided.conflicting.iter().map(|one| run.queue[*one]);
                        run.story.conflicting = own.collect();
                        run.story.is_red =
                            decided.target_is_red && !run.nature.is_good(&run.target);
                        break;
                    }
                }
            }
        }
        run.story
    }
}

impl Model for World {
    type State = State;
    type Action = Answer;

    fn init_states(&self) -> Vec<State> {
        let count = self.candidates as u8;
        let pairs =
            || (0..count).flat_map(move |one| (one + 1..count).map(move |other| (one, other)));
        let some_pair = || std::iter::once(None).chain(pairs().map(Some));
        let mut states = Vec::new();
        for bad in 0..(1 << count) {
            for bad_pair in some_pair() {
                for conflict in some_pair() {
                    let stale = if self.moves > 0 { count } else { 0 };
                    for bad_after_move in std::iter::once(None).chain((0..stale).map(Some)) {
                        states.push(State {
                            nature: Nature { bad, bad_pair, conflict, bad_after_move },
                            answers: Vec::new(),
                        });
                    }
                }
            }
        }
        states
    }

    fn actions(&self, state: &State, answers: &mut Vec<Answer>) {
        answers.extend(self.story(state).wanted);
    }

    fn next_state(&self, state: &State, answer: Answer) -> Option<State> {
        let mut next = state.clone();
        next.answers.push(answer);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<World>> {
        vec![
            Property::always(
                "trains move the target only to green trees",
                |world: &World, state: &State| world.story(state).is_green,
            ),
            Property::always("what others brought stays", |world: &World, state: &State| {
                world.story(state).is_kept
            }),
            Property::always(
                "only what is bad on what is good is rejected",
                |world: &World, state: &State| world.story(state).is_just,
            ),
            Property::always(
                "at the end all are landed, rejected or in conflict",
                |world: &World, state: &State| {
                    let story = world.story(state);
                    let ended = story.landed.len() + story.rejected.len() + story.conflicting.len();
                    !story.wanted.is_empty() || story.is_red || ended == world.candidates
                },
            ),
            Property::always("none that is bad lands", |world: &World, state: &State| {
                let landed = world.story(state).landed;
                landed.iter().all(|one| state.nature.bad & (1 << one) == 0)
            }),
            Property::sometimes("all land", |world: &World, state: &State| {
                world.story(state).landed.len() == world.candidates
            }),
        ]
    }
}

pub fn explore(fault: Option<Fault>) -> Outcome {
    let world = World { fault, candidates: 3, jobs: 2, accidents: 0, moves: 1, deaths: 1 };
    let bounds =
        "3 candidates in each constellation, 2 jobs, the target moves once, 1 train is killed";
    crate::explore("train", bounds, world)
}

pub fn explore_flaky(fault: Option<Fault>) -> Outcome {
    let world = World { fault, candidates: 3, jobs: 1, accidents: 1, moves: 0, deaths: 0 };
    let bounds = "3 candidates in each constellation, 1 job, a check fails by accident";
    crate::explore("train-flaky", bounds, world)
}
