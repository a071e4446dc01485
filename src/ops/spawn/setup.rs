//! `[setup]`: ignored files brought into the new worktree, and commands run in it, before the agent is
//! declared ready.

use crate::agents::commands::{self, CommandSubject};
use crate::agents::ctx::Ctx;
use crate::agents::work::uncommitted::whole_tree;
use crate::agents::worktree::AgentWorktree;
use crate::domain::baseline::Baseline;
use crate::domain::oid::Oid;
use crate::domain::repository_settings::{HookMoment, PATH};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::landing::linked_at;
use crate::ops::spawn::contract::SpawnPlan;
use crate::ops::spawn::ignored_files;
use crate::store::{baseline, layout, repository_settings, roles};
use crate::wire::settings_file;
use std::path::Path;

/// Copies and runs what the task asks for; gives what its author should know.
///
/// # Errors
/// `io` when a file cannot be copied; `setup-failed` when a command fails, with what it said. Either
/// undoes the spawn.
pub(super) fn set_up(
    ctx: &Ctx,
    plan: &SpawnPlan,
    worktree: &Path,
    branch: &str,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    if !plan.task.setup_copy.is_empty() || plan.include.is_some() {
        match ctx.repo.main_worktree()? {
            Some(root) => warnings = ignored_files::bring(ctx, &root, worktree, plan)?,
            None => warnings.push("[setup] copies nothing: there is no main worktree".to_owned()),
        }
    }
    let subject = CommandSubject {
        id: plan.id,
        branch: Some(branch),
        worktree: Some(worktree),
    };
    commands::set_up(ctx, &subject, &plan.task.setup_run, worktree)
        .map_err(|error| located(ctx, plan, error))?;
    Ok(warnings)
}

/// Says where the command stands that failed, and how to go on: what the repository's settings say fails every spawn.
fn located(ctx: &Ctx, plan: &SpawnPlan, error: Error) -> Error {
    if error.code() != Code::SetupFailed {
        return error;
    }
    let Some(line) = line_of_setup(ctx, plan) else {
        let file = &plan.task_file;
        return error.hint(format!(
            "it is in [setup] of the task; to try it again, correct it and run git agent spawn {file}"
        ));
    };
    let place = format!("{PATH}:{line}");
    error
        .hint(format!(
            "it stands at {place}; to go on, correct it and run git commit -m \"correct the setup\" -- {PATH}"
        ))
        .remedy(
            "to start from a commit without it",
            Remedy::SpawnFromCommit,
        )
}

/// The line of the repository's settings that the set-up commands come from; `None` where the task has its own.
fn line_of_setup(ctx: &Ctx, plan: &SpawnPlan) -> Option<usize> {
    let base = plan.base.oid;
    let file = repository_settings::read(&ctx.repo, base).ok()??;
    let roles = roles::load(&ctx.repo, base).ok()?;
    let settings = repository_settings::load(&ctx.repo, base, &roles).ok()?;
    if settings.setup_run.as_ref() != Some(&plan.task.setup_run) {
        return None;
    }
    let lines = settings_file::lines(&file);
    let line = lines.iter().find(|(key, _)| key == "setup.run");
    line.map(|(_, line)| *line)
}

/// Runs the commands of `after_spawn`; gives what should be known of one that failed: the agent is ready all the same.
pub(super) fn after_spawn(ctx: &Ctx, plan: &SpawnPlan, branch: Option<&str>) -> Option<String> {
    let commands = &plan.after_spawn;
    if !plan.hooks || commands.is_empty() {
        return None;
    }
    let subject = CommandSubject {
        id: plan.id,
        branch,
        worktree: plan.worktree.as_deref(),
    };
    let ran = commands::run_hook(ctx, HookMoment::AfterSpawn, &subject, commands);
    ran.err().as_ref().map(commands::in_one_line)
}

/// Whether the plan has anything to set up.
pub(super) fn has_work(plan: &SpawnPlan) -> bool {
    let task = &plan.task;
    !task.setup_copy.is_empty() || !task.setup_run.is_empty() || plan.include.is_some()
}

/// Records what the worktree of a new agent holds that its branch does not, so that it is no work of the agent's; gives
/// the blob, if there is anything. What the commands staged is staged no longer: what is staged is work.
///
/// # Errors
/// Those of git, the file system and the keep chain.
pub(super) fn record(
    ctx: &Ctx,
    plan: &SpawnPlan,
    worktree: &Path,
    branch: &str,
) -> Result<Option<Oid>> {
    let repo = &ctx.repo;
    let name = layout::worktree_name(plan.id);
    let tip = repo.tip(branch)?.oid().unwrap_or(plan.spawn_commit);
    let before = repo.read_commit(tip)?.tree;
    let checkout = linked_at(repo, &name, worktree, &ctx.temporary_place())?;
    if checkout.staged_tree(repo).ok() != Some(before) {
        checkout.stage(before)?;
    }
    let place = AgentWorktree {
        path: worktree.to_owned(),
        admin_dir: checkout.git_dir,
    };
    let Some(tree) = whole_tree(ctx, tip, &place, Some(&plan.bundle_dir))? else {
        return Ok(None);
    };
    let found = Baseline::of(repo.differences(before, tree)?);
    baseline::keep(repo, plan.id, &found, &plan.identities, ctx.now()).map(Some)
}
