//! The reflog of our own refs, which recovery depends on.
//!
//! git writes none in a bare repository and none for refs outside heads, remotes and notes unless the file exists.
//! So every move of a ref is noted here (git's `gitformat`: `<old> <new> <identity> <time> <zone>\t<message>`).

use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::retry_if_pruned;
use crate::git::files::lock_file::remove_empty_directories;
use crate::git::files::untrusted;
use crate::git::objects::Identity;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// How far from the end the last line is looked for; those of a longer one are not found, as in a reflog that
/// was garbled.
const LONGEST_LINE: u64 = 4096;

/// The longest reflog that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// Adds one entry, and the same one to the reflog of the `HEAD` that leads to the ref in the worktree that the repository
/// was opened from. The caller holds the ref's lock.
pub(in crate::git) fn append(
    repo: &Repo,
    refname: &str,
    old: Oid,
    new: Oid,
    who: &Identity,
    message: &str,
) -> Result<()> {
    let path = path(repo, refname);
    untrusted::require_regular(&path, LONGEST)?;
    let what = "could not write the reflog";
    let mut options = File::options();
    options.create(true).append(true);
    let open = || {
        retry_if_pruned(|| {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            options.open(&path)
        })
    };
    let opened = match open() {
        // Directories that are left of refs whose names went on.
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            remove_empty_directories(&path);
            open()
        }
        opened => opened,
    };
    let mut file = opened.at(what, &path)?;
    let line = format!(
        "{old} {new} {}\t{}\n",
        who.stamp(),
        // A line feed would begin an entry of its own.
        message.replace('\n', " ")
    );
    let length = file.metadata().at(what, &path)?.len();
    let written = file.write_all(line.as_bytes());
    if written.is_err() {
        // Half a line would spoil the next one.
        let _ = file.set_len(length);
    }
    written.at(what, &path)?;
    let head = untrusted::text(repo.git_dir(), "HEAD").unwrap_or_default();
    if head.trim_end().strip_prefix("ref: ") == Some(refname) {
        // One that is missing, or is no file, is not kept.
        let _ = untrusted::append(repo.git_dir(), Path::new("logs/HEAD"), line.as_bytes());
    }
    Ok(())
}

/// The whole reflog of a ref; empty where there is none.
fn content(repo: &Repo, refname: &str) -> Result<Vec<u8>> {
    let path = path(repo, refname);
    untrusted::require_regular(&path, LONGEST)?;
    let content = std::fs::read(&path).at_if_there("could not read", &path)?;
    Ok(content.unwrap_or_default())
}

impl Repo {
    /// Every object the ref has named, newest first, as far as its reflog tells. Lines that a power
    /// loss garbled are skipped; a ref without a reflog has an empty one.
    ///
    /// # Errors
    /// `io`.
    pub fn reflog_oids(&self, refname: &str) -> Result<Vec<Oid>> {
        let content = content(self, refname)?;
        let mut oids = Vec::new();
        for line in content.split(|&b| b == b'\n').rev() {
            let Some((old, new)) = names(line) else {
                continue;
            };
            // The old side counts too: the entry that moved the ref there may be one of the garbled
            // ones.
            for oid in [new, old].into_iter().filter(|oid| !oid.is_zero()) {
                if oids.last() != Some(&oid) {
                    oids.push(oid);
                }
            }
        }
        Ok(oids)
    }

    /// What the ref named before each fetch that moved it to something else than a descendant, as far as its reflog
    /// tells: git says so in the message of the entry.
    ///
    /// # Errors
    /// `io`.
    pub fn overwritten_by_fetch(&self, refname: &str) -> Result<Vec<Oid>> {
        let content = content(self, refname)?;
        let lines = content.split(|&b| b == b'\n');
        let forced = lines.filter(|line| line.ends_with(b": forced-update"));
        let forced = forced.filter_map(names).map(|(old, _)| old);
        Ok(forced.filter(|old| !old.is_zero()).collect())
    }

    /// Whether the reflog begins with the making of the ref at that object, with a message that begins so.
    ///
    /// # Errors
    /// `io`.
    pub fn was_made_as(&self, refname: &str, first: Oid, message: &str) -> Result<bool> {
        let content = content(self, refname)?;
        let line = content.split(|&b| b == b'\n').next().unwrap_or_default();
        let made = names(line).is_some_and(|(old, new)| old.is_zero() && new == first);
        let said = line.splitn(2, |&b| b == b'\t').nth(1).unwrap_or_default();
        Ok(made && said.starts_with(message.as_bytes()))
    }

    /// The last move of the ref that its reflog tells of, from which object to which.
    ///
    /// # Errors
    /// `io`.
    pub fn last_reflog_move(&self, refname: &str) -> Result<Option<(Oid, Oid)>> {
        let path = path(self, refname);
        untrusted::require_regular(&path, LONGEST)?;
        let Some(mut file) = File::open(&path).at_if_there("could not read", &path)? else {
            return Ok(None);
        };
        let mut tail = Vec::new();
        let end = file.seek(SeekFrom::End(0)).at("could not read", &path)?;
        file.seek(SeekFrom::Start(end.saturating_sub(LONGEST_LINE)))
            .and_then(|_| file.read_to_end(&mut tail))
            .at("could not read", &path)?;
        // Without a line feed at its end the last entry is cut off, and then it tells nothing
        // certain.
        let lines = tail.strip_suffix(b"\n").unwrap_or_default();
        Ok(lines.rsplit(|&b| b == b'\n').next().and_then(names))
    }
}

/// The old and the new object of a line; `None` for one that a power loss garbled.
fn names(line: &[u8]) -> Option<(Oid, Oid)> {
    let names = std::str::from_utf8(line.get(..81)?).ok()?;
    Some((
        Oid::from_hex(names.get(..40)?)?,
        Oid::from_hex(names.get(41..)?)?,
    ))
}

fn path(repo: &Repo, refname: &str) -> PathBuf {
    repo.common_dir().join("logs").join(refname)
}
