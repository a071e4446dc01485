//! What two trees hold where they differ, and the tree that some of these changes make.

use crate::domain::baseline::{Content, Difference};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::changes::canonical_mode;
use crate::git::tree::{DIRECTORY, Entry};
use crate::git::{Repo, restage};
use std::collections::BTreeMap;

/// What a path below some directory holds from now on, if anything.
type Edit<'a> = (&'a [u8], Option<Content>);

impl Repo {
    /// The paths at which two trees differ and what each holds there, ordered by path.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn differences(&self, old: Oid, new: Oid) -> Result<Vec<Difference>> {
        let changes = self.tree_changes(&[old], new)?;
        let paths: Vec<_> = changes.into_iter().map(|change| change.path).collect();
        let old = restage::contents(self, old, &paths)?;
        let new = restage::contents(self, new, &paths)?;
        let canonical =
            |content: Option<Content>| content.map(|(mode, oid)| (canonical_mode(mode), oid));
        let sides = old.into_iter().zip(new);
        Ok({ paths.into_iter().zip(sides) }
            .map(|(path, (old, new))| Difference {
                path,
                old: canonical(old),
                new: canonical(new),
            })
            .collect())
    }

    /// Writes the tree that these changes make of another: each path holds its new side. `None` where a file would
    /// stand in the place of a directory that is not empty.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing; `disk-full`, `repo-read-only`.
    pub fn tree_after<'a>(
        &self,
        tree: Oid,
        changes: impl IntoIterator<Item = &'a Difference>,
    ) -> Result<Option<Oid>> {
        let edits = changes.into_iter();
        let edits: Vec<Edit<'_>> = edits
            .map(|change| (change.path.as_slice(), change.new))
            .collect();
        edited(self, tree, &edits)
    }
}

fn edited(repo: &Repo, tree: Oid, edits: &[Edit<'_>]) -> Result<Option<Oid>> {
    let entries = repo.read_tree(tree)?.into_iter();
    let mut entries: BTreeMap<Vec<u8>, Entry> =
        entries.map(|entry| (entry.name.clone(), entry)).collect();
    // By name: what the name itself holds, and what is below it as a directory.
    let mut names: BTreeMap<&[u8], (Option<Content>, Vec<Edit<'_>>)> = BTreeMap::new();
    for (path, content) in edits {
        match path.iter().position(|&byte| byte == b'/') {
            Some(slash) => {
                let below = &mut names.entry(&path[..slash]).or_default().1;
                below.push((&path[slash + 1..], *content));
            }
            None => names.entry(path).or_default().0 = *content,
        }
    }
    for (name, (file, below)) in names {
        let old = entries.remove(name).filter(Entry::is_directory);
        let directory = match (old, below.is_empty()) {
            (Some(old), true) => old.oid,
            (old, _) => {
                let old = old.map_or(Oid::EMPTY_TREE, |old| old.oid);
                match edited(repo, old, &below)? {
                    Some(directory) => directory,
                    None => return Ok(None),
                }
            }
        };
        let is_empty = directory == Oid::EMPTY_TREE;
        let (mode, oid) = match file {
            Some(_) if !is_empty => return Ok(None),
            Some(content) => content,
            None if is_empty => continue,
            None => (DIRECTORY, directory),
        };
        let name = name.to_vec();
        entries.insert(name.clone(), Entry { mode, name, oid });
    }
    repo.write_tree(entries.into_values().collect()).map(Some)
}
