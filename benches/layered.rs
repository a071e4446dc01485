//! Layered worktrees against copied ones, as whole processes, in a clone of any repository:
//! `cargo bench --bench layered -- <repository> [agents]`.
//!
//! Prints for each kind the median time of a spawn, of a run of `true` without a verdict, of a `verify` of ten changed files, of a `list`
//! of all and of a discard, in milliseconds, what an agent takes of the disk, and the ratios. Before that a copied spawn against
//! `git worktree add`, with the processor time of both; then the bars: 32 runs that begin at once; 100 layered agents on the disk; `list` of 17.
//! The base is made beforehand, as the pool's worktrees are. The clone is made beside the system's temporary files (`TMPDIR`).

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use support::clock::milliseconds;
use support::repository::{clone, count_files};
use support::{AGENT, arguments};

/// The medians of one kind, and the bytes of one agent.
struct Measured {
    times: [Duration; 5],
    bytes: u64,
}

fn main() {
    let mut arguments = arguments().into_iter();
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench layered -- <repository> [agents]");
        return;
    };
    let count = arguments.next().and_then(|word| word.parse().ok());
    let count = count.unwrap_or(9);
    let dir = tempfile::tempdir().expect("temporary directory");
    let clone = clone(dir.path(), "clone", "--no-bare", Path::new(&repository));
    println!("{} files, {count} agents", count_files(&clone));
    // The first one makes the base.
    let first = agent(&clone, &["spawn", "--layered", "make the base", "--format=json"]);
    assert!(first["layered"] == true, "no layered worktrees here: {first}");
    copied_against_git(&clone);
    // Gigabytes of copies are on their way to the disk for a while, and take a processor.
    let [layered, copied] = ["--layered=on", "--layered=off"].map(|how| {
        settle();
        measure(&clone, how, count)
    });
    for (name, at) in [("spawn", 0), ("run of true", 1), ("verify", 2), ("list", 3), ("discard", 4)]
    {
        let (theirs, ours) = (copied.times[at], layered.times[at]);
        println!(
            "{name:12} copied {:8.2} ms, layered {:8.2} ms, ratio {:.2}",
            milliseconds(theirs),
            milliseconds(ours),
            milliseconds(ours) / milliseconds(theirs)
        );
    }
    println!(
        "disk         copied {:8} kB, layered {:8} kB",
        copied.bytes / 1000,
        layered.bytes / 1000
    );
    bars(&clone);
}

/// What the layered worktrees of a large repository are to reach.
fn bars(clone: &Path) {
    settle();
    let spawn = |_| {
        let words = ["spawn", "--layered=on", "do a thing", "--format=json"];
        agent(clone, &words)
    };
    // One is there already.
    let mut spawned: Vec<Value> = (1..17).map(spawn).collect();
    let clock = Instant::now();
    agent(clone, &["list", "--format=json"]);
    println!("list of 17   {:.1} ms", milliseconds(clock.elapsed()));
    spawned.extend((17..100).map(spawn));
    let bytes: u64 =
        ["worktrees", "agents"].map(|name| disk_use(&clone.join(".git").join(name))).iter().sum();
    let bases = agent(clone, &["pool", "status", "--format=json"]);
    let bases: u64 = bases["bases"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|base| base["disk_bytes"].as_u64())
        .sum();
    println!(
        "100 agents   {} MB, {} MB of bases; bar 500 MB",
        bytes / 1_000_000,
        bases / 1_000_000
    );
    let clock = Instant::now();
    let begun: Vec<_> = spawned
        .iter()
        .take(32)
        .filter_map(|one| one["short_id"].as_str())
        .map(|id| {
            Command::new(AGENT)
                .args(["run", id, "--no-verify", "--quiet", "--", "true"])
                .current_dir(clone)
                .spawn()
        })
        .collect();
    let ended = begun.into_iter().map(|child| child.and_then(|mut child| child.wait()));
    let good =
        ended.filter(|status| status.as_ref().is_ok_and(std::process::ExitStatus::success)).count();
    println!("32 at once   {good} succeed in {:.0} ms", milliseconds(clock.elapsed()));
}

/// A copied spawn against `git worktree add`, before anything is removed: ext4 passes over inodes that were freed in the last minutes, one by
/// one, and making files then takes many times as long.
fn copied_against_git(clone: &Path) {
    settle();
    let of_git = processor_time(
        Command::new("git")
            .args(["worktree", "add", "-q", "--detach", "../by-git"])
            .current_dir(clone),
    );
    settle();
    let ours = processor_time(
        Command::new(AGENT).args(["spawn", "--layered=off", "do a thing"]).current_dir(clone),
    );
    println!(
        "copied       git worktree add {:.0} ms ({:.0} ms of processors), spawn {:.0} ms ({:.0} ms): ratios {:.2} and {:.2}; bars 0.50 and 1.00",
        milliseconds(of_git.0),
        milliseconds(of_git.1),
        milliseconds(ours.0),
        milliseconds(ours.1),
        milliseconds(ours.0) / milliseconds(of_git.0),
        milliseconds(ours.1) / milliseconds(of_git.1)
    );
}

/// Waits until the disk has all that was written to it.
fn settle() {
    let synced = Command::new("sync").status();
    assert!(synced.is_ok_and(|status| status.success()), "sync works");
}

/// The time that a command takes, and that of all processors.
fn processor_time(command: &mut Command) -> (Duration, Duration) {
    // What children that are over took, in hundredths of a second (proc(5)).
    let spent = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let fields = stat.rsplit(") ").next().unwrap_or_default().split(' ').skip(13);
        let ticks: u64 = fields.take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    };
    let (clock, before) = (Instant::now(), spent());
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (clock.elapsed(), spent() - before)
}

fn measure(clone: &Path, how: &str, count: usize) -> Measured {
    let mut times: [Vec<Duration>; 5] = Default::default();
    let mut spawned = Vec::new();
    for _ in 0..count {
        let clock = Instant::now();
        spawned.push(agent(clone, &["spawn", how, "do a thing", "--format=json"]));
        times[0].push(clock.elapsed());
    }
    let mut bytes = 0;
    for one in &spawned {
        let id = one["short_id"].as_str().expect("an id");
        let clock = Instant::now();
        agent(clone, &["run", id, "--no-verify", "--format=json", "--", "true"]);
        times[1].push(clock.elapsed());
        let places = [
            clone.join(".git/agents").join(id),
            clone.join(".git/worktrees").join(format!("agent-{id}")),
            Path::new(one["worktree_abspath"].as_str().expect("a path")).to_owned(),
        ];
        bytes = places.iter().map(|place| disk_use(place)).sum();
    }
    for one in &spawned {
        let id = one["short_id"].as_str().expect("an id");
        let script = "for one in $(git ls-files | head -n 10); do echo changed >> \"$one\"; done";
        let words = ["run", id, "--no-verify", "--format=json", "--", "sh", "-c", script];
        agent(clone, &words);
        let clock = Instant::now();
        agent(clone, &["verify", id, "--format=json"]);
        times[2].push(clock.elapsed());
    }
    for _ in &spawned {
        let clock = Instant::now();
        agent(clone, &["list", "--format=json"]);
        times[3].push(clock.elapsed());
    }
    for one in &spawned {
        let id = one["short_id"].as_str().expect("an id");
        let clock = Instant::now();
        agent(clone, &["discard", id, "--format=json"]);
        times[4].push(clock.elapsed());
    }
    let median = |mut times: Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2]
    };
    Measured { times: times.map(median), bytes }
}

fn agent(clone: &Path, words: &[&str]) -> Value {
    let output = Command::new(AGENT).args(words).current_dir(clone).output();
    let output = output.expect("git-agent starts");
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// What the files below a directory take of the disk, in bytes. A file with several names counts a part for each: layered worktrees
/// share the index of their base until a git writes another one. What is being deleted since an agent was discarded is left out.
fn disk_use(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = walkdir::WalkDir::new(directory).into_iter();
    let entries = entries.filter_entry(|entry| entry.file_name() != "trash").flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|file| file.blocks() * 512 / if file.is_file() { file.nlink().max(1) } else { 1 })
        .sum()
}
