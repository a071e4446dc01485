//! How much of the disk the files of a tree take.

use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::{Repo, command};

/// What nearly every file system gives to a file at a time, in bytes.
const BLOCK: u64 = 4096;

impl Repo {
    /// How much of the disk the files of a tree take, in bytes; `None` in a partial clone, where git would fetch the objects that
    /// are not here. Filters that change the size of a file are not looked at.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn disk_use(&self, tree: Oid) -> Result<Option<u64>> {
        if self.is_partial() {
            return Ok(None);
        }
        let mut list = self.plumbing();
        list.args(["ls-tree", "-r", "-z", "--format=%(objectsize)"]);
        list.arg(tree.to_hex());
        let listed = command::successful(list)?;
        let sizes = command::names(&listed)
            .filter_map(|size| std::str::from_utf8(size).ok()?.parse::<u64>().ok());
        Ok(Some(sizes.map(|size| size.next_multiple_of(BLOCK)).sum()))
    }
}
