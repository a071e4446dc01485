//! Exchanges with a remote: what a later list of the remote says about a push, and what may be deleted there.
//!
//! A push tells nothing: its answer may be lost, and a hook may say anything. What the remote lists afterwards is what counts.

use super::oid::Oid;
use std::collections::BTreeMap;

/// What became of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The remote has it.
    There,
    /// Another clone was quicker.
    Late,
    /// The remote does not take it.
    Refused,
}

/// What became of the push of `tip` to a ref that was at `from`, and is at `is` now. `is_passing` says that the remote gave a reason
/// that passes, such as a lock.
pub fn arrival(tip: Oid, from: Option<Oid>, is: Option<Oid>, is_passing: bool) -> Arrival {
    if is == Some(tip) {
        Arrival::There
    } else if is != from || is_passing {
        Arrival::Late
    } else {
        Arrival::Refused
    }
}

/// The outboxes that the remote's shared ref contains. `united` are those that were united with what this clone has seen the shared ref
/// to hold, each with the commit that it was at. One that has moved on since holds more, and stays.
pub fn contained<'u>(
    united: &'u BTreeMap<String, Oid>,
    listed: &BTreeMap<String, Oid>,
) -> Vec<(&'u String, Oid)> {
    { united.iter() }
        .filter(|(refname, oid)| listed.get(*refname) == Some(oid))
        .map(|(refname, oid)| (refname, *oid))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Oid = Oid::from_bytes([1; 20]);
    const B: Oid = Oid::from_bytes([2; 20]);
    const C: Oid = Oid::from_bytes([3; 20]);

    #[test]
    fn the_list_tells_what_became_of_a_push() {
        assert_eq!(arrival(B, Some(A), Some(B), false), Arrival::There);
        assert_eq!(arrival(B, Some(A), Some(C), false), Arrival::Late);
        assert_eq!(arrival(B, Some(A), Some(A), true), Arrival::Late);
        assert_eq!(arrival(B, Some(A), Some(A), false), Arrival::Refused);
        assert_eq!(arrival(B, None, None, false), Arrival::Refused);
        assert_eq!(arrival(B, Some(A), None, false), Arrival::Late);
    }

    #[test]
    fn an_outbox_that_moved_on_stays() {
        let united = BTreeMap::from([("a".to_owned(), A), ("b".to_owned(), B)]);
        let listed = BTreeMap::from([("a".to_owned(), A), ("b".to_owned(), C)]);
        assert_eq!(contained(&united, &listed), [(&"a".to_owned(), A)]);
    }
}
