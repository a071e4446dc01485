//! The list on a terminal: drawn, redrawn, and gone without a trace.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::terminal::{size, terminal};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::Read;
use std::process::Child;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A program on a terminal of its own.
struct OnTerminal {
    child: Child,
    terminal: File,
    pieces: Receiver<Vec<u8>>,
    seen: String,
}

impl OnTerminal {
    fn start(repo: &TestRepo, arguments: &[&str], columns: u16, rows: u16) -> OnTerminal {
        let (mut master, terminal) = terminal(rows, columns);
        let child = agent_command(&repo.path())
            .args(arguments)
            .stdin(terminal.try_clone().expect("cloned"))
            .stdout(terminal.try_clone().expect("cloned"))
            .stderr(terminal.try_clone().expect("cloned"))
            .spawn()
            .expect("starts");
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count) = master.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        OnTerminal {
            child,
            terminal,
            pieces,
            seen: String::new(),
        }
    }

    /// Reads on until a text was drawn, and forgets what came before its end.
    fn until(&mut self, text: &str) {
        while !self.seen.contains(text) {
            // A failure's patience only.
            match self.pieces.recv_timeout(Duration::from_secs(60)) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(_) => panic!("{text:?} was never drawn: {:?}", self.seen),
            }
        }
        let end = self.seen.find(text).expect("it was found") + text.len();
        self.seen.drain(..end);
    }

    /// All that was drawn by a program that ends by itself.
    fn all_of_it(mut self) -> String {
        assert_eq!(self.child.wait().expect("ends").code(), Some(0));
        drop(self.terminal);
        let pieces: Vec<u8> = self.pieces.iter().flatten().collect();
        String::from_utf8(pieces).expect("UTF-8")
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("signalled");
    }

    fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("modes").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}

fn resize(terminal: &File, columns: u16, rows: u16) {
    tcsetwinsize(terminal, size(rows, columns)).expect("resized");
}

#[test]
fn it_draws_redraws_and_leaves() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=fixer"]);
    let mut watch = OnTerminal::start(&repo, &["list", "--watch", "--interval=0.1"], 80, 24);
    watch.until("\x1b[?1049h");
    watch.until("fixer");
    assert!(!watch.echoes());
    repo.agent_json(&["done", "fixer"]);
    watch.until("done");
    repo.spawn_task(TASK, &["--name=second"]);
    watch.until("second");
    // On a narrow terminal columns yield.
    resize(&watch.terminal, 44, 24);
    watch.signal(Signal::WINCH);
    watch.until("AGENT");
    watch.until("TASK");
    watch.signal(Signal::INT);
    watch.until("\x1b[?1049l");
    assert_eq!(watch.child.wait().expect("ends").code(), Some(0));
    assert!(watch.echoes());
}

#[test]
fn more_agents_than_lines_are_counted() {
    let repo = TestRepo::with_commit();
    for _ in 0..4 {
        repo.spawn();
    }
    let mut watch = OnTerminal::start(&repo, &["list", "--watch", "--fast"], 80, 4);
    watch.until("… and 3 more");
    watch.signal(Signal::TERM);
    watch.until("\x1b[?1049l");
    assert_eq!(watch.child.wait().expect("ends").code(), Some(0));
}

#[test]
fn it_wants_a_terminal() {
    let repo = TestRepo::with_commit();
    for arguments in [
        &["list", "--watch"][..],
        &["list", "--watch", "--format=json"],
    ] {
        let output = repo.agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("git agent list --format ndjson"), "{error}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_long_name_leaves_room_for_the_others() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name", &"n".repeat(63)]);
    repo.spawn_task(TASK, &["--name=fixer"]);
    let seen = OnTerminal::start(&repo, &["list"], 80, 24).all_of_it();
    let text = anstream::adapter::strip_str(&seen).to_string();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(
        lines.iter().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(
        lines[0].contains("VERDICT") || lines[0].contains("SCOPE"),
        "{text}"
    );
    assert!(
        lines[1].contains(" nnnnnnnnnnn") && lines[1].contains("…  ready"),
        "{text}"
    );
    assert!(lines[2].contains(" fixer  "), "{text}");
}
