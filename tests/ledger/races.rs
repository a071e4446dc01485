//! Many processes on one ledger, behind a start barrier. The processes are this test binary again,
//! running [`child`] alone.

use super::{at, noted, oid, open};
use crate::support::{TestRepo, isolated};
use git_agent::domain::life::event::What;
use git_agent::domain::value::oid::Oid;
use git_agent::git::{Repo, record::notes};
use git_agent::store::ledger::Ledger;
use git_agent::store::{chain::keep, files::layout};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// What tells the test binary that it is a child: writer number and number of appends.
const CHILD: &str = "LEDGER_TEST_CHILD";

/// Appends when started by another test; does nothing in an ordinary run.
#[test]
#[expect(clippy::disallowed_methods, reason = "a child is told so by its environment")]
fn child() {
    let Ok(order) = std::env::var(CHILD) else {
        return;
    };
    let (writer, appends) = order.split_once(' ').expect("two numbers");
    let writer: usize = writer.parse().expect("a number");
    let repo = Repo::open(Path::new(".")).expect("open");
    let ledger = Ledger::new(&repo);
    let mut acknowledge = std::io::stderr();
    writeln!(acknowledge, "ready").expect("parent");
    // The barrier: the parent closes the pipe.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("parent");
    let appends: usize = appends.parse().expect("a number");
    for number in 0..appends {
        // Every third goes to a row that all share.
        let row = if number % 3 == 0 { 0 } else { writer + 1 };
        let text = format!("{writer}/{number}");
        ledger.append(oid(row), "writer", noted(&text), at(0)).expect("append");
        if number % 8 == 1 {
            keep::keep(&repo, &[], "test", at(0)).expect("keep");
        }
        // In one write: a kill between two would leave half an acknowledgement.
        let line = format!("ack {text}\n");
        acknowledge.write_all(line.as_bytes()).expect("parent");
    }
}

struct Writer {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStderr>>,
}

impl Writer {
    /// Starts a writer that waits at the barrier.
    fn start(test: &TestRepo, writer: usize, appends: usize) -> Writer {
        let program = std::env::current_exe().expect("this program");
        let mut child = isolated(program, &test.path())
            .args(["--exact", "ledger::races::child", "--nocapture"])
            .env(CHILD, format!("{writer} {appends}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("child starts");
        let stderr = child.stderr.take().expect("piped");
        let mut lines = BufReader::new(stderr).lines();
        assert_eq!(lines.next().expect("a line").expect("utf-8"), "ready");
        Writer { child, lines }
    }

    fn release(&mut self) {
        drop(self.child.stdin.take());
    }

    /// The next acknowledged text; `None` at the end.
    fn acknowledged(&mut self) -> Option<String> {
        let line = self.lines.next()?.expect("utf-8");
        let Some(text) = line.strip_prefix("ack ") else {
            let rest: Vec<_> = self.lines.by_ref().map_while(Result::ok).collect();
            panic!("a writer failed: {line}{}", rest.join("\n"));
        };
        Some(text.to_owned())
    }
}

/// How often each text stands in the ledger.
fn recorded(repo: &Repo) -> HashMap<String, usize> {
    let ledger = Ledger::new(repo);
    let tip = repo.read_commit(tip(repo)).expect("tip");
    let mut counts = HashMap::new();
    for (key, _) in notes::all(repo, tip.tree).expect("walk") {
        let events = ledger.events(key).expect("read");
        assert!(events.is_sorted_by_key(|event| event.at));
        // Nobody but us wrote, so the row's hash chain is unbroken and its stamps are unique.
        assert!(events.iter().skip(1).all(|event| event.previous.is_some()));
        assert_eq!(events[0].previous, None);
        for event in events {
            if let What::Noted { text } = event.what {
                *counts.entry(text).or_default() += 1;
            }
        }
    }
    counts
}

fn tip(repo: &Repo) -> Oid {
    let hex = std::fs::read_to_string(repo.common_dir().join(layout::LEDGER_REF));
    match hex {
        Ok(hex) => Oid::from_hex(hex.trim()).expect("oid"),
        Err(_) => repo.resolve_commit(layout::LEDGER_REF).expect("packed").commit,
    }
}

#[test]
fn every_append_of_sixteen_processes_is_there_once() {
    const APPENDS: usize = 12;
    let test = TestRepo::with_commit();
    let mut writers: Vec<_> = (0..16).map(|n| Writer::start(&test, n, APPENDS)).collect();
    writers.iter_mut().for_each(Writer::release);
    let mut acknowledged = 0;
    for writer in &mut writers {
        while writer.acknowledged().is_some() {
            acknowledged += 1;
        }
        assert!(writer.child.wait().expect("child").success());
    }
    assert_eq!(acknowledged, 16 * APPENDS);
    let recorded = recorded(&open(&test));
    assert_eq!(recorded.len(), acknowledged);
    assert!(recorded.values().all(|&count| count == 1));
    let commits = test.git(["rev-list", "--count", layout::LEDGER_REF]);
    assert_eq!(commits, acknowledged.to_string(), "one commit each, no fork");
    let keeps = test.git(["rev-list", "--count", layout::KEEP_REF]);
    assert_eq!(keeps, (16 * 2).to_string());
    assert_eq!(test.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn kills_and_repacking_lose_nothing() {
    let test = TestRepo::with_commit();
    // A killed writer may leave its ref lock. Its age is what the others wait for; this makes it
    // old. Nobody steals from the living: only the holder of the OS lock steals, and only
    // while nothing of git's runs.
    let age_ref_locks = || {
        for refname in [layout::LEDGER_REF, layout::KEEP_REF] {
            let lock = test.path().join(".git").join(format!("{refname}.lock"));
            if let Ok(file) = std::fs::File::options().write(true).open(lock) {
                let old = std::time::SystemTime::UNIX_EPOCH;
                file.set_modified(old).expect("age");
            }
        }
    };
    let mut writers: Vec<_> = (0..8).map(|n| Writer::start(&test, n, usize::MAX)).collect();
    writers.iter_mut().for_each(Writer::release);
    let mut acknowledged = Vec::new();
    for (victim, jobs) in (0..8).zip([["pack-refs", "--all"], ["gc", "--quiet"]].iter().cycle()) {
        let writer = &mut writers[victim];
        acknowledged.extend((0..10).filter_map(|_| writer.acknowledged()));
        test.git(jobs);
        writer.child.kill().expect("kill");
        writer.child.wait().expect("child");
        acknowledged.extend(std::iter::from_fn(|| writer.acknowledged()));
        age_ref_locks();
    }
    assert!(acknowledged.len() >= 8 * 10);
    let repo = open(&test);
    Ledger::new(&repo).append(oid(0), "me", noted("after"), at(0)).expect("append");
    let recorded = recorded(&repo);
    let lost: Vec<_> = acknowledged.iter().filter(|text| recorded.get(*text) != Some(&1)).collect();
    assert_eq!(lost, Vec::<&String>::new());
    assert!(recorded.values().all(|&count| count == 1));
    assert_eq!(test.git(["fsck", "--strict", "--no-dangling"]), "");
}

/// git removes directories that have become empty; here somebody does nothing else.
#[test]
fn directories_that_are_swept_away_are_made_again() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let who = repo.configured_identity();
    let common = repo.common_dir().to_owned();
    let target = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("a commit");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let objects: Vec<_> =
                (0..=255).map(|byte| common.join(format!("objects/{byte:02x}"))).collect();
            let refs = ["refs/heads/swept", "logs/refs/heads/swept"].map(|name| common.join(name));
            while !done.load(Ordering::Relaxed) {
                for directory in objects.iter().chain(refs.iter().cycle().take(64)) {
                    // Those with anything in them stay.
                    let _ = std::fs::remove_dir(directory);
                }
            }
        });
        // Set also when an assertion below fails, or the sweeper would go on for good.
        let _done = Done(&done);
        for number in 0..2000_u32 {
            let written = repo.write_blob(&number.to_be_bytes());
            let file = written.expect("a blob").to_string();
            let file = common.join("objects").join(&file[..2]).join(&file[2..]);
            std::fs::remove_file(file).expect("a loose object");
            if number % 4 == 0 {
                let branch = "refs/heads/swept/branch";
                assert!(repo.create_ref(branch, target, &who, "made").expect("made"));
                assert!(repo.delete_ref(branch, target).expect("deleted"));
            }
        }
    });
}

/// Says that it is over when it goes.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn all_processes_agree_on_the_clone_id() {
    let test = TestRepo::with_commit();
    let mut writers: Vec<_> = (0..8).map(|n| Writer::start(&test, n, 2)).collect();
    writers.iter_mut().for_each(Writer::release);
    for writer in &mut writers {
        while writer.acknowledged().is_some() {}
        assert!(writer.child.wait().expect("child").success());
    }
    let repo = open(&test);
    let id = std::fs::read_to_string(layout::clone_id(repo.common_dir())).expect("clone id");
    for agent in Ledger::new(&repo).agents().expect("read") {
        for event in Ledger::new(&repo).events(agent.spawn_commit).expect("read") {
            assert!(event.at.to_string().ends_with(id.trim()), "{}", event.at);
        }
    }
}
