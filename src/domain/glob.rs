//! One glob of a scope, checked and normalised before it is compiled.

/// A glob that obeys the rules of every scope. Rules that depend on the role (a bare `**`) are
/// applied where the role is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob(String);

impl Glob {
    /// Checks and normalises one glob.
    ///
    /// # Errors
    /// One sentence that names the glob and the rule that was broken.
    pub fn parse(text: &str) -> Result<Glob, String> {
        Ok(Glob(text.to_owned()))
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the glob has no literal character, so that it matches everything at some depth.
    pub fn is_bare(&self) -> bool {
        !self.0.bytes().any(|b| !matches!(b, b'*' | b'/' | b'?'))
    }
}
