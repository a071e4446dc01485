//! Which commits two histories do not share, as the objects tell it.
//!
//! Asked of the user's git, which has the commit graph and stops early, with everything switched off
//! that shows another history than the objects do: replace refs, grafts. What a shallow clone cannot know
//! is the error `history-incomplete`, never an answer.

use super::gained::{incomplete_history, shallow_parents_absent};
use crate::domain::Oid;
use crate::error::{Code, Error, Result};
use crate::git::{Repo, command};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::process::Command;

/// Commits that are followed one by one before git is asked.
const LINE: usize = 256;

/// How two commits have grown apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// What only the second one's history holds, parents first, each with its parents.
    pub ahead: Vec<Lineage>,
    /// What only the first one's holds, parents first, each with its parents.
    pub behind: Vec<Lineage>,
}

impl Divergence {
    /// The parents of what only the second one's history holds.
    pub fn parents(&self) -> HashMap<Oid, Vec<Oid>> {
        let ahead = self.ahead.iter();
        ahead.map(|one| (one.oid, one.parents.clone())).collect()
    }
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
            .env("LC_ALL", "C")
            // Said of any file of grafts, the empty one as well.
            .args(["-c", "advice.graftFileDeprecated=false"]);
        self.redirect_objects(&mut command);
        command
    }

    /// Compares the histories of `base` and `tip`, leaving out all of `hidden`'s.
    ///
    /// # Errors
    /// `history-incomplete` when one of the commits is missing, or when what is missing could change the
    /// answer; `git-missing`, `git-failed`.
    pub fn divergence(&self, base: Oid, tip: Oid, hidden: Option<Oid>) -> Result<Divergence> {
        let roots: Vec<Oid> = [base, tip].into_iter().chain(hidden).collect();
        for root in &roots {
            self.require_commit(*root)?;
        }
        if hidden == Some(base)
            && let Some(ahead) = self.line(base, tip)
        {
            let behind = Vec::new();
            return Ok(Divergence { ahead, behind });
        }
        if let Some(hidden) = hidden
            && let Some(divergence) = self.fork_of(base, tip, hidden)
        {
            return Ok(divergence);
        }
        let mut command = self.plumbing();
        command
            .args(["rev-list", "--left-right", "--parents", "--topo-order", "--reverse"])
            .arg(format!("{base}...{tip}"))
            .args(hidden.map(|hidden| format!("^{hidden}")));
        let output = self.listed(command)?;
        let mut divergence = Divergence::default();
        let lines = output.split(|&byte| byte == b'\n');
        for (side, text) in lines.filter_map(<[u8]>::split_first) {
            let text = std::str::from_utf8(text).unwrap_or_default();
            let mut oids = text.split(' ').filter_map(Oid::from_hex);
            let Some(oid) = oids.next() else { continue };
            let lineage = Lineage { oid, parents: oids.collect() };
            if *side == b'<' {
                divergence.behind.push(lineage);
            } else {
                divergence.ahead.push(lineage);
            }
        }
        if let Some(shallow) = self.shallow_below(&roots)? {
            let both = divergence.ahead.iter().chain(&divergence.behind);
            let listed = both.map(|lineage| lineage.oid).collect();
            if !shallow.proves_range(&listed, &roots) {
                return Err(incomplete_history(&format!("{base} and {tip} meet")));
            }
        }
        Ok(divergence)
    }

    /// The commits from `base` to `tip`, parents first, where that is a short line without merges, as the work
    /// of most agents is. Nothing that is missing elsewhere can change it.
    pub fn line(&self, base: Oid, tip: Oid) -> Option<Vec<Lineage>> {
        let mut line = Vec::new();
        let mut next = tip;
        while next != base {
            // As its own bytes name them: grafts hide nothing here.
            let parents = self.read_raw_commit(next).ok()?.parents();
            let [parent] = parents[..] else {
                return None;
            };
            // Further down git is quicker, which has the commit-graph.
            if line.len() == LINE {
                return None;
            }
            line.push(Lineage { oid: next, parents });
            next = parent;
        }
        line.reverse();
        Some(line)
    }

    /// As [`Repo::divergence`], where `tip` is the end of a short line from `hidden`, and `base` has little more than
    /// that commit.
    fn fork_of(&self, base: Oid, tip: Oid, hidden: Oid) -> Option<Divergence> {
        let mut ahead = self.line(hidden, tip)?;
        let mut behind = self.above(hidden, base)?;
        let oids = |list: &[Lineage]| -> HashSet<Oid> { list.iter().map(|one| one.oid).collect() };
        let (ours, theirs) = (oids(&behind), oids(&ahead));
        ahead.retain(|one| !ours.contains(&one.oid));
        behind.retain(|one| !theirs.contains(&one.oid));
        Some(Divergence { ahead, behind })
    }

    /// The commits that `tip` has and `hidden` has not, parents first, where they are few and every way down from them
    /// leads to `hidden`: then none of them can be below it, and nothing that is missing elsewhere can change it.
    fn above(&self, hidden: Oid, tip: Oid) -> Option<Vec<Lineage>> {
        let oldest = self.read_commit(hidden).ok()?.seconds;
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting = vec![(tip, None)];
        while let Some((oid, parents)) = waiting.pop() {
            if let Some(parents) = parents {
                found.push(Lineage { oid, parents });
                continue;
            }
            if oid == hidden || !seen.insert(oid) {
                continue;
            }
            let commit = self.read_raw_commit(oid).ok()?;
            let parents = commit.parents();
            // An older commit leads past `hidden`, down to the beginning of history.
            let (_, seconds) = commit.committer()?;
            if parents.is_empty() || seconds < oldest || seen.len() > LINE {
                return None;
            }
            let below: Vec<_> = parents.iter().rev().map(|parent| (*parent, None)).collect();
            waiting.push((oid, Some(parents)));
            waiting.extend(below);
        }
        Some(found)
    }

    /// Checks that a merge of these two starts from the same commits here as in the whole history.
    ///
    /// # Errors
    /// `history-incomplete`; `git-missing`, `git-failed`.
    pub(in crate::git) fn require_fork(&self, ours: Oid, theirs: Oid) -> Result<()> {
        match self.shallow_below(&[ours, theirs])? {
            Some(shallow) if !shallow.proves_merge(ours, theirs) => {
                Err(incomplete_history(&format!("{ours} and {theirs} meet")))
            }
            _ => Ok(()),
        }
    }

    /// Those of the commits, which are all here, that none of the tips is or has among its ancestors, as far as
    /// history is here.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn unreachable(&self, commits: &[Oid], tips: &[Oid]) -> Result<HashSet<Oid>> {
        if commits.is_empty() {
            return Ok(HashSet::new());
        }
        let wanted = commits.iter().map(|commit| format!("{commit}\n"));
        let hidden = tips.iter().map(|tip| format!("^{tip}\n"));
        let lines: String = wanted.chain(hidden).collect();
        let mut command = self.plumbing();
        // By standard input: the commits may be more than a command line takes.
        command.args(["rev-list", "--stdin"]);
        let output = command::feed(command, lines.as_bytes())?;
        if !output.status.success() {
            let what = "git rev-list could not compare histories";
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(Error::new(Code::GitFailed, what).because(said.trim_end().to_owned()));
        }
        let listed = String::from_utf8_lossy(&output.stdout);
        let listed: HashSet<Oid> = listed.lines().filter_map(Oid::from_hex).collect();
        let mut unreachable: HashSet<Oid> = commits.iter().copied().collect();
        unreachable.retain(|commit| listed.contains(commit));
        Ok(unreachable)
    }

    /// Whether `tip` is `ancestor` or has it among its ancestors.
    ///
    /// # Errors
    /// `history-incomplete` when one of the two is missing, or when what is missing could hold it;
    /// `git-missing`, `git-failed`.
    pub fn is_ancestor(&self, ancestor: Oid, tip: Oid) -> Result<bool> {
        if ancestor == tip {
            return Ok(true);
        }
        // Git itself says only that a name is bad, whether or not more history could be fetched.
        self.require_commit(ancestor)?;
        self.require_commit(tip)?;
        let mut command = self.plumbing();
        command.args(["merge-base", "--is-ancestor", &ancestor.to_hex(), &tip.to_hex()]);
        let output = command::finish(&mut command)?;
        match output.status.code() {
            Some(0) => Ok(true),
            // Only a `no` can be wrong for want of history; a `yes` was found in what is here.
            Some(1) => match self.shallow_below(&[ancestor, tip])? {
                Some(shallow) if !shallow.disproves_ancestor(ancestor, tip) => {
                    Err(incomplete_history(&format!("{ancestor}, if {tip} has it")))
                }
                _ => Ok(false),
            },
            _ => Err(command::refused(&command, &output)),
        }
    }

    /// Checks that a commit is here.
    ///
    /// # Errors
    /// `history-incomplete`.
    pub fn require_commit(&self, commit: Oid) -> Result<()> {
        let what = format!("commit {commit}");
        if self.has_object(commit) {
            Ok(())
        } else if self.is_shallow() {
            Err(incomplete_history(&what))
        } else {
            Err(shallow_parents_absent(&what))
        }
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

    /// Takes those commits out of a set that are found first going back from one, looking at no more than `most`.
    pub(in crate::git) fn take_nearest(
        &self,
        tip: Oid,
        most: usize,
        set: &mut BTreeSet<Oid>,
    ) -> Result<()> {
        let mut found = HashSet::from([tip]);
        let mut waiting = VecDeque::from([tip]);
        set.remove(&tip);
        while let Some(oid) = waiting.pop_front().filter(|_| !set.is_empty()) {
            // A shallow clone ends somewhere.
            if found.len() > most || !self.has_object(oid) {
                continue;
            }
            for parent in self.read_commit(oid)?.parents {
                if found.insert(parent) {
                    set.remove(&parent);
                    waiting.push_back(parent);
                }
            }
        }
        Ok(())
    }
}
