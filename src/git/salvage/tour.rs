//! A tour of a directory that writes everything in it byte for byte, however deep.

use super::unkeepable;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::descent::Descent;
use crate::git::tree::{DIRECTORY, EXECUTABLE, Entry, FILE, SYMLINK};
use crate::git::{Repo, command};
use rustix::fs::FileType;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

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
    let tour = Tour::begin(repo, directory, &HashSet::new(), None)?.files(false)?;
    Ok(tour.tree)
}

/// A tour of a directory.
pub(super) struct Tour<'a> {
    repo: &'a Repo,
    top: &'a Path,
    descent: Descent,
    /// Where it is, from the top.
    path: Vec<u8>,
    bundle: Option<&'a [u8]>,
    ignored: &'a HashSet<&'a [u8]>,
    found: FilesAsTheyAre,
}

/// A directory on the way down.
struct Directory {
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
                _ => Some(self.repo.write_tree(entries)?),
            };
            let Some(above) = open.last_mut() else {
                self.found.tree = tree;
                break;
            };
            let left = self.descent.leave().at("could not list", self.shown())?;
            let name = left.unwrap_or_default().into_vec();
            match tree {
                Some(oid) if origin != above.origin => deep.push((self.path.clone(), oid)),
                Some(oid) => above.entries.push(Entry {
                    mode: DIRECTORY,
                    name: name.clone(),
                    oid,
                }),
                None => {}
            }
            self.cut(&name);
        }
        Ok(self.found)
    }

    /// Writes the files of the directory where it stands.
    fn look(&mut self, origin: usize, is_top_of_worktree: bool) -> Result<Directory> {
        let mut directory = Directory {
            entries: Vec::new(),
            waiting: Vec::new(),
            origin,
        };
        let entries = self.descent.entries();
        for (name, kind) in entries.at("could not list", self.shown())? {
            let is_directory = kind == FileType::Directory;
            self.put(&name);
            if name.eq_ignore_ascii_case(".git") {
                if !is_top_of_worktree || is_directory {
                    return Err(unkeepable(&[self.shown()]));
                }
            } else if !self.is_left_out(is_directory) {
                let content = match kind {
                    FileType::RegularFile => Some(self.file(&name)?),
                    FileType::Symlink => {
                        let target = self.descent.link(&name);
                        let target = target.at("could not read", self.shown())?;
                        Some((SYMLINK, self.repo.write_blob(target.as_bytes())?))
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
        while beside
            .iter()
            .any(|entry| entry.name.eq_ignore_ascii_case(&name))
        {
            name.push(b'-');
        }
        Ok(Some(Entry {
            mode: DIRECTORY,
            name,
            oid: self.repo.write_tree(entries)?,
        }))
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

    fn file(&self, name: &OsStr) -> Result<(u32, Oid)> {
        let path = self.shown();
        let file = self.descent.file(name).at("could not read", &path)?;
        let metadata = file.metadata().at("could not read", &path)?;
        let mode = if metadata.permissions().mode() & 0o100 == 0 {
            FILE
        } else {
            EXECUTABLE
        };
        if metadata.len() <= LONGEST_AT_ONCE {
            let mut content = Vec::new();
            let read = file.take(LONGEST_AT_ONCE + 1).read_to_end(&mut content);
            if read.at("could not read", &path)? as u64 > LONGEST_AT_ONCE {
                let grown = Err(std::io::Error::other("it grows while it is read"));
                return grown.at("could not read", &path);
            }
            return Ok((mode, self.repo.write_blob(&content)?));
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
