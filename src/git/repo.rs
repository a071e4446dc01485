//! A repository that this program can work in, known by its common dir.

pub mod open;
pub mod program;
pub(in crate::git) mod scratch_objects;

use crate::domain::{Oid, OperationId, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::files::admin_dir::STAND_IN;
use crate::git::files::untrusted;
use scratch_objects::ScratchObjects;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An open repository, seen from one of its worktrees or from its git dir.
///
/// Not shareable between threads: each thread opens its own with [`Repo::open_git_dir`].
pub struct Repo {
    pub(in crate::git) inner: git2::Repository,
    common_dir: PathBuf,
    /// Where objects are written, when that is not the repository.
    pub(in crate::git) scratch_objects: Option<ScratchObjects>,
    /// What all that one command writes has in common, drawn when it is first asked for.
    operation: Arc<OnceLock<OperationId>>,
    /// The objects that are in no pack.
    pub(in crate::git) loose: LooseObjects,
}

/// The objects that are files of their own, below `.git/objects`.
pub(in crate::git) struct LooseObjects {
    pub files: gix::odb::loose::Store,
    /// Those that were found readable.
    pub readable: RefCell<HashSet<Oid>>,
    /// The commits whose history was.
    pub walked: RefCell<HashSet<Oid>>,
}

/// What a revision named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// The full ref name when the revision was a ref; `None` for an object name or an expression.
    pub refname: Option<String>,
    /// The commit it peels to.
    pub commit: Oid,
}

impl Repo {
    pub(in crate::git) fn wrap(inner: git2::Repository) -> Result<Repo> {
        // libgit2 answers with a trailing slash and, for a relative GIT_DIR, a relative path.
        let common_dir = std::fs::canonicalize(inner.commondir()).map_err(|source| {
            Error::io(format!("could not resolve {}", inner.commondir().display()), source)
        })?;
        require_own_common_dir(inner.path(), &common_dir)?;
        let objects = common_dir.join("objects");
        Ok(Repo {
            inner,
            common_dir,
            scratch_objects: None,
            operation: Arc::default(),
            loose: LooseObjects {
                files: gix::odb::loose::Store::at(objects, gix::hash::Kind::Sha1),
                readable: RefCell::default(),
                walked: RefCell::default(),
            },
        })
    }

    /// The operation that what is written through this repository belongs to.
    ///
    /// # Errors
    /// `bug` when the system has no random numbers.
    pub fn operation(&self) -> Result<&OperationId> {
        if self.operation.get().is_none() {
            let drawn = getrandom::u64().map_err(|error| {
                Error::bug("the system must have random numbers").because(error)
            })?;
            // Of two threads that ask at once one draws for both.
            let _ = self.operation.set(OperationId::of(drawn));
        }
        self.operation.get().ok_or_else(|| Error::bug("a drawn operation must be there"))
    }

    /// The same repository, working at the operation that another one, or another thread's, works at.
    pub fn at_operation(mut self, operation: &Arc<OnceLock<OperationId>>) -> Repo {
        self.operation = Arc::clone(operation);
        self
    }

    /// What [`Repo::at_operation`] takes.
    pub fn shared_operation(&self) -> &Arc<OnceLock<OperationId>> {
        &self.operation
    }

    /// The directory shared by all worktrees (`git rev-parse --git-common-dir`), absolute and free
    /// of symlinks.
    pub fn common_dir(&self) -> &Path {
        &self.common_dir
    }

    /// A directory of objects that this repository borrows from another one (gitrepository-layout(5): `objects/info/alternates`), and
    /// that is not there, as where its disk is not mounted.
    pub fn missing_alternate(&self) -> Option<PathBuf> {
        let objects = self.common_dir.join("objects");
        let list = untrusted::log(&objects, Path::new("info/alternates"));
        let lines = list.split(|&byte| byte == b'\n');
        // A comment, or a name that git has quoted.
        let is_plain = |line: &&[u8]| line.first().is_some_and(|byte| !b"#\"".contains(byte));
        let lines = lines.filter(is_plain);
        let mut places = lines.map(|line| objects.join(OsStr::from_bytes(line)));
        places.find(|place| !place.is_dir())
    }

    /// The git dir of the worktree this was opened from.
    pub fn git_dir(&self) -> &Path {
        self.inner.path()
    }

    /// The top of the worktree this was opened from; `None` in a bare repository.
    pub fn workdir(&self) -> Option<&Path> {
        self.inner.workdir()
    }

    /// Whether there is no main worktree.
    ///
    /// # Errors
    /// As [`Repo::from_env`].
    pub fn is_bare(&self) -> Result<bool> {
        Ok(self.main_worktree()?.is_none())
    }

    /// The top of the main worktree; `None` for a bare repository.
    ///
    /// # Errors
    /// As [`Repo::from_env`]; `main-worktree-unknown`.
    pub fn main_worktree(&self) -> Result<Option<PathBuf>> {
        let canonical = |path: &Path| {
            std::fs::canonicalize(path).map_err(|source| {
                Error::io(format!("could not resolve {}", path.display()), source)
            })
        };
        // What stands in for the repository in a sandbox has no main worktree to be mistaken for.
        if !self.common_dir.ends_with(".git") && !self.common_dir.ends_with(STAND_IN) {
            self.require_named_main()?;
        }
        if !self.inner.is_worktree() {
            return self.inner.workdir().map(canonical).transpose();
        }
        // libgit2 tells a linked worktree nothing of the main one, so that is opened on its own.
        let main = open::exactly(&self.common_dir)?;
        main.workdir().map(canonical).transpose()
    }

    /// The directory that default worktree paths start from: the main worktree, or for a bare
    /// repository the directory that a person thinks of as the project (the parent of a `.bare` or
    /// `.git` directory, else the bare directory itself).
    ///
    /// # Errors
    /// As [`Repo::from_env`].
    pub fn root(&self) -> Result<PathBuf> {
        if let Some(main) = self.main_worktree()? {
            return Ok(main);
        }
        let hidden = self
            .common_dir
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        match self.common_dir.parent() {
            Some(parent) if hidden => Ok(parent.to_owned()),
            _ => Ok(self.common_dir.clone()),
        }
    }

    /// A string setting from all of git's configuration files; `None` when unset.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub fn config_string(&self, key: &str) -> Result<Option<String>> {
        let config = self
            .inner
            .config()
            .and_then(|mut config| config.snapshot())
            .map_err(|error| failed("could not read the configuration", error))?;
        string(&config, key)
            .map_err(|error| failed(&format!("could not read the setting {key}"), error))
    }

    /// A yes-or-no setting; `None` when unset or not a boolean.
    ///
    /// # Errors
    /// As [`Repo::config_string`].
    pub fn config_bool(&self, key: &str) -> Result<Option<bool>> {
        Ok(self.config_string(key)?.and_then(|value| git2::Config::parse_bool(value).ok()))
    }

    /// Whether any key of a section is set, such as `hook` for config hooks.
    ///
    /// # Errors
    /// As [`Repo::config_string`].
    pub fn has_config_section(&self, section: &str) -> Result<bool> {
        let fail = |error| failed("could not read the configuration", error);
        let config = self.inner.config().map_err(fail)?;
        let mut entries = config.entries(Some(&format!("^{section}\\."))).map_err(fail)?;
        Ok(entries.next().is_some())
    }

    /// The commit that the main worktree is at, wherever the caller stands.
    ///
    /// # Errors
    /// `head-unborn`; those of opening the repository.
    pub fn main_head(&self) -> Result<Oid> {
        let head = if self.inner.is_worktree() {
            Repo::open_git_dir(&self.common_dir)?.resolve_commit("HEAD")
        } else {
            self.resolve_commit("HEAD")
        };
        Ok(head?.commit)
    }

    /// Resolves a revision to a commit, once.
    ///
    /// # Errors
    /// `base-not-commit` when it names nothing or no commit, `head-unborn` for `HEAD` without commits.
    pub fn resolve_commit(&self, revision: &str) -> Result<Resolved> {
        let not_commit = |error: git2::Error| {
            Error::new(
                Code::BaseNotCommit,
                format!("`{revision}` names no commit of this repository"),
            )
            .hint("to see what there is, run git branch --all")
            .because(words(&error))
        };
        // An expression such as `main~2` begins with what it goes out from, which is HEAD where nothing is named.
        let start = revision.split(['~', '^', '@', ':']).next().unwrap_or_default();
        let start = if start.is_empty() { "HEAD" } else { start };
        let named = self.inner.resolve_reference_from_short_name(start);
        let named = named.ok().and_then(|reference| reference.resolve().ok()?.target());
        let named = named.map(from_git2).or_else(|| self.object_with_prefix(start));
        self.require_readable_history(named.as_slice())?;
        let (object, reference) = match self.inner.revparse_ext(revision) {
            Ok(found) => found,
            Err(_) if revision == "HEAD" && self.head_is_unborn() => {
                let what = "HEAD points at a branch that has no commit yet";
                let hint = if self.inner.is_bare() {
                    // Without a work tree `git commit` refuses to work.
                    let (place, branch) =
                        (shell::path(self.common_dir()), self.branch_behind("HEAD"));
                    format!(
                        "to bring a first commit, run git push {place} HEAD:{branch} in a clone"
                    )
                } else {
                    "to make a first commit, run git commit --allow-empty -m 'first commit'".into()
                };
                return Err(Error::new(Code::HeadUnborn, what).hint(hint));
            }
            Err(error) => return Err(not_commit(error)),
        };
        let commit = object.peel_to_commit().map_err(not_commit)?;
        // A symbolic ref, as `HEAD` is, stands for the branch that it names.
        let refname = reference
            .as_ref()
            .and_then(|reference| match reference.symbolic_target() {
                Ok(Some(target)) => Some(target.to_owned()),
                _ => reference.name().ok().map(str::to_owned),
            })
            .filter(|name| name.starts_with("refs/"))
            .map(|name| self.branch_behind(&name));
        Ok(Resolved { refname, commit: from_git2(commit.id()) })
    }

    fn head_is_unborn(&self) -> bool {
        self.inner.head().is_err_and(|error| error.code() == git2::ErrorCode::UnbornBranch)
    }
}

/// Refuses a linked worktree whose admin directory leads to another repository than the one it lies in: an agent can
/// write its `commondir`, and the settings there name programs.
fn require_own_common_dir(git_dir: &Path, common_dir: &Path) -> Result<()> {
    let Some(worktrees) = git_dir.parent() else {
        return Ok(());
    };
    let lies_in = worktrees.parent().and_then(|above| above.canonicalize().ok());
    if !worktrees.ends_with("worktrees") || lies_in.as_deref() == Some(common_dir) {
        return Ok(());
    }
    let file = git_dir.join("commondir");
    let what = format!("{} leads to another repository", file.display());
    Err(Error::new(Code::GitFailed, what)
        .hint(format!("to lead it back, run printf '../..\\n' > {}", file.display())))
}

/// An oid of libgit2 as a plain value.
pub(in crate::git) fn from_git2(oid: git2::Oid) -> Oid {
    // A repository with other than SHA-1 names is refused on opening.
    Oid::from_slice(oid.as_bytes()).unwrap_or(Oid::ZERO)
}

/// A plain oid for libgit2.
///
/// # Errors
/// Never for the 20 bytes that an [`Oid`] holds; libgit2 offers no infallible way.
pub(in crate::git) fn to_git2(oid: Oid) -> Result<git2::Oid> {
    git2::Oid::from_bytes(oid.as_bytes())
        .map_err(|error| Error::bug("an oid has 20 bytes").because(error))
}

/// A libgit2 error under the name of what was tried, with the code that its class calls for.
pub(in crate::git) fn failed(what: &str, error: git2::Error) -> Error {
    use git2::{ErrorClass, ErrorCode};
    // libgit2 has no codes for these two, only the words of the system.
    let text = error.message().to_ascii_lowercase();
    let code = match (error.code(), error.class()) {
        (ErrorCode::Locked | ErrorCode::Modified, _) => Code::LostRace,
        (ErrorCode::NotFound, ErrorClass::Odb) => Code::RepoCorrupt,
        (_, ErrorClass::Os) if text.contains("no space left") => Code::DiskFull,
        (_, ErrorClass::Os) if text.contains("read-only file system") => Code::RepoReadOnly,
        _ => Code::GitFailed,
    };
    let failed = Error::new(code, what).because(words(&error));
    if code == Code::RepoCorrupt {
        return failed.absence();
    }
    failed
}

/// A string setting; `None` when unset.
pub(in crate::git) fn string(
    config: &git2::Config,
    key: &str,
) -> std::result::Result<Option<String>, git2::Error> {
    match config.get_string(key) {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What libgit2 says, without its numbers for it.
pub(in crate::git) fn words(error: &git2::Error) -> String {
    error.message().trim_end_matches(';').to_owned()
}
