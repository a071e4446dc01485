//! Verdicts as Markdown, for the summary of a build.
//!
//! Paths, messages and output come from the branch that is judged. They are written so that nothing in them becomes a
//! heading, a link, an image or HTML.

use crate::cli::out::render::counted;
use crate::domain::CommandRun;
use crate::ops::verify::{CommitPartReport, FindingReport, MergeReport};

/// How long the table of findings becomes, in bytes. A forge takes 1 MiB for a step of a build, in which two verdicts stand
/// with the output of commands.
const LIMIT: usize = 200 * 1024;

/// A verdict, as far as the summary has it.
pub(in crate::cli) struct Summary<'a> {
    /// `accept`, `reject`, or nothing where it was not judged.
    pub verdict: Option<&'a str>,
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
    /// The commands that ran.
    pub commands: &'a [CommandRun],
}

impl Summary<'_> {
    /// The summary as a text.
    pub(in crate::cli) fn text(&self) -> String {
        let word = match self.verdict {
            Some("accept") => "accepted",
            Some(_) => "rejected",
            None => "not judged:",
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
        if !self.commands.is_empty() {
            text.push('\n');
        }
        for run in self.commands {
            if text.len() > LIMIT {
                text.push_str("- more checks are left out here\n");
                break;
            }
            let word = if run.is_success() { "passed" } else { "**failed**" };
            let from = run.taken_over_from.map_or_else(String::new, |tree| {
                format!(", taken over from tree {}", &tree.to_hex()[..7])
            });
            text.push_str(&format!("- {word} {}{from}\n", inline(&run.command)));
        }
        if !self.findings.is_empty() {
            text.push_str("\n| | finding | what is wrong | what to do |\n|---|---|---|---|\n");
        }
        // What rejects comes first, so that it is not what is left out.
        let (errors, notes): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.severity == "error");
        let count = self.findings.len();
        for (number, finding) in errors.into_iter().chain(notes).enumerate() {
            if text.len() > LIMIT {
                let more = counted(count - number, "more finding", "");
                text.push_str(&format!("\n{more} left out here; `--format json` has them all.\n"));
                break;
            }
            let (code, weight) = (finding.code, finding.severity);
            let weight = match weight {
                "error" => "**error**",
                _ => weight,
            };
            let (message, fix) = (inline(&finding.message), inline(&finding.fix));
            text.push_str(&format!("| {weight} | `{code}` | {message} | {fix} |\n"));
        }
        for run in self.commands.iter().filter(|run| !run.is_success()) {
            if text.len() > 2 * LIMIT {
                text.push_str("\nThe output of more commands is left out.\n");
                break;
            }
            text.push_str(&format!(
                "\n<details><summary>Output of {}</summary>\n\n{}\n</details>\n",
                inline(&run.command),
                fenced(&run.output)
            ));
        }
        text.push('\n');
        text
    }
}

/// A part of what would land, as an item of a list.
pub(in crate::cli) fn part_line(part: &CommitPartReport) -> String {
    let word = match part.verdict {
        Some("accept") => "accepted",
        Some(_) => "**rejected**",
        None => "not judged",
    };
    let (commit, subject) = (&part.commit[..7], inline(&part.subject));
    format!("- {word} {commit} {subject}{}\n", inline(&part.origin()))
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
    matches!(character, '.' | ',' | '/' | '-' | ';' | '\'' | '"' | '(' | ')' | '=' | '+')
}

/// A text as it is, in a fence that is longer than any in it.
fn fenced(text: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest.max(2) + 1);
    let text: String =
        text.chars().filter(|c| !c.is_control() || *c == '\n' || *c == '\t').collect();
    format!("{fence}text\n{}\n{fence}\n", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::judge::evidence::CommandEnd;

    #[test]
    fn nothing_in_a_name_is_markup() {
        assert_eq!(inline("a|b `c`\n# d"), "a\\|b \\`c\\` \\# d");
        assert_eq!(inline("<img> @ada"), "&lt;img&gt; &#64;ada");
        assert_eq!(inline("src/two.rs, 1-2."), "src/two.rs, 1-2.");
        assert_eq!(inline("![x](http://y)"), "\\!\\[x\\](http&#58;//y)");
    }

    #[test]
    fn a_summary_stays_within_what_a_forge_takes_and_keeps_what_rejects() {
        let finding = |severity: &'static str| FindingReport {
            code: "scope.denylist",
            severity,
            path: None,
            kinds: Vec::new(),
            commit: None,
            message: "m".repeat(200),
            fix: "f".repeat(100),
        };
        let mut findings: Vec<_> = (0..30_000).map(|_| finding("note")).collect();
        findings.push(finding("error"));
        let failed = CommandRun {
            end: CommandEnd::Status(1),
            output: "o".repeat(100_000),
            ..CommandRun::passed("make", None)
        };
        let summary = Summary {
            verdict: Some("reject"),
            what: String::new(),
            tip: "",
            target: "",
            merge: None,
            findings: &findings,
            commands: &vec![failed; 20],
        };
        let text = summary.text();
        assert!(text.len() < 512 * 1024, "{}", text.len());
        assert!(text.contains("**error**") && text.contains("more findings left out"));
    }

    #[test]
    fn output_does_not_end_its_fence() {
        assert_eq!(fenced("a\n````\nb\n"), "`````text\na\n````\nb\n`````\n");
        assert_eq!(fenced("a\x1b[0m"), "```text\na[0m\n```\n");
    }
}
