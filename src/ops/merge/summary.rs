//! What a landing's message says about the work.

use crate::domain::agent::Agent;
use crate::domain::event::What;
use crate::error::Result;
use crate::store::ledger::Ledger;
use crate::store::long_text;

/// The summary it was declared done with, else its task, in one line; and the rest of the summary.
pub(super) fn of(ledger: &Ledger<'_>, agent: &Agent) -> Result<(String, String)> {
    let events = ledger.events(agent.spawn_commit)?;
    let last = events.iter().rev().find_map(|event| match &event.what {
        What::Done { summary, .. } => Some((first_line(summary)?, &event.what)),
        _ => None,
    });
    let Some((line, what)) = last else {
        return Ok((agent.description.clone().unwrap_or_default(), String::new()));
    };
    let text = long_text::whole(ledger.repo(), what);
    let text = text.as_deref().or(what.said().map(|(text, _)| text));
    let text = text.unwrap_or_default().trim();
    // A first line that was cut stands whole in the body.
    let body = if first_line(text) == Some(line) {
        text[line.len()..].trim()
    } else {
        text
    };
    Ok((line.to_owned(), body.to_owned()))
}

fn first_line(text: &str) -> Option<&str> {
    text.lines().map(str::trim).find(|line| !line.is_empty())
}
