//! Removing a directory: renamed away first, so that what bears its name is whole or gone.

use super::{fsx, layout};
use crate::error::{IoContext, Result};
use crate::git::files::descent;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// At how many files is looked to tell what they take of the disk.
const LOOKED_AT: usize = 100_000;

/// The unit in which the system counts what a file takes of the disk, in bytes.
const BLOCK: u64 = 512;

/// Renames a directory into `<common dir>/agents/trash/` and deletes it there. On another file system,
/// where it cannot be renamed, or on one that is full, it is deleted in place. Symlinks are removed, never followed.
///
/// # Errors
/// `io`.
pub fn remove(common_dir: &Path, directory: &Path) -> Result<()> {
    match take(common_dir, directory)? {
        Some(name) => delete(&layout::trash_dir(common_dir).join(name)),
        None => Ok(()),
    }
}

/// Renames a directory into the trash and gives its name there, to be deleted later.
/// `None` when it is gone at once.
///
/// # Errors
/// `io`.
pub fn take(common_dir: &Path, directory: &Path) -> Result<Option<String>> {
    let trash = layout::trash_dir(common_dir);
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let moved = fsx::unique_name(&trash.join(name.as_ref()));
    let renamed = fs::create_dir_all(&trash).and_then(|()| fs::rename(directory, &moved));
    match renamed {
        Ok(()) => {
            let name = moved.file_name().unwrap_or_default();
            Ok(Some(name.to_string_lossy().into_owned()))
        }
        // On a full disk there may be no room even for the trash; deleting makes some.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::CrossesDevices | ErrorKind::StorageFull | ErrorKind::QuotaExceeded
            ) =>
        {
            delete(directory).map(|()| None)
        }
        Err(error) => Err(error).at("could not move away", directory),
    }
}

/// Deletes what [`take`] gave these names. What cannot be deleted stays for the next time.
pub fn empty(common_dir: &Path, names: &[String]) {
    for name in names {
        // A bare file name: nothing outside of the trash is ever deleted.
        if Path::new(name).file_name() == Some(name.as_ref()) {
            let _ = delete(&layout::trash_dir(common_dir).join(name));
        }
    }
}

/// What has lain in the trash since before that moment, in seconds since the epoch: the process that was deleting
/// it is gone.
pub fn left_behind(common_dir: &Path, before: i64) -> Vec<String> {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir(layout::trash_dir(common_dir));
    let old = |entry: &fs::DirEntry| entry.metadata().is_ok_and(|file| file.ctime() < before);
    let entries = entries.into_iter().flatten().flatten().filter(old);
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// How much of the disk these take, in bytes, as far as their first 100,000 files tell.
pub fn disk_use(places: &[PathBuf]) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = places
        .iter()
        .flat_map(|place| WalkDir::new(place).into_iter().flatten());
    let files = files
        .take(LOOKED_AT)
        .filter_map(|file| file.metadata().ok());
    files.map(|file| file.blocks() * BLOCK).sum()
}

fn delete(doomed: &Path) -> Result<()> {
    descent::remove(doomed).at("could not remove", doomed)
}
