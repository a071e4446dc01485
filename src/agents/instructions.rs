//! The project's own instructions for agents, such as `AGENTS.md`: the nearest file above what an agent may touch.

use crate::domain::glob::{Glob, Reach};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::hosts;

/// The nearest file of instructions for each glob, at the commit, from the top of its tree; each once.
///
/// # Errors
/// Those of reading the trees.
pub fn nearest(repo: &Repo, commit: Oid, globs: &[Glob]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for reach in globs.iter().flat_map(Glob::reach) {
        let (Reach::Below(place) | Reach::Path(place)) = reach;
        let file = above(repo, commit, &place)?;
        found.extend(file.filter(|file| !found.contains(file)));
    }
    Ok(found)
}

/// The instructions in the deepest directory of this path that has some.
fn above(repo: &Repo, commit: Oid, place: &str) -> Result<Option<String>> {
    let mut entries = repo.read_tree(repo.read_commit(commit)?.tree)?;
    let mut directory = String::new();
    let mut nearest = None;
    let mut parts = place.split('/');
    loop {
        let is_here = |name: &&&str| {
            let named = entries.iter().find(|entry| entry.name == name.as_bytes());
            named.is_some_and(|entry| entry.is_file())
        };
        if let Some(name) = hosts::INSTRUCTIONS.iter().find(is_here) {
            nearest = Some(format!("{directory}{name}"));
        }
        let Some(part) = parts.next() else {
            return Ok(nearest);
        };
        let below = entries.iter().find(|entry| entry.name == part.as_bytes());
        let Some(below) = below.filter(|entry| entry.is_directory()) else {
            return Ok(nearest);
        };
        directory.push_str(&format!("{part}/"));
        entries = repo.read_tree(below.oid)?;
    }
}
