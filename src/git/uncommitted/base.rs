//! What the base of a layered worktree tells: which files are tracked, and the content of files that no tree holds.
//!
//! As long as the index is the base's, the tree of the base tells what is tracked, and a few directories of it tell as much as all of
//! an index. Where the upper directory shows nothing, a file is the base's, tracked or not: that no tree has it does not mean that
//! there is none.

use crate::domain::Oid;
use crate::domain::paths::change::Difference;
use crate::error::{IoContext, Result};
use crate::git::changes::ignore::{LONGEST_RULES, RULES_FILES};
use crate::git::changes::{Content, Index, Written, canonical_mode, stat_data};
use crate::git::core::tree::Entry;
use crate::git::files::layer::{LayerEntry, WorktreeLayer};
use crate::git::files::temporary::TemporaryDirectory;
use crate::git::files::untrusted;
use crate::git::uncommitted::listed::write_files;
use crate::git::uncommitted::{WorktreeSource, git};
use crate::git::{Repo, core::command};
use rustix::fs::Stat;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

/// Where the tracked files are listed.
pub(super) enum TrackedFiles<'a> {
    /// In an index without flags, submodules and conflicts.
    Index(&'a Index),
    /// In a tree that is as plain.
    Tree(TrackedTree<'a>),
}

/// What is tracked at a path.
pub(super) enum TrackedPath {
    Nothing,
    File(Content),
    /// A directory with something tracked in it.
    Directory,
}

/// A tree of which a directory is read when it is asked about, and once.
pub(super) struct TrackedTree<'a> {
    repo: &'a Repo,
    tree: Oid,
    read: RefCell<HashMap<Oid, Rc<[Entry]>>>,
}

impl TrackedTree<'_> {
    fn entries(&self, tree: Oid) -> Result<Rc<[Entry]>> {
        if let Some(known) = self.read.borrow().get(&tree) {
            return Ok(Rc::clone(known));
        }
        let entries: Rc<[Entry]> = self.repo.read_tree(tree)?.into();
        self.read.borrow_mut().insert(tree, Rc::clone(&entries));
        Ok(entries)
    }

    /// What has this path. A slash at its end asks for a directory.
    fn find(&self, path: &[u8]) -> Result<Option<Entry>> {
        let mut tree = self.tree;
        let mut parts = path.split(|&byte| byte == b'/').peekable();
        while let Some(part) = parts.next() {
            let entries = self.entries(tree)?;
            let Some(entry) = entries.iter().find(|entry| entry.name == part) else {
                return Ok(None);
            };
            match parts.peek() {
                None => return Ok(Some(entry.clone())),
                Some(_) if !entry.is_directory() => return Ok(None),
                Some([]) => return Ok(Some(entry.clone())),
                Some(_) => tree = entry.oid,
            }
        }
        Ok(None)
    }

    /// The tree of a directory that is given with the slash at its end; of the top, with nothing.
    fn directory(&self, directory: &[u8]) -> Result<Option<Oid>> {
        if directory.is_empty() {
            return Ok(Some(self.tree));
        }
        Ok(self.find(directory)?.map(|entry| entry.oid))
    }

    /// Hands out the paths below a tree until one is enough.
    fn each_below(
        &self,
        tree: Oid,
        path: &mut Vec<u8>,
        is_enough: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool> {
        for entry in self.entries(tree)?.iter() {
            let length = path.len();
            path.extend_from_slice(&entry.name);
            let is_over = if entry.is_directory() {
                path.push(b'/');
                self.each_below(entry.oid, path, is_enough)?
            } else {
                is_enough(path)
            };
            path.truncate(length);
            if is_over {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl<'a> TrackedFiles<'a> {
    /// By a tree without submodules.
    pub(super) fn of_tree(repo: &'a Repo, tree: Oid) -> TrackedFiles<'a> {
        TrackedFiles::Tree(TrackedTree { repo, tree, read: RefCell::default() })
    }

    /// What a commit holds of this path, if it is tracked.
    pub(super) fn content(&self, path: &[u8]) -> Result<Option<Content>> {
        Ok(match self.at(path)? {
            TrackedPath::File(content) => Some(content),
            TrackedPath::Nothing | TrackedPath::Directory => None,
        })
    }

    /// Whether this path is tracked, or may be where that cannot be read.
    pub(super) fn may_hold(&self, path: &[u8]) -> bool {
        !matches!(self.content(path), Ok(None))
    }

    /// What is tracked at a path.
    pub(super) fn at(&self, path: &[u8]) -> Result<TrackedPath> {
        match self {
            TrackedFiles::Index(index) => Ok(match index.find(path) {
                Some(entry) => TrackedPath::File(entry.content),
                None if index.first_below(&[path, b"/"].concat()).is_some() => {
                    TrackedPath::Directory
                }
                None => TrackedPath::Nothing,
            }),
            TrackedFiles::Tree(tree) => Ok(match tree.find(path)? {
                Some(entry) if entry.is_directory() => TrackedPath::Directory,
                Some(entry) => TrackedPath::File((canonical_mode(entry.mode), entry.oid)),
                None => TrackedPath::Nothing,
            }),
        }
    }

    /// Some tracked path below a directory that is given with the slash at its end.
    pub(super) fn one_below(&self, directory: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            TrackedFiles::Index(index) => Ok(index.first_below(directory).map(<[u8]>::to_vec)),
            TrackedFiles::Tree(tree) => {
                let mut found = None;
                let mut take = |path: &[u8]| found.replace(path.to_vec()).is_none();
                if let Some(oid) = tree.directory(directory)? {
                    tree.each_below(oid, &mut directory.to_vec(), &mut take)?;
                }
                Ok(found)
            }
        }
    }

    /// The tracked paths below a directory that is given with the slash at its end.
    pub(super) fn below(&self, directory: &[u8]) -> Result<Vec<Vec<u8>>> {
        match self {
            TrackedFiles::Index(index) => {
                let all = index.paths().skip_while(|path| *path < directory);
                let all = all.take_while(|path| path.starts_with(directory));
                Ok(all.map(<[u8]>::to_vec).collect())
            }
            TrackedFiles::Tree(tree) => {
                let mut found = Vec::new();
                let mut take = |path: &[u8]| {
                    found.push(path.to_vec());
                    false
                };
                if let Some(oid) = tree.directory(directory)? {
                    tree.each_below(oid, &mut directory.to_vec(), &mut take)?;
                }
                Ok(found)
            }
        }
    }

    /// The tree of all that is tracked, with what becomes of some paths; `None` where only a whole new index makes one.
    pub(super) fn edited(
        &self,
        repo: &Repo,
        edits: &BTreeMap<Vec<u8>, Option<Content>>,
    ) -> Result<Option<Oid>> {
        match self {
            TrackedFiles::Index(index) => {
                let edits = edits.iter().map(|(path, new)| (path.as_slice(), *new));
                repo.tree_of_edited(index, &edits.collect())
            }
            TrackedFiles::Tree(tree) if edits.is_empty() => Ok(Some(tree.tree)),
            TrackedFiles::Tree(tree) => {
                let changes = edits.iter().map(|(path, new)| Difference {
                    path: path.clone(),
                    old: None,
                    new: *new,
                });
                repo.tree_after(tree.tree, &changes.collect::<Vec<_>>())
            }
        }
    }
}

// The files of a base.

/// Which files of a base are what the index of a layered worktree remembers of them.
pub(super) struct ProvenFiles<'a> {
    written: Option<&'a Written>,
    base: &'a Path,
}

impl<'a> ProvenFiles<'a> {
    /// By an index, where it can be read.
    pub(super) fn by(written: Option<&'a Written>, layer: &'a WorktreeLayer) -> ProvenFiles<'a> {
        let base = &layer.base;
        ProvenFiles { written, base }
    }

    /// Whether git takes the file of the base at this path for unchanged, so that it is what the index says.
    pub(super) fn holds(&self, path: &[u8]) -> bool {
        let stat = rustix::fs::lstat(self.base.join(OsStr::from_bytes(path)));
        let entry = self.written.and_then(|written| Some((written, written.index.find(path)?)));
        matches!((entry, stat), (Some((written, entry)), Ok(stat)) if written.proves_to_git(entry, &stat))
    }
}

/// The file of the index of a worktree that was layered, and its time, where what it remembers of files that it proves unchanged is
/// that of their copies at `worktree`: git would else look into them, with attributes that may have changed since. `None` where only
/// git can read the index.
pub fn index_of_copies(
    layer: &WorktreeLayer,
    index: &Path,
    worktree: &Path,
) -> Option<(Vec<u8>, SystemTime)> {
    let time = fs::symlink_metadata(index).and_then(|index| index.modified()).ok()?;
    let written = Written::load(index)?;
    let file = written.index.with_stats(|entry, path| {
        let top = match layer.shown(path).ok()? {
            LayerEntry::Upper => &layer.upper,
            LayerEntry::Base => &layer.base,
            LayerEntry::Directory | LayerEntry::Nothing => return None,
        };
        let [before, copy] =
            [top, worktree].map(|top| rustix::fs::lstat(top.join(OsStr::from_bytes(path))).ok());
        let (before, copy) = before.zip(copy)?;
        // A copy that was written since bears another time.
        let is_same = |stat: &Stat| (stat.st_mode, stat.st_size, stat.st_mtime, stat.st_mtime_nsec);
        let is_proven = written.proves_to_git(entry, &before) && is_same(&before) == is_same(&copy);
        is_proven.then(|| stat_data(&copy))
    })?;
    Some((file, time))
}

/// Paths from the top of a worktree.
type Paths = Vec<Vec<u8>>;

/// A look at files of a base as an agent sees them: by the rules of its worktree, in a directory of ours, to which they are copied
/// because the upper directory, which has these rules, is not ours to write.
///
/// A base is made from trusted content. Before anything in it is read, it is compared with what it was when it was made.
pub(super) struct BaseFiles<'a> {
    source: &'a WorktreeSource<'a>,
    layer: &'a WorktreeLayer,
    room: TemporaryDirectory,
    /// The directories whose rules were copied.
    ruled: RefCell<HashSet<Vec<u8>>>,
    is_whole: Cell<bool>,
}

impl<'a> BaseFiles<'a> {
    /// For the layered worktree of a `source`.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn of(
        source: &'a WorktreeSource<'a>,
        layer: &'a WorktreeLayer,
    ) -> Result<BaseFiles<'a>> {
        Ok(BaseFiles {
            source,
            layer,
            room: TemporaryDirectory::make(source.view.room(), "base")?,
            ruled: RefCell::default(),
            is_whole: Cell::new(false),
        })
    }

    /// Of these untracked paths of the base, directories with a slash at the end, the files that git does not ignore, and the directories
    /// that are repositories.
    ///
    /// # Errors
    /// `layer-invalid`; `git-failed`, `io`.
    pub(super) fn not_ignored(
        &self,
        names: Vec<Vec<u8>>,
        tracked: &TrackedFiles<'_>,
    ) -> Result<(Paths, Paths)> {
        let (mut files, mut repositories) = (Vec::new(), Vec::new());
        // A directory is opened only if git would open it, as by its name it is not ignored.
        let mut level = names;
        while !level.is_empty() {
            let ignored = self.ignored(&level)?;
            let mut next = Vec::new();
            for name in level {
                let Some(directory) = name.strip_suffix(b"/") else {
                    if !ignored.contains(&name) {
                        files.push(name);
                    }
                    continue;
                };
                if ignored.contains(directory)
                    || self.source.rules.never().map(str::as_bytes) == Some(directory)
                {
                    continue;
                }
                let place = self.base()?.join(OsStr::from_bytes(directory));
                if fs::symlink_metadata(place.join(".git")).is_ok() {
                    repositories.push(name);
                    continue;
                }
                for entry in fs::read_dir(&place).at("could not list", &place)? {
                    let entry = entry.at("could not list", &place)?;
                    let kind = entry.file_type().at("could not look at", entry.path())?;
                    let path = [&name, entry.file_name().as_bytes()].concat();
                    if kind.is_dir() {
                        next.push([&path[..], b"/"].concat());
                    } else if self.layer.shown(&path)? == LayerEntry::Base
                        && tracked.content(&path)?.is_none()
                    {
                        next.push(path);
                    }
                }
            }
            level = next;
        }
        Ok((files, repositories))
    }

    /// What git would write of files of the base, with the rules and the index of the agent; nothing where there is no file.
    ///
    /// # Errors
    /// `layer-invalid`; those of [`write_files`].
    pub(super) fn contents(
        &self,
        paths: &[Vec<u8>],
        tracked: &TrackedFiles<'_>,
    ) -> Result<BTreeMap<Vec<u8>, Option<Content>>> {
        // Of a base that has lost a file, the agent would seem to have removed it.
        self.base()?;
        let mut part = BTreeMap::new();
        for path in paths {
            self.take_rules(path)?;
            self.copy(path)?;
            part.extend(tracked.content(path)?.map(|content| (path.as_slice(), content)));
        }
        let index = self.room.path().with_extension("index");
        fs::write(&index, Index::of(&part)).at("could not write", &index)?;
        Ok(write_files(&self.source_in_room(&index), paths, &|path| tracked.may_hold(path))?
            .contents)
    }

    fn source_in_room<'b>(&'b self, index: &'b Path) -> WorktreeSource<'b> {
        WorktreeSource { worktree: self.room.path(), index, ..*self.source }
    }

    /// The base's directory, which is as it was made.
    fn base(&self) -> Result<&Path> {
        if !self.is_whole.get() {
            self.layer.require_whole_base()?;
            self.is_whole.set(true);
        }
        Ok(&self.layer.base)
    }

    /// Copies the files of rules that count for a path: those beside it, and above.
    fn take_rules(&self, path: &[u8]) -> Result<()> {
        let mut directory = Path::new(OsStr::from_bytes(path)).parent();
        while let Some(at) = directory
            && self.ruled.borrow_mut().insert(at.as_os_str().as_bytes().to_vec())
        {
            let place = self.room.path().join(at);
            fs::create_dir_all(&place).at("could not make", &place)?;
            for name in RULES_FILES {
                let file = at.join(name);
                let path = file.as_os_str().as_bytes();
                match self.layer.shown(path)? {
                    LayerEntry::Upper => {
                        // Git reads none that is a link or longer than this, either, and would wait at a FIFO.
                        let own = untrusted::read(&self.layer.upper, &file, LONGEST_RULES);
                        let to = self.room.path().join(&file);
                        own.map(|own| fs::write(&to, own))
                            .transpose()
                            .at("could not write", &to)?;
                    }
                    LayerEntry::Base => self.copy(path)?,
                    LayerEntry::Directory | LayerEntry::Nothing => {}
                }
            }
            directory = at.parent();
        }
        Ok(())
    }

    /// Copies a file of the base, if it has it.
    fn copy(&self, path: &[u8]) -> Result<()> {
        let path = Path::new(OsStr::from_bytes(path));
        let (from, to) = (self.layer.base.join(path), self.room.path().join(path));
        let Ok(found) = fs::symlink_metadata(&from) else {
            return Ok(());
        };
        self.base()?;
        if found.is_dir() {
            self.layer.require_no_repository(path)?;
            fs::create_dir_all(&to).at("could not make", &to)
        } else if found.is_symlink() {
            let target = fs::read_link(&from).at("could not read", &from)?;
            symlink(target, &to).at("could not make", &to)
        } else {
            fs::copy(&from, &to).at("could not copy", &from).map(drop)
        }
    }

    /// Which of these paths git ignores by their own names, or by those above them, if they are untracked; without the slash at the end
    /// of a directory.
    fn ignored(&self, paths: &[Vec<u8>]) -> Result<BTreeSet<Vec<u8>>> {
        if !self.source.rules.leave_out() {
            return Ok(BTreeSet::new());
        }
        let mut asked = Vec::new();
        for path in paths {
            self.take_rules(path)?;
            let name = path.strip_suffix(b"/");
            // Git looks whether it is a directory: a slash at the end would be taken for a name of nothing.
            if let Some(directory) = name {
                let place = self.room.path().join(OsStr::from_bytes(directory));
                fs::create_dir_all(&place).at("could not make", &place)?;
            }
            asked.extend([name.unwrap_or(path), b"\0"].concat());
        }
        let index = self.room.path().with_extension("index");
        let mut command = git(&self.source_in_room(&index));
        command.args(["check-ignore", "--no-index", "-z", "--stdin"]);
        // It ends with 1 where none of them is.
        let output = command::feed(command, &asked)?;
        Ok(command::names(&output.stdout).map(<[u8]>::to_vec).collect())
    }
}
