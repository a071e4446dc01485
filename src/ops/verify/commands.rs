//! The check commands, run in a worktree of the merge as it would be.
//!
//! The worktree stands beside those of the agents, not in the git dir, where test runners look for no
//! tests. An OS lock per agent makes its name ours alone, so whatever is found under it was left by a
//! killed process and is removed first.

use super::work::simulated;
use super::{COMMAND_LIMIT, Case, VerifyOptions};
use crate::domain::evidence::{CommandEnd, CommandRun, Commands, Evidence, Outcome};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::populate;
use crate::git::worktree::NewWorktree;
use crate::ops::Ctx;
use crate::ops::spawn::WORKTREE_DIR;
use crate::proc::{self, End, Job};
use crate::store::{fsx, layout, lock, trash};
use std::path::{Path, PathBuf};

/// Runs the commands of the policy one after the other, until one fails.
pub(super) fn run(
    ctx: &Ctx,
    options: &VerifyOptions,
    case: &Case<'_>,
    evidence: &Evidence,
) -> Result<Commands> {
    let checks = &case.fence.policy().checks;
    let outcome = evidence.landing.as_ref().map(|landing| &landing.outcome);
    let (false, Some(Outcome::Clean { tree } | Outcome::FastForward { tree })) =
        (checks.is_empty(), outcome)
    else {
        return Ok(Commands::None);
    };
    if options.no_commands {
        return Ok(Commands::Skipped);
    }
    let common = ctx.repo.common_dir();
    let id = case.subject.agent.id;
    let short = id.short();
    fsx::create_dir(&layout::agent_dir(common, id))?;
    let _alone = lock::hold(common, &layout::verify_lock(&short))?;
    let base = case.subject.base.unwrap_or(case.started);
    let commit = simulated(&ctx.repo, *tree, &[base, case.subject.tip])?;
    let stage = Stage::build(ctx, Place::of(ctx, &short)?, commit)?;
    let limit = options.limit.unwrap_or(COMMAND_LIMIT);
    let program = ctx.env.require_program()?;
    let mut runs = Vec::new();
    for script in checks {
        let directory = &stage.place.path;
        let finished = proc::run(&Job {
            program,
            script,
            directory,
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
    Ok(Commands::Ran(runs))
}

/// Where the check commands of one agent run.
pub(in crate::ops) struct Place {
    name: String,
    /// The worktree.
    pub(in crate::ops) path: PathBuf,
    /// Its admin directory.
    pub(in crate::ops) admin_dir: PathBuf,
}

impl Place {
    /// That of the agent with these first eight digits, whether anything is there or not.
    pub(in crate::ops) fn of(ctx: &Ctx, short_id: &str) -> Result<Place> {
        let name = layout::verify_worktree_name(short_id);
        Ok(Place {
            path: ctx.repo.root()?.join(WORKTREE_DIR).join(&name),
            admin_dir: ctx.repo.admin_dir(&name),
            name,
        })
    }

    /// Removes what is there, and the directories above that were made for it alone.
    pub(in crate::ops) fn clear(&self, common_dir: &Path) -> Result<()> {
        // A spawn makes the same parents, and reads the list of worktrees.
        let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
        for directory in [&self.path, &self.admin_dir] {
            if directory.exists() {
                trash::remove(common_dir, directory)?;
            }
        }
        // Others are not empty.
        for directory in self.path.ancestors().skip(1).take(2) {
            let _ = std::fs::remove_dir(directory);
        }
        Ok(())
    }
}

/// A worktree that is gone when this is dropped.
struct Stage<'a> {
    common_dir: &'a Path,
    place: Place,
}

impl<'a> Stage<'a> {
    fn build(ctx: &'a Ctx, place: Place, commit: Oid) -> Result<Stage<'a>> {
        let repo = &ctx.repo;
        let common_dir = repo.common_dir();
        place.clear(common_dir)?;
        let stage = Stage { common_dir, place };
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
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next verify of the same agent.
        let _ = self.place.clear(self.common_dir);
    }
}
