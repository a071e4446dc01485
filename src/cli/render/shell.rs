//! How an installation for the shell looks.

use crate::cli::style::{BOLD, HINT, WARN, paint};
use crate::cli::ui::Answer;
use crate::ops::install_shell::FileAction;
use crate::ops::install_shell::PartReport;
use crate::ops::install_shell::ShellReport;
use serde_json::{Value, json};

impl Answer for ShellReport {
    fn text(&self) -> String {
        let mut text: String = self.parts.iter().map(part).collect();
        for advice in &self.advice {
            text.push_str(&format!("{} {advice}\n", paint(HINT, "hint:")));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

/// `man: … (31 created)`, and those that are not ours.
fn part(part: &PartReport) -> String {
    let label = paint(BOLD, &format!("{}:", part.part));
    let count = |action| {
        part.files
            .iter()
            .filter(|file| file.action == action)
            .count()
    };
    let counts: Vec<_> = [
        FileAction::Created,
        FileAction::Updated,
        FileAction::Unchanged,
    ]
    .into_iter()
    .map(|action| (count(action), action.as_str()))
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    let mut text = match counts.is_empty() {
        true => String::new(),
        false => format!("{label} {} ({})\n", part.directory, counts.join(", ")),
    };
    let foreign = part.files.iter();
    for file in foreign.filter(|file| file.action == FileAction::Foreign) {
        let warning = paint(WARN, "warning:");
        let (directory, name) = (&part.directory, &file.name);
        text.push_str(&format!(
            "{warning} {directory}/{name} is not ours and stays\n"
        ));
    }
    text
}
