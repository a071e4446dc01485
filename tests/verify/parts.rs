//! `verify --ci` of what forges make of agents' branches, and of what only looks like it.

use super::Agent;
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::{Value, json};

const TASK: &str = "role = \"edit-local\"\ntask = \"Add a second function to the library and test it.\"\n\
                    [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n";

/// `verify --ci` against main; gives the status and the answer.
fn ci(repo: &TestRepo, arguments: &[&str]) -> (i32, Value) {
    let mut command = agent_command(&repo.path());
    command.args(["verify", "--ci", "--base=main", "--format=json"]);
    let output = command.args(arguments).output().expect("starts");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", describe(&output)));
    (output.status.code().expect("a status"), answer)
}

/// An agent whose branch has two commits in scope.
fn agent_in(repo: TestRepo, file: &str) -> Agent {
    let agent = Agent::spawned_in(repo, TASK);
    for content in ["one\n", "one\ntwo\n"] {
        agent.write(file, content);
        agent.commit(content);
    }
    agent
}

/// Two agents of one repository, whose work meets nowhere; the first one has the repository.
fn two_agents() -> (Agent, String) {
    let first = agent_in(TestRepo::with_commit(), "src/first.rs");
    let repo = &first.repo;
    let spawned = repo.spawn_task(TASK, &[]);
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{place}/src/second.rs"), "two\n").expect("written");
    let place = std::path::Path::new(place);
    crate::support::git_in(place, ["add", "--all"]);
    crate::support::git_in(place, ["commit", "--quiet", "-m", "second"]);
    (first, spawned["branch"].as_str().expect("a branch").to_owned())
}

fn tree(repo: &TestRepo, revision: &str) -> String {
    repo.git(["rev-parse", &format!("{revision}^{{tree}}")])
}

/// A commit with that tree on these parents.
fn commit(repo: &TestRepo, tree: &str, parents: &[&str], message: &str) -> String {
    let mut words = vec!["commit-tree", tree, "-m", message];
    parents.iter().for_each(|parent| words.extend(["-p", parent]));
    repo.git(words)
}

/// Git's own merge of a branch into a commit, as a forge makes it.
fn merge(repo: &TestRepo, into: &str, branch: &str) -> String {
    let merged = repo.git(["merge-tree", "--write-tree", into, branch]);
    commit(repo, &merged, &[into, branch], &format!("Merge {branch}"))
}

/// A commit of a person with a file, on top of another commit.
fn person(repo: &TestRepo, on: &str, file: &str, message: &str) -> String {
    repo.git(["switch", "--quiet", "--detach", on]);
    repo.write(file, "text\n");
    repo.git(["add", "--all"]);
    repo.git(["commit", "--quiet", "-m", message]);
    let made = repo.git(["rev-parse", "HEAD"]);
    repo.git(["switch", "--quiet", "main"]);
    made
}

fn verdicts(answer: &Value) -> Vec<Value> {
    let parts = answer["parts"].as_array().expect("parts");
    parts.iter().map(|part| part["verdict"].clone()).collect()
}

fn has(answer: &Value, code: &str) -> bool {
    super::codes(answer).iter().any(|one| one == code)
}

#[test]
fn a_group_of_a_merge_queue_is_judged_part_by_part() {
    let (first, second) = two_agents();
    let repo = &first.repo;
    let one = merge(repo, "main", &first.branch);
    let both = merge(repo, &one, &second);
    let (status, answer) = ci(repo, &["--tip", &both, "--branch=gh-readonly-queue/main/pr-2"]);
    assert_eq!(status, 0, "{answer:#}");
    assert_eq!(answer["schema"], "git-agent.verify-parts/1");
    assert_eq!(answer["verdict"], "accept");
    assert_eq!(answer["parts"][0]["agent_id"], first.id.as_str());
    assert_eq!(answer["parts"][1]["subject"], format!("Merge {second}"));
    assert_eq!(verdicts(&answer), ["accept", "accept"]);
    // A person's branch in the same group is named, and nothing is called accepted.
    let theirs = person(repo, "main", "notes.txt", "notes");
    let mixed = merge(repo, &both, &theirs);
    let (status, answer) = ci(repo, &["--tip", &mixed]);
    assert_eq!(status, 2, "{answer:#}");
    assert_eq!(answer["verdict"], Value::Null);
    assert_eq!(verdicts(&answer), [json!("accept"), json!("accept"), Value::Null]);
    assert!(has(&answer, "provenance.not-judged"), "{answer:#}");
    let said = answer["findings"][0]["message"].as_str().expect("a text");
    let unknown = answer["parts"][2]["commit"].as_str().expect("a commit");
    assert!(said.starts_with(&format!("commit {unknown} is no agent's")), "{said}");
    // An agent that leaves its scope rejects the group.
    first.write("out.txt", "out\n");
    first.commit("out");
    let out = merge(repo, &merge(repo, "main", &second), &first.branch);
    let (status, answer) = ci(repo, &["--tip", &out]);
    assert_eq!(status, 1, "{answer:#}");
    assert_eq!(verdicts(&answer), ["accept", "reject"]);
}

#[test]
fn a_merge_that_changes_the_work_is_rejected_wherever_it_stands() {
    let (first, second) = two_agents();
    let repo = &first.repo;
    repo.git(["switch", "--quiet", "--detach", &first.branch]);
    repo.write("src/backdoor.rs", "text\n");
    repo.git(["add", "--all"]);
    let evil_tree = repo.git(["write-tree"]);
    repo.git(["reset", "--quiet", "--hard"]);
    repo.git(["switch", "--quiet", "main"]);
    let evil = commit(repo, &evil_tree, &["main", &first.branch], "merge");
    let before = person(repo, "main", "notes.txt", "notes");
    let octopus = commit(repo, &evil_tree, &["main", &first.branch, &second], "octopus");
    let wraps = [
        evil.clone(),
        person(repo, &evil, "notes.txt", "on top"),
        commit(repo, &evil_tree, &[&before, &first.branch], "later"),
        merge(repo, &before, &evil),
        merge(repo, &merge(repo, "main", &second), &evil),
        octopus,
    ];
    for wrap in wraps {
        let (status, answer) = ci(repo, &["--tip", &wrap, "--branch=fix"]);
        assert_eq!(status, 1, "{answer:#}");
        assert_eq!(answer["verdict"], "reject");
        assert!(has(&answer, "provenance.merge-changes"), "{answer:#}");
    }
}

#[test]
fn a_squash_and_rebased_commits_are_known_by_the_branch_that_is_here() {
    let (first, _) = two_agents();
    let repo = &first.repo;
    let moved = person(repo, "main", "notes.txt", "main moves on");
    repo.git(["update-ref", "refs/heads/main", &moved]);
    repo.git(["reset", "--quiet", "--hard"]);
    let merged = repo.git(["merge-tree", "--write-tree", "main", &first.branch]);
    for message in ["squash", &format!("squash\n\nAgent-Id: {}", first.id)] {
        let squash = commit(repo, &merged, &["main"], message);
        let (status, answer) = ci(repo, &["--tip", &squash]);
        assert_eq!(status, 0, "{answer:#}");
        assert_eq!(answer["parts"][0]["how"], "squash");
        assert_eq!(answer["parts"][0]["agent_id"], first.id.as_str());
    }
    // Without the spawn commit, as a forge rebases that drops empty commits.
    repo.git(["switch", "--quiet", "--detach", "main"]);
    let range = format!("{}~2..{}", first.branch, first.branch);
    repo.git(["cherry-pick", "--quiet", &range]);
    let rebased = repo.git(["rev-parse", "HEAD"]);
    let (status, answer) = ci(repo, &["--tip", &rebased]);
    assert_eq!(status, 0, "{answer:#}");
    assert_eq!(answer["parts"][0]["how"], "rebase");
    // A commit between them, which the last one takes back, is in no tree at the end.
    repo.git(["switch", "--quiet", "--detach", &format!("{rebased}~1")]);
    repo.write("secret.txt", "text\n");
    repo.git(["add", "--all"]);
    repo.git(["commit", "--quiet", "-m", "hidden"]);
    let hidden = repo.git(["rev-parse", "HEAD"]);
    repo.git(["switch", "--quiet", "main"]);
    let end = commit(repo, &tree(repo, &rebased), &[&hidden], "end");
    let (status, answer) = ci(repo, &["--tip", &end]);
    assert_ne!(status, 0, "{answer:#}");
    assert_ne!(answer["verdict"], "accept");
}

#[test]
fn a_commit_without_a_change_is_no_squash_of_an_agent_without_one() {
    let agent = Agent::spawned_in(TestRepo::with_commit(), TASK);
    let repo = &agent.repo;
    let empty = commit(repo, &tree(repo, "main"), &["main"], "nothing");
    let (_, answer) = ci(repo, &["--tip", &empty]);
    assert_eq!(answer["parts"][0]["how"], "none", "{answer:#}");
}

#[test]
fn what_names_an_agent_and_is_not_its_branch_is_rejected() {
    let agent = agent_in(TestRepo::with_commit(), "src/first.rs");
    let repo = &agent.repo;
    let squash = |message: &str| commit(repo, &tree(repo, &agent.branch), &["main"], message);
    let [plain, named] = [squash("squash"), squash(&format!("squash\n\nAgent-Id: {}", agent.id))];
    let theirs = person(repo, "main", "notes.txt", "notes");
    let merged = repo.git(["rev-parse", &agent.branch]);
    // Where the agent's branch is not here, only what the commits say is left.
    agent.git(&["switch", "--quiet", "--detach"]);
    repo.git(["update-ref", "-d", &format!("refs/heads/{}", agent.branch)]);
    let check = |tip: &str, branch: &str, expected: i32, code: &str| {
        let (status, answer) = ci(repo, &["--tip", tip, "--branch", branch]);
        assert_eq!(status, expected, "{branch}: {answer:#}");
        assert!(has(&answer, code), "{branch}: {answer:#}");
    };
    check(&plain, "fix", 2, "provenance.not-judged");
    check(&named, "fix", 1, "provenance.spawn-commit");
    check(&person(repo, &named, "more.txt", "more"), "fix", 1, "provenance.spawn-commit");
    check(&theirs, "fix", 2, "provenance.not-judged");
    check(&theirs, "agent/fix-20261120T214929Z-6a48ca7b", 1, "provenance.spawn-commit");
    // The name that its row has.
    check(&theirs, &agent.branch, 1, "provenance.spawn-commit");
    check("main", "fix", 2, "provenance.not-judged");
    // The spawn commit is enough, whatever the branch is called.
    let (status, answer) = ci(repo, &["--tip", &merged, "--branch=fix"]);
    assert_eq!(status, 0, "{answer:#}");
}

#[test]
fn a_rebase_is_found_below_a_merge() {
    let (first, second) = two_agents();
    let repo = &first.repo;
    // As a forge rebases the first one, and then merges the other.
    let steps = [format!("{}~1", first.branch), first.branch.clone()];
    let mut on = repo.git(["rev-parse", "main"]);
    for step in &steps {
        on = commit(repo, &tree(repo, step), &[&on], "rebased");
    }
    let both = merge(repo, &on, &second);
    let (status, answer) = ci(repo, &["--tip", &both]);
    assert_eq!(status, 0, "{answer:#}");
    assert_eq!(verdicts(&answer), ["accept", "accept"], "{answer:#}");
}
