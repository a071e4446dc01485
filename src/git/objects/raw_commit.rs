//! Commits as their objects say, whatever a shallow clone or grafts make of their parents, with the headers that
//! git gives no meaning, such as `agent-policy`.
//!
//! Such headers stand after git's own. git keeps them wherever it keeps the commit itself, and drops them when it makes a
//! commit anew: in a rebase or a cherry-pick. A value of several lines is folded as git folds a signature: every line
//! after the first begins with a space.

use super::last_trailer;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use std::borrow::Cow;

/// A commit object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCommit {
    bytes: Vec<u8>,
}

impl RawCommit {
    /// Its parents, in order.
    pub fn parents(&self) -> Vec<Oid> {
        // The tree comes first, then the parents, then everything else.
        let lines = self.bytes.split(|&byte| byte == b'\n').skip(1);
        let hex = lines.map_while(|line| std::str::from_utf8(line.strip_prefix(b"parent ")?).ok());
        hex.filter_map(Oid::from_hex).collect()
    }

    /// The value of the first header of that name, its lines joined by line feeds.
    pub fn header(&self, name: &str) -> Option<Vec<u8>> {
        find(&self.bytes, name)
    }

    /// The committer as `name <address>`, and the moment in seconds since the epoch.
    pub fn committer(&self) -> Option<(String, i64)> {
        let line = String::from_utf8_lossy(&self.header("committer")?).into_owned();
        let end = line.rfind('>')?;
        let seconds = line[end + 1..].split_whitespace().next()?.parse().ok()?;
        Some((line[..=end].to_owned(), seconds))
    }

    /// The first line of its message; bytes that are not UTF-8 are replaced.
    pub fn subject(&self) -> String {
        let message = self.message();
        message.lines().next().unwrap_or_default().to_owned()
    }

    /// The value of the last trailer of that name, such as `Agent-Nonce`.
    pub fn trailer(&self, name: &str) -> Option<String> {
        last_trailer(&self.message(), name).map(str::to_owned)
    }

    fn message(&self) -> Cow<'_, str> {
        let end = self.bytes.windows(2).position(|pair| pair == b"\n\n");
        String::from_utf8_lossy(end.map_or(&[], |end| &self.bytes[end + 2..]))
    }
}

impl Repo {
    /// Reads a commit object.
    ///
    /// # Errors
    /// `repo-corrupt` when it is missing or no commit.
    pub fn read_raw_commit(&self, oid: Oid) -> Result<RawCommit> {
        let bytes = self.read_object(oid, git2::ObjectType::Commit)?;
        Ok(RawCommit { bytes })
    }
}

/// The lines that a header takes in a commit, the line feed at its end included.
pub(in crate::git) fn fold(name: &str, value: &str) -> String {
    format!("{name} {}\n", value.replace('\n', "\n "))
}

fn find(commit: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut value: Option<Vec<u8>> = None;
    for line in commit.split(|&byte| byte == b'\n') {
        // An empty line ends the headers, and what follows is the message.
        if line.is_empty() {
            break;
        }
        if let Some(folded) = line.strip_prefix(b" ") {
            if let Some(value) = &mut value {
                value.push(b'\n');
                value.extend_from_slice(folded);
            }
        } else if value.is_some() {
            break;
        } else if let Some(rest) = line.strip_prefix(name.as_bytes()) {
            value = rest.strip_prefix(b" ").map(<[u8]>::to_owned);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_as_it_was_folded() {
        for value in ["one line", "two\nlines", "{\n  \"a\": 1\n}", "a\n\nb", ""] {
            let commit = format!("tree 1\nauthor a\n{}\nnote x\n", fold("note", value));
            assert_eq!(find(commit.as_bytes(), "note"), Some(value.into()));
        }
    }

    #[test]
    fn only_a_header_of_exactly_that_name_is_found() {
        let commit = b"tree 1\ngpgsig -----BEGIN\n note no\n -----END\nnotes no\nnote yes\nnote no\n\nnote no\n";
        assert_eq!(find(commit, "note"), Some(b"yes".to_vec()));
        assert_eq!(find(b"tree 1\n\nnote no\n", "note"), None);
        assert_eq!(find(b"note", "note"), None);
    }

    #[test]
    fn parents_and_trailers_are_read_from_their_own_part() {
        let [one, two] = ["1", "2"].map(|digit| digit.repeat(40));
        let text = format!(
            "tree {one}\nparent {one}\nparent {two}\nauthor a\nmergetag object {one}\n parent {one}\n\nparent {one}\n\nKey: yes\n"
        );
        let commit = RawCommit {
            bytes: text.into_bytes(),
        };
        let parents = commit.parents().into_iter().map(Oid::to_hex);
        assert_eq!(parents.collect::<Vec<_>>(), [one.as_str(), &two]);
        assert_eq!(commit.trailer("key").as_deref(), Some("yes"));
        assert_eq!(commit.trailer("author a"), None);
        assert_eq!(commit.subject(), format!("parent {one}"));
    }
}
