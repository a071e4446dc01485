//! A text that is longer than a line of the ledger holds: all of it is a blob, which the
//! event names and the keep chain holds.

use super::keep;
use super::ledger::actor;
use crate::domain::agent::Agent;
use crate::domain::event::{Event, What};
use crate::domain::id::OperationId;
use crate::domain::stamp::Stamp;
use crate::error::Result;
use crate::git::Repo;
use crate::wire::event_line;
use chrono::{DateTime, Utc};

/// As long as the digest of a line.
const DIGEST: &str = "0123456789abcdef";

/// Keeps the text of an event that a line would have to cut, and gives the event that names it; any other
/// event as it is.
///
/// # Errors
/// As [`keep::keep`].
pub fn keep_whole(
    repo: &Repo,
    agent: &Agent,
    by: &str,
    what: What,
    now: DateTime<Utc>,
) -> Result<What> {
    // Whether the text fits depends on the whole line, whose stamp and digest are known only under
    // the ledger's lock. So one is made up that is as long.
    let specimen = Event {
        at: Stamp::next(now, 0, None),
        agent: agent.id,
        by: actor(by).to_owned(),
        // As long as every other.
        operation: Some(OperationId::of(0)),
        previous: Some(DIGEST.to_owned()),
        ahead: Vec::new(),
        what: what.clone(),
    };
    let Some((text, None)) = what.said() else {
        return Ok(what);
    };
    if event_line::fits(&specimen)? {
        return Ok(what);
    }
    let blob = repo.write_blob(text.as_bytes())?;
    let why = format!("text {}", agent.id);
    // Before the event, so that no row names a text that `git gc` may take.
    keep::keep_with(repo, &[], &[("text", blob)], &why, now)?;
    Ok(what.with_whole(blob))
}

/// All of what was said with an event, where its line cut that and the blob is here; a clone that did not
/// fetch the keep chain has the line alone.
pub fn whole(repo: &Repo, what: &What) -> Option<String> {
    let (_, blob) = what.said()?;
    let bytes = repo.read_blob(blob?).ok()?;
    String::from_utf8(bytes).ok()
}
