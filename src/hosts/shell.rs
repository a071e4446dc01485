//! The system's shell, for agents that are a line of shell.

use super::command::{CommandWords, Needs};
use super::{CostControl, Host};

pub(super) struct ShellHost;

impl Host for ShellHost {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn program(&self) -> Option<&'static str> {
        Some("sh")
    }

    /// A script finds the limit in its environment.
    fn cost_control(&self) -> CostControl {
        CostControl::Own
    }

    fn arguments(&self, needs: &Needs<'_>, line: &mut CommandWords) -> Result<(), String> {
        let [script, arguments @ ..] = needs.extra else {
            return Err("the shell has nothing to run".to_owned());
        };
        line.add(["-c", script, "sh"]);
        line.add(arguments);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::command::build;
    use crate::hosts::command::tests::{PLAIN, check, full};

    #[test]
    fn a_line_is_needed_and_what_follows_are_its_arguments() {
        let extra = ["wc -l | tee out".to_owned(), "x".to_owned()];
        check(&ShellHost, &full(&extra), "sh -c wc -l | tee out sh x");
        assert!(build(&ShellHost, &PLAIN).is_err());
    }
}
