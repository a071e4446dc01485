//! A tree taken from the index of a worktree that has it checked out, instead of from its objects,
//! which takes a third of the time.
//!
//! The index is verified first: its entries are made into tree objects again, and the hash of
//! the topmost must be the tree that was asked for. An index that holds anything else, such as staged
//! or forged entries, that misses an empty directory, or whose tree has modes that git no longer writes
//! is passed over. So is one with anything wrong about it: reading the tree's objects says what.

use super::listing::{Listing, require_safe_name};
use super::plain::object_name;
use crate::domain::Oid;
use crate::domain::paths::path::split_once;
use crate::git::core::tree::{DIRECTORY, EXECUTABLE, FILE, GITLINK, SYMLINK};
use gix::index::entry::{Flags, Mode, Stat};
use gix::index::{Entry, File, State, decode};
use gix::validate::path::component;
use std::path::Path;

/// Trees nested deeper than this are read from their objects.
const MAX_DEPTH: usize = 256;

/// The listing of `root` if the index at `path` holds exactly that tree, under safe names.
pub(super) fn listing(path: &Path, root: Oid, validate: component::Options) -> Option<Listing> {
    // The index's own checksum is not looked at: the name of the tree covers all that is used.
    let options = decode::Options::default();
    let index = State::from(File::at(path, gix::hash::Kind::Sha1, true, options).ok()?);
    // Two entries with the same path are the stages of a conflict, and no tree holds both.
    let is_before = |one: &Entry, other: &Entry| one.path(&index) < other.path(&index);
    if !index.entries().is_sorted_by(is_before) {
        return None;
    }
    let mut proof = Proof { listing: Listing::new(), index: &index, validate };
    if proof.tree(index.entries(), 0, MAX_DEPTH)? != root {
        return None;
    }
    let mut listing = proof.listing;
    listing.index = index;
    // Flags and stat data are the other worktree's; only names, modes and objects were proven.
    for entry in listing.index.entries_mut() {
        entry.flags = Flags::empty();
        entry.stat = Stat::default();
    }
    Some(listing)
}

/// How a tree says a mode, with the blank after it; `None` for one that git does not write.
fn octal(mode: u32) -> Option<&'static [u8]> {
    Some(match mode {
        FILE => b"100644 ",
        EXECUTABLE => b"100755 ",
        SYMLINK => b"120000 ",
        GITLINK => b"160000 ",
        DIRECTORY => b"40000 ",
        _ => return None,
    })
}

struct Proof<'i> {
    listing: Listing,
    index: &'i State,
    validate: component::Options,
}

impl Proof<'_> {
    /// The name of the tree that `entries` make, which are all those of one directory; its path, with
    /// the slash, is the first `prefix` bytes of theirs.
    fn tree(&mut self, entries: &[Entry], prefix: usize, levels: usize) -> Option<Oid> {
        let path = entries.first().map_or(&[][..], |first| first.path(self.index));
        // Entered before its subdirectories, as the TREE extension lists parents first; its name is
        // known at the end.
        let own = path.get(..prefix.saturating_sub(1))?;
        let directory = self.listing.enter(Oid::ZERO, own);
        let mut content = Vec::with_capacity(entries.len().min(64) * 40);
        let mut children = 0;
        let mut rest = entries;
        while let Some(entry) = rest.first() {
            let path = entry.path(self.index);
            let name = path.get(prefix..)?;
            let (mode, name, oid, count) = match split_once(name, b'/') {
                // A sparse index has directories for entries.
                None if entry.mode == Mode::DIR => return None,
                None => {
                    require_safe_name(name, Some(entry.mode), path, self.validate).ok()?;
                    (entry.mode.bits(), name, Oid::from_slice(entry.id.as_bytes())?, 1)
                }
                Some((name, _)) => {
                    let below = path.get(..=prefix + name.len())?;
                    // Those below come together, as the entries ascend.
                    let is_below = |entry: &Entry| entry.path(self.index).starts_with(below);
                    let count = rest.partition_point(is_below);
                    require_safe_name(name, None, path, self.validate).ok()?;
                    children += 1;
                    let oid = self.tree(rest.get(..count)?, below.len(), levels.checked_sub(1)?)?;
                    (DIRECTORY, name, oid, count)
                }
            };
            content.extend_from_slice(octal(mode)?);
            content.extend_from_slice(name);
            content.push(0);
            content.extend_from_slice(oid.as_bytes());
            rest = rest.get(count..)?;
        }
        let oid = Oid::from_slice(&object_name("tree", &content))?;
        let directory = self.listing.directories.get_mut(directory)?;
        (directory.oid, directory.entries, directory.children) = (oid, entries.len(), children);
        Some(oid)
    }
}
