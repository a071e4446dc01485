//! `git agent receive` and `git agent inbox`

use super::terminal;
use super::ui::Ui;
use super::words::one_of;
use crate::agents::ctx::Ctx;
use crate::domain::message::{Handing, Kind};
use crate::domain::task::parse_duration;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::receive;
use crate::ops::receive::Patience;
use crate::ops::receive::ReceiveOptions;
use std::time::Duration;

/// Receive messages: they are marked as read and archived, then shown
#[derive(Debug, clap::Args)]
pub(super) struct ReceiveArgs {
    #[command(flatten)]
    reader: ReaderArg,
    /// Only messages of this type
    #[arg(long = "type", short = 't', value_parser = one_of(Kind::ALL.iter().map(|kind| kind.as_str()), parse_kind), value_name = "TYPE")]
    kind: Option<Kind>,
    /// At most this many, the most urgent first
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = super::run::at_least_one)]
    limit: Option<usize>,
    /// Only look: mark nothing
    #[arg(long, conflicts_with = "ack")]
    peek: bool,
    /// When they count as done with: now, or when `git agent ack` says so; until then they come again
    #[arg(long, value_enum, default_value_t = Ack::Now, value_name = "WHEN")]
    ack: Ack,
    /// Wait until there is a message
    #[arg(long)]
    wait: bool,
    /// Wait at most this long, such as 90s or 5m
    #[arg(long, requires = "wait", value_parser = parse_duration, value_name = "SPAN")]
    timeout: Option<Duration>,
}

/// List the messages that are not done with yet, without marking them
#[derive(Debug, clap::Args)]
pub(super) struct InboxArgs {
    #[command(flatten)]
    reader: ReaderArg,
    /// Keep the list on the terminal up to date
    #[arg(long)]
    watch: bool,
}

/// Whose messages.
#[derive(Debug, clap::Args)]
pub(super) struct ReaderArg {
    /// Receiver: an agent's id, name or branch, or any other name; the agent we are, else `user`
    #[arg(long, short = 'a', value_name = "NAME")]
    pub(super) agent: Option<String>,
}

/// When a message that was handed out counts as done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ack {
    /// At once.
    Now,
    /// When it is acknowledged.
    Later,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: ReceiveArgs) -> Result<Exit> {
    let options = ReceiveOptions {
        agent: args.reader.agent,
        kind: args.kind,
        limit: args.limit,
        handing: match args.ack {
            _ if args.peek => None,
            Ack::Now => Some(Handing::Archive),
            Ack::Later => Some(Handing::AwaitAck),
        },
    };
    let patience = match (args.wait, args.timeout) {
        (false, _) => Patience::None,
        (true, Some(span)) => Patience::For(span),
        (true, None) => Patience::Endless,
    };
    let report = receive::receive(ctx, &options, patience)?;
    ui.answer(&report)?;
    Ok(if report.count == 0 {
        Exit::No
    } else {
        Exit::Yes
    })
}

pub(super) fn run_inbox(ctx: &Ctx, ui: &mut Ui, args: &InboxArgs) -> Result<Exit> {
    let agent = args.reader.agent.as_deref();
    if !args.watch {
        ui.answer(&super::render::mail::Inbox(&receive::inbox(ctx, agent)?))?;
        return Ok(Exit::Yes);
    }
    if !terminal::is_terminal() {
        return Err(Error::new(Code::Usage, "--watch needs a terminal")
            .hint("to wait in a script, run git agent receive --wait"));
    }
    receive::watch_inbox(ctx, agent, |report| {
        ui.answer_anew(&super::render::mail::Inbox(report))?;
        Ok(true)
    })?;
    Ok(Exit::Yes)
}

fn parse_kind(word: &str) -> std::result::Result<Kind, String> {
    Kind::parse(word).ok_or_else(|| {
        let words: Vec<_> = Kind::ALL.iter().map(|kind| kind.as_str()).collect();
        format!("the types are {}", words.join(", "))
    })
}
