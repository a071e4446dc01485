//! What git would make of a layered worktree, from its upper directory alone.

use crate::domain::paths::path::directory_with_slash;
use crate::domain::{Change, ChangeKind, Oid};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::changes::gitlinks::{self, NestedPlace};
use crate::git::changes::ignore::{ATTRIBUTES_FILES, IGNORE_FILES, RULES_FILES};
use crate::git::changes::{self, Content, Glance, Index, Written};
use crate::git::core::tree::{EXECUTABLE, FILE, GITLINK};
use crate::git::files::layer::{LayerEntry, WorktreeLayer, is_opaque, is_whiteout, refused};
use crate::git::files::untrusted;
use crate::git::uncommitted::base::{BaseFiles, ProvenFiles, TrackedFiles, TrackedPath};
use crate::git::uncommitted::fingerprint::{InitialRules, is_named};
use crate::git::uncommitted::listed::{Listed, UnwritableFiles, is_unwritable, write_files};
use crate::git::uncommitted::{WorktreeSource, copy_index, git};
use crate::git::worktree::view::WorktreeView;
use crate::git::{Repo, core::command};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// More names than an agent makes in its work: reading them would take seconds and as much memory.
const MOST_ENTRIES: usize = 1_000_000;

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
    /// Files of rules that are not, or no longer, what the layer began with.
    rules: Vec<Vec<u8>>,
    /// Directories, with a slash at the end, that cannot be read.
    unreadable: Vec<Vec<u8>>,
}

impl WalkedLayer {
    /// Takes note that the base shows none of these: where the upper directory has something, the walk meets that later.
    fn all_gone(&mut self, paths: Vec<Vec<u8>>) {
        for path in paths {
            if is_rules_file(&path, RULES_FILES) {
                self.rules.push(path.clone());
            }
            self.touched.entry(path).or_insert(MetFile::Gone);
        }
    }

    /// Whether a file of rules by one of these names has changed.
    fn has_changed(&self, names: &[&str]) -> bool {
        self.rules.iter().any(|path| is_rules_file(path, names))
    }
}

fn is_rules_file(path: &[u8], names: &[&str]) -> bool {
    Path::new(OsStr::from_bytes(path)).file_name().is_some_and(|name| is_named(name, names))
}

/// What git would make of a layered worktree.
pub(super) struct Layered {
    pub(super) listed: Listed,
    /// The tree of the index as it is; absent while paths are unmerged.
    pub(super) staged: Option<Oid>,
    /// The tree of everything.
    pub(super) tree: Oid,
    /// Submodules with files that their own commit does not hold.
    pub(super) submodules: Vec<Vec<u8>>,
    /// The paths that are otherwise there than in the index.
    unstaged: BTreeSet<Vec<u8>>,
    /// Files that cannot be part of the tree, where these are named.
    unwritable: Vec<Change>,
}

/// Walks over the upper directory, but not into directories that the index does not know: git looks into those that it does not
/// ignore.
fn walk(
    layer: &WorktreeLayer,
    tracked: &TrackedFiles<'_>,
    rules: &InitialRules,
    besides: Option<&str>,
) -> Result<WalkedLayer> {
    let mut found = WalkedLayer::default();
    let mut open = vec![Vec::new()];
    let mut count = 0;
    while let Some(directory) = open.pop() {
        let place = layer.upper.join(OsStr::from_bytes(&directory));
        // Where not even the top can be read, nothing is known.
        let is_below = !directory.is_empty();
        let entries = match fs::read_dir(&place) {
            Err(error) if is_below && error.kind() == ErrorKind::PermissionDenied => {
                found.unreadable.push(directory);
                continue;
            }
            entries => entries.at("could not list", &place)?,
        };
        // An opaque directory hides all that the base has below it: only what is met there is not gone.
        if is_opaque(&place)? {
            found.all_gone(tracked.below(&directory)?);
        }
        for entry in entries {
            let entry = entry.at("could not list", &place)?;
            count += 1;
            if count > MOST_ENTRIES {
                let what = format!("has more than {MOST_ENTRIES} entries");
                return Err(refused(&layer.upper, &what));
            }
            let name = entry.file_name();
            let path = [directory.as_slice(), name.as_bytes()].concat();
            // The top's own is the worktree's. Another one makes no repository of a directory with tracked files, for git goes
            // on to look into that, and no directory without them is walked here.
            if name == ".git" {
                continue;
            }
            let at = tracked.at(&path)?;
            let has_tracked = matches!(at, TrackedPath::Directory);
            // One that went away meanwhile stands for what the base has.
            let metadata = match fs::symlink_metadata(entry.path()) {
                Ok(metadata) => metadata,
                Err(error) if is_below && error.kind() == ErrorKind::PermissionDenied => {
                    found.unreadable.push(directory);
                    break;
                }
                Err(_) => continue,
            };
            // The bundle is passed over only where it is a directory and nothing of it is tracked: tracked files are part of the tree,
            // wherever they are.
            if besides.map(str::as_bytes) == Some(&path) && !has_tracked && metadata.is_dir() {
                continue;
            }
            let is_gone = is_whiteout(&entry.path(), &metadata)?;
            let inside = [path.as_slice(), b"/"].concat();
            let mut copy = None;
            if is_named(&name, RULES_FILES) {
                copy = rules.copy_at(&layer.upper, &path, &metadata)?;
                if copy.is_none() {
                    found.rules.push(path.clone());
                }
            }
            match at {
                TrackedPath::Directory if metadata.is_dir() => {
                    open.push(inside);
                    continue;
                }
                TrackedPath::Directory => found.all_gone(tracked.below(&inside)?),
                TrackedPath::File((mode, blob)) => {
                    let is_submodule = mode == GITLINK && metadata.is_dir() && !is_gone;
                    if is_submodule {
                        layer.require_no_repository(Path::new(OsStr::from_bytes(&path)))?;
                    }
                    let what = if is_gone || metadata.is_dir() && !is_submodule {
                        MetFile::Gone
                    } else if mode == FILE && copy == Some(blob) {
                        // By its bytes alone a file is what is tracked only where no filter changes them: then the copy had that name.
                        MetFile::Copy
                    } else {
                        MetFile::File
                    };
                    found.touched.insert(path.clone(), what);
                    if is_submodule {
                        continue;
                    }
                }
                TrackedPath::Nothing => {}
            }
            if !is_gone && (!matches!(at, TrackedPath::File(_)) || metadata.is_dir()) {
                found.unknown.push(path);
            }
        }
    }
    found.unknown.sort_unstable();
    Ok(found)
}

/// The worktree's index. It is read where it is: a copy of 100,000 names takes as long as all else that a look does. What only git can
/// read is read from a copy that git writes.
fn read_index(source: &WorktreeSource<'_>) -> Result<Written> {
    let index = source.admin_dir.join("index");
    untrusted::require_regular(&index, untrusted::LONGEST_INDEX)?;
    if let Some(written) = Written::load(&index) {
        return Ok(written);
    }
    copy_index(source)?;
    // A split or sparse one, which git turns into one that holds everything.
    let mut command = git(source);
    command.args(["-c", "index.sparse=false"]).args(UNSPLIT);
    command::successful(command)?;
    Written::load(source.index).ok_or_else(unreadable)
}

/// Makes git write an index as one file, in which an earlier git may have kept it.
const UNSPLIT: [&str; 3] = ["update-index", "--no-split-index", "--force-write-index"];

/// Has git write the index of a worktree as one file, where it is more than that.
///
/// # Errors
/// `git-failed`.
pub fn unsplit_index(worktree: &Path, index: &Path) -> Result<()> {
    if Index::load(index).is_some() {
        return Ok(());
    }
    let settings = ["-c", "core.splitIndex=false"];
    command::run(worktree, settings.into_iter().chain(UNSPLIT)).map(drop)
}

pub(super) fn unreadable() -> Error {
    let what = "the index of a layered worktree cannot be read";
    Error::new(Code::GitFailed, what)
}

/// The index of a layered worktree, where that is no longer the base's.
struct LayerIndex {
    written: Written,
    /// The same without flags and conflicts, where it has some.
    plain: Option<Index>,
    /// Paths with more than one stage.
    unmerged: Vec<Vec<u8>>,
}

impl LayerIndex {
    fn read(source: &WorktreeSource<'_>) -> Result<LayerIndex> {
        LayerIndex::of(read_index(source)?)
    }

    fn of(written: Written) -> Result<LayerIndex> {
        let index = &written.index;
        let is_unmerged = |(_, (_, oid)): &(&[u8], Content)| oid.is_zero();
        let unmerged = index.contents().filter(is_unmerged);
        let unmerged = unmerged.map(|(path, _)| path.to_vec()).collect();
        let plain = if index.is_flagged {
            let contents = index.contents().filter(|entry| !is_unmerged(entry));
            Some(Index::parse(Index::of(&contents.collect())).ok_or_else(unreadable)?)
        } else {
            None
        };
        Ok(LayerIndex { written, plain, unmerged })
    }

    /// What it has one content of.
    fn merged(&self) -> &Index {
        self.plain.as_ref().unwrap_or(&self.written.index)
    }
}

/// The tree of the index with these edits, by way of another index.
fn whole_tree(
    source: &WorktreeSource<'_>,
    own: Option<&LayerIndex>,
    edits: &BTreeMap<Vec<u8>, Option<Content>>,
) -> Result<Oid> {
    let read = match own {
        Some(_) => None,
        None => Some(LayerIndex::read(source)?),
    };
    let index = own.or(read.as_ref()).ok_or_else(unreadable)?;
    let mut contents: BTreeMap<&[u8], Content> = index.merged().contents().collect();
    for (path, content) in edits {
        match content {
            Some(content) => contents.insert(path, *content),
            None => contents.remove(path.as_slice()),
        };
    }
    let whole = Index::parse(Index::of(&contents)).ok_or_else(unreadable)?;
    tree_of(source, &whole)
}

/// The tree of an index. What our own writer leaves to git, such as directories that nest very deep, git writes.
fn tree_of(source: &WorktreeSource<'_>, index: &Index) -> Result<Oid> {
    if let Some(tree) = source.repo.tree_of_index(index)? {
        return Ok(tree);
    }
    let own = source.index.with_extension("tree");
    fs::write(&own, Index::of(&index.contents().collect())).at("could not write", &own)?;
    super::write_tree(&WorktreeSource { index: &own, ..*source }).map(|(tree, _)| tree)
}

/// Whether an index holds a tree and nothing else: no flags, no submodules, no conflicts.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn is_plain_index(repo: &Repo, index: &Path, tree: Oid) -> Result<bool> {
    let Some(index) = Index::load(index) else {
        return Ok(false);
    };
    Ok(!index.is_flagged && !index.has_submodules() && repo.tree_of_index(&index)? == Some(tree))
}

/// The tree of an index without conflicts; `None` for any other, and where only git can read it.
///
/// # Errors
/// `disk-full`, `repo-read-only`, `git-failed`.
pub fn staged_tree(repo: &Repo, index: &Path) -> Result<Option<Oid>> {
    let index = Written::load(index).map(LayerIndex::of).transpose()?;
    let index = index.filter(|index| index.unmerged.is_empty());
    index.map_or(Ok(None), |index| repo.tree_of_index(index.merged()))
}

/// Looks at a layered worktree and writes its trees. Leaves an index at `source.index` that names all files of the upper directory
/// which are in the tree of everything.
///
/// # Errors
/// `layer-invalid`; `git-missing`, `git-failed`, `io`, `disk-full`.
pub(super) fn look(
    source: &WorktreeSource<'_>,
    layer: &WorktreeLayer,
    unwritable: UnwritableFiles,
) -> Result<Layered> {
    // From here on git looks at the upper directory as if it were the worktree.
    let source = &WorktreeSource { worktree: &layer.upper, ..*source };
    let repo = source.repo;
    // 1. What is tracked. An index is taken without the flags by which git passes over files, which a look at the files themselves does
    // not need.
    let base = layer.tree()?;
    let own = if layer.has_index_of_base(source.admin_dir) {
        None
    } else {
        Some(LayerIndex::read(source)?)
    };
    let (tracked, staged, unmerged) = match &own {
        None => (TrackedFiles::of_tree(repo, base), base, &[][..]),
        Some(own) => {
            let staged = tree_of(source, own.merged())?;
            (TrackedFiles::Index(own.merged()), staged, own.unmerged.as_slice())
        }
    };

    // 2. What the files are, where that is not what the index says.
    let rules = InitialRules::read(layer);
    let mut found = walk(layer, &tracked, &rules, source.rules.never())?;
    let unreadable = std::mem::take(&mut found.unreadable);
    let mut listed = Listed { unmerged: unmerged.to_vec(), unreadable, ..Listed::default() };
    let mut edits: BTreeMap<Vec<u8>, Option<Content>> = BTreeMap::new();
    let mut to_read: Vec<Vec<u8>> = Vec::new();
    let mut as_copied: Vec<Vec<u8>> = Vec::new();
    // The index may have moved since the layer was made, by a commit or an update. Where the upper
    // directory shows nothing, the file is still the base's, and that differs from the index.
    let has_attributes = found.has_changed(ATTRIBUTES_FILES);
    let base_index = if has_attributes && own.is_none() {
        Written::load(&source.admin_dir.join("index"))
    } else {
        None
    };
    let written = own.as_ref().map(|own| &own.written).or(base_index.as_ref());
    let proven = ProvenFiles::by(written, layer);
    let differences = repo.differences(base, staged)?;
    let without_modes =
        !differences.is_empty() && repo.shared_flag("core.filemode")? == Some(false);
    // Files of the base of which only git tells the content, and those that are no longer in the index.
    let mut of_base: Vec<Vec<u8>> = Vec::new();
    let mut untracked: BTreeMap<Vec<u8>, Option<Content>> = BTreeMap::new();
    let mut reverted = false;
    for one in differences {
        // Where git takes the file for unchanged, it is as the index has it.
        let is_proven = one.new.is_some() && proven.holds(&one.path);
        // What is in a directory that cannot be read stays as the index has it, as git leaves it.
        if is_proven
            || listed.is_hidden_by_directory(&one.path)
            || layer.shown(&one.path)? != LayerEntry::Base
        {
            continue;
        }
        reverted |= one.old.is_some() && one.new.is_some();
        let old = one.old.filter(|_| !has_attributes);
        // Where git goes by the index, a file has the mode that it has there.
        let old = old.map(|(mode, oid)| match (mode, one.new) {
            (FILE | EXECUTABLE, Some((new @ (FILE | EXECUTABLE), _))) if without_modes => {
                (new, oid)
            }
            (FILE | EXECUTABLE, None) if without_modes => (FILE, oid),
            _ => (mode, oid),
        });
        if one.new.is_none() && !unmerged.contains(&one.path) {
            untracked.insert(one.path, old);
        } else if old.is_some()
            || one.old.is_none()
                && !rules.may_have_ignored(&one.path)
                && !layer.has_in_base(&one.path)
        {
            edits.insert(one.path, old);
        } else {
            of_base.push(one.path);
        }
    }
    // Only of a whole base does a file that the index does not prove unchanged go back to what the base's tree has.
    if reverted {
        layer.require_whole_base()?;
    }
    // With other attributes, git may make another blob of a file that the index does not prove unchanged.
    for path in
        written.into_iter().filter(|_| has_attributes).flat_map(|written| written.index.paths())
    {
        let is_known = found.touched.contains_key(path) || edits.contains_key(path);
        let content = tracked.content(path)?.filter(|(mode, _)| *mode != GITLINK);
        if content.is_some() && !is_known && !proven.holds(path) {
            of_base.push(path.to_vec());
        }
    }
    // With other rules, files of the base count that git ignored when it was made; all of them do where ignored files count.
    let mut may_count = !source.rules.leave_out() || found.has_changed(IGNORE_FILES);
    for name in &found.unknown {
        may_count = may_count || rules.may_differ_below(&layer.upper, name)?;
    }
    let mut names: Vec<Vec<u8>> = untracked.keys().cloned().collect();
    if may_count {
        for name in rules.ignored() {
            let is_directory = name.ends_with(b"/");
            if is_directory
                || layer.shown(name)? == LayerEntry::Base && tracked.content(name)?.is_none()
            {
                names.push(name.clone());
            }
        }
    }
    if !names.is_empty() || !of_base.is_empty() {
        let files = BaseFiles::of(source, layer)?;
        let (new, nested) = files.not_ignored(names, &tracked)?;
        listed.nested.extend(nested);
        for path in new {
            match untracked.remove(&path).flatten() {
                Some(content) => drop(edits.insert(path, Some(content))),
                None => of_base.push(path),
            }
        }
        of_base.sort_unstable();
        of_base.dedup();
        if !of_base.is_empty() {
            edits.extend(files.contents(&of_base, &tracked)?);
        }
    }
    for path in unmerged {
        match layer.shown(path)? {
            LayerEntry::Upper => to_read.push(path.clone()),
            LayerEntry::Directory | LayerEntry::Nothing => {
                edits.insert(path.clone(), None);
            }
            LayerEntry::Base => {}
        }
    }
    found.touched.retain(|path, _| !listed.is_hidden_by_directory(path));
    for (path, what) in found.touched {
        match what {
            MetFile::Copy => as_copied.push(path),
            MetFile::File => to_read.push(path),
            MetFile::Gone => drop(edits.insert(path, None)),
        }
    }

    // 3. Git looks into the files that may have changed, with an index that knows of those in the upper directory alone.
    let mut part: BTreeMap<Vec<u8>, Content> = BTreeMap::new();
    for path in to_read.iter().chain(&as_copied) {
        part.extend(tracked.content(path)?.map(|content| (path.clone(), content)));
    }
    for name in &found.unknown {
        let beside = tracked.one_below(directory_with_slash(name))?;
        if let Some(path) = beside {
            part.extend(tracked.content(&path)?.map(|content| (path, content)));
        }
    }
    // This index has no stat data, so git reads each file: a file that was copied up may still be
    // what the base has.
    write_index(source, &part)?;
    if !found.unknown.is_empty() {
        listed.read_untracked(source, Some(&found.unknown))?;
    }
    to_read.extend(listed.new.iter().cloned());
    to_read.sort_unstable();
    to_read.dedup();
    to_read.retain(|path| !listed.is_hidden_by_directory(path));
    let (to_name, to_read): (Vec<_>, Vec<_>) = to_read
        .into_iter()
        .partition(|path| unwritable == UnwritableFiles::Named && is_unwritable(source, path));
    let next = write_files(source, &to_read, &|path| tracked.may_hold(path))?;
    listed.refused = next.refused;
    // The caller finds there which files of the upper directory are in the tree.
    if !next.contents.is_empty() {
        for (path, content) in &next.contents {
            match content {
                Some(content) => drop(part.insert(path.clone(), *content)),
                None => drop(part.remove(path)),
            }
        }
        write_index(source, &part)?;
    }
    edits.extend(next.contents);

    let mut submodules: Vec<Vec<u8>> = Vec::new();
    if let Some(own) = &own {
        submodules.extend(own.merged().submodules().map(<[u8]>::to_vec));
        submodules.retain(|path| {
            edits.get(path).is_none_or(|now| now.is_some_and(|now| now.0 == GITLINK))
        });
        let top = NestedPlace::top_of(&layer.upper, source.admin_dir);
        submodules = gitlinks::holding_work(&top, &submodules, source.view.room());
    }

    // 4. Both together.
    let tree = match tracked.edited(repo, &edits)? {
        Some(tree) => tree,
        // A file took the place of a directory, which takes a whole new index.
        None => whole_tree(source, own.as_ref(), &edits)?,
    };
    let mut unstaged = BTreeSet::new();
    for (path, content) in edits {
        if tracked.content(&path)? != content {
            unstaged.insert(path);
        }
    }
    let is_merged = listed.unmerged.is_empty();
    let staged = is_merged.then_some(staged);
    let mut unwritable = Vec::new();
    for path in to_name {
        let is_tracked = tracked.content(&path)?.is_some();
        let kind = if is_tracked { ChangeKind::Modified } else { ChangeKind::Untracked };
        unwritable.push(Change { kind, ..Change::named(path) });
    }
    Ok(Layered { submodules, unstaged, listed, staged, tree, unwritable })
}

/// Writes the index that git is asked with.
fn write_index(source: &WorktreeSource<'_>, contents: &BTreeMap<Vec<u8>, Content>) -> Result<()> {
    let contents = contents.iter().map(|(path, content)| (path.as_slice(), *content));
    fs::write(source.index, Index::of(&contents.collect())).at("could not write", source.index)
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
        UnwritableFiles::Named,
    )?;
    let before = own.tree_of(head)?;
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
    for path in found.submodules {
        let change = Change { kind: ChangeKind::Modified, ..Change::named(path.clone()) };
        all.entry(path).or_insert(change);
    }
    for change in found.unwritable {
        all.entry(change.path.clone()).or_insert(change);
    }
    for path in found.listed.nested {
        let change = Change { kind: ChangeKind::Untracked, ..Change::named(path.clone()) };
        all.insert(path, change);
    }
    Ok(all.into_values().collect())
}
