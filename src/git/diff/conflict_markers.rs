//! Which files a change gives conflict markers.

use crate::domain::conflict_markers::first_conflict;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::tree::{EXECUTABLE, FILE};
use crate::git::{Repo, command};

/// A larger file is no source text, and is not read.
const MAX_SIZE: usize = 16 * 1024 * 1024;

impl Repo {
    /// The files of the tree `after` that hold a conflict as a merge leaves it and have none in the tree `before`, each with
    /// the number of its first line. A file for which the attribute `conflict-marker-size` is set in the commit `attributes`
    /// is to hold such lines: git's own markers are longer or shorter there.
    ///
    /// # Errors
    /// `repo-corrupt` when an object is missing; `git-missing`, `git-failed`.
    pub fn added_conflict_markers(
        &self,
        before: Oid,
        after: Oid,
        attributes: Oid,
    ) -> Result<Vec<(Vec<u8>, usize)>> {
        let is_file = |mode: u32| matches!(mode, FILE | EXECUTABLE);
        let mut found = Vec::new();
        for difference in self.differences(before, after)? {
            let old = difference.old.map(|(_, blob)| blob);
            let Some((_, new)) = difference.new.filter(|(mode, _)| is_file(*mode)) else {
                continue;
            };
            // A mode that changed alone adds no text.
            if old == Some(new) || self.blob_size(new)? > MAX_SIZE {
                continue;
            }
            let Some(line) = first_conflict(&self.read_blob(new)?) else {
                continue;
            };
            // A file that is about conflicts has had some before, or has the attribute.
            let had_some = match difference.old.filter(|(mode, _)| is_file(*mode)) {
                Some((_, old)) => first_conflict(&self.read_blob(old)?).is_some(),
                None => false,
            };
            if !had_some && !self.has_marker_size(attributes, &difference.path)? {
                found.push((difference.path, line));
            }
        }
        Ok(found)
    }

    /// Whether the size of conflict markers in a file is set (gitattributes(5)).
    fn has_marker_size(&self, commit: Oid, path: &[u8]) -> Result<bool> {
        let mut command = self.plumbing();
        command.env("GIT_ATTR_SOURCE", commit.to_hex()).args([
            "check-attr",
            "-z",
            "--stdin",
            "conflict-marker-size",
        ]);
        let output = command::feed(command, &[path, b"\0"].concat())?;
        // The path, the attribute and its value, each ended by NUL.
        let value = command::names(&output.stdout).nth(2).unwrap_or_default();
        Ok(value.first().is_some_and(u8::is_ascii_digit))
    }
}
