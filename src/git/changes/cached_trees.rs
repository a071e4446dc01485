//! The TREE extension of an index: the trees that git has made of its directories already.

use crate::domain::oid::Oid;
use std::collections::HashMap;
use std::ops::Range;

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
pub(super) fn children<'b>(
    bytes: &'b [u8],
    trees: &[CachedTree],
    parent: usize,
) -> HashMap<&'b [u8], usize> {
    let mut children = HashMap::new();
    let mut at = parent + 1;
    while at < trees[parent].end {
        children.insert(&bytes[trees[at].name.clone()], at);
        at = trees[at].end;
    }
    children
}

/// Reads the extension, parents before children: per directory its name, NUL, entries below (-1: unknown),
/// blank, subdirectories, LF, and the tree's oid where the entries are known.
pub(super) fn read(bytes: &[u8], body: Range<usize>) -> Option<Vec<CachedTree>> {
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
    let number = |field: Range<usize>| std::str::from_utf8(&bytes[field]).ok()?.parse::<i64>().ok();
    while at < body.end {
        let name = until(&mut at, 0)?;
        if trees.is_empty() != name.is_empty() {
            return None;
        }
        let entries = number(until(&mut at, b' ')?)?;
        let children = usize::try_from(number(until(&mut at, b'\n')?)?).ok()?;
        let mut valid = None;
        if let Ok(entries) = usize::try_from(entries) {
            valid = Some((entries, Oid::from_slice(bytes.get(at..at + 20)?)?));
            at += 20;
        }
        if let Some((_, left)) = open.last_mut() {
            *left = left.checked_sub(1)?;
        }
        open.push((trees.len(), children));
        trees.push(CachedTree {
            name,
            valid,
            end: trees.len() + 1,
        });
        while let Some((done, _)) = open.pop_if(|(_, left)| *left == 0) {
            trees[done].end = trees.len();
        }
    }
    open.is_empty().then_some(trees)
}
