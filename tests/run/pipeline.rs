//! Roles that take over from each other.

use crate::support::TestRepo;
use crate::support::agent::describe;
use serde_json::Value;

/// A role that hands on, in the base commit. It may also be ended by a circle, or by a chain that is too long.
fn repository(roles: &[(&str, &str)]) -> TestRepo {
    let repo = TestRepo::with_commit();
    for (name, next) in roles {
        let text = format!("extends = \"edit-local\"\n[pipeline]\nhandoff = \"{next}\"\n");
        repo.write(&format!("roles/{name}.toml"), &text);
    }
    repo.commit_all("roles");
    repo
}

/// A command that plays each of the roles: it works, it audits what its prompt names, it merges that.
fn player(repo: &TestRepo, verdict: &str) -> String {
    let path = repo.path().with_file_name("player.sh");
    let script = format!(
        r#"prompt=$(cat)
worker=$(printf '%s' "$prompt" | sed -n 's/^The work is that of agent \([0-9a-f-]*\),.*/\1/p')
tip=$(printf '%s' "$prompt" | sed -n 's/^- tip: //p')
tree=$(printf '%s' "$prompt" | sed -n 's/^- tree, with what is not committed: //p')
case "$prompt" in
*"Take over as auditor"*)
  printf 'verdict: {verdict}\nfindings: none\nbody-sha: %s\naudited-agent: %s\n' "${{tree:-$tip}}" "$worker" ;;
*"Take over as merger"*)
  printf '%s\n' "$prompt" | grep -q '^> verdict: PASS' || exit 9
  git merge --quiet --squash "$tip" >&2 && git commit --quiet -m squashed >&2 || exit 8
  printf 'COMMIT_SHA: %s\nLEDGER_STATUS: done\nFORK_AGENT_ID: %s\nMERGE_METHOD: squash\n' "$(git rev-parse HEAD)" "$worker" ;;
*"Take over"*) echo 'more' >> src/more.txt ;;
*) mkdir -p src; echo 'pub fn two() {{}}' > src/two.rs; git add src; git commit --quiet -m two ;;
esac
"#
    );
    std::fs::write(&path, script).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn run(repo: &TestRepo, role: &str, verdict: &str) -> (Option<i32>, Value, String) {
    let player = player(repo, verdict);
    let arguments = [
        "run",
        "add a second function",
        "--role",
        role,
        "--pipeline",
        "--format=json",
        "--",
        "sh",
        &player,
    ];
    let output = repo.agent(&arguments);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let report =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    (output.status.code(), report, error)
}

fn roles(repo: &TestRepo, report: &Value) -> Vec<String> {
    let handoffs = report["handoffs"].as_array().cloned().unwrap_or_default();
    let shown = |one: &Value| repo.agent_json(&["show", one["agent_id"].as_str().expect("an id")]);
    let mut parent = report["agent_id"].clone();
    let mut roles = Vec::new();
    for one in &handoffs {
        let agent = shown(one);
        assert_eq!(agent["parent_id"], parent, "the parent is linked");
        parent = agent["agent_id"].clone();
        roles.push(agent["role"].as_str().expect("a role").to_owned());
    }
    roles
}

#[test]
fn an_accepted_agent_is_audited_and_its_work_is_merged() {
    let repo = repository(&[("writer", "auditor")]);
    let (status, report, error) = run(&repo, "writer", "PASS");
    assert_eq!(status, Some(0), "{report:#} {error}");
    assert_eq!(roles(&repo, &report), ["auditor", "merger"]);
    repo.git(["fsck", "--strict"]);
}

#[test]
fn what_is_not_passed_goes_no_further() {
    for (verdict, found) in [("FAIL", true), ("INCONCLUSIVE", false), ("MAYBE", false)] {
        let repo = repository(&[("writer", "auditor")]);
        let (status, report, _) = run(&repo, "writer", verdict);
        assert_eq!(roles(&repo, &report), ["auditor"], "{verdict}");
        assert_eq!(status, Some(i32::from(verdict == "MAYBE")), "{verdict}");
        let writer = report["agent_id"].as_str().expect("an id");
        let verified = repo.agent(&["verify", writer]);
        assert_eq!(verified.status.success(), !found, "{}", describe(&verified));
    }
}

#[test]
fn roles_hand_on_neither_in_a_circle_nor_without_end() {
    let repo = repository(&[("one", "two"), ("two", "three"), ("three", "one")]);
    let (status, report, error) = run(&repo, "one", "PASS");
    assert_eq!(roles(&repo, &report), ["two", "three"]);
    assert_eq!(status, Some(2), "{error}");
    assert!(error.contains("one -> two -> three -> one"), "{error}");
    let names: Vec<String> = (0..20).map(|at| format!("r{at}")).collect();
    let chain: Vec<(&str, &str)> =
        names.windows(2).map(|two| (two[0].as_str(), two[1].as_str())).collect();
    let last = [("r19", "auditor")];
    let repo = repository(&[&chain[..], &last].concat());
    let (status, report, error) = run(&repo, "r0", "PASS");
    assert_eq!(roles(&repo, &report).len(), 15, "{error}");
    assert_eq!(status, Some(2), "{error}");
}

#[test]
fn the_next_agent_is_spawned_by_hand_too() {
    let repo = repository(&[("writer", "auditor")]);
    let spawned = repo.agent(&[
        "spawn",
        "add a second function",
        "--role",
        "writer",
        "--name",
        "w",
        "--pipeline",
    ]);
    let said = String::from_utf8_lossy(&spawned.stderr);
    assert!(said.contains("git agent spawn --pipeline"), "{}", describe(&spawned));
    let writer = repo.agent_json(&["show", "w"]);
    let worktree = writer["worktree_abspath"].as_str().expect("a worktree");
    std::fs::write(std::path::Path::new(worktree).join("two.rs"), "pub fn two() {}\n")
        .expect("written");
    let dry = repo.agent_json(&["spawn", "--pipeline", "w", "--dry-run"]);
    assert_eq!(dry["role"], "auditor");
    let auditor = repo.agent_json(&["spawn", "--pipeline", "w"]);
    assert_eq!(auditor["parent_id"], writer["agent_id"]);
    // Nothing of it is accepted yet, and a role without a handoff has none to hand on to.
    let id = auditor["agent_id"].as_str().expect("an id");
    for who in [id, "nobody"] {
        let refused = repo.agent(&["spawn", "--pipeline", who]);
        assert!(!refused.status.success(), "{}", describe(&refused));
    }
}

#[test]
fn the_settings_of_unjudged_work_set_up_no_next_agent() {
    let repo = repository(&[("one", "two"), ("two", "auditor")]);
    let settings = ".config/git-agent.toml";
    let below =
        repo.agent_json(&["spawn", "set it up", "--name=x", "--no-bundle", "--new", settings]);
    let branch = below["branch"].as_str().expect("a branch");
    repo.agent_json(&["spawn", "go on", "--role=one", "--name=w", "--no-bundle", "--base", branch]);
    // What the next one starts from has come to hold settings that no person has looked at.
    let worktree = std::path::Path::new(below["worktree_abspath"].as_str().expect("a worktree"));
    let escaped = repo.path().with_file_name("escaped");
    std::fs::create_dir_all(worktree.join(".config")).expect("made");
    let text = format!("[setup]\nrun = [\"touch {}\"]\n", escaped.display());
    std::fs::write(worktree.join(settings), text).expect("written");
    repo.agent_json(&["commit", "x", "-m", "settings"]);
    repo.agent_json(&["mark", "done", "w"]);
    let next = repo.agent_json(&["spawn", "--pipeline", "w"]);
    let next = std::path::Path::new(next["worktree_abspath"].as_str().expect("a worktree"));
    assert!(next.join(settings).exists(), "it starts from what is there by now");
    assert!(!escaped.exists(), "it is not judged yet");
    repo.agent_json(&["merge", "x"]);
    repo.agent_json(&["spawn", "do it", "--name=after"]);
    assert!(escaped.exists());
}

#[test]
fn who_did_nothing_or_failed_hands_on_nothing() {
    let repo = repository(&[("writer", "auditor")]);
    repo.agent_json(&["spawn", "add a second function", "--role=writer", "--name=w"]);
    let refused = |why: &str| {
        let output = repo.agent(&["spawn", "--pipeline", "w"]);
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
        assert!(describe(&output).contains(why), "{}", describe(&output));
    };
    refused("it has done nothing yet");
    let half = "echo half > src/half.rs; exit 4";
    assert_eq!(repo.agent(&["run", "w", "--", "sh", "-c", half]).status.code(), Some(4));
    refused("which is failed");
    repo.agent_json(&["mark", "done", "w"]);
    repo.agent_json(&["spawn", "--pipeline", "w"]);
}
