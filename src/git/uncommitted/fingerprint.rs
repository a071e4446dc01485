//! What a look at a worktree saw, to tell later at little cost whether another one would see the same.

use crate::error::Result;
use crate::git::changes::ignore::IGNORE_FILES;
use crate::git::changes::{Index, Listed, TouchedEntries, Walk, Written};
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::untrusted;
use crate::git::objects::blob_name;
use crate::git::pool::threads;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

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
        let is_settled = { files.iter() }.all(|(_, [.., seconds, part])| (*seconds, *part) < begun);
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
        let walk = Walk {
            top,
            written: &self.written,
            besides,
            threads: threads(),
        };
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
        let tracked = self.touched.tracked.iter().chain(&self.unchanged);
        let tracked = { tracked }.all(|path| self.is_as_written(top, path, &mut budget));
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
                        if { IGNORE_FILES.iter() }.any(|file| is_there(&entry.path().join(file))) {
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
        let new = { self.kept.paths() }.filter(|path| self.written.index.find(path).is_none());
        Some(new.count() == seen)
    }

    /// Whether a path has the content that was written of it, without any conversion; nothing where that is nothing.
    fn is_as_written(&self, top: &Path, path: &[u8], budget: &mut u64) -> bool {
        let written = match self
            .unchanged
            .binary_search_by(|known| known.as_slice().cmp(path))
        {
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
