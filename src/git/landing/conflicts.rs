//! A merge that conflicts, left in a worktree as `git merge` leaves it.
//!
//! Git itself merges, in memory (`git merge-tree`), and the files go the way of every landing, so that a changed file is in
//! the way and a kill is undone. What `git merge` would have done in one go is done after that: the index gets the three
//! sides of each path in conflict, and the admin directory the files that say what is being merged (the caller's part,
//! because agents can write there).

use super::Checkout;
use crate::domain::evidence::Conflict;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::files::untrusted;
use crate::git::merge::conflicts;
use crate::git::{Repo, command};
use std::path::Path;

/// What a merge gave that conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictedMerge {
    /// The tree with conflict markers.
    pub tree: Oid,
    /// Where it conflicts and how, ordered by path.
    pub conflicts: Vec<Conflict>,
    /// The sides of each path, as lines of `git update-index --index-info`.
    stages: Vec<Vec<u8>>,
}

impl Checkout {
    /// The commit that is being merged in this worktree; `None` where none is, or several are.
    pub fn merge_head(&self) -> Option<Oid> {
        let text = untrusted::text(&self.git_dir, "MERGE_HEAD")?;
        // An octopus merge has one line for each head, so it is no single name.
        Oid::from_hex(text.trim_end())
    }

    /// Merges two commits in memory as [`Repo::merge`] does, with markers that show the base as well, unless the user's
    /// `merge.conflictStyle` says otherwise. `None` where nothing conflicts. The worktree is one that is looked at through a view.
    ///
    /// # Errors
    /// `update-conflicts` where git is older than 2.38, which cannot tell; `git-missing`, `git-failed`, `io`.
    pub fn conflicted_merge(
        &self,
        repo: &Repo,
        ours: Oid,
        theirs: Oid,
    ) -> Result<Option<ConflictedMerge>> {
        let view = self.view.as_ref();
        let view = view.ok_or_else(|| Error::bug("an agent's worktree has a view"))?;
        let style = repo.config_string("merge.conflictStyle")?;
        // The names that git is given stand beside the markers, and an agent knows these two; the view is ours alone.
        let before = format!("{}\n", self.head());
        view.write("HEAD", format!("{ours}\n").as_bytes())?;
        view.write("MERGE_HEAD", format!("{theirs}\n").as_bytes())?;
        let mut git = view.git();
        // Git starts merge drivers where it stands, and no file there may be the agent's. It needs no worktree for this.
        git.current_dir(repo.common_dir());
        // Merge drivers and line ends are chosen by attributes. They come from the commit, not from
        // files that the agent has in its worktree.
        git.env("GIT_ATTR_SOURCE", ours.to_hex())
            // Replacement refs and grafts would let git merge other commits than the two that are
            // named.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", "/dev/null");
        if style.is_none() {
            git.args(["-c", "merge.conflictStyle=zdiff3"]);
        }
        git.args(["merge-tree", "--write-tree", "-z", "HEAD", "MERGE_HEAD"]);
        let output = command::finish(&mut git);
        // The view's HEAD returns before any error does: later commands use the same view.
        view.write("HEAD", before.as_bytes())?;
        let output = output?;
        match output.status.code() {
            // Status 0 means a clean merge, 1 a merge with conflicts, anything else a failure; only
            // 1 prints the stages.
            Some(0) => Ok(None),
            Some(1) => {
                let malformed = || Error::new(Code::GitFailed, "git merge-tree gave no answer");
                parse(&output.stdout).map(Some).ok_or_else(malformed)
            }
            _ => {
                let what = "git could not say how the merge conflicts; git 2.38 or newer can";
                Err(command::refused(&git, &output).because(what))
            }
        }
    }

    /// Gives the index the sides of each path in conflict, once index and files hold the tree with the markers, and lets git
    /// solve what it has seen solved before (`git rerere`).
    ///
    /// # Errors
    /// `lock-timeout`, `git-failed`, `io`.
    pub fn stage_conflicts(&self, merge: &ConflictedMerge) -> Result<()> {
        let gone = merge.conflicts.iter().map(|one| {
            let line = format!("0 {}\t", Oid::ZERO);
            [line.as_bytes(), &one.path].concat()
        });
        // Git reads the lines in order: the entry without a conflict has to be gone before the
        // stages of the same path come.
        let lines: Vec<_> = gone.chain(merge.stages.iter().cloned()).collect();
        let own = self.own_index()?;
        own.feed(&["update-index", "-z", "--index-info"], &lines)?;
        own.publish()?;
        // Only where the user has it on; it fails where a path has no three sides, too.
        let mut rerere = self.git();
        rerere.arg("rerere");
        command::finish(&mut rerere).map(drop)
    }

    /// What `git rerere` noted of the conflicts, for the admin directory.
    pub fn rerere_note(&self) -> Option<Vec<u8>> {
        let view = self.view.as_ref()?;
        untrusted::read(view.git_dir(), Path::new("MERGE_RR"), 1 << 20)
    }

    /// The paths of which the index holds more than one side.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn unmerged_paths(&self) -> Result<Vec<Vec<u8>>> {
        let mut list = self.git();
        list.args(["ls-files", "--unmerged", "-z"]);
        let output = command::successful(list)?;
        let path = |line: &[u8]| {
            line.splitn(2, |&byte| byte == b'\t')
                .nth(1)
                .map(<[u8]>::to_vec)
        };
        let mut paths: Vec<_> = command::names(&output).filter_map(path).collect();
        // Git lists one line for each stage, and all stages of a path are next to each other.
        paths.dedup();
        Ok(paths)
    }
}

/// Reads the answer of `git merge-tree -z`: the tree, the sides of each path, and messages.
fn parse(answer: &[u8]) -> Option<ConflictedMerge> {
    let mut fields = answer.split(|&byte| byte == 0);
    let tree = Oid::from_hex(std::str::from_utf8(fields.next()?).ok()?)?;
    // The clone reads ahead to the empty field that ends the stages; `conflicts` then reads the
    // same fields again.
    let stages = fields.clone().take_while(|field| !field.is_empty());
    Some(ConflictedMerge {
        tree,
        stages: stages.map(<[u8]>::to_vec).collect(),
        conflicts: conflicts(&mut fields)?,
    })
}
