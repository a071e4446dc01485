//! The policy that binds an agent, as the blob that its `spawned` event names: `git-agent.policy/1`.
//!
//! It is what `verify` reads instead of anything in the agent's tree, so it holds all that decides:
//! role, scope, checks, base and where the bundle is. It holds no task text, briefing or prompt. The spawn
//! commit names its digest in a trailer, and the agent's id is made from that commit: whoever rewrites the
//! ledger cannot give an agent another policy.

use crate::domain::glob::Glob;
use crate::domain::hex::hex;
use crate::domain::scope::Scope;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The schema's name and version.
pub const SCHEMA: &str = "git-agent.policy/1";

/// The trailer of the spawn commit that holds [`Policy::digest`].
pub const TRAILER: &str = "Agent-Policy";

/// What was decided at spawn and holds until the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// [`SCHEMA`].
    pub schema: String,
    /// The role's name.
    pub role: String,
    /// The agent type that the host is asked for.
    pub subagent_type: String,
    /// `worktree` or `shared`.
    pub isolation: String,
    /// Whether the agent may change files.
    pub edits: bool,
    /// Whether the agent may spawn agents.
    pub may_spawn: bool,
    /// The globs it may touch.
    pub whitelist: Vec<String>,
    /// The globs it must not touch: the task's united with the defaults, sorted.
    pub denylist: Vec<String>,
    /// Commands that `verify` runs in the merged tree.
    pub checks: Vec<String>,
    /// The commit it started from.
    pub base_oid: String,
    /// The ref that was named as base, when one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_ref: Option<String>,
    /// Whether the six files are required.
    pub bundle_required: bool,
    /// The bundle's directory, relative to the worktree; absent when shared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle_dir: Option<String>,
    /// SHA-256 of the `spec.md` that spawn wrote, in hex.
    pub spec_sha: String,
}

impl Policy {
    /// The bytes of the blob: one line of JSON, the same for the same policy.
    pub fn to_bytes(&self) -> Vec<u8> {
        // Strings, booleans and lists of strings always serialize.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes
    }

    /// `sha256:` and 64 hex digits over the policy without the specification's hash: that one depends on the
    /// agent's id, and the id on the commit that carries this.
    pub fn digest(&self) -> String {
        let terms = Policy {
            spec_sha: String::new(),
            ..self.clone()
        };
        format!("sha256:{}", hex(&Sha256::digest(terms.to_bytes())))
    }

    /// Whitelist and denylist as globs.
    ///
    /// # Errors
    /// One sentence, for a glob that no version of ours would have recorded.
    pub fn globs(&self) -> Result<[Vec<Glob>; 2], String> {
        let parse = |globs: &[String]| -> Result<Vec<Glob>, String> {
            globs.iter().map(|glob| Glob::parse(glob)).collect()
        };
        Ok([parse(&self.whitelist)?, parse(&self.denylist)?])
    }

    /// The scope that binds.
    ///
    /// # Errors
    /// As [`Policy::globs`].
    pub fn scope(&self) -> Result<Scope, String> {
        let [whitelist, denylist] = self.globs()?;
        Scope::new(&whitelist, &denylist)
    }

    /// Reads the blob; `None` when it is no policy of a version we know.
    pub fn from_bytes(bytes: &[u8]) -> Option<Policy> {
        let policy: Policy = serde_json::from_slice(bytes).ok()?;
        (policy.schema == SCHEMA).then_some(policy)
    }
}
