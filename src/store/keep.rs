//! The keep chain: what must stay reachable although no branch holds it.
//!
//! Notes do not keep the commits they annotate: after a squash merge, a branch deletion and `git gc`
//! a `git notes prune` would delete rows (measured). One chain of empty-tree commits whose extra
//! parents are the kept commits does keep them, at one object each and one ref for all.

use super::chain::{self, Chain};
use super::{layout, lock};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::Repo;
use chrono::{DateTime, Utc};

/// Keeps commits reachable for good and gives the link's name. `why` says so in one line of its
/// message, such as `spawn 6a48ca7b`.
///
/// # Errors
/// `lock-timeout`, `disk-full`, `repo-read-only`, `repo-corrupt`.
pub fn keep(repo: &Repo, commits: &[Oid], why: &str, now: DateTime<Utc>) -> Result<Oid> {
    let guard = lock::hold(repo.common_dir(), layout::LEDGER_LOCK)?;
    let who = chain::identity(repo, now);
    let subject = format!("agent: keep {why}");
    chain::append(
        repo,
        &guard,
        Chain::Keep(layout::KEEP_REF),
        &who,
        &subject,
        |tip| {
            let mut parents: Vec<_> = tip.map(|tip| tip.oid).into_iter().collect();
            parents.extend(commits);
            // git knows the empty tree without an object, libgit2 does not.
            let tree = repo.write_tree(Vec::new())?;
            chain::commit(repo, tree, &parents, &who, &subject)
        },
    )
}
