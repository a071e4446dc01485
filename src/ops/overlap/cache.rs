//! Merges that were tried before, in one disposable file.
//!
//! One line of JSON for each: the two commits, the commit whose attributes counted, and what came out. The
//! oids say everything that a merge depends on but the user's settings, so an entry is never wrong for
//! long; a file that cannot be read is as good as none.

use crate::domain::oid::Oid;
use crate::git::Repo;
use crate::ops::overlap::merges::Outcome;
use crate::store::{fsx, layout};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// More merges than this are not remembered: it is what 100 agents can make of each other, twice.
const MOST: usize = 10_000;

type Key = (Oid, Oid, Oid);

/// One line of the file.
#[derive(Serialize, Deserialize)]
struct Entry {
    version: String,
    ours: String,
    theirs: String,
    attributes: String,
    outcome: Outcome,
}

/// What is remembered.
pub(super) struct Cache {
    path: PathBuf,
    known: BTreeMap<Key, Outcome>,
    /// What this run asked for, which outlives the rest.
    used: BTreeMap<Key, Outcome>,
    grown: bool,
}

impl Cache {
    pub(super) fn load(repo: &Repo) -> Cache {
        let path = layout::cache_dir(repo.common_dir()).join("overlap");
        let content = fsx::load_if_there(&path).ok().flatten().unwrap_or_default();
        let known = content.split(|&byte| byte == b'\n').filter_map(|line| {
            let entry: Entry = serde_json::from_slice(line).ok()?;
            let oid = Oid::from_hex;
            let key = (
                oid(&entry.ours)?,
                oid(&entry.theirs)?,
                oid(&entry.attributes)?,
            );
            (entry.version == env!("CARGO_PKG_VERSION")).then_some((key, entry.outcome))
        });
        Cache {
            known: known.collect(),
            used: BTreeMap::new(),
            grown: false,
            path,
        }
    }

    pub(super) fn look_up(&mut self, ours: Oid, theirs: Oid, attributes: Oid) -> Option<Outcome> {
        let key = (ours, theirs, attributes);
        let outcome = self.known.get(&key)?.clone();
        self.used.insert(key, outcome.clone());
        Some(outcome)
    }

    pub(super) fn remember(&mut self, ours: Oid, theirs: Oid, attributes: Oid, outcome: &Outcome) {
        self.used
            .insert((ours, theirs, attributes), outcome.clone());
        self.grown = true;
    }

    /// Writes the file when there is something new in it. Without a cache everything works, only slower.
    pub(super) fn store(mut self) {
        if !self.grown {
            return;
        }
        self.known.retain(|key, _| !self.used.contains_key(key));
        let entries = self.used.iter().chain(&self.known).take(MOST);
        let mut content = Vec::new();
        for ((ours, theirs, attributes), outcome) in entries {
            let entry = Entry {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                ours: ours.to_hex(),
                theirs: theirs.to_hex(),
                attributes: attributes.to_hex(),
                outcome: outcome.clone(),
            };
            // Texts and lists of texts always serialize.
            content.extend(serde_json::to_vec(&entry).unwrap_or_default());
            content.push(b'\n');
        }
        if let Some(directory) = self.path.parent() {
            let _ =
                fsx::create_dir(directory).and_then(|()| fsx::write_atomic(&self.path, &content));
        }
    }
}
