//! How a registration looks.

use crate::cli::style::{BOLD, DIM, paint};
use crate::cli::ui::Answer;
use crate::ops::init::InitReport;
use serde_json::{Value, json};

impl Answer for InitReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for host in &self.hosts {
            text.push_str(&format!(
                "{:9} {} {}\n",
                host.action.as_str(),
                paint(BOLD, host.path),
                paint(DIM, &format!("({})", host.host))
            ));
            if let Some(note) = host.note {
                text.push_str(&format!("          {note}\n"));
            }
        }
        if let Some(action) = self.notes {
            text.push_str(&format!(
                "{:9} {}\n",
                action.as_str(),
                paint(BOLD, "notes.displayRef")
            ));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}
