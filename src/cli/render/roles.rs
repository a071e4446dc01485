//! How roles look.

use super::table::{Cell, Table};
use crate::cli::style::{BAD, BOLD, DIM, paint};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::ops::roles::RolesReport;
use serde_json::{Value, json};

impl Answer for RolesReport {
    fn text(&self) -> String {
        let header = vec!["ROLE", "AGENT TYPE", "ISOLATION", "FROM", "WHAT IT IS FOR"];
        let mut table = Table::new(header, width());
        for role in &self.roles {
            let style = if role.spawnable { BOLD } else { DIM };
            table.push(vec![
                Cell::painted(style, role.name.clone()),
                Cell::plain(role.subagent_type.clone()),
                Cell::plain(role.isolation),
                Cell::painted(DIM, role.source.clone()),
                Cell::plain(role.description.clone()),
            ]);
        }
        let mut text = table.render();
        for role in &self.invalid {
            for problem in &role.problems {
                text.push_str(&format!(
                    "{} {}: {problem}\n",
                    paint(BAD, "invalid role"),
                    role.name
                ));
            }
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.roles.iter().map(|role| json!(role)).collect()
    }
}
