//! `archive` and `ack`: messages that their reader is done with, and deleting what is not needed any more.

use crate::agents::Ctx;
use crate::agents::upkeep::spool::{leave_receipt, own_spool, require_own_reader, spool_of_clone};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::who::names::reader_of;
use crate::domain::MessageId;
use crate::domain::mail::message::{Handing, Retention};
use crate::error::{Code, Result};
use crate::ops::agent_report::rfc3339;
use crate::ops::mail::{self, MessageReport, Standing};
use crate::store::mailbox::expire::{self, Expiry};
use crate::store::{Mailbox, settings::repository_settings};
use serde::Serialize;

/// A message in an archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ArchivedReport {
    /// The message.
    #[serde(flatten)]
    pub message: MessageReport,
    /// Since when it is done with, RFC 3339.
    pub archived_at: String,
}

/// The answer of `archive`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.archive/2")]
pub struct ArchiveReport {
    /// Whose archive: an agent's id, or a name.
    pub agent: String,
    /// The messages, the latest first.
    pub messages: Vec<ArchivedReport>,
    /// How many are listed.
    pub count: usize,
    /// The same in words.
    pub status_message: String,
}

/// The answer of `ack`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.ack/1")]
pub struct AckReport {
    /// Whose messages.
    pub agent: String,
    /// The ids that are done with now and were not before.
    pub acknowledged: Vec<String>,
    /// The ids that were done with before.
    pub already: Vec<String>,
}

/// What a reader is done with, at most `limit` messages. What expired is not among them.
///
/// # Errors
/// `message-invalid`, `agent-ambiguous`, `repo-corrupt`.
pub fn archive(ctx: &Ctx, agent: Option<&str>, limit: usize) -> Result<ArchiveReport> {
    let (reader, called) = reader_of(ctx, agent)?;
    let archived = Mailbox::new(&ctx.repo).archive(&reader, limit)?;
    let messages: Vec<_> = archived
        .iter()
        .map(|(message, at)| ArchivedReport {
            message: MessageReport::new(message, Some(Standing::Archived)),
            archived_at: rfc3339(at.time()),
        })
        .collect();
    Ok(ArchiveReport {
        agent: reader.name.to_string(),
        count: messages.len(),
        status_message: match messages.len() {
            0 => format!("No archived messages for {called}"),
            count => format!("Archived messages for {called}: {count}"),
        },
        messages,
    })
}

/// Notes that a reader is done with messages that were handed out, or were never asked for.
///
/// # Errors
/// `message-unknown` when one of them is not for that reader; those of [`archive`] and of writing.
pub fn acknowledge(ctx: &Ctx, agent: Option<&str>, ids: &[String]) -> Result<AckReport> {
    let (reader, _) = reader_of(ctx, agent)?;
    let mut wanted: Vec<MessageId> = Vec::new();
    for id in ids {
        let id = mail::find_message(ctx, id)?;
        if !wanted.contains(&id) {
            wanted.push(id);
        }
    }
    // What was recorded here, and the spool where another repository, or the supervisor, is told.
    let (fresh, told) = match &ctx.env.spool {
        Some(spool) => (None, Some(spool.clone())),
        None => {
            let mailbox = Mailbox::new(&ctx.repo);
            match mailbox.record_handed(&reader, &wanted, Handing::Archive, ctx.now()) {
                Ok(fresh) => (Some(fresh), spool_of_clone(ctx)),
                Err(error) if error.code() == Code::RepoReadOnly => {
                    (None, Some(own_spool(ctx).ok_or(error)?))
                }
                Err(error) => return Err(error),
            }
        }
    };
    if let Some(spool) = told {
        require_own_reader(&spool, &reader)?;
        leave_receipt(ctx, &spool, &wanted, Handing::Archive)?;
    }
    // Which of them are new is known to the process that collects the spool; here they are only noted.
    let fresh = fresh.unwrap_or_else(|| wanted.clone());
    let (fresh, already): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|id| fresh.contains(id));
    let texts = |ids: Vec<MessageId>| ids.iter().map(MessageId::to_string).collect();
    Ok(AckReport {
        agent: reader.name.to_string(),
        acknowledged: texts(fresh),
        already: texts(already),
    })
}

// `archive --expire`: deleting what is not needed any more.

/// What will be done.
pub struct ExpirePlan {
    expiry: Expiry,
}

/// A message that was archived without having been acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnacknowledgedReport {
    /// Whose: an agent's id, or a name.
    pub agent: String,
    /// The message.
    pub message_id: String,
}

/// The answer of `archive --expire`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.expire/1")]
pub struct ExpireReport {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What was archived.
    pub archived: Vec<UnacknowledgedReport>,
    /// What was deleted.
    pub deleted: Vec<String>,
    /// How many messages are left.
    pub kept: usize,
    /// How many of them expired, but are too few to rewrite a long mailbox for, or are kept because a remote has them.
    pub postponed: usize,
    /// Whether a remote has them.
    #[serde(skip)]
    pub is_shared: bool,
}

impl ExpirePlan {
    /// The plan as an answer.
    pub fn report(&self) -> ExpireReport {
        let unacknowledged = self.expiry.archive.iter().flat_map(|(reader, ids)| {
            ids.iter().map(|id| UnacknowledgedReport {
                agent: reader.name.to_string(),
                message_id: id.to_string(),
            })
        });
        ExpireReport {
            dry_run: true,
            archived: unacknowledged.collect(),
            deleted: self.expiry.delete.iter().map(MessageId::to_string).collect(),
            kept: self.expiry.kept(),
            postponed: self.expiry.postponed,
            is_shared: self.expiry.is_shared,
        }
    }
}

/// How long the repository keeps messages.
///
/// # Errors
/// `settings-invalid`, `repo-corrupt`.
pub fn of_repository(ctx: &Ctx) -> Result<Retention> {
    Ok(repository_settings::of_main_worktree(&ctx.repo)?.messages.retention)
}

/// Finds out what expired; nothing is written.
///
/// # Errors
/// `repo-corrupt`.
pub fn plan_expiry(ctx: &Ctx, retention: Retention) -> Result<ExpirePlan> {
    let agents = ctx.ledger().agents()?;
    let mailbox = Mailbox::new(&ctx.repo);
    let expiry = expire::plan(&mailbox, &agents, retention, ctx.now())?;
    Ok(ExpirePlan { expiry })
}

/// Archives and deletes it.
///
/// # Errors
/// `orchestrator-only` inside an agent; `lost-race` when the mailbox was rewritten meanwhile; `lock-timeout`, `disk-full`,
/// `repo-read-only`, `repo-corrupt`.
pub fn expire(ctx: &Ctx, plan: ExpirePlan) -> Result<ExpireReport> {
    require_orchestrator(ctx)?;
    let mut report = plan.report();
    let reached = |step: &str| ctx.reached(step);
    let mailbox = Mailbox::telling(&ctx.repo, &reached);
    expire::execute(&mailbox, &plan.expiry, ctx.now())?;
    report.dry_run = false;
    Ok(report)
}
