//! The check commands, run in a worktree of the merge as it would be.
//!
//! The worktree stands beside those of the agents, not in the git dir, where test runners look for no
//! tests. An OS lock per agent keeps every other verify away from its place, so what a verify made and is
//! still there was left by a killed one and is removed first. Anything else there stays.

use crate::agents::check_run::{CheckRun, run_checks};
use crate::agents::check_worktree::{CheckStage, CheckWorktree};
use crate::agents::commands;
use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::agents::work::simulated;
use crate::domain::evidence::{CommandEnd, CommandRun, Commands, Evidence, Outcome};
use crate::error::Result;
use crate::ops::verify::{COMMAND_LIMIT, Case, VerifyOptions, facts};
use crate::store::{fsx, layout, lock};

/// Runs the commands of the policy one after the other, until one fails.
pub(super) fn run(
    ctx: &Ctx,
    options: &VerifyOptions,
    case: &Case<'_>,
    evidence: &Evidence,
) -> Result<Commands> {
    let checks = &case.fence.policy().checks;
    let outcome = evidence.landing.as_ref().map(|landing| &landing.outcome);
    let (
        false,
        Some(
            Outcome::Clean { tree } | Outcome::FastForward { tree } | Outcome::OutOfReach { tree },
        ),
    ) = (checks.is_empty(), outcome)
    else {
        return Ok(Commands::None);
    };
    if options.no_commands {
        return Ok(Commands::Skipped);
    }
    let base = case.subject.base.unwrap_or(case.started);
    let commit = simulated(&ctx.repo, *tree, &[base, case.subject.tip])?;
    let leases = commands::leased(ctx, case.subject.agent.id)?;
    let how = CheckRun {
        limit: options.limit.unwrap_or(COMMAND_LIMIT),
        keep_going: false,
        fence: None,
        variables: &leases,
    };
    let known = case.facts(ctx);
    if facts::succeed(known.as_ref(), commit, checks) {
        return Ok(Commands::Ran(
            checks.iter().map(|one| success(one)).collect(),
        ));
    }
    let runs = if ctx.repo.is_scratch() || case.subject.is_foreign {
        // Nothing is to be left here, or may be written.
        let scratch = Scratch::make(ctx, "checks")?;
        let directory = scratch.path().join("merged");
        ctx.repo.check_out_apart(&directory, commit)?;
        run_checks(ctx, checks, &directory, how)?
    } else {
        let common = ctx.repo.common_dir();
        let id = case.subject.agent.id;
        let short = id.short();
        fsx::create_dir(&layout::agent_dir(common, id))?;
        let _alone = lock::hold(common, &layout::verify_lock(&short))?;
        let stage = CheckStage::build(ctx, CheckWorktree::of(ctx, &short)?, commit)?;
        run_checks(ctx, checks, stage.path(), how)?
    };
    if runs.iter().all(|run| run.end == CommandEnd::Status(0)) {
        facts::remember_success(known.as_ref(), commit, checks);
    }
    Ok(Commands::Ran(runs))
}

fn success(command: &str) -> CommandRun {
    CommandRun {
        command: command.to_owned(),
        end: CommandEnd::Status(0),
        output: String::new(),
    }
}
