use super::{Fenced, said, script};
use crate::support::{TestRepo, git_in, git_output, isolated};

#[test]
fn a_commit_out_of_scope_is_refused_by_name() {
    let agent = Fenced::new();
    agent.stage("README.md");
    agent.stage("src/target/x.rs");
    agent.stage("src/.env");
    for arguments in [&["commit", "-m", "no"][..], &["commit", "--no-verify", "-m", "no"]] {
        let said = agent.refused(arguments);
        assert!(
            said.contains("README.md (modified): no glob of the whitelist matches it"),
            "{said}"
        );
        assert!(said.contains("src/.env (added): the denylist has `**/*.env`"), "{said}");
        assert!(!said.contains("src/target/x.rs"), "{said}");
    }
    agent.allowed(&["restore", "--staged", "README.md", "src/.env"]);
    agent.allowed(&["commit", "--quiet", "-m", "yes"]);
}

#[test]
fn the_index_that_is_committed_is_the_one_judged() {
    let agent = Fenced::new();
    agent.stage("src/lib.rs");
    agent.stage("README.md");
    agent.allowed(&["commit", "--quiet", "-m", "a part", "--", "src/lib.rs"]);
    agent.refused(&["commit", "-m", "a part", "--", "README.md"]);
    agent.allowed(&["restore", "--staged", "README.md"]);
    agent.refused(&["commit", "--all", "-m", "everything"]);
    agent.allowed(&["restore", "README.md"]);
    std::fs::write(agent.top.join("src/lib.rs"), "pub fn two() {}\n").expect("write");
    agent.allowed(&["commit", "--quiet", "--all", "-m", "everything"]);
    agent.allowed(&["commit", "--quiet", "--amend", "--no-edit", "--no-verify"]);
    agent.allowed(&["rm", "--quiet", "--cached", "README.md"]);
    agent.refused(&["commit", "--amend", "--no-edit", "--no-verify"]);
}

#[test]
fn a_commit_that_a_later_one_takes_back_is_still_refused() {
    let agent = Fenced::new();
    let head = agent.head();
    // Detached, nothing is judged: the branch does not move.
    agent.allowed(&["checkout", "--quiet", "--detach"]);
    agent.stage("README.md");
    agent.allowed(&["commit", "--quiet", "--no-verify", "-m", "away"]);
    agent.allowed(&["revert", "--no-edit", "HEAD"]);
    let tip = agent.head();
    agent.allowed(&["checkout", "--quiet", agent.text("branch")]);
    let said = agent.refused(&["reset", "--quiet", "--hard", &tip]);
    assert!(said.contains("README.md"), "{said}");
    assert_eq!(agent.repo.git(["rev-parse", agent.text("branch")]), head);
}

#[test]
fn only_its_own_branch_may_be_moved() {
    let agent = Fenced::new();
    let other = agent.repo.spawn();
    let sibling = format!("refs/heads/{}", other["branch"].as_str().expect("a branch"));
    agent.stage("src/lib.rs");
    agent.allowed(&["commit", "--quiet", "-m", "work"]);
    let own = format!("refs/heads/{}", agent.text("branch"));
    for arguments in [
        &["update-ref", "refs/heads/main", "HEAD"][..],
        &["update-ref", &sibling, "HEAD"],
        &["update-ref", "-d", "refs/heads/main"],
        &["update-ref", "-d", &own],
        &["update-ref", "refs/remotes/origin/main", "HEAD"],
        &["update-ref", "refs/agents/keep", "HEAD"],
        &["branch", "mine"],
        &["branch", "--move", "elsewhere"],
        &["checkout", "-b", "mine"],
        &["tag", "v1"],
        &["notes", "--ref=agents", "add", "-m", "x", "HEAD"],
        &["push", ".", "HEAD:refs/heads/pushed"],
    ] {
        agent.refused(arguments);
    }
    std::fs::write(agent.top.join("src/lib.rs"), "changed\n").expect("write");
    agent.refused(&["stash"]);
    for arguments in [
        &["update-ref", "refs/worktree/mark", "HEAD"][..],
        &["bisect", "start"],
        &["bisect", "bad", "HEAD"],
        &["bisect", "reset"],
        &["update-ref", &own, "HEAD~1"],
    ] {
        agent.allowed(arguments);
    }
}

#[test]
fn a_long_transaction_is_judged_to_its_end() {
    let agent = Fenced::new();
    // More than a pipe takes at once, and what is not the agent's comes last.
    let marks = (0..1000).map(|number| format!("HEAD:refs/worktree/{number:0>40}"));
    let marks: Vec<String> = marks.collect();
    let mut words = vec!["fetch", "--quiet", "--atomic", "--no-write-fetch-head", "."];
    words.extend(marks.iter().map(String::as_str));
    agent.refused(&[&words[..], &["HEAD:refs/heads/zzz"]].concat());
    agent.allowed(&words);
}

#[test]
fn what_is_refused_there_is_free_in_the_main_worktree() {
    let agent = Fenced::new();
    agent.repo.write("README.md", "more\n");
    agent.repo.commit_all("out of the agent's scope");
    for arguments in [
        &["branch", "mine"][..],
        &["tag", "v1"],
        &["update-ref", "refs/heads/other", "HEAD"],
        &["push", "--quiet", ".", "HEAD:refs/heads/pushed"],
        &["update-ref", &format!("refs/heads/{}", agent.text("branch")), "HEAD"],
    ] {
        agent.repo.git(arguments);
    }
    let output = agent.repo.agent(&["hook", "git", "pre-push"]);
    assert!(output.status.success(), "{}", said(&output));
}

#[test]
fn rebase_merge_revert_and_cherry_pick_work_in_scope() {
    let agent = Fenced::new();
    agent.stage("src/lib.rs");
    agent.allowed(&["commit", "--quiet", "-m", "work"]);
    agent.repo.write("README.md", "not the agent's\n");
    agent.repo.commit_all("the base moves on");

    agent.allowed(&["rebase", "--quiet", "main"]);
    assert_eq!(agent.allowed(&["log", "-1", "--format=%s"]).trim(), "work");
    agent.allowed(&["revert", "--no-edit", "HEAD"]);
    agent.allowed(&["cherry-pick", "HEAD~1"]);

    agent.repo.write("docs/more.md", "not the agent's either\n");
    agent.repo.commit_all("the base moves on again");
    agent.allowed(&["merge", "--quiet", "--no-edit", "main"]);
    assert!(agent.top.join("docs/more.md").exists());

    agent.repo.git(["checkout", "--quiet", "-b", "side"]);
    agent.repo.write("README.md", "of nobody's base\n");
    agent.repo.commit_all("elsewhere");
    let said = agent.refused(&["cherry-pick", "side"]);
    assert!(said.contains("README.md"), "{said}");
    agent.allowed(&["cherry-pick", "--abort"]);
    agent.refused(&["merge", "--quiet", "--no-edit", "side"]);
}

#[test]
fn a_merge_that_conflicts_is_judged_by_what_it_adds() {
    let agent = Fenced::new();
    agent.stage("src/lib.rs");
    agent.allowed(&["commit", "--quiet", "-m", "ours"]);
    agent.repo.write("src/lib.rs", "theirs\n");
    agent.repo.write("README.md", "theirs\n");
    agent.repo.commit_all("theirs");
    assert!(!agent.git(&["merge", "main"]).status.success(), "a conflict");
    std::fs::write(agent.top.join("src/lib.rs"), "both\n").expect("write");
    agent.allowed(&["add", "src/lib.rs"]);
    agent.stage("Cargo.toml");
    let said = agent.refused(&["commit", "--no-edit"]);
    assert!(said.contains("Cargo.toml") && !said.contains("README.md"), "{said}");
    agent.allowed(&["rm", "--quiet", "--force", "Cargo.toml"]);
    agent.allowed(&["commit", "--quiet", "--no-edit"]);
}

#[test]
fn commits_say_whose_they_are_once() {
    let agent = Fenced::new();
    let trailers = || agent.allowed(&["log", "-1", "--format=%(trailers:key=Agent-Id,valueonly)"]);
    let expected = format!("{}\n", agent.text("agent_id"));
    agent.stage("src/lib.rs");
    agent.allowed(&["commit", "--quiet", "-m", "work\n\n# body\n\nSigned-off-by: A <a@b>"]);
    assert_eq!(trailers().trim_end(), expected.trim_end());
    agent.allowed(&["commit", "--quiet", "--amend", "--no-edit"]);
    assert_eq!(trailers().trim_end(), expected.trim_end());
    let body = agent.allowed(&["log", "-1", "--format=%b"]);
    assert!(body.contains(&format!("Signed-off-by: A <a@b>\nAgent-Id: {expected}")), "{body}");

    // An empty message calls the commit off, trailer or not.
    agent.stage("src/lib.rs");
    let output = agent.git(&["-c", "core.editor=true", "commit", "--verbose"]);
    assert!(!output.status.success(), "{}", said(&output));
}

#[test]
fn without_a_row_commits_stop_and_refs_go_on() {
    let agent = Fenced::new();
    agent.repo.git(["update-ref", "-d", "refs/notes/agents"]);
    agent.stage("src/lib.rs");
    let output = agent.git(&["commit", "-m", "work"]);
    assert!(!output.status.success());
    assert!(said(&output).contains("the ledger has no row for it"), "{}", said(&output));
    let said = agent.allowed(&["commit", "--no-verify", "-m", "work"]);
    assert!(said.contains("warning: the reference-transaction hook could not judge"), "{said}");
    let main = git_output(&agent.repo.path(), ["commit", "--quiet", "--allow-empty", "-m", "main"]);
    assert!(main.status.success() && main.stderr.is_empty());
}

/// Deleting `CHERRY_PICK_HEAD` makes git lock `packed-refs`; here somebody else has that lock, in a sandbox
/// the kernel refuses it.
#[test]
fn a_pick_is_over_although_git_cannot_clear_it_away() {
    for (fenced, has_own) in [("", false), ("1", false), ("1", true)] {
        let repo = TestRepo::with_commit();
        if has_own {
            script(&repo.path().join(".git/hooks/reference-transaction"), "cat");
        }
        let agent = Fenced::on(repo);
        agent.stage("src/lib.rs");
        agent.allowed(&["commit", "--quiet", "-m", "work"]);
        let lock = agent.repo.path().join(".git/packed-refs.lock");
        std::fs::write(&lock, "").expect("write");
        let rebased = isolated("git", &agent.top)
            .env("GIT_AGENT_FENCED", fenced)
            .args(["-c", "core.packedRefsTimeout=0"])
            .args(["rebase", "--quiet", "--force-rebase", "HEAD~1"])
            .output()
            .expect("git starts");
        assert!(rebased.status.success(), "{}", said(&rebased));
        let pick = git_in(&agent.top, ["rev-parse", "--git-path", "CHERRY_PICK_HEAD"]);
        let is_over = !agent.top.join(pick).exists();
        assert_eq!(is_over, !fenced.is_empty(), "{fenced:?} {has_own}");
    }
}
