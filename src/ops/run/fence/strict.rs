//! The part of a worktree that a whitelist can reach, as places that the kernel can name.

use crate::domain::glob::{Glob, Reach};
use crate::error::{Code, Error, IoContext, Result};
use crate::store::fsx;
use crate::wire::policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

/// The narrowest places that hold all that the whitelist matches, and the bundle. A directory that does
/// not exist yet is made, since only what exists can be named. A file that does not exist yet takes
/// its directory: making a file is a right on the directory.
///
/// # Errors
/// `sandbox-unavailable` for a symlink on the way, `repo-corrupt` for a policy with a glob that is none,
/// `io`.
pub(super) fn places(worktree: &Path, policy: &Policy) -> Result<Vec<PathBuf>> {
    let mut places = Vec::new();
    for text in &policy.whitelist {
        let glob = Glob::parse(text).map_err(|rule| Error::new(Code::RepoCorrupt, rule))?;
        for reach in glob.reach() {
            places.extend(place(worktree, &reach)?);
        }
    }
    if let Some(bundle) = &policy.bundle_dir {
        places.extend(directory(worktree, bundle)?);
    }
    Ok(places)
}

fn place(worktree: &Path, reach: &Reach) -> Result<Option<PathBuf>> {
    let path = match reach {
        Reach::Below(inside) => return directory(worktree, inside),
        Reach::Path(path) => path,
    };
    let (above, _) = path.rsplit_once('/').unwrap_or_default();
    let above = directory(worktree, above)?;
    let file = worktree.join(path);
    Ok(match fs::symlink_metadata(&file) {
        // Its directory was walked already, so this name is the file itself.
        Ok(metadata) if metadata.is_file() && above.is_some() => Some(file),
        // A glob without wildcards matches nothing below a directory.
        Ok(metadata) if metadata.is_dir() => None,
        _ => above,
    })
}

/// A directory below the worktree, made where it is missing; `None` where a file stands in the way, so
/// that nothing can match below it.
fn directory(worktree: &Path, inside: &str) -> Result<Option<PathBuf>> {
    let mut path = worktree.to_owned();
    for part in inside.split('/').filter(|part| !part.is_empty()) {
        path.push(part);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_symlink() => {
                let message = format!(
                    "--sandbox strict cannot fence `{inside}`: {} is a symlink",
                    path.display()
                );
                return Err(Error::new(Code::SandboxUnavailable, message)
                    .hint("to let the agent write its whole worktree, pass --sandbox require"));
            }
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => fsx::create_dir(&path)?,
            Err(error) => return Err(error).at("could not look at", &path),
        }
    }
    Ok(Some(path))
}
