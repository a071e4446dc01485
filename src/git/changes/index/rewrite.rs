//! An index that differs from one that was read at a few paths alone.
//!
//! `git update-index` could make it, but forgets the cached tree of every directory above what it touches, and
//! they come back with the next commit only. Here the trees on both sides are known, so the cache stays whole.
//! What git keeps in extensions of its own stays git's to write.

use super::{CHECKSUM, Content, Entry, FIXED, HEADER, Index, be32};
use crate::domain::oid::Oid;
use crate::git::tree::GITLINK;
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;

/// Where the size stands among the stat data, and the flags among what is fixed.
const SIZE: usize = 36;
const FLAGS: usize = 60;

/// What becomes of some paths, and of the directories above them.
#[derive(Debug, Default)]
pub(in crate::git) struct Edits {
    /// What each path holds from now on; `None` for nothing.
    pub(in crate::git) paths: BTreeMap<Vec<u8>, Option<Content>>,
    /// The tree of each directory above them before, and after where that names the same subdirectories. Empty
    /// for the top, else ending in `/`.
    pub(in crate::git) trees: BTreeMap<Vec<u8>, (Oid, Option<Oid>)>,
}

impl Index {
    /// Every path, in git's order.
    pub(in crate::git) fn paths(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.path(entry))
    }

    /// What stands at a path.
    pub(in crate::git) fn find(&self, path: &[u8]) -> Option<&Entry> {
        let at = { &self.entries }.binary_search_by(|entry| self.path(entry).cmp(path));
        at.ok().map(|at| &self.entries[at])
    }

    /// Whether a file at `path` would be a directory to some entry, or below one that is a file.
    pub(in crate::git) fn bars(&self, path: &[u8]) -> bool {
        let above = (0..path.len()).filter(|&at| path[at] == b'/');
        let below = [path, b"/"].concat();
        let after = { &self.entries }.partition_point(|entry| self.path(entry) < below.as_slice());
        let next = self.entries.get(after);
        next.is_some_and(|entry| self.path(entry).starts_with(&below)) || { above }
            .any(|end| self.find(&path[..end]).is_some())
    }

    /// The file of an index with these edits. An edited entry has no stat data, so git looks at its file; an entry
    /// whose file changed in the second in which this index was `written`, or later, is marked for the same, as git
    /// marks it: most builds of git know no less than a second. `None` where git has to write it.
    pub(in crate::git) fn rewritten(&self, written: i64, edits: &Edits) -> Option<Vec<u8>> {
        if self.is_flagged || be32(&self.bytes, 4)? > 3 || !self.has_no_extension_but_trees()? {
            return None;
        }
        let mut out = Vec::with_capacity(self.bytes.len() + edits.paths.len() * 128);
        out.extend_from_slice(self.bytes.get(..HEADER)?);
        let mut count = 0u32;
        let mut edited = edits.paths.iter().peekable();
        for entry in &self.entries {
            let path = self.path(entry);
            while let Some((new, content)) = edited.next_if(|(new, _)| new.as_slice() < path) {
                count += put(&mut out, new, *content)?;
            }
            if let Some((_, content)) = edited.next_if(|(new, _)| new.as_slice() == path) {
                count += put(&mut out, path, *content)?;
                continue;
            }
            let start = out.len();
            out.extend_from_slice(self.bytes.get(self.extent(entry)?)?);
            if self.is_racy(entry, written) {
                out[start + SIZE..start + SIZE + 4].fill(0);
            }
            count += 1;
        }
        for (new, content) in edited {
            count += put(&mut out, new, *content)?;
        }
        out[8..HEADER].copy_from_slice(&count.to_be_bytes());
        if !self.trees.is_empty() {
            let trees = self.rewritten_trees(edits)?;
            out.extend_from_slice(b"TREE");
            out.extend_from_slice(&u32::try_from(trees.len()).ok()?.to_be_bytes());
            out.extend_from_slice(&trees);
        }
        let checksum = Sha1::digest(&out);
        out.extend_from_slice(&checksum);
        Some(out)
    }

    /// Where an entry stands in the file, with its terminators.
    fn extent(&self, entry: &Entry) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(entry.at).ok()?;
        let length = FIXED + self.path(entry).len();
        Some(start..start + length + 8 - length % 8)
    }

    fn is_racy(&self, entry: &Entry, written: i64) -> bool {
        let [_, _, seconds, ..] = self.stat(entry);
        entry.content.0 != GITLINK && i64::from(seconds) >= written
    }

    fn has_no_extension_but_trees(&self) -> Option<bool> {
        let mut at = match self.entries.last() {
            Some(last) => self.extent(last)?.end,
            None => HEADER,
        };
        while at < self.bytes.len() - CHECKSUM {
            if self.bytes.get(at..at + 4)? != b"TREE" {
                return Some(false);
            }
            at += 8 + usize::try_from(be32(&self.bytes, at + 4)?).ok()?;
        }
        Some(true)
    }

    /// The extension's text. A directory whose entries are not known to be those of its tree before is not known
    /// after either, nor is one above it.
    fn rewritten_trees(&self, edits: &Edits) -> Option<Vec<u8>> {
        let mut valid = Vec::with_capacity(self.trees.len());
        let mut parents = Vec::with_capacity(self.trees.len());
        // The directories that what comes next is in: position, end, and the length of their path.
        let mut open: Vec<(usize, usize, usize)> = Vec::new();
        let mut path: Vec<u8> = Vec::new();
        for (at, tree) in self.trees.iter().enumerate() {
            while open.pop_if(|(_, end, _)| *end <= at).is_some() {}
            path.truncate(open.last().map_or(0, |(.., length)| *length));
            if at > 0 {
                path.extend_from_slice(&self.bytes[tree.name.clone()]);
                path.push(b'/');
            }
            parents.push(open.last().map(|(parent, ..)| *parent));
            open.push((at, tree.end, path.len()));
            valid.push(self.valid_after(tree.valid, &path, edits));
        }
        for at in (1..valid.len()).rev() {
            if let (None, Some(parent)) = (valid[at], parents[at]) {
                valid[parent] = None;
            }
        }
        let mut children = vec![0usize; valid.len()];
        parents
            .iter()
            .flatten()
            .for_each(|parent| children[*parent] += 1);
        let mut out = Vec::new();
        for (at, tree) in self.trees.iter().enumerate() {
            out.extend_from_slice(&self.bytes[tree.name.clone()]);
            let entries = valid[at].map_or("-1".to_owned(), |(count, _)| count.to_string());
            out.extend_from_slice(format!("\0{entries} {}\n", children[at]).as_bytes());
            out.extend(valid[at].iter().flat_map(|(_, oid)| oid.as_bytes()));
        }
        Some(out)
    }

    /// How many entries a directory has after the edits, and their tree.
    fn valid_after(
        &self,
        valid: Option<(usize, Oid)>,
        directory: &[u8],
        edits: &Edits,
    ) -> Option<(usize, Oid)> {
        let from = edits.paths.range(directory.to_vec()..);
        let below = from.take_while(|(path, _)| path.starts_with(directory));
        let (mut count, oid) = valid?;
        let mut edited = false;
        for (path, content) in below {
            edited = true;
            count += usize::from(content.is_some());
            count = count.checked_sub(usize::from(self.find(path).is_some()))?;
        }
        if !edited {
            return valid;
        }
        let (before, after) = edits.trees.get(directory)?;
        Some((count, (*after)?)).filter(|_| *before == oid)
    }
}

/// Adds an entry that knows nothing of its file; gives how many were added.
fn put(out: &mut Vec<u8>, path: &[u8], content: Option<Content>) -> Option<u32> {
    let Some((mode, oid)) = content else {
        return Some(0);
    };
    let mut fixed = [0; FIXED];
    fixed[24..28].copy_from_slice(&mode.to_be_bytes());
    fixed[40..FLAGS].copy_from_slice(oid.as_bytes());
    // Twelve bits; a longer path is found by its terminator.
    let length = u16::try_from(path.len()).unwrap_or(u16::MAX).min(0xfff);
    fixed[FLAGS..].copy_from_slice(&length.to_be_bytes());
    out.extend_from_slice(&fixed);
    out.extend_from_slice(path);
    out.extend_from_slice(&[0; 8][..8 - (FIXED + path.len()) % 8]);
    Some(1)
}
