//! How a sweep looks.

use super::table::{Cell, Table};
use crate::cli::style::{BOLD, HINT, paint};
use crate::cli::ui::{Answer, width};
use crate::ops::gc::GcReport;
use serde_json::{Value, json};

impl Answer for GcReport {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.agents.is_empty() {
            text.push_str("(nothing left of any agent)\n");
        } else {
            let mut table = Table::new(vec!["AGENT", "STATE", "ACTION", "WHY"], width());
            for agent in &self.agents {
                table.push(vec![
                    Cell::painted(BOLD, agent.short_id.clone()),
                    Cell::plain(agent.state),
                    Cell::plain(agent.action),
                    Cell::plain(agent.why.clone()),
                ]);
            }
            text.push_str(&table.render());
        }
        if self.trash > 0 {
            text.push_str(&format!("old directories in the trash: {}\n", self.trash));
        }
        let removable = self.agents.iter().any(|agent| agent.action == "remove");
        if self.dry_run && (removable || self.trash > 0 || self.spawning) {
            let hint = paint(HINT, "to do it:");
            text.push_str(&format!("{hint} git agent gc --yes\n"));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|agent| json!(agent)).collect()
    }
}
