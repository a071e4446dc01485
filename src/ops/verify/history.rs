//! Where the commits come from, and whose they are.

use crate::agents::{Ctx, who::lookup};
use crate::domain::judge::evidence::{BranchHistory, NoWorktree};
use crate::domain::{Oid, What};
use crate::error::Result;
use crate::git::history::ancestry::{Divergence, Lineage};
use crate::git::refs::REMOTE_COPIES;
use crate::git::{Commit, Repo, Tip};
use crate::ops::verify::landing::{LandingSubject, nonce_of};
use crate::store::landing::landed::landed_at;
use crate::store::landing::spawn_commit::{NONCE, SPAWN_SUBJECT};
use crate::store::landing::{replay, spawn_commit};
use crate::store::ledger::agent_branch;
use std::collections::{HashMap, HashSet};

/// Which commits are the agent's and which are not. `started` is the commit it was spawned from; `is_above_landed` says that what
/// it was built upon has landed, and that `divergence` leaves that out.
pub(super) fn provenance(
    ctx: &Ctx,
    subject: &LandingSubject,
    started: Oid,
    divergence: &Divergence,
    is_above_landed: bool,
) -> Result<BranchHistory> {
    let repo = &ctx.repo;
    let ahead = CommitsAhead::read(ctx, subject, divergence)?;
    let spawn = ahead.spawn(repo, subject)?;
    let mut origin = match spawn {
        Some(spawn) => spawn.parents.first().copied(),
        None => Some(started),
    };
    // In another order than they were made in, some of the agent's own commits are below the one by which it was spawned.
    while let Some(below) = origin.filter(|oid| ahead.names(subject, oid)) {
        origin = repo.read_commit(below)?.parents.first().copied();
    }
    // Changes that their owner has not committed are on no branch; what they were made on is.
    let origin = match subject.below_changes {
        Some(below) if origin == Some(started) => Some(below),
        _ => origin,
    };
    let lost_base = match (subject.base, origin) {
        // What it was built upon is there in another form.
        (Some(base), Some(origin))
            if !is_above_landed && is_lost(repo, subject, divergence, base, origin)? =>
        {
            Some(origin)
        }
        _ => None,
    };
    let (has_spawn_commit, foreign) = match spawn {
        Some(spawn) => {
            let mut foreign = ahead.foreign(ctx, subject, spawn, &HashSet::new())?;
            if !foreign.is_empty() {
                foreign = ahead.foreign(ctx, subject, spawn, &landed_elsewhere(ctx, subject)?)?;
                let nonces = nonces_below(repo, subject)?;
                foreign.retain(|oid| !ahead.is_beginning(repo, *oid, &nonces));
            }
            (true, foreign)
        }
        None => ahead.foreign_since_landing(ctx, subject)?,
    };
    let fork = subject.base.filter(|_| !has_spawn_commit);
    let fork = fork.map_or(Ok(None), |base| repo.merge_base(base, subject.tip))?;
    let lacking: Vec<Oid> = lost_base.iter().chain(&foreign).copied().collect();
    Ok(BranchHistory {
        has_spawn_commit,
        // A commit that was named need not be where the branch is, so nothing is said of where that should be.
        spawn_commit: (subject.no_worktree != NoWorktree::CommitNamed)
            .then_some(subject.agent.spawn_commit),
        fork: fork.filter(|fork| *fork != started),
        has_merges: divergence.ahead.iter().any(|one| one.parents.len() > 1),
        lost_base,
        foreign,
        fetched: fetched(repo, subject, &lacking)?,
    })
}

/// The copy of the base branch from a remote that goes on from it and holds all of these commits, where there are any: the work was rebased
/// onto that, and the branch itself has not followed yet.
fn fetched(repo: &Repo, subject: &LandingSubject, commits: &[Oid]) -> Result<Option<String>> {
    let (Some(name), Some(base), false) = (&subject.base_ref, subject.base, commits.is_empty())
    else {
        return Ok(None);
    };
    'copies: for (copy, tip) in repo.fetched_branches(name)? {
        for commit in commits.iter().chain([&base]) {
            if !repo.is_ancestor(*commit, tip)? {
                continue 'copies;
            }
        }
        return Ok(copy.strip_prefix(REMOTE_COPIES).map(str::to_owned));
    }
    Ok(None)
}

/// The commits that the base lacks, as they were read.
struct CommitsAhead<'a> {
    divergence: &'a Divergence,
    commits: HashMap<Oid, Commit>,
    /// The spawn commits whose text other commits carry: `pr` pushes a branch without its spawn commit.
    carriers: HashMap<Oid, Oid>,
    /// What tells the agent's spawn commit, and what a rebase makes of it, from all others.
    nonce: Option<String>,
}

impl<'a> CommitsAhead<'a> {
    fn read(
        ctx: &Ctx,
        subject: &LandingSubject,
        divergence: &'a Divergence,
    ) -> Result<CommitsAhead<'a>> {
        let repo = &ctx.repo;
        let (mut commits, mut carriers) = (HashMap::new(), HashMap::new());
        for lineage in &divergence.ahead {
            commits.insert(lineage.oid, repo.read_commit(lineage.oid)?);
            let carried = spawn_commit::carried(&repo.read_raw_commit(lineage.oid)?);
            carriers.extend(carried.map(|(spawn, _)| (lineage.oid, spawn)));
        }
        let nonce = nonce_of(ctx, subject.agent.spawn_commit);
        Ok(CommitsAhead { divergence, commits, carriers, nonce })
    }

    /// The agent's spawn commit among them, or what a rebase made of it.
    fn spawn(&self, repo: &Repo, subject: &LandingSubject) -> Result<Option<&'a Lineage>> {
        let original = subject.agent.spawn_commit;
        let is_begin = |lineage: &&Lineage| self.begins(subject, &lineage.oid);
        let spawn = self.divergence.ahead.iter().find(is_begin);
        if let (Some(found), Some(base)) = (spawn, subject.base)
            && found.oid != original
            && repo.has_object(original)
            && repo.is_ancestor(original, base)?
        {
            // A rebase of what has landed already does not make the agent's work new.
            return Ok(None);
        }
        Ok(spawn)
    }

    /// Whether a commit is the agent's spawn commit, stands for it or carries it.
    fn begins(&self, subject: &LandingSubject, oid: &Oid) -> bool {
        let original = subject.agent.spawn_commit;
        // A rebase gives the spawn commit another name and keeps its message.
        let own = self.commits.get(oid).and_then(|commit| commit.trailer(NONCE));
        *oid == original
            || self.carriers.get(oid) == Some(&original)
            || own.is_some() && own == self.nonce.as_deref()
    }

    /// Those that are not the agent's. Commits of a side branch count as the agent's where they name it, or where they `landed` on its
    /// branch. Their paths are judged like those of all others.
    fn foreign(
        &self,
        ctx: &Ctx,
        subject: &LandingSubject,
        spawn: &Lineage,
        landed: &HashSet<Oid>,
    ) -> Result<Vec<Oid>> {
        let mut own = own_line(subject.tip, spawn.oid, self.divergence, |oid| {
            // Of a commit that is not known here nothing below is taken for the agent's.
            let is_spawn = self.commits.get(&oid).is_none_or(|commit| {
                commit.trailer(NONCE).is_some() && commit.message.starts_with(SPAWN_SUBJECT)
            });
            // A rebase on top of the branch that `pr` pushed puts the spawn commit on top of the commit that carries it.
            !landed.contains(&oid)
                && (is_spawn || self.carriers.contains_key(&oid))
                && !self.begins(subject, &oid)
        });
        // A branch that was begun on this one is merged without a commit.
        let theirs = self.of_others(ctx, subject, &own)?;
        own.retain(|oid| !theirs.contains(oid));
        // The branch as it was before a rebase may have been merged into what came of it.
        Ok(self.all_but(|oid| {
            let is_own = own.contains(oid) || self.names(subject, oid);
            is_own || landed.contains(oid) || self.begins(subject, oid)
        }))
    }

    /// Whether a commit is what a plain rebase leaves of a spawn commit below: git drops what is there already, and keeps what was empty.
    fn is_beginning(&self, repo: &Repo, oid: Oid, nonces: &HashSet<String>) -> bool {
        let Some(commit) = self.commits.get(&oid) else {
            return false;
        };
        let is_below = spawn_commit::nonce(commit).is_some_and(|nonce| nonces.contains(&nonce));
        let [parent] = commit.parents[..] else {
            return false;
        };
        is_below && repo.tree_of(parent).is_ok_and(|tree| tree == commit.tree)
    }

    fn all_but(&self, is_own: impl Fn(&Oid) -> bool) -> Vec<Oid> {
        let all = self.divergence.ahead.iter().map(|lineage| lineage.oid);
        all.filter(|oid| !is_own(oid)).collect()
    }

    /// Whether a commit names the agent in its trailer.
    fn names(&self, subject: &LandingSubject, oid: &Oid) -> bool {
        self.named(oid) == Some(subject.agent.id.to_string().as_str())
    }

    fn named(&self, oid: &Oid) -> Option<&str> {
        self.commits.get(oid).and_then(|commit| commit.trailer("Agent-Id"))
    }

    /// Those of the commits that name another agent, whose branch holds them: they are that one's, and no copies of them.
    fn of_others(
        &self,
        ctx: &Ctx,
        subject: &LandingSubject,
        commits: &HashSet<Oid>,
    ) -> Result<HashSet<Oid>> {
        let mut theirs = HashSet::new();
        let named = commits.iter().filter(|oid| !self.names(subject, oid));
        let named: Vec<_> = named.filter_map(|oid| Some((*oid, self.named(oid)?))).collect();
        // As nearly always, and then no row is read.
        if named.is_empty() {
            return Ok(theirs);
        }
        let agents = lookup::agents(ctx)?;
        for (oid, named) in named {
            let Some(other) = agents.iter().find(|other| other.id.to_string() == named) else {
                continue;
            };
            let found = agent_branch::local_or_fetched(&ctx.repo, other)?;
            if found.map_or(Ok(false), |(_, tip)| ctx.repo.is_ancestor(oid, tip))? {
                theirs.insert(oid);
            }
        }
        Ok(theirs)
    }

    /// Whether the work has landed with its spawn commit, and then the commits since that are not the agent's: anyone may have built on
    /// it. What begins at the tip that landed, as the row of that landing names it, is the agent's own. Of a landing by hand or by a
    /// forge there is no row, and what the agent's branch itself has with its name is taken for its own.
    fn foreign_since_landing(
        &self,
        ctx: &Ctx,
        subject: &LandingSubject,
    ) -> Result<(bool, Vec<Oid>)> {
        let repo = &ctx.repo;
        // A branch that was set to the target goes on from what has landed of it.
        let is_set_to_target = match (&subject.agent.landed, subject.base) {
            (Some((landed, _)), Some(base)) if repo.has_object(*landed) => {
                repo.is_ancestor(*landed, subject.tip)? && repo.is_ancestor(*landed, base)?
            }
            _ => false,
        };
        // What landed with its commits has one that carries it.
        let is_carried = self.divergence.ahead.is_empty()
            && spawn_commit::is_held_by(repo, subject.tip, &subject.agent);
        let has_spawn_commit =
            is_carried || repo.is_ancestor(subject.agent.spawn_commit, subject.tip)?;
        if !has_spawn_commit && !is_set_to_target {
            return Ok((false, Vec::new()));
        }
        // On any other branch a name is only a claim.
        let branch = subject.agent.branch.as_ref();
        let here = branch.map(|branch| repo.branch_tip(branch)).transpose()?.and_then(Tip::oid);
        let is_its_branch = here == Some(subject.tip)
            || agent_branch::local_or_fetched(repo, &subject.agent)?
                .is_some_and(|(_, tip)| tip == subject.tip);
        let own = if has_spawn_commit || !is_its_branch {
            let mut own = own_since_landing(repo, subject, self.divergence)?;
            let theirs = self.of_others(ctx, subject, &own)?;
            own.retain(|oid| !theirs.contains(oid));
            own
        } else {
            self.on_new_line(repo, subject)?
        };
        let names = |oid: &Oid| is_its_branch && self.names(subject, oid);
        Ok((true, self.all_but(|oid| own.contains(oid) || names(oid))))
    }

    /// The commits of a branch that was set to the target after a landing, and goes on from there. Set to the branch of a person or of
    /// another agent, it brings what is there under their names.
    fn on_new_line(&self, repo: &Repo, subject: &LandingSubject) -> Result<HashSet<Oid>> {
        let (line, _) = first_parents(self.divergence, subject.tip, None);
        let branch = subject.agent.branch.as_deref().unwrap_or_default();
        let copies = repo.fetched_branches(branch)?;
        let is_its = |name: &String| name == branch || copies.iter().any(|(copy, _)| copy == name);
        let mut own = HashSet::new();
        for oid in line {
            if self.names(subject, &oid) || repo.refs_holding(oid)?.iter().all(is_its) {
                own.insert(oid);
            }
        }
        Ok(own)
    }
}

/// The commits by which other agents, as this clone believes their rows, landed on the branch of this one, and those that landed on the
/// base in another form and were not taken back there.
fn landed_elsewhere(ctx: &Ctx, subject: &LandingSubject) -> Result<HashSet<Oid>> {
    let (repo, mut landed) = (&ctx.repo, HashSet::new());
    let (own, base) = (subject.agent.branch.as_ref(), subject.base_ref.as_ref());
    for other in lookup::agents(ctx)? {
        let is_meant = |into: &String| Some(into) == own || Some(into) == base;
        if other.id == subject.agent.id
            || !other.landed.as_ref().is_some_and(|(_, into)| is_meant(into))
        {
            continue;
        }
        for event in ctx.ledger().events(other.spawn_commit)? {
            let What::Merged { commit, into, tip, from: Some(from) } = event.what else {
                continue;
            };
            let is_on_own = Some(&into) == own;
            // A row may claim anything of a branch that others move.
            let is_on_base = || match (subject.base.filter(|_| Some(&into) == base), tip) {
                (Some(at), Some(tip)) => landed_at(repo, vec![(&other, tip, at)]).remove(&other.id),
                _ => None,
            };
            if !is_on_own && !is_on_base().transpose()?.unwrap_or(false) {
                continue;
            }
            // All that was brought then: where the branch was rewritten since, it may hold a part of it.
            for brought in [Some(commit), tip].into_iter().flatten() {
                let is_new = !landed.contains(&brought);
                if is_new && [from, brought].iter().all(|oid| repo.has_object(*oid)) {
                    landed.extend(repo.commits_between(&[from], brought)?);
                }
            }
        }
    }
    Ok(landed)
}

/// What tells the spawn commits that the work was built upon, and that its target lacks.
fn nonces_below(repo: &Repo, subject: &LandingSubject) -> Result<HashSet<String>> {
    let mut nonces = HashSet::new();
    let (Some(base), Some(began)) = (subject.base, &subject.agent.base) else {
        return Ok(nonces);
    };
    if repo.has_object(began.oid) {
        for oid in repo.commits_between(&[base], began.oid)? {
            nonces.extend(spawn_commit::nonce(&repo.read_commit(oid)?));
        }
    }
    Ok(nonces)
}

/// Whether the base does not hold what the work was built upon.
fn is_lost(
    repo: &Repo,
    subject: &LandingSubject,
    divergence: &Divergence,
    base: Oid,
    origin: Oid,
) -> Result<bool> {
    // Mostly the base branch has grown from where the agent started, and git need not be asked.
    let mut parents = divergence.behind.iter().flat_map(|one| &one.parents);
    Ok(!parents.any(|parent| *parent == origin)
        && !repo.is_ancestor(origin, base)?
        && !replay::is_held(repo, &subject.agent, base, origin)?)
}

/// The commits that the agent's branch got after what landed of it; none where its first parents do not lead there. A run that
/// went on while its work landed goes on from a commit before the tip that landed.
fn own_since_landing(
    repo: &Repo,
    subject: &LandingSubject,
    divergence: &Divergence,
) -> Result<HashSet<Oid>> {
    let (line, below) = first_parents(divergence, subject.tip, None);
    let landed = subject.agent.landed_tip.filter(|landed| repo.has_object(*landed));
    let is_of_line = match (landed, below) {
        (Some(landed), Some(below)) => {
            repo.is_ancestor(below, landed)?
                && repo.is_ancestor(subject.agent.spawn_commit, below)?
        }
        _ => false,
    };
    Ok(if is_of_line { line.into_iter().collect() } else { HashSet::new() })
}

/// The commits on the agent's branch itself: from the spawn commit `begin` up to the tip, or up to where another agent's
/// branch begins. If the line of first parents does not lead to `begin`, that commit alone.
fn own_line(
    tip: Oid,
    begin: Oid,
    divergence: &Divergence,
    begins_another: impl Fn(Oid) -> bool,
) -> HashSet<Oid> {
    let (line, below) = first_parents(divergence, tip, Some(begin));
    let other = line.iter().rposition(|oid| begins_another(*oid)).map_or(0, |at| at + 1);
    let mut own: HashSet<Oid> = match below {
        Some(below) if below == begin => line.into_iter().skip(other).collect(),
        _ => HashSet::new(),
    };
    own.insert(begin);
    own
}

/// The commits that the base lacks from `tip` along first parents, the newest first, and the commit below them, which is `end` at the
/// latest; `None` where they go down to a first commit.
fn first_parents(divergence: &Divergence, tip: Oid, end: Option<Oid>) -> (Vec<Oid>, Option<Oid>) {
    let ahead = divergence.ahead.iter();
    let first: HashMap<Oid, Option<Oid>> =
        ahead.map(|lineage| (lineage.oid, lineage.parents.first().copied())).collect();
    let (mut line, mut next) = (Vec::new(), Some(tip));
    while let Some(oid) = next.filter(|oid| Some(*oid) != end)
        && let Some(parent) = first.get(&oid)
    {
        line.push(oid);
        next = *parent;
    }
    (line, next)
}
