//! The decision against a reference that lands one candidate after the other.

use super::{Decided, Track, decide};
use proptest::prelude::*;
use std::collections::HashMap;
use std::convert::Infallible;

/// Candidates by number: bad alone, bad with an earlier one, in conflict with another.
#[derive(Clone, Debug, Default)]
struct World {
    count: usize,
    bad: u64,
    bad_together: Vec<(usize, usize)>,
    conflicts: Vec<(usize, usize)>,
    target_is_red: bool,
    /// How many checks end red by accident, counted from the first.
    accidents: Vec<usize>,
    /// Candidates that fail the first check that gets as far as them.
    flaky: u64,
    /// Whether the answers tell why a stack is red.
    tells_reasons: bool,
}

impl World {
    fn is_green(&self, stack: u64) -> bool {
        self.reason(stack).is_none()
    }

    /// What the check of a stack ends with, if it is red.
    fn reason(&self, stack: u64) -> Option<&'static str> {
        let holds = |one: usize| stack >> one & 1 == 1;
        if self.target_is_red {
            Some("the target")
        } else if stack & self.bad != 0 {
            Some("a bad one")
        } else if { self.bad_together.iter() }.any(|(one, two)| holds(*one) && holds(*two)) {
            Some("two together")
        } else {
            None
        }
    }

    fn fits(&self, stack: u64, candidate: usize) -> bool {
        !self.conflicts.iter().any(|(one, two)| {
            (*one == candidate && stack >> two & 1 == 1)
                || (*two == candidate && stack >> one & 1 == 1)
        })
    }

    /// What landing one after the other comes to.
    fn one_by_one(&self) -> u64 {
        (0..self.count).fold(0, |landed, candidate| {
            let with = landed | 1 << candidate;
            if self.fits(landed, candidate) && self.is_green(with) {
                with
            } else {
                landed
            }
        })
    }
}

/// A world that counts, and holds what must hold at every step.
struct Counting<'w> {
    world: &'w World,
    landed: u64,
    runs: usize,
    rounds: usize,
    target_runs: usize,
    most: usize,
    /// The flaky candidates that have failed.
    seen: u64,
    /// Why each stack was red when it was checked last.
    reasons: HashMap<u64, Option<&'static str>>,
}

impl Track for Counting<'_> {
    type Stack = u64;
    type Error = Infallible;

    fn push(&mut self, stack: &u64, candidate: usize) -> Result<Option<u64>, Infallible> {
        assert_eq!(stack >> candidate & 1, 0, "it is there already");
        let fits = self.world.fits(*stack, candidate);
        Ok(fits.then_some(stack | 1 << candidate))
    }

    fn check(&mut self, stacks: &[u64]) -> Result<Option<Vec<bool>>, Infallible> {
        if self.runs + stacks.len() > self.most {
            return Ok(None);
        }
        self.rounds += 1;
        let mut answers = Vec::new();
        for stack in stacks {
            let mut reason = self.world.reason(*stack);
            if reason.is_none() && stack & self.world.flaky & !self.seen != 0 {
                self.seen |= stack & self.world.flaky;
                reason = Some("by accident");
            }
            if self.world.accidents.contains(&self.runs) {
                reason = reason.or(Some("by accident"));
            }
            self.runs += 1;
            self.reasons.insert(*stack, reason);
            answers.push(reason.is_none());
        }
        Ok(Some(answers))
    }

    fn check_target(&mut self) -> Result<Option<bool>, Infallible> {
        self.target_runs += 1;
        Ok((self.runs < self.most).then_some(!self.world.target_is_red))
    }

    fn is_alike(&self, one: &u64, other: &u64) -> bool {
        !self.world.tells_reasons || self.reasons.get(one) == self.reasons.get(other)
    }

    fn land(&mut self, stack: &u64, candidates: &[usize]) -> Result<(), Infallible> {
        assert!(self.world.is_green(*stack), "only what is green lands");
        let new = candidates.iter().fold(0, |all, one| all | 1 << one);
        assert_eq!(self.landed | new, *stack);
        self.landed = *stack;
        Ok(())
    }

    fn reject(&mut self, candidate: usize, red: &u64) -> Result<(), Infallible> {
        let below = red & !(1 << candidate);
        assert_eq!(below & !self.landed, 0, "all below it landed");
        assert!(self.world.is_green(below) && !self.world.is_green(*red));
        Ok(())
    }
}

fn decided(world: &World, jobs: usize) -> (Decided, Counting<'_>) {
    let mut track = Counting {
        world,
        landed: 0,
        runs: 0,
        rounds: 0,
        target_runs: 0,
        most: usize::MAX,
        seen: 0,
        reasons: HashMap::new(),
    };
    let Ok(decided) = decide(&mut track, 0, world.count, jobs);
    let all = [
        &decided.landed,
        &decided.rejected,
        &decided.conflicting,
        &decided.undecided,
    ];
    let mut all: Vec<usize> = all.into_iter().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..world.count), "each once: {decided:?}");
    assert!(track.target_runs <= 1);
    (decided, track)
}

/// `1 + bad × ceil(log2 n) + bad`.
fn bound(count: usize, bad: usize) -> usize {
    let steps = count.next_power_of_two().trailing_zeros() as usize;
    1 + bad * steps + bad
}

fn of(count: usize, bad: &[usize]) -> World {
    World {
        count,
        bad: bad.iter().fold(0, |all, one| all | 1 << one),
        ..World::default()
    }
}

#[test]
fn sixty_four_good_candidates_take_one_check() {
    for jobs in 1..5 {
        let (world, track) = (of(64, &[]), 1);
        assert_eq!(decided(&world, jobs).1.runs, track);
    }
}

#[test]
fn three_bad_ones_among_sixty_four_take_no_more_than_22_checks_and_16_times_one() {
    for first in 0..64 {
        for second in first + 1..64 {
            for third in (second + 1..64).step_by(5) {
                let world = of(64, &[first, second, third]);
                for jobs in [1, 2] {
                    let (outcome, track) = decided(&world, jobs);
                    assert_eq!(outcome.landed.len(), 61);
                    let runs = track.runs + track.target_runs;
                    assert!(runs <= 22, "{first} {second} {third}: {runs}");
                    assert!(jobs == 1 || track.rounds <= 16, "{}", track.rounds);
                }
            }
        }
    }
}

#[test]
fn a_red_target_rejects_no_candidate() {
    for count in [1, 2, 9] {
        let world = World {
            target_is_red: true,
            ..of(count, &[])
        };
        let (outcome, track) = decided(&world, 1);
        assert!(outcome.target_is_red);
        assert_eq!(outcome.undecided.len(), count);
        assert!(track.runs <= bound(count, 2));
    }
}

#[test]
fn a_red_answer_by_accident_rejects_no_candidate_where_it_stands_alone() {
    for count in [1, 2, 7, 64] {
        let world = World {
            accidents: vec![0],
            ..of(count, &[])
        };
        let (outcome, track) = decided(&world, 1);
        assert_eq!(outcome.landed.len(), count);
        assert!(track.runs <= bound(count, 1), "{}", track.runs);
    }
}

#[test]
fn a_red_answer_by_accident_rejects_no_candidate_where_another_one_is_bad() {
    for (bad, accident, jobs) in { 0..16 }
        .flat_map(|bad| { 0..12 }.flat_map(move |at| { 1..4 }.map(move |jobs| (bad, at, jobs))))
    {
        let world = World {
            accidents: vec![accident],
            tells_reasons: true,
            ..of(16, &[bad])
        };
        let (outcome, _) = decided(&world, jobs);
        assert_eq!(outcome.rejected, [bad], "run {accident} with {jobs} jobs");
    }
}

#[test]
fn no_more_checks_leave_the_rest_undecided() {
    let world = of(16, &[3, 9]);
    for most in 0..20 {
        let mut track = Counting {
            world: &world,
            landed: 0,
            runs: 0,
            rounds: 0,
            target_runs: 0,
            most,
            seen: 0,
            reasons: HashMap::new(),
        };
        let Ok(outcome) = decide(&mut track, 0, 16, 2);
        let settled = outcome.landed.len() + outcome.rejected.len();
        assert_eq!(settled + outcome.undecided.len(), 16, "{outcome:?}");
    }
}

fn pairs(count: usize, most: usize) -> impl Strategy<Value = Vec<(usize, usize)>> {
    let pair = (0..count, 0..count).prop_filter("two of them", |(one, two)| one != two);
    proptest::collection::vec(pair, 0..=most)
}

fn worlds() -> impl Strategy<Value = World> {
    (2usize..40).prop_flat_map(|count| {
        let bad = proptest::collection::vec(0..count, 0..4);
        (bad, pairs(count, 2), pairs(count, 3)).prop_map(move |(bad, bad_together, conflicts)| {
            World {
                bad_together,
                conflicts,
                ..of(count, &bad)
            }
        })
    })
}

proptest! {
    #[test]
    fn one_job_lands_what_one_by_one_lands(world in worlds()) {
        let (outcome, track) = decided(&world, 1);
        prop_assert_eq!(track.landed, world.one_by_one());
        // One that waited for a rejected one is checked in a round of its own.
        let is_waited_for = |bad: usize| {
            { world.conflicts.iter() }.any(|(one, two)| (*one).min(*two) == bad)
        };
        let waited_for = { outcome.rejected.iter() }.filter(|bad| is_waited_for(**bad)).count();
        let most = bound(world.count, outcome.rejected.len()) + waited_for;
        prop_assert!(track.runs <= most, "{} runs, {most}", track.runs);
    }

    #[test]
fn flaky_candidates_land(world in worlds(), flaky in any::<u64>(), jobs in 1usize..4) {
        let world = World { flaky, tells_reasons: true, ..world };
        prop_assert_eq!(decided(&world, 1).1.landed, world.one_by_one());
        let unordered = World { conflicts: Vec::new(), bad_together: Vec::new(), ..world };
        prop_assert_eq!(decided(&unordered, jobs).1.landed, unordered.one_by_one());
    }

    #[test]
    fn more_jobs_land_the_same_where_no_order_matters(world in worlds(), jobs in 2usize..6) {
        let unordered = World { conflicts: Vec::new(), bad_together: Vec::new(), ..world };
        let (outcome, track) = decided(&unordered, jobs);
        prop_assert_eq!(track.landed, unordered.one_by_one());
        prop_assert_eq!(outcome.rejected.len() as u32, unordered.bad.count_ones());
        let most = bound(unordered.count, outcome.rejected.len() + 1);
        prop_assert!(jobs > 2 || track.runs <= most, "{} runs, {}", track.runs, most);
    }

    #[test]
    fn more_jobs_land_what_is_green_and_all_that_fits(world in worlds(), jobs in 2usize..6) {
        let (outcome, track) = decided(&world, jobs);
        for one in &outcome.rejected {
            // Still red on top of everything that landed.
            prop_assert!(!world.is_green(track.landed | 1 << one));
        }
        for one in &outcome.conflicting {
            prop_assert!(!world.fits(track.landed, *one));
        }
    }
}
