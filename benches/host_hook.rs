//! What an agent host waits for before each tool call, as whole processes:
//! `cargo bench --bench host_hook [-- <files> [rounds]]`.
//!
//! Makes a repository of so many files (100,000 unless told) in the system's temporary directory
//! (`TMPDIR`), spawns an agent in it, and prints the medians in milliseconds of `git-agent hook pre-tool` for
//! calls of each kind and of `post-tool` after a shell command, beside `git rev-parse` in the same place.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::agents::spawn;
use support::clock::{median, milliseconds};
use support::{AGENT, arguments, command, git};

const TASK: &str = r#"role = "edit-local"
task = "Change one file of very many and nothing else."
[scope]
whitelist = ["d1/**"]
"#;

fn main() {
    let mut numbers = arguments().into_iter().filter_map(|word| word.parse().ok());
    let files: usize = numbers.next().unwrap_or(100_000);
    let rounds: usize = numbers.next().unwrap_or(51);
    let dir = tempfile::tempdir().expect("temporary directory");
    let top = std::fs::canonicalize(dir.path()).expect("there").join("repo");
    make_repository(&top, files);
    let task = top.with_file_name("task.toml");
    std::fs::write(&task, TASK).expect("written");
    let worktree = spawn(&top, &task, 1).remove(0).worktree;
    let write = |path: &str| {
        format!(r#"{{"tool_name":"Write","tool_input":{{"file_path":"{path}","content":"x"}}}}"#)
    };
    let many: Vec<String> = (0..100).map(|n| format!("\"d1/new{n}.txt\"")).collect();
    let many =
        format!(r#"{{"tool_name":"write_file","tool_input":{{"paths":[{}]}}}}"#, many.join(","));
    let read = r#"{"tool_name":"Read","tool_input":{"file_path":"d1/f1.txt"}}"#;
    let cases = [
        ("inside an agent, in scope", &worktree, write("d1/f1.txt")),
        ("inside an agent, out of scope", &worktree, write("d2/f2.txt")),
        ("inside an agent, 100 files", &worktree, many),
        ("inside an agent, a tool that reads", &worktree, read.to_owned()),
        ("in the main worktree", &top, write("d1/f1.txt")),
    ];
    println!("{files} files, median of {rounds}, ms");
    for (name, directory, payload) in cases {
        let time = typical(rounds, || hook("pre-tool", directory, &payload));
        println!("{:6.1}  {name}", milliseconds(time));
    }
    let shell =
        r#"{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_input":{"command":"make"}}"#;
    let time = typical(rounds, || hook("post-tool", &worktree, shell));
    println!("{:6.1}  inside an agent, after a shell command", milliseconds(time));
    let words = ["git", "rev-parse", "--show-toplevel"];
    let git = typical(rounds, || {
        let mut command = command(&worktree, &words);
        timed(command.stdout(Stdio::null()), b"")
    });
    println!("{:6.1}  {}", milliseconds(git), words.join(" "));
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
    git(top, &["init", "--quiet"]);
    git(top, &["add", "."]);
    git(top, &["commit", "--quiet", "-m", "all"]);
}

fn hook(moment: &str, directory: &Path, payload: &str) -> Duration {
    let mut command = command(directory, &[AGENT, "hook", moment]);
    timed(&mut command, payload.as_bytes())
}

fn timed(command: &mut Command, input: &[u8]) -> Duration {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts");
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    child.wait().expect("ends");
    start.elapsed()
}

fn typical(rounds: usize, mut run: impl FnMut() -> Duration) -> Duration {
    // The first one warms the cache.
    run();
    median((0..rounds.max(1)).map(|_| run()).collect())
}
