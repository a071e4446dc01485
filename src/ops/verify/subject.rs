//! What is judged: which agent, which commit, against which branch, and where its files are.

use super::VerifyOptions;
use super::origin::{Origin, Question};
use crate::domain::agent::Agent;
use crate::domain::event::Isolation;
use crate::domain::evidence::{NoWorktree, Row};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::ancestry::Divergence;
use crate::ops::run::record;
use crate::ops::{Ctx, lookup};
use crate::store::ledger::Ledger;
use crate::store::place::{RecordedPlaces, is_of_this_clone};
use crate::store::{agent_branch, layout};
use std::borrow::Cow;
use std::path::{Path, PathBuf};

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
    /// The worktree, when it is here and is to be judged.
    pub worktree: Option<Place>,
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

/// A worktree and its admin directory.
pub(in crate::ops) struct Place {
    pub path: PathBuf,
    pub admin_dir: PathBuf,
}

impl Place {
    /// Gives what `read` found, if the worktree is still there. To a process that reads one that a `discard` puts
    /// aside meanwhile, its files look deleted, or git fails in ways that say nothing about it.
    ///
    /// # Errors
    /// `lost-race`; those of `read`.
    pub(super) fn undisturbed<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let read = read();
        if self.path.is_dir() && self.admin_dir.is_dir() {
            return read;
        }
        let path = self.path.display();
        let gone = Error::new(
            Code::LostRace,
            format!("the worktree {path} went away while it was read"),
        )
        .hint("to see where the worktrees are, run git worktree list");
        Err(match read {
            Ok(_) => gone,
            Err(error) => gone.because(error.to_string()),
        })
    }
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
                let agent = lookup::agent(ctx, &Ledger::new(&ctx.repo), who)?;
                let agent = record::at_rest(ctx, agent)?;
                let tip = tip_of(ctx, &agent)?;
                Origin::of_row(ctx, agent, tip)?
            }
            (None, None) => {
                return Err(Error::new(Code::Usage, "no agent is named")
                    .hint("to find it by the branch's spawn commit, pass --ci"));
            }
        };
        let agent = origin.agent;
        if given.is_some() && agent.isolation == Some(Isolation::Shared) {
            return Err(without_branch(&agent));
        }
        let (base_ref, base) = base_of(ctx, &agent, options.base.as_deref())?;
        let worktree = match given {
            Some(_) => None,
            None => place_of(ctx, &agent, options.worktree.as_deref())?,
        };
        let is_foreign = is_foreign(ctx, &Ledger::new(&ctx.repo), &agent)?;
        let absent = if is_foreign {
            NoWorktree::Elsewhere
        } else {
            NoWorktree::Gone
        };
        let is_elsewhere = options.ci || origin.row != Row::Present;
        Ok(Subject {
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

    /// What the base and the tip do not share, all that `started` holds left out.
    ///
    /// # Errors
    /// As [`Repo::divergence`].
    pub(super) fn divergence(&self, repo: &Repo, started: Oid) -> Result<Cow<'_, Divergence>> {
        let hidden = self.agent.base.as_ref().map(|base| base.oid);
        if let Some(known) = &self.divergence
            && hidden == Some(started)
        {
            return Ok(Cow::Borrowed(known));
        }
        let against = self.base.unwrap_or(started);
        let divergence = repo.divergence(against, self.tip, Some(started))?;
        Ok(Cow::Owned(divergence))
    }

    /// Whether there is a branch to land.
    pub(super) fn has_branch(&self) -> bool {
        self.agent.isolation != Some(Isolation::Shared)
    }
}

/// Whether an agent was spawned in another clone: nothing of it but its row and its branch is here.
fn is_foreign(ctx: &Ctx, ledger: &Ledger<'_>, agent: &Agent) -> Result<bool> {
    let common = ctx.repo.common_dir();
    let admin_dir = ctx.repo.admin_dir(&layout::worktree_name(agent.id));
    let is_here = is_of_this_clone(common, ledger.clone_number()?, agent) || admin_dir.exists();
    Ok(!is_here)
}

/// The commit that is judged unless another is named.
pub(in crate::ops) fn tip_of(ctx: &Ctx, agent: &Agent) -> Result<Oid> {
    if agent.branch.is_none() {
        return Ok(agent.spawn_commit);
    }
    let found = agent_branch::local_or_fetched(&ctx.repo, agent)?;
    let tip = found.map(|(_, tip)| tip);
    tip.ok_or_else(|| lookup::branch_gone(ctx, agent))
}

/// The branch to land on and where it is. A clone that never had the branch knows the remote's.
pub(in crate::ops) fn base_of(
    ctx: &Ctx,
    agent: &Agent,
    wanted: Option<&str>,
) -> Result<(Option<String>, Option<Oid>)> {
    if let Some(revision) = wanted {
        let resolved = ctx.repo.resolve_commit(revision)?;
        return Ok((resolved.refname, Some(resolved.commit)));
    }
    let base = agent.base.as_ref();
    let Some(name) = base.and_then(|base| base.refname.clone()) else {
        return Ok((None, base.map(|base| base.oid)));
    };
    if let Some(oid) = ctx.repo.tip(&name)?.oid() {
        return Ok((Some(name), Some(oid)));
    }
    let remote = name.replacen("refs/heads/", "refs/remotes/origin/", 1);
    match ctx.repo.tip(&remote)?.oid() {
        Some(oid) => Ok((Some(remote), Some(oid))),
        None => Ok((Some(name), None)),
    }
}

fn place_of(ctx: &Ctx, agent: &Agent, given: Option<&Path>) -> Result<Option<Place>> {
    if agent.isolation == Some(Isolation::Shared) {
        return Ok(None);
    }
    let name = layout::worktree_name(agent.id);
    let place = { ctx.repo.worktree(&name) }.filter(|worktree| worktree.path.is_dir());
    if let Some(given) = given {
        let given = resolved(&ctx.absolute(given));
        let own = match &place {
            Some(place) => Some(resolved(&place.path)),
            None => RecordedPlaces::new(&ctx.repo)?.of(agent),
        };
        if own.as_ref() != Some(&given) {
            let error = Error::new(
                Code::WorktreeForeign,
                format!(
                    "{} is not the worktree of agent {}",
                    given.display(),
                    agent.id
                ),
            );
            return Err(error.hint(format!(
                "to see where it is, run git agent path {}",
                agent.id.short()
            )));
        }
    }
    Ok(place.map(|worktree| Place {
        admin_dir: ctx.repo.admin_dir(&worktree.name),
        path: worktree.path,
    }))
}

fn resolved(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
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
