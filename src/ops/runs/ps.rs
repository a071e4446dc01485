//! `ps`: the runs that go on in this clone.

use crate::agents::ctx::Ctx;
use crate::error::Result;
use crate::ops::run_row::RunRow;
use crate::ops::runs::named;
use serde::Serialize;

/// The answer of `ps`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PsReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The runs, oldest first.
    pub runs: Vec<RunRow>,
}

/// Looks for runs that are at work.
///
/// # Errors
/// Those of the ledger; `io`.
pub fn ps(ctx: &Ctx) -> Result<PsReport> {
    let runs = named::at_work(ctx)?;
    let rows = runs
        .iter()
        .map(|one| RunRow::of(ctx, &one.agent, &one.run, true));
    Ok(PsReport {
        schema: "git-agent.ps/1",
        runs: rows.collect(),
    })
}
