//! Committing as the user would: in a worktree by the user's own `git commit`, with every hook; in the object
//! database alone with the user's signature.

use super::identity::Identities;
use super::landing::Checkout;
use super::objects::NewCommit;
use super::untrusted;
use super::{Repo, command};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `git commit` is asked for.
pub struct ToCommit<'a> {
    /// The file with the message.
    pub message: &'a Path,
    /// The index, where it is not the worktree's own.
    pub index: Option<&'a Path>,
    /// The directory of the hooks that run, where it is not what the settings say.
    pub hooks: Option<&'a Path>,
    /// Further variables of the environment.
    pub environment: &'a [(&'static str, PathBuf)],
}

impl Checkout {
    /// Writes to `copy` an index in which these paths are as HEAD has them, and all others as staged.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub fn index_without(&self, paths: &[Vec<u8>], copy: &Path) -> Result<()> {
        let index = self.git_dir.join("index");
        fs::copy(&index, copy).at("could not copy", &index)?;
        let mut command = self.git();
        command.env("GIT_INDEX_FILE", copy).args([
            "reset",
            "--quiet",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ]);
        command.env("GIT_LITERAL_PATHSPECS", "1");
        feed(command, paths)
    }

    /// Commits what is staged, here or in another `index`, with the message in a file. Gives the new
    /// HEAD.
    ///
    /// # Errors
    /// `commit-refused` with what git and the hooks said.
    pub fn commit(&self, new: &ToCommit<'_>, who: &Identities) -> Result<Oid> {
        let (message, index) = (new.message, new.index);
        let mut command = self.git();
        if let Some(directory) = new.hooks {
            let mut setting = OsString::from("core.hooksPath=");
            setting.push(directory);
            command.arg("-c").arg(setting);
        }
        command.envs(new.environment.iter().map(|(name, value)| (name, value)));
        command
            .args(["commit", "--quiet", "--file"])
            .arg(message)
            .env("GIT_EDITOR", ":");
        if let Some(index) = index {
            command.env("GIT_INDEX_FILE", index);
        }
        // Git itself refuses to commit without an identity.
        if who.stand_in {
            for (role, identity) in [("AUTHOR", &who.author), ("COMMITTER", &who.committer)] {
                command.env(format!("GIT_{role}_NAME"), &identity.name);
                command.env(format!("GIT_{role}_EMAIL"), &identity.email);
            }
        }
        let output = command::finish(&mut command)?;
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            return Err(Error::new(
                Code::CommitRefused,
                format!("git commit in {} did not go through", self.top.display()),
            )
            .because(said));
        }
        let mut command = self.git();
        command.args(["rev-parse", "--verify", "HEAD"]);
        let commit = named(&command::successful(command)?)?;
        self.keep_reflog()?;
        Ok(commit)
    }
}

impl Checkout {
    /// Adds what git wrote to the reflog of `HEAD` in a view to that of the worktree.
    fn keep_reflog(&self) -> Result<()> {
        let Some(view) = &self.view else {
            return Ok(());
        };
        let written = view.git_dir().join("logs/HEAD");
        let Ok(lines) = fs::read(&written) else {
            return Ok(());
        };
        let log = untrusted::append(&self.git_dir, Path::new("logs/HEAD"), &lines);
        log.at("could not write", self.git_dir.join("logs/HEAD"))
    }
}

impl Repo {
    /// Writes a commit as the user's git would for a merge of its own: signed where `commit.gpgSign` says so,
    /// with whatever `gpg.format`, `gpg.program` and `user.signingKey` name. Touches no ref. A signed one gets no
    /// header besides git's own.
    ///
    /// # Errors
    /// `commit-refused` when it cannot be signed; as [`Repo::write_commit`].
    pub fn write_commit_as_user(&self, new: &NewCommit<'_>) -> Result<Oid> {
        if self.config_bool("commit.gpgSign")? != Some(true) {
            return self.write_commit(new);
        }
        let mut command = self.plumbing();
        command.args(["commit-tree", "-S", &new.tree.to_hex()]);
        for parent in new.parents {
            command.args(["-p", &parent.to_hex()]);
        }
        for (role, who) in [("AUTHOR", new.author), ("COMMITTER", new.committer)] {
            command.env(format!("GIT_{role}_NAME"), &who.name);
            command.env(format!("GIT_{role}_EMAIL"), &who.email);
            // The `@` keeps git from guessing at what else the digits could mean.
            command.env(format!("GIT_{role}_DATE"), format!("@{}", who.date()));
        }
        let output = command::feed(command, new.message.as_bytes())?;
        if output.status.success() {
            return named(&output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::new(
            Code::CommitRefused,
            "commit.gpgSign is set, and git could not sign the commit",
        )
        .hint("to see how commits are signed, run git config --get-regexp '^(gpg|user.signingkey)'")
        .because(said))
    }
}

/// The object that git named on standard output.
pub(in crate::git) fn named(output: &[u8]) -> Result<Oid> {
    let hex = String::from_utf8_lossy(output);
    Oid::from_hex(hex.trim_end())
        .ok_or_else(|| Error::new(Code::GitFailed, "git named no object").because(hex.into_owned()))
}

/// Runs a command with paths on its standard input, each ended by NUL.
pub(in crate::git) fn feed(mut command: Command, paths: &[Vec<u8>]) -> Result<()> {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let fail = |error| Error::io("could not run git", error);
    let mut child = command.spawn().map_err(fail)?;
    let list: Vec<u8> = paths
        .iter()
        .flat_map(|path| [path, &b"\0"[..]].concat())
        .collect();
    let input = child.stdin.take();
    // One that gave up before it read everything says why.
    let _ = input.map(|mut input| input.write_all(&list));
    let output = child.wait_with_output().map_err(fail)?;
    if output.status.success() {
        Ok(())
    } else {
        Err(command::refused(&command, &output))
    }
}
