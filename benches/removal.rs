//! What ends an agent's life, as whole processes: `discard`, `merge` and `gc`.
//!
//! ```text
//! cargo bench --bench removal -- <repository> [rounds]
//! cargo bench --bench removal -- --generate [rounds]
//! ```
//!
//! The second makes a repository of 12,000 files first. Everything is done in clones beside the system's
//! temporary files (`TMPDIR`), so a directory in memory takes the disk out of the figures. Medians, after one
//! run that does not count. What of a discard is the salvage is seen from inside, in a run of its own
//! through the library. `gc` looks at 500 agents of a small repository: one in five landed by squash and
//! is in no other's way, one in five landed and was built upon, two did not land, one is at work.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Env;
use git_agent::agents::context::ctx::Seams;
use git_agent::git::Repo;
use git_agent::ops::discard;
use git_agent::ops::discard::DiscardOptions;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::agents::{TASK, Worker, spawn};
use support::clock::{median, medians, milliseconds, time};
use support::repository::{clone, count_files, generate};
use support::{AGENT, arguments, git, run, text};

/// Agents that `gc` looks at.
const CROWD: usize = 500;

fn main() {
    let words = arguments();
    let Some(repository) = words.first() else {
        println!("usage: cargo bench --bench removal -- <repository>|--generate [rounds]");
        return;
    };
    let rounds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(7);
    let dir = tempfile::tempdir().expect("temporary directory");
    let origin = match repository.as_str() {
        "--generate" => {
            let origin = dir.path().join("generated");
            generate(&origin, 12_000);
            origin
        }
        path => std::fs::canonicalize(path).expect("the repository"),
    };
    let scene = Scene::clone(dir.path(), "large", &origin);
    println!("cargo bench --bench removal -- {}", words.join(" "));
    println!("{} files, {rounds} rounds\n", count_files(&scene.main));
    row("", "git", "git-agent");
    discards(&scene, rounds);
    merges(&scene, rounds);
    let small = dir.path().join("little");
    generate(&small, 100);
    sweep(&Scene::clone(dir.path(), "small", &small));
}

/// A clone with a task beside it.
struct Scene {
    main: PathBuf,
    task: PathBuf,
}

impl Scene {
    fn clone(dir: &Path, name: &str, origin: &Path) -> Scene {
        let scene = Scene {
            main: clone(dir, name, "--no-bare", origin),
            task: dir.join(format!("{name}.toml")),
        };
        std::fs::write(&scene.task, TASK).expect("write");
        scene
    }

    fn worker(&self, number: usize) -> Worker {
        let worker = spawn(&self.main, &self.task, 1).remove(0);
        worker.work_on(number);
        worker
    }

    fn ctx(&self, seams: Seams) -> Ctx {
        let env = Env { directory: self.main.clone(), ..Env::default() };
        Ctx::new(Repo::open(&self.main).expect("a repository"), env, seams)
    }
}

/// Against the two commands that remove a worktree and a branch without keeping anything.
fn discards(scene: &Scene, rounds: usize) {
    let [git, took, salvage, rest] = medians(rounds, |round| {
        let ours = scene.worker(round);
        let took = time(&scene.main, &[AGENT, "discard", &ours.id]);
        let seen = scene.worker(round);
        let [salvage, rest] = inside(scene, &seen);
        let theirs = scene.worker(round);
        let path = text(&theirs.worktree);
        let remove = ["git", "worktree", "remove", "--force", "--force", path];
        let branch = ["git", "branch", "--quiet", "-D", &theirs.branch];
        let git = time(&scene.main, &remove) + time(&scene.main, &branch);
        [git, took, salvage, rest]
    });
    row("discard", &ms(git), &ms(took));
    row("  inside: the salvage, taken twice", "", &ms(salvage));
    row("  inside: everything else", "", &ms(rest));
}

/// The time that a discard spends on the salvage, and on everything else.
fn inside(scene: &Scene, worker: &Worker) -> [Duration; 2] {
    let start = Instant::now();
    let steps = Arc::new(Mutex::new(vec![("planned", start)]));
    let log = Arc::clone(&steps);
    let reached = move |name: &str| {
        let name = discard::STEPS.iter().find(|step| **step == name);
        let mut log = log.lock().expect("unpoisoned");
        log.extend(name.map(|name| (*name, Instant::now())));
    };
    let ctx = scene.ctx(Seams { reached: Arc::new(reached), ..Seams::real() });
    let plan = discard::plan(&ctx, &worker.id, DiscardOptions::default()).expect("a plan");
    let report = discard::execute(&ctx, plan).expect("discarded");
    let all = start.elapsed();
    discard::sweep(&ctx, &report.trash);
    let steps = steps.lock().expect("unpoisoned");
    let salvage = steps
        .windows(2)
        .filter(|pair| matches!(pair[1].0, "kept" | "proven"))
        .map(|pair| pair[1].1 - pair[0].1)
        .sum();
    [salvage, all - salvage]
}

/// Against git's own merge of the same branch, in the main worktree.
fn merges(scene: &Scene, rounds: usize) {
    let [theirs, ours] = medians(rounds, |round| {
        let worker = scene.worker(1000 + round);
        run(&scene.main, &[AGENT, "verify", &worker.id]);
        let ours = time(&scene.main, &[AGENT, "merge", &worker.id]);
        git(&scene.main, &["reset", "--quiet", "--hard", "HEAD^1"]);
        let words = ["git", "merge", "--quiet", "--no-ff", "--no-edit"];
        let theirs = time(&scene.main, &[&words[..], &[&worker.branch]].concat());
        [theirs, ours]
    });
    row("merge, verdict known", &ms(theirs), &ms(ours));
}

/// Five kinds of agents in turn.
fn sweep(scene: &Scene) {
    let workers = spawn(&scene.main, &scene.task, CROWD);
    for (number, worker) in workers.iter().enumerate() {
        worker.work(number);
        if number % 5 < 2 {
            let merge = ["merge", "--quiet", "--squash", &worker.branch];
            git(&scene.main, &merge);
            let message = format!("--message=work {number}");
            git(&scene.main, &["commit", "--quiet", &message]);
        }
        if number % 5 == 1 {
            let path = scene.main.join(format!("bench/{number}"));
            std::fs::write(path, "one\n2\nthree\nand four\n").expect("write");
            git(&scene.main, &["commit", "--quiet", "--all", "--message=on"]);
        }
        if number % 5 < 4 {
            run(&scene.main, &[AGENT, "done", &worker.id]);
        }
    }
    let looks = (0..5).map(|_| time(&scene.main, &[AGENT, "gc"])).collect();
    let report = run(&scene.main, &[AGENT, "gc", "--format=json"]).stdout;
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let agents = report["agents"].as_array().expect("agents");
    let doomed = agents.iter().filter(|one| one["action"] == "remove");
    let name = format!("gc of {CROWD}: what would go ({})", doomed.count());
    row(&name, "", &ms(median(looks)));
    let removed = time(&scene.main, &[AGENT, "gc", "--yes"]);
    row("  and removing them", "", &ms(removed));
}

fn row(name: &str, theirs: &str, ours: &str) {
    println!("{name:36} {theirs:>10} {ours:>10}");
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", milliseconds(time))
}
