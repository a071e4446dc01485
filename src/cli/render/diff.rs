//! How a difference looks to machines; to people git shows it.

use crate::cli::ui::Answer;
use crate::domain::path::Quoted;
use crate::ops::diff::DiffReport;
use serde_json::{Value, json};

impl Answer for DiffReport {
    fn text(&self) -> String {
        let lines = self.changes.iter().map(|change| {
            let path = change.path.to_bytes();
            format!("{} {}\n", change.kind, Quoted(&path))
        });
        lines.collect()
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.changes.iter().map(|change| json!(change)).collect()
    }
}
