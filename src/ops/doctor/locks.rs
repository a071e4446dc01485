//! Lock files that killed processes left on refs and indexes.
//!
//! What a note of ours proves to be left ([`crate::git::files::lock_file`]) is cleared. Any other lock may belong to a git whose
//! hooks take their time: it is cleared only where no process has it open and no git is at work in the repository.

use crate::agents::ctx::Ctx;
use crate::agents::{untrusted, worktree};
use crate::domain::agent::Agent;
use crate::domain::diagnosis::Sign;
use crate::error::{IoContext, Result};
use crate::git::files::lock_file;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::system::Holders;
use chrono::{DateTime, TimeDelta, Utc};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// How old a lock has to be before it is cleared that no process has open: a program may write a file, close it and give it its name
/// a moment later. Git holds a ref's lock for less than a millisecond.
const STALE: TimeDelta = TimeDelta::seconds(10);

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
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
    // Any other may be a living git's, which closes the lock of an index while the user writes the message.
    let mut others = lock_files(ctx.repo.common_dir());
    others.retain(|lock| !left.contains(lock));
    if others.is_empty() {
        return Ok(found);
    }
    let holders = holders(ctx);
    for lock in others {
        let Some((age, holder)) = examined(ctx, &lock, holders.as_ref()) else {
            continue;
        };
        let is_old = age >= STALE;
        let name = locked(ctx, survey, &lock);
        let seconds = age.num_seconds();
        let what = format!("the lock file of {name} is {seconds} s old, and {holder}");
        match holder {
            LockHolder::None if is_old => {
                found.push(Finding::curable(Sign::RefLocked, what, move |ctx| {
                    Ok(clear(ctx, &lock)?.to_owned())
                }));
            }
            // It comes and goes while git is at work.
            LockHolder::Process(_) if !is_old => {}
            LockHolder::Unknown if !is_old => {}
            LockHolder::Process(pid) => {
                let command = format!("ps -p {pid}");
                found.push(Finding::report(Sign::RefLocked, what, command));
            }
            LockHolder::None => found.push(Finding::report(Sign::RefLocked, what, super::DOCTOR)),
            LockHolder::Unknown => {
                let command = format!("rm '{}'", lock.display());
                found.push(Finding::report(Sign::RefLocked, what, command));
            }
        }
    }
    Ok(found)
}

/// Who may hold a lock file.
#[derive(Clone, Copy)]
enum LockHolder {
    /// No process has it open, and no git is at work in the repository.
    None,
    /// This process has it open, or is a git that is at work in the repository.
    Process(i32),
    /// The system does not tell.
    Unknown,
}

impl fmt::Display for LockHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockHolder::None => f.write_str("no process has it open"),
            LockHolder::Process(pid) => write!(f, "process {pid} may hold it"),
            LockHolder::Unknown => f.write_str("is left over if no git process is at work"),
        }
    }
}

/// How old a lock file is and who may hold it; `None` for one that is gone.
fn examined(ctx: &Ctx, lock: &Path, holders: Option<&Holders>) -> Option<(TimeDelta, LockHolder)> {
    let metadata = fs::symlink_metadata(lock).ok()?;
    let age = ctx.now() - DateTime::<Utc>::from(metadata.modified().ok()?);
    let holder = match holders {
        None => LockHolder::Unknown,
        Some(holders) => {
            let holder = holders.of(&metadata);
            holder.map_or(LockHolder::None, LockHolder::Process)
        }
    };
    Some((age, holder))
}

/// Removes a lock file after another look.
fn clear(ctx: &Ctx, lock: &Path) -> Result<&'static str> {
    // Asked again right before the removal, as a process may have opened it since.
    let examined = examined(ctx, lock, holders(ctx).as_ref());
    if !matches!(examined, Some((age, LockHolder::None)) if age >= STALE) {
        return Ok("left it, which is in use by now");
    }
    fs::remove_file(lock).at("could not remove", lock)?;
    Ok("removed the lock file")
}

fn holders(ctx: &Ctx) -> Option<Holders> {
    let linked = ctx.repo.worktrees().unwrap_or_default().into_iter();
    let places = linked.map(|worktree| worktree.path);
    let main = ctx.repo.root().ok();
    let common = ctx.repo.common_dir().to_owned();
    Holders::look(&places.chain(main).chain([common]).collect::<Vec<_>>())
}

/// Every lock file of git's protocol: beside what it locks, in the common directory, in `info`, below `refs`, and in the admin
/// directories of worktrees.
fn lock_files(common: &Path) -> Vec<PathBuf> {
    let admin_dirs = untrusted::names(&common.join("worktrees")).into_iter();
    let admin_dirs = admin_dirs.map(|name| common.join("worktrees").join(name));
    let directories = ["", "info", "objects/info"].map(|name| common.join(name));
    let directories = directories.into_iter().chain(admin_dirs);
    let files = directories.flat_map(|directory| {
        let names = untrusted::names(&directory).into_iter();
        names.map(move |name| directory.join(name))
    });
    let refs = walkdir::WalkDir::new(common.join("refs")).into_iter();
    let refs = refs.filter_map(std::result::Result::ok);
    let all = files.chain(refs.map(walkdir::DirEntry::into_path));
    let is_lock = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "lock");
    // A directory of this name is a part of a branch's.
    let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|it| it.is_file());
    let mut locks: Vec<PathBuf> = all.filter(is_lock).filter(is_file).collect();
    locks.sort();
    locks
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
