//! Problems of a text file, shown with file, line, column, the offending line and a caret.

use std::ops::Range;

/// A text that a person wrote, under the name they know it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The path as it was given, or `<stdin>`.
    pub name: String,
    /// The text, without a byte order mark.
    pub text: String,
}

/// One thing that is wrong at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The bytes of the text that are wrong; `None` when the problem is something missing.
    pub span: Option<Range<usize>>,
    /// What is wrong, naming the key or the glob and the rule.
    pub message: String,
    /// What to do instead.
    pub help: Option<String>,
    /// Whether the line holds a secret and must not be shown.
    pub secret: bool,
}
