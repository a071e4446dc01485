//! Where in a worktree a path leads, by its text and by the file system.
//!
//! The two differ where a symlink is on the way, and then they are two files to be judged: the agent
//! that follows the text and the kernel that follows the link each write one of them.

use crate::agents::real_path::real_path;
use crate::domain::tool_call;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The path below one of the `tops`, by its text and as the kernel would follow it; `None` where it is
/// below none of them.
pub(crate) fn locate(
    tops: &[PathBuf],
    directory: &Path,
    name: &[u8],
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let spelled = tool_call::locate(directory.as_os_str().as_bytes(), name)
        .and_then(|path| below(tops, Path::new(OsStr::from_bytes(&path))));
    let real =
        real_path(&directory.join(OsStr::from_bytes(name))).and_then(|path| below(tops, &path));
    (spelled, real)
}

fn below(tops: &[PathBuf], path: &Path) -> Option<Vec<u8>> {
    let inside = tops.iter().find_map(|top| path.strip_prefix(top).ok())?;
    Some(inside.as_os_str().as_bytes().to_owned())
}
