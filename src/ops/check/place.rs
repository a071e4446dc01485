//! Where in a worktree a path leads, by its text and by the file system.
//!
//! The two differ where a symlink is on the way, and then they are two files to be judged: the agent
//! that follows the text and the kernel that follows the link each write one of them.

use crate::domain::tool_call;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// As many symlinks as the kernel follows for one path (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The path below one of the `tops`, by its text and as the kernel would follow it; `None` where it is
/// below none of them.
pub(super) fn locate(
    tops: &[PathBuf],
    directory: &Path,
    name: &[u8],
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let spelled = tool_call::locate(directory.as_os_str().as_bytes(), name)
        .and_then(|path| below(tops, Path::new(OsStr::from_bytes(&path))));
    let real = follow(&directory.join(OsStr::from_bytes(name))).and_then(|path| below(tops, &path));
    (spelled, real)
}

fn below(tops: &[PathBuf], path: &Path) -> Option<Vec<u8>> {
    let inside = tops.iter().find_map(|top| path.strip_prefix(top).ok())?;
    Some(inside.as_os_str().as_bytes().to_owned())
}

/// Follows every symlink in an absolute path, the last one and dangling ones too; nothing has to
/// exist. `None` for a loop.
fn follow(path: &Path) -> Option<PathBuf> {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = parts(path).collect();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(&part);
        let Ok(target) = std::fs::read_link(&next) else {
            real = next;
            continue;
        };
        links += 1;
        if links > MOST_LINKS {
            return None;
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        }
        for part in parts(&target).collect::<Vec<_>>().into_iter().rev() {
            rest.push_front(part);
        }
    }
    Some(real)
}

/// The names and `..` of a path.
fn parts(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components()
        .map(|part| part.as_os_str().to_owned())
        .filter(|part| part != "/" && part != ".")
}
