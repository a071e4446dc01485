//! Deleting a ref, with its reflog and its packed value.

use super::transaction::{RefMove, RefTransaction};
use super::{Tip, lost_to, patiently};
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::files::lock_file::LockFile;
use crate::git::files::untrusted;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// The longest `packed-refs` that is rewritten, in bytes.
const LONGEST_PACKED: u64 = 1 << 30;

/// A ref that is locked, and that the repository's hook lets go.
type Locked<'r> = (LockFile, RefTransaction<'r>);

impl Repo {
    /// Deletes a ref with its reflog if it still names `expected`; `false` when it does not.
    ///
    /// # Errors
    /// `lost-race` while another process keeps its lock; `hook-refused`.
    pub fn delete_ref(&self, refname: &str, expected: Oid) -> Result<bool> {
        let deleted = self.delete_refs(&[(refname, expected)]).pop();
        deleted.unwrap_or(Ok(false))
    }

    /// As [`Repo::delete_ref`] for each of these; `packed-refs` is written once for all.
    pub fn delete_refs(&self, refs: &[(&str, Oid)]) -> Vec<Result<bool>> {
        let what = |refname: &str| format!("could not delete {refname}");
        let lock = |&(refname, expected): &(&str, Oid)| {
            let lock = self.patiently_locked(refname);
            let lock = lock.map_err(|error| lost_to(&what(refname), error))?;
            if self.tip(refname)? != Tip::At(expected) {
                return Ok(None);
            }
            let transaction = self.prepare_refs(&[RefMove {
                refname,
                old: expected,
                new: Oid::ZERO,
            }])?;
            Ok(Some((lock, transaction)))
        };
        let locks: Vec<Result<Option<Locked<'_>>>> = refs.iter().map(lock).collect();
        let locked = { refs.iter().zip(&locks) }.filter(|(_, lock)| matches!(lock, Ok(Some(_))));
        let doomed: HashSet<&str> = locked.map(|((refname, _), _)| *refname).collect();
        // The packed values go first: they count wherever there is no file.
        let together = self.unpack_refs(&doomed);
        let delete = |(&(refname, _), lock): (&(&str, Oid), Result<Option<Locked<'_>>>)| {
            let Some((_lock, transaction)) = lock? else {
                return Ok(false);
            };
            if together.is_err() {
                self.unpack_refs(&HashSet::from([refname]))
                    .map_err(|error| lost_to(&what(refname), error))?;
            }
            self.remove_loose(refname)?;
            transaction.commit();
            Ok(true)
        };
        refs.iter().zip(locks).map(delete).collect()
    }

    /// Deletes a ref that names no commit, with its reflog, if it is still at `expected`; `false` when it is not. Only
    /// its loose file is looked at: no other can be broken.
    ///
    /// # Errors
    /// `lock-timeout` while another process keeps its lock; `io`.
    pub fn delete_broken_ref(&self, refname: &str, expected: Tip) -> Result<bool> {
        let _lock = self.patiently_locked(refname)?;
        if self.tip(refname)? != expected {
            return Ok(false);
        }
        let transaction = self.prepare_refs(&[RefMove {
            refname,
            old: Oid::ZERO,
            new: Oid::ZERO,
        }])?;
        self.remove_loose(refname)?;
        transaction.commit();
        Ok(true)
    }

    /// Removes the file of a ref and its reflog, and directories that become empty by it.
    fn remove_loose(&self, refname: &str) -> Result<()> {
        for file in [Path::new("logs").join(refname), PathBuf::from(refname)] {
            let file = self.common_dir().join(file);
            std::fs::remove_file(&file).at_if_there("could not remove", &file)?;
        }
        // The lock file still is in the last directory of the ref, which therefore stays, as git leaves it at times.
        let log = self.common_dir().join("logs").join(refname);
        let kept = self.common_dir().join("logs/refs");
        let below = |directory: &&Path| directory.parent().is_some_and(|above| above != kept);
        for directory in { log.ancestors() }.skip(1).take_while(below) {
            if std::fs::remove_dir(directory).is_err() {
                break;
            }
        }
        Ok(())
    }

    /// Takes refs out of `packed-refs`, as far as they are there.
    fn unpack_refs(&self, refnames: &HashSet<&str>) -> Result<()> {
        let path = self.common_dir().join("packed-refs");
        let load = || {
            let content = std::fs::read(&path).at_if_there("could not read", &path);
            content.map(Option::unwrap_or_default)
        };
        untrusted::require_regular(&path, LONGEST_PACKED)?;
        if without_refs(&load()?, refnames).is_none() {
            return Ok(());
        }
        let lock_path = path.with_extension("lock");
        let lock = patiently(&lock_path, || LockFile::take(self.common_dir(), &lock_path))?;
        match without_refs(&load()?, refnames) {
            Some(rest) => lock.publish(&rest),
            None => Ok(()),
        }
    }
}

/// The content of `packed-refs` without some refs; `None` where none of them is there.
fn without_refs(packed: &[u8], refnames: &HashSet<&str>) -> Option<Vec<u8>> {
    let mut rest = Vec::with_capacity(packed.len());
    let mut is_dropped = false;
    let mut is_found = false;
    for line in packed.split_inclusive(|&byte| byte == b'\n') {
        // A line that begins with `^` tells what the tag in the line above it leads to.
        if !line.starts_with(b"^") {
            let name = line.trim_ascii_end().splitn(2, |&byte| byte == b' ').nth(1);
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            is_dropped =
                !line.starts_with(b"#") && name.is_some_and(|name| refnames.contains(name));
            is_found |= is_dropped;
        }
        if !is_dropped {
            rest.extend_from_slice(line);
        }
    }
    is_found.then_some(rest)
}
