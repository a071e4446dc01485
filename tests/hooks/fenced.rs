use super::script;
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::verify::Agent;
use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// A hook that says its name; of the lines of its input, how many there are.
const SAYS: &str = r#"first=${1##*/}; [ ${#first} != 40 ] || first=oid
    echo "HOOK ${0##*/} $first $(cat | wc -l)" >&2"#;

/// Commits, amends, moves, rebases and merges, so that git runs every hook that it has for that.
const WORK: &str = "
    echo '// two' >>src/lib.rs; git commit -qam second; git commit -q --amend -m again
    git checkout -q HEAD^; echo '// aside' >src/aside.rs; git add src; git commit -qm aside
    aside=$(git rev-parse HEAD); git checkout -q -; git merge -q --no-edit $aside
    git rebase -q --force-rebase HEAD^";

fn run(agent: &Agent, options: &[&str], script: &str) -> Output {
    agent_command(&agent.repo.path())
        .args(["run", "--no-verify"])
        .args(options)
        .args([&agent.id, "--", "sh", "-ec", script])
        .output()
        .expect("starts")
}

fn hooks_of(output: &Output) -> Vec<String> {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines = said.lines().filter(|line| line.starts_with("HOOK "));
    lines.map(str::to_owned).collect()
}

fn warnings(output: &Output) -> Vec<String> {
    let report: Value = answer_of(output);
    let warnings = report["warnings"].as_array().expect("a list");
    let texts = warnings.iter().map(|text| text.as_str().expect("a text"));
    texts.map(str::to_owned).collect()
}

/// A repository whose hooks stand in its hooks directory, or where `core.hooksPath` leads.
fn with_hooks(hooks_path: Option<&str>) -> TestRepo {
    let repo = TestRepo::with_commit();
    let directory = hooks_path.map_or(".git/hooks", |path| path.trim_start_matches("$TOP/"));
    for name in [
        "pre-commit",
        "prepare-commit-msg",
        "commit-msg",
        "post-commit",
        "post-checkout",
        "post-merge",
        "pre-merge-commit",
        "pre-rebase",
        "post-rewrite",
        "reference-transaction",
    ] {
        script(&repo.path().join(directory).join(name), SAYS);
    }
    if let Some(path) = hooks_path {
        let top = repo.path();
        repo.git(["add", "--all"]);
        repo.git(["commit", "--quiet", "-m", "hooks"]);
        let path = path.replace("$TOP", top.to_str().expect("UTF-8"));
        repo.git(["config", "core.hooksPath", &path]);
    }
    repo
}

#[test]
fn the_repositorys_hooks_run_in_the_fence_as_they_do_outside() {
    for hooks_path in [None, Some("tools/hooks"), Some("$TOP/tools/hooks")] {
        let ran = ["auto", "off"].map(|mode| {
            let agent = Agent::spawned_in(with_hooks(hooks_path), TASK);
            let output = run(&agent, &["--sandbox", mode], WORK);
            assert!(output.status.success(), "{}", describe(&output));
            hooks_of(&output)
        });
        assert_eq!(ran[0], ran[1], "{hooks_path:?}");
        for name in [
            "pre-commit",
            "prepare-commit-msg",
            "commit-msg",
            "post-commit",
            "post-checkout",
            "pre-merge-commit",
            "pre-rebase",
            "post-rewrite",
            "reference-transaction",
        ] {
            let begins = format!("HOOK {name} ");
            assert!(
                ran[0].iter().any(|line| line.starts_with(&begins)),
                "{hooks_path:?}: no {name} in {:#?}",
                ran[0]
            );
        }
    }
}

#[test]
fn a_hook_in_the_fence_can_refuse_a_commit_and_no_verify_passes_it_over() {
    let repo = TestRepo::with_commit();
    script(&repo.path().join(".git/hooks/pre-commit"), "echo not today >&2; exit 7");
    let agent = Agent::spawned_in(repo, TASK);
    let commit = "echo '// two' >>src/lib.rs; git commit -am second";
    let output = run(&agent, &[], commit);
    assert!(
        !output.status.success() && describe(&output).contains("not today"),
        "{}",
        describe(&output)
    );
    let before = agent.git(&["rev-parse", "HEAD"]);
    let output = run(&agent, &[], "git commit -q --no-verify -am second");
    assert!(output.status.success(), "{}", describe(&output));
    assert_ne!(agent.git(&["rev-parse", "HEAD"]), before);
    // Our own check comes first, and is not the repository's to pass over.
    let output = run(&agent, &[], "echo x >README.md; git commit -am third");
    let said = describe(&output);
    let ours = said.find("hook-refused").expect("our own check");
    // A git that reads hooks from the configuration runs all of them, ours first.
    let theirs = said.find("not today");
    assert!(theirs.is_none_or(|theirs| theirs > ours), "{said}");
}

#[test]
fn a_hook_that_is_newer_than_the_agent_runs_from_its_next_run_on() {
    let agent = Agent::of_task(TASK);
    let hook = agent.repo.path().join(".git/hooks/post-commit");
    script(&hook, SAYS);
    let commit = "echo '// two' >>src/lib.rs; git commit -qam second";
    let output = run(&agent, &[], commit);
    assert_eq!(hooks_of(&output), ["HOOK post-commit  0"]);
}

/// What a manager's install step left, without the manager: the sentences are ours.
fn obstacle(prepare: impl Fn(&Path), setting: Option<&str>, expected: Option<&str>) {
    let repo = TestRepo::with_commit();
    prepare(&repo.path());
    repo.git(["add", "--all"]);
    repo.git(["commit", "--quiet", "--no-verify", "--allow-empty", "-m", "a manager of hooks"]);
    if let Some(path) = setting {
        repo.git(["config", "core.hooksPath", path]);
    }
    let spawned = repo.spawn_task(TASK, &[]);
    let said =
        |warnings: &[String]| warnings.iter().any(|one| one.contains(expected.unwrap_or("hooks")));
    let texts: Vec<String> =
        serde_json::from_value(spawned["warnings"].clone()).expect("a list of texts");
    assert_eq!(said(&texts), expected.is_some(), "spawn: {texts:#?}");
    let agent = Agent::told_of(repo, &spawned);
    let texts = warnings(&run(&agent, &["--format=json"], "true"));
    assert_eq!(said(&texts), expected.is_some(), "run: {texts:#?}");
}

#[test]
fn hooks_that_cannot_run_are_announced() {
    let write = |top: &Path, name: &str, text: &str| {
        let path = top.join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(path, text).expect("written");
    };
    // husky: its directory is ignored, so that only the worktree where it was installed has it.
    let husky = |top: &Path| {
        write(top, ".husky/pre-commit", "npx lint-staged\n");
        write(top, ".husky/_/.gitignore", "*\n");
        script(&top.join(".husky/_/pre-commit"), "");
    };
    obstacle(husky, Some(".husky/_"), Some("core.hooksPath is .husky/_"));
    obstacle(husky, None, Some("core.hooksPath does not lead to them"));
    let tracked = |top: &Path| {
        script(&top.join(".husky/pre-commit"), "npx lint-staged");
        write(top, "package.json", "{}\n");
    };
    obstacle(tracked, Some(".husky"), Some("there is no node_modules"));
    let by_itself = |top: &Path| script(&top.join(".husky/pre-commit"), "sh check.sh");
    obstacle(by_itself, Some(".husky"), None);
    // lefthook and pre-commit: their install step writes hooks, which look for a program.
    let lefthook = |top: &Path| write(top, "lefthook.yml", "pre-commit: {}\n");
    obstacle(lefthook, None, Some("lefthook is not installed"));
    let without_program = |top: &Path| {
        write(top, ".pre-commit-config.yaml", "repos: []\n");
        let hook = "INSTALL_PYTHON=/gone/python3\nexec \"$INSTALL_PYTHON\" -mpre_commit";
        script(&top.join(".git/hooks/pre-commit"), hook);
    };
    obstacle(without_program, None, Some("no program of pre-commit is found"));
    let with_program = |top: &Path| {
        write(top, ".pre-commit-config.yaml", "repos: []\n");
        let program = top.join("../pre-commit");
        script(&program, "");
        let hook = format!("exec {} hook-impl # pre-commit", program.display());
        script(&top.join(".git/hooks/pre-commit"), &hook);
    };
    obstacle(with_program, None, None);
    // A directory that is nowhere keeps hooks from running outside as well.
    obstacle(|_| {}, Some("/dev/null"), None);
    let committed = |top: &Path| write(top, "tools/pre-commit", "");
    obstacle(committed, Some("tools"), None);
}

/// `PRE_COMMIT_HOME` as pre-commit and prek find it in a fence: theirs to write, with what was installed in it.
#[test]
fn managers_find_what_was_installed_and_may_write_beside_it() {
    let repo = TestRepo::with_commit();
    repo.write(".pre-commit-config.yaml", "repos: []\n");
    repo.commit_all("hooks");
    let home = repo.path().with_file_name("cache");
    for file in ["pre-commit/db.db", "prek/hooks/python-1/bin/judge"] {
        let file = home.join(file);
        std::fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        std::fs::write(file, "installed").expect("written");
    }
    let agent = Agent::spawned_in(repo, TASK);
    let script = "grep -q installed $PRE_COMMIT_HOME/db.db $PREK_HOME/hooks/python-1/bin/judge
        echo more >>$PRE_COMMIT_HOME/db.db; echo log >$PREK_HOME/prek.log; mkdir $PREK_HOME/hooks/new";
    let output = agent_command(&agent.repo.path())
        .args(["run", "--no-verify", &agent.id, "--", "sh", "-ec", script])
        .env("XDG_CACHE_HOME", &home)
        .output()
        .expect("starts");
    if crate::sandbox::level().is_some() {
        assert!(output.status.success(), "{}", describe(&output));
    }
    let kept = std::fs::read_to_string(home.join("pre-commit/db.db")).expect("there");
    assert_eq!(kept, "installed");
}

#[test]
fn what_git_lfs_stores_in_a_fence_is_taken_over_by_its_hash() {
    let agent = Agent::of_task(TASK);
    // What its clean filter does, without the program: an object below the common directory.
    let script = r#"store=$(git rev-parse --git-common-dir)/lfs/objects
        good=$(echo content | sha256sum | cut -d' ' -f1); bad=$(echo other | sha256sum | cut -d' ' -f1)
        for name in $good $bad; do
            first=$(echo $name | cut -c1-2); second=$(echo $name | cut -c3-4); mkdir -p "$store/$first/$second"
            echo content >"$store/$first/$second/$name"; done
        mkdir -p "$store/00/00"; ln -s /etc/passwd "$store/00/00/$(printf '%064d' 0)"; echo $good $bad"#;
    let output = run(&agent, &["--format=json"], script);
    assert!(output.status.success(), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let names = report["summary"].as_str().expect("a text");
    let (good, bad) = names.trim().split_once(' ').expect("two names");
    let place = |name: &str| {
        let store = agent.repo.path().join(".git/lfs/objects");
        store.join(&name[..2]).join(&name[2..4]).join(name)
    };
    assert_eq!(std::fs::read_to_string(place(good)).expect("taken"), "content\n");
    // Outside of a fence they are where they were written.
    if crate::sandbox::level().is_some() {
        assert!(!place(bad).exists());
        assert!(std::fs::symlink_metadata(place(&"0".repeat(64))).is_err());
    }
}
