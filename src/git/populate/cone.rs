//! Sparse worktrees: only some directories are filled, by git's own rules for a cone.

use super::inherit_worktree_config;
use crate::error::Result;
use crate::git::files::untrusted;
use crate::git::worktree::view::is_sparse;
use crate::git::{Repo, command};
use std::collections::BTreeSet;
use std::path::Path;

/// The longest list of patterns that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// The directories that a sparse worktree holds besides the files at its top, as its admin directory says now; `None` for one
/// that is whole, or sparse in another way than git's cones.
pub fn directories(admin_dir: &Path) -> Option<BTreeSet<String>> {
    let read = |name: &str| untrusted::read(admin_dir, Path::new(name), LONGEST);
    if !is_sparse(&read("config.worktree")?) {
        return None;
    }
    let patterns = read("info/sparse-checkout")?;
    let patterns = String::from_utf8_lossy(&patterns);
    in_cone(patterns.lines())
}

/// The directories of a cone, of whose patterns each names one, or says of one on the way that only its files are meant.
fn in_cone<'a>(mut patterns: impl Iterator<Item = &'a str>) -> Option<BTreeSet<String>> {
    if (patterns.next(), patterns.next()) != (Some("/*"), Some("!/*/")) {
        return None;
    }
    let mut found = BTreeSet::new();
    for pattern in patterns {
        if let Some(passed) = pattern.strip_prefix("!/") {
            found.remove(&plain(passed.strip_suffix("/*/")?));
        } else {
            found.insert(plain(pattern.strip_prefix('/')?.strip_suffix('/')?));
        }
    }
    Some(found)
}

/// A name without the backslashes before what would be special in a pattern.
fn plain(name: &str) -> String {
    let mut characters = name.chars();
    let mut text = String::new();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\\' => characters.next().unwrap_or(character),
            other => other,
        });
    }
    text
}

/// Makes a new worktree sparse, before it is populated: it will hold the files at its top, everything below these
/// directories, and the files beside each of them on the way there. Its index will name every file. The repository reads
/// `config.worktree`.
///
/// # Errors
/// Those of [`inherit_worktree_config`]; `git-missing`, `git-failed`.
pub fn narrow(
    repo: &Repo,
    worktree: &Path,
    admin_dir: &Path,
    directories: &BTreeSet<String>,
) -> Result<()> {
    inherit_worktree_config(repo, admin_dir)?;
    let options = [
        "sparse-checkout",
        "set",
        "--cone",
        "--no-sparse-index",
        // They are names, whatever characters they have.
        "--skip-checks",
    ];
    let names = directories.iter().map(|directory| format!("/{directory}"));
    let arguments = options.into_iter().map(str::to_owned).chain(names);
    command::run(worktree, arguments).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_patterns_of_a_cone_name_its_directories() {
        let of = |text: &str| {
            let found = in_cone(text.split(' '))?;
            Some(found.into_iter().collect::<Vec<_>>().join(" "))
        };
        let cases = [
            ("/* !/*/", Some("")),
            ("/* !/*/ /src/ /.config/", Some(".config src")),
            ("/* !/*/ /a/ !/a/*/ /a/b/ /c/", Some("a/b c")),
            ("/* !/*/ /odd\\*name\\\\/", Some("odd*name\\")),
            ("/src/", None),
            ("/* !/*/ *.rs", None),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text), expected.map(str::to_owned), "{text}");
        }
    }
}
