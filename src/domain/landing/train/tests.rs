//! The decision against a reference that lands one candidate after the other.

use super::{Culprit, Decided, Purpose, Track, WantedCheck, decide};
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
    /// How many of a hundred checks are red for no reason, and what the random numbers begin with.
    rate: Option<(u64, u64)>,
    /// How many landings come too late, because another process moved the target.
    moves: usize,
}

impl World {
    fn is_green(&self, stack: u64) -> bool {
        let holds = |one: usize| stack >> one & 1 == 1;
        let mut together = self.bad_together.iter();
        !self.target_is_red
            && stack & self.bad == 0
            && !together.any(|(one, two)| holds(*one) && holds(*two))
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
            if self.fits(landed, candidate) && self.is_green(with) { with } else { landed }
        })
    }
}

/// A world that counts, and holds what must hold at every step.
struct Counting<'w> {
    world: &'w World,
    jobs: usize,
    landed: u64,
    /// Checks that find culprits, those that make sure, and rounds of them.
    runs: usize,
    again: usize,
    rounds: usize,
    most: usize,
    /// The flaky candidates that have failed.
    seen: u64,
    /// How often each stack was red.
    reds: HashMap<u64, usize>,
    random: u64,
    moves: usize,
    has_moved: bool,
    /// Culprits that fail only together with another one.
    pairs: Vec<(usize, usize)>,
    /// What was asked together, with the answers.
    asked: Vec<Vec<(u64, Purpose, bool)>>,
}

impl<'w> Counting<'w> {
    fn of(world: &'w World, jobs: usize) -> Counting<'w> {
        let seed = world.rate.map_or(0, |(_, seed)| seed);
        Counting {
            world,
            jobs,
            landed: 0,
            runs: 0,
            again: 0,
            rounds: 0,
            most: usize::MAX,
            seen: 0,
            reds: HashMap::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            moves: world.moves,
            has_moved: false,
            pairs: Vec::new(),
            asked: Vec::new(),
        }
    }

    /// Whether a check is red for no reason (xorshift64*).
    fn is_accident(&mut self) -> bool {
        let Some((rate, _)) = self.world.rate else {
            return false;
        };
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 100 < rate
    }
}

impl Track for Counting<'_> {
    type Stack = u64;
    type Error = Infallible;

    fn push(&mut self, stack: &u64, candidate: usize) -> Result<Option<u64>, Infallible> {
        assert_eq!(stack >> candidate & 1, 0, "it is there already");
        let fits = self.world.fits(*stack, candidate);
        Ok(fits.then_some(stack | 1 << candidate))
    }

    fn check(&mut self, questions: &[WantedCheck<u64>]) -> Result<Option<Vec<bool>>, Infallible> {
        if self.runs + self.again + questions.len() > self.most {
            return Ok(None);
        }
        assert!(questions.len() <= self.jobs.max(2), "no more than there are jobs");
        assert!(!questions.is_empty(), "a round without a question");
        for (at, one) in questions.iter().enumerate() {
            let is_same = |other: &WantedCheck<u64>| other.stack == one.stack;
            let is_twice = one.purpose == Purpose::Search && questions[..at].iter().any(is_same);
            assert!(!is_twice, "a search needs one answer for each stack");
        }
        self.rounds += questions.len().div_ceil(self.jobs);
        let mut answers = Vec::new();
        for WantedCheck { stack, purpose } in questions {
            let is_of_target = matches!(purpose, Purpose::Target | Purpose::Again);
            assert!(*purpose != Purpose::Target || *stack == 0);
            assert!(*stack != 0 || is_of_target);
            let mut is_green = self.world.is_green(*stack) && !self.is_accident();
            if stack & self.world.flaky & !self.seen != 0 {
                self.seen |= stack & self.world.flaky;
                is_green = false;
            }
            is_green &= !self.world.accidents.contains(&(self.runs + self.again));
            *(if purpose.is_bounded() { &mut self.runs } else { &mut self.again }) += 1;
            *self.reds.entry(*stack).or_default() += usize::from(!is_green);
            answers.push(is_green);
        }
        let asked = questions
            .iter()
            .zip(&answers)
            .map(|(question, is_green)| (question.stack, question.purpose, *is_green));
        self.asked.push(asked.collect());
        Ok(Some(answers))
    }

    fn has_moved(&self) -> bool {
        self.has_moved
    }

    fn land(&mut self, stack: &u64, candidates: &[usize]) -> Result<(), Infallible> {
        assert!(self.world.is_green(*stack), "only what is green lands");
        if self.moves > 0 && !self.has_moved {
            self.has_moved = true;
            self.moves -= 1;
        }
        let new = candidates.iter().fold(0, |all, one| all | 1 << one);
        if !self.has_moved {
            assert_eq!(self.landed | new, *stack);
            self.landed = *stack;
        }
        Ok(())
    }

    fn reject(&mut self, culprit: &Culprit<u64>) -> Result<(), Infallible> {
        let below = culprit.red & !(1 << culprit.candidate);
        assert!(self.has_moved || below & !self.landed == 0, "all below it landed");
        assert!(self.world.is_green(below));
        assert!(self.reds[&culprit.red] >= 2, "red twice on the same stack");
        self.pairs.extend(culprit.partner.map(|partner| (culprit.candidate, partner)));
        Ok(())
    }
}

fn decided(world: &World, jobs: usize) -> (Decided, Counting<'_>) {
    decided_within(world, jobs, usize::MAX)
}

/// A decision for which no more than `most` checks may run.
fn decided_within(world: &World, jobs: usize, most: usize) -> (Decided, Counting<'_>) {
    let mut track = Counting { most, ..Counting::of(world, jobs) };
    let Ok(decided) = decide(&mut track, 0, world.count, jobs);
    let all = [&decided.landed, &decided.rejected, &decided.conflicting, &decided.undecided];
    let mut all: Vec<usize> = all.into_iter().flatten().copied().collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..world.count), "each once: {decided:?}");
    assert!(decided.undecided.is_sorted(), "{decided:?}");
    for one in &decided.rejected {
        assert!(!world.is_green(track.landed | 1 << one) || world.rate.is_some());
    }
    (decided, track)
}

/// `1 + bad × ceil(log2 n) + bad`.
fn bound(count: usize, bad: usize) -> usize {
    let steps = count.next_power_of_two().trailing_zeros() as usize;
    1 + bad * steps + bad
}

fn of(count: usize, bad: &[usize]) -> World {
    World { count, bad: bad.iter().fold(0, |all, one| all | 1 << one), ..World::default() }
}

#[test]
fn sixty_four_good_candidates_take_one_check() {
    for jobs in 1..5 {
        let (world, track) = (of(64, &[]), 1);
        assert_eq!(decided(&world, jobs).1.runs, track);
    }
}

#[test]
fn three_bad_ones_among_sixty_four_take_no_more_than_22_checks_to_find() {
    for first in 0..64 {
        for second in first + 1..64 {
            for third in (second + 1..64).step_by(5) {
                let world = of(64, &[first, second, third]);
                for jobs in [1, 2] {
                    let (outcome, track) = decided(&world, jobs);
                    assert_eq!(outcome.landed.len(), 61);
                    let runs = track.runs;
                    assert!(runs <= 22, "{first} {second} {third}: {runs}");
                    // Seven of them at most hold nothing but checks that make sure.
                    assert!(jobs == 1 || track.rounds <= 25, "{}", track.rounds);
                }
            }
        }
    }
}

#[test]
fn a_red_target_rejects_no_candidate() {
    for count in [1, 2, 9] {
        let world = World { target_is_red: true, ..of(count, &[]) };
        let (outcome, track) = decided(&world, 1);
        assert!(outcome.target_is_red);
        assert_eq!(outcome.undecided.len(), count);
        assert!(track.runs <= bound(count, 2) + 2, "{} with two for the target", track.runs);
    }
}

#[test]
fn a_red_target_rejects_no_candidate_where_checks_run_out() {
    for (count, jobs) in
        [1, 2, 9].into_iter().flat_map(|count| (1..4).map(move |jobs| (count, jobs)))
    {
        let world = World { target_is_red: true, ..of(count, &[]) };
        for most in 0..40 {
            let (outcome, _) = decided_within(&world, jobs, most);
            assert_eq!(outcome.undecided.len(), count, "{most} checks, {jobs} jobs");
        }
    }
}

#[test]
fn a_second_search_takes_no_more_checks_than_one_culprit_more_may_cost() {
    for (count, seed) in
        [8, 16, 33, 60].into_iter().flat_map(|count| (1..100u64).map(move |seed| (count, seed)))
    {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bad: Vec<usize> =
            (0..count).filter(|one| mixed.rotate_left(*one as u32 * 7) % 5 < seed % 4).collect();
        let runs = decided(&of(count, &bad), 2).1.runs;
        let most = bound(count, bad.len() + 1);
        assert!(runs <= most, "{runs} runs for {bad:?} of {count}, {most}");
    }
}

#[test]
fn a_red_answer_by_accident_rejects_no_candidate_where_it_stands_alone() {
    for count in [1, 2, 7, 64] {
        let world = World { accidents: vec![0], ..of(count, &[]) };
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
        let world = World { accidents: vec![accident], ..of(16, &[bad]) };
        let (outcome, _) = decided(&world, jobs);
        assert_eq!(outcome.rejected, [bad], "run {accident} with {jobs} jobs");
    }
}

#[test]
fn an_accident_does_not_begin_the_search_again() {
    let (mut trains, mut rounds) = (0, 0);
    for (bad, accident) in { 0..64 }.flat_map(|bad| { 0..6 }.map(move |at| (bad, at))) {
        let world = World { accidents: vec![accident], ..of(64, &[bad]) };
        // One job searches on below the next larger stack that was red.
        let runs = decided(&world, 1).1.runs;
        assert!(runs <= bound(64, 1) + 5, "{bad} {accident}: {runs}");
        // Two look for a second culprit beside the first.
        rounds += decided(&world, 2).1.rounds;
        trains += 1;
    }
    assert!(rounds <= 15 * trains, "{rounds} rounds in {trains} trains");
}

#[test]
fn no_more_checks_leave_the_rest_undecided() {
    // Checks run out at each moment of a search, and of making sure, where some are red by accident.
    for (bad, rate) in [
        (&[3, 9][..], None),
        (&[2, 3, 11, 12], None),
        (&[], Some(30)),
        (&[3, 9], Some(30)),
        (&[2, 3, 11, 12], Some(30)),
    ] {
        for (most, seed) in (0..60).flat_map(|most| (1..9).map(move |seed| (most, seed))) {
            let world = World { rate: rate.map(|rate| (rate, seed)), ..of(16, bad) };
            for jobs in 1..5 {
                let (_, track) = decided_within(&world, jobs, most);
                assert!(track.runs + track.again <= most);
            }
        }
    }
}

#[test]
fn a_check_that_fails_at_random_rejects_no_good_candidate() {
    for rate in [2, 15, 20, 30] {
        for jobs in [1, 2, 4] {
            for seed in 0..200 {
                let bad = seed as usize % 20;
                let world = World { rate: Some((rate, seed + 1)), ..of(20, &[bad]) };
                let (outcome, track) = decided(&world, jobs);
                let what = format!("{rate} % red, {jobs} jobs, train {seed}");
                assert_eq!(outcome.rejected, [bad], "{what}");
                assert_eq!(track.landed, ((1 << 20) - 1) & !world.bad, "{what}");
            }
        }
    }
}

#[test]
fn checks_that_fail_at_random_among_several_bad_candidates_reject_no_good_one() {
    for (rate, jobs) in
        [2, 15, 30].into_iter().flat_map(|rate| (1..5).map(move |jobs| (rate, jobs)))
    {
        for seed in 0..200 {
            let first = seed as usize % 20;
            let mut bad = [first, (first + 5) % 20, (first + 11) % 20];
            bad.sort_unstable();
            let world = World { rate: Some((rate, seed + 1)), ..of(20, &bad) };
            let (mut outcome, track) = decided(&world, jobs);
            let what = format!("{rate} % red, {jobs} jobs, train {seed}");
            outcome.rejected.sort_unstable();
            assert_eq!(outcome.rejected, bad, "{what}");
            assert_eq!(track.landed, ((1 << 20) - 1) & !world.bad, "{what}");
            // What is green once is believed: it is not checked again at once.
            for rounds in track.asked.windows(2) {
                for (stack, purpose, is_green) in &rounds[0] {
                    let is_same =
                        |next: &(u64, Purpose, bool)| next.0 == *stack && next.1 == Purpose::Again;
                    let is_again = *purpose == Purpose::Again && *is_green;
                    assert!(!is_again || !rounds[1].iter().any(is_same), "{what}");
                }
            }
            // A suspect that is green, and what it stands on, too, lands: only a red one is checked again.
            let mut landed = Vec::new();
            for round in &track.asked {
                for (stack, purpose, _) in round {
                    assert!(*purpose != Purpose::Again || !landed.contains(stack), "{what}");
                }
                let suspect = round.iter().find(|(_, purpose, _)| *purpose == Purpose::Suspect);
                if round.iter().all(|(.., is_green)| *is_green) {
                    landed.extend(suspect.map(|(stack, ..)| *stack));
                }
            }
        }
    }
}

#[test]
fn a_suspect_is_checked_along_with_the_stack_that_it_will_stand_on() {
    let world = of(64, &[5, 20, 50]);
    let (_, track) = decided(&world, 2);
    let are_together = |round: &&Vec<(u64, Purpose, bool)>| {
        matches!(round[..], [(_, Purpose::Whole, _), (_, Purpose::Suspect, _)])
    };
    assert!(track.asked.iter().any(|round| are_together(&round)), "{:?}", track.asked);
}

#[test]
fn a_target_that_is_red_at_random_stops_no_train() {
    // Nothing is ever green but the target, which is red every third time.
    for seed in 0..200 {
        let world = World { rate: Some((30, seed + 1)), ..of(2, &[0, 1]) };
        let (outcome, _) = decided(&world, 1);
        assert!(outcome.landed.is_empty());
        assert_eq!(outcome.rejected.len() + outcome.undecided.len(), 2);
    }
}

#[test]
fn two_that_fail_only_together_are_named_as_a_pair() {
    for (one, two) in [(0, 1), (2, 9), (0, 15), (14, 15), (7, 8)] {
        for jobs in 1..4 {
            let world = World { bad_together: vec![(one, two)], ..of(16, &[]) };
            let (outcome, track) = decided(&world, jobs);
            assert_eq!(outcome.rejected, [two]);
            assert_eq!(track.pairs, [(two, one)], "{jobs} jobs");
        }
    }
    for jobs in 1..4 {
        let world = of(16, &[9]);
        assert_eq!(decided(&world, jobs).1.pairs, [], "it is red alone");
    }
}

/// Trains one after the other until nothing is left to decide, as on a target that others move; gives how many checks they took.
fn one_after_the_other(world: &World, jobs: usize) -> (u64, Vec<usize>, usize) {
    let mut rejected: Vec<usize> = Vec::new();
    let (mut checks, mut moves) = (0, world.moves);
    loop {
        // What was rejected before is no candidate any more: the others have new numbers.
        let left: Vec<usize> = (0..world.count).filter(|one| !rejected.contains(one)).collect();
        let bad: Vec<usize> = left
            .iter()
            .enumerate()
            .filter(|(_, one)| world.bad >> **one & 1 == 1)
            .map(|(at, _)| at)
            .collect();
        let here = World { moves, ..of(left.len(), &bad) };
        let mut track = Counting::of(&here, jobs);
        let Ok(decided) = decide(&mut track, 0, left.len(), jobs);
        checks += track.runs + track.again;
        moves = track.moves;
        rejected.extend(decided.rejected.iter().map(|one| left[*one]));
        if !track.has_moved {
            return (track.landed, rejected, checks);
        }
        assert_eq!(track.landed, 0, "nothing lands on a target that has moved");
    }
}

#[test]
fn a_moving_target_takes_one_more_check_for_each_move_and_no_second_search() {
    for jobs in [1, 2] {
        for bad in 0..8 {
            let world = of(8, &[bad]);
            let quiet = one_after_the_other(&world, jobs);
            for moves in 1..8 {
                let world = World { moves, ..world.clone() };
                let moved = one_after_the_other(&world, jobs);
                assert_eq!(moved.1, [bad], "found once");
                assert_eq!(moved.0.count_ones(), 7);
                assert!(
                    moved.2 <= quiet.2 + moves,
                    "{} checks with {moves} moves, {} without",
                    moved.2,
                    quiet.2
                );
            }
        }
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
            World { bad_together, conflicts, ..of(count, &bad) }
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
            world.conflicts.iter().any(|(one, two)| (*one).min(*two) == bad)
        };
        let waited_for = outcome.rejected.iter().filter(|bad| is_waited_for(**bad)).count();
        let most = bound(world.count, outcome.rejected.len()) + waited_for;
        prop_assert!(track.runs <= most, "{} runs, {most}", track.runs);
    }

    #[test]
fn flaky_candidates_land(world in worlds(), flaky in any::<u64>(), jobs in 1usize..4) {
        let world = World { flaky, ..world };
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
