//! Operations: what one command wrote, and what of it is taken back.
//!
//! Every event that one command writes has the id of its operation. `undone` names an operation and takes back what its events
//! decided in one row; an `undone` has an operation of its own, so it can be taken back as well, which does it again.

use super::event::{Event, What};
use super::id::OperationId;
use std::collections::HashSet;

/// The operations that the events of one row take back, in the row's order. The last word counts: an `undone` that was taken back
/// by a later one takes nothing back.
pub fn taken_back(events: &[Event]) -> HashSet<&OperationId> {
    let mut taken = HashSet::new();
    for event in events.iter().rev() {
        if let What::Undone { operation, .. } = &event.what {
            let is_void = { event.operation.as_ref() }.is_some_and(|own| taken.contains(own));
            if !is_void {
                taken.insert(operation);
            }
        }
    }
    taken
}

impl What {
    /// Whether taking back the operation of this event takes back what it says. Facts of the world stay: that an agent was made, that
    /// a command ran, what was kept.
    pub fn is_decision(&self) -> bool {
        match self {
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
            | What::Competed(_)
            | What::Salvaged { .. }
            | What::Rescued { .. }
            | What::Audited(_)
            | What::Expired { .. }
            | What::Noted { .. }
            | What::Undone { .. }
            | What::Unknown { .. } => false,
        }
    }
}
