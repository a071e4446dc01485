//! The search for a second culprit beside the first: in layers that the first search leaves alone.

use super::Track;

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
        SideSearch {
            is_wanted,
            layers: Vec::new(),
            low: 0,
            high: 0,
            asked: 0,
            is_red: false,
        }
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
        let layer = self.asked.checked_sub(1).map(|at| &self.layers[at]);
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
            return Some(self.layers[self.low].0);
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
