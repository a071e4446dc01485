//! Reflogs, and the repository's own hook `reference-transaction`, which is asked before a branch moves and hears
//! what became of it.
//!
//! Git runs the hook for each of its own transactions (githooks(5)). The refs are written by this program here, so it runs the hook
//! in the same way: by `git hook run`, which knows `core.hooksPath` and hooks in the configuration, in the main worktree. Its
//! standard input has a line `<old> <new> <ref>` for each branch, and before git 2.48 one for `HEAD` where that is on the branch.
//! From git 2.54 on it is asked with `preparing` first. Branches below `agent/` are this program's own.

use crate::domain::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::retry_if_pruned;
use crate::git::files::lock_file::{LockFile, remove_empty_directories};
use crate::git::files::untrusted;
use crate::git::objects::Identity;
use crate::git::refs::{Tip, lost_to, patiently};
use crate::git::repo::program::{self, Version};
use rustix::fs::OFlags;
use std::collections::HashSet;
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The name of the hook.
const HOOK: &str = "reference-transaction";

/// Branches that are agents' own.
const OF_AGENTS: &str = "refs/heads/agent/";

/// What the name of an agent's admin directory begins with.
const AGENT_WORKTREE: &str = "agent-";

/// What is to become of a ref: where it is, and where it goes. The zero oid stands for no ref.
pub(super) struct RefMove<'r> {
    pub(super) refname: &'r str,
    pub(super) old: Oid,
    pub(super) new: Oid,
}

/// A transaction that the hook allowed. It hears `aborted` where this is dropped before [`RefTransaction::commit`].
#[must_use = "the hook hears that the transaction was aborted when this is dropped"]
pub(super) struct RefTransaction<'r> {
    /// Where to run the hook, and what it reads; `None` where no hook is asked.
    asked: Option<(&'r Repo, PathBuf, String)>,
}

impl Repo {
    /// Asks the hook about refs that are locked and known to be where they should be.
    ///
    /// # Errors
    /// `hook-refused` with what the hook said, and where the hook is in an agent's worktree; `git-missing`, `io`.
    pub(super) fn prepare_refs(&self, moves: &[RefMove<'_>]) -> Result<RefTransaction<'_>> {
        let is_asked = |moved: &&RefMove<'_>| {
            let name = moved.refname;
            name.starts_with("refs/heads/") && !name.starts_with(OF_AGENTS)
        };
        let moves: Vec<_> = moves.iter().filter(is_asked).collect();
        if moves.is_empty() {
            return Ok(RefTransaction { asked: None });
        }
        // In a worktree of an agent the same relative path would lead to a program of the agent's.
        let place = self.main_worktree()?;
        let place = place.unwrap_or_else(|| self.common_dir().to_owned());
        // Most repositories have no such hook, and this saves starting git for each move of a
        // branch.
        if !self.may_have_shared_hook(&place, HOOK)? {
            return Ok(RefTransaction { asked: None });
        }
        self.require_hooks_out_of_agents_reach(&place)?;
        let version = program::ask_version(self.common_dir())?.answer();
        // An older git updates HEAD in the same transaction as the branch that it is on, and the hook hears of both.
        let head = untrusted::text(self.common_dir(), "HEAD").unwrap_or_default();
        let head =
            head.trim_end().strip_prefix("ref: ").filter(|_| version < Some(Version::HEAD_UNTOLD));
        let mut input = String::new();
        for RefMove { refname, old, new } in moves {
            input += &format!("{old} {new} {refname}\n");
            if head == Some(refname) {
                input += &format!("{old} {new} HEAD\n");
            }
        }
        let transaction = RefTransaction { asked: Some((self, place, input)) };
        // Dropped, it says `aborted`, as git does after a refusal.
        let mut complaint = None;
        if version >= Some(Version::PREPARING) {
            complaint = transaction.run("preparing")?;
        }
        if complaint.is_none() {
            complaint = transaction.run("prepared")?;
        }
        if let Some(complaint) = complaint {
            let what = "the hook reference-transaction of the repository refused to move a branch";
            return Err(Error::new(Code::HookRefused, what).because(complaint).hint(
                "to see the hook, run git rev-parse --git-path hooks/reference-transaction",
            ));
        }
        Ok(transaction)
    }

    /// Refuses a directory of hooks in which an agent can write, whatever the settings say.
    fn require_hooks_out_of_agents_reach(&self, place: &Path) -> Result<()> {
        let Some(directory) = self.shared_hooks_dir()? else {
            return Ok(());
        };
        // A directory that does not exist holds no hook.
        let Ok(directory) = std::fs::canonicalize(place.join(directory)) else {
            return Ok(());
        };
        let mut worktrees = self.worktrees()?.into_iter();
        let of_agent = worktrees.find(|worktree| {
            let top = std::fs::canonicalize(&worktree.path);
            worktree.name.starts_with(AGENT_WORKTREE)
                && top.is_ok_and(|top| directory.starts_with(top))
        });
        match of_agent {
            None => Ok(()),
            Some(worktree) => {
                let (hooks, top) = (directory.display(), worktree.path.display());
                let what = format!(
                    "{hooks}, where the repository's hooks are, is in the worktree {top} of an agent"
                );
                Err(Error::new(Code::HookRefused, what).hint(
                    "to see which setting says so, run git config --show-origin core.hooksPath",
                ))
            }
        }
    }
}

impl RefTransaction<'_> {
    /// Tells the hook that all refs are where they should be. They are, so it has no say any more.
    pub(super) fn commit(mut self) {
        let _ = self.run("committed");
        // Else dropping it would say `aborted`.
        self.asked = None;
    }

    /// What the hook said if it failed.
    fn run(&self, state: &str) -> Result<Option<String>> {
        let Some((repo, place, input)) = &self.asked else {
            return Ok(None);
        };
        repo.run_hook(place, HOOK, &[state], input.as_bytes())
    }
}

impl Drop for RefTransaction<'_> {
    fn drop(&mut self) {
        let _ = self.run("aborted");
    }
}

// Deleting a ref, with its reflog and its packed value.

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
            let transaction =
                self.prepare_refs(&[RefMove { refname, old: expected, new: Oid::ZERO }])?;
            Ok(Some((lock, transaction)))
        };
        // All refs are locked and allowed before the first is touched.
        let locks: Vec<Result<Option<Locked<'_>>>> = refs.iter().map(lock).collect();
        let locked = refs.iter().zip(&locks).filter(|(_, lock)| matches!(lock, Ok(Some(_))));
        let doomed: HashSet<&str> = locked.map(|((refname, _), _)| *refname).collect();
        // The packed values go first: they count wherever there is no file.
        let together = self.unpack_refs(&doomed);
        let delete = |(&(refname, _), lock): (&(&str, Oid), Result<Option<Locked<'_>>>)| {
            let Some((_lock, transaction)) = lock? else {
                return Ok(false);
            };
            // One ref may have kept the list from being written for all; each is then tried alone,
            // so that the others go.
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
        // The hook reads zeros for a value that cannot be read.
        let transaction =
            self.prepare_refs(&[RefMove { refname, old: Oid::ZERO, new: Oid::ZERO }])?;
        self.remove_loose(refname)?;
        transaction.commit();
        Ok(true)
    }

    /// Removes the file of a ref and its reflog, and directories that become empty by it.
    fn remove_loose(&self, refname: &str) -> Result<()> {
        // The reflog goes first: one that outlived its ref would be continued by the next ref of
        // that name.
        for file in [Path::new("logs").join(refname), PathBuf::from(refname)] {
            let file = self.common_dir().join(file);
            std::fs::remove_file(&file).at_if_there("could not remove", &file)?;
        }
        // The lock file still is in the last directory of the ref, which therefore stays, as git leaves it at times.
        let log = self.common_dir().join("logs").join(refname);
        let kept = self.common_dir().join("logs/refs");
        let below = |directory: &&Path| directory.parent().is_some_and(|above| above != kept);
        for directory in log.ancestors().skip(1).take_while(below) {
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
        // Read without a lock first: most refs are not packed, and `packed-refs` of a large
        // repository is long.
        if without_refs(&load()?, refnames).is_none() {
            return Ok(());
        }
        let lock_path = path.with_extension("lock");
        let lock = patiently(&lock_path, || LockFile::take(self.common_dir(), &lock_path))?;
        // Read again under the lock, since git may have packed refs meanwhile.
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

// The reflog of our own refs, which recovery depends on.
//
// git writes none in a bare repository and none for refs outside heads, remotes and notes unless the file exists.
// So every move of a ref is noted here (git's `gitformat`: `<old> <new> <identity> <time> <zone>\t<message>`).

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
    // An agent can have put a link to another file there, which is no reflog.
    if path.is_symlink() {
        std::fs::remove_file(&path).at(what, &path)?;
    }
    options.create(true).append(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
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

    /// The moves of the ref as its reflog tells them, oldest first: from which object, to which, and the message.
    ///
    /// # Errors
    /// `io`.
    pub fn reflog_moves(&self, refname: &str) -> Result<Vec<(Oid, Oid, String)>> {
        let content = content(self, refname)?;
        let told = content.split(|&b| b == b'\n').filter_map(|line| {
            let (old, new) = names(line)?;
            let said = line.splitn(2, |&b| b == b'\t').nth(1).unwrap_or_default();
            Some((old, new, String::from_utf8_lossy(said).into_owned()))
        });
        Ok(told.collect())
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
        self.last_reflog_move_by(refname, "")
    }

    /// As [`Repo::last_reflog_move`], if the message of that move ends so.
    ///
    /// # Errors
    /// `io`.
    pub fn last_reflog_move_by(&self, refname: &str, message: &str) -> Result<Option<(Oid, Oid)>> {
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
        let last = lines.rsplit(|&b| b == b'\n').next();
        Ok(last.filter(|line| line.ends_with(message.as_bytes())).and_then(names))
    }
}

/// The old and the new object of a line; `None` for one that a power loss garbled.
fn names(line: &[u8]) -> Option<(Oid, Oid)> {
    let names = std::str::from_utf8(line.get(..81)?).ok()?;
    Some((Oid::from_hex(names.get(..40)?)?, Oid::from_hex(names.get(41..)?)?))
}

fn path(repo: &Repo, refname: &str) -> PathBuf {
    repo.common_dir().join("logs").join(refname)
}
