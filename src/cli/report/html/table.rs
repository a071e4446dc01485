//! Tables that become cards on a narrow screen. Their roles are written out, because a table that is laid
//! out as blocks is none to some screen readers.

use super::writer::Html;

/// A column.
pub(super) struct Column {
    pub title: &'static str,
    /// Whether it holds numbers, which stand below each other.
    pub number: bool,
}

/// A column of text.
pub(super) const fn words(title: &'static str) -> Column {
    Column {
        title,
        number: false,
    }
}

/// A column of numbers.
pub(super) const fn numbers(title: &'static str) -> Column {
    Column {
        title,
        number: true,
    }
}

/// A table with a row for each item; `cell` writes what stands in a column, the first one being the row's
/// heading.
pub(super) fn table<T>(
    html: &mut Html,
    columns: &[Column],
    rows: impl IntoIterator<Item = T>,
    cell: impl Fn(&mut Html, &T, usize),
) {
    html.element("table", &[("role", "table")], |html| {
        html.element("thead", &[("role", "rowgroup")], |html| {
            html.element("tr", &[("role", "row")], |html| {
                for column in columns {
                    let attributes = [
                        ("role", "columnheader"),
                        ("scope", "col"),
                        ("class", class(column)),
                    ];
                    html.text_element("th", &attributes, column.title);
                }
            });
        });
        html.line();
        html.element("tbody", &[("role", "rowgroup")], |html| {
            for row in rows {
                html.element("tr", &[("role", "row")], |html| {
                    for (index, column) in columns.iter().enumerate() {
                        write_cell(html, column, index, |html| cell(html, &row, index));
                    }
                });
                html.line();
            }
        });
    });
}

fn write_cell(html: &mut Html, column: &Column, index: usize, inside: impl FnOnce(&mut Html)) {
    let class = class(column);
    match index {
        0 => {
            let attributes = [("role", "rowheader"), ("scope", "row"), ("class", class)];
            html.element("th", &attributes, inside);
        }
        _ => {
            let attributes = [
                ("role", "cell"),
                ("class", class),
                ("data-label", column.title),
            ];
            // Beside its label on a narrow screen, as one thing.
            html.element("td", &attributes, |html| html.element("div", &[], inside));
        }
    }
}

fn class(column: &Column) -> &'static str {
    if column.number { "number" } else { "words" }
}
