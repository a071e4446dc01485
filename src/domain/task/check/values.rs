//! Rules of the optional keys.

use super::Rules;
use crate::domain::diagnostic::{Field, Located, Problem};
use crate::domain::id::AgentName;
use crate::domain::output_file::{self, OutputProblem};
use crate::domain::task::parse_duration;
use std::time::Duration;

/// The longest time an agent gets.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

impl Rules<'_> {
    /// One line of text without the space around it, which must leave something.
    pub(super) fn line(&mut self, word: &str, field: &Field<String>) -> Option<String> {
        self.filled(word, false, field.given()?)
    }

    /// The same, of any number of lines.
    pub(super) fn paragraph(&mut self, word: &str, field: &Field<String>) -> Option<String> {
        self.filled(word, true, field.given()?)
    }

    fn filled(&mut self, word: &str, lines: bool, text: &Located<String>) -> Option<String> {
        self.no_control(word, lines, text);
        let filled = text.value.trim();
        if filled.is_empty() {
            self.refuse(&text.span, format!("{word} is empty"), "leave it out");
        }
        Some(filled.to_owned())
    }

    /// An alias.
    pub(super) fn name(&mut self, field: &Field<String>) -> Option<AgentName> {
        let Located { value, span } = field.given()?;
        AgentName::parse(value)
            .map_err(|message| self.problems.push(Problem::at(span.clone(), message)))
            .ok()
    }

    /// Ids and their prefixes have the characters of a name; a branch is `agent/` and more of the same.
    pub(super) fn parent(&mut self, field: &Field<String>) -> Option<String> {
        let Located { value, span } = field.given()?;
        let name = value.strip_prefix("agent/").unwrap_or(value);
        if AgentName::parse(name).is_err() {
            let message = format!("the parent `{value}` is no agent");
            self.refuse(
                span,
                message,
                "write its id (4 digits or more), name or branch",
            );
        }
        Some(value.clone())
    }

    /// A revision must not be taken for an option of git.
    pub(super) fn base(&mut self, field: &Field<String>) -> Option<String> {
        let base = self.line("the base", field)?;
        if base.starts_with('-') {
            let span = &field.given()?.span;
            let message = format!("the base `{base}` is no revision");
            self.refuse(span, message, "write a branch, a tag or a commit");
        }
        Some(base)
    }

    /// Commands, none of them empty.
    pub(super) fn commands(
        &mut self,
        word: &str,
        field: &Field<Vec<Located<String>>>,
    ) -> Vec<String> {
        let commands = field.given().into_iter().flat_map(|list| &list.value);
        commands
            .filter_map(|command| self.filled(word, true, command))
            .collect()
    }

    /// Names of fields, as an answer could have them.
    pub(super) fn report_fields(&mut self, field: &Field<Vec<Located<String>>>) -> Vec<String> {
        let mut names = Vec::new();
        for Located { value, span } in field.given().into_iter().flat_map(|list| &list.value) {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
            let name = value.trim();
            if name.is_empty() || name.len() > 64 || !name.chars().all(is_part) {
                let help = "write up to 64 letters, digits, blanks, `-` and `_`";
                self.refuse(
                    span,
                    format!("the field `{value}` has no name that an answer could have"),
                    help,
                );
            }
            names.push(name.to_owned());
        }
        names
    }

    /// 1 to so many.
    pub(super) fn number(&mut self, word: &str, most: u32, field: &Field<i64>) -> Option<u32> {
        let Located { value, span } = field.given()?;
        if !(1..=i64::from(most)).contains(value) {
            let message = format!("{word} is {value}");
            self.refuse(span, message, &format!("write a number from 1 to {most}"));
        }
        u32::try_from(*value).ok()
    }

    /// More than nothing, at most a day.
    pub(super) fn timeout(&mut self, field: &Field<String>) -> Option<Duration> {
        let Located { value, span } = field.given()?;
        match parse_duration(value) {
            Ok(timeout) if !timeout.is_zero() && timeout <= LONGEST => return Some(timeout),
            Ok(_) => {
                let message = format!("the timeout is `{value}`");
                self.refuse(span, message, "write a time from `1s` to `24h`");
            }
            Err(message) => self.problems.push(Problem::at(span.clone(), message)),
        }
        None
    }

    /// An amount that is more than nothing.
    pub(super) fn max_cost(&mut self, field: &Field<f64>) -> Option<f64> {
        let Located { value, span } = field.given()?;
        if *value > 0.0 && value.is_finite() {
            return Some(*value);
        }
        let message = format!("the cost is {value}");
        self.refuse(span, message, "write an amount in US dollars, such as 2.50");
        None
    }

    /// A path below the output directory. `run`, which knows that directory, judges symlinks.
    pub(super) fn output_file(&mut self, field: &Field<String>) -> Option<String> {
        let file = self.line("the output file", field)?;
        match output_file::relative(&file, None) {
            // An empty line and one with a control character have been refused.
            Ok(_) | Err(OutputProblem::Control) => {}
            Err(OutputProblem::Nameless) if file.is_empty() => {}
            Err(problem) => {
                let span = &field.given()?.span;
                let help = "write a relative path without `..`";
                self.refuse(span, problem.to_string(), help);
            }
        }
        Some(file)
    }
}
