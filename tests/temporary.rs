//! What killed commands leave among the temporary files and beside the worktrees: found again and swept.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::verify::Agent;
use serde_json::Value;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Output;

/// An agent with work, a place for temporary files, and the file that makes checks kill who runs them.
struct Scene {
    agent: Agent,
    temporary: PathBuf,
    flag: PathBuf,
    check: String,
}

impl Scene {
    fn new() -> Scene {
        let repo = TestRepo::with_commit();
        let [temporary, flag] = ["temporary", "flag"].map(|name| repo.path().with_file_name(name));
        // It kills its supervisor, and the command of ours above that.
        let check = format!(
            "test ! -e '{}' || kill -9 $(cut -d' ' -f4 /proc/$PPID/stat) $PPID",
            flag.display()
        );
        let settings = format!("[bundle]\nrequired = false\n[train]\nchecks = [\"{check}\"]\n");
        repo.write(".config/git-agent.toml", settings);
        repo.commit_all("settings");
        let checks = format!("{TASK}[checks]\ncommands = [\"{check}\"]\n");
        let agent = Agent::spawned_in(repo, &checks);
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        agent.repo.agent_json(&["done", &agent.id]);
        fs::create_dir(&temporary).expect("made");
        Scene {
            agent,
            temporary,
            flag,
            check,
        }
    }

    fn output(&self, words: &[&str]) -> Output {
        let mut command = agent_command(&self.agent.repo.path());
        let command = command.args(words).env("TMPDIR", &self.temporary);
        command.output().expect("starts")
    }

    fn json(&self, words: &[&str]) -> Value {
        let output = self.output(&[words, &["--format=json"]].concat());
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Runs a command that a check kills.
    fn killed(&self, words: &[&str]) {
        fs::write(&self.flag, "").expect("written");
        let output = self.output(words);
        assert_eq!(output.status.signal(), Some(9), "{}", describe(&output));
        fs::remove_file(&self.flag).expect("there");
    }

    /// Runs a command that must succeed.
    fn succeeds(&self, words: &[&str]) {
        let output = self.output(words);
        assert!(output.status.success(), "{}", describe(&output));
    }

    /// The temporary files that are there.
    fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.temporary).expect("there");
        let names = entries.map(|entry| entry.expect("readable").file_name());
        names
            .map(|name| name.into_string().expect("UTF-8"))
            .collect()
    }

    #[track_caller]
    fn require_left(&self, purpose: &str) {
        let prefix = format!("git-agent-tmp-{purpose}-");
        let left = self.left();
        assert!(
            left.iter().any(|name| name.starts_with(&prefix)),
            "{left:?}"
        );
    }

    fn codes(&self) -> Vec<String> {
        let report = self.json(&["doctor"]);
        let findings = report["findings"].as_array().expect("a list").iter();
        findings
            .map(|one| one["code"].as_str().expect("a code").to_owned())
            .collect()
    }
}

#[test]
fn what_a_hostile_check_leaves_is_swept_by_the_next_command() {
    let scene = Scene::new();
    let id = scene.agent.id.as_str();
    let nothing: [&str; 0] = [];

    // By the same command.
    let run = ["run", id, "--no-verify", "--sandbox=off", "--", "sh", "-c"];
    let run = [&run[..], &[&scene.check]].concat();
    let tip = format!("--tip={}", scene.agent.branch);
    let verify = ["verify", "--ci", &tip, id];
    let train = ["train", "--all", "--sandbox=off"];
    for (words, purpose) in [(&verify[..], "checks"), (&run, "run")] {
        scene.killed(words);
        scene.require_left(purpose);
        scene.succeeds(words);
        assert_eq!(scene.left(), nothing, "{words:?}");
    }

    // By the doctor, who names it first.
    scene.killed(&run);
    assert!(scene.codes().contains(&"debris.temporary".to_owned()));
    scene.require_left("run");
    scene.json(&["doctor", "--fix"]);
    assert_eq!(scene.left(), nothing);
    scene.succeeds(&run);

    // By gc, with the worktree of the check.
    scene.killed(&["verify", id]);
    scene.killed(&verify);
    let worktree = format!("verify-{}", &id[..8]);
    let worktree = scene.agent.worktree.with_file_name(worktree);
    assert!(worktree.exists() && scene.codes().contains(&"verify.left-over".to_owned()));
    let counts = |report: &Value| {
        ["check_worktrees", "temporary"].map(|key| report[key].as_u64().expect("a count"))
    };
    let planned = scene.json(&["gc"]);
    assert_eq!(counts(&planned), [1, scene.left().len() as u64]);
    assert!(worktree.exists());
    assert_eq!(counts(&scene.json(&["gc", "--yes"])), counts(&planned));
    assert_eq!((scene.left().len(), worktree.exists()), (0, false));

    // What a train leaves, by the next train.
    scene.killed(&train);
    scene.require_left("checks");
    scene.succeeds(&train);
    assert_eq!(scene.left(), nothing);
    let worktrees = scene.agent.worktree.parent().expect("above");
    let names = fs::read_dir(worktrees).expect("there");
    let names: Vec<_> = names
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(names, [scene.agent.worktree.file_name().expect("a name")]);
}
