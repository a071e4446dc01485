//! `verify` against what it cannot do without, as whole processes, on any repository:
//! `cargo bench --bench verify -- <repository> [rounds]`.
//!
//! A clone gets an agent with a committed and an uncommitted change, and a base branch that moved on.
//! Prints medians in milliseconds: `git merge-tree --write-tree` plus `git status` in the agent's
//! worktree; `verify` of a state that it has not seen; `verify` of one that it has.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const TASK: &str = r#"role = "edit-local"
task = "Change one file and add another one beside it."
[scope]
whitelist = ["bench/**"]
"#;

fn main() {
    // Cargo adds `--bench` of its own.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"));
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench verify -- <repository> [rounds]");
        return;
    };
    let rounds: usize = arguments
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or(11);
    let dir = tempfile::tempdir().expect("temporary directory");
    let scene = Scene::build(dir.path(), &repository);
    let mut times: [Vec<Duration>; 3] = Default::default();
    for round in 0..=rounds {
        // Another content each time: a state that was never judged.
        scene.write("bench/uncommitted", &round.to_string());
        let measured = [scene.time_git(), scene.time_verify(), scene.time_verify()];
        // The first round warms the caches.
        if round > 0 {
            times
                .iter_mut()
                .zip(measured)
                .for_each(|(times, time)| times.push(time));
        }
    }
    let [git, fresh, known] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    });
    println!("git merge-tree + git status {git:.1} ms");
    println!(
        "verify, unseen state {fresh:.1} ms, ratio {:.2}",
        fresh / git
    );
    println!(
        "verify, known state {known:.1} ms, ratio {:.2}",
        known / git
    );
}

struct Scene {
    main: PathBuf,
    worktree: PathBuf,
    id: String,
    branch: String,
}

impl Scene {
    fn build(dir: &Path, repository: &str) -> Scene {
        let main = dir.join("main");
        git(
            dir,
            &["clone", "--quiet", "--shared", repository, path(&main)],
        );
        let task = dir.join("task.toml");
        std::fs::write(&task, TASK).expect("write");
        let output = agent(&main, &["spawn", "--format=json", path(&task)]);
        let report: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        let scene = Scene {
            main,
            worktree: text("worktree_abspath").into(),
            id: text("agent_id"),
            branch: text("branch"),
        };
        for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
            scene.write(&format!(".agent/{name}"), "written\n");
        }
        scene.write(".agent/progress.json", "{\"status\": \"done\"}\n");
        scene.write("bench/committed", "one\n");
        git(&scene.worktree, &["add", "bench"]);
        git(&scene.worktree, &["commit", "--quiet", "--message=work"]);
        git(
            &scene.main,
            &[
                "commit",
                "--quiet",
                "--allow-empty",
                "--message=the base moves",
            ],
        );
        scene
    }

    fn write(&self, name: &str, content: &str) {
        let path = self.worktree.join(name);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directories");
        std::fs::write(path, content).expect("write");
    }

    fn time_git(&self) -> Duration {
        let start = Instant::now();
        git(
            &self.main,
            &["merge-tree", "--write-tree", "HEAD", &self.branch],
        );
        git(
            &self.worktree,
            &["--no-optional-locks", "status", "--porcelain", "-uall"],
        );
        start.elapsed()
    }

    fn time_verify(&self) -> Duration {
        let start = Instant::now();
        agent(&self.main, &["verify", &self.id]);
        start.elapsed()
    }
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn git(directory: &Path, words: &[&str]) {
    run(Command::new("git"), directory, words);
}

fn agent(directory: &Path, words: &[&str]) -> Vec<u8> {
    run(
        Command::new(env!("CARGO_BIN_EXE_git-agent")),
        directory,
        words,
    )
}

fn run(mut command: Command, directory: &Path, words: &[&str]) -> Vec<u8> {
    command.current_dir(directory).args(words);
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "bench");
        command.env(format!("GIT_{name}_EMAIL"), "bench@localhost");
    }
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    output.stdout
}
