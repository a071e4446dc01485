//! `overlap` over many live agents, as whole processes:
//! `cargo bench --bench overlap -- [repository|generated] [agents] [rounds]`.
//!
//! Every agent may touch a directory of its own and every fourth also its neighbour's. Each has committed
//! one change, staged another and left a new file; every fourth changes the same line as its neighbour. Prints
//! medians in milliseconds: the `git status` of all worktrees, one after the other, which nobody can do
//! without; each comparison; everything with nothing remembered and with everything remembered; a landing
//! order; and what looking at all those scopes adds to `spawn --dry-run`.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The shape of the generated repository: directories, and files in each.
const GENERATED: (usize, usize) = (400, 25);

fn main() {
    // Cargo adds `--bench` of its own.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let number = |at: usize, otherwise: usize| {
        let word = arguments.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(otherwise)
    };
    let repository = arguments.first().map_or("generated", String::as_str);
    let (agents, rounds) = (number(1, 100), number(2, 5));
    let dir = tempfile::tempdir().expect("temporary directory");
    let main = dir.path().join("main");
    match repository {
        "generated" => generate(&main),
        path => {
            git(
                dir.path(),
                &["clone", "--quiet", "--shared", path, text(&main)],
            );
        }
    }
    let fleet = Fleet::spawn(dir.path(), main, agents);
    fleet.measure(rounds);
}

fn generate(main: &Path) {
    for directory in 0..GENERATED.0 {
        let directory = main.join(format!("src/part{directory:03}"));
        std::fs::create_dir_all(&directory).expect("directories");
        for file in 0..GENERATED.1 {
            let lines: String = (0..40).map(|line| format!("{file} {line}\n")).collect();
            std::fs::write(directory.join(format!("file{file:02}.txt")), lines).expect("write");
        }
    }
    git(main, &["init", "--quiet", "--initial-branch=main"]);
    git(main, &["add", "--all"]);
    git(main, &["commit", "--quiet", "--message=generated"]);
}

struct Fleet {
    main: PathBuf,
    task: PathBuf,
    worktrees: Vec<PathBuf>,
    /// Milliseconds of `spawn --dry-run` with one live agent.
    alone: f64,
}

impl Fleet {
    fn spawn(dir: &Path, main: PathBuf, agents: usize) -> Fleet {
        let directories = directories(&main);
        let task = dir.join("task.toml");
        let mut fleet = Fleet {
            main,
            task,
            worktrees: Vec::new(),
            alone: 0.0,
        };
        for number in 0..agents {
            let (own, file) = &directories[number % directories.len()];
            let (neighbour, shared) = &directories[(number + 1) % directories.len()];
            let globs = match number % 4 {
                0 => format!("[\"{own}/**\", \"{neighbour}/**\"]"),
                _ => format!("[\"{own}/**\"]"),
            };
            let text_of_task = format!(
                "role = \"edit-local\"\ntask = \"Change some files of the part number {number}.\"\n[scope]\nwhitelist = {globs}\n"
            );
            std::fs::write(&fleet.task, text_of_task).expect("write");
            if number == 1 {
                fleet.alone = fleet.time_dry_spawn(5);
            }
            let output = agent(&fleet.main, &["spawn", "--format=json", text(&fleet.task)]);
            let report: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
            let worktree = PathBuf::from(report["worktree_abspath"].as_str().expect("a path"));
            append(&worktree.join(file), &format!("agent {number}\n"));
            git(&worktree, &["add", "--update"]);
            git(
                &worktree,
                &["commit", "--quiet", "--no-verify", "--message=work"],
            );
            std::fs::write(worktree.join(own).join("new.txt"), "new\n").expect("write");
            if number % 4 == 0 {
                append(&worktree.join(shared), &format!("agent {number}\n"));
                git(&worktree, &["add", "--update"]);
            }
            fleet.worktrees.push(worktree);
        }
        fleet
    }

    fn measure(&self, rounds: usize) {
        let files = String::from_utf8(git(&self.main, &["ls-files"])).expect("UTF-8");
        let (agents, files) = (self.worktrees.len(), files.lines().count());
        println!("{agents} agents, {files} files each");
        let status = median(rounds, || {
            for worktree in &self.worktrees {
                let words = ["--no-optional-locks", "status", "--porcelain", "-uall"];
                git(worktree, &words);
            }
        });
        println!("git status, all worktrees in turn {status:.0} ms");
        for what in ["--scopes", "--changes", "--merge"] {
            let time = median(rounds, || drop(agent(&self.main, &["overlap", what])));
            println!("overlap {what} {time:.0} ms");
        }
        let cache = self.main.join(".git/agents/cache/overlap");
        let unseen = median(rounds, || {
            std::fs::remove_file(&cache).expect("a cache");
            agent(&self.main, &["overlap"]);
        });
        println!("overlap, nothing remembered {unseen:.0} ms");
        let known = median(rounds, || drop(agent(&self.main, &["overlap"])));
        println!("overlap, everything remembered {known:.0} ms");
        for worktree in &self.worktrees {
            let name = worktree.file_name().and_then(|name| name.to_str());
            let id = name.and_then(|name| name.strip_prefix("agent-"));
            agent(&self.main, &["done", id.expect("an id")]);
        }
        let order = median(rounds, || drop(agent(&self.main, &["overlap", "--order"])));
        println!("overlap --order {order:.0} ms");
        let report = agent(&self.main, &["overlap", "--format=json"]);
        let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
        let pairs = report["pairs"].as_array().expect("pairs");
        let conflicts = pairs
            .iter()
            .filter(|pair| pair["merge"]["state"] == "conflicts");
        println!("pairs {}, conflicts {}", pairs.len(), conflicts.count());
        let among = self.time_dry_spawn(rounds);
        println!(
            "spawn --dry-run with 1 live agent {:.1} ms, with {agents} {among:.1} ms",
            self.alone
        );
    }

    fn time_dry_spawn(&self, rounds: usize) -> f64 {
        let words = ["spawn", "--dry-run", text(&self.task)];
        median(rounds.max(11), || drop(agent(&self.main, &words)))
    }
}

/// Every tracked directory that holds files, each with the first of them.
fn directories(main: &Path) -> Vec<(String, String)> {
    let listed = String::from_utf8(git(main, &["ls-files"])).expect("UTF-8");
    let mut seen = BTreeSet::new();
    let plain = |name: &str| {
        name.bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))
    };
    listed
        .lines()
        .filter(|path| plain(path))
        .filter_map(|path| Some((path.rsplit_once('/')?.0.to_owned(), path.to_owned())))
        .filter(|(directory, _)| seen.insert(directory.clone()))
        .collect()
}

fn append(path: &Path, line: &str) {
    let mut content = std::fs::read(path).expect("a file");
    content.extend_from_slice(line.as_bytes());
    std::fs::write(path, content).expect("write");
}

/// Milliseconds, after one round that warms the caches.
fn median(rounds: usize, mut work: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..=rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed().as_secs_f64() * 1e3
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn git(directory: &Path, words: &[&str]) -> Vec<u8> {
    // What the agents' hooks say is no part of this.
    let mut command = Command::new("git");
    command.args(["-c", "core.hooksPath=/dev/null"]);
    run(command, directory, words)
}

fn agent(directory: &Path, words: &[&str]) -> Vec<u8> {
    let program = env!("CARGO_BIN_EXE_git-agent");
    run(Command::new(program), directory, words)
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
