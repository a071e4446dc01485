//! The landings of others that `gc` finds and records: work that a forge squashed, or a person merged by hand.

use crate::agents::ctx::Ctx;
use crate::domain::agent::{Agent, Move};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::refs::Tip;
use crate::ops::gc::{GcItem, GcLanding};
use crate::ops::target_report::TargetReport;
use crate::store::agent_branch;
use crate::store::landing_commit::{Line, Work};
use crate::store::ledger::{Ledger, RecordedLanding};
use std::collections::{BTreeSet, HashMap};

/// The branches that work lands on, each read once.
#[derive(Default)]
pub(super) struct Targets(HashMap<String, Line>);

impl Targets {
    /// The commit that brought an agent's work to `target`, which is the branch that it started from or a copy of it, and that
    /// branch; `None` where no single commit did.
    pub(super) fn landing(
        &mut self,
        ctx: &Ctx,
        agent: &Agent,
        target: &str,
    ) -> Result<Option<(Oid, String)>> {
        let (repo, base) = (&ctx.repo, agent.base.as_ref());
        let Some((start, into)) = base.and_then(|base| Some((base.oid, base.refname.clone()?)))
        else {
            return Ok(None);
        };
        let tips = (agent_branch::local(repo, agent)?, repo.tip(target)?);
        let (Tip::At(tip), Tip::At(top)) = tips else {
            return Ok(None);
        };
        if !self.0.contains_key(target) {
            let line = Line::read(repo, top, BTreeSet::new())?;
            self.0.insert(target.to_owned(), line);
        }
        let brought = self.0[target].brought(repo, Work { agent, tip, start })?;
        Ok(brought.map(|commit| (commit, into)))
    }
}

impl GcItem {
    /// Says as which commit the work landed.
    pub(super) fn tell_landing(&mut self, landing: Option<(Oid, String)>) {
        if let Some((commit, into)) = landing {
            self.why = format!("{}, landed as {}", self.why, commit.short());
            self.landed = Some(GcLanding {
                commit: commit.to_hex(),
                target: TargetReport::new(Some(&into), None),
            });
        }
    }

    /// What its agent's row is to say of its landing, if anything.
    pub(super) fn landing_of(&self, agent: &Agent) -> Option<RecordedLanding> {
        let landed = self.landed.as_ref()?;
        Some(RecordedLanding {
            spawn_commit: agent.spawn_commit,
            commit: Oid::from_hex(&landed.commit)?,
            into: landed.target.refname.clone().unwrap_or_default(),
            tip: None,
        })
    }
}

/// Records landings in the agents' rows, before the branches go that tell of them: all or none.
///
/// # Errors
/// Those of the ledger; `agent-state` when the state of an agent changed meanwhile.
pub(super) fn record(ctx: &Ctx, landings: &[RecordedLanding]) -> Result<()> {
    let may_land = |row: Option<&Agent>| row.map_or(Ok(()), |row| row.may(Move::Merge));
    Ledger::new(&ctx.repo).append_landings(landings, &ctx.actor()?, ctx.now(), may_land)
}
