//! What is in a worktree beside what a salvage of it holds.

use crate::error::{Code, Error, Result};
use crate::git::changes::Index;
use crate::git::command;
use crate::git::uncommitted::{Source, git, ignored};
use crate::git::untrusted;
use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use walkdir::WalkDir;

/// The files and symlinks of a worktree that no salvage holds.
#[derive(Debug, Default)]
pub struct Beside {
    /// Those that are neither in the index copy nor ignored nor in the bundle.
    pub missed: Vec<PathBuf>,
    /// What is ignored, as [`ignored`] names it.
    pub ignored: Vec<Vec<u8>>,
}

/// What is in a worktree beside the index copy that [`crate::git::uncommitted::write_trees`] left at
/// `source.index`, and beside `bundle`. No ignored directory is entered once it is known to be one.
///
/// # Errors
/// `git-failed`; `io` for a directory that cannot be listed.
pub fn beside(source: &Source<'_>, bundle: Option<&Path>) -> Result<Beside> {
    let index = untrusted::read_at(source.index, untrusted::LONGEST_INDEX);
    let kept = match index.and_then(Index::parse) {
        Some(index) if !index.is_flagged => index.paths().map(<[u8]>::to_vec).collect(),
        _ => {
            let mut cached = git(source);
            cached.args(["ls-files", "-z", "--cached"]);
            listed(cached)?
        }
    };
    // Asked for when the first file turns up that is not kept: a whole tour of the worktree.
    let mut left_out: Option<BTreeSet<Vec<u8>>> = None;
    let mut missed = Vec::new();
    let mut walk = WalkDir::new(source.worktree).min_depth(1).into_iter();
    while let Some(entry) = walk.next() {
        let entry = entry
            .map_err(|error| Error::new(Code::Io, "could not list the worktree").because(error))?;
        let path = entry.path();
        let inside = path.strip_prefix(source.worktree).unwrap_or(path);
        let kind = entry.file_type();
        let pointer = entry.depth() == 1 && entry.file_name() == ".git";
        let bytes = inside.as_os_str().as_bytes();
        if pointer || bundle == Some(inside) && kind.is_dir() {
            if kind.is_dir() {
                walk.skip_current_dir();
            }
        } else if kind.is_dir() {
            if { left_out.as_ref() }.is_some_and(|paths| has_directory(paths, bytes)) {
                walk.skip_current_dir();
            }
        } else if (kind.is_file() || kind.is_symlink()) && !kept.contains(bytes) {
            let left_out = match &left_out {
                Some(known) => known,
                None => &*left_out.insert(ignored(source)?.into_iter().collect()),
            };
            let mut above = inside.ancestors().skip(1);
            if above.any(|above| has_directory(left_out, above.as_os_str().as_bytes())) {
                // Its directory was entered before anything was known.
                walk.skip_current_dir();
            } else if !left_out.contains(bytes) {
                missed.push(path.to_owned());
            }
        }
    }
    Ok(Beside {
        missed,
        ignored: left_out.unwrap_or_default().into_iter().collect(),
    })
}

/// Whether a directory is among paths that name directories with a slash at the end.
fn has_directory(paths: &BTreeSet<Vec<u8>>, directory: &[u8]) -> bool {
    paths.contains([directory, b"/"].concat().as_slice())
}

fn listed(command: Command) -> Result<HashSet<Vec<u8>>> {
    let output = command::successful(command)?;
    Ok(command::names(&output).map(<[u8]>::to_vec).collect())
}

/// The error for files that no salvage can hold.
pub fn unkeepable(paths: &[PathBuf]) -> Error {
    const NAMED: usize = 20;
    let named = paths.iter().take(NAMED);
    let lines: Vec<_> = named.map(|path| format!("  {}", path.display())).collect();
    let first = paths.first().map_or(Path::new("."), PathBuf::as_path);
    Error::new(
        Code::DiscardRefused,
        format!("{} files are in no commit and git cannot salvage them, as in a repository inside the worktree", paths.len()),
    )
    .detail(lines.join("\n"))
    .hint(format!(
        "to keep them, move them out of the worktree: mv {} <elsewhere>",
        first.display()
    ))
}
