//! Output that is git's own, page by page where the user likes it so.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::{Repo, command};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

/// How a difference is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The changed lines.
    #[default]
    Patch,
    /// How many lines of which files (`--stat`).
    Stat,
    /// The paths alone (`--name-only`).
    Names,
}

/// What git ends with when the reader of its output went away: SIGPIPE as the shell tells it.
const BROKEN_PIPE: i32 = 141;

/// What makes text harmless on its way to a terminal.
pub type Filter = fn(Box<dyn Write + Send>) -> Box<dyn Write + Send>;

/// The parts of a difference that git colours, and colours that a [`Filter`] lets pass, whatever the user's are.
const COLOURS: [(&str, &str); 14] = [
    ("context", "normal"),
    ("meta", "bold"),
    ("frag", "cyan"),
    ("func", "normal"),
    ("old", "red"),
    ("new", "green"),
    ("whitespace", "red"),
    ("commit", "yellow"),
    ("oldMoved", "red"),
    ("newMoved", "green"),
    ("oldMovedAlternative", "red"),
    ("newMovedAlternative", "green"),
    ("oldMovedDimmed", "red"),
    ("newMovedDimmed", "green"),
];

impl Repo {
    /// Lets the user's `git diff` write the difference between two trees to our standard output, with the
    /// user's pager, colours and diff drivers, as the main worktree has them. `paths` are pathspecs from the top of the worktree.
    ///
    /// A `filter` is for a terminal: git's output passes through it on its way to the pager. Without one it is as git
    /// writes it.
    ///
    /// # Errors
    /// `git-missing`; `git-failed`, after git has said why.
    pub fn show_diff(
        &self,
        (old, new): (Oid, Oid),
        detail: Detail,
        paths: &[String],
        filter: Option<Filter>,
    ) -> Result<()> {
        // Where the caller stands may be an agent's worktree, whose settings name programs as well.
        let main = self.main_worktree()?;
        let place = main.as_deref().unwrap_or(self.common_dir());
        let option = match detail {
            Detail::Patch => "--patch",
            Detail::Stat => "--stat",
            Detail::Names => "--name-only",
        };
        let mut command = command::git(place);
        // What stands in for the repository in a sandbox is found from no other directory.
        command.env("GIT_DIR", self.common_dir());
        self.redirect_objects(&mut command);
        if filter.is_some() {
            for (part, colour) in COLOURS {
                command.args(["-c", &format!("color.diff.{part}={colour}")]);
            }
        }
        command.args(["diff", option, &old.to_hex(), &new.to_hex()]);
        let status = match filter {
            None => {
                command.arg("--").args(paths).stdin(Stdio::inherit());
                let child = command::launch(&mut command)?.wait();
                child.map_err(|error| Error::io("could not run git diff", error))?
            }
            Some(filter) => {
                let is_coloured = ["config", "--get-colorbool", "color.diff", "true"];
                let is_coloured = command::output(place, is_coloured)?.status.success();
                let colour = if is_coloured { "always" } else { "never" };
                command.arg(format!("--color={colour}")).arg("--");
                command.args(paths).stdout(Stdio::piped());
                let mut pager = command::pager(&pager_at(place)?);
                pager.current_dir(place);
                let shown = show_through(command, pager, filter);
                shown.map_err(|error| Error::io("could not run git diff", error))?
            }
        };
        match status.code() {
            Some(0 | BROKEN_PIPE) | None => Ok(()),
            Some(code) => Err(Error::new(
                Code::GitFailed,
                format!("git diff ended with status {code}"),
            )),
        }
    }
}

/// The command line of the pager that git would start for a difference.
fn pager_at(place: &Path) -> Result<String> {
    let text = |output: Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let own = text(command::output(place, ["config", "--get", "pager.diff"])?);
    let pager = match git2::Config::parse_bool(own.as_str()) {
        Ok(false) if !own.is_empty() => String::new(),
        Err(_) => own,
        Ok(_) => text(command::output(place, ["var", "GIT_PAGER"])?),
    };
    let is_none = pager.is_empty();
    Ok(if is_none { "cat".to_owned() } else { pager })
}

/// Lets a pager show what a command writes, through a filter.
fn show_through(
    mut command: Command,
    mut pager: Command,
    filter: Filter,
) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let mut pager = pager.spawn()?;
    if let (Some(mut from), Some(to)) = (child.stdout.take(), pager.stdin.take()) {
        let mut to = filter(Box::new(to));
        // A reader that went away has seen enough.
        let _ = io::copy(&mut from, &mut to);
    }
    pager.wait()?;
    child.wait()
}
