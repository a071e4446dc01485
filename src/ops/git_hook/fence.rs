//! What is out of an agent's scope, and how that is said in a hook.

use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::domain::path::Quoted;
use crate::domain::violation::{BundleRule, Violation};
use crate::error::{Code, Error, Result};
use crate::ops::Ctx;
use crate::ops::check::Fence;

/// How many paths one message names.
const NAMED: usize = 20;

/// Checks what the next commit would hold.
///
/// # Errors
/// `hook-refused`, naming the paths; those of [`Fence::around`].
pub(super) fn require_staged_in_scope(ctx: &Ctx, agent: Agent) -> Result<()> {
    let fence = Fence::around(&ctx.repo, agent)?;
    let changes = ctx.repo.staged_changes(&ctx.env.staging)?;
    let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
    refuse(fence.agent(), "staged", &violations).map_err(|error| {
        error.hint("to take a path out of the commit, run git restore --staged -- <path>")
    })
}

/// Checks every commit that `tip` has and `hidden` have not, each by itself: what a later commit takes
/// back was done all the same.
///
/// # Errors
/// As [`require_staged_in_scope`].
pub(super) fn require_commits_in_scope(
    ctx: &Ctx,
    agent: &Agent,
    hidden: &[Oid],
    tip: Oid,
) -> Result<()> {
    let commits = ctx.repo.commits_between(hidden, tip)?;
    if commits.is_empty() {
        return Ok(());
    }
    let fence = Fence::around(&ctx.repo, agent.clone())?;
    for commit in commits {
        let changes = ctx.repo.commit_changes(commit)?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
        let what = format!("touched by commit {}", commit.short());
        refuse(agent, &what, &violations).map_err(|error| {
            error.hint("to make the commit without a path, run git restore --staged -- <path>")
        })?;
    }
    Ok(())
}

fn refuse(agent: &Agent, what: &str, violations: &[Violation]) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    let lines = violations.iter().map(|violation| {
        let (path, kind) = (Quoted(&violation.path), violation.kind.as_str());
        format!("  {path} ({kind}): {}", violation.reason)
    });
    let offences: Vec<String> = lines.collect();
    let mut detail = offences[..offences.len().min(NAMED)].join("\n");
    if offences.len() > NAMED {
        detail.push_str(&format!("\n  and {} more", offences.len() - NAMED));
    }
    let short = agent.id.short();
    let noun = if offences.len() == 1 {
        "path is"
    } else {
        "paths are"
    };
    Err(Error::new(
        Code::HookRefused,
        format!(
            "{} {noun} {what} and out of the scope of agent {short}",
            offences.len()
        ),
    )
    .detail(detail)
    .hint(format!(
        "to see what it may touch, run git agent show {short}"
    )))
}
