//! `doctor`: what is not as it should be in a repository with agents, and putting it right.
//!
//! ```text
//! Survey (rows, worktrees, git) -> FAMILIES -> [Finding] ──> report
//!                  ^                              │ --fix: cures, in order
//!                  └──────────────────────────────┘ until a round changes nothing
//! ```
//!
//! Looking writes no ref and no setting and removes nothing. A cure asks again, under the lock that its
//! kind of writer holds, before it changes anything, and none deletes what an agent may have written:
//! where the only way on could, there is a finding without a cure, and its command is for a person to
//! run. What is deliberately absent: expiring salvages and removing worktrees, which are `gc`'s and
//! `discard`'s.

mod branches;
mod debris;
mod ledger;
mod settings;
mod spawns;
mod survey;
mod worktrees;

use super::install_shell::ShellFile;
use crate::agents::Ctx;
use crate::agents::who::authority::{require_orchestrator, require_whole_view};
use crate::domain::judge::diagnosis::{Diagnosis, Sign};
use crate::domain::value::shell;
use crate::error::Result;
pub use ledger::overwritten as overwritten_ledger;
use serde::Serialize;
use std::collections::HashMap;
use survey::Survey;

/// The command that applies a cure.
const DOCTOR: &str = "git agent doctor --fix";

/// The command that takes over what a remote has of a ref of which nothing is left here.
const TAKE_OVER: &str = "git agent sync <remote>";

/// One cure may uncover what another one sees; more rounds than this it never takes.
const ROUNDS: usize = 4;

/// Puts one thing right and says what came of it.
type Cure = Box<dyn FnOnce(&Ctx) -> Result<String>>;

/// A diagnosis with the way to put it right, where that is safe.
struct DoctorFinding {
    diagnosis: Diagnosis,
    cure: Option<Cure>,
}

impl DoctorFinding {
    /// Something that a person has to decide about.
    fn report(sign: Sign, what: impl Into<String>, command: impl Into<String>) -> DoctorFinding {
        DoctorFinding { diagnosis: Diagnosis::new(sign, what, command), cure: None }
    }

    /// Something that `--fix` puts right.
    fn curable(
        sign: Sign,
        what: impl Into<String>,
        cure: impl FnOnce(&Ctx) -> Result<String> + 'static,
    ) -> DoctorFinding {
        DoctorFinding { diagnosis: Diagnosis::new(sign, what, DOCTOR), cure: Some(Box::new(cure)) }
    }
}

/// A family of checks.
struct Family {
    name: &'static str,
    /// What is looked at, for the report.
    what: &'static str,
    look: fn(&Ctx, &Survey) -> Result<Vec<DoctorFinding>>,
}

const fn family(
    name: &'static str,
    what: &'static str,
    look: fn(&Ctx, &Survey) -> Result<Vec<DoctorFinding>>,
) -> Family {
    Family { name, what, look }
}

/// Every family, in the order in which they are cured: the repository must be readable before its rows,
/// and the rows before what they name.
const FAMILIES: &[Family] = &[
    family(
        "git",
        "git's version, the man page, the completion of the user's shell",
        settings::examine_program,
    ),
    family(
        "settings",
        "core.bare, core.worktree, core.hooksPath, extensions.worktreeConfig, gc.pruneExpire",
        settings::examine,
    ),
    family("locks", "lock files that killed processes left on refs", debris::examine_locks),
    family("landing", "landings that were killed while files moved", debris::examine_landings),
    family(
        "ledger",
        "the ledger's ref, dropped lines, rows on commits that are gone",
        ledger::examine,
    ),
    family(
        "keep",
        "the keep chain's ref, what it does not hold though it should",
        ledger::examine_keep,
    ),
    family("mail", "the refs of mailbox and receipts, uncollected spools", ledger::examine_mail),
    family("spawns", "interrupted spawns", spawns::examine),
    family("runs", "runs that ended without a record", spawns::examine_runs),
    family("verify", "worktrees that killed verifies left", spawns::examine_verify),
    family(
        "worktrees",
        "worktrees without a directory, without an admin directory or without a row",
        worktrees::examine,
    ),
    family("branches", "branches without a row, rows without a branch", branches::examine),
    family("hooks", "the git hooks of agents' worktrees", settings::examine_hooks),
    family(
        "pool",
        "warm worktrees that no spawn gets, a pool that could not be filled",
        debris::examine_pool,
    ),
    family("debris", "old trash and half-written files", debris::examine),
];

/// Examines the repository; with `fix`, puts right what safely can be and examines it again. A cure that
/// fails is said with its finding and stops no other.
///
/// # Errors
/// Only what keeps the repository from being opened: what cannot be examined is itself a finding. In a sandbox
/// and, with `fix`, inside an agent `orchestrator-only`.
pub fn doctor(ctx: &Ctx, fix: bool, pages: &[ShellFile]) -> Result<DoctorReport> {
    // From inside a sandbox other agents' worktrees look as if they were gone.
    require_whole_view(ctx)?;
    if fix {
        require_orchestrator(ctx)?;
    }
    let mut findings = examine(ctx, pages);
    let mut cured = Vec::new();
    let mut failed = HashMap::new();
    for _ in 0..ROUNDS {
        if !fix || findings.iter().all(|(_, finding)| finding.cure.is_none()) {
            break;
        }
        let known = cured.len();
        for (_, finding) in findings {
            let Some(cure) = finding.cure else { continue };
            // Settings and refs may have changed below an open repository.
            match ctx.seed().open_to_examine().and_then(|ctx| cure(&ctx)) {
                Ok(outcome) => cured.push((finding.diagnosis, outcome)),
                Err(error) => drop(failed.insert(finding.diagnosis, error.to_string())),
            }
        }
        findings = examine(&ctx.seed().open_to_examine()?, pages);
        // Every cure of this round failed, and would fail again.
        if cured.len() == known {
            break;
        }
    }
    // A cure that gave way to a process at work has cured nothing.
    cured.retain(|(diagnosis, _)| findings.iter().all(|(_, left)| left.diagnosis != *diagnosis));
    Ok(DoctorReport::new(&findings, &cured, &failed))
}

/// What is found now, each with the index of its family.
fn examine(ctx: &Ctx, pages: &[ShellFile]) -> Vec<(usize, DoctorFinding)> {
    // What is out of reach would be taken for lost, and repaired without it.
    if let Some(place) = ctx.repo.missing_alternate() {
        let what = format!("objects are borrowed from {}, which is not there", place.display());
        let command = format!("ls -ld {}", shell::path(&place));
        return vec![(0, DoctorFinding::report(Sign::ObjectsAway, what, command))];
    }
    let survey = Survey::take(ctx, pages);
    let look = |(index, family): (usize, &Family)| {
        // One family that cannot be examined must not hide what the others find.
        let found = (family.look)(ctx, &survey).unwrap_or_else(|error| {
            let causes = error.causes().join(": ");
            let what = format!("{}: {error} {causes}", family.name);
            vec![DoctorFinding::report(Sign::Unexamined, what.trim_end(), "git fsck")]
        });
        found.into_iter().map(move |finding| (index, finding))
    };
    FAMILIES.iter().enumerate().flat_map(look).collect()
}

// What `doctor` answers.

/// The answer of `doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.doctor/2")]
pub struct DoctorReport {
    /// Whether no problem is left.
    pub healthy: bool,
    /// What was looked at.
    pub families: Vec<FamilyReport>,
    /// What is left.
    pub findings: Vec<DiagnosisReport>,
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
pub struct DiagnosisReport {
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
    fn new(
        findings: &[(usize, DoctorFinding)],
        cured: &[(Diagnosis, String)],
        failed: &HashMap<Diagnosis, String>,
    ) -> DoctorReport {
        let problems = |family: usize| {
            findings
                .iter()
                .filter(|(index, finding)| *index == family && finding.diagnosis.is_problem())
                .count()
        };
        let families: Vec<_> = FAMILIES
            .iter()
            .enumerate()
            .map(|(index, family)| FamilyReport {
                family: family.name,
                examines: family.what,
                problems: problems(index),
            })
            .collect();
        DoctorReport {
            healthy: families.iter().all(|family| family.problems == 0),
            families,
            findings: findings
                .iter()
                .map(|(_, finding)| DiagnosisReport {
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
