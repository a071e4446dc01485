//! What the agents of a clone take: disk, and money today. `list` ends with it, `report` and `doctor` have it as well.

use crate::agents::{Ctx, life::admission, stock::disk};
use crate::domain::Limit;
use crate::domain::life::limits::usd;
use crate::domain::value::named::size_text;
use crate::error::Result;
use serde::Serialize;

/// Less of the disk is not worth a line.
const NOTABLE: u64 = 1 << 30;

/// What agents take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UsageReport {
    /// How much of the disk they take, in bytes.
    pub disk_bytes: u64,
    /// Whether that is an estimate by a part of the files.
    pub disk_sampled: bool,
    /// What the runs of today (UTC) cost, in US dollars, as far as hosts tell.
    pub cost_today_usd: f64,
    /// The limits that hold, by their names, as they were written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<String>,
}

impl Eq for UsageReport {}

/// What agents take, where it is a gibibyte or more, or a limit of disk or cost is set; `None` anywhere else.
///
/// # Errors
/// Those of the limits; `repo-corrupt`, `io`.
pub fn notable(ctx: &Ctx) -> Result<Option<UsageReport>> {
    let limits = admission::load(ctx)?;
    let is_limited = [Limit::Disk, Limit::DiskFree, Limit::CostDay];
    let is_limited = is_limited.iter().any(|limit| limits.get(*limit).is_some());
    let disk = disk::sampled(ctx)?;
    if !is_limited && disk.bytes < NOTABLE {
        return Ok(None);
    }
    let cost = ctx.ledger().cost_of_day(admission::today(ctx))?;
    Ok(Some(UsageReport {
        disk_bytes: disk.bytes,
        disk_sampled: disk.is_sampled,
        cost_today_usd: cost as f64 / 1e6,
        limits: limits
            .each()
            .map(|(limit, value)| format!("{limit} {}", limit.show(value)))
            .collect(),
    }))
}

impl UsageReport {
    /// In one sentence, without its end.
    pub fn sentence(&self) -> String {
        let about = if self.disk_sampled { "about " } else { "" };
        let size = size_text(self.disk_bytes);
        let cost = usd((self.cost_today_usd * 1e6) as u64);
        format!("agents take {about}{size} of the disk, and the runs of today cost {cost}")
    }
}
