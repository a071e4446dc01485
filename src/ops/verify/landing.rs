//! What is judged, and how it would land on the base branch as it is now.

use crate::agents::upkeep::{crash_recovery, publish};
use crate::agents::work::{base_of, left_to_land, tip_of};
use crate::agents::{AgentWorktree, Ctx, own_changes, place::worktree, who::lookup};
use crate::domain::judge::evidence::{
    ChangePlace, Conflict, DependencyChange, Landed, Landing, MergeOutcome, NoWorktree,
    RowEvidence, Touch,
};
use crate::domain::{Agent, Isolation, Oid};
use crate::error::{Code, Error, Result};
use crate::git::history::ancestry::Divergence;
use crate::git::history::merge::Merge;
use crate::git::{MergeResult, Repo};
use crate::ops::verify::VerifyOptions;
use crate::ops::verify::judged_trees::JudgedTrees;
use crate::ops::verify::origin::{Origin, Question};
use crate::store::files::place::is_of_this_clone;
use crate::store::landing::commit_change::{self, CommitChange};
use crate::store::landing::{replay, spawn_commit, taken_back};
use crate::store::{Ledger, ledger::agent_branch};
use crate::wire::file::dependencies;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

/// How many of the base's newest commits are searched for those that make the same change.
const SEARCHED: usize = 200;

/// What would land, and where.
pub(super) struct Lands<'a> {
    /// The commit.
    pub tip: Oid,
    /// The agent, whose spawn commit holds no work; absent where no agent is judged.
    pub agent: Option<&'a Agent>,
    /// The full name of the branch to land on, when there is one.
    pub base_ref: Option<&'a str>,
    /// Where that is; `None` when it is gone.
    pub base: Option<Oid>,
    /// Whether it may exist, and is not in this clone.
    pub base_out_of_reach: bool,
    /// Whether the branch holds uncommitted changes of its owner, which do not land with it.
    pub leaves_changes: bool,
}

/// Works out the landing. `touched` says whether the agent changed anything at all; `merge` asks git, or what
/// is remembered of its answers.
pub(super) fn work_out(
    repo: &Repo,
    lands: &Lands<'_>,
    work: &JudgedTrees,
    divergence: &Divergence,
    touched: bool,
    merge: impl Fn(Oid, Oid) -> Result<Merge>,
) -> Result<Landing> {
    let uncommitted = usize::from(work.tree != work.tip_tree);
    let ahead: Vec<Oid> = divergence.ahead.iter().map(|lineage| lineage.oid).collect();
    let work_commits = match (lands.agent, lands.base) {
        (Some(agent), Some(base)) => left_to_land(repo, agent, (base, lands.tip), &ahead)?,
        (Some(agent), None) => spawn_commit::without(repo, agent.spawn_commit, &ahead),
        (None, _) => ahead.len(),
    };
    let mut landing = Landing {
        refname: lands.base_ref.map(str::to_owned),
        // What is not committed lands as one commit.
        ahead: work_commits + uncommitted,
        behind: divergence.behind.len(),
        outcome: MergeOutcome::BaseGone,
        approximate: false,
        reverted: None,
    };
    let Some(base) = lands.base else {
        if lands.base_out_of_reach {
            landing.outcome = MergeOutcome::OutOfReach { tree: work.tree };
        }
        return Ok(landing);
    };
    if let Some(agent) = lands.agent {
        landing.reverted = taken_back::reverted_on(repo, agent, base, lands.tip)?;
    }
    let is_reverted = landing.reverted.is_some();
    let base_tree = repo.tree_of(base)?;
    let landed = |how| MergeOutcome::Landed { tree: base_tree, how };
    // The target has all of it, whichever commits brought it, unless there is nothing that it could have.
    let held = || -> Result<MergeOutcome> {
        // Nor does it have what was taken back there.
        let is_nothing = is_reverted || nets_to_nothing(repo, lands, work, divergence)?;
        let nothing = MergeOutcome::Nothing { tree: base_tree };
        Ok(if is_nothing { nothing } else { landed(Landed::Tree) })
    };
    let tree = work.tree;
    let is_replayed = match lands.agent {
        // Nothing that is not committed is in any commit.
        Some(agent) if uncommitted == 0 && landing.behind > 0 && touched => {
            replay::is_held(repo, agent, base, lands.tip)?
        }
        _ => false,
    };
    landing.outcome = if ahead.len() + uncommitted == 0 || is_replayed {
        landed(Landed::Ancestor)
    // Changes of the owner that the branch holds must not land, so the target cannot simply be
    // moved to it.
    } else if landing.behind == 0 && !lands.leaves_changes {
        match touched {
            false => MergeOutcome::Nothing { tree },
            // As after an update since it landed.
            true if tree == base_tree => held()?,
            true => MergeOutcome::FastForward { tree },
        }
    } else {
        let tip = work.commit(repo, lands.tip)?;
        let Merge { result, approximate } = merge(base, tip)?;
        landing.approximate = approximate;
        match result {
            MergeResult::Unrelated => MergeOutcome::Unrelated,
            MergeResult::Clean { tree } if !touched => MergeOutcome::Nothing { tree },
            MergeResult::Clean { tree } if tree == base_tree => held()?,
            MergeResult::Clean { tree } => MergeOutcome::Clean { tree },
            // Squashed and then built upon: merging it again conflicts with what came after.
            MergeResult::Conflicts { conflicts, .. } => {
                if was_squashed(repo, base, tip, divergence)? {
                    landed(Landed::PatchId)
                } else {
                    MergeOutcome::Conflicts(sorted(conflicts))
                }
            }
        }
    };
    Ok(landing)
}

/// Whether the agent took back each change that it made: every path is as it was where it started.
fn nets_to_nothing(
    repo: &Repo,
    lands: &Lands<'_>,
    work: &JudgedTrees,
    divergence: &Divergence,
) -> Result<bool> {
    let Some(started) = lands.agent.and_then(|agent| agent.base.as_ref()) else {
        return Ok(false);
    };
    let since = repo.tree_changes(&[repo.tree_of(started.oid)?], work.tree)?;
    let since: HashSet<Vec<u8>> = since.into_iter().map(|change| change.path).collect();
    let mut own = repo.tree_changes(&[work.tip_tree], work.tree)?;
    for one in divergence.ahead.iter().filter(|one| one.parents.len() == 1) {
        own.extend(repo.commit_changes(one.oid)?);
    }
    Ok(!own.iter().any(|change| since.contains(&change.path)))
}

/// What landing on `base` would change. It is judged like a commit: git applies the agent's change of a file to where that file
/// is on the target, and can move new files along with a directory.
pub(super) fn touches(repo: &Repo, landing: &Landing, base: Oid) -> Result<Vec<Touch>> {
    let Some(merged) = landing.outcome.tree() else {
        return Ok(Vec::new());
    };
    let changes = repo.sound_changes(&[repo.tree_of(base)?], merged)?;
    let place = ChangePlace::Landing;
    let touches = changes.into_iter().map(|change| Touch { change, place });
    Ok(touches.collect())
}

/// The dependencies that landing on `base` would change, by what `touches` says of it. A file that only moved names the same ones.
pub(super) fn dependencies(
    repo: &Repo,
    landing: &Landing,
    base: Oid,
    touches: &[Touch],
) -> Result<Vec<DependencyChange>> {
    let Some(merged) = landing.outcome.tree() else {
        return Ok(Vec::new());
    };
    let before = repo.tree_of(base)?;
    let manifests = touches
        .iter()
        .filter(|touch| touch.place == ChangePlace::Landing)
        .map(|touch| &touch.change.path)
        .filter(|path| dependencies::is_manifest(path));
    let mut changed = Vec::new();
    for path in manifests {
        let name = String::from_utf8_lossy(path);
        let entry = |tree| repo.entry_at(tree, &name);
        changed.push((
            path,
            [entry(before)?, entry(merged)?].map(|entry| entry.map(|entry| entry.oid)),
        ));
    }
    let mut found = Vec::new();
    for (path, [was, is]) in &changed {
        // A manifest that moved with its content brings no other version.
        let has_moved = changed.iter().any(|(_, [gone, new])| match (was, is) {
            (None, Some(is)) => (gone.as_ref(), new) == (Some(is), &None),
            (Some(was), None) => (gone, new.as_ref()) == (&None, Some(was)),
            _ => false,
        });
        if has_moved {
            continue;
        }
        // What stands there and is no file, such as a submodule, has no content that could be read.
        let read =
            |oid: Option<Oid>| oid.map(|oid| repo.read_blob(oid).unwrap_or_else(|_| vec![0xff]));
        let (before, after) = (read(*was), read(*is));
        let what = dependencies::changes(path, before.as_deref(), after.as_deref());
        let changes = what.into_iter().map(|what| DependencyChange { path: (*path).clone(), what });
        found.extend(changes);
    }
    Ok(found)
}

/// The files that landing on `base` would give conflict markers, each with the line of the first.
pub(super) fn added_markers(
    repo: &Repo,
    landing: &Landing,
    base: Oid,
) -> Result<Vec<(Vec<u8>, usize)>> {
    match landing.outcome.tree() {
        Some(merged) => repo.added_conflict_markers(repo.tree_of(base)?, merged, base),
        None => Ok(Vec::new()),
    }
}

fn sorted(mut conflicts: Vec<Conflict>) -> Vec<Conflict> {
    conflicts.sort_unstable();
    conflicts
}

/// Whether the base's newest commits make the same change as the whole branch.
fn was_squashed(repo: &Repo, base: Oid, tip: Oid, divergence: &Divergence) -> Result<bool> {
    let Some(fork) = repo.merge_base(base, tip)? else {
        return Ok(false);
    };
    // The newest first: a squash is rarely far below, and each commit is compared.
    let newest = divergence.behind.iter().rev().take(SEARCHED);
    let line = newest.filter_map(|commit| match commit.parents[..] {
        [parent] => Some(CommitChange::from_to(repo, parent, commit.oid)),
        _ => None,
    });
    let line = line.collect::<Result<Vec<_>>>()?;
    commit_change::makes_the_same(repo, &line, fork, tip)
}

// What is judged: which agent, which commit, against which branch, and where its files are.

/// One agent's work at one moment.
pub(super) struct LandingSubject {
    /// The agent, bound as its spawn commit says.
    pub agent: Agent,
    /// What its row says otherwise, one sentence each.
    pub altered: Vec<String>,
    /// The branch's tip; for a shared agent, which has no branch, its spawn commit.
    pub tip: Oid,
    /// The full name of the branch to land on, when there is one.
    pub base_ref: Option<String>,
    /// Its tip now; `None` when the branch is gone.
    pub base: Option<Oid>,
    /// Whether the branch to land on may exist, and is not in this clone.
    pub base_out_of_reach: bool,
    /// The commit that uncommitted changes were made on which the agent started from.
    pub below_changes: Option<Oid>,
    /// The worktree, when it is here and is to be judged.
    pub worktree: Option<AgentWorktree>,
    /// Why there is none, when there is none.
    pub no_worktree: NoWorktree,
    /// Whether the agent lives in another clone, which alone knows its worktree and its bundle.
    pub is_foreign: bool,
    /// Whether the ledger knows the agent.
    pub row: RowEvidence,
    /// The merge commit that was named, where `tip` is its second parent.
    pub merge_commit: Option<Oid>,
    /// What base and tip do not share, where that is known already.
    divergence: Option<Divergence>,
}

impl LandingSubject {
    pub(super) fn resolve(ctx: &Ctx, options: &VerifyOptions) -> Result<LandingSubject> {
        let revision = match (&options.tip, options.ci) {
            (Some(tip), _) => Some(tip.as_str()),
            (None, true) => Some("HEAD"),
            (None, false) => None,
        };
        let given = revision
            .map(|revision| ctx.repo.resolve_commit(revision))
            .transpose()?
            .map(|resolved| resolved.commit);
        let question = Question::new(ctx, options);
        let origin = match (&options.agent, given) {
            (Some(who), Some(tip)) => question.of_agent(who, tip)?,
            (None, Some(tip)) => question.of_commit(tip)?,
            (Some(who), None) => {
                let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
                // A run that ended without a record may have left work that is not published yet.
                let agent = crash_recovery::at_rest(ctx, agent)?;
                let id = agent.id.short();
                publish::require_taken_over(ctx, &agent).map_err(|error| {
                    error.hint(format!(
                        "go on without it: git agent run {id} -- true; or keep what was taken over, and be done: git agent discard {id}"
                    ))
                })?;
                worktree::require_in_place(&ctx.repo, &agent)?;
                agent_branch::require_one_line(&ctx.repo, &agent)?;
                let tip = tip_of(ctx, &agent)?;
                Origin::of_row(ctx, agent, tip)?
            }
            (None, None) => {
                return Err(Error::new(Code::Usage, "no agent is named")
                    .hint("to find it by the branch's spawn commit, pass --ci"));
            }
        };
        let agent = origin.agent;
        // In the clone of a build the spawn commit may be there only within a commit that carries it.
        spawn_commit::restore(&ctx.repo, origin.tip, &agent)?;
        if given.is_some() && agent.isolation == Some(Isolation::Shared) {
            return Err(without_branch(&agent));
        }
        let (base_ref, base) = base_of(ctx, &agent, options.base.as_deref())?;
        // A landing judges against the commit that it has locked, and not against where the branch
        // is by now.
        let base = options.base_at.or(base);
        let worktree = match given {
            // A revision that was named is judged by itself, and what lies in a worktree is no part
            // of it.
            Some(_) => None,
            None => AgentWorktree::at(ctx, &agent, options.worktree.as_deref())?,
        };
        let is_foreign = is_foreign(ctx, &ctx.ledger(), &agent)?;
        let absent = if is_foreign { NoWorktree::Elsewhere } else { NoWorktree::Gone };
        let is_elsewhere = options.ci || origin.row != RowEvidence::Present;
        Ok(LandingSubject {
            below_changes: own_changes::below(&ctx.repo, &agent)?,
            agent,
            altered: origin.altered,
            tip: origin.tip,
            base_ref,
            base,
            base_out_of_reach: base.is_none() && is_elsewhere,
            worktree,
            no_worktree: options.no_worktree().unwrap_or(absent),
            is_foreign,
            row: origin.row,
            merge_commit: origin.merge_commit,
            divergence: origin.divergence,
        })
    }

    /// The worktree's directory, or why there is none.
    pub(super) fn directory(&self) -> Result<&Path, NoWorktree> {
        let worktree = self.worktree.as_ref();
        worktree.map(|worktree| worktree.path.as_path()).ok_or(self.no_worktree)
    }

    /// What the base and the tip do not share, all that `started` holds left out.
    ///
    /// # Errors
    /// As [`Repo::divergence`].
    pub(super) fn divergence(&self, repo: &Repo, started: Oid) -> Result<Cow<'_, Divergence>> {
        let hidden = self.agent.base.as_ref().map(|base| base.oid);
        if let Some(known) = &self.divergence
            // What the walk found on its way is of use only if it began where this question does.
            && hidden == Some(started)
        {
            return Ok(Cow::Borrowed(known));
        }
        let against = self.base.unwrap_or(started);
        let divergence = repo.divergence(against, self.tip, Some(started))?;
        Ok(Cow::Owned(divergence))
    }

    /// What would land, and where.
    pub(super) fn lands(&self) -> Lands<'_> {
        Lands {
            tip: self.tip,
            agent: Some(&self.agent),
            base_ref: self.base_ref.as_deref(),
            base: self.base,
            base_out_of_reach: self.base_out_of_reach,
            leaves_changes: self.below_changes.is_some(),
        }
    }

    /// Whether there is a branch to land.
    pub(super) fn has_branch(&self) -> bool {
        self.agent.isolation != Some(Isolation::Shared)
    }
}

/// Whether an agent was spawned in another clone: nothing of it but its row and its branch is here.
pub(super) fn is_foreign(ctx: &Ctx, ledger: &Ledger<'_>, agent: &Agent) -> Result<bool> {
    let common = ctx.repo.common_dir();
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    // A row may come from elsewhere while the worktree is here, as after a clone was copied.
    let is_here = is_of_this_clone(common, ledger.clone_number()?, agent) || admin_dir.exists();
    Ok(!is_here)
}

fn without_branch(agent: &Agent) -> Error {
    let id = agent.id.short();
    Error::new(Code::Usage, format!("agent {id} has no branch, so no commit holds its work"))
        .hint(format!("to judge what it wrote, run git agent verify {id}"))
}

/// What tells a spawn commit from every other, and what a rebase takes along.
pub(super) fn nonce_of(ctx: &Ctx, spawn_commit: Oid) -> Option<String> {
    let commit = ctx.repo.read_commit(spawn_commit).ok()?;
    commit.trailer("Agent-Nonce").map(str::to_owned)
}
