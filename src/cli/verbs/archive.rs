//! Messages that their reader is done with: `git agent inbox --ack`, `--archived` and `--expire`. The verbs `ack`
//! and `archive` say the same and are hidden.

use crate::agents::Ctx;
use crate::cli::input::args::{ReaderArg, at_least_one};
use crate::cli::out::render::block;
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::mail::message::Retention;
use crate::domain::work::task::parse_duration;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::archive::{self, AckReport, ArchiveReport, ExpireReport};
use chrono::TimeDelta;
use serde_json::{Value, json};
use std::time::Duration;

/// List archived messages, the latest first; or delete expired ones
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ArchiveArgs {
    #[command(flatten)]
    reader: ReaderArg,
    #[command(flatten)]
    done: DoneWithArgs,
}

/// What is asked of messages that are done with.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DoneWithArgs {
    /// At most this many archived messages
    #[arg(long, short = 'n', default_value_t = 100, value_name = "COUNT", value_parser = at_least_one)]
    limit: usize,
    /// Delete messages that every receiver archived long ago; an unread message stays
    #[arg(long, conflicts_with_all = ["agent", "limit"])]
    pub(in crate::cli) expire: bool,
    /// With --expire: archive unacknowledged messages of a reader with more open messages than this [default: 100]
    #[arg(long, requires = "expire", value_name = "COUNT")]
    active: Option<usize>,
    /// With --expire: archive messages handed out this long ago and never acknowledged [default: 7d]
    #[arg(long, requires = "expire", value_parser = parse_duration, value_name = "SPAN")]
    archive_after: Option<Duration>,
    /// With --expire: delete messages archived this long ago [default: 30d]
    #[arg(long, requires = "expire", value_parser = parse_duration, value_name = "SPAN")]
    delete_after: Option<Duration>,
    /// Show what would be archived and deleted, and do nothing
    #[arg(long, requires = "expire")]
    dry_run: bool,
}

/// Acknowledge messages that were received with --ack later
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AckArgs {
    /// Messages, or unambiguous beginnings of their ids
    #[arg(required = true, value_name = "MSG")]
    messages: Vec<String>,
    #[command(flatten)]
    reader: ReaderArg,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &ArchiveArgs) -> Result<Exit> {
    run_done_with(ctx, ui, &args.reader, &args.done)
}

/// Lists what a reader is done with, or deletes what all have done with long ago.
pub(in crate::cli) fn run_done_with(
    ctx: &Ctx,
    ui: &mut Ui,
    reader: &ReaderArg,
    done: &DoneWithArgs,
) -> Result<Exit> {
    if done.expire {
        let plan = archive::plan_expiry(ctx, retention(ctx, done)?)?;
        let report = if done.dry_run { plan.report() } else { archive::expire(ctx, plan)? };
        return ui.done(&report);
    }
    ui.done(&archive::archive(ctx, reader.agent.as_deref(), done.limit)?)
}

pub(in crate::cli) fn run_ack(ctx: &Ctx, ui: &mut Ui, args: &AckArgs) -> Result<Exit> {
    acknowledge(ctx, ui, &args.reader, &args.messages)
}

/// Takes messages as done with.
pub(in crate::cli) fn acknowledge(
    ctx: &Ctx,
    ui: &mut Ui,
    reader: &ReaderArg,
    messages: &[String],
) -> Result<Exit> {
    ui.done(&archive::acknowledge(ctx, reader.agent.as_deref(), messages)?)
}

/// What is asked for, else what the repository says, else the usual.
fn retention(ctx: &Ctx, args: &DoneWithArgs) -> Result<Retention> {
    let usual = archive::of_repository(ctx)?;
    let span = |given: Option<Duration>, usual: TimeDelta| match given {
        None => Ok(usual),
        Some(span) => TimeDelta::from_std(span).map_err(|error| {
            Error::new(Code::Usage, "that span of time is too long").because(error)
        }),
    };
    Ok(Retention {
        active: args.active.unwrap_or(usual.active),
        archive_after: span(args.archive_after, usual.archive_after)?,
        delete_after: span(args.delete_after, usual.delete_after)?,
    })
}

impl Answer for ArchiveReport {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.status_message);
        for archived in &self.messages {
            text.push_str(&format!("\n{}", block(&archived.message, "Received")));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.messages.iter().map(|message| json!(message)).collect()
    }
}

impl Answer for AckReport {
    fn text(&self) -> String {
        let say = |ids: &[String], what: &str| -> String {
            ids.iter().map(|id| format!("{id} {what}\n")).collect()
        };
        say(&self.acknowledged, "acknowledged") + &say(&self.already, "was archived before")
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent inbox --archived --agent {}", self.agent))
    }
}

impl Answer for ExpireReport {
    fn text(&self) -> String {
        let would = if self.dry_run { "would be " } else { "" };
        let mut text = format!(
            "{would}archived: {}\n{would}deleted: {}\nkept: {}\n",
            self.archived.len(),
            self.deleted.len(),
            self.kept
        );
        if self.postponed > 0 {
            let why = if self.is_shared {
                "kept because a remote has them"
            } else {
                "deleted when there are more of them"
            };
            text.push_str(&format!("expired, and {why}: {}\n", self.postponed));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        (!self.dry_run).then(|| "git log refs/agents/mail".to_owned())
    }
}
