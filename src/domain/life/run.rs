//! A run: one command that worked for an agent, from its start to its end.

pub use super::event::{Ending, Outcome};
use super::event::{Event, Exited, Started, What};
use crate::domain::value::shell;
use chrono::{DateTime, Utc};
use std::cmp::Ordering;
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
    /// Whether it was found dead without an end in its row.
    pub is_lost: bool,
}

impl Run {
    /// Takes what an event tells of the last run of an agent. Runs are facts of the outside world: they are told whatever state the
    /// agent is in. Gives how the run ended, where this event says that.
    pub(in crate::domain) fn follow<'e>(
        last: &mut Option<Run>,
        event: &'e Event,
        time: DateTime<Utc>,
    ) -> Option<&'e Exited> {
        match (&event.what, last) {
            (What::Started(started), last) => {
                *last =
                    Some(Run { started: started.clone(), began: time, end: None, is_lost: false });
                None
            }
            (What::Exited(exited), Some(run)) if run.is_ended_by(exited) => {
                run.end = Some((exited.clone(), time));
                Some(exited)
            }
            _ => None,
        }
    }

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
                        is_lost: false,
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
            // Rows of earlier versions do not number runs.
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
            (Ending::LimitMemory, _) => {
                format!("run {number} was ended: it took more memory than a run may (limit-memory)")
            }
            (Ending::LimitPids, _) => {
                format!("run {number} was ended: it had more processes than a run may (limit-pids)")
            }
            (Ending::LimitCost, _) => {
                format!("run {number} was ended: it, or the day, has cost what it may (limit-cost)")
            }
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
    let line = crate::domain::value::redaction::redact_secrets(&line);
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

// Which of several agents did one task best.

/// What is compared of one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attempt {
    /// Whether its work may land; its check commands were part of that verdict.
    pub is_accepted: bool,
    /// How many lines it changed; `None` where that is not known.
    pub changed_lines: Option<usize>,
    /// What it cost, in US dollars; `None` where that is not known.
    pub cost_usd: Option<f64>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

/// The numbers of the attempts, best first: accepted, with the smaller change, cheaper, faster, begun first. A size that is
/// not known comes after those that are.
pub fn ranking(attempts: &[Attempt]) -> Vec<usize> {
    let mut order: Vec<(usize, &Attempt)> = attempts.iter().enumerate().collect();
    order.sort_by(|(_, one), (_, two)| compare(attempts, one, two));
    order.into_iter().map(|(number, _)| number).collect()
}

fn compare(all: &[Attempt], one: &Attempt, two: &Attempt) -> Ordering {
    let lines = |attempt: &Attempt| attempt.changed_lines.unwrap_or(usize::MAX);
    let by_work = |one: &Attempt, two: &Attempt| {
        let accepted = two.is_accepted.cmp(&one.is_accepted);
        accepted.then(lines(one).cmp(&lines(two)))
    };
    // A host that does not tell its cost is neither cheap nor dear. So cost decides only among equals that all tell theirs; to leave
    // out single pairs would make an order in which each is better than the next, and the last better than the first.
    let mut equals = all.iter().filter(|other| by_work(one, other).is_eq());
    let is_known = equals.all(|other| other.cost_usd.is_some());
    let cost = |attempt: &Attempt| attempt.cost_usd.filter(|_| is_known).unwrap_or_default();
    by_work(one, two)
        .then(cost(one).total_cmp(&cost(two)))
        .then(one.duration_ms.cmp(&two.duration_ms))
}

/// The reason for which the decision about one that did not win is put off.
pub fn lost_to(winner: &str, attempts: usize) -> String {
    format!("lost to {winner}, the best of {attempts}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn commands_are_recorded_as_one_would_type_them_and_without_secrets() {
        let describe = |words: &[&str]| describe_command(words.iter().map(|word| Cow::from(*word)));
        assert_eq!(describe(&["sh", "-c", "it's"]), r"sh -c 'it'\''s'");
        assert_eq!(describe(&["claude", "-p", "{prompt}"]), "claude -p {prompt}");
        let told = describe(&["x", "--key", "sk-abcdefgh12345678"]);
        assert_eq!(told, "x --key [secret]");
        assert_eq!(describe(&["é".repeat(300).as_str()]).chars().count(), 201);
    }

    #[test]
    fn outcomes_survive_being_written() {
        for ending in Ending::ALL {
            let outcome = Outcome { ending, code: 137 };
            assert_eq!(Outcome::parse(&outcome.to_line()), Some(outcome));
        }
        for text in ["", "exit", "exit 3", "exit 256\n", "left 1\n", "exit 3\nx\n"] {
            assert_eq!(Outcome::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn verdict_then_size_then_cost_then_time_decide() {
        let attempt = |is_accepted, lines, cost, duration_ms| Attempt {
            is_accepted,
            changed_lines: Some(lines),
            cost_usd: cost,
            duration_ms,
        };
        let attempts = [
            attempt(false, 1, Some(0.1), 1),
            attempt(true, 9, Some(0.1), 1),
            attempt(true, 7, None, 2),
            attempt(true, 7, Some(0.1), 3),
            attempt(true, 7, Some(0.2), 1),
            attempt(true, 5, Some(0.5), 1),
            attempt(true, 5, Some(0.2), 9),
            attempt(true, 5, Some(0.2), 7),
            attempt(true, 5, Some(0.2), 7),
        ];
        assert_eq!(ranking(&attempts), [7, 8, 6, 5, 4, 2, 3, 1, 0]);
    }
}
