//! Removing a directory: renamed away first, so that what bears its name is whole or gone.

use super::{fsx, layout};
use crate::error::{IoContext, Result};
use std::fs;
use std::path::Path;

/// Renames a directory into `<common dir>/agents/trash/` and deletes it there. On another file system,
/// where it cannot be renamed, it is deleted in place. Symlinks are removed, never followed.
///
/// # Errors
/// `io`.
pub fn remove(common_dir: &Path, directory: &Path) -> Result<()> {
    let trash = layout::trash_dir(common_dir);
    fs::create_dir_all(&trash).at("could not make", &trash)?;
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let moved = fsx::unique_name(&trash.join(name.as_ref()));
    let doomed = match fs::rename(directory, &moved) {
        Ok(()) => moved.as_path(),
        Err(error) if error.kind() == std::io::ErrorKind::CrossesDevices => directory,
        Err(error) => return Err(error).at("could not move away", directory),
    };
    match fs::remove_dir_all(doomed) {
        // A directory without write permission, as an agent's hooks are, keeps what it holds.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            make_directories_writable(doomed);
            fs::remove_dir_all(doomed).at("could not remove", doomed)
        }
        other => other.at("could not remove", doomed),
    }
}

/// What cannot be changed shows up when it cannot be removed.
fn make_directories_writable(top: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let directories = walkdir::WalkDir::new(top).into_iter().flatten();
    for directory in directories.filter(|entry| entry.file_type().is_dir()) {
        let _ = fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700));
    }
}
