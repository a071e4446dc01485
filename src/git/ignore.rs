//! The ignore rules of a commit as one file, so that they can be asked about files of a worktree whose
//! own `.gitignore` files may say something else.
//!
//! Every pattern is moved to the top: `foo` in `sub/.gitignore` is `/sub/**/foo` there, `/foo` is
//! `/sub/foo` (gitignore(5)). Parents come before children, so the last match still decides as git
//! would have it.

use super::{Repo, tree};
use crate::domain::oid::Oid;
use crate::error::Result;

/// The name of the files that hold ignore rules.
const FILE_NAME: &[u8] = b".gitignore";

impl Repo {
    /// All ignore rules that a tree holds, as the text of one file at its top.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree or blob is missing.
    pub fn ignore_rules(&self, root: Oid) -> Result<Vec<u8>> {
        let mut rules = Vec::new();
        let mut open = vec![(Vec::new(), root)];
        while let Some((directory, oid)) = open.pop() {
            for entry in self.read_tree(oid)? {
                if entry.is_file() && entry.name == FILE_NAME {
                    let text = self.read_blob(entry.oid)?;
                    move_to_top(&text, &directory, &mut rules);
                } else if entry.mode == tree::DIRECTORY {
                    let below = [&directory[..], &entry.name, b"/"].concat();
                    open.push((below, entry.oid));
                }
            }
        }
        Ok(rules)
    }
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
            if matches!(byte, b'*' | b'?' | b'[' | b'\\') {
                rules.push(b'\\');
            }
            rules.push(byte);
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
    }
}
