//! The six files.

use crate::domain::bundle;
use crate::domain::evidence::{Artefact, ArtefactProblem, Contract, Evidence, Says};
use crate::domain::finding::{Finding, FindingCode as Code};
use crate::error::Remedy;

/// What is wrong with the bundle. One that is not required is not looked at.
pub(super) fn judge(contract: &Contract, evidence: &Evidence) -> Vec<Finding> {
    if !contract.bundle_required {
        return Vec::new();
    }
    if evidence.bundle_out_of_reach {
        return vec![
            Finding::new(
                Code::BundleNotJudged,
                "the bundle is not in this clone and was not judged here",
                "after verify in the clone that the agent was spawned in, and in both clones",
            )
            .remedy(Remedy::SynchroniseAll),
        ];
    }
    let bundle = &evidence.bundle;
    bundle
        .iter()
        .filter_map(|artefact| problem(contract, artefact))
        .collect()
}

fn problem(contract: &Contract, artefact: &Artefact) -> Option<Finding> {
    let name = artefact.name;
    let (code, what, fix) = match (&artefact.text, &artefact.says) {
        (Err(problem), _) => unreadable(*problem),
        (Ok(text), _) if text.trim().is_empty() => (
            Code::BundleEmpty,
            "is empty".to_owned(),
            "write what belongs there",
        ),
        (Ok(text), _) if bundle::is_template(name, text) => (
            Code::BundleTemplate,
            "is still the template that spawn wrote".to_owned(),
            "replace the template with what it asks for",
        ),
        (Ok(_), Says::Digest(digest)) if *digest != contract.spec_sha => (
            Code::BundleSpecChanged,
            "is not the specification that spawn wrote".to_owned(),
            "put back what spawn wrote; the specification is not the agent's to change",
        ),
        (Ok(_), Says::Status(status)) if status.as_deref() != Some("done") => (
            Code::BundleNotDone,
            match status {
                Some(status) => format!("says that the status is {status:?}, not \"done\""),
                None => "is not a JSON object with a `status`".to_owned(),
            },
            "finish the work, then write {\"status\": \"done\"}",
        ),
        (Ok(_), _) => return None,
    };
    // From the top of the worktree, as every other path is.
    let path = match &contract.boundary.bundle {
        Some(directory) => [directory.as_bytes(), b"/", name.as_bytes()].concat(),
        None => name.as_bytes().to_vec(),
    };
    Some(Finding::new(code, format!("{name} {what}"), fix).on(&path))
}

fn unreadable(problem: ArtefactProblem) -> (Code, String, &'static str) {
    let (code, what, fix) = match problem {
        ArtefactProblem::Missing => (Code::BundleMissing, "is missing", "write the file"),
        ArtefactProblem::NotFile => (
            Code::BundleNotFile,
            "is not a regular file",
            "put a regular file there",
        ),
        ArtefactProblem::TooLarge => (
            Code::BundleTooLarge,
            "is larger than 4 MiB",
            "shorten the file",
        ),
        ArtefactProblem::NotUtf8 => (
            Code::BundleNotUtf8,
            "is not UTF-8 text",
            "write the file as UTF-8 text",
        ),
        ArtefactProblem::Unreadable => (
            Code::BundleUnreadable,
            "could not be read",
            "see that the file may be read",
        ),
    };
    (code, what.to_owned(), fix)
}
