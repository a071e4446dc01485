//! Paths inside a repository, as bytes with `/` between the parts.
//!
//! A [`RepoPath`] is safe by construction: relative, without `..`, and never inside a git dir under
//! any spelling that some file system takes for `.git`. Everything that judges paths takes this type,
//! so no rule has to think of those again. It keeps the bytes git knows the path by, and beside them
//! the form that globs are compared with: Unicode NFC, because macOS hands out decomposed names for
//! files that a task file names composed.
//!
//! Deliberately absent: the file system. A symlink is judged by its own path here and by its target
//! where the target is known.

use crate::domain::value::named::named;
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};

/// A path relative to the top of a worktree. Not necessarily UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepoPath {
    bytes: Vec<u8>,
    /// The NFC form where it differs from `bytes`; most paths are ASCII and need none.
    nfc: Option<Vec<u8>>,
}

named! {
    /// Why bytes are no path inside a repository.
    #[derive(Hash)]
    pub enum PathProblem {
        /// Nothing is left once `.` parts and extra slashes are gone.
        Empty = "it is empty",
        /// It starts with `/`.
        Absolute = "it is absolute",
        /// A part is `..`.
        Parent = "it has a `..` part",
        /// It holds a NUL byte.
        Nul = "it has a NUL byte",
        /// A part is `.git`, or a spelling of it on Windows or macOS.
        GitDir = "it leads into a git directory",
    }
}

impl RepoPath {
    /// Checks and normalises a path: `.` parts and extra slashes are dropped.
    ///
    /// # Errors
    /// The first rule that the path breaks.
    pub fn parse(bytes: &[u8]) -> Result<RepoPath, PathProblem> {
        if bytes.first() == Some(&b'/') {
            return Err(PathProblem::Absolute);
        }
        if memchr::memchr(0, bytes).is_some() {
            return Err(PathProblem::Nul);
        }
        let parts = || bytes.split(|&byte| byte == b'/');
        let mut is_normal = true;
        for part in parts() {
            match part {
                b"" | b"." => is_normal = false,
                b".." => return Err(PathProblem::Parent),
                part if is_git_dir(part) => return Err(PathProblem::GitDir),
                _ => {}
            }
        }
        let normal = if is_normal {
            bytes.to_vec()
        } else {
            let kept = parts().filter(|part| !matches!(*part, b"" | b"."));
            kept.collect::<Vec<_>>().join(&b'/')
        };
        if normal.is_empty() {
            return Err(PathProblem::Empty);
        }
        let nfc = match nfc(&normal) {
            Cow::Borrowed(_) => None,
            Cow::Owned(nfc) => Some(nfc),
        };
        Ok(RepoPath { bytes: normal, nfc })
    }

    /// The path as git knows it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The form that globs are compared with: NFC where the path is UTF-8, else the bytes.
    pub fn comparison_form(&self) -> &[u8] {
        self.nfc.as_deref().unwrap_or(&self.bytes)
    }

    /// The names between the slashes; at least one.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.split(|&byte| byte == b'/')
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(&self.bytes).fmt(f)
    }
}

/// Any path, for people: written as git's porcelain does with `core.quotePath` off, as it is where a
/// person can read it, else in double quotes with C escapes (git's `quote.c`). A path that is not
/// UTF-8 gets octal escapes for all its high bytes.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a>(pub &'a [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readable = |c: char| !c.is_control() && c != '"' && c != '\\';
        let text = std::str::from_utf8(self.0).ok();
        if let Some(text) = text.filter(|text| text.chars().all(readable)) {
            return f.write_str(text);
        }
        // Git quotes bytes and not characters, so one control character has all of them spelled
        // out.
        let keep_high_bytes = text.is_some_and(|text| !text.chars().any(is_high_control));
        write_quoted(f, self.0, keep_high_bytes)
    }
}

/// Whether a character is one of the control characters beyond ASCII, which terminals obey too.
/// The directory that a path is in, and its name there; `None` for a path at the top.
pub fn split_name(path: &[u8]) -> Option<(&[u8], &[u8])> {
    rsplit_once(path, b'/')
}

/// The directory that a path is in, with the slash at its end; empty for a path at the top.
pub fn directory_with_slash(path: &[u8]) -> &[u8] {
    let name = split_name(path).map_or(path, |(_, name)| name);
    path.strip_suffix(name).unwrap_or_default()
}

/// The directories above a path, the nearest first, without the top.
pub fn directories(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let above = |path| split_name(path).map(|(directory, _)| directory);
    std::iter::successors(above(path), move |path| above(path))
}

/// What is before the first of these bytes, and behind it.
pub fn split_once(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let mut parts = bytes.splitn(2, |other| *other == byte);
    let before = parts.next()?;
    Some((before, parts.next()?))
}

/// What is before the last of these bytes, and behind it.
pub fn rsplit_once(bytes: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let mut parts = bytes.rsplitn(2, |other| *other == byte);
    let behind = parts.next()?;
    Some((parts.next()?, behind))
}

fn is_high_control(c: char) -> bool {
    c.is_control() && !c.is_ascii()
}

fn write_quoted(f: &mut fmt::Formatter<'_>, bytes: &[u8], keep_high_bytes: bool) -> fmt::Result {
    let mut quoted = vec![b'"'];
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => quoted.extend([b'\\', byte]),
            0x07..=0x0d => {
                quoted.push(b'\\');
                quoted.extend(b"abtnvfr".get(usize::from(byte - 0x07)));
            }
            b' '..=b'~' => quoted.push(byte),
            0x80.. if keep_high_bytes => quoted.push(byte),
            _ => quoted.extend(format!("\\{byte:03o}").into_bytes()),
        }
    }
    quoted.push(b'"');
    f.write_str(&String::from_utf8_lossy(&quoted))
}

/// The NFC form of UTF-8; anything else is its own form.
pub(in crate::domain) fn nfc(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.is_ascii() {
        return Cow::Borrowed(bytes);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if is_nfc_quick(text.chars()) != IsNormalized::Yes => {
            Cow::Owned(text.nfc().collect::<String>().into_bytes())
        }
        _ => Cow::Borrowed(bytes),
    }
}

/// Whether some file system takes the name for `.git` (git's `path.c: is_ntfs_dotgit` and `utf8.c:
/// is_hfs_dotgit`). Both are asked on every platform: a branch made here is checked out elsewhere.
pub(in crate::domain) fn is_git_dir(name: &[u8]) -> bool {
    // Nearly every name begins as no spelling does, the characters that HFS+ ignores among them.
    let may_be = |name: &[u8]| matches!(name, [b'.' | b'g' | b'G' | 0xe2 | 0xef, ..]);
    // On Windows a backslash separates names, and git refuses them there for the same reason.
    let mut parts = name.split(|&byte| byte == b'\\');
    parts.any(|part| may_be(part) && is_ntfs_git_dir(part)) || may_be(name) && is_hfs_git_dir(name)
}

/// NTFS ignores case, trailing dots and spaces and what follows a colon, and knows `.git` by its
/// short name as well.
fn is_ntfs_git_dir(name: &[u8]) -> bool {
    let rest = [&b".git"[..], b"git~1"].into_iter().find_map(|stem| {
        let (head, rest) = name.split_at_checked(stem.len())?;
        head.eq_ignore_ascii_case(stem).then_some(rest)
    });
    rest.is_some_and(|rest| {
        matches!(rest.iter().find(|&&byte| byte != b'.' && byte != b' '), None | Some(b':'))
    })
}

/// The characters without a glyph that HFS+, or a directory of ext4 without case, ignores (Unicode's `Default_Ignorable_Code_Point`).
pub(in crate::domain) fn is_ignored_by_hfs(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

/// HFS+ ignores case, too.
fn is_hfs_git_dir(name: &[u8]) -> bool {
    std::str::from_utf8(name).is_ok_and(|name| {
        name.chars()
            .filter(|c| !is_ignored_by_hfs(*c))
            .map(|c| c.to_ascii_lowercase())
            .eq(".git".chars())
    })
}

// Texts that leave the machine, without its absolute paths.
//
// A path below a directory that has a name of its own (the worktree, the root, the home directory) begins with
// that name instead; of any other the last part stays. Programs and files of the system, such as `/usr/bin/env`,
// are the same on every machine and stay as they are.

/// What the paths of a system begin with.
const SYSTEM: [&str; 9] = ["bin", "dev", "etc", "lib", "lib64", "nix", "opt", "sbin", "usr"];

/// What ends a path in a command line, besides white space.
const ENDS: [char; 14] = ['"', '\'', '`', ':', ';', ',', '|', '&', '<', '>', '(', ')', '=', '\0'];

/// Directories and the names that stand for them.
#[derive(Clone, Debug, Default)]
pub struct PlaceNames(Vec<(String, &'static str)>);

impl PlaceNames {
    /// Of absolute paths without a slash at the end. Where one is inside another, the inner one is looked for
    /// first.
    pub fn new(places: impl IntoIterator<Item = (String, &'static str)>) -> PlaceNames {
        let mut places: Vec<_> = places.into_iter().filter(|(path, _)| path.len() > 1).collect();
        // The worktree may lie below the root, and that below the home directory: the nearest one
        // names a path.
        places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        PlaceNames(places)
    }

    /// The text without absolute paths.
    pub fn shorten(&self, text: &str) -> String {
        let mut shortened = String::with_capacity(text.len());
        let mut word = 0;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let before = &shortened[word..];
            if first == '/' && may_precede_path(before) {
                let (name, length) = self.name(rest).unwrap_or_else(|| other(rest));
                shortened.push_str(&name);
                rest = &rest[length..];
                if rest.starts_with('/') && name == "//" {
                    // The URL of a file: its path begins here.
                    word = shortened.len();
                }
                continue;
            }
            shortened.push(first);
            rest = &rest[first.len_utf8()..];
            if first.is_whitespace() || ENDS.contains(&first) {
                word = shortened.len();
            }
        }
        shortened
    }

    /// The name of the directory that a text begins with, and the length of what it stands for.
    fn name(&self, text: &str) -> Option<(String, usize)> {
        let is_whole = |path: &str| {
            let next = text[path.len()..].chars().next();
            next.is_none_or(|c| c == '/' || c.is_whitespace() || ENDS.contains(&c))
        };
        let mut places = self.0.iter();
        let (path, name) = places.find(|(path, _)| text.starts_with(path) && is_whole(path))?;
        Some(((*name).to_owned(), path.len()))
    }
}

/// Whether a slash after this part of a word begins an absolute path: at the word's start, and after an option's
/// letter as in `-I/usr/include`.
fn may_precede_path(before: &str) -> bool {
    before.is_empty() || before.starts_with('-') && !before.contains('/')
}

/// What stays of a path outside of every named directory, and the length of what was looked at.
fn other(text: &str) -> (String, usize) {
    if text.starts_with("///") {
        return ("//".to_owned(), 2);
    }
    let end = text.find(|c: char| c.is_whitespace() || ENDS.contains(&c));
    let path = &text[..end.unwrap_or(text.len())];
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or_default();
    let shown = match parts.next_back() {
        // An URL, and a name directly below `/`, say nothing of where a user's files are.
        Some(last) if !path.starts_with("//") && !is_system(path, first) => format!("…/{last}"),
        _ => path.to_owned(),
    };
    (shown, path.len())
}

/// Whether a path is the same on every machine. What `/dev/shm` holds is a user's.
fn is_system(path: &str, first: &str) -> bool {
    SYSTEM.contains(&first) && !path.starts_with("/dev/shm/")
}

// Which tracked paths a path collides with where file names ignore case.

/// The spellings of everything tracked, files and directories, found without regard to case.
///
/// Only a path that is not itself tracked needs asking about in the usual case, so a caller that
/// sees none can save building the index.
#[derive(Clone, Debug, Default)]
pub struct CaseIndex {
    /// From the folded form of a path or of a directory above one to every tracked spelling.
    spellings: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl CaseIndex {
    /// Indexes the paths of a commit or of the index.
    pub fn of<'a>(tracked: impl IntoIterator<Item = &'a RepoPath>) -> CaseIndex {
        let mut index = CaseIndex::default();
        for path in tracked {
            for prefix in prefixes(path.as_bytes()) {
                let known = index.spellings.entry(fold(prefix)).or_default();
                if known.iter().any(|spelling| spelling == prefix) {
                    // Then the directories above it are known as well.
                    break;
                }
                known.push(prefix.to_owned());
            }
        }
        index
    }

    /// The other spellings of `path`: its longest tracked prefix as it is tracked, and the rest as it
    /// is. `Secrets/new.pem` has the twin `secrets/new.pem` where `secrets/` is tracked.
    pub fn case_variants(&self, path: &RepoPath) -> Vec<RepoPath> {
        let bytes = path.as_bytes();
        let tracked =
            // The longest part that is tracked in any spelling decides; what is below it is new in
            // each of them.
            prefixes(bytes).find_map(|prefix| {
                Some((prefix, bytes.strip_prefix(prefix)?, self.spellings.get(&fold(prefix))?))
            });
        let Some((prefix, rest, spellings)) = tracked else {
            return Vec::new();
        };
        spellings
            .iter()
            .filter(|spelling| spelling.as_slice() != prefix)
            .filter_map(|spelling| RepoPath::parse(&[spelling, rest].concat()).ok())
            .collect()
    }
}

/// Whether some file system takes two different names for one.
pub fn is_case_variant(one: &[u8], other: &[u8]) -> bool {
    let same = if one.is_ascii() && other.is_ascii() {
        one.eq_ignore_ascii_case(other)
    } else {
        fold(one) == fold(other)
    };
    same && one != other
}

/// The path and the directories above it, longest first.
fn prefixes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::once(path).chain(directories(path))
}

/// A form that is equal for names which some file system takes for one: lower case, composed.
pub fn fold(path: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(path) {
        Ok(text) if !text.is_ascii() => {
            // Upper case first: some letters, as the long s, are equal to others in that case alone. Lower case can take a
            // composed letter apart, and the two forms have to be equal afterwards.
            let lower = text.to_uppercase().to_lowercase();
            nfc(lower.as_bytes()).into_owned()
        }
        _ => path.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalised_or_refused() {
        let check = |input: &[u8], expected: Result<&[u8], PathProblem>| {
            let path = RepoPath::parse(input);
            let path = path.as_ref().map(RepoPath::as_bytes).map_err(|problem| *problem);
            assert_eq!(path, expected, "{}", String::from_utf8_lossy(input));
        };
        check(b"src/lib.rs", Ok(b"src/lib.rs"));
        check(b"./src//./lib.rs/", Ok(b"src/lib.rs"));
        check(b"caf\xe9/x", Ok(b"caf\xe9/x"));
        check(b"..a/b..", Ok(b"..a/b.."));
        check(b".gitignore", Ok(b".gitignore"));
        check(b"git~2", Ok(b"git~2"));
        let ignored = "\u{feff}git/\u{2030}.git".as_bytes();
        check(ignored, Ok(ignored));
        check(b"", Err(PathProblem::Empty));
        check(b"./.", Err(PathProblem::Empty));
        check(b"/etc/passwd", Err(PathProblem::Absolute));
        check(b"a/../b", Err(PathProblem::Parent));
        check(b"a\0b", Err(PathProblem::Nul));
        for name in [
            ".git",
            ".GIT/config",
            "sub/.Git/hooks",
            "git~1",
            "GIT~1/x",
            ".git. .",
            ".git::$INDEX",
            "a\\.git",
            "a\\b\\Git~1 .",
            ".g\u{200c}it",
            "\u{feff}\u{200f}.GIT",
            "\u{206a}.git",
        ] {
            check(name.as_bytes(), Err(PathProblem::GitDir));
        }
    }

    #[test]
    fn comparison_is_composed_and_display_keeps_the_bytes() {
        let decomposed = "cafe\u{301}.txt";
        let path = RepoPath::parse(decomposed.as_bytes()).expect("valid");
        assert_eq!(path.comparison_form(), "caf\u{e9}.txt".as_bytes());
        assert_eq!(path.to_string(), decomposed);
    }

    #[test]
    fn unreadable_names_are_quoted() {
        let check = |input: &[u8], expected: &str| {
            assert_eq!(RepoPath::parse(input).expect("valid").to_string(), expected);
        };
        check("naïve file.txt".as_bytes(), "naïve file.txt");
        check(b"a\nb\x01", r#""a\nb\001""#);
        check(br#"say "hi"\"#, r#""say \"hi\"\\""#);
        check("é\t".as_bytes(), "\"é\\t\"");
        check(b"caf\xe9", r#""caf\351""#);
        check("a\u{9b}31m".as_bytes(), r#""a\302\23331m""#);
    }

    #[test]
    fn absolute_paths_are_named_by_what_they_are_in() {
        let names = PlaceNames::new([
            ("/home/me".to_owned(), "~"),
            ("/home/me/my project".to_owned(), "{root}"),
            ("/home/me/my project/.w/agent-1".to_owned(), "{worktree}"),
        ]);
        for (text, expected) in [
            ("claude -p {prompt}", "claude -p {prompt}"),
            ("/home/me/bin/claude -p", "~/bin/claude -p"),
            ("/home/meg/bin/claude", "…/claude"),
            ("sh '/home/me/my project/run.sh' x", "sh '{root}/run.sh' x"),
            ("/home/me/my project/.w/agent-1/a", "{worktree}/a"),
            ("--config=/home/me", "--config=~"),
            ("-I/home/me/include -L/srv/x/lib", "-I~/include -L…/lib"),
            ("/usr/bin/env python3 /bin/x", "/usr/bin/env python3 /bin/x"),
            ("cat /data/jane/secret.txt>/tmp/a/b", "cat …/secret.txt>…/b"),
            ("cat /dev/null>/dev/shm/jane/x", "cat /dev/null>…/x"),
            ("file:///home/me/x", "file://~/x"),
            ("https://example.com/a/b", "https://example.com/a/b"),
            ("sed s/a/b/ src/lib.rs", "sed s/a/b/ src/lib.rs"),
            ("ls /", "ls /"),
            ("é /home/me/é", "é ~/é"),
        ] {
            assert_eq!(names.shorten(text), expected, "{text}");
        }
    }

    fn path(text: &str) -> RepoPath {
        RepoPath::parse(text.as_bytes()).expect(text)
    }

    #[test]
    fn twins_are_the_tracked_spellings() {
        let tracked = ["secrets/old.pem", "README.md", "Readme.md", "É/x"].map(path);
        let index = CaseIndex::of(&tracked);
        let check = |input: &str, expected: &[&str]| {
            let case_variants: Vec<String> =
                index.case_variants(&path(input)).iter().map(ToString::to_string).collect();
            assert_eq!(case_variants, expected, "{input}");
        };
        check("secrets/new.pem", &[]);
        check("Secrets/new.pem", &["secrets/new.pem"]);
        check("SECRETS", &["secrets"]);
        check("secrets/OLD.pem", &["secrets/old.pem"]);
        check("README.md", &["Readme.md"]);
        check("readme.MD", &["README.md", "Readme.md"]);
        check("e\u{301}/y", &["É/y"]);
        check("src/new.rs", &[]);
    }
}
