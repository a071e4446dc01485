//! The reflog of our own refs, which recovery depends on.
//!
//! libgit2 and git write none in a bare repository and none for refs outside heads, remotes and notes
//! unless the file exists. So it is made to exist, and where configuration keeps libgit2 from writing,
//! the line is written here (git's `gitformat`: `<old> <new> <identity> <time> <zone>\t<message>`).

use super::Repo;
use super::objects::Identity;
use super::pruned::retry_if_pruned;
use super::repo::failed;
use super::untrusted;
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// How far from the end the last line is looked for; those of a longer one are not found, as in a reflog that
/// was garbled.
const LONGEST_LINE: u64 = 4096;

/// The longest reflog that is read, in bytes.
const LONGEST: u64 = 1 << 30;

/// Whether libgit2 notes a move of this ref by itself; makes the log file if that is all it lacks.
pub(super) fn is_written_by_libgit2(repo: &Repo, refname: &str) -> Result<bool> {
    let what = "could not prepare the reflog";
    let logs = match repo.config_string("core.logAllRefUpdates")?.as_deref() {
        None => !repo.inner.is_bare(),
        Some(word) => {
            word.eq_ignore_ascii_case("always") || git2::Config::parse_bool(word).unwrap_or(true)
        }
    };
    if !logs {
        return Ok(false);
    }
    // libgit2 opens whatever is there.
    untrusted::require_regular(&path(repo, refname), LONGEST)?;
    let has_log = repo.inner.reference_has_log(refname);
    if !has_log.map_err(|error| failed(what, error))? {
        let made = retry_if_pruned(|| repo.inner.reference_ensure_log(refname));
        made.map_err(|error| failed(what, error))?;
    }
    Ok(true)
}

/// Adds one entry. The caller holds the ref's lock.
pub(super) fn append(
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
    let opened = retry_if_pruned(|| {
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        options.open(&path)
    });
    let mut file = opened.at(what, &path)?;
    let line = format!(
        "{old} {new} {}\t{}\n",
        who.stamp(),
        message.replace('\n', " ")
    );
    file.write_all(line.as_bytes()).at(what, &path)
}

impl Repo {
    /// Every object the ref has named, newest first, as far as its reflog tells. Lines that a power
    /// loss garbled are skipped; a ref without a reflog has an empty one.
    ///
    /// # Errors
    /// `io`.
    pub fn reflog_oids(&self, refname: &str) -> Result<Vec<Oid>> {
        let path = path(self, refname);
        untrusted::require_regular(&path, LONGEST)?;
        let content = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            content => content.at("could not read", &path)?,
        };
        let mut oids = Vec::new();
        for line in content.split(|&b| b == b'\n').rev() {
            let Some((old, new)) = names(line) else {
                continue;
            };
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
        let path = path(self, refname);
        untrusted::require_regular(&path, LONGEST)?;
        let content = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            content => content.at("could not read", &path)?,
        };
        let lines = content.split(|&b| b == b'\n');
        let forced = lines.filter(|line| line.ends_with(b": forced-update"));
        let forced = forced.filter_map(names).map(|(old, _)| old);
        Ok(forced.filter(|old| !old.is_zero()).collect())
    }

    /// The last move of the ref that its reflog tells of, from which object to which.
    ///
    /// # Errors
    /// `io`.
    pub fn last_reflog_move(&self, refname: &str) -> Result<Option<(Oid, Oid)>> {
        let path = path(self, refname);
        untrusted::require_regular(&path, LONGEST)?;
        let mut file = match File::open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.at("could not read", &path)?,
        };
        let mut tail = Vec::new();
        let end = file.seek(SeekFrom::End(0)).at("could not read", &path)?;
        file.seek(SeekFrom::Start(end.saturating_sub(LONGEST_LINE)))
            .and_then(|_| file.read_to_end(&mut tail))
            .at("could not read", &path)?;
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
