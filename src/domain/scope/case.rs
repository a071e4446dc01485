//! Which tracked paths a path collides with where file names ignore case.

use crate::domain::path::{RepoPath, nfc};
use std::collections::HashMap;

/// The spellings of everything tracked, files and directories, found without regard to case.
///
/// Only a path that is not itself tracked needs asking about in the usual case, so a caller that
/// sees none can save building the index.
#[derive(Clone, Debug, Default)]
pub struct CaseIndex {
    /// From the folded form of a path or of a directory above one to every tracked spelling.
    spellings: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl CaseIndex {
    /// Indexes the paths of a commit or of the index.
    pub fn of<'a>(tracked: impl IntoIterator<Item = &'a RepoPath>) -> CaseIndex {
        let mut index = CaseIndex::default();
        for path in tracked {
            for prefix in prefixes(path.as_bytes()) {
                let known = index.spellings.entry(fold(prefix)).or_default();
                if known.iter().any(|spelling| spelling == prefix) {
                    // Then the directories above it are known as well.
                    break;
                }
                known.push(prefix.to_owned());
            }
        }
        index
    }

    /// The other spellings of `path`: its longest tracked prefix as it is tracked, and the rest as it
    /// is. `Secrets/new.pem` has the twin `secrets/new.pem` where `secrets/` is tracked.
    pub fn case_variants(&self, path: &RepoPath) -> Vec<RepoPath> {
        let bytes = path.as_bytes();
        let tracked =
            prefixes(bytes).find_map(|prefix| Some((prefix, self.spellings.get(&fold(prefix))?)));
        let Some((prefix, spellings)) = tracked else {
            return Vec::new();
        };
        let rest = &bytes[prefix.len()..];
        spellings
            .iter()
            .filter(|spelling| spelling.as_slice() != prefix)
            .filter_map(|spelling| RepoPath::parse(&[spelling, rest].concat()).ok())
            .collect()
    }
}

/// Whether some file system takes two different names for one.
pub fn is_case_variant(one: &[u8], other: &[u8]) -> bool {
    let same = if one.is_ascii() && other.is_ascii() {
        one.eq_ignore_ascii_case(other)
    } else {
        fold(one) == fold(other)
    };
    same && one != other
}

/// The path and the directories above it, longest first.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |prefix| {
        let slash = prefix.iter().rposition(|&byte| byte == b'/')?;
        Some(&prefix[..slash])
    })
}

/// A form that is equal for names which some file system takes for one: lower case, composed.
pub fn fold(path: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(path) {
        Ok(text) if !text.is_ascii() => {
            let lower = text.to_lowercase();
            nfc(lower.as_bytes()).into_owned()
        }
        _ => path.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn twins_are_the_tracked_spellings() {
        let tracked = ["secrets/old.pem", "README.md", "Readme.md", "É/x"].map(path);
        let index = CaseIndex::of(&tracked);
        let check = |input: &str, expected: &[&str]| {
            let case_variants: Vec<String> = index
                .case_variants(&path(input))
                .iter()
                .map(ToString::to_string)
                .collect();
            assert_eq!(case_variants, expected, "{input}");
        };
        check("secrets/new.pem", &[]);
        check("Secrets/new.pem", &["secrets/new.pem"]);
        check("SECRETS", &["secrets"]);
        check("secrets/OLD.pem", &["secrets/old.pem"]);
        check("README.md", &["Readme.md"]);
        check("readme.MD", &["README.md", "Readme.md"]);
        check("e\u{301}/y", &["É/y"]);
        check("src/new.rs", &[]);
    }
}
