//! A tour of a directory that writes everything in it byte for byte, however deep.

use super::{unkeepable, write};
use crate::domain::Oid;
use crate::domain::paths::change::Difference;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::changes::ignore::{IGNORE_FILES, Rules, blocking_file};
use crate::git::core::tree::{DIRECTORY, EXECUTABLE, Entry, FILE, SYMLINK, serialize};
use crate::git::files::admin_dir::MODULES;
use crate::git::files::descent::Descent;
use crate::git::files::layer::{LayerEntry, WorktreeLayer, is_whiteout};
use crate::git::files::untrusted;
use crate::git::objects::Commit;
use crate::git::{Repo, core::command};
use git2::ObjectType;
use rustix::fs::FileType;
use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The directory of a kept tree that holds what is below paths that are too long: `1` and where it was,
/// in `1.path`, and so on. Git reads no tree that is nested without measure, and writes no file whose path is too long
/// for the system.
pub const TOO_DEEP: &str = "too-deep";

/// The longest path of a directory inside one kept tree, in bytes.
const LONGEST_PATH: usize = 3072;

/// The longest file that is read as a whole, in bytes.
const LONGEST_AT_ONCE: u64 = 64 << 20;

/// What was found in a worktree.
#[derive(Debug, Default)]
pub struct FilesAsTheyAre {
    /// The tree of all files; absent where there is none.
    pub tree: Option<Oid>,
    /// What is ignored: a directory has a slash at its end.
    pub ignored: Vec<Vec<u8>>,
    /// FIFOs, sockets and devices, which have no content to keep.
    pub special: Vec<Vec<u8>>,
    /// Directories that are kept in [`TOO_DEEP`] and not at their place.
    pub too_deep: Vec<Vec<u8>>,
}

/// Writes a directory and all that is in it.
///
/// # Errors
/// `discard-refused` for an entry named `.git`; `io`, `disk-full`.
pub(super) fn write_directory(repo: &Repo, directory: &Path) -> Result<Option<Oid>> {
    let ignored = HashSet::new();
    let mut tour = Tour::begin(repo, directory, &ignored, None)?;
    // An error names what is in it as seen from the worktree.
    tour.seen_from = directory.parent().unwrap_or(directory);
    Ok(tour.files(false)?.tree)
}

/// A tour of a directory.
pub(super) struct Tour<'a> {
    repo: &'a Repo,
    top: &'a Path,
    /// From where errors name files.
    seen_from: &'a Path,
    descent: Descent,
    /// Where it is, from the top.
    path: Vec<u8>,
    bundle: Option<&'a [u8]>,
    ignored: &'a HashSet<&'a [u8]>,
    found: FilesAsTheyAre,
}

/// A directory on the way down.
struct TourDirectory {
    /// What was written of it.
    entries: Vec<Entry>,
    /// The directories in it that are still to be written.
    waiting: Vec<OsString>,
    /// The length of the path of the tree's top that this directory is kept below.
    origin: usize,
}

impl<'a> Tour<'a> {
    pub(super) fn begin(
        repo: &'a Repo,
        top: &'a Path,
        ignored: &'a HashSet<&'a [u8]>,
        bundle: Option<&'a [u8]>,
    ) -> Result<Tour<'a>> {
        Ok(Tour {
            repo,
            top,
            seen_from: top,
            descent: Descent::begin(top).at("could not list", top)?,
            path: Vec::new(),
            bundle,
            ignored,
            found: FilesAsTheyAre::default(),
        })
    }

    /// Writes everything; a worktree has a `.git` file at its top.
    pub(super) fn files(mut self, of_worktree: bool) -> Result<FilesAsTheyAre> {
        let mut deep = Vec::new();
        let mut open = vec![self.look(0, of_worktree)?];
        while let Some(directory) = open.last_mut() {
            if let Some(name) = directory.waiting.pop() {
                let origin = directory.origin;
                self.put(&name);
                // By descriptors, a directory at a time: the path as a whole may be longer than the
                // system takes.
                let entered = self.descent.enter(name);
                entered.at("could not list", self.shown())?;
                let is_long = self.path.len() - origin > LONGEST_PATH;
                let origin = if is_long { self.path.len() } else { origin };
                open.push(self.look(origin, false)?);
                continue;
            }
            let origin = directory.origin;
            let mut entries = std::mem::take(&mut directory.entries);
            open.pop();
            if open.is_empty() {
                entries.extend(self.too_deep(&entries, std::mem::take(&mut deep))?);
            }
            let tree = match entries.as_slice() {
                [] => None,
                _ => Some(self.tree(entries)?),
            };
            let Some(above) = open.last_mut() else {
                self.found.tree = tree;
                break;
            };
            let left = self.descent.leave().at("could not list", self.shown())?;
            let name = left.unwrap_or_default().into_vec();
            match tree {
                Some(oid) if origin != above.origin => deep.push((self.path.clone(), oid)),
                Some(oid) => above.entries.push(Entry { mode: DIRECTORY, name: name.clone(), oid }),
                // Git has no empty directories, and so nothing stands for one here.
                None => {}
            }
            self.cut(&name);
        }
        Ok(self.found)
    }

    /// Writes the files of the directory where it stands.
    fn look(&mut self, origin: usize, is_top_of_worktree: bool) -> Result<TourDirectory> {
        let mut directory = TourDirectory { entries: Vec::new(), waiting: Vec::new(), origin };
        let entries = self.descent.entries();
        for (name, kind) in entries.at("could not list", self.shown())? {
            let is_directory = kind == FileType::Directory;
            self.put(&name);
            // Git refuses a tree with such an entry in any spelling, because some file systems take
            // it for `.git`.
            if name.eq_ignore_ascii_case(".git") {
                if !is_top_of_worktree || is_directory {
                    return Err(unkeepable(&[self.shown()], self.seen_from));
                }
            } else if !self.is_left_out(is_directory) {
                let content = match kind {
                    FileType::RegularFile => Some(self.file(&name)?),
                    FileType::Symlink => {
                        let target = self.descent.link(&name);
                        let target = target.at("could not read", self.shown())?;
                        Some((SYMLINK, self.blob(target.as_bytes())?))
                    }
                    FileType::Directory => {
                        directory.waiting.push(name.clone());
                        None
                    }
                    _ => {
                        self.found.special.push(self.path.clone());
                        None
                    }
                };
                directory.entries.extend(content.map(|(mode, oid)| Entry {
                    mode,
                    name: name.as_bytes().to_vec(),
                    oid,
                }));
            }
            self.cut(name.as_bytes());
        }
        Ok(directory)
    }

    /// The directory for what is kept away from its place.
    fn too_deep(&mut self, beside: &[Entry], deep: Vec<(Vec<u8>, Oid)>) -> Result<Option<Entry>> {
        if deep.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for (index, (path, oid)) in deep.into_iter().enumerate() {
            let number = index + 1;
            let places = [
                (DIRECTORY, number.to_string(), oid),
                (FILE, format!("{number}.path"), self.repo.write_blob(&path)?),
            ];
            entries.extend(places.map(|(mode, name, oid)| Entry {
                mode,
                name: name.into_bytes(),
                oid,
            }));
            self.found.too_deep.push(path);
        }
        let mut name = TOO_DEEP.as_bytes().to_vec();
        // The work may have a file of this very name.
        while beside.iter().any(|entry| entry.name.eq_ignore_ascii_case(&name)) {
            name.push(b'-');
        }
        Ok(Some(Entry { mode: DIRECTORY, name, oid: self.tree(entries)? }))
    }

    /// Adds a name to the path.
    fn put(&mut self, name: &OsStr) {
        if !self.path.is_empty() {
            self.path.push(b'/');
        }
        self.path.extend_from_slice(name.as_bytes());
    }

    /// Takes the last name from the path.
    fn cut(&mut self, name: &[u8]) {
        let rest = self.path.len() - name.len();
        self.path.truncate(rest.saturating_sub(1));
    }

    fn shown(&self) -> PathBuf {
        self.top.join(OsStr::from_bytes(&self.path))
    }

    /// Whether what is at the path is ignored or, as a directory, the bundle.
    fn is_left_out(&mut self, is_directory: bool) -> bool {
        if self.ignored.contains(self.path.as_slice()) {
            return true;
        }
        if !is_directory {
            return false;
        }
        self.path.push(b'/');
        let is_ignored = self.ignored.contains(self.path.as_slice());
        self.path.pop();
        is_ignored || self.bundle == Some(&self.path)
    }

    fn blob(&self, content: &[u8]) -> Result<Oid> {
        self.repo.write_readable(ObjectType::Blob, content)
    }

    fn tree(&self, entries: Vec<Entry>) -> Result<Oid> {
        self.repo.write_readable(ObjectType::Tree, &serialize(entries))
    }

    fn file(&self, name: &OsStr) -> Result<(u32, Oid)> {
        let path = self.shown();
        let file = self.descent.file(name).at("could not read", &path)?;
        let metadata = file.metadata().at("could not read", &path)?;
        let mode = if metadata.permissions().mode() & 0o100 == 0 { FILE } else { EXECUTABLE };
        if metadata.len() <= LONGEST_AT_ONCE {
            let mut content = Vec::new();
            let read = file.take(LONGEST_AT_ONCE + 1).read_to_end(&mut content);
            if read.at("could not read", &path)? as u64 > LONGEST_AT_ONCE {
                // Half of a file must not pass for the whole.
                let grown = Err(std::io::Error::other("it grows while it is read"));
                return grown.at("could not read", &path);
            }
            return Ok((mode, self.blob(&content)?));
        }
        // Git reads it piece by piece.
        let mut hash = self.repo.plumbing();
        hash.args(["hash-object", "-w", "--stdin"]).stdin(file);
        let oid = command::successful(hash)?;
        let oid = Oid::from_hex(String::from_utf8_lossy(&oid).trim_end());
        let oid = oid.ok_or_else(|| {
            let shown = path.display();
            Error::new(Code::GitFailed, format!("git named no object for {shown}"))
        })?;
        Ok((mode, oid))
    }
}

// Keeping a worktree byte for byte, where git cannot read it through its index and its settings.
//
// Every file that is not ignored becomes a blob as it is: no filter runs, and line ends stay. The admin directory
// becomes a commit of its own, with the objects that only its index names.

/// The trailer's value for the admin directory.
const ADMIN: &str = "admin";

/// The longest file of an admin directory that is kept, in bytes.
const LONGEST_KEPT: u64 = 64 << 20;

/// Writes the files of a worktree, its bundle left out, as they are. What `rules` ignore is left out where git can
/// tell; `index` is a name for a temporary file.
///
/// # Errors
/// `discard-refused` for an entry named `.git` below the top, which no tree can hold; `io`, `disk-full`.
pub fn write_files(
    repo: &Repo,
    tip: &Commit,
    top: &Path,
    rules: &Rules,
    index: &Path,
) -> Result<FilesAsTheyAre> {
    // Where git cannot tell, everything is kept: here more is safe and less is not.
    let ignored = ignored(repo, tip, top, rules, index).unwrap_or_default();
    let ignored = ignored.iter().map(Vec::as_slice).collect();
    let bundle = rules.never().map(str::as_bytes);
    let found = Tour::begin(repo, top, &ignored, bundle)?.files(true)?;
    let layer = top.parent().and_then(WorktreeLayer::at);
    match layer.filter(|layer| layer.upper == top) {
        Some(layer) => over_base(repo, &layer, found),
        None => Ok(found),
    }
}

/// Adds to the files of an upper directory those that the base shows beside them.
fn over_base(repo: &Repo, layer: &WorktreeLayer, own: FilesAsTheyAre) -> Result<FilesAsTheyAre> {
    let of_base = repo.differences(Oid::EMPTY_TREE, layer.tree()?)?;
    // What is at a path that cannot be told is better kept than lost.
    let is_hidden =
        |file: &Difference| !matches!(layer.shown(&file.path), Ok(LayerEntry::Base) | Err(_));
    let hidden = of_base.into_iter().filter(is_hidden);
    let mut changes: Vec<Difference> =
        hidden.map(|file| Difference { new: None, ..file }).collect();
    changes.extend(repo.differences(Oid::EMPTY_TREE, own.tree.unwrap_or(Oid::EMPTY_TREE))?);
    let mut special = own.special;
    special.retain(|path| {
        let place = layer.upper.join(OsStr::from_bytes(path));
        let found = fs::symlink_metadata(&place);
        !found.is_ok_and(|found| is_whiteout(&place, &found).unwrap_or(false))
    });
    Ok(FilesAsTheyAre {
        tree: repo.tree_after(layer.tree()?, &changes)?.or(own.tree),
        special,
        ..own
    })
}

/// Writes what an admin directory holds, with the blobs that its index names and the tip does not, as one commit;
/// `None` where there is nothing. `whose` is a line for the message.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn write_admin(
    repo: &Repo,
    tip: &Commit,
    admin_dir: &Path,
    index: &Path,
    whose: &str,
) -> Result<Option<Oid>> {
    let mut entries = BTreeMap::new();
    for file in untrusted::files_except(admin_dir, MODULES) {
        if let Some(content) = untrusted::read(admin_dir, &file, LONGEST_KEPT) {
            // One level is enough for files that a person may want to look at.
            let name = file.as_os_str().as_bytes();
            let name = name.iter().map(|&byte| if byte == b'/' { b'%' } else { byte });
            entries.insert(name.collect::<Vec<u8>>(), repo.write_blob(&content)?);
        }
    }
    for blob in staged(repo, tip, admin_dir, index) {
        entries.insert(format!("staged-{blob}").into_bytes(), blob);
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let entries = entries.into_iter().map(|(name, oid)| Entry { mode: FILE, name, oid });
    let tree = repo.write_tree(entries.collect())?;
    write(repo, tip, tree, &[], ADMIN, whose).map(Some)
}

/// The blobs that an index names, in whatever stage, and the tip does not; none where git cannot read it.
fn staged(repo: &Repo, tip: &Commit, admin_dir: &Path, index: &Path) -> HashSet<Oid> {
    let name = Path::new("index");
    let content = untrusted::read(admin_dir, name, untrusted::LONGEST_INDEX);
    if content.is_none_or(|content| fs::write(index, content).is_err()) {
        return HashSet::new();
    }
    let mut list = repo.plumbing();
    list.env("GIT_INDEX_FILE", index);
    list.args(["ls-files", "-z", "--stage"]);
    let mut known = repo.plumbing();
    known.args(["ls-tree", "-r", "-z", &tip.oid.to_hex()]);
    let oids = |command: Command, field: usize| -> HashSet<Oid> {
        // This is a rescue: an index that git refuses must not keep the files from being saved.
        let output = command::successful(command).unwrap_or_default();
        let oid = |line: &[u8]| {
            let words = line.split(|&byte| byte == b' ' || byte == b'\t');
            let hex = words.into_iter().nth(field)?;
            Oid::from_hex(std::str::from_utf8(hex).ok()?)
        };
        command::names(&output).filter_map(oid).collect()
    };
    let mut staged = oids(list, 1);
    let known = oids(known, 2);
    // An index can name objects that were never written, or that a program of the agent's made up.
    staged.retain(|oid| !known.contains(oid) && repo.read_blob(*oid).is_ok());
    let _ = fs::remove_file(index);
    staged
}

/// What the rules ignore, by an index of the tip; `None` where git cannot tell.
fn ignored(
    repo: &Repo,
    tip: &Commit,
    top: &Path,
    rules: &Rules,
    index: &Path,
) -> Option<Vec<Vec<u8>>> {
    if !rules.leave_out() {
        return None;
    }
    let prepared = || {
        let mut git = repo.plumbing();
        git.current_dir(top)
            .env("GIT_WORK_TREE", top)
            .env("GIT_INDEX_FILE", index)
            .args(["-c", "core.fsmonitor=false"])
            .args(["-c", "core.hooksPath=/dev/null"]);
        rules.configure(&mut git);
        git
    };
    let mut read = prepared();
    read.args(["read-tree", &tip.oid.to_hex()]);
    command::successful(read).ok()?;
    let mut list = prepared();
    list.args(["ls-files", "-z", "--others", "--ignored", "--directory"]);
    rules.apply(&mut list);
    // A FIFO by the name of an ignore file would make git wait for a writer for ever.
    let waits = || blocking_file(top, IGNORE_FILES).is_some();
    let output = command::start(list).and_then(|list| list.successful_unless(waits));
    let _ = fs::remove_file(index);
    let mut paths: Vec<_> = command::names(&output.ok()??.stdout).map(<[u8]>::to_vec).collect();
    let bundle = rules.never().map(|name| format!("{name}/").into_bytes());
    paths.retain(|path| !bundle.as_ref().is_some_and(|name| path.starts_with(name)));
    paths.sort_unstable();
    Some(paths)
}
