//! What the ledger costs as it grows: `cargo bench --bench ledger`.
//!
//! A plain program that prints a table. For the rows measured with many processes, or as a whole process,
//! it starts itself again with an order in its arguments.

#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program: it prints, reads the clock, and may panic"
)]

mod support;

use chrono::Utc;
use git_agent::domain::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::notes::fanout::{Batch, Put, put};
use git_agent::store::chain;
use git_agent::store::ledger::Ledger;
use std::path::Path;
use support::clock::median_of;
use support::storm::{self, event, oid};
use support::{arguments, git, run, text};

fn main() {
    let arguments = arguments();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [storm::ORDER, directory, writer] => storm::append(directory, writer),
        ["find", directory, who] => {
            let repo = Repo::open(Path::new(directory)).unwrap();
            Ledger::new(&repo).find(who).unwrap();
        }
        ["list", directory] => {
            let repo = Repo::open(Path::new(directory)).unwrap();
            assert!(!Ledger::new(&repo).agents().unwrap().is_empty());
        }
        _ => measure(),
    }
}

fn measure() {
    for rows in [0, 1_000, 10_000, 100_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        git(path, &["init", "--quiet"]);
        let repo = Repo::open(path).unwrap();
        fill(&repo, rows);
        let ledger = Ledger::new(&repo);
        let append = median_of(100, |round| {
            ledger
                .append(oid(rows + round), "bench", event(round), Utc::now())
                .unwrap();
        });
        println!("{rows:>7} rows  append                 {append:>10.2?}");
        if rows == 0 {
            continue;
        }
        let id = oid(rows / 2).to_hex();
        let find = median_of(21, |_| start(&["find", text(path), &id[..8]]));
        println!("{rows:>7} rows  find by id, process    {find:>10.2?}");
        let cold = median_of(3, |_| {
            let _ = std::fs::remove_dir_all(path.join(".git/agents/cache"));
            start(&["list", text(path)]);
        });
        println!("{rows:>7} rows  list cold, process     {cold:>10.2?}");
        let warm = median_of(9, |_| start(&["list", text(path)]));
        println!("{rows:>7} rows  list, process          {warm:>10.2?}");
        let name = format!("n{}", rows / 2);
        let by_name = median_of(9, |_| start(&["find", text(path), &name]));
        println!("{rows:>7} rows  find by name, process  {by_name:>10.2?}");
        let per_second = storm::appends_per_second(path);
        println!(
            "{rows:>7} rows  {} processes append   {per_second:>8.0}/s",
            storm::PROCESSES
        );
    }
}

/// Starts this program again and waits for it.
fn start(arguments: &[&str]) {
    let program = std::env::current_exe().unwrap();
    run(Path::new("."), &[&[text(&program)], arguments].concat());
}

/// Puts that many rows of two events into the ledger, packed as `git gc` would leave them.
fn fill(repo: &Repo, rows: usize) {
    if rows == 0 {
        return;
    }
    let mut batch = Batch::new();
    for number in 0..rows {
        let body = row(number);
        let blob = repo.write_blob(body.as_bytes()).unwrap();
        batch.insert(oid(number), Put::Replace(blob));
    }
    let tree = put(repo, Oid::EMPTY_TREE, batch).unwrap();
    let who = chain::identity(repo, Utc::now());
    let commit = chain::commit(repo, tree, &[], &who, "bench").unwrap();
    let (place, tip) = (repo.common_dir(), commit.to_hex());
    let update = ["update-ref", "--create-reflog", "refs/notes/agents", &tip];
    git(place, &update);
    git(place, &["repack", "-a", "-d", "-q"]);
    git(place, &["prune-packed", "-q"]);
}

/// A row as spawn writes it.
fn row(number: usize) -> String {
    let id = git_agent::domain::id::AgentId::from_spawn_commit(oid(number));
    let base = oid(0);
    let dna = "0".repeat(64);
    let at = |micros: usize| {
        format!(
            "20261120T{:02}{:02}{:02}.{micros:06}Z-000-7f3a",
            number / 3600 % 24,
            number / 60 % 60,
            number % 60
        )
    };
    format!(
        "{{\"t\":\"{}\",\"a\":\"{id}\",\"e\":\"spawning\",\"by\":\"bench\",\"d\":{{\"base\":\"{base}\",\"base_ref\":\"refs/heads/main\",\"branch\":\"refs/heads/agent/n{number}-20261120T214929Z\",\"description\":\"Add a verbose flag to the list command and test it\",\"dna\":\"sha256:{dna}\",\"isolation\":\"worktree\",\"name\":\"n{number}\",\"pid\":4711,\"role\":\"edit-local\",\"worktree\":\"/home/me/project/.claude/worktrees/agent-{number:08}\"}}}}\n\
         {{\"t\":\"{}\",\"a\":\"{id}\",\"e\":\"spawned\",\"by\":\"bench\",\"p\":\"0011223344556677\",\"d\":{{\"excludes\":[],\"policy\":\"{base}\",\"spec_sha\":\"{dna}\"}}}}\n",
        at(1),
        at(2)
    )
}
