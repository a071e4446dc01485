//! What a command writes, read from its pipes and kept.

use crate::domain::paths::path::split_once;
use crate::domain::value::redaction::SecretRedactor;
use crate::error::{IoContext, Result};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// How many bytes of a stream are written to its log as they come.
const HEAD: usize = 8 * 1024 * 1024;
/// How many of the bytes after those are kept: the last ones.
const TAIL: usize = 1024 * 1024;
/// How long a pipe has to drain when every process that was started is gone. A process that still holds it was handed
/// it by them.
const DRAIN: Duration = Duration::from_millis(500);

/// A pipe that is read by a thread of its own.
#[derive(Debug)]
pub(super) struct Drained(Receiver<()>);

impl Drained {
    /// Waits for the end of the pipe, but not for ever.
    pub(super) fn wait(&self) {
        let _ = self.0.recv_timeout(DRAIN);
    }
}

/// Reads a pipe, or a terminal, to its end.
pub(super) fn drain(
    mut reader: impl Read + Send + 'static,
    mut take: impl FnMut(&[u8]) + Send + 'static,
) -> std::io::Result<Drained> {
    let (send, drained) = mpsc::sync_channel(1);
    std::thread::Builder::new().name("output".into()).spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        // A terminal whose other side is closed ends in an error, which is an end like any
        // other.
        while let Ok(count @ 1..) = reader.read(&mut buffer) {
            take(buffer.get(..count).unwrap_or_default());
        }
        let _ = send.send(());
    })?;
    Ok(Drained(drained))
}

/// What was written to a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logged {
    /// How many bytes.
    pub bytes: u64,
    /// How many of them, from the middle, are not in the log.
    pub cut: u64,
    /// Why the log is not complete, when it could not be written.
    pub trouble: Option<String>,
}

/// One stream on its way into a log.
pub struct Capture {
    log: Arc<Mutex<Log>>,
    drained: Drained,
}

/// Reads a stream into a new file, which only its owner may read, and copies it to `echo` at once. The file
/// shows nothing that is under the redactor; `echo` is the caller, who sees all.
///
/// # Errors
/// `io` when the file cannot be made.
pub fn capture(
    reader: impl Read + Send + 'static,
    path: &Path,
    redactor: SecretRedactor,
    mut echo: Option<Box<dyn Write + Send>>,
) -> Result<Capture> {
    let log = Arc::new(Mutex::new(Log::create(path, redactor)?));
    let shared = Arc::clone(&log);
    let drained = drain(reader, move |bytes| {
        // The log before the echo, which may block for as long as its reader likes.
        locked(&shared).push(bytes);
        // A reader that went away misses the rest; the log has it.
        if let Some(writer) = &mut echo
            && writer.write_all(bytes).is_err()
        {
            echo = None;
        }
    })
    .at("could not read for", path)?;
    Ok(Capture { log, drained })
}

impl Capture {
    /// Waits for the end of the stream and completes the log.
    pub fn finish(&self) -> Logged {
        self.drained.wait();
        locked(&self.log).finish()
    }
}

/// A file that holds the beginning and the end of a stream.
#[derive(Debug)]
struct Log {
    file: File,
    redactor: SecretRedactor,
    logged: Logged,
    /// How many bytes may still be written as they come.
    room: usize,
    tail: Tail,
    finished: bool,
}

impl Log {
    fn create(path: &Path, redactor: SecretRedactor) -> Result<Log> {
        let file = OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .at("could not make", path)?;
        Ok(Log {
            file,
            redactor,
            logged: Logged::default(),
            room: HEAD,
            tail: Tail::new(TAIL),
            finished: false,
        })
    }

    fn push(&mut self, bytes: &[u8]) {
        // What a process writes that outlived the wait would come behind the mark of the end.
        if self.finished {
            return;
        }
        self.logged.bytes += bytes.len() as u64;
        // It may hold back the last bytes, in which a secret may have begun.
        let shown = self.redactor.push(bytes);
        self.keep(&shown);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(self.room.min(bytes.len()));
        self.room -= head.len();
        self.write(head);
        self.tail.push(rest);
    }

    fn finish(&mut self) -> Logged {
        if !std::mem::replace(&mut self.finished, true) {
            let held = self.redactor.finish();
            self.keep(&held);
            let (tail, cut) = self.tail.take();
            self.logged.cut = cut;
            if cut > 0 {
                self.write(format!("\n[git-agent: {cut} bytes are left out here]\n").as_bytes());
            }
            self.write(&tail);
        }
        self.logged.clone()
    }

    /// The command goes on without its log.
    fn write(&mut self, bytes: &[u8]) {
        if self.logged.trouble.is_none()
            && let Err(error) = self.file.write_all(bytes)
        {
            self.logged.trouble = Some(error.to_string());
        }
    }
}

/// A log is whole between any two of its writes.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// The last bytes of an endless stream.

/// Keeps the end of what is written to it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    bytes: VecDeque<u8>,
    limit: usize,
    cut: u64,
}

impl Tail {
    pub(super) fn new(limit: usize) -> Tail {
        Tail { limit, ..Tail::default() }
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
        let whole = split_once(&bytes, b'\n').filter(|_| self.cut > 0);
        String::from_utf8_lossy(whole.map_or(&bytes, |(_, whole)| whole)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_keeps_both_ends_and_says_what_is_missing() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let mut log = Log::create(&path, SecretRedactor::default()).expect("a log");
        let (head, tail) = (HEAD, TAIL);
        log.push(&vec![b'a'; head - 1]);
        log.push(b"bcc");
        log.push(&vec![b'd'; tail]);
        let logged = log.finish();
        let bytes = (head + 2 + tail) as u64;
        let expected = Logged { bytes, cut: 2, trouble: None };
        assert_eq!(logged, expected);
        let text = std::fs::read(&path).expect("readable");
        let middle = b"ab\n[git-agent: 2 bytes are left out here]\nd";
        assert!(text[head - 2..].starts_with(&middle[..]));
        assert!(text.ends_with(b"dd"));
        log.push(b"late");
        assert_eq!(log.finish(), expected, "nothing is added afterwards");
    }

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
