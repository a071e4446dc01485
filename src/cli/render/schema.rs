//! How schemas look.

use super::table::{Cell, Table};
use crate::cli::schema::{AllAnswers, OneSchema};
use crate::cli::style::{BOLD, DIM};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::wire::schema::{self, answers};
use serde_json::{Value, json};

impl Answer for AllAnswers {
    fn text(&self) -> String {
        let mut table = Table::new(vec!["ANSWER", "OF", "WHAT"], width());
        for answer in answers() {
            table.push(vec![
                Cell::painted(BOLD, answer.name.to_owned()),
                Cell::painted(DIM, answer.verbs.replace(',', ", ")),
                Cell::plain(answer.what.to_owned()),
            ]);
        }
        table.render()
    }

    fn json(&self) -> Value {
        json!({ "schema": "git-agent.schemas/1", "answers": self.rows() })
    }

    fn rows(&self) -> Vec<Value> {
        answers().iter().map(row).collect()
    }
}

fn row(answer: &schema::Answer) -> Value {
    let verbs: Vec<_> = answer.verbs.split(',').collect();
    let mut row = json!({ "name": answer.name, "of": verbs, "what": answer.what });
    if let Some(id) = answer.id() {
        row["id"] = json!(id);
    }
    row
}

impl Answer for OneSchema {
    fn text(&self) -> String {
        format!("{:#}\n", self.0)
    }

    fn json(&self) -> Value {
        self.0.clone()
    }
}
