//! What the messenger costs as the mailbox grows: `cargo bench --bench mail`.
//!
//! A plain program that prints a table. For the rows measured with many processes it starts itself
//! again with an order in its arguments; the rows that say "process" start the built `git-agent`.

#![allow(
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a measuring program: it prints, reads the clock, and may panic"
)]

mod support;

use chrono::{DateTime, TimeDelta, Utc};
use git_agent::domain::mail::message::{Handing, Letter, Message, MessageId, Name};
use git_agent::domain::mail::message_rules::Draft;
use git_agent::domain::value::stamp::Stamp;
use git_agent::git::Repo;
use git_agent::git::objects::NewCommit;
use git_agent::store::chain;
use git_agent::store::mailbox::{Mailbox, Nonce, Reader, Wanted};
use git_agent::wire::row::message::{encode, payload};
use std::collections::HashSet;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};
use support::clock::{median, median_of};
use support::{AGENT, arguments, command, git, text};

const SENDERS: usize = 64;
const RECEIVERS: usize = 8;
const SENDS_EACH: usize = 20;

fn main() {
    let arguments = arguments();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["send", directory, number] => send_many(Path::new(directory), number),
        ["receive", directory] => receive_many(Path::new(directory)),
        _ => measure(),
    }
}

fn measure() {
    for messages in [0, 10_000, 100_000] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        git(path, &["init", "--quiet"]);
        git(path, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        let repo = Repo::open(path).unwrap();
        fill(&repo, messages);
        let mailbox = Mailbox::new(&repo);
        let reader = reader();
        let send = median_of(50, |round| drop(post(&mailbox, &format!("s{round}"))));
        println!("{messages:>7} messages  send                    {send:>10.2?}");
        let receive = median_of(50, |_| {
            let wanted = Wanted { limit: Some(1), ..Wanted::default() };
            let taken = mailbox.receive(&reader, wanted, Handing::Archive, Utc::now());
            assert_eq!(taken.unwrap().len(), 1);
        });
        println!("{messages:>7} messages  receive one             {receive:>10.2?}");
        let send = median_of(15, |_| agent(path, &SEND, true));
        println!("{messages:>7} messages  send, process           {send:>10.2?}");
        let receive = ["receive", "--agent=bench", "--limit=1"];
        let receive = median_of(15, |_| agent(path, &receive, true));
        println!("{messages:>7} messages  receive one, process    {receive:>10.2?}");
        let nothing = median_of(15, |_| agent(path, &["receive", "--agent=reader"], false));
        println!("{messages:>7} messages  receive none, process   {nothing:>10.2?}");
        let cold = median_of(3, |_| {
            let _ = std::fs::remove_dir_all(path.join(".git/agents/cache"));
            agent(path, &["inbox", "--agent=bench"], true);
        });
        println!("{messages:>7} messages  inbox cold, process     {cold:>10.2?}");
        let wake = median((0..9).map(|_| wake(path)).collect());
        println!("{messages:>7} messages  send to woken receiver  {wake:>10.2?}");
        let per_second = storm(path);
        println!(
            "{messages:>7} messages  {SENDERS} senders, {RECEIVERS} receivers {per_second:>6.0}/s, each exactly once"
        );
    }
}

const SEND: [&str; 4] = ["send", "--type=notify", "--to=bench", "--payload=message=x"];

fn agent(path: &Path, arguments: &[&str], succeeds: bool) {
    let mut command = command(path, &[&[AGENT], arguments].concat());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(command.status().unwrap().success(), succeeds);
}

/// From the start of a send to the end of a receiver that waited for it.
fn wake(path: &Path) -> Duration {
    let words = [AGENT, "receive", "--agent=sleeper", "--wait"];
    let mut child = command(path, &words).stdout(Stdio::null()).spawn().unwrap();
    // Long enough for it to wait; a measurement, not a test.
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    let to = "--to=sleeper";
    agent(path, &["send", "--type=notify", to, "--payload=message=x"], true);
    assert!(child.wait().unwrap().success());
    begin.elapsed()
}

/// All processes behind a barrier; messages per second from the first send to the last receipt.
fn storm(path: &Path) -> f64 {
    let mut receivers: Vec<_> = (0..RECEIVERS).map(|_| start(path, &["receive"])).collect();
    let mut senders: Vec<_> =
        (0..SENDERS).map(|number| start(path, &["send", &number.to_string()])).collect();
    // Long enough for all to be at the barrier; a measurement, not a test.
    std::thread::sleep(Duration::from_secs(1));
    let begin = Instant::now();
    for child in receivers.iter_mut().chain(&mut senders) {
        drop(child.stdin.take());
    }
    for child in &mut senders {
        assert!(child.wait().unwrap().success());
    }
    let repo = Repo::open(path).unwrap();
    for _ in 0..RECEIVERS {
        let stop = letter("storm", "stop");
        Mailbox::new(&repo).post(stop, nonce(), Utc::now()).unwrap();
    }
    let mut seen = HashSet::new();
    let mut count = 0;
    for child in receivers {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        for text in String::from_utf8(output.stdout).unwrap().lines() {
            count += 1;
            seen.insert(text.to_owned());
        }
    }
    let elapsed = begin.elapsed();
    assert_eq!((seen.len(), count), (SENDERS * SENDS_EACH, SENDERS * SENDS_EACH));
    count as f64 / elapsed.as_secs_f64()
}

fn start(path: &Path, order: &[&str]) -> Child {
    let program = std::env::current_exe().unwrap();
    let words = [&[text(&program), order[0], text(path)], &order[1..]].concat();
    let mut command = command(path, &words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn send_many(directory: &Path, number: &str) {
    let repo = Repo::open(directory).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    for round in 0..SENDS_EACH {
        let letter = letter("storm", &format!("{number}/{round}"));
        Mailbox::new(&repo).post(letter, nonce(), Utc::now()).unwrap();
    }
}

/// Receives until it is told to stop, which is the last thing that is sent.
fn receive_many(directory: &Path) {
    let repo = Repo::open(directory).unwrap();
    let reader = Reader::stranger(&Name::parse("storm").unwrap()).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    let wanted = Wanted { limit: Some(8), ..Wanted::default() };
    loop {
        let mailbox = Mailbox::new(&repo);
        let taken = mailbox.receive(&reader, wanted, Handing::Archive, Utc::now());
        let mut stops = 0;
        for (_, message) in taken.unwrap() {
            match message.letter.summary() {
                "stop" => stops += 1,
                text => println!("{text}"),
            }
        }
        // A reader that takes more than its own stop passes the rest on.
        for _ in 1..stops {
            mailbox.post(letter("storm", "stop"), nonce(), Utc::now()).unwrap();
        }
        if stops > 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Puts that many messages into the mailbox, all read, packed as `git gc` would leave them.
fn fill(repo: &Repo, messages: usize) {
    if messages == 0 {
        return;
    }
    let start: DateTime<Utc> = Utc::now() - TimeDelta::days(2);
    let who = chain::identity(repo, start);
    let tree = repo.write_tree(Vec::new()).unwrap();
    let mut tip = None;
    for number in 0..messages {
        let time = start + TimeDelta::seconds(i64::try_from(number).unwrap());
        let at = Stamp::next(time, 0x7f3a, None);
        let message = Message {
            id: MessageId::new(at, 0),
            at,
            nonce: format!("{number:016x}"),
            letter: letter("bench", &format!("message {number}")),
        };
        let parents: Vec<_> = tip.into_iter().collect();
        let commit = repo.write_commit(&NewCommit {
            tree,
            parents: &parents,
            author: &who,
            committer: &who,
            header: None,
            message: &encode(&message),
        });
        tip = Some(commit.unwrap());
    }
    let tip = tip.unwrap().to_hex();
    let common = repo.common_dir();
    git(common, &["update-ref", "--create-reflog", "refs/agents/mail", &tip]);
    git(common, &["repack", "-a", "-d", "-q"]);
    git(common, &["prune-packed", "-q"]);
    let wanted = Wanted { limit: Some(250), ..Wanted::default() };
    let mailbox = Mailbox::new(repo);
    let reader = reader();
    loop {
        let taken = mailbox.receive(&reader, wanted, Handing::Archive, Utc::now());
        if taken.unwrap().is_empty() {
            break;
        }
    }
    git(common, &["repack", "-a", "-d", "-q"]);
    git(common, &["prune-packed", "-q"]);
}

fn reader() -> Reader {
    Reader::stranger(&Name::parse("bench").unwrap()).unwrap()
}

fn post(mailbox: &Mailbox<'_>, text: &str) -> Message {
    mailbox.post(letter("bench", text), nonce(), Utc::now()).unwrap()
}

fn letter(to: &str, text: &str) -> Letter {
    let json = format!("{{\"message\":\"{text}\"}}");
    Draft {
        kind: "notify",
        from: "bencher",
        to: vec![to],
        payload: payload::parse(&json).ok(),
        ..Draft::default()
    }
    .check()
    .unwrap()
}

fn nonce() -> Nonce {
    Nonce(*uuid::Uuid::new_v4().as_bytes())
}
