//! The files that lead git from a worktree to its settings, put back after a fenced command.
//!
//! The kernel cannot protect single files of an admin directory, and git needs the rest of it. What stands in
//! them decides which programs git starts (`core.fsmonitor`, filters, hooks), so a command could have
//! them started later by the git of whoever looks at its work, outside of the fence. They are therefore
//! read before a fenced command starts, and when it is over, before any git of ours runs there, whatever
//! differs is set aside under another name and the old file is put back.

use crate::domain::agent::Agent;
use crate::error::{IoContext, Result};
use crate::ops::Ctx;
use crate::store::{fsx, layout};
use std::fs;
use std::path::{Path, PathBuf};

/// What is added to the name of a file that was set aside.
const ASIDE: &str = ".altered";

/// How these files were.
pub struct Seal(Vec<(PathBuf, Option<Vec<u8>>)>);

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
        let read = |path: PathBuf| fsx::load_if_there(&path).map(|content| (path, content));
        paths.into_iter().map(read).collect::<Result<_>>().map(Seal)
    }

    /// Puts back what was changed and gives its paths. Nothing is deleted: what was there lies beside it,
    /// with `.altered` at the end of its name.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn restore(&self) -> Result<Vec<PathBuf>> {
        let mut restored = Vec::new();
        for (path, content) in &self.0 {
            if is_as_it_was(path, content.as_deref()) {
                continue;
            }
            if fs::symlink_metadata(path).is_ok() {
                let aside = free_name(path);
                fs::rename(path, &aside).at("could not set aside", path)?;
            }
            if let Some(content) = content {
                fsx::write_atomic(path, content)?;
            }
            restored.push(path.clone());
        }
        Ok(restored)
    }
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

/// A name beside `path` that nothing has.
fn free_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    loop {
        name.push(ASIDE);
        let free = path.with_file_name(&name);
        if fs::symlink_metadata(&free).is_err() {
            return free;
        }
    }
}
