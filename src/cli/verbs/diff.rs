//! `git agent diff`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::input::typed_task::from_here;
use crate::cli::out::neutral::NeutralWriter;
use crate::cli::out::terminal::is_terminal;
use crate::cli::out::ui::{Answer, Format, KeptText, Ui};
use crate::domain::Quoted;
use crate::error::{Exit, Result};
use crate::ops::diff::{self, Detail, DiffReport, DiffSink, Filter, Since};
use serde_json::{Value, json};

/// Show what an agent changed since its base, committed or not
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DiffArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Show the number of changed lines in each file instead of the lines
    #[arg(long, conflicts_with = "name_only")]
    stat: bool,
    /// Show the paths alone
    #[arg(long)]
    name_only: bool,
    /// Add the lines to the answer in JSON, as `patch`
    #[arg(long)]
    patch: bool,
    /// Show what changed since the last verdict
    #[arg(long)]
    since_verdict: bool,
    /// Show what changed since an operation (op-..., see undo --list)
    #[arg(long, value_name = "OPERATION", conflicts_with = "since_verdict")]
    since: Option<String>,
    /// Only these paths, as they are from the current directory; `:/` stands for the top of the repository
    #[arg(last = true, value_name = "PATH")]
    paths: Vec<String>,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &DiffArgs) -> Result<Exit> {
    let since = match (args.since_verdict, &args.since) {
        (true, _) => Some(Since::Verdict),
        (false, operation) => operation.clone().map(Since::Operation),
    };
    // Pathspecs with magic, such as `:/`, say themselves where they begin.
    let is_magic = |path: &String| path.starts_with(':');
    let from_here = from_here(ctx, &args.paths).into_iter().zip(&args.paths);
    let paths = from_here.map(|(here, path)| if is_magic(path) { path.clone() } else { here });
    let paths: Vec<String> = paths.collect();
    let mut report = diff::diff(ctx, &args.agent.or_current(ctx, ui)?, since.as_ref())?;
    if report.is_partial {
        ui.warn("its worktree is not in its place, so only what is committed is shown; to see why, run git agent doctor");
    }
    if ui.format() != Format::Text {
        if args.patch && !args.name_only {
            let mut patch = KeptText::default();
            let to = DiffSink::Text(&mut patch);
            report.show(ctx, Detail::Patch, &paths, to)?;
            report.patch = Some(patch.text());
        }
        return ui.done(&report);
    }
    let detail = match (args.stat, args.name_only) {
        (true, _) => Detail::Stat,
        (false, true) => Detail::Names,
        (false, false) => Detail::Patch,
    };
    // A pager writes to a terminal, and what it shows is an agent's text.
    let filter: Filter = |to| Box::new(NeutralWriter::new(to));
    let mut kept = ui.keeps().cloned();
    let to = match &mut kept {
        Some(kept) => DiffSink::Text(kept),
        None if is_terminal() => DiffSink::Pager(filter),
        None => DiffSink::Output,
    };
    report.show(ctx, detail, &paths, to)?;
    Ok(Exit::Yes)
}

impl Answer for DiffReport {
    fn text(&self) -> String {
        let lines = self.changes.iter().map(|change| {
            let path = change.path.to_bytes();
            format!("{} {}\n", change.kind, Quoted(&path))
        });
        lines.collect()
    }

    fn rows(&self) -> Vec<Value> {
        self.changes.iter().map(|change| json!(change)).collect()
    }
}
