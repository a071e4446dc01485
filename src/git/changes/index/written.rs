//! What an index remembers of files, and what that proves.

use super::{Entry, Index, be32};
use crate::domain::oid::Oid;
use crate::git::files::separate::is_past;
use crate::git::files::untrusted;
use crate::git::tree::{EXECUTABLE, FILE, SYMLINK};
use rustix::fs::{FileType, Stat};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The ten numbers that an entry keeps of `lstat`, in the order of the format.
pub(in crate::git) type StatData = [u32; 10];

/// What an entry is to keep of a file.
pub(in crate::git) fn stat_data(stat: &Stat) -> StatData {
    [
        low(stat.st_ctime),
        low(stat.st_ctime_nsec),
        low(stat.st_mtime),
        low(stat.st_mtime_nsec),
        low(stat.st_dev),
        low(stat.st_ino),
        low(stat.st_mode),
        stat.st_uid,
        stat.st_gid,
        low(stat.st_size),
    ]
}

/// An index, and when it was written.
#[derive(Debug)]
pub(in crate::git) struct Written {
    /// What it holds.
    pub(in crate::git) index: Index,
    /// The modification time of its file: seconds, and nanoseconds.
    pub(in crate::git) time: (i64, i64),
}

impl Written {
    /// Reads an index file; `None` when it is not there, malformed, or for git alone to read.
    pub(in crate::git) fn load(path: &Path) -> Option<Written> {
        let file = untrusted::open(path.parent()?, Path::new(path.file_name()?))?;
        let metadata = file.metadata().ok()?;
        if metadata.len() > untrusted::LONGEST_INDEX {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()? + 1);
        { file.take(untrusted::LONGEST_INDEX) }
            .read_to_end(&mut bytes)
            .ok()?;
        Some(Written {
            index: Index::parse(bytes)?,
            // The time is that of the file which was read, not of whatever has its name by now.
            time: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Whether a file is what the index remembers, for git too: as most build it, and on some file systems, it knows
    /// no less than a second, so what was written in the second of the index, or later, proves nothing.
    pub(in crate::git) fn proves_to_git(&self, entry: &Entry, stat: &Stat) -> bool {
        i64::from(self.index.modified(entry)) < self.time.0 && self.index.matches(entry, stat)
    }

    /// Whether a file is what the index remembers, beyond doubt. Git goes by the modification time alone here, which a program
    /// that replaced the file in the same tick may have set.
    pub(in crate::git) fn proves(&self, entry: &Entry, stat: &Stat) -> bool {
        let [changed, changed_nano, modified, modified_nano, ..] = self.index.stat(entry);
        self.is_after(changed.into(), changed_nano.into())
            && self.is_after(modified.into(), modified_nano.into())
            && self.index.matches(entry, stat)
    }

    /// Whether the index was written so long after a moment, given in seconds and nanoseconds, that whatever happened after
    /// it was written bears another time.
    pub(in crate::git) fn is_after(&self, seconds: i128, nanoseconds: i128) -> bool {
        is_past(self.time, seconds, nanoseconds)
    }
}

impl Index {
    fn stat(&self, entry: &Entry) -> StatData {
        let at = usize::try_from(entry.at).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(at..at + 40).unwrap_or(&[0; 40]);
        std::array::from_fn(|field| be32(bytes, field * 4).unwrap_or(0))
    }

    /// When the file of an entry was changed, in seconds.
    pub(super) fn modified(&self, entry: &Entry) -> u32 {
        let at = usize::try_from(entry.at).unwrap_or(usize::MAX);
        be32(&self.bytes, at + 8).unwrap_or(0)
    }

    /// Whether a file of this length may have the content of an entry.
    pub(in crate::git) fn may_have_length(&self, entry: &Entry, length: u64) -> bool {
        let [.., size] = self.stat(entry);
        // Git marks an entry to be looked into with a zero.
        size == 0 || u64::from(size) == length
    }

    /// Whether these are the stat data that an entry keeps, all of them.
    fn matches(&self, entry: &Entry, stat: &Stat) -> bool {
        let mode = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_mode & 0o100 != 0 => EXECUTABLE,
            FileType::RegularFile => FILE,
            FileType::Symlink => SYMLINK,
            _ => return false,
        };
        let [
            // The device is left out: git compares it only where it was built for that, because its
            // number changes between mounts.
            ctime,
            ctime_nano,
            mtime,
            mtime_nano,
            _,
            inode,
            _,
            user,
            group,
            size,
        ] = self.stat(entry);
        // So git marks what has to be looked into.
        let is_marked = size == 0 && entry.content.1 != Oid::EMPTY_BLOB;
        !is_marked
            && mode == entry.content.0
            && low(stat.st_ctime) == ctime
            && low(stat.st_ctime_nsec) == ctime_nano
            && low(stat.st_mtime) == mtime
            && low(stat.st_mtime_nsec) == mtime_nano
            && low(stat.st_ino) == inode
            && stat.st_uid == user
            && stat.st_gid == group
            // All of it: git does not take 4 GiB for nothing, either.
            && i128::from(stat.st_size) == i128::from(size)
    }
}

/// The low 32 bits, which is all that an index keeps.
fn low(number: impl TryInto<i128>) -> u32 {
    let number = number.try_into().unwrap_or_default();
    u32::try_from(number & 0xffff_ffff).unwrap_or_default()
}
