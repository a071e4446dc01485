//! What agents may touch, with a disposable copy of the scopes that spawn commits carry, so that a look at a thousand
//! agents does not read a thousand objects. A spawn commit never changes, so what was read of one stays right.

use super::row_index::LiveRow;
use super::spawn_commit::SpawnCommit;
use super::{cache_file, fsx, layout, policy};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::wire::policy::Policy;
use std::collections::{BTreeMap, HashMap};

/// What the file holds.
const KIND: &str = "git-agent scope cache 1 ";

/// What an agent may touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundScope {
    /// No file.
    Nothing,
    /// What these globs allow.
    Globs(ScopeText),
    /// What a policy of another version says, or none.
    Unknown,
}

/// Whitelist and denylist in one text, the same for the same globs, so that many agents with one scope take one
/// comparison.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScopeText(Vec<u8>);

impl ScopeText {
    /// Of these globs.
    pub fn of(whitelist: &[String], denylist: &[String]) -> ScopeText {
        // Texts always serialize.
        ScopeText(serde_json::to_vec(&(whitelist, denylist)).unwrap_or_default())
    }

    /// Whitelist and denylist; `None` for a text that is cut short.
    pub fn globs(&self) -> Option<(Vec<String>, Vec<String>)> {
        serde_json::from_slice(&self.0).ok()
    }
}

impl BoundScope {
    fn of(policy: &Policy) -> BoundScope {
        if policy.edits {
            BoundScope::Globs(ScopeText::of(&policy.whitelist, &policy.denylist))
        } else {
            BoundScope::Nothing
        }
    }
}

/// The scopes of agents that are asked for one by one.
pub struct ScopeCache<'r> {
    repo: &'r Repo,
    /// What the file has.
    kept: BTreeMap<Oid, BoundScope>,
    /// What was asked for, as the next file has it.
    asked: Vec<(Oid, BoundScope)>,
    /// How many of these the file does not have.
    missing: usize,
}

impl<'r> ScopeCache<'r> {
    /// With what is remembered; a file that is not whole is passed over.
    pub fn open(repo: &'r Repo) -> ScopeCache<'r> {
        let mut kept = BTreeMap::new();
        let mut texts = HashMap::new();
        let file = fsx::open(&layout::scope_cache(repo.common_dir()));
        let whole = file.ok().and_then(|mut file| {
            cache_file::read(&mut file, KIND, |key, body| {
                if body.is_empty() {
                    kept.insert(key, BoundScope::Nothing);
                    return;
                }
                let text = ScopeText(body.to_owned());
                // One that cannot be read is looked for again.
                let is_whole =
                    *{ texts.entry(text.clone()) }.or_insert_with(|| text.globs().is_some());
                if is_whole {
                    kept.insert(key, BoundScope::Globs(text));
                }
            })
        });
        if whole.is_none() {
            kept.clear();
        }
        ScopeCache {
            repo,
            kept,
            asked: Vec::new(),
            missing: 0,
        }
    }

    /// What an agent may touch.
    ///
    /// # Errors
    /// As [`policy::of_agent`].
    pub fn of_agent(&mut self, agent: &LiveRow) -> Result<BoundScope> {
        let (key, Some(blob)) = (agent.spawn_commit, agent.policy) else {
            return Ok(BoundScope::Unknown);
        };
        // The copy is of what spawn commits say.
        if agent.amended.is_some() {
            let policy = policy::bound(self.repo, key, blob, agent.amended)?;
            return Ok(policy.as_ref().map_or(BoundScope::Unknown, BoundScope::of));
        }
        let scope = match self.kept.remove(&key) {
            Some(scope) => scope,
            None => match SpawnCommit::read(self.repo, key)? {
                Some(spawn) => {
                    self.missing += 1;
                    BoundScope::of(&spawn.terms)
                }
                None => {
                    let policy = policy::load(self.repo, blob)?;
                    return Ok(policy.as_ref().map_or(BoundScope::Unknown, BoundScope::of));
                }
            },
        };
        self.asked.push((key, scope.clone()));
        Ok(scope)
    }

    /// Remembers what was asked for, where enough of it is new.
    pub fn keep(self) {
        if self.repo.is_scratch() || self.missing <= 32 + self.asked.len() / 64 {
            return;
        }
        let common_dir = self.repo.common_dir();
        // Without a cache everything works, only slower.
        let _ = fsx::create_dir(&layout::cache_dir(common_dir)).and_then(|()| {
            fsx::write_atomic_by(&layout::scope_cache(common_dir), |file| {
                cache_file::write(file, KIND, Oid::EMPTY_TREE, |on| {
                    for (key, scope) in &self.asked {
                        match scope {
                            BoundScope::Globs(text) => on(*key, &text.0),
                            BoundScope::Nothing => on(*key, &[]),
                            BoundScope::Unknown => {}
                        }
                    }
                    Ok(())
                })
            })
        });
    }
}
