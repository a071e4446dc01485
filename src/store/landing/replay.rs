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

use super::spawn_commit::{
    AGENTS_BRANCHES, CARRIED, NONCE, SPAWN_SUBJECT, SpawnCommit, carried, own_line,
};
use crate::domain::{Agent, Oid};
use crate::error::{Error, Result};
use crate::git::Repo;
use crate::git::objects::RawCommit;
use std::collections::{HashMap, HashSet};

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

    /// The commits that stand for others, parents first, each with the other one before and itself behind its name.
    pub(in crate::store) fn commits(&self) -> &[(Oid, Oid, RawCommit)] {
        &self.commits
    }

    /// The commits that change something of a short branch without merges, each with what stands for it.
    pub(in crate::store) fn own_changes(
        &self,
        repo: &Repo,
        start: Oid,
        tip: Oid,
    ) -> Result<Vec<Vec<Oid>>> {
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

/// The commit of an agent's branch from which it goes on beyond what landed with the tip `last`: that tip itself or, in a branch that was
/// rewritten since, the commit whose tree is that of the latest one that both lines have. What comes after it is the work of now, and what was
/// only dropped stays on the target. `None` for a branch that begins anew.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
pub fn goes_on_from(repo: &Repo, agent: &Agent, last: Oid, tip: Oid) -> Result<Option<Oid>> {
    if repo.is_ancestor(last, tip)? {
        return Ok(Some(last));
    }
    let line = |tip| own_line(repo, tip, agent);
    let (Some((landed, ground)), Some((own, own_ground))) = (line(last), line(tip)) else {
        let fork = repo.merge_base(last, tip)?.filter(|fork| *fork != agent.spawn_commit);
        let is_own = fork.map_or(Ok(false), |fork| repo.is_ancestor(agent.spawn_commit, fork))?;
        return Ok(fork.filter(|_| is_own));
    };
    // Of several with one tree the newest counts.
    let own = own.into_iter().rev().map(|oid| Ok((repo.tree_of(oid)?, oid)));
    let own: HashMap<Oid, Oid> = own.collect::<Result<_>>()?;
    let nothing = [repo.tree_of(ground)?, repo.tree_of(own_ground)?];
    for oid in landed {
        let tree = repo.tree_of(oid)?;
        if let Some(same) = own.get(&tree).filter(|_| !nothing.contains(&tree)) {
            return Ok(Some(*same));
        }
    }
    Ok(None)
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

/// Whether a branch that holds `base` has the tree of that, and only updates since it landed there with something of its own: nothing of the
/// agent's is left to land.
///
/// # Errors
/// `git-failed`, `repo-corrupt`.
pub(in crate::store) fn is_level_again(
    repo: &Repo,
    agent: &Agent,
    (base, tip): (Oid, Oid),
) -> Result<bool> {
    let began = agent.base.as_ref().map(|base| base.oid);
    let (Some((landing, _)), Some(last), Some(began)) = (&agent.landed, agent.landed_tip, began)
    else {
        return Ok(false);
    };
    let are_here = [*landing, last, began].iter().all(|oid| repo.has_object(*oid));
    let is_level = || Ok::<_, Error>(repo.tree_of(tip)? == repo.tree_of(base)?);
    let is_own = || Ok::<_, Error>(repo.tree_of(last)? != repo.tree_of(began)?);
    if !(are_here && is_level()? && is_own()? && repo.is_ancestor(*landing, base)?) {
        return Ok(false);
    }
    let Some((line, _)) = own_line(repo, tip, agent).filter(|(line, _)| line.contains(&last))
    else {
        return Ok(false);
    };
    let is_update = |oid: &Oid| repo.read_commit(*oid).is_ok_and(|commit| commit.parents.len() > 1);
    Ok(line.iter().take_while(|oid| **oid != last).all(is_update))
}
