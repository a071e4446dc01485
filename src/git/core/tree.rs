//! Tree objects as git stores them: `<octal mode> <name>\0<20 bytes>` repeated, ordered by name with
//! directories compared as if their name ended in `/` (git's `tree.c: base_name_compare`).

use super::command;
use crate::domain::Oid;
use crate::domain::paths::path::split_once;
use crate::error::Result;
use crate::git::Repo;
use std::cmp::Ordering;
use std::collections::HashSet;

/// The mode of a directory entry.
pub const DIRECTORY: u32 = 0o040_000;
/// The mode of a plain file.
pub const FILE: u32 = 0o100_644;
/// The mode of an executable file.
pub const EXECUTABLE: u32 = 0o100_755;
/// The mode of a symbolic link.
pub const SYMLINK: u32 = 0o120_000;
/// The mode of a submodule pointer.
pub const GITLINK: u32 = 0o160_000;

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The mode, as git stores it.
    pub mode: u32,
    /// The name: no `/`, not necessarily UTF-8.
    pub name: Vec<u8>,
    /// The object it points at.
    pub oid: Oid,
}

impl Entry {
    /// Whether the entry is a directory.
    pub fn is_directory(&self) -> bool {
        self.mode == DIRECTORY
    }

    /// Whether the entry is a regular file, executable or not.
    pub fn is_file(&self) -> bool {
        self.mode & 0o170_000 == 0o100_000
    }
}

/// Reads a tree object; `None` when it is malformed.
pub fn parse(mut data: &[u8]) -> Option<Vec<Entry>> {
    let mut entries = Vec::with_capacity(data.len() / 32);
    while !data.is_empty() {
        let (mode, rest) = split_once(data, b' ')?;
        let mode = mode.iter().try_fold(0u32, |mode, &digit| {
            (b'0'..=b'7').contains(&digit).then(|| mode << 3 | u32::from(digit - b'0'))
        })?;
        let (name, rest) = split_once(rest, 0)?;
        let (oid, rest) = rest.split_at_checked(20)?;
        entries.push(Entry { mode, name: name.to_owned(), oid: Oid::from_slice(oid)? });
        data = rest;
    }
    Some(entries)
}

/// Whether the entries are such as git's own check of objects lets pass (`fsck.c: fsck_tree`): in order, each name once, as a file or as a
/// directory, with a mode that git has. Of two entries with one name, different parts of git take different ones.
pub fn is_well_formed(entries: &[Entry]) -> bool {
    let is_sound = |entry: &Entry| {
        let kinds = [DIRECTORY, SYMLINK, GITLINK];
        !entry.name.is_empty()
            && !entry.name.contains(&b'/')
            && (entry.is_file() || kinds.contains(&entry.mode))
    };
    let names: HashSet<&[u8]> = entries.iter().map(|entry| entry.name.as_slice()).collect();
    names.len() == entries.len()
        && entries.iter().all(is_sound)
        && entries.is_sorted_by(|one, two| order(one, two).is_lt())
}

/// Two tree objects without the entries that both begin with and those that both end with; `None` when one is malformed.
/// Most entries of a tree that has changed are as before, and reading them takes much longer than this.
pub fn apart<'t>(one: &'t [u8], two: &'t [u8]) -> Option<[&'t [u8]; 2]> {
    let (left, right) = (split(one)?, split(two)?);
    let begin = common(left.iter(), right.iter());
    let (left, right) = (left.get(begin..)?, right.get(begin..)?);
    // Of what the first pass left, so that no entry is taken off at both ends.
    let end = common(left.iter().rev(), right.iter().rev());
    let part = |tree: &'t [u8], entries: &[&[u8]]| {
        let length = |entries: &[&[u8]]| entries.iter().map(|entry| entry.len()).sum::<usize>();
        let (kept, behind) = entries.split_at(entries.len() - end);
        let to = tree.len() - length(behind);
        tree.get(to - length(kept)..to)
    };
    Some([part(one, left)?, part(two, right)?])
}

/// How many items are equal before the first that differ.
fn common<'e>(
    one: impl Iterator<Item = &'e &'e [u8]>,
    two: impl Iterator<Item = &'e &'e [u8]>,
) -> usize {
    one.zip(two).take_while(|(one, two)| one == two).count()
}

/// The bytes of each entry.
fn split(mut data: &[u8]) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::with_capacity(data.len() / 32);
    while !data.is_empty() {
        let (entry, rest) = data.split_at_checked(memchr::memchr(0, data)? + 21)?;
        entries.push(entry);
        data = rest;
    }
    Some(entries)
}

/// Writes a tree object, in git's order.
pub fn serialize(mut entries: Vec<Entry>) -> Vec<u8> {
    entries.sort_by(order);
    let mut data = Vec::with_capacity(entries.len() * 40);
    for entry in &entries {
        data.extend_from_slice(format!("{:o} ", entry.mode).as_bytes());
        data.extend_from_slice(&entry.name);
        data.push(0);
        data.extend_from_slice(entry.oid.as_bytes());
    }
    data
}

/// Git's order of entries within one tree.
pub fn order(one: &Entry, two: &Entry) -> Ordering {
    fn key(entry: &Entry) -> impl Iterator<Item = u8> + '_ {
        let end = entry.is_directory().then_some(b'/');
        entry.name.iter().copied().chain(end)
    }
    key(one).cmp(key(two))
}

// How much of the disk the files of a tree take.

/// What nearly every file system gives to a file at a time, in bytes.
const BLOCK: u64 = 4096;

impl Repo {
    /// How much of the disk the files of a tree take, in bytes; `None` in a partial clone, where git would fetch the objects that
    /// are not here. Filters that change the size of a file are not looked at.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn disk_use(&self, tree: Oid) -> Result<Option<u64>> {
        if self.is_partial() {
            return Ok(None);
        }
        let mut list = self.plumbing();
        list.args(["ls-tree", "-r", "-z", "--format=%(objectsize)"]);
        list.arg(tree.to_hex());
        let listed = command::successful(list)?;
        let sizes = command::names(&listed)
            .filter_map(|size| std::str::from_utf8(size).ok()?.parse::<u64>().ok());
        Ok(Some(sizes.map(|size| size.next_multiple_of(BLOCK)).sum()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_sort_as_if_they_ended_in_a_slash() {
        let entry = |mode, name: &str| Entry { mode, name: name.into(), oid: Oid::ZERO };
        let data = serialize(vec![entry(DIRECTORY, "a"), entry(FILE, "a.b"), entry(FILE, "a0")]);
        let names: Vec<_> = parse(&data)
            .expect("well formed")
            .into_iter()
            .map(|entry| String::from_utf8(entry.name).expect("ascii"))
            .collect();
        assert_eq!(names, ["a.b", "a", "a0"]);
        assert_eq!(parse(&data[..data.len() - 1]), None);
        assert_eq!(apart(&data, &data[..data.len() - 1]), None);
    }

    #[test]
    fn what_git_would_read_in_two_ways_is_not_well_formed() {
        let entry = |mode, name: &str| Entry { mode, name: name.into(), oid: Oid::ZERO };
        let check = |entries: &[(u32, &str)], expected| {
            let entries: Vec<_> = entries.iter().map(|(mode, name)| entry(*mode, name)).collect();
            assert_eq!(is_well_formed(&entries), expected, "{entries:?}");
        };
        check(&[(FILE, "a"), (FILE, "a.b"), (DIRECTORY, "b"), (FILE, "b0")], true);
        check(&[(0o100_664, "a"), (SYMLINK, "b"), (GITLINK, "c")], true);
        check(&[(FILE, "a"), (FILE, "a")], false);
        check(&[(FILE, "a"), (FILE, "a.b"), (DIRECTORY, "a")], false);
        check(&[(FILE, "b"), (FILE, "a")], false);
        check(&[(FILE, "")], false);
        check(&[(FILE, "a/b")], false);
        check(&[(0o110_000, "a")], false);
    }

    #[test]
    fn trees_apart_hold_what_differs() {
        let tree = |names: &[(&str, u8)]| -> Vec<u8> {
            let entry = |(name, oid): &(&str, u8)| Entry {
                mode: FILE,
                name: (*name).into(),
                // Zeros and digits in a name's object are not taken for those between entries.
                oid: Oid::from_slice(&[b"\x000 "[usize::from(oid % 3)]; 20]).expect("20 bytes"),
            };
            serialize(names.iter().map(entry).collect())
        };
        let check = |one: &[(&str, u8)], two: &[(&str, u8)], expected: [&[(&str, u8)]; 2]| {
            let (one, two) = (tree(one), tree(two));
            let found = apart(&one, &two).expect("well formed");
            assert_eq!(found, expected.map(tree).each_ref().map(Vec::as_slice));
        };
        let all = [("a", 0), ("b", 1), ("c", 2)];
        check(&all, &all, [&[], &[]]);
        check(&all, &[], [&all, &[]]);
        check(&all, &all[1..], [&all[..1], &[]]);
        check(&all[..2], &all, [&[], &all[2..]]);
        check(&all, &[all[0], ("b", 2), all[2]], [&all[1..2], &[("b", 2)]]);
        check(&[("a", 0); 2], &[("a", 0); 3], [&[], &[("a", 0)]]);
    }
}
