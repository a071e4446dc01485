//! What a row says was kept, and what of that is here.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::event::{Event, What};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::objects::Commit;
use crate::git::salvage::{BUNDLE, TRAILER, WORK};
use crate::ops::remedy::to_have_what_others_keep;
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// The newest of each kind that is here.
#[derive(Default)]
pub(super) struct Kept {
    /// The commit with the newest work: the salvage, else the tip.
    pub commit: Option<Oid>,
    /// The commit that holds the bundle.
    pub bundle: Option<Oid>,
    /// What is missing here and was never let go of, as in a clone that did not fetch the keep chain.
    pub absent: Vec<Oid>,
    /// When the newest was let go of that is not here because of that.
    pub expired: Option<DateTime<Utc>>,
}

impl Kept {
    /// Reads the row and looks for what it names.
    pub(super) fn of(ctx: &Ctx, events: &[Event]) -> Result<Kept> {
        let gone = expired(ctx, events)?;
        let mut kept = Kept {
            expired: gone.values().max().copied(),
            ..Kept::default()
        };
        let (mut tip, mut work): (Option<Oid>, Option<Commit>) = (None, None);
        for event in events {
            let commit = match event.what {
                What::Discarded { tip: Some(commit) } | What::Salvaged { commit } => commit,
                _ => continue,
            };
            if gone.contains_key(&commit) {
                continue;
            }
            if !ctx.repo.has_object(commit) {
                kept.absent.push(commit);
                continue;
            }
            let found = ctx.repo.read_commit(commit)?;
            match (&event.what, found.trailer(TRAILER)) {
                (What::Salvaged { .. }, Some(WORK)) => work = Some(found),
                (What::Salvaged { .. }, Some(BUNDLE)) => kept.bundle = Some(commit),
                // The tip, or one that came after the agent was discarded.
                _ => tip = Some(commit),
            }
        }
        // Work that was salvaged by a discard that failed, and was committed afterwards, is in the tip.
        let on_tip = work.filter(|work| tip.is_none() || work.parents.first() == tip.as_ref());
        kept.commit = on_tip.map(|work| work.oid).or(tip);
        Ok(kept)
    }

    /// What to tell a caller that gets less than was kept.
    pub(super) fn warnings(&self, agent: &Agent) -> Vec<String> {
        let absent = self.absent.iter().map(|commit| {
            format!(
                "commit {commit}, which was kept of agent {}, is not in this clone; {}",
                agent.id.short(),
                to_have_what_others_keep()
            )
        });
        absent.collect()
    }
}

/// What was let go of and is not whole any more, with the time of that. Until git has collected it, it can
/// be given back like anything else.
fn expired(ctx: &Ctx, events: &[Event]) -> Result<HashMap<Oid, DateTime<Utc>>> {
    let mut gone = HashMap::new();
    for event in events {
        let What::Expired { commits } = &event.what else {
            continue;
        };
        for commit in commits {
            if !ctx.repo.is_complete(*commit)? {
                gone.insert(*commit, event.at.time());
            }
        }
    }
    Ok(gone)
}
