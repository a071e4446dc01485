//! The overlay mount of a layered worktree (the kernel's `overlayfs.rst`).
//!
//! ```text
//! 1. open     the four directories, by which they are mounted: no path is looked up twice
//! 2. mount    where the base was set up
//! 3. probe    the mount comes up read-only, or without what it needs, and the kernel says nothing
//! 4. bind     the same files at the agent's worktree
//! ```
//!
//! - `userxattr`: the attributes of the kernel's own are not for users, and without it the mount falls back without a word.
//! - `volatile`: else the last process to leave waits until everything that the whole file system has to write is written. The
//!   supervisor syncs before it says that a run is over. The price is that a work directory serves for one mount.
//!
//! What is below the mount, and what it writes to, is out of the command's reach: both lie in the directory of agents, which is
//! hidden; a base that lies at the place of the mount is covered by it.

use super::landlock::open;
use crate::domain::life::sandbox::{Fence, LayerMount};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, StatVfsMountFlags, Timespec, Timestamps, XattrFlags, futimens, mkdirat,
    renameat, unlinkat,
};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use std::ffi::CString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Names that a probe makes and removes.
const PROBES: [&str; 2] = [".git-agent-probe", ".git-agent-probe-2"];
const ATTRIBUTE: &str = "user.git-agent.probe";

/// Takes the lock of the upper directory, which the file holds.
///
/// # Errors
/// One sentence, where another process has it.
pub(super) fn lock(layer: &LayerMount) -> Result<File, String> {
    let fail = |error: &dyn std::fmt::Display| {
        format!("could not lock {}: {error}", layer.upper.display())
    };
    let file = File::open(&layer.upper).map_err(|error| fail(&error))?;
    // Never waited for: a process that holds it runs in this very worktree.
    file.try_lock().map_err(|error| fail(&error))?;
    Ok(file)
}

/// Mounts it in the mount namespace of this process.
///
/// # Errors
/// One sentence.
pub(super) fn mount_layer(layer: &LayerMount) -> Result<(), String> {
    let fail = |what: &str, path: &Path, error: Errno| {
        format!("could not {what} {} for a layered worktree: {error}", path.display())
    };
    let opened = |path: &Path| {
        let (file, _) = open(path).map_err(|error| fail("open", path, error))?;
        Ok::<OwnedFd, String>(file)
    };
    let (base, upper) = (opened(&layer.base)?, opened(&layer.upper)?);
    let (work, place) = (opened(&layer.work)?, opened(&layer.place)?);
    // Tried before the mount, which comes up without what it needs and says nothing of it.
    require_attributes(&layer.upper)
        .map_err(|error| fail("give attributes to", &layer.upper, error))?;
    let worktree =
        layer.worktree.as_deref().map(|path| Ok::<_, String>((path, opened(path)?))).transpose()?;
    overlay(&base, &upper, &work, &place)
        .map_err(|error| fail("mount an overlay on", &layer.place, error))?;
    // Only now its path leads to the mount.
    let mounted = opened(&layer.place)?;
    probe(&layer.place).map_err(|error| fail("write to", &layer.place, error))?;
    worktree.map_or(Ok(()), |(path, worktree)| {
        mount_bind(link(&mounted), link(&worktree))
            .map_err(|error| fail("show the files at", path, error))
    })
}

/// Mounts a private view of a cache, as far as the kernel lets us: one that cannot be written is taken away again.
///
/// # Errors
/// Any of the kernel's.
pub(super) fn mount_cache(cache: &LayerMount) -> Result<(), Errno> {
    let opened = |path: &Path| open(path).map(|(file, _)| file);
    let (base, upper) = (opened(&cache.base)?, opened(&cache.upper)?);
    let (work, place) = (opened(&cache.work)?, opened(&cache.place)?);
    require_attributes(&cache.upper)?;
    overlay(&base, &upper, &work, &place)?;
    // What [`probe`] does costs more than the mount, and of a cache nothing but this can be missed.
    let mounted = rustix::fs::statvfs(&cache.place)?;
    if mounted.f_flag.contains(StatVfsMountFlags::RDONLY) {
        unmount(&cache.place, UnmountFlags::DETACH)?;
        return Err(Errno::ROFS);
    }
    Ok(())
}

fn overlay(base: &OwnedFd, upper: &OwnedFd, work: &OwnedFd, place: &OwnedFd) -> Result<(), Errno> {
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr,volatile",
        link(base),
        link(upper),
        link(work)
    );
    let options = CString::new(options).unwrap_or_default();
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("overlay", link(place), "overlay", flags, options.as_c_str())
}

/// Covers what the mount is made of, so that the worktree is taken for an ordinary one.
///
/// # Errors
/// One sentence.
pub(super) fn cover(layer: &LayerMount) -> Result<(), String> {
    let place = layer.upper.parent().unwrap_or(&layer.upper);
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", place, "tmpfs", flags, None)
        .map_err(|error| format!("could not cover {}: {error}", place.display()))
}

fn link(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

/// Whether the upper directory can have the attributes by which an overlay tells what is gone.
fn require_attributes(upper: &Path) -> Result<(), Errno> {
    rustix::fs::lsetxattr(upper, ATTRIBUTE, b"y", XattrFlags::empty())?;
    rustix::fs::lremovexattr(upper, ATTRIBUTE)
}

/// Does in the mount what an overlay without its work directory cannot do.
fn probe(top: &Path) -> Result<(), Errno> {
    let top = File::open(top).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let before = rustix::fs::fstat(&top)?;
    let [first, second] = PROBES;
    // A killed probe may have left either.
    for name in PROBES {
        let _ = unlinkat(&top, name, AtFlags::REMOVEDIR);
    }
    mkdirat(&top, first, Mode::RWXU)?;
    unlinkat(&top, first, AtFlags::REMOVEDIR)?;
    mkdirat(&top, first, Mode::RWXU)?;
    renameat(&top, first, &top, second)?;
    unlinkat(&top, second, AtFlags::REMOVEDIR)?;
    // By its time it is told afterwards whether a command made or removed something here.
    let time =
        |tv_sec, nanoseconds| Timespec { tv_sec, tv_nsec: i64::try_from(nanoseconds).unwrap_or(0) };
    let times = Timestamps {
        last_access: time(before.st_atime, before.st_atime_nsec),
        last_modification: time(before.st_mtime, before.st_mtime_nsec),
    };
    futimens(&top, &times)
}

/// Finds the places of a mounted layer that a fence leaves open: a directory, of which the path ends in `/`, is made where it is
/// missing; in place of a file that is missing its directory is opened, since making a file is a right on the directory.
///
/// # Errors
/// One sentence, for a symlink on the way too, behind which anything could be.
pub(super) fn find_places(fence: &mut Fence) -> Result<(), String> {
    let Some(layer) = &fence.layer else { return Ok(()) };
    let tops: Vec<&PathBuf> = layer.worktree.iter().chain([&layer.place]).collect();
    let mut found = Vec::new();
    for place in std::mem::take(&mut fence.writable) {
        let is_directory = place.as_os_str().as_bytes().ends_with(b"/");
        match tops.iter().find_map(|top| Some((*top, place.strip_prefix(top).ok()?))) {
            Some((top, inside)) => found.extend(find_place(top, inside, is_directory)?),
            None => found.push(place),
        }
    }
    fence.writable = found;
    Ok(())
}

/// `None` where nothing can be written by that path.
fn find_place(top: &Path, inside: &Path, is_directory: bool) -> Result<Option<PathBuf>, String> {
    let mut path = top.to_owned();
    let mut parts = inside.iter().peekable();
    while let Some(part) = parts.next() {
        let above = path.clone();
        path.push(part);
        let is_file = !is_directory && parts.peek().is_none();
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() || is_file && metadata.is_file() => {}
            Ok(_) if is_file => return Ok(Some(above)),
            Ok(metadata) if metadata.is_symlink() => {
                let (inside, link) = (inside.display(), path.display());
                return Err(format!(
                    "strict cannot fence `{inside}`: {link} is a symlink; --sandbox require lets it write all"
                ));
            }
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound && is_file => return Ok(Some(above)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let made = fs::create_dir(&path);
                made.map_err(|error| format!("could not make {}: {error}", path.display()))?;
            }
            Err(error) => return Err(format!("could not look at {}: {error}", path.display())),
        }
    }
    Ok(Some(path))
}
