//! How messages look. Text of other senders is shown without its control characters.

use crate::cli::render::table::cut;
use crate::cli::style::{BAD, WARN, paint};
use crate::domain::message::plain;
use crate::ops::mail::MessageReport;
use anstyle::Style;
use serde_json::Value;

/// How wide the title of a message is at most.
const TITLE: usize = 80;

/// How far what a message says is moved to the right.
const INDENT: &str = "  ";

/// The first line of what a message is about, no longer than a line of text should be.
pub(in crate::cli) fn title(message: &MessageReport) -> String {
    let line = message.summary.lines().next().unwrap_or_default();
    cut(&plain(line), TITLE)
}

/// A message: what it is about, then whatever else it says.
pub(in crate::cli) fn block(message: &MessageReport, time: &str) -> String {
    let mut text = format!(
        "{} {} from {}\nID: {}\n{time}: {}\n",
        paint(style(message), &format!("[{}]", message.priority)),
        message.kind,
        plain(&message.sender()),
        message.message_id,
        seconds(&message.created),
    );
    if let Some(id) = &message.reply_to {
        text.push_str(&format!("In reply to: {id}\n"));
    }
    text.push_str(&format!("{}\n", plain(&message.summary)));
    let fields = message.payload.as_object().into_iter().flatten();
    // The summary stands above already.
    for (key, value) in fields.filter(|(_, value)| value.as_str() != Some(&message.summary)) {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = plain(&value).replace('\n', &format!("\n{INDENT}{INDENT}"));
        // A key is the sender's text, and must not look like a line of ours.
        let key = plain(key).replace('\n', "\\n");
        text.push_str(&format!("{INDENT}{key}: {value}\n"));
    }
    text
}

pub(in crate::cli) fn style(message: &MessageReport) -> Style {
    match message.priority {
        "critical" => BAD,
        "high" => WARN,
        _ => Style::new(),
    }
}

/// A time without its fraction, which is for machines.
pub(in crate::cli) fn seconds(time: &str) -> String {
    format!("{}Z", time.split('.').next().unwrap_or_default())
}
