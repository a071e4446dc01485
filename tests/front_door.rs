//! The front door: tasks without a file, settings of a repository, and what leads a newcomer on.

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in, isolated};
use serde_json::Value;
use std::process::Output;

const TEXT: &str = "Add a second function to the library and test it.";

fn settings(repo: &TestRepo, text: &str) {
    repo.write(".config/git-agent.toml", text);
    repo.commit_all("settings");
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", describe(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_task_without_a_file_is_the_task_of_the_file_that_says_so() {
    let repo = TestRepo::with_commit();
    let file = "role = \"edit-local\"\ntask = \"Add a second function to the library and test it.\"\n\
                [scope]\nwhitelist = [\"src/**\"]\ndenylist = [\"src/bin/**\"]\n[checks]\ncommands = [\"true\"]\n";
    let from_file = repo.spawn_task(file, &[]);
    let from_words = repo.agent_json(&[
        "spawn",
        "-m",
        TEXT,
        "--scope",
        "src/**",
        "--deny",
        "src/bin/**",
        "--check",
        "true",
    ]);
    let id = from_words["agent_id"].as_str().expect("an id");
    for key in ["dna", "role", "description", "isolation", "subagent_type"] {
        assert_eq!(from_file[key], from_words[key], "{key}");
    }
    let shown = repo.agent_json(&["show", id]);
    assert_eq!(shown["checks"], serde_json::json!(["true"]));
    // The prompt is made of the task again when it runs, so the role is known though nothing named it.
    let ran = repo.agent(&["run", id, "--no-verify", "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
}

#[test]
fn a_task_without_a_file_obeys_the_rules_of_a_file() {
    let repo = TestRepo::with_commit();
    for (glob, rule) in [
        ("/etc/**", "is absolute"),
        ("../x", "has a `..` part"),
        ("!src", "starts with `!`"),
        ("src,docs", "has a `,` between globs"),
    ] {
        let text = refused(&repo.agent(&["spawn", "-m", TEXT, "--scope", glob]), 2);
        assert!(text.contains("<command line>"), "{text}");
        assert!(text.contains(rule), "{rule} in\n{text}");
    }
    let secret = format!("log in with {}", ["ghp_", &"a1B2".repeat(9)].concat());
    refused(&repo.agent(&["spawn", "-m", &secret]), 2);
    refused(&repo.agent(&["spawn", "-m", " "]), 2);
    refused(&repo.agent(&["spawn", "--scope", "src/**"]), 2);
    assert_eq!(repo.git(["branch", "--list", "agent/*"]), "");
}

#[test]
fn the_settings_of_the_base_commit_fill_what_a_task_leaves_out() {
    let repo = TestRepo::with_commit();
    settings(
        &repo,
        "[defaults]\nrole = \"edit-shared\"\nscope = [\"src/**\"]\ndeny = [\"src/bin/**\"]\ntimeout = \"10m\"\n\
         [bundle]\nrequired = false\n[checks]\ncommands = [\"true\"]\n[setup]\nrun = [\"touch made\"]\n",
    );
    // What is not committed does not count.
    repo.write(".config/git-agent.toml", "[defaults]\nrole = \"read-only\"\n");
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--check", "ls", "--deny", "src/lib.rs"]);
    assert_eq!(agent["role"], "edit-shared");
    let id = agent["agent_id"].as_str().expect("an id");
    let shown = repo.agent_json(&["show", id]);
    assert_eq!(shown["whitelist"], serde_json::json!(["src/**"]));
    assert_eq!(shown["checks"], serde_json::json!(["true", "ls"]));
    let denied = shown["denylist"].as_array().expect("a list");
    for glob in ["src/bin/**", "src/lib.rs", "secrets/**"] {
        assert!(denied.contains(&Value::from(glob)), "{glob} in {denied:?}");
    }
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    assert!(std::path::Path::new(worktree).join("made").exists());
    let plan = repo.agent(&["run", id, "--dry-run", "--format=json", "--", "true"]);
    let plan: Value = serde_json::from_slice(&plan.stdout).expect("JSON");
    assert_eq!(plan["timeout_ms"], 600_000, "{plan}");
    // A task's own value wins.
    let own = repo.spawn_task(
        "role = \"edit-local\"\ntask = \"Add a second function to the library and test it.\"\n[scope]\nwhitelist = [\"README.md\"]\n\
         [setup]\nrun = [\"touch other\"]\n",
        &[],
    );
    assert_eq!(own["role"], "edit-local");
    let worktree = own["worktree_abspath"].as_str().expect("a path");
    assert!(!std::path::Path::new(worktree).join("made").exists());
}

#[test]
fn the_base_of_the_settings_is_where_an_agent_starts() {
    let repo = TestRepo::with_commit();
    repo.git(["branch", "release"]);
    let start = repo.git(["rev-parse", "HEAD"]);
    settings(&repo, "[defaults]\nbase = \"release\"\n");
    let words = ["spawn", "-m", TEXT, "--scope", "src/**"];
    let agent = repo.agent_json(&words);
    assert_eq!(agent["base"]["oid"], start.as_str());
    assert_eq!(agent["base"]["ref"], "refs/heads/release");
    let mut named = words.to_vec();
    named.extend(["--base", "main"]);
    assert_eq!(repo.agent_json(&named)["base"]["ref"], "refs/heads/main");
    // One that is not there is no reason to begin, and to land, anywhere else.
    repo.git(["branch", "--quiet", "-D", "release"]);
    let file = repo.task_file(TASK);
    for words in [&words[..], &["spawn", &file]] {
        let said = refused(&repo.agent(words), 2);
        assert!(said.contains("base-not-commit") && said.contains("`defaults.base`"), "{said}");
    }
    repo.agent_json(&named);
}

#[test]
fn every_mistake_in_the_settings_is_told_with_its_line() {
    let repo = TestRepo::with_commit();
    settings(
        &repo,
        "[defaults]\nrole = \"edit-locl\"\nscop = [\"src/**\"]\ndeny = [\"../x\"]\n[merge]\nmethod = \"rebase\"\nsubject = \"{who}\"\n[pond]\nsize = 3\n",
    );
    let text = refused(&repo.agent(&["spawn", "-m", TEXT, "--scope", "src/**"]), 2);
    assert!(text.starts_with("error[settings-invalid]"), "{text}");
    for line in [2, 3, 4, 6, 7, 8] {
        let place = format!(".config/git-agent.toml:{line}:");
        assert!(text.contains(&place), "{place} in\n{text}");
    }
    for way_on in ["git commit -m", "git agent spawn --base <revision>"] {
        assert!(text.contains(way_on), "{text}");
    }
    refused(&repo.agent(&["config"]), 2);
}

#[test]
fn a_setup_command_of_the_settings_that_fails_is_told_with_its_line_and_the_way_on() {
    let repo = TestRepo::with_commit();
    settings(&repo, "[bundle]\nrequired = false\n\n[setup]\nrun = [\"exit 7\"]\n");
    for layered in ["--layered=off", "--layered=auto"] {
        let text = refused(&repo.agent(&["spawn", "-m", TEXT, "--scope", "src/**", layered]), 4);
        assert!(text.starts_with("error[setup-failed]"), "{text}");
        let parts = ["git-agent.toml:5", "git commit -m", "git agent spawn --base <revision>"];
        for part in parts {
            assert!(text.contains(part), "{part} in {layered} {text}");
        }
    }
    let output = repo.agent(&["spawn", "-m", TEXT, "--scope", "src/**", "--base", "HEAD~1"]);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn u6_the_repository_says_how_work_lands_and_under_which_subject() {
    let repo = TestRepo::with_commit();
    settings(
        &repo,
        "[bundle]\nrequired = false\n[merge]\nmethod = \"squash\"\nsubject = \"{role}: {summary} [{name}]\"\n",
    );
    let before = repo.git(["rev-list", "--count", "main"]);
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**", "--name", "two"]);
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/src/two.rs"), "pub fn two() {}\n").expect("written");
    repo.agent_json(&["done", "two", "-m", "add two"]);
    repo.agent_json(&["merge", "two"]);
    assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "edit-local: add two [two]");
    let after: usize = repo.git(["rev-list", "--count", "main"]).parse().expect("a number");
    assert_eq!(after, before.parse::<usize>().expect("a number") + 1);
    // The clone's configuration and the command line win.
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**", "--name", "three"]);
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/src/three.rs"), "pub fn three() {}\n").expect("written");
    repo.git(["config", "agent.merge", "no-ff"]);
    repo.agent_json(&["merge", "three", "-m", "feat: three"]);
    assert_eq!(repo.git(["log", "-1", "--format=%s", "main"]), "feat: three");
    assert_eq!(repo.git(["log", "-1", "--format=%P", "main"]).split(' ').count(), 2);
}

#[test]
fn config_lists_every_setting_and_where_it_comes_from() {
    let repo = TestRepo::with_commit();
    settings(&repo, "[defaults]\ntimeout = \"10m\"\n\n[checks]\ncommands = [\"true\"]\n");
    repo.git(["config", "agent.merge", "squash"]);
    repo.git(["config", "--add", "agent.run.allowWrite", "/tmp/a"]);
    repo.git(["config", "--add", "agent.run.allowWrite", "/tmp/b"]);
    repo.git(["config", "agent.role.explorer.subagentType", "Explore"]);
    let answer = repo.agent_json(&["config"]);
    let settings = answer["settings"].as_array().expect("a list");
    let find = |key: &str| {
        let found = settings.iter().find(|one| one["key"] == key);
        found.unwrap_or_else(|| panic!("{key} in {settings:#?}"))
    };
    let timeout = find("defaults.timeout");
    assert_eq!(timeout["value"], "10m");
    assert_eq!(timeout["source"], ".config/git-agent.toml:2");
    assert_eq!(find("checks.commands")["source"], ".config/git-agent.toml:5");
    assert_eq!(find("agent.merge")["value"], "squash");
    assert_eq!(find("agent.merge")["source"], "git-config");
    let places = serde_json::json!(["/tmp/a", "/tmp/b"]);
    assert_eq!(find("agent.run.allowWrite")["value"], places);
    assert_eq!(find("agent.role.explorer.subagenttype")["value"], "Explore");
    assert_eq!(find("defaults.role")["source"], "default");
    assert_eq!(find("defaults.role").get("value"), None);
    assert_eq!(answer["has_uncommitted"], false);
    repo.write(".config/git-agent.toml", "");
    assert_eq!(repo.agent_json(&["config"])["has_uncommitted"], true);
    std::fs::remove_file(repo.path().join(".config/git-agent.toml")).expect("removed");
    assert_eq!(repo.agent_json(&["config"])["has_uncommitted"], false);
}

#[test]
fn a_bundle_starts_as_templates_that_are_found_until_they_are_replaced() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    let bundle =
        std::path::Path::new(agent["worktree_abspath"].as_str().expect("a path")).join(".agent");
    let judged: Value =
        serde_json::from_slice(&repo.agent(&["verify", id, "--format=json"]).stdout).expect("JSON");
    let findings = judged["findings"].as_array().expect("a list");
    let paths: Vec<_> = findings
        .iter()
        .filter(|one| one["code"] == "bundle.template")
        .map(|one| one["path"].as_str())
        .collect();
    let expected = ["plan.md", "progress.json", "chatlog.md", "handoffs.md", "review.md"];
    let expected: Vec<_> = expected.iter().map(|name| format!(".agent/{name}")).collect();
    assert_eq!(paths, expected.iter().map(|path| Some(path.as_str())).collect::<Vec<_>>());
    let output = repo.agent(&["bundle", id]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("1 of 6 files"), "{text}");
    for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
        std::fs::write(bundle.join(name), "none\n").expect("written");
    }
    let answer: Value =
        serde_json::from_slice(&repo.agent(&["bundle", id, "--format=json"]).stdout).expect("JSON");
    let left = answer["files"].as_array().expect("a list").iter();
    let left: Vec<_> =
        left.filter(|file| file.get("code").is_some()).map(|file| file["name"].as_str()).collect();
    assert_eq!(left, [Some("progress.json")]);
    std::fs::remove_file(bundle.join("plan.md")).expect("removed");
    std::fs::write(bundle.join("progress.json"), "{\"status\": \"done\"}").expect("written");
    // An agent asks about itself without a name.
    let output = crate::support::agent::agent_command(bundle.parent().expect("the worktree"))
        .arg("bundle")
        .output()
        .expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("missing      plan.md"),
        "{}",
        describe(&output)
    );
    std::fs::write(bundle.join("plan.md"), "none\n").expect("written");
    assert_eq!(repo.agent_json(&["bundle", id])["complete"], true);
}

#[test]
fn a_bundle_that_is_not_required_has_no_templates() {
    let repo = TestRepo::with_commit();
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**", "--no-bundle"]);
    let id = agent["agent_id"].as_str().expect("an id");
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    let names = std::fs::read_dir(format!("{worktree}/.agent")).expect("a directory");
    let names: Vec<_> = names.map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(names, ["spec.md"]);
    assert_eq!(repo.agent_json(&["bundle", id])["required"], false);
}

#[test]
fn options_of_a_task_without_a_file_are_refused_beside_a_file() {
    let repo = TestRepo::with_commit();
    for option in ["--no-bundle", "--role=read-only", "--scope=*", "--new=x", "--check=true"] {
        let text = refused(&repo.agent(&["spawn", "task.toml", option]), 2);
        assert!(text.contains("task.toml is none"), "{text}");
        let text = refused(&repo.agent(&["run", "0123abcd", option, "--", "true"]), 2);
        assert!(text.contains("0123abcd is none"), "{text}");
    }
}

#[test]
fn help_shows_a_newcomer_at_most_sixteen_verbs_and_every_verb_on_request() {
    let repo = TestRepo::with_commit();
    let short = String::from_utf8(repo.agent(&["-h"]).stdout).expect("UTF-8");
    let (_, list) = short.split_once("start:\n").expect("the first group");
    let (list, _) = list.split_once("\nOptions:").expect("the end of the groups");
    let names: Vec<_> = list
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.trim().split(' ').next())
        .collect();
    assert!(names.len() <= 16, "{names:?}");
    let titles: Vec<_> = list.lines().filter(|line| line.ends_with(':')).collect();
    assert_eq!(titles, ["look:", "land:", "talk:", "clean:", "set up:"]);
    assert!(short.contains("git agent help --all"), "{short}");
    let all = crate::support::agent::verbs();
    assert!(names.iter().all(|name| all.iter().any(|verb| verb == name)), "{all:?}");
    let internal = ["sweep", "supervise", "supervisor", "launch", "fenced", "complete"];
    assert!(!all.iter().any(|verb| internal.contains(&verb.as_str())), "{all:?}");
    assert!(short.lines().all(|line| line.chars().count() <= 102), "{short}");
    // What stands under a heading belongs there.
    let spawn = repo.agent(&["help", "spawn"]);
    let spawn = String::from_utf8_lossy(&spawn.stdout).into_owned();
    let (every_task, of_text) = spawn.split_once("A task without a file:").expect("a heading");
    assert!(every_task.contains("--sparse") && of_text.contains("--scope"), "{spawn}");
    assert!(!of_text.contains("--base"), "{spawn}");
    let unknown = repo.agent(&["help", "bogus"]);
    assert!(refused(&unknown, 2).contains("git agent help --all"));
}

#[test]
fn u17_words_of_other_tools_lead_to_the_verb() {
    let repo = TestRepo::with_commit();
    for (word, verb) in [
        ("create", "git agent spawn"),
        ("add", "git agent spawn"),
        ("abort", "git agent stop"),
        ("prune", "git agent gc"),
        ("clean", "git agent gc"),
        ("shell", "git agent enter"),
        ("exec", "git agent run"),
        ("version", "git agent --version"),
    ] {
        let text = refused(&repo.agent(&[word]), 2);
        assert!(text.contains(verb), "{word}: {text}");
    }
}

#[test]
fn words_of_other_tools_that_mean_a_verb_are_that_verb() {
    let repo = TestRepo::with_commit();
    for word in ["new", "start"] {
        let agent = repo.agent_json(&[word, "fix the typo"]);
        assert_eq!(agent["schema"], "git-agent.spawn/2", "{word}");
    }
    for word in ["ls", "status"] {
        let list = repo.agent_json(&[word]);
        assert_eq!(list["agents"].as_array().map(Vec::len), Some(2), "{word}");
    }
    let agent = repo.agent_json(&["spawn", "another one", "--name=third"]);
    let shown = in_worktree(&agent, &["status", "--format=json"]);
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    assert_eq!(shown["agent_id"], agent["agent_id"]);
    let text = refused(&repo.agent(&["land", "third", "--dry-run"]), 1);
    assert!(text.contains("changed nothing"), "{text}");
    for (word, name) in [("rm", "fourth"), ("remove", "fifth"), ("delete", "sixth")] {
        repo.agent_json(&["spawn", "another one", "--name", name]);
        repo.agent_json(&[word, name]);
        assert_eq!(repo.agent_json(&["show", name])["state"], "discarded");
    }
    for word in ["switch", "cd", "open"] {
        let text = refused(&repo.agent(&[word, "third"]), 2);
        assert!(text.contains("`enter` requires a terminal"), "{text}");
    }
}

/// Verbs that are options of another one keep their old names, and both spellings give the same answer.
#[test]
fn a_verb_that_was_folded_into_another_answers_under_both_names() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", "do it", "--name=worker"]);
    let run = repo.agent(&["run", "worker", "--no-verify", "--", "echo", "output"]);
    assert!(run.status.success(), "{}", describe(&run));
    for (old, new) in [
        (&["ps"][..], &["list", "--runs"][..]),
        (&["log", "worker"], &["show", "worker", "--log"]),
        (&["logs", "worker"], &["show", "worker", "--output"]),
        (&["logs", "worker", "--run=1"], &["show", "worker", "--run=1"]),
        (&["ledger", "verify"], &["doctor", "ledger", "verify"]),
        (&["hooks", "status"], &["doctor", "hooks", "status"]),
        (&["config"], &["setup", "config"]),
        (&["pool"], &["setup", "pool"]),
        (&["install-shell", "--dry-run"], &["setup", "shell", "--dry-run"]),
        (&["log", "worker", "--format=otlp"], &["show", "worker", "--log", "--format=otlp"]),
    ] {
        for format in ["text", "json"] {
            // Before the verb, where its value is a word of its own.
            let call = |words: &[&str]| repo.agent(&[&["--format", format], words].concat());
            let (old, new) = (call(old), call(new));
            assert_eq!(describe(&old), describe(&new), "{new:?}");
            assert!(new.status.success() && !new.stdout.is_empty() || format == "text");
        }
    }
    for (word, text) in
        [("fail", "failed"), ("done", "done"), ("defer", "deferred"), ("reject", "rejected")]
    {
        let report = repo.agent_json(&["mark", word, "worker", "-m", "because"]);
        let shown = repo.agent(&["show", "worker"]);
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let state = shown.lines().find(|line| line.starts_with("State:"));
        assert!(state.is_some_and(|state| state.contains(text)), "{word}: {shown}");
        assert_eq!(report["schema"], "git-agent.move/3", "{word}");
    }
    let all = crate::support::agent::verbs();
    for word in [
        "ps",
        "log",
        "logs",
        "done",
        "fail",
        "reject",
        "defer",
        "ledger",
        "hooks",
        "config",
        "pool",
        "install-shell",
    ] {
        assert!(!all.iter().any(|verb| verb == word), "{all:?}");
    }
    // Help and usage errors of another tool's word are those of the verb.
    let help = |word: &str| describe(&repo.agent(&["help", word]));
    assert_eq!(help("rm"), help("discard"));
    let text = refused(&repo.agent(&["--format", "text", "rm", "--bogus"]), 2);
    assert!(text.contains("git agent discard -h"), "{text}");
    let text = refused(&repo.agent(&["--format", "text", "create"]), 2);
    assert!(text.contains("git agent spawn"), "{text}");
}

#[test]
fn one_line_makes_an_agent_without_any_setting() {
    let repo = TestRepo::with_commit();
    repo.write("packages/a/src/index.ts", "1\n");
    repo.write(".github/workflows/ci.yml", "on: push\n");
    repo.write("dir [x]/file", "1\n");
    repo.commit_all("more files");
    // Hooks in the git directory are no files of the repository.
    repo.git(["config", "core.hooksPath", ".git/hooks"]);
    let output = repo.agent(&["spawn", "fix the README typo", "--name=typo"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(text.starts_with("agent typo ("), "{text}");
    let kept_out = "control files, such as .github/workflows/ci.yml, unless a --scope names them";
    assert!(text.contains(kept_out), "{text}");
    // Nothing is to be said of a scope that names what it means.
    for scope in [&["--scope=src"][..], &["--scope=.", "--scope=.github"]] {
        let output = repo.agent(&[&["spawn", "fix it"], scope].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text.lines().count(), 2, "{text}");
    }
    assert!(text.contains("next: git agent run typo --host "), "{text}");
    // It may change everything but what other people's programs act on, and needs no bundle to land.
    let path = repo.agent(&["path", "typo"]);
    let worktree = std::path::PathBuf::from(String::from_utf8_lossy(&path.stdout).trim());
    std::fs::write(worktree.join(".github/workflows/ci.yml"), "on: never\n").expect("write");
    let judged = repo.agent(&["verify", "typo", "--format=json"]);
    let judged: Value = serde_json::from_slice(&judged.stdout).expect("JSON");
    assert_eq!(judged["verdict"], "reject");
    assert_eq!(judged["findings"][0]["code"], "scope.denylist", "{judged}");
    std::fs::write(worktree.join(".github/workflows/ci.yml"), "on: push\n").expect("write");
    std::fs::write(worktree.join("README.md"), "# Text\n").expect("write");
    repo.agent_json(&["merge", "typo"]);
    assert_eq!(repo.git(["show", "HEAD:README.md"]), "# Text");

    let whitelist = |words: &[&str], directory: &str| -> Vec<String> {
        let mut command = agent_command(&repo.path().join(directory));
        command.args(words).arg("--format=json");
        let output = command.output().expect("starts");
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", describe(&output)));
        let shown = repo.agent_json(&["show", report["agent_id"].as_str().expect("an id")]);
        serde_json::from_value(shown["whitelist"].clone()).expect("globs")
    };
    assert_eq!(whitelist(&["spawn", "do it", "--scope", "src"], ""), ["src/**"]);
    assert_eq!(whitelist(&["spawn", "do it", "--scope", "."], "packages/a"), ["packages/a/**"]);
    assert_eq!(
        whitelist(&["spawn", "do it", "--scope", "../a/src/*.ts"], "packages/a"),
        ["packages/a/src/*.ts"]
    );
    assert_eq!(whitelist(&["spawn", "do it", "--scope", "file"], "dir [x]"), ["dir [[]x]/file"]);
    assert_eq!(
        whitelist(&["spawn", "do it", "--new", "docs/new.md"], ""),
        ["docs/new.md", "docs/new.md/**"]
    );
    assert_eq!(whitelist(&["spawn", "do it", "--scope", "."], ""), ["**"]);

    let slip = refused(&repo.agent(&["spawn", "do it", "--scope", "scr/lib.rs"]), 2);
    assert!(
        slip.contains("scope-unmatched") && slip.contains("src/lib.rs") && slip.contains("--new"),
        "{slip}"
    );
}

#[test]
fn a_settings_file_that_is_not_committed_is_named_where_it_would_have_counted() {
    let repo = TestRepo::with_commit();
    let warns = |words: &[&str]| {
        let output = repo.agent(words);
        String::from_utf8_lossy(&output.stderr).contains("so they do not count")
    };
    assert!(!warns(&["spawn", "do it", "--name=one"]));
    repo.write(".config/git-agent.toml", "[merge]\nmethod = \"squash\"\n");
    for words in
        [&["spawn", "do it", "--name=two"][..], &["merge", "one"], &["train", "one"], &["pool"]]
    {
        assert!(warns(words), "{words:?}");
    }
    repo.commit_all("settings");
    assert!(!warns(&["spawn", "do it", "--name=three"]));
    // The one at an older base was not forgotten: it is older.
    assert!(!warns(&["spawn", "do it", "--name=four", "--base=HEAD~1"]));
}

#[test]
fn one_line_runs_a_command_on_a_typed_task() {
    let repo = TestRepo::with_commit();
    let ran = repo.agent(&[
        "run",
        "--format=json",
        "say hello",
        "--scope=README.md",
        "--",
        "sh",
        "-c",
        "echo hello >>README.md",
    ]);
    let report: Value =
        serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", describe(&ran)));
    assert_eq!(report["verdict"], "accept", "{report}");
    let id = report["agent_id"].as_str().expect("an id");
    assert_eq!(repo.agent_json(&["show", id])["whitelist"], serde_json::json!(["README.md"]));
    // A host takes as long as it takes; a command has a limit.
    assert_eq!(report["timeout_ms"], 300_000);
    let plan = repo.agent_json(&["run", id, "--dry-run", "--host=claude"]);
    assert_eq!(plan.get("timeout_ms"), None, "{plan}");
}

#[test]
fn an_agent_of_a_typed_task_goes_all_the_way() {
    let repo = TestRepo::with_commit();
    let spawned = repo.agent(&["spawn", "add a file", "--name=first"]);
    assert!(spawned.status.success(), "{}", describe(&spawned));
    repo.agent_json(&["show", "first", "--invocation"]);
    for (number, name) in ["one", "two"].iter().enumerate() {
        let script = format!("echo {name} > src/{name}.rs");
        let ran = repo.agent(&["run", "first", "--", "sh", "-c", &script]);
        assert!(ran.status.success(), "{}", describe(&ran));
        let merged = repo.agent_json(&["merge", "first"]);
        assert_eq!(merged["items"][0]["error"], Value::Null, "{merged}");
        let landed = repo.git(["show", &format!("main:src/{name}.rs")]);
        assert_eq!(landed, *name, "landing {number}");
    }
    repo.agent_json(&["retry", "first"]);
}

fn in_worktree(agent: &Value, arguments: &[&str]) -> Output {
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    let mut command = crate::support::agent::agent_command(std::path::Path::new(worktree));
    command.args(arguments).output().expect("git-agent starts")
}

#[test]
fn several_agents_are_one_answer_in_the_order_they_were_named() {
    let repo = TestRepo::with_commit();
    let spawn = || repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**"])["agent_id"].clone();
    let (one, two, three) = (spawn(), spawn(), spawn());
    let [one, two, three] = [&one, &two, &three].map(|id| id.as_str().expect("an id"));
    repo.agent_json(&["fail", one, "-m", "no"]);
    repo.agent_json(&["fail", three, "-m", "no"]);
    let output = repo.agent(&["reject", one, two, "--reason=not needed", "--format=json"]);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(output.stderr.is_empty(), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!((&answer["succeeded"], &answer["failed"]), (&1.into(), &1.into()));
    let items = answer["items"].as_array().expect("a list");
    assert_eq!(items[0]["target"], one);
    assert_eq!(items[0]["state"], "rejected");
    assert_eq!(items[1]["target"], two);
    assert_eq!(items[1]["error"]["code"], "agent-state");
    let answer = repo.agent_json(&["reject", "--state=failed"]);
    assert_eq!(answer["items"][0]["target"], three);
    let answer = repo.agent_json(&["discard", "--state=rejected", "--dry-run"]);
    assert_eq!(answer["items"].as_array().expect("a list").len(), 2);
    assert_eq!(repo.agent_json(&["show", one])["state"], "rejected");
    let answer = repo.agent_json(&["discard", three, one]);
    assert_eq!(answer["items"][0]["target"], three);
    assert_eq!(repo.agent_json(&["show", one])["state"], "discarded");
    let none = repo.agent(&["discard", "--state=rejected"]);
    assert!(none.status.success(), "{}", describe(&none));
    assert_eq!(String::from_utf8_lossy(&none.stdout), "(no agents)\n");
    refused(&repo.agent(&["discard", one, "--state=rejected"]), 2);
}

#[test]
fn a_glob_that_allows_nothing_is_named_with_the_reason() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(
        "role = \"edit-local\"\ntask = \"Add a second function to the library.\"\n\
         [scope]\nwhitelist = [\"src\", \"target/**\", \"new.rs\"]\n",
    );
    let planned = repo.agent_json(&["spawn", &task, "--dry-run"]);
    assert_eq!(
        planned["warnings"],
        serde_json::json!([
            "the glob `target/**` allows nothing: the denylist has all that it matches",
            "the glob `new.rs` matches no tracked path"
        ])
    );
}

#[test]
fn u17_a_verb_without_an_argument_means_the_agent_whose_worktree_this_is() {
    let repo = TestRepo::with_commit();
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**", "--no-bundle"]);
    let worktree = agent["worktree_abspath"].as_str().expect("a path").to_owned();
    std::fs::write(format!("{worktree}/src/two.rs"), "pub fn two() {}\n").expect("written");
    for arguments in [&["diff"][..], &["show"], &["verify"], &["done"]] {
        let output = in_worktree(&agent, arguments);
        assert!(output.status.success(), "{arguments:?} {}", describe(&output));
    }
    for verb in [
        "show", "diff", "stop", "verify", "bundle", "merge", "train", "discard", "rescue",
        "update", "retry", "pr",
    ] {
        let text = refused(&repo.agent(&[verb]), 2);
        assert!(text.contains("no agent is named"), "{verb}: {text}");
    }
}

#[test]
fn the_prompt_ends_with_the_whole_text_of_the_tool() {
    let repo = TestRepo::with_commit();
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**"]);
    let prompt = std::fs::read_to_string(agent["prompt_path"].as_str().expect("a path"));
    let prompt = prompt.expect("readable");
    for sentence in [
        "After receiving the result, write one sentence: what you learned and what you will do next.",
        "Complete ALL your assigned work before writing your final response.",
        "Complete ALL assigned work before responding. Your output is final.",
    ] {
        assert!(prompt.contains(sentence), "{sentence} in\n{prompt}");
    }
}

#[test]
fn a_retry_is_the_same_task_on_the_current_base() {
    let repo = TestRepo::with_commit();
    let first = repo.agent_json(&[
        "spawn",
        "-m",
        TEXT,
        "--scope",
        "src/**",
        "--no-bundle",
        "--name",
        "two",
    ]);
    let id = first["agent_id"].as_str().expect("an id");
    let text = refused(&repo.agent(&["retry", id]), 3);
    assert!(text.contains("ready"), "{text}");
    repo.agent_json(&["fail", id, "-m", "no"]);
    repo.agent_json(&["reject", id]);
    repo.write("more.md", "more\n");
    let head = repo.commit_all("more");
    let planned = repo.agent_json(&["retry", id, "--dry-run"]);
    let second = repo.agent_json(&["retry", id]);
    assert_eq!(planned["schema"], "git-agent.spawn-plan/1");
    for key in ["dna", "role", "name"] {
        assert_eq!(first[key], second[key], "{key}");
        assert_eq!(first[key], planned[key], "{key}");
    }
    assert_ne!(first["agent_id"], second["agent_id"]);
    assert_eq!(second["base"]["oid"], head.as_str());
    assert_eq!(repo.agent_json(&["show", id])["state"], "rejected");
    repo.agent_json(&["discard", id]);
    let third = repo.agent_json(&["retry", id]);
    assert!(third["warnings"].to_string().contains("--isolation"), "{third}");
    // The task that a retry runs is the one that it was given.
    let third = third["agent_id"].as_str().expect("an id");
    let ran = repo.agent(&["run", third, "--no-verify", "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
}

#[test]
fn u17_a_verdict_is_a_sentence() {
    let repo = TestRepo::with_commit();
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**", "--no-bundle"]);
    let id = agent["agent_id"].as_str().expect("an id");
    let worktree = agent["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/src/two.rs"), "pub fn two() {}\n").expect("written");
    let said = |arguments: &[&str]| String::from_utf8(repo.agent(arguments).stdout).expect("UTF-8");
    let text = said(&["verify", id]);
    let end = "can be merged into main (fast-forward, 1 commit, 1 file not yet committed)\n";
    assert!(text.starts_with("accepted: ") && text.ends_with(end), "{text}");
    std::fs::write(format!("{worktree}/README.md"), "more\n").expect("written");
    let text = said(&["verify", id]);
    assert!(text.starts_with("rejected: "), "{text}");
    assert!(text.contains("cannot be merged into main (fast-forward, 1 commit, 2 files"), "{text}");
    // Looked at from outside, an agent is judged by all that it changed.
    assert_eq!(repo.agent(&["check", id]).status.code(), Some(1));
    assert_eq!(repo.agent(&["check", id, "--staged"]).status.code(), Some(0));
}

#[test]
fn u17_a_dry_run_speaks_in_the_conditional() {
    let repo = TestRepo::with_commit();
    let text = |arguments: &[&str]| String::from_utf8(repo.agent(arguments).stdout).expect("UTF-8");
    let planned = text(&["init", "--host=claude", "--notes", "--dry-run"]);
    assert!(planned.lines().count() > 1, "{planned}");
    let is_fine = |line: &str| line.starts_with(' ') || line.starts_with("would be ");
    assert!(planned.lines().all(is_fine), "{planned}");
    assert!(!text(&["init", "--host=claude"]).contains("would"));
}

#[test]
fn u5_one_documented_line_hides_what_is_ours_from_gits_log() {
    let repo = TestRepo::with_commit();
    let before = repo.git(["log", "--format=%H", "--all"]);
    let agent = repo.agent_json(&["spawn", "-m", TEXT, "--scope", "src/**", "--no-bundle"]);
    let id = agent["agent_id"].as_str().expect("an id");
    repo.agent_json(&[
        "send",
        "--from",
        id,
        "--to=b",
        "--type=notify",
        "--payload",
        "message=hello",
    ]);
    repo.agent_json(&["fail", id, "--reason=no"]);
    assert_ne!(repo.git(["log", "--format=%H", "--all"]), before);
    let page = include_str!("../docs/concepts.md");
    let line = page.lines().find_map(|line| line.strip_prefix("git log --graph --oneline "));
    let words: Vec<String> = line
        .expect("the line is documented")
        .split(' ')
        .map(|word| word.replace('\'', ""))
        .collect();
    let mut shown = vec!["log", "--format=%H"];
    shown.extend(words.iter().map(String::as_str));
    assert_eq!(repo.git(&shown), before);
}

#[test]
fn init_proposes_what_the_repository_asks_for_and_writes_it_on_a_yes() {
    let repo = TestRepo::with_commit();
    repo.write(
        "package.json",
        r#"{"scripts": {"test": "vitest run"}, "devDependencies": {"vitest": "3"}}"#,
    );
    repo.write("package-lock.json", "{}\n");
    repo.commit_all("a package");
    let shown = repo.agent_json(&["init"]);
    let values = |shown: &Value| -> Vec<String> {
        let parts = shown["proposal"]["parts"].as_array().expect("parts");
        parts.iter().map(|part| part["value"].as_str().expect("a value").to_owned()).collect()
    };
    assert_eq!(values(&shown), ["npm ci", "npm test", "../{repo}.agents/{id}"]);
    assert_eq!(shown["proposal"]["is_written"], false);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    let written = repo.agent_json(&["init", "--yes"]);
    assert_eq!(written["proposal"]["is_written"], true);
    assert_eq!(repo.git(["config", "agent.worktreeDir"]), "../{repo}.agents/{id}");
    repo.commit_all("settings");
    // The next command takes the settings as they are, and the next init has nothing to propose.
    let planned = repo.agent_json(&["spawn", "do it", "--dry-run"]);
    let place = planned["worktree_abspath"].as_str().expect("a place");
    assert!(!std::path::Path::new(place).starts_with(repo.path()), "{place}");
    let listed = repo.agent_json(&["config"]).to_string();
    assert!(listed.contains("npm ci") && listed.contains("npm test"), "{listed}");
    for again in [&["init"][..], &["init", "--yes"]] {
        let output = repo.agent(again);
        let text = describe(&output);
        assert!(output.status.success() && text.contains("is there already"), "{text}");
    }
    // A host that is installed is named; nothing is written, and nothing asked.
    let bin = repo.path().with_file_name("bin");
    std::fs::create_dir(&bin).expect("made");
    std::fs::write(bin.join("claude"), "").expect("written");
    let search = std::env::var("PATH").expect("a search path");
    let mut init = agent_command(&repo.path());
    init.args(["init"]).env("PATH", format!("{}:{search}", bin.display()));
    let output = init.output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && text.starts_with("run git agent init --host claude\n"),
        "{text}"
    );
    assert!(!text.contains("--yes"), "{text}");
}

#[test]
fn an_agent_is_meant_by_its_name_and_not_a_file_that_has_it() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", TEXT, "--name=README.md"]);
    let output = repo.agent(&["run", "README.md", "--", "true"]);
    assert!(output.status.success(), "{}", describe(&output));
    let output = repo.agent(&["status", "README.md"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("Agent ID:"), "{text}");
    // Where only the worktree is gone, what makes it again is named.
    let place = repo.agent_json(&["show", "README.md"])["worktree_abspath"].clone();
    repo.git(["worktree", "remove", "-f", "-f", place.as_str().expect("a path")]);
    let said = describe(&repo.agent(&["show", "README.md"]));
    let (_, command) = said.split_once("run git agent rescue ").expect("a command");
    let words: Vec<_> = ["rescue"].into_iter().chain(command.split_whitespace().take(2)).collect();
    let output = repo.agent(&words);
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn the_command_that_commits_the_settings_works_in_every_directory() {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", "[bundle]\nrequired = false\n");
    let said = describe(&repo.agent(&["spawn", TEXT]));
    let (_, command) = said.split_once("run git add ").expect("a command");
    let command = format!("git add {}", command.lines().next().unwrap_or_default());
    let shell = isolated("sh", &repo.path().join("src")).args(["-c", &command]).output();
    let shell = shell.expect("starts");
    assert!(shell.status.success(), "{command}: {}", describe(&shell));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn habits_of_git_are_accepted_or_answered() {
    let repo = TestRepo::with_commit();
    let place = repo.agent_json(&["spawn", TEXT, "--name=one"])["worktree_abspath"].clone();
    let place = std::path::Path::new(place.as_str().expect("a path"));
    std::fs::write(place.join("new"), "1\n").expect("written");
    repo.agent_json(&["commit", "one", "-m", "first", "-m", "second"]);
    let message = git_in(place, ["log", "-1", "--format=%B"]);
    assert!(message.starts_with("first\n\nsecond\n"), "{message}");
    for (words, hint) in [
        (&["merge", "--abort"][..], "run git agent undo"),
        (&["commit", "-am", "x"], "run git agent commit -m <text>"),
        (&["config", "agent.merge", "squash"], "run git config <key> <value>"),
        (&["spawn", TEXT, "--name=a b"], "pass --name a-b"),
        (&["spawn", TEXT, "--name=all"], "pass --name agent-all"),
        (&["commit", "one", "-m", ""], "run git agent commit -m <text>"),
    ] {
        let output = repo.agent(words);
        refused(&output, 2);
        assert!(describe(&output).contains(hint), "{}", describe(&output));
    }
}
