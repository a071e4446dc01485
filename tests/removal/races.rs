//! Removal beside others at work, behind one start barrier.

use super::{assert_kept, discarded};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in};
use crate::verify::Agent;
use serde_json::Value;
use std::process::Output;
use std::sync::Barrier;

const ROUNDS: usize = 6;

/// Runs commands of ours in the main worktree, all at once.
fn at_once(repo: &TestRepo, commands: &[&[&str]]) -> Vec<Output> {
    let barrier = Barrier::new(commands.len());
    let path = repo.path();
    std::thread::scope(|scope| {
        let started: Vec<_> = commands
            .iter()
            .map(|words| {
                let (barrier, path) = (&barrier, &path);
                scope.spawn(move || {
                    barrier.wait();
                    agent_command(path).args(*words).output().expect("starts")
                })
            })
            .collect();
        let ended = started.into_iter().map(|one| one.join().expect("ended"));
        ended.collect()
    })
}

fn state(repo: &TestRepo, id: &str) -> String {
    let shown = repo.agent_json(&["show", id]);
    assert!(shown.get("irregular").is_none(), "{shown}");
    shown["state"].as_str().expect("a state").to_owned()
}

#[test]
fn of_a_merge_and_a_discard_of_one_agent_one_wins_and_nothing_is_lost() {
    for _ in 0..ROUNDS {
        let agent = Agent::new();
        agent.write("src/one.rs", "committed\n");
        agent.commit("one");
        agent.write("src/two.rs", "not committed\n");
        agent.verify(&[]);
        let commands: [&[&str]; 2] = [&["merge", &agent.id], &["discard", &agent.id]];
        let ended = at_once(&agent.repo, &commands);
        for output in &ended {
            let status = output.status.code().unwrap_or(-1);
            assert!([0, 3, 5].contains(&status), "{}", describe(output));
        }
        let winner = state(&agent.repo, &agent.id);
        let landed = ended[0].status.success();
        assert_eq!(winner == "merged", landed, "{}", describe(&ended[0]));
        assert!(landed || ended[1].status.success(), "nobody won");
        let main = agent.repo.git(["ls-tree", "--name-only", "main:src"]);
        assert_eq!(main.contains("two.rs"), landed, "{main}");
        assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
        discarded(&agent, &[]);
        super::assert_gone(&agent, &winner);
        if landed {
            assert_eq!(agent.repo.git(["show", "main:src/two.rs"]), "not committed")
        } else {
            assert_kept(&agent.repo, &["committed\n", "not committed\n"], &winner)
        }
    }
}

#[test]
fn a_spawn_beside_a_discard_of_another_agent_succeeds() {
    for _ in 0..ROUNDS {
        let agent = Agent::new();
        agent.write("src/two.rs", "not committed\n");
        let task = agent.repo.task_file(TASK);
        // The directory of all worktrees becomes empty while one is made in it.
        let commands: [&[&str]; 3] =
            [&["spawn", &task, "--format=json"], &["discard", &agent.id], &["doctor", "--fix"]];
        let ended = at_once(&agent.repo, &commands);
        for output in &ended[..2] {
            assert!(output.status.success(), "{}", describe(output));
        }
        let made: Value = serde_json::from_slice(&ended[0].stdout).expect("JSON");
        let worktree = made["worktree_abspath"].as_str().expect("a worktree");
        assert_eq!(git_in(worktree.as_ref(), ["status", "--porcelain"]), "");
        assert_eq!(state(&agent.repo, &agent.id), "discarded");
        assert!(!agent.worktree.exists());
        assert_kept(&agent.repo, &["not committed\n"], "discarded");
        let worktrees = agent.repo.git(["worktree", "list", "--porcelain"]);
        assert_eq!(worktrees.matches("worktree ").count(), 2, "{worktrees}");
        let examined = agent.repo.agent(&["doctor"]);
        assert!(examined.status.success(), "{}", describe(&examined));
    }
}

#[test]
fn a_worktree_that_goes_away_while_a_commit_reads_it_is_not_committed_as_deleted() {
    let agent = Agent::new();
    agent.write("src/two.rs", "not committed\n");
    let before = agent.repo.git(["rev-parse", &agent.branch]);
    // The user's filter does what a discard would: git starts it while it reads the files.
    let away = agent.worktree.with_extension("away");
    let clean = format!("mv {} {}; cat", agent.worktree.display(), away.display());
    agent.repo.git(["config", "filter.gone.clean", &clean]);
    let attributes = agent.repo.path().join(".git/info/attributes");
    std::fs::write(attributes, "two.rs filter=gone\n").expect("write");
    let output = agent.repo.agent(&["commit", &agent.id, "-m", "all"]);
    assert_eq!(output.status.code(), Some(5), "{}", describe(&output));
    assert!(away.exists() && !agent.worktree.exists());
    assert_eq!(agent.repo.git(["rev-parse", &agent.branch]), before);
}
