//! `receive` and `inbox`: the messages of a reader, handed out or only listed.
//!
//! `receive` marks and archives in one commit, and then answers. After a kill in between the messages are
//! in the archive. A reader that must lose none asks for `--ack later`: it is handed the same messages
//! again until they are acknowledged, and so may see one twice.

use crate::agents::Ctx;
use crate::agents::upkeep::spool::{
    leave_receipt, own_spool, require_own_reader, spool_of_clone, sweep_spools,
};
use crate::agents::who::names::reader_of;
use crate::domain::mail::message::{Handing, Kind};
use crate::error::{Code, Result};
use crate::ops::mail::{MessageReport, Standing};
use crate::store::mailbox::reader::Watch;
use crate::store::mailbox::{Open, Reader, Wanted};
use crate::store::{Mailbox, files::lock};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// What is received, and how.
#[derive(Clone, Debug, Default)]
pub struct ReceiveOptions {
    /// Whose messages; our own where none is named.
    pub agent: Option<String>,
    /// Only those of this type.
    pub kind: Option<Kind>,
    /// At most this many, the most urgent first.
    pub limit: Option<usize>,
    /// How they are handed out; `None` only looks.
    pub handing: Option<Handing>,
}

/// How long to wait for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    None,
    /// For that long.
    For(Duration),
    /// Until there is one.
    Endless,
}

/// The answer of `receive` and `inbox`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReceiveReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// Whose messages: an agent's id, or a name.
    pub agent: String,
    /// The messages, by priority, then oldest first.
    pub messages: Vec<MessageReport>,
    /// How many.
    pub count: usize,
    /// The same in words.
    pub status_message: String,
    /// How they were handed out; `None` where they were only looked at.
    #[serde(skip)]
    pub handing: Option<Handing>,
}

/// Hands out what there is, waiting for it if need be.
///
/// # Errors
/// `message-invalid`, `agent-ambiguous`, `lock-timeout`, `repo-read-only`, `repo-corrupt`, `disk-full`.
pub fn receive(ctx: &Ctx, options: &ReceiveOptions, patience: Patience) -> Result<ReceiveReport> {
    let begin = Instant::now();
    let (reader, called) = reader_of(ctx, options.agent.as_deref())?;
    if let (Some(spool), Some(_)) = (&ctx.env.spool, options.handing) {
        require_own_reader(spool, &reader)?;
    }
    // Before the first look, so that nothing arrives unheard in between.
    let watch = (patience != Patience::None).then(|| Watch::begin(ctx.repo.common_dir()));
    sweep(ctx);
    loop {
        let messages = hand_out(ctx, &reader, options)?;
        let rest = match patience {
            Patience::None => Duration::ZERO,
            Patience::For(span) => span.saturating_sub(begin.elapsed()),
            Patience::Endless => Duration::MAX,
        };
        // A wake-up says that something came, perhaps for another reader, so all is looked at
        // again.
        match &watch {
            Some(watch) if messages.is_empty() && !rest.is_zero() => watch.wait(rest),
            _ => {
                let report = report(ctx, "git-agent.receive/1", &reader, &called, messages)?;
                return Ok(ReceiveReport { handing: options.handing, ..report });
            }
        }
    }
}

/// Everything that a reader has not archived, as it stands.
///
/// # Errors
/// As [`receive`].
pub fn inbox(ctx: &Ctx, agent: Option<&str>) -> Result<ReceiveReport> {
    let (reader, called) = reader_of(ctx, agent)?;
    sweep(ctx);
    let mailbox = Mailbox::new(&ctx.repo);
    let messages = look(&mailbox, &mailbox.open(&reader)?)?;
    report(ctx, "git-agent.inbox/1", &reader, &called, messages)
}

/// How long a receipt is waited for. Without a supervisor, as after its death, none comes.
const FOR_RECEIPT: Duration = Duration::from_secs(2);

/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(20);

fn hand_out(ctx: &Ctx, reader: &Reader, options: &ReceiveOptions) -> Result<Vec<MessageReport>> {
    let reached = |step: &str| ctx.reached(step);
    let mailbox = Mailbox::telling(&ctx.repo, &reached);
    let wanted = Wanted { kind: options.kind, limit: options.limit };
    let Some(handing) = options.handing else {
        return look(&mailbox, &mailbox.waiting(reader, wanted, ctx.now())?);
    };
    if let Some(spool) = &ctx.env.spool {
        return by_receipt(ctx, &mailbox, reader, (wanted, handing), spool);
    }
    let taken = match mailbox.receive(reader, wanted, handing, ctx.now()) {
        // The variable that names the spool may have been lost on the way; the agent's own spool does as well.
        Err(error) if error.code() == Code::RepoReadOnly => match own_spool(ctx) {
            Some(spool) => return by_receipt(ctx, &mailbox, reader, (wanted, handing), &spool),
            None => return Err(error),
        },
        taken => taken?,
    };
    // In an agent's own clone the repository that sent them has to be told.
    if let Some(spool) = spool_of_clone(ctx).filter(|_| !taken.is_empty()) {
        let ids: Vec<_> = taken.iter().map(|(open, _)| open.id.clone()).collect();
        leave_receipt(ctx, &spool, &ids, handing)?;
    }
    let read = |(_, message)| MessageReport::new(&message, Some(Standing::Read));
    Ok(taken.into_iter().map(read).collect())
}

/// Hands messages out inside of a fence that keeps receipts from being written: the supervisor writes them.
fn by_receipt(
    ctx: &Ctx,
    mailbox: &Mailbox<'_>,
    reader: &Reader,
    (wanted, handing): (Wanted, Handing),
    spool: &Path,
) -> Result<Vec<MessageReport>> {
    require_own_reader(spool, reader)?;
    // One command of the agent at a time: what another has left is no receipt before the supervisor has written it. Where there is no
    // lock, a message may be handed out twice, and none is lost.
    let alone = lock::hold_directory(spool);
    let waiting = mailbox.waiting(reader, wanted, ctx.now())?;
    let messages = look(mailbox, &waiting)?;
    if waiting.is_empty() {
        return Ok(messages);
    }
    let ids: Vec<_> = waiting.into_iter().map(|open| open.id).collect();
    leave_receipt(ctx, spool, &ids, handing)?;
    // Until the supervisor has written it, the next call would hand the same messages out.
    let left = Instant::now();
    let is_left = |open: &Open| ids.contains(&open.id);
    while left.elapsed() < FOR_RECEIPT
        && mailbox.waiting(reader, wanted, ctx.now())?.iter().any(is_left)
    {
        std::thread::sleep(LOOK);
    }
    drop(alone);
    Ok(messages)
}

fn look(mailbox: &Mailbox<'_>, open: &[Open]) -> Result<Vec<MessageReport>> {
    let look = |open: &Open| {
        let standing = match open.read {
            Some(_) => Standing::Read,
            None => Standing::Pending,
        };
        Ok(MessageReport::new(&mailbox.read(open)?, Some(standing)))
    };
    open.iter().map(look).collect()
}

fn report(
    ctx: &Ctx,
    schema: &'static str,
    reader: &Reader,
    called: &str,
    messages: Vec<MessageReport>,
) -> Result<ReceiveReport> {
    let count = messages.len();
    let status_message = if count > 0 {
        format!("Messages for {called}: {count}")
    } else if Mailbox::new(&ctx.repo).is_empty()? {
        "No messages in queue".to_owned()
    } else {
        format!("No pending messages for {called}")
    };
    Ok(ReceiveReport {
        schema,
        agent: reader.name.to_string(),
        messages,
        count,
        status_message,
        handing: None,
    })
}

/// Posts what agents without a supervisor left behind. The receiver need not be able to: what stays is
/// for the next one, and for `doctor`.
fn sweep(ctx: &Ctx) {
    drop(sweep_spools(ctx));
}
