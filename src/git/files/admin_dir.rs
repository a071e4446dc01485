//! What a worktree and its admin directory say of each other, read as data (gitrepository-layout(5): `gitdir`, `locked`).

use super::untrusted;
use crate::domain::value::shell;
use crate::error::{Code, Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

/// A linked worktree that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Worktree {
    /// The name of its admin directory.
    pub name: String,
    /// Where it is, absolute; it need not exist any more.
    pub path: PathBuf,
    /// What its `locked` file says; `None` when it is not locked.
    pub lock_reason: Option<String>,
}

/// The directory of an admin directory in which git keeps the repositories of the worktree's submodules.
pub const MODULES: &str = "modules";

/// What the names of the shared parts of split indexes begin with; the hash of what they hold follows (gitformat-index(5)).
pub const SHARED_INDEX: &str = "sharedindex.";

/// The name of a repository that stands in for the shared one while an untrusted command works in a worktree. It lies
/// two directories below the common dir and has an admin directory of the same name.
pub const STAND_IN: &str = "run-repo";

/// The common dir of the repository that one stands in for, by its own; `None` for one that stands in for none.
pub fn stood_in_for(common: &Path) -> Option<&Path> {
    common.ancestors().nth(3).filter(|_| common.ends_with(STAND_IN))
}

/// Where the repository notes, below the common dir, which worktrees have a repository of their own: one file for each,
/// called as its admin directory.
pub const CLONES: &str = "agents/clones";

/// What names the admin directory in a worktree whose `.git` is a repository of its own.
pub const CLONE_POINTER: &str = ".git/agents/worktree";

/// What the worktree whose own repository this is was called in the repository that it was made from; `None` for any
/// other git dir.
pub fn clone_name(git_dir: &Path) -> Option<String> {
    let pointer = untrusted::text(git_dir, CLONE_POINTER.strip_prefix(".git/")?)?;
    let admin = Path::new(pointer.strip_prefix("gitdir: ")?.trim_end());
    let is_listed = admin.parent()?.file_name()? == "worktrees";
    is_listed.then(|| admin.file_name()?.to_str().map(str::to_owned))?
}

/// The admin directory, in the repository that it was made from, of the worktree that a directory is in and that has a
/// repository of its own. `None` where that is not at hand, or does not know of it.
pub fn admin_dir_of_clone(directory: &Path) -> Option<PathBuf> {
    let is_top = |top: &&Path| fs::symlink_metadata(top.join(".git")).is_ok();
    let top = directory.ancestors().find(is_top)?;
    let pointer = untrusted::text(top, CLONE_POINTER)?;
    let admin = PathBuf::from(pointer.strip_prefix("gitdir: ")?.trim_end());
    let known = read_admin_dir(&admin).is_some_and(|known| known.path == top);
    (known && has_own_repository(&admin)).then_some(admin)
}

/// Whether the worktree of this admin directory was given a repository of its own.
pub fn has_own_repository(admin_dir: &Path) -> bool {
    let record = || {
        let (common, name) = (admin_dir.parent()?.parent()?, admin_dir.file_name()?);
        Some(common.join(CLONES).join(name))
    };
    record().is_some_and(|record| record.is_file())
}

/// Whether the directory's `.git` names this admin directory, or that of the repository that stands in for
/// the shared one: the proof that it is ours. `.git` is a file, or the repository that the worktree has of its own.
pub fn belongs_to(worktree: &Path, admin_dir: &Path) -> bool {
    if clone_name(admin_dir).is_some() {
        return worktree.join(".git") == admin_dir;
    }
    let Some(named) = named_by(worktree, admin_dir) else {
        return false;
    };
    let stands_in = || {
        let (common, name) = (admin_dir.parent()?.parent()?, admin_dir.file_name()?);
        let inside = named.strip_prefix(common).ok()?;
        let mut parts = inside.components().skip(2).map(|part| part.as_os_str());
        let expected = [STAND_IN.as_ref(), "worktrees".as_ref(), name];
        Some(expected.iter().all(|part| parts.next() == Some(part)) && parts.next().is_none())
    };
    named == admin_dir || stands_in() == Some(true)
}

/// Whether the directory's `.git` names this very admin directory.
pub fn leads_to(worktree: &Path, admin_dir: &Path) -> bool {
    named_by(worktree, admin_dir).is_some_and(|named| named == admin_dir)
}

/// The admin directory that a worktree's `.git` names. A directory counts only where this one was given a repository.
pub fn named_by(worktree: &Path, admin_dir: &Path) -> Option<PathBuf> {
    let own = || has_own_repository(admin_dir).then(|| untrusted::text(worktree, CLONE_POINTER))?;
    let text = untrusted::text(worktree, ".git").or_else(own)?;
    let pointer = text.strip_prefix("gitdir: ")?;
    // The target may not exist, as of a worktree that was moved; asking the file system would fail
    // then, and follow links that an agent made.
    Some(lexically_clean(&worktree.join(pointer.trim_end())))
}

pub(in crate::git) fn read_admin_dir(admin: &Path) -> Option<Worktree> {
    let gitdir = untrusted::text(admin, "gitdir")?;
    let path = lexically_clean(&admin.join(gitdir.trim_end()));
    Some(Worktree {
        name: admin.file_name()?.to_str()?.to_owned(),
        path: path.parent()?.to_owned(),
        lock_reason: untrusted::text(admin, "locked").map(|reason| reason.trim_end().to_owned()),
    })
}

/// As [`untrusted::require_openable`], for the git dir of the worktree that a directory is in, if any.
///
/// # Errors
/// As [`untrusted::require_openable`].
pub fn require_openable_above(directory: &Path) -> Result<()> {
    top_above(directory).map_or(Ok(()), |top| untrusted::require_openable(&git_dir_of(&top)))
}

/// Checks that the worktree which a directory is in leads to the repository around it, if that has linked it: an agent can
/// put a repository of its own in the place of its worktree's `.git`, and its hooks and settings would be obeyed.
///
/// # Errors
/// `repo-corrupt`, naming the worktree.
pub fn require_linked_as_known(directory: &Path) -> Result<()> {
    let Some(top) = top_above(directory) else {
        return Ok(());
    };
    let mut around = top.ancestors().skip(1).map(|above| above.join(".git"));
    let Some(around) = around.find(|git_dir| git_dir.is_dir()) else {
        return Ok(());
    };
    if fs::canonicalize(git_dir_of(&top)).is_ok_and(|git_dir| git_dir.starts_with(&around)) {
        return Ok(());
    }
    let leads_here = |admin: &Path| {
        // A clone leads nowhere else, as long as it says whose it is.
        if has_own_repository(admin) && leads_to(&top, admin) {
            return false;
        }
        let pointer = untrusted::text(admin, "gitdir").map(|text| admin.join(text.trim_end()));
        let linked = pointer.and_then(|pointer| fs::canonicalize(pointer.parent()?).ok());
        linked.is_some_and(|linked| linked == top)
    };
    // A directory that this repository never linked is a project of its own that happens to lie
    // inside of it.
    let admins = around.join("worktrees");
    let is_linked = untrusted::names(&admins).iter().any(|name| leads_here(&admins.join(name)));
    if !is_linked {
        return Ok(());
    }
    let shown = top.display();
    let what = format!("the .git of the worktree {shown} does not lead to its repository");
    let outside = shell::path(around.parent().unwrap_or(&around));
    let word = shell::path(&top);
    Err(Error::new(Code::RepoCorrupt, what).hint(format!(
        "to see what is there, run ls -l {word}/.git; to lead it back, move that away and run git -C {outside} worktree repair {word}"
    )))
}

/// The worktree that a directory is in, or what looks like one.
fn top_above(directory: &Path) -> Option<PathBuf> {
    let directory = fs::canonicalize(directory).ok()?;
    let is_top = |top: &&Path| fs::symlink_metadata(top.join(".git")).is_ok();
    directory.ancestors().find(is_top).map(Path::to_owned)
}

/// Where the `.git` of a worktree leads.
fn git_dir_of(top: &Path) -> PathBuf {
    let pointer = untrusted::text(top, ".git");
    let git_dir = pointer.as_deref().and_then(|text| text.strip_prefix("gitdir: "));
    top.join(git_dir.map_or(".git", str::trim_end))
}

/// The git dir of the worktree that a directory is in, whether or not it can be opened.
pub(in crate::git) fn git_dir_above(directory: &Path) -> Option<PathBuf> {
    let git_dir = git_dir_of(&top_above(directory)?);
    git_dir.join("HEAD").exists().then_some(git_dir)
}

/// Takes `.` and `..` out of an absolute path without asking the file system.
pub(in crate::git) fn lexically_clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            other => clean.push(other),
        }
    }
    clean
}

// Directories that are swept away while they are still empty.
//
// `git gc`, `git pack-refs`, `git branch -d` and `git worktree prune` remove directories that have become
// empty. A program that makes one and then puts a file into it, as libgit2 does, may find it gone in between.
// git itself tries again then.

/// A sweep passes a directory once in milliseconds; the way from making one to filling it is of
/// microseconds. A process that does nothing else won 200 times in a row. More misses than this, which
/// take a few hundredths of a second, have another reason.
const ATTEMPTS: usize = 2_000;

/// An error that may come of a directory that is gone.
pub(in crate::git) trait IsNotFound {
    /// Whether something on the way was not there.
    fn is_not_found(&self) -> bool;
}

impl IsNotFound for std::io::Error {
    fn is_not_found(&self) -> bool {
        self.kind() == ErrorKind::NotFound
    }
}

impl IsNotFound for git2::Error {
    fn is_not_found(&self) -> bool {
        // libgit2 gives the system's words and no number, and where it could not open a new reflog, nothing.
        let text = self.message();
        match self.class() {
            git2::ErrorClass::Os => text.ends_with("No such file or directory"),
            git2::ErrorClass::None => true,
            _ => false,
        }
    }
}

/// Makes a directory and something in it, again when the directory was swept away in between. `make`
/// leaves nothing behind when it fails.
///
/// # Errors
/// The last that `make` gave.
pub(in crate::git) fn retry_if_pruned<T, E: IsNotFound>(
    mut make: impl FnMut() -> std::result::Result<T, E>,
) -> std::result::Result<T, E> {
    for _ in 1..ATTEMPTS {
        match make() {
            Err(error) if error.is_not_found() => {}
            other => return other,
        }
    }
    make()
}

/// The full name of the branch that is being rebased in the worktree with this git directory.
pub(in crate::git) fn rebased(git_dir: &Path) -> Option<String> {
    // The two back ends of `git rebase` keep the name in different places.
    let names = ["rebase-merge/head-name", "rebase-apply/head-name"];
    let name = names.iter().find_map(|name| untrusted::text(git_dir, name))?;
    Some(name.trim_end().to_owned())
}

/// The files of a git directory that [`taken_branch`] reads.
pub(in crate::git) const TAKEN_BY: [&str; 4] =
    ["HEAD", "rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"];

/// The name that a worktree has for the branch that it is on, or that it comes back to when a rebase or a bisection ends: git deletes no
/// such branch.
pub(in crate::git) fn taken_branch(git_dir: &Path) -> Option<String> {
    let head = untrusted::text(git_dir, "HEAD").unwrap_or_default();
    let name = head.trim_end().strip_prefix("ref: ").map(str::to_owned);
    name.or_else(|| rebased(git_dir)).or_else(|| {
        let start = untrusted::text(git_dir, "BISECT_START")?;
        Some(format!("refs/heads/{}", start.trim_end()))
    })
}
