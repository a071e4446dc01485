//! Files that are too long to be read when their worktree goes: set aside by a rename, and given back by another.
//!
//! A discard keeps work as git objects, which takes reading and compressing every byte. A file above [`LARGE`] is moved instead,
//! to `agents/<id8>/large/<n>` or, where the worktree is on another file system, to a directory beside the worktree. The list of
//! them, `agents/<id8>/large/list`, has a line for each with its path, size and mode. A line is written before its file is moved:
//! one whose file is not there says nothing, so no kill leaves a file that no line names. None of it travels to other clones.
//!
//! So are the repositories of submodules, which lie in the admin directory: to `agents/<id8>/modules/<n>`.

use crate::domain::life::id::AgentId;
use crate::domain::paths::path::Quoted;
use crate::domain::paths::path::split_name;
use crate::error::{Error, IoContext, Result};
use crate::git::files::admin_dir::{MODULES, leads_to};
use crate::store::files::{fsx, layout};
use crate::system;
use crate::wire::output::path_text::PathText;
use crate::wire::row::journal::MovedFile;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, CWD, FileType, SeekFrom, Stat, renameat, seek, statat};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The longest file that is kept as a git object, in bytes.
pub const LARGE: u64 = 64 << 20;

/// A file that was set aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LargeFile {
    /// Its path in the worktree.
    pub path: PathText,
    /// How long it is, in bytes.
    pub size_bytes: u64,
    /// Its permissions, in octal.
    pub mode: String,
    /// Where it is, absolute.
    pub place: String,
}

/// Whether what is at a path below a directory is a regular file that is too long to be read. No link is followed.
pub fn is_large(top: &Path, path: &[u8]) -> bool {
    look(top, path).is_some_and(|(size, _)| size > LARGE)
}

/// The file at a path below a directory, as it would be told of; `None` where there is no regular one.
pub fn at(top: &Path, path: &[u8]) -> Option<LargeFile> {
    let (size, mode) = look(top, path)?;
    Some(told(&MovedFile {
        path: path.to_owned(),
        size,
        mode,
        place: top.join(OsStr::from_bytes(path)),
    }))
}

/// The size and the mode of a regular file.
fn look(top: &Path, path: &[u8]) -> Option<(u64, u32)> {
    let (parent, name) = parent_of(top, path).ok()?;
    let found = statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    is_file.then_some((u64::try_from(found.st_size).ok()?, wide(found.st_mode) & 0o7777))
}

/// The bits of a mode, which macOS has in sixteen.
fn wide(mode: impl Into<u32>) -> u32 {
    mode.into()
}

/// Moves a file out of a worktree. `beside` is a directory on the worktree's own file system, used where the agent's own is on
/// another; it is made if need be. `None` stands for the upper directory of a layered worktree: it is on the file system of the agent's own,
/// and a whiteout takes the file's place, without which the base's file would be seen there.
///
/// # Errors
/// `io`, `disk-full`. The file is where it was then.
pub fn set_aside(
    common_dir: &Path,
    id: AgentId,
    top: &Path,
    path: &[u8],
    beside: Option<&Path>,
) -> Result<LargeFile> {
    let shown = top.join(OsStr::from_bytes(path));
    let gone =
        || Error::io(format!("could not move {}", shown.display()), ErrorKind::NotFound.into());
    let (size, mode) = look(top, path).ok_or_else(gone)?;
    let own = layout::large_dir(common_dir, id);
    fsx::create_dir(&own)?;
    let mut moved = Ok(());
    // A rename does not reach another file system, and to copy a file of this size is what is to be
    // avoided.
    for directory in [Some(own.as_path()), beside].into_iter().flatten() {
        fsx::create_dir(directory)?;
        let place = fsx::free_place(directory);
        let line = MovedFile { path: path.to_owned(), size, mode, place };
        note(&own, &line)?;
        let (parent, name) = parent_of(top, path).at("could not open the directory of", &shown)?;
        moved = match beside {
            Some(_) => renameat(&parent, name, CWD, &line.place).map_err(std::io::Error::from),
            None => system::rename_off_layer(&parent, name, &line.place),
        };
        match &moved {
            Ok(()) => return Ok(told(&line)),
            // The line that was written for this place names a file that never comes, and so says
            // nothing.
            Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
            Err(_) => break,
        }
    }
    moved.at("could not move", &shown)?;
    Err(gone())
}

/// What is set aside of an agent.
///
/// # Errors
/// `io`.
pub fn of_agent(common_dir: &Path, id: AgentId) -> Result<Vec<LargeFile>> {
    Ok(lines(common_dir, id)?.iter().map(told).collect())
}

/// Moves everything back below a directory, where nothing is in the way; gives the paths that stay where they are, each with
/// the reason.
///
/// # Errors
/// `io`.
pub fn give_back(common_dir: &Path, id: AgentId, top: &Path) -> Result<Vec<String>> {
    let mut stay = give_back_modules(common_dir, id, top);
    let before = stay.len();
    stay.extend(give_each(common_dir, id, top, true)?);
    // The list goes last: after a kill it still names what was not moved back.
    if stay.len() == before {
        forget(common_dir, id)?;
    }
    Ok(stay)
}

/// As [`give_back`], by copies to a directory that is not the agent's worktree: the agent can still be brought back whole.
///
/// # Errors
/// `io`.
pub fn copy_back(common_dir: &Path, id: AgentId, top: &Path) -> Result<Vec<String>> {
    let mut stay = give_back_modules(common_dir, id, top);
    stay.extend(give_each(common_dir, id, top, false)?);
    Ok(stay)
}

fn give_each(common_dir: &Path, id: AgentId, top: &Path, moves: bool) -> Result<Vec<String>> {
    let mut stay = Vec::new();
    for line in lines(common_dir, id)? {
        let shown = Quoted(&line.path);
        let to = top.join(OsStr::from_bytes(&line.path));
        if let Err(error) = go_back(&line, top, &to, moves) {
            let place = line.place.display();
            stay.push(format!("{shown} ({} bytes) stays in {place}: {error}", line.size));
        }
    }
    Ok(stay)
}

/// Moves the repositories of submodules out of an admin directory that goes; gives where they are.
///
/// # Errors
/// `io`.
pub fn set_modules_aside(common_dir: &Path, id: AgentId, admin_dir: &Path) -> Result<PathBuf> {
    let directory = layout::modules_dir(common_dir, id);
    fsx::create_dir(&directory)?;
    let (from, to) = (admin_dir.join(MODULES), fsx::free_place(&directory));
    fs::rename(&from, &to).at("could not move", &from)?;
    Ok(to)
}

/// Moves the newest of these back where a directory is the agent's worktree again; gives those that stay where they are.
fn give_back_modules(common_dir: &Path, id: AgentId, top: &Path) -> Vec<String> {
    let directory = layout::modules_dir(common_dir, id);
    let admin_dir = common_dir.join("worktrees").join(layout::worktree_name(id));
    let kept = (1..).map(|number: u64| directory.join(number.to_string()));
    let mut kept: Vec<_> = kept.take_while(|place| place.is_dir()).collect();
    // A rename takes the place of nothing but an empty directory.
    if leads_to(top, &admin_dir)
        && let Some(newest) = kept.last()
        && fs::rename(newest, admin_dir.join(MODULES)).is_ok()
    {
        kept.pop();
    }
    let _ = fs::remove_dir(&directory);
    let stays = |place: PathBuf| {
        let place = place.display();
        format!(
            "the repositories of submodules in {place} stay there; to have one, run git clone {place}/<name>"
        )
    };
    kept.into_iter().map(stays).collect()
}

/// Removes the list and the directories, where no file is in them any more.
fn forget(common_dir: &Path, id: AgentId) -> Result<()> {
    let own = layout::large_dir(common_dir, id);
    fs::remove_file(own.join(LIST)).at_if_there("could not remove", &own)?;
    let _ = fs::remove_dir(&own);
    Ok(())
}

const LIST: &str = "list";

fn told(line: &MovedFile) -> LargeFile {
    LargeFile {
        path: PathText::from(line.path.as_slice()),
        size_bytes: line.size,
        mode: format!("{:04o}", line.mode),
        place: line.place.to_string_lossy().into_owned(),
    }
}

fn go_back(line: &MovedFile, top: &Path, to: &Path, moves: bool) -> std::io::Result<()> {
    if let Some(directory) = to.parent() {
        fs::create_dir_all(directory)?;
    }
    let (parent, name) = parent_of(top, &line.path)?;
    // A rename would replace what is there, which may be newer work. A whiteout says that nothing is.
    let is_something = |found: Stat| {
        FileType::from_raw_mode(found.st_mode) != FileType::CharacterDevice || found.st_rdev != 0
    };
    if statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_something) {
        return Err(std::io::Error::other("something is at its place"));
    }
    let moved = moves.then(|| renameat(CWD, &line.place, &parent, name));
    match moved.transpose().map_err(std::io::Error::from) {
        Ok(Some(())) => {}
        Err(error) if error.kind() != ErrorKind::CrossesDevices => return Err(error),
        _ => copy_whole(&line.place, to)?,
    }
    if moves {
        let _ = fs::remove_file(&line.place);
        let _ = line.place.parent().map(fs::remove_dir);
    }
    Ok(())
}

/// Copies a file, which has its name only once it is whole.
fn copy_whole(from: &Path, to: &Path) -> std::io::Result<()> {
    let part = fsx::unique_name(to);
    let copied = copy_content(from, &part).and_then(|()| fs::rename(&part, to));
    if copied.is_err() {
        let _ = fs::remove_file(&part);
    }
    copied
}

/// Copies content and mode, a hole as a hole: a sparse file may be longer than the disk has room for.
fn copy_content(from: &Path, to: &Path) -> std::io::Result<()> {
    let (mut source, mut copy) = (fsx::open(from)?, File::create_new(to)?);
    let found = source.metadata()?;
    copy.set_len(found.len())?;
    let mut at = 0;
    while at < found.len() {
        // A file system that knows of no holes has data up to the end.
        let data = match seek(&source, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => break,
            data => data.unwrap_or(at),
        };
        let end = seek(&source, SeekFrom::Hole(data)).unwrap_or(found.len());
        for file in [&source, &copy] {
            seek(file, SeekFrom::Start(data))?;
        }
        std::io::copy(&mut source.by_ref().take(end - data), &mut copy)?;
        at = end;
    }
    copy.set_permissions(found.permissions())
}

/// The lines whose files are there; of several for one path that has been moved more than once, each has its own file.
fn lines(common_dir: &Path, id: AgentId) -> Result<Vec<MovedFile>> {
    let list = layout::large_dir(common_dir, id).join(LIST);
    let text = fsx::load_if_there(&list)?.unwrap_or_default();
    let lines = MovedFile::read_list(&text);
    let is_there = |line: &MovedFile| {
        fs::symlink_metadata(&line.place)
            .is_ok_and(|found| found.is_file() && found.size() == line.size)
    };
    Ok(lines.filter(is_there).collect())
}

fn note(own: &Path, line: &MovedFile) -> Result<()> {
    fsx::append(&own.join(LIST), line.to_line().as_bytes())
}

/// The directory of a path below `top`, opened through no link, and the last name.
fn parent_of<'p>(top: &Path, path: &'p [u8]) -> std::io::Result<(rustix::fd::OwnedFd, &'p OsStr)> {
    let top = File::open(top)?;
    let (parent, name) = split_name(path).unwrap_or((b".", path));
    let parent = system::open_directory(top.as_fd(), parent)?;
    Ok((parent, OsStr::from_bytes(name)))
}
