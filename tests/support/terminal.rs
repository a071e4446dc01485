//! Terminals on the other side of which is the test.

use super::TestRepo;
use super::agent::agent_command;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A terminal of so many rows and columns: the test's side of it, and the side of the program.
pub fn terminal(rows: u16, columns: u16) -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let outside = openpt(flags).expect("a terminal");
    grantpt(&outside).expect("granted");
    unlockpt(&outside).expect("unlocked");
    let name = ptsname(&outside, Vec::new()).expect("named");
    let inside = program_side(Path::new(&name.into_string().expect("UTF-8")));
    tcsetwinsize(&outside, size(rows, columns)).expect("sized");
    (outside.into(), inside)
}

/// Opens the side of the program. Tests that lead a session of their own would have it for their terminal otherwise, and no program of
/// theirs could read from it.
pub fn program_side(terminal: &Path) -> File {
    let mut options = File::options();
    options.read(true).write(true).custom_flags(OFlags::NOCTTY.bits().cast_signed());
    options.open(terminal).expect("a terminal")
}

pub fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Reads what is written to a terminal, until it is this.
pub fn read(outside: &mut File, until: &str) -> String {
    let (mut seen, mut buffer) = (String::new(), [0; 4096]);
    while !seen.contains(until) {
        let count = outside.read(&mut buffer).expect("the test has the terminal open as well");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    seen
}

/// Which streams of a program are a terminal; the other one is left as it is.
#[derive(Clone, Copy)]
pub enum Streams {
    Both,
    Output,
    Errors,
}

/// Runs a program to its end on a terminal of so many rows and columns; gives what it shows there, in lines that end as files' do.
pub fn shown(
    command: &mut Command,
    (rows, columns): (u16, u16),
    streams: Streams,
) -> (String, ExitStatus) {
    let (mut outside, inside) = terminal(rows, columns);
    let side = || inside.try_clone().expect("shared");
    if let Streams::Both | Streams::Output = streams {
        command.stdout(side());
    }
    if let Streams::Both | Streams::Errors = streams {
        command.stderr(side());
    }
    let mut child = command.spawn().expect("starts");
    // A program that writes more than a terminal holds waits for its reader.
    let reader = std::thread::spawn(move || read(&mut outside, END));
    let status = child.wait().expect("ended");
    end(&inside);
    let seen = reader.join().expect("read");
    (seen.trim_end_matches(END).replace('\r', ""), status)
}

/// What the test writes to a terminal behind the last that a program showed. A terminal that no process has open any more can end before
/// what was written last is read.
pub const END: &str = "<the end>";

/// Writes [`END`].
pub fn end(mut inside: &File) {
    inside.write_all(END.as_bytes()).expect("written");
}

fn cells(count: u16) -> NonZero<u16> {
    NonZero::new(count).expect("some")
}

/// `git-agent` on a terminal of its own, of which the test sees the screen.
pub struct OnTerminal {
    pub child: Child,
    /// The program's side.
    pub terminal: File,
    /// Its modes before the program began, which can change them at once.
    pub usual_modes: String,
    pub screen: vt100::Parser,
    keyboard: File,
    pieces: Receiver<Vec<u8>>,
    /// What was sent, from where the test has not looked on.
    sent: String,
    /// All of it.
    all: String,
}

fn modes_of(terminal: &File) -> String {
    format!("{:?}", tcgetattr(terminal).expect("modes"))
}

impl OnTerminal {
    pub fn start(repo: &TestRepo, arguments: &[&str], columns: u16, rows: u16) -> OnTerminal {
        let mut command = agent_command(&repo.path());
        command.args(arguments);
        OnTerminal::of(command, columns, rows)
    }

    pub fn of(mut command: Command, columns: u16, rows: u16) -> OnTerminal {
        let (mut master, terminal) = terminal(rows, columns);
        let keyboard = master.try_clone().expect("cloned");
        let usual_modes = modes_of(&terminal);
        let side = || terminal.try_clone().expect("cloned");
        let child = command
            .env("SHELL", "/bin/sh")
            .stdin(side())
            .stdout(side())
            .stderr(side())
            // What stops a job stops no test.
            .process_group(0)
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
            usual_modes,
            screen: vt100::Parser::new(cells(rows), cells(columns), 0),
            keyboard,
            pieces,
            sent: String::new(),
            all: String::new(),
        }
    }

    /// Gives the terminal another size.
    pub fn resized(&mut self, rows: u16, columns: u16) {
        tcsetwinsize(&self.terminal, size(rows, columns)).expect("resized");
        let screen = self.screen.screen_mut();
        screen.set_size(cells(rows), cells(columns));
    }

    /// Types.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("typed");
    }

    /// Waits until the screen is as it should be.
    pub fn until(&mut self, is_so: impl Fn(&str) -> bool) {
        while !is_so(&self.screen.screen().contents()) {
            self.next("the screen");
        }
    }

    /// Waits until these bytes were sent, and forgets what came before their end.
    pub fn until_sent(&mut self, text: &str) {
        while !self.sent.contains(text) {
            self.next(text);
        }
        let end = self.sent.find(text).expect("it was found") + text.len();
        self.sent.drain(..end);
    }

    /// Everything that was sent by a program that has ended.
    pub fn sent(&mut self) -> String {
        // The thread that reads may not have come to it yet. What is written now comes after it.
        end(&self.terminal);
        while !self.all.ends_with(END) {
            self.next(END);
        }
        for text in [&mut self.sent, &mut self.all] {
            text.truncate(text.len() - END.len());
        }
        self.all.clone()
    }

    fn next(&mut self, wanted: &str) {
        // A failure's patience only.
        match self.pieces.recv_timeout(Duration::from_secs(90)) {
            Ok(piece) => self.take(&piece),
            Err(_) => panic!("{wanted:?} never came: {}", self.screen.screen().contents()),
        }
    }

    fn take(&mut self, piece: &[u8]) {
        self.screen.process(piece);
        let text = String::from_utf8_lossy(piece);
        self.sent.push_str(&text);
        self.all.push_str(&text);
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("signalled");
    }

    pub fn modes(&self) -> String {
        modes_of(&self.terminal)
    }

    pub fn echoes(&self) -> bool {
        let modes = tcgetattr(&self.terminal).expect("modes").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
