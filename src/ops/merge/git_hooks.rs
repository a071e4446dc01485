//! The git hooks that `[merge] hooks` names: asked before anything lands, in a worktree of what would.
//!
//! Each hook sees what it would see in `git commit` on top of the target: the files of the merged tree, all differences from the target
//! staged. It runs behind the fence, after the set-up, where check commands run, and no lock of the landing is held meanwhile.

use crate::agents::check_run::{CheckRequest, CheckRoom};
use crate::agents::check_setup::CheckSetup;
use crate::agents::check_worktree::CheckWorktree;
use crate::agents::commands;
use crate::agents::ctx::Ctx;
use crate::agents::work::simulated;
use crate::domain::evidence::CommandRun;
use crate::domain::oid::Oid;
use crate::domain::sandbox::Mode;
use crate::error::{Code, Error, Result};
use crate::ops::merge::MergePlan;
use crate::proc::sandbox;
use crate::store::{fsx, layout, lock};

/// Asks the hooks about each landing of a stack, and leaves in `at` the number of the one that they refuse.
///
/// # Errors
/// `hook-refused` where one fails or changes files; those of making a worktree and of starting a command.
pub(super) fn ask_git_hooks(ctx: &Ctx, plans: &[MergePlan], at: &mut Option<usize>) -> Result<()> {
    let Some(first) = plans.first() else {
        return Ok(());
    };
    let mut below = first.base;
    for (number, plan) in plans.iter().enumerate() {
        if plan.landed.is_some() || plan.git_hooks.is_empty() {
            continue;
        }
        *at = Some(number);
        let commit = simulated(&ctx.repo, plan.merged_tree, &[below])?;
        ask(ctx, plan, below, commit)?;
        below = commit;
    }
    *at = None;
    Ok(())
}

fn ask(ctx: &Ctx, plan: &MergePlan, below: Oid, commit: Oid) -> Result<()> {
    let (common, id) = (ctx.repo.common_dir(), plan.agent.id);
    let short = id.short();
    // Checks of the same agent run in the same place.
    fsx::create_dir(&layout::agent_dir(common, id))?;
    let _alone = lock::hold(common, &layout::verify_lock(&short))?;
    let enforcement = sandbox::enforcement(Mode::Auto, ctx.env.require_program()?)?;
    let setup = CheckSetup::at(ctx, plan.base)?;
    let request = CheckRequest {
        commit,
        place: Some(CheckWorktree::of(ctx, &short)?),
        setup: &setup,
        fence: (Mode::Auto, &enforcement),
        variables: &commands::leased(ctx, id)?,
    };
    let mut room = CheckRoom::open(ctx, request)?;
    if let Some(failed) = room.set_up()? {
        let what = format!(
            "the set-up command `{}` before the git hooks",
            failed.command
        );
        return Err(refused(plan, &what, &failed));
    }
    for name in &plan.git_hooks {
        let (run, has_changed) = room.run_hook(name, below)?;
        let what = format!("the git hook {name} of the repository");
        if !run.is_success() {
            return Err(refused(plan, &what, &run));
        }
        if has_changed {
            let what = format!("{what} changed files of what would land");
            return Err(refusal(plan, &what, run.output).hint(
                "to land what it makes of them, run it in the agent's worktree, and commit there",
            ));
        }
    }
    Ok(())
}

fn refused(plan: &MergePlan, what: &str, run: &CommandRun) -> Error {
    let how = format!("{what} {}", run.end);
    refusal(plan, &how, run.output.clone())
}

fn refusal(plan: &MergePlan, what: &str, said: String) -> Error {
    let short = plan.agent.id.short();
    Error::new(
        Code::HookRefused,
        format!("{what}, so the work of agent {short} does not land"),
    )
    .because(said.trim().to_owned())
    .hint(format!(
        "to land it without the hooks of [merge] and [hooks], run git agent merge {short} --no-hooks"
    ))
}
