//! One glob of a scope: checked, normalised, and understood the same way by every reader.
//!
//! The syntax is globset's with directories kept apart: `*` and `?` stay within one name, `**` as a
//! whole name crosses directories, `[a-z]` and `[!a-z]` are one byte, `{a,b}` are alternatives. `?` is
//! one byte too, not one character. On top of that a trailing `/` means everything below, and there
//! is no escape: a literal `*`, `{` or `[` is written as a class, `[*]`.
//!
//! Left to itself globset has traps (measured with 0.4.21), so a glob is rewritten before globset sees
//! it: `./src/**`, `src/` and `src/**/` would match nothing, a negated class would match `/`, an empty
//! alternative would be dropped, and a class with `é` would match halves of it. So the braces are
//! spelled out first and every rule is applied to each alternative.

use super::path::is_git_dir;
use std::borrow::Cow;
use std::fmt;
use std::path::{Component, Path};
use unicode_normalization::UnicodeNormalization;

/// How long a glob may be, in bytes. Real ones are below 100; the limit keeps a denial readable.
const MAX_LENGTH: usize = 512;

/// What begins and ends braces and classes: a glob without these is one pattern, and none that does not compile.
const SYNTAX: [char; 4] = ['[', ']', '{', '}'];

/// Where the paths that a glob matches can be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Anywhere below this directory; the empty one is the top of the repository.
    Below(String),
    /// This path and no other.
    Path(String),
}

/// A glob that obeys the rules of every scope. Rules that depend on the role (a bare `**`) are
/// applied where the role is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob(String);

impl Glob {
    /// Checks and normalises one glob: NFC, no `.` parts, no extra slashes, `dir/` as `dir/**`.
    ///
    /// # Errors
    /// One sentence that names the glob and the rule that was broken.
    pub fn parse(text: &str) -> Result<Glob, String> {
        let refuse = |rule: &str| format!("glob `{}` {rule}", text.escape_debug());
        if text.len() > MAX_LENGTH {
            let start: String = text.chars().take(40).collect();
            let start = start.escape_debug();
            return Err(format!("glob `{start}…` is longer than {MAX_LENGTH} bytes"));
        }
        if text.contains('\\') {
            return Err(refuse("has a backslash; separate directories with `/`"));
        }
        if text.chars().any(char::is_control) {
            return Err(refuse("has a control character"));
        }
        // Globs are normalised as paths are, so that an accent written in two ways is one name.
        let composed: Cow<'_, str> =
            if text.is_ascii() { text.into() } else { text.nfc().collect::<String>().into() };
        let glob = Glob(normalise(&composed));
        for alternative in expand_alternatives(&glob.0).map_err(|rule| refuse(&rule))? {
            check_alternative(&alternative).map_err(|rule| refuse(&rule))?;
        }
        Ok(glob)
    }

    /// The normalised text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether some alternative of the glob has no literal character, so that it matches everything
    /// at some depth.
    pub fn is_bare(&self) -> bool {
        self.alternatives().any(|alternative| !has_literal(&alternative))
    }

    /// Whether every alternative of the glob names a git directory outright, where nothing is ever in
    /// scope.
    pub fn needs_git_dir(&self) -> bool {
        self.alternatives()
            .all(|pattern| pattern.split('/').any(|part| is_git_dir(part.as_bytes())))
    }

    /// Whether an alternative begins with a directory whose name is hidden and has wildcards.
    pub(in crate::domain) fn guesses_hidden_directory(&self) -> bool {
        let is_dot = |class: Class<'_>| !class.negated && class.members.contains('.');
        let is_hidden = |first: &str| {
            first.starts_with('.') || first.starts_with('[') && split_class(first).is_ok_and(is_dot)
        };
        self.alternatives().any(|pattern| {
            let first = pattern.split_once('/').map(|(first, _)| first);
            first.is_some_and(|first| first.contains(['*', '?', '[']) && is_hidden(first))
        })
    }

    /// The narrowest places that hold every path the glob matches, one for each alternative.
    pub fn reach(&self) -> Vec<Reach> {
        self.alternatives()
            .map(|pattern| {
                let parts = pattern.split('/');
                let literal: Vec<_> =
                    parts.take_while(|part| !part.contains(['*', '?', '['])).collect();
                let literal = literal.join("/");
                if literal.len() == pattern.len() {
                    Reach::Path(literal)
                } else {
                    Reach::Below(literal)
                }
            })
            .collect()
    }

    /// The one path that the glob matches, where it has no wildcard.
    pub fn plain_path(&self) -> Option<String> {
        let patterns: Vec<String> = self.alternatives().collect();
        let [pattern] = patterns.as_slice() else {
            return None;
        };
        let (mut path, mut rest) = (String::new(), pattern.as_str());
        while let Some(next) = rest.chars().next() {
            rest = match next {
                '*' | '?' => return None,
                // A class of one character is that character.
                '[' => {
                    let class = split_class(rest).ok().filter(|class| !class.negated)?;
                    path.push_str(class.members);
                    Some(class.rest).filter(|_| class.members.len() == 1)?
                }
                literal => {
                    path.push(literal);
                    &rest[literal.len_utf8()..]
                }
            };
        }
        Some(path)
    }

    /// The patterns without braces that together mean this glob, each normalised.
    pub(in crate::domain) fn alternatives(&self) -> impl Iterator<Item = String> {
        // Expansion succeeded when the glob was parsed.
        let expanded = expand_alternatives(&self.0).unwrap_or_default();
        expanded.into_iter().map(|alternative| normalise(&alternative))
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Drops `.` parts and extra slashes, shortens `**/**`, and completes a trailing slash. A leading
/// slash stays, to be refused.
fn normalise(text: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in text.split('/') {
        let repeats = part == "**" && parts.last() == Some(&"**");
        if !part.is_empty() && part != "." && !repeats {
            parts.push(part);
        }
    }
    if text.ends_with('/') && !parts.is_empty() && parts.last() != Some(&"**") {
        parts.push("**");
    }
    let root = if text.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// The rules for one pattern without braces.
///
/// # Errors
/// The rule that is broken, to be read after the glob.
fn check_alternative(text: &str) -> Result<(), String> {
    let text = normalise(text);
    let rule = if text.trim().is_empty() {
        "is empty"
    } else if text.starts_with('/') {
        "is absolute; start at the top of the repository"
    } else if text.starts_with('~') {
        "starts with `~`; start at the top of the repository"
    } else if text.split('/').any(|part| part == "..") {
        "has a `..` part"
    } else if text.starts_with(".**") {
        "starts with `.**`; type a hidden directory in full"
    } else if !text.contains(SYNTAX) {
        // Without a class globset refuses nothing, and compiling is most of what reading a glob costs.
        return Ok(());
    } else {
        return compile(&text)
            .map(|_| ())
            .map_err(|problem| format!("does not compile: {problem}"));
    };
    Err(rule.to_owned())
}

/// Hands one alternative to globset, with the options that make its meaning ours.
///
/// # Errors
/// What globset says is wrong.
pub(in crate::domain) fn compile(alternative: &str) -> Result<globset::Glob, String> {
    // A negated class would match the separator otherwise.
    let mut pattern = String::with_capacity(alternative.len());
    let mut rest = alternative;
    while let Some(start) = rest.find('[') {
        let class = split_class(&rest[start..])?;
        pattern.push_str(&rest[..start]);
        if class.negated {
            pattern.extend(["[!/", class.members, "]"])
        } else {
            pattern.extend(["[", class.members, "]"])
        }
        rest = class.rest;
    }
    pattern.push_str(rest);
    globset::GlobBuilder::new(&pattern)
        .literal_separator(true)
        .backslash_escape(false)
        .build()
        .map_err(|error| error.kind().to_string())
}

/// Whether a pattern without braces has a character that stands for itself.
fn has_literal(mut pattern: &str) -> bool {
    while let Some(next) = pattern.chars().next() {
        pattern = match next {
            '*' | '?' | '/' => &pattern[1..],
            '[' => split_class(pattern).map_or("", |class| class.rest),
            _ => return true,
        };
    }
    false
}

// The two bracketed constructs of a glob: `{a,b}` is spelled out, `[a-z]` is read as one unit.

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
    let (members, rest) =
        positive.unwrap_or(inside).split_once(']').ok_or("has an unclosed `[`")?;
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
        return Ok(Class { negated: positive.is_some(), members, rest });
    };
    Err(rule.to_owned())
}

/// Whether a member or a range covers `/`. Reading every `x-y` as a range, overlapping ones too, can
/// only refuse more.
fn reaches_separator(members: &[u8]) -> bool {
    members.contains(&b'/')
        || members
            .windows(3)
            .any(|range| matches!(range, [low, b'-', high] if (low..=high).contains(&&b'/')))
}

/// Spells out the braces: `{a,b}/{c,}` gives `a/c`, `a/`, `b/c`, `b/`. Braces nest; inside a class
/// they are literal.
///
/// # Errors
/// The rule that is broken, to be read after the glob.
fn expand_alternatives(text: &str) -> Result<Vec<String>, String> {
    if !text.contains(SYNTAX) {
        return Ok(vec![text.to_owned()]);
    }
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
    if open.is_empty() { Ok(current) } else { Err("has an unclosed `{`".to_owned()) }
}

/// Every start with every end.
fn join(starts: &[String], ends: &[String]) -> Result<Vec<String>, String> {
    // Checked before the product is made, since braces multiply.
    if starts.len() * ends.len() > MAX_ALTERNATIVES {
        return Err(format!("has more than {MAX_ALTERNATIVES} alternatives"));
    }
    let pairs = starts.iter().flat_map(|start| ends.iter().map(move |end| format!("{start}{end}")));
    Ok(pairs.collect())
}

// Globs that a person types or pastes in a directory of the repository.

/// A glob that was typed in a directory, as a glob of the whole repository. What leads out of the repository stays as it is
/// and is refused by the rules of globs.
pub fn from_directory(here: &Path, glob: &str) -> String {
    // These beginnings are none of a path below here; the rules of globs say what is wrong with
    // them.
    let is_relative = !glob.starts_with(['/', '~', '!']) && !glob.is_empty();
    if !is_relative {
        return glob.to_owned();
    }
    let mut parts: Vec<String> = Vec::new();
    for part in here.components() {
        if let Component::Normal(name) = part {
            parts.push(escaped(&name.to_string_lossy()));
        }
    }
    for part in glob.split('/') {
        match part {
            "." => {}
            ".." if parts.last().is_some_and(|last| last != "..") => {
                parts.pop();
            }
            part => parts.push(part.to_owned()),
        }
    }
    match parts.join("/") {
        all if all.is_empty() => "**".to_owned(),
        glob => glob,
    }
}

/// A glob of the whole repository, as one that is typed in the directory `here`: the inverse of [`from_directory`].
pub fn seen_from(here: &Path, glob: &str) -> String {
    let mut here: Vec<String> = here.iter().map(|name| escaped(&name.to_string_lossy())).collect();
    let mut rest: Vec<&str> = glob.split('/').collect();
    let is_common = |(name, part): &(&String, &&str)| name == *part;
    let common = here.iter().zip(&rest).take_while(is_common).count();
    here.drain(..common);
    rest.drain(..common);
    match [vec![".."; here.len()], rest].concat().join("/") {
        all if all.is_empty() => ".".to_owned(),
        glob => glob,
    }
}

/// A name as a glob that matches it, and nothing else unless the name has what no glob can say: any character stands in its place then.
pub fn escaped(name: &str) -> String {
    let mut glob = String::with_capacity(name.len());
    for (at, c) in name.char_indices() {
        match c {
            // What a glob may not begin with.
            '~' if at == 0 => glob.push_str("[~]"),
            '!' if at == 0 => glob.push('?'),
            '\\' => glob.push('?'),
            c if c.is_control() => glob.push('?'),
            // A comma between globs is refused.
            '*' | '?' | '[' | '{' | '}' | ',' => glob.extend(['[', c, ']']),
            c => glob.push(c),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_has_a_glob_that_matches_it() {
        for name in [
            "a",
            "!bang",
            "~t",
            "a~!",
            "back\\slash",
            "tab\tx",
            "nl\nx",
            "[id]",
            "{a,b}",
            "?*",
            "#",
            " x ",
        ] {
            let glob = Glob::parse(&escaped(name)).expect(name);
            let matcher = globset::Glob::new(glob.as_str()).expect(name).compile_matcher();
            assert!(matcher.is_match(name), "{name:?}: {}", glob.as_str());
        }
    }

    #[test]
    fn globs_are_normalised() {
        let check = |input: &str, expected: &str| {
            let glob = Glob::parse(input).expect(input);
            assert_eq!(glob.as_str(), expected);
            assert_eq!(Glob::parse(expected).as_ref(), Ok(&glob), "{input}");
        };
        check("Cargo.toml", "Cargo.toml");
        check("./src/**", "src/**");
        check("src/", "src/**");
        check("src/**/", "src/**");
        check("src//./a/**/**/b.rs", "src/a/**/b.rs");
        check("**", "**");
        check("cafe\u{301}/**", "café/**");
        check("{src,tests}/**", "{src,tests}/**");
        check("a{,.txt}", "a{,.txt}");
        check("app/[[]slug]/page.tsx", "app/[[]slug]/page.tsx");
        check(".git/**", ".git/**");
        check(".claude/**", ".claude/**");
    }

    #[test]
    fn a_glob_reaches_no_further_than_its_literal_directories() {
        let check = |glob: &str, expected: &[Reach]| {
            assert_eq!(Glob::parse(glob).expect(glob).reach(), expected, "{glob}");
        };
        let below = |directory: &str| Reach::Below(directory.to_owned());
        check("src/auth/**", &[below("src/auth")]);
        check("src/auth/", &[below("src/auth")]);
        check("src/*.rs", &[below("src")]);
        check("src/a*/b/c", &[below("src")]);
        check("**/*.md", &[below("")]);
        check("app/[[]slug]/page.tsx", &[below("app")]);
        check("Cargo.toml", &[Reach::Path("Cargo.toml".to_owned())]);
        check("{src,tests}/**", &[below("src"), below("tests")]);
    }

    #[test]
    fn a_glob_without_wildcards_is_one_path() {
        let check = |glob: &str, expected: Option<&str>| {
            let path = Glob::parse(glob).expect(glob).plain_path();
            assert_eq!(path.as_deref(), expected, "{glob}");
        };
        check("src/gen", Some("src/gen"));
        check("app/[[]slug]/é", Some("app/[slug]/é"));
        for glob in ["src/**", "a?", "[ab]", "[!a]", "{a,b}"] {
            check(glob, None);
        }
    }

    #[test]
    fn globs_are_refused_by_name_and_rule() {
        let check = |input: &str, rule: &str| {
            let message = Glob::parse(input).expect_err(input);
            let named = format!("glob `{}` {rule}", input.escape_debug());
            assert!(message.starts_with(&named), "{message}\nis not\n{named}");
        };
        check("", "is empty");
        check("./", "is empty");
        check("/etc/**", "is absolute");
        check("~/x", "starts with `~`");
        check("~root/x", "starts with `~`");
        check("src/../x", "has a `..` part");
        check("src\\lib.rs", "has a backslash");
        check("a\nb", "has a control character");
        check(".**", "starts with `.**`");
        check(".**/x", "starts with `.**`");
        check("{src,/etc}/**", "is absolute");
        check("{src,..}/x", "has a `..` part");
        check("{a,}", "is empty");
        check("{a", "has an unclosed `{`");
        check("a}", "has a `}` without its `{`");
        check("[a", "has an unclosed `[`");
        check("[]", "has an empty class");
        check("[é]", "has a class with a character beyond ASCII");
        check("a[!/]b", "has a class that reaches `/`");
        check("a[+-9]b", "has a class that reaches `/`");
        check("[[:alpha:]]", "has a named class");
        check("[-a]", "has a class that starts with `-`");
        check("[z-a]", "does not compile: invalid range");
        check(&"{a,b}".repeat(10), "has more than 64 alternatives");
        let long = Glob::parse(&"a".repeat(513)).expect_err("too long");
        assert!(long.ends_with("is longer than 512 bytes"), "{long}");
    }

    #[test]
    fn bare_globs_have_no_literal() {
        for bare in ["**", "*", "**/*", "?", "[a-z]*/**", "{src,**}", "*/"] {
            assert!(Glob::parse(bare).expect(bare).is_bare(), "{bare}");
        }
        for literal in ["*.rs", "src/**", "{src,docs}/**", "**/[Mm]akefile"] {
            assert!(!Glob::parse(literal).expect(literal).is_bare(), "{literal}");
        }
    }

    #[test]
    fn braces_are_spelled_out() {
        let check = |input: &str, expected: &[&str]| {
            assert_eq!(expand_alternatives(input).expect(input), expected, "{input}");
        };
        check("a,b", &["a,b"]);
        check("{a}", &["a"]);
        check("{a,b}/{c,}", &["a/c", "a/", "b/c", "b/"]);
        check("x{a,{b,c}d}y", &["xay", "xbdy", "xcdy"]);
        check("[{,}]{é,è}", &["[{,}]é", "[{,}]è"]);
    }

    #[test]
    fn globs_are_relative_to_where_one_stands() {
        for (here, typed, meant) in [
            ("", "src", "src"),
            ("", ".", "**"),
            ("", "./", "**"),
            ("", "**", "**"),
            ("packages/a", ".", "packages/a"),
            ("packages/a", "src/**", "packages/a/src/**"),
            ("packages/a", "../b/*.ts", "packages/b/*.ts"),
            ("packages/a", "../..", "**"),
            ("packages/a", "../../..", ".."),
            ("packages/a", "../../../../src", "../../src"),
            ("", "../..", "../.."),
            ("app/[slug]", "page.tsx", "app/[[]slug]/page.tsx"),
            ("src", "/etc/**", "/etc/**"),
            ("src", "~/x", "~/x"),
            ("src", "!x", "!x"),
        ] {
            let found = from_directory(Path::new(here), typed);
            assert_eq!(found.trim_end_matches('/'), meant, "{typed} in {here}");
        }
    }

    #[test]
    fn a_glob_is_typed_as_it_is_seen_from_a_directory() {
        for (here, glob, typed) in [
            ("", "src/**", "src/**"),
            ("src", "src/**", "**"),
            ("src", "src/nope", "nope"),
            ("src", "README.md", "../README.md"),
            ("a/b", "a/c/d", "../c/d"),
            ("a/b", "a", ".."),
            ("src", "src", "."),
            ("src", "**", "../**"),
            ("app/[slug]", "app/[[]slug]/page.tsx", "page.tsx"),
        ] {
            let here = Path::new(here);
            assert_eq!(seen_from(here, glob), typed, "{glob} from {here:?}");
            assert_eq!(from_directory(here, typed).trim_end_matches('/'), glob);
        }
    }
}
