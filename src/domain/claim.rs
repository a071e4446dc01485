//! Claims: what a clone that wants a task does about the claim that it finds under the task's key.
//!
//! Clocks decide only whether a claim is watched. Whether its holder lives is seen from whether it moves while it is watched, so that
//! clocks that differ by an hour take nothing from a live holder.

use super::id::AgentId;
use super::named::named;
use std::time::Duration;

/// The shortest and the longest time that a claim holds without a sign of life.
pub const TTLS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];

named! {
    /// Where a claim stands.
    #[derive(Hash)]
    pub enum ClaimState {
        /// A clone works on the task.
        Held = "held",
        /// The task is done.
        Done = "done",
        /// No clone works on it.
        Released = "released",
    }
}

/// The content of a claim's commit. It names no machine and no path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimMessage {
    /// Where it stands.
    pub state: ClaimState,
    /// The clone that wrote it.
    pub clone: String,
    /// What tells one taking of the claim from every other.
    pub nonce: String,
    /// How long it holds without a newer commit.
    pub ttl: Duration,
    /// The agent that works on the task.
    pub agent: Option<AgentId>,
    /// When it was written, by the clock of that clone, in seconds since the epoch.
    pub seconds: i64,
}

/// What a clone that wants a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bid {
    /// It moves the claim from what it found to a commit of its own.
    Take,
    /// It watches the claim for so long, by a clock that only goes forward, and takes it if it has not moved.
    Watch(Duration),
    /// It leaves the task to the holder.
    Leave,
    /// Nothing is left to do.
    Done,
}

/// What a clone does whose clock says `now`, and that remembers `own` as the nonce of a claim that it took and did not give back.
pub fn bid(found: Option<&ClaimMessage>, own: Option<&str>, now: i64) -> Bid {
    let Some(found) = found else {
        return Bid::Take;
    };
    match found.state {
        ClaimState::Done => Bid::Done,
        ClaimState::Released => Bid::Take,
        // The process of this clone that took it has died: a live one would hold the claim's lock.
        ClaimState::Held if own == Some(found.nonce.as_str()) => Bid::Take,
        ClaimState::Held => {
            // What another clone wrote bounds how long this one watches, so it is bounded itself.
            let ttl = found.ttl.clamp(TTLS[0], TTLS[1]);
            let age = now.saturating_sub(found.seconds);
            // One from the future says no more about its holder than an old one.
            if (0..=ttl.as_secs().cast_signed()).contains(&age) {
                Bid::Leave
            } else {
                Bid::Watch(ttl)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_decide_only_whether_a_claim_is_watched() {
        let found = |state, seconds| ClaimMessage {
            state,
            clone: "b".into(),
            nonce: "n".into(),
            ttl: Duration::from_secs(60),
            agent: None,
            seconds,
        };
        let held = |seconds| found(ClaimState::Held, seconds);
        let watch = Bid::Watch(Duration::from_secs(60));
        assert_eq!(bid(None, None, 0), Bid::Take);
        assert_eq!(bid(Some(&held(100)), None, 160), Bid::Leave);
        assert_eq!(bid(Some(&held(100)), None, 161), watch);
        assert_eq!(bid(Some(&held(100)), None, 99), watch);
        assert_eq!(bid(Some(&held(i64::MIN)), None, i64::MAX), watch);
        assert_eq!(bid(Some(&held(100)), Some("n"), 100), Bid::Take);
        assert_eq!(bid(Some(&held(100)), Some("other"), 100), Bid::Leave);
        let done = found(ClaimState::Done, 0);
        assert_eq!(bid(Some(&done), Some("n"), 100), Bid::Done);
        let released = found(ClaimState::Released, 100);
        assert_eq!(bid(Some(&released), None, 100), Bid::Take);
        // What another clone writes bounds the time that it is watched, not this clone.
        let eternal = ClaimMessage {
            ttl: Duration::MAX,
            ..held(0)
        };
        assert_eq!(bid(Some(&eternal), None, 9999), Bid::Watch(TTLS[1]));
    }
}
