//! How messages look. What somebody else wrote is shown without its control characters.

use super::table::{Cell, Table};
use crate::cli::style::{BAD, BOLD, DIM, WARN, paint};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::domain::message::plain;
use crate::ops::archive::{AckReport, ArchiveReport};
use crate::ops::mail::{MessageReport, Standing};
use crate::ops::message::ConversationReport;
use crate::ops::receive::ReceiveReport;
use crate::ops::retention::ExpireReport;
use crate::ops::send::SendReport;
use crate::ops::unite::UniteReport;
use anstyle::Style;
use serde_json::{Value, json};

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
            ("From", Some(crate::ops::mail::handle(&self.from))),
            ("To", Some(self.to.text())),
            ("Priority", Some(self.priority.to_owned())),
        ];
        for (key, value) in lines {
            text.extend(value.map(|value| format!("{key}: {}\n", plain(&value))));
        }
        text
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
        let header = vec!["PRIORITY", "TYPE", "FROM", "SENT", "ID", "SUMMARY"];
        let mut table = Table::new(header, width());
        for message in &self.0.messages {
            let id_style = match message.status {
                Some(Standing::Read) => DIM,
                _ => BOLD,
            };
            table.push(vec![
                Cell::painted(style(message), message.priority),
                Cell::plain(message.kind),
                Cell::plain(plain(&message.sender())),
                Cell::painted(DIM, seconds(&message.created)),
                Cell::painted(id_style, message.message_id.clone()),
                Cell::plain(plain(message.summary.lines().next().unwrap_or_default())),
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
        let mut text = block(&self.message, "Sent");
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
                    plain(message.summary.lines().next().unwrap_or_default()),
                ));
            }
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for ArchiveReport {
    fn text(&self) -> String {
        let mut text = format!("{}\n", self.status_message);
        for archived in &self.messages {
            text.push_str(&format!("\n{}", block(&archived.message, "Received")));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
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

    fn json(&self) -> Value {
        json!(self)
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
            text.push_str(&format!(
                "expired, and deleted when there are more of them: {}\n",
                self.postponed
            ));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for UniteReport {
    fn text(&self) -> String {
        let line = |united: &crate::ops::unite::UnitedReport| {
            let to = &united.to[..7];
            match &united.from {
                Some(from) if *from == united.to => {
                    format!("{} has it all at {to}\n", united.refname)
                }
                Some(from) => format!("{} {} -> {to}\n", united.refname, &from[..7]),
                None => format!("{} begins at {to}\n", united.refname),
            }
        };
        self.refs.iter().map(line).collect()
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

/// A message: what it is about, then whatever else it says.
fn block(message: &MessageReport, time: &str) -> String {
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
