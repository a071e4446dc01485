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
//! is in the way of nobody, one in five landed and was built upon, two did not land, one is at work.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads its arguments and prints"
)]

use git_agent::git::Repo;
use git_agent::ops::ctx::{Ctx, Env, Seams};
use git_agent::ops::discard::{self, DiscardOptions};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const AGENT: &str = env!("CARGO_BIN_EXE_git-agent");
const TASK: &str = r#"role = "edit-local"
task = "Change one file and add another one beside it."
[scope]
whitelist = ["bench/**"]
"#;
const BUNDLE: [(&str, &str); 5] = [
    ("plan.md", "written\n"),
    ("chatlog.md", "written\n"),
    ("handoffs.md", "written\n"),
    ("review.md", "written\n"),
    ("progress.json", "{\"status\": \"done\"}\n"),
];
/// Agents that `gc` looks at.
const CROWD: usize = 500;

fn main() {
    // Cargo adds `--bench` of its own.
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let Some(repository) = words.first() else {
        println!("usage: cargo bench --bench removal -- <repository>|--generate [rounds]");
        return;
    };
    let rounds = words.get(1).and_then(|word| word.parse().ok()).unwrap_or(7);
    let dir = tempfile::tempdir().expect("temporary directory");
    let origin = match repository.as_str() {
        "--generate" => generate(&dir.path().join("generated"), 12_000),
        path => std::fs::canonicalize(path).expect("the repository"),
    };
    let scene = Scene::clone(dir.path(), "large", &origin);
    println!("cargo bench --bench removal -- {}", words.join(" "));
    println!("{} files, {rounds} rounds\n", scene.files());
    row("", "git", "git-agent");
    discards(&scene, rounds);
    merges(&scene, rounds);
    let small = generate(&dir.path().join("little"), 100);
    sweep(&Scene::clone(dir.path(), "small", &small));
}

/// A clone with a task beside it.
struct Scene {
    main: PathBuf,
    task: PathBuf,
}

/// An agent that wrote its bundle, a commit and something beyond.
struct Worker {
    id: String,
    branch: String,
    worktree: PathBuf,
}

impl Scene {
    fn clone(dir: &Path, name: &str, origin: &Path) -> Scene {
        let scene = Scene {
            main: dir.join(name),
            task: dir.join(format!("{name}.toml")),
        };
        let words = ["clone", "--quiet", "--shared", text(origin)];
        git(dir, &[&words[..], &[text(&scene.main)]].concat());
        // Nobody tidies up meanwhile.
        for key in ["gc.auto", "maintenance.auto"] {
            git(&scene.main, &["config", key, "0"]);
        }
        std::fs::write(&scene.task, TASK).expect("write");
        scene
    }

    fn files(&self) -> usize {
        let names = git(&self.main, &["ls-files", "-z"]).stdout;
        names.iter().filter(|&&byte| byte == 0).count()
    }

    fn spawn(&self, count: usize) -> Vec<Worker> {
        let mut words = vec![AGENT, "spawn", "--format=ndjson"];
        words.extend(std::iter::repeat_n(text(&self.task), count));
        let output = run(&self.main, &words).stdout;
        let reports = serde_json::Deserializer::from_slice(&output).into_iter::<Value>();
        let reports = reports.map(|report| report.expect("JSON"));
        let worker = |report: Value| {
            let text = |key: &str| report[key].as_str().expect(key).to_owned();
            Worker {
                id: text("agent_id"),
                branch: text("branch"),
                worktree: text("worktree_abspath").into(),
            }
        };
        reports.map(worker).collect()
    }

    fn worker(&self, number: usize) -> Worker {
        let worker = self.spawn(1).remove(0);
        worker.work(number);
        worker.write(&format!("bench/{number}.more"), "more\n");
        worker
    }

    fn ctx(&self, seams: Seams) -> Ctx {
        let env = Env {
            directory: self.main.clone(),
            ..Env::default()
        };
        Ctx::new(Repo::open(&self.main).expect("a repository"), env, seams)
    }
}

impl Worker {
    fn write(&self, name: &str, content: &str) {
        let path = self.worktree.join(name);
        std::fs::create_dir_all(path.parent().expect("below")).expect("directories");
        std::fs::write(path, content).expect("write");
    }

    fn work(&self, number: usize) {
        for (name, content) in BUNDLE {
            self.write(&format!(".agent/{name}"), content);
        }
        self.write(&format!("bench/{number}"), "one\ntwo\nthree\n");
        git(&self.worktree, &["add", "bench"]);
        let past = ["-c", "core.hooksPath=/dev/null"];
        let commit = ["commit", "--quiet", "--message=work"];
        git(&self.worktree, &[&past[..], &commit].concat());
    }
}

/// Against the two commands that remove a worktree and a branch without keeping anything.
fn discards(scene: &Scene, rounds: usize) {
    let mut times: [Vec<Duration>; 4] = Default::default();
    for round in 0..=rounds {
        let ours = scene.worker(round);
        let took = time(&scene.main, &[AGENT, "discard", &ours.id]);
        let seen = scene.worker(round);
        let [salvage, rest] = inside(scene, &seen);
        let theirs = scene.worker(round);
        let path = text(&theirs.worktree);
        let remove = ["git", "worktree", "remove", "--force", "--force", path];
        let branch = ["git", "branch", "--quiet", "-D", &theirs.branch];
        let git = time(&scene.main, &remove) + time(&scene.main, &branch);
        if round > 0 {
            let measured = [git, took, salvage, rest];
            let pairs = times.iter_mut().zip(measured);
            pairs.for_each(|(times, took)| times.push(took));
        }
    }
    let [git, took, salvage, rest] = times.map(median);
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
    let ctx = scene.ctx(Seams {
        reached: Arc::new(reached),
        ..Seams::real()
    });
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
    let mut times: [Vec<Duration>; 2] = Default::default();
    for round in 0..=rounds {
        let worker = scene.worker(1000 + round);
        run(&scene.main, &[AGENT, "verify", &worker.id]);
        let ours = time(&scene.main, &[AGENT, "merge", &worker.id]);
        git(&scene.main, &["reset", "--quiet", "--hard", "HEAD^1"]);
        let words = ["git", "merge", "--quiet", "--no-ff", "--no-edit"];
        let theirs = time(&scene.main, &[&words[..], &[&worker.branch]].concat());
        if round > 0 {
            times[0].push(theirs);
            times[1].push(ours);
        }
    }
    let [theirs, ours] = times.map(median);
    row("merge, verdict known", &ms(theirs), &ms(ours));
}

/// Five kinds of agents in turn.
fn sweep(scene: &Scene) {
    let mut workers = Vec::new();
    while workers.len() < CROWD {
        workers.extend(scene.spawn(50));
    }
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

/// A repository of that many files, a hundred to a directory.
fn generate(directory: &Path, files: usize) -> PathBuf {
    std::fs::create_dir(directory).expect("directory");
    git(directory, &["init", "--quiet", "--initial-branch=main"]);
    let mut import = Command::new("git")
        .current_dir(directory)
        .args(["fast-import", "--quiet"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stream = String::from(
        "commit refs/heads/main\ncommitter bench <bench@localhost> 1700000000 +0000\ndata 5\nfirst\n",
    );
    for number in 0..files {
        let text = format!("pub fn function_{number}() -> usize {{\n    {number}\n}}\n").repeat(20);
        stream.push_str(&format!(
            "M 100644 inline src/directory_{}/file_{number}.rs\ndata {}\n{text}\n",
            number / 100,
            text.len()
        ));
    }
    let mut input = import.stdin.take().expect("piped");
    input.write_all(stream.as_bytes()).expect("written");
    drop(input);
    assert!(import.wait().expect("ends").success());
    git(directory, &["checkout", "--quiet", "--force", "main"]);
    directory.to_owned()
}

fn row(name: &str, theirs: &str, ours: &str) {
    println!("{name:36} {theirs:>10} {ours:>10}");
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn time(directory: &Path, words: &[&str]) -> Duration {
    let start = Instant::now();
    run(directory, words);
    start.elapsed()
}

fn git(directory: &Path, words: &[&str]) -> Output {
    run(directory, &[&["git"], words].concat())
}

fn run(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(words[0]);
    command.current_dir(directory).args(&words[1..]);
    for name in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{name}_NAME"), "bench");
        command.env(format!("GIT_{name}_EMAIL"), "bench@localhost");
    }
    let output = command.output().expect("starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    output
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
