//! What a person types, from the bytes that a terminal sends.
//!
//! The reader of crossterm blocks inside of a sequence whose end does not come, and a signal is then not obeyed. This one
//! never waits: it takes the bytes that are there and keeps a sequence that is not whole for the next time.

/// A key, or what was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Key {
    Char(char),
    /// A letter with Ctrl.
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    Home,
    End,
    PageUp,
    PageDown,
    /// A text that the terminal said was pasted: no key in it is a command.
    Paste(String),
}

const PASTE_BEGINS: &[u8] = b"200~";
const PASTE_ENDS: &[u8] = b"\x1b[201~";

/// A text that is longer was not meant, and none of it is kept.
const LONGEST_PASTE: usize = 1 << 20;

/// Bytes on their way to become keys.
#[derive(Default)]
pub(super) struct KeyReader {
    rest: Vec<u8>,
    pasted: Option<Vec<u8>>,
}

impl KeyReader {
    /// The keys that are whole now.
    pub(super) fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let input = std::mem::take(&mut self.rest);
        let mut at = 0;
        while at < input.len() {
            if self.pasted.is_some() {
                at += self.paste(&input[at..], &mut keys);
                continue;
            }
            match self.one(&input[at..]) {
                Some((key, length)) => {
                    keys.extend(key);
                    at += length;
                }
                None => {
                    self.rest = input[at..].to_vec();
                    break;
                }
            }
        }
        keys
    }

    /// Whether a lone ESC was read: the key itself, or the beginning of a sequence whose rest comes at once.
    pub(super) fn is_escape_open(&self) -> bool {
        self.rest == b"\x1b"
    }

    /// Takes an ESC after which nothing came for the key.
    pub(super) fn close_escape(&mut self) -> Vec<Key> {
        self.rest.clear();
        vec![Key::Escape]
    }

    /// Takes pasted bytes up to the mark of the end, and says how many.
    fn paste(&mut self, bytes: &[u8], keys: &mut Vec<Key>) -> usize {
        let pasted = self.pasted.get_or_insert_default();
        // The mark may have begun in the bytes before these.
        let from = pasted.len().saturating_sub(PASTE_ENDS.len());
        let before = pasted.len();
        pasted.extend_from_slice(bytes);
        let Some(end) = memchr::memmem::find(&pasted[from..], PASTE_ENDS) else {
            if pasted.len() > LONGEST_PASTE {
                // The last bytes stay: the mark may begin in them.
                let kept = pasted.split_off(pasted.len() - PASTE_ENDS.len());
                *pasted = kept;
            }
            return bytes.len();
        };
        let end = from + end;
        pasted.truncate(end);
        keys.push(Key::Paste(String::from_utf8_lossy(pasted).into_owned()));
        self.pasted = None;
        end + PASTE_ENDS.len() - before
    }

    /// The first key and how many bytes it takes; no key for what means nothing here, and nothing for what is not whole.
    fn one(&mut self, bytes: &[u8]) -> Option<(Option<Key>, usize)> {
        let (first, rest) = bytes.split_first()?;
        let key = match (first, rest) {
            (0x1b, []) => return None,
            (0x1b, [b'[' | b'O', ..]) => return self.sequence(bytes),
            // Alt with a key, and ESC before another sequence: the ESC is a key by itself.
            (0x1b, _) => Key::Escape,
            (b'\r' | b'\n', _) => Key::Enter,
            (b'\t', _) => Key::Tab,
            (0x7f | 0x08, _) => Key::Backspace,
            (1..=26, _) => Key::Ctrl(char::from(first + b'a' - 1)),
            (0..0x20, _) => return Some((None, 1)),
            _ => return character(bytes),
        };
        Some((Some(key), 1))
    }

    /// A sequence of ECMA-48: parameters, then a final byte.
    fn sequence(&mut self, bytes: &[u8]) -> Option<(Option<Key>, usize)> {
        let last = bytes
            .iter()
            .skip(2)
            .position(|byte| (0x40..0x7f).contains(byte))?;
        let body = &bytes[2..=last + 2];
        let key = match body {
            b"A" => Some(Key::Up),
            b"B" => Some(Key::Down),
            b"C" => Some(Key::Right),
            b"D" => Some(Key::Left),
            b"H" | b"1~" | b"7~" => Some(Key::Home),
            b"F" | b"4~" | b"8~" => Some(Key::End),
            b"Z" => Some(Key::BackTab),
            b"5~" => Some(Key::PageUp),
            b"6~" => Some(Key::PageDown),
            PASTE_BEGINS => {
                self.pasted = Some(Vec::new());
                None
            }
            _ => None,
        };
        Some((key, body.len() + 2))
    }
}

fn character(bytes: &[u8]) -> Option<(Option<Key>, usize)> {
    let length = match bytes[0] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let whole = bytes.get(..length)?;
    let text = std::str::from_utf8(whole).ok();
    let c = text.and_then(|text| text.chars().next());
    // What is no UTF-8 is passed over byte by byte, so that what follows is read.
    Some((c.map(Key::Char), c.map_or(1, char::len_utf8)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_wherever_the_bytes_are_cut() {
        let bytes = "jé日\x1b[A\x1bOB\x1b[5~\r\x7f\x03\x1b[200~d\ny\x1b[201~\x1b[1;5Cq".as_bytes();
        let expected = vec![
            Key::Char('j'),
            Key::Char('é'),
            Key::Char('日'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::Enter,
            Key::Backspace,
            Key::Ctrl('c'),
            Key::Paste("d\ny".to_owned()),
            Key::Char('q'),
        ];
        assert_eq!(KeyReader::default().read(bytes), expected);
        for size in 1..bytes.len() {
            let mut reader = KeyReader::default();
            let keys: Vec<_> = bytes
                .chunks(size)
                .flat_map(|part| reader.read(part))
                .collect();
            assert_eq!(keys, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn no_bytes_stop_the_reader() {
        let mut reader = KeyReader::default();
        assert_eq!(reader.read(b"\x1b"), []);
        assert!(reader.is_escape_open());
        assert_eq!(reader.close_escape(), [Key::Escape]);
        assert_eq!(reader.read(b"\xff\xfe\x00\x1c"), []);
        assert_eq!(reader.read(b"a"), [Key::Char('a')]);
        // A megabyte that is pasted, and then more than is kept.
        for size in [1 << 20, 3 << 20] {
            let mut keys = reader.read(b"\x1b[200~");
            for part in vec![b'y'; size].chunks(4096) {
                keys.extend(reader.read(part));
            }
            keys.extend(reader.read(PASTE_ENDS));
            assert!(matches!(&keys[..], [Key::Paste(text)] if text.len() <= LONGEST_PASTE));
            assert_eq!(reader.read(b"q"), [Key::Char('q')]);
        }
    }
}
