//! Whether work landed on a remote, and how far an agent's branch and its target have grown apart, for many agents
//! with one pass over a target's history.

use crate::agents::context::ctx::Ctx;
use crate::domain::{Agent, AgentId, Oid};
use crate::error::Result;
use crate::git::Repo;
use crate::git::history::gained::{Gained, GrownApart};
use crate::git::refs::remote::RemoteRefs;
use crate::store::landing::landed;
use crate::store::landing::replay::goes_on_from;
use crate::store::landing::spawn_commit::AGENTS_BRANCHES;
use crate::store::landing::taken_back::TargetMessages;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// What a branch and its target do not share.
pub(crate) struct Apart {
    /// The branch's own commits, parents first.
    pub(crate) own: Vec<Oid>,
    /// How many commits the target has that the branch has not; `None` where that cannot be told.
    pub(crate) behind: Option<usize>,
    /// Where the branch left the target, if comparing them has shown it.
    pub(crate) fork: Option<Oid>,
}

/// The three commits that are compared.
#[derive(Clone, Copy)]
pub(crate) struct Ends {
    pub(crate) tip: Oid,
    pub(crate) target: Oid,
    /// The commit that the agent was spawned from; neither it nor what it holds is the branch's own.
    pub(crate) started: Oid,
}

/// The histories of targets as far as they were walked, for agents that are looked at together.
#[derive(Default)]
pub(crate) struct Histories {
    /// The commits that agents were spawned from, by the name of the branch that they land on.
    starts: HashMap<Option<String>, BTreeSet<Oid>>,
    /// Their branches, each with the one that it lands on and the commit that it started from.
    branches: Vec<(Option<String>, String, Oid)>,
    /// What each target has gained since; `None` where that cannot be told in one pass.
    gained: Mutex<HashMap<Oid, Option<Arc<Gained>>>>,
    /// The same, since the tips of branches with merges too; `None` where git's own walk is as good.
    across: Mutex<HashMap<Oid, Option<Arc<Gained>>>>,
    /// What the commits of targets say.
    pub(crate) messages: TargetMessages,
}

impl Histories {
    /// Nothing is read yet.
    pub(crate) fn of<'a>(agents: impl IntoIterator<Item = &'a Agent>) -> Histories {
        let mut histories = Histories::default();
        for agent in agents {
            let Some(base) = &agent.base else { continue };
            let starts = histories.starts.entry(base.refname.clone());
            starts.or_default().insert(base.oid);
            let branch = agent.branch.iter().cloned();
            let known = branch.map(|branch| (base.refname.clone(), branch, base.oid));
            histories.branches.extend(known);
        }
        histories
    }

    /// How far an agent's branch and its target are apart; `None` where history cannot be read.
    pub(crate) fn apart(&self, repo: &Repo, agent: &Agent, ends: Ends) -> Option<Apart> {
        self.along_line(repo, agent, ends)
            .or_else(|| self.across_merges(repo, agent, ends))
            .or_else(|| walked(repo, ends))
    }

    /// The commit that an agent's work is compared with: where its branch left the target, which moves along when the agent
    /// merges that one; for work that has landed, where it started.
    ///
    /// # Errors
    /// `git-failed` when history cannot be walked.
    pub(crate) fn fork(
        &self,
        repo: &Repo,
        agent: &Agent,
        target: Option<Oid>,
        tip: Option<Oid>,
    ) -> Result<Oid> {
        let started = agent.base.as_ref().map(|base| base.oid).unwrap_or(agent.spawn_commit);
        let (Some(target), Some(tip)) = (target, tip) else {
            return Ok(started);
        };
        // As nearly always. A branch that was rebased onto an older commit left the target there.
        if target == started && repo.line(started, tip).is_some() {
            return Ok(started);
        }
        // Where the target holds that tip, it is a fork like any other, and there may be a later one; so there is where an update has brought
        // the landing to the branch.
        if let Some((landed, last)) = landing(repo, agent, (target, tip))?
            && last != tip
            && !repo.is_ancestor(last, target)?
            && !repo.is_ancestor(landed, tip)?
        {
            return Ok(last);
        }
        let ends = Ends { tip, target, started };
        let apart =
            self.along_line(repo, agent, ends).or_else(|| self.across_merges(repo, agent, ends));
        let fork = match apart.and_then(|apart| apart.fork) {
            Some(fork) => Some(fork),
            None => repo.merge_base(target, tip)?,
        };
        // A branch that the target holds in full has landed; it is compared with where it started.
        let fork = fork.filter(|fork| *fork != tip).unwrap_or(started);
        // What it was built upon may have landed in another form, as by a squash, and is not its own.
        let base = agent.base.as_ref().and_then(|base| base.refname.as_ref());
        if fork != started
            && let Some(below) = base.filter(|name| name.starts_with(AGENTS_BRANCHES))
            && repo.tip(below)?.oid() != Some(target)
            && repo.is_ancestor(fork, started)?
        {
            return Ok(started);
        }
        Ok(fork)
    }

    /// Whether the branch that an agent has landed on, which is at `target`, holds a commit that came there since.
    ///
    /// # Errors
    /// `git-failed` when history cannot be walked.
    pub(crate) fn holds(
        &self,
        repo: &Repo,
        agent: &Agent,
        target: Oid,
        commit: Oid,
    ) -> Result<bool> {
        let is_seen = || self.gained(repo, agent, target).is_some_and(|it| it.holds(commit));
        Ok(commit == target || is_seen() || repo.is_ancestor(commit, target)?)
    }

    /// Of a branch that is a short line of commits from where it started, as those of most agents are.
    fn along_line(&self, repo: &Repo, agent: &Agent, ends: Ends) -> Option<Apart> {
        let line = repo.line(ends.started, ends.tip)?;
        let mut own: Vec<Oid> = line.into_iter().map(|lineage| lineage.oid).collect();
        if ends.target == ends.started {
            return Some(Apart { own, behind: Some(0), fork: Some(ends.started) });
        }
        let gained = self.gained(repo, agent, ends.target)?;
        let since = gained.since(ends.started)?;
        // Of a line, the target holds the beginning.
        let landed: Vec<Oid> = own.extract_if(.., |commit| gained.holds(*commit)).collect();
        let fork = landed.last().copied().unwrap_or(ends.started);
        Some(Apart {
            behind: Some(since - landed.len()),
            own,
            fork: Some(fork).filter(|fork| gained.holds(*fork)),
        })
    }

    /// Of one of several branches that are no short lines.
    fn across_merges(&self, repo: &Repo, agent: &Agent, ends: Ends) -> Option<Apart> {
        let refname = &agent.base.as_ref()?.refname;
        let mut known = self.across.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = || {
            let peers = self.branches.iter().filter(|(target, ..)| target == refname);
            let tips = peers.filter_map(|(_, branch, started)| {
                let tip = repo.tip(branch).ok()?.oid()?;
                repo.line(*started, tip).is_none().then_some([tip, *started])
            });
            let tips: Vec<[Oid; 2]> = tips.collect();
            let starts: BTreeSet<Oid> = tips.iter().flatten().copied().collect();
            let starts: Vec<Oid> = starts.into_iter().collect();
            // For a single one git's own walk is faster where there is no commit-graph.
            let is_worth_it = tips.len() > 1 || tips.len() == 1 && repo.has_commit_graph();
            let gained = is_worth_it.then(|| repo.gained(ends.target, &starts));
            gained?.ok().flatten().map(Arc::new)
        };
        let gained = known.entry(ends.target).or_insert_with(pass).clone()?;
        // Other threads may go on; what follows only reads.
        drop(known);
        let GrownApart { own, behind, fork } = gained.apart(ends.tip, ends.started)?;
        Some(Apart { own, behind: Some(behind), fork })
    }

    fn gained(&self, repo: &Repo, agent: &Agent, target: Oid) -> Option<Arc<Gained>> {
        let refname = agent.base.as_ref()?.refname.as_ref();
        // Walking takes long, so other threads wait for this walk instead of repeating it.
        let mut known = self.gained.lock().unwrap_or_else(PoisonError::into_inner);
        let pass = || {
            let starts = self.starts.get(&refname.cloned())?;
            let starts: Vec<Oid> = starts.iter().copied().collect();
            repo.gained(target, &starts).ok().flatten().map(Arc::new)
        };
        known.entry(target).or_insert_with(pass).clone()
    }
}

/// The commit of the agent's branch from which it goes on beyond its last landing, as [`goes_on_from`] gives it: what landed by a commit
/// that the branch does not hold is no work of now, unless it was taken back there and a landing of what came since brings it again.
///
/// # Errors
/// `git-failed` when history cannot be walked.
pub(crate) fn landed_tip(repo: &Repo, agent: &Agent, ends: (Oid, Oid)) -> Result<Option<Oid>> {
    Ok(landing(repo, agent, ends)?.map(|(_, from)| from))
}

/// As [`landed_tip`], with the commit by which it landed.
fn landing(repo: &Repo, agent: &Agent, (target, tip): (Oid, Oid)) -> Result<Option<(Oid, Oid)>> {
    let messages = TargetMessages::default();
    let Some((landed, last)) = landed::last(repo, agent, (target, tip), &messages)? else {
        return Ok(None);
    };
    let from = goes_on_from(repo, agent, last, tip)?;
    // What landed by its own commits or by a merge of them is not brought again, and most of it was never taken back.
    let is_squash = || -> Result<bool> {
        let landing = repo.read_commit(landed)?;
        Ok(landing.parents.len() == 1 && !repo.is_ancestor(landed, tip)?)
    };
    let is_back = from.is_some_and(|from| from != tip)
        && is_squash()?
        && messages.taken_back(repo, agent, target, tip)?.is_some();
    Ok(from.filter(|_| !is_back).map(|from| (landed, from)))
}

/// Of any branch, by walking from it and from its target.
fn walked(repo: &Repo, ends: Ends) -> Option<Apart> {
    let Ends { tip, target, started } = ends;
    // What it started from is not its doing, even where the target was rewritten since.
    let own = repo.commits_between(&[target, started], tip).ok()?;
    // A branch that was just rebased begins where the target still is.
    let begins_there = own.first().is_some_and(|first| {
        let first = repo.read_commit(*first);
        first.is_ok_and(|first| first.parents.contains(&target))
    });
    let gained = || repo.commits_between(&[tip], target).ok();
    let behind = if begins_there { Some(0) } else { gained().map(|gained| gained.len()) };
    Some(Apart { own, behind, fork: None })
}

// Whether the branch of a remote has agents' work, as the remote is now and not as it was fetched last.

/// The agents whose work, given by its tip, the branch that they started from has on a remote with these refs. What cannot be
/// told counts as not landed.
///
/// # Errors
/// Those of [`crate::git::Repo::fetch_refs`].
pub(crate) fn landed_there(
    ctx: &Ctx,
    remote: &str,
    listed: &RemoteRefs,
    works: &[(&Agent, Oid)],
    end: Instant,
) -> Result<HashSet<AgentId>> {
    let questions: Vec<_> = works
        .iter()
        .filter_map(|(agent, tip)| {
            let base = agent.base.as_ref()?.refname.as_deref()?;
            Some((*agent, *tip, base, *listed.get(base)?))
        })
        .collect();
    // No ref is moved: the copies of a remote's branches are the user's.
    let lacking: BTreeSet<_> = questions
        .iter()
        .filter(|(.., is)| !ctx.repo.has_object(*is))
        .map(|(_, _, base, _)| (*base).to_owned())
        .collect();
    if !lacking.is_empty() {
        let lacking: Vec<_> = lacking.into_iter().collect();
        ctx.repo.fetch_refs(remote, &lacking, end)?;
    }
    let questions = questions.into_iter().map(|(agent, tip, _, is)| (agent, tip, is)).collect();
    let answers = landed::landed_at(&ctx.repo, questions).into_iter();
    let landed = answers.filter(|(_, landed)| matches!(landed, Ok(true)));
    Ok(landed.map(|(agent, _)| agent).collect())
}
