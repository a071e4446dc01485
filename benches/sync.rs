//! What `sync` costs against plain git with a bare remote on the same disk: `cargo bench --bench sync`.
//!
//! A plain program that prints a table: the first exchange of 10,000 rows, nothing new, one event more, and 32 clones with 20
//! events each that synchronise at the same moment, until one clone has united them all. Then the count of wrong answers of 8
//! clones that synchronise 12 times each, and of 64 clones that take one claim, land nothing and synchronise in turns.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program: it prints, reads the clock, and may panic"
)]

mod support;

use chrono::Utc;
use git_agent::git::Repo;
use git_agent::store::ledger::Ledger;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use support::clock::{at_once, medians, time};
use support::rows::fill;
use support::storm::{event, oid};
use support::{AGENT, command, git, text};

const ROWS: usize = 10_000;
const ROUNDS: usize = 11;
const CLONES: usize = 32;
const EVENTS: usize = 20;

const LEDGER: &str = "refs/notes/agents";
const SYNC: [&str; 3] = [AGENT, "sync", "origin"];

fn main() {
    many_rows();
    many_clones();
    wrong_answers("8 clones x 12 syncs", 8, 12, &[&SYNC]);
    let best_effort: &[&str] = &[AGENT, "sync", "--best-effort", "origin"];
    let mixed: [&[&str]; 3] = [&SYNC, best_effort, &[AGENT, "list"]];
    wrong_answers("64 clones, mixed", 64, 6, &mixed);
}

/// One clone with many rows.
fn many_rows() {
    let directory = tempfile::tempdir().unwrap();
    let clone = clone_of(&hub(directory.path(), "hub.git"), "clone");
    let repo = Repo::open(&clone).unwrap();
    fill(&repo, ROWS);
    print("first exchange", time(&clone, &SYNC), "", Duration::ZERO);
    // The same for plain git, with a remote of its own.
    let plain = hub(directory.path(), "plain.git");
    git(&clone, &["remote", "add", "plain", text(&plain)]);
    let push = ["git", "push", "--quiet", "plain", LEDGER];
    let fetch = ["git", "fetch", "--quiet", "plain", "+refs/notes/agents:refs/plain"];
    time(&clone, &push);
    time(&clone, &fetch);
    let [idle, fetched] = medians(ROUNDS, |_| [time(&clone, &SYNC), time(&clone, &fetch)]);
    print("nothing new", idle, "git fetch", fetched);
    let [one, both] = medians(ROUNDS, |round| {
        append(&repo, round);
        let ours = time(&clone, &SYNC);
        [ours, time(&clone, &fetch) + time(&clone, &push)]
    });
    print("one event more", one, "git fetch + git push", both);
}

/// Many clones with some events each, all at the same moment.
fn many_clones() {
    let directory = tempfile::tempdir().unwrap();
    let hub = hub(directory.path(), "hub.git");
    let clones: Vec<PathBuf> =
        (0..CLONES).map(|number| clone_of(&hub, &format!("clone-{number}"))).collect();
    let mut written = 0;
    let mut write = || {
        for clone in &clones {
            let repo = Repo::open(clone).unwrap();
            for _ in 0..EVENTS {
                append(&repo, written);
                written += 1;
            }
        }
    };
    write();
    let next = AtomicUsize::new(0);
    let start = Instant::now();
    let (ended, all) =
        at_once(CLONES, || command(&clones[next.fetch_add(1, Ordering::Relaxed)], &SYNC));
    let last = time(&clones[0], &SYNC);
    let waited = start.elapsed() - all - last;
    assert!(ended.iter().all(|output| output.status.success()));
    let there = git(&hub, &["ls-tree", "-r", "--name-only", LEDGER]).stdout;
    let rows = there.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(rows, CLONES * EVENTS, "after {waited:?} of preparation");
    // Plain pushes, each to a ref of its own, so that none of them fails.
    write();
    let next = AtomicUsize::new(0);
    let (ended, plain) = at_once(CLONES, || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let refspec = format!("{LEDGER}:refs/plain/{number}");
        command(&clones[number], &["git", "push", "--quiet", "origin", &refspec])
    });
    assert!(ended.iter().all(|output| output.status.success()));
    let what = format!("{CLONES} clones x {EVENTS} events, all united");
    print(&what, all + last, "as many git push", plain);
}

/// Prints how many of the commands that clones run at the same moment, in turns, end in another way than with success, and
/// checks that no row is lost.
fn wrong_answers(what: &str, count: usize, rounds: usize, commands: &[&[&str]]) {
    let directory = tempfile::tempdir().unwrap();
    let hub = hub(directory.path(), "hub.git");
    let clones: Vec<PathBuf> =
        (0..count).map(|number| clone_of(&hub, &format!("clone-{number}"))).collect();
    let (mut took, mut wrong) = (Duration::ZERO, 0);
    for round in 0..rounds {
        let next = AtomicUsize::new(0);
        let (ended, time) = at_once(count, || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            append(&Repo::open(&clones[number]).unwrap(), number * rounds + round);
            command(&clones[number], commands[(number + round) % commands.len()])
        });
        took += time;
        for output in ended.iter().filter(|output| !output.status.success()) {
            println!("{}", String::from_utf8_lossy(&output.stderr));
            wrong += 1;
        }
    }
    // What was sent to outboxes is united by one clone, after each has sent what it has.
    for clone in &clones {
        time(clone, &SYNC);
    }
    let there = git(&hub, &["ls-tree", "-r", "--name-only", LEDGER]).stdout;
    let rows = there.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(rows, count * rounds, "rows were lost");
    println!("{what:<38} {took:>9.1?}   {wrong} wrong answers of {}", count * rounds);
}

fn print(what: &str, ours: Duration, other: &str, theirs: Duration) {
    let against = if theirs.is_zero() {
        String::new()
    } else {
        let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
        format!("{other} {theirs:>9.1?}  ratio {ratio:.2}")
    };
    println!("{what:<38} {ours:>9.1?}   {against}");
}

/// A bare remote with one commit.
fn hub(directory: &Path, name: &str) -> PathBuf {
    let hub = directory.join(name);
    git(directory, &["init", "--quiet", "--bare", "-b", "main", text(&hub)]);
    let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
    git(&hub, &["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let commit = git(&hub, &["commit-tree", "-m", "first", tree]).stdout;
    let commit = String::from_utf8(commit).unwrap();
    git(&hub, &["update-ref", "refs/heads/main", commit.trim()]);
    hub
}

fn clone_of(hub: &Path, name: &str) -> PathBuf {
    let clone = hub.with_file_name(name);
    let place = hub.parent().unwrap();
    git(place, &["clone", "--quiet", text(hub), text(&clone)]);
    for (key, value) in [
        ("gc.auto", "0"),
        ("maintenance.auto", "0"),
        ("user.name", "bench"),
        ("user.email", "bench@localhost"),
    ] {
        git(&clone, &["config", key, value]);
    }
    clone
}

/// One event on a row of its own.
fn append(repo: &Repo, number: usize) {
    let ledger = Ledger::new(repo);
    let row = oid(20_000_000 + number);
    ledger.append(row, "bench", event(number), Utc::now()).unwrap();
}
