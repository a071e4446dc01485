//! `git agent guard`

use crate::agents::Ctx;
use crate::cli::input::typed_task::from_here;
use crate::cli::out::format::{CopyArgs, with_findings};
use crate::cli::out::markdown::Summary;
use crate::cli::out::render::{counted, finding_text, sarif_of, verdict_word};
use crate::cli::out::terminal::{DIM, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::verify::{self, GuardOptions, GuardReport};
use serde_json::{Value, json};

/// Judge a branch that git agent did not make, by the [[guard]] rules of the commit to land on
///
/// A rule is a table [[guard]] in .config/git-agent.toml with the keys branch (a glob), and scope, deny or both (lists
/// of globs). The first rule whose glob matches the branch applies; a branch that no rule matches is not judged (status
/// 0). Every commit is judged by itself. Nothing is written, and no program of the branch is run.
#[derive(Debug, clap::Args)]
#[command(arg = with_findings())]
pub(in crate::cli) struct GuardArgs {
    /// Revision to land on, whose rules apply
    #[arg(long, value_name = "REV")]
    base: String,
    /// Revision to judge [default: HEAD]
    #[arg(long, value_name = "REV")]
    tip: Option<String>,
    /// Name of the branch for the rules, if --tip is not a branch
    #[arg(long, value_name = "BRANCH")]
    branch: Option<String>,
    /// Glob or directory that the branch may touch, instead of the rules; repeatable
    #[arg(long, value_name = "GLOB")]
    scope: Vec<String>,
    /// Glob or directory that the branch may not touch, instead of the rules; repeatable
    #[arg(long, value_name = "GLOB")]
    deny: Vec<String>,
    #[command(flatten)]
    copies: CopyArgs,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: GuardArgs) -> Result<Exit> {
    let options = GuardOptions {
        base: args.base,
        tip: args.tip,
        branch: args.branch,
        scope: from_here(ctx, &args.scope),
        deny: from_here(ctx, &args.deny),
    };
    let report = verify::guard(ctx, &options)?;
    ui.answer_also(&report, ctx, &args.copies.also)?;
    Ok(match report.verdict {
        Some("reject") => Exit::No,
        _ => Exit::Yes,
    })
}

impl Answer for GuardReport {
    fn text(&self) -> String {
        let word = verdict_word(self.verdict);
        let tip = &self.tip[..7];
        let what = match &self.branch {
            Some(branch) => format!("{branch} at {tip}"),
            None => tip.to_owned(),
        };
        let mut text = format!("{word}: {what}{}\n", paint(DIM, &self.facts()));
        for finding in &self.findings {
            text.push_str(&finding_text(finding));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        let findings = self.findings.iter().map(|finding| json!(finding));
        findings.chain([json!(self)]).collect()
    }

    fn sarif(&self) -> Option<Value> {
        Some(sarif_of("guard", &self.findings))
    }

    fn markdown(&self) -> Option<String> {
        let summary = Summary {
            verdict: self.verdict,
            what: format!("branch {}", self.branch.as_deref().unwrap_or_default()),
            tip: &self.tip,
            target: self.target.short(),
            merge: self.merge.as_ref(),
            findings: &self.findings,
            commands: &[],
        };
        Some(summary.text())
    }
}

impl GuardReport {
    /// How it would land, and by which rule it was judged; empty where it was not.
    fn facts(&self) -> String {
        let Some(merge) = &self.merge else {
            return String::new();
        };
        let base = self.target.short();
        let mut details = vec![
            merge.state.to_owned(),
            counted(merge.ahead, "commit", ""),
            counted(merge.behind, "commit", " behind"),
        ];
        let rule = self.rule.as_ref().and_then(|rule| rule.branch.as_ref());
        details.extend(rule.map(|glob| format!("rule for {glob}")));
        details.retain(|detail| !detail.is_empty());
        let onto = if base.is_empty() { String::new() } else { format!(" onto {base}") };
        format!("{onto} ({})", details.join(", "))
    }
}
