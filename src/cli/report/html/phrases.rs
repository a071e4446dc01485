//! What several sections say in the same way.

use super::writer::Html;
use crate::ops::agent_report::AgentReport;
use crate::ops::report::MailTally;
use chrono::TimeDelta;

/// An agent's id and name, leading to all about it.
pub(super) fn name(html: &mut Html, agent: &AgentReport) {
    html.element(
        "a",
        &[("href", &format!("#{}", anchor(&agent.agent_id)))],
        |html| {
            html.text_element("code", &[], &agent.short_id);
            if let Some(name) = &agent.name {
                html.text(" ");
                html.text(name);
            }
        },
    );
}

/// An agent that is known by its id alone.
pub(super) fn anchor(agent_id: &str) -> String {
    format!("agent-{agent_id}")
}

/// What there is of mail: `2 sent, 1 pending`.
pub(super) fn mail(html: &mut Html, tally: &MailTally) {
    let counts = [
        (tally.sent, "sent"),
        (tally.received, "received"),
        (tally.pending, "pending"),
    ];
    let mut separator = "";
    for (count, what) in counts.iter().filter(|(count, _)| *count > 0) {
        html.text(separator);
        html.text_element("span", &[("class", "whole")], &format!("{count} {what}"));
        separator = ", ";
    }
    if separator.is_empty() {
        html.text("–");
    }
}

/// An oid as people read it.
pub(super) fn short(oid: &str) -> &str {
    oid.get(..7).unwrap_or(oid)
}

/// How long something took, in at most two units: `45s`, `12m`, `3h 5m`, `9d 4h`.
pub(super) fn duration(delta: TimeDelta) -> String {
    let seconds = delta.num_seconds().max(0);
    let two = |large: i64, letter: &str, small: i64, small_letter: &str| match small {
        0 => format!("{large}{letter}"),
        small => format!("{large}{letter} {small}{small_letter}"),
    };
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}
