//! Operations: what one command wrote, and what of it is taken back.
//!
//! Every event that one command writes has the id of its operation. `undone` names an operation and takes back what its events
//! decided in one row; an `undone` has an operation of its own, so it can be taken back as well, which does it again.

use super::event::{Event, WORKTREE, What};
use super::id::OperationId;
use crate::domain::value::oid::Oid;
use crate::error::Remedy;
use std::collections::{HashMap, HashSet};

/// The operations that the events of one row take back, in the row's order. The last word counts: an `undone` that was taken back
/// by a later one takes nothing back.
pub fn taken_back(events: &[Event]) -> HashSet<&OperationId> {
    let mut taken = HashSet::new();
    for event in events.iter().rev() {
        if let What::Undone { operation, .. } = &event.what {
            let is_void = event.operation.as_ref().is_some_and(|own| taken.contains(own));
            if !is_void {
                taken.insert(operation);
            }
        }
    }
    taken
}

/// For each event of a row, whether something counted as taken back when it came that counts again since. What came then need not go with
/// it: work whose landing was taken back is judged, and then the landing is done again.
pub fn meanwhile(events: &[&Event]) -> Vec<bool> {
    // Where each operation was taken back last.
    let mut last: HashMap<&OperationId, usize> = HashMap::new();
    for (at, event) in events.iter().enumerate() {
        if let What::Undone { operation, .. } = &event.what {
            last.insert(operation, at);
        }
    }
    let mut until = 0;
    let is_between = |(at, event): (usize, &&Event)| {
        if matches!(event.what, What::Undone { .. }) {
            let again = event.operation.as_ref().and_then(|own| last.get(own));
            until = until.max(again.copied().unwrap_or(0));
        }
        at < until
    };
    events.iter().enumerate().map(is_between).collect()
}

/// The operation that an `undone` of this operation is about in the end: where it takes an `undone` back, what that one took back.
pub fn first_taken_back<'e>(events: &'e [Event], operation: &'e OperationId) -> &'e OperationId {
    let mut first = operation;
    // A row from elsewhere may say that an undo took itself back, and no row of ours has more than a few upon each other.
    for _ in 0..8 {
        let undone = events.iter().find_map(|event| match &event.what {
            What::Undone { operation, .. } if event.operation.as_ref() == Some(first) => {
                Some(operation)
            }
            _ => None,
        });
        match undone {
            Some(earlier) => first = earlier,
            None => break,
        }
    }
    first
}

impl What {
    /// Whether its agent is over by it.
    pub fn ends(&self) -> bool {
        matches!(self, What::Merged { .. } | What::Rejected { .. } | What::Discarded { .. })
    }

    /// Whether it says that the agent is at its own places again.
    pub fn brings_back(&self) -> bool {
        matches!(self, What::Rescued { to } if to == WORKTREE)
    }

    /// Whether taking back the operation of this event takes back what it says. Facts of the world stay: that an agent was made, that
    /// a command ran, what was kept.
    pub fn is_decision(&self) -> bool {
        match self {
            // The word of a person; what an agent found stays found.
            What::Audited(audit) => audit.auditor.is_none(),
            What::Committed { .. }
            | What::Verified(_)
            | What::Done { .. }
            | What::Failed { .. }
            | What::Merged { .. }
            | What::Rejected { .. }
            | What::Deferred { .. }
            | What::Amended { .. }
            | What::Renamed { .. }
            | What::Discarded { .. } => true,
            What::Spawning(_)
            | What::Spawned(_)
            | What::Started(_)
            | What::Exited(_)
            | What::Unjudged { .. }
            | What::Competed(_)
            | What::Salvaged { .. }
            | What::Rescued { .. }
            | What::Reopened {}
            | What::Expired { .. }
            | What::Noted { .. }
            | What::Undone { .. }
            | What::Unknown { .. } => false,
        }
    }
}

/// A landing that was taken back where its branch had gone on: its commits stay in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The commit on the branch that took back what they changed.
    pub commit: Oid,
    /// The undo that made it; `None` for one that was made with `git revert`.
    pub operation: Option<OperationId>,
    /// The number of the clone where that was.
    pub clone: Option<u16>,
}

impl Reverted {
    /// What it means for the branch, as a sentence without its full stop.
    pub fn meaning(&self) -> String {
        format!(
            "commit {} took back a landing of this branch, and a merge brings none of that work again",
            self.commit.short()
        )
    }

    /// What brings the work back.
    pub fn way_back(&self) -> Remedy {
        match &self.operation {
            Some(operation) => Remedy::Undo(operation.to_string()),
            None => Remedy::Revert(self.commit.to_string()),
        }
    }
}

/// Where a branch goes that is at `tip` when its moves, each from one commit to another, are taken back; `None` where something else
/// was built on them. The moves must lead, one from the other, to where the branch is. A branch that is where the first one began was
/// moved back before, by a call that was killed.
pub fn retreat(tip: Oid, moves: &[(Oid, Oid)]) -> Option<Oid> {
    let mut left = moves.to_vec();
    let begins = moves.iter().find(|one| moves.iter().all(|other| other.1 != one.0));
    let is_there = begins.is_some_and(|first| first.0 == tip);
    let mut at = tip;
    while let Some(place) = left.iter().position(|one| one.1 == at) {
        at = left.swap_remove(place).0;
    }
    let is_back = is_there && left.len() == moves.len();
    (is_back || left.is_empty()).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_goes_back_only_by_the_moves_that_led_to_where_it_is() {
        let [a, b, c, d] = [1, 2, 3, 4].map(|byte| Oid::from_bytes([byte; 20]));
        let moves = [(b, c), (a, b)];
        assert_eq!(retreat(c, &moves), Some(a));
        assert_eq!(retreat(a, &moves), Some(a), "killed after the move");
        assert_eq!(retreat(d, &moves), None, "built upon");
        assert_eq!(retreat(b, &moves), None, "half of it is gone");
        assert_eq!(retreat(c, &[(a, b)]), None);
    }
}
