//! `archive --expire`: deleting what is not needed any more.

use crate::agents::ctx::Ctx;
use crate::domain::message::{MessageId, Retention};
use crate::error::Result;
use crate::store::mailbox::Mailbox;
use crate::store::mailbox::expire::{self, Expiry};
use crate::store::repository_settings;
use serde::Serialize;

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
pub struct ExpireReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// Whether nothing was done.
    pub dry_run: bool,
    /// What was archived.
    pub archived: Vec<UnacknowledgedReport>,
    /// What was deleted.
    pub deleted: Vec<String>,
    /// How many messages are left.
    pub kept: usize,
    /// How many of them expired, but are too few to rewrite a long mailbox for.
    pub postponed: usize,
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
            schema: "git-agent.expire/1",
            dry_run: true,
            archived: unacknowledged.collect(),
            deleted: self
                .expiry
                .delete
                .iter()
                .map(MessageId::to_string)
                .collect(),
            kept: self.expiry.kept(),
            postponed: self.expiry.postponed,
        }
    }
}

/// How long the repository keeps messages.
///
/// # Errors
/// `settings-invalid`, `repo-corrupt`.
pub fn of_repository(ctx: &Ctx) -> Result<Retention> {
    Ok(repository_settings::of_main_worktree(&ctx.repo)?
        .messages
        .retention)
}

/// Finds out what expired; nothing is written.
///
/// # Errors
/// `repo-corrupt`.
pub fn plan(ctx: &Ctx, retention: Retention) -> Result<ExpirePlan> {
    let agents = ctx.ledger().agents()?;
    let mailbox = Mailbox::new(&ctx.repo);
    let expiry = expire::plan(&mailbox, &agents, retention, ctx.now())?;
    Ok(ExpirePlan { expiry })
}

/// Archives and deletes it.
///
/// # Errors
/// `lost-race` when the mailbox was rewritten meanwhile; `lock-timeout`, `disk-full`,
/// `repo-read-only`, `repo-corrupt`.
pub fn execute(ctx: &Ctx, plan: ExpirePlan) -> Result<ExpireReport> {
    let mut report = plan.report();
    let reached = |step: &str| ctx.reached(step);
    let mailbox = Mailbox::telling(&ctx.repo, &reached);
    expire::execute(&mailbox, &plan.expiry, ctx.now())?;
    report.dry_run = false;
    Ok(report)
}
