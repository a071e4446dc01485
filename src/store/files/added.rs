//! What was added to the repository's own files, so that it can be taken out again and nothing else is.

use crate::domain::value::named::short_hex;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::ignore::pattern;
use crate::git::files::descent;
use crate::store::files::{fsx, layout, lock};
use crate::wire::row::journal::FileCopy;
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The bytes that `info/exclude` got.
pub const EXCLUDES: &str = "exclude";
/// The keys of `config` that changed, one a line.
const SETTINGS: &str = "config";
/// The settings that `init` added on request, `key value`, one a line.
pub const BY_INIT: &str = "init";
/// What the name of a file begins with that says how another one was before and after we changed it.
const COPY: &str = "copy-";

/// Remembers an addition, before it is made. The caller holds `spawn.lock`.
///
/// # Errors
/// `io`, `disk-full`, `repo-read-only`.
pub fn note(common_dir: &Path, file: &str, addition: &[u8]) -> Result<()> {
    let path = place(common_dir, file);
    fsx::create_dir(path.parent().unwrap_or(&path))?;
    fsx::append(&path, addition)
}

/// What was remembered.
///
/// # Errors
/// `io`.
pub fn load(common_dir: &Path, file: &str) -> Result<Vec<u8>> {
    Ok(fsx::load_if_there(&place(common_dir, file))?.unwrap_or_default())
}

/// Changes a file of git's or a person's, and remembers its bytes before and after, so that [`put_back`] can undo that to the
/// byte. Where it was changed by others since we changed it last, what it was at first is not known any more.
///
/// # Errors
/// Those of `change`; `io`, `disk-full`, `repo-read-only`.
pub fn changing(common_dir: &Path, file: &Path, change: impl FnOnce() -> Result<()>) -> Result<()> {
    let before = fsx::load_if_there(file)?;
    // The note comes after the change: a kill in between leaves bytes that were never noted, which
    // `put_back` takes for another's work and does not touch.
    change()?;
    let after = fsx::load_if_there(file)?;
    if after == before {
        return Ok(());
    }
    let known = load_copy(common_dir, file)?;
    let first = match known {
        None => before,
        Some(known) if known.after == before => known.before,
        // It was put back by an uninstall that was killed before it forgot this.
        Some(known) if known.before == before => before,
        // From here on both are the same, which says that it is not known.
        Some(_) => after.clone(),
    };
    let copy = FileCopy { before: first, after };
    let place = copy_place(common_dir, file);
    fsx::create_dir(place.parent().unwrap_or(&place))?;
    fsx::write_private(&place, &copy.to_bytes())
}

/// Puts a file back to what it was before [`changing`] first changed it; `false` where others have changed it since.
///
/// # Errors
/// `io`, `disk-full`.
pub fn put_back(common_dir: &Path, file: &Path) -> Result<bool> {
    let Some(copy) = load_copy(common_dir, file)? else {
        return Ok(false);
    };
    let now = fsx::load_if_there(file)?;
    if copy.before == copy.after || now != copy.after {
        // An earlier call that was killed may have put it back already.
        return Ok(copy.before != copy.after && now == copy.before);
    }
    match &copy.before {
        Some(before) => {
            // The replacement is a new file, which would have the mode that the umask gives.
            let mode = fs::metadata(file).at("could not read", file)?.permissions();
            fsx::write_atomic(file, before)?;
            fs::set_permissions(file, mode).at("could not set the mode of", file)?;
        }
        None => fs::remove_file(file).at("could not remove", file)?,
    }
    Ok(true)
}

/// Where the copy of a file is kept.
fn copy_place(common_dir: &Path, file: &Path) -> PathBuf {
    let name = short_hex(&Sha256::digest(file.as_os_str().as_bytes()), 8);
    place(common_dir, &format!("{COPY}{name}"))
}

fn load_copy(common_dir: &Path, file: &Path) -> Result<Option<FileCopy>> {
    let bytes = fsx::load_if_there(&copy_place(common_dir, file))?;
    Ok(bytes.and_then(|bytes| FileCopy::from_bytes(&bytes)))
}

/// Makes git read the `config.worktree` of worktrees. The caller holds `spawn.lock`.
///
/// # Errors
/// Those of [`Repo::enable_worktree_config`] and [`note`].
pub fn enable_worktree_config(repo: &Repo) -> Result<()> {
    let common_dir = repo.common_dir();
    changing(common_dir, &common_dir.join("config"), || {
        repo.enable_worktree_config(|keys| {
            let lines: String = keys.iter().map(|key| format!("{key}\n")).collect();
            note(common_dir, SETTINGS, lines.as_bytes())
        })
    })
}

/// Undoes that; `None` where there is nothing to undo, `Some(false)` where it must stay because worktrees have settings of
/// their own. The caller holds `spawn.lock`.
///
/// # Errors
/// Those of [`Repo::disable_worktree_config`].
pub fn disable_worktree_config(repo: &Repo, is_dry: bool) -> Result<Option<bool>> {
    let noted = load(repo.common_dir(), SETTINGS)?;
    let keys: Vec<String> = String::from_utf8_lossy(&noted).lines().map(str::to_owned).collect();
    if keys.is_empty() || !repo.reads_worktree_config()? {
        return Ok(None);
    }
    let is_done = repo.disable_worktree_config(&keys, is_dry)?;
    Ok(Some(is_done))
}

/// Removes the settings that [`enable_worktree_config`] moved to the main worktree's own file, once the shared file has them
/// again. The caller holds `spawn.lock`.
///
/// # Errors
/// `io`.
pub fn forget_moved_settings(repo: &Repo) -> Result<()> {
    let moved = repo.common_dir().join("config.worktree");
    if !load(repo.common_dir(), SETTINGS)?.is_empty() {
        fs::remove_file(&moved).at_if_there("could not remove", &moved)?;
    }
    Ok(())
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

// Our lines in `info/exclude`, which keep worktrees and bundles out of every `git status`.

/// Adds a line for each of these directories at the top to `info/exclude` where it is missing.
///
/// # Errors
/// `io`, `disk-full`, `lock-timeout`.
pub fn add_exclude(repo: &Repo, directories: &[&str]) -> Result<()> {
    let path = repo.common_dir().join("info/exclude");
    let lines: Vec<_> = directories.iter().copied().map(pattern).collect();
    let missing = |text: &[u8]| -> Vec<u8> {
        let present: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
        lines
            .iter()
            .filter(|line| !present.contains(&line.as_bytes()))
            .flat_map(|line| format!("{line}\n").into_bytes())
            .collect()
    };
    let load = || fsx::load_if_there(&path).map(Option::unwrap_or_default);
    if missing(&load()?).is_empty() {
        return Ok(());
    }
    let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
    // Read again under the lock, because another spawn may have added the same lines.
    let mut text = load()?;
    let mut addition = missing(&text);
    if !text.is_empty() && !text.ends_with(b"\n") {
        // A person's last line may lack its end, and ours would become part of it.
        addition.insert(0, b'\n');
    }
    // Before the file changes, so that no line of ours is ever there that is not known for ours.
    note(repo.common_dir(), EXCLUDES, &addition)?;
    text.extend(addition);
    let directory = repo.common_dir().join("info");
    fs::create_dir_all(&directory).at("could not make", &directory)?;
    changing(repo.common_dir(), &path, || fsx::write_atomic(&path, &text))
}

/// Takes out of `info/exclude` what [`add_exclude`] put into it; gives the lines. The caller holds `spawn.lock`.
///
/// # Errors
/// `io`, `disk-full`.
pub fn remove_exclude(repo: &Repo, is_dry: bool) -> Result<Vec<String>> {
    let path = repo.common_dir().join("info/exclude");
    let text = fsx::load_if_there(&path)?.unwrap_or_default();
    let noted = load(repo.common_dir(), EXCLUDES)?;
    let ours =
        |line: &[u8]| !line.is_empty() && noted.split(|&b| b == b'\n').any(|own| own == line);
    let lines: Vec<_> = text
        .split(|&b| b == b'\n')
        .filter(|line| ours(line))
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    if lines.is_empty() || is_dry {
        return Ok(lines);
    }
    // As it was before, where it was not changed meanwhile.
    if put_back(repo.common_dir(), &path)? {
        return Ok(lines);
    }
    let rest = match text.strip_suffix(&noted[..]) {
        Some(before) => before.to_vec(),
        None => {
            // Lines of others came behind ours, so ours are taken out one by one.
            let kept = text.split_inclusive(|&b| b == b'\n');
            kept.filter(|line| !ours(line.strip_suffix(b"\n").unwrap_or(line)))
                .flatten()
                .copied()
                .collect()
        }
    };
    if rest.is_empty() {
        fs::remove_file(&path).at("could not remove", &path)?;
    } else {
        fsx::write_atomic(&path, &rest)?;
    }
    Ok(lines)
}
