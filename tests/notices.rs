//! Commands of the user that are run when something happened to an agent.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use serde_json::json;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
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
fn a_question_from_inside_of_the_fence_is_told_of_once_until_it_is_answered() {
    let repo = TestRepo::with_commit();
    let notices = Notices::of(&repo);
    let task = "Ask $(touch /tmp/owned) first";
    repo.agent_json(&["spawn", task, "--name=fixer", "--no-bundle"]);
    let program = env!("CARGO_BIN_EXE_git-agent");
    let ask = format!(
        "{program} send --type=clarify --to=user --payload question='which?' --payload context=x >&2"
    );
    let script = format!("{ask}; {ask}; until [ -e src/go ]; do sleep 0.01; done");
    let run = ["run", "fixer", "--no-verify", "--sandbox=auto", "--", "sh", "-c", &script];
    let mut command = agent_command(&repo.path());
    let child = command.args(run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("starts");
    let state = || {
        let agent = repo.agent_json(&["show", "fixer"]);
        agent["state"].as_str().expect("a state").to_owned()
    };
    assert_eq!(notices.next(), format!("waiting|fixer|waiting|{task}"));
    assert_eq!(state(), "waiting");
    // The second question is no news: what is told of next is the end.
    let worktree = repo.agent_json(&["show", "fixer"])["worktree_abspath"].clone();
    let worktree = worktree.as_str().expect("a path");
    fs::write(format!("{worktree}/src/go"), "").expect("written");
    let ended = child.wait_with_output().expect("over");
    assert!(ended.status.success(), "{}", describe(&ended));
    assert!(describe(&ended).contains("waits for an answer"), "{}", describe(&ended));
    assert_eq!(notices.next(), format!("end|fixer|waiting|{task}"));
    // The run ended well, and it still waits for the answer, of which the sender is told how it is read.
    assert_eq!(state(), "waiting");
    let answer = ["send", "--type=notify", "--from=user", "--to=fixer", "--payload=message=this"];
    let sent = repo.agent_json(&answer);
    assert!(sent["warnings"].to_string().contains("git agent run "), "{sent:#}");
    assert_eq!(state(), "idle");
    assert_eq!(repo.agent_json(&answer)["warnings"], json!([]));
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
    repo.write(".config/git-agent.toml", format!("[agent]\nonEnd = {evil:?}\n"));
    repo.commit_all("settings");
    let refused = repo.agent(&["spawn", "Try it"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    assert!(!mark.exists());
}

#[test]
fn the_recipes_of_the_documentation_run_nothing_that_an_agent_wrote() {
    let page = include_str!("../docs/look.md");
    let section = page.split("\n## Notifications\n").nth(1).expect("the section");
    let block = section.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next());
    let recipes: Vec<_> =
        block.expect("a block").lines().filter(|line| line.starts_with("git config ")).collect();
    assert_eq!(recipes.len(), 4, "{recipes:#?}");
    let repo = TestRepo::with_commit();
    let programs = repo.path().with_file_name("programs");
    fs::create_dir(&programs).expect("made");
    // Stand-ins that show their words and what they read.
    for name in ["notify-send", "osascript", "curl"] {
        let script = "#!/bin/sh\nprintf '<%s>' \"${0##*/}\" \"$@\"\ncase $* in *@-*) cat ;; esac\n";
        fs::write(programs.join(name), script).expect("written");
        fs::set_permissions(programs.join(name), Permissions::from_mode(0o755)).expect("set");
    }
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").expect("PATH"));
    let task = "--help $(touch owned) `touch owned` \"; touch owned; '\\";
    for recipe in recipes {
        if recipe.contains("jq ") && crate::shell::find("jq").is_none() {
            continue;
        }
        let mut set = Command::new("sh");
        set.args(["-c", recipe]).current_dir(repo.path());
        assert!(set.status().expect("starts").success(), "{recipe}");
        let key = recipe.split(' ').nth(2).expect("a key");
        let command = repo.git(["config", key]);
        let output = Command::new("sh")
            .args(["-c", command.trim_end()])
            .current_dir(repo.path())
            .env("PATH", &path)
            .envs(["NAME", "STATE", "TASK"].map(|of| (format!("GIT_AGENT_NOTICE_{of}"), task)))
            .output()
            .expect("starts");
        assert!(output.status.success(), "{recipe}: {}", describe(&output));
        let said = String::from_utf8_lossy(&output.stdout);
        let json = json!(task).to_string();
        assert!(said.contains(task) || said.contains(json.trim_matches('"')), "{recipe}: {said}");
        assert!(!repo.path().join("owned").exists(), "{recipe}");
    }
}
