//! Writing HTML so that it is well-formed by construction: the code that opens an element closes it, and
//! everything that is not a constant of this program is escaped.

use crate::domain::named::turns_direction;

/// Attributes of an element: constant names, any values.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// A page, or a part of one.
#[derive(Default)]
pub(super) struct Html {
    out: String,
}

impl Html {
    /// An element with whatever `inside` writes.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Html),
    ) {
        self.open(name, attributes);
        inside(self);
        self.out.push_str("</");
        self.out.push_str(name);
        self.out.push('>');
    }

    /// An element that holds a text.
    pub(super) fn text_element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        text: &str,
    ) {
        self.element(name, attributes, |html| html.text(text));
    }

    /// Text, whatever is in it.
    pub(super) fn text(&mut self, text: &str) {
        escape(text, &mut self.out);
    }

    /// A line end, for people who read the source.
    pub(super) fn line(&mut self) {
        self.out.push('\n');
    }

    /// Markup of this program's own, as it is.
    pub(super) fn constant(&mut self, markup: &'static str) {
        self.out.push_str(markup);
    }

    /// All that was written.
    pub(super) fn finish(self) -> String {
        self.out
    }

    fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.out.push('<');
        self.out.push_str(name);
        for (key, value) in attributes {
            self.out.push(' ');
            self.out.push_str(key);
            self.out.push_str("=\"");
            escape(value, &mut self.out);
            self.out.push('"');
        }
        self.out.push('>');
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            // HTML knows no way to write these, and text that turns around lies about what it says.
            c if c.is_control() || turns_direction(c) => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut html = Html::default();
        html.element("p", &[("title", "a\"><script>")], |html| {
            html.text("</style> & 'x' \u{0}\u{202e}\u{200f}\u{061c}");
        });
        assert_eq!(
            html.finish(),
            "<p title=\"a&quot;&gt;&lt;script&gt;\">&lt;/style&gt; &amp; &#39;x&#39; \u{fffd}\u{fffd}\u{fffd}\u{fffd}</p>"
        );
    }
}
