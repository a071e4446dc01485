//! A host's session on a terminal: what the agent says and does, line by line, in the place of the JSON that the host writes.

use crate::cli::render::table::{cut, wrapped};
use crate::hosts::Host;
use crate::hosts::output::{Pieces, Shown};
use std::io::{self, Write};

/// A longer line is nothing that a person would read, and is not kept until it ends.
const LONGEST_LINE: usize = 4 << 20;

/// Takes what a host writes and shows it on a terminal of this width.
pub(super) struct SessionView {
    to: Box<dyn Write + Send>,
    host: &'static dyn Host,
    width: usize,
    /// The beginning of a line whose end is still to come.
    line: Vec<u8>,
    pieces: Pieces,
}

impl SessionView {
    pub(super) fn new(host: &'static dyn Host, to: Box<dyn Write + Send>, width: usize) -> Self {
        let line = Vec::new();
        SessionView {
            to,
            host,
            width,
            line,
            pieces: Pieces::default(),
        }
    }

    fn show(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if line.len() > LONGEST_LINE {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        for shown in self.host.shown(line.trim_end()) {
            for whole in self.pieces.push(shown) {
                self.draw(whole)?;
            }
        }
        Ok(())
    }

    fn draw(&mut self, shown: Shown) -> io::Result<()> {
        let text = match shown {
            Shown::Said(words) | Shown::Piece(words) => wrapped(&words, 0, self.width),
            Shown::Did(what) => cut(&format!("  > {what}"), self.width),
        };
        self.to.write_all(format!("{text}\n").as_bytes())
    }
}

impl Write for SessionView {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // It grows just beyond the limit, by which its end is known to be too long to be shown.
            if self.line.len() <= LONGEST_LINE {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.show()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for SessionView {
    fn drop(&mut self) {
        // What a host wrote last need not end its line.
        let _ = self.show();
        if let Some(rest) = self.pieces.rest() {
            let _ = self.draw(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("alive").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_come_in_pieces_are_shown_whole() {
        let host = crate::hosts::startable().next().expect("a host");
        let screen = Screen::default();
        let mut view = SessionView::new(host, Box::new(screen.clone()), 20);
        for piece in ["a te", "xt of several words\n\nlast ", "one"] {
            view.write_all(piece.as_bytes()).expect("written");
        }
        // Nothing of a line without measure is kept.
        drop(view);
        let text = String::from_utf8(screen.0.lock().expect("alive").clone()).expect("UTF-8");
        assert_eq!(text, "a text of several\nwords\n\nlast one\n");
    }
}
