//! Whether a new agent's worktree is layered, and over which base.

use crate::agents::ctx::Ctx;
use crate::agents::frozen::{self, FrozenBase};
use crate::agents::furnish::WantedContent;
use crate::agents::layered;
use crate::domain::sandbox::Layering;
use crate::error::{Code, Error, Result};
use crate::ops::spawn::contract::SpawnPlan;

/// The base of the plan's worktree; `None` for an ordinary one. Where `auto` cannot have one, a warning says why.
///
/// # Errors
/// `sandbox-unavailable` where nothing else will do; those of making a base.
pub(super) fn obtain(ctx: &Ctx, plan: &mut SpawnPlan) -> Result<Option<FrozenBase>> {
    if plan.layered == Layering::Off || plan.worktree.is_none() {
        return Ok(None);
    }
    let why = match obstacle(ctx, plan)? {
        Some(why) => why,
        None => {
            let wanted = WantedContent {
                commit: plan.base.oid,
                tree: plan.tree,
                files: plan.wanted_files(),
                run: &plan.setup_commands(),
            };
            match frozen::obtain(ctx, &wanted)? {
                Ok(base) => return Ok(Some(base)),
                Err(why) => why,
            }
        }
    };
    if plan.layered == Layering::On {
        let what = format!("no layered worktree can be had here: {why}");
        return Err(Error::new(Code::SandboxUnavailable, what)
            .hint("to copy the files where none can be had, pass --layered=auto"));
    }
    plan.warnings
        .push(format!("the worktree is not layered: {why}"));
    Ok(None)
}

/// What stands against it, in one sentence. What the agent's files are must be told by its upper directory alone, and all that
/// happens to a new worktree outside of a fence would need the files in their place.
fn obstacle(ctx: &Ctx, plan: &SpawnPlan) -> Result<Option<String>> {
    let repo = &ctx.repo;
    let reason = if plan.is_of_others() {
        "others wrote what the agent starts from, and a base is for every agent"
    } else if plan.clone {
        "a repository of its own needs files of its own"
    } else if plan.cone.is_some() || repo.config_bool("core.sparseCheckout")? == Some(true) {
        "a sparse worktree has its own files"
    } else if repo.entry_at(plan.tree, ".gitmodules")?.is_some() {
        "the base has submodules"
    } else if !plan.leases.is_empty() && !plan.setup_commands().is_empty() {
        "set-up commands may use the values that each agent has of its own"
    } else if plan.hooks && !plan.after_spawn.is_empty() {
        "after_spawn of [hooks] runs in the worktree"
    } else if plan.hooks && repo.may_have_hook("post-checkout")? {
        "the repository has a post-checkout hook, which runs in the worktree"
    // An overlay tells names apart by their bytes, where the file system below does not.
    } else if names_may_differ(ctx)? {
        "names of files differ by more than their bytes here"
    } else {
        return layered::refused_by_kernel(ctx);
    };
    Ok(Some(reason.to_owned()))
}

/// Settings under which a name on the disk may be another one in the index.
fn names_may_differ(ctx: &Ctx) -> Result<bool> {
    let is_set = |key| Ok::<_, Error>(ctx.repo.config_bool(key)? == Some(true));
    Ok(is_set("core.ignoreCase")? || is_set("core.precomposeUnicode")?)
}
