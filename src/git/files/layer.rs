//! What a layered worktree holds, without mounting anything.
//!
//! The files of such a worktree lie in two directories: a base that several share and that never changes, and an upper
//! directory to which an overlay mount writes all that one agent changes (the kernel's `overlayfs.rst`). So the upper directory
//! **is** the difference from the base, whose tree is known, and nothing else is read:
//!
//! | in the upper directory | means |
//! |---|---|
//! | a file, a symlink | that content, which may still be what the base has: every write and `chmod` copies all of it there |
//! | a character device 0:0 of any mode | nothing is there, whatever the base has |
//! | a directory that is `opaque` | of what the base has below it, nothing is there |
//! | any other directory | what the base has below it is there as well |
//!
//! The files of rules (`.gitignore`, `.gitattributes`) were copied there when the worktree was made, so git finds in the upper
//! directory all that decides how it takes a file.
//!
//! Of a file that is the base's, the tree tells the content where it holds it; git ignored all other files of the base when it was made,
//! and an agent may have changed that.
//!
//! An agent writes that directory, so it is data: no link is followed, and what no overlay mount of ours writes is refused.

use super::untrusted::{self, is_whiteout_device};
use crate::domain::value::named::hex;
use crate::domain::{Oid, value::shell};
use crate::error::{Code, Error, GitPlace, IoContext, Remedy, Result};
use crate::git::core::pool;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// Where the layer of an agent lies in the agent's own directory, and what of it is what.
const DIRECTORY: &str = "layer";
const RECORD: &str = "record";
const UPPER: &str = "upper";

/// What the command is for that gives every file its place.
pub const ORDINARY: &str = "to make an ordinary worktree of it";

/// What an overlay mount calls its own attributes when it may not use those that are root's.
const PREFIX: &str = "user.overlay.";

/// Attributes that it writes and that change nothing about a name; those that begin with the last one are an inner overlay's.
const HARMLESS: [&str; 6] = ["origin", "impure", "uuid", "nlink", "protattr", "overlay."];

/// Where the files of a layered worktree are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreeLayer {
    /// What the agent changed.
    pub upper: PathBuf,
    /// What it was made over.
    pub record: LayerRecord,
    /// Where the files of the base are.
    pub base: PathBuf,
}

/// What is written down of a layer: out of the reach of what the agent starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// The name of the frozen base.
    pub base: String,
    /// Where its files are, from the directory of the layer: a repository that was moved has both.
    pub path: PathBuf,
    /// The tree of those that are tracked, in hex.
    pub tree: String,
    /// The base's index, where that holds this tree and nothing else: the agent's own until a git puts another file in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexStamp>,
    /// What [`BaseSums`] gave for its files when it was made.
    #[serde(default)]
    pub sums: String,
}

/// What tells the file of an index from any other one, however many names it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexStamp {
    inode: u64,
    size: u64,
    /// When it was written: seconds, and nanoseconds.
    written: (i64, i64),
}

impl IndexStamp {
    /// Looks at a file; `None` where there is no regular one.
    pub fn of(path: &Path) -> Option<IndexStamp> {
        let file = fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
        Some(IndexStamp {
            inode: file.ino(),
            size: file.size(),
            written: (file.mtime(), file.mtime_nsec()),
        })
    }
}

impl LayerRecord {
    /// One line of JSON.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// What a walk over a base gives.
pub struct BaseSums {
    /// Tells whether any name, mode, size or time has changed.
    pub hash: String,
    /// How many names there are.
    pub names: usize,
    /// What they take of the disk, in bytes.
    pub bytes: u64,
}

impl BaseSums {
    /// Looks at all names below a directory: 100,000 files take one thread a quarter of a second, so several share them.
    ///
    /// # Errors
    /// `io`.
    pub fn of(top: &Path) -> Result<BaseSums> {
        // A directory at the top is a part for itself, and so is each name in it with all below.
        let mut parts = Vec::new();
        for entry in listed(top)? {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            parts.push(BasePart::new(entry.path(), !is_directory));
            if is_directory {
                let below = listed(&entry.path())?;
                parts.extend(below.iter().map(|entry| BasePart::new(entry.path(), true)));
            }
        }
        pool::share(&mut parts, 1, pool::threads(), |chunks| {
            while let Some(chunk) = chunks.next() {
                chunk.iter_mut().try_for_each(|part| part.look(top))?;
            }
            Ok(())
        })?;
        let mut digest = Sha256::new();
        parts.iter().for_each(|part| digest.update(&part.found.told));
        Ok(BaseSums {
            hash: hex(&digest.finalize()[..]),
            names: parts.iter().map(|part| part.found.names).sum(),
            bytes: parts.iter().map(|part| part.found.bytes).sum(),
        })
    }
}

/// What is in a directory, by name.
fn listed(directory: &Path) -> Result<Vec<DirEntry>> {
    let entries = fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut entries = entries.at("could not list", directory)?;
    entries.sort_by_key(DirEntry::file_name);
    Ok(entries)
}

/// A part of what [`BaseSums`] looks at: a name, and all below it where it is `whole`.
struct BasePart {
    path: PathBuf,
    whole: bool,
    found: FoundNames,
}

/// What a part holds, as [`BaseSums`] counts and hashes it.
#[derive(Default)]
struct FoundNames {
    names: usize,
    bytes: u64,
    told: Vec<u8>,
}

impl BasePart {
    fn new(path: PathBuf, whole: bool) -> BasePart {
        BasePart { path, whole, found: FoundNames::default() }
    }

    fn look(&mut self, top: &Path) -> Result<()> {
        if !self.whole {
            let found = fs::symlink_metadata(&self.path).at("could not look at", &self.path)?;
            self.found.add(&self.path, &found, top);
            return Ok(());
        }
        let fail =
            |error: walkdir::Error| Error::new(Code::Io, "could not list a base").because(error);
        for entry in WalkDir::new(&self.path).follow_root_links(false).sort_by_file_name() {
            let entry = entry.map_err(fail)?;
            let found = entry.metadata().map_err(fail)?;
            self.found.add(entry.path(), &found, top);
        }
        Ok(())
    }
}

impl FoundNames {
    fn add(&mut self, path: &Path, found: &Metadata, top: &Path) {
        let path = path.strip_prefix(top).unwrap_or(path);
        // It is removed once the sums are taken, so it must not count.
        if path == Path::new(".git") {
            return;
        }
        self.names += 1;
        self.bytes += found.blocks() * 512;
        // What a directory takes of the disk is the file system's affair.
        let size = if found.is_dir() { 0 } else { found.size() };
        self.told.extend_from_slice(path.as_os_str().as_bytes());
        for number in [i64::from(found.mode()), found.mtime(), found.mtime_nsec()] {
            self.told.extend_from_slice(&number.to_le_bytes());
        }
        self.told.extend_from_slice(&size.to_le_bytes());
        self.told.push(0);
    }
}

/// What stands at a path, by the upper directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::git) enum LayerEntry {
    /// What the base has, if anything.
    Base,
    /// A file or a symlink of the agent's.
    Upper,
    /// A directory that is in the upper directory, with or without what the base has in it.
    Directory,
    /// No file and no directory.
    Nothing,
}

impl WorktreeLayer {
    /// The layer of the worktree with this admin directory; `None` for any other worktree, and inside of the mount, where the
    /// files are where they seem to be.
    pub fn of(admin_dir: &Path) -> Option<WorktreeLayer> {
        WorktreeLayer::at(&WorktreeLayer::directory(admin_dir)?)
    }

    /// Whether the worktree at `top` is layered and its layer is gone, or cannot be read: nothing is written at the place of a layered one,
    /// which holds nothing but a `.git` file. To any other look the agent has deleted every file.
    pub fn is_lost(top: &Path, admin_dir: &Path) -> bool {
        let is_closed = |found: Metadata| found.is_dir() && found.mode() & 0o222 == 0;
        WorktreeLayer::directory(admin_dir).is_some()
            && fs::symlink_metadata(top).is_ok_and(is_closed)
            && WorktreeLayer::of(admin_dir).is_none()
            && untrusted::names(top) == [".git"]
    }

    /// The error for a worktree that [`WorktreeLayer::is_lost`].
    pub fn lost(admin_dir: &Path, code: Code) -> Error {
        let directory = WorktreeLayer::directory(admin_dir).unwrap_or_default();
        let shown = directory.display();
        let what = if directory.join(UPPER).is_dir() {
            format!("the record of the layered worktree in {shown} is gone or cannot be read")
        } else {
            format!("the layered worktree has lost what the agent changed: {shown} is gone")
        };
        Error::new(code, what).remedy("to see and repair it", Remedy::Repair)
    }

    /// How git reaches the worktree at `top` with this admin directory.
    pub fn git_place(top: &Path, admin_dir: &Path) -> GitPlace {
        let name = admin_dir.file_name().and_then(OsStr::to_str).unwrap_or_default();
        match (WorktreeLayer::of(admin_dir), name.strip_prefix("agent-")) {
            (Some(_), Some(id)) => GitPlace::Mount(id.to_owned()),
            _ => GitPlace::At(top.to_owned()),
        }
    }

    /// Where the layer of the worktree with this admin directory is, if it has one.
    pub fn directory(admin_dir: &Path) -> Option<PathBuf> {
        let name = admin_dir.file_name()?.to_str()?;
        let worktrees = admin_dir.parent().filter(|at| at.ends_with("worktrees"))?;
        let agents = worktrees.parent()?.join("agents");
        Some(agents.join(name.strip_prefix("agent-")?).join(DIRECTORY))
    }

    /// The layer in a directory of its own; `None` where either of its parts is gone.
    pub fn at(directory: &Path) -> Option<WorktreeLayer> {
        fs::symlink_metadata(directory.join(UPPER)).ok().filter(Metadata::is_dir)?;
        let record = untrusted::read_at(&directory.join(RECORD), 1 << 16)?;
        let record: LayerRecord = serde_json::from_slice(&record).ok()?;
        Some(WorktreeLayer {
            upper: directory.join(UPPER),
            base: directory.join(&record.path),
            record,
        })
    }

    /// The path of a base from a directory; both are free of symlinks.
    pub fn path_from(directory: &Path, base: &Path) -> PathBuf {
        let shared = directory
            .components()
            .zip(base.components())
            .take_while(|(one, other)| one == other)
            .count();
        let up = directory.components().skip(shared).map(|_| "..");
        up.map(OsStr::new)
            .chain(base.components().skip(shared).map(|part| part.as_os_str()))
            .collect()
    }

    /// Where its two parts are in a directory of its own: the upper directory, and the record, without which there is no layer.
    pub fn parts(directory: &Path) -> [PathBuf; 2] {
        [UPPER, RECORD].map(|name| directory.join(name))
    }

    /// The tree of the base.
    ///
    /// # Errors
    /// `layer-invalid`.
    pub(in crate::git) fn tree(&self) -> Result<Oid> {
        Oid::from_hex(&self.record.tree).ok_or_else(|| refused(&self.upper, "has no base"))
    }

    /// Whether the index of the worktree with this admin directory is the base's still, so that the base's tree is all that it holds.
    pub fn has_index_of_base(&self, admin_dir: &Path) -> bool {
        let index = self.record.index;
        index.is_some() && index == IndexStamp::of(&admin_dir.join("index"))
    }

    /// Whether the base may have a file at a path that its tree has not; where the upper directory shows nothing, the agent may have
    /// removed a file of its own, too.
    pub(in crate::git) fn has_in_base(&self, path: &[u8]) -> bool {
        fs::symlink_metadata(self.base.join(OsStr::from_bytes(path))).is_ok()
    }

    /// Checks that the files of the base are what they were when it was made.
    ///
    /// # Errors
    /// `layer-invalid`.
    pub(in crate::git) fn require_whole_base(&self) -> Result<()> {
        if BaseSums::of(&self.base).is_ok_and(|sums| sums.hash == self.record.sums) {
            return Ok(());
        }
        let base = &self.record.base;
        Err(self.unreadable(&format!(
            "the base {base} has changed, and files of it are part of the agent's work"
        )))
    }

    /// Checks that no directory of the base at a path is a repository, of which an agent may have changed a part.
    ///
    /// # Errors
    /// `layer-invalid`.
    pub(in crate::git) fn require_no_repository(&self, path: &Path) -> Result<()> {
        if fs::symlink_metadata(self.base.join(path).join(".git")).is_err() {
            return Ok(());
        }
        let path = path.display();
        Err(self
            .unreadable(&format!("set-up made the repository {path}, and the agent has added it")))
    }

    /// The error for what an ordinary worktree would show.
    fn unreadable(&self, what: &str) -> Error {
        let agent = self.upper.ancestors().nth(2).and_then(Path::file_name);
        let agent = agent.unwrap_or_default().to_string_lossy();
        Error::new(Code::LayerInvalid, what).remedy(ORDINARY, Remedy::Materialize(agent.into()))
    }

    /// What stands at a path.
    pub(in crate::git) fn shown(&self, path: &[u8]) -> Result<LayerEntry> {
        let mut place = self.upper.clone();
        let mut parts = path.split(|&byte| byte == b'/').peekable();
        let mut below_opaque = false;
        while let Some(part) = parts.next() {
            place.push(OsStr::from_bytes(part));
            let Ok(found) = fs::symlink_metadata(&place) else {
                return Ok(if below_opaque { LayerEntry::Nothing } else { LayerEntry::Base });
            };
            if is_whiteout(&place, &found)? {
                return Ok(LayerEntry::Nothing);
            }
            match (found.is_dir(), parts.peek()) {
                (true, Some(_)) => below_opaque |= is_opaque(&place)?,
                (false, None) => return Ok(LayerEntry::Upper),
                (true, None) => return Ok(LayerEntry::Directory),
                // A file where a directory was.
                (false, Some(_)) => return Ok(LayerEntry::Nothing),
            }
        }
        Ok(LayerEntry::Nothing)
    }

    /// Where the entry lies that the worktree shows at a path of plain names from its top: in the upper directory, or in the base. `None`
    /// where it shows nothing, and where the upper directory holds what no overlay mount of ours leaves.
    pub fn find(&self, path: &Path) -> Option<PathBuf> {
        match self.shown(path.as_os_str().as_bytes()).ok()? {
            LayerEntry::Base => {
                let in_base = self.base.join(path);
                in_base.symlink_metadata().is_ok().then_some(in_base)
            }
            LayerEntry::Upper | LayerEntry::Directory => Some(self.upper.join(path)),
            LayerEntry::Nothing => None,
        }
    }
}

/// Whether this says that nothing is there.
///
/// # Errors
/// `layer-invalid` for any other device, and for attributes by which a file would be another one.
pub fn is_whiteout(place: &Path, found: &Metadata) -> Result<bool> {
    if is_whiteout_device(found) {
        return Ok(true);
    }
    let kind = found.file_type();
    if kind.is_char_device() || kind.is_block_device() {
        return Err(refused(place, "is a device"));
    }
    // Symlinks can have no attributes of users.
    if kind.is_file() || kind.is_dir() {
        require_plain(place)?;
    }
    Ok(false)
}

/// Refuses attributes that no overlay mount of ours writes: by them a name stands for another file or for none.
fn require_plain(place: &Path) -> Result<()> {
    let mut names = vec![0; 256];
    let mut listed = rustix::fs::llistxattr(place, names.as_mut_slice());
    if listed == Err(Errno::RANGE) {
        // The kernel allows no longer list of names for one file.
        names = vec![0; 1 << 16];
        listed = rustix::fs::llistxattr(place, names.as_mut_slice());
    }
    let length = match listed {
        Ok(length) => length,
        Err(Errno::NOTSUP | Errno::NOENT) => 0,
        Err(error) => {
            return Err(unreadable(place, error));
        }
    };
    let names = names.get(..length).unwrap_or_default();
    for name in names.split(|&byte| byte == 0) {
        let name = String::from_utf8_lossy(name);
        let ours = name.strip_prefix(PREFIX);
        let is_known = ours.is_none_or(|rest| {
            let is_one =
                |known: &str| rest == known || known.ends_with('.') && rest.starts_with(known);
            rest == "opaque" || HARMLESS.iter().any(|known| is_one(known))
        });
        // Only root can set these, and only a mount of root's obeys them; then the files would not
        // be what they seem here.
        if !is_known || name.starts_with("trusted.overlay.") {
            return Err(refused(place, &format!("has the attribute {name}")));
        }
    }
    Ok(())
}

/// Whether of what the base has below this directory nothing is there. Of one that may not be read, that is not known, and neither is what
/// is in it.
///
/// # Errors
/// `layer-invalid`.
pub fn is_opaque(place: &Path) -> Result<bool> {
    // One byte is expected. The second tells a longer value from the right one.
    let mut value = [0; 2];
    let name = format!("{PREFIX}opaque");
    match rustix::fs::lgetxattr(place, name.as_str(), value.as_mut_slice()) {
        Ok(1) if value[0] == b'y' => Ok(true),
        Ok(_) | Err(Errno::RANGE) => {
            Err(refused(place, "has an attribute `opaque` that is not `y`"))
        }
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {
            Ok(false)
        }
        Err(error) => Err(unreadable(place, error)),
    }
}

fn unreadable(place: &Path, error: Errno) -> Error {
    if error == Errno::ACCESS {
        let what = format!("could not read the attributes of {}", place.display());
        return Error::io(what, error.into());
    }
    refused(place, &format!("has unreadable attributes: {error}"))
}

/// The error for what no overlay mount of ours leaves.
pub(in crate::git) fn refused(place: &Path, what: &str) -> Error {
    let shown = place.display();
    let place = shell::path(place);
    Error::new(
        Code::LayerInvalid,
        format!("{shown} {what}, so what the agent's files are cannot be told"),
    )
    .hint(format!("to look at it, run ls -ld {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// The sums as one walk from top to bottom takes them.
    fn in_one_walk(top: &Path) -> String {
        let mut told = Vec::new();
        for entry in WalkDir::new(top).min_depth(1).sort_by_file_name() {
            let entry = entry.expect("listed");
            let path = entry.path().strip_prefix(top).expect("below");
            let found = entry.metadata().expect("looked at");
            if path == Path::new(".git") {
                continue;
            }
            let size = if found.is_dir() { 0 } else { found.size() };
            told.extend_from_slice(path.as_os_str().as_bytes());
            for number in [i64::from(found.mode()), found.mtime(), found.mtime_nsec()] {
                told.extend_from_slice(&number.to_le_bytes());
            }
            told.extend_from_slice(&size.to_le_bytes());
            told.push(0);
        }
        hex(&Sha256::digest(told)[..])
    }

    #[test]
    fn the_sums_of_parts_are_those_of_one_walk() {
        let directory = tempfile::tempdir().expect("made");
        let top = directory.path().join("base");
        for name in ["a/b/c/d", "a/e", "a-b/f", "g"] {
            fs::create_dir_all(top.join(name)).expect("made");
            fs::write(top.join(name).join("file"), name).expect("written");
        }
        fs::write(top.join(".git"), "gitdir: elsewhere").expect("written");
        // What they lead to lies beside the base, and counts for nothing.
        fs::create_dir(directory.path().join("other")).expect("made");
        fs::write(directory.path().join("other/file"), "other").expect("written");
        for name in ["link", "a/link", "a/b/link"] {
            symlink(directory.path().join("other"), top.join(name)).expect("linked");
        }
        let sums = BaseSums::of(&top).expect("sums");
        assert_eq!(sums.hash, in_one_walk(&top));
        assert_eq!(sums.names, 15);
        fs::write(top.join("a/b/c/d/file"), "longer").expect("written");
        assert_ne!(BaseSums::of(&top).expect("sums").hash, sums.hash);
        assert!(BaseSums::of(&top.join("gone")).is_err());
    }
}
