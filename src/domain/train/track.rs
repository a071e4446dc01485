//! What a train is run against: the world of a decision.

use crate::domain::named::named;

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
pub struct Question<S> {
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
        questions: &[Question<Self::Stack>],
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
