//! `train`: many agents, few check runs.
//!
//! ```text
//! cargo bench --bench train -- fleet [agents] [bad] [seconds] [jobs]
//! cargo bench --bench train -- stack [agents] [files]
//! ```
//!
//! `fleet` lands agents of a small repository, some of which break a check that sleeps, and prints the runs, the time
//! beside that of landing one by one (a check for each agent, nothing else counted), and how long the train itself takes
//! between the end of one round of checks and the beginning of the next. `stack` judges, orders and stacks agents of a
//! large repository without a check. Everything is done beside the system's temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::agents::{TASK, spawn};
use support::clock::milliseconds;
use support::repository::{clone, count_files, generate};
use support::{AGENT, arguments, command, git, run, text};

fn main() {
    let words = arguments();
    let number = |at: usize, usual: usize| {
        let word = words.get(at).and_then(|word| word.parse().ok());
        word.unwrap_or(usual)
    };
    println!("cargo bench --bench train -- {}", words.join(" "));
    let dir = tempfile::tempdir().expect("temporary directory");
    match words.first().map(String::as_str) {
        Some("fleet") => {
            fleet(dir.path(), (number(1, 64), number(2, 3)), number(3, 5), number(4, 2))
        }
        Some("stack") => stack(dir.path(), number(1, 200), number(2, 13_000)),
        _ => println!("usage: cargo bench --bench train -- fleet|stack [numbers]"),
    }
}

/// A clone of a repository of that many files, with that many agents that are done. Every `bad`th is bad.
fn scene(dir: &Path, files: usize, check: &str, agents: usize, bad: usize) -> PathBuf {
    let origin = dir.join("origin");
    generate(&origin, files);
    let main = clone(dir, "main", "--no-bare", &origin);
    std::fs::create_dir_all(main.join(".config")).expect("directory");
    let settings = format!("[train]\nchecks = [{check:?}]\n");
    std::fs::write(main.join(".config/git-agent.toml"), settings).expect("write");
    git(&main, &["add", "."]);
    git(&main, &["commit", "--quiet", "--message=settings"]);
    let task = dir.join("task.toml");
    std::fs::write(&task, TASK).expect("write");
    for number in 0..agents {
        let worker = spawn(&main, &task, 1).remove(0);
        worker.work(number);
        if bad > 0 && number % (agents / bad) == agents / bad / 2 {
            worker.write(&format!("bench/{number}"), "bad\n");
        }
        run(&main, &[AGENT, "done", &worker.id]);
    }
    main
}

fn fleet(dir: &Path, (agents, bad): (usize, usize), seconds: usize, jobs: usize) {
    let check = format!("sleep {seconds}; ! grep -qsx bad bench/*");
    let main = scene(dir, 100, &check, agents, bad);
    let jobs = jobs.to_string();
    let words = [AGENT, "train", "--all", "--format=ndjson", "--jobs", &jobs];
    let start = Instant::now();
    let mut train = command(&main, &words);
    let mut child = train.stdout(Stdio::piped()).spawn().expect("starts");
    let mut between = Vec::new();
    let (mut running, mut idle, mut landed) = (0, start, 0);
    let mut runs = 0;
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        match event["event"].as_str() {
            Some("check-started") => {
                if running == 0 {
                    between.push(idle.elapsed());
                }
                (running, runs) = (running + 1, runs + 1);
            }
            Some("check-ended") if event["duration_ms"] != 0 => {
                running -= 1;
                idle = Instant::now();
            }
            Some("agent") => landed += usize::from(event["outcome"] == "landed"),
            _ => {}
        }
    }
    child.wait().expect("ends");
    let took = start.elapsed();
    let naive = Duration::from_secs((agents * seconds) as u64);
    println!("{agents} agents, {landed} landed, {bad} bad, a check of {seconds} s, {jobs} jobs");
    println!(
        "{runs} check runs in {:.1} s; one by one {:.0} s; {:.2} x",
        took.as_secs_f64(),
        naive.as_secs_f64(),
        took.as_secs_f64() / naive.as_secs_f64()
    );
    // Before the first round everything is judged and ordered.
    let first = between.remove(0);
    let most = between.iter().max().copied().unwrap_or_default();
    let sum: Duration = between.iter().sum();
    println!(
        "until the first check {:.0} ms; between rounds at most {:.0} ms, on average {:.0} ms; after the last {:.0} ms",
        milliseconds(first),
        milliseconds(most),
        milliseconds(sum) / between.len().max(1) as f64,
        milliseconds(idle.elapsed())
    );
}

fn stack(dir: &Path, agents: usize, files: usize) {
    let main = scene(dir, files, "true", agents, 0);
    let words = [AGENT, "train", "--all", "--dry-run", "--format=json"];
    // Once for the caches of the file system.
    for round in ["first", "again"] {
        let start = Instant::now();
        let answer = run(&main, &words).stdout;
        let took = start.elapsed();
        let answer: Value = serde_json::from_slice(&answer).expect("JSON");
        let stacked = answer["runs"][0]["stack"].as_array().map_or(0, Vec::len);
        println!(
            "{round}: {stacked} of {agents} agents of {} files ordered and stacked in {:.1} s",
            count_files(Path::new(text(&main))),
            took.as_secs_f64()
        );
    }
}
