use super::{answer, run};
use crate::support::agent::{TASK, describe};
use crate::support::death::{self, Order, steps_of};
use crate::support::git_output;
use crate::verify::{Agent, refused};
use git_agent::ops::update::{self, STEPS};
use std::process::Command;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        update_with(&death::ctx(&order.directory, order.dying()), &order.words[0]);
    }
}

fn update_with(ctx: &git_agent::agents::context::ctx::Ctx, agent: &str) {
    let plan = update::plan(ctx, agent, update::UpdateOptions::default()).expect("a plan");
    update::execute(ctx, &plan).expect("updated");
}

/// The error that a command gives to programs.
fn error_of(agent: &Agent, arguments: &[&str]) -> serde_json::Value {
    let arguments = [arguments, &["--format=json"]].concat();
    let output = run(agent, "update", &arguments);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    serde_json::from_slice::<serde_json::Value>(&output.stderr).expect("JSON")["error"].take()
}

#[test]
fn the_branch_gains_what_the_target_gained_and_is_judged_against_it() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "two"]);
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    agent.repo.write("README.md", "new\n");
    agent.repo.commit_all("main moves on");
    let head = agent.repo.git(["rev-parse", "main"]);
    let tip = agent.git(&["rev-parse", "HEAD"]);

    let planned = answer(&agent, "update", &["--dry-run"]);
    assert_eq!(planned["outcome"], "planned");
    assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip);

    let report = answer(&agent, "update", &[]);
    assert_eq!(report["outcome"], "updated");
    assert_eq!(report["target"]["oid"], head.as_str());
    assert_eq!(report["tip"], tip.as_str());
    assert_eq!(report["commit"], agent.git(&["rev-parse", "HEAD"]));
    assert_eq!(agent.git(&["log", "-1", "--format=%P"]), format!("{tip} {head}"));
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    assert_eq!(agent.git(&["show", "HEAD:README.md"]), "new");
    // The earlier verdict is gone, and the next one is against the target as it is now.
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["state"], "idle", "{shown}");
    assert_eq!(shown.get("verdict"), None, "{shown}");
    assert_eq!(shown["behind"], 0);
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    assert_eq!(verdict["merge"]["state"], "fast-forward");
    assert_eq!(answer(&agent, "update", &[])["outcome"], "up-to-date");
}

#[test]
fn finished_work_stays_finished_when_it_is_updated() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "two"]);
    agent.repo.agent_json(&["mark", "done", &agent.id, "--summary", "two"]);
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    agent.repo.write("README.md", "new\n");
    agent.repo.commit_all("main moves on");
    answer(&agent, "update", &[]);
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!((&shown["state"], shown.get("verdict")), (&"done".into(), None), "{shown}");
    let landed = agent.repo.agent_json(&["merge", "--all"]);
    assert_eq!(landed["items"][0]["outcome"], "merged", "{landed:#}");
}

#[test]
fn a_conflict_names_the_paths_and_changes_nothing() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn mine() {}\n");
    answer(&agent, "commit", &["-m", "mine"]);
    agent.repo.write("src/lib.rs", "pub fn theirs() {}\n");
    agent.repo.commit_all("theirs");
    let before = (agent.git(&["rev-parse", "HEAD"]), agent.repo.agent_json(&["log", &agent.id]));
    let error = error_of(&agent, &[]);
    assert_eq!(error["code"], "update-conflicts");
    assert_eq!(error["conflicts"], serde_json::json!(["src/lib.rs"]));
    let after = (agent.git(&["rev-parse", "HEAD"]), agent.repo.agent_json(&["log", &agent.id]));
    assert_eq!(before, after);
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
}

#[test]
fn uncommitted_work_is_refused_and_named() {
    let agent = Agent::new();
    agent.repo.write("README.md", "new\n");
    agent.repo.commit_all("main moves on");
    agent.write("src/two.rs", "pub fn two() {}\n");
    let error = error_of(&agent, &[]);
    assert_eq!(error["code"], "worktree-dirty");
    assert_eq!(error["paths"], serde_json::json!(["src/two.rs"]));
    refused(&run(&agent, "update", &[]), "worktree-dirty", 3);
    // What is staged hides no more than it names.
    agent.write("src/three.rs", "pub fn three() {}\n");
    agent.git(&["add", "src/three.rs"]);
    let both = serde_json::json!(["src/three.rs", "src/two.rs"]);
    assert_eq!(error_of(&agent, &[])["paths"], both);
}

#[test]
fn what_set_up_left_in_the_way_is_given_up_by_the_commands_that_are_named() {
    let setup = "[setup]\nrun = [\"echo setup >> README.md && echo setup > made.txt\"]\n";
    let agent = Agent::of_task(&format!("{TASK}{setup}"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "two"]);
    agent.repo.write("README.md", "new\n");
    agent.repo.write("made.txt", "of the target\n");
    agent.repo.commit_all("main moves on");
    let before = agent.git(&["status", "--porcelain"]);
    for arguments in [&["--dry-run"][..], &[]] {
        let error = error_of(&agent, arguments);
        assert_eq!(error["code"], "target-dirty", "{error}");
        assert_eq!(agent.git(&["status", "--porcelain"]), before);
        let hints = error["hints"].as_array().expect("hints");
        let hint = hints.iter().filter_map(|hint| hint.as_str()).find(|it| it.contains("set-up"));
        let (_, command) = hint.expect("named").split_once(", run ").expect("a command");
        if arguments.is_empty() {
            let status = Command::new("sh").args(["-c", command]).status().expect("starts");
            assert!(status.success(), "{command}");
        }
    }
    assert_eq!(answer(&agent, "update", &[])["outcome"], "updated");
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
}

#[test]
fn a_kill_at_any_step_loses_nothing_and_the_next_one_completes_it() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "two"]);
    agent.repo.write("README.md", "new\n");
    agent.repo.write("docs/new.md", "new\n");
    agent.repo.git(["rm", "--quiet", "src/bin/tool.rs"]);
    agent.repo.commit_all("main moves on");
    let tip = agent.git(&["rev-parse", "HEAD"]);
    // A newer git maintains in the background, and what is saved would have its lock file in it.
    agent.repo.git(["config", "maintenance.auto", "false"]);
    let mut saved = agent.repo.save();
    for step in STEPS {
        let child = "landing::update::child";
        death::die_at(child, &agent.repo.path(), step, &[&agent.id]);
        assert_eq!(agent.repo.fsck(), "", "{step}");
        let report = answer(&agent, "update", &[]);
        let is_over = ["moved", "recorded"].contains(&step);
        let expected = if is_over { "up-to-date" } else { "updated" };
        assert_eq!(report["outcome"], expected, "{step}");
        let parents = agent.git(&["log", "-1", "--format=%P"]);
        let main = agent.repo.git(["rev-parse", "main"]);
        assert_eq!(parents, format!("{tip} {main}"), "{step}");
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "{step}");
        assert_eq!(agent.git(&["show", "HEAD:src/two.rs"]), "pub fn two() {}");
        assert_eq!(agent.verify(&[])["verdict"], "accept", "{step}");
        saved.restore();
    }
    let steps = steps_of(|reached| {
        update_with(&death::ctx(&agent.repo.path(), reached), &agent.id);
    });
    assert_eq!(steps, STEPS);
}

/// Each lock that another process can hold: the update waits for it or refuses, changes nothing then, and works once it is free.
#[test]
fn a_lock_of_another_process_costs_time_and_nothing_else() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "two"]);
    let git_dir = agent.repo.path().join(".git");
    let admin = git_dir.join(format!("worktrees/agent-{}", &agent.id[..8]));
    let of_branch = git_dir.join(format!("refs/heads/{}.lock", agent.branch));
    // How long git waits for the lock of a ref.
    agent.repo.git(["config", "core.filesRefLockTimeout", "200"]);
    for lock in [
        admin.join("index.lock"),
        of_branch,
        git_dir.join("packed-refs.lock"),
        admin.join("HEAD.lock"),
    ] {
        let shown = lock.display();
        agent.repo.write("README.md", format!("{shown}\n"));
        agent.repo.commit_all("main moves on");
        let before = agent.git(&["rev-parse", "HEAD"]);
        std::fs::write(&lock, "").expect("locked");
        let output = run(&agent, "update", &["--format=json"]);
        let said = describe(&output);
        assert!(lock.exists(), "{shown} was cleared: {said}");
        std::fs::remove_file(&lock).expect("removed");
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "{shown}");
        // Neither of these is needed for a branch that is a file of its own.
        let is_needed =
            !shown.to_string().ends_with("packed-refs.lock") && !lock.ends_with("HEAD.lock");
        if is_needed {
            assert_eq!(output.status.code(), Some(5), "{said}");
            assert!(said.contains("lock-timeout") && said.contains(&*shown.to_string()), "{said}");
            assert_eq!(agent.git(&["rev-parse", "HEAD"]), before, "{shown}");
        } else {
            assert!(output.status.success(), "{said}");
        }
        answer(&agent, "update", &[]);
        assert_eq!(agent.repo.agent_json(&["show", &agent.id])["behind"], 0);
        assert_eq!(agent.git(&["show", "HEAD:src/two.rs"]), "pub fn two() {}");
    }
    // The agent's own: a run has it, or another command of ours.
    agent.repo.write("README.md", "once more\n");
    agent.repo.commit_all("main moves on");
    let lock = git_dir.join(format!("agents/{}/live.lock", &agent.id[..8]));
    let held = std::fs::File::open(&lock).expect("there");
    held.lock().expect("locked");
    assert_eq!(error_of(&agent, &[])["code"], "agent-busy");
    drop(held);
    answer(&agent, "update", &[]);
}

#[test]
fn what_has_landed_lands_no_empty_merge_after_an_update() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "two"]);
    answer(&agent, "merge", &["--no-ff"]);
    agent.repo.write("README.md", "new\n");
    agent.repo.commit_all("main moves on");
    assert_eq!(answer(&agent, "update", &[])["outcome"], "updated");
    assert_eq!(agent.verify(&[])["merge"]["state"], "merged");
    let listed = agent.repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["ahead"], 0, "{listed}");
    let main = agent.repo.git(["rev-parse", "main"]);
    assert_eq!(answer(&agent, "merge", &[])["outcome"], "already-merged");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    // What comes then is work.
    agent.write("src/three.rs", "pub fn three() {}\n");
    answer(&agent, "commit", &["-m", "three"]);
    answer(&agent, "merge", &[]);
    assert_eq!(agent.repo.git(["diff", "--stat", "--name-only", &main, "main"]), "src/three.rs");
}

#[test]
fn a_branch_that_was_renamed_is_merged_by_hand() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn theirs() {}\n");
    answer(&agent, "commit", &["-m", "theirs"]);
    agent.repo.write("src/lib.rs", "pub fn ours() {}\n");
    agent.repo.commit_all("ours");
    agent.repo.git(["branch", "--move", "main", "trunk"]);
    let output = run(&agent, "update", &[]);
    refused(&output, "branch-gone", 4);
    let hint = format!("git agent enter {} -- git merge <branch>", &agent.id[..8]);
    assert!(describe(&output).contains(&hint), "{}", describe(&output));
    // As in the shell that this opens.
    assert!(!git_output(&agent.worktree, ["merge", "trunk"]).status.success(), "it conflicts");
    agent.write("src/lib.rs", "pub fn both() {}\n");
    agent.git(&["commit", "--quiet", "--all", "--no-edit"]);
    answer(&agent, "merge", &["--into", "trunk"]);
    assert_eq!(agent.repo.git(["show", "trunk:src/lib.rs"]), "pub fn both() {}");
}
