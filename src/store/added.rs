//! What was added to the repository's own files, so that it can be taken out again and nothing else is.

use super::{fsx, layout};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::files::descent;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The bytes that `info/exclude` got.
pub const EXCLUDES: &str = "exclude";
/// The keys of `config` that changed, one a line.
const SETTINGS: &str = "config";

/// Remembers an addition, before it is made. The caller holds `spawn.lock`.
///
/// # Errors
/// `io`, `disk-full`, `repo-read-only`.
pub fn note(common_dir: &Path, file: &str, addition: &[u8]) -> Result<()> {
    let path = place(common_dir, file);
    fsx::create_dir(path.parent().unwrap_or(&path))?;
    let opened = File::options().create(true).append(true).open(&path);
    opened
        .and_then(|mut file| file.write_all(addition))
        .map_err(|error| fsx::not_writable(&path, error))
}

/// What was remembered.
///
/// # Errors
/// `io`.
pub fn load(common_dir: &Path, file: &str) -> Result<Vec<u8>> {
    Ok(fsx::load_if_there(&place(common_dir, file))?.unwrap_or_default())
}

/// Makes git read the `config.worktree` of worktrees. The caller holds `spawn.lock`.
///
/// # Errors
/// Those of [`Repo::enable_worktree_config`] and [`note`].
pub fn enable_worktree_config(repo: &Repo) -> Result<()> {
    repo.enable_worktree_config(|keys| {
        let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
        note(repo.common_dir(), SETTINGS, lines.as_bytes())
    })
}

/// Undoes that; `None` where there is nothing to undo, `Some(false)` where it must stay because worktrees have settings of
/// their own. The caller holds `spawn.lock`.
///
/// # Errors
/// Those of [`Repo::disable_worktree_config`].
pub fn disable_worktree_config(repo: &Repo, is_dry: bool) -> Result<Option<bool>> {
    let noted = load(repo.common_dir(), SETTINGS)?;
    let keys: Vec<String> = String::from_utf8_lossy(&noted)
        .lines()
        .map(str::to_owned)
        .collect();
    if keys.is_empty() || !repo.reads_worktree_config()? {
        return Ok(None);
    }
    repo.disable_worktree_config(&keys, is_dry).map(Some)
}

/// Removes the directory that holds all our files, with the locks that the caller holds in it, and directories that are
/// empty without our refs and without worktrees in this place.
///
/// # Errors
/// `io`.
pub fn remove_files(common_dir: &Path, worktrees: &Path) -> Result<()> {
    let agents = layout::agents_dir(common_dir);
    descent::remove(&agents).at_if_there("could not remove", &agents)?;
    const EMPTY: [&str; 9] = [
        "refs/heads/agent",
        "refs/agents/remote",
        "refs/agents",
        "refs/notes",
        "logs/refs/heads/agent",
        "logs/refs/agents/remote",
        "logs/refs/agents",
        "logs/refs/notes",
        "worktrees",
    ];
    let ours = EMPTY.iter().map(|directory| common_dir.join(directory));
    for directory in ours.chain(worktrees.ancestors().take(2).map(Path::to_owned)) {
        // One that is not empty stays.
        let _ = fs::remove_dir(directory);
    }
    Ok(())
}

fn place(common_dir: &Path, file: &str) -> PathBuf {
    layout::agents_dir(common_dir).join("added").join(file)
}
