//! What a run answers that the caller does not wait for.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::run::Run;
use crate::ops::run_row::RunRow;
use crate::ops::spawn::SpawnReport;
use serde::Serialize;

/// What is known when a command has begun to work: `git-agent.run/2`, with the keys that a run under way has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartReport {
    /// The run.
    #[serde(flatten)]
    pub row: RunRow,
    /// The agent as `spawn` answers it, when the run made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawn: Option<SpawnReport>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

impl StartReport {
    pub(super) fn new(
        ctx: &Ctx,
        agent: &Agent,
        run: &Run,
        spawn: Option<&SpawnReport>,
    ) -> StartReport {
        StartReport {
            row: RunRow::of(ctx, agent, run, true),
            spawn: spawn.cloned(),
            warnings: spawn.map_or(Vec::new(), |spawn| spawn.warnings.clone()),
        }
    }
}
