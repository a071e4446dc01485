//! What is in a worktree beside what a salvage of it holds.

use crate::error::{Code, Error, Result};
use crate::git::changes::Index;
use crate::git::command;
use crate::git::files::untrusted;
use crate::git::uncommitted::{Source, WorktreeFingerprint, git, ignored};
use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io::ErrorKind;
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
    pub ignored: BTreeSet<Vec<u8>>,
}

/// What is in a worktree beside the index copy that [`crate::git::uncommitted::write_trees`] left at
/// `source.index`, and beside `bundle`. Where a walk has seen all directories that the index knows, it is known what
/// else is in them. No ignored directory is entered once it is known to be one.
///
/// # Errors
/// `git-failed`; `io` for a directory that cannot be listed.
pub fn beside(
    source: &Source<'_>,
    bundle: Option<&Path>,
    seen: Option<&WorktreeFingerprint>,
) -> Result<Beside> {
    let mut tour = BesideTour {
        source,
        bundle,
        seen,
        kept: match seen {
            Some(_) => HashSet::new(),
            None => in_index_copy(source)?,
        },
        left_out: None,
        missed: Vec::new(),
    };
    match seen {
        Some(seen) => {
            for name in seen.unknown() {
                let name = Path::new(OsStr::from_bytes(name));
                // A bundle of which a file is tracked.
                if !bundle.is_some_and(|bundle| name.starts_with(bundle)) {
                    tour.walk(&source.worktree.join(name), 0)?;
                }
            }
        }
        None => tour.walk(source.worktree, 1)?,
    }
    Ok(Beside {
        missed: tour.missed,
        ignored: tour.left_out.unwrap_or_default(),
    })
}

fn in_index_copy(source: &Source<'_>) -> Result<HashSet<Vec<u8>>> {
    let index = untrusted::read_at(source.index, untrusted::LONGEST_INDEX);
    match index.and_then(Index::parse) {
        Some(index) if !index.is_flagged => Ok(index.paths().map(<[u8]>::to_vec).collect()),
        _ => {
            let mut cached = git(source);
            cached.args(["ls-files", "-z", "--cached"]);
            listed(cached)
        }
    }
}

struct BesideTour<'a> {
    source: &'a Source<'a>,
    bundle: Option<&'a Path>,
    seen: Option<&'a WorktreeFingerprint>,
    kept: HashSet<Vec<u8>>,
    /// What is ignored. Asked for when the first file turns up that is not kept: git tours the worktree for it.
    left_out: Option<BTreeSet<Vec<u8>>>,
    missed: Vec<PathBuf>,
}

impl BesideTour<'_> {
    fn holds(&self, path: &[u8]) -> bool {
        self.kept.contains(path) || self.seen.is_some_and(|seen| seen.holds(path))
    }

    /// Walks over what is at a place, which itself counts at depth 0.
    fn walk(&mut self, place: &Path, min_depth: usize) -> Result<()> {
        let source = self.source;
        // A link at the place itself is something that a salvage may hold, and what it leads to is
        // not.
        let walk = WalkDir::new(place).follow_root_links(false);
        let mut walk = walk.min_depth(min_depth).into_iter();
        while let Some(entry) = walk.next() {
            let entry = match entry {
                Ok(entry) => entry,
                // The list of unknown names is older than this walk, and what is gone needs no
                // keeping.
                Err(error) if min_depth == 0 && error.depth() == 0 && is_absence(&error) => break,
                // A directory that cannot be listed may hold work, so the removal must not go on.
                Err(error) => {
                    let what = "could not list the worktree";
                    return Err(Error::new(Code::Io, what).because(error));
                }
            };
            let path = entry.path();
            let inside = path.strip_prefix(source.worktree).unwrap_or(path);
            let kind = entry.file_type();
            let pointer = inside == Path::new(".git");
            let bytes = inside.as_os_str().as_bytes();
            if pointer || self.bundle == Some(inside) && kind.is_dir() {
                if kind.is_dir() {
                    walk.skip_current_dir();
                }
            } else if kind.is_dir() {
                if { self.left_out.as_ref() }.is_some_and(|paths| has_directory(paths, bytes)) {
                    walk.skip_current_dir();
                }
            } else if (kind.is_file() || kind.is_symlink()) && !self.holds(bytes) {
                let left_out = match &self.left_out {
                    Some(known) => known,
                    None => {
                        let names = self.seen.map(WorktreeFingerprint::unknown);
                        let ignored = ignored(source, names)?.into_iter().collect();
                        &*self.left_out.insert(ignored)
                    }
                };
                let mut above = inside.ancestors().skip(1);
                if above.any(|above| has_directory(left_out, above.as_os_str().as_bytes())) {
                    // Its directory was entered before anything was known.
                    walk.skip_current_dir();
                } else if !left_out.contains(bytes) {
                    self.missed.push(path.to_owned());
                }
            }
        }
        Ok(())
    }
}

/// Whether what was to be looked at is gone.
fn is_absence(error: &walkdir::Error) -> bool {
    let cause = error.io_error();
    cause.is_some_and(|cause| cause.kind() == ErrorKind::NotFound)
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
