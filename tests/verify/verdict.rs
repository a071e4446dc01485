use super::{Agent, codes, report};
use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::{TestRepo, assert_unchanged, snapshot};
use serde_json::Value;

#[test]
fn uncommitted_work_is_accepted_and_named_as_a_tree() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let output = agent.run(&[agent.worktree.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{}", describe(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with(&format!("OK: all 6 artefacts present for {}\n", agent.id)), "{text}");
    let report = agent.verify(&[]);
    assert_eq!(report["uncommitted"], 1);
    assert_eq!(report["merge"]["state"], "fast-forward");
    agent.commit("what verify promised");
    assert_eq!(report["tree"], agent.git(&["rev-parse", "HEAD^{tree}"]));
    assert_eq!(report["merged_tree"], report["tree"]);
}

#[test]
fn the_verdict_moves_the_agent_and_is_recorded_once() {
    let agent = Agent::new();
    let state = || agent.repo.agent_json(&["show", &agent.id])["state"].clone();
    let events = || {
        let log = agent.repo.agent_json(&["log", &agent.id]);
        log["events"].as_array().expect("events").len()
    };
    agent.write("src/two.rs", "pub fn two() {}\n");
    let first = agent.verify(&[]);
    assert_eq!(state(), "done");
    let count = events();
    assert_eq!(agent.verify(&[]), first);
    assert_eq!(events(), count, "the same verdict is no second event");
    agent.write("README.md", "not mine\n");
    assert_eq!(agent.codes(), ["scope.not-in-whitelist"]);
    assert_eq!(state(), "idle");
    assert_eq!(events(), count + 1);
    agent.git(&["checkout", "--quiet", "README.md"]);
    assert_eq!(agent.verify(&[]), first);
    assert_eq!(state(), "done");
}

#[test]
fn without_its_cache_it_gives_the_same_bytes() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    // A merge is a fact that is remembered.
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    let one = agent.run(&["--format=json"]).stdout;
    std::fs::remove_dir_all(agent.repo.path().join(".git/agents/cache")).expect("the cache");
    assert_eq!(agent.run(&["--format=json"]).stdout, one);
}

#[test]
fn nothing_in_the_worktree_or_its_index_is_touched() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.git(&["add", "src/two.rs"]);
    agent.write("src/two.rs", "pub fn two() -> u8 { 2 }\n");
    let admin = agent.git(&["rev-parse", "--absolute-git-dir"]);
    let (files, git_dir) = (snapshot(&agent.worktree), snapshot(admin.as_ref()));
    agent.verify(&[]);
    assert_unchanged(&files, &snapshot(&agent.worktree), "verify");
    assert_unchanged(&git_dir, &snapshot(admin.as_ref()), "verify");
    let left = agent.repo.path().join(".git/agents/tmp");
    assert_eq!(std::fs::read_dir(left).expect("tmp").count(), 0);
}

#[test]
fn the_bundle_outlives_the_worktree() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    let kept = agent.verify(&[])["bundle_tree"].as_str().expect("a tree").to_owned();
    std::fs::remove_dir_all(&agent.worktree).expect("remove");
    agent.repo.git(["worktree", "unlock", agent.worktree.to_str().expect("UTF-8")]);
    agent.repo.git(["worktree", "prune"]);
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    let names = agent.repo.git(["ls-tree", "--name-only", &kept]);
    assert_eq!(names.lines().count(), 6);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["worktree.gone"]);
    assert_eq!(report["verdict"], "accept");
    assert_eq!(report["bundle_tree"], kept);
}

#[test]
fn a_shared_agent_has_nothing_to_land() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn_task(SHARED_TASK, &[]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let answer = report(&repo.agent(&["verify", id, ".", "--format=json"]));
    assert_eq!(answer["verdict"], "accept");
    assert_eq!(answer.get("merge"), None);
    let strict = SHARED_TASK.replace("[scope]", "[bundle]\nrequired = true\n[scope]");
    let spawned = repo.spawn_task(&strict, &[]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let output = repo.agent(&["verify", id]);
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with(&format!("MISSING for {id}:\n")), "{error}");
    assert_eq!(error.lines().count(), 6, "spec.md is there: {error}");
}

#[test]
fn sarif_has_a_rule_for_every_result() {
    let agent = Agent::new();
    agent.write("src/a b.rs", "");
    agent.write("notes here.txt", "");
    let output = agent.run(&["--format=sarif"]);
    assert_eq!(output.status.code(), Some(1));
    let log: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let run = &log["runs"][0];
    let result = &run["results"][0];
    assert_eq!(result["ruleId"], "scope.not-in-whitelist");
    let location = &result["locations"][0]["physicalLocation"]["artifactLocation"];
    assert_eq!(location["uri"], "notes%20here.txt");
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    assert!(rules.iter().any(|rule| rule["id"] == result["ruleId"]));
    let output = agent.repo.agent(&["list", "--format=sarif"]);
    super::refused_json(&output, "usage", 2);
}

#[test]
fn sarif_is_refused_before_anything_is_done_where_there_are_no_findings() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.agent_json(&["done", &agent.id]);
    let task = agent.repo.task_file(TASK);
    let before = agent.repo.git(["for-each-ref"]);
    for arguments in [
        &["spawn", &task][..],
        &["merge", &agent.id],
        &["defer", &agent.id],
        &["reject", &agent.id],
        &["discard", &agent.id],
        &["send", "--type=notify", "--to=all", "--payload", "message=m"],
        &["receive"],
        &["gc", "--yes"],
    ] {
        let output = agent.repo.agent(&[arguments, &["--format=sarif"]].concat());
        super::refused_json(&output, "usage", 2);
        assert_eq!(agent.repo.git(["for-each-ref"]), before, "{arguments:?}");
    }
    assert!(!agent.repo.path().join(".git/agents/mail.lock").exists());
    let help = |verb: &str| {
        let said = describe(&agent.repo.agent(&[verb, "-h"]));
        said.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(help("verify").contains("text, json, ndjson, sarif, markdown"));
    for verb in ["spawn", "merge", "list", "check"] {
        assert!(!help(verb).contains("sarif"), "{verb}");
    }
    let first = agent_command(&agent.repo.path())
        .args(["--format=sarif", "verify", &agent.id])
        .output()
        .expect("git-agent starts");
    let log: Value = serde_json::from_slice(&first.stdout).expect("JSON");
    assert_eq!(log["version"], "2.1.0");
}
