use super::{Patient, assert_sound, examine, files, heals, problems, strings};
use crate::kill::die_at;
use crate::support::agent::{SHARED_TASK, TASK, agent_command};
use crate::support::{TestRepo, git_in, temporary_of};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Env;
use git_agent::agents::context::ctx::Seams;
use git_agent::git::Repo;
use git_agent::ops::doctor;
use git_agent::ops::spawn::STEPS;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Barrier};

/// A repository in which a spawn died, without its journal.
fn dead_without_journal(step: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    die_at(&repo, step, TASK);
    std::fs::remove_dir_all(repo.path().join(".git/agents/spawning")).expect("a journal");
    repo
}

fn states(repo: &TestRepo) -> Vec<String> {
    let list = repo.agent_json(&["list", "--all"]);
    let rows = list["agents"].as_array().expect("rows").iter();
    rows.map(|row| row["state"].as_str().expect("a state").to_owned()).collect()
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).map_or(0, Iterator::count)
}

#[test]
fn whatever_a_kill_leaves_is_finished_or_taken_apart() {
    let shared = ["journal", "spawning", "files", "spawned"];
    let cases = STEPS.iter().map(|step| (*step, TASK));
    for (step, task) in cases.chain(shared.map(|step| (step, SHARED_TASK))) {
        let repo = TestRepo::with_commit();
        die_at(&repo, step, task);
        let (status, report) = examine(&repo, &[]);
        assert_eq!(status, 1, "{step}: {report:#}");
        assert!(problems(&report).contains(&"spawns.abandoned".to_owned()), "{step}: {report:#}");
        for fixed in [1, 0] {
            let (status, report) = examine(&repo, &["--fix"]);
            assert_eq!(status, 0, "{step}: {report:#}");
            let count = report["fixed"].as_array().expect("a list").len();
            assert_eq!(count.min(1), fixed, "{step}: {report:#}");
        }
        let finished = step == "spawned";
        let isolated = usize::from(finished && task == TASK);
        let branches = repo.git(["for-each-ref", "refs/heads/agent"]);
        assert_eq!(branches.lines().count(), isolated, "{step}");
        assert_eq!(entries(&repo.path().join(".git/worktrees")), isolated, "{step}");
        assert_eq!(entries(&repo.path().join(".claude/worktrees")), isolated, "{step}");
        assert_eq!(entries(&repo.path().join(".git/agents/spawning")), 0, "{step}");
        for state in states(&repo) {
            let expected = if finished { "ready" } else { "discarded" };
            assert_eq!(state, expected, "{step}");
        }
        assert_sound(&repo, step);
    }
}

#[test]
fn without_its_journal_only_what_is_empty_is_taken_apart() {
    for step in ["spawning", "metadata"] {
        let repo = dead_without_journal(step);
        assert_eq!(examine(&repo, &[]).0, 1, "{step}");
        let (status, report) = examine(&repo, &["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{step}: {report:#}");
        assert_eq!(states(&repo), ["discarded"], "{step}");
        assert_eq!(entries(&repo.path().join(".git/worktrees")), 0, "{step}");
        assert_sound(&repo, step);
    }
    let populated = ["spawns.unfinished", "spawns.lock-unfinished"];
    for (step, expected) in [
        ("branch", &["branches.no-row"][..]),
        ("populated", &populated),
        ("files", &populated),
        ("locked", &["spawns.unfinished"]),
    ] {
        let repo = dead_without_journal(step);
        let before = files(&repo.path().join(".claude"));
        for arguments in [&[][..], &["--fix"]] {
            let (status, report) = examine(&repo, arguments);
            assert_eq!((status, problems(&report)), (1, strings(expected)), "{step}: {report:#}");
        }
        assert_eq!(files(&repo.path().join(".claude")), before, "{step}");
    }
}

#[test]
fn a_row_that_another_clone_began_is_its_own_business() {
    let repo = dead_without_journal("spawning");
    let number = repo.path().join(".git/agents/clone-id");
    let text = std::fs::read_to_string(&number).expect("a number");
    let other = if text.starts_with('0') { "1234\n" } else { "0123\n" };
    std::fs::write(&number, other).expect("write");
    let (status, report) = examine(&repo, &["--fix"]);
    assert_eq!(status, 0, "{report:#}");
    assert_eq!(states(&repo), ["spawning"]);
}

#[test]
fn the_lock_of_a_worktree_that_is_ready_says_so() {
    let locked = |patient: &Patient, process: &str| {
        let reason = format!("initializing (git-agent {}, {process})\n", patient.short());
        std::fs::write(patient.admin().join("locked"), reason).expect("write");
    };
    heals(&["spawns.lock-unfinished"], |patient| {
        locked(patient, "pid 1, boot of-yesterday");
    });
    let patient = Patient::new();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let alive = format!("pid {}, boot {}", std::process::id(), boot.trim());
    locked(&patient, &alive);
    assert_eq!(patient.doctor(&["--fix"]).0, 0);
    let left = std::fs::read_to_string(patient.admin().join("locked")).expect("a lock");
    assert!(left.contains(&alive), "{left}");
}

#[test]
fn old_debris_is_swept_and_young_debris_is_not() {
    let patient = Patient::new();
    let agents = patient.git_dir().join("agents");
    for name in ["trash/agent-0.1-0.tmp/src", "tmp/agent-1"] {
        std::fs::create_dir_all(agents.join(name)).expect("directories");
    }
    std::fs::write(agents.join("tmp/probe-1"), "").expect("write");
    // A worktree that was being restored, and two files: one half written, one of somebody else.
    let (living, short) = (std::process::id(), patient.short());
    let restored = format!("agent-{short}.{living}-0.tmp");
    let restored = patient.top.with_file_name(restored);
    std::fs::create_dir_all(restored.join("src")).expect("directories");
    let half_written = agents.join(short).join(format!("task.toml.{living}-1.tmp"));
    let theirs = half_written.with_file_name("notes.tmp");
    for file in [&half_written, &theirs] {
        std::fs::write(file, "").expect("write");
    }
    assert_eq!(patient.doctor(&["--fix"]).0, 0);
    assert!(restored.exists() && half_written.exists());
    assert_eq!(entries(&agents.join("tmp")), 2);

    let real = Seams::real();
    let clock = real.clock.clone();
    let seams = Seams {
        clock: Arc::new(move || clock() + std::time::Duration::from_secs(2 * 60 * 60)),
        ..real
    };
    let env = Env {
        directory: patient.repo.path(),
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_git-agent"))),
        temporary: temporary_of(&patient.repo.path()),
        ..Env::default()
    };
    let repo = Repo::open(&patient.repo.path()).expect("a repository");
    let report = doctor::doctor(&Ctx::new(repo, env, seams), true, &[]).expect("examined");
    let codes: Vec<_> = report.fixed.iter().map(|one| one.code).collect();
    assert_eq!(codes, ["debris.old"; 4]);
    assert!(!restored.exists() && !half_written.exists() && theirs.exists());
    assert_eq!((entries(&agents.join("tmp")), entries(&agents.join("trash"))), (0, 0));
}

#[test]
fn spawns_that_are_under_way_are_not_disturbed() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let (spawns, doctors) = (4, 2);
    let barrier = Barrier::new(spawns + doctors);
    std::thread::scope(|scope| {
        for _ in 0..spawns {
            scope.spawn(|| {
                let mut command = agent_command(&repo.path());
                command.args(["spawn", &task]);
                barrier.wait();
                assert!(command.output().expect("starts").status.success());
            });
        }
        for _ in 0..doctors {
            scope.spawn(|| {
                barrier.wait();
                for _ in 0..5 {
                    let mut command = agent_command(&repo.path());
                    let output = command.args(["doctor", "--fix"]).output().expect("starts");
                    let text = String::from_utf8_lossy(&output.stdout).into_owned();
                    assert!(output.status.success() && !text.contains("fixed["), "{text}");
                }
            });
        }
    });
    assert_eq!(states(&repo), ["ready"; 4]);
    let worktrees = std::fs::read_dir(repo.path().join(".claude/worktrees")).expect("worktrees");
    for worktree in worktrees {
        let worktree = worktree.expect("readable").path();
        assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
    }
    assert_eq!(examine(&repo, &[]).0, 0);
}
