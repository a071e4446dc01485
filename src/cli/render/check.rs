//! How a check looks: nothing when all is in scope, so that it can sit in any hook.

use crate::cli::style::{BAD, BOLD, HINT, paint};
use crate::cli::ui::Answer;
use crate::domain::path::Quoted;
use crate::ops::check::CheckReport;
use serde_json::{Value, json};

impl Answer for CheckReport {
    fn text(&self) -> String {
        if self.in_scope {
            return String::new();
        }
        let count = format!("{} of {} changes", self.violations.len(), self.checked);
        let mut text = format!("{} {count}\n", paint(BAD, "out of scope:"));
        for violation in &self.violations {
            let path = Quoted(&violation.path.to_bytes()).to_string();
            let place = match &violation.commit {
                Some(commit) => format!("{} in {}", violation.change, &commit[..7]),
                None => violation.change.to_owned(),
            };
            text.push_str(&format!("  {} ({place})\n", paint(BOLD, &path)));
            text.push_str(&format!("    {}\n", violation.detail));
            text.push_str(&format!("    {} {}\n", paint(HINT, "run:"), violation.fix));
        }
        if let (Some(agent), Some(whitelist)) = (&self.agent_id, &self.whitelist) {
            let globs = whitelist.join(" ");
            text.push_str(&format!("agent {} may touch: {globs}\n", &agent[..8]));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}
