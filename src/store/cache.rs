//! All rows at once, with a disposable copy of the notes so that listing does not read every object.
//!
//! The file holds the notes of one tree, each as `<spawn commit> <length>\n<body>`, between a first line
//! that names the tree and a last one that counts the notes. A tree that moved on is compared with
//! the cached one by structure and only the changed notes are read. A file that is missing, cut short,
//! of another version or of an unknown tree is made again; it is never repaired.

use super::ledger::{Ledger, body_of, parse};
use super::{fsx, layout};
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::notes::{self, union};
use std::collections::{BTreeMap, BTreeSet};

/// The first line, before the tree's name.
const MAGIC: &str = "git-agent ledger cache 1 ";

type Bodies = BTreeMap<Oid, Vec<u8>>;

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
        let needle = escaped.trim_matches('"').as_bytes();
        let bodies = self.read(|tree| self.bodies(tree))?.unwrap_or_default();
        let mut agents: Vec<Agent> = bodies
            .iter()
            .filter(|(_, body)| contains(body, needle))
            .filter_map(|(key, body)| {
                Agent::fold(*key, &parse(body, AgentId::from_spawn_commit(*key)))
            })
            .collect();
        agents.sort_by_key(|agent| (agent.started, agent.spawn_commit));
        Ok(agents)
    }

    fn bodies(&self, tree: Oid) -> Result<Bodies> {
        let path = layout::ledger_cache(self.repo.common_dir());
        let cached = fsx::load_if_there(&path).ok().flatten();
        let (old, mut bodies) = cached
            .and_then(|content| parse_file(&content))
            .unwrap_or((Oid::EMPTY_TREE, Bodies::new()));
        if old == tree {
            return Ok(bodies);
        }
        let changed = match self.difference(old, tree) {
            Ok(changed) => changed,
            // The cached tree is gone, or the new one is damaged: the full walk tells.
            Err(_) => {
                bodies.clear();
                notes::all(self.repo, tree)?
                    .into_iter()
                    .map(|note| note.0)
                    .collect()
            }
        };
        let count = changed.len();
        for key in changed {
            let body = body_of(self.repo, tree, key)?;
            if body.is_empty() {
                bodies.remove(&key);
            } else {
                bodies.insert(key, body);
            }
        }
        // Writing pays off only when enough has changed.
        if count > 32 + bodies.len() / 64 {
            let directory = layout::cache_dir(self.repo.common_dir());
            // Without a cache everything works, only slower.
            let _ = fsx::create_dir(&directory)
                .and_then(|()| fsx::write_atomic(&path, &render_file(tree, &bodies)));
        }
        Ok(bodies)
    }

    /// The keys of all notes that are not the same in both trees, removed ones (a foreign `git notes
    /// remove`) included.
    fn difference(&self, old: Oid, new: Oid) -> Result<BTreeSet<Oid>> {
        let mut changed = union::added(self.repo, old, new)?;
        changed.extend(union::added(self.repo, new, old)?);
        Ok(changed.into_iter().map(|note| note.0).collect())
    }
}

fn render_file(tree: Oid, bodies: &Bodies) -> Vec<u8> {
    let mut content = format!("{MAGIC}{tree}\n").into_bytes();
    for (key, body) in bodies {
        content.extend_from_slice(format!("{key} {}\n", body.len()).as_bytes());
        content.extend_from_slice(body);
    }
    content.extend_from_slice(format!("end {}\n", bodies.len()).as_bytes());
    content
}

fn parse_file(content: &[u8]) -> Option<(Oid, Bodies)> {
    let (first, mut rest) = split_line(content)?;
    let tree = Oid::from_hex(first.strip_prefix(MAGIC)?)?;
    let mut bodies = Bodies::new();
    loop {
        let (line, after) = split_line(rest)?;
        let (word, number) = line.split_once(' ')?;
        let number: usize = number.parse().ok()?;
        if word == "end" {
            return (number == bodies.len() && after.is_empty()).then_some((tree, bodies));
        }
        let body = after.get(..number)?;
        bodies.insert(Oid::from_hex(word)?, body.to_owned());
        rest = &after[number..];
    }
}

fn split_line(content: &[u8]) -> Option<(&str, &[u8])> {
    let end = content.iter().position(|&b| b == b'\n')?;
    let line = std::str::from_utf8(&content[..end]).ok()?;
    Some((line, &content[end + 1..]))
}

fn contains(body: &[u8], needle: &[u8]) -> bool {
    needle.is_empty() || body.windows(needle.len()).any(|window| window == needle)
}
