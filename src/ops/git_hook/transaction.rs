//! `reference-transaction`: the hook that `--no-verify` does not skip, and that rebase, revert and
//! `update-ref` run too.

use super::require_agent;
use crate::agents::ctx::Ctx;
use crate::agents::scope_guard::ScopeGuard;
use crate::agents::work::own_commits;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::domain::path::Quoted;
use crate::domain::ref_update::{Owner, RefUpdate, Target};
use crate::domain::violation::{BundleRule, Violation};
use crate::error::{Code, Error, ErrorFacts, Result};
use crate::git::refs::Tip;

/// Where git keeps what it knows of remotes.
const REMOTE_COPIES: &str = "refs/remotes/";

/// Judges a transaction that is prepared: `input` is what git wrote to the hook.
///
/// # Errors
/// `hook-refused`; whatever kept the agent's row from being read.
pub(super) fn judge(ctx: &Ctx, input: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(input);
    let mut updates: Vec<RefUpdate> = text.lines().filter_map(RefUpdate::parse).collect();
    // Most transactions are about HEAD and its like alone, and need no row.
    updates.retain(|update| update.owner("") != Owner::Worktree);
    // Behind a fence the copies of a remote's refs are the run's own and end with it: a fetch may move them.
    if ctx.env.fenced {
        updates.retain(|update| !update.name.starts_with(REMOTE_COPIES));
    }
    if updates.is_empty() {
        return Ok(());
    }
    let agent = require_agent(ctx)?;
    let branch = agent.branch.as_deref().unwrap_or_default();
    for update in &updates {
        // An agent's tools may make refs of their own, such as a stash; deleting or redirecting one
        // is refused, because what it held is lost.
        match (update.owner(branch), &update.new) {
            (Owner::Worktree, _) | (Owner::Tool, Target::At(_)) => {}
            (Owner::Branch, Target::At(tip)) => require_in_scope(ctx, &agent, branch, *tip)?,
            (Owner::Branch, Target::Gone | Target::Other) => {
                return Err(refuse(
                    &agent,
                    &format!("delete or redirect its own branch {branch}"),
                ));
            }
            (Owner::Others | Owner::Tool, _) => {
                let verb = if update.new == Target::Gone {
                    "delete"
                } else {
                    "move"
                };
                return Err(refuse(&agent, &format!("{verb} {}", update.name)));
            }
        }
    }
    Ok(())
}

/// Judges what is new on the agent's branch. What the base's branch has, here or as it was last fetched,
/// is not the agent's doing: a rebase or a merge brings it along.
fn require_in_scope(ctx: &Ctx, agent: &Agent, branch: &str, tip: Oid) -> Result<()> {
    let mut hidden = own_commits::of_its_base(ctx, agent)?;
    // What the branch has already was judged when it came there.
    if let Tip::At(oid) = ctx.repo.tip(branch)? {
        hidden.push(oid);
    }
    hidden.retain(|oid| ctx.repo.has_object(*oid));
    match require_commits_in_scope(ctx, agent.clone(), &hidden, tip) {
        // A shallow clone that fetched the base's branch anew does not know how that leads to the base.
        Err(error) if error.code() == Code::HistoryIncomplete => {
            let base: Vec<Oid> = agent.base.iter().map(|base| base.oid).collect();
            require_commits_in_scope(ctx, agent.clone(), &base, tip)
        }
        answer => answer,
    }
}

fn refuse(agent: &Agent, what: &str) -> Error {
    let short = agent.id.short();
    let branch = agent.branch.as_deref().unwrap_or("none");
    Error::new(Code::HookRefused, format!("agent {short} may not {what}")).hint(format!(
        "the only ref it moves is {branch}; to have anything else done, write it into handoffs.md"
    ))
}

// How a hook says what is out of an agent's scope.

/// How many paths one message names.
const NAMED: usize = 20;

/// Checks what the next commit would hold.
///
/// # Errors
/// `hook-refused`, naming the paths; those of [`ScopeGuard::around`] and of reading the index.
pub(super) fn require_staged_in_scope(ctx: &Ctx, agent: Agent) -> Result<()> {
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    let changes = ctx.repo.staged_changes(&ctx.env.staging)?;
    let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
    require_none(fence.agent(), "staged", &violations)
}

/// Checks every commit that `tip` has and `hidden` have not, each by itself: what a later commit takes
/// back was done all the same.
///
/// # Errors
/// As [`require_staged_in_scope`].
pub(super) fn require_commits_in_scope(
    ctx: &Ctx,
    agent: Agent,
    hidden: &[Oid],
    tip: Oid,
) -> Result<()> {
    let commits = ctx.repo.commits_between(hidden, tip)?;
    if commits.is_empty() {
        return Ok(());
    }
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    for commit in commits {
        let changes = ctx.repo.commit_changes(commit)?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
        let what = format!("touched by commit {}", commit.short());
        require_none(fence.agent(), &what, &violations)?;
    }
    Ok(())
}

fn require_none(agent: &Agent, what: &str, violations: &[Violation]) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    let line = |violation: &Violation| {
        let path = Quoted(&violation.path);
        format!("  {path} ({}): {}", violation.kind, violation.reason)
    };
    let mut lines: Vec<String> = violations.iter().take(NAMED).map(line).collect();
    if violations.len() > NAMED {
        lines.push(format!("  and {} more", violations.len() - NAMED));
    }
    let short = agent.id.short();
    let noun = if violations.len() == 1 {
        "path is"
    } else {
        "paths are"
    };
    Err(Error::new(
        Code::HookRefused,
        format!(
            "{} {noun} {what} and out of the scope of agent {short}",
            violations.len()
        ),
    )
    .detail(lines.join("\n"))
    .facts(ErrorFacts {
        paths: violations.iter().map(|one| one.path.clone()).collect(),
        ..ErrorFacts::default()
    })
    .hint("to take a path out of the commit, run git restore --staged -- <path>")
    .hint(format!(
        "to see what the agent may touch, run git agent show {short}"
    )))
}
