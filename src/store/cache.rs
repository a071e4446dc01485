//! All rows at once, with a disposable copy of the notes so that listing does not read every object.
//!
//! The file ([`cache_file`]) holds the notes of one tree by their spawn commits, or what was made of each
//! ([`super::row_index`]). A tree that moved on is compared with the cached one by structure and only the changed notes are read. A file that is missing, cut short,
//! of another version or of an unknown tree is made again; it is never repaired.

use super::belief::Belief;
use super::ledger::Ledger;
use super::row::Row;
use super::{cache_file, fsx, layout};
use crate::domain::agent::Agent;
use crate::domain::event::Event;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::notes::{self, union};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// A file with a copy of every note.
pub(super) struct Copied {
    /// What the file holds, before the tree's name.
    pub(super) kind: &'static str,
    /// Where it is, below a common directory.
    pub(super) path: fn(&Path) -> PathBuf,
    /// So many changed notes, and one more for every 128 that there are, are read again each time before the file is
    /// written anew.
    pub(super) worth: usize,
    /// What is kept of a note; never empty.
    pub(super) keep: fn(Oid, Vec<u8>) -> Vec<u8>,
}

/// The notes as they are.
const BODIES: Copied = Copied {
    kind: "git-agent ledger cache 1 ",
    path: layout::ledger_cache,
    worth: 32,
    keep: |_, body| body,
};

/// Notes that the file does not have as they are, by key; empty for those that are gone.
pub(super) type Changed = BTreeMap<Oid, Vec<u8>>;

impl Ledger<'_> {
    /// Every agent, oldest first.
    ///
    /// # Errors
    /// `repo-corrupt` when the ledger is damaged beyond its reflog.
    pub fn agents(&self) -> Result<Vec<Agent>> {
        self.agents_mentioning("")
    }

    /// The agents in whose rows a text occurs, oldest first. Searching bytes is a tenth of the work of
    /// folding every row.
    pub(super) fn agents_mentioning(&self, text: &str) -> Result<Vec<Agent>> {
        let escaped = serde_json::to_string(text).unwrap_or_default();
        let needle = escaped.trim_matches('"');
        let belief = Belief::new(self.repo);
        let found = self.read(|tree| {
            let mut agents = Vec::new();
            self.each_copied(&BODIES, tree, |key, body| {
                if contains(body, needle) {
                    let row = Row::read(body, AgentId::from_spawn_commit(key));
                    agents.extend(belief.fold(key, &row).transpose());
                }
            })?;
            agents.into_iter().collect::<Result<Vec<Agent>>>()
        })?;
        let mut agents = found.unwrap_or_default();
        // An agent is 700 bytes wide: better sort something smaller.
        agents.sort_by_cached_key(|agent| (agent.started, agent.spawn_commit));
        Ok(agents)
    }

    /// What `select` makes of each row: the spawn commit and the events, oldest first.
    ///
    /// # Errors
    /// As [`Ledger::agents`].
    pub fn select<T>(&self, select: impl Fn(Oid, &[Event]) -> Option<T>) -> Result<Vec<T>> {
        let selected = self.read(|tree| {
            let mut selected = Vec::new();
            self.each_copied(&BODIES, tree, |key, body| {
                let row = Row::read(body, AgentId::from_spawn_commit(key));
                selected.extend(select(key, &row.events));
            })?;
            Ok(selected)
        })?;
        Ok(selected.unwrap_or_default())
    }

    /// Hands on what is kept of every note, one at a time: all of them together may be more than fits into memory.
    pub(super) fn each_copied(
        &self,
        copied: &Copied,
        tree: Oid,
        mut on: impl FnMut(Oid, &[u8]),
    ) -> Result<()> {
        let path = (copied.path)(self.repo.common_dir());
        let mut cached = Cached::open(&path, copied.kind);
        let old = cached
            .as_ref()
            .map_or(Oid::EMPTY_TREE, |cached| cached.tree);
        let keys = match self.difference(old, tree) {
            Ok(keys) => keys,
            // The cached tree is gone, or the new one is damaged: the full walk tells.
            Err(_) => {
                cached = None;
                let notes = notes::all(self.repo, tree)?;
                notes.into_iter().map(|note| note.0).collect()
            }
        };
        let mut changed = self.bodies(tree, keys)?;
        for (key, body) in &mut changed {
            if !body.is_empty() {
                *body = (copied.keep)(*key, std::mem::take(body));
            }
        }
        let known = cached.as_ref().map_or(0, |cached| cached.count);
        // Writing pays off only when enough has changed.
        if !self.repo.is_scratch() && changed.len() > copied.worth + (known + changed.len()) / 128 {
            let directory = layout::cache_dir(self.repo.common_dir());
            // Without a cache everything works, only slower.
            let _ = fsx::create_dir(&directory).and_then(|()| {
                fsx::write_atomic_by(&path, |file| {
                    cache_file::write(file, copied.kind, tree, |on| {
                        each(cached.as_mut(), copied.kind, &changed, on)
                    })
                })
            });
        }
        each(cached.as_mut(), copied.kind, &changed, &mut on).at("could not read", &path)
    }

    /// The bodies of these notes as they are in that tree; empty for those that are not in it.
    pub(super) fn bodies(&self, tree: Oid, keys: BTreeSet<Oid>) -> Result<Changed> {
        let notes = notes::lookup_many(self.repo, tree, &keys)?;
        let mut found: BTreeMap<Oid, Vec<Oid>> =
            keys.into_iter().map(|key| (key, Vec::new())).collect();
        for (key, blob) in notes {
            found.entry(key).and_modify(|blobs| blobs.push(blob));
        }
        let blobs: Vec<Oid> = found.values().flatten().copied().collect();
        self.repo.fetch_promised(&blobs);
        let bodies = found.into_iter();
        bodies
            .map(|(key, blobs)| Ok((key, notes::united(self.repo, &blobs)?)))
            .collect()
    }

    /// The keys of all notes that are not the same in both trees, removed ones (a foreign `git notes
    /// remove`) included.
    fn difference(&self, old: Oid, new: Oid) -> Result<BTreeSet<Oid>> {
        let (gone, added) = union::compared(self.repo, old, new)?;
        Ok(gone.into_iter().chain(added).map(|note| note.0).collect())
    }
}

/// A file that was found to be whole. It is replaced, never written to, so it stays so.
struct Cached {
    file: File,
    tree: Oid,
    count: usize,
}

impl Cached {
    fn open(path: &Path, kind: &str) -> Option<Cached> {
        let mut file = fsx::open(path).ok()?;
        let (tree, count) = cache_file::read(&mut file, kind, |_, _| {})?;
        Some(Cached { file, tree, count })
    }
}

/// Every note that is there: those of the file, but for what has changed.
fn each(
    cached: Option<&mut Cached>,
    kind: &str,
    changed: &Changed,
    on: &mut dyn FnMut(Oid, &[u8]),
) -> io::Result<()> {
    if let Some(cached) = cached {
        let unchanged = |key, body: &[u8]| {
            if !changed.contains_key(&key) {
                on(key, body);
            }
        };
        // It was whole a moment ago, and half a list must not pass for one.
        cache_file::read(&mut cached.file, kind, unchanged).ok_or(ErrorKind::UnexpectedEof)?;
    }
    for (key, body) in changed.iter().filter(|(_, body)| !body.is_empty()) {
        on(*key, body);
    }
    Ok(())
}

fn contains(body: &[u8], needle: &str) -> bool {
    match std::str::from_utf8(body) {
        Ok(text) => text.contains(needle),
        Err(_) => needle.is_empty() || body.windows(needle.len()).any(|w| w == needle.as_bytes()),
    }
}
