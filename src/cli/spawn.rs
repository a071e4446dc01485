//! `git agent spawn`

use super::ui::{Format, Ui};
use crate::agents::ctx::Ctx;
use crate::agents::half_made;
use crate::domain::task::TaskDraft;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::spawn;
use crate::ops::spawn::SpawnOptions;
use crate::wire::task_file;
use std::io::Read;
use std::path::PathBuf;

/// Make an agent for each task: a worktree, a branch, a prompt and a row in the ledger
#[derive(Debug, clap::Args)]
pub(super) struct SpawnArgs {
    /// Task files; `-` reads one from standard input
    #[arg(required = true, value_name = "TASK")]
    tasks: Vec<PathBuf>,
    /// Start from this revision instead of HEAD or the task's own
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Alias to show beside the id
    #[arg(long)]
    name: Option<String>,
    /// Agent that asked for this one
    #[arg(long, value_name = "ID")]
    parent: Option<String>,
    /// Name of the branch instead of agent/<slug>-<time>-<id8>
    #[arg(long)]
    branch: Option<String>,
    /// Place of the worktree instead of the configured one
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// How many agents to make at the same time
    #[arg(long, short = 'j', default_value_t = 4, value_name = "N", value_parser = super::run::at_least_one)]
    jobs: usize,
    /// Leave the default denylist out; refused for roles that edit
    #[arg(long)]
    no_default_deny: bool,
    /// Do not run the post-checkout hook
    #[arg(long)]
    no_hooks: bool,
    /// Refuse where a live agent may touch what this one may
    #[arg(long)]
    exclusive: bool,
    /// Show what would be made and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: SpawnArgs) -> Result<Exit> {
    let options = SpawnOptions {
        base: args.base,
        name: args.name,
        parent: args.parent,
        branch: args.branch,
        path: args.path,
        no_default_deny: args.no_default_deny,
        no_hooks: args.no_hooks,
        exclusive: args.exclusive,
    };
    let several = args.tasks.len() > 1;
    if several && (options.name.is_some() || options.branch.is_some() || options.path.is_some()) {
        return Err(Error::new(
            Code::Usage,
            "--name, --branch and --path name one agent, but several tasks are given",
        )
        .hint("to name each agent, set `name` in its task file"));
    }
    super::run::require_one_input(args.tasks.iter().map(PathBuf::as_path))?;
    let mut plans = Vec::new();
    for path in &args.tasks {
        let plan = spawn::plan(ctx, read_task(ctx, path)?, &options)?;
        plans.push(plan);
    }
    if args.dry_run {
        for plan in &mut plans {
            spawn::foresee(ctx, plan)?;
            ui.answer(plan)?;
        }
        return Ok(Exit::Yes);
    }
    half_made::sweep(ctx)?;
    let mut exit = Exit::Yes;
    spawn::execute_all(ctx, plans, args.jobs, &mut |result| {
        match result {
            Ok(report) => {
                if ui.format() == Format::Text {
                    report.warnings.iter().for_each(|text| ui.warn(text));
                }
                ui.answer(&report)
            }
            // One agent that cannot be made does not stop the others.
            Err(error) => {
                exit = ui.fail(&error);
                Ok(())
            }
        }
    })?;
    Ok(exit)
}

pub(super) fn read_task(ctx: &Ctx, path: &std::path::Path) -> Result<TaskDraft> {
    // One byte beyond the limit tells that there is more, be it a device that never ends.
    let limit = task_file::MAX_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let (name, read) = if path.as_os_str() == "-" {
        let stdin = std::io::stdin().lock();
        ("<stdin>".into(), stdin.take(limit).read_to_end(&mut bytes))
    } else {
        let file = std::fs::File::open(ctx.absolute(path));
        let read = file.and_then(|file| file.take(limit).read_to_end(&mut bytes));
        (path.to_string_lossy(), read)
    };
    read.map_err(|error| task_file::unreadable(path, &error))?;
    Ok(task_file::parse(&name, &bytes))
}
