//! Lock files that killed processes left on refs and indexes.
//!
//! What a note of ours proves to be left ([`crate::git::files::lock_file`]) is cleared. Any other lock may belong to a git whose
//! hooks take their time, and is for a person to clear, however old it is.

use crate::agents::ctx::Ctx;
use crate::agents::worktree;
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::git::files::lock_file;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::chain::Chain;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A write holds a ref's lock for less than a millisecond.
const STALE: TimeDelta = TimeDelta::seconds(10);

/// The locks that git takes in the admin directory of a worktree.
const OF_WORKTREES: [&str; 2] = ["index.lock", "HEAD.lock"];

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let age_of = |path: &Path| {
        let modified = fs::symlink_metadata(path)
            .and_then(|metadata| metadata.modified())
            .ok()?;
        let age = ctx.now() - DateTime::<Utc>::from(modified);
        (age >= STALE).then_some(STALE.num_seconds())
    };
    let age = |refname: &str| age_of(&ctx.repo.ref_lock_path(refname));
    let mut found = Vec::new();
    // Those of which our own notes prove that a dead process of ours left them.
    let left = lock_file::left(ctx.repo.common_dir())?;
    found.extend(left.iter().map(|lock| {
        let what = format!(
            "a process that was killed left the lock file of {}",
            locked(ctx, survey, lock)
        );
        Finding::curable(Sign::RefLocked, what, |ctx| {
            lock_file::clear_left(ctx.repo.common_dir())?;
            Ok("removed the lock file".to_owned())
        })
    }));
    // A git that was killed in an agent's worktree, ours or another, leaves its locks there.
    for agent in survey.rows() {
        let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
        let paths = OF_WORKTREES.map(|name| (name, admin_dir.join(name)));
        for (name, path) in { paths }.iter().filter(|(_, path)| !left.contains(path)) {
            found.extend(age_of(path).map(|seconds| {
                Finding::report(
                    Sign::RefLocked,
                    format!(
                        "{name} in the worktree of agent {} is older than {seconds} s; if no git process is at work, it is left over",
                        agent.id.short()
                    ),
                    format!("rm '{}'", path.display()),
                )
            }));
        }
    }
    let own = survey.rows().iter().filter_map(|row| row.branch.as_ref());
    let bases = survey.rows().iter().filter_map(|row| row.base.as_ref());
    let targets = bases.filter_map(|base| base.refname.as_ref());
    let chains = Chain::ALL.map(Chain::refname);
    let branches = own.chain(targets).map(String::as_str);
    let refs: BTreeSet<_> = branches.chain(chains).collect();
    for name in refs
        .into_iter()
        .filter(|name| !left.contains(&ctx.repo.ref_lock_path(name)))
    {
        found.extend(age(name).map(|seconds| {
            let path = ctx.repo.ref_lock_path(name);
            Finding::report(
                Sign::RefLocked,
                format!("the lock file of {name} is older than {seconds} s; if no git process is at work, it is left over"),
                format!("rm '{}'", path.display()),
            )
        }));
    }
    Ok(found)
}

/// What a lock file locks, as a reader names it.
fn locked(ctx: &Ctx, survey: &Survey, lock: &Path) -> String {
    let common = ctx.repo.common_dir();
    let path = lock.with_extension("");
    if path == common.join("index") {
        let root = ctx.repo.root();
        return format!(
            "the index of {}",
            root.as_deref().unwrap_or(common).display()
        );
    }
    let holds = |agent: &&Agent| path == worktree::admin_dir(&ctx.repo, agent.id).join("index");
    if let Some(agent) = survey.rows().iter().find(holds) {
        return format!("the index of agent {}", agent.id.short());
    }
    path.strip_prefix(common)
        .unwrap_or(&path)
        .display()
        .to_string()
}
