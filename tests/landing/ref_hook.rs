//! The repository's own hook `reference-transaction`: asked before a branch moves, and told what became of it.

use super::{answer, ready, require_sound, run};
use crate::support::agent::{agent_command, describe};
use crate::verify::{Agent, refused};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Puts a hook there that notes how it was called and, for `refs/heads/main`, ends with what the file `status` says.
fn hook(directory: &Path, log: &Path) {
    fs::create_dir_all(directory).expect("made");
    let file = directory.join("reference-transaction");
    let text = format!(
        "#!/bin/sh\nlines=$(cat)\n\
         case $lines in *refs/heads/*) ;; *) exit 0 ;; esac\n\
         case $lines in *refs/heads/agent/*) exit 0 ;; esac\n\
         printf '%s in %s with %s\\n%s\\n' \"$1\" \"$PWD\" \"$GIT_DIR\" \"$lines\" >>'{log}'\n\
         [ \"$1\" = prepared ] || exit 0\n\
         echo 'the branch is protected' >&2\n\
         exit \"$(cat '{log}.status' 2>/dev/null || echo 0)\"\n",
        log = log.display(),
    );
    fs::write(&file, text).expect("written");
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).expect("set");
}

pub fn hooked(agent: &Agent) -> PathBuf {
    let log = agent.repo.path().join(".git/ref-log");
    hook(&agent.repo.path().join(".git/hooks"), &log);
    log
}

pub fn refuse(log: &Path, is_refused: bool) {
    let status = PathBuf::from(format!("{}.status", log.display()));
    fs::write(status, if is_refused { "1" } else { "0" }).expect("written");
}

fn taken(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let _ = fs::remove_file(log);
    text
}

#[test]
fn a_landing_asks_and_tells_as_git_does() {
    let agent = ready();
    let top = agent.repo.path();
    let log = hooked(&agent);
    // What git itself tells for the same move is the oracle.
    let before = agent.repo.git(["rev-parse", "main"]);
    let commit = answer(&agent, "merge", &[])["commit"].clone();
    let told = taken(&log);
    let after = agent.repo.git(["rev-parse", "main"]);
    assert_eq!(commit.as_str(), Some(after.as_str()));
    agent.repo.git(["update-ref", "refs/heads/main", &before, &after]);
    taken(&log);
    agent.repo.git(["update-ref", "refs/heads/main", &after, &before]);
    assert_eq!(told, taken(&log));
    assert!(told.contains(&format!("prepared in {} with", top.display())), "{told}");
    require_sound(&agent);
}

#[test]
fn a_git_that_cannot_ask_the_hook_is_told_from_a_hook_that_refuses() {
    let agent = ready();
    hooked(&agent);
    let before = agent.repo.git(["rev-parse", "main"]);
    // git answers so before 2.41, which does not know the option.
    let programs = agent.repo.path().join(".git/programs");
    let path = std::env::var("PATH").expect("a path");
    let git = "#!/bin/sh\ncase \"$*\" in *'hook run'*--to-stdin*) exit 129 ;; esac\n";
    fs::create_dir(&programs).expect("made");
    fs::write(programs.join("git"), format!("{git}PATH='{path}' exec git \"$@\"\n"))
        .expect("written");
    fs::set_permissions(programs.join("git"), PermissionsExt::from_mode(0o755)).expect("set");
    let mut merge = agent_command(&agent.repo.path());
    merge.env("PATH", format!("{}:{path}", programs.display())).args(["merge", &agent.id]);
    let output = merge.output().expect("starts");
    refused(&output, "git-failed", 4);
    assert!(describe(&output).contains("too old to ask the hook reference-transaction"));
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
}

#[test]
fn a_refusal_leaves_everything_where_it_is() {
    let agent = ready();
    let log = hooked(&agent);
    refuse(&log, true);
    let before = agent.repo.git(["rev-parse", "main"]);
    for arguments in [&[][..], &["--squash"]] {
        let output = run(&agent, "merge", arguments);
        refused(&output, "hook-refused", 3);
        assert!(describe(&output).contains("the branch is protected"));
        let told = taken(&log);
        let states: Vec<_> = told.lines().filter_map(|line| line.split_once(" in ")).collect();
        // A git from 2.54 on asks once more, before it takes the locks.
        let states: Vec<_> = states
            .into_iter()
            .map(|(state, _)| state)
            .filter(|state| *state != "preparing")
            .collect();
        assert_eq!(states, ["prepared", "aborted"], "{told}");
    }
    let other = agent.repo.spawn();
    let other = other["agent_id"].as_str().expect("an id");
    agent.repo.agent_json(&["discard", other]);
    answer(&agent, "done", &["--summary=two functions"]);
    for arguments in [
        &["merge", "--all", "--format=json"][..],
        &["train", &agent.id, "--format=json"],
        &["rescue", other, "--branch", "rescued"],
    ] {
        let output = agent.repo.agent(arguments);
        assert!(!output.status.success(), "{arguments:?} {}", describe(&output));
        // Once: what the hook says is the same at a second attempt.
        let told = taken(&log);
        assert_eq!(told.matches("prepared in ").count(), 1, "{arguments:?}");
        let said = describe(&output);
        assert!(said.contains("the branch is protected"), "{arguments:?} {said}");
    }
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    assert_eq!(agent.repo.git(["for-each-ref", "refs/heads/rescued"]), "");
    refuse(&log, false);
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn hooks_are_found_where_git_finds_them_and_never_in_an_agents_worktree() {
    let agent = ready();
    let log = agent.repo.path().join(".git/ref-log");
    hook(&agent.repo.path().join("hooks-of-ours"), &log);
    // Ignored, as the directory that husky makes is.
    let exclude = agent.repo.path().join(".git/info/exclude");
    let excluded = fs::read_to_string(&exclude).unwrap_or_default();
    fs::write(&exclude, excluded + "hooks-of-ours/\n").expect("written");
    agent.repo.git(["config", "core.hooksPath", "hooks-of-ours"]);
    refuse(&log, true);
    refused(&run(&agent, "merge", &[]), "hook-refused", 3);
    assert!(taken(&log).contains("prepared in "));
    // What the agent has at the same place does not run.
    let of_agent = agent.worktree.join("hooks-of-ours");
    let other = agent.repo.path().join(".git/other-log");
    hook(&of_agent, &other);
    refused(&run(&agent, "merge", &[]), "hook-refused", 3);
    assert_eq!(taken(&other), "");
    let of_agent = of_agent.to_str().expect("UTF-8");
    agent.repo.git(["config", "core.hooksPath", of_agent]);
    let output = run(&agent, "merge", &[]);
    refused(&output, "hook-refused", 3);
    assert_eq!(taken(&other), "", "{}", describe(&output));
}

#[test]
fn a_branch_of_ones_own_is_asked_about_when_it_goes() {
    let agent = Agent::spawned_with(
        crate::support::TestRepo::with_commit(),
        crate::support::agent::TASK,
        &["--branch", "topic/mine"],
    );
    let log = hooked(&agent);
    refuse(&log, true);
    let output = run(&agent, "discard", &["--force"]);
    assert!(taken(&log).contains(" refs/heads/topic/mine\n"), "{}", describe(&output));
    assert!(agent.repo.git(["rev-parse", "topic/mine"]).len() == 40);
}

#[test]
fn a_branch_of_ones_own_is_asked_about_by_every_verb_that_moves_or_deletes_it() {
    let repo = crate::support::TestRepo::with_commit();
    let task = crate::support::agent::TASK;
    let agent = Agent::spawned_with(repo, task, &["--branch", "topic/mine"]);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    let log = hooked(&agent);
    let tip = || agent.repo.git(["rev-parse", "topic/mine"]);
    refuse(&log, true);
    let before = tip();
    refused(&run(&agent, "update", &[]), "hook-refused", 3);
    assert!(taken(&log).contains(" refs/heads/topic/mine\n"));
    assert_eq!((tip(), agent.git(&["status", "--porcelain"])), (before, String::new()));
    refuse(&log, false);
    answer(&agent, "update", &[]);
    answer(&agent, "merge", &[]);
    refuse(&log, true);
    taken(&log);
    let before = tip();
    let output = agent.repo.agent(&["gc", "--yes"]);
    let said = describe(&output);
    assert!(taken(&log).contains(" refs/heads/topic/mine\n"), "{said}");
    assert_eq!(tip(), before, "{said}");
    // Nothing that a hook protects goes with the program.
    let branches = agent.repo.git(["for-each-ref", "refs/heads"]);
    agent.repo.agent(&["uninstall", "--yes", "--ledger"]);
    assert_eq!(agent.repo.git(["for-each-ref", "refs/heads"]), branches);
    refuse(&log, false);
    agent.repo.agent_json(&["gc", "--yes"]);
    assert_eq!(agent.repo.git(["branch", "--list", "topic/mine"]), "");
}
