//! Agents as their work stands now: where it is, what it is compared with and where it would land.

pub mod bundle;
pub(crate) mod own_changes;
pub(crate) mod stacked;
pub(crate) mod uncommitted;

use crate::agents::Scratch;
use crate::agents::context::ctx::Ctx;
use crate::agents::context::histories::{self, Histories};
use crate::agents::place::worktree::{self, AgentWorktree};
pub(crate) use crate::agents::work::stacked::{base_of, landing_revision};
use crate::agents::work::uncommitted::uncommitted_tree;
use crate::agents::{context::untrusted, who::lookup};
use crate::domain::paths::change::Difference;
use crate::domain::{Agent, Change, Oid, State, What};
use crate::error::{Code, Error, Result};
use crate::git::history::merge::Merge;
use crate::git::{Identity, NewCommit, Repo, Tip};
use crate::store::chain::{facts, keep};
use crate::store::landing::replay::{self, Replay, goes_on_from};
use crate::store::landing::taken_back::TargetMessages;
use crate::store::landing::{landed, spawn_commit};
use crate::store::ledger::agent_branch;
use crate::wire::row::policy::Policy;
use std::collections::HashSet;
use std::path::Path;

/// One agent and where its work is.
pub(crate) struct Work {
    pub agent: Agent,
    /// What binds it; absent where it is not here, or this version cannot read it.
    pub policy: Option<Policy>,
    /// The full name of the branch to land on.
    pub target: Option<String>,
    /// Where that is; absent when it is gone.
    pub target_tip: Option<Oid>,
    /// Its branch's tip, or that of the copy fetched from a remote; absent when neither is here, and for a shared
    /// agent.
    pub tip: Option<Oid>,
    /// Its worktree, when that is here.
    pub place: Option<AgentWorktree>,
}

/// Whether an agent's work may still land, so that it can overlap with another.
pub(crate) fn is_live(agent: &Agent) -> bool {
    agent.state.is_live()
}

/// As [`Work::fork`], of an agent with this tip and the branch to land on there.
///
/// # Errors
/// As [`Work::fork`].
pub(crate) fn fork(
    repo: &Repo,
    agent: &Agent,
    target: Option<Oid>,
    tip: Option<Oid>,
) -> Result<Oid> {
    Histories::of([agent]).fork(repo, agent, target, tip)
}

impl Work {
    /// Looks an agent's work up.
    ///
    /// # Errors
    /// `repo-corrupt`; those of reading a ref and of [`worktree::require_linked`].
    pub(crate) fn look_up(ctx: &Ctx, agent: Agent) -> Result<Work> {
        let policy = spawn_commit::if_here(&ctx.repo, &agent)?;
        let (target, target_tip) = base_of(ctx, &agent, None)?;
        let tip = agent_branch::local_or_fetched(&ctx.repo, &agent)?.map(|(_, tip)| tip);
        worktree::require_linked(&ctx.repo, agent.id, Code::AgentState)?;
        let place = AgentWorktree::of(&ctx.repo, agent.id);
        Ok(Work {
            policy,
            target,
            target_tip,
            tip,
            place: place.filter(|_| agent.branch.is_some()),
            agent,
        })
    }

    /// The commit that its work is compared with: where its branch left the one to land on, which moves
    /// along when the agent merges that one; for work that has landed, where it started.
    ///
    /// # Errors
    /// `git-failed` when history cannot be walked.
    pub(crate) fn fork(&self, repo: &Repo) -> Result<Oid> {
        fork(repo, &self.agent, self.target_tip, self.tip)
    }

    /// What it has committed.
    ///
    /// # Errors
    /// `repo-corrupt`, `git-failed`.
    pub(crate) fn committed(&self, repo: &Repo, histories: &Histories) -> Result<Vec<Change>> {
        let Some(tip) = self.tip else {
            return Ok(Vec::new());
        };
        let fork = histories.fork(repo, &self.agent, self.target_tip, self.tip)?;
        let fork = repo.tree_of(fork)?;
        let changes = repo.tree_changes(&[fork], repo.tree_of(tip)?)?;
        Ok(self.without_bundle(changes))
    }

    /// The tree of everything: its tip's, or the one that committing the rest would make.
    ///
    /// # Errors
    /// `branch-gone`; those of git and the file system.
    pub(crate) fn tree(&self, ctx: &Ctx) -> Result<Oid> {
        let tip = self.require_tip(ctx)?;
        let uncommitted = match &self.place {
            Some(place) => uncommitted_tree(ctx, &self.agent, tip, place, self.bundle_dir())?,
            None => None,
        };
        match uncommitted {
            Some(tree) => Ok(tree),
            None => ctx.repo.tree_of(tip),
        }
    }

    /// The branch's tip.
    ///
    /// # Errors
    /// `agent-state` for a shared agent, `branch-gone`.
    pub(crate) fn require_tip(&self, ctx: &Ctx) -> Result<Oid> {
        let short = self.agent.id.short();
        match (self.tip, &self.agent.branch) {
            (Some(tip), _) => Ok(tip),
            (None, None) => Err(Error::new(
                Code::AgentState,
                format!("agent {short} is shared and has no branch"),
            )),
            (None, Some(_)) => Err(lookup::branch_gone(ctx, &self.agent)),
        }
    }

    /// Where its bundle is in its worktree, by its path from the top.
    pub(crate) fn bundle_dir(&self) -> Option<&str> {
        self.policy.as_ref()?.bundle_dir.as_deref()
    }

    /// The agent's own bundle is part of no commit.
    pub(crate) fn without_bundle(&self, mut changes: Vec<Change>) -> Vec<Change> {
        if let Some(bundle) = self.bundle_dir() {
            let prefix = format!("{bundle}/").into_bytes();
            changes.retain(|change| !change.path.starts_with(&prefix));
        }
        changes
    }
}

/// Whether the branch of an agent whose row says that it was merged has committed work that the branch it landed on lacks, or lacks again. What cannot be
/// told here, as where one of the two is gone, is not said.
pub(crate) fn has_commits_since(ctx: &Ctx, histories: &Histories, agent: &Agent) -> bool {
    agent.state == State::Merged && is_ahead_again(ctx, histories, agent).unwrap_or(false)
}

fn is_ahead_again(ctx: &Ctx, histories: &Histories, agent: &Agent) -> Result<bool> {
    let repo = &ctx.repo;
    let (Some(branch), Some((landed, into)), Some(last)) =
        (&agent.branch, &agent.landed, agent.landed_tip)
    else {
        return Ok(false);
    };
    let (Some(tip), Some(target)) = (repo.tip(branch)?.oid(), repo.branch_tip(into)?.oid()) else {
        return Ok(false);
    };
    if repo.is_shallow() || !repo.has_object(*landed) || !repo.has_object(last) {
        return Ok(false);
    }
    let top = landed::top(repo, agent, tip)?;
    // A person may have taken it back since.
    let is_back = || -> Result<bool> {
        let back = || histories.messages.taken_back(repo, agent, target, top);
        Ok(target != *landed && back()?.is_some())
    };
    // As nearly always.
    if top == last && histories.holds(repo, agent, target, *landed)? {
        return is_back();
    }
    let since = histories::landed_tip(repo, agent, (target, top))?.filter(|last| *last != top);
    // A branch that was rebased upon what has landed, or set to that, adds nothing to it. One that goes on from the tip that landed is
    // asked about below: the commit that takes all of it back has the tree that it began with.
    if since.is_none()
        && let Some(fork) = repo.merge_base(target, top)?
        && repo.tree_of(fork)? == repo.tree_of(top)?
    {
        return Ok(repo.is_ancestor(last, top)? && is_back()?);
    }
    if agent_branch::local(repo, agent)?.oid() != Some(tip) {
        return Ok(false);
    }
    // git writes the trees of the merges that it is asked about, and a look leaves none behind.
    let scratch = Scratch::make(ctx, "look")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    if since.is_some() {
        // What came since is merged as it would land, with the tip that landed as its base.
        let work = to_merge(&apart, agent, target, top)?;
        if let Some(merged) = apart.repo.merge(target, work)?.result.clean() {
            return Ok(merged != repo.tree_of(target)?);
        }
    }
    Ok(!landed::as_claimed(&apart.repo, agent, Some(tip), false)?)
}

/// How many of a branch's own commits, parents first, are to land on `target`: all but its spawn commit, which is ours and holds no work,
/// and what an earlier landing brought there by other commits.
///
/// # Errors
/// `git-failed` when history cannot be walked.
pub(crate) fn left_to_land(
    repo: &Repo,
    agent: &Agent,
    (target, tip): (Oid, Oid),
    own: &[Oid],
) -> Result<usize> {
    let Some(last) = histories::landed_tip(repo, agent, (target, tip))? else {
        return Ok(spawn_commit::without(repo, agent.spawn_commit, own));
    };
    // Brought up to date since, it has nothing that the target has not.
    if repo.tree_of(target)? == repo.tree_of(tip)? {
        return Ok(0);
    }
    let new: HashSet<Oid> = repo.commits_between(&[last], tip)?.into_iter().collect();
    Ok(own.iter().filter(|oid| new.contains(oid)).count())
}

/// The commit that is judged unless another is named.
pub(crate) fn tip_of(ctx: &Ctx, agent: &Agent) -> Result<Oid> {
    if agent.branch.is_none() {
        return Ok(agent.spawn_commit);
    }
    let found = agent_branch::local_or_fetched(&ctx.repo, agent)?;
    let tip = found.map(|(_, tip)| tip);
    tip.map_or_else(|| Err(lookup::without_tip(ctx, agent)), Ok)
}

/// Where HEAD of an agent's worktree last was, by its reflog.
pub(crate) fn last_head(ctx: &Ctx, agent: &Agent) -> Option<Oid> {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    let log = untrusted::log(&admin, Path::new("logs/HEAD"));
    let log = String::from_utf8_lossy(&log);
    let tip = log.lines().next_back()?.split(' ').nth(1)?;
    // The worktree was the agent's to write, its logs too.
    Oid::from_hex(tip).filter(|oid| ctx.repo.has_object(*oid))
}

/// The last commit of an agent's work that its row names and that is here: all there is to go by where branch and worktree are gone.
///
/// # Errors
/// As [`Ledger::own_events`](crate::store::Ledger::own_events).
pub(crate) fn recorded_tip(ctx: &Ctx, agent: &Agent) -> Result<Option<Oid>> {
    let events = ctx.ledger().own_events(agent.spawn_commit)?;
    let mut named = events.iter().rev().filter_map(|event| match &event.what {
        What::Committed { commit, .. } => Some(*commit),
        What::Verified(verified) => Some(verified.tip),
        _ => None,
    });
    Ok(named.find(|tip| spawn_commit::is_held_by(&ctx.repo, *tip, agent)))
}

/// The tree that would be judged now: the tip's, or the one that committing everything would make.
pub(crate) fn tree_to_judge(
    ctx: &Ctx,
    agent: &Agent,
    worktree: &Path,
    policy: &Policy,
) -> Result<Oid> {
    let tip = tip_of(ctx, agent)?;
    let place = AgentWorktree::new(worktree.to_owned(), worktree::admin_dir(&ctx.repo, agent.id));
    match uncommitted_tree(ctx, agent, tip, &place, policy.bundle_dir.as_deref())? {
        Some(tree) => Ok(tree),
        None => ctx.repo.tree_of(tip),
    }
}

/// The commit that stands for work when git merges it with `target`: the work itself, unless a part of it has landed there by
/// a commit that it does not hold, as a squash is. Then it is what came since, on top of that commit, so that work does not
/// conflict with itself; and unless that is so of the work that it was built upon.
///
/// # Errors
/// `repo-corrupt`, `git-failed`.
pub(crate) fn to_merge(ctx: &Ctx, agent: &Agent, target: Oid, work: Oid) -> Result<Oid> {
    let repo = &ctx.repo;
    let messages = TargetMessages::default();
    let last = landed::last(repo, agent, (target, work), &messages)?;
    let new = since_landing(repo, agent, last, (target, work), &messages)?;
    if let Some(new) = new {
        // Where they conflict on the target as it is now, git finds that upon the landing.
        for ground in [target, new.landed] {
            let trees = new.sides(repo, agent, ground, work)?;
            if let Some(tree) = merged_trees(repo, new.before, trees)? {
                return simulated(repo, tree, &[ground]);
            }
        }
    }
    if let Some(work) = stacked::on_top(ctx, agent, target, work)? {
        return Ok(work);
    }
    let base = agent.base.as_ref().and_then(|base| base.refname.as_ref());
    let on_another = base.is_some_and(|name| name.starts_with(agent_branch::AGENTS_BRANCHES));
    if (agent.landed.is_some() || agent.reverted.is_some() || on_another)
        && !last.map_or(Ok(false), |(_, tip)| is_apart(repo, agent, tip, work))?
    {
        // Where the beginning has landed without its spawn commit, git finds the right base among what stands for the branch, unless
        // something landed in another form since.
        let last = new.map(|new| new.tip);
        let replay = Replay::of(repo, agent, target, work)?;
        if replay.is_begun(repo, target)?
            && last.map_or(Ok(true), |last| replay::is_held(repo, agent, target, last))?
        {
            replay.write(repo)?;
            return Ok(replay.tip);
        }
    }
    Ok(work)
}

/// The commit from which a branch goes on beyond what landed on `target` as a squash; `None` where nothing did, and where git finds what landed there
/// itself.
///
/// # Errors
/// As [`to_merge`].
pub(crate) fn squashed_below(
    ctx: &Ctx,
    agent: &Agent,
    target: Oid,
    work: Oid,
) -> Result<Option<Oid>> {
    let repo = &ctx.repo;
    let new = new_work(repo, agent, target, work)?.filter(|new| !new.is_apart);
    match new {
        Some(new) if !replay::is_held(repo, agent, target, new.tip)? => {
            goes_on_from(repo, agent, new.tip, work)
        }
        _ => Ok(None),
    }
}

/// What a branch has beyond its last landing.
#[derive(Clone, Copy, Debug)]
struct NewWork {
    /// The commit by which the rest came to the target.
    landed: Oid,
    /// The tip that it brought.
    tip: Oid,
    /// Whether that [`is_apart`].
    is_apart: bool,
    /// The tree from which the work goes on.
    before: Oid,
}

impl NewWork {
    /// The trees that are merged with `before` as their base: of a commit of the target and of the work.
    fn sides(self, repo: &Repo, agent: &Agent, ground: Oid, work: Oid) -> Result<[Oid; 2]> {
        // Uncommitted changes that it started from did not land, and are on its branch all the same.
        Ok([own_changes::put_on(repo, agent, ground)?, repo.tree_of(work)?])
    }
}

/// What git is to merge for a landing, or what has come of that already.
pub(crate) enum AsItLands {
    /// The commit that stands for the work.
    Commit(Oid),
    /// The merge of what is the agent's alone.
    Merged(Merge),
}

/// As [`to_merge`], of an agent that started from uncommitted changes too, and where no commit stands for what came since a landing because
/// other landings changed the same lines then and since: git would merge all of the work as if nothing had landed.
///
/// # Errors
/// As [`to_merge`] and [`Repo::merge`].
pub(crate) fn as_it_lands(ctx: &Ctx, agent: &Agent, target: Oid, work: Oid) -> Result<AsItLands> {
    let repo = &ctx.repo;
    if let Some(merge) = own_changes::merged(repo, agent, target, work)? {
        return Ok(AsItLands::Merged(merge));
    }
    let stand_in = to_merge(ctx, agent, target, work)?;
    if stand_in == work
        && let Some(new) = new_work(repo, agent, target, work)?
    {
        let trees = new.sides(repo, agent, target, work)?;
        return merge_of_trees(repo, new.before, trees).map(AsItLands::Merged);
    }
    Ok(AsItLands::Commit(stand_in))
}

/// What is new in `work` since its last landing on `target`. `None` where none is proved or it was taken back, where the branch begins anew,
/// and where git finds the right base itself because both sides hold the landing, or the tip that landed.
fn new_work(repo: &Repo, agent: &Agent, target: Oid, work: Oid) -> Result<Option<NewWork>> {
    let messages = TargetMessages::default();
    let last = landed::last(repo, agent, (target, work), &messages)?;
    since_landing(repo, agent, last, (target, work), &messages)
}

/// As [`new_work`], of the landing that is known to be the last.
fn since_landing(
    repo: &Repo,
    agent: &Agent,
    last: Option<(Oid, Oid)>,
    (target, work): (Oid, Oid),
    messages: &TargetMessages,
) -> Result<Option<NewWork>> {
    let Some((landed, tip)) = last else {
        return Ok(None);
    };
    let is_found = repo.is_ancestor(landed, work)?
        || repo.is_ancestor(tip, work)? && repo.is_ancestor(tip, target)?;
    // A row says which tip that was. It has to be the agent's own.
    let is_proved = spawn_commit::is_held_by(repo, tip, agent);
    // What came since a landing that was taken back would be brought alone.
    let back = || messages.taken_back(repo, agent, target, work);
    if is_found || !is_proved || back()?.is_some() {
        return Ok(None);
    }
    let is_apart = is_apart(repo, agent, tip, work)?;
    let before = before_new_work(repo, agent, (tip, is_apart), (target, work))?;
    Ok(before.map(|before| NewWork { landed, tip, is_apart, before }))
}

/// Whether the tip that landed holds what was not committed then, on top of what the branch had: that of a run that went on while its work
/// landed. It never was at that tip and has the work in its files, so what it takes away of it is work, too.
fn is_apart(repo: &Repo, agent: &Agent, tip: Oid, work: Oid) -> Result<bool> {
    Ok(!repo.is_ancestor(tip, work)? && keep::is_kept_as(repo, tip, &landed_at_work(agent))?)
}

/// The tree from which work goes on beyond the tip that landed, which is the base of a merge of what came since; `None` where the branch begins
/// anew. A tip that `is_apart` holds what was not committed then, on top of what the branch had.
fn before_new_work(
    repo: &Repo,
    agent: &Agent,
    (tip, is_apart): (Oid, bool),
    (target, work): (Oid, Oid),
) -> Result<Option<Oid>> {
    let below = repo.read_commit(tip)?.parents.first().copied().filter(|_| is_apart);
    let Some(below) = below else {
        let Some(from) = goes_on_from(repo, agent, tip, work)? else { return Ok(None) };
        // What an update has brought since is the target's, and may have been taken back there. Where git cannot tell the two apart, the
        // work is merged as it is.
        return match repo.merge_base(target, work)? {
            Some(shared) if !repo.is_ancestor(shared, from)? => {
                Ok(repo.merge(from, shared)?.result.clean())
            }
            _ => repo.tree_of(from).map(Some),
        };
    };
    match goes_on_from(repo, agent, below, work)? {
        Some(from) if from == below => repo.tree_of(tip).map(Some),
        // What was committed and is dropped now stays; what was not, and is gone, was taken away.
        Some(from) => {
            let both = merged_trees(
                repo,
                repo.tree_of(below)?,
                [repo.tree_of(from)?, repo.tree_of(tip)?],
            )?;
            both.map_or_else(|| repo.tree_of(from), Ok).map(Some)
        }
        None => Ok(None),
    }
}

/// Why the keep chain has a commit of uncommitted work that landed while the agent's branch stayed where it is.
pub(crate) fn landed_at_work(agent: &Agent) -> String {
    format!("landed while at work {}", agent.id)
}

/// Merges two trees that come of a third one. What git needs for it is written to the repository, and no ref names it.
///
/// # Errors
/// As [`Repo::merge`]; those of writing objects.
pub(crate) fn merge_of_trees(repo: &Repo, from: Oid, trees: [Oid; 2]) -> Result<Merge> {
    let root = simulated(repo, from, &[])?;
    let [ours, theirs] = trees;
    repo.merge(simulated(repo, ours, &[root])?, simulated(repo, theirs, &[root])?)
}

/// The tree that comes of [`merge_of_trees`]; `None` where they conflict.
///
/// # Errors
/// As [`merge_of_trees`].
pub(crate) fn merged_trees(repo: &Repo, from: Oid, trees: [Oid; 2]) -> Result<Option<Oid>> {
    Ok(merge_of_trees(repo, from, trees)?.result.clean())
}

/// A commit that no ref will ever name, only to ask git about it. It is as old as its youngest parent: a
/// commit from the beginning of time would make git walk all of history for a merge base.
pub(crate) fn simulated(repo: &Repo, tree: Oid, parents: &[Oid]) -> Result<Oid> {
    let mut seconds = 0;
    for parent in parents {
        // A time of its own would give each call another id for the same merge.
        seconds = repo.read_commit(*parent)?.seconds.max(seconds);
    }
    let who = Identity::stand_in(seconds);
    repo.write_commit(&NewCommit::ours(&who, tree, parents, "agent: simulated\n"))
}

// What `[setup]` and the repository's `post-checkout` hook did to a worktree is no work of its agent.
//
// Once both have run, `spawn` records every change that git would commit: each path with what it held before and
// after. A change in the worktree that is exactly such a change is left out of the work, so it is neither judged nor
// landed. Whatever else happens to that path is work: the agent edits the file, stages it, or commits it.
//
// What editors and file managers leave beside the files that they show is no work either, unless someone stages it.

/// A tree without what was there before the agent.
pub(crate) struct WithoutBaseline {
    /// The tree.
    pub tree: Oid,
    /// The paths of the baseline that were put back to what the tip holds there; `None` where there is no baseline.
    pub from_setup: Option<Vec<Vec<u8>>>,
    /// New files that editors and file managers left.
    pub droppings: Vec<Vec<u8>>,
}

/// Whether a new file is one that an editor or a file manager leaves: a backup, a swap file, a directory's view.
fn is_dropping(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let is_swap = |end: &[u8]| name.starts_with(b".") && name.ends_with(end);
    name.ends_with(b"~") || name == b".DS_Store" || is_swap(b".swp") || is_swap(b".swo")
}

/// Takes the changes of the baseline out of `tree`, which holds everything in a worktree whose branch is at a commit
/// with the tree `tip`, and what editors left unless that is kept. What is `staged` stays.
///
/// # Errors
/// `history-incomplete` when the baseline is not here; `repo-corrupt`, `disk-full`, `repo-read-only`.
pub(crate) fn without(
    repo: &Repo,
    agent: &Agent,
    tip: Oid,
    tree: Oid,
    staged: &[Change],
    keeps_droppings: bool,
) -> Result<WithoutBaseline> {
    let baseline = facts::of_agent(repo, agent)?;
    let staged: HashSet<&[u8]> = staged.iter().map(|change| change.path.as_slice()).collect();
    let is_of_setup = |difference: &Difference| {
        (baseline.as_ref()).is_some_and(|baseline| baseline.holds(difference))
    };
    let is_left_out = |difference: &Difference| {
        let is_new_dropping =
            !keeps_droppings && difference.old.is_none() && is_dropping(&difference.path);
        (is_of_setup(difference) || is_new_dropping) && !staged.contains(difference.path.as_slice())
    };
    let differences = repo.differences(tip, tree)?.into_iter();
    let (left_out, work): (Vec<_>, Vec<_>) = differences.partition(is_left_out);
    let rest = if left_out.is_empty() {
        None
    } else {
        // None where the agent put a file where setup removed a directory: only both together make a tree.
        repo.tree_after(tip, &work)?
    };
    let (of_setup, droppings): (Vec<_>, Vec<_>) = match rest {
        Some(_) => left_out.into_iter().partition(is_of_setup),
        None => (Vec::new(), Vec::new()),
    };
    let paths =
        |differences: Vec<Difference>| differences.into_iter().map(|one| one.path).collect();
    Ok(WithoutBaseline {
        tree: rest.unwrap_or(tree),
        from_setup: baseline.as_ref().map(|_| paths(of_setup)),
        droppings: paths(droppings),
    })
}

// Which commits are an agent's own doing.

/// The commits that an agent's base and its branch have, here or as the branch was last fetched. What can be
/// reached from them is not the agent's doing: a rebase or a merge brings it along.
///
/// # Errors
/// Those of [`crate::git::Repo::tip`].
pub(crate) fn of_its_base(ctx: &Ctx, agent: &Agent) -> Result<Vec<Oid>> {
    let Some(base) = &agent.base else {
        return Ok(Vec::new());
    };
    let mut commits = vec![base.oid];
    if let Some(name) = &base.refname {
        let upstream = ctx.repo.upstream_name(name);
        for name in upstream.iter().chain([name]) {
            if let Tip::At(oid) = ctx.repo.branch_tip(name)? {
                commits.push(oid);
            }
        }
    }
    Ok(commits)
}
