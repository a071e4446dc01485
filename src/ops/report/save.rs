//! Where the page goes.

use crate::agents::ctx::Ctx;
use crate::agents::real_path::real_path;
use crate::error::{Code, Error, Result};
use crate::ops::report::FleetReport;
use crate::store::fsx;
use serde::Serialize;
use std::path::Path;

/// The answer of `report --html`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SavedReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The file that was written, absolute.
    pub path: String,
    /// How many agents it tells of.
    pub agents: usize,
}

/// Writes a page. A file that is there is replaced only when it begins as our pages do, with `mark` in its
/// first lines.
///
/// # Errors
/// `path-exists` when something else is there; `disk-full`, `io`.
pub fn save(
    ctx: &Ctx,
    report: &FleetReport,
    file: &Path,
    page: &str,
    mark: &str,
) -> Result<SavedReport> {
    let path = ctx.absolute(file);
    let there = fsx::load_if_there(&path)?;
    if there.is_some_and(|there| !begins_with_mark(&there, mark)) {
        return Err(Error::new(
            Code::PathExists,
            format!("{} is there already and is no report", path.display()),
        )
        .hint("to write to another file, pass --html <file>"));
    }
    fsx::write_atomic(&path, page.as_bytes())?;
    let path = real_path(&path).unwrap_or(path);
    Ok(SavedReport {
        schema: "git-agent.report-saved/1",
        path: path.to_string_lossy().into_owned(),
        agents: report.agents.len(),
    })
}

/// Looked for in the first bytes only, so that a file that quotes a report is none.
fn begins_with_mark(content: &[u8], mark: &str) -> bool {
    let head = &content[..content.len().min(1024)];
    String::from_utf8_lossy(head).contains(mark)
}
