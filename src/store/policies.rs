//! The policies of many agents, with a disposable copy of those that spawn commits carry, so that a look at a thousand
//! agents does not read a thousand objects. A spawn commit never changes, so what was read of one stays right.

use super::spawn_commit::SpawnCommit;
use super::{cache_file, fsx, layout, policy};
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use crate::wire::policy::Policy;
use std::collections::BTreeMap;
use std::fs::File;

/// What the file holds.
const KIND: &str = "git-agent policy cache 1 ";

/// The policies of agents that are asked for one by one.
pub struct Policies<'r> {
    repo: &'r Repo,
    /// What the file has, not read into values yet.
    kept: BTreeMap<Oid, Vec<u8>>,
    /// What was asked for, as the next file has it.
    asked: BTreeMap<Oid, Vec<u8>>,
    /// How many of these the file does not have.
    missing: usize,
}

impl<'r> Policies<'r> {
    /// With what is remembered; a file that is not whole is passed over.
    pub fn open(repo: &'r Repo) -> Policies<'r> {
        let mut kept = BTreeMap::new();
        let file = File::open(layout::policy_cache(repo.common_dir()));
        let whole = file.ok().and_then(|mut file| {
            cache_file::read(&mut file, KIND, |key, body| {
                kept.insert(key, body.to_owned());
            })
        });
        if whole.is_none() {
            kept.clear();
        }
        Policies {
            repo,
            kept,
            asked: BTreeMap::new(),
            missing: 0,
        }
    }

    /// As [`policy::of_agent`]; the hash of the specification is empty.
    ///
    /// # Errors
    /// As [`policy::of_agent`].
    pub fn of_agent(&mut self, agent: &Agent) -> Result<Option<Policy>> {
        if agent.policy.is_none() {
            return Ok(None);
        }
        let key = agent.spawn_commit;
        let kept = self.kept.remove(&key);
        let read = kept.as_deref().and_then(Policy::from_bytes);
        if let (Some(policy), Some(bytes)) = (read, kept) {
            self.asked.insert(key, bytes);
            return Ok(Some(policy));
        }
        let Some(spawn) = SpawnCommit::read(self.repo, key)? else {
            return policy::of_agent(self.repo, agent);
        };
        self.asked.insert(key, spawn.terms.to_bytes());
        self.missing += 1;
        Ok(Some(spawn.terms))
    }

    /// Remembers what was asked for, where enough of it is new.
    pub fn keep(self) {
        if self.repo.is_scratch() || self.missing <= 32 + self.asked.len() / 64 {
            return;
        }
        let common_dir = self.repo.common_dir();
        // Without a cache everything works, only slower.
        let _ = fsx::create_dir(&layout::cache_dir(common_dir)).and_then(|()| {
            fsx::write_atomic_by(&layout::policy_cache(common_dir), |file| {
                cache_file::write(file, KIND, Oid::EMPTY_TREE, |on| {
                    self.asked.iter().for_each(|(key, body)| on(*key, body));
                    Ok(())
                })
            })
        });
    }
}
