//! An agent's work as a trace record of Agent Trace (0.1), which says which lines of which files a contributor wrote.

use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// The version as the format's schema has it: major and minor.
const VERSION: &str = "0.1";

/// Lines of one file, counted from 1, both ends included.
pub type Lines = (Vec<u8>, Vec<(u32, u32)>);

/// The record of an agent for the commit `revision`, whose lines these are and were written with that model; `time` is
/// RFC 3339.
pub fn record(
    agent: &Agent,
    revision: Oid,
    model: Option<&str>,
    time: &str,
    files: &[Lines],
) -> Value {
    let mut contributor = json!({ "type": "ai" });
    // The schema allows no null there.
    if let Some(model) = model {
        contributor["model_id"] = model.into();
    }
    let files: Vec<Value> = files
        .iter()
        .map(|(path, ranges)| {
            let ranges = ranges
                .iter()
                .map(|(first, last)| json!({ "start_line": first, "end_line": last }));
            let ranges: Vec<Value> = ranges.collect();
            json!({
                // The format has no other form for a path that is not UTF-8.
                "path": String::from_utf8_lossy(path),
                "conversations": [{ "contributor": contributor, "ranges": ranges }],
            })
        })
        .collect();
    let session = agent.run.as_ref().and_then(|run| run.end.as_ref());
    let session = session.and_then(|(exited, _)| exited.session.id.as_deref());
    let mut about = json!({ "agent_id": agent.id.to_string(), "state": agent.state.as_str() });
    if let Some(session) = session {
        about["session_id"] = session.into();
    }
    json!({
        "version": VERSION,
        "id": id(agent, revision).to_string(),
        "timestamp": time,
        "vcs": { "type": "git", "revision": revision.to_hex() },
        "tool": { "name": "git-agent", "version": env!("CARGO_PKG_VERSION") },
        "files": files,
        "metadata": { "git-agent": about },
    })
}

/// The same for the same agent and commit, each time and everywhere.
fn id(agent: &Agent, revision: Oid) -> Uuid {
    let digest = Sha256::new().chain_update("agent-trace\0");
    let digest = digest.chain_update(agent.id.to_string());
    let digest = digest.chain_update(revision.to_hex()).finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    // Version 8 is for ids whose bytes are the program's own.
    Uuid::new_v8(bytes)
}
