//! What one holds alone. Leases are values of an agent. Claims: what a clone that wants a task does about the claim
//! that it finds under the task's key.
//!
//! Clocks decide only whether a claim is watched. Whether its holder lives is seen from whether it moves while it is watched, so that
//! clocks that differ by an hour take nothing from a live holder.

use crate::domain::life::id::AgentId;
use crate::domain::value::named::named;
use serde::Serialize;
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

/// What a clone does whose clock says `now`, and that remembers `own` as the nonces of a claim that it took, or may have taken by a
/// push without an answer, and did not give back.
pub fn bid(found: Option<&ClaimMessage>, own: &[String], now: i64) -> Bid {
    let Some(found) = found else {
        return Bid::Take;
    };
    match found.state {
        ClaimState::Done => Bid::Done,
        ClaimState::Released => Bid::Take,
        // The process of this clone that took it has died: a live one would hold the claim's lock.
        ClaimState::Held if own.contains(&found.nonce) => Bid::Take,
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

// Values of its own that an agent holds while it lives: a port, a name, a number.

named! {
    /// What kind of value `[lease]` of the settings asks for.
    #[derive(PartialOrd, Ord)]
    pub enum LeaseKind {
        /// A port of [`PORTS`] on which nothing listens.
        Port = "port",
        /// A name made of the task's and the id: `fix_login_1a2b3c4d`.
        Slug = "slug",
        /// The smallest number from 1 that no live agent holds.
        Number = "number",
        /// An address of this machine in [`LOOPBACK`] that no live agent holds.
        Loopback = "loopback",
    }
}

/// The ports that are given: below those that systems use for outgoing connections.
pub const PORTS: std::ops::Range<u16> = 20_000..30_000;

/// The addresses that are given, as numbers: 127.64.0.1 to 127.127.255.254. Systems and people use those from 127.0.0.1 on.
pub const LOOPBACK: std::ops::Range<u32> = 0x7f40_0001..0x7f7f_ffff;

/// A variable that the settings want leased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedLease {
    /// The environment variable.
    pub variable: String,
    /// What it is to hold.
    pub kind: LeaseKind,
}

/// A value that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Lease {
    /// The environment variable.
    pub variable: String,
    /// Its value.
    pub value: String,
}

/// What is wrong with the name of a variable that is to be leased; `None` for a good one.
pub fn variable_problem(name: &str) -> Option<&'static str> {
    const TAKEN: [&str; 7] = ["HOME", "IFS", "PATH", "PWD", "SHELL", "TMPDIR", "USER"];
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if name.is_empty() || !is_word || name.starts_with(|c: char| c.is_ascii_digit()) {
        Some("is no name of a variable: letters, digits and `_`, and no digit first")
    } else if name.starts_with("GIT_") || name.starts_with("LD_") || TAKEN.contains(&name) {
        Some("has a meaning of its own")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leased_variable_is_a_word_that_nothing_else_reads() {
        for good in ["PORT", "_x", "A1", "GIT", "LDX", "PATHS"] {
            assert_eq!(variable_problem(good), None, "{good}");
        }
        for bad in ["", "9A", "A-B", "A B", "GIT_X", "LD_X", "PATH", "TMPDIR"] {
            assert!(variable_problem(bad).is_some(), "{bad}");
        }
    }

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
        let own = ["other", "n"].map(str::to_owned);
        assert_eq!(bid(None, &[], 0), Bid::Take);
        assert_eq!(bid(Some(&held(100)), &[], 160), Bid::Leave);
        assert_eq!(bid(Some(&held(100)), &[], 161), watch);
        assert_eq!(bid(Some(&held(100)), &[], 99), watch);
        assert_eq!(bid(Some(&held(i64::MIN)), &[], i64::MAX), watch);
        assert_eq!(bid(Some(&held(100)), &own, 100), Bid::Take);
        assert_eq!(bid(Some(&held(100)), &[own[0].clone()], 100), Bid::Leave);
        let done = found(ClaimState::Done, 0);
        assert_eq!(bid(Some(&done), &own, 100), Bid::Done);
        let released = found(ClaimState::Released, 100);
        assert_eq!(bid(Some(&released), &[], 100), Bid::Take);
        // What another clone writes bounds the time that it is watched, not this clone.
        let eternal = ClaimMessage { ttl: Duration::MAX, ..held(0) };
        assert_eq!(bid(Some(&eternal), &[], 9999), Bid::Watch(TTLS[1]));
    }
}
