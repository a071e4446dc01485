//! `git agent report`

use super::render::html;
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::report;
use std::path::PathBuf;

/// Report on all agents: lives, verdicts, what landed; as a page with --html
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Write one self-contained page to this file, `-` for standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &ReportArgs) -> Result<Exit> {
    let report = report::report(ctx)?;
    match &args.html {
        None => ui.answer(&report)?,
        Some(file) if file.as_os_str() == "-" => ui.print(&html::page(&report))?,
        Some(file) => {
            let page = html::page(&report);
            ui.answer(&report::save(ctx, &report, file, &page, html::MARK)?)?;
        }
    }
    Ok(Exit::Yes)
}
