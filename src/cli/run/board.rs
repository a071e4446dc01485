//! The lines at the end of a terminal that say what is under way.

use crate::cli::render::table::{age, cut};
use crate::cli::terminal::width;
use crate::ops::run::batch::News;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::Instant;

/// How many runs are shown at most, so that they fit on a terminal.
const SHOWN: usize = 16;

/// What is under way, drawn anew as it changes.
pub(super) struct Board<'a> {
    out: Box<dyn Write + Send>,
    names: &'a [String],
    begun: BTreeMap<usize, (String, Instant)>,
    ended: usize,
    /// How many lines stand there.
    drawn: usize,
}

impl<'a> Board<'a> {
    /// For runs of these names.
    pub(super) fn new(out: Box<dyn Write + Send>, names: &'a [String]) -> Board<'a> {
        Board {
            out,
            names,
            begun: BTreeMap::new(),
            ended: 0,
            drawn: 0,
        }
    }

    /// Takes news in. After an end nothing is drawn, so that its line can be written; the lines come back with
    /// the next tick.
    pub(super) fn hear(&mut self, news: &News) {
        match news {
            News::Begun(index, start) => {
                let id = start.row.agent_id[..8].to_owned();
                self.begun.insert(*index, (id, Instant::now()));
            }
            News::Ended(index, _) => {
                self.begun.remove(index);
                self.ended += 1;
                self.draw(&[]);
            }
            News::Tick => {
                let lines = self.lines();
                self.draw(&lines);
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self
            .begun
            .iter()
            .take(SHOWN)
            .map(|(index, (id, since))| {
                let seconds = i64::try_from(since.elapsed().as_secs()).unwrap_or(i64::MAX);
                format!("  {id} {:>4}  {}", age(seconds), self.names[*index])
            })
            .collect();
        let (all, at_work) = (self.names.len(), self.begun.len());
        let waiting = all - at_work - self.ended;
        lines.push(format!(
            "{} of {all} over, {at_work} at work, {waiting} waiting",
            self.ended
        ));
        let width = width();
        lines.iter().map(|line| cut(line, width - 1)).collect()
    }

    fn draw(&mut self, lines: &[String]) {
        let mut text = match self.drawn {
            0 => String::new(),
            drawn => format!("\x1b[{drawn}A\x1b[J"),
        };
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
        self.drawn = lines.len();
        // What cannot be drawn is told when it ends.
        let _ = { self.out.write_all(text.as_bytes()) }.and_then(|()| self.out.flush());
    }
}
