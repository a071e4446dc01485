use super::{answer, run};
use crate::support::agent::{TASK, describe};
use crate::support::{TestRepo, git_output};
use crate::verify::{Agent, refused};
use std::os::unix::fs::PermissionsExt;

#[test]
fn everything_is_committed_with_the_trailer() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    std::fs::remove_file(agent.worktree.join("src/bin/tool.rs")).expect("removed");
    let report = answer(&agent, "commit", &["-m", "Add two"]);
    assert_eq!(report["commit"], agent.git(&["rev-parse", "HEAD"]));
    assert_eq!(
        agent.git(&["show", "--name-status", "--format=", "HEAD"]),
        "D\tsrc/bin/tool.rs\nA\tsrc/two.rs"
    );
    let trailer = agent.git(&["log", "-1", "--format=%(trailers:key=Agent-Id,valueonly)"]);
    assert_eq!(trailer.trim(), agent.id);
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    refused(&run(&agent, "commit", &["-m", "again"]), "nothing-to-land", 1);
    refused(&run(&agent, "commit", &["-m", " "]), "usage", 2);
}

#[test]
fn what_hooks_write_beside_the_repository_stays() {
    let repo = TestRepo::with_commit();
    let hooks = repo.path().join(".git/hooks");
    std::fs::create_dir_all(&hooks).expect("directory");
    // As each does where `git commit` runs it.
    let script = "#!/bin/sh
        common=$(git rev-parse --git-common-dir) && name=$(basename \"$0\")
        mkdir -p \"$common/marks\" && echo ran >>\"$common/marks/$name\" && echo ran >>\"$common/$name.log\"
        ! [ \"$name\" = pre-commit ] || ! [ -e refuse ]
        ";
    let names = ["pre-commit", "commit-msg", "post-commit"];
    for name in names {
        let hook = hooks.join(name);
        std::fs::write(&hook, script).expect("a hook");
        std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("executable");
    }
    let agent = Agent::spawned_in(repo, TASK);
    for name in ["src/two.rs", "src/three.rs"] {
        agent.write(name, "pub fn one() {}\n");
        answer(&agent, "commit", &["-m", "Add one"]);
    }
    let common = agent.repo.path().join(".git");
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    for name in names {
        assert_eq!(read(common.join("marks").join(name)), "ran\nran\n", "{name}");
        assert_eq!(read(common.join(format!("{name}.log"))), "ran\nran\n", "{name}");
    }
    // Also where one refuses.
    std::fs::remove_file(common.join("pre-commit.log")).expect("there");
    agent.write("refuse", "");
    agent.write("src/four.rs", "pub fn four() {}\n");
    let words = ["--in-scope-only", "-m", "Add four"];
    refused(&run(&agent, "commit", &words), "commit-refused", 3);
    assert_eq!(read(common.join("pre-commit.log")), "ran\n");
}

#[test]
fn a_message_is_cleaned_up_as_git_does_it() {
    for (cleanup, message) in [
        ("strip", "#42 Fix it"),
        ("strip", "#42 Fix it\n\nThe body."),
        ("whitespace", "#42 Fix it"),
        ("default", "#42 Fix it"),
    ] {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.repo.git(["config", "commit.cleanup", cleanup]);
        let by_git = ["commit", "--quiet", "--allow-empty", "-m", message];
        let by_git = git_output(&agent.repo.path(), by_git);
        let tip = agent.git(&["rev-parse", "HEAD"]);
        let output = run(&agent, "commit", &["-m", message]);
        if by_git.status.success() {
            assert!(output.status.success(), "{}", describe(&output));
            let subject = agent.repo.git(["log", "-1", "--format=%s"]);
            assert_eq!(agent.git(&["log", "-1", "--format=%s"]), subject, "{cleanup}");
        } else {
            refused(&output, "usage", 2);
            assert!(describe(&output).contains("commit.cleanup"));
            assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip);
            assert_eq!(agent.git(&["status", "--porcelain"]), "?? src/two.rs");
        }
    }
}

#[test]
fn what_the_agent_staged_is_what_is_committed() {
    let agent = Agent::new();
    agent.write("src/two.rs", "staged\n");
    agent.git(&["add", "src/two.rs"]);
    agent.write("src/two.rs", "changed again\n");
    agent.write("src/three.rs", "not staged\n");
    answer(&agent, "commit", &["-m", "Add two"]);
    assert_eq!(agent.git(&["show", "HEAD:src/two.rs"]), "staged");
    assert_eq!(agent.git(&["status", "--porcelain"]), " M src/two.rs\n?? src/three.rs");
}

#[test]
fn what_is_out_of_scope_is_refused_by_name_or_left_out() {
    let agent = Agent::new();
    agent.write("src/two.rs", "in scope\n");
    agent.write("README.md", "out of scope\n");
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let check = |staged: bool| {
        let before = agent.git(&["status", "--porcelain"]);
        let output = run(&agent, "commit", &["-m", "both"]);
        refused(&output, "out-of-scope", 3);
        assert!(describe(&output).contains("  README.md\n"), "staged: {staged}");
        assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip);
        assert_eq!(agent.git(&["status", "--porcelain"]), before);
    };
    check(false);
    agent.git(&["add", "--all"]);
    check(true);
    let report = answer(&agent, "commit", &["-m", "one", "--in-scope-only"]);
    assert_eq!(report["left_out"][0], "README.md");
    assert_eq!(agent.git(&["show", "--name-only", "--format=", "HEAD"]), "src/two.rs");
    assert_eq!(agent.git(&["status", "--porcelain"]), "M  README.md");
}

#[test]
fn the_hooks_of_the_repository_may_refuse() {
    let repo = crate::support::TestRepo::with_commit();
    let hook = repo.path().join(".git/hooks/pre-commit");
    std::fs::create_dir_all(hook.parent().expect("hooks")).expect("directory");
    std::fs::write(&hook, "#!/bin/sh\necho no thanks >&2\nexit 1\n").expect("a hook");
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    agent.write("src/two.rs", "pub fn two() {}\n");
    let output = run(&agent, "commit", &["-m", "Add two"]);
    refused(&output, "commit-refused", 3);
    assert!(describe(&output).contains("no thanks"));
    assert_eq!(agent.git(&["status", "--porcelain"]), "?? src/two.rs");
}

#[test]
fn no_agent_commits_for_itself() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let output = crate::support::agent::agent_command(&agent.worktree)
        .args(["commit", &agent.id, "-m", "mine"])
        .output()
        .expect("starts");
    refused(&output, "orchestrator-only", 3);
}

#[test]
fn no_agent_decides_about_another() {
    let agent = Agent::new();
    let repo = &agent.repo;
    let other = repo.spawn_task(crate::support::agent::TASK, &[]);
    let other = other["agent_id"].as_str().expect("an id");
    let inside = |words: &[&str]| {
        crate::support::agent::agent_command(&agent.worktree).args(words).output().expect("starts")
    };
    let decisions: [&[&str]; 6] = [
        &["discard", other],
        &["rescue", other],
        &["done", other],
        &["fail", other, "--reason", "x"],
        &["gc", "--yes"],
        &["doctor", "--fix"],
    ];
    for words in decisions {
        refused(&inside(words), "orchestrator-only", 3);
    }
    assert_eq!(repo.agent_json(&["show", other])["state"], "ready");
    assert!(inside(&["gc"]).status.success());
    assert!(inside(&["done", &agent.id]).status.success());
}

#[test]
fn a_message_that_names_another_agent_names_this_one_afterwards() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    answer(&agent, "commit", &["-m", "Add two\n\nReviewed-by: x\nAgent-Id: bogus"]);
    let trailers = agent.git(&["log", "-1", "--format=%(trailers)"]);
    assert_eq!(trailers.trim(), format!("Reviewed-by: x\nAgent-Id: {}", agent.id));
}

#[test]
fn why_nothing_is_committed_is_said() {
    let agent = Agent::new();
    agent.write("README.md", "out of scope\n");
    agent.git(&["add", "README.md"]);
    agent.write("src/two.rs", "in scope and not staged\n");
    let output = run(&agent, "commit", &["-m", "some", "--in-scope-only"]);
    refused(&output, "nothing-to-land", 1);
    let said = describe(&output);
    assert!(said.contains("nothing that is staged"), "{said}");

    agent.repo.agent_json(&["discard", &agent.id]);
    let output = run(&agent, "commit", &["-m", "late"]);
    refused(&output, "agent-state", 3);
    let said = describe(&output);
    assert!(said.contains("is discarded and takes no commits"), "{said}");
}

#[test]
fn what_is_committed_is_what_verify_judges_and_git_add_would_add() {
    let agent = Agent::new();
    agent.write("src/.gitignore", "gen/\n");
    agent.write("src/gen/o", "built\n");
    agent.write("src/two.rs", "hidden\n");
    let exclude = agent.repo.path().join(".git/info/exclude");
    let before = std::fs::read_to_string(&exclude).expect("spawn wrote it");
    std::fs::write(&exclude, format!("{before}two.rs\n")).expect("written");
    agent.write("src/lib.rs", "changed\n");
    agent.git(&["update-index", "--assume-unchanged", "src/lib.rs"]);
    let judged = agent.verify(&[]);
    assert_eq!(judged["uncommitted"], 2, "{judged}");
    assert_eq!(judged["ignored_paths"], 2, "{judged}");
    let report = answer(&agent, "commit", &["-m", "All of it"]);
    assert_eq!(report["tree"], judged["tree"]);
    assert_eq!(
        agent.git(&["show", "--name-only", "--format=", "HEAD"]),
        "src/.gitignore\nsrc/lib.rs"
    );
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    agent.git(&["add", "--all"]);
    assert_eq!(agent.git(&["diff", "--cached", "--name-only"]), "");
    assert_eq!(agent.verify(&[])["uncommitted"], 0);
}

#[test]
fn what_is_left_out_stays_as_it_was() {
    let agent = Agent::new();
    agent.write("src/deep/er/two.rs", "in scope\n");
    agent.write("src/lib.rs", "changed\n");
    agent.write("README.md", "out of scope\n");
    agent.write("notes/new", "out of scope\n");
    answer(&agent, "commit", &["-m", "Mine", "--in-scope-only"]);
    assert_eq!(
        agent.git(&["show", "--name-only", "--format=", "HEAD"]),
        "src/deep/er/two.rs\nsrc/lib.rs"
    );
    assert_eq!(agent.git(&["status", "--porcelain"]), " M README.md\n?? notes/");
}

#[test]
fn a_repository_inside_the_worktree_is_named_with_the_reason() {
    let agent = Agent::new();
    agent.write("src/two.rs", "in scope\n");
    crate::support::git_in(&agent.worktree, ["init", "--quiet", "src/nested"]);
    agent.write("src/nested/file", "x");
    let output = run(&agent, "commit", &["-m", "both"]);
    refused(&output, "out-of-scope", 3);
    let said = describe(&output);
    assert!(said.contains("  src/nested/: it is a git repository"), "{said}");
    let checked = agent.repo.agent(&["check", &agent.id, "--worktree", "--format=json"]);
    assert_eq!(checked.status.code(), Some(1), "{}", describe(&checked));
    let checked: serde_json::Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    assert_eq!(checked["violations"].as_array().map_or(0, Vec::len), 1);
    assert_eq!(checked["violations"][0]["path"], "src/nested/");
    assert_eq!(checked["violations"][0]["reason"], "unseen-directory");
    let report = answer(&agent, "commit", &["-m", "Mine", "--in-scope-only"]);
    assert_eq!(report["left_out"][0], "src/nested/");
}
