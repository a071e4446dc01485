//! An index that differs from one that was read at a few paths alone.
//!
//! `git update-index` could make it, but forgets the cached tree of every directory above what it touches, and
//! they come back with the next commit only. Here the trees on both sides are known, so the cache stays whole.
//! What git keeps in extensions of its own stays git's to write.

use super::{CHECKSUM, Content, Entry, FIXED, HEADER, Index, StatData, be32};
use crate::domain::oid::Oid;
use crate::git::changes::ignore::ATTRIBUTES_FILES;
use crate::git::tree::GITLINK;
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

/// Where the size stands among the stat data, how long they are, and where the flags stand among what is fixed.
const SIZE: usize = 36;
const STAT: usize = 40;
const FLAGS: usize = 60;

/// So many bytes of a file are compared at a time: more would be memory that is used for the first time.
const PIECE: usize = 32 << 10;

/// The place of the mode among the ten numbers of the stat data.
const MODE: usize = 6;

/// What becomes of some paths, and of the directories above them.
#[derive(Debug, Default)]
pub(in crate::git) struct Edits {
    /// What each path holds from now on; `None` for nothing.
    pub(in crate::git) paths: BTreeMap<Vec<u8>, Option<Content>>,
    /// The tree of each directory above them before, and after where that names the same subdirectories. Empty
    /// for the top, else ending in `/`.
    pub(in crate::git) trees: BTreeMap<Vec<u8>, (Oid, Option<Oid>)>,
}

impl Index {
    /// Every path, in git's order.
    pub(in crate::git) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.path(entry))
    }

    /// What stands at a path.
    pub(in crate::git) fn find(&self, path: &[u8]) -> Option<&Entry> {
        let at = { &self.entries }.binary_search_by(|entry| self.path(entry).cmp(path));
        at.ok().map(|at| &self.entries[at])
    }

    /// Whether a file holds the bytes that it was read from.
    ///
    /// # Errors
    /// Those of reading.
    pub(in crate::git) fn is_from(&self, mut file: impl Read) -> io::Result<bool> {
        // What version 4 shortens follows the file.
        let mut rest = &self.bytes[..self.file];
        let mut buffer = [0; PIECE];
        loop {
            let length = file.read(&mut buffer)?;
            match rest.strip_prefix(&buffer[..length]) {
                Some([]) if length == 0 => return Ok(true),
                Some(behind) if length > 0 => rest = behind,
                _ => return Ok(false),
            }
        }
    }

    /// The first path in a directory that is given with the slash at its end.
    pub(in crate::git) fn first_below(&self, directory: &[u8]) -> Option<&[u8]> {
        let at = { &self.entries }.partition_point(|entry| self.path(entry) < directory);
        let first = self.path(self.entries.get(at)?);
        first.starts_with(directory).then_some(first)
    }

    /// Whether a file at `path` would be a directory to some entry, or below one that is a file.
    pub(in crate::git) fn bars(&self, path: &[u8]) -> bool {
        let above = (0..path.len()).filter(|&at| path[at] == b'/');
        let below = [path, b"/"].concat();
        let after = { &self.entries }.partition_point(|entry| self.path(entry) < below.as_slice());
        let next = self.entries.get(after);
        next.is_some_and(|entry| self.path(entry).starts_with(&below)) || { above }
            .any(|end| self.find(&path[..end]).is_some())
    }

    /// An index with these edits. An edited entry has no stat data, so git looks at its file; an entry
    /// whose file changed in the second in which this index was `written`, or later, is marked for the same, as git
    /// marks it: most builds of git know no less than a second. `None` where git has to write it.
    pub(in crate::git) fn rewritten(&self, written: i64, edits: &Edits) -> Option<Rewritten> {
        if self.is_flagged || be32(&self.bytes, 4)? > 3 || !self.has_no_extension_but_trees()? {
            return None;
        }
        let room = self.bytes.len() + edits.paths.len() * 128;
        let mut new = Rewritten {
            bytes: Vec::with_capacity(room),
            edited: BTreeMap::new(),
        };
        new.bytes.extend_from_slice(self.bytes.get(..HEADER)?);
        let mut count = 0u32;
        let mut edited = edits.paths.iter().peekable();
        // What stays as it is comes in long pieces.
        let mut kept = HEADER..HEADER;
        for entry in &self.entries {
            let path = self.path(entry);
            let extent = self.extent(entry)?;
            if edited
                .peek()
                .is_some_and(|(next, _)| next.as_slice() <= path)
            {
                new.bytes.extend_from_slice(self.bytes.get(kept)?);
                kept = extent.end..extent.end;
                while let Some((next, content)) = edited.next_if(|(next, _)| next.as_slice() < path)
                {
                    count += new.put(next, *content)?;
                }
                if let Some((_, content)) = edited.next_if(|(next, _)| next.as_slice() == path) {
                    count += new.put(path, *content)?;
                    continue;
                }
                kept.start = extent.start;
            }
            kept.end = extent.end;
            if self.is_racy(entry, written) {
                new.bytes.extend_from_slice(self.bytes.get(kept)?);
                kept = extent.end..extent.end;
                let size = new.bytes.len() - extent.len() + SIZE;
                new.bytes.get_mut(size..size + 4)?.fill(0);
            }
            count += 1;
        }
        new.bytes.extend_from_slice(self.bytes.get(kept)?);
        for (next, content) in edited {
            count += new.put(next, *content)?;
        }
        new.bytes[8..HEADER].copy_from_slice(&count.to_be_bytes());
        if !self.trees.is_empty() {
            let trees = self.rewritten_trees(edits)?;
            new.bytes.extend_from_slice(b"TREE");
            let length = u32::try_from(trees.len()).ok()?;
            new.bytes.extend_from_slice(&length.to_be_bytes());
            new.bytes.extend_from_slice(&trees);
        }
        Some(new)
    }

    /// The file of an index that holds these paths and knows nothing of their files, so that git looks into each.
    pub(in crate::git) fn of(contents: &BTreeMap<&[u8], Content>) -> Vec<u8> {
        let mut new = Rewritten {
            bytes: b"DIRC\0\0\0\x02\0\0\0\0".to_vec(),
            edited: BTreeMap::new(),
        };
        let mut count = 0u32;
        for (path, content) in contents {
            count += new.put(path, Some(*content)).unwrap_or(0);
        }
        new.bytes[8..HEADER].copy_from_slice(&count.to_be_bytes());
        new.into_file()
    }

    /// Its files of attributes, which git takes from an index where they are missing on disk.
    pub(in crate::git) fn attributes(&self) -> impl Iterator<Item = (&[u8], Content)> {
        let is_one = |path: &[u8]| {
            let name = path.rsplit(|&byte| byte == b'/').next();
            ATTRIBUTES_FILES
                .iter()
                .any(|file| name == Some(file.as_bytes()))
        };
        let all = self
            .entries
            .iter()
            .map(|entry| (self.path(entry), entry.content));
        all.filter(move |(path, _)| is_one(path))
    }

    /// Where an entry stands in the file, with its terminators.
    fn extent(&self, entry: &Entry) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(entry.at).ok()?;
        let length = FIXED + self.path(entry).len();
        Some(start..start + length + 8 - length % 8)
    }

    fn is_racy(&self, entry: &Entry, written: i64) -> bool {
        entry.content.0 != GITLINK && i64::from(self.modified(entry)) >= written
    }

    fn has_no_extension_but_trees(&self) -> Option<bool> {
        let mut at = match self.entries.last() {
            Some(last) => self.extent(last)?.end,
            None => HEADER,
        };
        while at < self.bytes.len() - CHECKSUM {
            if self.bytes.get(at..at + 4)? != b"TREE" {
                return Some(false);
            }
            at += 8 + usize::try_from(be32(&self.bytes, at + 4)?).ok()?;
        }
        Some(true)
    }

    /// The extension's text. A directory whose entries are not known to be those of its tree before is not known
    /// after either, nor is one above it.
    fn rewritten_trees(&self, edits: &Edits) -> Option<Vec<u8>> {
        let mut valid = Vec::with_capacity(self.trees.len());
        let mut parents = Vec::with_capacity(self.trees.len());
        // The directories that what comes next is in: position, end, and the length of their path.
        let mut open: Vec<(usize, usize, usize)> = Vec::new();
        let mut path: Vec<u8> = Vec::new();
        for (at, tree) in self.trees.iter().enumerate() {
            while open.pop_if(|(_, end, _)| *end <= at).is_some() {}
            path.truncate(open.last().map_or(0, |(.., length)| *length));
            if at > 0 {
                path.extend_from_slice(&self.bytes[tree.name.clone()]);
                path.push(b'/');
            }
            parents.push(open.last().map(|(parent, ..)| *parent));
            open.push((at, tree.end, path.len()));
            valid.push(self.valid_after(tree.valid, &path, edits));
        }
        for at in (1..valid.len()).rev() {
            if let (None, Some(parent)) = (valid[at], parents[at]) {
                valid[parent] = None;
            }
        }
        let mut children = vec![0usize; valid.len()];
        parents
            .iter()
            .flatten()
            .for_each(|parent| children[*parent] += 1);
        let mut out = Vec::new();
        for (at, tree) in self.trees.iter().enumerate() {
            out.extend_from_slice(&self.bytes[tree.name.clone()]);
            let entries = valid[at].map_or("-1".to_owned(), |(count, _)| count.to_string());
            out.extend_from_slice(format!("\0{entries} {}\n", children[at]).as_bytes());
            out.extend(valid[at].iter().flat_map(|(_, oid)| oid.as_bytes()));
        }
        Some(out)
    }

    /// How many entries a directory has after the edits, and their tree.
    fn valid_after(
        &self,
        valid: Option<(usize, Oid)>,
        directory: &[u8],
        edits: &Edits,
    ) -> Option<(usize, Oid)> {
        let from = edits.paths.range(directory.to_vec()..);
        let below = from.take_while(|(path, _)| path.starts_with(directory));
        let (mut count, oid) = valid?;
        let mut edited = false;
        for (path, content) in below {
            edited = true;
            count += usize::from(content.is_some());
            count = count.checked_sub(usize::from(self.find(path).is_some()))?;
        }
        if !edited {
            return valid;
        }
        let (before, after) = edits.trees.get(directory)?;
        Some((count, (*after)?)).filter(|_| *before == oid)
    }
}

/// The content of a new index, all but its checksum.
#[derive(Debug)]
pub(in crate::git) struct Rewritten {
    bytes: Vec<u8>,
    /// Where the edited entries begin.
    edited: BTreeMap<Vec<u8>, usize>,
}

impl Rewritten {
    /// The file of the index.
    pub(in crate::git) fn into_file(mut self) -> Vec<u8> {
        let checksum = Sha1::digest(&self.bytes);
        self.bytes.extend_from_slice(&checksum);
        self.bytes
    }

    /// Writes the index to a new file, with zeros for its checksum: git does not look at one of zeros.
    ///
    /// # Errors
    /// Those of writing.
    pub(in crate::git) fn write(&self, file: &File) -> io::Result<()> {
        file.write_all_at(&self.bytes, 0)?;
        file.write_all_at(&[0; CHECKSUM], self.bytes.len() as u64)
    }

    /// Adds to the file what is known of the files of some edited entries, and the checksum.
    ///
    /// # Errors
    /// Those of writing.
    pub(in crate::git) fn complete(
        &mut self,
        file: &File,
        stats: &BTreeMap<Vec<u8>, StatData>,
    ) -> io::Result<()> {
        for (path, stat) in stats {
            let Some(at) = self.edited.get(path) else {
                continue;
            };
            let fields = self.bytes[*at..at + STAT].chunks_exact_mut(4).zip(stat);
            // The mode is that of the entry, which knows less of them than a file system.
            for (_, (field, number)) in fields.enumerate().filter(|(place, _)| *place != MODE) {
                field.copy_from_slice(&number.to_be_bytes());
            }
            file.write_all_at(&self.bytes[*at..at + STAT], *at as u64)?;
        }
        let checksum = Sha1::digest(&self.bytes);
        file.write_all_at(&checksum, self.bytes.len() as u64)
    }

    /// Adds an entry that knows nothing of its file; gives how many were added.
    fn put(&mut self, path: &[u8], content: Option<Content>) -> Option<u32> {
        let Some((mode, oid)) = content else {
            return Some(0);
        };
        self.edited.insert(path.to_vec(), self.bytes.len());
        let mut fixed = [0; FIXED];
        fixed[24..28].copy_from_slice(&mode.to_be_bytes());
        fixed[STAT..FLAGS].copy_from_slice(oid.as_bytes());
        // Twelve bits; a longer path is found by its terminator.
        let length = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        fixed[FLAGS..].copy_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(&fixed);
        self.bytes.extend_from_slice(path);
        let terminators = 8 - (FIXED + path.len()) % 8;
        self.bytes.extend_from_slice(&[0; 8][..terminators]);
        Some(1)
    }
}
