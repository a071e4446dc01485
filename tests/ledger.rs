/// Rows that name refs and directories of the user's.
mod claimed_refs;
/// Repair: damaged refs and objects, stale locks, foreign writers, places that cannot be written.
mod damage;
/// Many processes at once, killed and repacked under way.
mod races;
/// Rows: appending, folding, finding, listing.
mod rows;
/// Signed events, and who signed what.
mod signatures;
/// Events that were removed or altered, and who did it.
mod tampering;
/// Trees and unions equal to git's own, byte for byte.
mod trees;

use chrono::{DateTime, TimeDelta, Utc};
use git_agent::domain::life::event::{Base, Isolation, Spawning, What};
use git_agent::domain::life::id::AgentName;
use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use sha1::Digest;

/// The name of an imaginary commit, different for every number.
fn oid(number: usize) -> Oid {
    Oid::from_slice(&sha1::Sha1::digest(number.to_be_bytes())).expect("20 bytes")
}

/// A fixed moment, `seconds` later.
fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_211_369, 0).expect("in range") + TimeDelta::seconds(seconds)
}

fn noted(text: impl Into<String>) -> What {
    What::Noted { text: text.into() }
}

fn spawning(name: &str) -> What {
    What::Spawning(Spawning {
        role: "edit-local".into(),
        isolation: Isolation::Worktree,
        description: format!("Do the work of {name}"),
        name: AgentName::parse(name).ok(),
        parent: None,
        base: Base { refname: Some("refs/heads/main".into()), oid: oid(0) },
        dna: "sha256:00".into(),
        branch: Some(format!("refs/heads/agent/{name}-20261120T214929Z")),
        worktree: Some(format!(".claude/worktrees/{name}")),
        pid: 4711,
    })
}

/// Opens a test repository without the machine's configuration.
fn open(test: &crate::support::TestRepo) -> Repo {
    Repo::open(&test.path()).expect("a repository")
}
