//! Aider. It has no hooks: `verify` is the only fence.

use super::Host;
use super::command::{Line, Needs};

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

    fn arguments(&self, needs: &Needs<'_>, line: &mut Line) -> Result<(), String> {
        line.add(["--message-file", "{prompt_file}", "--yes-always"]);
        line.add(["--no-auto-commits", "--no-dirty-commits", "--no-gitignore"]);
        line.add(["--no-check-update", "--no-show-release-notes"]);
        // Its histories and its index of the repository would be out-of-scope files in the worktree.
        line.add(["--chat-history-file", "/dev/null"]);
        line.add(["--input-history-file", "/dev/null", "--map-tokens", "0"]);
        if !needs.edits {
            line.add(["--chat-mode", "ask"]);
        }
        line.option("--model", needs.model);
        line.lacks("max_iterations", needs.max_iterations);
        line.lacks("max_cost", needs.max_cost);
        line.add(needs.extra);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, READING, check, full};

    #[test]
    fn the_command_line_says_what_the_agent_needs() {
        let always = "aider --message-file {prompt_file} --yes-always --no-auto-commits --no-dirty-commits \
                      --no-gitignore --no-check-update --no-show-release-notes --chat-history-file /dev/null \
                      --input-history-file /dev/null --map-tokens 0";
        check(&Aider, &PLAIN, always);
        let extra = ["src/lib.rs".into()];
        let with_model = format!("{always} --model m src/lib.rs");
        check(&Aider, &full(&extra), &with_model);
        check(&Aider, &READING, &format!("{always} --chat-mode ask"));
        let command = build(&Aider, &full(&[])).expect("a command line");
        assert_eq!(command.without_flag, ["max_iterations"]);
    }
}
