//! Which commits two histories do not share, as the objects tell it.
//!
//! Asked of the user's git, which has the commit graph and stops early, with everything switched off
//! that shows another history than the objects do: replace refs, grafts.

use super::{Repo, command};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use std::collections::{HashSet, VecDeque};
use std::process::Command;

/// How two commits have grown apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// What only the second one's history holds, parents first, each with its parents.
    pub ahead: Vec<Lineage>,
    /// What only the first one's holds, parents first.
    pub behind: Vec<Oid>,
}

/// A commit and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lineage {
    /// The commit.
    pub oid: Oid,
    /// Its parents, in order.
    pub parents: Vec<Oid>,
}

impl Repo {
    /// A `git` command on the shared objects, needing no worktree and seeing nothing but objects.
    pub(in crate::git) fn plumbing(&self) -> Command {
        let mut command = command::git(self.common_dir());
        command
            .env("GIT_DIR", self.common_dir())
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", "/dev/null")
            .env("LC_ALL", "C");
        command
    }

    /// Compares the histories of `base` and `tip`, leaving out all of `hidden`'s.
    ///
    /// # Errors
    /// `history-incomplete` when a shallow clone ends before the two meet, `git-missing`,
    /// `git-failed`.
    pub fn divergence(&self, base: Oid, tip: Oid, hidden: Option<Oid>) -> Result<Divergence> {
        let mut command = self.plumbing();
        command
            .args([
                "rev-list",
                "--left-right",
                "--parents",
                "--topo-order",
                "--reverse",
            ])
            .arg(format!("{base}...{tip}"))
            .args(hidden.map(|hidden| format!("^{hidden}")));
        let output = command::successful(command)?;
        let mut divergence = Divergence::default();
        for line in output
            .split(|&byte| byte == b'\n')
            .filter(|l| !l.is_empty())
        {
            let text = std::str::from_utf8(&line[1..]).unwrap_or_default();
            let mut oids = text.split(' ').filter_map(Oid::from_hex);
            let Some(oid) = oids.next() else { continue };
            match line[0] {
                b'<' => divergence.behind.push(oid),
                _ => divergence.ahead.push(Lineage {
                    oid,
                    parents: oids.collect(),
                }),
            }
        }
        Ok(divergence)
    }

    /// Whether `tip` is `ancestor` or has it among its ancestors.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn is_ancestor(&self, ancestor: Oid, tip: Oid) -> Result<bool> {
        if ancestor == tip {
            return Ok(true);
        }
        let mut command = self.plumbing();
        command.args([
            "merge-base",
            "--is-ancestor",
            &ancestor.to_hex(),
            &tip.to_hex(),
        ]);
        let output = command::finish(&mut command)?;
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(command::refused(&command, &output)),
        }
    }

    /// Whether history ends early here.
    pub fn is_shallow(&self) -> bool {
        self.inner.is_shallow()
    }

    /// Checks that a commit is here; a shallow clone ends somewhere.
    ///
    /// # Errors
    /// `history-incomplete` in a shallow clone, else `repo-corrupt`.
    pub fn require_commit(&self, commit: Oid) -> Result<()> {
        if self.has_object(commit) {
            return Ok(());
        }
        if self.is_shallow() {
            return Err(incomplete(&format!("commit {commit}")));
        }
        Err(
            Error::new(Code::RepoCorrupt, format!("commit {commit} is missing"))
                .hint("to check the repository, run git fsck"),
        )
    }

    /// Whether a commit is here with all that it leads to.
    ///
    /// # Errors
    /// `git-missing`, `io`.
    pub fn is_complete(&self, commit: Oid) -> Result<bool> {
        let mut command = self.plumbing();
        command.args(["rev-list", "--objects", "--quiet", &commit.to_hex()]);
        // What a ref reaches is there.
        command.args(["--not", "--all"]);
        Ok(command::finish(&mut command)?.status.success())
    }

    /// The commits that are found first going back from one, no more than `most`.
    pub(in crate::git) fn nearest(&self, tip: Oid, most: usize) -> Result<HashSet<Oid>> {
        let mut found = HashSet::from([tip]);
        let mut waiting = VecDeque::from([tip]);
        while let Some(oid) = waiting.pop_front() {
            // A shallow clone ends somewhere.
            if found.len() > most || !self.has_object(oid) {
                continue;
            }
            for parent in self.read_commit(oid)?.parents {
                if found.insert(parent) {
                    waiting.push_back(parent);
                }
            }
        }
        Ok(found)
    }
}

/// The error for a clone that ends before what is needed.
pub(crate) fn incomplete(before: &str) -> Error {
    Error::new(
        Code::HistoryIncomplete,
        format!("this clone is shallow and ends before {before}"),
    )
    .hint("to fetch the rest of the history, run git fetch --unshallow")
}
