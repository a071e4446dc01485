//! Commands of the user that are run when something happened to an agent.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// What the commands write, which goes through a pipe so that the test waits for it.
struct Notices {
    lines: Receiver<String>,
    pipe: PathBuf,
}

impl Notices {
    fn of(repo: &TestRepo) -> Notices {
        let pipe = repo.path().with_file_name("notices");
        let made = Command::new("mkfifo").arg(&pipe).status().expect("starts");
        assert!(made.success());
        let (sender, lines) = channel();
        let from = pipe.clone();
        std::thread::spawn(move || {
            // Each writer ends what is read, and the next one begins anew.
            while let Ok(line) = fs::read_to_string(&from) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let notices = Notices { lines, pipe };
        for key in ["onEnd", "onWaiting", "onLanded"] {
            let key = format!("agent.{key}");
            repo.git(["config", key.as_str(), notices.command().as_str()]);
        }
        notices
    }

    fn command(&self) -> String {
        let pipe = self.pipe.display();
        let of = ["", "_NAME", "_STATE", "_TASK"].map(|of| format!("\"$GIT_AGENT_NOTICE{of}\""));
        format!("printf '%s|%s|%s|%s' {} > {pipe}", of.join(" "))
    }

    fn next(&self) -> String {
        // A failure's patience only.
        let line = self.lines.recv_timeout(Duration::from_secs(60));
        line.expect("the command was run")
    }
}

fn hook(worktree: &Path, name: &str) {
    let mut child = agent_command(worktree)
        .args(["hook", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    let call = json!({ "cwd": worktree, "session_id": "s" }).to_string();
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(call.as_bytes()).expect("written");
    drop(input);
    assert!(child.wait().expect("over").success());
}

#[test]
fn the_users_commands_are_told_of_ends_waits_and_landings() {
    let repo = TestRepo::with_commit();
    let notices = Notices::of(&repo);
    // What an agent is called and does is data, whatever a shell would make of it.
    let task = "Say $(touch /tmp/owned); `id` \"'|";
    let answer = repo.agent_json(&["spawn", task, "--name=fixer", "--no-bundle"]);
    let worktree = PathBuf::from(answer["worktree_abspath"].as_str().expect("a path"));
    let ran = repo.agent(&["run", "fixer", "--", "sh", "-c", "echo two > src/two.rs"]);
    assert!(ran.status.success(), "{}", describe(&ran));
    assert_eq!(notices.next(), format!("end|fixer|done|{task}"));
    hook(&worktree, "prompt");
    hook(&worktree, "notification");
    assert_eq!(notices.next(), format!("waiting|fixer|waiting|{task}"));
    // The same once more is no news, and neither is that a session rests.
    hook(&worktree, "notification");
    hook(&worktree, "session-end");
    hook(&worktree, "notification");
    let landed = repo.agent(&["merge", "fixer", "--now"]);
    assert!(landed.status.success(), "{}", describe(&landed));
    assert_eq!(notices.next(), format!("landed|fixer|merged|{task}"));
}

#[test]
fn what_an_agent_can_write_sets_no_command() {
    let repo = TestRepo::with_commit();
    let notices = Notices::of(&repo);
    let mark = repo.path().with_file_name("mark");
    let evil = format!("touch {}", mark.display());
    let answer = repo.spawn_task(TASK, &["--name=fixer"]);
    let worktree = PathBuf::from(answer["worktree_abspath"].as_str().expect("a path"));
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    let set = ["config", "--worktree", "agent.onEnd", evil.as_str()];
    crate::support::git_in(&worktree, set);
    let ran = repo.agent(&["run", "fixer", "--no-verify", "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
    assert!(notices.next().starts_with("end|fixer|"));
    assert!(!mark.exists());
    // A file of the repository has no such key.
    repo.write(
        ".config/git-agent.toml",
        format!("[agent]\nonEnd = {evil:?}\n"),
    );
    repo.commit_all("settings");
    let refused = repo.agent(&["spawn", "Try it"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    assert!(!mark.exists());
}
