//! The tree of an index, made as `git write-tree` makes it.
//!
//! Like git, this believes the trees that the index names for directories in which nothing was changed, and
//! makes those of the others from their entries. Wherever git would refuse, or something is out of the
//! ordinary, there is no answer, and git is to be asked.

use super::{Index, IndexEntry};
use crate::domain::Oid;
use crate::domain::paths::path::split_once;
use crate::error::Result;
use crate::git::changes::{Content, Directory, Item};
use crate::git::core::tree::{DIRECTORY, Entry, GITLINK};
use crate::git::{Repo, core::command};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// What a path holds from now on, if anything.
type Edit<'a> = (&'a [u8], Option<Content>);

/// Directories nested deeper than this are left to git.
const MAX_DEPTH: usize = 256;

impl Repo {
    /// The tree of the index file at `path`, with the tree objects that it needs; `None` when only git can
    /// tell. What was written by then does no harm.
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `git-failed`.
    pub fn index_tree(&self, path: &Path) -> Result<Option<Oid>> {
        match Index::load(path) {
            Some(index) => self.tree_of_index(&index),
            None => Ok(None),
        }
    }

    /// As [`Repo::index_tree`] for an index that was read already.
    ///
    /// # Errors
    /// As [`Repo::index_tree`].
    pub(in crate::git) fn tree_of_index(&self, index: &Index) -> Result<Option<Oid>> {
        self.tree_of_edited(index, &BTreeMap::new())
    }

    /// As [`Repo::tree_of`], with what becomes of some paths: where none of it is, a cached tree is believed.
    ///
    /// # Errors
    /// As [`Repo::index_tree`].
    pub(in crate::git) fn tree_of_edited(
        &self,
        index: &Index,
        edits: &BTreeMap<&[u8], Option<Content>>,
    ) -> Result<Option<Oid>> {
        if index.is_flagged {
            return Ok(None);
        }
        let (oid, top) = index.top();
        let edits: Vec<Edit<'_>> = edits.iter().map(|(path, new)| (*path, *new)).collect();
        self.directory_tree(index, oid, &top, 0, MAX_DEPTH, &edits)
    }

    /// The tree of one directory; `skip` is the length of its path with the final slash, and the `edits` are those
    /// below it.
    fn directory_tree(
        &self,
        index: &Index,
        known: Option<Oid>,
        directory: &Directory,
        skip: usize,
        levels: usize,
        edits: &[Edit<'_>],
    ) -> Result<Option<Oid>> {
        if let Some(known) = known.filter(|_| edits.is_empty()) {
            // An index can name a tree that a killed process has not stored, or that was pruned.
            return Ok(Some(known).filter(|tree| self.has_object(*tree)));
        }
        let Directory::Index { entries, cached } = directory else {
            return Ok(None);
        };
        // An index that an agent wrote may nest deeper than this stack.
        if levels == 0 {
            return Ok(None);
        }
        let mut items: BTreeMap<&[u8], Item> = BTreeMap::new();
        let directory = |(path, _): &Edit<'_>| {
            let (name, _) = split_once(path.get(skip..)?, b'/')?;
            Some(name.to_vec())
        };
        let edited: BTreeSet<Vec<u8>> = edits.iter().filter_map(directory).collect();
        let is_believed = |name: &[u8]| !edited.contains(name);
        for (name, item) in index.level_where(entries.clone(), *cached, skip, is_believed) {
            // A file and a directory of one name.
            if items.insert(name, item).is_some() {
                return Ok(None);
            }
        }
        let mut below: BTreeMap<&[u8], Vec<Edit<'_>>> = BTreeMap::new();
        for (path, new) in edits {
            let rest = path.get(skip..).unwrap_or_default();
            let above = split_once(rest, b'/').map(|(name, _)| name);
            let name = above.unwrap_or(rest);
            let is_directory = matches!(items.get(name), Some(Item::Directory { .. }));
            match (above, new) {
                (Some(_), _) => below.entry(name).or_default().push((*path, *new)),
                // A file in the place of a directory is out of the ordinary, and left to git.
                (None, _) if is_directory => return Ok(None),
                (None, Some(content)) => drop(items.insert(name, Item::File(*content))),
                (None, None) => drop(items.remove(name)),
            }
        }
        // A directory that the edits bring has no item of the index yet.
        for name in below.keys() {
            let empty = || Item::Directory {
                oid: None,
                directory: Directory::Index { entries: 0..0, cached: None },
            };
            items.entry(*name).or_insert_with(empty);
        }
        let mut names = Vec::with_capacity(items.len());
        for (name, item) in items {
            let edits = below.remove(name).unwrap_or_default();
            let content = match &item {
                Item::File((mode, oid)) => {
                    // The commit of a submodule lies in another repository.
                    let is_there = *mode == GITLINK || self.has_object(*oid);
                    Some((*mode, *oid)).filter(|_| is_there && !oid.is_zero() && edits.is_empty())
                }
                Item::Directory { oid, directory } => {
                    let below = skip + name.len() + 1;
                    self.directory_tree(index, *oid, directory, below, levels - 1, &edits)?
                        .map(|oid| (DIRECTORY, oid))
                }
            };
            // Git refuses these names in a tree.
            let is_odd = matches!(name, b"" | b"." | b".." | b".git") || name.contains(&0);
            let Some((mode, oid)) = content.filter(|_| !is_odd) else {
                return Ok(None);
            };
            // A directory of which everything was taken.
            if edits.is_empty() || oid != Oid::EMPTY_TREE {
                let name = name.to_owned();
                names.push(Entry { mode, name, oid });
            }
        }
        self.write_tree(names).map(Some)
    }
}

/// Whether the entries that `git ls-files --stage -z` lists are in git's order, by path and stage. Git writes a tree of them as they come.
fn is_in_order(list: &[u8]) -> bool {
    let entries = list.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let key = |entry: &'_ [u8]| -> Option<(Vec<u8>, Vec<u8>)> {
        let tab = memchr::memchr(b'\t', entry)?;
        Some((entry.get(tab + 1..)?.to_vec(), entry.get(..tab)?.last_chunk::<1>()?.to_vec()))
    };
    let keys: Option<Vec<_>> = entries.map(key).collect();
    keys.is_some_and(|keys| keys.is_sorted_by(|one, next| one < next))
}

// Whether an index names what is not here: as git follows all that it names, `git gc` then fails in all of the repository.

impl Repo {
    /// Whether everything is here that an index file names and `known` does not; both are of the worktree with this git dir.
    pub fn has_all_of_index(&self, git_dir: &Path, index: &Path, known: &Path) -> bool {
        match Index::load(index) {
            Some(index) => self.has_all_of(&index, &Index::load(known).unwrap_or_default()),
            // A split or sparse one, or none.
            None => {
                let by_git = |words: &[&str]| {
                    let mut git = command::git(git_dir);
                    git.env("GIT_DIR", git_dir).env("GIT_INDEX_FILE", index).args(words);
                    command::successful(git)
                };
                let walk = ["rev-list", "--objects", "--indexed-objects", "--single-worktree"];
                // Of what one commit holds there is little to walk through, of all refs much.
                by_git(&[&walk[..], &["--quiet", "--not", "HEAD"]].concat()).is_ok()
                    && by_git(&["ls-files", "--stage", "-z"]).is_ok_and(|list| is_in_order(&list))
            }
        }
    }

    fn has_all_of(&self, index: &Index, known: &Index) -> bool {
        let mut rest = known.entries.iter().peekable();
        let has_entries = index.entries.iter().all(|entry| {
            let (mode, oid) = entry.content;
            let is_before = |old: &&IndexEntry| known.path(old) < index.path(entry);
            while rest.next_if(is_before).is_some() {}
            rest.peek().is_some_and(|old| old.content == entry.content)
                // The sides of a conflict are among the blobs beside.
                || mode == GITLINK
                || oid.is_zero()
                || self.is_blob(oid)
        });
        let trees = |index: &Index| -> HashSet<Oid> {
            index.trees.iter().filter_map(|tree| Some(tree.valid?.1)).collect()
        };
        let is_tree = |oid: Oid| match self.kind_at_hand(oid) {
            Some(kind) => kind == git2::ObjectType::Tree,
            None => oid == Oid::EMPTY_TREE || self.is_partial(),
        };
        let has_blob = |oid: &Oid| *oid == Oid::EMPTY_BLOB || self.is_blob(*oid);
        has_entries
            && index.besides.iter().all(has_blob)
            && trees(index).difference(&trees(known)).all(|oid| is_tree(*oid))
    }
}

/// The blobs that the REUC extension of an index names: a path, three modes as text, and a name for each mode that is not 0.
pub(super) fn resolved_blobs(mut body: &[u8]) -> Option<Vec<Oid>> {
    let mut blobs = Vec::new();
    while !body.is_empty() {
        let fields: Vec<&[u8]> = body.splitn(5, |byte| *byte == 0).collect();
        let [_, ours, base, theirs, rest] = fields[..] else {
            return None;
        };
        body = rest;
        for mode in [ours, base, theirs].into_iter().filter(|mode| *mode != b"0") {
            let (oid, rest) = body.split_at_checked(20)?;
            // The commit of a submodule lies in another repository.
            blobs.extend(Oid::from_slice(oid).filter(|_| mode != b"160000"));
            body = rest;
        }
    }
    Some(blobs)
}

// The TREE extension of an index: the trees that git has made of its directories already.

/// One directory.
#[derive(Debug)]
pub(super) struct CachedTree {
    pub(super) name: Range<usize>,
    /// How many entries are below it, and their tree; `None` when something below it was changed.
    pub(super) valid: Option<(usize, Oid)>,
    /// The position after the last tree below it.
    pub(super) end: usize,
}

/// The directories in the one at `parent`, by their names; `bytes` is what `trees` were read from.
pub(super) fn cached_children<'b>(
    bytes: &'b [u8],
    trees: &[CachedTree],
    parent: usize,
) -> HashMap<&'b [u8], usize> {
    let mut children = HashMap::new();
    let end = trees.get(parent).map_or(0, |parent| parent.end);
    let mut at = parent + 1;
    while let Some(tree) = trees.get(at).filter(|_| at < end) {
        children.extend(bytes.get(tree.name.clone()).map(|name| (name, at)));
        at = tree.end;
    }
    children
}

/// Reads the extension, parents before children: per directory its name, NUL, entries below (-1: unknown),
/// blank, subdirectories, LF, and the tree's oid where the entries are known.
pub(super) fn cached_tree_ids(bytes: &[u8], body: Range<usize>) -> Option<Vec<CachedTree>> {
    let mut trees: Vec<CachedTree> = Vec::new();
    // The directories whose subdirectories are still to come: position, and how many.
    let mut open: Vec<(usize, usize)> = Vec::new();
    let mut at = body.start;
    let bytes = bytes.get(..body.end)?;
    let until = |at: &mut usize, end: u8| {
        let length = bytes.get(*at..)?.iter().position(|&byte| byte == end)?;
        let field = *at..*at + length;
        *at = field.end + 1;
        Some(field)
    };
    let number = |field| std::str::from_utf8(bytes.get(field)?).ok()?.parse::<i64>().ok();
    while at < body.end {
        let name = until(&mut at, 0)?;
        if trees.is_empty() != name.is_empty() {
            return None;
        }
        let entries = number(until(&mut at, b' ')?)?;
        let children = usize::try_from(number(until(&mut at, b'\n')?)?).ok()?;
        let mut valid = None;
        // A count of -1 says that the tree is not valid any more, and then no name follows.
        if let Ok(entries) = usize::try_from(entries) {
            valid = Some((entries, Oid::from_slice(bytes.get(at..at + 20)?)?));
            at += 20;
        }
        if let Some((_, left)) = open.last_mut() {
            // More subdirectories than were announced.
            *left = left.checked_sub(1)?;
        }
        open.push((trees.len(), children));
        trees.push(CachedTree { name, valid, end: trees.len() + 1 });
        while let Some((done, _)) = open.pop_if(|(_, left)| *left == 0) {
            let end = trees.len();
            trees.get_mut(done)?.end = end;
        }
    }
    open.is_empty().then_some(trees)
}
