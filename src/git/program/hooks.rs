//! Runs the repository's own hooks as git itself would.

use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::{Repo, command};
use std::path::{Path, PathBuf};

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
        let complaint = self.run_hook(worktree, "post-checkout", &[&zero, &commit, "1"], b"")?;
        Ok(Some(HookRun { complaint }))
    }

    /// Runs a hook in a directory, as git itself would there, with this standard input. Gives what it said if it failed.
    ///
    /// # Errors
    /// `git-missing`, `io`.
    pub(in crate::git) fn run_hook(
        &self,
        directory: &Path,
        name: &str,
        arguments: &[&str],
        input: &[u8],
    ) -> Result<Option<String>> {
        let mut git = command::git(directory);
        git.args(["hook", "run", "--ignore-missing"]);
        if !input.is_empty() {
            git.arg("--to-stdin=/dev/stdin");
        }
        git.args([name, "--"]).args(arguments);
        let output = command::feed(git, input)?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Ok(if output.status.success() {
            None
        } else if said.is_empty() {
            Some(output.status.to_string())
        } else {
            Some(said)
        })
    }

    /// As [`Repo::may_have_hook`] for the worktree at `top`, by settings that no worktree has for itself.
    ///
    /// # Errors
    /// As there.
    pub(in crate::git) fn may_have_shared_hook(&self, top: &Path, name: &str) -> Result<bool> {
        let directory = match self.shared_hooks_dir()? {
            Some(directory) if directory.starts_with("~") => return Ok(true),
            Some(directory) => top.join(directory),
            None => self.common_dir().join("hooks"),
        };
        Ok(directory.join(name).exists() || !self.shared_settings("hook.")?.is_empty())
    }

    /// What `core.hooksPath` says, as far as no worktree says it for itself.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub(in crate::git) fn shared_hooks_dir(&self) -> Result<Option<PathBuf>> {
        const KEY: &str = "core.hookspath";
        let mut settings = self.shared_settings(KEY)?.into_iter();
        let last = settings.rfind(|setting| setting.key == KEY);
        Ok(last.map(|setting| PathBuf::from(setting.value)))
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
