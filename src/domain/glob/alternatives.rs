//! The two bracketed constructs of a glob: `{a,b}` is spelled out, `[a-z]` is read as one unit.

/// How many patterns one glob may stand for. Braces multiply: four pairs are 16.
const MAX_ALTERNATIVES: usize = 64;

/// A character class at the start of a text.
pub(in crate::domain) struct Class<'a> {
    /// Whether it starts with `!` or `^`.
    pub(in crate::domain) negated: bool,
    /// What stands between the brackets.
    pub(in crate::domain) members: &'a str,
    /// The text after the closing bracket.
    pub(in crate::domain) rest: &'a str,
}

/// Reads the class that `text` starts with. Spellings whose meaning depends on who reads them are
/// refused: `]`, `-` or `[:` in front, `/` inside, characters of more than one byte.
///
/// # Errors
/// The rule that is broken, to be read after the glob.
pub(in crate::domain) fn split_class(text: &str) -> Result<Class<'_>, String> {
    let inside = text.strip_prefix('[').unwrap_or(text);
    let positive = inside.strip_prefix(['!', '^']);
    let (members, rest) = positive
        .unwrap_or(inside)
        .split_once(']')
        .ok_or("has an unclosed `[`")?;
    let rule = if members.is_empty() {
        "has an empty class"
    } else if members.starts_with("[:") {
        "has a named class; list the characters"
    } else if !members.is_ascii() {
        "has a class with a character beyond ASCII; use alternatives, `{é,è}`"
    } else if members.starts_with('-') {
        "has a class that starts with `-`; put it last"
    } else if reaches_separator(members.as_bytes()) {
        "has a class that reaches `/`"
    } else {
        return Ok(Class {
            negated: positive.is_some(),
            members,
            rest,
        });
    };
    Err(rule.to_owned())
}

/// Whether a member or a range covers `/`. Reading every `x-y` as a range, overlapping ones too, can
/// only refuse more.
fn reaches_separator(members: &[u8]) -> bool {
    members.contains(&b'/')
        || members
            .windows(3)
            .any(|range| range[1] == b'-' && (range[0]..=range[2]).contains(&b'/'))
}

/// Spells out the braces: `{a,b}/{c,}` gives `a/c`, `a/`, `b/c`, `b/`. Braces nest; inside a class
/// they are literal.
///
/// # Errors
/// The rule that is broken, to be read after the glob.
pub(super) fn expand(text: &str) -> Result<Vec<String>, String> {
    // Every open brace keeps the patterns before it and the branches that are finished; `current`
    // holds the patterns of the branch being read.
    let mut open: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    let mut current = vec![String::new()];
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let mut unit = next.len_utf8();
        match (next, open.last_mut()) {
            ('{', _) => open.push((std::mem::replace(&mut current, vec![String::new()]), vec![])),
            (',', Some((_, finished))) => {
                finished.append(&mut current);
                current.push(String::new());
            }
            ('}', Some(_)) => {
                let (before, mut branches) = open.pop().unwrap_or_default();
                branches.append(&mut current);
                current = join(&before, &branches)?;
            }
            ('}', None) => return Err("has a `}` without its `{`".to_owned()),
            _ => {
                if next == '[' {
                    unit = rest.len() - split_class(rest)?.rest.len();
                }
                for pattern in &mut current {
                    pattern.push_str(&rest[..unit]);
                }
            }
        }
        rest = &rest[unit..];
    }
    if open.is_empty() {
        Ok(current)
    } else {
        Err("has an unclosed `{`".to_owned())
    }
}

/// Every start with every end.
fn join(starts: &[String], ends: &[String]) -> Result<Vec<String>, String> {
    if starts.len() * ends.len() > MAX_ALTERNATIVES {
        return Err(format!("has more than {MAX_ALTERNATIVES} alternatives"));
    }
    let pairs = starts
        .iter()
        .flat_map(|start| ends.iter().map(move |end| format!("{start}{end}")));
    Ok(pairs.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_spelled_out() {
        let check = |input: &str, expected: &[&str]| {
            assert_eq!(expand(input).expect(input), expected, "{input}");
        };
        check("a,b", &["a,b"]);
        check("{a}", &["a"]);
        check("{a,b}/{c,}", &["a/c", "a/", "b/c", "b/"]);
        check("x{a,{b,c}d}y", &["xay", "xbdy", "xcdy"]);
        check("[{,}]{é,è}", &["[{,}]é", "[{,}]è"]);
    }
}
