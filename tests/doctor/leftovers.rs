//! What killed processes of ours leave: the worktree of a verify, the lock of a landing.

use super::{assert_sound, comes_to, examine, problems};
use crate::landing::{ready, stops};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command};
use crate::verify::Agent;
use git_agent::store::files::{layout, lock};
use std::path::PathBuf;
use std::process::Stdio;

const CODE: &str = "verify.left-over";

/// A verify that is killed during its check command, and the worktree that is left.
fn killed_verify() -> (Agent, PathBuf) {
    let checks = "[checks]\ncommands = [\"echo built > built; sleep 1000\"]\n";
    let agent = Agent::of_task(&format!("{TASK}{checks}"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    let left = format!("verify-{}", &agent.id[..8]);
    let left = agent.worktree.with_file_name(left);
    let mut verify = agent_command(&agent.repo.path())
        .args(["verify", &agent.id])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    while !left.join("built").exists() {
        assert_eq!(verify.try_wait().expect("a child"), None, "it has begun");
        crate::support::pause();
    }
    verify.kill().expect("killed");
    verify.wait().expect("ended");
    (agent, left)
}

fn admin_dir(agent: &Agent) -> PathBuf {
    let name = format!(".git/worktrees/verify-{}", &agent.id[..8]);
    agent.repo.path().join(name)
}

#[test]
fn the_worktree_of_a_killed_verify_is_removed() {
    for without_admin_dir in [false, true] {
        let (agent, left) = killed_verify();
        if without_admin_dir {
            std::fs::remove_dir_all(admin_dir(&agent)).expect("removed");
        }
        let (status, report) = examine(&agent.repo, &[]);
        assert_eq!((status, problems(&report)), (1, vec![CODE.to_owned()]));
        assert!(left.join("built").exists(), "looking removes nothing");
        let (status, report) = examine(&agent.repo, &["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
        assert!(!left.exists());
        let listed = agent.repo.git(["worktree", "list"]);
        assert_eq!(listed.lines().count(), 2, "{listed}");
        assert!(agent.worktree.join("src/two.rs").exists());
        assert_sound(&agent.repo, CODE);
    }
}

#[test]
fn a_verify_at_work_is_not_disturbed() {
    let (agent, left) = killed_verify();
    let name = layout::verify_lock(&agent.id[..8]);
    let held = lock::hold(&agent.repo.path().join(".git"), &name);
    let (status, report) = examine(&agent.repo, &["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    assert!(left.join("built").exists());
    drop(held);
    assert_eq!(examine(&agent.repo, &[]).0, 1);
}

#[test]
fn somebody_elses_commits_in_what_a_verify_left_stay() {
    let (agent, left) = killed_verify();
    crate::support::git_in(&left, ["add", "built"]);
    crate::support::git_in(&left, ["commit", "--quiet", "-m", "mine"]);
    let (status, report) = examine(&agent.repo, &["--fix"]);
    assert_eq!((status, problems(&report)), (1, vec![CODE.to_owned()]));
    assert!(left.join("built").exists());
}

#[test]
fn a_worktree_that_only_bears_such_a_name_is_nobodys_business() {
    let repo = TestRepo::with_commit();
    let theirs = ".claude/worktrees/verify-0123abcd";
    repo.git(["worktree", "add", "--quiet", "--detach", theirs]);
    let (status, report) = examine(&repo, &["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    assert!(repo.path().join(theirs).exists());
}

fn lock_file(agent: &Agent) -> PathBuf {
    agent.repo.path().join(".git/refs/heads/main.lock")
}

#[test]
fn the_ref_lock_of_a_killed_landing_is_cleared_however_young() {
    let agent = ready();
    agent.verify(&[]);
    stops::die_at(&agent, "moved", "--no-ff");
    assert!(lock_file(&agent).exists());
    comes_to(&agent.repo, &[], 1, &["locks.stale", "landing.interrupted"].map(str::to_owned));
    comes_to(&agent.repo, &["--fix"], 0, &[]);
    assert!(!lock_file(&agent).exists());
    agent.repo.git(["branch", "--force", "elsewhere", "main"]);
    let answer = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(answer["outcome"], "merged");
}

#[test]
fn a_ref_lock_that_came_after_a_killed_landing_is_left_to_its_owner() {
    let agent = ready();
    agent.verify(&[]);
    stops::die_at(&agent, "moved", "--no-ff");
    let other = lock_file(&agent).with_file_name("other");
    std::fs::write(&other, "").expect("write");
    std::fs::rename(&other, lock_file(&agent)).expect("renamed");
    comes_to(&agent.repo, &["--fix"], 1, &["locks.stale".to_owned()]);
    assert!(lock_file(&agent).exists(), "its owner may be about to use it");
}

#[test]
fn a_worktree_that_a_killed_rescue_had_begun_is_named_at_once_and_removed() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let short = &agent["agent_id"].as_str().expect("an id")[..8];
    // A process that has ended.
    let mut gone = std::process::Command::new("true").spawn().expect("starts");
    let pid = gone.id();
    gone.wait().expect("ended");
    let places = repo.path().join(".claude/worktrees");
    let left = places.join(format!("agent-{short}.{pid}-0.tmp"));
    let alive = places.join(format!("agent-{short}.{}-0.tmp", std::process::id()));
    let other = places.join(format!("mine.{pid}-0.tmp"));
    for directory in [&left, &alive, &other] {
        std::fs::create_dir(directory).expect("made");
        std::fs::write(directory.join("file"), "x").expect("written");
    }
    let (status, report) = examine(&repo, &[]);
    let debris = vec!["debris.old".to_owned()];
    assert_eq!((status, problems(&report)), (1, debris), "{report:#}");
    repo.agent_json(&["gc", "--yes"]);
    assert!(!left.exists() && alive.exists() && other.exists());
    let (status, report) = examine(&repo, &[]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
}
