//! Linked worktrees: an admin directory published in one step, and their list.
//!
//! The admin directory is written by us and not by `git_worktree_add`, because that one writes an
//! absolute `commondir` (the main repository breaks when it moves), makes the directory file by file
//! in its final place (simultaneous adds read each other's half-made files: 1.6 to 12 % fail) and
//! leaves debris behind on failure. The files are those of gitrepository-layout(5): `HEAD`,
//! `commondir`, `gitdir`, `ORIG_HEAD`, `logs/HEAD`, `locked`, `refs/`.
//!
//! Order: worktree directory, its `.git` file, admin files in a temporary directory, one rename that
//! never replaces. `locked` is there from the first moment and says `initializing`, so no `git worktree
//! prune` takes the directory away while it is being filled.
//!
//! What a kill leaves: an empty directory, or one with a `.git` file that points nowhere, or a
//! temporary directory under `agents/tmp`, or a complete admin directory locked as `initializing`.

pub mod own_repository;
pub mod populate;
pub mod view;

pub use crate::git::files::admin_dir::Worktree;

use super::Repo;
use super::files::admin_dir::{
    TAKEN_BY, clone_name, read_admin_dir, retry_if_pruned, taken_branch,
};
use super::files::separate::FileStamp;
use super::files::untrusted;
use super::objects::Identity;
use super::refs::Tip;
use crate::domain::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::system;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};
use view::WorktreeView;

/// A linked worktree that is to be made.
#[derive(Clone, Debug)]
pub struct NewWorktree<'a> {
    /// The name of its admin directory: no `/`, unique in the repository.
    pub name: &'a str,
    /// Where it will be, absolute.
    pub path: &'a Path,
    /// The full name of its branch; `None` for a detached HEAD.
    pub branch: Option<&'a str>,
    /// The commit that HEAD is at.
    pub commit: Oid,
    /// A directory on the same file system as the common dir, for the half-made admin directory.
    pub scratch: &'a Path,
    /// What `locked` says until [`set_lock`] says otherwise.
    pub lock_reason: &'a str,
    /// Who the reflog names.
    pub identity: &'a Identity,
}

impl Repo {
    /// The admin directory of a linked worktree.
    pub fn admin_dir(&self, name: &str) -> PathBuf {
        // An agent's own clone is opened through its own git dir, which is at once its admin
        // directory.
        if self.own_name().as_deref() == Some(name) {
            return self.common_dir().to_owned();
        }
        self.common_dir().join("worktrees").join(name)
    }

    /// Makes the directory and its admin directory; no file of the commit is written yet.
    ///
    /// The directory may exist if it is empty. Parents are made.
    ///
    /// # Errors
    /// `path-exists` when something is in the way, `lost-race` when the admin name was taken in the
    /// meantime, `io`, `disk-full`.
    pub fn add_worktree(&self, new: &NewWorktree<'_>) -> Result<()> {
        make_directory(new.path)?;
        let (pointer, _) = self.link_texts(new.path, &self.admin_dir(new.name))?;
        fs::write(new.path.join(".git"), pointer).at("could not write", new.path.join(".git"))?;
        self.add_admin_dir(new, |_| Ok(()))
    }

    /// Lets a worktree's `.git` file name an admin directory, in one step.
    ///
    /// # Errors
    /// `path-invalid`, `io`, `disk-full`.
    pub fn point_worktree(&self, worktree: &Path, admin: &Path) -> Result<()> {
        let (pointer, _) = self.link_texts(worktree, admin)?;
        let (file, next) = (worktree.join(".git"), admin.join("pointer.new"));
        fs::write(&next, pointer).at("could not write", &next)?;
        // On another file system than the admin directory's it is written in place.
        fs::rename(&next, &file)
            .or_else(|_| fs::copy(&next, &file).and_then(|_| fs::remove_file(&next)))
            .at("could not write", &file)
    }

    /// Lets an admin directory name a worktree, in one step.
    ///
    /// # Errors
    /// `path-invalid`, `io`, `disk-full`.
    pub fn point_admin_dir(&self, admin: &Path, worktree: &Path) -> Result<()> {
        let (_, pointer) = self.link_texts(worktree, admin)?;
        let (file, next) = (admin.join("gitdir"), admin.join("gitdir.new"));
        fs::write(&next, pointer).at("could not write", &next)?;
        fs::rename(&next, &file).at("could not write", &file)
    }

    /// Makes the admin directory of a worktree whose directory and `.git` file are there. `fill` adds to it
    /// before it can be seen.
    ///
    /// # Errors
    /// As [`Repo::add_worktree`], and what `fill` fails with.
    pub fn add_admin_dir(
        &self,
        new: &NewWorktree<'_>,
        fill: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let admin = self.admin_dir(new.name);
        let (_, back_pointer) = self.link_texts(new.path, &admin)?;
        let half_made = new.scratch.join(new.name);
        // A killed call has left this, with the index lock of the git that it had started. Callers let one process at a time make a
        // worktree, so it goes under another name; that git may still be writing there, so not all of it may be gone at once.
        let left = new.scratch.join(format!("{}.{}", new.name, std::process::id()));
        if fs::rename(&half_made, &left).is_ok() {
            let _ = fs::remove_dir_all(&left);
        }
        fs::create_dir_all(half_made.join("logs")).at("could not make", &half_made)?;
        fs::create_dir_all(half_made.join("refs")).at("could not make", &half_made)?;
        let oid = new.commit;
        let head = match new.branch {
            Some(branch) => format!("ref: {branch}\n"),
            None => format!("{oid}\n"),
        };
        let log = format!("{} {oid} {}\t\n", Oid::ZERO, new.identity.stamp());
        for (file, content) in [
            ("HEAD", head),
            ("ORIG_HEAD", format!("{oid}\n")),
            ("commondir", "../..\n".to_owned()),
            ("gitdir", back_pointer),
            ("locked", format!("{}\n", new.lock_reason)),
            ("logs/HEAD", log),
        ] {
            fs::write(half_made.join(file), content).at("could not write", half_made.join(file))?;
        }
        fill(&half_made)?;
        rename_without_replacing(&half_made, &admin)
    }

    /// Lets libgit2 open and validate a worktree that [`Repo::add_worktree`] made.
    ///
    /// # Errors
    /// `bug` when libgit2 does not see what we wrote.
    pub fn validate_worktree(&self, name: &str) -> Result<()> {
        self.inner.find_worktree(name).and_then(|worktree| worktree.validate()).map_err(|error| {
            Error::bug(format!("libgit2 does not accept worktree {name}")).because(error)
        })
    }

    /// All linked worktrees, by admin name. Half-made or foreign entries without `gitdir` are left out,
    /// as git does.
    ///
    /// # Errors
    /// `io` when the directory cannot be listed.
    pub fn worktrees(&self) -> Result<Vec<Worktree>> {
        let directory = self.common_dir().join("worktrees");
        let entries = fs::read_dir(&directory).at_if_there("could not list", &directory)?;
        let mut worktrees: Vec<_> = entries
            .into_iter()
            .flatten()
            .filter_map(|entry| read_admin_dir(&entry.ok()?.path()))
            .collect();
        worktrees.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(worktrees)
    }

    /// The linked worktree whose admin directory has this name; the place it names need not be there.
    pub fn worktree(&self, name: &str) -> Option<Worktree> {
        if self.own_name().as_deref() == Some(name) {
            return Some(Worktree {
                name: name.to_owned(),
                path: self.workdir()?.components().collect(),
                lock_reason: None,
            });
        }
        read_admin_dir(&self.admin_dir(name))
    }

    /// The commit that a worktree's `HEAD` is at; `None` where it names none.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn commit_at(&self, admin_dir: &Path) -> Result<Option<Oid>> {
        // An agent can write its HEAD, so it is read as data.
        let head = untrusted::text(admin_dir, "HEAD").unwrap_or_default();
        let head = head.trim_end();
        match head.strip_prefix("ref: ") {
            Some(name) => Ok(self.branch_tip(name)?.oid()),
            None => Ok(Oid::from_hex(head)),
        }
    }

    /// The worktree that `path` is in, among the linked ones: the name of its admin directory.
    pub fn current_worktree_name(&self) -> Option<String> {
        if !self.inner.is_worktree() {
            return self.own_name();
        }
        self.git_dir().file_name()?.to_str().map(str::to_owned)
    }

    /// What the only worktree of a repository of its own is called in the one that it was made from.
    fn own_name(&self) -> Option<String> {
        if self.inner.is_worktree() {
            return None;
        }
        clone_name(self.common_dir())
    }

    /// The `.git` file's text and the admin directory's `gitdir` text.
    ///
    /// Relative only where the repository has both the wish and the extension: writing relative paths
    /// without it would make us switch it on, and older versions of git then refuse the repository.
    fn link_texts(&self, worktree: &Path, admin: &Path) -> Result<(String, String)> {
        let relative = self.config_bool("worktree.useRelativePaths")? == Some(true)
            && self.config_bool("extensions.relativeWorktrees")? == Some(true);
        let (to_admin, to_worktree) = if relative {
            (path_from(worktree, admin), path_from(admin, worktree))
        } else {
            (admin.to_owned(), worktree.to_owned())
        };
        Ok((
            format!("gitdir: {}\n", path_text(&to_admin)?),
            format!("{}\n", path_text(&to_worktree.join(".git"))?),
        ))
    }
}

/// Says in the worktree's admin directory why it must not be pruned, moved or removed.
///
/// # Errors
/// `io`, `disk-full`.
pub fn set_lock(admin_dir: &Path, reason: &str) -> Result<()> {
    // By a rename: an empty `locked` that a kill leaves would say nothing of whose lock it is.
    let temporary = admin_dir.join("locked.new");
    fs::write(&temporary, format!("{reason}\n")).at("could not write", &temporary)?;
    fs::rename(&temporary, admin_dir.join("locked")).at("could not lock", admin_dir)
}

fn rename_without_replacing(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let renamed = retry_if_pruned(|| {
        // Git removes `worktrees` with its last entry, so it may have vanished since the last look.
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Some file systems do not know the flag. A directory never replaces one that has
            // entries, and an admin directory always has.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
            other => other.map_err(std::io::Error::from),
        }
    });
    renamed.map_err(|error| match error.kind() {
        // Which of the two a system reports depends on whether it knew the flag.
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::DirectoryNotEmpty => {
            Error::new(Code::LostRace, format!("a worktree named {} exists already", to.display()))
        }
        _ => Error::io(format!("could not publish {}", to.display()), error),
    })
}

/// The way from one absolute directory to another.
fn path_from(from: &Path, to: &Path) -> PathBuf {
    let shared = from.components().zip(to.components()).take_while(|(one, two)| one == two).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

// The linked worktrees, kept between repeated looks: a file that is still the one that was
// read is not read again.

/// Every linked worktree with the branch that is taken there.
#[derive(Debug, Default)]
pub struct WorktreeCache(BTreeMap<String, WorktreeRow>);

#[derive(Debug)]
struct WorktreeRow {
    /// Of the files that it is read from.
    stamps: Vec<Option<FileStamp>>,
    /// `None` for a half-made or foreign entry.
    worktree: Option<Worktree>,
    /// What the worktree calls its branch, and the branch's own name, which may have changed since.
    taken: Option<(String, String)>,
}

impl WorktreeCache {
    /// Brings it up to date; what it says is as true as if all of it had been read now.
    ///
    /// # Errors
    /// `io` when the directory of admin directories cannot be listed.
    pub fn refresh(&mut self, repo: &Repo) -> Result<()> {
        let directory = repo.common_dir().join("worktrees");
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.0.clear();
                return Ok(());
            }
            other => other.at("could not list", &directory)?,
        };
        let mut known = std::mem::take(&mut self.0);
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let admin = entry.path();
            // Taken before anything is read: a change in between shows the next time.
            let read = ["gitdir", "locked"].into_iter().chain(TAKEN_BY);
            let stamps: Vec<_> = read.map(|file| FileStamp::of(&admin.join(file))).collect();
            let row = known.remove(&name).filter(|row| {
                let mut files = row.stamps.iter().zip(&stamps);
                files.all(|(before, now)| FileStamp::is_unchanged(before.as_ref(), now.as_ref()))
            });
            let mut row = row.unwrap_or_else(|| WorktreeRow {
                stamps,
                worktree: read_admin_dir(&admin),
                taken: taken_branch(&admin).map(|name| (name, String::new())),
            });
            if let Some((name, branch)) = &mut row.taken {
                *branch = repo.branch_behind(name);
            }
            // Whatever stays in `known` is gone from the disk, and dropped with it.
            self.0.insert(name, row);
        }
        Ok(())
    }

    /// The worktrees, by admin name.
    pub fn worktrees(&self) -> impl Iterator<Item = &Worktree> {
        self.0.values().filter_map(|row| row.worktree.as_ref())
    }

    /// The worktrees that keep git from deleting a branch.
    pub fn of_branch(&self, branch: &str) -> impl Iterator<Item = &Worktree> {
        let is_taken =
            move |row: &&WorktreeRow| row.taken.as_ref().is_some_and(|(_, taken)| taken == branch);
        self.0.values().filter(is_taken).filter_map(|row| row.worktree.as_ref())
    }
}

// Where a linked worktree can be.

/// What to do about a place that will not do.
const ELSEWHERE: &str = "to choose another place, pass --path <directory>";

impl Repo {
    /// Checks that a linked worktree can be made at an absolute path, so far as that can be known before it is
    /// tried.
    ///
    /// # Errors
    /// `path-exists` when something other than an empty directory is there; `path-invalid` for a path, of the
    /// worktree or of the repository, that git's files cannot hold.
    pub fn require_place(&self, path: &Path) -> Result<()> {
        path_text(path).map_err(|error| error.hint(ELSEWHERE))?;
        path_text(self.common_dir())?;
        match fs::symlink_metadata(path) {
            Ok(_) if !is_empty_directory(path) => Err(taken(path)),
            _ => Ok(()),
        }
    }
}

fn make_directory(path: &Path) -> Result<()> {
    let made = retry_if_pruned(|| {
        if let Some(parent) = path.parent().filter(|parent| !parent.exists()) {
            fs::create_dir_all(parent)?;
            // Else a worktree would get the inodes of one that was removed just before, and ext4 steps over each of those for minutes: with
            // 100,000 files that is most of what a checkout takes.
            system::spread_directories(parent);
        }
        // Not `create_dir_all`, which cannot tell a directory that it made from one that was there.
        fs::create_dir(path)
    });
    match made {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            if is_empty_directory(path) { Ok(()) } else { Err(taken(path)) }
        }
        other => other.at("could not make", path),
    }
}

fn is_empty_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

fn taken(path: &Path) -> Error {
    let what = format!("{} exists already", path.display());
    Error::new(Code::PathExists, what).hint(ELSEWHERE)
}

/// A path as git's plain text files hold it, which cannot express a line end.
fn path_text(path: &Path) -> Result<&str> {
    path.to_str().filter(|text| !text.contains('\n')).ok_or_else(|| {
        let shown = path.display().to_string();
        Error::new(
            Code::PathInvalid,
            format!(
                "`{}` is not UTF-8 or has a line end in it, which git's files cannot hold",
                shown.escape_debug()
            ),
        )
    })
}

// A stand-in for the shared repository in which one branch is a copy: the `git commit` that the orchestrator starts
// moves the copy.
//
// ```text
// <view>/agent-…/commondir ──> <view>/shared
// <view>/shared/refs/heads/…/<branch>    the copy, and in the directories above it links to all other refs
// <view>/shared/config                   includes the repository's
// <view>/shared/…                        links to everything else
// ```
//
// Git would leave the lock file of a shared branch behind when it is killed, and nothing would tell that from the lock
// of another process. So git and its hooks work here, and the branch itself is moved by this process, whose lock files
// can be told (`crate::git::files::lock_file`).

/// The longest file of a ref, in bytes.
const LONGEST_REF: u64 = 4096;

/// What git or this program writes in the stand-in, each in a way of its own.
const OF_GIT: [&str; 6] = ["HEAD", "config", "refs", "logs", "packed-refs", "shallow"];

/// The stand-in, through which a view looks as long as this lives.
pub(in crate::git) struct BranchCopy<'r> {
    repo: &'r Repo,
    view: &'r WorktreeView,
    directory: PathBuf,
    branch: String,
    old: Oid,
}

impl<'r> BranchCopy<'r> {
    /// Makes it for the branch that is checked out, and leads the view to it.
    ///
    /// # Errors
    /// `io`, `disk-full`; `git-failed` where there is no such branch.
    pub(in crate::git) fn make(
        repo: &'r Repo,
        view: &'r WorktreeView,
        branch: &str,
    ) -> Result<BranchCopy<'r>> {
        let Tip::At(old) = repo.tip(branch)? else {
            let what = format!("{branch} names no commit");
            return Err(Error::new(Code::GitFailed, what));
        };
        let own = BranchCopy {
            repo,
            view,
            directory: view.room().join("shared"),
            branch: branch.to_owned(),
            old,
        };
        let common = repo.common_dir();
        // 1. Everything but what is made here is a link.
        own.make_directory(Path::new(""))?;
        for name in untrusted::names(common) {
            let mut is_made = ["refs", "logs", "HEAD", "config"].iter();
            if !is_made.any(|made| *made == name) {
                own.link(Path::new(&name))?;
            }
        }
        // Git takes a directory for a repository only if it has a HEAD; which branch it names is of
        // no account in a worktree.
        own.write("HEAD", b"ref: refs/heads/main\n")?;
        own.write("config", repo.including_config(&[])?.as_bytes())?;
        // 2. The branch, and the refs and logs around it.
        own.link_around(Path::new(branch))?;
        // Around the log of the branch, but not that itself: git would write an entry into it that
        // is written again when the branch itself moves.
        own.link_around(&Path::new("logs").join(branch))?;
        own.write(branch, format!("{old}\n").as_bytes())?;
        view.lead_to(&own.directory)?;
        Ok(own)
    }

    /// Moves the branch to where git has left the copy, and other refs that hooks have moved. `message` is for the
    /// reflog.
    ///
    /// # Errors
    /// `lost-race` when the branch has moved meanwhile; `lock-timeout`.
    pub(in crate::git) fn publish(&self, new: Oid, who: &Identity, message: &str) -> Result<()> {
        // Links are not among the files, so this finds only what git or a hook has written here.
        for file in untrusted::files(&self.directory.join("refs")) {
            let file = Path::new("refs").join(file);
            let text = untrusted::read(&self.directory, &file, LONGEST_REF);
            let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
            let (Some(name), Some(oid)) = (file.to_str(), Oid::from_hex(text.trim())) else {
                continue;
            };
            if name != self.branch && !name.ends_with(".lock") {
                // What the ref was when the hook wrote is not known, so the newest state is the one
                // that is replaced.
                let now = self.repo.tip(name)?;
                self.repo.swap_ref_in_time(name, now, oid, who, "git-agent: by a hook")?;
            }
        }
        let (branch, old) = (&self.branch, Tip::At(self.old));
        if self.repo.swap_ref_in_time(branch, old, new, who, message)? {
            return Ok(());
        }
        Err(moved_meanwhile(branch, new))
    }

    /// Takes over the files that hooks have written to the stand-in, such as marks and logs, as they would have been written to the
    /// shared repository.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(in crate::git) fn keep_files(&self) -> Result<()> {
        let common = self.repo.common_dir();
        // Links are not among the files: what is written through one is in its place.
        for file in untrusted::files(&self.directory) {
            let is_of_git = OF_GIT.iter().any(|name| file.starts_with(name));
            if is_of_git || file.extension().is_some_and(|end| end == "lock") {
                continue;
            }
            let path = self.directory.join(&file);
            let content = fs::read(&path).at("could not read", &path)?;
            own_repository::create(common, &file, &content)
                .at("could not write", common.join(&file))?;
        }
        Ok(())
    }

    /// Makes the directories above a path; whatever else the repository has in them is a link.
    fn link_around(&self, path: &Path) -> Result<()> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        let mut child = path;
        let mut made = Vec::new();
        for directory in above.iter().filter(|path| !path.as_os_str().is_empty()) {
            made.push((*directory, child));
            child = directory;
        }
        for (directory, child) in made.into_iter().rev() {
            self.make_directory(directory)?;
            for name in untrusted::names(&self.repo.common_dir().join(directory)) {
                let is_lock = Path::new(&name).extension().is_some_and(|end| end == "lock");
                if !is_lock && directory.join(&name) != child {
                    self.link(&directory.join(name))?;
                }
            }
        }
        Ok(())
    }

    fn make_directory(&self, path: &Path) -> Result<()> {
        let path = self.directory.join(path);
        fs::create_dir_all(&path).at("could not make", &path)
    }

    fn link(&self, path: &Path) -> Result<()> {
        let own = self.directory.join(path);
        symlink(self.repo.common_dir().join(path), &own).at("could not link", &own)
    }

    fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.directory.join(name);
        fs::write(&path, content).at("could not write", &path)
    }
}

impl Drop for BranchCopy<'_> {
    fn drop(&mut self) {
        // One that leads nowhere any more serves no other git either.
        let _ = self.view.lead_to(self.repo.common_dir());
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The error for a branch that another process has moved.
pub(in crate::git) fn moved_meanwhile(branch: &str, commit: Oid) -> Error {
    Error::new(
        Code::LostRace,
        format!("{branch} moved while {commit} was committed, which is not on it"),
    )
    .hint("to commit what is staged now, run the same command again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::files::admin_dir::lexically_clean;

    #[test]
    fn relative_links_lead_back() {
        let (one, two) = (Path::new("/a/b/c"), Path::new("/a/x/y/z"));
        assert_eq!(path_from(one, two), Path::new("../../x/y/z"));
        assert_eq!(lexically_clean(&one.join(path_from(one, two))), two);
    }
}
