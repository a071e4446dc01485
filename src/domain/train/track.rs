//! What a train is run against: the world of a decision.

/// What the decision needs of the world. Candidates are numbers.
pub trait Track {
    /// Candidates stacked on the target, in order.
    type Stack: Clone;
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

    /// Checks stacks, at the same time where it can: whether each is green. `None` where no more checks may run.
    ///
    /// # Errors
    /// What keeps checks from running at all.
    fn check(&mut self, stacks: &[Self::Stack]) -> Result<Option<Vec<bool>>, Self::Error>;

    /// Whether the target without any candidate is green. Asked at most once, when nothing has been green. `None` where no
    /// more checks may run.
    ///
    /// # Errors
    /// As [`Track::check`].
    fn check_target(&mut self) -> Result<Option<bool>, Self::Error>;

    /// Whether two stacks are red for the same reason, as far as that is known.
    fn is_alike(&self, one: &Self::Stack, other: &Self::Stack) -> bool;

    /// Brings a green stack to the target. It holds what was landed before, and `candidates` on top of it. That may wait
    /// until the next checks run; what keeps it from landing then comes from a later call.
    ///
    /// # Errors
    /// What keeps it from landing.
    fn land(&mut self, stack: &Self::Stack, candidates: &[usize]) -> Result<(), Self::Error>;

    /// Notes that a candidate is rejected: `red` is what had landed by then, which is green, and this candidate alone on
    /// top of it. That may wait as a landing does.
    ///
    /// # Errors
    /// What keeps it from being recorded.
    fn reject(&mut self, candidate: usize, red: &Self::Stack) -> Result<(), Self::Error>;
}
