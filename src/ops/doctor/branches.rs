//! Branches of agents without a row, and rows without their branch. Which of the two is wrong only a
//! person knows, so both are reported and neither is changed.

use crate::agents::ctx::Ctx;
use crate::agents::{untrusted, worktree};
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::command;
use crate::git::objects::Commit;
use crate::git::refs::Tip;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::{agent_branch, layout};
use std::collections::HashSet;
use std::path::Path;

/// Trailers of commits that are an agent's.
const TRAILERS: [&str; 2] = ["Agent-Nonce", "Agent-Id"];

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    if survey.agents.is_none() {
        return Ok(Vec::new());
    }
    let mut found = without_row(ctx)?;
    // The branches of other clones' agents need not be here.
    for agent in survey.live().filter(|agent| survey.is_local(agent)) {
        if let Some(branch) = &agent.branch
            && agent_branch::local(&ctx.repo, agent)? == Tip::Absent
            && survey.is_at_rest(ctx, agent)
        {
            let short = branch.trim_start_matches("refs/heads/");
            // The reflog of the worktree survives the loss of a branch; without one the work begins
            // anew.
            let tip = last_head(ctx, agent).unwrap_or(agent.spawn_commit);
            found.push(Finding::report(
                Sign::BranchGone,
                format!("agent {} has lost its branch {short}", agent.id.short()),
                format!("git branch {short} {tip}"),
            ));
        }
    }
    Ok(found)
}

/// The branches are listed first, then the journals asked, then the rows read: a spawn under way is in
/// one of the two.
fn without_row(ctx: &Ctx) -> Result<Vec<Finding>> {
    let arguments = [
        "for-each-ref",
        "--format=%(objectname) %(refname)",
        "refs/heads/agent/",
    ];
    // git follows a link among the refs, and waits for a pipe that stands there.
    ctx.repo.require_listable("refs/heads")?;
    let listed = command::run(ctx.repo.common_dir(), arguments)?;
    let listed = String::from_utf8_lossy(&listed);
    let branches = listed.lines().filter_map(|line| line.split_once(' '));
    let candidates: Vec<_> = branches
        .filter(|(tip, _)| Oid::from_hex(tip).is_some_and(|tip| is_agents(ctx, tip)))
        .collect();
    let agents = ctx.ledger().agents()?;
    let known: HashSet<_> = agents
        .iter()
        .filter_map(|row| row.branch.as_deref())
        .collect();
    let unknown = candidates
        .into_iter()
        .filter(|(_, branch)| !known.contains(branch));
    let findings = unknown.map(|(_, branch)| {
        let short = branch.trim_start_matches("refs/heads/");
        Finding::report(
            Sign::BranchUnknown,
            format!("the branch {short} is an agent's and has no row"),
            "git agent sync <remote>",
        )
    });
    Ok(findings.collect())
}

/// Whether a tip is an agent's commit, and not one that a spawn has just made.
fn is_agents(ctx: &Ctx, tip: Oid) -> bool {
    // A spawn makes the branch before the row, and its journal stands for it meanwhile.
    let journals = layout::journals_dir(ctx.repo.common_dir());
    let is_under_way = journals
        .join(AgentId::from_spawn_commit(tip).short())
        .exists();
    let commit = ctx.repo.read_commit(tip).ok();
    let has_trailer = |commit: &Commit| TRAILERS.iter().any(|name| commit.trailer(name).is_some());
    !is_under_way && commit.as_ref().is_some_and(has_trailer)
}

/// Where HEAD of an agent's worktree last was, by its reflog.
fn last_head(ctx: &Ctx, agent: &Agent) -> Option<Oid> {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    let log = untrusted::log(&admin, Path::new("logs/HEAD"));
    let log = String::from_utf8_lossy(&log);
    let tip = log.lines().next_back()?.split(' ').nth(1)?;
    // The worktree was the agent's to write, its logs too.
    Oid::from_hex(tip).filter(|oid| ctx.repo.has_object(*oid))
}
