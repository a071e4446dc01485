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

mod cache;
pub(in crate::git) mod own_branch;
pub mod own_repository;
mod place;
pub mod view;

pub use crate::git::files::admin_dir::Worktree;
pub use cache::WorktreeCache;

use super::Repo;
use super::files::admin_dir::{clone_name, read_admin_dir};
use super::files::pruned::retry_if_pruned;
use super::objects::Identity;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use place::{make_directory, path_text};
use std::fs;
use std::path::{Component, Path, PathBuf};

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
        self.inner
            .find_worktree(name)
            .and_then(|worktree| worktree.validate())
            .map_err(|error| {
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
        let mut worktrees: Vec<_> = { entries.into_iter().flatten() }
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
    let temporary = admin_dir.join("locked.new");
    fs::write(&temporary, format!("{reason}\n")).at("could not write", &temporary)?;
    fs::rename(&temporary, admin_dir.join("locked")).at("could not lock", admin_dir)
}

fn rename_without_replacing(from: &Path, to: &Path) -> Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    use rustix::io::Errno;
    let renamed = retry_if_pruned(|| {
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Some file systems do not know the flag. A directory never replaces one that has
            // entries, and an admin directory always has.
            Err(Errno::INVAL | Errno::NOSYS) => fs::rename(from, to),
            other => other.map_err(std::io::Error::from),
        }
    });
    renamed.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists | std::io::ErrorKind::DirectoryNotEmpty => Error::new(
            Code::LostRace,
            format!("a worktree named {} exists already", to.display()),
        ),
        _ => Error::io(format!("could not publish {}", to.display()), error),
    })
}

/// The way from one absolute directory to another.
fn path_from(from: &Path, to: &Path) -> PathBuf {
    let shared = from
        .components()
        .zip(to.components())
        .take_while(|(one, two)| one == two)
        .count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
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
