//! One whole life of an agent (spawn, work, verdict, landing, discard) in repositories of unusual shape.

use crate::support::agent::{agent_command, describe, json_of};
use crate::support::{TestRepo, git_in};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn json(directory: &Path, words: &[&str]) -> Value {
    let mut command = agent_command(directory);
    command.args(words).arg("--format=json");
    json_of(command)
}

fn run(repo: &TestRepo, id: &str, script: &str) {
    let output = repo.agent(&["run", id, "--", "sh", "-ec", script]);
    assert!(output.status.success(), "{}", describe(&output));
}

/// Spawns, works, judges, lands and discards, all from `directory`; git finds what was landed there and nothing besides.
fn live(directory: &Path, file: &str) {
    let spawned = json(directory, &["spawn", "do the work"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    let place = worktree.join(file);
    fs::create_dir_all(place.parent().expect("below")).expect("a directory");
    fs::write(&place, "work\n").expect("written");
    let judged = json(directory, &["verify", id]);
    assert_eq!(judged["verdict"], "accept", "{judged:#}");
    assert_eq!(judged["uncommitted"], 1, "{judged:#}");
    let landed = json(directory, &["merge", id]);
    let commit = landed["commit"].as_str().expect("a commit");
    let shown = git_in(directory, ["show", &format!("{commit}:{file}")]);
    assert_eq!(shown, "work");
    json(directory, &["discard", id]);
    assert!(!worktree.exists());
    let status = git_in(directory, ["status", "--porcelain"]);
    assert_eq!(status, "");
    git_in(directory, ["fsck", "--no-progress", "--no-dangling"]);
}

#[test]
fn names_with_spaces_and_letters_of_all_kinds() {
    let repo = TestRepo::with_commit();
    let place = repo.path().with_file_name("größe und 名前 'it'");
    fs::rename(repo.path(), &place).expect("renamed");
    for file in ["mit raum/ä ö.txt", "名前/'quoted' \"twice\".txt", "-dash.txt"] {
        live(&place, file);
    }
}

#[test]
fn a_worktree_of_another_worktree() {
    let repo = TestRepo::with_commit();
    let second = repo.path().with_file_name("second");
    let path = second.to_str().expect("UTF-8");
    repo.git(["worktree", "add", "--quiet", "-b", "second", path]);
    live(&second, "src/two.rs");
    // The agent's own worktree is below the main one, and the branch of the second got the work.
    let subjects = repo.git(["log", "--format=%s", "second"]);
    assert!(subjects.starts_with("merge("), "{subjects}");
    assert_eq!(repo.git(["rev-list", "--count", "main"]), "1");
}

#[test]
fn beside_git_maintenance_and_after_it() {
    let repo = TestRepo::with_commit();
    live(&repo.path(), "src/two.rs");
    let tasks = ["commit-graph", "loose-objects", "incremental-repack", "pack-refs", "gc"];
    for (at, task) in tasks.into_iter().enumerate() {
        repo.git(["maintenance", "run", "--quiet", &format!("--task={task}")]);
        live(&repo.path(), &format!("src/after_{at}.rs"));
    }
}

#[test]
fn with_a_file_system_monitor() {
    let repo = TestRepo::with_commit();
    // It says that everything may have changed, as a monitor that was just started does.
    let hook = repo.path().with_file_name("monitor");
    fs::write(&hook, "#!/bin/sh\nprintf 'token\\0/\\0'\n").expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
    repo.git(["config", "core.fsmonitor", hook.to_str().expect("UTF-8")]);
    repo.git(["config", "core.untrackedCache", "true"]);
    repo.git(["status"]);
    for file in ["src/two.rs", "new/three.rs"] {
        live(&repo.path(), file);
    }
}

#[test]
fn with_a_split_index() {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", "[setup]\nrun = [\"git add --refresh .\"]\n");
    repo.commit_all("set-up");
    repo.git(["config", "core.splitIndex", "true"]);
    repo.git(["update-index", "--split-index"]);
    live(&repo.path(), "src/two.rs");
    for (number, kind) in
        ["--layered=auto", "--layered=off", "--isolation=clone"].into_iter().enumerate()
    {
        let root = repo.path();
        let spawned = json(&root, &["spawn", kind, "do the work", "--scope", "**"]);
        let id = spawned["agent_id"].as_str().expect("an id");
        let top = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
        let script = format!("echo work > src/of_{number}.rs; git add .; git status");
        run(&repo, id, &script);
        // In a clone the agent itself commits.
        let is_clone = kind == "--isolation=clone";
        if !is_clone {
            json(&root, &["commit", id, "-m", "feat: one"]);
        }
        if spawned["layered"] != true {
            let status = git_in(&top, ["status", "--porcelain"]);
            assert_eq!(status.is_empty(), !is_clone, "{status}");
            // By hand git splits it.
            fs::write(top.join("src/lib.rs"), format!("// {number}\n")).expect("written");
            git_in(&top, ["add", "."]);
        }
        assert_eq!(json(&root, &["verify", id])["verdict"], "accept");
        json(&root, &["discard", id]);
        json(&root, &["rescue", id, "--reopen"]);
        git_in(&top, ["status"]);
        if spawned["layered"] != true {
            json(&root, &["commit", id, "-m", "feat: two"]);
        }
        json(&root, &["update", id]);
        json(&root, &["merge", id]);
        assert_eq!(git_in(&top, ["status", "--porcelain"]), "");
        json(&root, &["discard", id]);
        assert_eq!(repo.git(["status", "--porcelain"]), "");
    }
}

/// A repository with the submodule `lib`, whose remote is beside it.
fn with_submodule(settings: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    let inner = repo.make_inner();
    let inner = inner.to_str().expect("UTF-8").to_owned();
    let allow = ["-c", "protocol.file.allow=always"];
    repo.git([&allow[..], &["submodule", "--quiet", "add", &inner, "lib"]].concat());
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("a submodule");
    repo
}

const FILL: &str = "git -c protocol.file.allow=always submodule --quiet update --init";

#[test]
fn with_submodules() {
    let own = "cd lib; git config user.name A; git config user.email a@b; echo more >> file; git commit -qam more";
    // Filled by the agent, by the set-up, or by hand; a warm worktree with one is not taken.
    let set_up = format!("[setup]\nrun = [\"{FILL}\"]\n[pool]\nsize = 1\n");
    for by_set_up in [false, true] {
        let repo = with_submodule(if by_set_up { &set_up } else { "" });
        let root = repo.path();
        if by_set_up {
            json(&root, &["pool", "fill"]);
        }
        let spawned = json(&root, &["spawn", "do the work", "--scope", "**"]);
        let warnings = spawned["warnings"].to_string();
        assert_eq!(!by_set_up, warnings.contains("submodules are empty"), "{warnings}");
        let id = spawned["agent_id"].as_str().expect("an id");
        let top = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
        let script = if by_set_up { "git status" } else { FILL };
        run(&repo, id, script);
        assert_eq!(git_in(&top.join("lib"), ["status", "--porcelain"]), "");
        assert_eq!(json(&root, &["verify", id])["verdict"], "accept");
        // Nothing that its remote lacks: nothing is kept.
        let discarded = json(&root, &["discard", id]);
        assert!(discarded.get("warnings").is_none(), "{discarded:#}");
        let kept = root.join(format!(".git/agents/{}/modules", &id[..8]));
        assert!(!kept.exists());

        let spawned = json(&root, &["spawn", "do more work", "--scope", "**"]);
        let id = spawned["agent_id"].as_str().expect("an id");
        let top = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
        if !by_set_up {
            git_in(&top, FILL.split(' ').skip(1));
        }
        let script = format!("({own}); git add lib");
        run(&repo, id, &script);
        let commit = git_in(&top.join("lib"), ["rev-parse", "HEAD"]);
        assert_eq!(git_in(&top, ["status", "--porcelain"]), "M  lib");
        // A second one finds it as it was left.
        run(&repo, id, "git -C lib status; git commit -qm bump");
        assert_eq!(json(&root, &["verify", id])["verdict"], "accept");
        let discarded = json(&root, &["discard", id]);
        let kept = root.join(format!(".git/agents/{}/modules/1", &id[..8]));
        let warnings = discarded["warnings"].to_string();
        assert!(warnings.contains(kept.to_str().expect("UTF-8")), "{warnings}");
        assert_eq!(repo.agent(&["uninstall", "--yes"]).status.code(), Some(3));
        json(&root, &["rescue", id, "--reopen"]);
        git_in(&top, FILL.split(' ').skip(1));
        assert_eq!(git_in(&top.join("lib"), ["rev-parse", "HEAD"]), commit);
        assert!(!kept.exists());
        assert_eq!(git_in(&top, ["status", "--porcelain"]), "");
        // What no commit of it holds is still refused.
        fs::write(top.join("lib/new"), "new\n").expect("written");
        let refused = repo.agent(&["discard", id]);
        assert_eq!(refused.status.code(), Some(3));
        fs::remove_file(top.join("lib/new")).expect("removed");
        json(&root, &["discard", id, "--force"]);
    }
}

#[test]
fn in_sparse_and_partial_clones() {
    let repo = TestRepo::with_commit();
    repo.write("docs/page.md", "page\n");
    repo.commit_all("docs");
    repo.git(["config", "uploadpack.allowFilter", "true"]);
    let source = format!("file://{}", repo.path().display());
    let top = repo.path();
    let top = top.parent().expect("a parent");
    for (name, words) in [("sparse", &["--sparse"][..]), ("partial", &["--filter=blob:none"])] {
        let clone = ["clone", "--quiet", &source, name];
        git_in(top, [&clone[..], words].concat());
        let place = top.join(name);
        if name == "sparse" {
            git_in(&place, ["sparse-checkout", "set", "src"]);
        }
        live(&place, "src/two.rs");
        assert_eq!(place.join("docs").exists(), name == "partial");
    }
}

#[test]
fn every_shape_on_the_page_names_tests_that_there_are() {
    let page = include_str!("../docs/trouble.md");
    let (_, section) = page.split_once("## Repositories of unusual shape").expect("the section");
    let rows: Vec<_> = section
        .lines()
        .filter(|line| line.starts_with("| ") && !line.contains("| shown by |"))
        .collect();
    assert!(rows.len() > 8, "{rows:#?}");
    let sources: String = walkdir::WalkDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests"))
        .into_iter()
        .filter_map(|entry| std::fs::read_to_string(entry.expect("an entry").path()).ok())
        .collect();
    for row in rows {
        let shown = row.split('|').nth(2).expect("a second cell");
        for test in shown.split('`').skip(1).step_by(2) {
            assert!(sources.contains(&format!("fn {test}() {{")), "{test}");
        }
        assert!(shown.contains('`') || shown.contains("not tried"), "{row}");
    }
}

/// Index and files are those of the branch that the command went to: judged as the agent's, they would take back its work or bring what
/// others made.
#[test]
fn a_run_that_ends_on_another_branch_is_not_judged_as_on_its_own() {
    let repo = TestRepo::with_commit();
    repo.git(["switch", "--quiet", "--create", "other"]);
    repo.write("src/other.rs", "// of another\n");
    repo.commit_all("of another");
    repo.git(["switch", "--quiet", "main"]);
    let root = repo.path();
    for kind in ["--layered=auto", "--layered=off", "--isolation=clone"] {
        for last in [
            "switch --quiet other",
            "switch --quiet --ignore-other-worktrees main",
            "switch --quiet --orphan new",
        ] {
            // A clone has no branches of others.
            if kind == "--isolation=clone" && last.ends_with("other") {
                continue;
            }
            let spawned = json(&root, &["spawn", kind, "do the work", "--scope", "src"]);
            let id = spawned["agent_id"].as_str().expect("an id");
            let what = format!("echo work > src/own.rs; git add .; git commit -qm own; git {last}");
            let output = repo.agent(&["run", id, "--", "sh", "-ec", &what]);
            assert_eq!(output.status.code(), Some(1), "{kind}, {last}: {}", describe(&output));
            let judged = repo.agent(&["verify", id, "--format=json"]);
            let judged: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
            assert_eq!(
                judged["findings"][0]["code"], "worktree.head",
                "{kind}, {last}: {judged:#}"
            );
            let before = repo.git(["rev-parse", "main"]);
            assert_eq!(repo.agent(&["merge", "--all"]).status.code(), Some(1), "{kind}, {last}");
            assert_eq!(repo.git(["rev-parse", "main"]), before, "{kind}, {last}");
            // The way back brings no commit of others.
            let fix = judged["findings"][0]["fix"].as_str().expect("advice");
            let (_, command) = fix.split_once("run ").expect("a command");
            assert!(!command.contains("cherry-pick"), "{command}");
            run(&repo, id, command);
            assert_eq!(json(&root, &["verify", id])["verdict"], "accept", "{kind}, {last}");
            let commit = json(&root, &["merge", id, "--no-ff"])["commit"].clone();
            let landed = repo.git([
                "show",
                "--format=",
                "--name-only",
                "-m",
                commit.as_str().expect("a commit"),
            ]);
            assert_eq!(landed, "src/own.rs", "{kind}, {last}");
            repo.git(["reset", "--quiet", "--hard", &before]);
            json(&root, &["discard", id, "--force"]);
        }
    }
}

/// In the run git takes it for a repository of its own; what leads it to its repository ends with the run.
#[test]
fn what_is_checked_out_in_a_worktree_of_a_run_is_no_work() {
    let repo = TestRepo::with_commit();
    repo.write("docs/deep/one.md", "one\n");
    repo.commit_all("docs");
    let root = repo.path();
    for kind in ["--layered=auto", "--layered=off"] {
        for (file, add) in [
            ("src/inner/docs/deep/one.md", "worktree add -q --detach src/inner"),
            // Added by hand, as git warns of and does.
            (
                "src/inner/f",
                "init -q src/inner; echo f > src/inner/f; git -C src/inner add .; git -C src/inner commit -qm f; git add src/inner; git commit -qm inner",
            ),
        ] {
            let spawned = json(&root, &["spawn", kind, "do the work", "--scope", "src"]);
            let id = spawned["agent_id"].as_str().expect("an id");
            let what = format!(
                "echo work > src/own.rs; git add .; git commit -qm own; git {add}; test -e {file}"
            );
            let output = repo.agent(&["run", id, "--", "sh", "-ec", &what]);
            assert_eq!(output.status.code(), Some(1), "{kind}, {add}: {}", describe(&output));
            let judged = repo.agent(&["verify", id, "--format=json"]);
            let judged: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
            let found = &judged["findings"][0];
            assert_eq!(found["code"], "worktree.nested-repository", "{kind}, {add}: {judged:#}");
            assert_eq!(found["path"].as_str().expect("a path").trim_end_matches('/'), "src/inner");
            // What git agent says leads on.
            let refused = describe(&repo.agent(&["discard", id]));
            if let Some((_, command)) = refused.split_once("what is beside it, run ") {
                let (command, _) = command.split_once(" in the worktree").expect("advice");
                run(&repo, id, command);
                json(&root, &["discard", id]);
            } else {
                assert!(refused.contains("move src/inner out"), "{kind}, {add}: {refused}");
            }
        }
    }
}

/// Each user of the group runs and discards the agents of all.
#[test]
fn what_is_kept_of_an_agent_is_open_to_those_who_share_the_repository() {
    let repo = TestRepo::with_commit();
    let modes = |task: &str| {
        let spawned = json(&repo.path(), &["spawn", "--layered=off", task]);
        let id = spawned["agent_id"].as_str().expect("an id");
        let own = repo.path().join(".git/agents").join(&id[..8]);
        let mode = |name: &str| {
            let found = fs::metadata(own.join(name)).expect("there");
            found.permissions().mode() & 0o777
        };
        [mode("task.toml"), mode("hooks")]
    };
    assert_eq!(modes("do the work")[0], 0o600);
    repo.git(["config", "core.sharedRepository", "group"]);
    let [task, hooks] = modes("do more work");
    assert_eq!(task, 0o660);
    // Moving a directory takes the right to write it.
    assert_eq!(hooks & 0o070, 0o070, "{hooks:o}");
}
