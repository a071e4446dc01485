//! Files that share their content with others by a hard link, made files of their own.
//!
//! Package managers such as pnpm and uv link what they install from one store that all worktrees share. What runs behind a fence may
//! write the files of its worktree, and a write through such a link changes the store and every other worktree.

use crate::agents::ignored_files::copy_file;
use crate::agents::parallel;
use crate::error::{Error, IoContext, Result};
use crate::store::fsx;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Replaces every file below a directory that has another name somewhere by a copy. Blocks are shared where the file system can do
/// that.
///
/// # Errors
/// `io`, `disk-full`.
pub(crate) fn separate(directory: &Path) -> Result<()> {
    let mut linked: Vec<PathBuf> = Vec::new();
    for entry in WalkDir::new(directory).follow_links(false) {
        let entry = entry.map_err(|error| {
            let what = format!("could not read {}", directory.display());
            Error::io(what, error.into())
        })?;
        if !entry.file_type().is_file() {
            continue;
        }
        let path = entry.into_path();
        let metadata = fs::symlink_metadata(&path).at("could not look at", &path)?;
        if metadata.nlink() > 1 {
            linked.push(path);
        }
    }
    parallel::map(&linked, |path| separate_one(path))
        .into_iter()
        .collect()
}

fn separate_one(path: &Path) -> Result<()> {
    let copy = fsx::unique_name(path);
    copy_file(path, &copy)?;
    fs::rename(&copy, path).at("could not replace", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linked_file_becomes_one_of_its_own_and_others_stay() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let (store, worktree) = (dir.path().join("store"), dir.path().join("worktree"));
        fs::create_dir_all(worktree.join("node_modules")).expect("made");
        fs::write(&store, "content\n").expect("written");
        let linked = worktree.join("node_modules/index.js");
        fs::hard_link(&store, &linked).expect("linked");
        let own = worktree.join("own");
        fs::write(&own, "own\n").expect("written");
        let inode = |path: &Path| fs::metadata(path).expect("there").ino();
        let before = inode(&own);

        separate(&worktree).expect("separated");
        fs::write(&linked, "POISON\n").expect("written");
        assert_eq!(fs::read_to_string(&store).expect("read"), "content\n");
        assert_eq!(inode(&own), before);
        let names = fs::read_dir(worktree.join("node_modules")).expect("read");
        assert_eq!(names.count(), 1, "no copy is left beside it");
    }
}
