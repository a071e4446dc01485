//! Tables that become cards on a narrow screen. Their roles are written out, because a table that is laid
//! out as blocks is none to some screen readers. What is the same in every row is said once, in the style.

use super::writer::Html;

/// A table of one section of the page.
pub(super) struct Table {
    /// The section's id.
    pub section: &'static str,
    pub columns: &'static [Column],
}

/// A column.
pub(super) struct Column {
    title: &'static str,
    /// Whether it holds numbers, which stand below each other.
    number: bool,
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

impl Table {
    /// A table with a row for each item; `cell` writes what stands in a column, the first one being the row's
    /// heading.
    pub(super) fn write<T>(
        &self,
        html: &mut Html,
        rows: impl IntoIterator<Item = T>,
        cell: impl Fn(&mut Html, &T, usize),
    ) {
        let heading = [("role", "columnheader"), ("scope", "col")];
        html.element("table", &[("role", "table"), ("class", "cards")], |html| {
            html.element("thead", &[("role", "rowgroup")], |html| {
                html.element("tr", &[("role", "row")], |html| {
                    for column in self.columns {
                        let attributes = column.with_class(&heading);
                        html.text_element("th", &attributes, column.title);
                    }
                });
            });
            html.line();
            html.element("tbody", &[("role", "rowgroup")], |html| {
                for row in rows {
                    html.element("tr", &[("role", "row")], |html| {
                        for (index, column) in self.columns.iter().enumerate() {
                            let (name, attributes) = match index {
                                0 => ("th", &[("role", "rowheader"), ("scope", "row")][..]),
                                _ => ("td", &[("role", "cell")][..]),
                            };
                            let attributes = column.with_class(attributes);
                            html.element(name, &attributes, |html| cell(html, &row, index));
                        }
                    });
                    html.line();
                }
            });
        });
    }

    /// Rules of style that put a column's title before what stands in it.
    pub(super) fn write_labels(&self, html: &mut Html) {
        for (index, column) in self.columns.iter().enumerate().skip(1) {
            html.constant("  #");
            html.constant(self.section);
            html.constant(" .cards td:nth-child(");
            html.text(&(index + 1).to_string());
            html.constant(")::before { content: \"");
            html.constant(column.title);
            html.constant("\"; }\n");
        }
    }
}

impl Column {
    fn with_class(
        &self,
        attributes: &[(&'static str, &'static str)],
    ) -> Vec<(&'static str, &'static str)> {
        let class = self.number.then_some(("class", "number"));
        attributes.iter().copied().chain(class).collect()
    }
}
