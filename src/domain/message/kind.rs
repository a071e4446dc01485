//! What a message is for, what it must say for that, and how urgent it is.

use std::fmt;

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Work is passed on.
    Handoff,
    /// Work is to be looked at.
    Review,
    /// A question.
    Clarify,
    /// Something that the sender cannot decide.
    Escalate,
    /// News.
    Notify,
    /// An invitation to work together.
    Collaborate,
}

impl Kind {
    /// Every type.
    pub const ALL: &'static [Kind] = &[
        Kind::Handoff,
        Kind::Review,
        Kind::Clarify,
        Kind::Escalate,
        Kind::Notify,
        Kind::Collaborate,
    ];

    /// The word used on the command line, in trailers and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Handoff => "handoff",
            Kind::Review => "review",
            Kind::Clarify => "clarify",
            Kind::Escalate => "escalate",
            Kind::Notify => "notify",
            Kind::Collaborate => "collaborate",
        }
    }

    /// Reads the word back.
    pub fn parse(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }

    /// The fields that a message of this type needs, in parameters or payload.
    pub fn required(self) -> &'static [&'static str] {
        match self {
            Kind::Handoff => &[
                "from_agent",
                "to_agent",
                "artifact_path",
                "context_summary",
                "next_actions",
            ],
            Kind::Review => &["from_agent", "to_agent", "artifact_path", "review_type"],
            Kind::Clarify => &["from_agent", "to_agent", "question", "context"],
            Kind::Escalate => &["from_agent", "issue", "severity", "recommendation"],
            Kind::Notify => &["from_agent", "to_agents", "message"],
            Kind::Collaborate => &["from_agent", "to_agents", "topic", "deadline"],
        }
    }

    /// The field that says in one line what the message is about.
    pub fn summary_field(self) -> &'static str {
        match self {
            Kind::Handoff => "context_summary",
            Kind::Review => "artifact_path",
            Kind::Clarify => "question",
            Kind::Escalate => "issue",
            Kind::Notify => "message",
            Kind::Collaborate => "topic",
        }
    }

    /// The priority of a message that names none.
    pub fn priority(self) -> Priority {
        match self {
            Kind::Escalate => Priority::Critical,
            Kind::Handoff | Kind::Clarify => Priority::High,
            Kind::Review | Kind::Collaborate => Priority::Medium,
            Kind::Notify => Priority::Low,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How soon a message is to be read; the first is the most urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Priority {
    /// Before everything else.
    Critical,
    /// Soon.
    High,
    /// In its turn.
    Medium,
    /// When there is time.
    Low,
}

impl Priority {
    /// Every priority, the most urgent first.
    pub const ALL: &'static [Priority] = &[
        Priority::Critical,
        Priority::High,
        Priority::Medium,
        Priority::Low,
    ];

    /// The word used on the command line, in trailers and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Critical => "critical",
            Priority::High => "high",
            Priority::Medium => "medium",
            Priority::Low => "low",
        }
    }

    /// Reads the word back.
    pub fn parse(word: &str) -> Option<Priority> {
        Priority::ALL
            .iter()
            .copied()
            .find(|priority| priority.as_str() == word)
    }
}

impl fmt::Display for Priority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_priority_is_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(*kind));
        }
        for priority in Priority::ALL {
            assert_eq!(Priority::parse(priority.as_str()), Some(*priority));
        }
        assert!(Priority::ALL.is_sorted(), "the most urgent is the least");
    }
}
