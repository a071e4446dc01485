//! Which agent a branch belongs to, and which policy binds it.

use crate::support::agent::TASK;
use crate::support::death::ctx_with;
use crate::support::{TestRepo, git_in};
use crate::verify::Agent;
use git_agent::ops::ctx::Seams;
use git_agent::ops::spawn;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().expect("a text")
}

/// A bare repository beside this one that checks every object it is sent.
fn checking_remote(repo: &TestRepo) -> String {
    let path = repo.path().with_file_name("remote.git");
    let path = path.to_str().expect("UTF-8").to_owned();
    repo.git(["init", "--quiet", "--bare", &path]);
    for key in ["receive.fsckObjects", "fetch.fsckObjects"] {
        repo.git(["-C", &path, "config", key, "true"]);
    }
    path
}

#[test]
fn h8_no_id_begins_with_a() {
    let repo = TestRepo::with_commit();
    let drawn = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&drawn);
    let seams = Seams {
        nonce: Arc::new(move || {
            let number = u128::from(counter.fetch_add(1, Ordering::Relaxed));
            Ok(number.to_be_bytes())
        }),
        ..Seams::real()
    };
    let ctx = ctx_with(&repo.path(), seams);
    // One in sixteen draws gives such an id, so that none does in 400 is all but impossible.
    const PLANS: u64 = 400;
    for _ in 0..PLANS {
        let draft = git_agent::wire::task_file::parse("task.toml", TASK.as_bytes());
        let plan = spawn::plan(&ctx, draft, &spawn::SpawnOptions::default()).expect("a plan");
        assert!(!plan.id.short().starts_with('a'), "{}", plan.id);
    }
    assert!(
        drawn.load(Ordering::Relaxed) > PLANS,
        "none was passed over"
    );
}

#[test]
fn j1_the_spawn_commit_carries_the_policy_in_a_header() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let spawn_commit = text(&report, "spawn_commit");
    let commit = repo.git(["cat-file", "commit", spawn_commit]);
    let headers: Vec<&str> = commit.lines().take_while(|line| !line.is_empty()).collect();
    let names: Vec<&str> = headers
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    let wanted = ["tree", "parent", "author", "committer", "agent-policy"];
    assert_eq!(names, wanted, "{commit}");
    // It is the policy of the ledger but for the hash of the specification, which names the agent's id.
    let (_, header) = headers[4].split_once(' ').expect("a value");
    let mut carried: Value = serde_json::from_str(header).expect("JSON");
    assert_eq!(carried["spec_sha"], "");
    let row = repo.git(["notes", "--ref=agents", "show", spawn_commit]);
    let blob = row.split(r#""policy":""#).nth(1).expect("a policy")[..40].to_owned();
    let recorded: Value =
        serde_json::from_str(&repo.git(["cat-file", "blob", &blob])).expect("JSON");
    carried["spec_sha"] = recorded["spec_sha"].clone();
    assert_eq!(carried, recorded);
    let digest = repo.git([
        "log",
        "-1",
        "--format=%(trailers:key=Agent-Policy,valueonly)",
        spawn_commit,
    ]);
    use sha2::Digest;
    let hash = sha2::Sha256::digest(format!("{header}\n"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(digest.trim_end(), format!("sha256:{hash}"));
}

#[test]
fn j1_git_and_a_checking_remote_accept_the_header() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    let repo = &agent.repo;
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress"]), "");
    let remote = checking_remote(repo);
    repo.git(["push", "--quiet", &remote, "main", &agent.branch]);
    assert_eq!(
        repo.git(["-C", &remote, "fsck", "--strict", "--no-progress"]),
        ""
    );
    let clone = repo.path().with_file_name("clone");
    let clone = clone.to_str().expect("UTF-8");
    let check = [
        "-c",
        "fetch.fsckObjects=true",
        "-c",
        "transfer.fsckObjects=true",
    ];
    let url = format!("file://{remote}");
    let words = ["clone", "--quiet", "--branch", &agent.branch, &url, clone];
    repo.git([&check[..], &words].concat());
    let bound = git_in(clone.as_ref(), ["cat-file", "commit", "HEAD~1"]);
    assert!(bound.contains("\nagent-policy {"), "{bound}");
}
