//! Tables: columns as wide as their widest cell, the last one cut where the terminal ends.

use crate::cli::style::{BOLD, paint};

/// Rows of cells, each with the style it is painted in.
pub(super) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    width: usize,
}

/// One cell.
pub(super) struct Cell {
    text: String,
    style: anstyle::Style,
}

impl Cell {
    pub(super) fn plain(text: impl Into<String>) -> Cell {
        Cell::painted(anstyle::Style::new(), text)
    }

    pub(super) fn painted(style: anstyle::Style, text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            style,
        }
    }
}

impl Table {
    /// A table of at most `width` columns of characters.
    pub(super) fn new(header: Vec<&'static str>, width: usize) -> Table {
        Table {
            header,
            rows: Vec::new(),
            width,
        }
    }

    pub(super) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(super) fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                let widest = cells.map(|cell| cell.text.chars().count()).max();
                widest.unwrap_or(0).max(self.header[column].len())
            })
            .collect();
        let header: Vec<Cell> = self
            .header
            .iter()
            .map(|title| Cell::painted(BOLD, *title))
            .collect();
        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            text.push_str(&self.line(row, &widths));
        }
        text
    }

    fn line(&self, row: &[Cell], widths: &[usize]) -> String {
        let mut line = String::new();
        let mut used = 0;
        for (index, cell) in row.iter().enumerate() {
            let last = index + 1 == row.len();
            let text = if last {
                cut(&cell.text, self.width.saturating_sub(used).max(12))
            } else {
                cell.text.clone()
            };
            line.push_str(&paint(cell.style, &text));
            if !last {
                let gap = widths[index] - text.chars().count() + 2;
                line.extend(std::iter::repeat_n(' ', gap));
                used += widths[index] + 2;
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// The first characters of a text, with `…` where it was cut.
pub(super) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// How long ago, in one unit: `5s`, `12m`, `3h`, `9d`.
pub(super) fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
