//! How a hook says what is out of an agent's scope.

use crate::agents::ctx::Ctx;
use crate::agents::scope_guard::ScopeGuard;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::domain::path::Quoted;
use crate::domain::violation::{BundleRule, Violation};
use crate::error::{Code, Error, ErrorFacts, Result};

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
