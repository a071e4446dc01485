//! A repository that is read and not written: what git has to be asked about goes to an object directory of
//! its own.
//!
//! git answers some questions only about objects that exist: the tree of a merge, a commit that does not exist. They
//! are written below a directory that the caller deletes, which has the repository's objects as its alternate.
//! Objects that a partial clone fetches meanwhile go there, too.

use super::failed;
use super::open;
use crate::domain::Oid;
use crate::error::{IoContext, Result};
use crate::git::files::untrusted;
use crate::git::{Repo, core::command};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What keeps a repository of ours, made for check commands, from doing what the settings it borrows ask for.
const PLAIN: [(&str, &str); 5] = [
    ("core.bare", "false"),
    ("core.fsmonitor", "false"),
    ("core.sparseCheckout", "false"),
    ("core.splitIndex", "false"),
    ("gc.auto", "0"),
];

/// An object directory that is written in place of the repository's.
pub(in crate::git) struct ScratchObjects {
    path: PathBuf,
    /// What opened it, for as long as it is used.
    _holder: git2::Repository,
}

impl Repo {
    /// The same repository, with a new directory below `directory` for the objects that are written.
    ///
    /// # Errors
    /// `io`, `disk-full`, `git-failed`; as [`Repo::from_env`].
    pub fn with_scratch_objects(&self, directory: &Path) -> Result<Repo> {
        // libgit2 opens an object directory for writing only as that of a repository.
        let lent = make_empty(&directory.join("objects.git"))?;
        let path = lent.path().join("objects");
        let mut lenders = vec![self.common_dir().join("objects")];
        // What a push brings is not in the repository yet when its hook is asked about it.
        lenders.extend(open::Environment::followed().quarantine.clone());
        borrow(&path, &lenders)?;
        writing_to(self.git_dir(), path)
    }

    /// Makes an empty repository below `directory`, for a question that concerns none: git's programs and the user's settings
    /// are reached through a repository.
    ///
    /// # Errors
    /// `git-failed`; as [`Repo::open_git_dir`].
    pub fn empty_below(directory: &Path) -> Result<Repo> {
        let made = make_empty(&directory.join("empty.git"))?;
        Repo::open_git_dir(made.path())
    }

    /// The same repository seen from an admin directory; objects are written where this one writes them.
    ///
    /// # Errors
    /// As [`Repo::open_git_dir`].
    pub fn seen_from(&self, admin_dir: &Path) -> Result<Repo> {
        Repo::open_writing_to(admin_dir, self.scratch_objects())
    }

    /// Opens a git dir whose new objects go to this object directory, if one is given.
    ///
    /// # Errors
    /// As [`Repo::open_git_dir`].
    pub fn open_writing_to(git_dir: &Path, objects: Option<&Path>) -> Result<Repo> {
        match objects {
            Some(objects) => writing_to(git_dir, objects.to_owned()),
            None => Repo::open_git_dir(git_dir),
        }
    }

    /// The object directory that is written in place of the repository's.
    pub fn scratch_objects(&self) -> Option<&Path> {
        Some(&self.scratch_objects.as_ref()?.path)
    }

    /// Whether nothing may be written but objects, and those to a directory of their own.
    pub fn is_scratch(&self) -> bool {
        self.scratch_objects.is_some()
    }

    /// The directory for everything that is written, where nothing may be written to the repository.
    pub fn scratch_directory(&self) -> Option<&Path> {
        let objects = self.scratch_objects.as_ref()?;
        objects.path.parent()?.parent()
    }

    /// Lets a git command write objects where this repository does.
    pub(in crate::git) fn redirect_objects(&self, command: &mut Command) {
        if let Some(objects) = &self.scratch_objects {
            command.env("GIT_OBJECT_DIRECTORY", &objects.path);
        }
    }

    /// Makes a repository of its own at `directory`, which must not exist, with a commit checked out. It borrows
    /// all objects, has the refs and the settings of this one, and nothing done in it is seen here.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`, `io`, `disk-full`.
    pub fn check_out_apart(&self, directory: &Path, commit: Oid) -> Result<()> {
        // No hooks: nothing of the repository's is to run in a place that only checks see.
        self.make_apart(directory, directory, commit, "/dev/null")?;
        let mut fill = self.git_among_files(directory)?;
        fill.args(["read-tree", "--reset", "-u", "HEAD"]);
        command::successful(fill).map(drop)
    }

    /// Makes such a repository for the worktree at `top`, whose `index` it gets, with HEAD at a commit and this repository's own hooks. Gives
    /// its git dir: what lies in the worktree and differs from the commit is staged there, as it is for `pre-commit`.
    ///
    /// # Errors
    /// As [`Repo::check_out_apart`].
    pub fn stage_apart(
        &self,
        directory: &Path,
        top: &Path,
        index: &Path,
        head: Oid,
    ) -> Result<PathBuf> {
        let hooks = match self.repository_hooks_path()? {
            // Relative to the worktree, as git takes it.
            Some(hooks) => hooks,
            None => self.common_dir().join("hooks").to_string_lossy().into_owned(),
        };
        let git_dir = self.make_apart(directory, top, head, &hooks)?;
        untrusted::copy_as_old(index, &git_dir.join("index"), untrusted::LONGEST_INDEX)?;
        Ok(git_dir)
    }

    fn make_apart(&self, directory: &Path, top: &Path, head: Oid, hooks: &str) -> Result<PathBuf> {
        fs::create_dir(directory).at("could not make", directory)?;
        // No template, which could contain hooks and settings of its own.
        command::run(directory, ["init", "--quiet", "--template="])?;
        let git_dir = directory.join(".git");
        let own = self.common_dir().join("objects");
        let scratch = self.scratch_objects.iter().map(|one| one.path.clone());
        let lenders: Vec<PathBuf> = scratch.chain([own]).collect();
        borrow(&git_dir.join("objects"), &lenders)?;
        let shallow = self.common_dir().join("shallow");
        // Without this file git would look for the parents that a shallow clone lacks.
        if self.is_shallow() {
            fs::copy(&shallow, git_dir.join("shallow")).at("could not copy", &shallow)?;
        }
        let mut list = self.plumbing();
        list.args(["for-each-ref", "--format=%(objectname) %(refname)"]);
        write(&git_dir.join("packed-refs"), &command::successful(list)?)?;
        let settings = self.common_dir().join("config");
        let settings = settings.as_os_str().to_owned();
        let set = |key: &str, value: &OsStr| {
            let mut command = command::git(directory);
            command.args(["config", "--local", key]).arg(value);
            command::successful(command)
        };
        // Included and not copied, so that relative paths in it and files that it includes keep
        // their meaning. What comes later in the file wins.
        set("include.path", &settings)?;
        for (key, value) in PLAIN {
            set(key, value.as_ref())?;
        }
        set("core.hooksPath", hooks.as_ref())?;
        set("core.worktree", top.as_os_str())?;
        // Detached, so that a commit that a check makes moves no branch.
        write(&git_dir.join("HEAD"), format!("{head}\n").as_bytes())?;
        Ok(git_dir)
    }
}

/// An empty bare repository. It has no template: a hook or setting of one would count here.
pub(in crate::git) fn make_empty(path: &Path) -> Result<git2::Repository> {
    let mut options = git2::RepositoryInitOptions::new();
    options.bare(true).external_template(false);
    let made = git2::Repository::init_opts(path, &options);
    made.map_err(|error| failed("could not make an empty repository", error))
}

/// Opens a git dir whose new objects go to the `objects` directory of another repository.
fn writing_to(git_dir: &Path, objects: PathBuf) -> Result<Repo> {
    let fail = |error| failed("could not open an object directory", error);
    let holder = objects.parent().unwrap_or(&objects);
    let holder = git2::Repository::open(holder).map_err(fail)?;
    let inner = open::exactly(git_dir)?;
    inner.set_odb(&holder.odb().map_err(fail)?).map_err(fail)?;
    let mut repo = Repo::wrap(inner)?;
    repo.scratch_objects = Some(ScratchObjects { path: objects, _holder: holder });
    Ok(repo)
}

/// Lets an object directory read what others hold.
fn borrow(objects: &Path, lenders: &[PathBuf]) -> Result<()> {
    let info = objects.join("info");
    fs::create_dir_all(&info).at("could not make", &info)?;
    let mut list = Vec::new();
    for lender in lenders {
        list.extend_from_slice(lender.as_os_str().as_encoded_bytes());
        list.push(b'\n');
    }
    write(&info.join("alternates"), &list)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::write(path, content).at("could not write", path)
}
