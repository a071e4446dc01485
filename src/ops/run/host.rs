//! What a host finds when it starts: its home for this run, our hooks, and this program on its path.

use crate::agents::ctx::Ctx;
use crate::agents::liveness;
use crate::domain::agent::Agent;
use crate::domain::sandbox::Enforcement;
use crate::error::{IoContext, Result};
use crate::hosts::Host;
use crate::hosts::home::{Ground, with_project};
use crate::ops::run::RunPlan;
use crate::ops::run::output::Output;
use crate::ops::run::stage::Stage;
use crate::store::{fsx, layout};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

/// The name under which prompts and hooks call this program.
const PROGRAM: &str = "git-agent";

/// Lays out what the host needs, and changes the stage's command and variables accordingly. All of it lies
/// in the run's private directory, apart from our hooks, which the agent must not be able to change.
///
/// # Errors
/// `io`.
pub(super) fn lay_out(
    ctx: &Ctx,
    agent: &Agent,
    plan: &RunPlan,
    host: &dyn Host,
    stage: &mut Stage,
    spool: &Path,
) -> Result<()> {
    let program = ctx.env.require_program()?;
    let hooks = liveness::log(ctx.repo.common_dir(), agent, stage.number, "hooks");
    let scratch = stage.scratch.path();
    let fenced = matches!(plan.enforcement, Enforcement::Fenced(_));
    let records = layout::records_dir(ctx.repo.common_dir(), agent.id);
    let run_repo = layout::run_repo(ctx.repo.common_dir(), agent.id);
    let answer = plan.inputs.output.as_ref().map(Output::path_for_agent);
    let is_private = plan.inputs.task().briefing.is_some();
    let made = host.prepare(&Ground {
        scratch,
        records: (fenced && !is_private).then_some(&records),
        hooks: &hooks,
        spool,
        answer: answer.as_deref(),
        // A path that is no text cannot stand in a settings file.
        program: program.to_str().unwrap_or(PROGRAM),
        fenced,
        edits: plan.inputs.edits(),
        home: ctx.env.home.as_deref(),
        variables: &ctx.env.host_variables,
    });
    for directory in &made.directories {
        make(directory)?;
    }
    for (link, target) in &made.links {
        // A link to nothing would let the host write a new file into the user's home.
        if target.exists() {
            symlink(target, link).at("could not make", link)?;
        }
    }
    for (link, record) in &made.records {
        fsx::create_dir(record)?;
        symlink(record, link).at("could not make", link)?;
    }
    for (from, to) in &made.copies {
        let Some(content) = fsx::load_if_there(from)? else {
            continue;
        };
        let main = match &made.projects {
            Some(file) if file == to => ctx.repo.main_worktree()?,
            _ => None,
        };
        // A host may list a linked worktree under the repository that it belongs to, which is the agent's own behind the fence.
        let own = [stage.directory.as_path(), run_repo.as_path()];
        let of_agent = main.and_then(|main| with_project(&content, &main, &own));
        fsx::write_private(to, of_agent.map_or(content, String::into_bytes).as_slice())?;
    }
    for (path, text) in &made.files {
        fsx::write_private(path, text.as_bytes())?;
    }
    // A shell of the host finds this program even where the user's own would not.
    let programs = scratch.join("bin");
    make(&programs)?;
    let link = programs.join(PROGRAM);
    symlink(program, &link).at("could not make", &link)?;
    let path = ctx.env.search_with(&programs);
    stage
        .variables
        .extend(path.map(|path| ("PATH".into(), path)));
    let named = made.variables.into_iter();
    let named = named.map(|(name, value)| (name.into(), value));
    stage.variables.extend(named);
    // Behind the program and before its own arguments, where hosts expect options.
    stage.command.splice(1..1, made.options);
    Ok(())
}

fn make(directory: &Path) -> Result<()> {
    let made = fs::DirBuilder::new().mode(0o700).create(directory);
    made.at("could not make", directory)
}
