//! An agent of which only the spawn commit is known.

use super::{Agent, State};
use crate::domain::event::{Base, Isolation};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::domain::stamp::Stamp;
use chrono::DateTime;

impl Agent {
    /// The agent that a spawn commit alone tells of, where no ledger has a row for it. Nothing is known of its life.
    pub fn without_row(
        spawn_commit: Oid,
        role: String,
        isolation: Option<Isolation>,
        base: Base,
        policy: Oid,
    ) -> Agent {
        let id = AgentId::from_spawn_commit(spawn_commit);
        Agent {
            state: State::Idle,
            role: Some(role),
            isolation,
            base: Some(base),
            policy: Some(policy),
            ..Agent::blank(id, spawn_commit, Stamp::next(DateTime::UNIX_EPOCH, 0, None))
        }
    }
}
