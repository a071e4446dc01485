//! HTML entities: cells of a manifest may hold them.

/// The named ones that XML has, and the one that editors add.
const NAMED: [(&str, char); 6] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
];

/// The longest name between `&` and `;` that is looked at.
const LONGEST: usize = 10;

/// The text with its entities replaced, once: `&amp;lt;` becomes `&lt;`. What is no entity stays.
pub(super) fn decode(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        let (before, tail) = rest.split_at(start);
        decoded.push_str(before);
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
        return NAMED
            .iter()
            .find(|(named, _)| *named == name)
            .map(|(_, character)| *character);
    };
    let number = match number.strip_prefix(['x', 'X']) {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(number).filter(|c| !c.is_control() || *c == '\n')
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn entities_are_replaced_once_and_the_rest_stays() {
        for (text, expected) in [
            ("a &amp; b", "a & b"),
            (
                "&quot;x&quot; &lt;r&gt; it&apos;s it&#39;s",
                "\"x\" <r> it's it's",
            ),
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
