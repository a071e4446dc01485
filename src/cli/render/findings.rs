//! Findings as text and as SARIF.

use crate::cli::style::{BAD, GOOD, HINT, WARN, paint};
use crate::ops::verify::FindingReport;
use crate::wire::sarif::{self, SarifResult};
use serde_json::Value;

/// `2 commits` and what is said of them; empty for none.
pub(in crate::cli) fn counted(count: usize, thing: &str, rest: &str) -> String {
    match count {
        0 => String::new(),
        1 => format!("1 {thing}{rest}"),
        _ => format!("{count} {thing}s{rest}"),
    }
}

/// The word for a verdict, of which there are three: what was not judged is neither accepted nor rejected.
pub(in crate::cli) fn verdict_word(verdict: Option<&str>) -> String {
    match verdict {
        Some("accept") => paint(GOOD, "accepted"),
        Some(_) => paint(BAD, "rejected"),
        None => paint(WARN, "not judged"),
    }
}

/// One finding and how it is mended, for a person.
pub(in crate::cli) fn finding_text(finding: &FindingReport) -> String {
    let style = match finding.severity {
        "error" => BAD,
        _ => WARN,
    };
    format!(
        "  {} {}\n    {} {}\n",
        paint(style, finding.code),
        finding.message,
        paint(HINT, "fix:"),
        finding.fix
    )
}

/// Findings as a SARIF log.
pub(in crate::cli) fn sarif_of(verb: &str, findings: &[FindingReport]) -> Value {
    sarif::log(
        verb,
        findings.iter().map(|finding| SarifResult {
            rule: finding.code,
            level: finding.severity,
            message: format!("{}. To mend it: {}.", finding.message, finding.fix),
            path: finding.path.as_ref(),
            subject: finding.commit.as_ref().unwrap_or(&finding.message),
        }),
    )
}
