//! Which commits two histories do not share, as the objects tell it.
//!
//! Asked of the user's git, which has the commit graph and stops early, with everything switched off
//! that shows another history than the objects do: replace refs, grafts. What a shallow clone cannot know
//! is the error `history-incomplete`, never an answer.

use super::gained::{incomplete_history, shallow_parents_absent};
use crate::domain::Oid;
use crate::domain::paths::path::Quoted;
use crate::error::{Code, Error, Result};
use crate::git::core::tree::{DIRECTORY, Entry, GITLINK};
use crate::git::{Repo, core::command};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
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

    /// Compares the histories of `base` and `tip`, leaving out of what `tip` has all of `hidden`'s.
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
        // A branch that was moved to an older commit lacks some of what is hidden.
        if let Some(hidden) = hidden
            && !divergence.ahead.iter().any(|one| one.parents.contains(&hidden))
            && !self.is_ancestor(hidden, tip)?
        {
            divergence.behind = self.divergence(base, tip, None)?.behind;
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
        // A process for each of the many questions about landings would take long.
        if let Ok(Some(gained)) = self.gained(tip, &[ancestor]) {
            return Ok(gained.holds(ancestor));
        }
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
        match (self.has_object(commit), self.is_shallow()) {
            (true, _) => Ok(()),
            (false, true) => Err(incomplete_history(&what)),
            (false, false) => Err(shallow_parents_absent(&what)),
        }
    }

    /// Whether a commit is here with all that it leads to.
    ///
    /// # Errors
    /// `git-missing`, `io`.
    pub fn is_complete(&self, commit: Oid) -> Result<bool> {
        let mut command = self.plumbing();
        // What a ref reaches is there.
        command.args(["rev-list", "--objects", "--quiet", &commit.to_hex(), "--not", "--all"]);
        Ok(command::finish(&mut command)?.status.success())
    }

    /// Takes those commits out of a set that are found first going back from one, looking at no more than `most`; gives what was found
    /// on the way.
    fn take_nearest(&self, tip: Oid, most: usize, set: &mut BTreeSet<Oid>) -> Result<HashSet<Oid>> {
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
        Ok(found)
    }
}

// What can be kept of commits that lead to something that is missing.
//
// A ref that leads to a hole makes `git gc`, `git fsck` and every walk over all refs fail, so such a commit is never kept as it is.
// It is copied without what is missing: its history from the hole on, and the files that are here.

/// The refs that are taken to lead to whole commits: of agents' branches, and of what was kept of agents, that is not known.
const REFS_OF_USER: [&str; 3] =
    ["--exclude=refs/heads/agent/*", "--exclude=refs/agents/*", "--glob=refs/*"];

/// So many commits back from a tip are known to be kept with it before git is asked.
const NEAR: usize = 100;

/// So many commits are followed one by one before git is asked.
const FOLLOWED: usize = 32;

/// So many commits are followed where git cannot tell which ones the user's refs hold.
const FAR: usize = 10_000;

/// The longest path in a tree that is read, in bytes.
const LONGEST_PATH: usize = 4096;

/// The bits of a mode by which git tells files, directories and submodules apart.
const KIND: u32 = 0o170_000;

/// So many commits or files that cannot be kept are named.
const NAMED: usize = 10;

/// What can be kept of some commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keepable {
    /// Those that are here with all that they lead to.
    pub whole: Vec<Oid>,
    /// The others, each with its copy without what is missing; `None` where not even the commit can be read.
    pub copies: BTreeMap<Oid, Option<Oid>>,
    /// The files that are missing in the copies.
    lost: BTreeSet<Vec<u8>>,
}

impl Keepable {
    /// What is to be kept.
    pub fn commits(&self) -> Vec<Oid> {
        let copies: BTreeSet<Oid> = self.copies.values().flatten().copied().collect();
        self.whole.iter().copied().chain(copies).collect()
    }

    /// What is not kept, in sentences.
    pub fn losses(&self) -> Vec<String> {
        let of_commit = |(commit, copy): (&Oid, &Option<Oid>)| match copy {
            Some(copy) => format!(
                "commit {commit} leads to objects that are missing or damaged; without these, it is kept as {copy}"
            ),
            None => format!("commit {commit} cannot be read, and is not kept"),
        };
        let mut losses: Vec<String> = self.copies.iter().take(NAMED).map(of_commit).collect();
        let more = self.copies.len().saturating_sub(NAMED);
        if more > 0 {
            losses.push(format!("{more} more commits are like that"));
        }
        if !self.lost.is_empty() {
            let named = self.lost.iter().take(NAMED).map(|path| Quoted(path).to_string());
            let named = named.collect::<Vec<_>>().join(", ");
            let more = match self.lost.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            losses.push(format!("what these commits have at {named}{more} is not kept"));
        }
        losses
    }
}

impl Repo {
    /// What can be kept of the commits. Those that are `known` to be whole, and what these lead to, are not looked into. Copies are
    /// written, and no ref.
    ///
    /// # Errors
    /// `io`, `disk-full`, `repo-read-only`, `git-missing`.
    pub fn keepable(
        &self,
        commits: impl IntoIterator<Item = Oid>,
        known: &HashSet<Oid>,
    ) -> Result<Keepable> {
        let commits: BTreeSet<Oid> = commits.into_iter().collect();
        if commits.is_empty() {
            return Ok(Keepable::default());
        }
        let mut parts = WholeParts {
            repo: self,
            ends: self.shallow_ends()?,
            copies: BTreeMap::new(),
            trees: HashMap::new(),
            lost: BTreeSet::new(),
        };
        for commit in parts.unheld(&commits, known)? {
            parts.examine(commit)?;
        }
        let mut kept = Keepable { lost: std::mem::take(&mut parts.lost), ..Keepable::default() };
        for commit in commits {
            match parts.copies.get(&commit) {
                Some(copy) => drop(kept.copies.insert(commit, *copy)),
                None if parts.is_readable(commit) => kept.whole.push(commit),
                None => drop(kept.copies.insert(commit, None)),
            }
        }
        Ok(kept)
    }

    /// Whether all that a commit leads to is here, whatever refs of agents lead to it; a git that does not work finds nothing missing.
    ///
    /// # Errors
    /// `git-missing`, `io`.
    pub fn is_whole(&self, commit: Oid) -> Result<bool> {
        let lists = |what: &[&str]| {
            let mut list = self.plumbing();
            list.args(["rev-list", "--quiet", &commit.to_hex()]).args(what);
            Ok::<_, Error>(command::finish(&mut list)?.status.success())
        };
        let beside_users = [&["--objects", "--not"], &REFS_OF_USER[..]].concat();
        // Where a ref is damaged, git does not tell the first way, and where a link stands among the refs it comes to no end.
        let is_listable = self.require_listable("refs").is_ok();
        Ok(is_listable && lists(&beside_users)?
            || lists(&["--objects"])?
            || !lists(&["--no-walk"])?)
    }

    /// Takes those entries out of the reflog of a ref that its tip does not lead to.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn expire_unreachable(&self, refname: &str) -> Result<()> {
        let mut expire = self.plumbing();
        expire.args(["reflog", "expire", "--expire=never", "--expire-unreachable=now", refname]);
        command::successful(expire).map(drop)
    }

    /// As [`Repo::keepable`], beside a commit that is whole. Those that are found soon among its ancestors are left out, as are those
    /// that it is the copy of.
    ///
    /// # Errors
    /// As [`Repo::keepable`].
    pub fn keepable_beside(&self, tip: Oid, mut commits: BTreeSet<Oid>) -> Result<Keepable> {
        // Nearly always the commits that the branch was at before, a few steps back.
        // Its failing only means that git is asked about more commits.
        let known = self.take_nearest(tip, NEAR, &mut commits).unwrap_or_default();
        let mut kept = self.keepable(commits, &known)?;
        kept.copies.retain(|_, copy| *copy != Some(tip));
        if kept.copies.is_empty() {
            kept.lost.clear();
        }
        Ok(kept)
    }
}

/// Tells commits that are whole from others, and copies the others.
struct WholeParts<'r> {
    repo: &'r Repo,
    /// Where a shallow clone ends.
    ends: HashSet<Oid>,
    copies: BTreeMap<Oid, Option<Oid>>,
    /// What is whole of the trees that were looked into; a tree that is whole stands for itself.
    trees: HashMap<Oid, Option<Oid>>,
    lost: BTreeSet<Vec<u8>>,
}

impl WholeParts<'_> {
    fn is_readable(&self, commit: Oid) -> bool {
        self.repo.read_commit(commit).is_ok()
    }

    /// The parents, whatever grafts make of them; at its end a shallow clone has none.
    fn parents(&self, commit: Oid) -> Option<Vec<Oid>> {
        let parents = self.repo.read_raw_commit(commit).ok()?.parents();
        Some(if self.ends.contains(&commit) { Vec::new() } else { parents })
    }

    /// The commits that these lead to and that are neither known nor held by a ref of the user's, parents first. What is missing is
    /// not among them.
    fn unheld(&self, tips: &BTreeSet<Oid>, known: &HashSet<Oid>) -> Result<Vec<Oid>> {
        if let Some(few) = self.follow(tips, known, FOLLOWED) {
            return Ok(few);
        }
        let oids = |output: &[u8]| -> Vec<Oid> {
            let lines = output.split(|&byte| byte == b'\n');
            lines.filter_map(|line| Oid::from_hex(std::str::from_utf8(line).ok()?)).collect()
        };
        // Through a link among the refs git comes to no end.
        if self.repo.require_listable("refs").is_err() {
            return Ok(self.follow(tips, known, FAR).unwrap_or_default());
        }
        let mut list = self.repo.plumbing();
        list.args(["rev-list", "--topo-order", "--reverse", "--stdin", "--not"]).args(REFS_OF_USER);
        let hidden = known.iter().filter(|oid| self.is_readable(**oid));
        let lines = tips.iter().map(|oid| oid.to_hex()).chain(hidden.map(|oid| format!("^{oid}")));
        let lines: String = lines.map(|line| line + "\n").collect();
        let output = command::feed(list, lines.as_bytes())?;
        if output.status.success() {
            return Ok(oids(&output.stdout));
        }
        // There is a hole far down, above which git names no commit, or a ref is damaged.
        let mut list = self.repo.plumbing();
        list.arg("rev-list").args(REFS_OF_USER);
        let held = command::successful(list).map(|output| oids(&output)).unwrap_or_default();
        let most = if held.is_empty() { FAR } else { usize::MAX };
        let known = held.into_iter().chain(known.iter().copied()).collect();
        // Where not even that can be told, they are kept as they are.
        Ok(self.follow(tips, &known, most).unwrap_or_default())
    }

    /// The commits that these lead to down to the known ones, parents first; `None` where they are more than `most`.
    fn follow(&self, tips: &BTreeSet<Oid>, known: &HashSet<Oid>, most: usize) -> Option<Vec<Oid>> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut waiting: Vec<_> = tips.iter().map(|tip| (*tip, false)).collect();
        while let Some((oid, is_ready)) = waiting.pop() {
            if is_ready {
                found.push(oid);
            } else if !known.contains(&oid) && seen.insert(oid) {
                let Some(parents) = self.parents(oid) else {
                    continue;
                };
                if seen.len() > most {
                    return None;
                }
                waiting.push((oid, true));
                waiting.extend(parents.into_iter().map(|parent| (parent, false)));
            }
        }
        Some(found)
    }

    /// Copies a commit whose parents were examined, unless it is whole.
    fn examine(&mut self, oid: Oid) -> Result<()> {
        let (Ok(commit), Some(parents)) = (self.repo.read_commit(oid), self.parents(oid)) else {
            self.copies.insert(oid, None);
            return Ok(());
        };
        let kept = parents.iter().filter_map(|parent| match self.copies.get(parent) {
            Some(copy) => *copy,
            None => Some(*parent).filter(|parent| self.is_readable(*parent)),
        });
        let kept: Vec<Oid> = kept.collect();
        let before = kept.iter().map(|parent| self.repo.tree_of(*parent));
        let tree = self.part_of(commit.tree, &before.collect::<Result<Vec<_>>>()?, Vec::new())?;
        if tree == Some(commit.tree) && kept == parents {
            return Ok(());
        }
        let tree = match tree {
            Some(tree) => tree,
            None => self.repo.write_tree(Vec::new())?,
        };
        let copy = self.repo.read_raw_commit(oid)?.with_parents(&kept, None).with_tree(tree);
        self.copies.insert(oid, Some(self.repo.write_raw_commit(&copy)?));
        Ok(())
    }

    /// What is whole of a tree, given trees that are; `None` where nothing is.
    fn part_of(&mut self, tree: Oid, whole: &[Oid], path: Vec<u8>) -> Result<Option<Oid>> {
        if tree == Oid::EMPTY_TREE || whole.contains(&tree) {
            return Ok(Some(tree));
        }
        if let Some(part) = self.trees.get(&tree) {
            return Ok(*part);
        }
        let entries = self.repo.read_tree(tree).ok();
        let Some(entries) = entries.filter(|_| path.len() < LONGEST_PATH) else {
            self.lost.insert(path);
            self.trees.insert(tree, None);
            return Ok(None);
        };
        let beside = whole.iter().filter_map(|tree| self.repo.read_tree(*tree).ok());
        let beside: Vec<Entry> = beside.flatten().collect();
        let mut of_name: HashMap<&[u8], Vec<&Entry>> = HashMap::new();
        for entry in &beside {
            of_name.entry(&entry.name).or_default().push(entry);
        }
        let mut kept = Vec::new();
        for entry in &entries {
            let before = of_name.get(entry.name.as_slice()).map_or(&[][..], Vec::as_slice);
            let mut path = [path.as_slice(), &entry.name].concat();
            // What git's check of objects would refuse besides is passed over by the rest of git.
            match entry.mode & KIND {
                _ if before.contains(&entry) => kept.push(entry.clone()),
                _ if entry.name.is_empty() => drop(self.lost.insert(path)),
                GITLINK => kept.push(entry.clone()),
                DIRECTORY => {
                    path.push(b'/');
                    let directories = before.iter().filter(|one| one.mode & KIND == DIRECTORY);
                    let directories: Vec<Oid> = directories.map(|one| one.oid).collect();
                    let part = self.part_of(entry.oid, &directories, path)?;
                    kept.extend(part.map(|oid| Entry { oid, ..entry.clone() }));
                }
                _ if self.repo.is_blob(entry.oid) => kept.push(entry.clone()),
                _ => drop(self.lost.insert(path)),
            }
        }
        let part = match kept.as_slice() {
            [] => None,
            _ if kept == entries => Some(tree),
            _ => Some(self.repo.write_tree(kept)?),
        };
        self.trees.insert(tree, part);
        Ok(part)
    }
}
