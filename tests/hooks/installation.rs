use super::{Fenced, said, script};
use crate::support::agent::agent_command;
use crate::support::{TestRepo, git_in, git_output};
use git_agent::git::Repo;
use git_agent::git::repo::program::Version;
use git_agent::store::hooks::{self, EVENTS, Route, Site};
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const OURS: &str = env!("CARGO_BIN_EXE_git-agent");

/// Installs the hooks by the given route, whichever git there is.
fn install(agent: &Fenced, program: &str, route: Route) {
    let repo = Repo::open(&agent.top).expect("a repository");
    hooks::install(&site(agent, &repo), Path::new(program), route).expect("installed");
}

fn inspect(agent: &Fenced) -> (Option<Route>, Vec<&'static str>) {
    let repo = Repo::open(&agent.top).expect("a repository");
    let found = hooks::inspect::inspect(&site(agent, &repo), None).expect("inspected");
    let codes = found.problems.iter().map(|problem| problem.code());
    (found.route, codes.collect())
}

fn site<'a>(agent: &'a Fenced, repo: &'a Repo) -> Site<'a> {
    Site { repo, short_id: agent.short_id(), worktree: &agent.top, home: None }
}

fn problems(agent: &Fenced, action: &str) -> (Vec<String>, bool) {
    let output = agent.repo.agent(&["hooks", action, "--format=json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let entry = &report["agents"][0];
    assert_eq!(entry["agent_id"], agent.report["agent_id"]);
    let codes = entry["problems"].as_array().expect("a list");
    let codes: Vec<String> =
        codes.iter().map(|problem| problem["code"].as_str().expect("a code").to_owned()).collect();
    assert_eq!(entry["ok"], codes.is_empty());
    (codes, output.status.success())
}

#[test]
fn the_first_git_with_hooks_of_the_configuration_is_not_too_old_for_them() {
    let agent = Fenced::new();
    install(&agent, OURS, Route::Config);
    let repo = Repo::open(&agent.top).expect("a repository");
    for (git, is_too_old) in [("git version 2.53.9", true), ("git version 2.54.0", false)] {
        let found = hooks::inspect::inspect(&site(&agent, &repo), Version::parse(git));
        let problems = found.expect("inspected").problems;
        let is_named = problems.iter().any(|one| one.code() == "git-too-old");
        assert_eq!(is_named, is_too_old, "{git}");
    }
}

#[test]
fn shims_are_the_agents_own_and_cannot_be_overwritten() {
    let agent = Fenced::new();
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    // Where no setting names the directory, the whole repository can be removed by its owner.
    let expected = match inspect(&agent).0 {
        Some(Route::Config) => 0o755,
        _ => 0o555,
    };
    assert_eq!(mode(&agent.shims()), expected);
    for event in EVENTS {
        assert_eq!(mode(&agent.shims().join(event)), 0o555, "{event}");
    }
    let common = agent.repo.git(["config", "--file", ".git/config", "--list"]);
    assert!(common.contains("extensions.worktreeconfig=true"), "{common}");
    assert!(!common.contains("hook"), "{common}");
    assert_eq!(problems(&agent, "status"), (vec![], true));
    // Those of one text are one file, which no other agent has.
    let files = |shims: &Path| -> BTreeSet<u64> {
        let inode = |event| std::fs::metadata(shims.join(event)).expect("there").ino();
        EVENTS.into_iter().map(inode).collect()
    };
    let other = agent.repo.spawn();
    let other = &other["agent_id"].as_str().expect("an id")[..8];
    let other = agent.repo.path().join(format!(".git/agents/{other}/hooks"));
    let (ours, theirs) = (files(&agent.shims()), files(&other));
    assert_eq!((ours.len(), theirs.len()), (2, 2));
    assert!(ours.is_disjoint(&theirs), "{ours:?} {theirs:?}");
}

#[test]
fn whatever_was_changed_is_named_and_repaired() {
    let check = |change: &dyn Fn(&Fenced), expected: &[&str]| {
        let agent = Fenced::new();
        install(&agent, OURS, Route::Directory);
        change(&agent);
        let (codes, success) = problems(&agent, "status");
        assert_eq!(codes, expected);
        assert!(!success, "{expected:?}");
        assert_eq!(problems(&agent, "repair"), (vec![], true), "{expected:?}");
        let elsewhere = agent.repo.path().with_file_name("elsewhere");
        let elsewhere = std::fs::read_to_string(elsewhere).unwrap_or_default();
        assert!(!elsewhere.contains("gc"), "written into: {elsewhere}");
        agent.stage("README.md");
        agent.refused(&["commit", "-m", "no"]);
    };
    let writable = |agent: &Fenced| {
        let all = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(agent.shims(), all).expect("permissions");
    };
    check(
        &|agent| drop(agent.allowed(&["config", "--worktree", "--unset", "core.hooksPath"])),
        &["not-installed"],
    );
    check(
        &|agent| drop(agent.allowed(&["config", "--worktree", "core.hooksPath", "/dev/null"])),
        &["led-away"],
    );
    check(
        &|agent| {
            let twice = ["config", "--worktree", "--add", "core.hooksPath", "/dev/null"];
            drop(agent.allowed(&twice));
        },
        &["led-away"],
    );
    let own = |agent: &Fenced| {
        let path = agent.allowed(&["rev-parse", "--git-path", "config.worktree"]);
        PathBuf::from(path.trim())
    };
    let elsewhere = |agent: &Fenced, text: &str| {
        let path = agent.repo.path().with_file_name("elsewhere");
        std::fs::write(&path, text).expect("write");
        path
    };
    check(
        &|agent| {
            let path = elsewhere(agent, "[core]\n\thooksPath = /dev/null\n");
            let path = path.to_str().expect("UTF-8");
            drop(agent.allowed(&["config", "--worktree", "include.path", path]));
        },
        &["config-unusable"],
    );
    check(
        &|agent| std::fs::write(own(agent), "[core\nbroken").expect("write"),
        &["config-unusable"],
    );
    check(
        &|agent| {
            let path = own(agent);
            std::fs::remove_file(&path).expect("removed");
            std::os::unix::fs::symlink(elsewhere(agent, ""), &path).expect("a link");
        },
        &["config-unusable"],
    );
    check(
        &|agent| drop(agent.repo.git(["config", "--unset", "extensions.worktreeConfig"])),
        &["extension-off"],
    );
    check(
        &|agent| {
            writable(agent);
            std::fs::remove_file(agent.shims().join("pre-push")).expect("removed");
        },
        &["missing"],
    );
    check(
        &|agent| {
            writable(agent);
            script(&agent.shims().join("pre-commit"), "exit 0");
        },
        &["altered"],
    );
    check(
        &|agent| {
            writable(agent);
            let mode = std::fs::Permissions::from_mode(0o444);
            std::fs::set_permissions(agent.shims().join("commit-msg"), mode).expect("permissions");
        },
        &["altered"; 4],
    );
    check(
        &|agent| {
            writable(agent);
            let path = agent.shims().join("pre-commit");
            let text =
                std::fs::read_to_string(&path).expect("a shim").replace("version 3", "version 0");
            std::fs::remove_file(&path).expect("removed");
            script(&path, "");
            std::fs::write(&path, text).expect("write");
        },
        &["outdated"],
    );
    check(&|agent| script(&agent.repo.path().join(".git/hooks/post-merge"), "exit 0"), &["hidden"]);
    check(
        &|agent| script(&agent.repo.path().join(".git/hooks/reference-transaction"), "exit 0"),
        &["hidden"],
    );
}

#[test]
fn one_agent_is_looked_at_by_any_of_its_names() {
    let agent = Fenced::new();
    agent.repo.spawn();
    let report = agent.repo.agent_json(&["hooks", "status", agent.short_id()]);
    assert_eq!(report["agents"].as_array().expect("a list").len(), 1);
    assert_eq!(
        agent.repo.agent_json(&["hooks", "status"])["agents"].as_array().expect("a list").len(),
        2
    );
    let output = agent.repo.agent(&["hooks", "status", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_missing_program_stops_commits_and_says_so() {
    let agent = Fenced::new();
    install(&agent, "/gone/git-agent", Route::Directory);
    agent.stage("src/lib.rs");
    for arguments in [&["commit", "-m", "x"][..], &["commit", "--no-verify", "-m", "x"]] {
        let output = agent.git(arguments);
        assert!(!output.status.success());
        let said = said(&output);
        for part in ["cannot run: neither /gone/git-agent", "git agent hooks repair"] {
            assert!(said.contains(part), "{said}");
        }
    }
    assert_eq!(problems(&agent, "status").0, ["program-gone"]);
}

#[test]
fn what_the_worktree_has_for_itself_moves_without_asking() {
    let agent = Fenced::new();
    install(&agent, "/gone/git-agent", Route::Directory);
    agent.allowed(&["update-ref", "ORIG_HEAD", "HEAD"]);
    agent.allowed(&["update-ref", "-d", "ORIG_HEAD"]);
    for name in ["refs/worktree/mark", "refs/heads/mine"] {
        let output = agent.git(&["update-ref", name, "HEAD"]);
        assert!(said(&output).contains("cannot run"), "{name}");
    }
}

#[test]
fn the_configurations_route_names_each_event_and_leaves_hooks_path_alone() {
    let agent = Fenced::new();
    install(&agent, OURS, Route::Config);
    let settings = agent.allowed(&["config", "--worktree", "--list"]);
    let mut expected = vec!["gc.auto=0".to_owned(), "maintenance.auto=false".to_owned()];
    for event in EVENTS {
        let shim = agent.shims().join(event);
        expected.push(format!("hook.git-agent-{event}.command='{}'", shim.display()));
        expected.push(format!("hook.git-agent-{event}.event={event}"));
    }
    expected.sort();
    let mut lines: Vec<&str> = settings.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, expected);

    assert_eq!(inspect(&agent), (Some(Route::Config), vec![]));
    let mode = || std::fs::metadata(agent.shims()).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(), 0o755);
    for key in ["hook.git-agent-pre-push.enabled", "hook.pre-commit.enabled"] {
        agent.allowed(&["config", "--worktree", key, "false"]);
        assert_eq!(inspect(&agent).1, ["led-away"], "{key}");
        agent.allowed(&["config", "--worktree", "--unset", key]);
    }
    install(&agent, OURS, Route::Directory);
    assert_eq!(inspect(&agent), (Some(Route::Directory), vec![]));
    assert_eq!(mode(), 0o555);
    let settings = agent.allowed(&["config", "--worktree", "--list"]);
    assert!(!settings.contains("hook.git-agent"), "{settings}");
}

#[test]
fn an_old_git_with_hooks_in_the_configuration_is_noticed() {
    let agent = Fenced::new();
    install(&agent, OURS, Route::Config);
    let repo = Repo::open(&agent.top).expect("a repository");
    let old = Version { major: 2, minor: 53 };
    let found = hooks::inspect::inspect(&site(&agent, &repo), Some(old)).expect("inspected");
    assert_eq!(found.problems, [hooks::inspect::HookProblem::TooOld]);
}

#[test]
fn what_belongs_to_the_main_worktree_alone_moves_with_the_extension() {
    let origin = TestRepo::with_commit();
    let bare = origin.path().with_file_name("bare.git");
    origin.git(["clone", "--quiet", "--bare", ".", bare.to_str().expect("UTF-8")]);
    let task = origin.task_file(crate::support::agent::TASK);
    let output =
        agent_command(&bare).args(["spawn", &task, "--format=json"]).output().expect("starts");
    assert!(output.status.success(), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let top = Path::new(report["worktree_abspath"].as_str().expect("a worktree"));
    assert_eq!(git_in(&bare, ["rev-parse", "--is-bare-repository"]), "true");
    assert_eq!(git_in(top, ["rev-parse", "--is-bare-repository"]), "false");
    assert_eq!(git_in(&bare, ["config", "--file", "config.worktree", "core.bare"]), "true");
    assert_eq!(
        git_output(&bare, ["config", "--file", "config", "core.bare"]).status.code(),
        Some(1)
    );
    assert_eq!(git_in(top, ["status", "--porcelain"]), "");

    // The oracle: git's own way of switching it on leaves the same.
    let theirs = origin.path().with_file_name("theirs.git");
    origin.git(["clone", "--quiet", "--bare", ".", theirs.to_str().expect("UTF-8")]);
    let linked = origin.path().with_file_name("linked");
    git_in(&theirs, ["worktree", "add", "--quiet", linked.to_str().expect("UTF-8")]);
    git_in(&linked, ["sparse-checkout", "set", "--no-cone", "/*"]);
    for file in ["config", "config.worktree"] {
        let list = |directory: &Path| {
            git_in(
                directory,
                ["config", "--file", file, "--get-regexp", "^(core\\.bare|extensions\\.)"],
            )
        };
        if file == "config" {
            assert_eq!(list(&bare), "extensions.worktreeconfig true");
        }
        assert_eq!(list(&bare), list(&theirs), "{file}");
    }
}

#[test]
fn a_worktree_elsewhere_stays_where_core_worktree_says() {
    let repo = TestRepo::with_commit();
    let moved = repo.path().with_file_name("moved");
    std::fs::rename(repo.path().join(".git"), repo.path().with_file_name("store.git"))
        .expect("moved");
    std::fs::rename(repo.path(), &moved).expect("moved");
    let store = repo.path().with_file_name("store.git");
    git_in(&store, ["config", "core.worktree", moved.to_str().expect("UTF-8")]);
    std::fs::write(moved.join(".git"), format!("gitdir: {}\n", store.display())).expect("write");
    let task = moved.with_file_name("task.toml");
    std::fs::write(&task, crate::support::agent::TASK).expect("write");
    let output = agent_command(&moved).arg("spawn").arg(&task).output().expect("starts");
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(git_in(&moved, ["rev-parse", "--show-toplevel"]), moved.to_str().expect("UTF-8"));
    assert_eq!(
        git_in(&store, ["config", "--file", "config.worktree", "core.worktree"]),
        moved.to_str().expect("UTF-8")
    );
    assert_eq!(git_in(&moved, ["status", "--porcelain"]), "");
}

#[test]
fn housekeeping_is_not_started_from_an_agents_worktree() {
    let agent = Fenced::new();
    assert_eq!(agent.allowed(&["config", "gc.auto"]).trim(), "0");
    assert_eq!(agent.allowed(&["config", "maintenance.auto"]).trim(), "false");
    agent.repo.git(["gc", "--quiet"]);
}
