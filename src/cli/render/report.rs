//! How a report looks outside of a page.

use crate::cli::ui::Answer;
use crate::ops::report::FleetReport;
use crate::ops::report::SavedReport;
use serde_json::{Value, json};

impl Answer for FleetReport {
    fn text(&self) -> String {
        let states: Vec<_> = self
            .states
            .iter()
            .map(|count| format!("{} {}", count.count, count.state))
            .collect();
        match &self.until {
            None => "(no agents)\n".to_owned(),
            Some(until) => format!(
                "{} as of {until}: {}\n",
                agents(self.agents.len()),
                states.join(", ")
            ),
        }
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|agent| json!(agent)).collect()
    }
}

impl Answer for SavedReport {
    fn text(&self) -> String {
        format!("{}: {}\n", self.path, agents(self.agents))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

fn agents(count: usize) -> String {
    match count {
        1 => "1 agent".to_owned(),
        count => format!("{count} agents"),
    }
}
