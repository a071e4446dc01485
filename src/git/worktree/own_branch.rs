//! A stand-in for the shared repository in which one branch is a copy: the `git commit` that the orchestrator starts
//! moves the copy.
//!
//! ```text
//! <view>/agent-…/commondir ──> <view>/shared
//! <view>/shared/refs/heads/…/<branch>    the copy, and in the directories above it links to all other refs
//! <view>/shared/config                   includes the repository's
//! <view>/shared/…                        links to everything else
//! ```
//!
//! Git would leave the lock file of a shared branch behind when it is killed, and nothing would tell that from the lock
//! of another process. So git and its hooks work here, and the branch itself is moved by this process, whose lock files
//! can be told ([`crate::git::files::lock_file`]).

use super::view::WorktreeView;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::untrusted;
use crate::git::objects::Identity;
use crate::git::refs::Tip;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The longest file of a ref, in bytes.
const LONGEST_REF: u64 = 4096;

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
            return Err(Error::new(
                Code::GitFailed,
                format!("{branch} names no commit"),
            ));
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
            let is_made = ["refs", "logs", "HEAD", "config"].iter();
            if !{ is_made }.any(|made| *made == name) {
                own.link(Path::new(&name))?;
            }
        }
        own.write("HEAD", b"ref: refs/heads/main\n")?;
        own.write("config", repo.including_config(&[])?.as_bytes())?;
        // 2. The branch, and the refs and logs around it.
        own.link_around(Path::new(branch))?;
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
        for file in untrusted::files(&self.directory.join("refs")) {
            let file = Path::new("refs").join(file);
            let text = untrusted::read(&self.directory, &file, LONGEST_REF);
            let text = String::from_utf8(text.unwrap_or_default()).unwrap_or_default();
            let (Some(name), Some(oid)) = (file.to_str(), Oid::from_hex(text.trim())) else {
                continue;
            };
            if name != self.branch && !name.ends_with(".lock") {
                let now = self.repo.tip(name)?;
                self.repo
                    .swap_ref_in_time(name, now, oid, who, "git-agent: by a hook")?;
            }
        }
        let (branch, old) = (&self.branch, Tip::At(self.old));
        if self.repo.swap_ref_in_time(branch, old, new, who, message)? {
            return Ok(());
        }
        Err(moved_meanwhile(branch, new))
    }

    /// Makes the directories above a path; whatever else the repository has in them is a link.
    fn link_around(&self, path: &Path) -> Result<()> {
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        let mut child = path;
        let mut made = Vec::new();
        for directory in { above.iter() }.filter(|path| !path.as_os_str().is_empty()) {
            made.push((*directory, child));
            child = directory;
        }
        for (directory, child) in made.into_iter().rev() {
            self.make_directory(directory)?;
            for name in untrusted::names(&self.repo.common_dir().join(directory)) {
                let is_lock = Path::new(&name)
                    .extension()
                    .is_some_and(|end| end == "lock");
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
