//! When the page of a report would say something else than it did.

use super::{FleetReport, report};
use crate::agents::ctx::Ctx;
use crate::error::Result;
use crate::ops::board::{BoardRow, Watch};
use crate::ops::list::ListOptions;
use std::time::{Duration, Instant};

/// Making reports takes at most one part in this many of the time, however often something changes.
const SHARE: u32 = 10;

/// Ages go on where nothing else does: so long a page may lag behind.
const OLDEST: Duration = Duration::from_secs(60);

/// Reports that are made again when something changed.
pub struct ReportWatch<'c> {
    ctx: &'c Ctx,
    watch: Watch<'c>,
    rows: Vec<BoardRow>,
    /// When the last one was made, and how long that took.
    made: Option<(Instant, Duration)>,
}

impl<'c> ReportWatch<'c> {
    /// A watch that has made no report yet.
    pub fn new(ctx: &'c Ctx) -> ReportWatch<'c> {
        ReportWatch {
            ctx,
            watch: Watch::new(ctx, ListOptions::default()),
            rows: Vec::new(),
            made: None,
        }
    }

    /// The report, where it would differ from the last one; what a look costs is as for the board.
    ///
    /// # Errors
    /// Those of [`Watch::look`] and of [`report`].
    pub fn renewed(&mut self) -> Result<Option<FleetReport>> {
        let rows: Vec<BoardRow> = { self.watch.look()?.rows.into_iter() }
            .map(without_ages)
            .collect();
        if let Some((made, cost)) = self.made {
            // A change that comes too soon after a report is found by a later look, because `rows` stay as they were.
            let is_due = made.elapsed() >= cost * SHARE;
            let is_old = !rows.is_empty() && made.elapsed() >= OLDEST;
            if !is_due || (rows == self.rows && !is_old) {
                return Ok(None);
            }
        }
        let begin = Instant::now();
        let report = report(self.ctx)?;
        self.made = Some((Instant::now(), begin.elapsed()));
        // Only now: a report that failed is made again. What changed since the look differs from these rows in the next one.
        self.rows = rows;
        Ok(Some(report))
    }

    /// Makes the report again next time, because the last one was of no use.
    pub fn again(&mut self) {
        self.rows.clear();
        self.made = None;
    }
}

/// What a look found, without what changes from one to the next while nothing happens, and without what no page shows.
fn without_ages(mut row: BoardRow) -> BoardRow {
    row.seconds = 0;
    row.listed.agent.age_seconds = 0;
    row.last_line = None;
    row
}
