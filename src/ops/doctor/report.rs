//! What `doctor` answers.

use crate::domain::diagnosis::Diagnosis;
use crate::ops::doctor::{FAMILIES, Finding};
use serde::Serialize;
use std::collections::HashMap;

/// The answer of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// Whether no problem is left.
    pub healthy: bool,
    /// What was looked at.
    pub families: Vec<FamilyReport>,
    /// What is left.
    pub findings: Vec<FindingReport>,
    /// What was put right.
    pub fixed: Vec<CuredReport>,
}

/// One family of checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FamilyReport {
    /// Its name, with which the codes of its findings begin.
    pub family: &'static str,
    /// What is looked at.
    pub examines: &'static str,
    /// How many problems are left.
    pub problems: usize,
}

/// Something that is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingReport {
    /// A stable word.
    pub code: &'static str,
    /// `problem` or `information`.
    pub severity: &'static str,
    /// What is the matter and with what.
    pub what: String,
    /// Why it matters.
    pub why: &'static str,
    /// The command that puts it right, or shows the way.
    pub command: String,
    /// Whether `--fix` puts it right.
    pub fixable: bool,
    /// Why `--fix` could not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Something that was put right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CuredReport {
    /// A stable word.
    pub code: &'static str,
    /// What was the matter.
    pub what: String,
    /// What was done.
    pub done: String,
}

impl DoctorReport {
    pub(super) fn new(
        findings: &[(usize, Finding)],
        cured: &[(Diagnosis, String)],
        failed: &HashMap<Diagnosis, String>,
    ) -> DoctorReport {
        let problems = |family: usize| {
            findings
                .iter()
                .filter(|(index, finding)| *index == family && finding.diagnosis.is_problem())
                .count()
        };
        let families = FAMILIES
            .iter()
            .enumerate()
            .map(|(index, family)| FamilyReport {
                family: family.name,
                examines: family.what,
                problems: problems(index),
            });
        let families: Vec<_> = families.collect();
        DoctorReport {
            schema: "git-agent.doctor/2",
            healthy: families.iter().all(|family| family.problems == 0),
            families,
            findings: findings
                .iter()
                .map(|(_, finding)| FindingReport {
                    code: finding.diagnosis.sign.name(),
                    severity: finding.diagnosis.sign.weight().as_str(),
                    what: finding.diagnosis.what.clone(),
                    why: finding.diagnosis.sign.why(),
                    command: finding.diagnosis.command.clone(),
                    fixable: finding.cure.is_some(),
                    failed: failed.get(&finding.diagnosis).cloned(),
                })
                .collect(),
            fixed: cured
                .iter()
                .map(|(diagnosis, done)| CuredReport {
                    code: diagnosis.sign.name(),
                    what: diagnosis.what.clone(),
                    done: done.clone(),
                })
                .collect(),
        }
    }
}
