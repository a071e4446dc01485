//! Where a linked worktree can be.

use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::pruned::retry_if_pruned;
use std::fs;
use std::path::Path;

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

pub(super) fn make_directory(path: &Path) -> Result<()> {
    let made = retry_if_pruned(|| {
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::create_dir(path)
    });
    match made {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            if is_empty_directory(path) {
                Ok(())
            } else {
                Err(taken(path))
            }
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
pub(super) fn path_text(path: &Path) -> Result<&str> {
    path.to_str()
        .filter(|text| !text.contains('\n'))
        .ok_or_else(|| {
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
