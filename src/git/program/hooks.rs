//! Runs the repository's own hooks as git itself would.

use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::{Repo, command};
use std::path::Path;

/// A hook that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRun {
    /// What it said if it failed.
    pub complaint: Option<String>,
}

impl Repo {
    /// Runs `post-checkout` in a new worktree with the arguments of `git worktree add`: the zero oid,
    /// the commit, and 1; `None` where there is certainly no such hook. Git ignores its failure too.
    ///
    /// # Errors
    /// `git-missing`, `io`.
    pub fn run_post_checkout(&self, worktree: &Path, commit: Oid) -> Result<Option<HookRun>> {
        if !self.may_have_hook("post-checkout")? {
            return Ok(None);
        }
        let (zero, commit) = (Oid::ZERO.to_hex(), commit.to_hex());
        let arguments = [
            "hook",
            "run",
            "--ignore-missing",
            "post-checkout",
            "--",
            &zero,
            &commit,
            "1",
        ];
        let output = command::output(worktree, arguments)?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let complaint = if output.status.success() {
            None
        } else if said.is_empty() {
            Some(output.status.to_string())
        } else {
            Some(said)
        };
        Ok(Some(HookRun { complaint }))
    }

    /// Whether a hook of that name can exist at all, so that the usual case starts no process.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub fn may_have_hook(&self, name: &str) -> Result<bool> {
        let directory = match self.config_string("core.hooksPath")? {
            // Relative to a worktree that may not exist yet, or `~/…`: git knows the rules.
            Some(_) => return Ok(true),
            None => self.common_dir().join("hooks"),
        };
        Ok(directory.join(name).exists() || self.has_config_section("hook")?)
    }
}
