//! The terminal while something is kept on it: the alternate screen, key by key, until the user has had enough.
//! Whatever ends us short of KILL gives the terminal back as it was.

use crate::cli::out::terminal;
use crate::cli::out::ui::Ui;
use crate::error::{Error, Result};
use ratatui_core::backend::Backend;
use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;
use ratatui_core::style::Color;
use ratatui_crossterm::CrosstermBackend;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, kill_current_process_group};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH};
use signal_hook::low_level::pipe;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The alternate screen, no cursor, and marks around what is pasted.
const TAKE: &str = "\x1b[?1049h\x1b[?25l\x1b[?2004h";
const LEAVE: &str = "\x1b[?2004l\x1b[?25h\x1b[?1049l";
const CLEAR: &str = "\x1b[2J";

/// So long the rest of a sequence may take that begins with ESC, until that was the key.
const ESCAPE: Duration = Duration::from_millis(50);

/// So long a stop that was asked for may take to come; a process group without a shell that minds it is never stopped.
const STOP: Duration = Duration::from_millis(200);

/// How the terminal was, while it is taken: the one place that says so to a panic, to a signal and to the usual end.
static TAKEN: Mutex<Option<Before>> = Mutex::new(None);

struct Before {
    modes: Option<Termios>,
    out: File,
}

/// A terminal that was taken.
pub(in crate::cli) struct Screen {
    out: File,
    backend: CrosstermBackend<BufWriter<File>>,
    /// What is on the terminal; `None` where that is not known.
    shown: Option<Buffer>,
    is_coloured: bool,
    signals: Signals,
    keys: KeyReader,
}

impl Screen {
    /// Takes the terminal.
    pub(in crate::cli) fn take(ui: &Ui) -> Result<Screen> {
        // Before the terminal is taken, so that no signal can leave it taken.
        let signals = Signals::register().map_err(failed)?;
        let out = ui.terminal()?;
        let backend = CrosstermBackend::new(BufWriter::new(out.try_clone().map_err(failed)?));
        give_back_on_panic();
        let mut screen = Screen {
            out,
            backend,
            shown: None,
            is_coloured: ui.is_coloured(),
            signals,
            keys: KeyReader::default(),
        };
        screen.enter()?;
        Ok(screen)
    }

    /// Takes the terminal again after [`Screen::leave`].
    pub(in crate::cli) fn enter(&mut self) -> Result<()> {
        let modes = tcgetattr(stdin()).ok();
        let before = Before { modes: modes.clone(), out: self.out.try_clone().map_err(failed)? };
        // First said, then done: whatever happens in between gives back what was.
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        if let Some(mut raw) = modes {
            raw.make_raw();
            let _ = tcsetattr(stdin(), OptionalActions::Now, &raw);
        }
        self.shown = None;
        self.out.write_all(TAKE.as_bytes()).map_err(failed)
    }

    /// Gives the terminal back.
    pub(in crate::cli) fn leave(&self) {
        give_back();
    }

    /// Shows what is drawn, of which only what differs from before is written.
    pub(in crate::cli) fn draw(&mut self, render: impl FnOnce(&mut Buffer)) -> Result<()> {
        let (columns, rows) = terminal::size(stdout()).unwrap_or((80, 24));
        let cells = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        let mut next = Buffer::empty(Rect::new(0, 0, cells(columns), cells(rows)));
        render(&mut next);
        if !self.is_coloured {
            for cell in &mut next.content {
                (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
            }
        }
        let before = match self.shown.take() {
            Some(before) if before.area == next.area => before,
            // Another size, or something else was on the terminal.
            _ => {
                self.say(CLEAR)?;
                Buffer::empty(next.area)
            }
        };
        let changes = before.diff(&next);
        self.backend.draw(changes.into_iter()).map_err(failed)?;
        Backend::flush(&mut self.backend).map_err(failed)?;
        self.shown = Some(next);
        Ok(())
    }

    /// Writes what is no part of the picture, such as the bell.
    pub(in crate::cli) fn say(&mut self, sequence: &str) -> Result<()> {
        self.out.write_all(sequence.as_bytes()).map_err(failed)
    }

    /// Draws everything anew next time.
    pub(in crate::cli) fn forget(&mut self) {
        self.shown = None;
    }

    /// Waits that long at most for a key, a signal, or a byte on `wake`.
    pub(in crate::cli) fn wait(
        &mut self,
        longest: Duration,
        mut wake: &UnixStream,
    ) -> Result<Wake> {
        let is_open = self.keys.is_escape_open();
        let longest = if is_open { ESCAPE } else { longest };
        let timeout = Timespec::try_from(longest).ok();
        let input = stdin();
        let fds = [&self.signals.end, &self.signals.redraw, wake];
        let mut events: Vec<_> = fds.map(|fd| PollFd::new(fd, PollFlags::IN)).into();
        let modes = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        // Standard input that is no terminal has no keys.
        if modes.as_ref().is_some_and(|before| before.modes.is_some()) {
            events.push(PollFd::new(&input, PollFlags::IN));
        }
        drop(modes);
        match poll(&mut events, timeout.as_ref()) {
            Ok(0) if is_open => return Ok(Wake::Keys(self.keys.close_escape())),
            Ok(0) => return Ok(Wake::Time),
            // The signal's own byte is read in the next round.
            Err(Errno::INTR) => return Ok(Wake::Time),
            Err(error) => return Err(failed(error.into())),
            Ok(_) => {}
        }
        let is_ready = |at: usize| events.get(at).is_some_and(|one| !one.revents().is_empty());
        let mut bytes = [0; 4096];
        if is_ready(0) {
            return Ok(Wake::Ended);
        }
        if is_ready(1) {
            while (&self.signals.redraw).read(&mut bytes).is_ok_and(|count| count > 0) {}
            return Ok(Wake::Redraw);
        }
        if is_ready(3) {
            return Ok(match rustix::io::read(stdin(), &mut bytes) {
                Err(Errno::INTR) => Wake::Time,
                // The terminal is gone.
                Ok(0) | Err(_) => Wake::Ended,
                Ok(count) => Wake::Keys(self.keys.read(bytes.get(..count).unwrap_or_default())),
            });
        }
        // The bytes only say that there is something to fetch.
        let _ = wake.read(&mut bytes);
        Ok(Wake::News)
    }

    /// Stops the job as Ctrl-Z does elsewhere, and takes the terminal again when it goes on.
    pub(in crate::cli) fn stop(&mut self) -> Result<()> {
        give_back();
        // The whole group, as the terminal does it: our parent may be `git`, which waits for us.
        let _ = kill_current_process_group(Signal::TSTP);
        let timeout = Timespec::try_from(STOP).ok();
        // The stop may come after the call has returned; going on is told by SIGCONT.
        let mut event = [PollFd::new(&self.signals.redraw, PollFlags::IN)];
        let _ = poll(&mut event, timeout.as_ref());
        self.enter()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// A panic ends the program without unwinding, and its message belongs on the usual screen.
fn give_back_on_panic() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        hook(panic);
    }));
}

/// Gives the terminal back, once; nothing where it is not taken.
fn give_back() {
    let before = TAKEN.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Before { modes, mut out }) = before {
        // There is nothing left to report a failure on.
        let _ = out.write_all(LEAVE.as_bytes());
        if let Some(modes) = modes {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &modes);
        }
    }
}

fn failed(error: std::io::Error) -> Error {
    Error::io("could not draw on the terminal", error)
}

/// Why the waiting is over.
pub(in crate::cli) enum Wake {
    /// The time is up.
    Time,
    /// Keys were pressed, all that came at once.
    Keys(Vec<Key>),
    /// Something was written to the stream.
    News,
    /// The terminal may have another size, or shows something else.
    Redraw,
    /// Another process ends this one, or the terminal is gone.
    Ended,
}

/// Signals that arrive as bytes, so that one can wait for them.
struct Signals {
    end: UnixStream,
    redraw: UnixStream,
}

impl Signals {
    fn register() -> std::io::Result<Signals> {
        let end = arriving(&[SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
        let redraw = arriving(&[SIGWINCH, SIGCONT])?;
        redraw.set_nonblocking(true)?;
        Ok(Signals { end, redraw })
    }
}

/// A stream on which each of those signals arrives as a byte.
fn arriving(signals: &[i32]) -> std::io::Result<UnixStream> {
    let (stream, arrived) = UnixStream::pair()?;
    for signal in signals {
        pipe::register(*signal, arrived.try_clone()?)?;
    }
    Ok(stream)
}

/// An interrupt that ends a command in good order, such as Ctrl-C.
pub(in crate::cli) struct Interrupt(UnixStream);

impl Interrupt {
    /// From now on interrupts are waited for. A hangup is none: what `nohup` started goes on.
    pub(in crate::cli) fn register() -> Result<Interrupt> {
        let stream = arriving(&[SIGINT, SIGTERM]);
        let stream = stream.map_err(|error| Error::io("could not wait for an interrupt", error));
        Ok(Interrupt(stream?))
    }

    /// Whether one came before so much time was over.
    pub(in crate::cli) fn comes_within(&self, longest: Duration) -> bool {
        let timeout = Timespec::try_from(longest).ok();
        let mut event = [PollFd::new(&self.0, PollFlags::IN)];
        // A signal that is none of ours, such as SIGCONT, only makes a round short.
        matches!(poll(&mut event, timeout.as_ref()), Ok(1..))
    }
}

// What a person types, from the bytes that a terminal sends.
//
// The reader of crossterm blocks inside of a sequence whose end does not come, and a signal is then not obeyed. This one
// never waits: it takes the bytes that are there and keeps a sequence that is not whole for the next time.

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
struct KeyReader {
    rest: Vec<u8>,
    pasted: Option<Vec<u8>>,
}

impl KeyReader {
    /// The keys that are whole now.
    fn read(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.rest.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let input = std::mem::take(&mut self.rest);
        let mut left = input.as_slice();
        while !left.is_empty() {
            let length = if self.pasted.is_some() {
                self.paste(left, &mut keys)
            } else if let Some((key, length)) = self.one(left) {
                keys.extend(key);
                length
            } else {
                self.rest = left.to_vec();
                break;
            };
            left = left.get(length..).unwrap_or_default();
        }
        keys
    }

    /// Whether a lone ESC was read: the key itself, or the beginning of a sequence whose rest comes at once.
    fn is_escape_open(&self) -> bool {
        self.rest == b"\x1b"
    }

    /// Takes an ESC after which nothing came for the key.
    fn close_escape(&mut self) -> Vec<Key> {
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
        let end = pasted.get(from..);
        let Some(end) = end.and_then(|end| memchr::memmem::find(end, PASTE_ENDS)) else {
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
        let last = bytes.iter().skip(2).position(|byte| (0x40..0x7f).contains(byte))?;
        let body = bytes.get(2..=last + 2)?;
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
    let length = match bytes.first()? {
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
    fn a_panic_gives_the_terminal_back_before_it_speaks() {
        let (mut screen, out) = UnixStream::pair().expect("a pair");
        let out = File::from(std::os::fd::OwnedFd::from(out));
        *TAKEN.lock().expect("the lock") = Some(Before { modes: None, out });
        give_back_on_panic();
        let panicked = std::thread::spawn(|| panic!("drawn wrongly")).join();
        assert!(panicked.is_err());
        // The other end is closed with what was taken, so that this ends.
        let mut said = String::new();
        screen.read_to_string(&mut said).expect("read");
        assert_eq!(said, LEAVE);
        assert!(TAKEN.lock().expect("the lock").is_none());
    }

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
            let keys: Vec<_> = bytes.chunks(size).flat_map(|part| reader.read(part)).collect();
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
