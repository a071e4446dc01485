use super::{ANYWHERE, lines, repo, spawn, spawn_task, strings, task, touched};
use crate::support::agent::{SHARED_TASK, agent_command, describe};
use crate::verify::refused;
use serde_json::json;

#[test]
fn a_diff_holds_what_is_committed_and_what_is_not() {
    let repo = repo();
    let agent = spawn(&repo, "one", ANYWHERE);
    agent.write("a/one", &lines(&[(3, "committed")]));
    agent.commit();
    agent.write("b/one", &lines(&[(3, "staged")]));
    agent.git(&["add", "b/one"]);
    agent.write("new file", "untracked\n");
    std::fs::remove_file(agent.worktree.join("c/one")).expect("removed");
    let names = repo.agent(&["diff", "one", "--name-only"]);
    let names = String::from_utf8(names.stdout).expect("UTF-8");
    let names: std::collections::BTreeSet<_> = names.lines().map(str::to_owned).collect();
    assert_eq!(names, touched(&agent.worktree));

    let report = repo.agent_json(&["diff", "one"]);
    let kinds: Vec<_> = report["changes"].as_array().expect("changes").iter().collect();
    assert_eq!(kinds.len(), 4);
    assert_eq!(kinds[2], &json!({ "path": "c/one", "kind": "deleted" }));
    assert_eq!(report["has_uncommitted"], true);
    // The patch is one: applied to the base it gives the tree.
    let patch = repo.agent(&["diff", "one"]);
    let path = repo.path().with_file_name("patch");
    std::fs::write(&path, &patch.stdout).expect("written");
    repo.git(["apply", "--index", path.to_str().expect("UTF-8")]);
    assert_eq!(repo.git(["write-tree"]), report["tree"].as_str().expect("a tree"));
}

#[test]
fn a_diff_is_narrowed_down_and_leaves_out_what_the_base_brought() {
    let repo = repo();
    let agent = spawn(&repo, "one", ANYWHERE);
    agent.write("a/one", &lines(&[(3, "x")]));
    agent.write("b/one", &lines(&[(3, "x")]));
    agent.commit();
    repo.write("c/one", "main moves on\n");
    repo.commit_all("main moves on");
    agent.git(&["merge", "--quiet", "main"]);
    let said = |arguments: &[&str]| {
        let output = repo.agent(&[&["diff", "one", "--name-only"], arguments].concat());
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(said(&[]), "a/one\nb/one\n");
    assert_eq!(said(&["--", "b"]), "b/one\n");
    // Paths are meant from where they are typed, as those of git.
    let below = repo.path().join("a");
    std::fs::create_dir_all(&below).expect("made");
    for (path, expected) in
        [("one", "a/one\n"), ("../b", "b/one\n"), (":/b", "b/one\n"), (".", "a/one\n")]
    {
        let words = ["diff", "one", "--name-only", "--", path];
        let output = agent_command(&below).args(words).output().expect("starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{path}");
    }
    // From inside the agent's worktree it is the same, and after landing too.
    let inside = agent_command(&agent.worktree).args(["diff", "one", "--stat"]).output();
    let inside = String::from_utf8(inside.expect("starts").stdout).expect("UTF-8");
    assert!(inside.contains("2 files changed"), "{inside}");
    repo.git(["merge", "--quiet", "--no-ff", "-m", "landed", &agent.branch]);
    assert_eq!(strings(&json!(said(&[]).lines().collect::<Vec<_>>())).len(), 3, "since its base");
}

#[test]
fn a_diff_after_a_squash_leaves_out_what_an_update_brought() {
    let repo = repo();
    let task = format!("{}[bundle]\nrequired = false\n", task(ANYWHERE));
    let agent = spawn_task(&repo, "one", &task);
    agent.write("a/one", &lines(&[(3, "x")]));
    agent.commit();
    repo.agent_json(&["merge", "one", "--squash"]);
    repo.write("c/one", "main moves on\n");
    repo.commit_all("main moves on");
    agent.write("b/one", &lines(&[(3, "x")]));
    agent.commit();
    let names = || {
        let output = repo.agent(&["diff", "one", "--name-only"]);
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    assert_eq!(names(), "b/one\n");
    repo.agent_json(&["update", "one"]);
    assert_eq!(names(), "b/one\n");
    repo.agent_json(&["merge", "one", "--squash"]);
    assert_eq!(repo.git(["diff", "--name-only", "HEAD^", "HEAD"]), "b/one");
}

#[test]
fn what_cannot_be_seen_is_said_so() {
    let repo = repo();
    let agent = spawn(&repo, "seen", ANYWHERE);
    agent.write("a/one", "written\n");
    let moved = agent.worktree.with_file_name("moved");
    std::fs::rename(&agent.worktree, &moved).expect("moved");
    let said = describe(&repo.agent(&["diff", "seen"]));
    assert!(said.contains("only what is committed is shown"), "{said}");
    std::fs::rename(&moved, &agent.worktree).expect("moved back");
    let said = describe(&repo.agent(&["diff", "seen"]));
    assert!(said.contains("+written") && !said.contains("warning"), "{said}");
}

#[test]
fn nothing_to_show_is_said_so() {
    let repo = repo();
    spawn(&repo, "one", &["a/**"]);
    assert!(repo.agent(&["diff", "one"]).stdout.is_empty());
    assert_eq!(repo.agent_json(&["diff", "one"])["changes"], json!([]));
    let shared = repo.spawn_task(SHARED_TASK, &[]);
    let id = shared["agent_id"].as_str().expect("an id");
    refused(&repo.agent(&["diff", id]), "agent-state", 3);
    refused(&repo.agent(&["diff", "nobody"]), "agent-unknown", 2);
}
