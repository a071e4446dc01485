//! How often checks fail by accident, and how many red answers it takes to exclude one.
//!
//! A stack that was green once is green: the target may move to it. So a red answer on such a stack, before or after, was an accident, and
//! the number of accidents beside the number of green answers is the rate at which the checks fail for no reason.

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
        Answers {
            reds: Vec::new(),
            greens: 0,
            accidents: 0,
        }
    }

    /// Takes an answer.
    pub(super) fn note(&mut self, stack: &S, is_green: bool) {
        let known = self.reds.iter().position(|(one, _)| one == stack);
        match (known, is_green) {
            (Some(at), true) => {
                self.accidents += self.reds.swap_remove(at).1;
                self.greens += 1;
            }
            (None, true) => self.greens += 1,
            (Some(at), false) => self.reds[at].1 += 1,
            (None, false) => self.reds.push((stack.clone(), 1)),
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
        if self.has_accidents() {
            repeated(self.rate(), ASTRAY)
        } else {
            1
        }
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
        let rate = (reds / (reds + greens)).min(WORST);
        rate.powf(reds) * (1.0 - rate).powf(greens)
    }
}

/// How often in a row something of this rate has to happen to be as rare as that.
fn repeated(rate: f64, chance: f64) -> usize {
    (chance.ln() / rate.ln()).ceil().max(1.0) as usize
}
