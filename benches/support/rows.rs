//! A ledger with many rows, made at once.

use super::git;
use super::storm::oid;
use chrono::Utc;
use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::record::notes::{Batch, Put, with_notes};
use git_agent::store::chain;

/// Puts that many rows of two events into the ledger, packed as `git gc` would leave them.
pub(crate) fn fill(repo: &Repo, rows: usize) {
    if rows == 0 {
        return;
    }
    let mut batch = Batch::new();
    for number in 0..rows {
        let body = row(number);
        let blob = repo.write_blob(body.as_bytes()).expect("written");
        batch.insert(oid(number), Put::Replace(blob));
    }
    let tree = with_notes(repo, Oid::EMPTY_TREE, batch).expect("written");
    let who = chain::identity(repo, Utc::now());
    let commit = chain::commit(repo, tree, &[], &who, "bench").expect("written");
    let (place, tip) = (repo.common_dir(), commit.to_hex());
    let update = ["update-ref", "--create-reflog", "refs/notes/agents", &tip];
    git(place, &update);
    git(place, &["repack", "-a", "-d", "-q"]);
    git(place, &["prune-packed", "-q"]);
}

/// A row as spawn writes it.
fn row(number: usize) -> String {
    let id = git_agent::domain::life::id::AgentId::from_spawn_commit(oid(number));
    let base = oid(0);
    let dna = "0".repeat(64);
    let at = |micros: usize| {
        format!(
            "20261120T{:02}{:02}{:02}.{micros:06}Z-000-7f3a",
            number / 3600 % 24,
            number / 60 % 60,
            number % 60
        )
    };
    format!(
        "{{\"t\":\"{}\",\"a\":\"{id}\",\"e\":\"spawning\",\"by\":\"bench\",\"d\":{{\"base\":\"{base}\",\"base_ref\":\"refs/heads/main\",\"branch\":\"refs/heads/agent/n{number}-20261120T214929Z\",\"description\":\"Add a verbose flag to the list command and test it\",\"dna\":\"sha256:{dna}\",\"isolation\":\"worktree\",\"name\":\"n{number}\",\"pid\":4711,\"role\":\"edit-local\",\"worktree\":\"/home/me/project/.claude/worktrees/agent-{number:08}\"}}}}\n\
         {{\"t\":\"{}\",\"a\":\"{id}\",\"e\":\"spawned\",\"by\":\"bench\",\"p\":\"0011223344556677\",\"d\":{{\"excludes\":[],\"policy\":\"{base}\",\"spec_sha\":\"{dna}\"}}}}\n",
        at(1),
        at(2)
    )
}
