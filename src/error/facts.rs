//! What an error tells programs: codes and values in the place of sentences.

/// Codes and values. Empty lists are left out of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFacts {
    /// The codes of the findings that reject the work.
    pub findings: Vec<&'static str>,
    /// The paths on which the work conflicts.
    pub conflicts: Vec<Vec<u8>>,
    /// The paths that are in the way, or out of scope.
    pub paths: Vec<Vec<u8>>,
    /// What is wrong with a file that was read, in order of position.
    pub problems: Vec<FileProblem>,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, as it was given.
    pub file: String,
    /// The line and the column in characters, both from 1; `None` where it is about the whole file.
    pub position: Option<(usize, usize)>,
    /// The text that it is about, such as the key; `None` where that may hold a secret.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub suggestion: Option<String>,
}

impl ErrorFacts {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == ErrorFacts::default()
    }
}
