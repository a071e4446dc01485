//! What a change does, wherever it is made.

use crate::domain::oid::Oid;
use crate::error::{Error, Result};
use crate::git::Repo;
use crate::git::repo::{failed, to_git2};
use git2::{Delta, Diff, DiffFormat, DiffLineType, DiffOptions};
use sha1::{Digest, Sha1};

/// The lines of a file that a change adds, counted from 1, both ends included.
pub type AddedLines = (Vec<u8>, Vec<(u32, u32)>);

/// How much differs between two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffCounts {
    /// Files that differ.
    pub files: usize,
    /// Lines that are new.
    pub insertions: usize,
    /// Lines that are gone.
    pub deletions: usize,
}

/// Larger files, as data and generated ones are, would take longer to compare than a person waits.
const MOST: i64 = 16 << 20;

impl Repo {
    /// The lines that the change between two trees adds, by path; files without any, and those that are not text, are left
    /// out.
    ///
    /// # Errors
    /// `git-failed` when the trees cannot be compared.
    pub fn added_lines(&self, old: Oid, new: Oid) -> Result<Vec<AddedLines>> {
        let mut options = DiffOptions::new();
        options.context_lines(0);
        let diff = self.diff(old, new, Some(&mut options))?;
        let mut files: Vec<AddedLines> = Vec::new();
        let mut add = |path: &[u8], (first, lines): (u32, u32)| {
            if lines == 0 {
                return;
            }
            let range = (first, first + lines - 1);
            match files.last_mut() {
                Some((last, ranges)) if last == path => ranges.push(range),
                _ => files.push((path.to_vec(), vec![range])),
            }
        };
        diff.foreach(
            &mut |_, _| true,
            None,
            Some(&mut |delta, hunk| {
                let path = delta.new_file().path_bytes().unwrap_or_default();
                add(path, (hunk.new_start(), hunk.new_lines()));
                true
            }),
            None,
        )
        .map_err(not_compared)?;
        Ok(files)
    }

    /// The name of the change between two trees: equal for the same change in another place. As strict as
    /// `git patch-id --verbatim`, so white space counts; a file that is not text is named by its blobs.
    ///
    /// # Errors
    /// `git-failed` when the trees cannot be compared.
    pub fn patch_id(&self, old: Oid, new: Oid) -> Result<Oid> {
        let diff = self.diff(old, new, None)?;
        let mut hash = Sha1::new();
        diff.print(DiffFormat::Patch, |delta, _, line| {
            match line.origin_value() {
                DiffLineType::FileHeader => {
                    for file in [delta.old_file(), delta.new_file()] {
                        hash.update(file.path_bytes().unwrap_or_default());
                        hash.update(format!("\0{:?}\0", file.mode()));
                    }
                    // A file without a line has no more than its header.
                    if matches!(delta.status(), Delta::Added | Delta::Deleted) {
                        hash.update([delta.status() as u8]);
                    }
                }
                // Where a hunk is does not count.
                DiffLineType::HunkHeader => hash.update(b"@"),
                DiffLineType::Binary => {
                    for file in [delta.old_file(), delta.new_file()] {
                        hash.update(file.id().as_bytes());
                    }
                }
                _ => {
                    let length = line.content().len() as u64;
                    hash.update([line.origin() as u8]);
                    hash.update(length.to_be_bytes());
                    hash.update(line.content());
                }
            }
            true
        })
        .map_err(not_compared)?;
        Oid::from_slice(&hash.finalize()).ok_or_else(|| Error::bug("a digest has 20 bytes"))
    }

    /// How much differs between two trees. Of a file above [`MOST`] bytes no lines are counted.
    ///
    /// # Errors
    /// `git-failed` when the trees cannot be compared.
    pub fn diff_counts(&self, old: Oid, new: Oid) -> Result<DiffCounts> {
        let mut options = DiffOptions::new();
        options.max_size(MOST);
        let diff = self.diff(old, new, Some(&mut options))?;
        let stats = diff.stats().map_err(not_compared)?;
        Ok(DiffCounts {
            files: stats.files_changed(),
            insertions: stats.insertions(),
            deletions: stats.deletions(),
        })
    }

    fn diff(&self, old: Oid, new: Oid, options: Option<&mut DiffOptions>) -> Result<Diff<'_>> {
        self.fetch_promised_between(old, new);
        let tree = |oid| self.inner.find_tree(to_git2(oid)?).map_err(not_compared);
        let (old, new) = (tree(old)?, tree(new)?);
        let diff = (self.inner).diff_tree_to_tree(Some(&old), Some(&new), options);
        diff.map_err(not_compared)
    }
}

fn not_compared(error: git2::Error) -> Error {
    failed("could not compare two trees", error)
}
