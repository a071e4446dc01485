//! How the end of messages looks: archived, acknowledged, expired, united with those of another clone.

use super::mail::block;
use crate::cli::ui::Answer;
use crate::ops::archive::AckReport;
use crate::ops::archive::ArchiveReport;
use crate::ops::retention::ExpireReport;
use crate::ops::unite::UniteReport;
use serde_json::{Value, json};

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

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent archive --agent {}", self.agent))
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

    fn to_see_it(&self) -> Option<String> {
        (!self.dry_run).then(|| "git log refs/agents/mail".to_owned())
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
