//! The check commands, run in a worktree of the merge as it would be.
//!
//! The worktree stands beside those of the agents, not in the git dir, where test runners look for no
//! tests. An OS lock per agent keeps every other verify away from its place, so what a verify made and is
//! still there was left by a killed one and is removed first. Anything else there stays.

use super::work::simulated;
use super::{COMMAND_LIMIT, Case, VerifyOptions, facts};
use crate::domain::evidence::{CommandEnd, CommandRun, Commands, Evidence, Outcome};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::worktree::{NewWorktree, belongs_to};
use crate::git::{Repo, populate};
use crate::hosts::WORKTREE_DIR;
use crate::ops::Ctx;
use crate::ops::scratch::Scratch;
use crate::proc::{self, End, Job};
use crate::store::{fsx, layout, lock, trash};
use std::fs;
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
        // Nothing of this agent is here, and nothing of it is to be left.
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
        let stage = Stage::build(ctx, Place::of(ctx, &short)?, commit)?;
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

    /// Whether nothing is there but what a verify made: an admin directory with our lock, and the directory
    /// that it alone claims. One that was killed early left a directory that holds no more than the
    /// way to an admin directory that never was.
    pub(in crate::ops) fn is_ours(&self, repo: &Repo) -> bool {
        let is_linked = belongs_to(&self.path, &self.admin_dir);
        match repo.worktree(&self.name) {
            Some(linked) => {
                let is_elsewhere = belongs_to(&linked.path, &self.admin_dir);
                linked.lock_reason.as_deref() == Some(layout::VERIFY_LOCK_REASON)
                    && (is_linked || !is_there(&self.path) && !is_elsewhere)
            }
            None => !is_there(&self.admin_dir) && self.is_bare(is_linked),
        }
    }

    /// Whether its HEAD is not where the verify put it: the worktree was used since.
    pub(in crate::ops) fn has_moved(&self) -> bool {
        let head = fs::read_to_string(self.admin_dir.join("HEAD")).unwrap_or_default();
        let log = fs::read_to_string(self.admin_dir.join("logs/HEAD")).unwrap_or_default();
        head.starts_with("ref: ") || log.lines().count() > 1
    }

    /// Whether the directory is absent, or holds nothing but a `.git` file that leads to our place.
    fn is_bare(&self, is_linked: bool) -> bool {
        let Ok(metadata) = fs::symlink_metadata(&self.path) else {
            return true;
        };
        let is_empty = || {
            let mut entries = fs::read_dir(&self.path).into_iter().flatten();
            entries.all(|entry| entry.is_ok_and(|entry| is_linked && entry.file_name() == ".git"))
        };
        metadata.is_dir() && is_empty()
    }

    /// Removes what is there, which the caller knows to be ours, and the directories above that were made for
    /// it alone. The caller holds the lock of spawns, which make the same parents.
    pub(in crate::ops) fn remove(&self, common_dir: &Path) -> Result<()> {
        for directory in [&self.path, &self.admin_dir] {
            if is_there(directory) {
                trash::remove(common_dir, directory)?;
            }
        }
        // Others are not empty.
        for directory in self.path.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }

    /// Removes what a killed verify left.
    fn make_way(&self, repo: &Repo) -> Result<()> {
        let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
        match self.is_ours(repo) && !self.has_moved() {
            true => self.remove(repo.common_dir()),
            false => Err(self.taken()),
        }
    }

    fn taken(&self) -> Error {
        Error::new(
            Code::PathExists,
            format!(
                "the check commands would run in {}, and what is there was not made for them",
                self.path.display()
            ),
        )
        .because("only what a verify itself left there is removed")
        .hint(format!(
            "to move it out of the way, run git worktree move -f -f {} <elsewhere>",
            self.path.display()
        ))
        .hint("to see whose it is, run git worktree list --verbose")
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// A worktree that is gone when this is dropped.
struct Stage<'a> {
    repo: &'a Repo,
    place: Place,
}

impl<'a> Stage<'a> {
    fn build(ctx: &'a Ctx, place: Place, commit: Oid) -> Result<Stage<'a>> {
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
        match self.place.is_ours(self.repo) {
            true => self.place.remove(common_dir),
            false => Ok(()),
        }
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next verify of the same agent.
        let _ = self.tear_down();
    }
}
