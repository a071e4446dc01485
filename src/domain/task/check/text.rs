//! Rules of texts: the task's own, and what no recorded text may hold.

use super::Rules;
use crate::domain::diagnostic::{Field, Located};
use crate::domain::redaction::secret;
use std::ops::Range;
use unicode_width::UnicodeWidthChar;

/// Fewest characters of a task text.
const FEWEST: usize = 20;
/// Most characters of a task text.
const MOST: usize = 4_000;
/// More characters than this are worth a warning.
const MANY: usize = 2_000;

const TEXT_HELP: &str = "say what is to be done, and how to tell that it is";

impl Rules<'_> {
    /// A credential that is recorded is pushed, fetched and never forgotten.
    pub(super) fn no_secret(&mut self, word: &str, text: &Located<String>) {
        if let Some(found) = secret::find(&text.value) {
            let secret = |raw: &str| secret::find(raw).map(|secret| secret.range);
            self.refuse(
                &self.locate(&text.span, secret),
                format!("{word} holds what looks like {}", found.kind),
                "say where it is kept instead, or put it into `briefing`, which is never recorded",
            );
        }
    }

    /// Control characters end commit messages early, and act on terminals.
    pub(super) fn no_control(&mut self, word: &str, lines: bool, text: &Located<String>) {
        let white = |c: char| lines && matches!(c, '\n' | '\r' | '\t');
        if let Some(control) = text.value.chars().find(|&c| c.is_control() && !white(c)) {
            let message = format!(
                "{word} holds a control character, U+{:04X}",
                u32::from(control)
            );
            let help = if lines {
                "remove it"
            } else {
                "write it on one line"
            };
            self.refuse(&text.span, message, help);
        }
    }

    /// The task text, trimmed and with LF line ends.
    pub(super) fn text(&mut self, field: &Field<String>) -> Option<String> {
        let given = self.required(field, TEXT_HELP)?;
        self.no_control("the task text", true, given);
        let Located { value, span } = given;
        let text = value.replace("\r\n", "\n").replace('\r', "\n");
        let text = text.trim();
        let length = text.chars().count();
        if length == 0 {
            self.refuse(span, "the task text is empty", TEXT_HELP);
        } else if length < FEWEST && !self.is_typed {
            let message = format!("the task text has {length} characters, and needs {FEWEST}");
            self.refuse(span, message, TEXT_HELP);
        } else if length > MOST && !self.is_typed {
            let message = format!("the task text has {length} characters, and may have {MOST}");
            self.refuse(
                span,
                message,
                "split the task, or name a file that says more",
            );
        } else if length > MANY {
            let message =
                format!("the task text has {length} characters; up to {MANY} work better");
            self.warn(span, message);
        }
        if length > 0 && is_one_word(text) && !self.is_typed {
            self.refuse(span, "the task text is one word", TEXT_HELP);
        }
        for verb in ["commit", "push", "add", "merge"] {
            if git_command(text, verb).is_some() {
                let place = self.locate(span, |raw| git_command(raw, verb));
                let message =
                    format!("the task text speaks of `git {verb}`; agents must not run git");
                self.warn(&place, message);
            }
        }
        Some(text.to_owned())
    }
}

/// Chinese and Japanese put no spaces between words; there, two wide characters are two words.
fn is_one_word(text: &str) -> bool {
    let wide = text.chars().filter(|c| c.width() == Some(2)).count();
    text.split_whitespace().nth(1).is_none() && wide < 2
}

/// The first place that says `git <verb>`, as words of their own.
fn git_command(text: &str, verb: &str) -> Option<Range<usize>> {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices("git").find_map(|(start, git)| {
        let after = text.get(start + git.len()..)?;
        let command = after.trim_start();
        let tail = command.strip_prefix(verb)?;
        let alone = !text.get(..start)?.ends_with(part_of_word)
            && command.len() < after.len()
            && !tail.starts_with(part_of_word);
        alone.then(|| start..text.len() - tail.len())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_commands_are_words_of_their_own() {
        for (text, found) in [
            ("then git commit it", Some("git commit")),
            ("run `git\n  commit -a`", Some("git\n  commit")),
            ("legit git, git commit", Some("git commit")),
            ("a legit commit", None),
            ("gitcommit", None),
            ("git committed", None),
            ("git agent commit", None),
        ] {
            let range = git_command(text, "commit");
            assert_eq!(range.map(|range| &text[range]), found, "{text}");
        }
    }

    #[test]
    fn words_are_counted_in_scripts_without_spaces() {
        assert!(is_one_word("refactoreverythingnow"));
        assert!(!is_one_word("refactor everything"));
        assert!(!is_one_word("修复解析器中的错误并添加测试用例"));
    }
}
