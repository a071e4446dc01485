//! What killed commands leave among the temporary files and beside the worktrees: found again and swept.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::verify::Agent;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};

/// An agent with work, a place for temporary files, the file that makes checks wait, and the one in which they say below which
/// process.
struct Scene {
    agent: Agent,
    temporary: PathBuf,
    flag: PathBuf,
    pid: PathBuf,
    check: String,
}

/// The one process that this one has started and that is not over. A check cannot tell it: behind a fence it may have a numbering
/// of processes of its own.
fn child_of(parent: i32) -> i32 {
    let is_its = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
        let mut fields = fields.split(' ');
        fields.next() != Some("Z") && fields.next() == Some(&parent.to_string())
    };
    let entries = fs::read_dir("/proc").expect("there").flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children: Vec<i32> = numbers.filter(is_its).collect();
    assert_eq!(children.len(), 1, "the supervisor");
    children[0]
}

impl Scene {
    fn new() -> Scene {
        let repo = TestRepo::with_commit();
        let names = ["temporary", "flag", "open"];
        let [temporary, flag, open] = names.map(|name| repo.path().with_file_name(name));
        let pid = open.join("pid");
        let check = format!(
            "test ! -e '{}' || {{ echo runs > '{}'; exec sleep 1000; }}",
            flag.display(),
            pid.display()
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
        // The check is behind a fence; the directory of the file that it names itself in is open.
        fs::create_dir(&open).expect("made");
        let open = open.display().to_string();
        agent.repo.git(["config", "agent.run.allowWrite", &open]);
        Scene { agent, temporary, flag, pid, check }
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

    /// Runs a command that is killed in its check, and the supervisor of that with it. Neither gets to tidy up after the other: the
    /// command is stopped while the supervisor dies.
    fn killed(&self, words: &[&str]) {
        fs::write(&self.flag, "").expect("written");
        let mut command = agent_command(&self.agent.repo.path());
        let command = command.args(words).env("TMPDIR", &self.temporary);
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().expect("starts");
        while !fs::read_to_string(&self.pid).is_ok_and(|text| text.ends_with('\n')) {
            assert_eq!(child.try_wait().expect("a child"), None, "no check");
            crate::support::pause();
        }
        let child_pid = i32::try_from(child.id()).expect("a number");
        let supervisor = child_of(child_pid);
        for (pid, signal) in
            [(child_pid, Signal::STOP), (supervisor, Signal::KILL), (child_pid, Signal::KILL)]
        {
            kill_process(Pid::from_raw(pid).expect("a number"), signal).expect("sent");
        }
        assert_eq!(child.wait().expect("a child").signal(), Some(9));
        for path in [&self.flag, &self.pid] {
            fs::remove_file(path).expect("there");
        }
        // The kernel lets go of a directory when the supervisor is really over.
        for name in self.left() {
            let directory = File::open(self.temporary.join(name)).expect("there");
            directory.lock().expect("free");
        }
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
        names.map(|name| name.into_string().expect("UTF-8")).collect()
    }

    #[track_caller]
    fn require_left(&self, purpose: &str) {
        let prefix = format!("git-agent-tmp-{purpose}-");
        let left = self.left();
        assert!(left.iter().any(|name| name.starts_with(&prefix)), "{left:?}");
    }

    fn codes(&self) -> Vec<String> {
        let report = self.json(&["doctor"]);
        let findings = report["findings"].as_array().expect("a list").iter();
        findings.map(|one| one["code"].as_str().expect("a code").to_owned()).collect()
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
    let names: Vec<_> = names.map(|entry| entry.expect("readable").file_name()).collect();
    assert_eq!(names, [scene.agent.worktree.file_name().expect("a name")]);
}
