//! A fact that may not apply, or may not be known: the difference that JSON keeps.

use serde::{Serialize, Serializer};

/// One fact about an agent. In JSON an absent key is not applicable, `null` was asked and could not be
/// determined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fact<T> {
    /// The question makes no sense for this agent, or was not asked.
    #[default]
    NotApplicable,
    /// It was asked and could not be determined.
    Unknown,
    /// The answer.
    Known(T),
}

impl<T> Fact<T> {
    /// The answer of something that may fail.
    pub(super) fn of<E>(answer: Result<T, E>) -> Fact<T> {
        answer.map_or(Fact::Unknown, Fact::Known)
    }

    /// The answer, where there is one.
    pub fn known(&self) -> Option<&T> {
        match self {
            Fact::Known(value) => Some(value),
            Fact::NotApplicable | Fact::Unknown => None,
        }
    }

    /// Whether there is nothing to say, not even that it is unknown.
    pub fn is_absent(&self) -> bool {
        matches!(self, Fact::NotApplicable)
    }
}

impl<T: Serialize> Serialize for Fact<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.known().serialize(serializer)
    }
}
