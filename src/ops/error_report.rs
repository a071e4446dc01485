//! An error as JSON has it: on standard error, and in the items of a batch.

use crate::error::{Error, FileProblem};
use crate::ops::remedy;
use crate::wire::path_text::PathText;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// What failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ErrorReport {
    /// A stable name.
    pub code: &'static str,
    /// What failed and on what.
    pub message: String,
    /// What is below it, the nearest first.
    pub causes: Vec<String>,
    /// What to do, with commands to run.
    pub hints: Vec<String>,
    /// The codes of what rejects the work.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<&'static str>,
    /// The paths on which the work conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<PathText>,
    /// The paths that are in the way, or out of scope.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathText>,
    /// What is wrong with a file that was read, in order of position.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ProblemReport>,
}

/// One thing that is wrong with a file.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProblemReport {
    /// The file, as it was given.
    pub file: String,
    /// The line, from 1; absent where it is about the whole file.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// The text that it is about, such as the key; absent where it may hold a secret.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub suggestion: Option<String>,
}

impl From<&Error> for ErrorReport {
    fn from(error: &Error) -> ErrorReport {
        let facts = error.told();
        // What people read below the message, programs read as facts.
        let details = if facts.is_empty() {
            error.details()
        } else {
            &[]
        };
        let texts = |paths: &[Vec<u8>]| {
            let paths = paths.iter().map(Vec::as_slice);
            paths.map(PathText::from).collect()
        };
        ErrorReport {
            code: error.code().name(),
            message: error.message().to_owned(),
            causes: details.iter().cloned().chain(error.causes()).collect(),
            hints: error.hints(remedy::command),
            findings: facts.findings.clone(),
            conflicts: texts(&facts.conflicts),
            paths: texts(&facts.paths),
            problems: facts.problems.iter().map(ProblemReport::from).collect(),
        }
    }
}

impl From<&FileProblem> for ProblemReport {
    fn from(problem: &FileProblem) -> ProblemReport {
        ProblemReport {
            file: problem.file.clone(),
            line: problem.position.map(|(line, _)| line),
            column: problem.position.map(|(_, column)| column),
            key: problem.key.clone(),
            message: problem.message.clone(),
            suggestion: problem.suggestion.clone(),
        }
    }
}
