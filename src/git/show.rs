//! Output that is git's own, page by page where the user likes it so.

use super::{Repo, command};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use std::process::Stdio;

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

impl Repo {
    /// Lets the user's `git diff` write the difference between two trees to our standard output, with the
    /// user's pager, colours and diff drivers, as the main worktree has them. `paths` are pathspecs from the top of the worktree.
    ///
    /// # Errors
    /// `git-missing`; `git-failed`, after git has said why.
    pub fn show_diff(&self, old: Oid, new: Oid, detail: Detail, paths: &[String]) -> Result<()> {
        // Where the caller stands may be an agent's worktree, whose settings name programs as well.
        let main = self.main_worktree()?;
        let mut command = command::git(main.as_deref().unwrap_or(self.common_dir()));
        let option = match detail {
            Detail::Patch => "--patch",
            Detail::Stat => "--stat",
            Detail::Names => "--name-only",
        };
        command
            .args(["diff", option, &old.to_hex(), &new.to_hex(), "--"])
            .args(paths)
            .stdin(Stdio::inherit());
        let status = command::launch(&mut command)?
            .wait()
            .map_err(|error| Error::io("could not run git diff", error))?;
        match status.code() {
            Some(0 | BROKEN_PIPE) | None => Ok(()),
            Some(code) => Err(Error::new(
                Code::GitFailed,
                format!("git diff ended with status {code}"),
            )),
        }
    }
}
