//! `git agent receive` and `git agent inbox`

use crate::agents::Ctx;
use crate::cli::input::args::{ReaderArg, at_least_one, choices, one_of};
use crate::cli::out::render::table::{Cell, Table};
use crate::cli::out::render::{block, seconds, style, title};
use crate::cli::out::terminal::{BOLD, DIM, width};
use crate::cli::out::ui::{Answer, AsJson, Ui};
use crate::cli::verbs::archive::{self, DoneWithArgs};
use crate::cli::verbs::board;
use crate::domain::mail::message::{Handing, Kind, plain};
use crate::domain::work::task::parse_duration;
use crate::error::{Exit, Result};
use crate::ops::mail::Standing;
use crate::ops::receive::{self, Patience, ReceiveOptions, ReceiveReport};
use serde_json::{Value, json};
use std::time::Duration;

/// Receive messages: mark them as read, archive them, then print them
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ReceiveArgs {
    #[command(flatten)]
    reader: ReaderArg,
    /// Only messages of this type
    #[arg(long = "type", short = 't', value_parser = one_of(Kind::ALL.map(Kind::as_str), parse_kind), value_name = "TYPE")]
    kind: Option<Kind>,
    /// At most this many, the most urgent first
    #[arg(long, short = 'n', value_name = "COUNT", value_parser = at_least_one)]
    limit: Option<usize>,
    /// Print messages without marking them
    #[arg(long, conflicts_with = "ack")]
    peek: bool,
    /// When to acknowledge the messages: now, or later by `git agent inbox --ack`; until then they are handed out again
    #[arg(long, value_enum, default_value_t = Ack::Now, value_name = "WHEN")]
    ack: Ack,
    /// Wait until there is a message
    #[arg(long)]
    wait: bool,
    /// Wait at most this long, such as 90s or 5m
    #[arg(long, requires = "wait", value_parser = parse_duration, value_name = "SPAN")]
    timeout: Option<Duration>,
}

/// List open messages; acknowledge some, list archived ones, or delete expired ones
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InboxArgs {
    #[command(flatten)]
    reader: ReaderArg,
    /// Keep the list on the terminal up to date
    #[arg(long, conflicts_with_all = ["ack", "archived", "expire"])]
    watch: bool,
    /// Acknowledge messages that were received with --ack later, by id or its beginning; repeatable
    #[arg(long, value_name = "MSG", conflicts_with_all = ["archived", "expire"])]
    ack: Vec<String>,
    /// List the archived messages, the latest first
    #[arg(long, conflicts_with = "expire")]
    archived: bool,
    #[command(flatten)]
    done: DoneWithArgs,
}

/// When a message that was handed out counts as done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Ack {
    /// At once.
    Now,
    /// By `git agent inbox --ack`.
    Later,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: ReceiveArgs) -> Result<Exit> {
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
    Ok(Exit::answer(report.count > 0))
}

pub(in crate::cli) fn run_inbox(ctx: &Ctx, ui: &mut Ui, args: &InboxArgs) -> Result<Exit> {
    if !args.ack.is_empty() {
        return archive::acknowledge(ctx, ui, &args.reader, &args.ack);
    }
    if args.archived || args.done.expire {
        return archive::run_done_with(ctx, ui, &args.reader, &args.done);
    }
    let agent = args.reader.agent.as_deref();
    if !args.watch {
        return ui.done(&Inbox(&receive::inbox(ctx, agent)?));
    }
    let mut words = vec!["inbox".to_owned()];
    words.extend(agent.map(|agent| format!("--agent={agent}")));
    board::follow(ui, words)
}

fn parse_kind(word: &str) -> std::result::Result<Kind, String> {
    Kind::parse(word).ok_or_else(|| choices("types", Kind::ALL.map(Kind::as_str)))
}

/// The state of a message that was handed out and waits to be acknowledged.
const HANDED_OUT: &str = "handed out";

impl Answer for ReceiveReport {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.status_message);
        for message in &self.messages {
            text.push_str(&format!("---\n{}", block(message, "Received")));
        }
        if !self.messages.is_empty() {
            text.push_str("---\n");
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        let place = match self.handing? {
            Handing::Archive => "inbox --archived",
            Handing::AwaitAck => "inbox",
        };
        (self.count > 0).then(|| format!("git agent {place} --agent {}", self.agent))
    }

    fn rows(&self) -> Vec<Value> {
        self.messages.iter().map(|message| json!(message)).collect()
    }
}

/// The same messages as a table.
pub(crate) struct Inbox<'a>(pub(crate) &'a ReceiveReport);

impl AsJson for Inbox<'_> {
    fn json(&self) -> Value {
        self.0.json()
    }
}

impl Answer for Inbox<'_> {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.0.status_message);
        if self.0.messages.is_empty() {
            return text;
        }
        let header = vec!["PRIORITY", "TYPE", "FROM", "SENT", "STATE", "ID", "SUMMARY"];
        let mut table = Table::new(header, width()).yielding(&["STATE"]);
        for message in &self.0.messages {
            let (id_style, state) = match message.status {
                Some(Standing::Read) => (DIM, HANDED_OUT),
                _ => (BOLD, ""),
            };
            table.push(vec![
                Cell::painted(style(message), message.priority),
                Cell::plain(message.kind),
                Cell::plain(plain(&message.sender())),
                Cell::painted(DIM, seconds(&message.created)),
                Cell::painted(DIM, state),
                Cell::painted(id_style, message.message_id.clone()),
                Cell::plain(title(message)),
            ]);
        }
        text.push_str(&table.render());
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.0.rows()
    }
}
