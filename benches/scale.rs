//! What agents on many machines cost a remote: `cargo bench --bench scale -- [clones] [rounds] [at once]`.
//!
//! A plain program that prints a table. Each clone stands for a machine: in every round it spawns one agent in a
//! repository without files and exchanges its rows with a bare repository on the same disk, so many clones at once. A hook
//! of the bare repository counts the pushes and the refs that they moved.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program: it prints, reads the clock, and may panic"
)]

mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::clock::median_of;
use support::{AGENT, arguments, git, run, text};

const TASK: &str = "Measure what an agent costs a remote.";

fn main() {
    let numbers: Vec<usize> = arguments().iter().map(|word| word.parse().unwrap()).collect();
    let number = |index: usize, unless: usize| numbers.get(index).copied().unwrap_or(unless);
    let (clones, rounds, at_once) = (number(0, 200), number(1, 5), number(2, 8));
    let directory = tempfile::tempdir().unwrap();
    let remote = directory.path().join("remote.git");
    git(directory.path(), &["init", "--quiet", "--bare", "--initial-branch=main", text(&remote)]);
    let counted = directory.path().join("pushes");
    count_pushes(&remote, &counted);
    let machines: Vec<PathBuf> =
        (0..clones).map(|clone| machine(directory.path(), &remote, clone)).collect();
    println!(
        " agents   pushes  refs moved    rows' refs  remote's size  one sync (median)  ls-remote  git fetch of a user"
    );
    for round in 1..=rounds {
        let times = in_parallel(&machines, at_once, |machine| {
            run(machine, &[AGENT, "spawn", "--no-bundle", "--scope=src/**", "-m", TASK]);
            let clock = Instant::now();
            run(machine, &[AGENT, "sync", "origin"]);
            clock.elapsed()
        });
        let mut times: Vec<Duration> = times;
        times.sort();
        let sync = times[times.len() / 2];
        let refs = git(&remote, &["for-each-ref", "refs/notes", "refs/agents"]);
        let refs = refs.stdout.iter().filter(|&&byte| byte == b'\n').count();
        let listing = median_of(3, |_| drop(git(&machines[0], &["ls-remote", "origin"])));
        let fetch =
            median_of(3, |_| drop(git(&machines[0], &["fetch", "--quiet", "origin", "main"])));
        println!(
            "{:>7} {:>8} {:>11} {refs:>13} {:>11} KB {sync:>18.0?} {listing:>10.0?} {fetch:>20.0?}",
            round * clones,
            lines(&counted, "push"),
            lines(&counted, "refs/"),
            size(&remote) / 1024,
        );
    }
    let clock = Instant::now();
    let rest = in_parallel(&machines, at_once, |machine| {
        drop(run(machine, &[AGENT, "sync", "origin"]));
    });
    println!(
        "the last exchange of all {} clones: {:.1?}; {} pushes and {} moved refs in all",
        rest.len(),
        clock.elapsed(),
        lines(&counted, "push"),
        lines(&counted, "refs/"),
    );
    let ledger = |machine: &PathBuf| git(machine, &["rev-parse", "refs/notes/agents"]).stdout;
    let one = ledger(&machines[0]);
    let other = machines.iter().filter(|machine| ledger(machine) != one).count();
    println!("clones whose ledger is another than the first one's: {other}");
}

/// Has the bare repository write down every push, and every ref that one moves.
fn count_pushes(remote: &Path, counted: &Path) {
    let hook = remote.join("hooks/post-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    // One write for each push: they end at the same time.
    let script = format!("#!/bin/sh\nmoved=$(cat)\necho \"push\n$moved\" >>{}\n", text(counted));
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// How many lines of a file have this in them.
fn lines(file: &Path, word: &str) -> usize {
    let content = std::fs::read_to_string(file).unwrap_or_default();
    content.lines().filter(|line| line.contains(word)).count()
}

/// A clone.
fn machine(directory: &Path, remote: &Path, number: usize) -> PathBuf {
    let path = directory.join(format!("clone-{number}"));
    git(directory, &["clone", "--quiet", text(remote), text(&path)]);
    if number == 0 {
        git(&path, &["checkout", "--quiet", "-b", "main"]);
        git(&path, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        git(&path, &["push", "--quiet", "origin", "main"]);
    }
    path
}

/// Does it for every clone, so many at once; gives what each gave.
fn in_parallel<T: Send>(
    machines: &[PathBuf],
    at_once: usize,
    work: impl Fn(&Path) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let run = || {
            let mut done = Vec::new();
            while let Some(machine) = machines.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push(work(machine));
            }
            done
        };
        let running: Vec<_> = (0..at_once).map(|_| scope.spawn(run)).collect();
        running.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// The bytes of all files of a repository.
fn size(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.len(),
            // A file that a push has just moved.
            Err(_) => 0,
        })
        .sum()
}
