//! What an untrusted program wrote as objects, looked through before git inflates any of it.
//!
//! A few bytes can stand for gigabytes: a delta copies one range of its base again and again, and a chain of deltas is resolved from its
//! beginning for each object. The sizes are known beforehand, because each object of a pack and each loose one begins with its size, and
//! each delta with that of its result. A pack is read through once with a buffer of a few kilobytes; of deltas nothing is resolved.
//! What breaks the form is left for git to refuse: git reads in the same order and comes no further.

use crate::domain::paths::path::split_once;
use crate::error::{Code, Error, Result};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use zlib_rs::{Inflate, InflateFlush, Status};

/// The most objects that are taken at once.
pub(super) const MOST_OBJECTS: usize = 1 << 20;

/// The largest blob that is no delta, in bytes: git streams it, so it costs time and no memory.
const LARGEST_BLOB: u64 = 4 << 30;

/// The largest result and the largest base of a delta, which git holds in memory at once. Git makes none above 512 MiB.
const LARGEST_DELTA: u64 = 256 << 20;

/// The largest tree: 1.5 million entries.
const LARGEST_TREE: u64 = 64 << 20;

/// The largest commit or tag.
const LARGEST_TEXT: u64 = 16 << 20;

/// What all plain objects and all results of deltas together may come to, in bytes, beside a multiple of what is stored. Source code
/// deflates to a fifth; of the histories of ten large projects none had deltas of more than 60 times their packs.
const PLAIN: u64 = 4 << 30;
const RESOLVED: u64 = 1 << 30;
const TIMES: u64 = 64;

/// The longest chain of deltas, git's own limit.
const DEEPEST: u32 = 4095;

/// What was found so far.
#[derive(Default)]
pub(super) struct Load {
    objects: usize,
    stored: u64,
    plain: u64,
    resolved: u64,
}

/// The kind of an object, by its number in a pack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ObjectKind {
    Text,
    Tree,
    Blob,
    DeltaAt,
    DeltaOf,
}

impl Load {
    /// Adds a loose object.
    ///
    /// # Errors
    /// `object-too-large`; `io`.
    pub(super) fn add_loose(&mut self, name: &str, file: File) -> Result<()> {
        self.add_stored(1, &file)?;
        let mut stream = Stream::new(file);
        let head = match stream.begin().map_err(Stop::from) {
            Ok(head) => head,
            Err(Stop::Malformed) => return Ok(()),
            Err(Stop::Error(error)) => return Err(error),
        };
        let head = split_once(&head, 0).and_then(|(head, _)| header(head));
        let Some((kind, size)) = head else {
            return Ok(());
        };
        self.add_plain(name, kind, size)
    }

    /// Adds a pack. `false` where deltas name more bases than can be followed here, so that their chains may be of any length.
    ///
    /// # Errors
    /// `object-too-large`; `io`.
    pub(super) fn add_pack(&mut self, file: File) -> Result<bool> {
        self.add_stored(0, &file)?;
        match self.scan(&mut Stream::new(file)) {
            Ok(are_short) => Ok(are_short),
            Err(Stop::Malformed) => Ok(true),
            Err(Stop::Error(error)) => Err(error),
        }
    }

    fn scan(&mut self, pack: &mut Stream) -> std::result::Result<bool, Stop> {
        // The count stands in the header before any object, so a pack of too many is refused
        // unread.
        let [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] = pack.take::<12>()? else {
            return Err(Stop::Malformed);
        };
        let count = usize::try_from(u32::from_be_bytes(count)).unwrap_or(usize::MAX);
        self.add_objects(count)?;
        // How deep each delta lies, by where it begins.
        let mut depths: HashMap<u64, (u32, u64)> = HashMap::new();
        let mut by_name = 0;
        for _ in 0..count {
            let at = pack.at;
            let (kind, size) = pack.entry()?;
            let name = format!("the object at byte {at} of a pack");
            let base = match kind {
                ObjectKind::DeltaAt => {
                    let back = pack.distance()?;
                    let base = at.checked_sub(back).ok_or(Stop::Malformed)?;
                    // Git accepts as a base only an object that begins at exactly this byte, and so
                    // does this.
                    Some(depths.get(&base).copied().ok_or(Stop::Malformed)?)
                }
                ObjectKind::DeltaOf => {
                    pack.take::<20>()?;
                    // The base may stand behind the delta or outside the pack, so its depth cannot
                    // be known in one pass. Each such delta lengthens a chain by at most one, so
                    // their number bounds every chain.
                    by_name += 1;
                    Some((0, 0))
                }
                _ => None,
            };
            let Some((depth, base)) = base else {
                // Before it is inflated: git reserves memory by the size that is claimed here.
                self.add_plain(&name, kind, size)?;
                pack.pass(size)?;
                depths.insert(at, (0, size));
                continue;
            };
            // The delta itself is inflated as a whole.
            require(&name, size, LARGEST_DELTA)?;
            self.plain = self.plain.saturating_add(size);
            let head = pack.pass(size)?;
            let (source, rest) = varint(&head).ok_or(Stop::Malformed)?;
            let (result, _) = varint(rest).ok_or(Stop::Malformed)?;
            // The delta claims the size of its base itself. The larger of what it claims and what
            // is known counts, so a lie is no way around the limit.
            require(&name, source.max(base).max(result), LARGEST_DELTA)?;
            self.resolved = self.resolved.saturating_add(result);
            if depth >= DEEPEST {
                let what = format!("{name} ends a chain of more than {DEEPEST} deltas");
                return Err(Stop::Error(Error::new(Code::ObjectTooLarge, what)));
            }
            // After each object and not at the end: the pass itself inflates, and must end soon for
            // a pack that is only made to cost time.
            self.require_bearable()?;
            depths.insert(at, (depth + 1, result));
        }
        Ok(by_name <= DEEPEST)
    }

    fn add_stored(&mut self, objects: usize, file: &File) -> Result<()> {
        let length = file.metadata().map_err(unreadable)?.len();
        self.stored = self.stored.saturating_add(length);
        self.add_objects(objects)
    }

    fn add_objects(&mut self, count: usize) -> Result<()> {
        self.objects = self.objects.saturating_add(count);
        if self.objects <= MOST_OBJECTS {
            return Ok(());
        }
        let what =
            format!("there are {} objects, and {MOST_OBJECTS} are taken at once", self.objects);
        Err(Error::new(Code::ObjectTooLarge, what))
    }

    fn add_plain(&mut self, name: &str, kind: ObjectKind, size: u64) -> Result<()> {
        let limit = match kind {
            ObjectKind::Text => LARGEST_TEXT,
            ObjectKind::Tree => LARGEST_TREE,
            ObjectKind::Blob | ObjectKind::DeltaAt | ObjectKind::DeltaOf => LARGEST_BLOB,
        };
        require(name, size, limit)?;
        self.plain = self.plain.saturating_add(size);
        self.require_bearable()
    }

    fn require_bearable(&self) -> Result<()> {
        let beside = self.stored.saturating_mul(TIMES);
        for (sum, limit) in [(self.plain, PLAIN), (self.resolved, RESOLVED)] {
            let limit = limit.saturating_add(beside);
            if sum > limit {
                let what = format!(
                    "{} bytes of objects stand for {sum} bytes and more, and at most {limit} are unpacked",
                    self.stored
                );
                return Err(Error::new(Code::ObjectTooLarge, what));
            }
        }
        Ok(())
    }
}

fn require(name: &str, size: u64, limit: u64) -> Result<()> {
    if size <= limit {
        return Ok(());
    }
    let what = format!("{name} has {size} bytes, and at most {limit} are unpacked of its kind");
    Err(Error::new(Code::ObjectTooLarge, what))
}

fn unreadable(error: io::Error) -> Error {
    Error::io("could not read an object", error)
}

/// Why a pack is read no further.
enum Stop {
    /// It is not of the form of a pack.
    Malformed,
    Error(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        match error.kind() {
            // A file that ends too early is the writer's fault and a matter of form; any other
            // failure to read is ours to report.
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData => Stop::Malformed,
            _ => Stop::Error(unreadable(error)),
        }
    }
}

/// A file with deflated parts, read once.
struct Stream {
    file: BufReader<File>,
    /// How many bytes were read.
    at: u64,
    inflate: Inflate,
    buffer: Vec<u8>,
}

/// How much of an inflated object is looked at: a delta begins with two sizes, a loose object with its kind and its size.
const HEAD: usize = 64;

impl Stream {
    fn new(file: File) -> Stream {
        Stream {
            file: BufReader::with_capacity(1 << 16, file),
            at: 0,
            inflate: Inflate::new(true, 15),
            buffer: vec![0; 1 << 16],
        }
    }

    fn take<const COUNT: usize>(&mut self) -> io::Result<[u8; COUNT]> {
        let mut bytes = [0; COUNT];
        self.file.read_exact(&mut bytes)?;
        self.at += COUNT as u64;
        Ok(bytes)
    }

    fn byte(&mut self) -> io::Result<u8> {
        let [byte] = self.take()?;
        Ok(byte)
    }

    /// The kind and the size that an object of a pack begins with.
    fn entry(&mut self) -> std::result::Result<(ObjectKind, u64), Stop> {
        let mut byte = self.byte()?;
        let kind = match (byte >> 4) & 7 {
            1 | 4 => ObjectKind::Text,
            2 => ObjectKind::Tree,
            3 => ObjectKind::Blob,
            6 => ObjectKind::DeltaAt,
            7 => ObjectKind::DeltaOf,
            _ => return Err(Stop::Malformed),
        };
        let mut size = u64::from(byte & 15);
        let mut shift = 4;
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            // Seven more bits would leave the 64 of a size, and git refuses such a header as well.
            if shift > 56 {
                return Err(Stop::Malformed);
            }
            size |= u64::from(byte & 0x7f) << shift;
            shift += 7;
        }
        Ok((kind, size))
    }

    /// How far back the base of a delta begins.
    fn distance(&mut self) -> std::result::Result<u64, Stop> {
        let mut byte = self.byte()?;
        let mut distance = u64::from(byte & 0x7f);
        while byte & 0x80 != 0 {
            byte = self.byte()?;
            // In git's form each further byte adds one besides, so that no distance can be written
            // in two ways.
            let next = distance.checked_add(1).filter(|next| *next < 1 << 56);
            distance = next.ok_or(Stop::Malformed)? << 7 | u64::from(byte & 0x7f);
        }
        Ok(distance)
    }

    /// The beginning of a loose object; what follows is not inflated.
    fn begin(&mut self) -> io::Result<Vec<u8>> {
        self.inflated(HEAD as u64, false)
    }

    /// Passes over a deflated object of that size and gives its beginning.
    fn pass(&mut self, size: u64) -> io::Result<Vec<u8>> {
        self.inflate.reset(true);
        self.inflated(size, true)
    }

    /// Inflates no more than `size` bytes, and with `whole` no less. The first of them are given.
    fn inflated(&mut self, size: u64, whole: bool) -> io::Result<Vec<u8>> {
        let malformed = || io::Error::from(ErrorKind::InvalidData);
        let mut head = Vec::new();
        loop {
            let input = self.file.fill_buf()?;
            let (read, written) = (self.inflate.total_in(), self.inflate.total_out());
            let is_end = input.is_empty();
            let status = self.inflate.decompress(input, &mut self.buffer, InflateFlush::NoFlush);
            let status = status.map_err(|_| malformed())?;
            let used = self.inflate.total_in() - read;
            let made = self.inflate.total_out() - written;
            self.file.consume(usize::try_from(used).unwrap_or(usize::MAX));
            self.at += used;
            let made_here = usize::try_from(made).unwrap_or_default();
            let wanted = made_here.min(HEAD - head.len());
            head.extend(self.buffer.iter().take(wanted));
            let total = self.inflate.total_out();
            if status == Status::StreamEnd {
                return if whole && total != size { Err(malformed()) } else { Ok(head) };
            }
            if !whole && total >= size {
                return Ok(head);
            }
            // One that goes on behind its size is refused by git as well, which inflates no further either.
            if total > size || is_end || (used == 0 && made == 0) {
                return Err(malformed());
            }
        }
    }
}

/// The kind and the size that a loose object begins with.
fn header(head: &[u8]) -> Option<(ObjectKind, u64)> {
    let (kind, size) = std::str::from_utf8(head).ok()?.split_once(' ')?;
    let kind = match kind {
        "commit" | "tag" => ObjectKind::Text,
        "tree" => ObjectKind::Tree,
        "blob" => ObjectKind::Blob,
        _ => return None,
    };
    // A number too long for 64 bits is a size that nothing may have.
    Some((kind, size.parse().unwrap_or(u64::MAX)))
}

/// A size as a delta has it, and what follows.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut size, mut rest) = (0_u64, bytes);
    for index in 0..9 {
        let (byte, behind) = rest.split_first()?;
        size |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((size, behind));
        }
        rest = behind;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};
    use zlib_rs::{DeflateConfig, compress_bound, compress_slice};

    fn deflated(content: &[u8]) -> Vec<u8> {
        let mut room = vec![0; compress_bound(content.len())];
        compress_slice(&mut room, content, DeflateConfig::default()).0.to_vec()
    }

    fn size(mut size: u64, kind: u8) -> Vec<u8> {
        let mut bytes = vec![kind << 4 | (size & 15) as u8];
        size >>= 4;
        while size > 0 {
            *bytes.last_mut().expect("a byte") |= 0x80;
            bytes.push((size & 0x7f) as u8);
            size >>= 7;
        }
        bytes
    }

    fn delta_size(mut size: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while size > 0x7f {
            bytes.push((size & 0x7f) as u8 | 0x80);
            size >>= 7;
        }
        bytes.push(size as u8);
        bytes
    }

    fn file(content: &[u8]) -> File {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(content).expect("written");
        file.rewind().expect("rewound");
        file
    }

    fn pack(count: u32, objects: &[Vec<u8>]) -> File {
        let head = [&b"PACK"[..], &2_u32.to_be_bytes(), &count.to_be_bytes()].concat();
        file(&[head, objects.concat()].concat())
    }

    fn of_kind(kind: u8, content: &[u8]) -> Vec<u8> {
        [size(content.len() as u64, kind), deflated(content)].concat()
    }

    /// A delta of the object that begins so many bytes before it, less than 128.
    fn delta(back: u8, source: u64, result: u64) -> Vec<u8> {
        let content = [delta_size(source), delta_size(result)].concat();
        [size(content.len() as u64, 6), vec![back], deflated(&content)].concat()
    }

    fn refused(pack: File) -> String {
        let error = Load::default().add_pack(pack).expect_err("too large");
        assert_eq!(error.code(), Code::ObjectTooLarge);
        error.to_string()
    }

    #[test]
    fn what_an_object_says_of_its_size_is_believed_before_it_is_inflated() {
        for (kind, limit) in [
            (1, LARGEST_TEXT),
            (2, LARGEST_TREE),
            (3, LARGEST_BLOB),
            (4, LARGEST_TEXT),
            (6, LARGEST_DELTA),
        ] {
            let mut entry = size(limit + 1, kind);
            if kind == 6 {
                let base = of_kind(3, b"base");
                entry.push(base.len() as u8);
                let said = refused(pack(2, &[base, entry]));
                assert!(said.contains(&(limit + 1).to_string()), "{said}");
                continue;
            }
            let said = refused(pack(1, &[entry]));
            assert!(said.contains(&(limit + 1).to_string()), "{said}");
        }
        refused(pack(u32::MAX, &[]));
        let loose = deflated(format!("commit {}\0x", LARGEST_TEXT + 1).as_bytes());
        let error = Load::default().add_loose("0", file(&loose)).expect_err("too large");
        assert_eq!(error.code(), Code::ObjectTooLarge);
    }

    #[test]
    fn deltas_are_bounded_by_their_results_and_by_their_sum() {
        let base = of_kind(3, b"base");
        let back = base.len() as u8;
        refused(pack(2, &[base.clone(), delta(back, 4, LARGEST_DELTA + 1)]));
        refused(pack(2, &[base.clone(), delta(back, LARGEST_DELTA + 1, 4)]));
        let mut objects = vec![base.clone()];
        let mut back = back;
        for _ in 0..6 {
            let next = delta(back, 4, LARGEST_DELTA);
            back = next.len() as u8;
            objects.push(next);
        }
        let said = refused(pack(7, &objects));
        assert!(said.contains("stand for"), "{said}");
        let two = pack(3, &objects[..3]);
        assert!(Load::default().add_pack(two).expect("within the bounds"));
    }

    #[test]
    fn a_chain_is_no_longer_than_git_makes_them() {
        let mut objects = vec![of_kind(3, b"base")];
        for _ in 0..=DEEPEST {
            let back = objects.last().expect("one").len() as u8;
            objects.push(delta(back, 4, 4));
        }
        let count = objects.len() as u32;
        let said = refused(pack(count, &objects));
        assert!(said.contains("chain"), "{said}");
        objects.pop();
        let pack = pack(count - 1, &objects);
        assert!(Load::default().add_pack(pack).expect("within the bounds"));
    }

    #[test]
    fn what_is_no_pack_is_left_for_git_to_refuse() {
        let blob = of_kind(3, &[b'x'; 5000]);
        for objects in [vec![], vec![vec![0x10]], vec![blob[..20].to_vec()], vec![vec![0x80; 40]]] {
            assert!(Load::default().add_pack(pack(1, &objects)).is_ok());
        }
        assert!(Load::default().add_loose("0", file(b"no object")).is_ok());
        // A stream that goes on behind its size is inflated no further.
        let longer = [size(10, 3), deflated(&[0; 5000])].concat();
        assert!(Load::default().add_pack(pack(1, &[longer])).is_ok());
    }
}
