//! The agent that somebody means.

use crate::domain::agent::Agent;
use crate::error::{IoContext, Result};
use crate::ops::Ctx;
use crate::store::ledger::Ledger;
use std::fs;
use std::path::Path;

/// The agent that goes by an id, a name, a branch or a path.
pub(in crate::ops) fn agent(ctx: &Ctx, ledger: &Ledger<'_>, who: &str) -> Result<Agent> {
    let looks_like_path = who.contains('/') || who.starts_with('.');
    let path = ctx.absolute(Path::new(who));
    if looks_like_path && path.is_dir() {
        let path = fs::canonicalize(&path).at("could not resolve", &path)?;
        return ledger.find(&path.to_string_lossy());
    }
    ledger.find(who)
}
