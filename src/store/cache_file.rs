//! The form of cache files: entries as `<key> <length>\n<body>`, between a first line that says what the file holds and
//! a last one that counts them. Such a file is replaced, never written to, and one that is not whole is no file.

use crate::domain::oid::Oid;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};

/// Writes a file of that kind, about that object, with what `each` hands on.
pub(super) fn write(
    file: &mut dyn Write,
    kind: &str,
    about: Oid,
    each: impl FnOnce(&mut dyn FnMut(Oid, &[u8])) -> io::Result<()>,
) -> io::Result<()> {
    let mut written = writeln!(file, "{kind}{about}");
    let mut count = 0;
    each(&mut |key, body| {
        if written.is_ok() {
            written = writeln!(file, "{key} {}", body.len()).and_then(|()| file.write_all(body));
            count += 1;
        }
    })?;
    written.and_then(|()| writeln!(file, "end {count}"))
}

/// Hands on every entry of a file, and gives the object that it is about and how many they are; `None` when the file
/// is of another kind or not whole.
pub(super) fn read(
    file: &mut File,
    kind: &str,
    mut on: impl FnMut(Oid, &[u8]),
) -> Option<(Oid, usize)> {
    file.rewind().ok()?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let about = Oid::from_hex(line.strip_prefix(kind)?.strip_suffix('\n')?)?;
    let mut body = Vec::new();
    for count in 0.. {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let (word, number) = line.strip_suffix('\n')?.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        if word == "end" {
            let is_whole = number == count && reader.fill_buf().ok()?.is_empty();
            return is_whole.then_some((about, count));
        }
        let key = Oid::from_hex(word)?;
        body.clear();
        let limit = u64::try_from(number).ok()?;
        reader.by_ref().take(limit).read_to_end(&mut body).ok()?;
        if body.len() < number {
            return None;
        }
        on(key, &body);
    }
    None
}
