//! How the state of git hooks looks.

use crate::cli::style::{BAD, BOLD, GOOD, paint};
use crate::cli::ui::Answer;
use crate::ops::hooks::HooksReport;
use serde_json::{Value, json};

impl Answer for HooksReport {
    fn text(&self) -> String {
        if self.agents.is_empty() {
            return "(no agents with a worktree here)\n".to_owned();
        }
        let mut text = String::new();
        for agent in &self.agents {
            let verdict = match (agent.ok, agent.route) {
                (true, Some(route)) => paint(GOOD, &format!("ok ({route})")),
                _ => paint(BAD, "not as they should be"),
            };
            text.push_str(&format!(
                "{} {verdict}\n",
                paint(BOLD, &agent.agent_id[..8])
            ));
            for problem in &agent.problems {
                text.push_str(&format!("  {}: {}\n", problem.code, problem.message));
            }
        }
        if !self.is_ok() {
            text.push_str("to write them anew, run git agent hooks repair\n");
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
