//! The files named by a patch in the `apply_patch` form, alone or inside a shell command.
//!
//! The form has one header line per file:
//! `*** Add File: p`, `*** Update File: p` with an optional `*** Move to: p`, `*** Delete File: p`,
//! all between `*** Begin Patch` and `*** End Patch`. Only the headers are read here.

use super::paths;
use crate::domain::boundary::tool_call::{FileTouch, TouchedPath};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";

/// Lines that begin with `*** ` inside a patch and name no file.
const MARKERS: [&str; 4] = [BEGIN, END, "*** End of File", "*** Environment ID:"];

/// The files of the patches in `text`, in order; none where there is no patch.
///
/// # Errors
/// A sentence, when there is a patch but not every file of it can be told.
pub(super) fn touched(text: &str) -> Result<Vec<TouchedPath>, String> {
    let is_patch = text.contains(BEGIN);
    let mut touched: Vec<TouchedPath> = Vec::new();
    let mut in_update = false;
    for line in text.lines() {
        // Below `Update File` a leading space marks a context line, which may quote a header.
        // Elsewhere indentation is forgiven, so a header counts there.
        if in_update && line.starts_with(' ') {
            continue;
        }
        let line = line.trim();
        let Some((path, touch)) = header(line) else {
            if is_patch && line.starts_with("*** ") && !MARKERS.iter().any(|m| line.starts_with(m))
            {
                return Err(format!(
                    "the patch has a line of unknown meaning: {}",
                    paths::quoted(line)
                ));
            }
            continue;
        };
        let moves = line.starts_with("*** Move");
        if let (true, Some(source)) = (moves, touched.last_mut()) {
            // A moved file is gone from where it was.
            source.touch = FileTouch::Delete;
        }
        in_update = moves || line.starts_with("*** Update");
        let path = paths::checked(path.trim())?;
        touched.push(TouchedPath { path, touch });
    }
    if is_patch && touched.is_empty() {
        return Err("the patch names no file".to_owned());
    }
    Ok(touched)
}

/// The files of the patches that a shell command hands to `apply_patch`, relative to the directory
/// the command starts in. None where the command is not one that applies a patch.
///
/// # Errors
/// A sentence, when the command applies a patch and its files cannot be told.
pub(super) fn in_shell(command: &str) -> Result<Vec<TouchedPath>, String> {
    let applies = command.find("apply_patch").or_else(|| command.find("applypatch"));
    let Some((at, text)) = applies.map(|at| (at, &command[at..])) else {
        return Ok(Vec::new());
    };
    // A search for the marker is no patch: a patch goes on after it, with a line break that is
    // either real or, in a quoted argument, written as an escape.
    let begins = |rest: &str| rest.starts_with(['\n', '\r', '\\']);
    if !text.split(BEGIN).skip(1).any(begins) {
        return Ok(Vec::new());
    }
    let mut touched = touched(text)?;
    // Only a relative path depends on where the command stands by then.
    if touched.iter().any(|touched| !touched.path.starts_with('/')) {
        let directory = directory(&command[..at], text)?;
        for touched in &mut touched {
            touched.path = paths::join(directory, std::mem::take(&mut touched.path));
        }
    }
    Ok(touched)
}

/// The path and the kind of change of a header line.
fn header(line: &str) -> Option<(&str, FileTouch)> {
    [
        ("*** Add File:", FileTouch::Write),
        ("*** Update File:", FileTouch::Write),
        ("*** Move to:", FileTouch::Write),
        ("*** Delete File:", FileTouch::Delete),
    ]
    .into_iter()
    .find_map(|(prefix, touch)| Some((line.strip_prefix(prefix)?, touch)))
}

/// Where `apply_patch` runs when `head` stands before it and `rest` from it on: the plain word of a
/// `cd word &&` right before, or `None` for the directory the command starts in.
fn directory<'a>(head: &'a str, rest: &str) -> Result<Option<&'a str>, String> {
    let unknown = || {
        Err("the command changes directory before it applies a patch with relative paths; give absolute paths".to_owned())
    };
    // What stands between two patches of one command could change directory as well.
    let between = rest
        .split(END)
        .skip(1)
        .filter(|part| part.contains(BEGIN))
        .map(|part| part.split(BEGIN).next().unwrap_or_default());
    if between.flat_map(str::split_whitespace).any(changes_directory) {
        return unknown();
    }
    let words: Vec<&str> = head.split_whitespace().collect();
    let changes = words.iter().filter(|word| changes_directory(word)).count();
    match (changes, words.as_slice()) {
        (0, _) => Ok(None),
        (1, [.., cd, word, "&&"]) if changes_directory(cd) => {
            let word = word.trim_matches(['"', '\'']);
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
            if !word.is_empty() && word.chars().all(plain) { Ok(Some(word)) } else { unknown() }
        }
        _ => unknown(),
    }
}

fn changes_directory(word: &str) -> bool {
    matches!(
        word.trim_start_matches(['"', '\'', '(', '{', ';', '&', '|']),
        "cd" | "pushd" | "popd" | "chdir"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every touched path, deletions with a `-` in front.
    fn names(found: Result<Vec<TouchedPath>, String>) -> Result<String, String> {
        let name = |touched: TouchedPath| match touched.touch {
            FileTouch::Write => touched.path,
            FileTouch::Delete => format!("-{}", touched.path),
        };
        found.map(|all| all.into_iter().map(name).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn headers_of_a_patch_are_read() {
        let cases = [
            ("", ""),
            ("*** Add File: a\n+x", "a"),
            ("*** Begin Patch\r\n*** Add File: a b.rs \r\n+x\r\n*** End Patch", "a b.rs"),
            (
                "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** End of File\n*** Delete File: c\n*** End Patch",
                "-a b -c",
            ),
            // A context line may quote a header; a line that is added may, too.
            (
                "*** Begin Patch\n*** Update File: a\n@@\n *** Delete File: b\n+*** Delete File: c\n*** End Patch",
                "a",
            ),
            // Indentation is forgiven outside an update.
            ("*** Begin Patch\n  *** Add File: a\n+x\n*** End Patch", "a"),
            ("*** Begin Patch\n*** Delete File: a\n *** Delete File: b\n", "-a -b"),
            ("--- a/x\n+++ b/x\n*** 1,2 ****\n", ""),
        ];
        for (text, expected) in cases {
            assert_eq!(names(touched(text)), Ok(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn patches_that_hide_a_file_are_refused() {
        for text in [
            "*** Begin Patch\n*** End Patch",
            "*** Begin Patch\n*** Add File:\n+x\n*** End Patch",
            "*** Begin Patch\n*** Add File: ~/x\n+x\n*** End Patch",
            "*** Begin Patch\n*** Add File: a\n*** Copy File: b\n*** End Patch",
            "*** Begin Patch\n*** add file: a\n*** End Patch",
        ] {
            assert!(touched(text).is_err(), "{text}");
        }
    }

    #[test]
    fn patches_in_shell_commands_are_found() {
        const PATCH: &str = "*** Begin Patch\n*** Update File: a\n@@\n-x\n+y\n*** End Patch\n";
        let heredoc = |before: &str| format!("{before}apply_patch <<'EOF'\n{PATCH}EOF");
        let cases = [
            ("cargo test".to_owned(), ""),
            ("grep -rn '*** Begin Patch' apply_patch.rs".to_owned(), ""),
            ("grep apply_patch -e '*** Begin Patch'".to_owned(), ""),
            (heredoc(""), "a"),
            (heredoc("cd sub && "), "sub/a"),
            (heredoc("bash -lc 'cd \"/w/sub\" && "), "/w/sub/a"),
            (format!("applypatch '{PATCH}'"), "a"),
            (format!("{}; {}", heredoc(""), heredoc("")), "a a"),
        ];
        for (command, expected) in cases {
            assert_eq!(names(in_shell(&command)), Ok(expected.to_owned()), "{command}");
        }
        for command in [
            heredoc("cd $X && "),
            heredoc("cd a; cd b && "),
            heredoc("pushd a; "),
            heredoc("cd 'a b' && "),
            format!("{}\ncd .. && {}", heredoc(""), heredoc("")),
            "apply_patch $'*** Begin Patch\\n*** Add File: a\\n'".to_owned(),
        ] {
            assert!(in_shell(&command).is_err(), "{command}");
        }
        let absolute = heredoc("cd $X && ").replace("File: a", "File: /w/a");
        assert_eq!(names(in_shell(&absolute)), Ok("/w/a".to_owned()));
    }
}
