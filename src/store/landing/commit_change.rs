//! The change that a commit makes to the one before it, and which commits of a target make again what a branch did: all of it, or a part
//! after the other.

use crate::domain::Oid;
use crate::error::Result;
use crate::git::{Commit, Repo};
use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The paths of a change.
pub(in crate::store) type Paths = BTreeSet<Vec<u8>>;

/// The change that a commit makes to the one before it.
pub struct CommitChange {
    pub(in crate::store) commit: Commit,
    pub(in crate::store) before: Commit,
    paths: OnceCell<Paths>,
}

impl CommitChange {
    /// That of a commit with one parent; `None` for every other one, and where the parent is not here.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub(in crate::store) fn of(repo: &Repo, commit: Commit) -> Result<Option<CommitChange>> {
        let [parent] = commit.parents[..] else {
            return Ok(None);
        };
        if !repo.has_object(parent) {
            return Ok(None);
        }
        Ok(Some(CommitChange::between(repo.read_commit(parent)?, commit)))
    }

    /// That from any commit to another.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn from_to(repo: &Repo, before: Oid, commit: Oid) -> Result<CommitChange> {
        Ok(CommitChange::between(repo.read_commit(before)?, repo.read_commit(commit)?))
    }

    pub(in crate::store) fn between(before: Commit, commit: Commit) -> CommitChange {
        CommitChange { commit, before, paths: OnceCell::new() }
    }

    /// The paths that it changes.
    pub(in crate::store) fn paths(&self, repo: &Repo) -> Result<&Paths> {
        if let Some(paths) = self.paths.get() {
            return Ok(paths);
        }
        let paths = repo.changed_paths(self.before.tree, self.commit.tree)?;
        Ok(self.paths.get_or_init(|| paths))
    }

    /// Whether it is no merge, and changes something of those paths and nothing besides.
    pub(in crate::store) fn touches_only(&self, repo: &Repo, touched: &Paths) -> Result<bool> {
        Ok(self.commit.parents.len() <= 1 && self.stays_within(repo, touched)?)
    }

    /// Whether it changes something, and only what was `touched`.
    pub(in crate::store) fn stays_within(&self, repo: &Repo, touched: &Paths) -> Result<bool> {
        Ok(self.commit.tree != self.before.tree && self.paths(repo)?.is_subset(touched))
    }

    /// Whether it makes the change that merging `tip` in its place would have made, or the one that `tip` holds.
    pub(in crate::store) fn lands(&self, repo: &Repo, tip: Oid) -> Result<bool> {
        let Some(fork) = repo.merge_base(self.before.oid, tip)? else {
            return Ok(false);
        };
        self.brings(repo, (fork, tip))
    }

    /// Whether it makes another change again, or the very opposite of that; `None` where it does neither.
    fn repeats(&self, repo: &Repo, other: &CommitChange) -> Result<Option<bool>> {
        // Paths first, because a patch id takes reading every file that differs.
        if self.paths(repo)?.is_empty() || self.paths(repo)? != other.paths(repo)? {
            return Ok(None);
        }
        let own = repo.patch_id(self.before.tree, self.commit.tree)?;
        let (before, after) = (other.before.tree, other.commit.tree);
        if own == repo.patch_id(before, after)? {
            return Ok(Some(true));
        }
        Ok((own == repo.patch_id(after, before)?).then_some(false))
    }

    /// Whether it makes the change from one commit to the other, or the one that merging that in its place would have made.
    pub(in crate::store) fn brings(&self, repo: &Repo, (from, tip): (Oid, Oid)) -> Result<bool> {
        let (old, new) = (repo.tree_of(from)?, repo.tree_of(tip)?);
        // The cheaper question first: the other one takes a merge.
        if repo.patch_id(old, new)? == repo.patch_id(self.before.tree, self.commit.tree)? {
            return Ok(true);
        }
        let merged = repo.merge(self.before.oid, tip)?.result.clean();
        Ok(merged == Some(self.commit.tree))
    }
}

/// The newest commits of a branch along first parents, newest first, back to the oldest of `starts`; without any, as many as are searched.
///
/// # Errors
/// `repo-corrupt`.
pub(in crate::store) fn first_parents(
    repo: &Repo,
    tip: Oid,
    mut starts: BTreeSet<Oid>,
) -> Result<Vec<CommitChange>> {
    let (mut line, mut commit) = (Vec::new(), repo.read_commit(tip)?);
    while line.len() < SEARCHED {
        if starts.remove(&commit.oid) && starts.is_empty() {
            break;
        }
        // A shallow clone ends somewhere.
        let parent = commit.parents.first().copied();
        let Some(parent) = parent.filter(|oid| repo.has_object(*oid)) else {
            break;
        };
        let before = repo.read_commit(parent)?;
        line.push(CommitChange::between(before.clone(), commit));
        commit = before;
    }
    Ok(line)
}

/// How many comparisons of a commit with a part of a branch may be in vain: each may take a merge.
const MISSED: usize = 64;

/// A commit that brought a part of an agent's branch.
pub(in crate::store) struct LandingStep {
    pub(in crate::store) change: CommitChange,
    /// The commit of the branch up to which it did.
    pub(in crate::store) own: Oid,
    is_taken_back: bool,
}

/// Which of the named commits bring parts of a branch, given where that begins and its commits, the newest first: each goes on where the
/// one before it ends. What it brings may be the same up to several commits, as where one takes back what was on the target before, so its message is
/// asked first, which tells of as many as it has subjects of; people edit it.
pub(in crate::store) fn steps_of(
    repo: &Repo,
    (begins, own): (Oid, &[Oid]),
    named: Vec<(Oid, bool)>,
) -> Result<Vec<LandingStep>> {
    let mut rest = Vec::new();
    let mut touched = Paths::new();
    for oid in own.iter().rev() {
        let commit = repo.read_commit(*oid)?;
        if let Some(parent) = commit.parents.first() {
            touched.append(&mut repo.changed_paths(repo.tree_of(*parent)?, commit.tree)?);
        }
        rest.push(commit);
    }
    let (mut rest, mut from) = (rest.as_slice(), begins);
    let (mut landings, mut missed) = (Vec::new(), 0);
    for (named, is_taken_back) in named {
        let change = CommitChange::of(repo, repo.read_commit(named)?)?;
        let Some(change) = change else { continue };
        if !change.touches_only(repo, &touched)? {
            continue;
        }
        let count = told(&change.commit.message, rest);
        let ends = (1..=count).rev().chain(count + 1..=rest.len());
        for end in ends {
            let (part, after) = rest.split_at(end);
            let Some(last) = part.last().filter(|_| missed < MISSED) else {
                break;
            };
            if change.brings(repo, (from, last.oid))? {
                (rest, from) = (after, last.oid);
                landings.push(LandingStep { change, own: from, is_taken_back });
                break;
            }
            missed += 1;
        }
    }
    Ok(landings)
}

/// How many commits of a branch, parents first, a message tells of by their subjects, each on a line: it is the message of one of them, or what a forge
/// or git itself makes of several. A merge changes nothing of its own, and need not be told of.
fn told(message: &str, own: &[Commit]) -> usize {
    let mut subjects: HashMap<&str, usize> = HashMap::new();
    for line in message.lines() {
        *subjects.entry(subject(line)).or_default() += 1;
    }
    let mut count = 0;
    for (at, commit) in own.iter().enumerate() {
        let own = subject(commit.message.lines().next().unwrap_or_default());
        match subjects.get_mut(own).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                count = at + 1;
            }
            None if commit.parents.len() > 1 => {}
            None => break,
        }
    }
    count
}

/// A line as the subject that it may be: without the mark of a list, and without the number that a forge adds.
fn subject(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("* ").or_else(|| line.strip_prefix("- ")).unwrap_or(line);
    let number = line.strip_suffix(')').and_then(|line| line.rsplit_once(" ("));
    let is_number = |text: &str| {
        let digits = text.strip_prefix(['#', '!']).unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    number.filter(|(_, number)| is_number(number)).map_or(line, |(line, _)| line)
}

/// Whether all of these landings, or the whole change that they make between two commits, was taken back and not made again. Not each message says
/// what its commit takes back, and what of several is gone only in part has landed.
pub(in crate::store) fn are_taken_back(
    repo: &Repo,
    mut landings: Vec<LandingStep>,
    (begins, own): (Oid, Oid),
    target: Oid,
) -> Result<bool> {
    let whole = CommitChange::from_to(repo, begins, own)?;
    let first = landings.first().map(|first| first.change.commit.oid);
    for since in repo.commits_between(first.as_slice(), target)? {
        let Some(change) = CommitChange::of(repo, repo.read_commit(since)?)? else {
            continue;
        };
        let of_all = change.repeats(repo, &whole)?;
        for landing in &mut landings {
            let again =
                of_all.map_or_else(|| change.repeats(repo, &landing.change), |it| Ok(Some(it)));
            if let Some(is_again) = again? {
                landing.is_taken_back = !is_again;
            }
        }
    }
    Ok(landings.iter().all(|landing| landing.is_taken_back))
}

/// Whether one commit of a branch, given the newest first, makes the change of all the work, as a squash does, or each of the work's
/// commits has one that makes the same change, as a rebase does. What was taken back since is not made.
///
/// # Errors
/// `repo-corrupt`.
pub fn makes_the_same(repo: &Repo, line: &[CommitChange], started: Oid, tip: Oid) -> Result<bool> {
    let own = repo.commits_between(&[started], tip)?;
    let trees = own.iter().map(|commit| repo.tree_of(*commit)).collect::<Result<Vec<_>>>()?;
    let mut since = trees.iter().skip_while(|tree| Some(*tree) != trees.last());
    // Of work that went back to what it was before, the change of that moment is not all.
    if !since.any(|tree| Some(tree) != trees.last())
        && let Some(is_made) = is_made(repo, line, &CommitChange::from_to(repo, started, tip)?)?
    {
        return Ok(is_made);
    }
    let mut count = 0;
    for commit in own {
        let [parent] = repo.read_commit(commit)?.parents[..] else {
            // A merge is no change of its own that a rebase would have made again.
            return Ok(false);
        };
        let change = CommitChange::from_to(repo, parent, commit)?;
        // Empty, as a spawn commit is.
        if change.paths(repo)?.is_empty() {
            continue;
        }
        count += 1;
        // A rebase makes one commit for each, so a shorter line cannot hold them all.
        if count > line.len() || is_made(repo, line, &change)? != Some(true) {
            return Ok(false);
        }
    }
    Ok(count > 0)
}

/// Whether a branch has a commit that makes that change, which the newest that makes it or takes it back tells; `None` where none does
/// either.
fn is_made(repo: &Repo, line: &[CommitChange], change: &CommitChange) -> Result<Option<bool>> {
    // Paths first, because a patch id takes reading every file that differs.
    let mut alike = HashSet::new();
    for one in line {
        if one.paths(repo)? == change.paths(repo)? {
            alike.insert(one.commit.oid);
        }
    }
    if alike.is_empty() {
        return Ok(None);
    }
    let (before, after) = (change.before.tree, change.commit.tree);
    let [wanted, back] = [repo.patch_id(before, after)?, repo.patch_id(after, before)?];
    let mut named = Vec::new();
    for one in line {
        // By its message a revert is known also where the lines around have changed since.
        let oid = one.commit.oid.to_string();
        let is_taken_back = named.iter().any(|name: &String| oid.starts_with(name));
        if !is_taken_back {
            named.extend(reverted_by(&one.commit));
        }
        if alike.contains(&one.commit.oid) {
            let id = repo.patch_id(one.before.tree, one.commit.tree)?;
            if id == wanted || id == back {
                return Ok(Some((id == wanted) != is_taken_back));
            }
        }
    }
    Ok(None)
}

/// How the message that `git revert` writes names the commit that it takes back.
const REVERTS: &str = "This reverts commit ";

/// The shortest name that a message is taken to name a commit by; git's own are not shorter.
const ABBREVIATED: usize = 7;

/// The names of commits that a commit says it takes back, as the message of `git revert` does.
pub(in crate::store) fn reverted_by(commit: &Commit) -> Vec<String> {
    let reverts = commit.message.lines().filter_map(|line| line.strip_prefix(REVERTS));
    let names = reverts.map(|rest| rest.chars().take_while(char::is_ascii_hexdigit).collect());
    names.filter(|name: &String| name.len() >= ABBREVIATED).collect()
}

/// How many commits of a target are searched.
pub(in crate::store) const SEARCHED: usize = 1000;
