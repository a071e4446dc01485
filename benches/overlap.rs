//! `overlap` over many live agents, as whole processes:
//! `cargo bench --bench overlap -- [repository|generated] [agents] [rounds]`.
//!
//! Every agent may touch a directory of its own and every fourth also its neighbour's. Each has committed
//! one change, staged another and left a new file; every fourth changes the same line as its neighbour. Prints
//! medians in milliseconds: the `git status` of all worktrees, one after the other, which cannot be done
//! without; each comparison; everything with nothing remembered and with everything remembered; a landing
//! order; and what looking at all those scopes adds to `spawn --dry-run`.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use support::agents::{Worker, spawn};
use support::clock::{median_of, milliseconds};
use support::repository::{clone, count_files};
use support::{AGENT, arguments, run, text};

/// The shape of the generated repository: directories, and files in each.
const GENERATED: (usize, usize) = (400, 25);

fn main() {
    let arguments = arguments();
    let number = |at: usize, otherwise: usize| {
        let word = arguments.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(otherwise)
    };
    let repository = arguments.first().map_or("generated", String::as_str);
    let (agents, rounds) = (number(1, 100), number(2, 5));
    let dir = tempfile::tempdir().expect("temporary directory");
    let main = match repository {
        "generated" => generate(&dir.path().join("main")),
        path => clone(dir.path(), "main", "--no-bare", Path::new(path)),
    };
    let fleet = Fleet::spawn(dir.path(), main, agents);
    fleet.measure(rounds);
}

fn generate(main: &Path) -> PathBuf {
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
    main.to_owned()
}

struct Fleet {
    main: PathBuf,
    task: PathBuf,
    workers: Vec<Worker>,
    /// Milliseconds of `spawn --dry-run` with one live agent.
    alone: f64,
}

impl Fleet {
    fn spawn(dir: &Path, main: PathBuf, agents: usize) -> Fleet {
        let directories = directories(&main);
        let task = dir.join("task.toml");
        let mut fleet = Fleet { main, task, workers: Vec::new(), alone: 0.0 };
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
            let worker = spawn(&fleet.main, &fleet.task, 1).remove(0);
            let worktree = &worker.worktree;
            append(&worktree.join(file), &format!("agent {number}\n"));
            git(worktree, &["add", "--update"]);
            git(worktree, &["commit", "--quiet", "--no-verify", "--message=work"]);
            std::fs::write(worktree.join(own).join("new.txt"), "new\n").expect("write");
            if number % 4 == 0 {
                append(&worktree.join(shared), &format!("agent {number}\n"));
                git(worktree, &["add", "--update"]);
            }
            fleet.workers.push(worker);
        }
        fleet
    }

    fn measure(&self, rounds: usize) {
        let (agents, files) = (self.workers.len(), count_files(&self.main));
        println!("{agents} agents, {files} files each");
        let status = median(rounds, || {
            for worker in &self.workers {
                let words = ["--no-optional-locks", "status", "--porcelain", "-uall"];
                git(&worker.worktree, &words);
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
        for worker in &self.workers {
            agent(&self.main, &["done", &worker.id]);
        }
        let order = median(rounds, || drop(agent(&self.main, &["overlap", "--order"])));
        println!("overlap --order {order:.0} ms");
        let report = agent(&self.main, &["overlap", "--format=json"]);
        let report: serde_json::Value = serde_json::from_slice(&report).expect("JSON");
        let pairs = report["pairs"].as_array().expect("pairs");
        let conflicts = pairs.iter().filter(|pair| pair["merge"]["state"] == "conflicts");
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
    let plain =
        |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b));
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
    work();
    milliseconds(median_of(rounds, |_| work()))
}

fn git(directory: &Path, words: &[&str]) -> Vec<u8> {
    // What the agents' hooks say is no part of this.
    let git = ["git", "-c", "core.hooksPath=/dev/null"];
    run(directory, &[&git[..], words].concat()).stdout
}

fn agent(directory: &Path, words: &[&str]) -> Vec<u8> {
    run(directory, &[&[AGENT], words].concat()).stdout
}
