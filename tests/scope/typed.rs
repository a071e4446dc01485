//! What the globs of `spawn`, `amend` and `guard` mean: the same, wherever they are written.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn repo() -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write("src/gen/made.rs", "1\n");
    repo.write("gen/top.txt", "1\n");
    repo.write("app/[id]/gen/page.ts", "1\n");
    repo.commit_all("directories");
    repo
}

/// Runs a command in a directory of the repository.
fn at(repo: &TestRepo, directory: &str, words: &[&str]) -> Value {
    let mut command = agent_command(&repo.path().join(directory));
    let output = command.args(words).arg("--format=json").output();
    let output = output.expect("starts");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)))
}

fn spawn(repo: &TestRepo, name: &str, words: &[&str]) -> PathBuf {
    let words = [&["spawn", "-m", "do it", "--name", name], words].concat();
    let report = repo.agent_json(&words);
    report["worktree_abspath"].as_str().expect("a path").into()
}

fn may_change(worktree: &Path, path: &str) -> bool {
    let mut command = agent_command(worktree);
    let output = command.args(["check", "--path", path]).output();
    output.expect("starts").status.success()
}

/// What `guard` says of a branch that changes a generated file.
fn guarded(repo: &TestRepo, directory: &str, words: &[&str]) -> Value {
    let words = [&["guard", "--base=main", "--tip=bot/one"], words].concat();
    at(repo, directory, &words)["verdict"].clone()
}

fn with_bot(repo: &TestRepo) {
    repo.git(["switch", "--quiet", "--force-create", "bot/one", "main"]);
    repo.write("src/gen/made.rs", "2\n");
    repo.write("build/out.o", "2\n");
    repo.commit_all("by a bot");
    repo.git(["switch", "--quiet", "main"]);
}

#[test]
fn the_name_of_a_directory_denies_what_is_below_wherever_it_is_written() {
    let denies = |settings: &[(&str, &str)], words: &[&str]| {
        let repo = repo();
        for (file, text) in settings {
            repo.write(file, text);
        }
        if !settings.is_empty() {
            repo.commit_all("settings");
        }
        let worktree = spawn(&repo, "one", words);
        for path in ["src/gen/made.rs", "src/gen/new/x", "src/gen", "build/out.o", "build"] {
            assert!(!may_change(&worktree, path), "{settings:?} {words:?} {path}");
        }
        assert!(may_change(&worktree, "src/lib.rs") && may_change(&worktree, "builder.rs"));
        repo
    };
    denies(&[], &["--deny=src/gen", "--deny=build"]);
    denies(&[], &["--deny=src/gen/", "--deny=build/**"]);
    let settings = "[defaults]\ndeny = [\"src/gen\", \"build\"]\n";
    let repo = denies(&[(".config/git-agent.toml", settings)], &[]);
    with_bot(&repo);
    assert_eq!(guarded(&repo, "", &["--scope=src", "--scope=build"]), "reject");
    let role = "extends = \"edit-local\"\ndefault_denylist = [\"src/gen\", \"build\"]\n";
    denies(&[("roles/r.toml", role)], &["--role=r"]);
    let repo = self::repo();
    for directory in ["src/gen", "build"] {
        repo.git(["config", "--add", "agent.role.edit-local.denylist", directory]);
    }
    let worktree = spawn(&repo, "one", &[]);
    assert!(!may_change(&worktree, "src/gen/made.rs") && !may_change(&worktree, "build/x"));
    // A file is named as it is written.
    let repo = self::repo();
    spawn(&repo, "file", &["--deny=README.md", "--deny=src/gen"]);
    let denylist = repo.agent_json(&["show", "file"])["denylist"].to_string();
    assert!(denylist.contains("\"README.md\"") && denylist.contains("\"src/gen/**\""));
}

#[test]
fn a_guard_reads_names_of_directories_as_a_spawn_does() {
    let repo = repo();
    with_bot(&repo);
    for denied in ["src/gen", "src/gen/**", "build"] {
        let deny = format!("--deny={denied}");
        assert_eq!(guarded(&repo, "", &[&deny]), "reject", "{denied}");
        let rule = format!("[[guard]]\nbranch = \"bot/*\"\ndeny = [\"{denied}\"]\n");
        repo.write(".config/git-agent.toml", &rule);
        repo.commit_all("a rule");
        assert_eq!(guarded(&repo, "", &[]), "reject", "{denied}");
    }
    let rule = "[[guard]]\nbranch = \"bot/*\"\nscope = [\"src\", \"build/\"]\n";
    repo.write(".config/git-agent.toml", rule);
    repo.commit_all("another rule");
    assert_eq!(guarded(&repo, "", &[]), "accept");
    assert_eq!(guarded(&repo, "", &["--scope=src", "--scope=build/"]), "accept");
    // Relative to where the caller stands.
    assert_eq!(guarded(&repo, "src", &["--deny=gen"]), "reject");
    assert_eq!(guarded(&repo, "src", &["--deny=src/gen"]), "accept");
    assert_eq!(guarded(&repo, "src", &["--scope=.", "--scope=../build/"]), "accept");
    assert_eq!(guarded(&repo, "", &["--scope=."]), "accept");
}

#[test]
fn a_glob_in_advice_is_typed_where_the_caller_stands() {
    let repo = repo();
    let run = |directory: &str, words: &[&str]| {
        let output = agent_command(&repo.path().join(directory)).args(words).output();
        describe(&output.expect("starts"))
    };
    let said = run("src", &["spawn", "do it", "--scope=nope"]);
    assert!(said.contains("pass --new 'nope'"), "{said}");
    let said = run("src", &["spawn", "do it", "--scope=gen/mad.rs"]);
    assert!(said.contains("are gen/made.rs"), "{said}");
    let worktree = spawn(&repo, "one", &["--scope=src"]);
    fs::write(worktree.join("README.md"), "more\n").expect("written");
    let said = run("src", &["verify", "one"]);
    assert!(said.contains("--add-scope ../README.md"), "{said}");
    at(&repo, "src", &["amend", "one", "--add-scope=../README.md"]);
    assert!(may_change(&worktree, "README.md"));
}

#[test]
fn a_glob_of_which_the_denylist_has_all_is_warned_of() {
    let repo = repo();
    repo.write(".env.example", "A=1\n");
    repo.git(["add", "--force", ".env.example"]);
    repo.commit_all("an example");
    let warned = |report: Value| report["warnings"].to_string();
    let words = ["spawn", "do it", "--scope=.env.example", "--name=one"];
    let said = warned(repo.agent_json(&words));
    assert!(said.contains("`**/.env.*` of the denylist has all"), "{said}");
    spawn(&repo, "two", &["--scope=src"]);
    let said = warned(at(&repo, "", &["amend", "two", "--add-scope=.env.example"]));
    assert!(said.contains("`.env.example` allows nothing"), "{said}");
}

#[test]
fn a_glob_that_does_not_match_the_path_of_its_name_is_warned_of() {
    let repo = repo();
    repo.write("src/[id].tsx", "x\n");
    repo.write("src/{x}.tsx", "x\n");
    repo.write("src/[slug]/page.tsx", "x\n");
    repo.commit_all("routes");
    let warned = |report: Value| report["warnings"].to_string();
    for (glob, meant) in [
        ("src/[id].tsx", "src/[[]id].tsx"),
        ("src/{x}.tsx", "src/[{]x[}].tsx"),
        ("src/[slug]/**", "src/[[]slug]"),
    ] {
        let deny = format!("--deny={glob}");
        let said = warned(repo.agent_json(&["spawn", "do it", "--scope=src", &deny]));
        let name = glob.trim_end_matches("/**");
        assert!(said.contains(&format!("`{name}` does not match")), "{said}");
        assert!(said.contains(&format!("write `{meant}`")), "{said}");
        let deny = format!("--deny={meant}");
        let said = warned(repo.agent_json(&["spawn", "do it", "--scope=src", &deny]));
        assert!(!said.contains("does not match"), "{said}");
    }
    spawn(&repo, "two", &["--scope=src"]);
    let said = warned(at(&repo, "", &["amend", "two", "--deny=src/[id].tsx"]));
    assert!(said.contains("write `src/[[]id].tsx`"), "{said}");
}

#[test]
fn an_amendment_reads_globs_as_a_spawn_does() {
    let repo = repo();
    let worktree = spawn(&repo, "one", &["--scope=README.md"]);
    let amend = |directory: &str, words: &[&str]| {
        at(&repo, directory, &[&["amend", "one"], words].concat())
    };
    assert_eq!(amend("src", &["--scope=gen"])["whitelist"], json!(["src/gen/**"]));
    let both = json!(["src/gen/**", "README.md"]);
    assert_eq!(amend("src", &["--add-scope=../README.md"])["whitelist"], both);
    let report = amend("app/[id]", &["--scope=gen"]);
    assert_eq!(report["whitelist"], json!(["app/[[]id]/gen/**"]));
    assert_eq!(amend("", &["--scope=."])["whitelist"], json!(["**"]));
    amend("src", &["--deny=gen"]);
    assert!(!may_change(&worktree, "src/gen/made.rs"));
    assert!(may_change(&worktree, "gen/top.txt"));
    amend("", &["--deny=build"]);
    assert!(!may_change(&worktree, "build/x") && may_change(&worktree, "src/gen/made.rs"));
    // What the agent made can be named, committed or not; what is to be made has to be said to be new.
    fs::create_dir_all(worktree.join("made")).expect("made");
    fs::write(worktree.join("made/here.md"), "x").expect("written");
    assert_eq!(amend("", &["--scope=made"])["whitelist"], json!(["made/**"]));
    let report = amend("src", &["--scope=lib.rs", "--new=later.rs"]);
    let expected = json!(["src/lib.rs", "src/later.rs", "src/later.rs/**"]);
    assert_eq!(report["whitelist"], expected);
    let refused = repo.agent(&["amend", "one", "--scope=nosuch"]);
    let said = describe(&refused);
    assert!(refused.status.code() == Some(2) && said.contains("scope-unmatched"), "{said}");
}
