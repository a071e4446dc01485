//! A run: one command that worked for an agent, from its start to its end.

use super::event::{Event, Exited, Started, What};
use super::outcome::{Ending, Outcome};
use super::shell;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// How long a command may run when neither the caller nor the task says otherwise, in seconds.
pub const DEFAULT_LIMIT: u64 = 300;

/// How many turns an agent may take when neither the caller nor the task says otherwise.
pub const DEFAULT_ITERATIONS: u32 = 20;

/// The last run of an agent as its row tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// What is known since it began.
    pub started: Started,
    /// When it began.
    pub began: DateTime<Utc>,
    /// How and when it ended; `None` while it lives, and for one whose end was not recorded.
    pub end: Option<(Exited, DateTime<Utc>)>,
}

impl Run {
    /// The run with this number, from the events of its agent; `None` when they tell of none.
    pub fn find(events: &[Event], number: u32) -> Option<Run> {
        let mut found: Option<Run> = None;
        for event in events {
            match (&event.what, &mut found) {
                (What::Started(started), _) if started.run == Some(number) => {
                    found = Some(Run {
                        started: started.clone(),
                        began: event.at.time(),
                        end: None,
                    });
                }
                (What::Exited(exited), Some(run)) if exited.run == Some(number) => {
                    run.end.get_or_insert((exited.clone(), event.at.time()));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether this is how the run ended: it has no end yet, and no other run is named.
    pub fn is_ended_by(&self, exited: &Exited) -> bool {
        let is_same = match (self.started.run, exited.run) {
            (Some(own), Some(named)) => own == named,
            _ => true,
        };
        self.end.is_none() && is_same
    }

    /// What became of a run that ended like this, in words for a run that did not succeed: `run 2 ended with
    /// status 7`.
    pub fn failure(&self, exited: &Exited) -> String {
        let number = self.number();
        match (exited.ended.unwrap_or(Ending::Exit), self.started.limit_ms) {
            (Ending::Exit, _) => format!("run {number} ended with status {}", exited.code),
            (Ending::Signal, _) => {
                let signal = exited.code.saturating_sub(128);
                format!("run {number} was ended by signal {signal}")
            }
            (Ending::Timeout, Some(limit)) => {
                let limit = Duration::from_millis(limit).as_secs_f64();
                format!("run {number} exceeded its time limit of {limit} s")
            }
            (Ending::Timeout, None) => format!("run {number} exceeded its time limit"),
            (Ending::Stopped, _) if exited.code == Outcome::LOCK_HELD.code => {
                format!(
                    "run {number} was ended: it held a lock that other commands wait for (lock-held)"
                )
            }
            (Ending::Stopped, _) => format!("run {number} was stopped"),
            (Ending::Lost, _) => format!("run {number} ended when its supervisor was killed"),
        }
    }

    /// Its number among the runs of its agent; rows of old have none.
    pub fn number(&self) -> u32 {
        self.started.run.unwrap_or(1)
    }
}

/// A command line as one would type it.
pub fn shell_line<'a>(words: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    let words: Vec<String> = words.map(|word| quoted(&word)).collect();
    words.join(" ")
}

/// A command line as it is recorded: quoted where a shell would need it, without credentials, and cut.
pub fn describe_command<'a>(words: impl Iterator<Item = std::borrow::Cow<'a, str>>) -> String {
    let line = shell_line(words);
    let line = super::redaction::secret::redact(&line);
    let mut shortened: String = line.chars().take(COMMAND_LENGTH).collect();
    if shortened.len() < line.len() {
        shortened.push('…');
    }
    shortened
}

/// How many characters of a command line are recorded.
const COMMAND_LENGTH: usize = 200;

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%{}".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    shell::quoted(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn commands_are_recorded_as_one_would_type_them_and_without_secrets() {
        let describe = |words: &[&str]| describe_command(words.iter().map(|word| Cow::from(*word)));
        assert_eq!(describe(&["sh", "-c", "it's"]), r"sh -c 'it'\''s'");
        assert_eq!(
            describe(&["claude", "-p", "{prompt}"]),
            "claude -p {prompt}"
        );
        let told = describe(&["x", "--key", "sk-abcdefgh12345678"]);
        assert_eq!(told, "x --key [secret]");
        assert_eq!(describe(&["é".repeat(300).as_str()]).chars().count(), 201);
    }
}
