//! What git would make of a layered worktree, from its upper directory alone.

use crate::domain::path::directory_with_slash;
use crate::domain::{Change, ChangeKind, Oid};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::changes::ignore::RULES_FILES;
use crate::git::changes::{self, Content, Glance, Index};
use crate::git::files::layer::{LayerEntry, WorktreeLayer, is_opaque, is_whiteout, refused};
use crate::git::files::untrusted;
use crate::git::objects::blob_name;
use crate::git::tree::FILE;
use crate::git::uncommitted::fingerprint::identity;
use crate::git::uncommitted::listed::{Listed, update_files};
use crate::git::uncommitted::tracked::{TrackedFiles, TrackedPath};
use crate::git::uncommitted::{WorktreeSource, copy_index, git};
use crate::git::worktree::view::WorktreeView;
use crate::git::{Repo, command};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// More names than an agent makes in its work: reading them would take seconds and as much memory.
const MOST_ENTRIES: usize = 1_000_000;

/// Where it is written down what the files of rules were that a layer began with.
const COPIED: &str = "copied";

/// Git looks into a longer file of rules, in bytes.
const LONGEST_RULES: u64 = 1 << 16;

/// The files of rules that a layer began with, and how to tell that one is still that copy: there may be hundreds of them, and each
/// look meets them all.
///
/// Written beside the layer's record as `<blob> <identity>\0<path>\0` for each.
struct CopiedFiles(HashMap<Vec<u8>, String>);

impl CopiedFiles {
    fn read(layer: &WorktreeLayer) -> CopiedFiles {
        let record = layer.upper.with_file_name(COPIED);
        let record = untrusted::read_at(&record, untrusted::LONGEST_INDEX).unwrap_or_default();
        let mut parts = record.split(|&byte| byte == 0);
        let mut files = HashMap::new();
        while let (Some(known), Some(path)) = (parts.next(), parts.next()) {
            files.insert(path.to_vec(), String::from_utf8_lossy(known).into_owned());
        }
        CopiedFiles(files)
    }

    /// Whether what was found at a path is still the copy, and the blob that this path has in a commit. A file that tells nothing by its
    /// times is read.
    fn is_copy(&self, upper: &Path, path: &[u8], found: &Metadata, blob: Oid) -> Result<bool> {
        let Some((copied, identity)) = self.0.get(path).and_then(|known| known.split_once(' '))
        else {
            return Ok(false);
        };
        // By its bytes alone a file is what is tracked only where no filter changes them: then the copy had that name.
        if copied != blob.to_hex() || found.mode() & 0o111 != 0 {
            return Ok(false);
        }
        if identity == words(found) {
            return Ok(true);
        }
        match untrusted::read(upper, Path::new(OsStr::from_bytes(path)), LONGEST_RULES) {
            Some(own) => Ok(blob_name(&own)? == blob),
            None => Ok(false),
        }
    }
}

fn words(found: &Metadata) -> String {
    identity(found).map(|number| number.to_string()).join("-")
}

/// Copies files of rules from a base to the upper directory of a layer that is being made, `directory`, where their directories are.
///
/// # Errors
/// `io`, `disk-full`.
pub fn copy_rules(directory: &Path, base: &Path, files: &[PathBuf]) -> Result<()> {
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
        let identity = if time(&found) < now {
            words(&found)
        } else {
            String::new()
        };
        written.extend_from_slice(format!("{blob} {identity}\0").as_bytes());
        written.extend_from_slice(file.as_os_str().as_bytes());
        written.push(0);
    }
    fs::write(&record, written).at("could not write", &record)
}

/// What stands at a tracked path that the upper directory says something about.
#[derive(Clone, Copy)]
enum MetFile {
    /// No file.
    Gone,
    /// The file that the layer began with.
    Copy,
    /// A file or a symlink that may have changed.
    File,
}

/// What a walk over the upper directory found.
#[derive(Default)]
struct WalkedLayer {
    /// The tracked paths with something in the upper directory at them or above them.
    touched: BTreeMap<Vec<u8>, MetFile>,
    /// Names that the index does not know, without anything below them.
    unknown: Vec<Vec<u8>>,
    /// Directories with tracked files that have become repositories.
    nested: Vec<Vec<u8>>,
}

impl WalkedLayer {
    /// Takes note that the base shows none of these: where the upper directory has something, the walk meets that later.
    fn all_gone(&mut self, paths: Vec<Vec<u8>>) {
        for path in paths {
            self.touched.entry(path).or_insert(MetFile::Gone);
        }
    }
}

/// What git would make of a layered worktree.
pub(super) struct Layered {
    pub(super) listed: Listed,
    /// The tree of the index as it is; absent while paths are unmerged.
    pub(super) staged: Option<Oid>,
    /// The tree of everything.
    pub(super) tree: Oid,
    /// The paths that are otherwise there than in the index.
    unstaged: BTreeSet<Vec<u8>>,
}

/// Walks over the upper directory, but not into directories that the index does not know: git looks into those that it does not
/// ignore.
fn walk(
    layer: &WorktreeLayer,
    tracked: &TrackedFiles<'_>,
    besides: Option<&str>,
) -> Result<WalkedLayer> {
    let mut found = WalkedLayer::default();
    let copied = CopiedFiles::read(layer);
    let mut open = vec![Vec::new()];
    let mut count = 0;
    while let Some(directory) = open.pop() {
        let place = layer.upper.join(OsStr::from_bytes(&directory));
        // An opaque directory hides all that the base has below it: only what is met there is not gone.
        if is_opaque(&place)? {
            found.all_gone(tracked.below(&directory)?);
        }
        for entry in fs::read_dir(&place).at("could not list", &place)? {
            let entry = entry.at("could not list", &place)?;
            count += 1;
            if count > MOST_ENTRIES {
                let what = format!("has more than {MOST_ENTRIES} entries");
                return Err(refused(&layer.upper, &what));
            }
            let name = entry.file_name();
            let path = [directory.as_slice(), name.as_bytes()].concat();
            // The top's own `.git` is the worktree's; any other makes the directory a repository,
            // whose files no commit of this one holds.
            if name == ".git" {
                if !directory.is_empty() {
                    found.nested.push(directory.clone());
                }
                continue;
            }
            let at = tracked.at(&path)?;
            let has_tracked = matches!(at, TrackedPath::Directory);
            // The bundle is passed over only while nothing of it is tracked: tracked files are part
            // of the tree, wherever they are.
            if besides.map(str::as_bytes) == Some(&path) && !has_tracked {
                continue;
            }
            // One that went away meanwhile stands for what the base has.
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else {
                continue;
            };
            let is_gone = is_whiteout(&entry.path(), &metadata)?;
            let inside = [path.as_slice(), b"/"].concat();
            match at {
                TrackedPath::Directory if metadata.is_dir() => {
                    open.push(inside);
                    continue;
                }
                TrackedPath::Directory => found.all_gone(tracked.below(&inside)?),
                TrackedPath::File((mode, blob)) => {
                    let what = if is_gone || metadata.is_dir() {
                        MetFile::Gone
                    } else if mode == FILE
                        && copied.is_copy(&layer.upper, &path, &metadata, blob)?
                    {
                        MetFile::Copy
                    } else {
                        MetFile::File
                    };
                    found.touched.insert(path.clone(), what);
                }
                TrackedPath::Nothing => {}
            }
            if !is_gone && (!matches!(at, TrackedPath::File(_)) || metadata.is_dir()) {
                found.unknown.push(path);
            }
        }
    }
    found.unknown.sort_unstable();
    found.nested.dedup();
    Ok(found)
}

fn read(index: &Path) -> Option<Index> {
    untrusted::read_at(index, untrusted::LONGEST_INDEX).and_then(Index::parse)
}

/// The worktree's index. It is read where it is: a copy of 100,000 names takes as long as all else that a look does.
fn read_index(source: &WorktreeSource<'_>) -> Result<Option<Index>> {
    let index = source.admin_dir.join("index");
    untrusted::require_regular(&index, untrusted::LONGEST_INDEX)?;
    if fs::symlink_metadata(&index).is_ok() {
        return Ok(read(&index));
    }
    copy_index(source)?;
    Ok(read(source.index))
}

fn unreadable() -> Error {
    let what = "the index of a layered worktree cannot be read";
    Error::new(Code::GitFailed, what)
}

/// The index of a layered worktree, where that is no longer the base's.
struct LayerIndex {
    /// What it has one content of.
    merged: Index,
    /// Paths with more than one stage.
    unmerged: Vec<Vec<u8>>,
}

impl LayerIndex {
    fn read(source: &WorktreeSource<'_>, layer: &WorktreeLayer) -> Result<LayerIndex> {
        let index = read_index(source)?.ok_or_else(unreadable)?;
        if index.has_submodules() {
            return Err(refused(&layer.upper, "belongs to an index with submodules"));
        }
        let is_unmerged = |(_, (_, oid)): &(&[u8], Content)| oid.is_zero();
        let unmerged = index.contents().filter(is_unmerged);
        let unmerged = unmerged.map(|(path, _)| path.to_vec()).collect();
        let merged = if index.is_flagged {
            let contents = index.contents().filter(|entry| !is_unmerged(entry));
            Index::parse(Index::of(&contents.collect())).ok_or_else(unreadable)?
        } else {
            index
        };
        Ok(LayerIndex { merged, unmerged })
    }
}

/// The tree of the index with these edits, by way of another index.
fn whole_tree(
    source: &WorktreeSource<'_>,
    layer: &WorktreeLayer,
    own: Option<&LayerIndex>,
    edits: &BTreeMap<Vec<u8>, Option<Content>>,
) -> Result<Oid> {
    let read = match own {
        Some(_) => None,
        None => Some(LayerIndex::read(source, layer)?),
    };
    let index = own.or(read.as_ref()).ok_or_else(unreadable)?;
    let mut contents: BTreeMap<&[u8], Content> = index.merged.contents().collect();
    for (path, content) in edits {
        match content {
            Some(content) => contents.insert(path, *content),
            None => contents.remove(path.as_slice()),
        };
    }
    let whole = Index::parse(Index::of(&contents)).ok_or_else(unreadable)?;
    source.repo.tree_of(&whole)?.ok_or_else(unreadable)
}

/// Whether an index holds a tree and nothing else: no flags, no submodules, no conflicts.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn is_plain_index(repo: &Repo, index: &Path, tree: Oid) -> Result<bool> {
    let Some(index) = read(index) else {
        return Ok(false);
    };
    Ok(!index.is_flagged && !index.has_submodules() && repo.tree_of(&index)? == Some(tree))
}

/// Looks at a layered worktree and writes its trees. Leaves an index at `source.index` that names all files of the upper directory
/// which are in the tree of everything.
///
/// # Errors
/// `layer-invalid`; `git-missing`, `git-failed`, `io`, `disk-full`.
pub(super) fn look(source: &WorktreeSource<'_>, layer: &WorktreeLayer) -> Result<Layered> {
    // From here on git looks at the upper directory as if it were the worktree.
    let source = &WorktreeSource {
        worktree: &layer.upper,
        ..*source
    };
    let repo = source.repo;
    // 1. What is tracked. An index is taken without the flags by which git passes over files, which a look at the files themselves does
    // not need.
    let base = layer.tree()?;
    let own = if layer.has_index_of_base(source.admin_dir) {
        None
    } else {
        Some(LayerIndex::read(source, layer)?)
    };
    let (tracked, staged, unmerged) = match &own {
        None => (TrackedFiles::of_tree(repo, base), base, &[][..]),
        Some(own) => {
            let staged = repo.tree_of(&own.merged)?.ok_or_else(unreadable)?;
            (
                TrackedFiles::Index(&own.merged),
                staged,
                own.unmerged.as_slice(),
            )
        }
    };

    // 2. What the files are, where that is not what the index says.
    let found = walk(layer, &tracked, source.rules.never())?;
    let mut edits: BTreeMap<Vec<u8>, Option<Content>> = BTreeMap::new();
    let mut to_read: Vec<Vec<u8>> = Vec::new();
    let mut as_copied: Vec<Vec<u8>> = Vec::new();
    // The index may have moved since the layer was made, by a commit or an update. Where the upper
    // directory shows nothing, the file is still the base's, and that differs from the index.
    let mut untracked = Vec::new();
    for one in repo.differences(base, staged)? {
        if layer.shown(&one.path)? != LayerEntry::Base {
            continue;
        }
        // A file of the base that the index has no more counts as any untracked one does.
        if one.new.is_none() && !unmerged.contains(&one.path) {
            untracked.push((one.path, one.old));
        } else {
            edits.insert(one.path, one.old);
        }
    }
    let ignored = ignored(source, &untracked)?;
    edits.extend(
        untracked
            .into_iter()
            .filter(|(path, _)| !ignored.contains(path)),
    );
    for path in unmerged {
        match layer.shown(path)? {
            LayerEntry::Upper => to_read.push(path.clone()),
            LayerEntry::Nothing => drop(edits.insert(path.clone(), None)),
            LayerEntry::Base => {}
        }
    }
    for (path, what) in found.touched {
        match what {
            MetFile::Copy => as_copied.push(path),
            MetFile::File => to_read.push(path),
            MetFile::Gone => drop(edits.insert(path, None)),
        }
    }

    // 3. Git looks into the files that may have changed, with an index that knows of those in the upper directory alone.
    let mut listed = Listed {
        unmerged: unmerged.to_vec(),
        nested: found.nested,
        ..Listed::default()
    };
    let mut part: BTreeMap<Vec<u8>, Content> = BTreeMap::new();
    for path in to_read.iter().chain(&as_copied) {
        part.extend(
            tracked
                .content(path)?
                .map(|content| (path.clone(), content)),
        );
    }
    for name in &found.unknown {
        let beside = tracked.one_below(directory_with_slash(name))?;
        if let Some(path) = beside {
            part.extend(tracked.content(&path)?.map(|content| (path, content)));
        }
    }
    // This index has no stat data, so git reads each file: a file that was copied up may still be
    // what the base has.
    let part = part
        .iter()
        .map(|(path, content)| (path.as_slice(), *content));
    fs::write(source.index, Index::of(&part.collect())).at("could not write", source.index)?;
    if !found.unknown.is_empty() {
        listed.read_untracked(source, Some(&found.unknown))?;
    }
    to_read.extend(listed.new.iter().cloned());
    to_read.sort_unstable();
    to_read.dedup();
    to_read.retain(|path| !listed.is_hidden_by_directory(path));
    update_files(source, &to_read)?;
    let after = read(source.index).ok_or_else(unreadable)?;
    for path in to_read {
        let content = after.find(&path).map(|entry| entry.content);
        edits.insert(path, content);
    }

    // 4. Both together.
    let tree = match tracked.edited(repo, &edits)? {
        Some(tree) => tree,
        // A file took the place of a directory, which takes a whole new index.
        None => whole_tree(source, layer, own.as_ref(), &edits)?,
    };
    let mut unstaged = BTreeSet::new();
    for (path, content) in edits {
        if tracked.content(&path)? != content {
            unstaged.insert(path);
        }
    }
    let is_merged = listed.unmerged.is_empty();
    Ok(Layered {
        unstaged,
        listed,
        staged: is_merged.then_some(staged),
        tree,
    })
}

/// As [`changes::glance`], of a worktree that may be layered.
///
/// # Errors
/// As there, and those of [`super::snapshot`].
pub fn glance(at: &Glance<'_>) -> Result<Vec<Change>> {
    let Some(layer) = WorktreeLayer::of(at.admin_dir) else {
        return changes::glance(at);
    };
    let own = Repo::open_git_dir(at.admin_dir)?;
    let view = WorktreeView::make(&own, at.admin_dir, at.top, at.scratch)?;
    let head = own.resolve_commit("HEAD")?.commit;
    let index = view.room().join("index");
    let found = look(
        &WorktreeSource {
            repo: &own,
            worktree: at.top,
            admin_dir: at.admin_dir,
            view: &view,
            tip: head,
            staged: true,
            sparse: false,
            rules: at.rules,
            names_ignored: false,
            index: &index,
        },
        &layer,
    )?;
    let before = own.read_commit(head)?.tree;
    let staged = found.staged.unwrap_or(found.tree);
    let mut all: BTreeMap<Vec<u8>, Change> = BTreeMap::new();
    // What is staged counts where the files have gone back to what the commit holds, too.
    for change in own.tree_changes(&[before], staged)? {
        all.insert(change.path.clone(), change);
    }
    for mut change in own.tree_changes(&[before], found.tree)? {
        if change.kind == ChangeKind::Added && !all.contains_key(&change.path) {
            change.kind = ChangeKind::Untracked;
        }
        all.insert(change.path.clone(), change);
    }
    // While a merge is under way, what comes from the other side and stands as it is staged is no change of the agent's.
    if let Some(ours) = changes::own_in_merge(&own)? {
        all.retain(|path, _| ours.contains(path) || found.unstaged.contains(path));
    }
    for path in found.listed.nested {
        let change = Change {
            kind: ChangeKind::Untracked,
            ..Change::named(path.clone())
        };
        all.insert(path, change);
    }
    Ok(all.into_values().collect())
}

/// The files of rules of a worktree whose content matters: all that are tracked, and of the others those in directories that git does
/// not ignore.
///
/// # Errors
/// `git-failed`, `io`.
pub fn rules_files(worktree: &Path) -> Result<Vec<PathBuf>> {
    let is_one = |entry: &walkdir::DirEntry| {
        let name = entry.file_name();
        RULES_FILES.iter().any(|file| name == *file) && entry.file_type().is_file()
    };
    let inside = |path: &Path| path.strip_prefix(worktree).map(Path::to_owned).ok();
    let walk = walkdir::WalkDir::new(worktree)
        .into_iter()
        .flatten()
        .filter(is_one);
    let all: Vec<PathBuf> = walk.filter_map(|entry| inside(entry.path())).collect();
    let tracked = command::run(worktree, ["ls-files", "-z", "--cached"])?;
    let tracked: HashSet<&[u8]> = command::names(&tracked).collect();
    let above = all.iter().filter_map(|path| path.parent());
    let above = above.filter(|path| *path != Path::new(""));
    let asked: Vec<u8> = above
        .flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat())
        .collect();
    let mut command = command::git(worktree);
    // `--no-index` judges tracked names by the rules as well; which directories are ignored does
    // not depend on what is tracked.
    command.args(["check-ignore", "--no-index", "-z", "--stdin"]);
    let ignored = if asked.is_empty() {
        Vec::new()
    } else {
        command::feed(command, &asked)?.stdout
    };
    let ignored: HashSet<&[u8]> = command::names(&ignored).collect();
    let counts = |path: &PathBuf| {
        let parent = path
            .parent()
            .unwrap_or(Path::new(""))
            .as_os_str()
            .as_bytes();
        tracked.contains(path.as_os_str().as_bytes()) || !ignored.contains(parent)
    };
    Ok(all.into_iter().filter(counts).collect())
}

/// Which of these files of the base git would ignore if they were untracked, as they are.
fn ignored(
    source: &WorktreeSource<'_>,
    paths: &[(Vec<u8>, Option<Content>)],
) -> Result<BTreeSet<Vec<u8>>> {
    if paths.is_empty() || !source.rules.leave_out() {
        return Ok(BTreeSet::new());
    }
    let mut command = git(source);
    command.args(["check-ignore", "--no-index", "-z", "--stdin"]);
    let names: Vec<u8> = paths
        .iter()
        .flat_map(|(path, _)| [path, &b"\0"[..]].concat())
        .collect();
    // It ends with 1 where none of them is.
    let output = command::feed(command, &names)?;
    Ok(command::names(&output.stdout).map(<[u8]>::to_vec).collect())
}
