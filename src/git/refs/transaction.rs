//! The repository's own hook `reference-transaction`, which is asked before a branch moves and hears what became of it.
//!
//! Git runs the hook for each of its own transactions (githooks(5)). The refs are written by this program here, so it runs the hook
//! in the same way: by `git hook run`, which knows `core.hooksPath` and hooks in the configuration, in the main worktree. Its
//! standard input has a line `<old> <new> <ref>` for each branch, and one for `HEAD` where that is on the branch. Branches below
//! `agent/` are this program's own.

use super::{Tip, lost_to, patiently};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::lock_file::LockFile;
use crate::git::files::untrusted;
use std::collections::HashSet;
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
        // The hook hears of HEAD as from git, which updates both in one transaction.
        let head = untrusted::text(self.common_dir(), "HEAD").unwrap_or_default();
        let mut input = String::new();
        for RefMove { refname, old, new } in moves {
            input += &format!("{old} {new} {refname}\n");
            if head.trim_end().strip_prefix("ref: ") == Some(refname) {
                input += &format!("{old} {new} HEAD\n");
            }
        }
        let transaction = RefTransaction {
            asked: Some((self, place, input)),
        };
        // Dropped, it says `aborted`, as git does after a refusal.
        if let Some(complaint) = transaction.run("prepared")? {
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
            let transaction = self.prepare_refs(&[RefMove {
                refname,
                old: expected,
                new: Oid::ZERO,
            }])?;
            Ok(Some((lock, transaction)))
        };
        // All refs are locked and allowed before the first is touched.
        let locks: Vec<Result<Option<Locked<'_>>>> = refs.iter().map(lock).collect();
        let locked = { refs.iter().zip(&locks) }.filter(|(_, lock)| matches!(lock, Ok(Some(_))));
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
