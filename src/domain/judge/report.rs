//! What is wrong with what an agent reported, by the rules of its role, and what audits and trains said of its work.

use crate::domain::judge::evidence::Contract;
use crate::domain::judge::finding::{Finding, FindingCode as Code};
use crate::domain::life::id::AgentId;
use crate::domain::life::report::{
    Audited, FINDINGS, NamedThing, ReportRules, RoleReport, key, plain,
};
use crate::error::Remedy;
use std::collections::BTreeSet;

/// How much of a value a message shows, in bytes.
const LONGEST: usize = 64;

/// What is wrong with a report.
pub(super) fn judge(rules: &ReportRules, report: &RoleReport) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &rules.required {
        if !report.fields.contains_key(&key(name)) {
            findings.push(Finding::new(
                Code::ReportFieldMissing,
                format!("the agent's final answer has no field `{name}`"),
                format!("let it answer with a line `{name}: …`, or write one into review.md of its bundle"),
            ));
        }
    }
    // What names something, or has to be one of some words, means nothing where it is said twice.
    let known: BTreeSet<&String> = rules.values.keys().chain(rules.names.keys()).collect();
    for name in known {
        if report.fields.contains_key(&key(name)) && report.value(name).is_none() {
            findings.push(Finding::new(
                Code::ReportContradiction,
                format!("the agent's final answer has several values of the field `{name}`"),
                format!("let it answer with one line `{name}: …`"),
            ));
        }
    }
    for (name, allowed) in &rules.values {
        let is_allowed =
            |value: &str| allowed.iter().any(|word| plain(word).eq_ignore_ascii_case(value));
        if let Some(value) = report.value(name).filter(|value| !is_allowed(value)) {
            findings.push(Finding::new(
                Code::ReportValue,
                format!("the field `{name}` of the agent's final answer is `{}`", short(value)),
                format!("let it be one of {}", allowed.join(", ")),
            ));
        }
    }
    if !rules.tags.is_empty() && report.tags < untagged(report) {
        findings.push(Finding::new(
            Code::ReportTagMissing,
            "the agent's final answer has findings without a tag",
            format!("let each of them begin with one of [{}]", rules.tags.join("], [")),
        ));
    }
    findings.extend(report.dangling.iter().map(|one| {
        let (code, fix) = match one.names {
            NamedThing::Agent => (Code::ReportAgentUnknown, "name the agent by its id"),
            NamedThing::Tip => (Code::ReportTipMismatch, "judge the work as it is now, and name its commit, or the tree of uncommitted work, with all 40 digits"),
            NamedThing::Commit => (Code::ReportCommitUnknown, "name a commit that holds the work"),
        };
        Finding::new(code, format!("the field `{}` of the agent's final answer {}", one.field, one.why), fix)
    }));
    findings
}

/// How many findings the report says that it has, which each need a tag: the number, or as many as it lists, which is at least one.
fn untagged(report: &RoleReport) -> usize {
    let values = report.fields.get(FINDINGS);
    let value = values.and_then(|values| values.first()).map(|value| plain(value));
    match value {
        None | Some("") => 0,
        Some(value)
            if ["none", "no", "<none>", "[]", "n/a"]
                .iter()
                .any(|word| value.eq_ignore_ascii_case(word)) =>
        {
            0
        }
        Some(value) => value.parse().unwrap_or(1).max(report.listed),
    }
}

/// A value as a message shows it.
fn short(value: &str) -> String {
    let end = value.floor_char_boundary(LONGEST);
    let more = if end < value.len() { "…" } else { "" };
    format!("{}{more}", value[..end].escape_debug())
}

pub(super) fn failed_audit(contract: &Contract, audit: &Audited) -> Finding {
    let who = audit.auditor.map(AgentId::short).unwrap_or_default();
    let at = audit.tip.short();
    Finding::new(
        Code::AuditFailed,
        format!(
            "agent {who} audited {at} and failed it, and no later audit passed changed work as it is now"
        ),
        "mend what it found and have the work audited anew; to accept it all the same",
    )
    .remedy(Remedy::Accept(contract.handle()))
}

pub(super) fn rejected_by_train(contract: &Contract) -> Finding {
    Finding::new(
        Code::TrainRejected,
        "a train rejected this work because its checks failed, and no later train for the same branch accepted it",
        "mend what they found, or declare the work done for the next train; to accept it all the same",
    )
    .remedy(Remedy::Accept(contract.handle()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::life::report::tests::rules;

    fn found(fields: &[(&str, &str)], tags: usize) -> Vec<&'static str> {
        let mut report = RoleReport { tags, ..RoleReport::default() };
        for (name, value) in fields {
            report.fields.entry(key(name)).or_default().insert((*value).to_owned());
        }
        judge(&rules(), &report).iter().map(|finding| finding.code.name()).collect()
    }

    #[test]
    fn a_report_is_judged_by_its_rules() {
        let sound = [
            ("AUDITED_AGENT", "ab12"),
            ("body-sha", "00"),
            ("findings", "none"),
            ("verdict", "**pass**"),
        ];
        assert_eq!(found(&sound, 0), [""; 0]);
        assert_eq!(found(&[], 0), ["report.field-missing"; 4]);
        assert_eq!(
            found(&[&sound[..3], &[("verdict", "PASS (mostly)")]].concat(), 0),
            ["report.value"]
        );
        assert_eq!(
            found(&[&sound[..], &[("verdict", "FAIL")]].concat(), 0),
            ["report.contradiction"]
        );
        let with = |findings| {
            [
                ("audited-agent", "ab12"),
                ("body-sha", "00"),
                ("findings", findings),
                ("verdict", "FAIL"),
            ]
        };
        assert_eq!(found(&with("3"), 2), ["report.tag-missing"]);
        assert_eq!(found(&with("3"), 3), [""; 0]);
        assert_eq!(found(&with("- the parser loops"), 0), ["report.tag-missing"]);
        assert_eq!(found(&with("- [HIGH] the parser loops"), 1), [""; 0]);
    }
}
