//! Files that decide what other people's programs run: a scope of everything opens those alone that it names.

use crate::support::agent::{agent_command, describe};
use crate::support::{PAST_HOOKS, TestRepo, git_in, git_output};
use git_agent::domain::boundary::scope::CaseRule;
use git_agent::wire::row::policy::Policy;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn repo() -> TestRepo {
    let repo = TestRepo::with_commit();
    for name in [
        ".github/workflows/ci.yml",
        ".github/workflows/release.yml",
        ".codex/config.toml",
        "sub/.codex/config.toml",
        "roles/x.toml",
    ] {
        repo.write(name, "extends = \"edit-local\"\n");
    }
    repo.commit_all("control files");
    repo
}

fn spawn(repo: &TestRepo, name: &str, scope: &[&str]) -> PathBuf {
    let scope = scope.iter().map(|glob| format!("--scope={glob}"));
    let words = ["spawn", "do it", "--name", name].map(str::to_owned);
    let words: Vec<String> = words.into_iter().chain(scope).collect();
    let report = repo.agent_json(&words.iter().map(String::as_str).collect::<Vec<_>>());
    report["worktree_abspath"].as_str().expect("a path").into()
}

fn check(directory: &Path, path: &str) -> bool {
    let mut command = agent_command(directory);
    let output = command.args(["check", "--path", path]).output();
    output.expect("starts").status.success()
}

/// Whether a host may write the file, by the hook before its tool.
fn may_write(worktree: &Path, path: &str) -> bool {
    let mut command = agent_command(worktree);
    command.args(["hook", "pre-tool"]).stdin(Stdio::piped());
    let mut child = command.stderr(Stdio::null()).spawn().expect("starts");
    let payload = json!({
        "hook_event_name": "PreToolUse", "tool_name": "Write", "cwd": worktree,
        "tool_input": {"file_path": worktree.join(path), "content": "x"},
    });
    let _ = child.stdin.take().expect("a pipe").write_all(payload.to_string().as_bytes());
    child.wait().expect("ends").success()
}

/// The paths that a verdict names.
fn rejected(repo: &TestRepo, name: &str) -> Vec<String> {
    let output = repo.agent(&["verify", name, "--format=json"]);
    let verdict: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)));
    let findings = verdict["findings"].as_array().expect("a list");
    let paths = findings.iter().filter_map(|one| one["path"].as_str());
    paths.map(str::to_owned).collect()
}

#[test]
fn naming_one_control_file_opens_no_other() {
    let repo = repo();
    let scope = [".", ".github/workflows/ci.yml", "sub/.codex", "roles/x.toml"];
    let worktree = spawn(&repo, "named", &scope);
    let cases = [
        (".github/workflows/ci.yml", true),
        ("sub/.codex/config.toml", true),
        ("roles/x.toml", true),
        ("src/new.rs", true),
        (".github/workflows/release.yml", false),
        (".github/workflows/new.yml", false),
        (".codex/config.toml", false),
        ("roles/new.toml", false),
        (".github/workflows", false),
        // A default of the denylist, which no name opens.
        ("sub/.codex/.env", false),
    ];
    for (path, expected) in cases {
        assert_eq!(check(&worktree, path), expected, "check {path}");
        if path != ".github/workflows" {
            assert_eq!(may_write(&worktree, path), expected, "pre-tool {path}");
        }
    }
    // The agent and its owner are told.
    let shown = repo.agent_json(&["show", "named"]);
    let opened = [".github/workflows/ci.yml", "roles/x.toml", "sub/.codex/**"];
    assert_eq!(shown["opened"], json!(opened));
    let prompt = repo.agent_json(&["show", "named", "--invocation"])["prompt"].to_string();
    let told = "`.github/{workflows,actions}/**`, except `.github/workflows/ci.yml`";
    assert!(prompt.contains(told), "{prompt}");
    // The hook of git, the verdict and the landing.
    let write = |path: &str| fs::write(worktree.join(path), "extends = \"edit-shared\"\n");
    write(".github/workflows/ci.yml").expect("written");
    write(".github/workflows/release.yml").expect("written");
    git_output(&worktree, ["add", "--all"]);
    let committed = git_output(&worktree, ["commit", "--message=both"]);
    let said = describe(&committed);
    assert!(!committed.status.success() && said.contains("release.yml"), "{said}");
    assert_eq!(rejected(&repo, "named"), [".github/workflows/release.yml"]);
    assert!(!repo.agent(&["merge", "named"]).status.success());
    git_output(&worktree, ["checkout", "HEAD", "--", ".github/workflows/release.yml"]);
    let committed = git_output(&worktree, ["commit", "--message=one"]);
    assert!(committed.status.success(), "{}", describe(&committed));
    // The session whose hook was asked counts as one that goes on.
    repo.agent_json(&["merge", "named", "--now"]);
    let landed = repo.git(["diff", "--name-only", "HEAD~1", "HEAD"]);
    assert!(landed.contains("ci.yml") && !landed.contains("release.yml"), "{landed}");
}

#[test]
fn an_amendment_opens_what_it_names() {
    let repo = repo();
    let worktree = spawn(&repo, "worker", &[]);
    let opens = |expected: [bool; 3]| {
        let paths = [".github/workflows/ci.yml", ".github/workflows/release.yml", "roles/x.toml"];
        assert_eq!(paths.map(|path| check(&worktree, path)), expected);
    };
    opens([false, false, false]);
    let said = repo.agent_json(&["amend", "worker", "--add-scope=.github/workflows/ci.yml"]);
    assert_eq!(said.get("warnings"), None, "{said}");
    opens([true, false, false]);
    // What was opened stays so, also beside another denylist.
    repo.agent_json(&["amend", "worker", "--add-scope=roles/x.toml"]);
    repo.agent_json(&["amend", "worker", "--deny=src/gen/**"]);
    opens([true, false, true]);
    // Another try begins with the same.
    repo.agent_json(&["fail", "worker", "-m", "no"]);
    let again = repo.agent_json(&["retry", "worker"]);
    assert!(!again["warnings"].to_string().contains("allows nothing"), "{again}");
    let again = Path::new(again["worktree_abspath"].as_str().expect("a path"));
    assert!(check(again, ".github/workflows/ci.yml"));
    assert!(!check(again, ".github/workflows/release.yml"));
}

#[test]
fn what_a_person_denies_is_not_opened_by_a_wider_scope() {
    let repo = repo();
    let scope = ["spawn", "do it", "--name=shut", "--scope=.", "--scope=roles/x.toml"];
    repo.agent_json(&[&scope[..], &["--deny=roles/*.toml"]].concat());
    let worktree = repo.agent(&["path", "shut"]).stdout;
    let worktree = PathBuf::from(String::from_utf8_lossy(&worktree).trim());
    assert!(!check(&worktree, "roles/x.toml"));
    repo.agent_json(&["amend", "shut", "--add-scope=.github/workflows/ci.yml"]);
    assert!(!check(&worktree, "roles/x.toml"));
    assert!(check(&worktree, ".github/workflows/ci.yml"));
}

#[test]
fn another_try_of_a_task_with_a_scope_of_everything_keeps_control_files_out() {
    let repo = repo();
    spawn(&repo, "first", &[".", "roles/x.toml"]);
    repo.agent_json(&["fail", "first", "-m", "no"]);
    let again = repo.agent_json(&["retry", "first"]);
    let again = Path::new(again["worktree_abspath"].as_str().expect("a path"));
    assert!(!check(again, ".github/workflows/ci.yml"));
    assert!(check(again, "roles/x.toml"));
}

#[test]
fn versions_agree_on_what_was_recorded_before_and_an_older_one_opens_nothing() {
    let repo = repo();
    let recorded = |name: &str| {
        let commit = repo.agent_json(&["show", name])["spawn_commit"].clone();
        let commit = repo.git(["cat-file", "commit", commit.as_str().expect("an oid")]);
        let header = commit.lines().find_map(|line| line.strip_prefix("agent-policy "));
        serde_json::from_str::<Value>(header.expect("a header")).expect("JSON")
    };
    let allows = |policy: &Value, path: &str| {
        let policy = Policy::from_bytes(policy.to_string().as_bytes()).expect("a policy");
        let scope = policy.scope(CaseRule::default()).expect("a scope");
        scope.decide_bytes(path.as_bytes()).is_allowed()
    };
    let (ci, release) = (".github/workflows/ci.yml", ".github/workflows/release.yml");
    spawn(&repo, "named", &[".", ci]);
    let mut policy = recorded("named");
    assert!(allows(&policy, ci) && !allows(&policy, release));
    // A program that does not know the key reads the denylist as it is.
    policy.as_object_mut().expect("an object").remove("opened");
    assert!(!allows(&policy, ci) && !allows(&policy, release));
    // Versions before left the whole glob out of the denylist.
    let denylist = policy["denylist"].as_array_mut().expect("a list");
    denylist.retain(|glob| !glob.as_str().expect("a text").starts_with(".github/"));
    assert!(allows(&policy, ci) && allows(&policy, release));
    // What opens nothing is recorded as before.
    spawn(&repo, "plain", &[]);
    assert_eq!(recorded("plain").get("opened"), None);
}

#[test]
fn a_control_file_by_another_case_is_denied_and_an_ordinary_name_is_not() {
    let repo = repo();
    let worktree = spawn(&repo, "any", &["."]);
    let denied = [
        ".Codex/config.toml",
        ".GITHUB/workflows/x.yml",
        ".GitModules",
        "Secrets/k",
        "sub/.Husky/x",
    ];
    let ordinary = ["Target/x", "Dist/x", "Docs/x"];
    for path in denied.iter().chain(&ordinary) {
        let is_denied = denied.contains(path);
        assert_eq!(check(&worktree, path), !is_denied, "{path}");
        assert_eq!(may_write(&worktree, path), !is_denied, "{path}");
        let file = worktree.join(path);
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, "x\n").expect("written");
    }
    assert_eq!(rejected(&repo, "any"), denied);
    // In a clone where names ignore case, all that is denied is so in every case.
    repo.git(["config", "core.ignoreCase", "true"]);
    assert!(!check(&worktree, "Target/x") && check(&worktree, "Docs/x"));
}

#[test]
fn a_tree_with_a_git_directory_by_another_name_is_rejected() {
    for name in [".GIT", ".git ", "git~1", ".g\u{200c}it"] {
        let repo = repo();
        spawn(&repo, "any", &["."]);
        let branch = repo.agent_json(&["show", "any"])["branch"].clone();
        let branch = branch.as_str().expect("a branch");
        // Git refuses such a name in its index, and no commit of another program's has to.
        let tree = format!(
            "100644 blob {}\tconfig\n",
            repo.git(["hash-object", "-w", "roles/x.toml"]).trim()
        );
        let inner = make_tree(&repo, &tree);
        let all = repo.git(["ls-tree", branch]);
        let tree = make_tree(&repo, &format!("{all}\n040000 tree {inner}\t{name}\n"));
        let commit = repo.git(["commit-tree", &tree, "-p", branch, "-m", "work"]);
        repo.git(["update-ref", &format!("refs/heads/{branch}"), commit.trim()]);
        let path = format!("{name}/config");
        assert!(rejected(&repo, "any").contains(&path), "{name}");
    }
}

fn make_tree(repo: &TestRepo, entries: &str) -> String {
    let mut git = std::process::Command::new("git");
    git.args(["mktree"]).current_dir(repo.path());
    let mut child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    let input = child.stdin.take().expect("a pipe").write_all(entries.as_bytes());
    input.expect("written");
    let output = child.wait_with_output().expect("ends");
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

#[test]
fn no_symlink_or_submodule_takes_the_place_of_a_directory_of_control_files() {
    let repo = repo();
    let worktree = spawn(&repo, "linker", &[]);
    for (place, target) in [
        (".claude", "tools"),
        ("web/.vscode", "../tools"),
        (".config", "tools"),
        ("assets", "tools"),
    ] {
        let place = worktree.join(place);
        fs::create_dir_all(place.parent().expect("above")).expect("made");
        symlink(target, place).expect("a link");
    }
    fs::remove_dir_all(worktree.join(".github")).expect("removed");
    symlink("tools", worktree.join(".github")).expect("a link");
    fs::create_dir_all(worktree.join("tools/workflows")).expect("made");
    for name in ["settings.json", "tasks.json", "workflows/x.yml"] {
        fs::write(worktree.join("tools").join(name), "{}\n").expect("written");
    }
    let head = git_in(&worktree, ["rev-parse", "HEAD"]);
    git_in(&worktree, ["add", "--all"]);
    let submodule = format!("160000,{},.roo", head.trim());
    git_in(&worktree, ["update-index", "--add", "--cacheinfo", &submodule]);
    fs::create_dir(worktree.join(".roo")).expect("made");
    let made = [".claude", ".config", ".github", ".roo", "web/.vscode"];
    let found: BTreeSet<String> = rejected(&repo, "linker").into_iter().collect();
    let missing: Vec<_> = made.iter().filter(|place| !found.contains(**place)).collect();
    assert!(missing.is_empty(), "{found:?}");
    assert!(!found.contains("assets"), "{found:?}");
    assert!(!repo.agent(&["merge", "linker"]).status.success());
}

#[test]
fn a_file_that_a_symlink_shows_as_a_control_file_is_one() {
    let repo = TestRepo::with_commit();
    for name in [".ai/notes.md", "hk/pre-commit", "tools/pc", "gh/readme", "wf/build.yml"] {
        repo.write(name, "before\n");
    }
    fs::create_dir(repo.path().join(".husky")).expect("made");
    for (place, target) in [
        (".claude", "alias"),
        ("alias", ".ai/"),
        (".husky/pre-commit", "../tools/pc"),
        ("hooks", "./hk"),
        ("sub/.husky", "../hooks"),
        (".github", "gh"),
        ("gh/workflows", "../wf"),
        // These go in circles.
        ("gh/all", "../."),
        ("loop", "pool"),
        ("pool", "loop"),
    ] {
        let place = repo.path().join(place);
        fs::create_dir_all(place.parent().expect("above")).expect("made");
        symlink(target, place).expect("a link");
    }
    repo.commit_all("links");
    let worktree = spawn(&repo, "editor", &[]);
    for (path, expected) in [
        (".ai/notes.md", true),
        (".ai/settings.json", false),
        ("hk/pre-commit", false),
        ("tools/pc", false),
        ("tools/pd", true),
        ("gh/readme", true),
        ("wf/build.yml", false),
        ("src/new.rs", true),
    ] {
        assert_eq!(check(&worktree, path), expected, "{path}");
        let path = worktree.join(path);
        fs::create_dir_all(path.parent().expect("above")).expect("made");
        fs::write(path, "after\n").expect("written");
    }
    let denied = [".ai/settings.json", "hk/pre-commit", "tools/pc", "wf/build.yml"];
    let judged = || -> BTreeSet<String> { rejected(&repo, "editor").into_iter().collect() };
    assert_eq!(judged(), denied.map(str::to_owned).into());
    git_in(&worktree, ["add", "--all"]);
    let committed = git_output(&worktree, ["commit", "--message=all"]);
    let said = describe(&committed);
    assert!(said.contains("it is also sub/.husky/pre-commit"), "{said}");
    git_in(&worktree, [&PAST_HOOKS[..], &["commit", "--quiet", "--message=all"]].concat());
    assert_eq!(judged(), denied.map(str::to_owned).into());
    // The scope that names what they are opens them.
    let opening = [".claude/settings.json", ".husky/**", "sub/.husky/**", ".github/**"];
    let opening = opening.map(|glob| format!("--new={glob}"));
    let words = opening.iter().map(String::as_str);
    let words: Vec<&str> =
        ["spawn", "do it", "--name=free", "--scope=."].into_iter().chain(words).collect();
    let free = repo.agent_json(&words);
    let free = Path::new(free["worktree_abspath"].as_str().expect("a path"));
    for path in denied {
        assert!(check(free, path), "{path}");
    }
}

/// What is in no checkout here is not fetched to judge a change of another file, and ordinary links to directories stay ordinary.
#[test]
fn symlinks_cost_a_partial_clone_no_network_and_lead_to_any_directory() {
    let origin = TestRepo::with_commit();
    for name in ["docs/v1/x", "docs/v2/.gitattributes", "packages/a/.env.example"] {
        origin.write(name, "text\n");
    }
    symlink("v1", origin.path().join("docs/latest")).expect("a link");
    origin.commit_all("links");
    origin.git(["config", "uploadpack.allowFilter", "true"]);
    let place = origin.path().with_file_name("partial");
    let url = format!("file://{}", origin.path().display());
    let words = ["clone", "--quiet", "--filter=blob:none", "--sparse", &url];
    git_in(&origin.path(), [&words[..], &[&place.display().to_string()]].concat());
    git_in(&place, ["sparse-checkout", "set", "src"]);
    let scope = ["spawn", "-m", "do the thing", "--scope", "src/**", "--format=json"];
    let output = agent_command(&place).args(scope).output().expect("starts");
    let spawned: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    git_in(&place, ["remote", "set-url", "origin", "file:///nowhere"]);
    fs::write(worktree.join("src/new.rs"), "\n").expect("written");
    git_in(&worktree, ["add", "src/new.rs"]);
    git_in(&worktree, ["commit", "--quiet", "-m", "offline"]);
    // Moving a link to a directory with a file that any agent may not write is no writing of it.
    let worktree = spawn(&origin, "linker", &[]);
    fs::remove_file(worktree.join("docs/latest")).expect("removed");
    for (place, target) in [("docs/latest", "v2"), ("packages/b", "a"), ("src/root", "..")] {
        symlink(target, worktree.join(place)).expect("a link");
    }
    git_in(&worktree, ["add", "--all"]);
    git_in(&worktree, ["commit", "--quiet", "-m", "links"]);
}
