//! `git agent verify`

use super::format::with_sarif;
use super::render::verify::artefacts_missing;
use super::ui::{Format, Ui};
use crate::agents::ctx::Ctx;
use crate::domain::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::verify;
use crate::ops::verify::{VerifyOptions, VerifyReport};
use std::path::PathBuf;
use std::time::Duration;

/// Judge an agent's work: bundle, scope, provenance, merge, check commands, ledger
///
/// The verdict is recorded and makes the agent done or failed. An agent that verifies its own work gets the answer, and
/// nothing is recorded.
#[derive(Debug, clap::Args)]
#[command(arg = with_sarif())]
pub(super) struct VerifyArgs {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree
    #[arg(value_name = "AGENT", required_unless_present = "ci")]
    agent: Option<String>,
    /// Worktree of the agent; refused when it is another's
    #[arg(value_name = "WORKTREE")]
    worktree: Option<PathBuf>,
    /// Land on this revision instead of the branch the agent started from
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Judge this revision instead of the branch and what is not committed; needs no worktree
    #[arg(long, value_name = "REV", conflicts_with = "worktree")]
    tip: Option<String>,
    /// Find the agent by the spawn commit on the branch of --tip, or of HEAD
    #[arg(long, conflicts_with = "worktree")]
    ci: bool,
    /// Leave the check commands out; an accepting verdict is then not recorded
    #[arg(long)]
    no_commands: bool,
    /// How long one check command may take [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: VerifyArgs) -> Result<Exit> {
    let options = VerifyOptions {
        agent: args.agent,
        worktree: args.worktree,
        base: args.base,
        tip: args.tip,
        ci: args.ci,
        no_commands: args.no_commands,
        limit: args.timeout,
        ..VerifyOptions::default()
    };
    let verdict = verify::verify(ctx, &options)?;
    if ui.format() == Format::Text
        && let Some(text) = artefacts_missing(&verdict)
    {
        ui.say(&text);
    }
    let report = VerifyReport { verdict };
    ui.answer(&report)?;
    Ok(if report.verdict.is_accepted() {
        Exit::Yes
    } else {
        Exit::No
    })
}
