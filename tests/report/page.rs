//! Reads a page as strictly as XML: whatever is opened is closed in order, attributes are quoted, ids are
//! unique, and text holds no bare `<` or `&`.

use std::collections::BTreeSet;

/// What is on a page.
#[derive(Default)]
pub struct Page {
    pub elements: Vec<String>,
    pub ids: BTreeSet<String>,
    pub links: Vec<String>,
    pub headings: Vec<String>,
    /// All text outside of `style`, as a reader sees it.
    pub text: String,
    pub labelled_pictures: usize,
    pub scoped_headers: usize,
}

impl Page {
    pub fn read(source: &str) -> Page {
        let mut page = Page::default();
        let mut rest = source.strip_prefix("<!doctype html>").expect("a doctype");
        let mut open: Vec<String> = Vec::new();
        while let Some(start) = rest.find('<') {
            page.text_piece(&rest[..start], open.last());
            let end = start + rest[start..].find('>').expect("a tag ends");
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            if let Some(name) = tag.strip_prefix('/') {
                assert_eq!(open.pop().as_deref(), Some(name), "closed in order");
                continue;
            }
            let name = page.tag(tag);
            if name == "style" {
                let end = rest.find("</style>").expect("the style ends");
                assert!(!rest[..end].contains('<'));
                rest = &rest[end..];
            }
            if name != "meta" {
                open.push(name);
            }
        }
        page.text_piece(rest, None);
        assert_eq!(open, Vec::<String>::new(), "everything is closed");
        page
    }

    /// How many elements of that name there are.
    pub fn count(&self, name: &str) -> usize {
        self.elements.iter().filter(|element| *element == name).count()
    }

    fn tag(&mut self, tag: &str) -> String {
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric()), "{tag}");
        self.elements.push(name.to_owned());
        let mut rest = attributes;
        while !rest.is_empty() {
            let (key, value) = rest.split_once("=\"").expect("a quoted attribute");
            let (value, after) = value.split_once('"').expect("a closing quote");
            let value = unescape(value);
            assert!(!key.starts_with("on") && key != "src", "{tag}");
            match (name, key) {
                (_, "id") => assert!(self.ids.insert(value), "unique: {tag}"),
                ("a", "href") => self.links.push(value),
                ("svg", "aria-label") => self.labelled_pictures += 1,
                ("th", "scope") => self.scoped_headers += 1,
                _ => {}
            }
            rest = after.trim_start();
        }
        name.to_owned()
    }

    fn text_piece(&mut self, piece: &str, inside: Option<&String>) {
        let text = unescape(piece);
        if inside.is_some_and(|name| name == "h2") {
            self.headings.push(text.clone());
        }
        self.text.push_str(&text);
    }
}

fn unescape(text: &str) -> String {
    assert!(!text.contains(['<', '>']), "{text}");
    let mut plain = String::new();
    for (index, piece) in text.split('&').enumerate() {
        if index == 0 {
            plain.push_str(piece);
            continue;
        }
        let (name, rest) = piece.split_once(';').expect("a bare ampersand");
        plain.push(match name {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("an entity of another kind: {other}"),
        });
        plain.push_str(rest);
    }
    plain
}
