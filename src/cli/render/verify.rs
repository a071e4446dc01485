//! How a verdict looks.

use crate::cli::style::{BAD, BOLD, DIM, GOOD, HINT, WARN, paint};
use crate::cli::ui::Answer;
use crate::domain::bundle;
use crate::ops::verify::CommandReport;
use crate::ops::verify::FindingReport;
use crate::ops::verify::MergeReport;
use crate::ops::verify::VerifyReport;
use crate::wire::sarif::{self, SarifResult};
use serde_json::{Value, json};

/// The list of what is wrong with the six files, for standard error; `None` when nothing is.
pub(in crate::cli) fn artefacts_missing(report: &VerifyReport) -> Option<String> {
    let missing = report.missing_artefacts();
    if missing.is_empty() {
        return None;
    }
    let lines: String = missing.iter().map(|line| format!("  {line}\n")).collect();
    Some(format!("MISSING for {}:\n{lines}", report.agent_id))
}

impl Answer for VerifyReport {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.has_bundle() {
            text.push_str(&format!(
                "OK: all {} artefacts present for {}\n",
                bundle::FILES.len(),
                self.agent_id
            ));
        }
        let verdict = match self.is_accepted() {
            true => paint(GOOD, "accepted"),
            false => paint(BAD, "rejected"),
        };
        let facts = paint(DIM, &self.facts());
        text.push_str(&format!("{verdict} {} {facts}\n", &self.agent_id[..8]));
        for finding in &self.findings {
            text.push_str(&finding_text(finding));
        }
        let failed = self
            .commands
            .iter()
            .filter(|command| command.output.is_some());
        failed.for_each(|command| text.push_str(&command_text(command)));
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        let findings = self.findings.iter().map(|finding| json!(finding));
        findings.chain([json!(self)]).collect()
    }

    fn sarif(&self) -> Option<Value> {
        let results = self.findings.iter().map(|finding| SarifResult {
            rule: &finding.code,
            level: &finding.severity,
            message: format!("{}. To mend it: {}.", finding.message, finding.fix),
            path: finding.path.as_ref(),
        });
        Some(sarif::log(results))
    }
}

impl VerifyReport {
    /// Whether the six files had to be there and no finding is about them.
    fn has_bundle(&self) -> bool {
        let of_bundle = |finding: &FindingReport| finding.code.starts_with("bundle.");
        self.bundle_required && !self.findings.iter().any(of_bundle)
    }

    /// Tip, base and how the one would land on the other, in one line.
    fn facts(&self) -> String {
        let base = match &self.base.refname {
            Some(name) => name.trim_start_matches("refs/heads/").to_owned(),
            None => self.base.oid[..7].to_owned(),
        };
        let mut facts = format!("at {}", &self.tip[..7]);
        match self.uncommitted {
            0 => {}
            1 => facts.push_str(" with 1 uncommitted path"),
            count => facts.push_str(&format!(" with {count} uncommitted paths")),
        }
        if let Some(merge) = &self.merge {
            let landing = landing_text(merge);
            let (ahead, behind) = (merge.ahead, merge.behind);
            facts.push_str(&format!(
                " onto {base}: {landing}, {ahead} ahead, {behind} behind"
            ));
        }
        match self.ignored_paths {
            None | Some(0) => {}
            Some(1) => facts.push_str(", 1 ignored path"),
            Some(count) => facts.push_str(&format!(", {count} ignored paths")),
        }
        match self.setup_paths {
            None | Some(0) => {}
            Some(1) => facts.push_str(", 1 path as setup left it"),
            Some(count) => facts.push_str(&format!(", {count} paths as setup left them")),
        }
        facts
    }
}

fn landing_text(merge: &MergeReport) -> String {
    match (merge.state.as_str(), merge.how.as_deref()) {
        ("merged", Some(how)) => format!("already merged (by {how})"),
        ("nothing", _) => "nothing to merge".to_owned(),
        ("clean", _) => "merges cleanly".to_owned(),
        (state, _) => state.replace('-', " "),
    }
}

fn finding_text(finding: &FindingReport) -> String {
    let style = match finding.severity.as_str() {
        "error" => BAD,
        _ => WARN,
    };
    format!(
        "  {} {}\n    {} {}\n",
        paint(style, &finding.code),
        finding.message,
        paint(HINT, "fix:"),
        finding.fix
    )
}

fn command_text(command: &CommandReport) -> String {
    let output = command.output.as_deref().unwrap_or_default();
    let title = paint(BOLD, &format!("output of `{}`:", command.command));
    format!("{title}\n{}\n", output.trim_end())
}
