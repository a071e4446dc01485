//! An index that differs from one that was read at a few paths alone.
//!
//! `git update-index` could make it, but forgets the cached tree of every directory above what it touches, and
//! they come back with the next commit only. Here the trees on both sides are known, so the cache stays whole.
//! What git keeps in extensions of its own stays git's to write.

use super::{CHECKSUM, Content, FIXED, HEADER, Index, IndexEntry, StatData, be32};
use crate::domain::Oid;
use crate::domain::paths::path::directories;
use crate::git::changes::ignore::ATTRIBUTES_FILES;
use crate::git::core::tree::GITLINK;
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Read, Write};
use std::ops::Range;

/// Where the size stands among the stat data, how long they are, and where the flags stand among what is fixed.
const SIZE: usize = 36;
const STAT: usize = 40;
const FLAGS: usize = 60;

/// So many bytes of a file are compared at a time, or gathered to be written: more would be memory that is used for the first time.
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
    pub(in crate::git) fn find(&self, path: &[u8]) -> Option<&IndexEntry> {
        let at = self.entries.binary_search_by(|entry| self.path(entry).cmp(path));
        self.entries.get(at.ok()?)
    }

    /// Whether a file holds the bytes that it was read from.
    ///
    /// # Errors
    /// Those of reading.
    pub(in crate::git) fn is_from(&self, mut file: impl Read) -> io::Result<bool> {
        // What version 4 shortens follows the file.
        let mut rest = self.bytes.get(..self.file).unwrap_or_default();
        let mut buffer = [0; PIECE];
        loop {
            let length = file.read(&mut buffer)?;
            let read = buffer.get(..length);
            match read.and_then(|read| rest.strip_prefix(read)) {
                Some([]) if length == 0 => return Ok(true),
                Some(behind) if length > 0 => rest = behind,
                _ => return Ok(false),
            }
        }
    }

    /// The first path in a directory that is given with the slash at its end.
    pub(in crate::git) fn first_below(&self, directory: &[u8]) -> Option<&[u8]> {
        let at = self.entries.partition_point(|entry| self.path(entry) < directory);
        let first = self.path(self.entries.get(at)?);
        first.starts_with(directory).then_some(first)
    }

    /// Whether a file at `path` would be a directory to some entry, or below one that is a file.
    pub(in crate::git) fn bars(&self, path: &[u8]) -> bool {
        let below = [path, b"/"].concat();
        let after = self.entries.partition_point(|entry| self.path(entry) < below.as_slice());
        let next = self.entries.get(after);
        next.is_some_and(|entry| self.path(entry).starts_with(&below))
            || directories(path).any(|above| self.find(above).is_some())
    }

    /// An index with these edits. An edited entry has no stat data, so git looks at its file; an entry
    /// whose file changed in the second in which this index was `written`, or later, is marked for the same, as git
    /// marks it: most builds of git know no less than a second. `None` where git has to write it.
    pub(in crate::git) fn rewritten(&self, written: i64, edits: &Edits) -> Option<Rewritten<'_>> {
        // Version 4 shortens each path by the one before it, so no piece of it could be kept as it
        // is.
        if self.is_flagged || be32(&self.bytes, 4)? > 3 || !self.has_no_extension_but_trees()? {
            return None;
        }
        let mut new = Rewritten::new(&self.bytes);
        let mut count = 0u32;
        let mut edited = edits.paths.iter().peekable();
        // What stays as it is comes in long pieces.
        let mut kept = HEADER..HEADER;
        for entry in &self.entries {
            let path = self.path(entry);
            let extent = self.extent(entry)?;
            if edited.peek().is_some_and(|(next, _)| next.as_slice() <= path) {
                new.keep(kept);
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
            // The new index is younger, and git would believe the old stat data of this entry. A
            // size of zero makes it look into the file, as git itself does here.
            if self.is_racy(entry, written) {
                let size = extent.start + SIZE;
                new.keep(kept.start..size);
                new.add(&[0; 4]);
                kept.start = size + 4;
            }
            count += 1;
        }
        new.keep(kept);
        for (next, content) in edited {
            count += new.put(next, *content)?;
        }
        new.count(count);
        if !self.trees.is_empty() {
            let trees = self.rewritten_trees(edits)?;
            new.add(b"TREE");
            let length = u32::try_from(trees.len()).ok()?;
            new.add(&length.to_be_bytes());
            new.add(&trees);
        }
        Some(new)
    }

    /// The file of an index that holds these paths and knows nothing of their files, so that git looks into each.
    pub(in crate::git) fn of(contents: &BTreeMap<&[u8], Content>) -> Vec<u8> {
        let mut new = Rewritten::new(b"DIRC\0\0\0\x02\0\0\0\0");
        let mut count = 0u32;
        for (path, content) in contents {
            count += new.put(path, Some(*content)).unwrap_or(0);
        }
        new.count(count);
        new.into_file()
    }

    /// Its file with all that is `known` of the files of some entries; nothing else of it changes.
    pub(in crate::git) fn with_stats(
        &self,
        known: impl Fn(&IndexEntry, &[u8]) -> Option<StatData>,
    ) -> Option<Vec<u8>> {
        let mut file = self.bytes.get(..self.file)?.to_vec();
        for entry in &self.entries {
            if let Some(stat) = known(entry, self.path(entry)) {
                let at = usize::try_from(entry.at).ok()?;
                let kept = file.get_mut(at..at + STAT)?;
                kept.copy_from_slice(&with_stat(kept, &stat));
            }
        }
        let (content, checksum) = file.split_last_chunk_mut::<CHECKSUM>()?;
        // `index.skipHash` leaves it out.
        if *checksum != [0; CHECKSUM] {
            *checksum = Sha1::digest(content).into();
        }
        Some(file)
    }

    /// Its files of attributes, which git takes from an index where they are missing on disk.
    pub(in crate::git) fn attributes(&self) -> impl Iterator<Item = (&[u8], Content)> {
        let is_one = |path: &[u8]| {
            let name = path.rsplit(|&byte| byte == b'/').next();
            ATTRIBUTES_FILES.iter().any(|file| name == Some(file.as_bytes()))
        };
        self.contents().filter(move |(path, _)| is_one(path))
    }

    /// Every path with its content, in git's order; the object name is zero where the path is in conflict.
    pub(in crate::git) fn contents(&self) -> impl Iterator<Item = (&[u8], Content)> {
        self.entries.iter().map(|entry| (self.path(entry), entry.content))
    }

    /// Where an entry stands in the file, with its terminators.
    fn extent(&self, entry: &IndexEntry) -> Option<Range<usize>> {
        let start = usize::try_from(entry.at).ok()?;
        let length = FIXED + self.path(entry).len();
        Some(start..start + length + 8 - length % 8)
    }

    fn is_racy(&self, entry: &IndexEntry, written: i64) -> bool {
        entry.content.0 != GITLINK && i64::from(self.modified(entry)) >= written
    }

    fn has_no_extension_but_trees(&self) -> Option<bool> {
        let mut at = match self.entries.last() {
            Some(last) => self.extent(last)?.end,
            None => HEADER,
        };
        while at < self.bytes.len() - CHECKSUM {
            // Extensions say something about entries, and would be wrong beside edited ones.
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
        let mut trees = Vec::with_capacity(self.trees.len());
        // The directories that what comes next is in: end, and the length of their path.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut path: Vec<u8> = Vec::new();
        for (at, tree) in self.trees.iter().enumerate() {
            while open.pop_if(|(end, _)| *end <= at).is_some() {}
            path.truncate(open.last().map_or(0, |(_, length)| *length));
            let name = self.bytes.get(tree.name.clone())?;
            if at > 0 {
                path.extend_from_slice(name);
                path.push(b'/');
            }
            open.push((tree.end, path.len()));
            let valid = self.valid_after(tree.valid, &path, edits);
            trees.push((at, name, tree.end, valid));
        }
        // Children come after their parents, so going backwards carries each doubt up to the top in
        // one pass.
        let mut texts = Vec::with_capacity(trees.len());
        let mut below: Vec<(usize, bool)> = Vec::new();
        for (at, name, end, valid) in trees.into_iter().rev() {
            let (mut children, mut are_valid) = (0usize, true);
            while let Some((_, is_valid)) = below.pop_if(|(child, _)| *child < end) {
                children += 1;
                are_valid &= is_valid;
            }
            let valid = valid.filter(|_| are_valid);
            below.push((at, valid.is_some()));
            let entries = valid.map_or("-1".to_owned(), |(count, _)| count.to_string());
            let oid = valid.as_ref().map(|(_, oid)| oid.as_bytes().as_slice());
            let counts = format!("\0{entries} {children}\n");
            texts.push([name, counts.as_bytes(), oid.unwrap_or_default()].concat());
        }
        texts.reverse();
        Some(texts.concat())
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
        // The edits were made for another tree than the one that is cached: what comes of them is
        // unknown.
        Some((count, (*after)?)).filter(|_| *before == oid)
    }
}

/// The content of a new index, all but its checksum: pieces of an old one and what is new, so that nothing is copied.
#[derive(Debug)]
pub(in crate::git) struct Rewritten<'i> {
    old: &'i [u8],
    new: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A part of the file.
#[derive(Debug)]
enum Piece {
    /// These bytes of the old index.
    Old(Range<usize>),
    /// These bytes of what is new.
    New(Range<usize>),
    /// An entry that knows nothing of its file, among what is new, and where in it the path is.
    Entry(Range<usize>, Range<usize>),
}

impl<'i> Rewritten<'i> {
    /// An index that begins with the header of an old one.
    fn new(old: &'i [u8]) -> Rewritten<'i> {
        let new = old.get(..HEADER).unwrap_or_default().to_vec();
        Rewritten { old, pieces: vec![Piece::New(0..new.len())], new }
    }

    /// Says how many entries there are.
    fn count(&mut self, entries: u32) {
        if let Some(count) = self.new.get_mut(8..HEADER) {
            count.copy_from_slice(&entries.to_be_bytes());
        }
    }

    fn keep(&mut self, piece: Range<usize>) {
        self.pieces.push(Piece::Old(piece));
    }

    fn add(&mut self, bytes: &[u8]) -> Range<usize> {
        let piece = self.new.len()..self.new.len() + bytes.len();
        self.new.extend_from_slice(bytes);
        self.pieces.push(Piece::New(piece.clone()));
        piece
    }

    /// The file of the index.
    pub(in crate::git) fn into_file(self) -> Vec<u8> {
        let mut file = Vec::new();
        // Memory takes everything.
        let _ = self.write(&mut file);
        file
    }

    /// Writes the file of the index, which knows nothing of the edited entries' files.
    ///
    /// # Errors
    /// Those of writing.
    pub(in crate::git) fn write(&self, mut to: impl Write) -> io::Result<()> {
        self.write_content(&mut to, |_| None)?;
        to.write_all(&self.checksum(|_| None))
    }

    /// The checksum that follows the content. What is `known` of the file at the path of an edited entry is asked in the
    /// order of the paths.
    pub(in crate::git) fn checksum(
        &self,
        known: impl FnMut(&[u8]) -> Option<StatData>,
    ) -> [u8; CHECKSUM] {
        let mut checksum = Sha1::new();
        // A checksum takes everything.
        let _ = self.each_piece(known, |piece| {
            checksum.update(piece);
            Ok(())
        });
        checksum.finalize().into()
    }

    /// Writes the content, and all that is `known` of the files of edited entries.
    ///
    /// # Errors
    /// Those of writing.
    pub(in crate::git) fn write_content(
        &self,
        to: impl Write,
        known: impl FnMut(&[u8]) -> Option<StatData>,
    ) -> io::Result<()> {
        let mut to = BufWriter::with_capacity(PIECE, to);
        self.each_piece(known, |piece| to.write_all(piece))?;
        to.flush()
    }

    fn each_piece(
        &self,
        mut known: impl FnMut(&[u8]) -> Option<StatData>,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let new = |piece: &Range<usize>| self.new.get(piece.clone()).unwrap_or_default();
        for piece in &self.pieces {
            match piece {
                Piece::Old(piece) => take(self.old.get(piece.clone()).unwrap_or_default())?,
                Piece::New(piece) => take(new(piece))?,
                Piece::Entry(entry, path) => match known(new(path)) {
                    Some(stat) => take(&with_stat(new(entry), &stat))?,
                    None => take(new(entry))?,
                },
            }
        }
        Ok(())
    }

    /// Adds an entry; gives how many were added.
    fn put(&mut self, path: &[u8], content: Option<Content>) -> Option<u32> {
        let Some((mode, oid)) = content else {
            return Some(0);
        };
        let mut fixed = [0; FIXED];
        fixed[24..28].copy_from_slice(&mode.to_be_bytes());
        fixed[STAT..FLAGS].copy_from_slice(oid.as_bytes());
        // Twelve bits; a longer path is found by its terminator.
        let length = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
        fixed[FLAGS..].copy_from_slice(&length.to_be_bytes());
        let mut entry = [&fixed, path].concat();
        entry.resize(entry.len() + 8 - entry.len() % 8, 0);
        let entry = self.add(&entry);
        let path = entry.start + FIXED..entry.start + FIXED + path.len();
        self.pieces.pop();
        self.pieces.push(Piece::Entry(entry, path));
        Some(1)
    }
}

/// An entry with what is known of its file.
fn with_stat(entry: &[u8], stat: &StatData) -> Vec<u8> {
    let mut entry = entry.to_vec();
    let fields = entry.chunks_exact_mut(4).zip(stat);
    // The mode is that of the entry, which knows less of them than a file system.
    for (_, (field, number)) in fields.enumerate().filter(|(place, _)| *place != MODE) {
        field.copy_from_slice(&number.to_be_bytes());
    }
    entry
}
