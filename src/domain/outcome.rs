//! How a command ended.

use crate::domain::named::named;

named! {
    /// What ended a command.
    pub enum Ending {
        /// It ended by itself.
        Exit = "exit",
        /// A signal of another process ended it.
        Signal = "signal",
        /// Its time was up.
        Timeout = "timeout",
        /// We were asked to end it.
        Stopped = "stopped",
        /// Its supervisor was killed, so it was ended too.
        Lost = "lost",
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What ended it.
    pub ending: Ending,
    /// The status as a shell gives it: its own, 128 + n for signal n, 124 when its time was up.
    pub code: u8,
}

impl Outcome {
    /// The status of a command whose time was up, as timeout(1) has it.
    pub const TIMEOUT: Outcome = Outcome {
        ending: Ending::Timeout,
        code: 124,
    };
    /// What is said of a command that was ended because it held a lock that other commands wait for. No signal stops a command with that
    /// status.
    pub const LOCK_HELD: Outcome = Outcome {
        ending: Ending::Stopped,
        code: 125,
    };
    /// What is said of a command of whose end nothing is known but that it was killed.
    pub const LOST: Outcome = Outcome {
        ending: Ending::Lost,
        code: 137,
    };

    /// Whether the command did what it was asked to.
    pub fn is_success(self) -> bool {
        self.ending == Ending::Exit && self.code == 0
    }

    /// The outcome as one line of text: `exit 3`.
    pub fn to_line(self) -> String {
        format!("{} {}\n", self.ending.as_str(), self.code)
    }

    /// Reads that line back; `None` for anything else.
    pub fn parse(line: &str) -> Option<Outcome> {
        let (ending, code) = line.strip_suffix('\n')?.split_once(' ')?;
        Some(Outcome {
            ending: Ending::parse(ending)?,
            code: code.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_survive_being_written() {
        for ending in Ending::ALL {
            let outcome = Outcome { ending, code: 137 };
            assert_eq!(Outcome::parse(&outcome.to_line()), Some(outcome));
        }
        for text in [
            "",
            "exit",
            "exit 3",
            "exit 256\n",
            "left 1\n",
            "exit 3\nx\n",
        ] {
            assert_eq!(Outcome::parse(text), None, "{text:?}");
        }
    }
}
