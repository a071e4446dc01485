//! `git agent pr`

use super::args::OwnAgentArg;
use super::style::{BOLD, DIM, HINT, paint};
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::pr::{self, PrOptions, PrReport};
use crate::ops::verify::VerifyReport;

/// Offer an agent's work as a pull request: push its branch, and open the request or bring it up to date
#[derive(Debug, clap::Args)]
pub(super) struct PrArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Remote to push to; without it agent.remote, origin, or the only one
    #[arg(long, value_name = "REMOTE")]
    remote: Option<String>,
    /// Title of the pull request; without it the beginning of the task
    #[arg(long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    title: Option<String>,
    /// Open it as a draft
    #[arg(long)]
    draft: bool,
    /// Offer the work as it is now, even if something is at work in the agent
    #[arg(long)]
    now: bool,
    /// Judge the work, show what would be done, and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: PrArgs) -> Result<Exit> {
    let options = PrOptions {
        remote: args.remote,
        title: args.title,
        draft: args.draft,
        now: args.now,
    };
    let plan = {
        let _activity = ui.activity("waiting for the remote");
        pr::plan(ctx, &args.agent.or_current(ctx, ui)?, options)?
    };
    if args.dry_run {
        return ui.done(&plan.report());
    }
    let verdict = VerifyReport {
        verdict: plan.verdict.clone(),
    };
    let body = verdict.markdown().unwrap_or_default();
    let report = {
        let _activity = ui.activity("waiting for the remote");
        pr::execute(ctx, &plan, &body)?
    };
    ui.answer(&report)?;
    for warning in &report.warnings {
        ui.warn(warning);
    }
    Ok(Exit::Yes)
}

impl Answer for PrReport {
    fn text(&self) -> String {
        let (branch, target) = (paint(BOLD, &self.branch), self.target.short());
        let words = match self.outcome {
            "planned" => format!(
                "would push {branch} to {} and offer it for {target}\n",
                self.remote
            ),
            "pushed" => format!("pushed {branch} to {}\n", self.remote),
            outcome => format!("{outcome} the pull request of {branch} onto {target}\n"),
        };
        let mut text = words;
        if let Some(below) = &self.stacked_on {
            let below = format!("stacked on agent {}", below.short_id);
            text.push_str(&format!("  {}\n", paint(DIM, &below)));
        }
        match (&self.url, self.outcome) {
            (Some(url), "created" | "updated") => text.push_str(&format!("  {url}\n")),
            (Some(url), _) => {
                let hint = paint(HINT, "to open the pull request, go to:");
                text.push_str(&format!("{hint} {url}\n"));
            }
            (None, _) => text.push_str(&format!(
                "{} the URL of {} names no forge; open the pull request there\n",
                paint(HINT, "hint:"),
                self.remote
            )),
        }
        text
    }
}
