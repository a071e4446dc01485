//! What a landing does to an agent's state, and what answers say of it.

use super::ref_hook::{hooked, refuse};
use super::{answer, ready, run, state};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_output};
use crate::verify::{Agent, refused};

/// What the ledger says of an agent, and what its worktree holds.
fn seen(agent: &Agent) -> [String; 4] {
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    let spawn = shown["spawn_commit"].as_str().expect("a commit");
    [
        state(agent),
        agent.repo.git(["notes", "--ref=agents", "show", spawn]),
        agent.git(&["rev-parse", "HEAD"]),
        agent.git(&["status", "--porcelain"]),
    ]
}

/// The code and the status of a refusal, the arguments of the landing, and what makes it refused.
type Case = (&'static str, i32, &'static [&'static str], fn(&Agent));

#[test]
fn a_landing_that_is_refused_changes_nothing() {
    let cases: [Case; 4] = [
        ("target-dirty", 3, &[], |agent| {
            agent.repo.write("src/lib.rs", "mine\n");
        }),
        ("not-fast-forward", 3, &["--ff-only"], |_| ()),
        ("hook-refused", 3, &[], |agent| {
            refuse(&hooked(agent), true);
        }),
        // Met when the files of the main worktree are to move, after all else was asked.
        ("lock-timeout", 5, &[], |agent| {
            let lock = agent.repo.path().join(".git/index.lock");
            std::fs::write(lock, "").expect("locked");
        }),
    ];
    for (code, status, arguments, hinder) in cases {
        let agent = ready();
        let before = seen(&agent);
        assert_eq!(before[0], "idle");
        hinder(&agent);
        refused(&run(&agent, "merge", arguments), code, status);
        assert_eq!(seen(&agent), before, "{code}");
        // Nor does it land with those that are done.
        let main = agent.repo.git(["rev-parse", "main"]);
        agent.repo.agent(&["merge", "--all"]);
        assert_eq!(agent.repo.git(["rev-parse", "main"]), main, "{code}");
    }
}

#[test]
fn what_is_to_land_is_counted_from_what_has_landed() {
    for method in ["--no-ff", "--squash"] {
        let agent = Agent::new();
        for number in ["one", "two"] {
            agent.write(&format!("src/{number}.rs"), "pub fn more() {}\n");
            agent.commit(number);
        }
        let counts = || {
            let listed = agent.repo.agent_json(&["list", "--all"]);
            let judged = agent.verify(&[]);
            let listed = listed["agents"][0]["ahead"].as_u64().expect("a count");
            (listed, judged["merge"]["ahead"].as_u64().expect("a count"))
        };
        assert_eq!(counts(), (2, 2), "{method}");
        answer(&agent, "merge", &[method]);
        agent.write("src/three.rs", "pub fn three() {}\n");
        agent.commit("three");
        run(&agent, "run", &["--", "true"]);
        assert_eq!(counts(), (1, 1), "{method}");
        answer(&agent, "merge", &[method]);
        run(&agent, "run", &["--", "true"]);
        assert_eq!(counts(), (0, 0), "{method}");
    }
}

#[test]
fn the_subject_is_that_of_the_commit_that_lands() {
    for is_committed in [true, false] {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        if is_committed {
            agent.commit("lib: add two");
        }
        let told = answer(&agent, "merge", &["--ff-only"])["subject"].clone();
        let subject = agent.repo.git(["log", "-1", "--format=%s", "main"]);
        assert_eq!(told, subject.as_str());
    }
}

#[test]
fn every_answer_tells_the_same_state() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let json = |words: &[&str]| -> serde_json::Value {
        let output = agent_command(&agent.repo.path())
            .args(words)
            .arg("--format=json")
            .output()
            .expect("starts");
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    assert_eq!(json(&["list"])["agents"][0]["state"], "idle");
    assert_eq!(json(&["show", &agent.id])["state"], "idle");
    assert_eq!(json(&["tree"])["agents"][0]["state"], "idle");
    let kept = json(&["gc"])["agents"][0].clone();
    assert_eq!(kept["state"], "idle", "{kept}");
    assert_eq!(kept["why"], "it is idle and has not landed");
    assert_eq!(json(&["merge", "--all"])["items"][0]["outcome"], "idle");
    let train = json(&["train", &agent.id])["items"][0].clone();
    let reason = train["reason"].as_str().expect("a reason");
    assert!(reason.contains("is idle; a train takes"), "{reason}");
    json(&["mark", "done", &agent.id, "-m", "two"]);
    assert_eq!(json(&["undo"])["agents"][0]["state"], "idle");
    json(&["mark", "defer", &agent.id, "-m", "later"]);
    assert_eq!(json(&["tree"])["agents"][0]["deferred"], true);
    // What was worked in can be tried again.
    assert_eq!(json(&["retry", &agent.id])["status"], "ready");
}

#[test]
fn an_agent_decides_about_no_other() {
    let own = Agent::new();
    let report = own.repo.spawn();
    let other = report["agent_id"].as_str().expect("an id");
    own.repo.agent(&["run", other, "--", "true"]);
    let kinds = || own.repo.agent_json(&["show", other, "--log"])["events"].clone();
    let before = kinds();
    for words in [&["verify", other, "--record"][..], &["stop", other]] {
        let output = agent_command(&own.worktree)
            .args(words)
            .env("GIT_AGENT_ID", &own.id)
            .output()
            .expect("starts");
        refused(&output, "orchestrator-only", 3);
    }
    assert_eq!(kinds(), before);
}

#[test]
fn work_goes_on_after_its_branch_was_merged_by_hand() {
    for way in ["--no-ff", "--ff-only"] {
        let agent = Agent::new();
        let more = |name: &str| {
            agent.write(&format!("src/{name}.rs"), "pub fn more() {}\n");
            agent.repo.agent_json(&["commit", &agent.id, "-m", name]);
        };
        more("one");
        let branch = agent.git(&["symbolic-ref", "HEAD"]);
        agent.repo.git(["merge", "--quiet", "--no-edit", way, &branch]);
        agent.repo.write("README.md", "meanwhile\n");
        agent.repo.commit_all("a person's");
        more("two");
        more("three");
        let judged = agent.repo.agent_json(&["verify", &agent.id]);
        assert_eq!(judged["findings"], serde_json::json!([]), "{way}: {judged:#}");
        agent.repo.agent_json(&["merge", &agent.id]);
        let landed = agent.repo.git(["ls-tree", "--name-only", "main", "src/"]);
        assert!(landed.contains("src/two.rs") && landed.contains("src/three.rs"), "{landed}");
    }
}

#[test]
fn a_commit_made_by_hand_is_work_also_where_the_target_is_gone() {
    for gone in
        [["branch", "-m", "main", "master"], ["update-ref", "-d", "refs/heads/main", "main"]]
    {
        let agent = Agent::new();
        agent.repo.git(["checkout", "--quiet", "--detach"]);
        assert_eq!(state(&agent), "ready");
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        agent.repo.git(gone);
        let row = agent.repo.agent_json(&["list"])["agents"][0].clone();
        assert_eq!(
            (&row["state"], &row["ahead"]),
            (&"idle".into(), &serde_json::Value::Null),
            "{row}"
        );
        agent.repo.agent_json(&["mark", "reject", &agent.id]);
        assert_eq!(state(&agent), "rejected");
    }
}

#[test]
fn what_is_unmerged_in_the_main_worktree_is_named() {
    let agent = ready();
    let say = |text: &str| agent.repo.write("notes", text);
    say("one\n");
    agent.repo.commit_all("notes");
    say("two\n");
    agent.repo.git(["stash", "--quiet"]);
    say("three\n");
    agent.repo.commit_all("other notes");
    let popped = git_output(&agent.repo.path(), ["stash", "pop", "--quiet"]);
    assert!(!popped.status.success(), "they meet");
    let output = run(&agent, "merge", &[]);
    refused(&output, "target-dirty", 3);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("  notes\n") && said.contains(" add -- <path>"), "{said}");
}

/// As where the program that encrypts files is not installed.
#[test]
fn a_filter_that_takes_nothing_in_is_named_with_what_shows_where_it_is_set() {
    let repo = TestRepo::with_commit();
    repo.write(".gitattributes", "*.key filter=sealed\n");
    repo.write("src/one.key", "before\n");
    repo.commit_all("sealed files");
    let agent = Agent::spawned_in(repo, TASK);
    agent.repo.git(["config", "filter.sealed.clean", "exit 7"]);
    agent.repo.git(["config", "filter.sealed.required", "true"]);
    agent.write("src/one.key", "after\n");
    for (verb, more) in
        [("check", ["--worktree"].as_slice()), ("diff", &[]), ("commit", &["-m", "new keys"])]
    {
        let output = run(&agent, verb, more);
        refused(&output, "git-failed", 4);
        let told = describe(&output);
        assert!(told.contains("the filter sealed failed on src/one.key"), "{verb}: {told}");
        let (_, command) = told.split_once("set, run git ").expect("advice");
        let pattern = command.split('\'').nth(1).expect("a pattern");
        let shown = agent.repo.git(["config", "--show-origin", "--get-regexp", pattern]);
        assert!(shown.contains("filter.sealed.clean exit 7"), "{verb}: {shown}");
    }
}

/// As where the server of large files does not answer.
#[test]
fn a_filter_that_fails_for_one_file_takes_no_other_along() {
    let repo = TestRepo::with_commit();
    repo.write(".gitattributes", "*.bin filter=large\n");
    for name in ["a.bin", "b.bin", "c.bin", "d.txt"] {
        repo.write(&format!("src/{name}"), "before\n");
    }
    repo.commit_all("large files");
    let agent = Agent::spawned_in(repo, TASK);
    for name in ["a.bin", "b.bin", "c.bin", "d.txt"] {
        agent.write(&format!("src/{name}"), "after\n");
    }
    agent.commit("all of them");
    let filter = "case %f in *b.bin) exit 1 ;; esac; cat";
    agent.repo.git(["config", "filter.large.smudge", filter]);
    agent.repo.git(["config", "filter.large.required", "true"]);
    agent.repo.git(["config", "filter.large.clean", "cat"]);
    let output = run(&agent, "merge", &[]);
    refused(&output, "git-failed", 4);
    assert!(describe(&output).contains("not all files could be moved back"));
    assert_eq!(agent.repo.git(["status", "--porcelain"]), " D src/b.bin");
    agent.repo.git(["config", "filter.large.smudge", "cat"]);
    agent.repo.git(["checkout", "--", "src/b.bin"]);
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
}
