use super::{Fenced, said, script};
use crate::support::TestRepo;
use crate::support::agent::describe;

/// A hook that writes down its name, its arguments, its standard input and where it ran.
const RECORD: &str =
    r#"{ echo "${0##*/}" "$@"; cat; pwd; } >> "$(git rev-parse --git-common-dir)/record""#;

fn record(agent: &Fenced) -> String {
    let path = agent.repo.path().join(".git/record");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(path);
    text
}

#[test]
fn hooks_of_the_repository_still_run_and_can_still_refuse() {
    for hooks_path in [None, Some("tools/hooks"), Some("absolute")] {
        let repo = TestRepo::with_commit();
        let directory = match hooks_path {
            None => repo.path().join(".git/hooks"),
            Some("absolute") => repo.path().with_file_name("hooks"),
            Some(relative) => repo.path().join(relative),
        };
        for name in ["pre-commit", "post-commit", "prepare-commit-msg", "reference-transaction"] {
            script(&directory.join(name), RECORD);
        }
        if let Some(path) = hooks_path {
            let value = if path == "absolute" { directory.to_str().expect("UTF-8") } else { path };
            repo.commit_all("hooks");
            repo.git(["config", "core.hooksPath", value]);
        }
        let agent = Fenced::on(repo);
        record(&agent);

        agent.stage("src/lib.rs");
        agent.allowed(&["commit", "--quiet", "-m", "work"]);
        let ran = record(&agent);
        let top = agent.top.display();
        for expected in [
            format!("pre-commit\n{top}\n"),
            format!("post-commit\n{top}\n"),
            "reference-transaction prepared\n".to_owned(),
            "reference-transaction committed\n".to_owned(),
            format!(" refs/heads/{}\n", agent.text("branch")),
        ] {
            assert!(ran.contains(&expected), "{hooks_path:?}: {expected:?} in\n{ran}");
        }
        assert!(ran.lines().any(|line| line.starts_with("prepare-commit-msg ")), "{ran}");

        // Ours speaks first, and the repository's own can still say no.
        agent.stage("README.md");
        agent.refused(&["commit", "-m", "no"]);
        let hidden = agent.git(&["config", "--worktree", "core.hooksPath"]).status.success();
        // Where ours are named by the configuration, git runs every hook whatever the first one says.
        assert!(!hidden || !record(&agent).contains("pre-commit\n"));
        agent.allowed(&["rm", "--quiet", "--cached", "README.md"]);
        agent.allowed(&["reset", "--quiet"]);
        let own = if hooks_path == Some("tools/hooks") {
            agent.top.join("tools/hooks")
        } else {
            directory
        };
        script(&own.join("pre-commit"), "echo not today >&2; exit 7");
        agent.stage("src/lib.rs");
        let output = agent.git(&["commit", "-m", "no"]);
        assert!(
            !output.status.success() && said(&output).contains("not today"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn a_hook_without_a_first_line_runs_as_git_would_run_it() {
    let repo = TestRepo::with_commit();
    let hook = repo.path().join(".git/hooks/pre-commit");
    script(&hook, "");
    std::fs::write(&hook, "echo by sh >&2; exit 1\n").expect("write");
    let agent = Fenced::on(repo);
    agent.stage("src/lib.rs");
    let output = agent.git(&["commit", "-m", "no"]);
    assert!(said(&output).contains("by sh"), "{}", said(&output));
}

#[test]
fn what_the_main_worktree_alone_is_told_is_followed() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["config", "--worktree", "core.hooksPath", "tools"]);
    script(&repo.path().join("tools/pre-commit"), "echo from tools >&2; exit 1");
    repo.git(["add", "--all"]);
    repo.git(["commit", "--quiet", "--no-verify", "-m", "tools"]);
    let agent = Fenced::on(repo);
    agent.stage("src/lib.rs");
    let output = agent.git(&["commit", "-m", "no"]);
    assert!(said(&output).contains("from tools"), "{}", said(&output));
}

#[test]
fn a_hook_may_put_work_aside_and_take_it_back() {
    let repo = TestRepo::with_commit();
    // What lint-staged does before and after the tools that it runs.
    let hook = "set -e; kept=$(git stash create); git stash store --quiet --message kept $kept\n\
                git write-tree; git stash drop --quiet";
    script(&repo.path().join(".git/hooks/pre-commit"), hook);
    let agent = Fenced::on(repo);
    agent.stage("src/lib.rs");
    agent.allowed(&["commit", "--quiet", "-m", "work"]);
    assert_eq!(agent.repo.git(["stash", "list"]), "");
    std::fs::write(agent.top.join("src/lib.rs"), "changed\n").expect("write");
    agent.repo.agent_json(&["commit", agent.text("agent_id"), "-m", "more"]);
    std::fs::write(agent.top.join("src/lib.rs"), "changed again\n").expect("write");
    let id = agent.text("agent_id");
    let ran = agent.repo.agent(&["run", "--no-verify", id, "--", "git", "commit", "-qam", "most"]);
    assert!(ran.status.success(), "{}", describe(&ran));
    assert_eq!(agent.repo.git(["stash", "list"]), "");
}

#[test]
fn what_git_put_aside_and_cannot_put_back_is_kept_in_the_stash() {
    let agent = Fenced::new();
    agent.stage("src/lib.rs");
    agent.allowed(&["commit", "--quiet", "-m", "work"]);
    agent.repo.write("src/both.rs", "of main\n");
    agent.repo.commit_all("main moves on");
    // An index entry alone lets git put the file aside; its content conflicts with what main brings.
    for words in [&["rebase", "--autostash", "main"][..], &["merge", "--autostash", "main"]] {
        std::fs::write(agent.top.join("src/both.rs"), "of the agent\n").expect("write");
        agent.allowed(&["add", "src/both.rs"]);
        agent.allowed(words);
        let kept = agent.repo.git(["stash", "list", "--format=%gs"]);
        assert_eq!(kept, "autostash", "{words:?}");
        let diff = agent.repo.git(["show", "stash@{0}:src/both.rs"]);
        assert_eq!(diff, "of the agent", "{words:?}");
        agent.repo.git(["stash", "drop", "--quiet"]);
        agent.allowed(&["reset", "--quiet", "--hard", "HEAD~1"]);
        agent.repo.write("src/both.rs", "of main again\n");
        agent.repo.commit_all("main moves on again");
    }
}
