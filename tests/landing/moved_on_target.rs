//! What the target moved meanwhile: git applies a change to where its file is by now, and that has to be in scope too.

use super::{answer, run};
use crate::support::agent::describe;
use crate::support::{PAST_HOOKS, TestRepo, git_in};
use crate::verify::{Agent, codes, refused};

/// Ten lines, so that git sees a file again where it was moved to.
fn script(line: &str) -> String {
    let lines = (0..9).map(|number| format!("echo {number}\n"));
    lines.collect::<String>() + line + "\n"
}

/// A repository with a file in scope, and an agent that may touch `src/**`.
fn spawned() -> Agent {
    let repo = TestRepo::with_commit();
    repo.write("src/a/tool.sh", script("echo old"));
    repo.write("src/a/other.sh", script("echo other"));
    repo.commit_all("scripts");
    Agent::spawned_in(repo, crate::support::agent::TASK)
}

/// The target moves the directory of the scripts to where the agent must not write.
fn move_on_target(agent: &Agent) {
    let repo = &agent.repo;
    repo.git(["mv", "src/a", "secrets"]);
    repo.commit_all("the scripts are secret");
}

fn check_refused(agent: &Agent, path: &str) {
    let before = agent.repo.git(["rev-parse", "main"]);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["scope.landing"], "{report}");
    assert_eq!(report["findings"][0]["path"], path, "{report}");
    let at_tip = agent.verify(&["--tip", &agent.branch]);
    assert!(codes(&at_tip).contains(&"scope.landing".to_owned()), "{at_tip}");
    // A forge's check, which has the branch and nothing else.
    let in_ci = agent.verify(&["--ci", "--base=main", "--tip", &agent.branch]);
    assert_eq!(in_ci["verdict"], "reject", "{in_ci}");
    assert!(codes(&in_ci).contains(&"scope.landing".to_owned()), "{in_ci}");
    refused(&run(agent, "merge", &[]), "not-accepted", 3);
    // A remote whose branch has moved in the same way.
    let hub = agent.repo.path().with_file_name("hub.git");
    let place = hub.to_str().expect("UTF-8");
    agent.repo.git(["init", "--quiet", "--bare", "--initial-branch=main", place]);
    agent.repo.git(["remote", "add", "origin", place]);
    agent.repo.git(["push", "--quiet", "origin", "main"]);
    let there = git_in(&hub, ["for-each-ref"]);
    answer(agent, "done", &["--summary=the scripts"]);
    for output in [
        run(agent, "merge", &["--push"]),
        run(agent, "pr", &[]),
        run(agent, "merge", &["--squash"]),
        run(agent, "update", &[]),
        agent.repo.agent(&["train", &agent.id]),
        agent.repo.agent(&["merge", "--all"]),
    ] {
        assert!(!output.status.success(), "{}", describe(&output));
    }
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    assert_eq!(git_in(&hub, ["for-each-ref"]), there);
}

#[test]
fn a_change_does_not_follow_its_file_out_of_scope() {
    let agent = spawned();
    agent.write("src/a/tool.sh", script("echo new"));
    agent.commit("the tool");
    move_on_target(&agent);
    let output = run(&agent, "update", &[]);
    refused(&output, "out-of-scope", 3);
    assert!(describe(&output).contains("secrets/tool.sh"));
    check_refused(&agent, "secrets/tool.sh");
    // By hand it can be merged, and then git's own merge is in the branch; it still does not land.
    agent.git(&["merge", "--quiet", "--no-edit", "--no-verify", "main"]);
    assert_eq!(codes(&agent.verify(&[])), ["scope.landing"]);
}

#[test]
fn uncommitted_work_does_not_follow_either() {
    let agent = spawned();
    agent.write("src/a/tool.sh", script("echo new"));
    move_on_target(&agent);
    assert_eq!(codes(&agent.verify(&[])), ["scope.landing"]);
}

#[test]
fn a_new_file_does_not_go_along_with_its_directory() {
    let agent = spawned();
    agent.write("src/a/new.sh", script("echo new"));
    agent.commit("one more");
    move_on_target(&agent);
    agent.repo.git(["config", "merge.directoryRenames", "true"]);
    check_refused(&agent, "secrets/new.sh");
}

#[test]
fn a_symlink_that_was_moved_does_not_lead_out() {
    let repo = TestRepo::with_commit();
    std::os::unix::fs::symlink("../lib.rs", repo.path().join("src/link")).expect("a link");
    repo.write("src/a/deep/keep", "x\n");
    std::os::unix::fs::symlink("../../lib.rs", repo.path().join("src/a/deep/link"))
        .expect("a link");
    repo.commit_all("links");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    let link = agent.worktree.join("src/a/deep/other");
    std::os::unix::fs::symlink("../../../README.md", link).expect("a link");
    agent.commit("another link");
    agent.repo.git(["mv", "src/a/deep", "src/deep"]);
    agent.repo.commit_all("one directory less");
    agent.repo.git(["config", "merge.directoryRenames", "true"]);
    // At its place in the merged tree it leads to the same text, and so out of the worktree.
    let merged = git_in(&agent.repo.path(), ["merge-tree", "--write-tree", "main", &agent.branch]);
    let listed = agent.repo.git(["ls-tree", "-r", "--name-only", merged.trim()]);
    assert!(listed.contains("src/deep/other"), "{listed}");
    assert_eq!(codes(&agent.verify(&[])), ["scope.landing"]);
}

#[test]
fn what_stays_in_scope_lands_where_the_target_moved_it() {
    let agent = spawned();
    agent.write("src/a/tool.sh", script("echo new"));
    agent.commit("the tool");
    agent.repo.git(["mv", "src/a", "src/b"]);
    agent.repo.commit_all("another name");
    answer(&agent, "merge", &[]);
    let landed = agent.repo.git(["show", "main:src/b/tool.sh"]);
    assert!(landed.ends_with("echo new"), "{landed}");
}

#[test]
fn a_train_judges_each_step_against_the_tree_below_it() {
    let agent = spawned();
    let wide = "role = \"edit-local\"\ntask = \"Move the scripts to where the others are.\"\n\
                [scope]\nwhitelist = [\"src/**\", \"lib/**\"]\n[bundle]\nrequired = false\n";
    let mover = agent.repo.spawn_task(wide, &[]);
    let mover_top = mover["worktree_abspath"].as_str().expect("a path");
    let mover_id = mover["agent_id"].as_str().expect("an id");
    let git =
        |arguments: &[&str]| git_in(mover_top.as_ref(), [&PAST_HOOKS[..], arguments].concat());
    git(&["mv", "src/a", "lib"]);
    git(&["commit", "--quiet", "-m", "moved"]);
    agent.write("src/a/tool.sh", script("echo new"));
    agent.commit("the tool");
    assert_eq!(codes(&agent.verify(&[])), Vec::<String>::new());
    for id in [mover_id, &agent.id] {
        agent.repo.agent_json(&["done", id, "--summary=the scripts"]);
    }
    let output = agent.repo.agent(&["train", mover_id, &agent.id]);
    let landed = agent.repo.git(["show", "main:lib/tool.sh"]);
    assert!(landed.ends_with("echo old"), "{landed}\n{}", describe(&output));
    assert_eq!(codes(&agent.verify(&[])), ["scope.landing"]);
}
