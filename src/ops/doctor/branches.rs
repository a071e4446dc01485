//! Branches of agents without a row, and rows without their branch. Which of the two is wrong only a
//! person knows, so both are reported and neither is changed. A branch that a power loss has emptied gets back what it named.

use crate::agents::work::{last_head, recorded_tip};
use crate::agents::{Ctx, context::untrusted, place::worktree};
use crate::domain::judge::diagnosis::Sign;
use crate::domain::{Agent, AgentId, Oid, branch_name};
use crate::error::Result;
use crate::git::{Tip, core::command};
use crate::ops::doctor::DoctorFinding;
use crate::ops::doctor::survey::Survey;
use crate::store::landing::spawn_commit::NONCE;
use crate::store::{chain, files::layout, ledger::agent_branch};
use std::collections::HashSet;
use std::path::Path;

pub(super) fn examine(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    if survey.agents.is_none() {
        return Ok(Vec::new());
    }
    let mut found = without_row(ctx)?;
    let emptied = agent_branch::emptied(&ctx.repo).into_iter();
    found.extend(emptied.map(|name| emptied_branch(survey, name)));
    // The branches of other clones' agents need not be here.
    for agent in survey.live().filter(|agent| survey.is_local(agent)) {
        if let Some(branch) = &agent.branch
            && agent_branch::local(&ctx.repo, agent)? == Tip::Absent
            && survey.is_at_rest(ctx, agent)
        {
            let short = branch_name(branch);
            // The reflog of the worktree survives the loss of a branch, and the row that of both.
            let known = match last_head(ctx, agent) {
                None => recorded_tip(ctx, agent)?,
                head => head,
            };
            let tip = known.unwrap_or(agent.spawn_commit);
            found.push(DoctorFinding::report(
                Sign::BranchGone,
                format!("agent {} has lost its branch {short}", agent.id.short()),
                format!("git branch {short} {tip}"),
            ));
        }
    }
    Ok(found)
}

fn emptied_branch(survey: &Survey, name: String) -> DoctorFinding {
    let mut rows = survey.rows().iter();
    let owner = rows.find(|agent| agent.branch.as_ref() == Some(&name)).cloned();
    let short = branch_name(&name);
    let what = format!("the branch {short} names nothing, or a commit that is lost");
    DoctorFinding::curable(Sign::BranchEmptied, what, move |ctx| {
        let who = chain::identity(&ctx.repo, ctx.now());
        let otherwise = owner.as_ref().map(|agent| agent.spawn_commit);
        let head = owner.as_ref().filter(|agent| is_on(ctx, agent, &name));
        let head = head.and_then(|agent| last_head(ctx, agent));
        let tip = agent_branch::mend(&ctx.repo, &name, otherwise, head, &who)?;
        Ok(tip.map_or("removed it".to_owned(), |tip| format!("it is at {tip} again")))
    })
}

/// The branches are listed first, then the journals asked, then the rows read: a spawn under way is in
/// one of the two.
fn without_row(ctx: &Ctx) -> Result<Vec<DoctorFinding>> {
    let arguments = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/agent/"];
    // git follows a link among the refs, and waits for a pipe that stands there.
    ctx.repo.require_listable("refs/heads")?;
    let listed = command::run(ctx.repo.common_dir(), arguments)?;
    let listed = String::from_utf8_lossy(&listed);
    let branches = listed.lines().filter_map(|line| line.split_once(' '));
    let candidates: Vec<_> = branches
        .filter_map(|(tip, branch)| Some((agent_of(ctx, Oid::from_hex(tip)?)?, branch)))
        .collect();
    let agents = ctx.ledger().agents()?;
    // A branch of the user's may be at an agent's commit that has landed.
    let known: HashSet<_> = agents.iter().map(|row| row.id).collect();
    let unknown = candidates.into_iter().filter(|(id, _)| !known.contains(id));
    let findings = unknown.map(|(_, branch)| {
        let short = branch_name(branch);
        DoctorFinding::report(
            Sign::BranchUnknown,
            format!("the branch {short} is an agent's and has no row"),
            "git agent sync <remote>",
        )
    });
    Ok(findings.collect())
}

/// The agent whose commit a tip is; `None` for one that a spawn has just made.
fn agent_of(ctx: &Ctx, tip: Oid) -> Option<AgentId> {
    let of_spawn = AgentId::from_spawn_commit(tip);
    // A spawn makes the branch before the row, and its journal stands for it meanwhile.
    if layout::journals_dir(ctx.repo.common_dir()).join(of_spawn.short()).exists() {
        return None;
    }
    let commit = ctx.repo.read_commit(tip).ok()?;
    let named = commit.trailer("Agent-Id").and_then(AgentId::parse);
    named.or_else(|| commit.trailer(NONCE).map(|_| of_spawn))
}

/// Whether HEAD of an agent's worktree is on a branch.
fn is_on(ctx: &Ctx, agent: &Agent, branch: &str) -> bool {
    let head = untrusted::read(&worktree::admin_dir(&ctx.repo, agent.id), Path::new("HEAD"), 4096);
    head.is_some_and(|head| head == format!("ref: {branch}\n").as_bytes())
}
