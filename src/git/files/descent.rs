//! Going down into a tree of directories, one name at a time.
//!
//! Two directories are open at most, and each is opened from the one above it or below it: neither the length of a
//! path nor the number of open files is a limit. No link is followed.

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, chmodat, openat, readlinkat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// A way down from a directory.
pub(in crate::git) struct Descent {
    top: File,
    here: File,
    /// The names that lead here, each with the identity of the directory that it stands in.
    way: Vec<(OsString, Identity)>,
}

/// A device and a file on it.
type Identity = (u64, u64);

impl Descent {
    /// Stands in a directory.
    pub(in crate::git) fn begin(top: &Path) -> io::Result<Descent> {
        Descent::from(open(CWD, top.as_os_str())?)
    }

    fn from(top: File) -> io::Result<Descent> {
        Ok(Descent { here: top.try_clone()?, top, way: Vec::new() })
    }

    /// Goes into a directory.
    pub(in crate::git) fn enter(&mut self, name: OsString) -> io::Result<()> {
        let below = open(&self.here, &name)?;
        self.stand_in(name, below)
    }

    fn stand_in(&mut self, name: OsString, below: File) -> io::Result<()> {
        self.way.push((name, identity(&self.here)?));
        self.here = below;
        Ok(())
    }

    /// Goes back to the directory above and gives the name of the one that was left; `None` at the top.
    ///
    /// # Errors
    /// Also when the directory was moved meanwhile.
    pub(in crate::git) fn leave(&mut self) -> io::Result<Option<OsString>> {
        let Some((name, above)) = self.way.pop() else {
            return Ok(None);
        };
        self.here = match open(&self.here, OsStr::new("..")) {
            // One that cannot be searched does not lead up, either.
            Err(Errno::ACCESS) => {
                self.way.iter().try_fold(self.top.try_clone()?, |at, (name, _)| open(&at, name))?
            }
            opened => opened?,
        };
        // `..` of a directory that was moved leads to its new place, and what is done there next
        // would hit other files.
        if identity(&self.here)? == above {
            Ok(Some(name))
        } else {
            Err(io::Error::other("a directory was moved meanwhile"))
        }
    }

    /// What is in the directory, in no order.
    pub(in crate::git) fn entries(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut found = Vec::new();
        for entry in Dir::read_from(&self.here)? {
            let entry = entry?;
            let name = entry.file_name();
            let kind = match entry.file_type() {
                _ if matches!(name.to_bytes(), b"." | b"..") => continue,
                // Some file systems do not tell the kind with the name.
                FileType::Unknown => {
                    let stat = statat(&self.here, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                kind => kind,
            };
            found.push((OsStr::from_bytes(name.to_bytes()).to_owned(), kind));
        }
        Ok(found)
    }

    /// Opens a regular file.
    pub(in crate::git) fn file(&self, name: &OsStr) -> io::Result<File> {
        // NONBLOCK, because to open a FIFO waits for a writer otherwise.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = File::from(openat(&self.here, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is no regular file"))
        }
    }

    /// Where a symlink leads.
    pub(in crate::git) fn link(&self, name: &OsStr) -> io::Result<OsString> {
        let target = readlinkat(&self.here, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Removes all but the directories, and gives their names.
    fn clear(&self) -> io::Result<Vec<OsString>> {
        let mut directories = Vec::new();
        for (name, kind) in self.entries()? {
            if kind == FileType::Directory {
                directories.push(name);
            } else {
                self.unlink(&name, AtFlags::empty())?;
            }
        }
        Ok(directories)
    }

    /// Removes an entry, which another process may have done already.
    fn unlink(&self, name: &OsStr, flags: AtFlags) -> io::Result<()> {
        let removed = match unlinkat(&self.here, name, flags) {
            // A directory without write permission, as an agent's hooks are, keeps what it holds.
            Err(Errno::ACCESS) => {
                self.here.set_permissions(Permissions::from_mode(0o700))?;
                unlinkat(&self.here, name, flags)
            }
            removed => removed,
        };
        match removed {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// Lets the owner of a directory write to it, also where an agent has closed it.
///
/// # Errors
/// Those of opening it and of changing its mode.
pub fn open_to_owner(directory: &Path) -> io::Result<()> {
    let here = open_by_force(CWD, directory.as_os_str())?;
    let mode = here.metadata()?.permissions().mode();
    if mode & 0o700 == 0o700 {
        return Ok(());
    }
    here.set_permissions(Permissions::from_mode(mode | 0o700))
}

/// Removes a directory and all that is in it, however deep; of a symlink, the link.
///
/// # Errors
/// For the first entry that stays.
pub fn remove(doomed: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(doomed)?.is_dir() {
        return fs::remove_file(doomed);
    }
    let mut descent = Descent::from(open_by_force(CWD, doomed.as_os_str())?)?;
    let mut waiting = vec![descent.clear()?];
    while let Some(directories) = waiting.last_mut() {
        if let Some(name) = directories.pop() {
            let below = match open_by_force(&descent.here, &name) {
                Err(Errno::ACCESS) => {
                    let searchable = Permissions::from_mode(0o700);
                    descent.here.set_permissions(searchable)?;
                    open_by_force(&descent.here, &name)
                }
                below => below,
            };
            // Another process may clear the same directory.
            if !matches!(below, Err(Errno::NOENT)) {
                descent.stand_in(name, below?)?;
                waiting.push(descent.clear()?);
            }
        } else {
            waiting.pop();
            if let Some(name) = descent.leave()? {
                descent.unlink(&name, AtFlags::REMOVEDIR)?;
            }
        }
    }
    fs::remove_dir(doomed)
}

/// Gives us the right to read, write and search every directory below one, where it is ours to give; gives whether any lacked it.
///
/// # Errors
/// For the first directory that stays closed.
pub fn open_all(top: &Path) -> io::Result<bool> {
    let mut descent = Descent::begin(top)?;
    let mut was_closed = false;
    let mut waiting = vec![descent.entries()?];
    while let Some(entries) = waiting.last_mut() {
        let Some((name, kind)) = entries.pop() else {
            waiting.pop();
            descent.leave()?;
            continue;
        };
        if kind != FileType::Directory {
            continue;
        }
        let found = statat(&descent.here, &name, AtFlags::SYMLINK_NOFOLLOW)?;
        let mode = Mode::from_raw_mode(found.st_mode);
        if !mode.contains(Mode::RWXU) {
            chmodat(&descent.here, &name, mode | Mode::RWXU, AtFlags::empty())?;
            was_closed = true;
        }
        descent.enter(name)?;
        waiting.push(descent.entries()?);
    }
    Ok(was_closed)
}

/// Opens a directory, if need be with the right to read it.
pub(in crate::git) fn open_by_force(above: impl AsFd, name: &OsStr) -> rustix::io::Result<File> {
    match open(&above, name) {
        Err(Errno::ACCESS) => {
            chmodat(&above, name, Mode::RWXU, AtFlags::empty())?;
            open(&above, name)
        }
        opened => opened,
    }
}

fn open(above: impl AsFd, name: &OsStr) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty()).map(File::from)
}

fn identity(directory: &File) -> io::Result<Identity> {
    let metadata = directory.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes directories in one another, each closed to everybody, and a file in the last one.
    fn dig(top: &Path, depth: usize) {
        let mut here = open(CWD, top.as_os_str()).expect("opened");
        for _ in 0..depth {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).expect("made");
            let below = open(&here, OsStr::new("d")).expect("opened");
            here.set_permissions(Permissions::from_mode(0o500)).expect("closed");
            here = below;
        }
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat(&here, "file", flags, Mode::RWXU).expect("made");
    }

    #[test]
    fn closed_directories_are_opened_and_no_others() {
        let scratch = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(scratch.path().join("a/b/c")).expect("made");
        let mode = |path: &str, mode: Option<u32>| {
            let path = scratch.path().join(path);
            let set = |mode| fs::set_permissions(&path, Permissions::from_mode(mode));
            mode.map(set).transpose().expect("changed");
            fs::metadata(&path).expect("there").permissions().mode() & 0o7777
        };
        mode("a/b/c", Some(0o055));
        mode("a/b", Some(0));
        assert!(open_all(scratch.path()).expect("opened"));
        assert_eq!([mode("a/b", None), mode("a/b/c", None)], [0o700, 0o755]);
        assert!(!open_all(scratch.path()).expect("opened"));
    }

    #[test]
    fn neither_depth_nor_permissions_nor_links_keep_anything_from_being_removed() {
        let scratch = tempfile::tempdir().expect("a directory");
        let beside = scratch.path().join("beside");
        fs::write(&beside, "stays").expect("written");
        let doomed = scratch.path().join("doomed");
        fs::create_dir(&doomed).expect("made");
        std::os::unix::fs::symlink(scratch.path(), doomed.join("link")).expect("linked");
        dig(&doomed, 5_000);
        remove(&doomed).expect("removed");
        assert!(fs::symlink_metadata(&doomed).is_err());
        std::os::unix::fs::symlink(scratch.path(), &doomed).expect("linked");
        remove(&doomed).expect("removed");
        assert!(fs::symlink_metadata(&doomed).is_err());
        assert_eq!(fs::read_to_string(&beside).expect("read"), "stays");
    }
}
