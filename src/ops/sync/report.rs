//! The answer of `sync`.

use crate::domain::oid::Oid;
use serde::Serialize;

/// The answer of `sync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SyncReport {
    /// `git-agent.sync/1`
    pub schema: &'static str,
    /// The remote.
    pub remote: String,
    /// What became of each ref that is exchanged and that this clone has.
    pub refs: Vec<SyncedRef>,
    /// The branches of live agents of this clone that the remote did not have as they are.
    pub branches: Vec<BranchReport>,
    /// Refs of the remote that had lost what it was seen to have, or held something else, and are whole again.
    pub healed: Vec<String>,
    /// Refs of this clone from which a forced fetch had taken rows, which are back.
    pub restored: Vec<String>,
    /// What needs attention.
    pub warnings: Vec<String>,
}

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SyncedRef {
    /// Its full name here.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The full name of the ref on the remote that holds it: the one that all clones share, or this clone's outbox.
    pub remote_ref: String,
    /// The commit that both have.
    pub oid: String,
    /// `equal` where nothing had to be sent, `pushed`, or `outbox` where other clones were faster.
    pub state: &'static str,
    /// Whether anything new came from the remote.
    pub received: bool,
}

/// The branch of a live agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchReport {
    /// Its full name.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The commit it is at here.
    pub oid: String,
    /// `pushed`; `refused` where the remote has another one or does not take it; `landed` where it has none, and its work has
    /// landed there.
    pub state: &'static str,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl SyncReport {
    pub(super) fn new(remote: &str) -> SyncReport {
        SyncReport {
            schema: "git-agent.sync/1",
            remote: remote.to_owned(),
            refs: Vec::new(),
            branches: Vec::new(),
            healed: Vec::new(),
            restored: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Notes what is known of one ref by now.
    pub(super) fn set(&mut self, refname: &str, remote_ref: &str, oid: Oid, state: &'static str) {
        let synced = SyncedRef {
            refname: refname.to_owned(),
            remote_ref: remote_ref.to_owned(),
            oid: oid.to_hex(),
            state,
            received: false,
        };
        match self.refs.iter_mut().find(|one| one.refname == refname) {
            Some(one) => {
                let received = one.received;
                *one = SyncedRef { received, ..synced };
            }
            None => self.refs.push(synced),
        }
    }

    pub(super) fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    pub(super) fn heal(&mut self, refname: &str) {
        if !self.healed.iter().any(|one| one == refname) {
            self.healed.push(refname.to_owned());
        }
    }
}
