//! A path on which a merge conflicts, as every verb that merges in memory answers it.

use crate::domain::evidence::Conflict;
use crate::wire::path_text::PathText;
use serde::{Deserialize, Serialize};

/// A path in conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConflictReport {
    /// The path.
    pub path: PathText,
    /// git's names for what is wrong, such as `contents`.
    pub kinds: Vec<String>,
}

impl From<&Conflict> for ConflictReport {
    fn from(conflict: &Conflict) -> ConflictReport {
        ConflictReport {
            path: PathText::from(conflict.path.as_slice()),
            kinds: conflict.kinds.clone(),
        }
    }
}
