//! What a look at a worktree saw, to tell later at little cost whether another one would see the same.

use crate::domain::Oid;
use crate::error::{IoContext, Result};
use crate::git::changes::ignore::{IGNORE_FILES, RULES_FILES};
use crate::git::changes::{Index, Listed, TouchedEntries, Walk, Written};
use crate::git::core::command;
use crate::git::core::pool::threads;
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::untrusted;
use crate::git::objects::blob_name;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::{DirEntry, WalkDir};

/// What a look at a worktree saw.
#[derive(Debug)]
pub enum SeenWorktree {
    /// Of a worktree that was walked.
    Walked(Box<WorktreeFingerprint>),
    /// Of a layered one.
    Layer(LayerFingerprint),
}

impl SeenWorktree {
    /// What a walk saw.
    pub fn walked(&self) -> Option<&WorktreeFingerprint> {
        match self {
            SeenWorktree::Walked(seen) => Some(seen),
            SeenWorktree::Layer(_) => None,
        }
    }

    /// Whether another look would see the same, as [`WorktreeFingerprint::is_current`]. Any doubt is a no.
    ///
    /// # Errors
    /// Only a bug.
    pub fn is_current(
        &self,
        top: &Path,
        admin_dir: &Path,
        besides: Option<&str>,
        ignored: &BTreeSet<Vec<u8>>,
        all: bool,
    ) -> Result<bool> {
        match self {
            SeenWorktree::Walked(seen) => seen.is_current(top, admin_dir, besides, ignored, all),
            SeenWorktree::Layer(seen) => Ok(seen.is_current(admin_dir)),
        }
    }
}

/// The upper directory of a layered worktree and its index: who finds them as they were would make the same of them.
#[derive(Debug)]
pub struct LayerFingerprint {
    files: Vec<(PathBuf, [i128; 7])>,
    /// Whether a change since would show in the times: none of them is so late that another write could have the same one.
    is_settled: bool,
}

impl LayerFingerprint {
    /// Looks at all names; `begun` was made before that. `None` where one cannot be looked at.
    pub(super) fn take(layer: &WorktreeLayer, admin_dir: &Path, begun: &Path) -> Option<Self> {
        let [.., seconds, part] = identity(&fs::symlink_metadata(begun).ok()?);
        let begun = (seconds, part);
        let mut files = Vec::new();
        // That of the base has a name for each agent over it, and another time whenever one comes or goes.
        let index = Some(admin_dir.join("index")).filter(|_| !layer.has_index_of_base(admin_dir));
        let index = index.into_iter().flat_map(WalkDir::new);
        for entry in index.chain(WalkDir::new(&layer.upper).sort_by_file_name()) {
            let entry = entry.ok()?;
            let found = entry.metadata().ok()?;
            files.push((entry.into_path(), identity(&found)));
        }
        let is_settled = files.iter().all(|(_, [.., seconds, part])| (*seconds, *part) < begun);
        Some(LayerFingerprint { files, is_settled })
    }

    fn is_current(&self, admin_dir: &Path) -> bool {
        let now = WorktreeLayer::of(admin_dir)
            .and_then(|layer| LayerFingerprint::take(&layer, admin_dir, &layer.upper));
        self.is_settled && now.is_some_and(|now| now.files == self.files)
    }
}

/// What tells a file from another one, and from itself after a change; at the end the time of the last one.
pub(super) fn identity(found: &Metadata) -> [i128; 7] {
    [
        found.dev().into(),
        found.ino().into(),
        found.mode().into(),
        found.size().into(),
        found.rdev().into(),
        found.ctime().into(),
        found.ctime_nsec().into(),
    ]
}

/// So many bytes in all are compared with what was written of them.
const MOST_BYTES: u64 = 64 << 20;

/// What a walk over a worktree saw, and what was written of it.
#[derive(Debug)]
pub struct WorktreeFingerprint {
    pub(super) written: Written,
    /// When each directory had the names that were seen.
    pub(super) names: Vec<Option<Listed>>,
    pub(super) touched: TouchedEntries,
    /// The files of which not their times but their bytes told that they are what the index holds, sorted.
    pub(super) unchanged: Vec<Vec<u8>>,
    /// What was written of the files in doubt and of the untracked ones, among other entries.
    pub(super) kept: Index,
}

impl WorktreeFingerprint {
    /// The names that the index does not know: what is not below one of them is tracked.
    pub fn unknown(&self) -> &[Vec<u8>] {
        &self.touched.unknown
    }

    /// Whether what is at a path was written.
    pub fn holds(&self, path: &[u8]) -> bool {
        self.kept.find(path).is_some()
    }

    /// Whether a worktree and its index are still what was seen: no directory has got or lost a name, and every file that the
    /// index did not prove unchanged has the very bytes that were written of it. A file that the index did prove unchanged is
    /// looked at again only if `all` are. A directory named `besides` is passed over, and so is what is `ignored`, where a
    /// directory ends in a slash. Any doubt is a no.
    ///
    /// # Errors
    /// Only a bug.
    pub fn is_current(
        &self,
        top: &Path,
        admin_dir: &Path,
        besides: Option<&str>,
        ignored: &BTreeSet<Vec<u8>>,
        all: bool,
    ) -> Result<bool> {
        // The index is compared first: an `add` or a checkout of anything changes it, and the walk
        // is spared.
        let index = untrusted::open_at(&admin_dir.join("index"));
        let is_same = index.is_some_and(|index| self.written.index.is_from(index).unwrap_or(false));
        if !is_same {
            return Ok(false);
        }
        let walk = Walk { top, written: &self.written, besides, threads: threads() };
        let found = if all {
            walk.suspects()?
        } else {
            // The walk updates the list that it is given, and this fingerprint may be asked again.
            walk.suspects_since(&mut self.names.clone())?
        };
        let Some(found) = found else {
            return Ok(false);
        };
        let is_read = |path: &Vec<u8>| {
            let known = [&self.touched.tracked, &self.unchanged];
            known.iter().any(|paths| paths.binary_search(path).is_ok())
        };
        let seen = &self.touched;
        if !found.tracked.iter().all(is_read)
            || (&found.unknown, &found.swapped) != (&seen.unknown, &seen.swapped)
        {
            return Ok(false);
        }
        let mut budget = MOST_BYTES;
        let mut tracked = self.touched.tracked.iter().chain(&self.unchanged);
        let tracked = tracked.all(|path| self.is_as_written(top, path, &mut budget));
        Ok(tracked
            && self.is_untracked_as_written(top, besides, ignored, &mut budget) == Some(true))
    }

    /// Whether below the unknown names is what was written of them, all of it and nothing else.
    fn is_untracked_as_written(
        &self,
        top: &Path,
        besides: Option<&str>,
        ignored: &BTreeSet<Vec<u8>>,
        budget: &mut u64,
    ) -> Option<bool> {
        let is_beside = |path: &[u8]| {
            let rest = besides.and_then(|name| path.strip_prefix(name.as_bytes()));
            rest.is_some_and(|rest| rest.starts_with(b"/"))
        };
        let mut seen = 0;
        for name in &self.touched.unknown {
            if is_beside(name) {
                continue;
            }
            let walk = WalkDir::new(top.join(OsStr::from_bytes(name)));
            let mut walk = walk.follow_root_links(false).into_iter();
            while let Some(entry) = walk.next() {
                let entry = entry.ok()?;
                let path = entry.path().strip_prefix(top).ok()?.as_os_str().as_bytes();
                let kind = entry.file_type();
                if kind.is_dir() {
                    let directory = [path, b"/"].concat();
                    if is_beside(&directory) {
                        walk.skip_current_dir();
                    } else if ignored.contains(&directory) {
                        // Rules that hide themselves were not written, so they may say something else by now.
                        if IGNORE_FILES.iter().any(|file| is_there(&entry.path().join(file))) {
                            return Some(false);
                        }
                        walk.skip_current_dir();
                    }
                } else if self.holds(path) {
                    seen += 1;
                    if !self.is_as_written(top, path, budget) {
                        return Some(false);
                    }
                } else if (kind.is_file() || kind.is_symlink())
                    && (!ignored.contains(path) || is_of_rules(entry.file_name()))
                {
                    return Some(false);
                }
            }
        }
        // Counted against what was seen: a file that is gone was met by no walk.
        let new = self.kept.paths().filter(|path| self.written.index.find(path).is_none());
        Some(new.count() == seen)
    }

    /// Whether a path has the content that was written of it, without any conversion; nothing where that is nothing.
    fn is_as_written(&self, top: &Path, path: &[u8], budget: &mut u64) -> bool {
        let written = match self.unchanged.binary_search_by(|known| known.as_slice().cmp(path)) {
            Ok(_) => self.written.index.find(path),
            Err(_) => self.kept.find(path),
        };
        let written = written.map(|entry| entry.content);
        let path = Path::new(OsStr::from_bytes(path));
        let metadata = match fs::symlink_metadata(top.join(path)) {
            Ok(metadata) => metadata,
            Err(error) => return error.kind() == ErrorKind::NotFound && written.is_none(),
        };
        *budget = budget.saturating_sub(metadata.len());
        let oid = |content: &[u8]| blob_name(content).ok();
        // When it is used up the answer is no, which only costs another full look.
        *budget > 0
            && untrusted::content(top, path, *budget).is_some_and(|(mode, content)| {
                written.is_some_and(|(kept, name)| kept == mode && oid(&content) == Some(name))
            })
    }
}

fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn is_of_rules(name: &OsStr) -> bool {
    IGNORE_FILES.iter().any(|file| name == *file)
}

// The rules that a layer began with.

/// Where it is written down what a layer began with.
const COPIED: &str = "copied";

/// Git looks into a longer file of rules, in bytes.
const LONGEST_RULES: u64 = 1 << 16;

/// The files of rules that a layer began with, and how to tell that one is still that copy: there may be hundreds of them, and each
/// look meets them all. And what git ignored in the base by these rules.
///
/// Written beside the layer's record as `<blob> <identity>\0<path>\0` for each file of rules, and `\0<path>\0` for each ignored path.
pub(super) struct InitialRules {
    copies: HashMap<Vec<u8>, String>,
    /// Files, and directories without a tracked file, which have a slash at the end.
    ignored: Vec<Vec<u8>>,
}

impl InitialRules {
    pub(super) fn read(layer: &WorktreeLayer) -> InitialRules {
        let record = layer.upper.with_file_name(COPIED);
        let record = untrusted::read_at(&record, untrusted::LONGEST_INDEX).unwrap_or_default();
        let mut parts = record.split(|&byte| byte == 0);
        let (mut copies, mut ignored) = (HashMap::new(), Vec::new());
        while let (Some(known), Some(path)) = (parts.next(), parts.next()) {
            if known.is_empty() {
                ignored.push(path.to_vec());
            } else {
                copies.insert(path.to_vec(), String::from_utf8_lossy(known).into_owned());
            }
        }
        InitialRules { copies, ignored }
    }

    /// The blob of the copy, if what was found at a path is still that. A file that tells nothing by its times is read.
    pub(super) fn copy_at(
        &self,
        upper: &Path,
        path: &[u8],
        found: &Metadata,
    ) -> Result<Option<Oid>> {
        let known = self.copies.get(path).and_then(|known| known.split_once(' '));
        let Some((copied, identity)) = known.filter(|_| found.mode() & 0o111 == 0) else {
            return Ok(None);
        };
        let copied = Oid::from_hex(copied);
        if identity == words(found) {
            return Ok(copied);
        }
        let own = untrusted::read(upper, Path::new(OsStr::from_bytes(path)), LONGEST_RULES);
        let own = own.map(|own| blob_name(&own)).transpose()?;
        Ok(own.filter(|own| Some(*own) == copied))
    }

    /// What git ignored in the base.
    pub(super) fn ignored(&self) -> &[Vec<u8>] {
        &self.ignored
    }

    /// Whether the base may have something at this path that git ignored.
    pub(super) fn may_have_ignored(&self, path: &[u8]) -> bool {
        let is_at = |name: &Vec<u8>| match name.last() {
            Some(b'/') => path.starts_with(name),
            _ => name == path,
        };
        self.ignored.iter().any(is_at)
    }

    /// Whether a name in the upper directory that the index does not know leads to a file of rules which is not a copy and which may
    /// decide about something that git ignored in the base.
    pub(super) fn may_differ_below(&self, upper: &Path, name: &[u8]) -> Result<bool> {
        let inside = [name, b"/"].concat();
        let is_beside = |one: &Vec<u8>| one.starts_with(&inside) || inside.starts_with(one);
        if !self.ignored.iter().any(is_beside) {
            return Ok(false);
        }
        let entries = WalkDir::new(upper.join(OsStr::from_bytes(name)));
        let entries = entries.into_iter().flatten();
        for entry in entries.filter(|entry| is_named(entry.file_name(), RULES_FILES)) {
            let path = entry.path().strip_prefix(upper).unwrap_or(entry.path());
            let path = path.as_os_str().as_bytes();
            let found = entry.metadata().ok();
            let copy = found.map(|found| self.copy_at(upper, path, &found));
            if copy.transpose()?.flatten().is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a file has one of these names.
pub(super) fn is_named(name: &OsStr, names: &[&str]) -> bool {
    names.iter().any(|one| name == *one)
}

fn words(found: &Metadata) -> String {
    identity(found).map(|number| number.to_string()).join("-")
}

/// Copies files of rules from a base to the upper directory of a layer that is being made, `directory`, where their directories are, and
/// notes what is `ignored` in the base.
///
/// # Errors
/// `io`, `disk-full`.
pub fn copy_rules(directory: &Path, base: &Path, files: &[PathBuf], ignored: &[u8]) -> Result<()> {
    let [upper, _] = WorktreeLayer::parts(directory);
    let mut blobs = Vec::new();
    for file in files {
        let (from, to) = (base.join(file), upper.join(file));
        fs::copy(&from, &to).at("could not copy", &from)?;
        // Git looks into one that is not read here.
        let content = untrusted::read(&upper, file, LONGEST_RULES);
        blobs.push(content.map(|content| blob_name(&content)).transpose()?);
    }
    // A file that was written in the same moment as this one could be written again without another time.
    let record = directory.join(COPIED);
    let look = |path: &Path| fs::symlink_metadata(path).at("could not look at", path);
    let time = |found: &Metadata| (found.ctime(), found.ctime_nsec());
    fs::write(&record, b"").at("could not write", &record)?;
    let now = time(&look(&record)?);
    let mut written = Vec::new();
    for (file, blob) in files.iter().zip(blobs) {
        let Some(blob) = blob else {
            continue;
        };
        let found = look(&upper.join(file))?;
        let identity = if time(&found) < now { words(&found) } else { String::new() };
        written.extend_from_slice(format!("{blob} {identity}\0").as_bytes());
        written.extend_from_slice(file.as_os_str().as_bytes());
        written.push(0);
    }
    for name in command::names(ignored) {
        written.extend([b"\0", name, b"\0"].concat());
    }
    fs::write(&record, written).at("could not write", &record)
}

/// What git does not track in a worktree, a directory without a tracked file by its own name alone: of a base, all of it is ignored.
/// As git lists it with `-z`.
///
/// # Errors
/// `git-failed`.
pub fn untracked_names(worktree: &Path) -> Result<Vec<u8>> {
    command::run(worktree, ["ls-files", "-z", "--others", "--directory"])
}

/// The files of rules of a worktree whose content matters: all that are tracked, and of the others those in directories that git does
/// not ignore.
///
/// # Errors
/// `git-failed`, `io`.
pub fn rules_files(worktree: &Path) -> Result<Vec<PathBuf>> {
    let is_one =
        |entry: &DirEntry| is_named(entry.file_name(), RULES_FILES) && entry.file_type().is_file();
    let inside = |path: &Path| path.strip_prefix(worktree).map(Path::to_owned).ok();
    let walk = WalkDir::new(worktree).into_iter().flatten().filter(is_one);
    let all: Vec<PathBuf> = walk.filter_map(|entry| inside(entry.path())).collect();
    let tracked = command::run(worktree, ["ls-files", "-z", "--cached"])?;
    let tracked: HashSet<&[u8]> = command::names(&tracked).collect();
    let above = all.iter().filter_map(|path| path.parent()).filter(|path| *path != Path::new(""));
    let asked: Vec<u8> =
        above.flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    let mut command = command::git(worktree);
    // `--no-index` judges tracked names by the rules as well; which directories are ignored does
    // not depend on what is tracked.
    command.args(["check-ignore", "--no-index", "-z", "--stdin"]);
    let ignored =
        if asked.is_empty() { Vec::new() } else { command::feed(command, &asked)?.stdout };
    let ignored: HashSet<&[u8]> = command::names(&ignored).collect();
    let counts = |path: &PathBuf| {
        let parent = path.parent().unwrap_or(Path::new("")).as_os_str().as_bytes();
        tracked.contains(path.as_os_str().as_bytes()) || !ignored.contains(parent)
    };
    Ok(all.into_iter().filter(counts).collect())
}
