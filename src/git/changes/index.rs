//! Reading an index: versions 2 to 4 and the TREE extension (git's `gitformat-index`).
//!
//! Only what `git commit` would make of it matters, so stat data are kept for `glance` alone, the checksum is passed
//! over (git itself reads without checking it) and entries that only intend to be added are left out. A
//! split or sparse index, and any required extension that we do not know, is left to git.
//!
//! The cached trees are believed: `git commit` believes them too, and writes the tree they name.

mod rewrite;
mod write_tree;

use crate::domain::Oid;
use crate::domain::paths::path::split_once;
use crate::git::changes::{Content, Directory, Item, canonical_mode};
use crate::git::core::tree::{self, EXECUTABLE, FILE, SYMLINK};
use crate::git::files::separate::is_past;
use crate::git::files::untrusted;
pub(in crate::git) use rewrite::{Edits, Rewritten};
use rustix::fs::{FileType, Stat};
use sha1::{Digest, Sha1};
use std::cmp::Ordering;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use write_tree::CachedTree;

const HEADER: usize = 12;
/// Stat data, oid and flags; the path follows.
const FIXED: usize = 62;
/// How long the hash at its end is, in bytes.
pub const CHECKSUM: usize = 20;
/// No file has a longer path on Linux (`PATH_MAX`). Git looks at an index that has one, so that what costs a step for
/// each directory of a path stays cheap here.
const LONGEST_PATH: usize = 4096;
/// How many times as long as the file what version 4 shortens may become: a writer can make a few bytes stand for a
/// long path as often as it likes.
const GROWTH: usize = 8;

/// The part of an index that a commit is made of.
#[derive(Debug, Default)]
pub(in crate::git) struct Index {
    /// The file, followed by the paths that version 4 shortens. Copying nothing else halves the time.
    bytes: Vec<u8>,
    /// The length of the file.
    file: usize,
    pub(super) entries: Vec<IndexEntry>,
    /// Cached trees, parents before children; the first is the top.
    trees: Vec<CachedTree>,
    /// The blobs that it names besides: sides of conflicts, resolved or not, and what is only intended.
    pub(super) besides: Vec<Oid>,
    /// Whether there is more to it than paths with their content: an entry that is unmerged, to be passed
    /// over or of a mode that git does not write; an extension that says something about entries.
    pub(in crate::git) is_flagged: bool,
}

#[derive(Debug)]
pub(in crate::git) struct IndexEntry {
    path: Range<u32>,
    pub(in crate::git) content: Content,
    /// Where its stat data begin.
    at: u32,
}

impl Index {
    /// As [`Index::parse`], of the file at a path; `None` as well when there is none.
    pub(in crate::git) fn load(path: &Path) -> Option<Index> {
        untrusted::read_at(path, untrusted::LONGEST_INDEX).and_then(Index::parse)
    }

    /// Reads an index file; `None` when it is malformed or for git alone to read.
    pub(in crate::git) fn parse(file: Vec<u8>) -> Option<Index> {
        let end = file.len().checked_sub(CHECKSUM)?;
        if file.get(..4)? != b"DIRC" {
            return None;
        }
        let version = be32(&file, 4)?;
        if !(2..=4).contains(&version) {
            return None;
        }
        let count = usize::try_from(be32(&file, 8)?).ok()?;
        let mut index = Index {
            // An entry takes more bytes than this, so a made-up count reserves nothing absurd.
            entries: Vec::with_capacity(count.min(end / FIXED)),
            file: file.len(),
            bytes: file,
            ..Index::default()
        };
        let longest = index.bytes.len().saturating_mul(GROWTH);
        let mut position = HEADER;
        let mut previous = 0..0;
        for _ in 0..count {
            (position, previous) = index.read_entry(position, version, previous)?;
            if index.bytes.len() > longest {
                return None;
            }
        }
        index.read_extensions(position, end)?;
        Some(index)
    }

    /// Whether some entry is a submodule.
    pub(in crate::git) fn has_submodules(&self) -> bool {
        self.submodules().next().is_some()
    }

    /// The paths of the submodules.
    pub(in crate::git) fn submodules(&self) -> impl Iterator<Item = &[u8]> {
        let links = self.entries.iter().filter(|entry| entry.content.0 == tree::GITLINK);
        links.map(|entry| self.path(entry))
    }

    /// All of it, as the new side of a comparison, with its tree where that is known.
    pub(super) fn top(&self) -> (Option<Oid>, Directory) {
        let oid = self.trees.first().and_then(|tree| Some(tree.valid?.1));
        let directory = Directory::Index {
            entries: 0..self.entries.len(),
            cached: (!self.trees.is_empty()).then_some(0),
        };
        (oid, directory)
    }

    /// The names directly in a directory. `skip` is the length of its path with the final slash.
    pub(super) fn level(
        &self,
        entries: Range<usize>,
        cached: Option<usize>,
        skip: usize,
    ) -> Vec<(&[u8], Item)> {
        self.level_where(entries, cached, skip, |_| true)
    }

    /// As [`Index::level`], with the cached trees of those directories alone that are `believed`.
    pub(super) fn level_where(
        &self,
        entries: Range<usize>,
        cached: Option<usize>,
        skip: usize,
        is_believed: impl Fn(&[u8]) -> bool,
    ) -> Vec<(&[u8], Item)> {
        let children = |tree| write_tree::cached_children(&self.bytes, &self.trees, tree);
        let children = cached.map(children).unwrap_or_default();
        let mut names = Vec::new();
        let mut at = entries.start;
        while let Some(entry) = self.entries.get(at).filter(|_| at < entries.end) {
            let rest = self.path(entry).get(skip..).unwrap_or_default();
            let Some((name, _)) = split_once(rest, b'/') else {
                names.push((rest, Item::File(entry.content)));
                at += 1;
                continue;
            };
            let cached = children.get(name).copied();
            let valid = cached.filter(|_| is_believed(name));
            let valid = valid.and_then(|tree| self.trees.get(tree)?.valid);
            // Of no entries, or of more than there are: git does not believe that, either.
            let valid = valid.filter(|(count, _)| *count > 0 && *count <= entries.end - at);
            let length = match valid {
                // Entries that only intend to be added make a tree invalid, so none is missing.
                Some((count, _)) => count,
                None => self.below(at..entries.end, skip, name),
            };
            let directory = Directory::Index { entries: at..at + length, cached };
            let oid = valid.map(|(_, oid)| oid);
            names.push((name, Item::Directory { oid, directory }));
            // A malformed count must not keep this loop in its place.
            at += length.max(1);
        }
        names
    }

    /// How many of these entries, at their beginning, are in the directory `name` of one whose path is `skip` bytes long.
    pub(super) fn below(&self, entries: Range<usize>, skip: usize, name: &[u8]) -> usize {
        let is_below = |entry: &IndexEntry| {
            let rest = self.path(entry).get(skip..).unwrap_or_default();
            matches!(rest.strip_prefix(name), Some([b'/', ..]))
        };
        let entries = self.entries.get(entries).unwrap_or_default();
        entries.partition_point(is_below)
    }

    /// Reads the entry at `position`, after one whose path is `previous`; gives the position after it
    /// and its path.
    fn read_entry(
        &mut self,
        position: usize,
        version: u32,
        previous: Range<usize>,
    ) -> Option<(usize, Range<usize>)> {
        let fixed = self.bytes.get(position..position + FIXED)?;
        let mode = be32(fixed, 24)?;
        let oid = Oid::from_slice(fixed.get(40..60)?)?;
        let flags = be16(fixed, 60)?;
        let mut at = position + FIXED;
        let mut intends = false;
        // The four high bits: assume-valid, extended, and the stage.
        self.is_flagged |= flags & 0xf000 != 0 || canonical_mode(mode) != mode;
        if version < 3 && flags & 0x4000 != 0 {
            return None;
        }
        if version >= 3 && flags & 0x4000 != 0 {
            // `intent-to-add` among the extended flags.
            intends = self.bytes.get(at)? & 0x20 != 0;
            at += 2;
        }
        let (path, end) = match version {
            4 => self.shortened_path(at, previous.clone())?,
            _ => {
                let length = match usize::from(flags & 0xfff) {
                    // Longer than the field can say.
                    0xfff => self.bytes.get(at..)?.iter().position(|&byte| byte == 0)?,
                    length => length,
                };
                let end = at + length;
                // Git prints such a path to its end, and looks it up by its length.
                if self.bytes.get(end) != Some(&0) {
                    return None;
                }
                // One to eight terminators fill the entry to a multiple of eight.
                (at..end, end + 8 - (end - position) % 8)
            }
        };
        let bytes = self.bytes.get(path.clone())?;
        // Only a sparse index has directories for entries.
        if mode == tree::DIRECTORY {
            return None;
        }
        // Git goes by this number where it fits, not by the terminator; but it shows and compares no more of a path
        // than what is before a NUL.
        let is_told = bytes.len() == usize::from(flags & 0xfff) || bytes.len() >= 0xfff;
        if !is_told || memchr::memchr(0, bytes).is_some() || bytes.len() > LONGEST_PATH {
            return None;
        }
        let unmerged = flags & 0x3000 != 0;
        if (unmerged || intends) && mode != tree::GITLINK {
            self.besides.push(oid);
        }
        match self.bytes.get(previous)?.cmp(bytes) {
            // The other stages of a path in conflict.
            Ordering::Equal if unmerged && self.ends_unmerged_at(bytes) => {}
            // The writer of this hides something from a reader that trusts the order.
            Ordering::Equal | Ordering::Greater => return None,
            // `git commit` makes nothing of such an entry.
            Ordering::Less if intends && !unmerged => {}
            Ordering::Less => self.entries.push(IndexEntry {
                path: u32::try_from(path.start).ok()?..u32::try_from(path.end).ok()?,
                // Of a conflict no single content is known; a zero name equals that of no blob.
                content: (canonical_mode(mode), if unmerged { Oid::ZERO } else { oid }),
                at: u32::try_from(position).ok()?,
            }),
        }
        Some((end, path))
    }

    /// Whether the last entry is a path in conflict: a merged one has no other stages.
    fn ends_unmerged_at(&self, path: &[u8]) -> bool {
        let last = self.entries.last();
        last.is_some_and(|last| last.content.1.is_zero() && self.path(last) == path)
    }

    /// Version 4: how much to cut off the previous path, then what to put at its end, and NUL.
    fn shortened_path(
        &mut self,
        at: usize,
        previous: Range<usize>,
    ) -> Option<(Range<usize>, usize)> {
        let (cut, at) = varint(&self.bytes, at)?;
        let kept = previous.len().checked_sub(cut)?;
        let length = self.bytes.get(at..)?.iter().position(|&byte| byte == 0)?;
        let start = self.bytes.len();
        self.bytes.extend_from_within(previous.start..previous.start + kept);
        self.bytes.extend_from_within(at..at + length);
        Some((start..self.bytes.len(), at + length + 1))
    }

    fn read_extensions(&mut self, mut at: usize, end: usize) -> Option<()> {
        while at < end {
            let signature = self.bytes.get(at..at + 4)?;
            let length = usize::try_from(be32(&self.bytes, at + 4)?).ok()?;
            let body = at + 8..(at + 8).checked_add(length).filter(|&after| after <= end)?;
            at = body.end;
            match signature {
                b"TREE" => self.trees = write_tree::cached_tree_ids(&self.bytes, body)?,
                // What was resolved, the untracked cache, the file system monitor: not where entries are.
                b"REUC" => self.besides.extend(write_tree::resolved_blobs(self.bytes.get(body)?)?),
                b"UNTR" | b"FSMN" => {}
                // A lower-case letter says that a reader must know it (`link`, `sdir`).
                [first, ..] if !first.is_ascii_uppercase() => return None,
                _ => self.is_flagged = true,
            }
        }
        // An entry that reaches into the checksum is none.
        (at == end).then_some(())
    }

    /// How many bytes it takes in memory, about.
    pub(super) fn size(&self) -> usize {
        let trees = self.trees.capacity() * size_of::<CachedTree>();
        self.bytes.capacity() + self.entries.capacity() * size_of::<IndexEntry>() + trees
    }

    pub(super) fn path(&self, entry: &IndexEntry) -> &[u8] {
        // Made from positions in these bytes, which only grow.
        let position = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
        let path = position(entry.path.start)..position(entry.path.end);
        self.bytes.get(path).unwrap_or_default()
    }
}

/// The hash of an index, or of the shared part of one, that stands at its end; `None` where another one does. Zeros stand there where
/// `index.skipHash` leaves it out.
pub fn hash_at_end(content: &[u8]) -> Option<[u8; CHECKSUM]> {
    let (before, end) = content.split_last_chunk()?;
    (Sha1::digest(before).as_slice() == end).then_some(*end)
}

fn be16(data: &[u8], at: usize) -> Option<u16> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*bytes))
}

fn be32(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

/// Git's offset encoding (`varint.c: decode_varint`): the value and the position after it.
fn varint(data: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *data.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *data.get(at)?;
        // Git adds one at each further byte, so that no value has two encodings.
        value = value.checked_add(1)?.checked_mul(128)? + usize::from(byte & 0x7f);
    }
    Some((value, at + 1))
}

// What an index remembers of files, and what that proves.

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
        file.take(untrusted::LONGEST_INDEX).read_to_end(&mut bytes).ok()?;
        Some(Written {
            index: Index::parse(bytes)?,
            // The time is that of the file which was read, not of whatever has its name by now.
            time: (metadata.mtime(), metadata.mtime_nsec()),
        })
    }

    /// Whether a file is what the index remembers, for git too: as most build it, and on some file systems, it knows
    /// no less than a second, so what was written in the second of the index, or later, proves nothing.
    pub(in crate::git) fn proves_to_git(&self, entry: &IndexEntry, stat: &Stat) -> bool {
        i64::from(self.index.modified(entry)) < self.time.0 && self.index.matches(entry, stat)
    }

    /// Whether a file is what the index remembers, beyond doubt. Git goes by the modification time alone here, which a program
    /// that replaced the file in the same tick may have set.
    pub(in crate::git) fn proves(&self, entry: &IndexEntry, stat: &Stat) -> bool {
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
    fn stat(&self, entry: &IndexEntry) -> StatData {
        let at = usize::try_from(entry.at).unwrap_or(usize::MAX);
        let bytes = self.bytes.get(at..at + 40).unwrap_or(&[0; 40]);
        std::array::from_fn(|field| be32(bytes, field * 4).unwrap_or(0))
    }

    /// When the file of an entry was changed, in seconds.
    fn modified(&self, entry: &IndexEntry) -> u32 {
        let at = usize::try_from(entry.at).unwrap_or(usize::MAX);
        be32(&self.bytes, at + 8).unwrap_or(0)
    }

    /// Whether a file of this length may have the content of an entry.
    pub(in crate::git) fn may_have_length(&self, entry: &IndexEntry, length: u64) -> bool {
        let [.., size] = self.stat(entry);
        // Git marks an entry to be looked into with a zero.
        size == 0 || u64::from(size) == length
    }

    /// Whether these are the stat data that an entry keeps, all of them.
    fn matches(&self, entry: &IndexEntry, stat: &Stat) -> bool {
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

// The tree of an index in which every directory's tree is known, without keeping its entries.
//
// The TREE extension stands behind the entries, whose lengths tell where they end, so the file is read once, through a
// buffer. Reading it as a whole would touch fresh memory for all of it, which takes longer than everything else.

/// How much is read at a time; an entry is shorter.
const BUFFER: usize = 1 << 16;

/// The tree that the index file of this length holds, as [`Index::top`] tells it. `None` where that is not known, or
/// where there is anything else about the index.
pub(super) fn known_tree(file: impl Read, length: u64) -> Option<Oid> {
    let mut input = IndexReader { file, bytes: vec![0; BUFFER], read: 0, has_ended: false };
    let header = input.get(0..HEADER)?;
    let is_plain = header.starts_with(b"DIRC") && matches!(be32(header, 4)?, 2 | 3);
    let count = be32(header, 8).filter(|_| is_plain)?;
    // Where the entry and the path before it stand in the buffer.
    let (mut at, mut previous) = (HEADER, 0..0);
    let mut passed = HEADER as u64;
    for _ in 0..count {
        // Refilled early enough that the whole of the next entry is there.
        if at + FIXED + LONGEST_PATH + 8 > input.read && !input.has_ended {
            // The path before this entry stays in the buffer as well: it proves the order of the
            // two.
            let kept = previous.start.min(at);
            input.advance(kept)?;
            at -= kept;
            previous = previous.start - kept..previous.end - kept;
        }
        let fixed = input.bytes.get(at..at + FIXED).filter(|_| at + FIXED <= input.read)?;
        let (mode, flags) = (be32(fixed, 24)?, be16(fixed, 60)?);
        let path = at + FIXED..at + FIXED + usize::from(flags & 0xfff);
        // Of the flags, and of paths that are longer than they can say, the reader of the whole knows what to make.
        let is_plain = flags & 0xf000 == 0 && path.len() < LONGEST_PATH - 1;
        if mode == tree::DIRECTORY || !is_plain {
            return None;
        }
        let end = path.end + 8 - (path.end - at) % 8;
        let bytes = input.bytes.get(path.clone()).filter(|_| end <= input.read)?;
        let before = input.bytes.get(previous)?;
        let goes_on = input.bytes.get(path.end) != Some(&0);
        let is_cut = goes_on || memchr::memchr(0, bytes).is_some();
        if is_cut || (passed > HEADER as u64 && before >= bytes) {
            return None;
        }
        passed += (end - at) as u64;
        (at, previous) = (end, path);
    }
    let left = length.checked_sub(passed)?.checked_sub(CHECKSUM as u64)?;
    let mut rest = input.bytes.get(at..input.read)?.to_vec();
    input.file.take(left + CHECKSUM as u64).read_to_end(&mut rest).ok()?;
    // It grew, or it became shorter.
    let left = usize::try_from(left).ok()?;
    (rest.len() == left + CHECKSUM).then(|| tree_of(&rest, left))?
}

/// The tree of the top, by the extensions in `0..end`.
fn tree_of(bytes: &[u8], end: usize) -> Option<Oid> {
    let mut found = None;
    let mut at = 0;
    while at < end {
        let signature = bytes.get(at..at + 4)?;
        let length = usize::try_from(be32(bytes, at + 4)?).ok()?;
        let body: Range<usize> = at + 8..(at + 8).checked_add(length).filter(|&to| to <= end)?;
        at = body.end;
        if signature == b"TREE" {
            found = write_tree::cached_tree_ids(bytes, body)?.first()?.valid;
        } else if !signature.first()?.is_ascii_uppercase() {
            return None;
        }
    }
    found.map(|(_, oid)| oid)
}

/// A file through a buffer.
struct IndexReader<R> {
    file: R,
    bytes: Vec<u8>,
    /// How much of the buffer is filled.
    read: usize,
    has_ended: bool,
}

impl<R: Read> IndexReader<R> {
    /// The first bytes of the file.
    fn get(&mut self, range: Range<usize>) -> Option<&[u8]> {
        self.advance(0)?;
        self.bytes.get(..self.read)?.get(range)
    }

    /// Drops what is before `kept`, and fills the buffer as far as the file goes.
    fn advance(&mut self, kept: usize) -> Option<()> {
        self.bytes.copy_within(kept..self.read, 0);
        self.read -= kept;
        while self.read < self.bytes.len() {
            match self.file.read(self.bytes.get_mut(self.read..)?) {
                Ok(0) => {
                    self.has_ended = true;
                    break;
                }
                Ok(length) => self.read += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        Some(())
    }
}
