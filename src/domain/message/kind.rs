//! What a message is for, what it must say for that, and how urgent it is.

use crate::domain::named::named;

named! {
    /// What a message is for.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Kind {
        /// Work is passed on.
        Handoff = "handoff",
        /// Work is to be looked at.
        Review = "review",
        /// A question.
        Clarify = "clarify",
        /// Something that the sender cannot decide.
        Escalate = "escalate",
        /// News.
        Notify = "notify",
        /// An invitation to work together.
        Collaborate = "collaborate",
    }
}

impl Kind {
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

named! {
    /// How soon a message is to be read; the first is the most urgent.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Priority {
        /// Before everything else.
        Critical = "critical",
        /// Soon.
        High = "high",
        /// In its turn.
        Medium = "medium",
        /// When there is time.
        Low = "low",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_and_priority_is_read_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::parse(kind.as_str()), Some(kind));
        }
        for priority in Priority::ALL {
            assert_eq!(Priority::parse(priority.as_str()), Some(priority));
        }
        assert!(Priority::ALL.is_sorted(), "the most urgent is the least");
    }
}
