//! `git agent doctor`

use crate::agents::Ctx;
use crate::cli::open;
use crate::cli::out::render::table::{labelled, wrapped};
use crate::cli::out::terminal::{BAD, DIM, GOOD, HINT, WARN, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::cli::verbs::{ledger, setup, shell};
use crate::error::{Exit, Result};
use crate::ops::doctor::{self, DoctorReport};
use anstyle::Style;
use clap::Subcommand;
use serde_json::{Value, json};

/// Find problems of the repository and, with --fix, repair them; exits with 1 if one is left
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(in crate::cli) struct DoctorArgs {
    #[command(subcommand)]
    part: Option<DoctorPart>,
    /// Repair what can be repaired safely; nothing that an agent may have written is deleted
    #[arg(long)]
    fix: bool,
}

/// What else can be examined, each by itself.
#[derive(Debug, Subcommand)]
enum DoctorPart {
    Ledger(ledger::LedgerArgs),
    Hooks(setup::HooksArgs),
}

pub(in crate::cli) fn run(ui: &mut Ui, args: &DoctorArgs) -> Result<Exit> {
    match &args.part {
        Some(DoctorPart::Ledger(args)) => return ledger::run(&open(ui)?, ui, args),
        Some(DoctorPart::Hooks(args)) => return setup::run_hooks(&open(ui)?, ui, args),
        None => {}
    }
    let report = doctor::doctor(&Ctx::to_examine()?, args.fix, &shell::compared()?)?;
    ui.answer(&report)?;
    Ok(if report.healthy { Exit::Yes } else { Exit::No })
}

impl Answer for DoctorReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for cured in &self.fixed {
            let label = format!("fixed[{}]:", cured.code);
            text.push_str(&fact(GOOD, &label, &cured.what));
            text.push_str(&detail(&cured.done));
        }
        for finding in &self.findings {
            let style = if finding.severity == "problem" { BAD } else { WARN };
            let label = format!("{}[{}]:", finding.severity, finding.code);
            text.push_str(&fact(style, &label, &finding.what));
            text.push_str(&detail(finding.why));
            if let Some(failed) = &finding.failed {
                text.push_str(&detail(&format!("could not be fixed: {failed}")));
            }
            let hint = paint(HINT, "run:");
            text.push_str(&format!("  {hint} {}\n", finding.command));
        }
        for family in &self.families {
            let (style, state) = match family.problems {
                0 => (GOOD, "ok".to_owned()),
                count => (BAD, format!("{count} found")),
            };
            // The words are broken below each other, behind the name and the state.
            let indent = 10 + 1 + state.len() + 2;
            let what = wrapped(family.examines, indent, width());
            let (state, what) = (paint(style, &state), paint(DIM, &what));
            text.push_str(&format!("{:<10} {state}  {what}\n", family.family));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.findings.iter().map(|finding| json!(finding)).collect()
    }
}

fn fact(style: Style, label: &str, what: &str) -> String {
    format!("{}\n", labelled(style, label, what, 2, width()))
}

fn detail(text: &str) -> String {
    format!("  {}\n", wrapped(text, 2, width()))
}
