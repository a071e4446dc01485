//! A landing on a remote: `merge --push`.
//!
//! ```text
//! plan     fetch the remote's branch -> judge the work against it
//! execute  landing commit -> push branch and claim, all or nothing, by compare-and-swap -> list: is it there?
//!          -> this clone's branch follows, where it can -> row
//! ```
//!
//! Until the push, nothing has happened; after it, the work is part of the remote's branch, so that running the command
//! again finds it landed and writes down what is missing.

use crate::agents::context::branch_swap::{UnderLock, moved, pull};
use crate::agents::stock::commands::in_one_line;
use crate::agents::who::lookup::{remote_name, require_one_repository};
use crate::agents::{Ctx, forge};
use crate::domain::{Agent, AgentId, Oid, branch_name, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Tip;
use crate::git::refs::REMOTE_COPIES;
use crate::git::refs::remote::{
    self, Fetched, PushManner, PushOutcome, RefChange, RefPush, RemoteRefs,
};
use crate::ops::merge::execute::move_target;
use crate::ops::merge::{MergeOptions, MergePlan, plan};
use crate::ops::sync::claim::{self, LandingClaim};
use crate::ops::sync::refused;
use crate::store::files::{fsx, layout, lock};
use crate::store::ledger::RecordedLanding;
use crate::store::{Ledger, landing::spawn_commit};
use crate::wire::row::policy::LandsOn;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// How long the remote is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// How long another writer of the remote's refs is waited for after the first refusal. Each pause is twice as long.
const PAUSE: Duration = Duration::from_millis(20);
/// The longest pause; all of them are a second and a half.
const LONGEST_PAUSE: Duration = Duration::from_millis(700);

/// The steps of moving the branch of a remote.
pub(super) const STEPS: [&str; 3] = ["claims-read", "remote-pushed", "remote-listed"];

/// A branch of a remote that work lands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteTarget {
    /// The remote.
    pub remote: String,
    /// The full name of the branch there.
    pub branch: String,
    /// The ref that has the branch as it was last seen, as `git fetch` stores it.
    pub copy: String,
}

impl RemoteTarget {
    /// A branch of the remote that is meant; an empty name is none.
    ///
    /// # Errors
    /// `usage` when there is no such remote.
    pub(super) fn new(ctx: &Ctx, remote: &str, branch: &str) -> Result<RemoteTarget> {
        let wanted = Some(remote).filter(|name| !name.is_empty());
        let remote = remote_name(ctx, wanted)?;
        let short = branch_name(branch);
        Ok(RemoteTarget {
            copy: format!("refs/remotes/{remote}/{short}"),
            branch: branch.to_owned(),
            remote,
        })
    }

    /// The branch of others that an agent started from; `target` is what it is called here.
    ///
    /// # Errors
    /// `usage` where no remote here leads to it.
    pub(super) fn of_others(ctx: &Ctx, place: &LandsOn, target: &str) -> Result<RemoteTarget> {
        let (own, remote) = forge::remote_of(ctx, place)?;
        let short = branch_name(target);
        Ok(RemoteTarget {
            copy: format!("refs/remotes/{own}/{short}"),
            branch: place.branch.clone(),
            remote,
        })
    }

    /// Fetches the branch.
    ///
    /// # Errors
    /// `base-not-commit` when the remote has none of that name; `usage` where it pushes to another repository than it fetches from; those of
    /// the network.
    pub(super) fn fetch(&self, ctx: &Ctx) -> Result<()> {
        // Asked where a round trip follows, and not for each agent that lands there.
        require_one_repository(ctx, &self.remote)?;
        // One limit for the listing and the fetch together.
        let end = Instant::now() + LIMIT;
        let repo = &ctx.repo;
        let listed = repo.list_remote(&self.remote, end)?;
        let is = listed.get(&self.branch);
        // The listing is one round trip. The fetch costs more, and is left out where nothing has
        // moved.
        if is.is_some_and(|is| repo.tip(&self.copy).ok() == Some(Tip::At(*is))) {
            return Ok(());
        }
        let refspec = format!("+{}:{}", self.branch, self.copy);
        if is.is_none() {
            return Err(self.missing());
        }
        match repo.fetch_refs(&self.remote, &[refspec], end)? {
            Fetched::All => Ok(()),
            Fetched::Missing | Fetched::Unadvertised => Err(self.missing()),
            Fetched::Locked(said) => Err(self.locked(ctx, said)),
        }
    }

    fn locked(&self, ctx: &Ctx, said: String) -> Error {
        let lock = ctx.repo.ref_lock_path(&self.copy);
        let what = format!("{} could not be moved; its lock file is {}", self.copy, lock.display());
        Error::new(Code::LockTimeout, what).because(said).hint(
            "to see whose it is, and to clear it where it is left over, run git agent doctor --fix",
        )
    }

    /// Checks that the branch was fetched.
    ///
    /// # Errors
    /// `base-not-commit` when the remote has none of that name.
    pub(super) fn require_fetched(&self, ctx: &Ctx) -> Result<()> {
        match ctx.repo.tip(&self.copy)? {
            Tip::Absent => Err(self.missing()),
            Tip::At(_) | Tip::Broken => Ok(()),
        }
    }

    fn missing(&self) -> Error {
        let (remote, branch) = (&self.remote, &self.branch);
        let what = format!("the remote `{remote}` has no {branch}");
        Error::new(Code::BaseNotCommit, what)
            .hint(format!("to create it, run git push {remote} {branch}"))
    }

    /// Moves the branch of the remote from where the work was judged to where it has landed, together with the claims of
    /// the agents. `blamed` gets the agent that keeps the others from landing, if it is one of them.
    ///
    /// # Errors
    /// `lost-race` when the branch has moved; `lock-timeout` when the remote cannot move it; `claim-lost`, `claim-held`; `remote-refused`, naming what refused it; those of
    /// the network.
    pub(super) fn push(
        &self,
        ctx: &Ctx,
        (base, top): (Oid, Oid),
        agents: &[AgentId],
        blamed: &mut Option<AgentId>,
    ) -> Result<()> {
        let end = Instant::now() + LIMIT;
        let repo = &ctx.repo;
        let listed = repo.list_remote(&self.remote, end)?;
        // The push compares again; here a branch that has moved spares the work on the claims.
        match listed.get(&self.branch) {
            // What was judged is a copy from before it was deleted there: no other attempt can succeed.
            None => return Err(self.missing()),
            Some(is) if *is != base => return Err(moved(&self.branch)),
            Some(_) => {}
        }
        let claims = claim::of_agents(ctx, &self.remote, &listed, agents, end, blamed)?;
        let mut pushes =
            vec![RefPush::new(self.branch.clone(), RefChange::Swap { from: Some(base), to: top })];
        for claim in &claims {
            pushes.push(claim.finish(ctx)?);
        }
        ctx.reached(STEPS[0]);
        // A remote that cannot take several refs at once can take one.
        // The user's `pre-push` hook runs, because a landing is a push of the user's branch. Syncs,
        // which push only refs of ours, run none.
        let manner = PushManner { atomic: pushes.len() > 1, with_hook: true };
        let mut pause = PAUSE;
        let (outcome, proof) = loop {
            let outcome = repo.push_refs(&self.remote, &pushes, manner, end)?;
            ctx.reached(STEPS[1]);
            // What has happened is read from the remote's refs, never from the output of a push.
            let proof = repo.list_remote(&self.remote, end)?;
            // Where nothing has moved, what was judged is still right, and another writer held a lock there, which is over soon.
            let is_unmoved = proof.get(&self.branch) == Some(&base)
                && claims.iter().all(|claim| claim.require_unmoved(&proof).is_ok());
            let is_locked = outcome.refusals.iter().all(|one| remote::is_passing(&one.reason));
            if outcome.refusals.is_empty() || !is_unmoved || !is_locked {
                break (outcome, proof);
            }
            if pause > LONGEST_PAUSE {
                return Err(self.locked_there(&outcome));
            }
            thread::sleep(pause);
            pause *= 2;
        };
        if !self.has_landed(ctx, top, &outcome, &proof)? {
            return Err(self.not_landed(&claims, &outcome, &proof));
        }
        ctx.reached(STEPS[2]);
        // Of a push to an address, as to a fork, git moves no copy; what fails here is made good by the next fetch.
        if repo.tip(&self.copy)?.oid() != Some(top) {
            let _ = self.fetch(ctx);
        }
        claims.iter().try_for_each(|claim| claim.landed(ctx))
    }

    /// Whether the branch of the remote has what was pushed: another clone may have landed on top of it meanwhile.
    fn has_landed(
        &self,
        ctx: &Ctx,
        top: Oid,
        outcome: &PushOutcome,
        proof: &RemoteRefs,
    ) -> Result<bool> {
        let Some(is) = proof.get(&self.branch) else {
            return Ok(false);
        };
        if *is == top || !outcome.refusals.is_empty() {
            return Ok(*is == top);
        }
        self.fetch(ctx)?;
        let is = ctx.repo.tip(&self.copy)?.oid().unwrap_or(*is);
        Ok(ctx.repo.merge_base(top, is)? == Some(top))
    }

    /// The remote has the branch where it was, and does not move it.
    fn locked_there(&self, outcome: &PushOutcome) -> Error {
        let (remote, branch) = (&self.remote, &self.branch);
        let what = format!(
            "the remote `{remote}` does not move {branch}: a lock there is held, or left over; nothing has landed"
        );
        Error::new(Code::LockTimeout, what)
            .because(outcome.remote_text.clone())
            .hint("to land it when the lock is gone, run the same command again")
    }

    /// Why nothing has landed.
    fn not_landed(
        &self,
        claims: &[LandingClaim],
        outcome: &PushOutcome,
        proof: &RemoteRefs,
    ) -> Error {
        let mut refusals = outcome.refusals.iter();
        if let Some(refusal) = refusals.find(|one| !remote::is_passing(&one.reason)) {
            let error = refused(&self.remote, &refusal.refname, &refusal.reason, outcome);
            return error.hint(format!(
                "nothing has landed; to see what the remote has, run git ls-remote {}",
                self.remote
            ));
        }
        let mut lost = claims.iter().map(|claim| claim.require_unmoved(proof).err());
        lost.find_map(|error| error).unwrap_or_else(|| moved(&self.branch))
    }
}

// Landings with `--now` whose row a kill kept from being written.
//
// Such a landing may bring a commit that is on no branch of the agent's, whose work goes on meanwhile. So nothing but a note tells the next
// landing which part of the work the target has already: `<common dir>/agents/<id8>/landing`, written before the target moves and
// removed once the row says so.

/// Notes what is about to land of an agent that goes on: the commit, the work in it, the branch, and where that was.
///
/// # Errors
/// `io`, `disk-full`.
pub(super) fn note_landing(
    ctx: &Ctx,
    plan: &MergePlan,
    (tip, commit, from): (Oid, Oid, Oid),
) -> Result<()> {
    if !plan.now {
        return Ok(());
    }
    let (target, base) = (&plan.target, plan.base_ref());
    let text = format!("{commit} {tip} {target} {base} {from}\n");
    let path = layout::landing_note(ctx.repo.common_dir(), plan.agent.id);
    fsx::write_private(&path, text.as_bytes())
}

/// Removes the note: the row has it.
pub(super) fn forget_landing(ctx: &Ctx, plan: &MergePlan) {
    // One that stays is found to be recorded.
    if plan.now {
        let _ = fs::remove_file(layout::landing_note(ctx.repo.common_dir(), plan.agent.id));
    }
}

/// Writes down the landing that was noted, if it came to that; gives the agent as it is then.
///
/// # Errors
/// `io`, `lock-timeout`, those of the ledger.
pub(super) fn complete_unrecorded(ctx: &Ctx, ledger: &Ledger<'_>, agent: Agent) -> Result<Agent> {
    let common_dir = ctx.repo.common_dir();
    let path = layout::landing_note(common_dir, agent.id);
    if !path.exists() {
        return Ok(agent);
    }
    // A landing that is under way has its note, too.
    let _landings = lock::hold(common_dir, layout::LANDING_LOCK)?;
    let text = fsx::load_if_there(&path)?.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let now = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    if let [commit, tip, into, base, from] = words[..]
        && let (Some(commit), Some(tip)) = (Oid::from_hex(commit), Oid::from_hex(tip))
        && now.landed_tip != Some(tip)
        // The note is older than the move of the target, so it may tell of a landing that never
        // took place.
        && holds(ctx, &[into, base], commit)?
    {
        let landing = RecordedLanding {
            spawn_commit: now.spawn_commit,
            commit,
            into: into.to_owned(),
            tip: Some(tip),
            from: Oid::from_hex(from),
            with: Vec::new(),
        };
        ledger.append_landings(&[landing], &ctx.actor()?, ctx.now(), |_| Ok(()))?;
    }
    fs::remove_file(&path).at_if_there("could not remove", &path)?;
    Ok(ledger.agent(now.spawn_commit)?.unwrap_or(now))
}

/// Whether one of the refs has a commit.
pub(super) fn holds(ctx: &Ctx, refs: &[&str], commit: Oid) -> Result<bool> {
    for name in refs {
        if let Some(is) = ctx.repo.tip(name)?.oid()
            && ctx.repo.has_object(commit)
            && ctx.repo.merge_base(commit, is)? == Some(commit)
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Brings this clone's branch to what has landed on the remote's, if that is a fast-forward. Gives a warning where it
/// stays behind.
pub(super) fn follow(ctx: &Ctx, plans: &[MergePlan], top: Option<Oid>) -> Result<Option<String>> {
    let repo = &ctx.repo;
    let Some((first, top)) = plans.first().zip(top).filter(|(plan, _)| plan.remote.is_some())
    else {
        return Ok(None);
    };
    let target = &first.target;
    let Some(is) = repo.tip(target)?.oid().filter(|is| *is != top) else {
        ctx.reached("landed");
        return Ok(None);
    };
    let followed = if repo.merge_base(is, top)? == Some(is) {
        move_target(ctx, plans, (is, top), &UnderLock::NOTHING)
    } else {
        let what = "it has commits that the remote lacks";
        Err(Error::new(Code::NotFastForward, what))
    };
    ctx.reached("landed");
    Ok(followed.err().map(|error| {
        let copy = first.remote.as_ref().map_or("", |there| there.copy.as_str());
        let along = pull(ctx, target, copy);
        let error = in_one_line(&error);
        format!("{target} of this clone stays behind what has landed: {error}; to bring it along, run {along}")
    }))
}

/// The advice to push a branch of this clone to where it was asked to land: `copy` is of the same branch on a remote.
pub(super) fn to_push(copy: &str, branch: &str) -> Option<String> {
    let remote = copy.strip_prefix("refs/remotes/")?.strip_suffix(branch)?.strip_suffix('/')?;
    let [remote, branch] = [remote, branch].map(|name| shell::word(name.as_bytes()));
    Some(format!("to bring that there, run git push {remote} {branch}"))
}

/// The remote's branch to land on, where the caller wants that. What was spawned from a pull request lands on its branch, wherever
/// that is.
///
/// # Errors
/// `claim-lost` where none is wanted and this clone saw another one take the task over; `usage` when there is no such remote.
pub(super) fn wanted_target(
    ctx: &Ctx,
    options: &MergeOptions,
    agent: &Agent,
    target: &str,
) -> Result<Option<RemoteTarget>> {
    let Some(remote) = options.push.as_deref() else {
        claim::require_not_lost(ctx, agent.id)?;
        return Ok(None);
    };
    let of_others = if remote.is_empty() && options.into.is_none() {
        spawn_commit::if_here(&ctx.repo, agent)?.and_then(|policy| policy.lands_on)
    } else {
        None
    };
    match of_others {
        Some(place) => RemoteTarget::of_others(ctx, &place, target).map(Some),
        None => RemoteTarget::new(ctx, remote, target).map(Some),
    }
}

/// Fetches the branches of a remote that agents land on. What the remote lacks is told when their work is judged.
///
/// # Errors
/// `usage` when there is no such remote; those of the network.
pub(crate) fn fetch_targets<'a>(
    ctx: &Ctx,
    options: &MergeOptions,
    agents: impl IntoIterator<Item = &'a Agent>,
) -> Result<()> {
    let mut seen = Vec::new();
    for agent in agents {
        let Ok(branch) = plan::target(ctx, agent, options) else {
            continue;
        };
        let there = wanted_target(ctx, options, agent, &branch)?;
        // Most agents share their target, and each fetch is a round trip.
        if seen.contains(&there) {
            continue;
        }
        seen.push(there.clone());
        match there.map_or(Ok(()), |there| there.fetch(ctx)) {
            Err(error) if error.code() == Code::BaseNotCommit => {}
            fetched => fetched?,
        }
    }
    Ok(())
}

/// Checks that work stands on commits that the remote's branch, which is at `base`, has, or that `is_known` says of the commit it begins
/// from. Judged against that branch, commits of this clone's that were never pushed look like a rewritten history, and pushed with the
/// work they would be published.
///
/// # Errors
/// `base-unpushed`; those of `is_known`.
pub(crate) fn require_start(
    ctx: &Ctx,
    agent: &Agent,
    remote: &str,
    (branch, base): (&str, Oid),
    tip: Oid,
    is_known: impl FnOnce(Oid) -> Result<bool>,
) -> Result<()> {
    let repo = &ctx.repo;
    let Some(own) = repo.tip(branch)?.oid() else {
        return Ok(());
    };
    let Some(start) = repo.merge_base(own, tip)? else {
        return Ok(());
    };
    if repo.merge_base(start, base)? == Some(start) || is_known(start)? {
        return Ok(());
    }
    let short = branch_name(branch);
    let id = agent.id.short();
    let what = format!(
        "agent {id} stands on {}, a commit of {short} that {remote} does not have; push {short} first",
        start.short()
    );
    let error = Error::new(Code::BaseUnpushed, what);
    Err(if repo.merge_base(own, base)? == Some(base) {
        error.hint(format!("to push it, run git push {remote} {short}"))
    } else {
        // A rebase would leave the agent on commits that are on neither branch.
        error.hint(format!(
            "{remote} has commits that {short} lacks; to merge them and push, run \
             {} && git push {remote} {short}",
            pull(ctx, branch, &format!("{REMOTE_COPIES}{remote}/{short}"))
        ))
    })
}
