use super::{Team, team};
use crate::support::agent::{agent_command, describe};
use crate::support::git_in;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use walkdir::WalkDir;

/// An agent whose command waits for a line.
struct Working {
    id: String,
    worktree: PathBuf,
    /// What it waits for.
    barrier: File,
    run: JoinHandle<(Output, Option<File>)>,
}

impl Working {
    /// Starts a command in a new agent, and returns when that waits.
    fn begin(team: &Team, number: usize) -> Working {
        let task = format!("Write what belongs into file {number}.");
        let scope = format!("work-{number}/**");
        let report = team.json(&["spawn", "-m", &task, "--new", &scope]);
        let text = |key: &str| report[key].as_str().expect("a text").to_owned();
        let (id, worktree) = (text("agent_id"), PathBuf::from(text("worktree_abspath")));
        let fifo = team.repo.path().with_file_name(format!("barrier-{number}"));
        let made = Command::new("mkfifo").arg(&fifo).status().expect("starts");
        assert!(made.success());
        let script = format!(
            "mkdir work-{number} && echo begun > work-{number}/begun && git add -A && git commit -qm \"feat: begin {number}\" \
             && echo more > work-{number}/more && read line < {} && echo \"$line\" > work-{number}/ended",
            fifo.display()
        );
        let mut run = agent_command(&team.repo.path());
        run.args(["run", &id, "--no-verify", "--", "sh", "-c", &script]);
        run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = run.spawn().expect("starts");
        let end = fifo.clone();
        let run = std::thread::spawn(move || {
            let output = child.wait_with_output().expect("ends");
            // A command that failed before it waited must not leave the test waiting for it.
            let open = File::options().read(true).write(true).open(end).ok();
            (output, open)
        });
        // Opening it returns when the command has opened its end.
        let barrier = File::options().write(true).open(fifo).expect("opened");
        assert!(!run.is_finished());
        Working { id, worktree, barrier, run }
    }

    /// All that belongs to it: its files and those of git beside them, its branch, its row, its state.
    fn seen(&self, team: &Team) -> BTreeMap<String, Vec<u8>> {
        let git_dir = git_in(&self.worktree, ["rev-parse", "--absolute-git-dir"]);
        let mut seen = BTreeMap::new();
        for top in [self.worktree.as_path(), git_dir.as_ref()] {
            let entries = WalkDir::new(top).into_iter().map(|entry| entry.expect("an entry"));
            for entry in entries.filter(|entry| entry.file_type().is_file()) {
                let content = fs::read(entry.path()).expect("read");
                seen.insert(entry.path().display().to_string(), content);
            }
        }
        let shown = team.json(&["show", &self.id]);
        let text = |key: &str| shown[key].as_str().expect("a text").to_owned();
        let refs = ["for-each-ref", "--format=%(refname) %(objectname)"];
        let refs =
            team.repo.git([&refs[..], &[&format!("refs/heads/{}", text("branch"))]].concat());
        let row = team.repo.git(["notes", "--ref=agents", "show", &text("spawn_commit")]);
        let said = [("state", text("state")), ("ref", refs), ("row", row)];
        seen.extend(said.map(|(key, text)| (key.to_owned(), text.into_bytes())));
        seen
    }

    /// Lets it go on to its end.
    fn end(mut self) -> String {
        self.barrier.write_all(b"go on\n").expect("written");
        let (output, _open) = self.run.join().expect("no panic");
        assert!(output.status.success(), "{}", describe(&output));
        self.id
    }
}

#[test]
fn a_mistaken_train_is_taken_back_while_four_agents_work() {
    let team = team(3);
    let before = team.main();
    let working: Vec<Working> = (0..4).map(|number| Working::begin(&team, number)).collect();
    let seen = || working.iter().map(|one| one.seen(&team)).collect::<Vec<_>>();
    let theirs = seen();
    assert!(theirs.iter().all(|one| one["state"] == b"running"));

    team.json(&["train", "--all"]);
    assert_ne!(team.main(), before);
    assert!((0..3).all(|it| team.state(it) == "merged"));
    assert_eq!(seen(), theirs, "after the train");

    let report = team.json(&["undo"]);
    assert_eq!(report["agents"].as_array().map(Vec::len), Some(3));
    assert_eq!(team.main(), before);
    assert!((0..3).all(|it| team.state(it) == "done"));
    assert_eq!(seen(), theirs, "after the undo");
    assert!(working.iter().all(|one| !one.run.is_finished()));
    team.assert_sound();

    // They end and land as if nothing had been, and so do the three.
    for one in working {
        let id = one.end();
        team.json(&["merge", &id]);
    }
    team.json(&["train", "--all"]);
    let landed = team.repo.git(["ls-tree", "-r", "--name-only", "main"]);
    for number in 0..4 {
        for name in ["begun", "more", "ended"] {
            assert!(landed.contains(&format!("work-{number}/{name}")), "{landed}");
        }
    }
    assert!((0..3).all(|it| landed.contains(&format!("src/file-{it}.rs"))));
    team.assert_sound();
}
