//! `git agent merge`

use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::merge;
use crate::ops::merge::MergeOptions;
use crate::ops::merge::Method;
use crate::ops::merge::Order;

/// Land an agent's work, exactly as it was judged
///
/// With --all the status is 1 when an agent that is done was refused, and when nothing landed while an agent is running or
/// failed.
///
/// No hook of the repository runs (pre-commit, commit-msg, pre-merge-commit, post-merge and the like): a hook could
/// change what was judged. `git agent commit` runs pre-commit and commit-msg as git does, the task's [checks]
/// commands run on the merged tree, and pre-push and server-side hooks see the branch as ever.
#[derive(Debug, clap::Args)]
pub(super) struct MergeArgs {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree
    #[arg(value_name = "AGENT", required_unless_present = "all")]
    agent: Option<String>,
    /// Land every agent that is done, in the order they were spawned
    #[arg(long, conflicts_with = "agent")]
    all: bool,
    /// Order of --all: as they were spawned, or so that most of them land
    #[arg(long, value_enum, default_value_t = OrderArg::Spawned, requires = "all", value_name = "ORDER")]
    order: OrderArg,
    /// Make a merge commit; the default unless agent.merge says otherwise
    #[arg(long, group = "method")]
    no_ff: bool,
    /// Land as one commit without the branch's history
    #[arg(long, group = "method")]
    squash: bool,
    /// Only move the branch, or refuse
    #[arg(long, group = "method")]
    ff_only: bool,
    /// Message of the landing commit; several make paragraphs, as in git commit
    #[arg(long, short = 'm', conflicts_with_all = ["all", "ff_only"], value_name = "TEXT",
        value_parser = clap::builder::NonEmptyStringValueParser::new())]
    message: Vec<String>,
    /// Land on this branch instead of the one the agent started from
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Judge and show what would land, and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// An order as the command line names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OrderArg {
    /// As they were spawned.
    Spawned,
    /// So that most of them land.
    Best,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: MergeArgs) -> Result<Exit> {
    let options = MergeOptions {
        method: method(&args),
        into: args.into,
        dry_run: args.dry_run,
        message: (!args.message.is_empty()).then(|| args.message.join("\n\n")),
        order: match args.order {
            OrderArg::Spawned => Order::Spawned,
            OrderArg::Best => Order::Best,
        },
    };
    let Some(agent) = args.agent else {
        return run_all(ctx, ui, &options);
    };
    let report = match args.dry_run {
        true => merge::plan(ctx, &agent, &options)?.report(),
        false => merge::land(ctx, &agent, &options)?,
    };
    ui.answer(&report)?;
    Ok(Exit::Yes)
}

fn run_all(ctx: &Ctx, ui: &mut Ui, options: &MergeOptions) -> Result<Exit> {
    let report = merge::all(ctx, options)?;
    ui.answer(&report)?;
    if report.is_success() {
        Ok(Exit::Yes)
    } else {
        Ok(Exit::No)
    }
}

fn method(args: &MergeArgs) -> Option<Method> {
    [
        (args.no_ff, Method::NoFf),
        (args.squash, Method::Squash),
        (args.ff_only, Method::FfOnly),
    ]
    .into_iter()
    .find_map(|(given, method)| given.then_some(method))
}
