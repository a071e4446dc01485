use super::{repo, spawn, task};
use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, agent_command, describe};
use crate::verify::refused;
use std::process::Output;
use std::sync::Barrier;

fn exclusive(repo: &TestRepo, globs: &[&str]) -> Output {
    let path = repo.task_file(&task(globs));
    repo.agent(&["spawn", &path, "--exclusive"])
}

#[test]
fn a_spawn_warns_of_three_and_counts_the_rest() {
    let repo = repo();
    let warnings = |globs: &[&str]| {
        let report = repo.spawn_task(&task(globs), &[]);
        report["warnings"].clone()
    };
    let first = spawn(&repo, "one", &["a/**"]);
    assert_eq!(warnings(&["b/**"]), serde_json::json!([]));
    let said = warnings(&["a/one"]);
    let expected = format!(
        "the scope meets that of live agent {} (one); to see where, run git agent overlap --scopes",
        &first.id[..8]
    );
    assert_eq!(said, serde_json::json!([expected]));
    for _ in 0..3 {
        repo.spawn_task(&task(&["a/two"]), &[]);
    }
    let many = warnings(&["a/**"]).to_string();
    assert!(many.contains("that of 5 live agents: ") && many.contains(" and 2 more;"), "{many}");
    // Somebody who may write nothing is in nobody's way.
    assert_eq!(repo.spawn_task(SHARED_TASK, &[])["warnings"].to_string().find("meets"), None);
    let path = repo.task_file(&task(&["a/**"]));
    let planned = repo.agent(&["spawn", &path, "--dry-run"]);
    assert!(describe(&planned).contains("6 live agents"), "{}", describe(&planned));
}

#[test]
fn a_spawn_says_the_same_with_old_broken_and_no_caches() {
    let repo = repo();
    let cache = repo.path().join(".git/agents/cache/scopes");
    let index = repo.path().join(".git/agents/cache/rows");
    let path = repo.task_file(&task(&["a/**"]));
    let require_said = |count: usize| {
        let planned = describe(&repo.agent(&["spawn", &path, "--dry-run"]));
        let expected = format!("that of {count} live agents");
        assert!(planned.contains(&expected), "{planned}");
    };
    let several = vec![path.as_str(); 34];
    repo.agent_json(&[&["spawn"], &several[..]].concat());
    require_said(34);
    let content = std::fs::read(&cache).expect("worth it");
    // What is newer is read from its object, and what is gone is not looked for.
    let newest = spawn(&repo, "newest", &["a/one"]);
    require_said(35);
    assert!(repo.agent(&["discard", &newest.id]).status.success());
    for broken in [&content[..content.len() / 2], b"", b"git-agent scope cache 9 x\n"] {
        std::fs::write(&cache, broken).expect("written");
        std::fs::write(&index, broken).expect("written");
        require_said(34);
        assert_eq!(std::fs::read(&cache).expect("made again"), content);
    }
}

#[test]
fn an_exclusive_spawn_is_refused_and_leaves_nothing() {
    let repo = repo();
    spawn(&repo, "one", &["a/**"]);
    let refs = repo.git(["for-each-ref"]);
    let output = exclusive(&repo, &["a/two", "b/**"]);
    refused(&output, "scope-overlap", 3);
    assert!(describe(&output).contains("(one)"), "{}", describe(&output));
    let path = repo.task_file(&task(&["a/two"]));
    refused(&repo.agent(&["spawn", &path, "--exclusive", "--dry-run"]), "scope-overlap", 3);
    assert_eq!(repo.git(["for-each-ref"]), refs);
    assert!(exclusive(&repo, &["b/**"]).status.success());
    // What is gone is in nobody's way.
    assert!(repo.agent(&["discard", "one"]).status.success());
    assert!(exclusive(&repo, &["a/two"]).status.success());
}

#[test]
fn of_two_exclusive_spawns_at_once_one_wins() {
    for _ in 0..4 {
        let repo = repo();
        let path = repo.task_file(&task(&["a/**"]));
        let barrier = Barrier::new(4);
        let outputs: Vec<Output> = std::thread::scope(|scope| {
            let start = || {
                let mut command = agent_command(&repo.path());
                command.args(["spawn", &path, "--exclusive"]);
                barrier.wait();
                command.output().expect("starts")
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
            threads.into_iter().map(|thread| thread.join().expect("joined")).collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) =
            outputs.into_iter().partition(|output| output.status.success());
        assert_eq!(won.len(), 1);
        lost.iter().for_each(|output| refused(output, "scope-overlap", 3));
        assert_eq!(repo.git(["worktree", "list"]).lines().count(), 2);
        let listed = repo.agent_json(&["list", "--all"]);
        assert_eq!(listed["agents"].as_array().expect("rows").len(), 1);
    }
}

#[test]
fn a_spawn_that_was_killed_is_in_nobody_s_way() {
    let repo = TestRepo::with_commit();
    crate::kill::die_at(&repo, "branch", crate::support::agent::TASK);
    let path = repo.task_file(crate::support::agent::TASK);
    let output = repo.agent(&["spawn", &path, "--exclusive"]);
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn a_spawn_that_cannot_read_the_other_scopes_leaves_nothing() {
    let repo = repo();
    let one = spawn(&repo, "one", &["a/**"]);
    let (id, _) = repo.without_policy_in_spawn_commit(&one.id);
    let before = repo.git(["for-each-ref", "refs/heads", "refs/agents"]);
    let log = repo.agent_json(&["log", &id]).to_string();
    let policies = repo.git(["rev-list", "--objects", "--no-object-names", "refs/agents/keep"]);
    let policy = policies.lines().find(|oid| {
        let content = repo.git(["cat-file", "-p", oid]);
        content.starts_with('{') && content.contains("git-agent.policy/1")
    });
    let policy = policy.expect("a policy");
    let objects = repo.path().join(".git/objects");
    let object = objects.join(&policy[..2]).join(&policy[2..]);
    let whole = std::fs::read(&object).expect("a loose object");
    std::fs::remove_file(&object).expect("removed");
    std::fs::write(&object, "garbled").expect("written");
    let path = repo.task_file(&task(&["b/**"]));
    refused(&repo.agent(&["spawn", &path]), "repo-corrupt", 4);
    let journals = repo.path().join(".git/agents/spawning");
    let left = std::fs::read_dir(journals).map_or(0, Iterator::count);
    assert_eq!(left, 0, "a journal is left");
    let after = repo.git(["for-each-ref", "refs/heads", "refs/agents"]);
    assert_eq!(after, before);
    std::fs::write(&object, whole).expect("written");
    assert_eq!(repo.agent_json(&["log", &id]).to_string(), log);
    repo.spawn_task(&task(&["b/**"]), &[]);
}
