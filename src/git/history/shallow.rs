//! Where a shallow clone ends, and whether what is missing below could change an answer.
//!
//! git treats the commits that `<common dir>/shallow` names as commits without parents. A walk that reaches
//! one of them stops there, so "not found" may only mean "not in this clone". Every question about ancestry
//! is answered here only where the answer is the same whatever the missing commits are; otherwise the error
//! is `history-incomplete`.
//!
//! The reason why an answer can be certain although the history ends early: ancestry has no cycles. Where a
//! commit `c` leads down to a commit `f`, and `f` leads down to an end `e` of the clone, nothing that is
//! missing below `e` can be `c`.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::{Repo, command};
use std::collections::{HashMap, HashSet};

/// The history below some commits as far as a shallow clone has it.
pub(in crate::git) struct Shallow {
    /// Each commit and its parents; an end of the clone has none.
    parents: HashMap<Oid, Vec<Oid>>,
    /// The commits whose parents are missing.
    ends: HashSet<Oid>,
}

impl Repo {
    /// The commits at which this clone's history ends; none in a whole clone.
    ///
    /// # Errors
    /// `io`.
    pub fn shallow_ends(&self) -> Result<HashSet<Oid>> {
        // libgit2 looks for this file in the admin directory of a linked worktree, where it never is.
        let path = self.common_dir().join("shallow");
        let text = std::fs::read_to_string(&path).at_if_there("could not read", &path)?;
        let ends = text.iter().flat_map(|text| text.lines());
        Ok(ends.filter_map(Oid::from_hex).collect())
    }

    /// Whether history ends early here.
    pub fn is_shallow(&self) -> bool {
        // A file that cannot be read hides where the history ends.
        self.shallow_ends().map_or(true, |ends| !ends.is_empty())
    }

    /// The history below these commits; `None` where it is whole, so that every answer is certain.
    ///
    /// # Errors
    /// `history-incomplete` when one of the commits is missing, `git-missing`, `git-failed`.
    pub(in crate::git) fn shallow_below(&self, roots: &[Oid]) -> Result<Option<Shallow>> {
        let ends = self.shallow_ends()?;
        if ends.is_empty() {
            return Ok(None);
        }
        let mut command = self.plumbing();
        command
            .args(["rev-list", "--parents"])
            .args(roots.iter().map(|root| root.to_hex()));
        let output = self.listed(command)?;
        let lines = output.split(|&byte| byte == b'\n');
        let parents = lines.filter_map(|line| {
            let text = std::str::from_utf8(line).ok()?;
            let mut oids = text.split(' ').filter_map(Oid::from_hex);
            Some((oids.next()?, oids.collect()))
        });
        let parents: HashMap<Oid, Vec<Oid>> = parents.collect();
        let ends = ends.into_iter().filter(|end| parents.contains_key(end));
        Ok(Some(Shallow {
            ends: ends.collect(),
            parents,
        }))
    }

    /// Runs a listing of commits. It fails where a commit on the way is missing and no shallow file says so.
    ///
    /// # Errors
    /// `history-incomplete`, `git-missing`, `git-failed`.
    pub(in crate::git) fn listed(&self, mut command: std::process::Command) -> Result<Vec<u8>> {
        let output = command::finish(&mut command)?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let refused = command::refused(&command, &output);
        let said = String::from_utf8_lossy(&output.stderr);
        let is_missing = ["Could not read ", "bad object ", "Failed to traverse "]
            .iter()
            .any(|words| said.contains(words));
        if is_missing {
            return Err(absent("a commit of the history").because(refused));
        }
        Err(refused)
    }
}

impl Shallow {
    /// Whether these are exactly the commits that a range holds, which git listed as far as this clone has
    /// them. `roots` are the commits that the range starts from and those that it leaves out.
    pub(in crate::git) fn proves_range(&self, listed: &HashSet<Oid>, roots: &[Oid]) -> bool {
        let ends = self.ends_below(roots);
        if ends.is_empty() || listed.is_empty() {
            return true;
        }
        // A commit that is left out is left out with everything below it. One that is listed could be below
        // an end of what is left out, unless it leads down to a commit that leads to that end.
        let mut exits = HashSet::new();
        for commit in listed {
            if ends.contains(commit) {
                return false;
            }
            let Some(parents) = self.parents.get(commit).filter(|some| !some.is_empty()) else {
                return false;
            };
            exits.extend(parents.iter().filter(|parent| !listed.contains(parent)));
        }
        exits.iter().all(|exit| self.ends_below(&[*exit]) == ends)
    }

    /// Whether `ancestor`, which was not found below `tip`, is not below it in the whole history either.
    pub(in crate::git) fn disproves_ancestor(&self, ancestor: Oid, tip: Oid) -> bool {
        let known = self.ends_below(&[ancestor]);
        self.ends_below(&[tip]).is_subset(&known)
    }

    /// Whether the commits that a merge of these two starts from are the same in the whole history. Where
    /// there are several, git merges them first, and so on down.
    pub(in crate::git) fn proves_merge(&self, one: Oid, two: Oid) -> bool {
        let (ours, theirs) = (self.below(&[one]), self.below(&[two]));
        let apart: HashSet<Oid> = ours.symmetric_difference(&theirs).copied().collect();
        if !self.proves_range(&apart, &[one, two]) {
            return false;
        }
        let parents = apart.iter().filter_map(|commit| self.parents.get(commit));
        let mut bases: HashSet<Oid> = parents.flatten().copied().collect();
        bases.extend([one, two]);
        bases.retain(|base| ours.contains(base) && theirs.contains(base));
        let all: Vec<Oid> = bases.iter().copied().collect();
        for base in &all {
            let mut below = self.below(&[*base]);
            below.remove(base);
            bases.retain(|other| !below.contains(other));
        }
        let bases: Vec<Oid> = bases.into_iter().collect();
        bases.iter().enumerate().all(|(index, one)| {
            let mut others = bases[index + 1..].iter();
            others.all(|two| self.proves_merge(*one, *two))
        })
    }

    fn ends_below(&self, roots: &[Oid]) -> HashSet<Oid> {
        let below = self.below(roots);
        self.ends.intersection(&below).copied().collect()
    }

    /// These commits and everything below them.
    fn below(&self, roots: &[Oid]) -> HashSet<Oid> {
        let mut found: HashSet<Oid> = roots.iter().copied().collect();
        let mut open = roots.to_vec();
        while let Some(commit) = open.pop() {
            let parents = self.parents.get(&commit).into_iter().flatten();
            open.extend(parents.filter(|parent| found.insert(**parent)));
        }
        found
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

/// The error for an object that this clone lacks although it is not shallow.
pub(crate) fn absent(what: &str) -> Error {
    Error::new(
        Code::HistoryIncomplete,
        format!("{what} is missing in this clone"),
    )
    .hint("to see what else is missing, run git fsck --connectivity-only")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oid(name: char) -> Oid {
        Oid::from_bytes([name as u8; 20])
    }

    /// A history from `child:parents` words; the second list holds the ends.
    fn history(words: &str, ends: &str) -> Shallow {
        let commits = words.split(' ').map(|word| {
            let (commit, parents) = word.split_once(':').expect("a colon");
            let commit = commit.chars().next().expect("a name");
            (oid(commit), parents.chars().map(oid).collect())
        });
        Shallow {
            parents: commits.collect(),
            ends: ends.chars().map(oid).collect(),
        }
    }

    fn proves(history: &Shallow, listed: &str, roots: &str) -> bool {
        let roots: Vec<Oid> = roots.chars().map(oid).collect();
        history.proves_range(&listed.chars().map(oid).collect(), &roots)
    }

    #[test]
    fn a_range_is_certain_where_it_leaves_above_every_end() {
        // The branch t, s forked at f; main m went on; both end at e.
        let fork = history("t:s s:f m:f f:e e:", "e");
        assert!(proves(&fork, "ts", "tm"));
        assert!(proves(&fork, "tsm", "tm"));
        assert!(proves(&fork, "", "m"));
        // The fork itself may be the end.
        let at_end = history("t:s s:f m:f f:", "f");
        assert!(proves(&at_end, "tsm", "tm"));
    }

    #[test]
    fn a_range_with_an_end_in_it_is_not_certain() {
        let cut = history("t:s s: m:", "sm");
        assert!(!proves(&cut, "ts", "tm"));
        // main was fetched alone, so whether it holds s cannot be known.
        let apart = history("t:s s:f f: m:", "fm");
        assert!(!proves(&apart, "tsm", "tm"));
        assert!(!proves(&apart, "ts", "tm"));
    }

    #[test]
    fn an_end_beside_the_way_down_makes_it_uncertain() {
        // main merged x, at which the clone ends: x may hold s.
        let beside = history("t:s s:f m:fx f:g g: x:", "x");
        assert!(!proves(&beside, "ts", "tm"));
        assert!(!proves(&history("t: m:", "m"), "t", "tm"), "a root");
    }

    #[test]
    fn that_one_is_no_ancestor_is_certain_where_it_is_above_every_end() {
        let fork = history("t:s s:f m:f f:", "f");
        assert!(fork.disproves_ancestor(oid('s'), oid('m')));
        let apart = history("t:s s:f f: m:", "fm");
        assert!(!apart.disproves_ancestor(oid('s'), oid('m')));
    }

    #[test]
    fn a_merge_is_certain_down_to_the_bases_of_its_bases() {
        let fork = history("t:f m:f f:e e:", "e");
        assert!(fork.proves_merge(oid('t'), oid('m')));
        // Two bases, a and b, which meet at g, or before the clone's ends.
        let crossed = history("t:ab m:ab a:g b:g g:", "g");
        assert!(crossed.proves_merge(oid('t'), oid('m')));
        let cut = history("t:ab m:ab a: b:", "ab");
        assert!(!cut.proves_merge(oid('t'), oid('m')));
    }
}
