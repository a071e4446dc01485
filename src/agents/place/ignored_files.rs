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
use crate::hosts::WORKTREE_DIR;
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
use walkdir::WalkDir;

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
        let listed = included(ctx, &root, patterns)?;
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

// What a `.worktreeinclude` matches is asked for with each claim of what stands ready, and in a large repository git takes longer to answer than
// all the rest of a spawn does.

/// How long what an answer stands on has to be unchanged before that is kept, in seconds: of what changes at the same time once more, nothing
/// would be seen, and some file systems tell time by two seconds.
const SETTLED: i64 = 3;

/// What the patterns of a `.worktreeinclude` match, a directory of which they match all by its name: as git said it last, where no directory that
/// it looked into has changed since, and neither has the index.
fn included(ctx: &Ctx, root: &Path, patterns: &[u8]) -> Result<Vec<Vec<u8>>> {
    let common_dir = ctx.repo.common_dir();
    let (index, place) = (common_dir.join("index"), layout::included_files(common_dir));
    if let Some(kept) = fsx::load_if_there(&place)?
        && let Some(names) = kept_listing(root, &index, patterns, &kept)
    {
        return Ok(names);
    }
    let listed = matching(ctx, root, patterns, &["--directory".into()])?;
    let names: Vec<_> = listed.into_iter().collect();
    let settled = ctx.now().timestamp() - SETTLED;
    if let Some(listing) = listing_to_keep(root, &index, patterns, &names, settled) {
        // It saves time alone, and a repository that only we may read has none.
        let _ = fsx::write_atomic(&place, &listing);
    }
    Ok(names)
}

/// A listing as it is kept: a hash of what it stands on, how many names there are, the names, and the directories in which they were looked
/// for, each ended by a NUL. `None` where something changed after that second, or cannot be looked at.
fn listing_to_keep(
    root: &Path,
    index: &Path,
    patterns: &[u8],
    names: &[Vec<u8>],
    settled: i64,
) -> Option<Vec<u8>> {
    let listed: BTreeSet<&[u8]> = names.iter().map(Vec::as_slice).collect();
    // What is in a directory that a pattern matches as a whole changes nothing. Of one in which all is matched that is listed, too.
    let is_whole = |name: &[u8]| {
        let inside = [name, b"/"].concat();
        let next = listed.range(inside.as_slice()..).next();
        listed.contains(name) && !next.is_some_and(|next| next.starts_with(&inside))
    };
    let (mut directories, mut walk) = (Vec::new(), WalkDir::new(root).into_iter());
    while let Some(entry) = walk.next() {
        let entry = entry.ok()?;
        if !entry.file_type().is_dir() {
            continue;
        }
        let name = entry.path().strip_prefix(root).ok()?.as_os_str().as_bytes();
        if name == b".git" || name == WORKTREE_DIR.as_bytes() || is_whole(name) {
            walk.skip_current_dir();
            continue;
        }
        directories.push(name.to_vec());
        // git does not look into a repository inside this one.
        if entry.depth() > 0 && entry.path().join(".git").symlink_metadata().is_ok() {
            walk.skip_current_dir();
        }
    }
    let borrowed: Vec<&[u8]> = directories.iter().map(Vec::as_slice).collect();
    let (state, newest) = listing_state(root, index, patterns, &borrowed)?;
    let head = [state.into_bytes(), names.len().to_string().into_bytes()];
    let fields = head.iter().chain(names).chain(&directories);
    (newest < settled).then(|| fields.flat_map(|field| [field, &b"\0"[..]].concat()).collect())
}

/// The names of a listing that was kept, if it stands.
fn kept_listing(root: &Path, index: &Path, patterns: &[u8], kept: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = kept.strip_suffix(b"\0")?.split(|byte| *byte == 0);
    let (state, count) = (fields.next()?, str::from_utf8(fields.next()?).ok()?);
    let names: Vec<_> = fields.by_ref().take(count.parse().ok()?).map(<[u8]>::to_vec).collect();
    let directories: Vec<_> = fields.collect();
    let (now, _) = listing_state(root, index, patterns, &directories)?;
    (now.as_bytes() == state).then_some(names)
}

/// What a listing stands on, as a hash, and the second in which some of that was changed last.
fn listing_state(
    root: &Path,
    index: &Path,
    patterns: &[u8],
    directories: &[&[u8]],
) -> Option<(String, i64)> {
    let (mut digest, mut newest) = (Sha256::new(), 0);
    digest.update(patterns);
    let directories = directories.iter().map(|name| root.join(OsStr::from_bytes(name)));
    for path in std::iter::once(index.to_owned()).chain(directories) {
        let found = fs::symlink_metadata(path).ok()?;
        let modified = (found.mtime(), found.mtime_nsec());
        let changed = (found.ctime(), found.ctime_nsec());
        digest.update(format!("{} {} {modified:?} {changed:?}\n", found.mode(), found.ino()));
        newest = newest.max(modified.0).max(changed.0);
    }
    Some((short_hex(&digest.finalize(), 32), newest))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_stands_until_a_directory_that_was_looked_into_changes() {
        let place = tempfile::tempdir().expect("a directory");
        let root = place.path();
        let index = root.join("index");
        for directory in ["a/empty", "modules/deep", "all/of it"] {
            fs::create_dir_all(root.join(directory)).expect("made");
        }
        for name in ["index", "modules/deep/one", "all/of it/x.env", "a/x.env"] {
            fs::write(root.join(name), "x").expect("written");
        }
        let names = ["modules", "all", "all/of it", "all/of it/x.env", "a/x.env"];
        let names: Vec<_> = names.map(|name| name.as_bytes().to_vec()).into();
        let listed = || listing_to_keep(root, &index, b"*.env\n", &names, i64::MAX);
        let is_kept = |listing: &[u8], patterns: &[u8]| {
            let kept = kept_listing(root, &index, patterns, listing);
            assert!(kept.as_ref().is_none_or(|kept| *kept == names), "{kept:?}");
            kept.is_some()
        };
        let listing = listed().expect("a listing");
        assert!(is_kept(&listing, b"*.env\n"));
        assert!(!is_kept(&listing, b"*.txt\n"));
        assert!(!is_kept(&listing[..listing.len() - 1], b"*.env\n"));
        // What is in a directory that is matched as a whole makes no difference, and all the rest does.
        fs::write(root.join("modules/deep/two"), "").expect("written");
        assert!(is_kept(&listing, b"*.env\n"));
        for name in ["new", "a/empty/new", "all/of it/new"] {
            let listing = listed().expect("a listing");
            fs::write(root.join(name), "").expect("written");
            assert!(!is_kept(&listing, b"*.env\n"), "{name}");
        }
        let listing = listed().expect("a listing");
        fs::rename(root.join("new"), &index).expect("renamed");
        assert!(!is_kept(&listing, b"*.env\n"));
        // What has just changed may change again at the same time.
        assert_eq!(listing_to_keep(root, &index, b"", &names, 0), None);
    }
}
