//! `git agent retry` and `git agent adopt`: an agent from a task, or a worktree, that was there before

use crate::agents::context::real_path::real_path;
use crate::agents::{Ctx, upkeep::half_made};
use crate::cli::input::args::{OwnAgentArg, SyncArg};
use crate::cli::input::typed_task::TypedTaskArgs;
use crate::cli::out::ui::Ui;
use crate::cli::verbs::spawn::{SpawnForm, make};
use crate::error::{Exit, Result};
use crate::ops::spawn::{self, SpawnOptions};
use std::path::{Path, PathBuf};

/// Spawn the task of an earlier agent once more, from the base as it is now
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RetryArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Start from this revision instead of the branch that the first agent started from
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Show what would be made and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &RetryArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    if !args.dry_run {
        // A try that was killed is taken apart first, so that the name means the one before it.
        half_made::sweep(ctx)?;
    }
    let earlier = spawn::earlier_task(ctx, &who, args.base.as_deref())?;
    let mut plan = spawn::plan(ctx, earlier.draft, &earlier.options)?;
    plan.warnings.extend(earlier.warnings);
    if args.dry_run {
        spawn::preview(ctx, std::slice::from_mut(&mut plan))?;
        return ui.done(&plan);
    }
    make(ctx, ui, vec![plan], SpawnForm::Short, &SyncArg::default())
}

// `git agent adopt`

/// Make an agent from an existing linked worktree; commits and changes that the branch to land on lacks become its work
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AdoptArgs {
    /// The worktree
    #[arg(value_name = "PATH")]
    worktree: PathBuf,
    /// Branch to land on, instead of the main worktree's; with the worktree's own branch, the commits that exist
    /// already are not part of the work
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Alias to show beside the id
    #[arg(long)]
    name: Option<String>,
    /// Agent that asked for this one
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Fail if the scope of a live agent overlaps this one's
    #[arg(long)]
    exclusive: bool,
    /// Show what would be made and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    typed: TypedTaskArgs,
}

pub(in crate::cli) fn run_adopt(ctx: &Ctx, ui: &mut Ui, args: AdoptArgs) -> Result<Exit> {
    let text = args.typed.message().unwrap_or_else(|| {
        // `.` and `..` are no names.
        let place = real_path(&ctx.absolute(&args.worktree));
        let name = place.as_deref().and_then(Path::file_name).unwrap_or_default();
        format!("Go on with the work that {} holds.", name.to_string_lossy())
    });
    let options = SpawnOptions {
        adopt: Some(args.worktree),
        base: args.base,
        name: args.name,
        parent: args.parent,
        exclusive: args.exclusive,
        ..SpawnOptions::default()
    };
    let mut plan = spawn::plan(ctx, args.typed.draft(ctx, &text)?, &options)?;
    if args.dry_run {
        spawn::preview(ctx, std::slice::from_mut(&mut plan))?;
        ui.answer(&plan)?;
        return Ok(Exit::Yes);
    }
    make(ctx, ui, vec![plan], SpawnForm::Short, &SyncArg::default())
}
