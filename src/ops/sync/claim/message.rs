//! What the commit of a claim says, and what the clone that holds it remembers.

use super::Commit;
use crate::domain::claim::{ClaimMessage, ClaimState};
use crate::domain::id::AgentId;
use crate::error::Result;
use crate::store::chain::TRAILER;
use crate::store::{fsx, layout};
use std::path::Path;
use std::time::Duration;

impl ClaimMessage {
    /// Reads the commit of a claim; `None` for any other commit.
    pub(super) fn read(commit: &Commit) -> Option<ClaimMessage> {
        commit.trailer(TRAILER)?;
        let state = commit.trailer("Claim-State")?;
        Some(ClaimMessage {
            state: { ClaimState::ALL.into_iter() }.find(|one| one.as_str() == state)?,
            clone: commit.trailer("Claim-Clone")?.to_owned(),
            nonce: commit.trailer("Claim-Nonce")?.to_owned(),
            ttl: Duration::from_secs(commit.trailer("Claim-Ttl")?.parse().ok()?),
            agent: commit.trailer("Agent-Id").and_then(AgentId::parse),
            seconds: commit.seconds,
        })
    }

    pub(super) fn text(&self, key: &str) -> String {
        let agent = self.agent.map(|agent| format!("Agent-Id: {agent}\n"));
        format!(
            "agent: claim {key}\n\nClaim-State: {}\nClaim-Clone: {}\nClaim-Nonce: {}\nClaim-Ttl: {}\n{}{TRAILER}: 1\n",
            self.state.as_str(),
            self.clone,
            self.nonce,
            self.ttl.as_secs(),
            agent.unwrap_or_default(),
        )
    }
}

/// What a clone remembers of a claim that it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClaimRecord {
    pub nonce: String,
    pub agent: Option<AgentId>,
}

impl ClaimRecord {
    /// Reads it; `None` where this clone holds no such claim.
    pub(super) fn load(common_dir: &Path, key: &str) -> Result<Option<ClaimRecord>> {
        let content = fsx::load_if_there(&layout::claim_record(common_dir, key))?;
        let Some(content) = content else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&content).into_owned();
        let mut lines = text.lines();
        let nonce = lines.next().filter(|nonce| !nonce.is_empty());
        Ok(nonce.map(|nonce| ClaimRecord {
            nonce: nonce.to_owned(),
            agent: lines.next().and_then(AgentId::parse),
        }))
    }

    pub(super) fn text(&self) -> String {
        let agent = self.agent.map(|agent| agent.to_string());
        format!("{}\n{}\n", self.nonce, agent.unwrap_or_default())
    }
}
