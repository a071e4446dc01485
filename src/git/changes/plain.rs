//! Telling without git what a file would become in a commit.
//!
//! A file that was changed in the second in which the index was written is "racily clean" (git's `racy-git`): git reads it, and
//! the same is done here. Of a file that was changed the blob is made here. Both spare starting git, and hold only where nothing
//! would convert the file on its way into a commit: no filter and no encoding is asked for, and there is no carriage return and no
//! `$Id` in it, so that line ends and `ident` change nothing, whatever attributes say. Every doubt is left to git.

use super::Content;
use super::ignore::ATTRIBUTES_FILES;
use super::index::Index;
use crate::error::Result;
use crate::git::Repo;
use crate::git::core::tree::SYMLINK;
use crate::git::files::untrusted;
use crate::git::objects::blob_name;
use crate::git::worktree::populate::{has_converting_word, is_safe_name, may_convert_outside};
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

/// What git would put into an index of a path.
pub(in crate::git) enum NextContent {
    /// Nothing: there is no file.
    Nothing,
    /// This, which is written.
    Blob(Content),
    /// What only git can tell.
    AskGit,
}

/// A worktree whose files are read as they are.
pub(in crate::git) struct PlainFiles<'a> {
    repo: &'a Repo,
    top: &'a Path,
    /// The git dir whose settings count, with what they include for its branch.
    settings: &'a Path,
    /// Whether they may ask for a conversion.
    may_convert_outside: Option<bool>,
    /// Whether a file of attributes is tracked: git takes one that is missing in the worktree from the index.
    is_tracked: &'a dyn Fn(&[u8]) -> bool,
    /// How many bytes may still be read.
    budget: u64,
    /// Whether the file of attributes in a directory may ask for a conversion.
    may_convert: HashMap<PathBuf, bool>,
}

impl<'a> PlainFiles<'a> {
    pub(in crate::git) fn new(
        repo: &'a Repo,
        top: &'a Path,
        settings: &'a Path,
        is_tracked: &'a dyn Fn(&[u8]) -> bool,
    ) -> PlainFiles<'a> {
        PlainFiles {
            repo,
            top,
            settings,
            may_convert_outside: None,
            is_tracked,
            budget: MOST_BYTES,
            may_convert: HashMap::new(),
        }
    }

    /// Whether the file at a path is what an index without flags holds there, beyond doubt.
    pub(in crate::git) fn proves(&mut self, index: &Index, path: &[u8]) -> bool {
        let inside = Path::new(OsStr::from_bytes(path));
        let Some(entry) = index.find(path) else {
            return false;
        };
        // Most files that were changed have another length, and need not be read.
        let length = fs::symlink_metadata(self.top.join(inside)).map_or(0, |found| found.len());
        if !index.may_have_length(entry, length) {
            return false;
        }
        let Some((mode, content)) = self.read(inside) else {
            return false;
        };
        let is_same = mode == entry.content.0
            && blob_name(&content).is_ok_and(|name| name == entry.content.1);
        is_same
            // `git add` would write the blob where it is missing, so a file is not done with before
            // that.
            && self.repo.has_object(entry.content.1)
            && self.is_plain(inside, mode, &content)
    }

    /// Writes the blob of the file at a path, if there is one. That the file system knows modes and symlinks is the caller's to ask.
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `git-failed`.
    pub(in crate::git) fn write(&mut self, path: &[u8]) -> Result<NextContent> {
        let inside = Path::new(OsStr::from_bytes(path));
        // Git goes by these while it adds the others, so it has to see them come and go.
        if ATTRIBUTES_FILES.iter().any(|name| inside.ends_with(name)) {
            return Ok(NextContent::AskGit);
        }
        let Some((mode, content)) = self.read(inside) else {
            let found = fs::symlink_metadata(self.top.join(inside)).map_err(|error| error.kind());
            return Ok(match found {
                Err(ErrorKind::NotFound | ErrorKind::NotADirectory) => NextContent::Nothing,
                _ => NextContent::AskGit,
            });
        };
        // Git puts some names into no index, and says so.
        if !is_safe_name(path, mode) || !self.is_plain(inside, mode, &content) {
            return Ok(NextContent::AskGit);
        }
        Ok(NextContent::Blob((mode, self.repo.write_blob(&content)?)))
    }

    fn read(&mut self, inside: &Path) -> Option<(u32, Vec<u8>)> {
        let (mode, content) = untrusted::content(self.top, inside, self.budget)?;
        self.budget = self.budget.saturating_sub(content.len() as u64);
        Some((mode, content))
    }

    /// Whether the content of a file is that of its blob.
    fn is_plain(&mut self, inside: &Path, mode: u32, content: &[u8]) -> bool {
        // Nothing converts the target of a symlink.
        if mode == SYMLINK {
            return true;
        }
        let mut above = inside.ancestors().skip(1);
        !is_convertible(content)
            && !above.any(|directory| self.may_convert_in(directory))
            && !*self.may_convert_outside.get_or_insert_with(|| may_convert_outside(self.settings))
    }

    fn may_convert_in(&mut self, directory: &Path) -> bool {
        if let Some(known) = self.may_convert.get(directory) {
            return *known;
        }
        let asks = |name: &&str| {
            let file = directory.join(name);
            let found = fs::symlink_metadata(self.top.join(&file));
            if found.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
                return (self.is_tracked)(file.as_os_str().as_bytes());
            }
            let content = untrusted::read(self.top, &file, LONGEST_ATTRIBUTES);
            // A file of attributes that is too long or no regular file may say anything.
            content.is_none_or(|content| has_converting_word(&content))
        };
        let may_convert = ATTRIBUTES_FILES.iter().any(asks);
        self.may_convert.insert(directory.to_owned(), may_convert);
        may_convert
    }
}

/// Whether line ends or `ident` might make another blob of a file.
fn is_convertible(content: &[u8]) -> bool {
    content.contains(&b'\r') || content.windows(3).any(|three| three == b"$Id")
}
