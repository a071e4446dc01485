//! Opening a repository: as git's environment says or by path, with the formats that libgit2 would
//! misread, and a main worktree that is not where it should be, refused by name.

use super::failed;
use crate::domain::value::shell;
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::admin_dir_of_clone;
use crate::git::files::{admin_dir, untrusted};
use git2::{ErrorCode, RepositoryOpenFlags};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

const WORKTREE: &str = "core.worktree";

/// What git's environment says about every repository that this process opens.
#[derive(Debug)]
pub struct Environment {
    /// Whether variables name configuration files (`GIT_CONFIG_GLOBAL`, `GIT_CONFIG_SYSTEM`), and none names a part of one
    /// repository.
    pub names_configuration: bool,
    /// Where a git that receives a push, and of which this is a hook, keeps the objects that it may yet throw away
    /// (`GIT_QUARANTINE_PATH`, which is absolute).
    pub quarantine: Option<PathBuf>,
}

static ENVIRONMENT: OnceLock<Environment> = OnceLock::new();
const SILENT: &Environment = &Environment { names_configuration: false, quarantine: None };

impl Environment {
    /// Follows this one from now on. Only the first call counts.
    pub fn follow(self) {
        let _ = ENVIRONMENT.set(self);
    }

    /// The one that is followed.
    pub(in crate::git) fn followed() -> &'static Environment {
        ENVIRONMENT.get().unwrap_or(SILENT)
    }
}

impl Repo {
    /// Opens the repository of the current directory, or the one that `GIT_DIR` names.
    ///
    /// A hook runs with `GIT_DIR` and often a temporary `GIT_INDEX_FILE` set; opening by path would
    /// read another index than the one being committed.
    ///
    /// # Errors
    /// `repo-not-found`, `repo-unsafe-owner`, `repo-unsupported-format`, `main-worktree-gone`.
    pub fn from_env() -> Result<Repo> {
        admin_dir::require_openable_above(Path::new("."))?;
        // Before libgit2 reads anything: what a `.git` file leads to is a configuration that would
        // be obeyed.
        admin_dir::require_linked_as_known(Path::new("."))?;
        let inner = git2::Repository::open_from_env()
            .map_err(|error| refusal(error, "the current directory", git_dir_of_env()))?;
        Repo::wrap(inner)
    }

    /// Opens the repository that `path` belongs to, whatever the environment says. A clone that an agent has of its own
    /// belongs to the one that it was made from.
    ///
    /// # Errors
    /// As [`Repo::from_env`].
    pub fn open(path: &Path) -> Result<Repo> {
        admin_dir::require_openable_above(path)?;
        // A clone's own settings are the agent's to write, so the repository it came from is opened
        // instead.
        if let Some(shared) = fs::canonicalize(path).ok().and_then(|path| admin_dir_of_clone(&path))
        {
            return Repo::open_git_dir(&shared);
        }
        let inner = git2::Repository::open_ext(path, by_environment(), NOWHERE)
            .map_err(|error| refusal(error, &path.display().to_string(), git_dir_above(path)))?;
        Repo::wrap(inner)
    }

    /// Opens exactly this git dir, whatever the environment says.
    ///
    /// # Errors
    /// As [`Repo::from_env`].
    pub fn open_git_dir(git_dir: &Path) -> Result<Repo> {
        Repo::wrap(exactly(git_dir)?)
    }

    /// As [`Repo::from_env`], but a repository whose main worktree is not where `core.worktree` says is
    /// opened as if it were bare, so that it can be examined.
    ///
    /// # Errors
    /// As [`Repo::from_env`], without `main-worktree-gone`.
    pub fn from_env_to_examine() -> Result<Repo> {
        Repo::from_env().or_else(|error| match git_dir_of_env() {
            Some(git_dir) if error.code() == Code::MainWorktreeGone => {
                Repo::open_to_examine(&git_dir)
            }
            _ => Err(error),
        })
    }

    /// As [`Repo::open_git_dir`], forgiving what [`Repo::from_env_to_examine`] forgives.
    ///
    /// # Errors
    /// As [`Repo::from_env_to_examine`].
    pub fn open_to_examine(git_dir: &Path) -> Result<Repo> {
        Repo::open_git_dir(git_dir).or_else(|error| match error.code() {
            Code::MainWorktreeGone => {
                Repo::wrap(as_bare(git_dir).map_err(|error| refusal(error, &shown(git_dir), None))?)
            }
            _ => Err(error),
        })
    }
}

impl Repo {
    /// Refuses a git dir that is apart from its main worktree (`git init --separate-git-dir`) unless `core.worktree` says where
    /// that is. Seen from a linked worktree, the directory around the git dir would be taken for it.
    pub(super) fn require_named_main(&self) -> Result<()> {
        let main = exactly(self.common_dir())?;
        let is_named = || main.config().is_ok_and(|config| config.get_path(WORKTREE).is_ok());
        if main.is_bare() || is_named() {
            return Ok(());
        }
        let top = self.workdir().filter(|_| !self.inner.is_worktree());
        let top = top.map_or_else(|| "<the main worktree>".to_owned(), shell::path);
        let what = format!(
            "the git directory {} is not inside its main worktree, and {WORKTREE} does not name that",
            shown(self.common_dir())
        );
        Err(Error::new(Code::MainWorktreeUnknown, what)
            .hint(format!("to name it, run git config {WORKTREE} {top}")))
    }
}

/// Opens exactly this git dir.
pub(in crate::git) fn exactly(git_dir: &Path) -> Result<git2::Repository> {
    untrusted::require_openable(git_dir)?;
    let flags = RepositoryOpenFlags::NO_SEARCH | by_environment();
    git2::Repository::open_ext(git_dir, flags, NOWHERE)
        .map_err(|error| refusal(error, &shown(git_dir), Some(git_dir.to_owned())))
}

/// Lets libgit2 read the configuration files that the environment names, and nothing else from there.
fn by_environment() -> RepositoryOpenFlags {
    // FROM_ENV would obey `GIT_DIR` as well, so it is passed only where no variable names a
    // repository.
    if Environment::followed().names_configuration {
        RepositoryOpenFlags::FROM_ENV
    } else {
        RepositoryOpenFlags::empty()
    }
}

fn as_bare(git_dir: &Path) -> std::result::Result<git2::Repository, git2::Error> {
    let flags = RepositoryOpenFlags::NO_SEARCH | RepositoryOpenFlags::BARE;
    git2::Repository::open_ext(git_dir, flags, NOWHERE)
}

/// No directories at which to stop searching.
const NOWHERE: &[&OsStr] = &[];

/// The git dir of the current directory, whatever can be said against it.
fn git_dir_of_env() -> Option<PathBuf> {
    // Not searched upwards: above a repository that it cannot open, libgit2 looks for another one.
    let flags =
        RepositoryOpenFlags::FROM_ENV | RepositoryOpenFlags::BARE | RepositoryOpenFlags::NO_SEARCH;
    match git2::Repository::open_ext(".", flags, NOWHERE) {
        Ok(repo) => Some(repo.path().to_owned()),
        // Found even where it cannot be opened: the refusal is to say which repository it is.
        Err(_) => git_dir_above(Path::new(".")),
    }
}

fn git_dir_above(path: &Path) -> Option<PathBuf> {
    admin_dir::git_dir_above(path).or_else(|| git2::Repository::discover_path(path, NOWHERE).ok())
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Where the repository's settings say that its main worktree is, when nothing is there.
fn missing_worktree(git_dir: &Path) -> Option<PathBuf> {
    let repo = as_bare(git_dir).ok()?;
    let value = repo.config().ok()?.get_path(WORKTREE).ok()?;
    let place = repo.path().join(value);
    (!place.is_dir()).then_some(place)
}

/// Says why a repository could not be opened, in the user's terms.
fn refusal(error: git2::Error, place: &str, git_dir: Option<PathBuf>) -> Error {
    let text = error.message().to_owned();
    if error.code() == ErrorCode::Owner {
        // Which directory it is that is not trusted, only libgit2's text says: a worktree counts as well as a repository.
        let named = text.split('\'').nth(1).filter(|path| path.starts_with('/'));
        let named = named.map(|path| shell::word(path.trim_end_matches('/').as_bytes()));
        let named = named.unwrap_or_else(|| "<its absolute path>".to_owned());
        return Error::new(
            Code::RepoUnsafeOwner,
            format!("the repository at {place} belongs to another user"),
        )
        .hint(format!("to trust it, run git config --global --add safe.directory {named}"))
        .because(error);
    }
    // libgit2 has no error code for these two; the texts are pinned by a test.
    let format = if text.contains("unknown object format") {
        text.rsplit('\'').nth(1).map(|name| {
            // A clone keeps the format of its objects.
            let copy = "to work on a copy whose commits have other ids, run git init --object-format=sha1 <directory> && git fast-export --all | git -C <directory> fast-import";
            (format!("object format {name}"), copy)
        })
    } else if text.contains("unsupported extension name") {
        text.split_whitespace().last().map(|name| {
            let name = match name {
                "extensions.refstorage" => "ref storage other than files (reftable)",
                other => other,
            };
            let copy = "to work on a copy in the common format, run git clone --ref-format=files <repository> <directory>";
            (name.to_owned(), copy)
        })
    } else {
        None
    };
    if let Some((format, copy)) = format {
        return Error::new(
            Code::RepoUnsupportedFormat,
            format!("the repository at {place} uses {format}, which git-agent cannot open"),
        )
        .hint(copy)
        .because(error);
    }
    if let Some(gone) = git_dir.as_deref().and_then(missing_worktree) {
        return Error::new(
            Code::MainWorktreeGone,
            format!(
                "{WORKTREE} of the repository at {place} is {}, which is not there",
                gone.display()
            ),
        )
        .remedy("to see whether the setting can be taken out", Remedy::Examine)
        .because(error);
    }
    // One that is further up than GIT_CEILING_DIRECTORIES allows is none.
    let is_unfound = git_dir.is_none() || error.class() == git2::ErrorClass::Repository;
    if error.code() == ErrorCode::NotFound && is_unfound {
        return Error::new(Code::RepoNotFound, format!("{place} is in no git repository"))
            .hint("to make one here, run git init");
    }
    let is_config = error.class() == git2::ErrorClass::Config;
    let failed = failed(&format!("could not open the repository at {place}"), error);
    if is_config {
        failed.remedy(
            "if that is the configuration of an agent's worktree",
            Remedy::RepairHooks(Some("<agent>")),
        )
    } else {
        failed
    }
}
