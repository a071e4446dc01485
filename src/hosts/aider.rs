//! Aider. It has no hooks: `verify` is the only fence.

use super::command::{CommandWords, Needs};
use super::home::{Ground, Preparation};
use super::output::{Tokens, Told};
use super::{CostControl, Host};

/// Wherever it starts: for `run`, and for a person who enters the worktree.
const OPTIONS: [&str; 12] = [
    "--no-auto-commits",
    "--no-dirty-commits",
    "--no-gitignore",
    // It would write into the user's home, which is closed behind the fence, and it ends where it cannot.
    "--no-check-update",
    "--no-show-release-notes",
    // Else it leaves out what git ignores, and the six files of the bundle with that.
    "--add-gitignore-files",
    // Its histories and its index of the repository would be out-of-scope files in the worktree.
    "--chat-history-file",
    "/dev/null",
    "--input-history-file",
    "/dev/null",
    "--map-tokens",
    "0",
];

pub(super) struct Aider;

impl Host for Aider {
    fn name(&self) -> &'static str {
        "aider"
    }

    fn control_files(&self) -> &'static [&'static str] {
        &["**/.aider.conf.yml"]
    }

    fn program(&self) -> Option<&'static str> {
        Some("aider")
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        line.add(["--message-file", "{prompt_file}", "--yes-always"]);
        if !needs.edits {
            line.add(["--chat-mode", "ask"]);
        }
        line.option("--model", needs.model);
        line.lacks("max_iterations", needs.max_iterations);
        line.add(needs.extra);
        Ok(())
    }

    fn cost_control(&self) -> CostControl {
        CostControl::Cost
    }

    fn prepare(&self, _ground: &Ground<'_>) -> Preparation {
        Preparation { options: OPTIONS.map(Into::into).to_vec(), ..Preparation::default() }
    }

    /// After each message: `Tokens: 3.2k sent, 62 received. Cost: $0.0086 message, $0.02 session.` The sum over the session is rounded
    /// more than the messages are.
    fn told(&self, out: &str, _err: &str) -> Told {
        let (mut told, mut tokens) = (Told::default(), Tokens::default());
        // What the model says in a line is no report.
        for report in format!("\n{out}").split("\nTokens: ").skip(1) {
            let words = report.split_whitespace().take(20);
            for (number, what) in words.clone().zip(words.skip(1)) {
                let Some(amount) = amount(number) else {
                    continue;
                };
                match what.trim_end_matches([',', '.']) {
                    "sent" => tokens.input = tokens.input.saturating_add(amount.round() as u64),
                    "received" => {
                        tokens.output = tokens.output.saturating_add(amount.round() as u64)
                    }
                    "message" => *told.cost_usd.get_or_insert(0.0) += amount,
                    _ => {}
                }
            }
        }
        told.tokens = tokens.some();
        told
    }
}

/// `3.2k`, `62` or `$0.0086`.
fn amount(word: &str) -> Option<f64> {
    let word = word.trim_start_matches('$');
    let (number, unit) = match word.strip_suffix('k') {
        Some(thousands) => (thousands, 1000.0),
        None => (word, 1.0),
    };
    let number: f64 = number.parse().ok()?;
    (number.is_finite() && number >= 0.0).then_some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        let always = "aider --message-file {prompt_file} --yes-always";
        check(&Aider, &PLAIN, always);
        let extra = ["src/lib.rs".into()];
        let with_model = format!("{always} --model m src/lib.rs");
        check(&Aider, &full(&extra), &with_model);
        check(&Aider, &READING, &format!("{always} --chat-mode ask"));
        let command = build(&Aider, &full(&[])).expect("a command line");
        assert_eq!(command.without_flag, ["max_iterations"]);
    }

    #[test]
    fn cost_and_tokens_are_those_of_all_messages() {
        let out = "Tokens: 3.2k sent, 62 received. Cost: $0.0086 message, $0.0086 session.\n\nApplied edit\n\
                   Tokens: 12k sent, 1.5k cache write, 300 cache\nhit, 1.1k received. Cost: $0.02 message, $0.03 session.\n";
        let told = Aider.told(out, "");
        let tokens = Tokens { input: 15_200, output: 1_162 };
        assert_eq!(told.tokens, Some(tokens));
        let cost = told.cost_usd.expect("a cost");
        assert!((cost - 0.0286).abs() < 1e-9, "{cost}");
        // A model that costs nothing, or words of the model.
        let free = Aider.told("Tokens: 10 sent, 2 received.\n", "");
        assert_eq!((free.cost_usd, free.tokens.map(|it| it.output)), (None, Some(2)));
        assert_eq!(Aider.told("As asked: Tokens: 1 sent. Cost: $60 message", ""), Told::default());
        assert_eq!(Aider.told("Tokens: many sent, nan received", "").tokens, None);
    }
}
