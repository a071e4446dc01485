//! What is judged: which agent, which commit, against which branch, and where its files are.

use crate::agents::ctx::Ctx;
use crate::agents::work::{base_of, tip_of};
use crate::agents::worktree::AgentWorktree;
use crate::agents::{crash_recovery, lookup, own_changes, worktree};
use crate::domain::agent::Agent;
use crate::domain::event::Isolation;
use crate::domain::evidence::{NoWorktree, Row};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::history::ancestry::Divergence;
use crate::ops::verify::VerifyOptions;
use crate::ops::verify::landing::Lands;
use crate::ops::verify::origin::{Origin, Question};
use crate::store::ledger::Ledger;
use crate::store::place::is_of_this_clone;
use crate::store::spawn_commit;
use std::borrow::Cow;
use std::path::Path;

/// One agent's work at one moment.
pub(super) struct Subject {
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
    pub row: Row,
    /// The merge commit that was named, where `tip` is its second parent.
    pub merge_commit: Option<Oid>,
    /// What base and tip do not share, where that is known already.
    divergence: Option<Divergence>,
}

impl Subject {
    pub(super) fn resolve(ctx: &Ctx, options: &VerifyOptions) -> Result<Subject> {
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
        let absent = if is_foreign {
            NoWorktree::Elsewhere
        } else {
            NoWorktree::Gone
        };
        let is_elsewhere = options.ci || origin.row != Row::Present;
        Ok(Subject {
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
        worktree
            .map(|worktree| worktree.path.as_path())
            .ok_or(self.no_worktree)
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
    Error::new(
        Code::Usage,
        format!("agent {id} has no branch, so no commit holds its work"),
    )
    .hint(format!("to judge what it wrote, run git agent verify {id}"))
}

/// What tells a spawn commit from every other, and what a rebase takes along.
pub(super) fn nonce_of(ctx: &Ctx, spawn_commit: Oid) -> Option<String> {
    let commit = ctx.repo.read_commit(spawn_commit).ok()?;
    commit.trailer("Agent-Nonce").map(str::to_owned)
}
