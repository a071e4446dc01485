use super::{Agent, codes};
use crate::support::agent::TASK;

fn with_checks(commands: &str) -> Agent {
    let agent = Agent::of_task(&format!("{TASK}[checks]\ncommands = {commands}\n"));
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent
}

fn nothing_is_left(agent: &Agent) {
    let listed = agent.repo.git(["worktree", "list"]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    let parent = agent.worktree.parent().expect("a parent");
    assert_eq!(std::fs::read_dir(parent).expect("readable").count(), 1);
}

#[test]
fn commands_see_the_merge_and_nothing_else() {
    let agent = with_checks(
        r#"["test -f src/two.rs && test -f from-main", "test -z \"$GIT_AGENT_ID$GIT_DIR$GIT_INDEX_FILE\"", "git status --porcelain --untracked-files=no | (! grep .)"]"#,
    );
    agent.repo.write("from-main", "x");
    agent.repo.commit_all("main moves");
    let output = crate::support::agent::agent_command(&agent.repo.path())
        .args(["verify", &agent.id, "--format=json"])
        .env("GIT_AGENT_ID", &agent.id)
        .output()
        .expect("starts");
    let report = super::report(&output);
    assert_eq!(codes(&report), [""; 0], "{report}");
    assert_eq!(report["commands"].as_array().expect("commands").len(), 3);
    nothing_is_left(&agent);
}

#[test]
fn the_first_failure_rejects_with_its_output() {
    let agent = with_checks(r#"["echo fine", "echo broken >&2; exit 3", "touch never"]"#);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["commands.failed"]);
    let commands = report["commands"].as_array().expect("commands");
    assert_eq!(commands.len(), 2);
    assert_eq!(
        (&commands[1]["exit_code"], &commands[1]["output"]),
        (&3.into(), &"broken\n".into())
    );
    nothing_is_left(&agent);
}

#[test]
fn a_command_is_stopped_when_its_time_is_up() {
    let agent = with_checks(r#"["sleep 1000"]"#);
    let report = agent.verify(&["--timeout=1s"]);
    assert_eq!(codes(&report), ["commands.timed-out"]);
    let fix = report["findings"][0]["fix"].as_str().expect("advice");
    assert!(fix.contains("--timeout"), "{fix}");
    nothing_is_left(&agent);
}

#[test]
fn without_its_commands_work_is_not_recorded_as_accepted() {
    let agent = with_checks(r#"["false"]"#);
    let report = agent.verify(&["--no-commands"]);
    assert_eq!(report["verdict"], "accept");
    assert_eq!(codes(&report), ["commands.skipped"]);
    assert_eq!(agent.repo.agent_json(&["show", &agent.id])["state"], "idle");
}

#[test]
fn commands_run_once_more_where_that_is_asked_for() {
    if crate::sandbox::level().is_none() {
        return;
    }
    let agent = with_checks(r#"["test ! -e \"$(git rev-parse --git-common-dir)/../../down\""]"#);
    let is_green = |options: &[&str]| codes(&agent.verify(options)).is_empty();
    assert!(is_green(&[]));
    // What it depends on is in no tree, so nothing tells that it has changed.
    let down = agent.repo.path().with_file_name("down");
    std::fs::write(&down, "").expect("written");
    assert!(is_green(&[]) && !is_green(&["--fresh"]));
    // From then on the earlier success counts no more.
    assert!(!is_green(&[]));
    std::fs::remove_file(&down).expect("removed");
    assert!(is_green(&[]));
}

#[test]
fn nobodys_commands_run_on_rejected_work() {
    let agent = with_checks(r#"["touch \"$HOME/ran\""]"#);
    agent.write("README.md", "out of scope\n");
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["scope.not-in-whitelist"]);
    assert!(!agent.repo.path().join("ran").exists());
}

/// Where the check commands of the agent would run.
fn place_of_checks(agent: &Agent) -> std::path::PathBuf {
    let name = format!("verify-{}", &agent.id[..8]);
    agent.worktree.with_file_name(name)
}

#[test]
fn a_worktree_of_somebody_else_in_the_place_of_the_checks_stays() {
    let agent = with_checks(r#"["true"]"#);
    let place = place_of_checks(&agent);
    let path = place.to_str().expect("UTF-8");
    let refused = || {
        let output = agent.run(&[]);
        super::refused(&output, "path-exists", 3);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(path), "{said}");
        let precious = std::fs::read_to_string(place.join("precious.txt"));
        assert_eq!(precious.expect("kept"), "precious\n");
    };
    let precious = || std::fs::write(place.join("precious.txt"), "precious\n").expect("write");

    std::fs::create_dir(&place).expect("a directory");
    precious();
    refused();
    std::fs::remove_dir_all(&place).expect("removed");

    agent.repo.git(["worktree", "add", "--quiet", "-b", "mine", path]);
    precious();
    refused();
    agent.repo.git(["worktree", "lock", "--reason", "mine", path]);
    refused();
    let listed = agent.repo.git(["worktree", "list", "--porcelain"]);
    assert!(listed.contains("locked mine"), "{listed}");

    let elsewhere = place.with_file_name("elsewhere");
    let elsewhere = elsewhere.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "move", "-f", "-f", path, elsewhere]);
    super::refused(&agent.run(&[]), "path-exists", 3);
    agent.repo.git(["worktree", "remove", "-f", "-f", elsewhere]);
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    nothing_is_left(&agent);
}

#[test]
fn what_a_killed_verify_left_makes_way_unless_somebody_works_in_it() {
    let agent = with_checks(r#"["true"]"#);
    let place = place_of_checks(&agent);
    let path = place.to_str().expect("UTF-8");
    let left = || {
        agent.repo.git(["worktree", "add", "--quiet", "--detach", path]);
        let reason = "git-agent verify";
        agent.repo.git(["worktree", "lock", "--reason", reason, path]);
    };
    left();
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    nothing_is_left(&agent);

    left();
    crate::support::git_in(&place, ["switch", "--quiet", "-c", "mine"]);
    agent.write("src/three.rs", "");
    super::refused(&agent.run(&[]), "path-exists", 3);
    assert!(place.join("README.md").exists());
}

/// As [`with_checks`], in a repository whose settings are these by the time the work is judged.
fn with_settings(commands: &str, settings: &str) -> Agent {
    let agent = with_checks(commands);
    agent.repo.write(".gitignore", "*.o\nlocal.env\n");
    agent.repo.write(".config/git-agent.toml", settings);
    agent.repo.commit_all("settings");
    agent.repo.write("local.env", "A=1\n");
    agent
}

#[test]
fn commands_run_where_the_set_up_has_run() {
    let agent = with_settings(
        r#"["test -f made.o && test -f src/two.rs && test -f local.env"]"#,
        "[setup]\ncopy = [\"local.env\"]\nrun = [\"test -f src/two.rs && echo x > made.o\"]\n",
    );
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), [""; 0], "{report}");
    nothing_is_left(&agent);

    // So do those of --ci, which has no place in the repository.
    agent.commit("two");
    let report = agent.verify(&["--ci", "--tip", &agent.branch]);
    assert_eq!(codes(&report), [""; 0], "{report}");
}

#[test]
fn a_set_up_that_fails_is_a_finding_of_its_own() {
    let agent = with_settings(
        r#"["touch never"]"#,
        "[setup]\nrun = [\"echo x > made.o\", \"echo no such package; exit 7\"]\n",
    );
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["commands.setup-failed"]);
    let commands = report["commands"].as_array().expect("commands");
    assert_eq!(commands.len(), 1, "{report}");
    assert_eq!(commands[0]["setup"], true);
    assert_eq!(commands[0]["exit_code"], 7);
    assert_eq!(commands[0]["output"], "no such package\n");
    nothing_is_left(&agent);
}

#[test]
fn neither_set_up_nor_commands_write_outside_of_the_fence() {
    // What the set-up runs is the agent's as well: a manifest says what a package manager runs.
    let escape = "for place in $HOME $(git rev-parse --git-common-dir) $TMPDIR/../..; do (echo x > $place/escaped) 2> /dev/null; done; true";
    let agent = with_settings(
        &format!("[\"{escape}\", \"echo x > $TMPDIR/own && echo x > $npm_config_cache-own\"]"),
        &format!("[setup]\nrun = [\"{escape}\"]\n"),
    );
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), [""; 0], "{report}");
    let common = agent.repo.path().join(".git/escaped");
    let home = agent.repo.path().join("escaped");
    assert_eq!((common.exists(), home.exists()), (false, false));
}

#[test]
fn each_command_writes_to_a_view_of_the_users_cache() {
    let agent = with_checks(
        r#"["echo 1 > \"$HOME/.cargo/registry/one\"", "test -f \"$HOME/.cargo/registry/one\" && echo 2 > \"$HOME/.cargo/registry/two\""]"#,
    );
    let probe = agent.repo.agent(&["spawn", "probe it", "--layered=on", "--dry-run"]);
    if !probe.status.success() {
        // Nothing can be mounted over a cache here.
        return;
    }
    let home = agent.repo.path().with_file_name("home");
    let cache = home.join(".cargo/registry");
    std::fs::create_dir_all(&cache).expect("made");
    let output = crate::support::agent::agent_command(&agent.repo.path())
        .args(["verify", &agent.id, "--format=json"])
        .env("HOME", &home)
        .output()
        .expect("starts");
    let report = super::report(&output);
    assert_eq!(codes(&report), [""; 0], "{report}");
    assert_eq!(std::fs::read_dir(&cache).expect("read").count(), 0);
}

#[test]
fn a_warm_worktree_serves_where_no_manifest_differs() {
    let settings = "[pool]\nsize = 1\n[setup]\nrun = [\"echo x > made.o; date +%N > stamp.o\"]\n";
    for (path, is_taken) in [("src/two.rs", true), ("src/package.json", false)] {
        let agent = with_settings(r#"["test -f made.o", "cat stamp.o; exit 1"]"#, settings);
        let filled = agent.repo.agent_json(&["pool", "fill"]);
        let name = filled["slots"][0]["name"].as_str().expect("a name");
        let slot = agent.worktree.with_file_name(name);
        let stamp = std::fs::read_to_string(slot.join("stamp.o")).expect("set up");
        agent.write(path, "{}\n");
        let report = agent.verify(&[]);
        assert_eq!(codes(&report), ["commands.failed"], "{report}");
        let told = &report["commands"][1]["output"];
        assert_eq!(*told == *stamp, is_taken, "{path}: {report}");
        assert_eq!(slot.exists(), !is_taken, "{path}");
    }
}
