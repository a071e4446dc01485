//! A message as it was requested, and the rules that make it one that can be sent. Everything that is
//! wrong with it is said at once.

use super::message::{
    EVERYBODY, Kind, Letter, MessageId, Name, PAYLOAD_LIMIT, Payload, Priority, Receivers,
    Retention, USER,
};
use crate::domain::value::diagnostic::nearest;
use crate::domain::value::redaction;
use std::collections::BTreeMap;

/// Why a message may hold no credential.
pub const KEPT: &str = "messages are kept and pushed like commits";

/// A message before anything about it was checked.
#[derive(Clone, Debug, Default)]
pub struct Draft<'a> {
    /// The word for its type.
    pub kind: &'a str,
    /// The word for its priority, where one was given.
    pub priority: Option<&'a str>,
    /// Who sends it.
    pub from: &'a str,
    /// For whom it is: names, or `all` alone. Empty for no reader in particular.
    pub to: Vec<&'a str>,
    /// The id of the message that it answers.
    pub re: Option<&'a str>,
    /// What it says; `None` when that could not be read, and so what it lacks is unknown.
    pub payload: Option<Payload>,
    /// What the repository asks of messages besides.
    pub rules: MessageRules,
}

/// What a repository says of messages, in `[messages]` of its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageRules {
    /// The priority of a message of such a type that names none, in the place of the type's own.
    pub priorities: BTreeMap<Kind, Priority>,
    /// Further fields that a message of such a type needs.
    pub required: BTreeMap<Kind, Vec<String>>,
    /// How long messages are kept.
    pub retention: Retention,
}

impl MessageRules {
    /// The priority of a message that names none.
    fn priority(&self, kind: Kind) -> Priority {
        self.priorities.get(&kind).copied().unwrap_or_else(|| kind.priority())
    }
}

impl Draft<'_> {
    /// Checks the message.
    ///
    /// # Errors
    /// Every rule that it breaks, one sentence each.
    pub fn check(self) -> Result<Letter, Vec<String>> {
        let mut problems = Vec::new();
        let kind = Kind::parse(self.kind);
        if kind.is_none() {
            let words = Kind::ALL.iter().map(|kind| kind.as_str());
            problems.push(unknown("type", self.kind, words));
        }
        let priority = match self.priority {
            None => kind.map(|kind| self.rules.priority(kind)),
            Some(word) => {
                let priority = Priority::parse(word);
                if priority.is_none() {
                    let words = Priority::ALL.iter().map(|priority| priority.as_str());
                    problems.push(unknown("priority", word, words));
                }
                priority
            }
        };
        let from = note(&mut problems, Name::parse(self.from));
        let to = self.receivers(kind, &mut problems);
        if let Some(kind) = kind {
            let missing = self.missing(kind);
            if !missing.is_empty() {
                problems.push(format!("a message of type {kind} needs {}", missing.join(", ")));
            }
        }
        let re = self.re.and_then(|text| {
            let id = MessageId::parse(text);
            let wrong = || format!("`{}` is no message id", text.escape_debug());
            note(&mut problems, id.ok_or_else(wrong))
        });
        let text = self.payload.as_ref().map_or("", |payload| &payload.json);
        if text.len() > PAYLOAD_LIMIT {
            problems.push(format!(
                "the payload takes {} bytes, and at most {PAYLOAD_LIMIT} are allowed",
                text.len()
            ));
        }
        if let Some(secret) = redaction::find_secret(text) {
            problems.push(format!("the payload holds what looks like {}; {KEPT}", secret.kind));
        }
        match (kind, priority, from, to, self.payload) {
            (Some(kind), Some(priority), Some(from), Some(to), Some(payload))
                if problems.is_empty() =>
            {
                Ok(Letter { kind, priority, from, to, re, payload })
            }
            _ => Err(problems),
        }
    }

    /// `None` when no receiver or an impossible one is named. Who needs a receiver is told so by
    /// [`Draft::missing`].
    fn receivers(&self, kind: Option<Kind>, problems: &mut Vec<String>) -> Option<Receivers> {
        if self.to.is_empty() && kind == Some(Kind::Escalate) {
            return Name::parse(USER).ok().map(|user| Receivers::Named(vec![user]));
        }
        if self.to == [EVERYBODY] {
            return Some(Receivers::Everybody);
        }
        let mut names: Vec<Name> = Vec::new();
        for text in &self.to {
            let name = note(problems, Name::parse(text))?;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        (!names.is_empty()).then_some(Receivers::Named(names))
    }

    /// The required fields that neither a parameter nor the payload gives.
    fn missing(&self, kind: Kind) -> Vec<&str> {
        let given = |field: &str| match field {
            "from_agent" => !self.from.is_empty(),
            "to_agent" | "to_agents" => !self.to.is_empty() || self.payload.is_none(),
            other => {
                let payload = self.payload.as_ref();
                payload.is_none_or(|payload| payload.field(other).is_some())
            }
        };
        let more = self.rules.required.get(&kind).into_iter().flatten();
        let required = kind.required().iter().copied().chain(more.map(String::as_str));
        required.filter(|field| !given(field)).collect()
    }
}

fn note<T>(problems: &mut Vec<String>, checked: Result<T, String>) -> Option<T> {
    checked.map_err(|problem| problems.push(problem)).ok()
}

fn unknown(what: &str, word: &str, words: impl Iterator<Item = &'static str> + Clone) -> String {
    let shown = word.escape_debug();
    match nearest(word, words.clone()) {
        Some(nearest) => format!("there is no {what} `{shown}`; did you mean `{nearest}`?"),
        None => {
            let words: Vec<_> = words.collect();
            let words = words.join(", ");
            format!("there is no {what} `{shown}`; there are {words}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(fields: &[&str]) -> Payload {
        Payload {
            json: "{}".to_owned(),
            fields: fields.iter().map(|field| ((*field).to_owned(), "x".to_owned())).collect(),
        }
    }

    fn problems(draft: Draft<'_>) -> Vec<String> {
        draft.check().expect_err("refused")
    }

    #[test]
    fn everything_wrong_is_said_at_once() {
        let draft = Draft {
            kind: "handof",
            priority: Some("urgent"),
            from: "a\nb",
            to: vec!["", "b"],
            re: Some("MSG-1"),
            payload: Some(Payload { json: "{\"k\":\"ghp_abc\"}".to_owned(), ..Payload::default() }),
            ..Draft::default()
        };
        insta::assert_snapshot!(problems(draft).join("\n"), @r"
        there is no type `handof`; did you mean `handoff`?
        there is no priority `urgent`; there are critical, high, medium, low
        the name `a\nb` holds a control character
        a receiver or sender must not be empty
        `MSG-1` is no message id
        the payload holds what looks like a GitHub token; messages are kept and pushed like commits
        ");
    }

    #[test]
    fn each_type_names_all_that_is_missing() {
        let missing: Vec<_> = Kind::ALL
            .iter()
            .map(|kind| {
                problems(Draft {
                    kind: kind.as_str(),
                    from: "a",
                    payload: Some(Payload::default()),
                    ..Draft::default()
                })
                .join("\n")
            })
            .collect();
        insta::assert_snapshot!(missing.join("\n"), @r"
        a message of type handoff needs to_agent, artifact_path, context_summary, next_actions
        a message of type review needs to_agent, artifact_path, review_type
        a message of type clarify needs to_agent, question, context
        a message of type escalate needs issue, severity, recommendation
        a message of type notify needs to_agents, message
        a message of type collaborate needs to_agents, topic, deadline
        ");
    }

    #[test]
    fn an_escalation_without_receiver_is_for_the_user() {
        let letter = Draft {
            kind: "escalate",
            from: "a",
            payload: Some(payload(&["issue", "severity", "recommendation"])),
            ..Draft::default()
        }
        .check()
        .expect("sendable");
        assert_eq!(letter.to.to_string(), "user");
        assert_eq!(letter.priority, Priority::Critical);
        assert_eq!(letter.summary(), "x");
    }

    #[test]
    fn receivers_are_named_once_and_everybody_stands_alone() {
        let to = |to: &[&'static str]| {
            Draft {
                kind: "notify",
                from: "a",
                to: to.to_vec(),
                payload: Some(payload(&["message"])),
                ..Draft::default()
            }
            .check()
            .map(|letter| letter.to.to_string())
        };
        assert_eq!(to(&["b", "c", "b"]), Ok("b, c".to_owned()));
        assert_eq!(to(&["all"]), Ok("all".to_owned()));
        assert!(to(&["b", "all"]).is_err());
    }

    #[test]
    fn a_repository_asks_for_more_and_sets_priorities() {
        let rules = MessageRules {
            priorities: BTreeMap::from([(Kind::Notify, Priority::High)]),
            required: BTreeMap::from([(Kind::Notify, vec!["story".to_owned()])]),
            ..MessageRules::default()
        };
        let draft = |fields: &[&str]| Draft {
            kind: "notify",
            from: "a",
            to: vec!["b"],
            payload: Some(payload(fields)),
            rules: rules.clone(),
            ..Draft::default()
        };
        assert_eq!(problems(draft(&["message"])), ["a message of type notify needs story"]);
        let letter = draft(&["message", "story"]).check().expect("sendable");
        assert_eq!(letter.priority, Priority::High);
    }
}
