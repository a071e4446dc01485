//! `git agent pr`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::input::several;
use crate::cli::out::terminal::{BOLD, DIM, HINT, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::State;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::pr::{self, PrOptions, PrReport};
use crate::ops::verify::VerifyReport;

/// Offer an agent's work as a pull request: push its branch, and open the request or bring it up to date
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PrArgs {
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
    /// Label to add; repeatable
    #[arg(long, value_name = "NAME")]
    label: Vec<String>,
    /// Offer the work of every agent that is done; no more than open_prs of [limits] are open at a time
    #[arg(long, conflicts_with_all = ["agent", "title"])]
    all: bool,
    /// Have the forge merge it by its own rules, through its merge queue if there is one, as long as its tip is the
    /// judged commit
    #[arg(long, conflicts_with = "draft")]
    queue: bool,
    /// Push nothing; send each new comment on the pull request to the agent as a message
    #[arg(long, conflicts_with_all = ["title", "draft", "label", "queue", "now", "dry_run"])]
    comments: bool,
    /// Offer the work as it is now, even if a process is at work in the agent
    #[arg(long)]
    now: bool,
    /// Judge the work, show what would be done, and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: PrArgs) -> Result<Exit> {
    if args.all {
        if several::in_state(ctx, State::Done)?.is_empty() {
            return Err(Error::new(Code::NothingToLand, "no agent is done")
                .hint("to see all of them, run git agent list"));
        }
        return several::AgentsArg::of(State::Done).each(ctx, ui, |who| offer(ctx, &args, who));
    }
    let report = {
        let _activity = ui.activity("waiting for the remote");
        offer(ctx, &args, &args.agent.or_current(ctx, ui)?)?
    };
    ui.answer(&report)?;
    for warning in &report.warnings {
        ui.warn(warning);
    }
    Ok(Exit::Yes)
}

fn offer(ctx: &Ctx, args: &PrArgs, who: &str) -> Result<PrReport> {
    if args.comments {
        return pr::read_comments(ctx, who, args.remote.as_deref());
    }
    let options = PrOptions {
        remote: args.remote.clone(),
        title: args.title.clone(),
        draft: args.draft,
        labels: args.label.clone(),
        queue: args.queue,
        is_one_of_all: args.all,
        now: args.now,
    };
    let plan = match pr::plan(ctx, who, options)? {
        Ok(plan) => plan,
        // One of all may have landed meanwhile, which is no failure of it.
        Err(landed) if args.all && !args.dry_run => return landed.record(ctx),
        Err(landed) => return Err(landed.error()),
    };
    if args.dry_run {
        return Ok(plan.report());
    }
    let verdict = VerifyReport::from(plan.verdict.clone());
    pr::execute(ctx, &plan, &verdict.markdown().unwrap_or_default())
}

impl Answer for PrReport {
    fn text(&self) -> String {
        let (branch, target) = (paint(BOLD, &self.branch), self.target.short());
        let words = match self.outcome {
            "planned" => {
                format!("would push {branch} to {} and offer it for {target}\n", self.remote)
            }
            "pushed" => format!("pushed {branch} to {}\n", self.remote),
            "landed" => format!("{branch} is on {target} of {} already\n", self.remote),
            "closed" => format!("left {branch} alone: its pull request was closed\n"),
            "comments" => {
                let count = self.comments.unwrap_or_default();
                format!(
                    "sent {count} comments on the pull request of {branch} to agent {}\n",
                    self.short_id
                )
            }
            outcome => format!("{outcome} the pull request of {branch} onto {target}\n"),
        };
        let mut text = words;
        if let Some(below) = &self.stacked_on {
            let below = format!("stacked on agent {}", below.short_id);
            text.push_str(&format!("  {}\n", paint(DIM, &below)));
        }
        if !self.owners.is_empty() {
            let owners = format!("owned by @{}", self.owners.join(", @"));
            text.push_str(&format!("  {}\n", paint(DIM, &owners)));
        }
        match (&self.url, self.outcome) {
            (Some(url), "created" | "updated" | "queued" | "comments" | "closed") => {
                text.push_str(&format!("  {url}\n"))
            }
            (Some(url), _) => {
                let hint = paint(HINT, "to open the pull request, go to:");
                text.push_str(&format!("{hint} {url}\n"));
            }
            (None, "landed") => {}
            (None, _) => text.push_str(&format!(
                "{} the URL of {} names no forge; open the pull request there\n",
                paint(HINT, "hint:"),
                self.remote
            )),
        }
        text
    }
}
