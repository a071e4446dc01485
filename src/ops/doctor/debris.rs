//! Lock files, warm worktrees, and what killed processes left in `trash/` and `tmp/`, or half written beside what
//! it was to become: nothing of it is work. What goes to the trash was salvaged before, what is half made has not
//! been handed to an agent, and what replaces a file is not that file yet.

use crate::agents::Ctx;
use crate::agents::life::{at_work, liveness};
use crate::agents::place::kept_worktree::KeptWorktree;
use crate::agents::stock::{layered, pool as slots};
use crate::agents::{context::untrusted, place::worktree, upkeep::half_made};
use crate::domain::Agent;
use crate::domain::judge::diagnosis::Sign;
use crate::domain::value::named::size_text;
use crate::error::{IoContext, Result};
use crate::git::files::{lock_file, temporary};
use crate::hosts::WORKTREE_DIR;
use crate::ops::doctor::DoctorFinding;
use crate::ops::doctor::survey::Survey;
use crate::ops::pool;
use crate::store::files::{briefing, fsx, layout, lock};
use crate::system::Holders;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// Nothing is half made, and no removal takes, this long, in seconds.
const OLD: i64 = 60 * 60;

pub(super) fn examine(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let common = ctx.repo.common_dir();
    let mut found = Vec::new();
    for directory in [layout::trash_dir(common), layout::tmp_dir(common)] {
        let old: Vec<PathBuf> = old_entries(ctx, &directory).collect();
        if !old.is_empty() {
            let what = format!(
                "{} entries of {} are older than an hour and take {} of the disk",
                old.len(),
                directory.display(),
                size_text(fsx::disk_use(&old))
            );
            // Listed anew by the cure: what has become old since goes as well, and what was
            // finished does not.
            found.push(DoctorFinding::curable(Sign::Debris, what, move |ctx| {
                remove(ctx, &old_entries(ctx, &directory).collect::<Vec<_>>())
            }));
        }
    }
    // Of every repository: they cannot be told apart, and no process uses them.
    let temporary = ctx.temporary_place();
    let count = temporary::count_left(&temporary);
    if count > 0 {
        let what = format!(
            "{} holds {count} temporary {} of killed commands",
            temporary.display(),
            if count == 1 { "directory" } else { "directories" }
        );
        found.push(DoctorFinding::curable(Sign::TemporaryLeft, what, move |_| {
            Ok(format!("removed {}", temporary::sweep(&temporary)))
        }));
    }
    let over = survey.rows().iter().filter(|agent| !agent.state.is_open());
    // What goes on after a landing with `--now` reads it still.
    let is_left =
        |agent: &&Agent| briefing::is_here(common, agent.id) && at_work::look(ctx, agent).is_none();
    for agent in over.filter(is_left) {
        let what = format!(
            "the prompt of agent {}, which is {}, is still here",
            agent.id.short(),
            agent.state
        );
        let agent = agent.clone();
        found.push(DoctorFinding::curable(Sign::BriefingLeft, what, move |ctx| {
            at_work::forget_prompt(ctx, &agent, None)?;
            Ok("deleted it, and what was confidential in task and logs".to_owned())
        }));
    }
    let is_begun =
        |agent: &&Agent| layered::note(ctx, agent).exists() && survey.is_at_rest(ctx, agent);
    for agent in survey.rows().iter().filter(is_begun) {
        let what = format!("a materialize of agent {} was interrupted", agent.id.short());
        let agent = agent.clone();
        found.push(DoctorFinding::curable(Sign::Debris, what, move |ctx| {
            layered::settle_killed(ctx, &agent)?;
            Ok("removed what it left".to_owned())
        }));
    }
    for directory in shared_directories(ctx, survey) {
        for path in half_written(ctx, &directory) {
            let what = format!("{} was never finished", path.display());
            found.push(DoctorFinding::curable(Sign::Debris, what, move |ctx| {
                // Held by a process that restores a worktree.
                let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
                remove(ctx, &[path])
            }));
        }
    }
    Ok(found)
}

/// The directories in which something of ours is replaced whole: our own, git's `info`, and those that
/// hold worktrees.
fn shared_directories(ctx: &Ctx, survey: &Survey) -> BTreeSet<PathBuf> {
    let common = ctx.repo.common_dir();
    let agents = layout::agents_dir(common);
    let own = fs::read_dir(&agents).into_iter().flatten().flatten();
    let own = own.map(|entry| entry.path()).filter(|path| path.is_dir());
    let places = survey.places.iter();
    let places = places.flat_map(|places| survey.live().filter_map(|agent| places.of(agent)));
    let parents = places.filter_map(|path| path.parent().map(Path::to_owned));
    let mut all: BTreeSet<_> = own.chain(parents).collect();
    all.extend([agents, common.join("info")]);
    // Also where no live agent is left.
    all.extend(ctx.repo.root().ok().map(|root| root.join(WORKTREE_DIR)));
    // What is in these is looked at as a whole above.
    for whole in [layout::trash_dir(common), layout::tmp_dir(common)] {
        all.remove(&whole);
    }
    all
}

/// What bears a name that only [`fsx::unique_name`] gives, and is old or of a process that is gone.
fn half_written(ctx: &Ctx, directory: &Path) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| path.file_name().is_some_and(fsx::is_unique_name);
    let old: BTreeSet<_> = old_entries(ctx, directory).filter(is_ours).collect();
    old.into_iter()
        .chain(half_made::left_over(directory))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect()
}

fn remove(ctx: &Ctx, entries: &[PathBuf]) -> Result<String> {
    for path in entries {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_dir() => fsx::remove_by_trash(ctx.repo.common_dir(), path)?,
            Ok(_) => fs::remove_file(path).at("could not remove", path)?,
            // Its owner has removed it.
            Err(_) => {}
        }
    }
    Ok(format!("removed {} entries", entries.len()))
}

/// By the time of the last rename, which is when it came here.
fn old_entries(ctx: &Ctx, directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let now = ctx.now().timestamp();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(move |entry| {
            entry
                .metadata()
                // Not when it was written: what is moved here keeps that time, and may have been
                // old.
                .is_ok_and(|metadata| now - metadata.ctime() >= OLD)
        })
        .map(|entry| entry.path())
}

// Lock files that killed processes left on refs and indexes.
//
// What a note of ours proves to be left ([`crate::git::files::lock_file`]) is cleared. Any other lock may belong to a git whose
// hooks take their time: it is cleared only where no process has it open and no git is at work in the repository.

/// How old a lock has to be before it is cleared that no process has open: a program may write a file, close it and give it its name
/// a moment later. Git holds a ref's lock for less than a millisecond.
const STALE: TimeDelta = TimeDelta::seconds(10);

pub(super) fn examine_locks(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    // Those of which our own notes prove that a dead process of ours left them.
    let left = lock_file::left(ctx.repo.common_dir())?;
    found.extend(left.iter().map(|lock| {
        let what = format!(
            "a process that was killed left the lock file of {}",
            locked(ctx, survey, lock)
        );
        DoctorFinding::curable(Sign::RefLocked, what, |ctx| {
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
                found.push(DoctorFinding::curable(Sign::RefLocked, what, move |ctx| {
                    Ok(clear(ctx, &lock)?.to_owned())
                }));
            }
            // It comes and goes while git is at work.
            LockHolder::Process(_) if !is_old => {}
            LockHolder::Unknown if !is_old => {}
            LockHolder::Process(pid) => {
                let command = format!("ps -p {pid}");
                found.push(DoctorFinding::report(Sign::RefLocked, what, command));
            }
            LockHolder::None => {
                let what =
                    format!("{what}; it is removed once it is {} s old", STALE.num_seconds());
                found.push(DoctorFinding::report(Sign::RefLocked, what, crate::ops::doctor::DOCTOR))
            }
            LockHolder::Unknown => {
                let command = format!("rm '{}'", lock.display());
                found.push(DoctorFinding::report(Sign::RefLocked, what, command));
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
    locks.sort_unstable();
    locks
}

/// What a lock file locks, as a reader names it.
fn locked(ctx: &Ctx, survey: &Survey, lock: &Path) -> String {
    let common = ctx.repo.common_dir();
    let path = lock.with_extension("");
    if path == common.join("index") {
        let root = ctx.repo.root();
        return format!("the index of {}", root.as_deref().unwrap_or(common).display());
    }
    let holds = |agent: &&Agent| path == worktree::admin_dir(&ctx.repo, agent.id).join("index");
    if let Some(agent) = survey.rows().iter().find(holds) {
        return format!("the index of agent {}", agent.id.short());
    }
    path.strip_prefix(common).unwrap_or(&path).display().to_string()
}

// Landings that were killed between the first file that moved and the branch.

pub(super) fn examine_landings(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    for checkout in ctx.repo.every_checkout()? {
        let name = checkout.git_dir.file_name().and_then(|name| name.to_str());
        let id8 = name.and_then(layout::agent_of_worktree);
        let is_own = |agent: &&Agent| id8 == Some(agent.id.short().as_str());
        let agent = survey.rows().iter().find(is_own).cloned();
        // A worktree of an unknown agent may be led to settings that are not to be read.
        if !checkout.is_landing_interrupted()? || agent.is_some() != id8.is_some() {
            continue;
        }
        let what =
            format!("a landing was killed while it moved files of {}", checkout.top.display());
        found.push(DoctorFinding::curable(Sign::LandingInterrupted, what, move |ctx| {
            let _landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
            let (_held, checkout) = match &agent {
                Some(agent) => (
                    at_work::hold_at_rest(ctx, agent, liveness::lock_at_once)?,
                    checkout.through_view(&ctx.repo, &ctx.temporary_place())?,
                ),
                None => (None, checkout),
            };
            checkout.undo_interrupted(&ctx.repo)?;
            Ok("put index and files back; the command that was killed can be run again".into())
        }));
    }
    Ok(found)
}

// Warm worktrees that no spawn gets, and a pool that could not be filled.

/// The command that makes slots as the settings want them and removes those that are not.
const FILL: &str = "git agent setup pool fill";

pub(super) fn examine_pool(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    // Where there was never a slot, HEAD may have no commit to read settings from.
    if !layout::pool_dir(ctx.repo.common_dir()).exists() {
        return Ok(Vec::new());
    }
    let report = pool::look(ctx)?;
    let mut found = Vec::new();
    for slot in &report.slots {
        let name = &slot.name;
        match slot.state {
            "broken" => {
                let what = format!("the warm worktree {name} was never finished");
                found.push(DoctorFinding::curable(Sign::SlotHalfMade, what, |ctx| {
                    let (_, kept) = slots::sweep(ctx)?;
                    let kept: Vec<String> = kept.iter().map(KeptWorktree::sentence).collect();
                    Ok(["removed it".to_owned()]
                        .into_iter()
                        .chain(kept)
                        .collect::<Vec<_>>()
                        .join("; "))
                }));
            }
            "edited" => {
                let what = format!("{name} was edited by hand, so no agent gets it");
                found.push(DoctorFinding::report(Sign::SlotStale, what, FILL));
            }
            "stale" if report.size == 0 => {
                let what = format!("{name} is kept ready, and the settings at HEAD want no pool");
                found.push(DoctorFinding::report(Sign::SlotStale, what, FILL));
            }
            "stale" => {
                let what = format!("{name} was set up otherwise than the settings at HEAD say");
                found.push(DoctorFinding::report(Sign::SlotStale, what, FILL));
            }
            _ => {}
        }
    }
    for base in report.bases.iter().filter(|base| base.state == "damaged") {
        let what =
            format!("{} was changed, and {} agents work over it", base.name, base.agents.len());
        // An agent that has its own files works on; a base under none is removed.
        let command = match base.agents.first() {
            Some(agent) => format!("git agent materialize {agent}"),
            None => "git agent gc --yes".to_owned(),
        };
        found.push(DoctorFinding::report(Sign::BaseDamaged, what, command));
    }
    for agent in survey.live() {
        let layer = layered::of(&ctx.repo, agent.id);
        if let Some(base) = layer.map(|layer| layer.record.base)
            && report.bases.iter().all(|known| known.name != base)
        {
            let id = agent.id.short();
            let what = format!("{base} is gone, and agent {id} works over it");
            let command = format!("git agent materialize {id}");
            found.push(DoctorFinding::report(Sign::BaseDamaged, what, command));
        }
    }
    if let Some(failure) = report.failure {
        let what = format!("the pool could not be filled: {failure}");
        found.push(DoctorFinding::report(Sign::PoolNotFilled, what, FILL));
    }
    Ok(found)
}
