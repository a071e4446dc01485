//! The one door through which this program starts the user's `git`.

use crate::domain::{Oid, value::shell};
use crate::error::{Code, Error, Result};
use crate::system::{self, ResourceLimits};
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};
use tracing::debug;

/// After this time a git that reads what an agent wrote is suspected to wait for something that never comes.
const PATIENCE: Duration = Duration::from_secs(1);

/// What `git rev-parse --local-env-vars` lists: variables that tie a process to one repository. A
/// child that works in another worktree must not inherit them.
pub const LOCAL_VARIABLES: &[&str] = &[
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_CONFIG_COUNT",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_INTERNAL_SUPER_PREFIX",
    // Not one of those, but attributes from a tree would count for git alone, and not where files are read without it.
    "GIT_ATTR_SOURCE",
    // Nor these: paths are given to git as they are, and it refuses to take them in two ways.
    "GIT_GLOB_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
];

/// Variables under which git writes each index as one file. Git puts the shared part of a split index beside `HEAD`, and that is not
/// beside the index where it works through a stand-in or on a copy.
pub const WHOLE_INDEX: [(&str, &str); 3] = [
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "core.splitIndex"),
    ("GIT_CONFIG_VALUE_0", "false"),
];

/// A `git` command that will run in `directory`, free of the caller's repository variables, without
/// standard input and without a prompt.
pub fn git(directory: &Path) -> Command {
    let mut command = Command::new("git");
    for variable in LOCAL_VARIABLES {
        command.env_remove(variable);
    }
    command
        .current_dir(directory)
        .envs(WHOLE_INDEX)
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null());
    command
}

/// A program of the user's that shows what it is given page by page, as git would start it (git-config(1):
/// `core.pager`).
pub(in crate::git) fn pager(line: &str) -> Command {
    let mut command = Command::new("sh");
    let line = format!("export LESS=\"${{LESS-FRX}}\" LV=\"${{LV--c}}\"; {line}");
    command.args(["-c", &line]).stdin(Stdio::piped());
    command
}

/// The program that signs and checks texts for git, without standard input.
pub(in crate::git) fn signer(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

/// Runs `git` and gives its output whatever the status.
///
/// # Errors
/// `git-missing` when there is no `git`, `io` when it cannot be started.
pub fn output<A: AsRef<OsStr>>(
    directory: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Output> {
    let mut command = git(directory);
    command.args(arguments);
    finish(&mut command)
}

/// Runs `git` and gives its standard output.
///
/// # Errors
/// As [`output`], and `git-failed` with what git said when it ends unsuccessfully.
pub fn run<A: AsRef<OsStr>>(
    directory: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Result<Vec<u8>> {
    let mut command = git(directory);
    command.args(arguments);
    successful(command)
}

/// The names in what a command of git's gave with `-z`.
pub fn names(output: &[u8]) -> impl Iterator<Item = &[u8]> {
    output.split(|&byte| byte == 0).filter(|name| !name.is_empty())
}

/// Runs a command that [`git`] made and gives its standard output.
///
/// # Errors
/// As [`run`].
pub fn successful(mut command: Command) -> Result<Vec<u8>> {
    let output = finish(&mut command)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(refused(&command, &output))
}

/// As [`successful`], for a git that unpacks what a program of the agent's wrote.
///
/// # Errors
/// As [`run`]; `object-too-large` where git ended because of a limit.
pub(in crate::git) fn successful_within(
    mut command: Command,
    limits: &ResourceLimits,
) -> Result<Vec<u8>> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = launch(&mut command)?;
    // On the running process: what it becomes keeps its limits, and std has no safe step between
    // fork and exec.
    system::limit(child.id(), limits);
    let output = child.wait_with_output();
    let output = output.map_err(|error| not_started(&command, error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let refused = refused(&command, &output);
    let said = String::from_utf8_lossy(&output.stderr);
    // A git that a limit ends is killed by a signal, or is refused memory and says so.
    let is_limit = output.status.code().is_none() || said.contains("ut of memory");
    Err(if is_limit {
        let what = "git took more memory or time than what an agent wrote is worth";
        Error::new(Code::ObjectTooLarge, what).because(refused.to_string())
    } else {
        refused
    })
}

/// A `git` that is running.
#[must_use]
pub(in crate::git) struct Running {
    command: Command,
    child: Child,
}

/// Starts a command that [`git`] made, whose output is asked for later.
///
/// # Errors
/// As [`output`].
pub(in crate::git) fn start(mut command: Command) -> Result<Running> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    log(&command);
    let child = command.spawn();
    let child = child.map_err(|error| not_started(&command, error))?;
    Ok(Running { command, child })
}

impl Running {
    /// Waits for the end and gives the output. Where that takes long, `is_blocked` says, again and again, whether the
    /// end will never come: then the git is killed, and the answer is `None`.
    ///
    /// # Errors
    /// As [`run`].
    pub(in crate::git) fn successful_unless(
        mut self,
        is_blocked: impl Fn() -> bool,
    ) -> Result<Option<Output>> {
        let pipes: [Option<Box<dyn Read + Send>>; 2] = [
            self.child.stdout.take().map(|pipe| Box::new(pipe) as _),
            self.child.stderr.take().map(|pipe| Box::new(pipe) as _),
        ];
        let finished = thread::scope(|scope| {
            let (open, ended) = mpsc::channel::<()>();
            let readers = pipes.map(|pipe| {
                // Each reader holds an end of a channel that never carries anything: it is closed
                // when both are through.
                let open = open.clone();
                scope.spawn(move || -> std::io::Result<Vec<u8>> {
                    let _open = open;
                    let mut bytes = Vec::new();
                    if let Some(mut pipe) = pipe {
                        pipe.read_to_end(&mut bytes)?;
                    }
                    Ok(bytes)
                })
            });
            drop(open);
            let mut patience = PATIENCE;
            let mut is_killed = false;
            while ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                if is_blocked() {
                    self.child.kill()?;
                    is_killed = true;
                    break;
                }
                // What is_blocked asks costs a look at many files, so a git that is only slow is
                // asked about less and less often.
                patience *= 2;
            }
            let [stdout, stderr] = readers.map(|reader| match reader.join() {
                Ok(bytes) => bytes,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            let output = Output { status: self.child.wait()?, stdout: stdout?, stderr: stderr? };
            Ok((!is_killed).then_some(output))
        });
        let finished: std::io::Result<_> = finished;
        match finished.map_err(|error| not_started(&self.command, error))? {
            Some(output) if !output.status.success() => Err(refused(&self.command, &output)),
            output => Ok(output),
        }
    }
}

/// Runs a command that [`git`] made and gives its output whatever the status; `None` where it did not end by then, as
/// one that waits for a network. It is killed, but what it started in turn, as an ssh, may go on for a moment.
///
/// # Errors
/// As [`output`].
pub(in crate::git) fn finish_by(command: Command, end: Instant) -> Result<Option<Output>> {
    let mut running = start(command)?;
    let failed = |source| Error::io("could not read what git says", source);
    let pipes: [Option<Box<dyn Read + Send>>; 2] = [
        running.child.stdout.take().map(|pipe| Box::new(pipe) as _),
        running.child.stderr.take().map(|pipe| Box::new(pipe) as _),
    ];
    // The readers are not waited for after a kill: a child of git's may hold the pipes open.
    let readers = pipes.map(|pipe| {
        let (sender, receiver) = mpsc::sync_channel(1);
        let read = move || {
            let mut bytes = Vec::new();
            let read = pipe.map_or(Ok(0), |mut pipe| pipe.read_to_end(&mut bytes));
            // Failing to send means that the time was up.
            let _ = sender.send(read.map(|_| bytes));
        };
        // A user may have no more threads.
        thread::Builder::new().spawn(read).map(|_| receiver)
    });
    let mut streams = Vec::new();
    for reader in readers {
        let left = end.saturating_duration_since(Instant::now());
        match reader.map(|reader| reader.recv_timeout(left)) {
            Ok(Ok(bytes)) => streams.push(bytes.map_err(failed)?),
            unread => {
                running.child.kill().map_err(failed)?;
                running.child.wait().map_err(failed)?;
                return unread.map(|_| None).map_err(failed);
            }
        }
    }
    let status = running.child.wait().map_err(failed)?;
    let stderr = streams.pop().unwrap_or_default();
    let stdout = streams.pop().unwrap_or_default();
    Ok(Some(Output { status, stdout, stderr }))
}

/// Runs a command that [`git`] made with this on its standard input, and gives its output whatever the status.
///
/// # Errors
/// As [`output`].
pub(in crate::git) fn feed(mut command: Command, input: &[u8]) -> Result<Output> {
    let piped = Stdio::piped;
    command.stdin(piped()).stdout(piped()).stderr(piped());
    fed(&mut command, input).map_err(|error| not_started(&command, error))
}

/// Starts a command that takes its standard input from a pipe, and serves both of its ends until it ends.
fn fed(command: &mut Command, input: &[u8]) -> std::io::Result<Output> {
    log(command);
    let mut child = command.spawn()?;
    let pipe = child.stdin.take();
    // Git answers while it reads. With one end served after the other, two full pipes would wait for each other for ever.
    thread::scope(|scope| {
        // A git that gave up before it read everything says why.
        scope.spawn(|| pipe.map(|mut pipe| pipe.write_all(input)));
        child.wait_with_output()
    })
}

/// What to say of a command that ended unsuccessfully.
pub(in crate::git) fn refused(command: &Command, output: &Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if let Some((path, filter)) = failed_filter(&said) {
        let what = format!("the filter {filter} failed on {path}");
        // Its name may hold what means something in a pattern.
        let plain = |letter: char| letter.is_alphanumeric() || "-_".contains(letter);
        let escaped = |letter: char| if plain(letter) { String::new() } else { "\\".to_owned() };
        let name: String =
            filter.chars().map(|letter| escaped(letter) + &letter.to_string()).collect();
        let pattern = shell::word(format!("^filter\\.{name}\\.").as_bytes());
        return Error::new(Code::GitFailed, what).because(said.clone()).hint(format!(
            "to see what it runs and where that is set, run git config --show-origin --get-regexp {pattern}"
        ));
    }
    // Settings that we give are for no one to read.
    let mut words = Vec::new();
    let mut all = command.get_args().map(OsStr::to_string_lossy);
    while let Some(word) = all.next() {
        if word == "-c" {
            all.next();
        } else {
            words.push(word);
        }
    }
    Error::new(cause(&said), format!("git {} failed", words.join(" "))).because(said)
}

/// The path and the name of the required filter that git, in the C locale, says failed (gitattributes(5): `filter`).
fn failed_filter(said: &str) -> Option<(&str, &str)> {
    let (path, filter) = [": clean filter '", ": smudge filter "]
        .iter()
        .find_map(|words| said.lines().last()?.strip_prefix("fatal: ")?.rsplit_once(words))?;
    let filter = filter.strip_suffix(" failed")?;
    Some((path, filter.trim_end_matches('\'')))
}

/// The code for what git says, in the C locale, when it fails.
pub(in crate::git) fn cause(said: &str) -> Code {
    const FULL: [&str; 3] = ["No space left on device", "Disk quota exceeded", "Out of diskspace"];
    // Git has one status for every failure, and only its words tell a full disk.
    if FULL.iter().any(|words| said.contains(words)) {
        Code::DiskFull
    } else if said.contains("unable to write file") {
        Code::Io
    } else {
        Code::GitFailed
    }
}

/// Runs a command that [`git`] made and gives its output whatever the status.
///
/// # Errors
/// As [`output`].
pub(in crate::git) fn finish(command: &mut Command) -> Result<Output> {
    log(command);
    command.output().map_err(|error| not_started(command, error))
}

/// Starts a command that [`git`] made.
///
/// # Errors
/// As [`output`].
pub(in crate::git) fn launch(command: &mut Command) -> Result<Child> {
    log(command);
    command.spawn().map_err(|error| not_started(command, error))
}

/// Tells the log what is started.
fn log(command: &Command) {
    debug!(git = ?command.get_args().collect::<Vec<_>>());
}

fn not_started(command: &Command, source: std::io::Error) -> Error {
    match source.kind() {
        // The directory may be what is missing.
        std::io::ErrorKind::NotFound if command.get_current_dir().is_none_or(Path::is_dir) => {
            Error::new(Code::GitMissing, "the git command was not found")
                .hint("install git and make sure it is on PATH")
                .because(source)
        }
        // The caller has just seen the directory.
        std::io::ErrorKind::NotFound => {
            let gone = command.get_current_dir().unwrap_or(Path::new(".")).display();
            Error::new(
                Code::LostRace,
                format!("{gone} went away while git was about to look at it"),
            )
            .hint("to go on from what there is now, run the same command again")
        }
        _ => Error::io("could not start git", source),
    }
}

/// The object that git named on standard output.
pub(in crate::git) fn named(output: &[u8]) -> Result<Oid> {
    let hex = String::from_utf8_lossy(output);
    Oid::from_hex(hex.trim_end())
        .ok_or_else(|| Error::new(Code::GitFailed, "git named no object").because(hex.into_owned()))
}

/// Runs a command with paths on its standard input, each ended by NUL; gives what it says on its standard error.
pub(in crate::git) fn feed_paths(command: Command, paths: &[Vec<u8>]) -> Result<Vec<u8>> {
    feed_paths_with(command, paths, Stdio::null())
}

/// As [`feed_paths`], for a command that holds a lock: it has [`LockFile::shared`](crate::git::files::lock_file::LockFile::shared) for
/// its standard output, to which it writes nothing.
pub(in crate::git) fn feed_paths_with(
    mut command: Command,
    paths: &[Vec<u8>],
    shared: Stdio,
) -> Result<Vec<u8>> {
    command.stdin(Stdio::piped()).stdout(shared).stderr(Stdio::piped());
    let fail = |error| Error::io("could not run git", error);
    let list: Vec<u8> = paths.iter().flat_map(|path| [path, &b"\0"[..]].concat()).collect();
    let output = fed(&mut command, &list).map_err(fail)?;
    if output.status.success() { Ok(output.stderr) } else { Err(refused(&command, &output)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_went_away_is_a_lost_race_and_no_missing_git() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let gone = dir.path().join("gone");
        let error = run(&gone, ["version"]).expect_err("nowhere to run");
        assert_eq!(error.code(), Code::LostRace);
    }

    #[test]
    fn a_git_that_answers_while_it_reads_is_served_at_both_ends() {
        let dir = tempfile::tempdir().expect("temporary directory");
        run(dir.path(), ["init", "--quiet"]).expect("a repository");
        let mut command = git(dir.path());
        command.args(["cat-file", "--batch-check"]);
        let asked = "no-such-object\n".repeat(100_000);
        let answered = feed(command, asked.as_bytes()).expect("an answer");
        let lines = answered.stdout.split(|&byte| byte == b'\n');
        assert_eq!(lines.filter(|line| line.ends_with(b" missing")).count(), 100_000);
    }
}
