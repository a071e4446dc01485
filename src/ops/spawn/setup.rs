//! `[setup]`: ignored files brought into the new worktree, and commands run in it, before the agent is
//! declared ready.

use crate::agents::check_run::set_up_fenced;
use crate::agents::commands::{self, CommandSubject};
use crate::agents::ctx::Ctx;
use crate::agents::ignored_files;
use crate::agents::work::uncommitted::whole_tree;
use crate::agents::worktree::{AgentWorktree, admin_dir};
use crate::domain::baseline::Baseline;
use crate::domain::oid::Oid;
use crate::domain::repository_settings::{HookMoment, PATH};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::landing::linked_at;
use crate::ops::spawn::contract::SpawnPlan;
use crate::store::{facts, layout, repository_settings, roles};
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
    preset: Preset,
) -> Result<Vec<String>> {
    let mut warnings = Vec::new();
    let copies = !plan.task.setup_copy.is_empty() || plan.include.is_some();
    // Every other preset has these files already.
    if copies && preset == Preset::Nothing {
        match ctx.repo.main_worktree()? {
            Some(root) => {
                warnings = ignored_files::bring(ctx, &root, worktree, &plan.wanted_files())?
            }
            None => warnings.push("[setup] copies nothing: there is no main worktree".to_owned()),
        }
    }
    let subject = CommandSubject {
        id: Some(plan.id),
        branch: Some(branch),
        worktree: Some(worktree),
    };
    // A warm worktree is for every task, so no project is set up in it yet.
    let run = match preset {
        Preset::Nothing | Preset::Files => plan.setup_commands(),
        Preset::AllWithLeftovers(_) | Preset::All => plan.project_setup.clone(),
        Preset::Everything => Vec::new(),
    };
    if !run.is_empty() {
        let run = &run;
        // Who wrote that base may not run anything as the user.
        let admin_dir = plan.is_of_others().then(|| admin_dir(&ctx.repo, plan.id));
        let done = match admin_dir {
            Some(admin_dir) => set_up_fenced(ctx, &subject, run, worktree, admin_dir),
            None => commands::set_up(ctx, &subject, run, worktree, None),
        };
        done.map_err(|error| located(ctx, plan, error))?;
    }
    Ok(warnings)
}

/// Says where the command stands that failed, and how to go on: what the repository's settings say fails every spawn.
fn located(ctx: &Ctx, plan: &SpawnPlan, error: Error) -> Error {
    if error.code() != Code::SetupFailed {
        return error;
    }
    let Some(line) = line_of_setup(ctx, plan, error.message()) else {
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

/// The line of the repository's settings that the command comes from that an error names; `None` where the task has its own.
fn line_of_setup(ctx: &Ctx, plan: &SpawnPlan, error: &str) -> Option<usize> {
    let base = plan.settings_at;
    let file = repository_settings::read(&ctx.repo, base).ok()??;
    let roles = roles::load(&ctx.repo, base).ok()?;
    let settings = repository_settings::load(&ctx.repo, base, &roles).ok()?;
    let of_project = { settings.projects.all().iter() }
        .find(|one| one.setup.iter().any(|command| error.contains(command)));
    // The task may have named commands of its own, which stand in no file.
    if of_project.is_none() && settings.setup_run.as_ref() != Some(&plan.task.setup_run) {
        return None;
    }
    let key = of_project.map_or_else(
        || "setup.run".to_owned(),
        |project| format!("project.{}", project.path),
    );
    let keys = settings_file::set_keys(&file);
    keys.iter().find(|set| set.key == key).map(|set| set.line)
}

/// Runs the commands of `after_spawn`; gives what should be known of one that failed: the agent is ready all the same.
pub(super) fn after_spawn(ctx: &Ctx, plan: &SpawnPlan, branch: Option<&str>) -> Option<String> {
    let commands = &plan.after_spawn;
    if !plan.hooks || commands.is_empty() {
        return None;
    }
    let subject = CommandSubject {
        id: Some(plan.id),
        branch,
        worktree: plan.worktree.as_deref(),
    };
    let ran = commands::run_hook(ctx, HookMoment::AfterSpawn, &subject, commands);
    ran.err().as_ref().map(commands::in_one_line)
}

/// What of the set-up was done before the agent was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Preset {
    /// Nothing: the worktree is new.
    #[default]
    Nothing,
    /// Files were copied; the commands have to run, again or for the first time.
    Files,
    /// Everything that is not a project's, and it left something that git does not ignore: the tree of all files.
    AllWithLeftovers(Oid),
    /// Everything that is not a project's, and it left nothing but ignored files.
    All,
    /// Everything, that of projects too.
    Everything,
}

/// Whether set-up may have left something that counts as a change.
pub(super) fn leaves_something(plan: &SpawnPlan, preset: Preset) -> bool {
    match preset {
        Preset::Everything => false,
        Preset::All => !plan.project_setup.is_empty(),
        _ => {
            let copies = !plan.task.setup_copy.is_empty() || plan.include.is_some();
            copies || !plan.setup_commands().is_empty()
        }
    }
}

/// Records what the worktree of a new agent holds that its branch does not, so that it is no work of the agent's; gives
/// the blob, if there is anything. What the commands staged is staged no longer: what is staged is work. Where it is known what was
/// `made`, nothing else is the set-up's: a person may have written since.
///
/// # Errors
/// Those of git, the file system and the keep chain.
pub(super) fn record(
    ctx: &Ctx,
    plan: &SpawnPlan,
    worktree: &Path,
    branch: &str,
    made: Option<Oid>,
) -> Result<Option<Oid>> {
    let repo = &ctx.repo;
    let name = layout::worktree_name(plan.id);
    let tip = repo.tip(branch)?.oid().unwrap_or(plan.spawn_commit);
    let before = repo.read_commit(tip)?.tree;
    let checkout = linked_at(repo, &name, worktree, &ctx.temporary_place())?;
    // Set-up may have run git and staged something; what is there is told apart from the commit,
    // and not from that.
    if checkout.staged_tree(repo).ok() != Some(before) {
        checkout.stage(before)?;
    }
    let place = AgentWorktree::new(worktree, checkout.git_dir);
    let found = match made {
        Some(made) => Some(made),
        None => whole_tree(ctx, tip, &place, Some(&plan.bundle_dir))?,
    };
    let Some(tree) = found else {
        return Ok(None);
    };
    let found = Baseline::of(repo.differences(before, tree)?);
    facts::keep_baseline(repo, plan.id, &found, ctx.now()).map(Some)
}
