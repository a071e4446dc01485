//! How an examination looks.

use crate::cli::style::{BAD, DIM, GOOD, HINT, WARN, paint};
use crate::cli::ui::Answer;
use crate::ops::doctor::DoctorReport;
use serde_json::{Value, json};

impl Answer for DoctorReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for cured in &self.fixed {
            let label = format!("fixed[{}]:", cured.code);
            text.push_str(&format!("{} {}\n", paint(GOOD, &label), cured.what));
            text.push_str(&format!("  {}\n", cured.done));
        }
        for finding in &self.findings {
            let style = if finding.weight == "problem" {
                BAD
            } else {
                WARN
            };
            let label = format!("{}[{}]:", finding.weight, finding.code);
            text.push_str(&format!("{} {}\n", paint(style, &label), finding.what));
            text.push_str(&format!("  {}\n", finding.why));
            if let Some(failed) = &finding.failed {
                text.push_str(&format!("  could not be fixed: {failed}\n"));
            }
            let hint = paint(HINT, "run:");
            text.push_str(&format!("  {hint} {}\n", finding.command));
        }
        for family in &self.families {
            let state = match family.problems {
                0 => paint(GOOD, "ok"),
                count => paint(BAD, &format!("{count} found")),
            };
            let what = paint(DIM, family.looks_at);
            text.push_str(&format!("{:<10} {state}  {what}\n", family.family));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.findings.iter().map(|finding| json!(finding)).collect()
    }
}
