//! `enter`, with a terminal on the other side of which is the test.

use super::spawned;
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::terminal::{size, terminal};
use crate::verify::refused;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, ExitStatus};

/// A terminal, and `enter` in it.
struct Session {
    outside: File,
    child: Child,
    seen: String,
}

impl Session {
    fn begin(repo: &TestRepo, id: &str, words: &[&str]) -> Session {
        let (outside, inside) = terminal(30, 100);
        let end = || inside.try_clone().expect("shared");
        let child = agent_command(&repo.path())
            .args(["enter", id])
            .args(words)
            .env("SHELL", "/bin/sh")
            .env("TMPDIR", repo.path().parent().expect("above"))
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("git-agent starts");
        Session { outside, child, seen: String::new() }
    }

    /// Reads until a text was written since the last one that was waited for.
    fn expect(&mut self, text: &str) {
        let mut buffer = [0; 4096];
        while !self.seen.contains(text) {
            let count = self.outside.read(&mut buffer).expect("the terminal is open");
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        let at = self.seen.find(text).expect("seen") + text.len();
        self.seen.drain(..at);
    }

    fn type_in(&mut self, text: &str) {
        self.outside.write_all(text.as_bytes()).expect("typed");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a number");
        kill_process(Pid::from_raw(pid).expect("a number"), signal).expect("sent");
    }

    /// Whether keys go through as they are pressed.
    fn is_raw(&self) -> bool {
        let modes = tcgetattr(&self.outside).expect("settings").local_modes;
        !modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    fn end(mut self) -> ExitStatus {
        let status = self.child.wait().expect("waited for");
        assert!(!self.is_raw(), "the settings of the terminal are restored");
        status
    }
}

#[test]
fn a_command_has_a_terminal_of_its_own_as_large_as_the_users() {
    let (repo, id) = spawned(TASK);
    let script = "stty size; test -t 0 && test -t 2 && echo \"terminal $(tty)\"; echo \"id $GIT_AGENT_ID\"; : > /dev/tty && echo opened; \
                  env | grep -c GIT_TERMINAL_PROMPT; stty size < /dev/tty && echo commanded; trap 'stty size' WINCH; read line; echo \"got $line\"; while read line; do echo \"and $line\"; done; \
                  exit 7";
    let mut session = Session::begin(&repo, &id, &["--", "sh", "-c", script]);
    session.expect("30 100");
    session.expect("terminal /dev/");
    session.expect(&format!("id {id}"));
    session.expect("opened");
    session.expect("0\r\n");
    session.expect("commanded");
    assert!(session.is_raw());
    session.type_in("one\r");
    session.expect("got one");
    // The window changes its size.
    tcsetwinsize(&session.outside, size(40, 120)).expect("sized");
    session.signal(Signal::WINCH);
    session.type_in("two\r");
    session.expect("40 120");
    session.type_in("\x04");
    session.expect("ended with status 7");
    assert_eq!(session.end().code(), Some(7));
    let shown = repo.agent_json(&["show", &id]);
    assert_eq!(shown["state"], "idle", "{shown}");
    assert_eq!(shown["run"]["exit_code"], 7, "{shown}");
    let log = repo.agent(&["logs", &id]);
    assert!(describe(&log).contains("got one"), "{}", describe(&log));
}

#[test]
fn a_shell_works_in_the_worktree_and_its_status_is_no_verdict() {
    let (repo, id) = spawned(TASK);
    let mut session = Session::begin(&repo, &id, &[]);
    session.type_in("echo 'pub fn two() {}' > src/two.rs; git add src; git commit -qm two; echo \"status $?\"\r");
    session.expect("status 0");
    session.type_in("exit 3\r");
    session.expect("ended with status 0");
    assert_eq!(session.end().code(), Some(0));
    let shown = repo.agent_json(&["show", &id]);
    assert_eq!(shown["state"], "idle", "{shown}");
    // Neither is a look into what is finished: what was said of it stands.
    let ways = [("done", "--summary=two", "done"), ("fail", "--reason=half", "failed")];
    for (verb, words, state) in ways {
        repo.agent_json(&[verb, &id, words]);
        let before = repo.agent_json(&["show", &id]);
        let mut session = Session::begin(&repo, &id, &[]);
        session.type_in("exit\r");
        assert_eq!(session.end().code(), Some(0));
        // Whatever a command of theirs ends with.
        for (script, code) in [("exit 3", 3), ("kill -9 $$", 137)] {
            let session = Session::begin(&repo, &id, &["--", "sh", "-c", script]);
            assert_eq!(session.end().code(), Some(code), "{script}");
        }
        let after = repo.agent_json(&["show", &id]);
        assert_eq!(after["state"], state, "{after}");
        for key in ["state", "verdict", "summary"] {
            assert_eq!(after[key], before[key], "{key} {after}");
        }
    }
    let branch = shown["branch"].as_str().expect("a branch").to_owned();
    assert_eq!(repo.git(["log", "-1", "--format=%s", &branch]), "two");
}

/// Errors name such commands, and a script has no terminal to follow them in.
#[test]
fn a_single_command_needs_no_terminal() {
    let (repo, id) = spawned(TASK);
    let output = repo.agent(&["enter", &id, "--", "sh", "-c", "echo from $GIT_AGENT_ID; exit 3"]);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains(&format!("from {id}")), "{}", describe(&output));
    refused(&repo.agent(&["enter", &id]), "usage", 2);
    refused(&repo.agent(&["enter", &id, "--host=claude"]), "usage", 2);
}

#[test]
fn the_users_terminal_is_restored_whatever_ends_the_command() {
    let (repo, id) = spawned(TASK);
    let session = Session::begin(&repo, &id, &["--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(session.end().code(), Some(137));
    let mut session =
        Session::begin(&repo, &id, &["--", "sh", "-c", "echo ready; exec sleep 1000"]);
    session.expect("ready");
    assert!(session.is_raw());
    session.signal(Signal::TERM);
    assert_eq!(session.end().code(), Some(143));
    let mut session =
        Session::begin(&repo, &id, &["--", "sh", "-c", "echo ready; exec sleep 1000"]);
    session.expect("ready");
    // Ctrl-C is a key like any other here, and the command's terminal makes an interrupt of it.
    session.type_in("\x03");
    assert_eq!(session.end().code(), Some(130));
}

#[test]
fn without_a_terminal_it_is_refused_and_run_is_named() {
    let (repo, id) = spawned(TASK);
    let output = repo.agent(&["enter", &id]);
    refused(&output, "usage", 2);
    assert!(describe(&output).contains(&format!("git agent run {id} -- ")));
    let output = repo.agent(&["shell", &id]);
    assert!(describe(&output).contains("git agent enter <agent>"));
}
