//! What was kept once and is kept no more.

use crate::domain::event::{Event, What};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::ops::Ctx;
use chrono::{DateTime, Utc};
use std::collections::HashMap;

/// What was let go of and is not whole any more, with the time of that. Until git has collected it, it can
/// be given back like anything else.
pub(super) fn expired(ctx: &Ctx, events: &[Event]) -> Result<HashMap<Oid, DateTime<Utc>>> {
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
