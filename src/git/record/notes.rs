//! Notes trees, read and written raw: objects annotated by blobs, named by the annotated object's
//! hex digits, with the first pairs of digits split off into directories where there are many.
//!
//! git's own reader accepts any depth and mixture, and so does this one. The writer ([`with_notes`])
//! applies git's own rule, so its trees are byte-identical to those of `git notes add`. libgit2's
//! notes API is not used: it writes flat trees (5 MB and 370 ms per append at 100,000 notes) and
//! overwrites what others wrote meanwhile. `git notes` is not used either: it does not compare
//! before it swaps (349 of 400 acknowledged appends lost with 16 writers).

use crate::domain::Oid;
use crate::error::{Code, Error, Result};
use crate::git::objects::{Identity, NewCommit};
use crate::git::{Repo, core::tree};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// One level of a notes tree, told apart as git tells it apart (`notes.c: load_subtree`).
#[derive(Debug, Default)]
struct NotesLevel {
    /// Annotated object and blob.
    notes: Vec<(Oid, Oid)>,
    /// The two digits of a fan-out directory as a byte, and its tree.
    directories: Vec<(u8, Oid)>,
    /// Everything that is no note. It belongs to other tools and stays.
    others: Vec<tree::Entry>,
}

/// Reads the level at `prefix`, the bytes that the directories above it spell.
/// A note needs at least one byte for its own name, so no directory is deeper.
const DEEPEST: usize = 19;

fn read_level(repo: &Repo, tree: Oid, prefix: &[u8]) -> Result<NotesLevel> {
    let mut level = NotesLevel::default();
    for entry in repo.read_tree(tree)? {
        match digits(&entry.name).as_deref() {
            Some(&[byte]) if entry.is_directory() && prefix.len() < DEEPEST => {
                level.directories.push((byte, entry.oid));
            }
            Some(rest) if rest.len() + prefix.len() == 20 && entry.is_file() => {
                let key = [prefix, rest].concat();
                let key = Oid::from_slice(&key);
                level.notes.extend(key.map(|key| (key, entry.oid)));
            }
            _ => level.others.push(entry),
        }
    }
    Ok(level)
}

/// The bytes that lower-case hex digits spell; `None` for any other name.
fn digits(name: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = name.as_chunks() else {
        return None;
    };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

/// The blobs that annotate `key`: none, one, or several where a tree holds the note at more than one
/// depth.
///
/// # Errors
/// `repo-corrupt` when a tree is missing.
pub fn lookup(repo: &Repo, tree: Oid, key: Oid) -> Result<Vec<Oid>> {
    let found = lookup_many(repo, tree, &BTreeSet::from([key]))?;
    Ok(found.into_iter().map(|(_, blob)| blob).collect())
}

/// The body of a note, its duplicates united; empty when there is none.
///
/// # Errors
/// `repo-corrupt` when a tree or a blob is missing.
pub fn body(repo: &Repo, tree: Oid, key: Oid) -> Result<Vec<u8>> {
    united(repo, &lookup(repo, tree, key)?)
}

/// The lines of all these blobs, each once.
///
/// # Errors
/// `repo-corrupt` when one is missing.
pub fn united(repo: &Repo, blobs: &[Oid]) -> Result<Vec<u8>> {
    let bodies = blobs
        .iter()
        .filter_map(|blob| read_note(repo, *blob).transpose())
        .collect::<Result<Vec<_>>>()?;
    Ok(union_of_lines(bodies.iter().map(Vec::as_slice)))
}

/// How many bytes and lines a note has at most. A long row has a few hundred lines of about 300 bytes.
const LARGEST: (usize, usize) = (8 << 20, 40_000);

/// The content of a blob of a notes tree; `None` for one that is larger than notes of ours can be, of which nothing is read.
/// A remote can send hundreds of megabytes in a few hundred kilobytes.
///
/// # Errors
/// `repo-corrupt` when it is missing.
pub fn read_note(repo: &Repo, blob: Oid) -> Result<Option<Vec<u8>>> {
    if repo.blob_size(blob)? > LARGEST.0 {
        return Ok(None);
    }
    let body = repo.read_blob(blob)?;
    Ok((lines_of(&body).count() <= LARGEST.1).then_some(body))
}

/// As [`lookup`], for many objects: each tree on the way to them is read once. An object without a note is not in
/// the answer.
///
/// # Errors
/// As [`lookup`].
pub fn lookup_many(repo: &Repo, tree: Oid, keys: &BTreeSet<Oid>) -> Result<Vec<(Oid, Oid)>> {
    let mut found = Vec::new();
    let keys: Vec<Oid> = keys.iter().copied().collect();
    lookup_below(repo, tree, &mut Vec::new(), &keys, &mut found)?;
    Ok(found)
}

/// Looks for keys that all begin with the prefix, in their order.
fn lookup_below(
    repo: &Repo,
    tree: Oid,
    prefix: &mut Vec<u8>,
    keys: &[Oid],
    found: &mut Vec<(Oid, Oid)>,
) -> Result<()> {
    let level = read_level(repo, tree, prefix)?;
    let is_wanted = |note: &(Oid, Oid)| keys.binary_search(&note.0).is_ok();
    found.extend(level.notes.into_iter().filter(is_wanted));
    for (byte, tree) in level.directories {
        prefix.push(byte);
        let start = keys.partition_point(|key| key.as_bytes().as_slice() < prefix.as_slice());
        let behind = keys.get(start..).unwrap_or_default();
        let end = behind.partition_point(|key| key.as_bytes().starts_with(prefix));
        if let Some(below @ [_, ..]) = behind.get(..end) {
            lookup_below(repo, tree, prefix, below, found)?;
        }
        prefix.pop();
    }
    Ok(())
}

/// Every note whose annotated object begins with these hex digits (as values 0 to 15), with
/// duplicates where the tree has them.
///
/// # Errors
/// As [`lookup`].
pub fn with_prefix(repo: &Repo, tree: Oid, nibbles: &[u8]) -> Result<Vec<(Oid, Oid)>> {
    let mut found = Vec::new();
    Directories::default().collect(repo, tree, &mut Vec::new(), nibbles, &mut found)?;
    Ok(found)
}

/// Every note, in the order of the annotated objects, with duplicates where the tree has them.
///
/// # Errors
/// As [`lookup`].
pub fn all(repo: &Repo, tree: Oid) -> Result<Vec<(Oid, Oid)>> {
    let mut notes = with_prefix(repo, tree, &[])?;
    notes.sort_unstable();
    Ok(notes)
}

/// Whether the top of a tree looks as that of a notes tree does: nothing but notes and their directories.
///
/// # Errors
/// As [`lookup`].
pub fn is_notes_tree(repo: &Repo, tree: Oid) -> Result<bool> {
    Ok(read_level(repo, tree, &[])?.others.is_empty())
}

/// The directories that one walk over a notes tree has opened.
///
/// What is below two directories of one tree has different names, so no directory stands in it twice, unless the tree was
/// made by hand: a few small trees that lead to each other would then stand for more notes than any memory holds.
#[derive(Debug, Default)]
struct Directories(HashSet<Oid>);

impl Directories {
    /// Reads the level of a directory.
    fn read_level(&mut self, repo: &Repo, tree: Oid, prefix: &[u8]) -> Result<NotesLevel> {
        // The top is read for several keys in a row; only directories count.
        if !prefix.is_empty() && !self.0.insert(tree) {
            return Err(Error::new(
                Code::RepoCorrupt,
                format!("directory {tree} is in a tree of notes twice, and git never writes one so"),
            )
            .hint("to see which commits hold it, run git log refs/notes/agents refs/notes/agents-mail"));
        }
        read_level(repo, tree, prefix)
    }

    fn collect(
        &mut self,
        repo: &Repo,
        tree: Oid,
        prefix: &mut Vec<u8>,
        nibbles: &[u8],
        found: &mut Vec<(Oid, Oid)>,
    ) -> Result<()> {
        let level = self.read_level(repo, tree, prefix)?;
        let agrees = |bytes: &[u8]| {
            let spelled = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            spelled.zip(nibbles).all(|(one, &two)| one == two)
        };
        let notes = level.notes.into_iter();
        found.extend(notes.filter(|(key, _)| agrees(key.as_bytes())));
        for (byte, tree) in level.directories {
            prefix.push(byte);
            if agrees(prefix) {
                self.collect(repo, tree, prefix, nibbles, found)?;
            }
            prefix.pop();
        }
        Ok(())
    }
}

// Writing notes with git's own fan-out, touching nothing but the paths to them.
//
// The rule (`notes.c: determine_fanout`): a level is split into two-digit directories iff each of the 16
// values of its next digit leads to at least two notes or to a directory. It is applied level by
// level from the root, and only where all levels above were split.
//
// No id of an agent begins with `a`, so git's rule alone would never split the rows of any number of agents. A level
// with most of the 256 possible directories is split as well, which git reads as it reads any other.
//
// For a set that only grows the tree is a function of the set alone.

/// A level that would have so many directories is split, whatever digits are missing. Random keys of all digits have
/// that many only long after git's own rule split them.
const MANY_DIRECTORIES: usize = 192;

/// What to do with one note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// This blob becomes the note, whatever was there.
    Replace(Oid),
    /// The lines of this blob join whatever is there.
    Union(Oid),
}

/// Notes to be written, by annotated object.
pub type Batch = BTreeMap<Oid, Put>;

/// Writes notes into a tree ([`Oid::EMPTY_TREE`] to begin with) and gives the new tree. Levels on the
/// way are normalised: mixed depths become one, duplicates are united, entries that are no notes stay.
///
/// # Errors
/// `repo-corrupt` when a tree or a blob that is needed is missing; `disk-full`, `repo-read-only`.
pub fn with_notes(repo: &Repo, tree: Oid, batch: Batch) -> Result<Oid> {
    if batch.is_empty() {
        return Ok(tree);
    }
    Ok(put_level(repo, tree, &mut Vec::new(), batch)?.unwrap_or(Oid::EMPTY_TREE))
}

/// Gives the tree of the level, or `None` when nothing is left in it.
fn put_level(repo: &Repo, tree: Oid, prefix: &mut Vec<u8>, batch: Batch) -> Result<Option<Oid>> {
    let mut level = read_level(repo, tree, prefix)?;
    if is_split(&level, &batch, prefix.len()) {
        let mut entries = std::mem::take(&mut level.others);
        let mut waiting = BTreeMap::<u8, Batch>::new();
        let flat = level.notes.drain(..).map(|(key, blob)| (key, Put::Union(blob)));
        // The batch comes last, so that what it replaces stays replaced.
        for (key, value) in flat.chain(batch) {
            let byte = key.as_bytes().get(prefix.len());
            let byte = byte.ok_or_else(|| Error::bug("a level of notes below the last byte"))?;
            join(repo, waiting.entry(*byte).or_default(), key, value)?;
        }
        for (byte, tree) in level.directories {
            // What the batch does not concern keeps its tree, so the cost follows the batch and not
            // the size.
            if !waiting.contains_key(&byte) {
                entries.push(directory_entry(byte, tree));
            } else if let Some(below) = waiting.remove(&byte) {
                entries.extend(put_below(repo, tree, prefix, byte, below)?);
            }
        }
        for (byte, below) in waiting {
            entries.extend(put_below(repo, Oid::EMPTY_TREE, prefix, byte, below)?);
        }
        return write_entries(repo, entries);
    }
    let mut notes = Batch::new();
    let mut entries = std::mem::take(&mut level.others);
    // Deletions or a foreign writer may have left directories where git's rule wants none any more.
    flatten(repo, (&mut Directories::default(), level), prefix, (&mut notes, &mut entries))?;
    for (key, value) in batch {
        join(repo, &mut notes, key, value)?;
    }
    for (key, value) in notes {
        let (Put::Replace(oid) | Put::Union(oid)) = value;
        let name = key.to_hex().into_bytes().split_off(prefix.len() * 2);
        entries.push(tree::Entry { mode: tree::FILE, name, oid });
    }
    write_entries(repo, entries)
}

fn put_below(
    repo: &Repo,
    tree: Oid,
    prefix: &mut Vec<u8>,
    byte: u8,
    below: Batch,
) -> Result<Option<tree::Entry>> {
    prefix.push(byte);
    let tree = put_level(repo, tree, prefix, below);
    prefix.pop();
    Ok(tree?.map(|tree| directory_entry(byte, tree)))
}

/// Whether this level is split with the batch already in it.
fn is_split(level: &NotesLevel, batch: &Batch, depth: usize) -> bool {
    // A directory counts for two, as in git: it holds more than one note.
    let directories = level.directories.iter().flat_map(|(byte, _)| [*byte; 2]);
    let flat = level.notes.iter().map(|(key, _)| key);
    // Within one level git's order of names is the order of the keys.
    let is_flat = |key: &Oid| level.notes.binary_search_by_key(key, |note| note.0).is_ok();
    let new = batch.keys().filter(|key| !is_flat(key));
    let notes = flat.chain(new).filter_map(|key| key.as_bytes().get(depth).copied());
    let (mut digits, mut bytes) = (HashMap::<u8, usize>::new(), HashSet::new());
    for byte in directories.chain(notes) {
        *digits.entry(byte >> 4).or_default() += 1;
        bytes.insert(byte);
    }
    let is_full = digits.len() == 16 && digits.values().all(|count| *count >= 2);
    depth < DEEPEST && (is_full || bytes.len() >= MANY_DIRECTORIES)
}

/// Moves the notes of the level and of all directories below it into `notes`. What is no note keeps
/// its directory.
fn flatten(
    repo: &Repo,
    (seen, level): (&mut Directories, NotesLevel),
    prefix: &mut Vec<u8>,
    (notes, entries): (&mut Batch, &mut Vec<tree::Entry>),
) -> Result<()> {
    for (key, blob) in level.notes {
        join(repo, notes, key, Put::Union(blob))?;
    }
    for (byte, tree) in level.directories {
        prefix.push(byte);
        let mut below = seen.read_level(repo, tree, prefix)?;
        let mut rest = std::mem::take(&mut below.others);
        flatten(repo, (&mut *seen, below), prefix, (&mut *notes, &mut rest))?;
        prefix.pop();
        entries.extend(write_entries(repo, rest)?.map(|tree| directory_entry(byte, tree)));
    }
    Ok(())
}

/// Adds one note to a batch, uniting it with what the batch holds for the same object.
fn join(repo: &Repo, batch: &mut Batch, key: Oid, value: Put) -> Result<()> {
    let joined = match (batch.remove(&key), value) {
        (Some(Put::Union(one)), Put::Union(two)) if one != two => {
            Put::Union(union_of_blobs(repo, one.min(two), one.max(two))?)
        }
        (Some(Put::Replace(oid)), Put::Union(_)) => Put::Replace(oid),
        (_, value) => value,
    };
    batch.insert(key, joined);
    Ok(())
}

/// One blob with the lines of two, in whatever order they come. What is too large does not replace what can be read, and
/// neither do the two together: half of a note stays free for events that are appended.
fn union_of_blobs(repo: &Repo, one: Oid, two: Oid) -> Result<Oid> {
    let (first, second) = match (read_note(repo, one)?, read_note(repo, two)?) {
        (Some(first), Some(second)) => (first, second),
        (None, Some(_)) => return Ok(two),
        (_, None) => return Ok(one),
    };
    let union = union_of_lines([first.as_slice(), &second]);
    let adds = union.len() > first.len().max(second.len());
    if adds && (union.len() > LARGEST.0 / 2 || lines_of(&union).count() > LARGEST.1 / 2) {
        return Ok(if second.len() < first.len() { two } else { one });
    }
    repo.write_blob(&union)
}

fn directory_entry(byte: u8, oid: Oid) -> tree::Entry {
    tree::Entry { mode: tree::DIRECTORY, name: format!("{byte:02x}").into_bytes(), oid }
}

fn write_entries(repo: &Repo, entries: Vec<tree::Entry>) -> Result<Option<Oid>> {
    if entries.is_empty() {
        return Ok(None);
    }
    repo.write_tree(entries).map(Some)
}

// What one notes tree has that another has not, and the union of two, by structure: subtrees with
// equal names are not opened, so the cost follows the difference and not the size.

/// Notes: the annotated object and the blob.
type Notes = BTreeSet<(Oid, Oid)>;

/// The notes of `new` that differ from those of `old`. Where the trees are split differently it may name a note that did
/// not change.
///
/// # Errors
/// `repo-corrupt` when a tree is missing.
pub fn added_notes(repo: &Repo, old: Oid, new: Oid) -> Result<Notes> {
    compared_notes(repo, old, new).map(|(_, added)| added)
}

/// As [`added_notes`], after the notes of `old` that differ from those of `new`.
///
/// # Errors
/// As [`added_notes`].
pub fn compared_notes(repo: &Repo, old: Oid, new: Oid) -> Result<(Notes, Notes)> {
    let mut comparison = Comparison::default();
    comparison.go_on(repo, old, new, &mut Vec::new())?;
    Ok(comparison.found)
}

/// Two notes trees, as far as they were compared.
#[derive(Default)]
struct Comparison {
    old: Directories,
    new: Directories,
    found: (Notes, Notes),
}

impl Comparison {
    fn go_on(&mut self, repo: &Repo, old: Oid, new: Oid, prefix: &mut Vec<u8>) -> Result<()> {
        if old == new {
            return Ok(());
        }
        let (old, new) =
            (self.old.read_level(repo, old, prefix)?, self.new.read_level(repo, new, prefix)?);
        let (mut known, mut fresh) = (old.notes.clone(), new.notes.clone());
        for &(byte, tree) in &new.directories {
            prefix.push(byte);
            match directory_of(&old, byte) {
                Some(old) => self.go_on(repo, old, tree, prefix)?,
                // The old side may hold the same notes one level higher, which the difference below
                // takes out again.
                None => self.new.collect(repo, tree, prefix, &[], &mut fresh)?,
            }
            prefix.pop();
        }
        // A directory that is gone may have been flattened into this level.
        for &(byte, tree) in &old.directories {
            if directory_of(&new, byte).is_none() {
                prefix.push(byte);
                self.old.collect(repo, tree, prefix, &[], &mut known)?;
                prefix.pop();
            }
        }
        let (known, fresh): (Notes, Notes) =
            (known.into_iter().collect(), fresh.into_iter().collect());
        self.found.0.extend(known.difference(&fresh));
        self.found.1.extend(fresh.difference(&known));
        Ok(())
    }
}

fn directory_of(level: &NotesLevel, byte: u8) -> Option<Oid> {
    level.directories.iter().find(|(other, _)| *other == byte).map(|(_, tree)| *tree)
}

/// The union of two notes trees: every note of both, line by line. Nothing is ever dropped, so this is
/// also what restores lines that a foreign writer lost.
///
/// # Errors
/// As [`with_notes`].
pub fn union_of_trees(repo: &Repo, one: Oid, two: Oid) -> Result<Oid> {
    let missing = added_notes(repo, one, two)?;
    let mut tree = one;
    let mut batch = Batch::new();
    for (key, blob) in missing {
        // A second blob for the same object (a tree with duplicates) needs a second pass.
        if batch.contains_key(&key) {
            tree = with_notes(repo, tree, std::mem::take(&mut batch))?;
        }
        batch.insert(key, Put::Union(blob));
    }
    with_notes(repo, tree, batch)
}

/// The commit that unites two histories of notes. Two clones that unite the same two commits make the
/// same one, so that neither has to merge the other's merge: parents and trees are taken in the
/// order of the commits' names, author and time depend on nothing else.
///
/// # Errors
/// As [`with_notes`].
pub fn union_commit(repo: &Repo, ours: Oid, theirs: Oid, subject: &str) -> Result<Oid> {
    let mut parents = [ours, theirs];
    parents.sort_unstable();
    let (one, two) = (repo.read_commit(parents[0])?, repo.read_commit(parents[1])?);
    let tree = union_of_trees(repo, one.tree, two.tree)?;
    // A side that holds everything and descends from the other needs no merge.
    let base = repo.merge_base(one.oid, two.oid)?;
    for (older, newer) in [(&one, &two), (&two, &one)] {
        // Only then is the merge already there: a newer commit of a foreign writer may have dropped
        // lines.
        if base == Some(older.oid) && newer.tree == tree {
            return Ok(newer.oid);
        }
    }
    let who = Identity::stand_in(one.seconds.max(two.seconds));
    repo.write_commit(&NewCommit::ours(
        &who,
        tree,
        &parents,
        &format!("{subject}\n\nGit-Agent: 1\n"),
    ))
}

// Note bodies as sets of lines: sorted by byte, unique, each ended by a line feed. This is what `git
// notes merge -s cat_sort_uniq` makes of two bodies; empty lines, which `git notes append` puts
// between paragraphs, carry nothing and vanish as they do there.

/// The union of several bodies.
pub fn union_of_lines<'a>(bodies: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bodies.into_iter().flat_map(lines_of).collect();
    lines.sort_unstable();
    lines.dedup();
    let mut body = Vec::with_capacity(lines.iter().map(|line| line.len() + 1).sum());
    for line in lines {
        body.extend_from_slice(line);
        body.push(b'\n');
    }
    body
}

/// The lines of a body, without empty ones.
pub fn lines_of(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|&b| b == b'\n').filter(|line| !line.is_empty())
}

impl Repo {
    /// Copies the notes of commits to those that take their place, as `git rebase` does: those that `notes.rewriteRef` names.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn copy_notes(&self, pairs: &[(Oid, Oid)]) -> Result<()> {
        if pairs.is_empty() || self.config_string("notes.rewriteRef")?.is_none() {
            return Ok(());
        }
        let lines = pairs.iter().map(|(old, new)| format!("{old} {new}\n"));
        let mut command = self.plumbing();
        command.args(["notes", "copy", "--stdin", "--for-rewrite=rebase"]);
        let output =
            crate::git::core::command::feed(command, lines.collect::<String>().as_bytes())?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::new(Code::GitFailed, "git notes copy failed").because(said))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bodies_become_sorted_sets_of_lines() {
        let body = union_of_lines([b"b\n\na".as_slice(), b"c\nb\n", b""]);
        assert_eq!(body, b"a\nb\nc\n");
        assert_eq!(union_of_lines([b"\n\n".as_slice()]), b"");
    }

    proptest! {
        #[test]
        fn union_is_commutative_associative_and_idempotent(a: Vec<u8>, b: Vec<u8>, c: Vec<u8>) {
            let two = |x: &[u8], y: &[u8]| union_of_lines([x, y]);
            prop_assert_eq!(two(&a, &b), two(&b, &a));
            prop_assert_eq!(two(&two(&a, &b), &c), two(&a, &two(&b, &c)));
            prop_assert_eq!(two(&two(&a, &b), &b), two(&a, &b));
        }
    }
}
