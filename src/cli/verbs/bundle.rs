//! `git agent bundle`

use crate::agents::Ctx;
use crate::cli::input::args::OwnAgentArg;
use crate::cli::out::terminal::{BAD, DIM, GOOD, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::bundle::{self, BundleFile, BundleReport};
use serde_json::{Value, json};

/// Show which of the six files of an agent's bundle are missing or still templates
///
/// Exits with 1 if the bundle is required and incomplete.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BundleArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &BundleArgs) -> Result<Exit> {
    let report = bundle::bundle(ctx, &args.agent.or_current(ctx, ui)?)?;
    ui.answer(&report)?;
    let acceptable = report.complete || !report.required;
    Ok(if acceptable { Exit::Yes } else { Exit::No })
}

impl Answer for BundleReport {
    fn text(&self) -> String {
        let good = self.files.iter().filter(|file| file.code.is_none()).count();
        let needed = if self.required { "" } else { ", not required" };
        let short = &self.agent_id[..8];
        let mut text = format!("bundle of {short}: {good} of {} files{needed}\n", self.files.len());
        if let Some(path) = &self.bundle_path {
            text.push_str(&format!("{}\n", paint(DIM, path)));
        }
        for file in &self.files {
            text.push_str(&line(file));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.files.iter().map(|file| json!(file)).collect()
    }
}

fn line(file: &BundleFile) -> String {
    let (style, word) = match file.code {
        None => (GOOD, "ok"),
        Some(code) => (BAD, code.trim_start_matches("bundle.")),
    };
    let word = paint(style, &format!("{word:12}"));
    format!("  {word} {:14} {}\n", file.name, file.about)
}
