//! Bringing the copy of the index up to date with the files of the worktree.

use super::listed::Listed;
use super::{Source, git};
use crate::error::Result;
use crate::git::command::feed_paths;
use crate::git::files::untrusted;
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest file that is turned into an object, in bytes.
const LONGEST_FILE: u64 = 2 << 30;

/// Puts everything that is in the worktree into the copy of the index; gives whether that changed it.
///
/// # Errors
/// `git-failed` when git cannot read a file.
pub(super) fn bring_up_to_date(source: &Source<'_>, listed: &Listed) -> Result<bool> {
    // In the copy alone: these marks keep git from looking at the files, and the worktree's own
    // index keeps them.
    update(source, &["--no-assume-unchanged"], &listed.hidden)?;
    update(source, &["--no-skip-worktree"], &listed.hidden)?;
    let mut changed: Vec<Vec<u8>> = [
        listed.hidden.as_slice(),
        &listed.unmerged,
        &listed.changed,
        &listed.new,
    ]
    .concat();
    changed.retain(|path| !listed.is_hidden_by_directory(path));
    update_files(source, &changed)?;
    Ok(!changed.is_empty())
}

/// Puts the files at these paths into the copy of the index: added, changed or gone. Git refuses to look at what
/// the index has beyond a symlink. None of it is in the worktree, so it is taken out first.
///
/// # Errors
/// As [`bring_up_to_date`].
pub(super) fn update_files(source: &Source<'_>, paths: &[Vec<u8>]) -> Result<()> {
    let mut known = HashMap::new();
    let (beyond, paths): (Vec<_>, Vec<_>) =
        { paths.iter() }.partition(|path| is_beyond_symlink(source.worktree, path, &mut known));
    // Before git is started, which would read a file of any length, and wait at a FIFO for ever.
    require_readable(source.worktree, &paths)?;
    let owned = |paths: Vec<&Vec<u8>>| paths.into_iter().cloned().collect::<Vec<_>>();
    // Apart from the others: git refuses a whole list where one path is beyond a link.
    update(source, &["--force-remove"], &owned(beyond))?;
    update(source, &["--add", "--remove", "--replace"], &owned(paths))
}

/// Checks that git can look into these files: that none of them is without measure, and that no file of attributes
/// beside or above them keeps it waiting.
fn require_readable(top: &Path, paths: &[&Vec<u8>]) -> Result<()> {
    let mut directories = HashSet::new();
    for path in paths {
        let path = Path::new(OsStr::from_bytes(path));
        let place = top.join(path);
        if fs::symlink_metadata(&place).is_ok_and(|metadata| !metadata.is_symlink()) {
            untrusted::require_file(&place, LONGEST_FILE)?;
        }
        for directory in path.ancestors().skip(1) {
            // Then all directories above it were looked at as well.
            if !directories.insert(directory) {
                break;
            }
            let attributes = top.join(directory).join(".gitattributes");
            untrusted::require_file(&attributes, LONGEST_FILE)?;
        }
    }
    Ok(())
}

/// Whether a directory on the way to a path is a symlink. `known` remembers the answers by directory.
pub(super) fn is_beyond_symlink<'p>(
    top: &Path,
    path: &'p [u8],
    known: &mut HashMap<&'p [u8], bool>,
) -> bool {
    let Some(slash) = path.iter().rposition(|&byte| byte == b'/') else {
        return false;
    };
    let directory = &path[..slash];
    if let Some(answer) = known.get(directory) {
        return *answer;
    }
    let place = top.join(OsStr::from_bytes(directory));
    let answer = is_beyond_symlink(top, directory, known)
        || fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_symlink());
    known.insert(directory, answer);
    answer
}

fn update(source: &Source<'_>, options: &[&str], paths: &[Vec<u8>]) -> Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut command = git(source);
    command
        .arg("update-index")
        .args(options)
        .args(["-z", "--stdin"]);
    feed_paths(command, paths)
}
