//! Where worktrees and bundles go, what is refused there, and what our ignore rules hide.

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::{TestRepo, assert_unchanged, git_in, snapshot};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn worktree_of(report: &Value) -> PathBuf {
    PathBuf::from(report["worktree_abspath"].as_str().expect("a worktree"))
}

fn warnings_of(report: &Value) -> String {
    report["warnings"].to_string()
}

fn exclude_lines(repo: &TestRepo) -> Vec<String> {
    let text = fs::read_to_string(repo.path().join(".git/info/exclude")).unwrap_or_default();
    let rules = text.lines().filter(|line| !line.starts_with('#'));
    rules.map(str::to_owned).collect()
}

const OURS: [&str; 2] = ["/.claude/worktrees/", "/.agent/"];

/// Both the real thing and the dry run end so and change nothing.
fn assert_refused(repo: &TestRepo, arguments: &[&str], code: &str) -> String {
    let task = repo.task_file(TASK);
    let mut said = String::new();
    for dry in [&["--dry-run"][..], &[]] {
        let before = snapshot(&repo.path());
        let words = [&["spawn", task.as_str()], arguments, dry].concat();
        let output = repo.agent(&words);
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.starts_with(&format!("error[{code}]")), "{words:?}: {}", describe(&output));
        assert_unchanged(&before, &snapshot(&repo.path()), &format!("{words:?}"));
    }
    said
}

#[test]
fn a_place_that_will_not_do_is_refused_before_anything_is_written() {
    let repo = TestRepo::with_commit();
    for (path, code) in [
        ("src", "path-exists"),
        (".", "path-exists"),
        ("/", "path-exists"),
        ("src/lib.rs", "path-exists"),
        ("src/lib.rs/x", "path-invalid"),
        ("/dev/null/x", "path-invalid"),
        (".git/x", "path-invalid"),
        ("q\n*.rs", "path-invalid"),
    ] {
        let said = assert_refused(&repo, &["--path", path], code);
        if code == "path-invalid" && path.ends_with("/x") && !path.starts_with(".git") {
            assert!(said.contains("is not a directory"), "{said}");
        }
    }
    assert_eq!(exclude_lines(&repo), Vec::<String>::new());
}

#[test]
fn a_worktree_inside_the_main_one_hides_nothing_once_it_is_gone() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(TASK, &["--path", "tools"]);
    assert!(warnings_of(&report).contains("git add see tools"), "{report}");
    assert_eq!(exclude_lines(&repo), OURS);
    assert_eq!(repo.git(["status", "--porcelain"]), "?? tools/");
    let id = report["agent_id"].as_str().expect("an id");
    repo.agent_json(&["discard", id]);
    assert_eq!(exclude_lines(&repo), OURS);

    // Another agent has files there, and everybody sees them.
    let task = TASK.replace("src/**", "tools/**");
    let report = repo.spawn_task(&task, &[]);
    let worktree = worktree_of(&report);
    fs::create_dir(worktree.join("tools")).expect("tools");
    fs::write(worktree.join("tools/new.rs"), "fn new() {}\n").expect("new.rs");
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "?? tools/");
    let id = report["agent_id"].as_str().expect("an id");
    repo.agent_json(&["commit", id, "-m", "Add a tool"]);
    let branch = report["branch"].as_str().expect("a branch");
    let named = repo.git(["ls-tree", "-r", "--name-only", branch, "tools"]);
    assert_eq!(named, "tools/new.rs");
}

#[test]
fn a_template_inside_the_root_adds_no_line_per_agent() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "agent.worktreeDir", "wt*"]);
    for _ in 0..2 {
        let report = repo.spawn();
        assert!(worktree_of(&report).starts_with(repo.path().join("wt*")));
        assert!(warnings_of(&report).contains("not ignored"), "{report}");
    }
    assert_eq!(exclude_lines(&repo), OURS);
    repo.write(".git/info/exclude", "/wt[*]/\n");
    assert!(!warnings_of(&repo.spawn()).contains("not ignored"));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn an_empty_template_is_the_default_and_an_unknown_field_is_refused() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "agent.worktreeDir", ""]);
    let worktree = worktree_of(&repo.spawn());
    assert!(worktree.starts_with(repo.path().join(".claude/worktrees")));
    repo.git(["config", "agent.worktreeDir", "../{repo}-{nope}"]);
    let said = assert_refused(&repo, &[], "path-invalid");
    assert!(
        said.contains(
            "a field `{nope}`, which is none of {root}, {repo}, {id}, {slug} and {branch}"
        ),
        "{said}"
    );
}

#[test]
fn a_bundle_goes_where_the_base_tracks_nothing() {
    let repo = TestRepo::with_commit();
    repo.write(".agent/spec.md", "the project's own\n");
    repo.commit_all("a file of the project");
    let said = assert_refused(&repo, &[], "path-exists");
    assert!(said.contains("git config agent.bundleDir"), "{said}");
    for tracked in ["src", "src/lib.rs", "src/lib.rs/below", "./src/"] {
        repo.git(["config", "agent.bundleDir", tracked]);
        assert_refused(&repo, &[], "path-exists");
    }
    repo.git(["config", "agent.bundleDir", "src/bundle"]);
    let worktree = worktree_of(&repo.spawn());
    assert!(worktree.join("src/bundle/spec.md").is_file());
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
    // A shared agent has a directory of its own there, in the main worktree.
    let shared = repo.spawn_task(SHARED_TASK, &[]);
    let id8 = &shared["agent_id"].as_str().expect("an id")[..8];
    let bundle = repo.path().join("src/bundle").join(id8);
    assert!(bundle.join("spec.md").is_file());
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    // Where it is stays so, whatever the setting is later.
    let link = repo.path().join("link");
    std::os::unix::fs::symlink(repo.path().with_file_name("elsewhere"), &link).expect("linked");
    repo.git(["config", "agent.bundleDir", "link"]);
    let task = repo.task_file(SHARED_TASK);
    let said = describe(&repo.agent(&["spawn", &task]));
    assert!(said.contains("error[path-exists]"), "{said}");
    let path = repo.agent_json(&["bundle", id8])["bundle_path"].clone();
    assert_eq!(path.as_str(), bundle.to_str());
}

#[test]
fn the_line_for_the_bundle_hides_it_and_nothing_else() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "agent.bundleDir", "b*"]);
    let worktree = worktree_of(&repo.spawn());
    fs::create_dir(worktree.join("bench")).expect("bench");
    fs::write(worktree.join("bench/x"), "x").expect("x");
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "?? bench/");

    let repo = TestRepo::with_commit();
    repo.write("notes/mine.txt", "mine\n");
    repo.git(["config", "agent.bundleDir", "notes"]);
    let report = repo.spawn();
    assert!(warnings_of(&report).contains("notes is in the main worktree"), "{report}");
    assert_eq!(repo.git(["status", "--porcelain"]), "?? notes/");
}

#[test]
fn what_is_printed_to_be_pasted_is_quoted() {
    let repo = TestRepo::with_commit();
    let place = repo.path().with_file_name("o ut");
    let report = repo.spawn_task(TASK, &["--path", place.to_str().expect("UTF-8")]);
    let command = report["verify_command"].as_str().expect("a command");
    let id = report["agent_id"].as_str().expect("an id");
    assert_eq!(command, format!("git agent verify {id} '{}'", place.display()));
}

#[test]
fn a_repository_that_no_worktree_can_name_says_so() {
    use std::os::unix::ffi::OsStrExt;
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let name = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let moved = repo.path().with_file_name(name);
    fs::rename(repo.path(), &moved).expect("moved");
    let output =
        agent_command(&moved).args(["spawn", &task, "--path=../out"]).output().expect("starts");
    fs::rename(&moved, repo.path()).expect("moved back");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error[path-invalid]"), "{said}");
    assert!(said.contains(".git` is not UTF-8") && !said.contains("--path"), "{said}");
}

#[test]
fn a_worktree_beside_a_repository_that_was_moved_is_found_also_when_its_agent_is_over() {
    let repo = TestRepo::with_commit();
    let place = repo.path().with_file_name("out");
    let spawned = repo.spawn_task(TASK, &["--path", place.to_str().expect("UTF-8")]);
    let id = spawned["agent_id"].as_str().expect("an id");
    fs::write(place.join("src/lib.rs"), "pub fn one() {}\n").expect("written");
    repo.agent_json(&["reject", id]);
    let moved = repo.path().with_file_name("moved");
    fs::rename(repo.path(), &moved).expect("moved");
    let run = |words: &[&str]| agent_command(&moved).args(words).output().expect("starts");
    let [found, mended, again] = [&["doctor"][..], &["doctor", "--fix"], &["doctor"]].map(&run);
    let discarded = run(&["discard", id, "--force"]);
    fs::rename(&moved, repo.path()).expect("moved back");
    let said = describe(&found);
    assert_eq!(found.status.code(), Some(1), "{said}");
    assert!(said.contains("the repository was moved"), "{said}");
    for output in [mended, again, discarded] {
        assert!(output.status.success(), "{}", describe(&output));
    }
    assert!(!place.exists());
}

#[test]
fn a_tool_that_looks_through_the_root_is_named_once_where_no_place_was_chosen() {
    let package = r#"{"devDependencies": {"vitest": "3"}}"#;
    let repo_with = |package: &str| {
        let repo = TestRepo::with_commit();
        repo.write("package.json", package);
        repo.commit_all("a package");
        repo
    };
    let repo = repo_with(package);
    let planned = repo.agent_json(&["spawn", "do it", "--dry-run"]);
    assert!(warnings_of(&planned).contains("vitest looks through"), "{planned:#}");
    let first = repo.agent_json(&["spawn", "do it"]);
    assert!(warnings_of(&first).contains("agent.worktreeDir"), "{first:#}");
    let second = repo.agent_json(&["spawn", "do it again"]);
    assert!(!warnings_of(&second).contains("vitest"), "{second:#}");
    // Not where there is nothing to choose any more, and not of other tools.
    let repo = repo_with(package);
    repo.git(["config", "agent.worktreeDir", "../{repo}.agents/{id}"]);
    let told = repo.agent_json(&["spawn", "do it"]);
    assert!(!warnings_of(&told).contains("vitest"), "{told:#}");
    for other in ["not JSON", r#"{"dependencies": {"left-pad": "1"}}"#, "[]"] {
        let told = repo_with(other).agent_json(&["spawn", "do it"]);
        assert!(!warnings_of(&told).contains("looks through"), "{told:#}");
    }
}

/// The tools themselves, where their registries can be reached; `crawling_tools.sh` has the steps.
#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn tools_of_the_root_say_the_same_beside_agents() {
    for tool in ["vitest", "jest", "eslint", "prettier", "pytest", "tsc", "ruff"] {
        crate::hook_managers::run_script("crawling_tools.sh", "crawling-tools", tool);
    }
}
