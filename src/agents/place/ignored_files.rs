//! Ignored files of the main worktree that a new worktree gets: those that `[setup] copy` names, and those that the
//! `.worktreeinclude` of the base commit matches.
//!
//! A file that exists already is left as it is, nothing is written through a symlink, and a copy has the times of the
//! original, by which build tools know what is up to date. Blocks are shared where the file system can do that.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::{parallel, untrusted};
use crate::domain::value::named::short_hex;
use crate::domain::{Glob, RepoPath, Scope};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::core::command;
use crate::store::files::{fsx, layout};
use crate::system;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Component, Path};
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many paths a warning names.
const NAMED: usize = 3;

/// After so many files a person who waits is told how many there are.
const TOLD: usize = 100;

/// Which ignored files are wanted.
#[derive(Clone, Copy)]
pub(crate) struct WantedFiles<'a> {
    /// Globs of `[setup] copy`.
    pub(crate) copy: &'a [Glob],
    /// The patterns of a `.worktreeinclude`.
    pub(crate) include: Option<&'a [u8]>,
}

impl WantedFiles<'_> {
    /// Whether no file is wanted.
    pub(crate) fn is_empty(&self) -> bool {
        self.copy.is_empty() && self.include.is_none()
    }
}

/// Copies what is wanted; gives what its author should know.
///
/// # Errors
/// `io`, `disk-full`; `git-failed` when git cannot list the files; `task-invalid`.
pub(crate) fn bring(
    ctx: &Ctx,
    root: &Path,
    worktree: &Path,
    wanted: &WantedFiles<'_>,
) -> Result<Vec<String>> {
    let activity = ctx.activity("copying ignored files");
    let ignored = list(root, &["--exclude-standard".into()])?;
    let included = match wanted.include {
        Some(patterns) => matching(ctx, root, patterns, &[])?,
        None => HashSet::new(),
    };
    let (named, mut warnings) = named_by(wanted.copy, &ignored)?;
    let is_wanted = |name: &&Vec<u8>| included.contains(*name) || named.contains(name.as_slice());
    let wanted: Vec<&Path> =
        ignored.iter().filter(is_wanted).map(|name| Path::new(OsStr::from_bytes(name))).collect();

    // Directories first and in order, so that the files can be copied side by side.
    let mut directories = HashMap::new();
    let (mut placed, mut left) = (Vec::new(), Vec::new());
    for path in wanted {
        let parent = path.parent().unwrap_or(Path::new(""));
        if make_directory(worktree, parent, &mut directories)? {
            placed.push(path);
        } else {
            left.push(path);
        }
    }
    let count = AtomicUsize::new(0);
    let copied = parallel::map(&placed, |path| {
        let copied = copy(root, worktree, path);
        // The number is for a person, and decides nothing.
        let count = 1 + count.fetch_add(1, Ordering::Relaxed);
        if count.is_multiple_of(TOLD) {
            let all = placed.len();
            activity.now(&format!("copying ignored files: {count} of {all}"));
        }
        copied
    });
    for (path, copied) in placed.iter().zip(copied) {
        if !copied? {
            left.push(path);
        }
    }
    warnings.extend(not_copied(&mut left));
    Ok(warnings)
}

/// What tells the wanted files from those of another time, by their names, sizes and times; `None` where none are wanted. Of a directory
/// that is ignored as a whole only what stands right in it counts: programs leave and rewrite thousands of files further below.
///
/// # Errors
/// `git-failed` when git cannot list the files; `task-invalid`, `io`.
pub(crate) fn state(ctx: &Ctx, wanted: &WantedFiles<'_>) -> Result<Option<String>> {
    if wanted.is_empty() {
        return Ok(None);
    }
    let Some(root) = ctx.repo.main_worktree()? else {
        return Ok(None);
    };
    let mut names = BTreeSet::new();
    if !wanted.copy.is_empty() {
        let listed = list(&root, &["--exclude-standard".into(), "--directory".into()])?;
        let listed: Vec<_> = listed.iter().flat_map(|name| files_at(&root, name)).collect();
        names.extend(named_by(wanted.copy, &listed)?.0.into_iter().map(<[u8]>::to_vec));
    }
    if let Some(patterns) = wanted.include {
        let listed = matching(ctx, &root, patterns, &["--directory".into()])?;
        names.extend(listed.iter().flat_map(|name| files_at(&root, name)));
    }
    let mut digest = Sha256::new();
    for name in names {
        // One that went away meanwhile has neither.
        let found = fs::symlink_metadata(root.join(OsStr::from_bytes(&name))).ok();
        let found = found.map(|it| (it.mode(), it.len(), it.mtime(), it.mtime_nsec()));
        digest.update(format!("{name:?} {found:?}\n"));
    }
    Ok(Some(short_hex(&digest.finalize(), 16)))
}

/// The files right in a directory of the main worktree; of what is none, itself.
fn files_at(root: &Path, name: &[u8]) -> Vec<Vec<u8>> {
    let is_directory = |name: &[u8]| {
        let found = fs::symlink_metadata(root.join(OsStr::from_bytes(name)));
        found.is_ok_and(|found| found.is_dir())
    };
    if !is_directory(name) {
        return vec![name.to_vec()];
    }
    let entries = untrusted::names(&root.join(OsStr::from_bytes(name))).into_iter();
    let paths = entries.map(|entry| [name, b"/", entry.as_bytes()].concat());
    paths.filter(|path| !is_directory(path)).collect()
}

/// The untracked files of the main worktree that rules match, as git lists them; `rules` says which.
fn list(root: &Path, rules: &[OsString]) -> Result<Vec<Vec<u8>>> {
    let mut arguments: Vec<OsString> =
        ["ls-files", "-z", "--others", "--ignored"].map(OsString::from).into();
    arguments.extend_from_slice(rules);
    let listed = command::run(root, arguments)?;
    // A repository inside this one ends in a slash.
    let names = command::names(&listed).map(|name| name.strip_suffix(b"/").unwrap_or(name));
    Ok(names.map(<[u8]>::to_vec).collect())
}

/// The untracked files that the patterns of a `.worktreeinclude` match: git reads them as it reads a `.gitignore`.
fn matching(
    ctx: &Ctx,
    root: &Path,
    patterns: &[u8],
    options: &[OsString],
) -> Result<HashSet<Vec<u8>>> {
    let directory = layout::tmp_dir(ctx.repo.common_dir());
    fsx::create_dir(&directory)?;
    let file = fsx::unique_name(&directory.join("include"));
    // git takes patterns from a file alone.
    fsx::write_atomic(&file, patterns)?;
    let mut rule = OsString::from("--exclude-from=");
    rule.push(&file);
    let listed = list(root, &[&[rule], options].concat());
    let _ = fs::remove_file(&file);
    Ok(listed?.into_iter().collect())
}

/// The files that globs match, and a warning for each glob that matches none.
fn named_by<'n>(
    globs: &[Glob],
    ignored: &'n [Vec<u8>],
) -> Result<(HashSet<&'n [u8]>, Vec<String>)> {
    let (mut named, mut warnings) = (HashSet::new(), Vec::new());
    for glob in globs {
        let scope = Scope::new(std::slice::from_ref(glob), &[])
            .map_err(|rule| Error::new(Code::TaskInvalid, rule))?;
        let matches = |name: &&Vec<u8>| {
            RepoPath::parse(name).is_ok_and(|path| scope.decide(&path).is_allowed())
        };
        let mut found = ignored.iter().filter(matches).peekable();
        let is_idle = found.peek().is_none();
        named.extend(found.map(Vec::as_slice));
        if is_idle {
            warnings.push(format!("the glob `{glob}` to copy matches no ignored file"));
        }
    }
    Ok((named, warnings))
}

/// A warning about what was asked for and cannot be copied.
fn not_copied(left: &mut [&Path]) -> Option<String> {
    left.sort_unstable();
    let named: Vec<_> = left
        .iter()
        .take(NAMED)
        .filter_map(|path| RepoPath::parse(path.as_os_str().as_bytes()).ok())
        .map(|path| path.to_string())
        .collect();
    let more = match left.len().checked_sub(NAMED) {
        None | Some(0) => String::new(),
        Some(more) => format!(" and {more} more"),
    };
    (!left.is_empty()).then(|| {
        format!(
            "not copied, being neither a file nor a symlink that stays inside: {}{more}",
            named.join(", ")
        )
    })
}

/// Makes a directory of the new worktree and those above it; `false` where one of them is something else, such as a symlink
/// of the base commit. `known` remembers the answers.
fn make_directory<'p>(
    worktree: &Path,
    inside: &'p Path,
    known: &mut HashMap<&'p Path, bool>,
) -> Result<bool> {
    if inside.as_os_str().is_empty() {
        return Ok(true);
    }
    if let Some(answer) = known.get(inside) {
        return Ok(*answer);
    }
    let above = inside.parent().unwrap_or(Path::new(""));
    let mut is_directory = make_directory(worktree, above, known)?;
    if is_directory {
        let path = worktree.join(inside);
        is_directory = match fs::create_dir(&path) {
            // It may be a directory of the commit, or a link, through which nothing is written.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(&path).at("could not look at", &path)?;
                found.is_dir()
            }
            made => made.at("could not make", &path).map(|()| true)?,
        };
    }
    known.insert(inside, is_directory);
    Ok(is_directory)
}

/// Copies one file or symlink; `false` for what is neither, or would lead out of the worktree.
fn copy(root: &Path, worktree: &Path, place: &Path) -> Result<bool> {
    let (from, to) = (root.join(place), worktree.join(place));
    let Ok(metadata) = fs::symlink_metadata(&from) else {
        // It went away meanwhile.
        return Ok(true);
    };
    if metadata.is_symlink() {
        let target = fs::read_link(&from).at("could not read", &from)?;
        if !stays_inside(place, &target) {
            return Ok(false);
        }
        return match symlink(target, &to) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
            made => made.at("could not make", &to).map(|()| true),
        };
    }
    if !metadata.is_file() {
        return Ok(false);
    }
    // `create_new` follows no symlink and replaces no file of the commit.
    let file = OpenOptions::new().write(true).create_new(true).open(&to);
    match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        file => {
            let file = file.at("could not make", &to)?;
            fill(&file, &from, &metadata).at("could not copy", &from)?;
        }
    }
    Ok(true)
}

/// Gives a new file the content, the permissions and the times of another one.
fn fill(mut to: &File, from: &Path, metadata: &fs::Metadata) -> std::io::Result<()> {
    let mut source = File::open(from)?;
    if !system::clone_blocks(to, &source) {
        std::io::copy(&mut source, &mut to)?;
    }
    to.set_permissions(metadata.permissions())?;
    // Last: writing and changing permissions must not touch the time again.
    to.set_modified(metadata.modified()?)
}

/// Whether a symlink at this place means something in the same worktree. One that is absolute would mean a
/// file of the main one.
fn stays_inside(place: &Path, target: &Path) -> bool {
    let mut depth = place.components().count().saturating_sub(1);
    target.components().all(|part| match part {
        Component::Normal(_) => {
            depth += 1;
            true
        }
        Component::ParentDir if depth > 0 => {
            depth -= 1;
            true
        }
        Component::CurDir => true,
        _ => false,
    })
}
