//! The last bytes of an endless stream.

use std::collections::VecDeque;

/// Keeps the end of what is written to it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    cut: u64,
}

impl Tail {
    pub(super) fn new(limit: usize) -> Tail {
        Tail {
            limit,
            ..Tail::default()
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let excess = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..excess);
        self.cut += excess as u64;
    }

    /// The bytes kept, and how many came before them.
    pub(super) fn take(&mut self) -> (Vec<u8>, u64) {
        (std::mem::take(&mut self.bytes).into(), self.cut)
    }

    /// The text kept so far; bytes that are not UTF-8 are replaced. One that was cut begins at a line.
    pub(super) fn text(&self) -> String {
        let bytes: Vec<u8> = self.bytes.iter().copied().collect();
        let start = match self.cut {
            0 => 0,
            _ => bytes
                .iter()
                .position(|&b| b == b'\n')
                .map_or(0, |at| at + 1),
        };
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_from_a_line_on() {
        let check = |parts: &[&str], expected: &str| {
            let mut tail = Tail::new(8);
            parts.iter().for_each(|part| tail.push(part.as_bytes()));
            assert_eq!(tail.text(), expected);
        };
        check(&["one\n", "two\n"], "one\ntwo\n");
        check(&["one\n", "two\nthree\n"], "three\n");
        check(&["0123456789abc"], "56789abc");
    }
}
