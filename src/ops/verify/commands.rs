//! The check commands, run in a worktree of the merge as it would be.
//!
//! The worktree stands beside those of the agents, not in the git dir, where test runners look for no
//! tests. An OS lock per agent keeps every other verify away from its place, so what a verify made and is
//! still there was left by a killed one and is removed first. Anything else there stays.

use crate::agents::check_worktree::CheckWorktree;
use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::agents::work::simulated;
use crate::domain::evidence::{CommandEnd, CommandRun, Commands, Evidence, Outcome};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::worktree::NewWorktree;
use crate::git::{Repo, populate};
use crate::ops::verify::COMMAND_LIMIT;
use crate::ops::verify::Case;
use crate::ops::verify::VerifyOptions;
use crate::ops::verify::facts;
use crate::proc::{self, End, Job};
use crate::store::{fsx, layout, lock};
use std::path::Path;

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
        run_in(ctx, options, checks, &directory)?
    } else {
        let common = ctx.repo.common_dir();
        let id = case.subject.agent.id;
        let short = id.short();
        fsx::create_dir(&layout::agent_dir(common, id))?;
        let _alone = lock::hold(common, &layout::verify_lock(&short))?;
        let stage = Stage::build(ctx, CheckWorktree::of(ctx, &short)?, commit)?;
        run_in(ctx, options, checks, &stage.place.path)?
    };
    if runs.iter().all(|run| run.end == CommandEnd::Status(0)) {
        facts::remember_success(known.as_ref(), commit, checks);
    }
    Ok(Commands::Ran(runs))
}

/// Runs commands in a directory, one after the other, until one fails.
fn run_in(
    ctx: &Ctx,
    options: &VerifyOptions,
    checks: &[String],
    directory: &Path,
) -> Result<Vec<CommandRun>> {
    let limit = options.limit.unwrap_or(COMMAND_LIMIT);
    let program = ctx.env.require_program()?;
    let mut runs = Vec::new();
    for script in checks {
        let finished = proc::run(&Job {
            program,
            script,
            directory,
            variables: &[],
            limit,
        })?;
        let end = match finished.end {
            End::Status(status) => CommandEnd::Status(status),
            End::TimedOut => CommandEnd::TimedOut(limit),
        };
        runs.push(CommandRun {
            command: script.clone(),
            end,
            output: finished.output,
        });
        if end != CommandEnd::Status(0) {
            break;
        }
    }
    Ok(runs)
}

fn success(command: &str) -> CommandRun {
    CommandRun {
        command: command.to_owned(),
        end: CommandEnd::Status(0),
        output: String::new(),
    }
}

/// A worktree that is gone when this is dropped.
struct Stage<'a> {
    repo: &'a Repo,
    place: CheckWorktree,
}

impl<'a> Stage<'a> {
    fn build(ctx: &'a Ctx, place: CheckWorktree, commit: Oid) -> Result<Stage<'a>> {
        let repo = &ctx.repo;
        let common_dir = repo.common_dir();
        place.make_way(repo)?;
        let stage = Stage { repo, place };
        {
            let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
            repo.add_worktree(&NewWorktree {
                name: &stage.place.name,
                path: &stage.place.path,
                branch: None,
                commit,
                scratch: &layout::tmp_dir(common_dir),
                lock_reason: layout::VERIFY_LOCK_REASON,
                identity: &ctx.identities()?.committer,
            })?;
        }
        populate::populate(&populate::Request {
            repo,
            worktree: &stage.place.path,
            admin_dir: &stage.place.admin_dir,
            commit,
            threads: 0,
        })?;
        Ok(stage)
    }

    fn tear_down(&self) -> Result<()> {
        let common_dir = self.repo.common_dir();
        let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
        if self.place.is_ours(self.repo) {
            self.place.remove(common_dir)
        } else {
            Ok(())
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next verify of the same agent.
        let _ = self.tear_down();
    }
}
