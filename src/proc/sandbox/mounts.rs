//! The command's view of the file system: everything is read-only but its own places, and what belongs to others is not there.
//!
//! ```text
//! 1. open      every place, before anything covers it; no symlink leads there
//! 2. hide      an empty file system over each hidden directory, and in it what is to be seen of it
//! 3. bind      each own place onto itself, so that it is a mount of its own
//! 4. close     every mount but those is made read-only
//! 5. replace   programs by the scripts of the guard; such a mount is read-only as what it shows is
//! 6. renew     /proc for its own processes, /dev/mqueue for its own queues
//! ```
//!
//! The kernel has one call for step 4 (mount_setattr(2)), for which no safe wrapper exists; mount by mount is what
//! bubblewrap does, too. As nothing propagates into this namespace, no mount can appear meanwhile.

use super::landlock::open;
use crate::domain::life::sandbox::{Fence, GitGuard};
use crate::proc::sandbox::git_guard::{self, GuardedProgram};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, fstat, statx};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_bind, mount_bind_recursive, mount_remount};
use rustix::process::{chdir, getcwd};
use rustix::stdio::{dup2_stdin, stdin};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What programs may do on a file system that holds no programs and no devices.
const PLAIN: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV).union(MountFlags::NOEXEC);

/// A mount, as the kernel lists it (proc_pid_mountinfo(5)).
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    id: u64,
    pub(super) path: PathBuf,
    flags: MountFlags,
}

/// A place of the command's, opened before anything was mounted.
struct OpenedPlace<'a> {
    path: &'a Path,
    file: OwnedFd,
    is_directory: bool,
    is_own: bool,
}

/// Arranges the mounts of this process's own mount namespace. Its working directory and standard input are the same files
/// afterwards, seen through the new mounts.
///
/// # Errors
/// One sentence.
pub(super) fn arrange(fence: &Fence, has_processes: bool) -> Result<(), String> {
    let directory = getcwd(Vec::new()).map_err(|error| fail("find", "working directory", error))?;
    let input = input();
    let hidden: Vec<&Path> = fence
        .hidden
        .iter()
        .map(PathBuf::as_path)
        // What the caller opened on purpose stays open.
        .filter(|hidden| !fence.writable.iter().any(|place| hidden.starts_with(place)))
        .collect();
    let places = places(fence, &hidden)?;
    hide(&hidden)?;
    for place in &places {
        bind(place, &hidden).map_err(|error| fail("bind", place.path.display(), error))?;
    }
    let guard = fence.guard.as_ref();
    let replacements = guard.map(|guard| prepare(guard, fence.layer.is_some()));
    let replacements = replacements.transpose()?.unwrap_or_default();
    let own: Vec<&Path> =
        places.iter().filter(|place| place.is_own).map(|place| place.path).collect();
    close(&own)?;
    for (one, original) in &replacements {
        replace(one, original).map_err(|error| fail("replace", one.original.display(), error))?;
    }
    renew(has_processes)?;
    // What a process has open it sees through the mount where it opened it, which was writable.
    chdir(&directory).map_err(|error| fail("enter", "working directory", error))?;
    if let Some(path) = input {
        reopen(&path);
    }
    Ok(())
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

fn fail(what: &str, path: impl std::fmt::Display, error: Errno) -> String {
    format!("could not {what} {path} for the sandbox: {error}")
}

/// Opens every place that is to be seen, those above others first. A place below one that is writable anyway needs no mount,
/// and renaming from one to the other works only without.
fn places<'a>(fence: &'a Fence, hidden: &[&Path]) -> Result<Vec<OpenedPlace<'a>>, String> {
    let own = fence.own.iter().chain(&fence.writable);
    let mut wanted: Vec<(&Path, bool)> = own.map(|path| (path.as_path(), true)).collect();
    let is_hidden = |path: &Path| hidden.iter().any(|hidden| path.starts_with(hidden));
    let shown = fence.shown.iter().filter(|path| is_hidden(path));
    wanted.extend(shown.map(|path| (path.as_path(), false)));
    wanted.sort_unstable();
    let mut places: Vec<OpenedPlace<'a>> = Vec::new();
    for (path, is_own) in wanted {
        let is_in_own = |place: &OpenedPlace<'_>| place.is_own && path.starts_with(place.path);
        if places.iter().any(is_in_own) {
            continue;
        }
        match open(path) {
            Ok((file, file_type)) => places.push(OpenedPlace {
                path,
                file,
                is_directory: file_type == FileType::Directory,
                is_own,
            }),
            // What is shown may be gone by now, and nothing depends on it.
            Err(_) if !is_own => {}
            Err(error) => return Err(fail("open", path.display(), error)),
        }
    }
    Ok(places)
}

/// Covers each of these with an empty file system, but those that are below another one.
fn hide(hidden: &[&Path]) -> Result<(), String> {
    for path in hidden {
        let is_below = |other: &&&Path| **other != *path && path.starts_with(other);
        // An empty file system can cover a directory alone, and what does not exist needs no cover.
        if hidden.iter().find(is_below).is_some() || !path.is_dir() {
            continue;
        }
        mount("tmpfs", *path, "tmpfs", PLAIN, c"mode=755")
            .map_err(|error| fail("hide", path.display(), error))?;
    }
    Ok(())
}

/// Makes a mount of its own of a place, at its own path.
fn bind(place: &OpenedPlace<'_>, hidden: &[&Path]) -> Result<(), Errno> {
    if place.path == Path::new("/") {
        // Everything is its own, and what is mounted on the root is not seen by a process whose root it is.
        return Ok(());
    }
    let io = |error: std::io::Error| errno(&error);
    // What is shown of a hidden directory needs something to be mounted on, and the file system
    // over it is empty.
    if hidden.iter().any(|hidden| place.path.starts_with(hidden)) && !place.path.exists() {
        let above = place.path.parent().unwrap_or(place.path);
        if place.is_directory {
            fs::create_dir_all(place.path).map_err(io)?;
        } else {
            fs::create_dir_all(above).map_err(io)?;
            fs::write(place.path, b"").map_err(io)?;
        }
    }
    // Mounted by the descriptor, because the path may lead elsewhere by now.
    let source = format!("/proc/self/fd/{}", place.file.as_raw_fd());
    mount_bind_recursive(source, place.path)
}

/// Writes the scripts of the guard to a file system of their own, and opens each program before anything covers it. A program that is
/// gone by now needs no script.
fn prepare(guard: &GitGuard, is_layered: bool) -> Result<Vec<(GuardedProgram, OwnedFd)>, String> {
    let refused = |error| fail("make", guard.place.display(), error);
    // Everywhere but below a hidden directory, which is in memory already, it stays empty on the disk.
    fs::create_dir_all(&guard.place).map_err(|error| refused(errno(&error)))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", &guard.place, "tmpfs", flags, c"mode=755").map_err(refused)?;
    let written = git_guard::write_guard(guard, is_layered);
    let mut programs = Vec::new();
    for program in written.map_err(|error| refused(errno(&error)))? {
        match open(&program.original) {
            Ok((original, _)) => programs.push((program, original)),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(fail("open", program.original.display(), error)),
        }
    }
    Ok(programs)
}

/// Mounts a script over a program, and the program where the script can become it. No path leads past a mount, not one through
/// `/proc/self/root` either, and a copy is a copy of what lies there.
fn replace(one: &GuardedProgram, original: &OwnedFd) -> Result<(), Errno> {
    let (script, _) = open(&one.script)?;
    let link = |file: &OwnedFd| format!("/proc/self/fd/{}", file.as_raw_fd());
    mount_bind(link(original), &one.kept)?;
    mount_bind(link(&script), &one.original)
}

/// Makes every mount read-only but those of the command's own places, and those below them.
fn close(own: &[&Path]) -> Result<(), String> {
    let unreadable = |error: std::io::Error| format!("could not list the mounts: {error}");
    for mount in all().map_err(unreadable)? {
        if own.iter().any(|place| mount.path.starts_with(place)) {
            continue;
        }
        // A user namespace may not take away what is set already.
        let flags = MountFlags::BIND | MountFlags::RDONLY | mount.flags;
        match mount_remount(&mount.path, flags, c"") {
            Ok(()) => {}
            // The command cannot go there either: it has fewer rights than we have now.
            Err(Errno::ACCESS) => {}
            // A mount that another one covers is out of reach.
            Err(error) if mount.is_seen() => {
                return Err(fail("close", mount.path.display(), error));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

fn renew(has_processes: bool) -> Result<(), String> {
    let flags = PLAIN | MountFlags::RDONLY;
    if has_processes {
        // The old `/proc` would show the processes of everyone, and their descriptors lead to files
        // outside.
        mount("proc", "/proc", "proc", flags, None)
            .map_err(|error| fail("renew", "/proc", error))?;
    }
    // The calls for queues reach those of the own namespace alone, but this directory shows those of the one it was mounted in.
    if Path::new("/dev/mqueue").is_dir() {
        mount("mqueue", "/dev/mqueue", "mqueue", flags, None)
            .map_err(|error| fail("renew", "/dev/mqueue", error))?;
    }
    Ok(())
}

/// The path of standard input, if that is a file.
fn input() -> Option<PathBuf> {
    let metadata = fstat(stdin()).ok()?;
    let is_file = FileType::from_raw_mode(metadata.st_mode) == FileType::RegularFile;
    is_file.then(|| fs::read_link("/proc/self/fd/0").ok())?
}

/// Opens standard input anew. It may have been replaced, or lie in a hidden place: then it stays what it is.
fn reopen(path: &Path) {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else {
        return;
    };
    let identity = |file: &dyn AsFd| fstat(file.as_fd()).map(|one| (one.st_dev, one.st_ino));
    if identity(&file).is_ok_and(|one| identity(&stdin()) == Ok(one)) {
        let _ = dup2_stdin(&file);
    }
}

impl Mount {
    /// Whether its path leads to it.
    fn is_seen(&self) -> bool {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = statx(CWD, &self.path, flags, StatxFlags::MNT_ID);
        found.is_ok_and(|found| found.stx_mnt_id == self.id)
    }

    fn parse(line: &[u8]) -> Option<Mount> {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        let path = unescape(fields.nth(3)?);
        let options = fields.next()?;
        let mut flags = MountFlags::empty();
        for option in options.split(|&byte| byte == b',') {
            flags |= match option {
                b"ro" => MountFlags::RDONLY,
                b"nosuid" => MountFlags::NOSUID,
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                b"noatime" => MountFlags::NOATIME,
                b"nodiratime" => MountFlags::NODIRATIME,
                b"relatime" => MountFlags::RELATIME,
                b"nosymfollow" => MountFlags::NOSYMFOLLOW,
                _ => MountFlags::empty(),
            };
        }
        // The kernel takes a mount that says nothing of access times for `relatime`, and changing
        // that is refused to a user namespace.
        if !flags.intersects(MountFlags::NOATIME | MountFlags::RELATIME) {
            flags |= MountFlags::STRICTATIME;
        }
        Some(Mount { id, path, flags })
    }
}

/// Every mount of this process, those above others first.
///
/// # Errors
/// That `/proc` does not list them.
pub(super) fn all() -> std::io::Result<Vec<Mount>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let lines = text.split(|&byte| byte == b'\n');
    Ok(lines.filter_map(Mount::parse).collect())
}

/// A path as the kernel writes it: white space and backslashes are octal numbers.
fn unescape(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = after.split_at_checked(3).filter(|_| byte == b'\\');
        let escaped = escaped.and_then(|(digits, behind)| {
            let digits = std::str::from_utf8(digits).ok()?;
            Some((u8::from_str_radix(digits, 8).ok()?, behind))
        });
        match escaped {
            Some((byte, behind)) => {
                path.push(byte);
                rest = behind;
            }
            None => {
                path.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402 rw,nosuid,noatime master:1 - ext3 /dev/root rw";
        let mount = Mount::parse(line).expect("a mount");
        assert_eq!(mount.id, 36);
        assert_eq!(mount.path, Path::new("/mnt 2"));
        assert_eq!(mount.flags, MountFlags::NOSUID | MountFlags::NOATIME);
        assert_eq!(Mount::parse(b""), None);
        assert_eq!(unescape(b"/a\\134\\04"), Path::new("/a\\\\04"));
        assert!(all().expect("listed").iter().any(Mount::is_seen));
    }
}
