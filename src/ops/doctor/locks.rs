//! Lock files that killed processes left on refs and indexes.
//!
//! Ours are cleared under the OS lock that keeps our own writers away. A branch is also written by git,
//! whose hooks may take their time while its lock is held: that one is cleared where a killed landing of
//! ours said that it held it, and is for a person to clear otherwise.

use crate::agents::ctx::Ctx;
use crate::agents::worktree;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::store::chain::Chain;
use crate::store::landing_lock::{self, LandingLock};
use crate::store::mailbox::{MAIL, RECEIPTS};
use crate::store::{layout, lock};
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A write holds a ref's lock for less than a millisecond.
const STALE: TimeDelta = TimeDelta::seconds(10);

/// The locks that git takes in the admin directory of a worktree.
const OF_WORKTREES: [&str; 2] = ["index.lock", "HEAD.lock"];

/// What a cure says.
const REMOVED: &str = "removed the lock file";

/// The refs that only we and `git notes` write.
const OURS: [Chain; 4] = [
    Chain::Notes(layout::LEDGER_REF),
    Chain::Keep(layout::KEEP_REF),
    MAIL,
    RECEIPTS,
];

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
    for chain in OURS {
        let refname = chain.refname();
        found.extend(age(refname).map(|seconds| {
            let what = format!("the lock file of {refname} is older than {seconds} s");
            Finding::curable(Sign::RefLocked, what, move |ctx| clear(ctx, chain))
        }));
    }
    let landing = landing_lock::left_over(&ctx.repo)?;
    found.extend(landing.as_ref().map(|branch| {
        let what = format!("a landing that was killed left the lock file of {branch}");
        Finding::curable(Sign::RefLocked, what, |ctx| {
            // Taking the lock clears it.
            let _landings = LandingLock::hold(&ctx.repo)?;
            Ok(REMOVED.to_owned())
        })
    }));
    let left_indexes = landing_lock::left_indexes(&ctx.repo)?;
    // A git that was killed in an agent's worktree, ours or another, leaves its locks there.
    for agent in survey.rows() {
        let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
        let is_told = left_indexes.iter().any(|left| left.git_dir == admin_dir);
        for name in OF_WORKTREES.iter().filter(|_| !is_told) {
            let path = admin_dir.join(name);
            found.extend(age_of(&path).map(|seconds| {
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
    found.extend(left_indexes.into_iter().map(|left| {
        let top = left.top.display();
        let what = format!("a landing that was killed left the lock file of the index of {top}");
        Finding::curable(Sign::RefLocked, what, move |ctx| {
            let _landings = LandingLock::hold(&ctx.repo)?;
            left.clear_left_lock()?;
            Ok(REMOVED.to_owned())
        })
    }));
    let own = survey.rows().iter().filter_map(|row| row.branch.as_ref());
    let bases = survey.rows().iter().filter_map(|row| row.base.as_ref());
    let targets = bases.filter_map(|base| base.refname.as_ref());
    let branches: BTreeSet<_> = own.chain(targets).collect();
    for branch in branches
        .into_iter()
        .filter(|name| landing.as_ref() != Some(name))
    {
        found.extend(age(branch).map(|seconds| {
            let path = ctx.repo.ref_lock_path(branch);
            Finding::report(
                Sign::RefLocked,
                format!("the lock file of {branch} is older than {seconds} s; if no git process is at work, it is left over"),
                format!("rm '{}'", path.display()),
            )
        }));
    }
    Ok(found)
}

fn clear(ctx: &Ctx, chain: Chain) -> Result<String> {
    let common = ctx.repo.common_dir();
    let _writers = lock::hold(common, chain.lock())?;
    let cleared = ctx
        .repo
        .clear_stale_lock(chain.refname(), &layout::tmp_dir(common))?;
    Ok(if cleared {
        REMOVED.to_owned()
    } else {
        "its owner came back".to_owned()
    })
}
