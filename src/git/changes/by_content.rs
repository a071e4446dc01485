//! Telling by its content that a file is what the index holds, where its times do not.
//!
//! A file that was changed in the second in which the index was written is "racily clean" (git's `racy-git`): git reads it, and
//! the same is done here, which saves starting git. A file is passed only if its bytes are those of the blob that the index
//! names, that blob is in the repository, and nothing would convert the file on its way into a commit: no filter and no
//! encoding is asked for, and there is no carriage return and no `$Id` in it, so that line ends and `ident` change
//! nothing, whatever attributes say. Every doubt is left to git.

use super::index::Index;
use crate::git::Repo;
use crate::git::changes::ignore::ATTRIBUTES_FILES;
use crate::git::files::untrusted;
use crate::git::objects::blob_name;
use crate::git::populate::has_converting_word;
use crate::git::tree::SYMLINK;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// So many bytes in all are read; git streams what is longer.
const MOST_BYTES: u64 = 64 << 20;

/// The longest file of attributes that is read, in bytes.
const LONGEST_ATTRIBUTES: u64 = 1 << 20;

/// A worktree whose files are compared with an index.
pub(in crate::git) struct ByContent<'a> {
    repo: &'a Repo,
    top: &'a Path,
    index: &'a Index,
    /// How many bytes may still be read.
    budget: u64,
    /// Whether the file of attributes in a directory may ask for a conversion.
    may_convert: HashMap<PathBuf, bool>,
}

impl<'a> ByContent<'a> {
    /// The index is not flagged.
    pub(in crate::git) fn new(repo: &'a Repo, top: &'a Path, index: &'a Index) -> ByContent<'a> {
        ByContent {
            repo,
            top,
            index,
            budget: MOST_BYTES,
            may_convert: HashMap::new(),
        }
    }

    /// Whether the file at a path is what the index holds there, beyond doubt.
    pub(in crate::git) fn proves(&mut self, path: &[u8]) -> bool {
        let (index, inside) = (self.index, Path::new(OsStr::from_bytes(path)));
        let Some(entry) = index.find(path) else {
            return false;
        };
        // Most files that were changed have another length, and need not be read.
        let length = fs::symlink_metadata(self.top.join(inside)).map_or(0, |found| found.len());
        if !index.may_have_length(entry, length) {
            return false;
        }
        let Some((mode, content)) = untrusted::content(self.top, inside, self.budget) else {
            return false;
        };
        self.budget = self.budget.saturating_sub(content.len() as u64);
        let is_same = mode == entry.content.0
            && blob_name(&content).is_ok_and(|name| name == entry.content.1);
        is_same
            && self.repo.has_object(entry.content.1)
            && (mode == SYMLINK || !is_convertible(&content) && self.is_plain(inside))
    }

    /// Whether no filter and no encoding is asked for.
    fn is_plain(&mut self, inside: &Path) -> bool {
        let mut above = inside.ancestors().skip(1);
        !above.any(|directory| self.may_convert_in(directory)) && !self.repo.may_convert_outside()
    }

    fn may_convert_in(&mut self, directory: &Path) -> bool {
        let (top, index) = (self.top, self.index);
        let asks = |name: &&str| {
            let file = directory.join(name);
            let found = fs::symlink_metadata(top.join(&file));
            if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                // Git takes one that is missing from the index.
                return index.find(file.as_os_str().as_bytes()).is_some();
            }
            let content = untrusted::read(top, &file, LONGEST_ATTRIBUTES);
            content.is_none_or(|content| has_converting_word(&content))
        };
        if let Some(known) = self.may_convert.get(directory) {
            return *known;
        }
        let may_convert = ATTRIBUTES_FILES.iter().any(asks);
        self.may_convert.insert(directory.to_owned(), may_convert);
        may_convert
    }
}

/// Whether line ends or `ident` might make another blob of a file.
fn is_convertible(content: &[u8]) -> bool {
    content.contains(&b'\r') || content.windows(3).any(|three| three == b"$Id")
}
