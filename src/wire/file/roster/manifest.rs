//! `agent-manifest.csv`: one persona per row.

use super::text;
use crate::domain::Persona;

/// Reads a manifest; `path` is its name in messages.
///
/// # Errors
/// One sentence that begins with `path:line:`.
pub fn parse(path: &str, data: &[u8]) -> Result<Vec<Persona>, String> {
    let rows = rows(text(path, data)?)
        .map_err(|line| format!("{path}:{line}: a quote is never closed"))?;
    let mut rows = rows.into_iter();
    let header = rows.next().unwrap_or_default().cells;
    let columns = Columns::of(&header);
    if columns.name.is_none() {
        return Err(format!("{path}:1: there is no column `name`"));
    }
    let mut personas = Vec::new();
    for ManifestRow { line, cells } in rows {
        let (has, wants) = (cells.len(), header.len());
        if has != wants {
            return Err(format!("{path}:{line}: {has} cells in the row, {wants} in the header"));
        }
        let persona = columns.persona(&cells);
        // Without a name there is nothing to call its role by, and a row that is skipped would be missed silently.
        if persona.name.is_empty() {
            return Err(format!("{path}:{line}: the name is empty"));
        }
        personas.push(persona);
    }
    Ok(personas)
}

/// A row, and the line that it begins on.
#[derive(Default)]
struct ManifestRow {
    line: usize,
    cells: Vec<String>,
}

/// The rows of a CSV file (RFC 4180), without the empty lines between them. The error is the line of a row with a quote that is not
/// closed.
fn rows(text: &str) -> Result<Vec<ManifestRow>, usize> {
    let mut rows = Vec::new();
    let mut line = 1;
    let mut rest = text.chars().peekable();
    loop {
        while let Some(end) = rest.next_if(|c| ['\r', '\n'].contains(c)) {
            line += usize::from(end == '\n');
        }
        if rest.peek().is_none() {
            return Ok(rows);
        }
        let mut row = ManifestRow { line, cells: vec![String::new()] };
        let mut is_quoted = false;
        while let Some(c) = rest.next_if(|c| is_quoted || !['\r', '\n'].contains(c)) {
            let begins = row.cells.last().is_none_or(String::is_empty);
            line += usize::from(c == '\n');
            match c {
                '"' if is_quoted && rest.next_if_eq(&'"').is_some() => add(&mut row, '"'),
                '"' if is_quoted || begins => is_quoted = !is_quoted,
                ',' if !is_quoted => row.cells.push(String::new()),
                c => add(&mut row, c),
            }
        }
        if is_quoted {
            return Err(row.line);
        }
        rows.push(row);
    }
}

fn add(row: &mut ManifestRow, c: char) {
    if let Some(cell) = row.cells.last_mut() {
        cell.push(c);
    }
}

/// Where each column stands, by its header without regard to case.
struct Columns {
    name: Option<usize>,
    canonical: Option<usize>,
    module: Option<usize>,
    display_name: Option<usize>,
    title: Option<usize>,
    capabilities: Option<usize>,
    role: Option<usize>,
    identity: Option<usize>,
    communication_style: Option<usize>,
    principles: Option<usize>,
}

impl Columns {
    fn of(headers: &[String]) -> Columns {
        let find =
            |name: &str| headers.iter().position(|header| header.trim().eq_ignore_ascii_case(name));
        Columns {
            name: find("name"),
            canonical: find("canonicalId"),
            module: find("module"),
            display_name: find("displayName"),
            title: find("title"),
            capabilities: find("capabilities"),
            role: find("role"),
            identity: find("identity"),
            communication_style: find("communicationStyle"),
            principles: find("principles"),
        }
    }

    fn persona(&self, row: &[String]) -> Persona {
        let cell = |column: Option<usize>| {
            let cell = column.and_then(|column| row.get(column));
            decode(cell.map_or("", String::as_str)).trim().to_owned()
        };
        let principles = cell(self.principles);
        Persona {
            name: cell(self.name),
            canonical: cell(self.canonical),
            module: cell(self.module),
            display_name: cell(self.display_name),
            title: cell(self.title),
            description: String::new(),
            capabilities: cell(self.capabilities),
            role: cell(self.role),
            identity: cell(self.identity),
            communication_style: cell(self.communication_style),
            principles: lines(&principles),
            facts: Vec::new(),
        }
    }
}

/// The principles of one cell: one per line, without the dash that some begin with.
fn lines(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| line.trim().trim_start_matches("- ").to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

// HTML entities: cells of a manifest may hold them.

/// The named ones that XML has, and the one that editors add.
const NAMED: [(&str, char); 6] =
    [("amp", '&'), ("lt", '<'), ("gt", '>'), ("quot", '"'), ("apos", '\''), ("nbsp", ' ')];

/// The longest name between `&` and `;` that is looked at.
const LONGEST: usize = 10;

/// The text with its entities replaced, once: `&amp;lt;` becomes `&lt;`. What is no entity stays.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        let (before, tail) = rest.split_at(start);
        decoded.push_str(before);
        // A text with many `&` and no `;` would else be searched to its end for each of them.
        let end = tail.bytes().take(LONGEST + 2).position(|byte| byte == b';');
        match end.and_then(|end| Some((character(tail.get(1..end)?)?, end))) {
            Some((character, end)) => {
                decoded.push(character);
                rest = &tail[end + 1..];
            }
            None => {
                decoded.push('&');
                rest = &tail[1..];
            }
        }
    }
    decoded.push_str(rest);
    decoded
}

fn character(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return NAMED.iter().find(|(named, _)| *named == name).map(|(_, character)| *character);
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    // The texts end up in a prompt and on a terminal.
    char::from_u32(number).filter(|c| !c.is_control() || *c == '\n')
}

#[cfg(test)]
mod tests {
    use super::{decode, *};

    const OLDEST: &str = r#""name","displayName","title","icon","role","identity","communicationStyle","principles","module","path"
"analyst","Mary","Business Analyst","x","Analyst &amp; Expert","Senior
analyst, ""the"" best","Calm","- Evidence first
- Ask","bmm","bmad/bmm/agents/analyst.md"
"#;

    #[test]
    fn every_generation_reads_alike() {
        let middle = OLDEST
            .replace(r#""icon","role""#, r#""icon","capabilities","role""#)
            .replace(r#""x","Analyst"#, r#""x","finds","Analyst"#);
        let newest = middle
            .replace(r#""path""#, r#""path","canonicalId""#)
            .replace(r#"analyst.md""#, r#"analyst.md","bmad-agent-analyst""#);
        let expected = Persona {
            name: "analyst".into(),
            module: "bmm".into(),
            display_name: "Mary".into(),
            title: "Business Analyst".into(),
            role: "Analyst & Expert".into(),
            identity: "Senior\nanalyst, \"the\" best".into(),
            communication_style: "Calm".into(),
            principles: vec!["Evidence first".into(), "Ask".into()],
            ..Persona::default()
        };
        let with_capabilities = Persona { capabilities: "finds".into(), ..expected.clone() };
        let with_id =
            Persona { canonical: "bmad-agent-analyst".into(), ..with_capabilities.clone() };
        let check = |text: &str, expected: &Persona| {
            let bom = format!("\u{feff}{}", text.replace('\n', "\r\n"));
            assert_eq!(parse("m.csv", text.as_bytes()).as_deref(), Ok(&[expected.clone()][..]));
            assert_eq!(parse("m.csv", bom.as_bytes()).map(|all| all.len()), Ok(1));
        };
        check(OLDEST, &expected);
        check(&middle, &with_capabilities);
        check(&newest, &with_id);
    }

    #[test]
    fn a_malformed_manifest_is_told_with_its_line() {
        let check = |text: &[u8], expected: &str| {
            assert_eq!(parse("m.csv", text), Err(expected.to_owned()));
        };
        check(b"", "m.csv:1: there is no column `name`");
        check(b"\"title\"\n\"x\"\n", "m.csv:1: there is no column `name`");
        check(
            b"\"name\",\"role\"\n\"a\",\"b\"\n\n\"c\"\n",
            "m.csv:4: 1 cells in the row, 2 in the header",
        );
        check(b"\"name\",\"role\"\n\"a\",\"b\"\n\"\",\"c\"\n", "m.csv:3: the name is empty");
        check(
            b"\"name\",\"role\"\n\"a\",\"b\n\"c\",\"d\"\n",
            "m.csv:2: 3 cells in the row, 2 in the header",
        );
        check(b"\"name\",\"role\"\n\"a\",\"b\nc,d\n", "m.csv:2: a quote is never closed");
        check(b"name\nx\n\xff", "m.csv:3:1: it is not UTF-8 from here on");
    }

    #[test]
    fn columns_in_any_order_and_of_any_kind_are_read_by_their_header() {
        let text = "\"mood\",\"NAME\",\"Role\"\n\"x\",\"dev\",\"codes\"\n";
        let personas = parse("m.csv", text.as_bytes()).expect("well formed");
        assert_eq!((personas[0].name.as_str(), personas[0].role.as_str()), ("dev", "codes"));
    }

    #[test]
    fn entities_are_replaced_once_and_the_rest_stays() {
        for (text, expected) in [
            ("a &amp; b", "a & b"),
            ("&quot;x&quot; &lt;r&gt; it&apos;s it&#39;s", "\"x\" <r> it's it's"),
            ("&#x1F4CA;&#128202;", "\u{1F4CA}\u{1F4CA}"),
            ("&amp;lt;", "&lt;"),
            ("R&D; AT&T &unknown; & &", "R&D; AT&T &unknown; & &"),
            ("&#0; &#27; &#xD800;", "&#0; &#27; &#xD800;"),
            ("&é;", "&é;"),
        ] {
            assert_eq!(decode(text), expected, "{text}");
        }
    }
}
