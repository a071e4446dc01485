//! Ahead and behind of many agents in one pass, held against git.

use crate::support::TestRepo;
use crate::support::agent::TASK;
use crate::support::git_in;
use git_agent::domain::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::objects::{Identity, NewCommit};
use serde_json::Value;
use std::path::Path;

/// Numbers that look drawn at random and are the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.0 >> 33).expect("31 bits") % limit
    }
}

/// Commits in which lines of work begin, go on and are merged, the last one as `tangle`.
fn tangle(repo: &Repo, commits: usize) -> Vec<Oid> {
    let mut draw = Draw(20);
    let mut made: Vec<Oid> = Vec::new();
    for number in 0..commits {
        let who = Identity {
            name: "test".into(),
            email: "test@example.com".into(),
            // Several in one second.
            seconds: 1_700_000_000 + i64::try_from(number / 3).expect("few"),
            offset_minutes: 0,
        };
        let recent = number.min(9);
        let mut parents = Vec::new();
        for _ in 0..1 + draw.below(2) {
            if recent > 0 {
                parents.push(made[number - 1 - draw.below(recent)]);
            }
        }
        parents.dedup();
        let commit = repo.write_commit(&NewCommit {
            tree: Oid::EMPTY_TREE,
            parents: &parents,
            author: &who,
            committer: &who,
            header: None,
            message: &format!("{number}\n"),
        });
        made.push(commit.expect("written"));
    }
    made
}

#[test]
fn one_pass_counts_what_git_counts_from_each_start() {
    let test = TestRepo::with_commit();
    let repo = Repo::open(&test.path()).expect("a repository");
    let commits = tangle(&repo, 90);
    let branch = commits[88];
    // So many that their bits take more than one word.
    let starts: Vec<Oid> = commits[5..].to_vec();
    let expected: Vec<usize> = starts
        .iter()
        .map(|start| {
            let range = format!("{start}..{branch}");
            let count = test.git(["rev-list", "--count", &range]);
            count.parse().expect("a number")
        })
        .collect();
    assert!(expected.contains(&0) && expected.iter().any(|count| *count > 30));
    test.git(["update-ref", "refs/heads/tangle", &commits[60].to_hex()]);
    let absent = Oid::from_slice(&[7; 20]).expect("20 bytes");
    for prepare in [
        &["version"][..],
        // The graph has some of the commits, then all.
        &["commit-graph", "write", "--reachable"],
        &["update-ref", "refs/heads/tangle", &branch.to_hex()],
        &["commit-graph", "write", "--reachable"],
        &["config", "core.commitGraph", "false"],
    ] {
        test.git(prepare);
        let repo = Repo::open(&test.path()).expect("a repository");
        let asked = [&starts[..], &[absent]].concat();
        let gained = repo.gained(branch, &asked).expect("read").expect("whole");
        let counts: Vec<_> = starts.iter().map(|start| gained.since(*start)).collect();
        let all: Vec<_> = expected.iter().copied().map(Some).collect();
        assert_eq!(counts, all, "{prepare:?}");
        assert_eq!(gained.since(absent), None);
        assert!(gained.holds(branch) && !gained.holds(commits[89]));
    }
}

/// Every agent's counts, as `git rev-list --left-right --count` writes them, and as git counts them.
fn require_as_git_counts(test: &TestRepo) {
    let listed = test.agent_json(&["list"]);
    let rows = listed["agents"].as_array().expect("rows");
    assert_eq!(rows.len(), 4);
    for row in rows {
        let range = format!("main...{}", row["branch"].as_str().expect("a branch"));
        let counts = test.git(["rev-list", "--left-right", "--count", &range]);
        let listed = format!("{}\t{}", row["behind"], row["ahead"]);
        assert_eq!(listed, counts, "{}", row["name"]);
    }
}

#[test]
fn agents_of_many_ages_are_as_far_apart_as_git_says() {
    let test = TestRepo::with_commit();
    let mut agents: Vec<Value> = Vec::new();
    for name in ["idle", "merged", "rebased", "landed"] {
        agents.push(test.spawn_task(TASK, &["--name", name]));
        test.write("moves.md", name);
        test.commit_all("main moves on");
    }
    let worktree = |index: usize| agents[index]["worktree_abspath"].as_str().expect("a path");
    let past = ["-c", "core.hooksPath=/dev/null"];
    let git = |index: usize, arguments: &[&str]| {
        git_in(Path::new(worktree(index)), [&past[..], arguments].concat())
    };
    let commit = ["commit", "--quiet", "--allow-empty", "--message=work"];
    for index in 1..4 {
        git(index, &commit);
    }
    require_as_git_counts(&test);
    git(1, &["merge", "--quiet", "--message=update", "main"]);
    git(2, &["rebase", "--quiet", "main"]);
    let landed = agents[3]["branch"].as_str().expect("a branch").to_owned();
    test.git(["merge", "--quiet", "--message=by hand", &landed]);
    git(3, &commit);
    test.write("moves.md", "again");
    test.commit_all("main moves on");
    require_as_git_counts(&test);
    test.git(["commit-graph", "write", "--reachable"]);
    require_as_git_counts(&test);
}
