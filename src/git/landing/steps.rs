//! From one tree to another: the paths at which they differ, and, where those are few and plain files, what going from one to
//! the other does at each of them.

use crate::domain::paths::change::Difference;
use crate::domain::paths::path::directories;
use crate::domain::{Change, Oid, RepoPath};
use crate::error::Result;
use crate::git::Repo;
use crate::git::changes::{Content, Edits, canonical_mode};
use crate::git::core::tree::{DIRECTORY, Entry, GITLINK, order};
use std::collections::{BTreeMap, BTreeSet};

/// More paths than this are left to git.
pub(in crate::git) const FEW: usize = 500;

/// Files in which git reads rules, and which it writes like any other.
const IGNORED: &[u8] = b".gitignore";
const ATTRIBUTES: &[u8] = b".gitattributes";

/// A way from one tree to another, each named by itself or by its commit.
pub(super) struct Way<'r> {
    repo: &'r Repo,
    pub(super) names: (Oid, Oid),
    pub(super) trees: (Oid, Oid),
    pub(super) changes: Vec<Change>,
}

impl<'r> Way<'r> {
    /// From a commit to a tree, or to the commit that holds it.
    pub(super) fn between(repo: &'r Repo, old: Oid, new: Oid, new_tree: Oid) -> Result<Way<'r>> {
        let old_tree = repo.tree_of(old)?;
        Way::of(repo, (old, new), (old_tree, new_tree))
    }

    pub(super) fn of(repo: &'r Repo, names: (Oid, Oid), trees: (Oid, Oid)) -> Result<Way<'r>> {
        Ok(Way { repo, names, trees, changes: repo.tree_changes(&[trees.0], trees.1)? })
    }

    /// What is left of it where these files are as they should be already.
    pub(super) fn after<'f>(
        &self,
        files: impl Iterator<Item = &'f Difference>,
    ) -> Result<Option<Way<'r>>> {
        let (old, new) = self.trees;
        let reached = self.repo.tree_after(old, files)?;
        // The target keeps its name, so that a commit is still named to git as a commit; only the
        // start is a bare tree from now on.
        let rest = |old| Way::of(self.repo, (old, self.names.1), (old, new));
        reached.map(rest).transpose()
    }

    /// The words that let git move index and files.
    pub(super) fn read_tree(&self) -> [String; 5] {
        let [name, merge, update] = ["read-tree", "-m", "-u"].map(str::to_owned);
        let (old, new) = self.names;
        [name, merge, update, old.to_hex(), new.to_hex()]
    }

    /// The repository.
    pub(super) fn repo(&self) -> &'r Repo {
        self.repo
    }

    /// What differs, submodules aside: those are directories of their own.
    pub(super) fn files(&self) -> Result<Vec<Difference>> {
        let (old, new) = self.trees;
        let mut files = self.repo.differences(old, new)?;
        let is_file = |side: Option<Content>| side.is_none_or(|(mode, _)| mode != GITLINK);
        files.retain(|file| is_file(file.old) && is_file(file.new));
        Ok(files)
    }
}

/// What there is where a step goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathState {
    /// Nothing.
    Free,
    /// The old content.
    Old,
    /// The new content, of which the index does not know yet.
    New,
    /// The index says what it should: its file does not matter, as with git.
    AlreadyStaged,
    /// Something whose content was not looked at.
    Unknown,
}

/// What becomes of one path.
#[derive(Debug)]
pub(super) struct PathStep {
    pub(super) path: Vec<u8>,
    pub(super) old: Option<Content>,
    pub(super) new: Option<Content>,
}

/// A way between trees that differ at few plain files.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// In the order of their paths.
    pub(super) list: Vec<PathStep>,
    /// Whether files of attributes are among them, by which git may write other files in another way.
    pub(super) has_attributes: bool,
    /// As in [`Edits`].
    trees: BTreeMap<Vec<u8>, (Oid, Option<Oid>)>,
}

/// What stands under one name on both sides.
type Pair = [Option<Content>; 2];

impl Steps {
    /// `None` where git has to find the way: many paths, submodules, a file in the place of a directory, names
    /// that git gives a meaning to, and names that it would refuse.
    pub(super) fn between(repo: &Repo, old: Oid, new: Oid) -> Result<Option<Steps>> {
        let mut steps = Steps::default();
        let mut open = vec![(Vec::new(), [Some(old), Some(new)])];
        while let Some((prefix, sides)) = open.pop() {
            let names = names(repo, sides)?;
            if let [Some(before), after] = sides {
                // A cached tree of the index can be given its new name only where the same
                // directories are below it: the entries of the index count the subtrees of each.
                let after = after.filter(|_| same_directories(&names));
                steps.trees.insert(prefix.clone(), (before, after));
            }
            for (name, [old, new]) in names {
                if old == new {
                    continue;
                }
                let path = [prefix.as_slice(), &name].concat();
                let is_directory = |side: Content| side.0 == DIRECTORY;
                let directories = [old, new].into_iter().flatten().map(is_directory);
                match (
                    // A directory that gives way to a file, or the reverse, needs an order of
                    // removals across directories. Git has that order, so such a landing is left to
                    // it.
                    directories.clone().any(|is| is),
                    directories.clone().all(|is| is),
                ) {
                    (true, true) => {
                        let oid = |side: Option<Content>| side.map(|(_, oid)| oid);
                        open.push(([&path, &b"/"[..]].concat(), [oid(old), oid(new)]));
                    }
                    (false, _) if is_plain(&path, [old, new]) && steps.list.len() < FEW => {
                        steps.has_attributes |= name == ATTRIBUTES;
                        steps.list.push(PathStep { path, old, new });
                    }
                    _ => return Ok(None),
                }
            }
        }
        let list = &mut steps.list;
        // The walk takes directories from a stack. The index and the two threads of `fast_checkout`
        // need the order of the full paths.
        list.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Ok(Some(steps))
    }

    /// All steps as edits of an index.
    pub(super) fn edits(&self) -> Edits {
        self.edits_of(self.list.iter())
    }

    /// The steps on those of the `places` of all steps that `are_to_do`, as edits of an index.
    pub(super) fn edits_at(
        &self,
        places: &[PathState],
        are_to_do: impl Fn(PathState) -> bool,
    ) -> Edits {
        let list = self.list.iter().zip(places).filter(|(_, place)| are_to_do(**place));
        self.edits_of(list.map(|(step, _)| step))
    }

    /// What the paths of which it is unknown what stands there have before the steps, as edits of an index.
    pub(super) fn old_at(&self, places: &[PathState]) -> Edits {
        let unknown = self.list.iter().zip(places);
        let unknown = unknown.filter(|(_, place)| **place == PathState::Unknown);
        let tracked = unknown.filter(|(step, _)| step.old.is_some());
        let paths = tracked.map(|(step, _)| (step.path.clone(), step.old));
        // No directory becomes another one, so what the index has cached of them stays.
        let trees = self.trees.iter().map(|(name, (tree, _))| (name.clone(), (*tree, Some(*tree))));
        Edits { paths: paths.collect(), trees: trees.collect() }
    }

    fn edits_of<'s>(&self, list: impl Iterator<Item = &'s PathStep>) -> Edits {
        Edits {
            paths: list.map(|step| (step.path.clone(), step.new)).collect(),
            trees: self.trees.clone(),
        }
    }

    /// The files of attributes that git reads for the paths, whether they are there or not.
    pub(super) fn attributes_files(&self) -> BTreeSet<Vec<u8>> {
        let above = self.list.iter().flat_map(|step| directories(&step.path));
        // The directory of the path is included, and so is the top, whose file has no directory
        // before it.
        let names = above.map(|above| [above, b"/", ATTRIBUTES].concat());
        let top = (!self.list.is_empty()).then(|| ATTRIBUTES.to_vec());
        names.chain(top).collect()
    }
}

/// What differs between two trees, by name.
fn names(repo: &Repo, sides: [Option<Oid>; 2]) -> Result<BTreeMap<Vec<u8>, Pair>> {
    let [old, new] = repo.read_trees_apart(sides)?;
    let mut names: BTreeMap<Vec<u8>, Pair> = BTreeMap::new();
    let mut put = |is_new: bool, entry: Entry| {
        let content = (canonical_mode(entry.mode), entry.oid);
        let [old, new] = names.entry(entry.name).or_default();
        *(if is_new { new } else { old }) = Some(content);
    };
    // Both are in the same order, so what is equal is found without looking for it.
    let mut new = new.into_iter().peekable();
    for entry in old {
        while let Some(before) = new.next_if(|other| order(other, &entry).is_lt()) {
            put(true, before);
        }
        if new.next_if_eq(&entry).is_none() {
            put(false, entry);
        }
    }
    new.for_each(|entry| put(true, entry));
    Ok(names)
}

fn same_directories(names: &BTreeMap<Vec<u8>, Pair>) -> bool {
    let is_directory = |side: &Option<Content>| side.is_some_and(|(mode, _)| mode == DIRECTORY);
    names.values().all(|[old, new]| is_directory(old) == is_directory(new))
}

fn is_plain(path: &[u8], pair: Pair) -> bool {
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let is_read_by_git =
        // Git reads `.gitmodules`, and on a file system without case so it reads `.GITMODULES`.
        // `.gitignore` and `.gitattributes` are read as well, but only as rules for other files,
        // which `has_attributes` accounts for.
        name.to_ascii_lowercase().starts_with(b".git") && name != IGNORED && name != ATTRIBUTES;
    let is_submodule = pair.into_iter().flatten().any(|(mode, _)| mode == GITLINK);
    // A name that does not survive its own normalisation is one that a file system may fold into
    // another one. Git decides whether it may be written.
    let is_safe = RepoPath::parse(path).is_ok_and(|safe| safe.as_bytes() == path);
    is_safe && !is_read_by_git && !is_submodule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::core::tree::EXECUTABLE;

    #[test]
    fn directories_that_come_go_or_give_way_are_told() {
        let content = |mode| Some((mode, Oid::ZERO));
        let check = |pair: Pair, expected| {
            let both = [content(DIRECTORY), content(DIRECTORY)];
            let names = BTreeMap::from([(b"a".to_vec(), pair), (b"b".to_vec(), both)]);
            assert_eq!(same_directories(&names), expected, "{pair:?}");
        };
        check([content(DIRECTORY), content(DIRECTORY)], true);
        check([content(EXECUTABLE), None], true);
        check([None, content(DIRECTORY)], false);
        check([content(DIRECTORY), content(EXECUTABLE)], false);
    }
}
