//! The verdict on work that cannot be read: a branch, an object, an index or a file that an agent left broken is a
//! reason to reject its work, not a failure of the program.

use super::VerifyOptions;
use super::subject::is_foreign;
use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::agents::work::base_of;
use crate::domain::evidence::Commands;
use crate::domain::finding::{Finding, FindingCode, Verdict};
use crate::error::{Code, Error, Result};
use crate::store::ledger::Ledger;
use crate::store::spawn_commit;

/// Gives the rejecting verdict where judging failed because of the agent's own state, and the error where it did not.
/// Nothing is recorded: the verdict is about no commit.
///
/// # Errors
/// The one that it was given.
pub(super) fn verdict(ctx: &Ctx, options: &VerifyOptions, error: Error) -> Result<Verdict> {
    match of_agent(ctx, options, &error) {
        Some(verdict) => Ok(verdict),
        None => Err(error),
    }
}

fn of_agent(ctx: &Ctx, options: &VerifyOptions, error: &Error) -> Option<Verdict> {
    let is_about_files = matches!(
        error.code(),
        Code::BaseNotCommit
            | Code::GitFailed
            | Code::FileTooLong
            | Code::RepoCorrupt
            | Code::Io
            | Code::HistoryIncomplete
    );
    // A commit that the caller names may be anything.
    if !is_about_files || options.ci || options.tip.is_some() {
        return None;
    }
    let ledger = Ledger::new(&ctx.repo);
    let agent = lookup::agent(ctx, &ledger, options.agent.as_deref()?).ok()?;
    // Objects that were never fetched are no fault of the agent.
    let is_whole = !ctx.repo.is_shallow() && !ctx.repo.is_partial();
    if !is_whole || is_foreign(ctx, &ledger, &agent).ok()? {
        return None;
    }
    let policy = spawn_commit::if_here(&ctx.repo, &agent).ok()??;
    let base = agent.base.as_ref()?.oid;
    let (base_ref, base_tip) = base_of(ctx, &agent, options.base.as_deref()).ok()?;
    let base_tip = base_tip.unwrap_or(base);
    for commit in [base, base_tip, agent.spawn_commit] {
        let tree = ctx.repo.read_commit(commit).ok()?.tree;
        ctx.repo.read_tree(tree).ok()?;
    }
    let tip = { agent.branch.as_ref() }.and_then(|branch| ctx.repo.tip(branch).ok()?.oid());
    let commit = tip.and_then(|tip| ctx.repo.read_commit(tip).ok());
    let commit = match commit {
        Some(commit) => commit,
        None => ctx.repo.read_commit(agent.spawn_commit).ok()?,
    };
    let mut message = error.message().to_owned();
    for cause in error.causes() {
        message.push_str(": ");
        message.push_str(&cause.replace('\n', " "));
    }
    let id = agent.id.short();
    let fix = format!("mend it, or keep what can be read: git agent discard {id}");
    let finding = Finding::new(FindingCode::WorkUnreadable, message, fix);
    Some(Verdict {
        agent: agent.id,
        tip: commit.oid,
        tree: commit.tree,
        base_ref,
        base: base_tip,
        bundle_required: policy.bundle_required,
        bundle: None,
        policy: agent.binding_policy()?,
        uncommitted: 0,
        ignored: None,
        from_setup: None,
        droppings: Vec::new(),
        landing: None,
        commands: Commands::None,
        findings: vec![finding],
    })
}
