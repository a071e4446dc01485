//! What an agent host waits for before each tool call, as whole processes:
//! `cargo bench --bench host_hook [-- <files> [rounds]]`.
//!
//! Makes a repository of so many files (100,000 unless told) in the system's temporary directory
//! (`TMPDIR`), spawns an agent in it, and prints the medians in milliseconds of `git-agent hook pre-tool` for
//! calls of each kind, beside `git rev-parse` in the same place.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const TASK: &str = r#"role = "edit-local"
task = "Change one file of very many and nothing else."
[scope]
whitelist = ["d1/**"]
"#;

fn main() {
    // Cargo adds `--bench` of its own.
    let mut numbers = std::env::args().filter_map(|word| word.parse().ok());
    let files: usize = numbers.next().unwrap_or(100_000);
    let rounds: usize = numbers.next().unwrap_or(51);
    let dir = tempfile::tempdir().expect("temporary directory");
    let top = std::fs::canonicalize(dir.path())
        .expect("there")
        .join("repo");
    make_repository(&top, files);
    let worktree = spawn(&top);
    let write = |path: &str| {
        format!(r#"{{"tool_name":"Write","tool_input":{{"file_path":"{path}","content":"x"}}}}"#)
    };
    let many: Vec<String> = (0..100).map(|n| format!("\"d1/new{n}.txt\"")).collect();
    let many = format!(
        r#"{{"tool_name":"write_file","tool_input":{{"paths":[{}]}}}}"#,
        many.join(",")
    );
    let read = r#"{"tool_name":"Read","tool_input":{"file_path":"d1/f1.txt"}}"#;
    let cases = [
        ("inside an agent, in scope", &worktree, write("d1/f1.txt")),
        (
            "inside an agent, out of scope",
            &worktree,
            write("d2/f2.txt"),
        ),
        ("inside an agent, 100 files", &worktree, many),
        (
            "inside an agent, a tool that reads",
            &worktree,
            read.to_owned(),
        ),
        ("in the main worktree", &top, write("d1/f1.txt")),
    ];
    println!("{files} files, median of {rounds}, ms");
    for (name, directory, payload) in cases {
        let time = median(rounds, || pre_tool(directory, &payload));
        println!("{:6.1}  {name}", time.as_secs_f64() * 1e3);
    }
    let git = median(rounds, || {
        let mut command = Command::new("git");
        command
            .args(["rev-parse", "--show-toplevel"])
            .stdout(Stdio::null());
        timed(command.current_dir(&worktree), b"")
    });
    println!(
        "{:6.1}  git rev-parse --show-toplevel",
        git.as_secs_f64() * 1e3
    );
}

fn make_repository(top: &Path, files: usize) {
    for number in 0..files {
        let directory = top.join(format!("d{}", number % 997));
        if number < 997 {
            std::fs::create_dir_all(&directory).expect("made");
        }
        let text = number.to_string();
        std::fs::write(directory.join(format!("f{number}.txt")), text).expect("written");
    }
    for words in [
        &["init", "--quiet"][..],
        &["add", "."],
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.com",
            "commit",
            "--quiet",
            "-m",
            "all",
        ],
    ] {
        let status = Command::new("git").current_dir(top).args(words).status();
        assert!(status.expect("git starts").success(), "git {words:?}");
    }
}

fn spawn(top: &Path) -> PathBuf {
    let task = top.with_file_name("task.toml");
    std::fs::write(&task, TASK).expect("written");
    let mut command = agent(top);
    let output = command.arg("spawn").arg(&task).output().expect("starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let worktrees = std::fs::read_dir(top.join(".claude/worktrees")).expect("there");
    worktrees.flatten().next().expect("one").path()
}

fn agent(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_git-agent"));
    command.current_dir(directory).env_remove("GIT_AGENT_ID");
    command
}

fn pre_tool(directory: &Path, payload: &str) -> Duration {
    let mut command = agent(directory);
    timed(command.args(["hook", "pre-tool"]), payload.as_bytes())
}

fn timed(command: &mut Command, input: &[u8]) -> Duration {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait().expect("ends");
    start.elapsed()
}

fn median(rounds: usize, mut run: impl FnMut() -> Duration) -> Duration {
    // The first one warms the cache.
    run();
    let mut times: Vec<_> = (0..rounds.max(1)).map(|_| run()).collect();
    times.sort();
    times[times.len() / 2]
}
