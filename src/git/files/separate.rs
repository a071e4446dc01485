//! Files of a directory that share their content with files outside of it (hard links).
//!
//! Package managers link what they install from a store of theirs (pnpm and uv by default). A process that may write in the
//! directory alone writes into the store all the same, and into every other directory that links it: permissions
//! and fences are a matter of paths, content is one of inodes. So such a file gets a copy of its own. Files that share
//! their content among themselves alone, as cargo's do, keep doing that.

use crate::error::{Error, Result};
use crate::system;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fchmod, futimens, linkat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{io, thread};

/// What the name of a half-made copy ends with.
const HALF_MADE: &str = ".git-agent-copy";

/// The names below the directory that lead to one content.
#[derive(Default)]
struct SharedContent {
    /// How many there are anywhere.
    links: u64,
    names: Vec<(PathBuf, CString)>,
}

/// Gives every file below a directory a content that no file outside of it shares. Gives how many were copied. No link is followed.
///
/// # Errors
/// `io`, which names the file for which that fails.
pub fn separate(top: &Path) -> Result<usize> {
    walk(top).map_err(|(inside, error)| {
        let path = top.join(inside);
        let what = format!(
            "could not copy {}, which shares its content with a file outside of the worktree",
            path.display()
        );
        Error::io(what, error).hint(
            "to have package managers copy what they install, set package-import-method=copy (pnpm) or UV_LINK_MODE=copy (uv)",
        )
    })
}

/// What could not be done, and below which path.
type Failure = (PathBuf, io::Error);

fn walk(top: &Path) -> std::result::Result<usize, Failure> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |error: Errno| (path, io::Error::from(error))
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = openat(CWD, top, flags, Mode::empty()).map_err(fail(Path::new("")))?;
    let mut shared: HashMap<(u64, u64), SharedContent> = HashMap::new();
    let mut open = vec![PathBuf::new()];
    while let Some(inside) = open.pop() {
        let Some(directory) = enter(&root, &inside).map_err(fail(&inside))? else {
            continue;
        };
        list(&directory, &inside, &mut open, &mut shared).map_err(fail(&inside))?;
    }
    // Only now it is known which of the links are in here.
    let across = shared.into_values().filter(|one| one.links > one.names.len() as u64);
    let mut copied = 0;
    for one in across {
        copied += replace(&root, &one.names)?;
    }
    Ok(copied)
}

/// Opens a directory below the root. What is gone, or has become something else, holds nothing; a path that is longer than the
/// kernel takes was not made by a set-up.
fn enter(root: &OwnedFd, inside: &Path) -> std::result::Result<Option<OwnedFd>, Errno> {
    let path = if inside.as_os_str().is_empty() { Path::new(".") } else { inside };
    match system::open_directory(root.as_fd(), path.as_os_str().as_bytes()) {
        Ok(directory) => Ok(Some(directory)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG | Errno::ACCESS) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Notes the directories in this one, and the files that have other names.
fn list(
    directory: &OwnedFd,
    inside: &Path,
    open: &mut Vec<PathBuf>,
    shared: &mut HashMap<(u64, u64), SharedContent>,
) -> std::result::Result<(), Errno> {
    let mut failed = None;
    let complete = system::each_name(directory, |name, file_type| {
        if matches!(name.to_bytes(), b"." | b"..") || file_type == FileType::Symlink {
            return Some(());
        }
        if file_type == FileType::Directory {
            open.push(inside.join(OsStr::from_bytes(name.to_bytes())));
            return Some(());
        }
        match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => note(found, inside, name, open, shared),
            Err(Errno::NOENT) => {}
            Err(error) => {
                failed = Some(error);
                return None;
            }
        }
        Some(())
    });
    match (complete, failed) {
        (_, Some(error)) => Err(error),
        (None, None) => Err(Errno::IO),
        (Some(()), None) => Ok(()),
    }
}

fn note(
    found: Stat,
    inside: &Path,
    name: &CStr,
    open: &mut Vec<PathBuf>,
    shared: &mut HashMap<(u64, u64), SharedContent>,
) {
    match FileType::from_raw_mode(found.st_mode) {
        // Some file systems do not say what a name stands for.
        FileType::Directory => open.push(inside.join(OsStr::from_bytes(name.to_bytes()))),
        FileType::RegularFile if found.st_nlink > 1 => {
            let one = shared.entry((wide(found.st_dev), wide(found.st_ino))).or_default();
            one.links = wide(found.st_nlink);
            one.names.push((inside.to_owned(), name.to_owned()));
        }
        _ => {}
    }
}

/// A number as every system has it.
fn wide(number: impl TryInto<u64>) -> u64 {
    number.try_into().unwrap_or(u64::MAX)
}

/// Puts one copy in the place of all these names.
fn replace(root: &OwnedFd, names: &[(PathBuf, CString)]) -> std::result::Result<usize, Failure> {
    let mut made: Option<(OwnedFd, &CStr)> = None;
    for (inside, name) in names {
        let path = || inside.join(OsStr::from_bytes(name.to_bytes()));
        let fail = |error: io::Error| (path(), error);
        let Some(directory) = enter(root, inside).map_err(|error| fail(error.into()))? else {
            continue;
        };
        let half_made = [name.to_bytes(), HALF_MADE.as_bytes()].concat();
        let half_made = OsStr::from_bytes(&half_made);
        // One that a killed process left.
        let _ = unlinkat(&directory, half_made, AtFlags::empty());
        let done = match &made {
            None => copy(&directory, name, half_made),
            // The names that share a content go on sharing it: cargo links what it builds, and a
            // copy for each name would double the disk space.
            Some((above, first)) => linkat(above, *first, &directory, half_made, AtFlags::empty())
                .map_err(io::Error::from),
        };
        let done = done.and_then(|()| {
            // The rename replaces the name in one step, so no process finds the file missing.
            Ok(renameat(&directory, half_made, &directory, name.as_c_str())?)
        });
        if let Err(error) = done {
            let _ = unlinkat(&directory, half_made, AtFlags::empty());
            return Err(fail(error));
        }
        made.get_or_insert((directory, name));
    }
    Ok(usize::from(made.is_some()))
}

/// Makes a copy with the mode and the times of the original, by which build tools know what is up to date.
fn copy(directory: &OwnedFd, name: &CStr, to: &OsStr) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut from = File::from(openat(directory, name, flags, Mode::empty())?);
    let found = rustix::fs::fstat(&from)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(io::Error::other("it is no regular file any more"));
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // Private until the mode of the original is known to be right for it.
    let mut copy = File::from(openat(directory, to, flags, Mode::RUSR | Mode::WUSR)?);
    if !system::clone_blocks(&copy, &from) {
        io::copy(&mut from, &mut copy)?;
    }
    // After the content, since the original may be read-only. The bits above these, such as
    // set-user-id, are left out: the copy is the agent's.
    fchmod(&copy, Mode::from_raw_mode(found.st_mode & 0o777))?;
    // The time is last: writing would change it.
    futimens(
        &copy,
        &Timestamps {
            last_access: Timespec { tv_sec: found.st_atime, tv_nsec: found.st_atime_nsec as _ },
            last_modification: Timespec {
                tv_sec: found.st_mtime,
                tv_nsec: found.st_mtime_nsec as _,
            },
        },
    )?;
    Ok(())
}

// Telling by its stat data alone that a file was not replaced or written since an earlier look.
//
// Equal numbers do not prove that by themselves. Many file systems give the inode number of a removed file to the next one that is
// made, and their clocks tick every few milliseconds: what is written in the tick of the first look can bear all of its
// numbers. So an earlier look counts only if the file had been left alone for longer than a tick by then. Every other
// comparison errs towards "changed", and its caller reads the content.
//
// The time that decides is that of the last status change (`ctime`): programs set modification times as they like.

/// For so long a file has to be left alone: the clocks of kernels and file systems tick every 10 ms, or more often.
pub(in crate::git) const TICK: Duration = Duration::from_millis(20);

/// What a look at a file saw of it.
#[derive(Clone, Copy, Debug)]
pub struct FileStamp {
    /// Device, inode, size, and the times of the last change of status and of content in seconds and nanoseconds.
    numbers: [i128; 7],
    /// When the look was, in seconds and nanoseconds, if the file was changed shortly before.
    in_doubt_at: Option<(i64, i64)>,
}

impl FileStamp {
    /// Looks at what has a path, a symlink itself; `None` where nothing can be seen.
    pub fn of(path: &Path) -> Option<FileStamp> {
        let file = fs::symlink_metadata(path).ok()?;
        let numbers = [
            file.dev().into(),
            file.ino().into(),
            file.size().into(),
            file.ctime().into(),
            file.ctime_nsec().into(),
            file.mtime().into(),
            file.mtime_nsec().into(),
        ];
        // The clock is read after the file: read before, it could show a file as left alone that
        // was changed in between.
        let now = now();
        let is_left_alone = is_past(now, file.ctime().into(), file.ctime_nsec().into());
        Some(FileStamp { numbers, in_doubt_at: (!is_left_alone).then_some(now) })
    }

    /// Whether two looks at a path show that what is there, if anything, was not changed in between.
    pub fn is_unchanged(before: Option<&FileStamp>, now: Option<&FileStamp>) -> bool {
        match (before, now) {
            (Some(before), Some(now)) => {
                before.in_doubt_at.is_none() && before.numbers == now.numbers
            }
            (before, now) => before.is_none() && now.is_none(),
        }
    }
}

/// Waits until whatever is changed from now on gets another time than these files bear.
pub fn wait_for_another_time<'s>(mut files: impl Iterator<Item = &'s Stat>) {
    let now = now();
    if !files.all(|stat| is_past(now, stat.st_ctime.into(), stat.st_ctime_nsec.into())) {
        thread::sleep(TICK * 2);
    }
}

/// Whether `now` is so long after a moment, given in seconds and nanoseconds, that whatever happens from now on bears another
/// time.
pub(in crate::git) fn is_past(now: (i64, i64), seconds: i128, nanoseconds: i128) -> bool {
    let (since, beyond) = (i128::from(now.0) - seconds, i128::from(now.1) - nanoseconds);
    // A file system that knows seconds alone writes no other.
    match nanoseconds {
        0 => since > 0,
        _ => since * 1_000_000_000 + beyond >= TICK.as_nanos().cast_signed(),
    }
}

/// What the clock of the kernel says, which is that of its file systems.
#[expect(clippy::useless_conversion, reason = "the types of these fields differ between systems")]
fn now() -> (i64, i64) {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec.into(), now.tv_nsec.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn what_is_shared_with_a_file_outside_gets_a_content_of_its_own() {
        let place = tempfile::tempdir().expect("directory");
        let (store, top) = (place.path().join("store"), place.path().join("top"));
        fs::create_dir_all(top.join("a/b")).expect("directories");
        fs::write(&store, "original").expect("written");
        fs::set_permissions(&store, fs::Permissions::from_mode(0o555)).expect("set");
        let shared = [top.join("one"), top.join("a/b/two")];
        for path in &shared {
            fs::hard_link(&store, path).expect("linked");
        }
        let own = [top.join("three"), top.join("a/four")];
        fs::write(&own[0], "own").expect("written");
        fs::hard_link(&own[0], &own[1]).expect("linked");
        std::os::unix::fs::symlink(&store, top.join("link")).expect("linked");
        let inode = |path: &PathBuf| fs::metadata(path).expect("there").ino();
        let before = (inode(&store), inode(&own[0]));
        assert_eq!(separate(&top).expect("separated"), 1);
        assert_ne!(inode(&shared[0]), before.0);
        assert_eq!(inode(&shared[0]), inode(&shared[1]));
        let metadata = fs::metadata(&shared[1]).expect("there");
        let original = fs::metadata(&store).expect("there");
        assert_eq!(original.nlink(), 1);
        assert_eq!(metadata.mode(), original.mode());
        assert_eq!(
            (metadata.mtime(), metadata.mtime_nsec()),
            (original.mtime(), original.mtime_nsec())
        );
        assert_eq!(fs::read(&shared[1]).expect("there"), b"original");
        assert_eq!((inode(&own[0]), inode(&own[1])), (before.1, before.1));
        assert_eq!(separate(&top).expect("separated"), 0);
        assert_eq!(fs::read_dir(&top).expect("listed").count(), 4);
    }

    #[test]
    fn a_file_in_place_of_another_is_never_taken_for_it() {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("file");
        for (content, other) in [("a", "b"), ("b", "a")].repeat(200) {
            fs::write(&path, content).expect("written");
            let before = FileStamp::of(&path);
            fs::remove_file(&path).expect("removed");
            fs::write(&path, other).expect("written");
            let now = FileStamp::of(&path);
            assert!(!FileStamp::is_unchanged(before.as_ref(), now.as_ref()));
        }
    }

    #[test]
    fn a_file_that_was_left_alone_is_known_again() {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("file");
        fs::write(&path, "content").expect("written");
        let stat = rustix::fs::stat(&path).expect("there");
        wait_for_another_time([&stat].into_iter());
        let before = FileStamp::of(&path);
        let is_as_before =
            || FileStamp::is_unchanged(before.as_ref(), FileStamp::of(&path).as_ref());
        assert!(is_as_before());
        fs::write(&path, "Content").expect("written");
        assert!(!is_as_before());
    }
}
