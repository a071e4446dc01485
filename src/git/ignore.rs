//! The ignore rules of a commit as one file, so that they can be asked about files of a worktree whose
//! own `.gitignore` files may say something else.
//!
//! Every pattern is moved to the top: `foo` in `sub/.gitignore` is `/sub/**/foo` there, `/foo` is
//! `/sub/foo` (gitignore(5)). Parents come before children, so the last match still decides as git
//! would have it.

use super::repo::failed;
use super::{Repo, tree};
use crate::domain::oid::Oid;
use crate::error::Result;
use std::path::Path;

/// The name of the files that hold ignore rules.
const FILE_NAME: &[u8] = b".gitignore";

/// Ignore rules that nothing in a worktree can change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// The weakest, as the text of a file at the top.
    pub first: Vec<u8>,
    /// The tree whose own files come next.
    pub tree: Option<Oid>,
    /// The strongest, as the text of a file at the top.
    pub last: Vec<u8>,
}

impl Rules {
    /// Nothing is ignored but a directory at the top, if one is named.
    pub fn all_but(directory: Option<&str>) -> Rules {
        let last = directory.map(|directory| format!("/{directory}/\n").into_bytes());
        Rules {
            last: last.unwrap_or_default(),
            ..Rules::default()
        }
    }
}

impl Repo {
    /// Whether git ignores whatever is in a directory, given by its path from the top; the directory need not
    /// exist.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn ignores_all_in(&self, directory: &Path) -> Result<bool> {
        // Only below a path is it known to be a directory without looking.
        let inside = directory.join("file");
        self.inner.is_path_ignored(inside).map_err(|error| {
            let shown = directory.display();
            failed(&format!("could not tell whether {shown} is ignored"), error)
        })
    }

    /// The rules as the text of one file at the top: all of them, or those that can decide about `paths` and
    /// whatever is below these. A file in a directory says nothing about other directories, so for a few paths few
    /// trees have to be read.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree or blob is missing.
    pub fn ignore_rules(&self, rules: &Rules, paths: Option<&[Vec<u8>]>) -> Result<Vec<u8>> {
        let mut text = rules.first.clone();
        let mut open: Vec<_> = { rules.tree.into_iter() }
            .map(|root| (Vec::new(), root))
            .collect();
        while let Some((directory, oid)) = open.pop() {
            for entry in self.read_tree(oid)? {
                if entry.is_file() && entry.name == FILE_NAME {
                    move_to_top(&self.read_blob(entry.oid)?, &directory, &mut text);
                } else if entry.mode == tree::DIRECTORY {
                    let below = [&directory[..], &entry.name, b"/"].concat();
                    if paths.is_none_or(|paths| paths.iter().any(|path| concerns(&below, path))) {
                        open.push((below, entry.oid));
                    }
                }
            }
        }
        text.extend_from_slice(&rules.last);
        Ok(text)
    }
}

/// Whether the rules in a directory, whose path ends in a slash, can decide about a path or what is below it.
fn concerns(directory: &[u8], path: &[u8]) -> bool {
    let inside = directory.strip_prefix(path);
    path.starts_with(directory) || inside.is_some_and(|rest| rest.starts_with(b"/"))
}

/// Adds the rules of a file in `directory`, which is empty for the top and else ends in `/`.
fn move_to_top(text: &[u8], directory: &[u8], rules: &mut Vec<u8>) {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    for line in text.split(|&byte| byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        if directory.is_empty() {
            rules.extend_from_slice(line);
            rules.push(b'\n');
            continue;
        }
        let pattern = match line.strip_prefix(b"!") {
            Some(pattern) => {
                rules.push(b'!');
                pattern
            }
            None => line,
        };
        rules.push(b'/');
        for &byte in directory {
            match byte {
                b'*' | b'?' | b'[' | b'\\' => rules.extend_from_slice(&[b'\\', byte]),
                // A rule ends with its line; any one byte will do.
                b'\n' => rules.push(b'?'),
                _ => rules.push(byte),
            }
        }
        let anchored = pattern[..pattern.len().saturating_sub(1)].contains(&b'/');
        if !anchored {
            rules.extend_from_slice(b"**/");
        }
        rules.extend_from_slice(pattern.strip_prefix(b"/").unwrap_or(pattern));
        rules.push(b'\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_on_the_way_and_below_concern_a_path() {
        let check = |directory: &str, path: &str, expected: bool| {
            assert_eq!(concerns(directory.as_bytes(), path.as_bytes()), expected);
        };
        check("a/", "a/b", true);
        check("a/b/", "a/b", true);
        check("a/b/c/", "a/b", true);
        check("a/bc/", "a/b", false);
        check("a/b/", "a/bc", false);
        check("b/", "a/b", false);
    }

    #[test]
    fn patterns_keep_their_meaning_at_the_top() {
        let check = |line: &str, directory: &str, expected: &str| {
            let mut rules = Vec::new();
            move_to_top(line.as_bytes(), directory.as_bytes(), &mut rules);
            assert_eq!(String::from_utf8_lossy(&rules), expected);
        };
        check("*.o\n\n# no\n!a.o", "", "*.o\n!a.o\n");
        check("*.o", "lib/", "/lib/**/*.o\n");
        check("/out", "lib/", "/lib/out\n");
        check("out/", "lib/", "/lib/**/out/\n");
        check("a/b", "lib/", "/lib/a/b\n");
        check("!keep\r\n", "x[1]/y/", "!/x\\[1]/y/**/keep\n");
        check("\u{feff}*", "a/", "/a/**/*\n");
        check("*.o", "two\nlines/", "/two?lines/**/*.o\n");
    }
}
