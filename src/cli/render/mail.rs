//! How messages look. Text of other senders is shown without its control characters.

use super::table::{Cell, Table, cut};
use crate::cli::style::{BAD, BOLD, DIM, WARN, paint};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::domain::message::{Handing, plain};
use crate::ops::mail::MessageReport;
use crate::ops::mail::Standing;
use crate::ops::mail::conversation::ConversationReport;
use crate::ops::receive::ReceiveReport;
use crate::ops::send::SendReport;
use anstyle::Style;
use serde_json::{Value, json};

/// The state of a message that was handed out and waits to be acknowledged.
const HANDED_OUT: &str = "handed out";

/// How wide the title of a message is at most.
const TITLE: usize = 80;

/// How far what a message says is moved to the right.
const INDENT: &str = "  ";

impl Answer for SendReport {
    fn text(&self) -> String {
        let mut text = match self.message_id {
            Some(_) => "Message sent successfully.\n".to_owned(),
            None => "Message left in the spool; it is sent when that is collected.\n".to_owned(),
        };
        let lines = [
            ("ID", self.message_id.clone()),
            ("Type", Some(self.kind.to_owned())),
            ("From", Some(crate::agents::names::handle(&self.from))),
            ("To", Some(self.to.text())),
            ("Priority", Some(self.priority.to_owned())),
        ];
        for (key, value) in lines {
            text.extend(value.map(|value| format!("{key}: {}\n", plain(&value))));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        Some(match &self.message_id {
            Some(id) => format!("git agent show {id}"),
            None => "ls \"$GIT_AGENT_SPOOL\"".to_owned(),
        })
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for ReceiveReport {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.status_message);
        for message in &self.messages {
            text.push_str(&format!("\n{}", block(message, "Received")));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        let place = match self.handing? {
            Handing::Archive => "archive",
            Handing::AwaitAck => "inbox",
        };
        (self.count > 0).then(|| format!("git agent {place} --agent {}", self.agent))
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.messages.iter().map(|message| json!(message)).collect()
    }
}

/// The same messages as a table.
pub(crate) struct Inbox<'a>(pub(crate) &'a ReceiveReport);

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

    fn json(&self) -> Value {
        self.0.json()
    }

    fn rows(&self) -> Vec<Value> {
        self.0.rows()
    }
}

impl Answer for ConversationReport {
    fn text(&self) -> String {
        let to = format!("To: {}\nSent", plain(&self.message.to.text()));
        let mut text = block(&self.message, &to);
        if self.thread.len() > 1 {
            text.push_str("\nConversation:\n");
            for message in &self.thread {
                let mark = match message.message_id == self.message.message_id {
                    true => ">",
                    false => " ",
                };
                text.push_str(&format!(
                    "{mark} {} {} {} -> {}: {}\n",
                    seconds(&message.created),
                    message.message_id,
                    plain(&message.sender()),
                    plain(&message.to.text()),
                    title(message),
                ));
            }
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

/// The first line of what a message is about, no longer than a line of text should be.
fn title(message: &MessageReport) -> String {
    let line = message.summary.lines().next().unwrap_or_default();
    cut(&plain(line), TITLE)
}

/// A message: what it is about, then whatever else it says.
pub(super) fn block(message: &MessageReport, time: &str) -> String {
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
    for (key, value) in fields.filter(|(_, value)| value.as_str() != Some(&message.summary)) {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let value = plain(&value).replace('\n', &format!("\n{INDENT}{INDENT}"));
        let key = plain(key).replace('\n', "\\n");
        text.push_str(&format!("{INDENT}{key}: {value}\n"));
    }
    text
}

fn style(message: &MessageReport) -> Style {
    match message.priority {
        "critical" => BAD,
        "high" => WARN,
        _ => Style::new(),
    }
}

/// A time without its fraction, which is for machines.
fn seconds(time: &str) -> String {
    format!("{}Z", time.split('.').next().unwrap_or_default())
}
