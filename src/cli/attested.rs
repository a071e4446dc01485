//! `git agent verify --attested`

use super::render::findings::{finding_text, sarif_of};
use super::style::{BAD, DIM, GOOD, paint};
use super::ui::Answer;
use crate::domain::message::plain;
use crate::ops::verify::AttestedReport;
use serde_json::Value;

impl Answer for AttestedReport {
    fn text(&self) -> String {
        let word = match self.verdict {
            "accept" => paint(GOOD, "accepted"),
            _ => paint(BAD, "rejected"),
        };
        let mut text = word;
        if let Some(statement) = &self.statement {
            // The file may be a stranger's: a cut at a byte could fall into a character.
            let short = |text: &str, length| text.chars().take(length).collect::<String>();
            let tip = short(statement.tip.as_deref().unwrap_or_default(), 7);
            let agent = plain(&statement.short_id);
            text.push_str(&format!(": {agent} at {tip}"));
            let time = plain(&statement.verified_at);
            text.push_str(&paint(DIM, &format!(" (judged {time})")));
        }
        if let Some(signer) = &self.signer {
            text.push_str(&format!(", signed by {}", plain(signer)));
        }
        text.push('\n');
        for finding in &self.findings {
            text.push_str(&finding_text(finding));
        }
        text
    }

    fn sarif(&self) -> Option<Value> {
        Some(sarif_of("attested", &self.findings))
    }
}
