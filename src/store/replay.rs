//! An agent's commits as history is given them: without the empty commit by which it was spawned.
//!
//! ```text
//! base ── spawn ── one ── two        the agent's branch
//!    └── one' ── two'                what `pr` pushes and `merge --no-ff` brings: the same trees
//!         └─ header `agent-spawn`: the whole text of the spawn commit
//! ```
//!
//! A commit that is replayed keeps every byte but its parents, so the same branch always gives the same commits: a longer branch
//! goes on from what an earlier one gave, and work that has landed so is found by name. The header lets a clone without the spawn
//! commit compute its name, and so the agent's id, anew. A signature stands for bytes that would change, so where a commit is
//! signed nothing is replayed, and the spawn commit stays.

use super::remote_names::load_clone_id;
use super::spawn_commit::{AGENTS_BRANCHES, CARRIED, NONCE, SPAWN_SUBJECT, SpawnCommit, carried};
use crate::domain::operation::Reverted;
use crate::domain::{Agent, Oid};
use crate::error::{Error, Result};
use crate::git::objects::RawCommit;
use crate::git::{Commit, Repo};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What history is given of a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// The commit that stands for the tip of the branch.
    pub tip: Oid,
    /// Whether a spawn commit stays because commits after it are signed.
    pub is_signed: bool,
    /// The commits that stand for others, parents first, each with the other one and its name.
    commits: Vec<(Oid, Oid, RawCommit)>,
}

impl Replay {
    /// What a landing on `target` brings: the branch as it is where an earlier landing brought its spawn commit along.
    ///
    /// # Errors
    /// As [`Replay::of`].
    pub fn to_land(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<Replay> {
        // Then the rest of the branch has to follow upon the very commit that is in history
        // already.
        if repo.has_object(agent.spawn_commit) && repo.is_ancestor(agent.spawn_commit, target)? {
            return Ok(Replay { tip, is_signed: false, commits: Vec::new() });
        }
        Replay::of(repo, agent, target, tip)
    }

    /// Replays what `target` lacks of an agent's branch with that tip, in memory.
    ///
    /// # Errors
    /// `history-incomplete`, `repo-corrupt`, `git-failed`.
    pub fn of(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<Replay> {
        let (mut new, mut spawns) = (HashMap::new(), HashMap::new());
        let (mut commits, mut is_carried) = (Vec::new(), false);
        for oid in lacking(repo, agent, target, tip)? {
            let commit = repo.read_raw_commit(oid)?;
            is_carried |= carried(&commit).is_some_and(|(spawn, _)| spawn == agent.spawn_commit);
            let before = commit.parents();
            let parents: Vec<Oid> =
                before.iter().map(|parent| new.get(parent).copied().unwrap_or(*parent)).collect();
            // Those of agents whose branches this one was built upon go as well.
            if let [parent] = parents.as_slice()
                && let Some(text) = spawn_text(repo, agent, oid, &commit)?
            {
                new.insert(oid, *parent);
                spawns.insert(oid, text);
                continue;
            }
            // Nothing below it changed, so it keeps its name and its signature.
            if parents == before {
                continue;
            }
            if commit.is_signed() {
                return Ok(Replay::signed(tip));
            }
            // A branch that goes on from what `pr` pushed of it begins where that does.
            let spawn = before.iter().find_map(|parent| spawns.get(parent)).filter(|_| !is_carried);
            let header = spawn.map(|text| (CARRIED, text.as_str()));
            let replayed = commit.with_parents(&parents, header);
            let name = replayed.name()?;
            new.insert(oid, name);
            commits.push((oid, name, replayed));
        }
        Ok(Replay { tip: new.get(&tip).copied().unwrap_or(tip), is_signed: false, commits })
    }

    /// That of a branch whose commits are signed.
    pub fn signed(tip: Oid) -> Replay {
        Replay { tip, is_signed: true, commits: Vec::new() }
    }

    /// Whether `target` has some of it, as after a landing of the beginning. One that was taken back left its commits in the repository.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn is_begun(&self, repo: &Repo, target: Oid) -> Result<bool> {
        let first = self.commits.first().filter(|(_, first, _)| repo.has_object(*first));
        first.map_or(Ok(false), |(_, first, _)| repo.is_ancestor(*first, target))
    }

    /// The last of its commits that `target` has, and the one of the branch for which that stands.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn last_held(&self, repo: &Repo, target: Oid) -> Result<Option<(Oid, Oid)>> {
        for (own, other, _) in self.commits.iter().rev() {
            if repo.has_object(*other) && repo.is_ancestor(*other, target)? {
                return Ok(Some((*other, *own)));
            }
        }
        Ok(None)
    }

    /// Whether a commit is one that stands for one of the branch.
    pub fn holds(&self, commit: Oid) -> bool {
        self.commits.iter().any(|(_, name, _)| *name == commit)
    }

    /// The commits that change something of a short branch without merges, each with what stands for it.
    fn own_changes(&self, repo: &Repo, start: Oid, tip: Oid) -> Result<Vec<Vec<Oid>>> {
        let mut own = Vec::new();
        for commit in repo.line(start, tip).into_iter().flatten() {
            let [parent] = commit.parents[..] else { continue };
            if repo.tree_of(parent)? != repo.tree_of(commit.oid)? {
                let stands = self.commits.iter().filter(|(old, ..)| *old == commit.oid);
                own.push(stands.map(|(_, new, _)| *new).chain([commit.oid]).collect());
            }
        }
        Ok(own)
    }

    /// Takes notes along to the commits, as `git rebase` does and where `notes.rewriteRef` says so.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn copy_notes(&self, repo: &Repo) -> Result<()> {
        let pairs = self.commits.iter().map(|(old, new, _)| (*old, *new));
        repo.copy_notes(&pairs.collect::<Vec<_>>())
    }

    /// Writes the commits; no ref moves.
    ///
    /// # Errors
    /// Those of [`Repo::write_blob`].
    pub fn write(&self, repo: &Repo) -> Result<()> {
        for (.., commit) in &self.commits {
            repo.write_raw_commit(commit)?;
        }
        Ok(())
    }
}

/// What an agent has on top of the work that its branch was built upon.
pub struct OwnCommits {
    /// The text of its spawn commit.
    spawn: Option<String>,
    /// The commits without that one, parents first.
    pub commits: Vec<(Oid, RawCommit)>,
}

/// The commits of a branch that none of the others holds.
///
/// # Errors
/// As [`Replay::of`].
pub fn own_commits(repo: &Repo, agent: &Agent, others: &[Oid], tip: Oid) -> Result<OwnCommits> {
    let (mut spawn, mut commits) = (None, Vec::new());
    let mut is_carried = false;
    for oid in repo.commits_between(others, tip)? {
        let commit = repo.read_raw_commit(oid)?;
        is_carried |= carried(&commit).is_some_and(|(spawn, _)| spawn == agent.spawn_commit);
        match spawn_text(repo, agent, oid, &commit)? {
            Some(text) => spawn = Some(text),
            None => commits.push((oid, commit)),
        }
    }
    // It lies below what landed of the branch already.
    let own = agent.spawn_commit;
    if spawn.is_none() && !is_carried && repo.has_object(own) {
        spawn = spawn_text(repo, agent, own, &repo.read_raw_commit(own)?)?;
    }
    Ok(OwnCommits { spawn, commits })
}

/// Whether every commit of a remote's branch that `target` lacks is one of the agent's branch, or stands for one: the same but for its tree, its
/// parents and what it carries. Others that wrote there made one that is not.
///
/// # Errors
/// As [`Replay::of`].
pub fn is_of_branch(
    repo: &Repo,
    agent: &Agent,
    (tip, target): (Oid, Oid),
    there: Oid,
) -> Result<bool> {
    let bare = |oid| repo.read_raw_commit(oid).map(|commit| commit.without_place(CARRIED));
    let started = agent.base.as_ref().map(|base| base.oid).filter(|oid| repo.has_object(*oid));
    let mut own: HashSet<Vec<u8>> = HashSet::new();
    // What landed already, and what the branch was built upon, which stood there before that landed.
    for below in started.into_iter().chain([target]) {
        for oid in repo.commits_between(&[below], tip)? {
            own.insert(bare(oid)?);
        }
    }
    for oid in repo.commits_between(&[target], there)? {
        if !own.contains(&bare(oid)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A line of commits that is being made on top of another commit.
pub struct ReplayLine<'o> {
    /// The tree of the last one.
    pub tree: Oid,
    spawn: Option<&'o str>,
    tip: Oid,
    commits: Vec<(Oid, Oid, RawCommit)>,
}

impl<'o> ReplayLine<'o> {
    /// An empty one.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn on(repo: &Repo, target: Oid, own: &'o OwnCommits) -> Result<ReplayLine<'o>> {
        Ok(ReplayLine {
            tree: repo.tree_of(target)?,
            spawn: own.spawn.as_deref(),
            tip: target,
            commits: Vec::new(),
        })
    }

    /// Adds what stands for a commit, with this tree; the first one carries the spawn commit. One that changes nothing is left out.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn push(&mut self, oid: Oid, commit: &RawCommit, tree: Oid) -> Result<()> {
        if tree == self.tree {
            return Ok(());
        }
        let header = self.spawn.take().map(|text| (CARRIED, text));
        let made = commit.with_parents(&[self.tip], header).with_tree(tree);
        (self.tip, self.tree) = (made.name()?, tree);
        self.commits.push((oid, self.tip, made));
        Ok(())
    }

    /// All of it.
    pub fn replay(self) -> Replay {
        Replay { tip: self.tip, is_signed: false, commits: self.commits }
    }
}

/// How far a branch is followed to where it begins.
const LONGEST: usize = 10_000;

/// The commit that a replay of the agent's branch stands on, given the tip of the replay.
///
/// # Errors
/// `repo-corrupt`.
pub fn ground(repo: &Repo, agent: &Agent, tip: Oid) -> Result<Option<Oid>> {
    let mut next = tip;
    for _ in 0..LONGEST {
        let commit = repo.read_raw_commit(next)?;
        let Some(parent) = commit.parents().first().copied() else {
            break;
        };
        if carried(&commit).is_some_and(|(spawn, _)| spawn == agent.spawn_commit) {
            return Ok(Some(parent));
        }
        next = parent;
    }
    Ok(None)
}

/// The commits of a branch that `target` lacks, parents first. Of a short line from where the agent started no other history is
/// read, however far the target has come since.
fn lacking(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<Vec<Oid>> {
    let base = agent.base.as_ref();
    let is_agents = |name: &String| name.starts_with(AGENTS_BRANCHES);
    // A branch built on another agent's holds that agent's spawn commit, which lies below this
    // one's start.
    let on_another = base.is_some_and(|base| base.refname.as_ref().is_some_and(is_agents));
    let started = base.map(|base| base.oid).filter(|_| !on_another);
    if let Some(line) = started.and_then(|started| repo.line(started, tip)) {
        return Ok(line.into_iter().map(|lineage| lineage.oid).collect());
    }
    let hidden: Vec<Oid> = started.into_iter().chain([target]).collect();
    repo.commits_between(&hidden, tip)
}

/// Whether `target` holds what history is given of a branch with that tip, or of a longer one.
///
/// # Errors
/// As [`Replay::of`].
pub fn is_held(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<bool> {
    let replay = Replay::of(repo, agent, target, tip)?;
    Ok(replay.tip != tip && repo.has_object(replay.tip) && repo.is_ancestor(replay.tip, target)?)
}

/// What took a landing of a branch with that tip back on `target`, where the history of `target` has commits of the branch still: merging
/// it again brings nothing of what they changed. What landed in another form, such as a squash, is brought again.
///
/// # Errors
/// As [`Replay::of`].
pub fn reverted_on(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<Option<Reverted>> {
    // Nothing has come to a target that is where the agent began.
    if agent.base.as_ref().is_none_or(|base| base.oid == target) {
        return Ok(None);
    }
    if !is_in_history(repo, agent, target, tip)? {
        return Ok(None);
    }
    let back = RevertSearch::default().taken_back(repo, agent, target, tip)?;
    let Some(back) = back.filter(|back| !back.is_squash) else {
        return Ok(None);
    };
    // What another clone did is taken back there, and here as git takes any commit back; so is what something stands on by now.
    let own = load_clone_id(repo.common_dir())?;
    let is_by_own = |it: &Reverted| it.commit == target && target == back.commit && it.clone == own;
    let by_own = agent.reverted.clone().filter(is_by_own);
    let by_hand = Reverted { commit: back.commit, operation: None, clone: None };
    Ok(Some(by_own.unwrap_or(by_hand)))
}

/// Whether the history of `target` has commits of the branch, or what stands for them.
fn is_in_history(repo: &Repo, agent: &Agent, target: Oid, tip: Oid) -> Result<bool> {
    let is_below = |oid| Ok::<_, Error>(repo.has_object(oid) && repo.is_ancestor(oid, target)?);
    if is_below(agent.spawn_commit)? {
        return Ok(true);
    }
    let replay = Replay::of(repo, agent, target, tip)?;
    // What it was built upon may have landed without it.
    let started = agent.base.as_ref().map(|base| base.oid);
    let own = started.and_then(|started| repo.line(started, tip));
    let is_own = |oid: &Oid| own.as_ref().is_none_or(|own| own.iter().any(|one| one.oid == *oid));
    let first = replay.commits.iter().find(|(old, ..)| is_own(old));
    first.map_or(Ok(false), |(_, first, _)| is_below(*first))
}

/// What took a landing back.
pub struct TakenBack {
    /// The commit that did it.
    pub commit: Oid,
    /// Whether the landing was a commit that is none of the branch, so that the branch is merged again as if it had never landed.
    pub is_squash: bool,
}

/// How many commits are searched for one that takes another back.
const SEARCHED: usize = 1000;

/// How the message that `git revert` writes names the commit that it takes back.
const REVERTS: &str = "This reverts commit ";

/// What the messages of commits say that they take back: names of commits, shortened or not.
type NamedIn = HashMap<Oid, Vec<String>>;

/// A search for what took landings back, on any number of targets; the messages of each target are read once.
#[derive(Default)]
pub struct RevertSearch(RefCell<HashMap<Oid, Rc<NamedIn>>>);

impl RevertSearch {
    /// The commit on `target` that took back what a landing of the branch brought: by an undo, or as `git revert` does, where it names the merge
    /// that brought it, the commit that the row names, or each of its commits. What was there again since is not taken back, by whichever commit it
    /// came, and nor is what the branch itself brings back. Of a commit by hand only the message tells, and only the newest are read.
    ///
    /// # Errors
    /// As [`Replay::of`].
    pub fn taken_back(
        &self,
        repo: &Repo,
        agent: &Agent,
        target: Oid,
        tip: Oid,
    ) -> Result<Option<TakenBack>> {
        let named = self.named_on(repo, target)?;
        // Mostly nothing took anything back, and then no history is walked.
        match &agent.base {
            Some(base) if agent.reverted.is_some() || !named.is_empty() => {
                taken_back(repo, agent, (base.oid, target), tip, &named)
            }
            _ => Ok(None),
        }
    }

    fn named_on(&self, repo: &Repo, target: Oid) -> Result<Rc<NamedIn>> {
        if let Some(known) = self.0.borrow().get(&target) {
            return Ok(Rc::clone(known));
        }
        let mut named = NamedIn::new();
        for oid in repo.newest_commits(target, SEARCHED)? {
            let names = named_in(repo, oid)?;
            if !names.is_empty() {
                named.insert(oid, names);
            }
        }
        let named = Rc::new(named);
        self.0.borrow_mut().insert(target, Rc::clone(&named));
        Ok(named)
    }
}

/// The names of commits that a commit says it takes back, as the message of `git revert` does.
///
/// # Errors
/// `repo-corrupt`.
pub(super) fn named_in(repo: &Repo, oid: Oid) -> Result<Vec<String>> {
    let message = repo.read_commit(oid)?.message;
    let reverts = message.lines().filter_map(|line| line.strip_prefix(REVERTS));
    let names = reverts.map(|rest| rest.chars().take_while(char::is_ascii_hexdigit).collect());
    Ok(names.filter(|name: &String| name.len() >= ABBREVIATED).collect())
}

fn taken_back(
    repo: &Repo,
    agent: &Agent,
    (base, target): (Oid, Oid),
    tip: Oid,
    named: &NamedIn,
) -> Result<Option<TakenBack>> {
    let line = repo.commits_between(&[base], target)?;
    let newest = repo.commits_between(&[target], tip)?;
    let reverts = RevertMessages::of(repo, named, &line, &newest)?;
    let all = [line.as_slice(), &newest].concat();
    if let Some(Reverted { commit, .. }) = &agent.reverted
        && line.contains(commit)
        && !reverts.name(*commit)
        && !is_brought_back(repo, *commit, None, &all)?
    {
        return Ok(Some(TakenBack { commit: *commit, is_squash: false }));
    }
    if reverts.0.iter().all(|(_, by)| by.is_none()) {
        return Ok(None);
    }
    let replay = Replay::of(repo, agent, target, tip)?;
    let own = replay.own_changes(repo, base, tip)?;
    let names = replay.commits.iter().flat_map(|(old, new, _)| [*old, *new]);
    let names: HashSet<Oid> = names.chain([agent.spawn_commit]).chain(agent.landed_tip).collect();
    let mut last = None;
    for oid in &line {
        let Some(by) = reverts.by(*oid) else { continue };
        let commit = repo.read_commit(*oid)?;
        let is_own = own.iter().any(|own| own.contains(oid));
        let is_gone = |own: &Vec<Oid>| own.iter().any(|oid| reverts.name(*oid));
        let is_merge = commit.parents.len() == 2;
        // What the branch has got since has not landed yet.
        let has_landed = |own: &&Vec<Oid>| own.iter().any(|oid| line.contains(oid));
        let is_landing = match commit.parents[..] {
            _ if is_own => own.iter().filter(has_landed).all(is_gone),
            // What was there before it, such as what another branch was begun upon, a merge does not bring.
            [first, second] => {
                let brought = repo.commits_between(&[first], second)?;
                brought.iter().any(|oid| names.contains(oid))
                    && is_work_in(repo, &commit, first, (base, tip))?
            }
            _ => agent.landed.as_ref().is_some_and(|(landed, _)| landed == oid),
        };
        if is_landing && !is_brought_back(repo, by, Some(&commit), &all)? {
            last = Some(TakenBack { commit: by, is_squash: !is_own && !is_merge });
        }
    }
    Ok(last)
}

/// The names of commits that are taken back, each with the commit that does it; that is `None` for one of the branch, which `target` lacks.
struct RevertMessages(Vec<(String, Option<Oid>)>);

impl RevertMessages {
    /// Those of these commits, each list parents first; of `on_target` given what is named in its messages.
    fn of(
        repo: &Repo,
        named: &NamedIn,
        on_target: &[Oid],
        on_branch: &[Oid],
    ) -> Result<RevertMessages> {
        let mut reverts = RevertMessages(Vec::new());
        // One that was taken back itself takes nothing back.
        for oid in on_branch.iter().rev().take(SEARCHED) {
            if !reverts.name(*oid) {
                let names = named_in(repo, *oid)?;
                reverts.0.extend(names.into_iter().map(|name| (name, None)));
            }
        }
        for oid in on_target.iter().rev() {
            if let Some(names) = named.get(oid)
                && !reverts.name(*oid)
            {
                reverts.0.extend(names.iter().map(|name| (name.clone(), Some(*oid))));
            }
        }
        Ok(reverts)
    }

    /// Whether one of them names a commit.
    fn name(&self, oid: Oid) -> bool {
        self.newest(oid).is_some()
    }

    /// The commit on `target` that is the newest to name it.
    fn by(&self, oid: Oid) -> Option<Oid> {
        self.newest(oid)?.1
    }

    fn newest(&self, oid: Oid) -> Option<&(String, Option<Oid>)> {
        let digits = oid.to_string();
        self.0.iter().find(|(name, _)| digits.starts_with(name))
    }
}

/// The shortest name that a message is taken to name a commit by; git's own are not shorter.
const ABBREVIATED: usize = 7;

/// Whether what a merge changed in `first` is of the work between `start` and `tip`: nothing else, or a file just as the work has it. Where the
/// work has landed without its spawn commit, a merge of what was built upon it brings its commits, and none of its changes.
fn is_work_in(repo: &Repo, merge: &Commit, first: Oid, (start, tip): (Oid, Oid)) -> Result<bool> {
    let work: HashSet<_> = repo.changed_paths(repo.tree_of(start)?, repo.tree_of(tip)?)?;
    let differing: HashSet<Vec<u8>> = repo.changed_paths(repo.tree_of(tip)?, merge.tree)?;
    let brought: HashSet<_> = repo.changed_paths(repo.tree_of(first)?, merge.tree)?;
    Ok(brought.is_subset(&work)
        || work.intersection(&brought).any(|path| !differing.contains(path)))
}

/// Whether `by` left what the landing changed as it was, or all of it if none is given, or one of these commits that stands on it has that as
/// it was before. The commits are in order, parents first.
fn is_brought_back(
    repo: &Repo,
    by: Oid,
    landing: Option<&Commit>,
    commits: &[Oid],
) -> Result<bool> {
    let below = |commit: &Commit| -> Result<Option<Oid>> {
        let parent = commit.parents.first();
        parent.map(|parent| repo.tree_of(*parent)).transpose()
    };
    let back = repo.read_commit(by)?;
    let Some(before) = below(&back)? else {
        return Ok(false);
    };
    let mut taken = repo.differences(back.tree, before)?;
    if let Some(landing) = landing {
        let changes = repo.tree_changes(below(landing)?.as_slice(), landing.tree)?;
        let landed: HashSet<_> = changes.iter().map(|change| &change.path).collect();
        taken.retain(|one| landed.contains(&one.path));
    }
    let is_there = |tree: Oid| -> Result<bool> {
        for one in &taken {
            let entry = repo.entry_at(tree, &String::from_utf8_lossy(&one.path))?;
            if entry.map(|entry| entry.oid) != one.new.map(|(_, oid)| oid) {
                return Ok(false);
            }
        }
        Ok(true)
    };
    if taken.is_empty() {
        return Ok(true);
    }
    let mut since = HashSet::from([by]);
    for oid in commits.iter().skip_while(|oid| **oid != by).skip(1) {
        let commit = repo.read_commit(*oid)?;
        if commit.parents.iter().any(|parent| since.contains(parent)) {
            if is_there(commit.tree)? {
                return Ok(true);
            }
            since.insert(*oid);
        }
    }
    Ok(false)
}

/// The text of the spawn commit that a commit is, or that a rebase made it of; `None` for every other commit. What holds a
/// change, has no policy, or is not text, stays as it is.
fn spawn_text(repo: &Repo, agent: &Agent, oid: Oid, commit: &RawCommit) -> Result<Option<String>> {
    let Some(nonce) = commit.trailer(NONCE) else {
        return Ok(None);
    };
    let [parent] = commit.parents()[..] else {
        return Ok(None);
    };
    // Asked last, because it reads two more objects.
    let is_empty = || -> Result<bool> { Ok(repo.tree_of(oid)? == repo.tree_of(parent)?) };
    if !commit.subject().starts_with(SPAWN_SUBJECT) || !is_empty()? {
        return Ok(None);
    }
    let own = agent.spawn_commit;
    let (spawn, text) = if SpawnCommit::of(oid, commit).is_some() {
        (oid, commit.clone())
    } else if repo.has_object(own) {
        (own, repo.read_raw_commit(own)?)
    } else {
        return Ok(None);
    };
    // The nonce tells that a rebase made this commit of that one: it is drawn once for each spawn.
    let is_it = SpawnCommit::of(spawn, &text).is_some() && text.trailer(NONCE) == Some(nonce);
    Ok(String::from_utf8(text.bytes().to_vec()).ok().filter(|_| is_it))
}
