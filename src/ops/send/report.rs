//! The answer of `send`.

use crate::domain::message::{Message, MessageId};
use crate::ops::agent_report::rfc3339;
use crate::ops::mail::ReceiversReport;
use crate::ops::send::SendPlan;
use serde::Serialize;

/// The answer of `send`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SendReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The message's name; absent while it waits in a spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_id: Option<String>,
    /// `sent`, or `spooled` for one that the supervisor of the sender posts.
    pub status: &'static str,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Who sent it.
    pub from: String,
    /// For whom it is.
    #[serde(flatten)]
    pub to: ReceiversReport,
    /// How soon it is to be read.
    pub priority: &'static str,
    /// When it was sent, RFC 3339; absent while it waits in a spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    /// The message that it answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What needs attention though it was sent.
    pub warnings: Vec<String>,
}

impl SendReport {
    /// What was sent, or left in a spool.
    pub(super) fn new(plan: &SendPlan, message: Option<&Message>) -> SendReport {
        let letter = &plan.letter;
        SendReport {
            schema: "git-agent.send/1",
            message_id: message.map(|message| message.id.to_string()),
            status: if message.is_some() { "sent" } else { "spooled" },
            kind: letter.kind.as_str(),
            from: letter.from.to_string(),
            to: ReceiversReport::new(&letter.to),
            priority: letter.priority.as_str(),
            created: message.map(|message| rfc3339(message.at.time())),
            reply_to: letter.re.as_ref().map(MessageId::to_string),
            warnings: plan.warnings.clone(),
        }
    }
}
