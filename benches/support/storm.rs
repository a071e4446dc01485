//! Many processes that append to one ledger for a while. They are the bench itself, started again with an
//! order in its arguments.

use super::{command, text};
use chrono::Utc;
use git_agent::domain::life::event::What;
use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use git_agent::store::ledger::Ledger;
use sha1::Digest;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

/// How many processes there are.
pub(crate) const PROCESSES: usize = 64;
const APPENDS_EACH: usize = 40;
/// How many events they write in all.
pub(crate) const APPENDS: usize = PROCESSES * APPENDS_EACH;

/// The first argument of a process that appends; the repository and its own number follow.
pub(crate) const ORDER: &str = "append";

/// All processes behind a barrier; appends per second.
pub(crate) fn appends_per_second(repository: &Path) -> f64 {
    let program = std::env::current_exe().expect("this program");
    let mut children: Vec<_> = (0..PROCESSES)
        .map(|writer| {
            let words = [text(&program), ORDER, text(repository), &writer.to_string()];
            let mut child = command(repository, &words);
            child.stdin(Stdio::piped()).stdout(Stdio::piped());
            child.spawn().expect("starts")
        })
        .collect();
    for child in &mut children {
        let ready = BufReader::new(child.stdout.take().expect("piped")).lines().next();
        assert_eq!(ready.expect("a line").expect("read"), "ready");
    }
    let begin = Instant::now();
    for child in &mut children {
        drop(child.stdin.take());
    }
    for child in &mut children {
        assert!(child.wait().expect("ends").success());
    }
    APPENDS as f64 / begin.elapsed().as_secs_f64()
}

/// What each of the processes does.
pub(crate) fn append(repository: &str, writer: &str) {
    let repo = Repo::open(Path::new(repository)).expect("a repository");
    let ledger = Ledger::new(&repo);
    let writer: usize = writer.parse().expect("a number");
    println!("ready");
    // The barrier: the other end closes the pipe.
    std::io::stdin().read_to_end(&mut Vec::new()).expect("read");
    for round in 0..APPENDS_EACH {
        let row = oid(10_000_000 + writer * APPENDS_EACH + round);
        let appended = ledger.append(row, "bench", event(round), Utc::now());
        appended.expect("appended");
    }
}

/// An event as long as most are.
pub(crate) fn event(number: usize) -> What {
    What::Noted { text: format!("remark {number}: {}", "x".repeat(150)) }
}

/// The name of a commit that need not be there.
pub(crate) fn oid(number: usize) -> Oid {
    Oid::from_slice(&sha1::Sha1::digest(number.to_be_bytes())).expect("twenty bytes")
}
