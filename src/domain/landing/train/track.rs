//! What a train is run against: the world of a decision.

use crate::domain::value::named::named;

named! {
    /// What a check is for.
    pub enum Purpose {
        /// All that stacks up: if it is green, all of it lands.
        Whole = "stack",
        /// A part of a stack whose top is red: where does it turn red?
        Search = "search",
        /// Candidates above that part: is there a second culprit?
        Aside = "aside",
        /// A red stack once more: one red answer may be an accident.
        Again = "again",
        /// A suspect of a search aside, on what is green.
        Suspect = "suspect",
        /// The target without any candidate: nothing was green.
        Target = "target",
        /// A culprit with a part of what was below it: does it fail alone, or together with another candidate?
        Pair = "pair",
    }
}

impl Purpose {
    /// Whether the check is one of those that find culprits, whose number is bounded. The others make sure, or say more.
    pub fn is_bounded(self) -> bool {
        !matches!(self, Purpose::Again | Purpose::Pair)
    }
}

/// A check that is wanted.
#[derive(Clone, Debug)]
pub struct WantedCheck<S> {
    /// The stack.
    pub stack: S,
    /// Why it is to be checked.
    pub purpose: Purpose,
}

/// A candidate that is to be rejected.
#[derive(Clone, Debug)]
pub struct Culprit<S> {
    /// Which one.
    pub candidate: usize,
    /// What was green, and this candidate on top of it.
    pub red: S,
    /// The candidate below it without which it is green; absent where it is red on its own.
    pub partner: Option<usize>,
}

/// What the decision needs of the world. Candidates are numbers.
pub trait Track {
    /// Candidates stacked on the target, in order. Two that are equal have the same answer, but for accidents.
    type Stack: Clone + PartialEq;
    /// What checking or landing fails with.
    type Error;

    /// Puts a candidate on a stack; `None` where it conflicts with it.
    ///
    /// # Errors
    /// What fails because of no single candidate.
    fn push(
        &mut self,
        stack: &Self::Stack,
        candidate: usize,
    ) -> Result<Option<Self::Stack>, Self::Error>;

    /// Checks stacks, at the same time where it can: whether each is green. The same stack may be asked for several times. `None` where no more
    /// checks may run.
    ///
    /// # Errors
    /// What keeps checks from running at all.
    fn check(
        &mut self,
        questions: &[WantedCheck<Self::Stack>],
    ) -> Result<Option<Vec<bool>>, Self::Error>;

    /// Whether another process moved the target, so that what was to land since then did not. The answers of checks still hold for what was
    /// checked.
    fn has_moved(&self) -> bool;

    /// Brings a green stack to the target. It holds what was landed before, and `candidates` on top of it. That may wait
    /// until the next checks run; what keeps it from landing then comes from a later call.
    ///
    /// # Errors
    /// What keeps it from landing.
    fn land(&mut self, stack: &Self::Stack, candidates: &[usize]) -> Result<(), Self::Error>;

    /// Notes that a candidate is rejected. That may wait as a landing does.
    ///
    /// # Errors
    /// What keeps it from being recorded.
    fn reject(&mut self, culprit: &Culprit<Self::Stack>) -> Result<(), Self::Error>;
}

// How often checks fail by accident, and how many red answers it takes to exclude one.
//
// A stack that was green once is green: the target may move to it. So a red answer on such a stack, before or after, was an accident, and
// the number of accidents beside the number of green answers is the rate at which the checks fail for no reason.

/// How likely it may be that accidents alone reject a candidate that is good.
const CHANCE: f64 = 1e-4;

/// How likely it may be that accidents alone send a search the wrong way. That costs checks and no candidate.
const ASTRAY: f64 = 0.02;

/// The highest rate of accidents that is reckoned with while none was seen. With a higher one, one is soon seen.
const WORST: f64 = 0.3;

/// What is known of the answers to checks.
pub(super) struct Answers<S> {
    /// Stacks that were never green, with the number of their red answers.
    reds: Vec<(S, usize)>,
    /// How many answers were green.
    greens: usize,
    /// How many red answers were accidents.
    accidents: usize,
}

impl<S: Clone + PartialEq> Answers<S> {
    pub(super) fn new() -> Answers<S> {
        Answers { reds: Vec::new(), greens: 0, accidents: 0 }
    }

    /// Takes an answer.
    pub(super) fn note(&mut self, stack: &S, is_green: bool) {
        if is_green {
            // All red answers on it were accidents, now that it is known to be green.
            self.accidents += self.reds(stack);
            self.reds.retain(|(one, _)| one != stack);
            self.greens += 1;
        } else if let Some((_, count)) = self.reds.iter_mut().find(|(one, _)| one == stack) {
            *count += 1;
        } else {
            self.reds.push((stack.clone(), 1));
        }
    }

    /// How often a stack was red, as long as it was never green.
    pub(super) fn reds(&self, stack: &S) -> usize {
        let known = self.reds.iter().find(|(one, _)| one == stack);
        known.map_or(0, |(_, count)| *count)
    }

    /// Whether anything was green.
    pub(super) fn has_green(&self) -> bool {
        self.greens > 0
    }

    /// Whether checks are known to fail by accident.
    pub(super) fn has_accidents(&self) -> bool {
        self.accidents > 0
    }

    /// The rate of accidents, by the rule of succession: never 0, never 1.
    fn rate(&self) -> f64 {
        (self.accidents as f64 + 1.0) / ((self.accidents + self.greens) as f64 + 2.0)
    }

    /// How many red answers send a search the other way.
    pub(super) fn believable(&self) -> usize {
        if self.has_accidents() { repeated(self.rate(), ASTRAY) } else { 1 }
    }

    /// How many red answers on one stack reject one of so many candidates.
    ///
    /// Where accidents were seen, as many as make it rarer than [`CHANCE`] that any good candidate of the train is rejected. The rate is the
    /// observed one, or [`WORST`] if that is higher: only stacks that were asked for again show their accidents, so what was observed is
    /// rather too low.
    ///
    /// Where none was seen, every green answer speaks against accidents, and every further red one against this one being an accident:
    /// the number is the smallest that leaves less than [`CHANCE`] for each rate up to [`WORST`]. It is bounded by what finding the culprit
    /// took, and never below two.
    pub(super) fn needed(&self, candidates: usize) -> usize {
        if self.has_accidents() {
            return self.needed_at_worst(candidates);
        }
        let steps = candidates.next_power_of_two().trailing_zeros() as usize;
        let most = 2 + steps;
        let is_enough = |count: &usize| self.likelihood(count - 1) < CHANCE;
        (2..most).find(is_enough).unwrap_or(most)
    }

    /// As [`Answers::needed`], where accidents are more likely than what the red answers say otherwise.
    pub(super) fn needed_at_worst(&self, candidates: usize) -> usize {
        repeated(self.rate().max(WORST), CHANCE / candidates.max(1) as f64)
    }

    /// How likely so many red answers beside the green ones are by accident, at the rate up to [`WORST`] that makes them most likely.
    fn likelihood(&self, reds: usize) -> f64 {
        let (reds, greens) = (reds as f64, self.greens as f64);
        // The rate that makes the answers most likely is their own share of red ones.
        let rate = (reds / (reds + greens)).min(WORST);
        rate.powf(reds) * (1.0 - rate).powf(greens)
    }
}

/// How often in a row something of this rate has to happen to be as rare as that.
fn repeated(rate: f64, chance: f64) -> usize {
    (chance.ln() / rate.ln()).ceil().max(1.0) as usize
}

// The search for a second culprit beside the first: in layers that the first search leaves alone.

/// A bisection of candidates that stand directly on what is green.
pub(super) struct SideSearch<S> {
    is_wanted: bool,
    /// The candidates and stacks of this search; empty between two of them.
    layers: Vec<(usize, S)>,
    /// The first `low` layers are green together, the first `high` are red.
    low: usize,
    high: usize,
    /// How many layers the question under way is about.
    asked: usize,
    is_red: bool,
}

impl<S: Clone> SideSearch<S> {
    /// One that asks nothing unless it is wanted.
    pub(super) fn new(is_wanted: bool) -> SideSearch<S> {
        SideSearch { is_wanted, layers: Vec::new(), low: 0, high: 0, asked: 0, is_red: false }
    }

    /// The stack to check next: of the search under way, else all of `right` on `base`.
    pub(super) fn question<T: Track<Stack = S>>(
        &mut self,
        track: &mut T,
        base: &S,
        right: &[usize],
    ) -> Result<Option<S>, T::Error> {
        if !self.is_wanted {
            return Ok(None);
        }
        if self.is_red {
            self.asked = self.low + (self.high - self.low) / 2;
        } else {
            self.layers.clear();
            for candidate in right {
                let below = self.layers.last().map_or(base, |(_, stack)| stack);
                // Conflicts are decided elsewhere.
                if let Some(stack) = track.push(below, *candidate)? {
                    self.layers.push((*candidate, stack));
                }
            }
            self.asked = self.layers.len();
        }
        let layer = self.asked.checked_sub(1).and_then(|at| self.layers.get(at));
        Ok(layer.map(|(_, stack)| stack.clone()))
    }

    /// Takes the answer to the last question; gives the suspect where it is found.
    pub(super) fn answer(&mut self, is_green: bool) -> Option<usize> {
        if !self.is_red {
            self.is_red = !is_green;
            (self.low, self.high) = (0, self.layers.len());
        } else if is_green {
            self.low = self.asked;
        } else {
            self.high = self.asked;
        }
        if self.is_red && self.high - self.low == 1 {
            self.is_red = false;
            return self.layers.get(self.low).map(|(candidate, _)| *candidate);
        }
        None
    }

    /// Ends the search under way where the first search has come to this candidate of it.
    pub(super) fn stop_at(&mut self, candidate: usize) {
        if self.layers.iter().any(|(one, _)| *one == candidate) {
            self.is_red = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answers;

    /// So many answers: green ones, and red ones on stacks that are green when they are checked again.
    fn answers(greens: u64, accidents: u64) -> Answers<u64> {
        let mut answers = Answers::new();
        for stack in 0..greens {
            if stack == 0 {
                (0..accidents).for_each(|_| answers.note(&stack, false));
            }
            answers.note(&stack, true);
        }
        answers
    }

    #[test]
    fn red_answers_are_believed_where_accidents_of_the_observed_rate_are_rarer_than_one_in_fifty() {
        assert_eq!(answers(9, 0).believable(), 1);
        for (greens, accidents) in (1..40).flat_map(|greens| (1..9).map(move |red| (greens, red))) {
            let rate = (accidents as f64 + 1.0) / ((accidents + greens) as f64 + 2.0);
            let reds = answers(greens, accidents).believable() as i32;
            assert!(rate.powi(reds) <= 0.02, "{greens} {accidents}");
            assert!(reds == 1 || rate.powi(reds - 1) > 0.02, "one less is not enough");
        }
    }

    #[test]
    fn as_many_red_answers_reject_as_make_an_accident_rarer_than_one_in_ten_thousand() {
        let rare = 1e-4;
        for (greens, accidents) in (1..40).flat_map(|greens| (1..9).map(move |red| (greens, red))) {
            let rate = (accidents as f64 + 1.0) / ((accidents + greens) as f64 + 2.0);
            let rate = rate.max(0.3);
            for candidates in [1, 20, 64] {
                let reds = answers(greens, accidents).needed(candidates) as i32;
                assert!(rate.powi(reds) <= rare / candidates as f64);
                assert!(rate.powi(reds - 1) > rare / candidates as f64, "one less is not enough");
            }
        }
        // Where no accident was seen, no rate up to 30 % makes the answers likely. The first red one found the culprit.
        for greens in 0..200 {
            let likely = |reds: usize| {
                let rates = (1..=3000).map(|rate| f64::from(rate) / 10_000.0);
                let chances =
                    rates.map(|rate| rate.powi(reds as i32 - 1) * (1.0 - rate).powi(greens));
                chances.fold(0.0, f64::max) >= rare
            };
            let expected = (2..8).find(|reds| !likely(*reds)).unwrap_or(8);
            assert_eq!(answers(greens as u64, 0).needed(64), expected, "{greens} green");
        }
    }
}
