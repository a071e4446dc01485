//! All rows at once, with a disposable copy of the notes so that listing does not read every object.
//!
//! A cache file holds the notes of one tree by their spawn commits, or what was made of each
//! ([`super::row_index`]). A tree that moved on is compared with the cached one by structure and only the changed notes are read. A file that is missing, cut short,
//! of another version or of an unknown tree is made again; it is never repaired.

use super::belief::Belief;
use super::row::{OwnLines, Row};
use crate::domain::{Agent, AgentId, Event, Oid};
use crate::error::{IoContext, Result};
use crate::git::record::notes;
use crate::store::files::{fsx, layout};
use crate::store::ledger::Ledger;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// A file with a copy of every note.
pub(in crate::store) struct Copied {
    /// What the file holds, before the tree's name.
    pub(in crate::store) kind: &'static str,
    /// Where it is, below a common directory.
    pub(in crate::store) path: fn(&Path) -> PathBuf,
    /// So many changed notes, and one more for every 128 that there are, are read again each time before the file is
    /// written anew.
    pub(in crate::store) worth: usize,
    /// What is kept of a note; never empty.
    pub(in crate::store) keep: fn(Oid, Vec<u8>) -> Vec<u8>,
}

/// The notes as they are.
const BODIES: Copied = Copied {
    kind: "git-agent ledger cache 1 ",
    path: layout::ledger_cache,
    worth: 32,
    keep: |_, body| body,
};

/// Notes that the file does not have as they are, by key; empty for those that are gone.
pub(in crate::store) type Changed = BTreeMap<Oid, Vec<u8>>;

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
    pub(in crate::store) fn agents_mentioning(&self, text: &str) -> Result<Vec<Agent>> {
        // As a row spells it, for rows are JSON.
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

    /// What `select` makes of each row: the spawn commit and the events, oldest first. What took back an operation of this clone and was
    /// written elsewhere is left out: this clone does not believe it.
    ///
    /// # Errors
    /// As [`Ledger::agents`].
    pub fn select<T>(&self, select: impl Fn(Oid, &[Event]) -> Option<T>) -> Result<Vec<T>> {
        self.select_rows(|key, row| select(key, &row.events))
    }

    /// As [`Ledger::select`], where `select` is also given whether this clone wrote each of the events.
    ///
    /// # Errors
    /// As [`Ledger::agents`]; `io`.
    pub fn select_by_origin<T>(
        &self,
        select: impl Fn(Oid, &[Event], &[bool]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let own = OwnLines::load(self.repo.common_dir())?;
        self.select_rows(|key, row| {
            let is_own: Vec<bool> = row.pairs().map(|(line, _)| own.has(line)).collect();
            select(key, &row.events, &is_own)
        })
    }

    fn select_rows<T>(&self, select: impl Fn(Oid, &Row<'_>) -> Option<T>) -> Result<Vec<T>> {
        let belief = Belief::new(self.repo);
        let selected = self.read(|tree| {
            let mut selected = Vec::new();
            self.each_copied(&BODIES, tree, |key, body| {
                let id = AgentId::from_spawn_commit(key);
                let row = Row::read(body, id);
                let row = belief.lasting(id, &row);
                selected.push(row.map(|row| select(key, &row)));
            })?;
            selected.into_iter().filter_map(Result::transpose).collect()
        })?;
        Ok(selected.unwrap_or_default())
    }

    /// Hands on what is kept of every note, one at a time: all of them together may be more than fits into memory.
    pub(in crate::store) fn each_copied(
        &self,
        copied: &Copied,
        tree: Oid,
        mut on: impl FnMut(Oid, &[u8]),
    ) -> Result<()> {
        let path = (copied.path)(self.repo.common_dir());
        let mut cached = Cached::open(&path, copied.kind);
        let old = cached.as_ref().map_or(Oid::EMPTY_TREE, |cached| cached.tree);
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
                    write_cache_file(file, copied.kind, tree, |on| {
                        each(cached.as_mut(), copied.kind, &changed, on)
                    })
                })
            });
        }
        each(cached.as_mut(), copied.kind, &changed, &mut on).at("could not read", &path)
    }

    /// The bodies of these notes as they are in that tree; empty for those that are not in it.
    pub(in crate::store) fn bodies(&self, tree: Oid, keys: BTreeSet<Oid>) -> Result<Changed> {
        let notes = notes::lookup_many(self.repo, tree, &keys)?;
        let mut found: BTreeMap<Oid, Vec<Oid>> =
            keys.into_iter().map(|key| (key, Vec::new())).collect();
        for (key, blob) in notes {
            found.entry(key).and_modify(|blobs| blobs.push(blob));
        }
        let blobs: Vec<Oid> = found.values().flatten().copied().collect();
        // All at once: one by one each would be a connection to the remote.
        self.repo.fetch_promised(&blobs);
        let bodies = found.into_iter();
        bodies.map(|(key, blobs)| Ok((key, notes::united(self.repo, &blobs)?))).collect()
    }

    /// The keys of all notes that are not the same in both trees, removed ones (a foreign `git notes
    /// remove`) included.
    fn difference(&self, old: Oid, new: Oid) -> Result<BTreeSet<Oid>> {
        let (gone, added) = notes::compared_notes(self.repo, old, new)?;
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
        // Read to its end once before anything of it is believed: that it is whole stands in its
        // last line.
        let (tree, count) = read_cache_file(&mut file, kind, |_, _| {})?;
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
        read_cache_file(&mut cached.file, kind, unchanged).ok_or(ErrorKind::UnexpectedEof)?;
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

// The form of cache files: entries as `<key> <length>\n<body>`, between a first line that says what the file holds and
// a last one that counts them. Such a file is replaced, never written to, and one that is not whole is no file.

/// Writes a file of that kind, about that object, with what `each` hands on.
pub(in crate::store) fn write_cache_file(
    file: &mut dyn Write,
    kind: &str,
    about: Oid,
    each: impl FnOnce(&mut dyn FnMut(Oid, &[u8])) -> io::Result<()>,
) -> io::Result<()> {
    let mut written = writeln!(file, "{kind}{about}");
    let mut count = 0;
    each(&mut |key, body| {
        if written.is_ok() {
            written = writeln!(file, "{key} {}", body.len()).and_then(|()| file.write_all(body));
            count += 1;
        }
    })?;
    written.and_then(|()| writeln!(file, "end {count}"))
}

/// Hands on every entry of a file, and gives the object that it is about and how many they are; `None` when the file
/// is of another kind or not whole.
pub(in crate::store) fn read_cache_file(
    file: &mut File,
    kind: &str,
    mut on: impl FnMut(Oid, &[u8]),
) -> Option<(Oid, usize)> {
    file.rewind().ok()?;
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let about = Oid::from_hex(line.strip_prefix(kind)?.strip_suffix('\n')?)?;
    let mut body = Vec::new();
    for count in 0.. {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let (word, number) = line.strip_suffix('\n')?.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        if word == "end" {
            let is_whole = number == count && reader.fill_buf().ok()?.is_empty();
            return is_whole.then_some((about, count));
        }
        let key = Oid::from_hex(word)?;
        body.clear();
        // Bounded by the reader and not reserved at once: a damaged number may be of any size.
        let limit = u64::try_from(number).ok()?;
        reader.by_ref().take(limit).read_to_end(&mut body).ok()?;
        if body.len() < number {
            return None;
        }
        on(key, &body);
    }
    None
}
