use super::{WRITTEN, assert_kept, busy, discard, discarded};
use crate::support::agent::describe;
use crate::support::{assert_unchanged, git_in, git_output, isolated, snapshot};
use crate::verify::{Agent, refused};
use std::fs;
use std::path::Path;

/// Prepares an agent, sees its discard refused, and sees that nothing changed but our lock file and
/// objects that nothing names.
fn check(code: &str, status: i32, said: &str, prepare: impl Fn(&Agent)) {
    let agent = busy();
    prepare(&agent);
    let place = agent.repo.path().with_file_name("");
    let before = snapshot(&place);
    refused(&discard(&agent, &["--dry-run"]), code, status);
    let output = discard(&agent, &[]);
    refused(&output, code, status);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(said), "{error}");
    let mut after = snapshot(&place);
    let ours = |path: &Path| {
        let path = path.to_string_lossy();
        ["/.git/objects/", "/live.lock", "/landing.lock", "/agents/tmp", "/agents/cache"]
            .iter()
            .any(|part| path.contains(part))
    };
    after.retain(|path, _| before.contains_key(path) || !ours(path));
    assert_unchanged(&before, &after, said);
}

fn admin(agent: &Agent, file: &str) -> std::path::PathBuf {
    let name = format!("worktrees/agent-{}", &agent.id[..8]);
    agent.repo.path().join(".git").join(name).join(file)
}

#[test]
fn what_could_lose_or_disturb_something_is_refused_and_changes_nothing() {
    check("discard-refused", 3, "locked: mine", |agent| {
        fs::write(admin(agent, "locked"), "mine\n").expect("write");
    });
    check("discard-refused", 3, " merge --abort", |agent| {
        let head = agent.git(&["rev-parse", "HEAD"]);
        fs::write(admin(agent, "MERGE_HEAD"), format!("{head}\n")).expect("write");
    });
    check("discard-refused", 3, " rebase --quit", |agent| {
        // What says where it leads back to is missing, so `git rebase --abort` fails.
        fs::create_dir(admin(agent, "rebase-merge")).expect("create");
    });
    check("discard-refused", 3, "in the middle of a cherry-pick", |agent| {
        // As a conflict that was committed leaves it: the first of several is done, and no `CHERRY_PICK_HEAD` is there.
        let head = agent.git(&["rev-parse", "HEAD"]);
        fs::create_dir(admin(agent, "sequencer")).expect("create");
        fs::write(admin(agent, "sequencer/head"), format!("{head}\n")).expect("write");
        let todo = format!("pick {head} the next\n");
        fs::write(admin(agent, "sequencer/todo"), todo).expect("write");
    });
    check("discard-refused", 3, "in the middle of an am", |agent| {
        fs::create_dir(admin(agent, "rebase-apply")).expect("create");
        fs::write(admin(agent, "rebase-apply/applying"), "").expect("write");
    });
    check("discard-refused", 3, "was moved", |agent| {
        let moved = agent.repo.path().with_file_name("moved");
        let (from, to) = (agent.worktree.to_str(), moved.to_str());
        let words = ["worktree", "move", "-f", "-f", from.expect("UTF-8"), to.expect("UTF-8")];
        agent.repo.git(words);
    });
    check("discard-refused", 3, "a process is at work", |agent| {
        let path = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
        let file = fs::File::create(path.join("live.lock")).expect("create");
        file.lock().expect("locked");
        // Held until the test ends.
        std::mem::forget(file);
    });
    check("worktree-foreign", 2, "does not say", |agent| {
        fs::write(agent.worktree.join(".git"), "gitdir: /nowhere\n").expect("write");
    });
}

#[test]
fn files_that_git_does_not_see_are_found_and_refused() {
    check("discard-refused", 3, "nested/file", |agent| {
        agent.write("nested/file", "nested\n");
        git_in(&agent.worktree.join("nested"), ["init", "--quiet"]);
    });
    check("discard-refused", 3, "broken/.git/file", |agent| {
        agent.write("broken/.git/file", "in a directory that git passes over\n");
    });
    check("discard-refused", 3, "src/.git", |agent| {
        agent.write("src/.git", "not a pointer\n");
    });
    check("discard-refused", 3, ".agent/.git", |agent| {
        agent.write(".agent/.git/file", "in the bundle\n");
    });
}

#[test]
fn a_symlink_in_the_place_of_the_worktree_is_refused() {
    check("discard-refused", 3, "symlink", |agent| {
        let elsewhere = agent.repo.path().with_file_name("elsewhere");
        fs::rename(&agent.worktree, &elsewhere).expect("rename");
        std::os::unix::fs::symlink(&elsewhere, &agent.worktree).expect("link");
    });
    check("discard-refused", 3, "symlink", |agent| {
        let parent = agent.worktree.parent().expect("a parent");
        let elsewhere = agent.repo.path().with_file_name("elsewhere");
        fs::rename(parent, &elsewhere).expect("rename");
        std::os::unix::fs::symlink(&elsewhere, parent).expect("link");
    });
}

#[test]
fn a_branch_that_another_worktree_uses_is_not_deleted() {
    check("discard-refused", 3, "is checked out at", |agent| {
        agent.repo.git(["checkout", "--quiet", "--ignore-other-worktrees", &agent.branch]);
    });
    // By another name, and in the middle of a rebase or a bisection, git refuses to delete it, too.
    for is_linked in [false, true] {
        let check_beside = |prepare: &dyn Fn(&Agent, &Path)| {
            check("discard-refused", 3, "is checked out at", |agent| {
                let mut top = agent.repo.path();
                if is_linked {
                    top.set_file_name("beside");
                    let place = top.to_str().expect("UTF-8");
                    agent.repo.git(["worktree", "add", "--quiet", "--detach", place]);
                }
                prepare(agent, &top);
            });
        };
        let switch = |top: &Path, branch: &str| {
            git_in(top, ["switch", "--quiet", "--ignore-other-worktrees", branch]);
        };
        check_beside(&|agent, top| {
            let branch = format!("refs/heads/{}", agent.branch);
            agent.repo.git(["symbolic-ref", "refs/heads/alias", &branch]);
            switch(top, "alias");
        });
        check_beside(&|agent, top| {
            switch(top, &agent.branch);
            let stopped = ["rebase", "--quiet", "--exec", "false", "HEAD~1"];
            assert!(!git_output(top, stopped).status.success(), "it waits for a person");
        });
        check_beside(&|agent, top| {
            switch(top, &agent.branch);
            git_in(top, ["bisect", "start"]);
            git_in(top, ["switch", "--quiet", "--detach"]);
        });
    }
}

#[test]
fn the_directory_one_stands_in_is_not_removed() {
    let agent = busy();
    let output = crate::support::agent::agent_command(&agent.worktree.join("src"))
        .args(["discard", &agent.id])
        .output();
    refused(&output.expect("starts"), "discard-refused", 3);
    discarded(&agent, &[]);
    assert_kept(&agent.repo, &WRITTEN, "after a refusal");
}

#[test]
fn only_what_nothing_keeps_is_named_and_not_what_is_ignored() {
    let repo = crate::support::TestRepo::with_commit();
    repo.write(".gitignore", "/built/\n*.o\n");
    repo.commit_all("ignore");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    for ignored in ["built/a", "built/deep/er/b", "built/deep/c", "src/d.o", "z/e.o"] {
        agent.write(ignored, "ignored\n");
    }
    agent.git(&["init", "--quiet", "src/inner"]);
    agent.write("src/inner/precious", "precious\n");
    let output = discard(&agent, &[]);
    refused(&output, "discard-refused", 3);
    let said = describe(&output);
    assert!(said.contains("src/inner/precious"), "{said}");
    assert!(!said.contains("built") && !said.contains(".o\n"), "{said}");
    fs::remove_dir_all(agent.worktree.join("src/inner")).expect("removed");
    discarded(&agent, &[]);
}

#[test]
fn a_worktree_inside_goes_with_what_was_committed_there_on_a_branch() {
    let agent = Agent::new();
    agent.git(&["worktree", "add", "--quiet", "--detach", "src/inner"]);
    let inner = agent.worktree.join("src/inner");
    git_in(&inner, ["commit", "--quiet", "--allow-empty", "-m", "inside"]);
    let commit = git_in(&inner, ["rev-parse", "HEAD"]);
    let told = describe(&agent.repo.agent(&["discard", &agent.id]));
    let (_, command) = told.split_once("to remove that one, run ").expect("advice");
    let command = command.lines().next().expect("a line");
    let status = isolated("sh", &agent.repo.path()).args(["-c", command]).status();
    assert!(status.expect("starts").success(), "{command}");
    agent.repo.agent_json(&["discard", &agent.id]);
    let branches = agent.repo.git(["branch", "--contains", &commit, "--format=%(refname:short)"]);
    assert_eq!(branches, format!("kept-{}", &commit[..7]));
}
