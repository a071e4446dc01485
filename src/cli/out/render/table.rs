//! Tables: columns as wide as their widest cell, the last one cut where the terminal ends. Where the terminal
//! is narrow a column that may shrink is cut too, and then columns that may yield are left out, one after the
//! other; those are left out as well when they are empty.

use crate::cli::out::terminal::{BOLD, paint};
use anstyle::Style;
use unicode_width::UnicodeWidthStr;

/// The last column is not made narrower than this while another can yield.
const LAST: usize = 16;

/// Between two columns.
const GAP: usize = 2;

/// Rows of cells, each with the style it is painted in.
pub(in crate::cli) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
    yielding: Vec<&'static str>,
    shrinking: Option<(usize, usize)>,
    width: usize,
}

/// A column that is shown.
struct Column {
    number: usize,
    title: &'static str,
    width: usize,
    /// How wide it is where nothing of it is cut.
    whole: usize,
}

/// One cell.
pub(in crate::cli) struct Cell {
    text: String,
    style: anstyle::Style,
}

impl Cell {
    pub(in crate::cli) fn plain(text: impl Into<String>) -> Cell {
        Cell::painted(anstyle::Style::new(), text)
    }

    pub(in crate::cli) fn painted(style: anstyle::Style, text: impl Into<String>) -> Cell {
        let mut text = text.into();
        // Foreign text must not move the cursor.
        if text.contains(char::is_control) {
            text = text.replace(char::is_control, "\u{fffd}");
        }
        Cell { text, style }
    }
}

impl Table {
    /// A table of at most `width` columns of characters.
    pub(in crate::cli) fn new(header: Vec<&'static str>, width: usize) -> Table {
        Table { header, rows: Vec::new(), yielding: Vec::new(), shrinking: None, width }
    }

    /// Names the columns that are left out when empty or when the line gets too long, the first one first.
    pub(in crate::cli) fn yielding(mut self, titles: &[&'static str]) -> Table {
        self.yielding = titles.to_vec();
        self
    }

    /// Names the column that is cut, to this width at the least, before others are left out.
    pub(in crate::cli) fn shrinking(mut self, title: &str, least: usize) -> Table {
        let column = self.header.iter().position(|other| *other == title);
        self.shrinking = column.map(|column| (column, least));
        self
    }

    /// Writes the cells of one column, from the top.
    pub(in crate::cli) fn fill(&mut self, title: &str, cells: impl Iterator<Item = Cell>) {
        let Some(column) = self.header.iter().position(|other| *other == title) else {
            return;
        };
        for (row, cell) in self.rows.iter_mut().zip(cells) {
            if let Some(own) = row.get_mut(column) {
                *own = cell;
            }
        }
    }

    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(in crate::cli) fn push(&mut self, row: Vec<Cell>) {
        self.rows.push(row);
    }

    pub(in crate::cli) fn render(&self) -> String {
        let mut columns = self.columns();
        // One gives way first, so that others can stay; what room is left then is its own again.
        let room = self.width.saturating_sub(needed(&columns));
        if let Some(cut) = columns.iter_mut().find(|column| column.width < column.whole) {
            cut.width = cut.whole.min(cut.width.saturating_add(room));
        }
        let header: Vec<Cell> =
            self.header.iter().map(|title| Cell::painted(BOLD, *title)).collect();
        let mut text = String::new();
        for row in std::iter::once(&header).chain(&self.rows) {
            text.push_str(&self.line(row, &columns));
        }
        text
    }

    /// The columns that have something to show and room to show it.
    fn columns(&self) -> Vec<Column> {
        let mut columns = Vec::new();
        for (number, title) in self.header.iter().enumerate() {
            let cells = self.rows.iter().filter_map(|row| row.get(number));
            let is_empty = cells.clone().all(|cell| cell.text.is_empty());
            let widest = cells.map(|cell| cell.text.width()).max();
            let whole = widest.unwrap_or(0).max(title.width());
            let least = self.shrinking.filter(|(shrinking, _)| *shrinking == number);
            if !is_empty || !self.yielding.contains(title) {
                columns.push(Column {
                    number,
                    title,
                    width: least.map_or(whole, |(_, least)| whole.min(least)),
                    whole,
                });
            }
        }
        for title in &self.yielding {
            if needed(&columns) <= self.width {
                break;
            }
            columns.retain(|column| column.title != *title);
        }
        columns
    }

    fn line(&self, row: &[Cell], columns: &[Column]) -> String {
        let mut line = String::new();
        let mut used = 0;
        let last = columns.last().map(|column| column.number);
        for Column { number, width, .. } in columns {
            let Some(cell) = row.get(*number) else {
                continue;
            };
            if Some(*number) == last {
                // However narrow the terminal is, something of it is told.
                let text = cut_at_a_word(&cell.text, self.width.saturating_sub(used).max(12));
                line.push_str(&paint(cell.style, &text));
                continue;
            }
            let text = cut(&cell.text, *width);
            line.push_str(&paint(cell.style, &text));
            let gap = width.saturating_sub(text.width()) + GAP;
            line.extend(std::iter::repeat_n(' ', gap));
            used += width + GAP;
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
        line
    }
}

/// How many characters a line of these columns takes when the last one is cut.
fn needed(columns: &[Column]) -> usize {
    let Some((last, before)) = columns.split_last() else {
        return 0;
    };
    let before: usize = before.iter().map(|column| column.width + GAP).sum();
    before + last.width.min(LAST)
}

/// As much of a text as fits into that many columns of a terminal, with `…` where it was cut.
pub(in crate::cli) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        short.push(c);
        if short.width() >= width {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// As [`cut`], after a whole word where that leaves half of the width at the least.
fn cut_at_a_word(text: &str, width: usize) -> String {
    let short = cut(text, width);
    let Some(kept) = short.strip_suffix('…').filter(|_| short != text) else {
        return short;
    };
    // The cut may fall between two words by itself.
    let is_between = text[kept.len()..].starts_with(' ');
    let end = kept.rfind(' ').filter(|_| !is_between);
    match end.map_or(kept, |end| &kept[..end]).trim_end() {
        // One long word is cut within rather than left out.
        words if words.width() * 2 >= width => format!("{words}…"),
        _ => short,
    }
}

/// A text over as many lines as it takes, each but the first that far to the right. A word that is too long has a line of
/// its own.
pub(in crate::cli) fn wrapped(text: &str, indent: usize, width: usize) -> String {
    let room = width.saturating_sub(indent).max(20);
    let mut wrapped = String::new();
    for (index, line) in text.lines().enumerate() {
        if index > 0 {
            wrapped.push_str(&format!("\n{}", " ".repeat(indent)));
        }
        let mut used = 0;
        // The spaces at the beginning of a line stay: they say what belongs together.
        for (nth, word) in line.split(' ').enumerate() {
            if used > 0 && used + 1 + word.width() > room {
                wrapped.push_str(&format!("\n{}", " ".repeat(indent)));
                used = 0;
            } else if nth > 0 {
                wrapped.push(' ');
                used += 1;
            }
            wrapped.push_str(word);
            used += word.width();
        }
    }
    wrapped
}

/// A text after its label, as [`wrapped`]. A command at its end, after `, run `, is not broken, so that it can be copied: it has a line
/// of its own where it does not fit.
pub(in crate::cli) fn labelled(
    style: Style,
    label: &str,
    text: &str,
    indent: usize,
    width: usize,
) -> String {
    let parts = text.find(", run ").map(|at| text.split_at(at + 5));
    let (words, command) = parts.map_or((text, None), |(words, command)| (words, Some(command)));
    labelled_command(style, label, (words, command), indent, width)
}

/// As [`labelled`], of words and the command behind them, which begins with a space.
pub(in crate::cli) fn labelled_command(
    style: Style,
    label: &str,
    (words, command): (&str, Option<&str>),
    indent: usize,
    width: usize,
) -> String {
    let painted = paint(style, label);
    let text = format!("{words}{}", command.unwrap_or_default());
    let fits = indent + label.width() + text.width() < width;
    if fits || text.contains('\n') {
        return format!("{painted} {text}");
    }
    // The first line begins left of the others and is broken where they are.
    let lines = wrapped(&format!("{label} {words}"), indent, width);
    let mut lines = format!("{painted}{}", &lines[label.len()..]);
    if let Some(command) = command {
        lines.push_str(&format!("\n{}{}", " ".repeat(indent), command.trim_start()));
    }
    lines
}

/// How long ago, in one unit: `5s`, `12m`, `3h`, `9d`.
pub(in crate::cli) fn age(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: usize) -> Table {
        let mut table = Table::new(vec!["ID", "ROLE", "EMPTY", "TASK"], width);
        table = table.yielding(&["ROLE", "EMPTY"]);
        let cells = ["6a48ca7b", "edit-local", "", "Add a flag to the list command"];
        table.push(cells.into_iter().map(Cell::plain).collect());
        table
    }

    fn plain(table: &Table) -> String {
        anstream::adapter::strip_str(&table.render()).to_string()
    }

    #[test]
    fn columns_yield_when_empty_or_when_there_is_no_room() {
        insta::assert_snapshot!(plain(&table(usize::MAX)), @r"
        ID        ROLE        TASK
        6a48ca7b  edit-local  Add a flag to the list command
        ");
        insta::assert_snapshot!(plain(&table(40)), @r"
        ID        ROLE        TASK
        6a48ca7b  edit-local  Add a flag to the…
        ");
        insta::assert_snapshot!(plain(&table(30)), @r"
        ID        TASK
        6a48ca7b  Add a flag to the…
        ");
    }

    #[test]
    fn a_column_shrinks_before_others_yield_and_no_more_than_it_must() {
        let long = |width| {
            let mut table = table(width).shrinking("ID", 10);
            table.push(["a-name-of-20-letters", "auditor", "", "Look"].map(Cell::plain).into());
            plain(&table)
        };
        insta::assert_snapshot!(long(50), @r"
        ID                    ROLE        TASK
        6a48ca7b              edit-local  Add a flag to…
        a-name-of-20-letters  auditor     Look
        ");
        insta::assert_snapshot!(long(40), @r"
        ID          ROLE        TASK
        6a48ca7b    edit-local  Add a flag to…
        a-name-of…  auditor     Look
        ");
        insta::assert_snapshot!(long(30), @r"
        ID            TASK
        6a48ca7b      Add a flag to…
        a-name-of-2…  Look
        ");
    }

    #[test]
    fn a_text_is_folded_between_words_and_keeps_its_indentation() {
        assert_eq!(wrapped("one two three", 2, 22), "one two three");
        let text = wrapped("  a line that is folded\n\nlast", 2, 22);
        assert_eq!(text, "  a line that is\n  folded\n  \n  last");
        let long = "a-word-that-is-longer-than-the-line";
        assert_eq!(wrapped(long, 0, 20), long);
        assert_eq!(cut_at_a_word("one two three", 9), "one two…");
        assert_eq!(cut_at_a_word("one two", 4), "one…");
        assert_eq!(cut_at_a_word("a-long-word", 6), "a-lon…");
    }

    #[test]
    fn text_is_cut_by_what_it_takes_on_the_screen() {
        assert_eq!(cut("日本語のテキスト", 7), "日本語…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(Cell::plain("a\u{1b}[2Jb").text, "a\u{fffd}[2Jb");
    }
}
