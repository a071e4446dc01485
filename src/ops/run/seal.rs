//! The files that lead git from a worktree to its settings, put back after a fenced command.
//!
//! The kernel cannot protect single files of an admin directory, and git needs the rest of it. What stands in
//! them decides which programs git starts (`core.fsmonitor`, filters, hooks), so a command could have
//! them started later by the git of whoever looks at its work, outside of the fence. They are therefore
//! read before a fenced command starts, and when it is over, before any git of ours runs there, whatever
//! differs is set aside under another name and the old file is put back. What was read is kept in a file
//! beside the run's logs, out of the command's reach, so that whoever records the end of a run whose supervisor was
//! killed can do it, too.

use crate::domain::agent::Agent;
use crate::error::{Error, Result};
use crate::ops::Ctx;
use crate::store::{fsx, layout};
use crate::wire::path_text::PathText;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How these files were.
#[derive(Serialize, Deserialize)]
pub struct Seal {
    files: Vec<Sealed>,
}

/// One of them; its bytes stand in the JSON as those of a path do.
#[derive(Serialize, Deserialize)]
struct Sealed {
    path: PathText,
    content: Option<PathText>,
}

impl Seal {
    /// Reads the files of an agent's worktree.
    ///
    /// # Errors
    /// `io`.
    pub fn of(ctx: &Ctx, agent: &Agent, worktree: &Path) -> Result<Seal> {
        let admin_dir = ctx.repo.admin_dir(&layout::worktree_name(agent.id));
        let paths = [
            admin_dir.join("config.worktree"),
            admin_dir.join("commondir"),
            admin_dir.join("gitdir"),
            worktree.join(".git"),
        ];
        let read = |path: PathBuf| {
            Ok(Sealed {
                content: fsx::load_if_there(&path)?.map(|bytes| PathText::from(&bytes[..])),
                path: PathText::from(path.as_os_str().as_bytes()),
            })
        };
        let files = paths.into_iter().map(read).collect::<Result<_>>()?;
        Ok(Seal { files })
    }

    /// Writes it down for whoever comes after us if we are killed.
    ///
    /// # Errors
    /// Those of [`fsx::write_private`].
    pub fn keep(&self, note: &Path) -> Result<()> {
        let json = serde_json::to_vec(self).map_err(|_| Error::bug("a seal is plain JSON"))?;
        fsx::write_private(note, &json)
    }

    fn is_in_place(&self) -> bool {
        let directory = |sealed: &Sealed| {
            let path = PathBuf::from(OsString::from_vec(sealed.path.to_bytes()));
            path.parent().is_some_and(Path::is_dir)
        };
        self.files.iter().all(directory)
    }

    /// Puts back what was changed and gives its paths. Nothing is deleted: what was there lies beside it,
    /// with `.altered` at the end of its name.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn restore(&self) -> Result<Vec<PathBuf>> {
        let mut restored = Vec::new();
        for Sealed { path, content } in &self.files {
            let path = PathBuf::from(OsString::from_vec(path.to_bytes()));
            let content = content.as_ref().map(PathText::to_bytes);
            if is_as_it_was(&path, content.as_deref()) {
                continue;
            }
            if fs::symlink_metadata(&path).is_ok() {
                fsx::set_aside(&path)?;
            }
            if let Some(content) = content {
                fsx::write_atomic(&path, &content)?;
            }
            restored.push(path);
        }
        Ok(restored)
    }
}

/// Restores what was kept of a run whose supervisor was killed, and gives the paths that this changed. A worktree
/// that is not where it was has been moved or removed since, from outside of the fence, and is let be.
///
/// # Errors
/// As [`Seal::restore`].
pub(super) fn restore_kept(note: &Path) -> Result<Vec<PathBuf>> {
    let kept = fsx::load_if_there(note)?;
    let Some(seal) = kept.and_then(|json| serde_json::from_slice::<Seal>(&json).ok()) else {
        return Ok(Vec::new());
    };
    let restored = match seal.is_in_place() {
        true => seal.restore()?,
        false => Vec::new(),
    };
    forget(note);
    Ok(restored)
}

/// Removes what was kept, once it is of no use. Left behind it would only be put back again.
pub(super) fn forget(note: &Path) {
    let _ = fs::remove_file(note);
}

/// Whether there is a plain file with this content, or nothing where nothing was.
fn is_as_it_was(path: &Path, content: Option<&[u8]>) -> bool {
    match (fs::symlink_metadata(path), content) {
        // Read only now: opening a FIFO would never end.
        (Ok(metadata), Some(content)) if metadata.is_file() => {
            metadata.len() == content.len() as u64
                && fs::read(path).is_ok_and(|found| found == content)
        }
        (Ok(_), _) => false,
        (Err(_), content) => content.is_none(),
    }
}
