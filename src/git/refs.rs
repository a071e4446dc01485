//! Refs: reading, creating without overwriting, and moving by compare-and-swap.
//!
//! Refs are written here and not by libgit2, whose `.lock` files do not tell whether their owner lives: ours do
//! ([`super::files::lock_file`]), and what a killed process of ours left is cleared by the next that wants the ref. The lock of
//! another program is reported ([`Swap::Locked`]); the caller decides to wait.

pub mod remote;
mod transaction;

use crate::domain::{Oid, branch_name, value::shell};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::lock_file::LockFile;
use crate::git::files::untrusted;
use crate::git::objects::Identity;
use crate::git::repo::open::Environment;
use crate::git::repo::{failed, from_git2};
use crate::git::{Repo, core::command};
use crate::system::sync_file_system;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use transaction::RefMove;

/// What a ref file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tip {
    /// There is no such ref.
    Absent,
    /// It names this object, which may or may not exist.
    At(Oid),
    /// The file is there but names nothing: empty or garbled, as after a power loss.
    Broken,
}

impl Tip {
    /// The object, when one is named.
    pub fn oid(self) -> Option<Oid> {
        match self {
            Tip::At(oid) => Some(oid),
            Tip::Absent | Tip::Broken => None,
        }
    }
}

/// How an attempt to move a ref ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Swap {
    /// The ref is where it should be.
    Done,
    /// The ref was not where it was expected; nothing changed.
    Moved,
    /// Another process has the ref's `.lock` file; nothing changed.
    Locked,
}

/// Where git keeps what it knows of remotes.
pub const REMOTE_COPIES: &str = "refs/remotes/";

/// For how long git waits for the lock of a ref, in milliseconds (git-config(1)).
const LOCK_TIMEOUT: &str = "core.filesreflocktimeout";

/// How long an attempt at a ref waits for its lock: about the second that git itself waits.
const BRIEFLY: Duration = Duration::from_millis(800);

/// The longest pause between two looks at a ref's lock; the first is a millisecond, each further one a millisecond
/// longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// Waiting for another process to let go of a `.lock` file.
pub(crate) struct LockWait {
    rest: Duration,
    pause: Duration,
}

impl LockWait {
    /// Waits at most so long in all.
    pub(crate) fn new(patience: Duration) -> LockWait {
        LockWait { rest: patience, pause: Duration::from_millis(1) }
    }

    /// Waits for a moment before the next look at that lock.
    ///
    /// # Errors
    /// `lock-timeout` when there was waiting enough.
    pub(crate) fn wait(&mut self, lock: &Path) -> Result<()> {
        // Subtracted before sleeping, so that the last pause is no longer than what is left.
        let rest = self.rest.checked_sub(self.pause);
        self.rest = rest.ok_or_else(|| lock_timeout(lock))?;
        std::thread::sleep(self.pause);
        self.pause = LONGEST_PAUSE.min(self.pause + Duration::from_millis(1));
        Ok(())
    }
}

impl Repo {
    /// What a ref names, without following symbolic refs.
    ///
    /// # Errors
    /// `git-failed` when the ref storage itself cannot be read.
    pub fn tip(&self, refname: &str) -> Result<Tip> {
        // An agent can put a FIFO in the place of its branch, and libgit2 would wait for it.
        if untrusted::require_ref(&self.common_dir().join(refname)).is_err() {
            return Ok(Tip::Broken);
        }
        match self.inner.find_reference(refname) {
            Ok(reference) => Ok(reference
                .target()
                .map(from_git2)
                // A ref of zeros names nothing; git writes none.
                .filter(|oid| !oid.is_zero())
                .map_or(Tip::Broken, Tip::At)),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(Tip::Absent),
            // libgit2 says "corrupted loose reference file" with no code of its own.
            Err(error) if error.class() == git2::ErrorClass::Reference => Ok(Tip::Broken),
            Err(error) => Err(failed(&format!("could not read {refname}"), error)),
        }
    }

    /// What the branch that a name leads to names.
    ///
    /// # Errors
    /// As [`Repo::tip`].
    pub fn branch_tip(&self, refname: &str) -> Result<Tip> {
        self.tip(&self.branch_behind(refname))
    }

    /// The branch that a name leads to: itself, unless it is a symbolic ref. Where that leads nowhere, the name that is not there.
    pub fn branch_behind(&self, refname: &str) -> String {
        let mut name = refname.to_owned();
        // As many as git follows.
        for _ in 0..5 {
            // Packed refs are never symbolic, so the file says it.
            let Some(next) = untrusted::text(self.common_dir(), &name) else {
                break;
            };
            let Some(next) = next.strip_prefix("ref: ").map(str::trim) else {
                break;
            };
            if !git2::Reference::is_valid_name(next) {
                break;
            }
            next.clone_into(&mut name);
        }
        name
    }

    /// Makes a ref that must not exist. `false` when it does; it is then left as it is.
    ///
    /// Not by `git_reference_create`: that one looks whether the name is free before it takes the
    /// ref's lock, so of two that look at the same moment the second overwrites the first.
    ///
    /// # Errors
    /// `lock-timeout` while another process keeps its lock, `git-failed` for an impossible name.
    pub fn create_ref(
        &self,
        refname: &str,
        target: Oid,
        who: &Identity,
        message: &str,
    ) -> Result<bool> {
        self.swap_ref_in_time(refname, Tip::Absent, target, who, message)
    }

    /// As [`Repo::swap_ref`], waiting while another process has the lock. `false` when the ref is elsewhere.
    ///
    /// # Errors
    /// As [`Repo::swap_ref`]; `lock-timeout`.
    pub(in crate::git) fn swap_ref_in_time(
        &self,
        refname: &str,
        expected: Tip,
        target: Oid,
        who: &Identity,
        message: &str,
    ) -> Result<bool> {
        let mut waiting = LockWait::new(BRIEFLY);
        loop {
            match self.swap_ref(refname, expected, target, who, message)? {
                Swap::Done => return Ok(true),
                Swap::Moved => return Ok(false),
                Swap::Locked => waiting.wait(&self.ref_lock_path(refname))?,
            }
        }
    }

    /// Whether there are refs whose names begin with this one and a slash.
    ///
    /// # Errors
    /// `git-failed` when the refs cannot be listed.
    pub fn has_refs_below(&self, refname: &str) -> Result<bool> {
        let what = "could not list refs";
        let mut refs = self
            .inner
            .references_glob(&format!("{refname}/*"))
            .map_err(|error| failed(what, error))?;
        let first = refs.next().transpose();
        Ok(first.map_err(|error| failed(what, error))?.is_some())
    }

    /// The refs whose full names begin with a text that ends with a slash, each with the object it names.
    ///
    /// # Errors
    /// `git-failed` when the refs cannot be listed.
    pub fn refs_below(&self, prefix: &str) -> Result<Vec<(String, Oid)>> {
        let what = "could not list refs";
        let found = self.inner.references_glob(&format!("{prefix}*"));
        let found = found.map_err(|error| failed(what, error))?;
        let mut refs = Vec::new();
        for reference in found {
            let reference = reference.map_err(|error| failed(what, error))?;
            if let (Ok(name), Some(target)) = (reference.name(), reference.target()) {
                refs.push((name.to_owned(), from_git2(target)));
            }
        }
        Ok(refs)
    }

    /// Takes the lock of a ref; `None` while another process has it.
    fn lock_ref(&self, refname: &str) -> Result<Option<LockFile>> {
        // In `pre-receive` the objects of the push are in a quarantine that git may throw away, and
        // a ref to one of them would then be broken. Git itself refuses this as well.
        if Environment::followed().quarantine.is_some() {
            let what = format!("{refname} cannot be changed while git receives a push");
            return Err(Error::new(Code::RepoReadOnly, what)
                .hint("to change it when the push is over, use the hook post-receive"));
        }
        // The name becomes a path below the common directory, so it is checked before any file is
        // made.
        if !git2::Reference::is_valid_name(refname) {
            let what = format!("`{refname}` cannot be the name of a ref");
            return Err(Error::new(Code::GitFailed, what));
        }
        LockFile::take(self.common_dir(), &self.ref_lock_path(refname))
    }

    /// Whether the lock of a ref can be taken at this moment. It is released again.
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `io` where no lock file can be made.
    pub(crate) fn can_lock_ref(&self, refname: &str) -> Result<bool> {
        Ok(self.lock_ref(refname)?.is_some())
    }

    fn patiently_locked(&self, refname: &str) -> Result<LockFile> {
        patiently(&self.ref_lock_path(refname), || self.lock_ref(refname))
    }

    /// Moves a ref from `expected` to `target` and notes it in the reflog, which is made if need be.
    ///
    /// # Errors
    /// `hook-refused`, `disk-full`, `repo-read-only`, `git-failed`, `io`.
    pub fn swap_ref(
        &self,
        refname: &str,
        expected: Tip,
        target: Oid,
        who: &Identity,
        message: &str,
    ) -> Result<Swap> {
        self.swap_ref_after(refname, expected, target, who, message, || Ok(()))
    }

    /// As [`Repo::swap_ref`], and does `first` while the ref is locked and known to be at `expected`, so
    /// that it does not move in between. When that fails, the ref stays.
    ///
    /// # Errors
    /// As [`Repo::swap_ref`], and what `first` fails with.
    pub fn swap_ref_after(
        &self,
        refname: &str,
        expected: Tip,
        target: Oid,
        who: &Identity,
        message: &str,
        first: impl FnOnce() -> Result<()>,
    ) -> Result<Swap> {
        let Some(lock) = self.lock_ref(refname)? else {
            return Ok(Swap::Locked);
        };
        // The tip is read under the lock: a process that moves the ref by git's protocol has to
        // wait for it.
        if self.tip(refname)? != expected {
            return Ok(Swap::Moved);
        }
        let old = expected.oid().unwrap_or(Oid::ZERO);
        // Asked before anything is moved along, so that a refusal leaves everything where it is.
        let transaction = self.prepare_refs(&[RefMove { refname, old, new: target }])?;
        first()?;
        // The value is written first, because that is what a full disk refuses; then the reflog,
        // and the rename last. A kill between the two leaves a reflog entry of a move that never
        // happened, which harms nothing; the reverse would lose what recovery reads.
        lock.publish_after(format!("{target}\n").as_bytes(), |body| {
            transaction::append(self, refname, old, target, who, message)?;
            self.flush(body)
        })?;
        transaction.commit();
        Ok(Swap::Done)
    }

    /// Has everything written that a ref is about to name, and the ref, where the user wants that of either (`core.fsync` of
    /// git-config(1)): by one call for the whole file system, which is less than one for each object.
    fn flush(&self, body: &std::fs::File) -> Result<()> {
        if is_flushed(&self.config_string("core.fsync")?.unwrap_or_default()) {
            sync_file_system(body).at("could not flush", self.common_dir())?;
        }
        Ok(())
    }

    /// Waits for a moment until another process lets go of a ref's lock: in all as long as `core.filesRefLockTimeout`
    /// says, or `otherwise` where it is not set. However old the lock is, it stays: a transaction may take its time.
    ///
    /// # Errors
    /// `lock-timeout` when there was waiting enough, `git-failed` when the configuration cannot be read.
    pub(crate) fn wait_for_ref_lock(
        &self,
        refname: &str,
        waiting: &mut Option<LockWait>,
        otherwise: Duration,
    ) -> Result<()> {
        if waiting.is_none() {
            let set = self.shared_settings(LOCK_TIMEOUT)?.pop();
            let set = set.and_then(|set| set.value.parse::<i64>().ok());
            // Git waits for ever where the number is negative.
            let limit = set
                .map(|millis| u64::try_from(millis).map_or(Duration::MAX, Duration::from_millis));
            *waiting = Some(LockWait::new(limit.unwrap_or(otherwise)));
        }
        let waiting = waiting.as_mut();
        waiting.map_or(Ok(()), |waiting| waiting.wait(&self.ref_lock_path(refname)))
    }

    /// The `.lock` file that the ref's writer holds.
    pub fn ref_lock_path(&self, refname: &str) -> PathBuf {
        self.common_dir().join(format!("{refname}.lock"))
    }
}

/// Whether `core.fsync` names loose objects or refs. Neither is flushed by default.
fn is_flushed(components: &str) -> bool {
    let aggregates = ["all", "added", "committed", "objects"];
    let is = |wanted: &str, of: &[&str]| {
        let parts = components.split(',').map(str::trim);
        parts.fold(false, |is_on, part| match part.strip_prefix('-') {
            Some(part) if part == wanted || of.contains(&part) => false,
            None if part == wanted || of.contains(&part) => true,
            None if matches!(part, "none" | "default") => false,
            _ => is_on,
        })
    };
    is("loose-object", &aggregates) || is("reference", &aggregates[..1])
}

/// Takes a lock file, waiting while another process has it.
pub(in crate::git) fn patiently(
    path: &Path,
    take: impl Fn() -> Result<Option<LockFile>>,
) -> Result<LockFile> {
    let mut waiting = LockWait::new(BRIEFLY);
    loop {
        if let Some(lock) = take()? {
            return Ok(lock);
        }
        waiting.wait(path)?;
    }
}

/// An error for a ref that another process keeps locked, as a race that was lost.
pub(in crate::git) fn lost_to(what: &str, error: Error) -> Error {
    if error.code() == Code::LockTimeout {
        return Error::new(Code::LostRace, what)
            .because(error)
            .remedy("to clear the lock once no process has it", Remedy::Repair);
    }
    error
}

/// The error for a `.lock` file that would not go away.
fn lock_timeout(lock: &Path) -> Error {
    Error::new(Code::LockTimeout, format!("waited too long for the lock file {}", lock.display()))
        .hint(format!("to clear it when no git process is at work, run rm {}", shell::path(lock)))
}

// Branches of agents: made only where there is none, removed only where they are as expected.

/// The longest full ref name we make; file systems end at 255 bytes for a part of it.
const LONGEST_NAME: usize = 255;

/// Checks a branch name and gives the full ref name.
///
/// The characters allowed are those that no shell, no URL and no file system treats specially; git
/// itself allows more.
///
/// # Errors
/// `branch-invalid`, naming the rule.
pub fn full_name(branch: &str) -> Result<String> {
    let short = branch_name(branch);
    let full = format!("refs/heads/{short}");
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'/' | b'-');
    // A name that starts with `-` would be an option to git.
    let rule = if !short.bytes().all(allowed) {
        Some("it may hold only letters, digits, `_`, `.`, `/` and `-`")
    } else if short.starts_with(['-', '.', '/']) {
        Some("it must not begin with `-`, `.` or `/`")
    } else if full.len() > LONGEST_NAME {
        Some("it is too long")
    // A branch called `HEAD` is valid to the ref format, and ambiguous to every command.
    } else if !git2::Reference::is_valid_name(&full) || matches!(short, "" | "HEAD") {
        Some("git check-ref-format refuses it")
    } else {
        None
    };
    match rule {
        None => Ok(full),
        Some(rule) => {
            Err(Error::new(Code::BranchInvalid, format!("`{branch}` cannot name a branch: {rule}")))
        }
    }
}

impl Repo {
    /// Checks that a branch of that name can be made.
    ///
    /// # Errors
    /// `branch-exists` when it is there, when a part of the name is itself a branch (`agent` blocks
    /// `agent/x`), or when it is itself a part of one.
    pub fn require_free_branch(&self, full_name: &str) -> Result<()> {
        // A loose ref is a file, so no other ref can have its name for a directory. Git refuses
        // both directions.
        self.require_free_directories(full_name)?;
        if self.tip(full_name)? != Tip::Absent {
            return Err(taken(format!("{full_name} exists already")));
        }
        if self.has_refs_below(full_name)? {
            return Err(taken(format!("there are branches below {full_name}/")));
        }
        Ok(())
    }

    /// The full name of the ref that a branch follows; `None` for a branch that follows none, and for
    /// what is no branch.
    pub fn upstream_name(&self, full_name: &str) -> Option<String> {
        let name = self.inner.branch_upstream_name(full_name).ok()?;
        name.as_str().ok().map(str::to_owned)
    }

    /// The names of the remotes, `origin` first.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn remotes(&self) -> Result<Vec<String>> {
        let remotes = self.inner.remotes();
        let remotes = remotes.map_err(|error| failed("could not list the remotes", error))?;
        let mut names: Vec<String> =
            remotes.iter().filter_map(|name| name.ok().flatten()).map(str::to_owned).collect();
        names.sort_by_key(|name| name != "origin");
        Ok(names)
    }

    /// Checks that listing these refs, named as a directory such as `refs/heads`, comes to an end: below it is no link
    /// to a directory, which git and libgit2 follow, and nothing that keeps a reader waiting.
    ///
    /// # Errors
    /// `repo-corrupt`, naming the file.
    pub fn require_listable(&self, refs: &str) -> Result<()> {
        untrusted::require_listable(&self.common_dir().join(refs))
    }

    /// The full names of the branches, here and as fetched from remotes, and of the tags whose history holds a commit.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn refs_holding(&self, commit: Oid) -> Result<Vec<String>> {
        let mut command = self.plumbing();
        command
            .args(["for-each-ref", "--format=%(refname) %(symref)", "--contains"])
            .arg(commit.to_hex())
            .args(["refs/heads", "refs/remotes", "refs/tags"]);
        let output = command::finish(&mut command)?;
        if !output.status.success() {
            return Err(command::refused(&command, &output));
        }
        let names = String::from_utf8_lossy(&output.stdout);
        // A symbolic ref is another name of a branch that is listed itself.
        let own = names.lines().filter_map(|line| line.strip_suffix(' '));
        Ok(own.map(str::to_owned).collect())
    }

    /// The full names of the local branches.
    ///
    /// # Errors
    /// `git-failed` when the refs cannot be listed.
    pub fn local_branches(&self) -> Result<HashSet<String>> {
        self.require_listable("refs/heads")?;
        let what = "could not list the branches";
        let mut refs =
            self.inner.references_glob("refs/heads/*").map_err(|error| failed(what, error))?;
        let names = refs.names().filter_map(|name| name.ok().map(str::to_owned));
        Ok(names.collect())
    }

    /// The copies of a branch that were fetched from remotes, that of `origin` first: each one's full name and where
    /// it is.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn fetched_branches(&self, full_name: &str) -> Result<Vec<(String, Oid)>> {
        let Some(short) = full_name.strip_prefix("refs/heads/") else {
            return Ok(Vec::new());
        };
        let mut copies = Vec::new();
        for remote in self.remotes()? {
            let copy = format!("refs/remotes/{remote}/{short}");
            if let Tip::At(oid) = self.tip(&copy)? {
                copies.push((copy, oid));
            }
        }
        Ok(copies)
    }

    /// Makes a branch at `target`; gives `false`, and changes nothing, when the name is taken.
    ///
    /// No upstream is configured: that would rewrite the shared config file, over which simultaneous
    /// spawns race.
    ///
    /// # Errors
    /// `branch-exists` when a part of the name is itself a branch, and those of [`Repo::create_ref`].
    pub fn create_branch(
        &self,
        full_name: &str,
        target: Oid,
        who: &Identity,
        reason: &str,
    ) -> Result<bool> {
        self.require_free_directories(full_name)?;
        self.create_ref(full_name, target, who, reason)
    }

    fn require_free_directories(&self, full_name: &str) -> Result<()> {
        let directories = full_name
            .match_indices('/')
            // `refs` and `heads` are directories in any case.
            .skip(2)
            .map(|(end, _)| &full_name[..end]);
        for directory in directories {
            if self.tip(directory)? != Tip::Absent {
                return Err(taken(format!(
                    "{full_name} cannot be made while {directory} is a branch"
                )));
            }
        }
        Ok(())
    }
}

fn taken(message: String) -> Error {
    Error::new(Code::BranchExists, message).hint("to choose another name, pass --branch <name>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branch_names_are_those_that_every_system_takes() {
        for good in ["agent/x", "a", "refs/heads/a/b.c", "A_1-2"] {
            assert!(full_name(good).is_ok(), "{good}");
        }
        let long = "x".repeat(250);
        for bad in ["", "-x", ".x", "/x", "a..b", "a b", "a~1", "x.lock", "a//b", "a/", "ä", &long]
        {
            assert!(full_name(bad).is_err(), "{bad}");
        }
    }

    /// A file that cannot be flushed tells whether the kernel was asked to.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_ref_is_flushed_where_the_user_wants_that_and_nowhere_else() {
        use rustix::fs::{CWD, Mode, OFlags, openat};
        let top = tempfile::tempdir().expect("a directory");
        git2::Repository::init(top.path()).expect("a repository");
        let unflushable = openat(CWD, top.path(), OFlags::PATH, Mode::empty()).expect("opened");
        let unflushable = std::fs::File::from(unflushable);
        let config = top.path().join(".git/config");
        let basis = std::fs::read_to_string(&config).expect("read");
        for (setting, is_flushed) in [
            ("", false),
            ("fsync = none", false),
            ("fsync = pack", false),
            ("fsync = reference", true),
            ("fsync = committed\n\tfsyncMethod = batch", true),
        ] {
            std::fs::write(&config, format!("{basis}[core]\n\t{setting}\n")).expect("written");
            let repo = Repo::open(top.path()).expect("a repository");
            assert_eq!(repo.flush(&unflushable).is_err(), is_flushed, "{setting}");
        }
    }

    #[test]
    fn what_is_flushed_is_read_as_git_reads_it() {
        for (components, flushed) in [
            ("", false),
            ("default", false),
            ("pack,commit-graph", false),
            ("reference", true),
            ("committed", true),
            ("all,-reference", true),
            ("all, -reference, -loose-object", false),
            ("all,none", false),
            ("none,loose-object", true),
        ] {
            assert_eq!(is_flushed(components), flushed, "{components}");
        }
    }
}
