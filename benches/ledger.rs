//! What the ledger costs as it grows: `cargo bench --bench ledger`.
//!
//! A plain program that prints a table. For the rows measured with many processes, or as a whole process,
//! it starts itself again with an order in its arguments.

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
use std::path::Path;
use support::clock::median_of;
use support::rows::fill;
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
            ledger.append(oid(rows + round), "bench", event(round), Utc::now()).unwrap();
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
        println!("{rows:>7} rows  {} processes append   {per_second:>8.0}/s", storm::PROCESSES);
    }
}

/// Starts this program again and waits for it.
fn start(arguments: &[&str]) {
    let program = std::env::current_exe().unwrap();
    run(Path::new("."), &[&[text(&program)], arguments].concat());
}
