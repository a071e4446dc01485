//! Verdicts as Markdown, for the summary of a build.
//!
//! Paths, messages and output come from the branch that is judged. They are written so that nothing in them becomes a
//! heading, a link, an image or HTML.

use super::render::findings::counted;
use crate::ops::verify::{FindingReport, MergeReport};

/// A verdict, as far as the summary has it.
pub(super) struct Summary<'a> {
    /// Whether the work may land.
    pub is_accepted: bool,
    /// What was judged, such as `agent 6a48ca7b`.
    pub what: String,
    /// The commit.
    pub tip: &'a str,
    /// The short name of the branch to land on; empty where it is a mere commit.
    pub target: &'a str,
    /// How it would land.
    pub merge: Option<&'a MergeReport>,
    /// What was found.
    pub findings: &'a [FindingReport],
    /// Commands that failed, and the end of their output.
    pub failed: Vec<(&'a str, &'a str)>,
}

impl Summary<'_> {
    /// The summary as a text.
    pub(super) fn text(&self) -> String {
        let word = if self.is_accepted {
            "accepted"
        } else {
            "rejected"
        };
        let mut text = format!("## git agent {word} {}\n\n", inline(&self.what));
        let mut facts = vec![format!("commit {}", &self.tip[..7.min(self.tip.len())])];
        if !self.target.is_empty() {
            facts.push(format!("onto {}", inline(self.target)));
        }
        if let Some(merge) = self.merge {
            facts.push(merge.state.to_owned());
            facts.push(counted(merge.ahead, "commit", " ahead"));
            facts.push(counted(merge.behind, "commit", " behind"));
        }
        facts.retain(|fact| !fact.is_empty());
        text.push_str(&format!("{}\n", facts.join(" · ")));
        if !self.findings.is_empty() {
            text.push_str("\n| | finding | what is wrong | what to do |\n|---|---|---|---|\n");
        }
        for finding in self.findings {
            let (code, weight) = (finding.code, finding.severity);
            let weight = match weight {
                "error" => "**error**",
                _ => weight,
            };
            let (message, fix) = (inline(&finding.message), inline(&finding.fix));
            text.push_str(&format!("| {weight} | `{code}` | {message} | {fix} |\n"));
        }
        for (command, output) in &self.failed {
            text.push_str(&format!(
                "\n<details><summary>Output of {}</summary>\n\n{}\n</details>\n",
                inline(command),
                fenced(output)
            ));
        }
        text.push('\n');
        text
    }
}

/// A text as one line of plain words.
fn inline(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            // It names a person on some hosts.
            '@' => plain.push_str("&#64;"),
            character if character.is_control() => plain.push(' '),
            character if character.is_ascii_punctuation() && !is_plain(character) => {
                plain.push('\\');
                plain.push(character);
            }
            character => plain.push(character),
        }
    }
    // What looks like an address becomes a link.
    plain.replace("\\://", "&#58;//")
}

/// Punctuation that is no markup inside a line.
fn is_plain(character: char) -> bool {
    matches!(
        character,
        '.' | ',' | '/' | '-' | ';' | '\'' | '"' | '(' | ')' | '=' | '+'
    )
}

/// A text as it is, in a fence that is longer than any in it.
fn fenced(text: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    let text: String = text
        .chars()
        .filter(|c| !c.is_control() || *c == '\n' || *c == '\t')
        .collect();
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(inline("a|b `c`\n# d"), "a\\|b \\`c\\` \\# d");
        assert_eq!(inline("<img> @ada"), "&lt;img&gt; &#64;ada");
        assert_eq!(inline("src/two.rs, 1-2."), "src/two.rs, 1-2.");
        assert_eq!(inline("![x](http://y)"), "\\!\\[x\\](http&#58;//y)");
    }

    #[test]
    fn output_does_not_end_its_fence() {
        assert_eq!(fenced("a\n````\nb\n"), "`````text\na\n````\nb\n`````\n");
        assert_eq!(fenced("a\x1b[0m"), "```text\na[0m\n```\n");
    }
}
