//! The tree of an index in which every directory's tree is known, without keeping its entries.
//!
//! The TREE extension stands behind the entries, whose lengths tell where they end, so the file is read once, through a
//! buffer. Reading it as a whole would touch fresh memory for all of it, which takes longer than everything else.

use super::{CHECKSUM, FIXED, HEADER, LONGEST_PATH, be32};
use crate::domain::oid::Oid;
use crate::git::changes::index_tree;
use crate::git::tree;
use std::io::Read;
use std::ops::Range;

/// How much is read at a time; an entry is shorter.
const BUFFER: usize = 1 << 16;

/// The tree that the index file of this length holds, as [`super::Index::top`] tells it. `None` where that is not known, or
/// where there is anything else about the index.
pub(in crate::git::changes) fn known_tree(file: impl Read, length: u64) -> Option<Oid> {
    let mut input = IndexReader {
        file,
        bytes: vec![0; BUFFER],
        read: 0,
        has_ended: false,
    };
    let header = input.get(0..HEADER)?;
    let is_plain = &header[..4] == b"DIRC" && matches!(be32(header, 4)?, 2 | 3);
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
        let fixed = input
            .bytes
            .get(at..at + FIXED)
            .filter(|_| at + FIXED <= input.read)?;
        let (mode, flags) = (be32(fixed, 24)?, u16::from_be_bytes([fixed[60], fixed[61]]));
        let path = at + FIXED..at + FIXED + usize::from(flags & 0xfff);
        // Of the flags, and of paths that are longer than they can say, the reader of the whole knows what to make.
        let is_plain = flags & 0xf000 == 0 && path.len() < LONGEST_PATH - 1;
        if mode == tree::DIRECTORY || !is_plain {
            return None;
        }
        let end = path.end + 8 - (path.end - at) % 8;
        let bytes = input
            .bytes
            .get(path.clone())
            .filter(|_| end <= input.read)?;
        let before = input.bytes.get(previous)?;
        if memchr::memchr(0, bytes).is_some() || (passed > HEADER as u64 && before >= bytes) {
            return None;
        }
        passed += (end - at) as u64;
        (at, previous) = (end, path);
    }
    let left = length.checked_sub(passed)?.checked_sub(CHECKSUM as u64)?;
    let mut rest = input.bytes.get(at..input.read)?.to_vec();
    { input.file }
        .take(left + CHECKSUM as u64)
        .read_to_end(&mut rest)
        .ok()?;
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
            found = index_tree::cached_tree_ids(bytes, body)?.first()?.valid;
        } else if !signature[0].is_ascii_uppercase() {
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
        self.bytes[..self.read].get(range)
    }

    /// Drops what is before `kept`, and fills the buffer as far as the file goes.
    fn advance(&mut self, kept: usize) -> Option<()> {
        self.bytes.copy_within(kept..self.read, 0);
        self.read -= kept;
        while self.read < self.bytes.len() {
            match self.file.read(&mut self.bytes[self.read..]) {
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
