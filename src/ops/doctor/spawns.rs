//! What was killed half way: runs, verifies, and spawns, with their journal, which says everything that is to be
//! undone, and without it, where only what is provably empty is taken away.

use crate::agents::life::liveness::Liveness;
use crate::agents::stock::commands::in_one_line;
use crate::agents::upkeep::half_made::sweep;
use crate::agents::upkeep::{crash_recovery, publish};
use crate::agents::{
    Ctx, checks::check_worktree, context::untrusted, life::liveness, place::worktree,
};
use crate::domain::judge::diagnosis::Sign;
use crate::domain::{Agent, Move, State, What, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::worktree::{Worktree, set_lock};
use crate::ops::doctor::DoctorFinding;
use crate::ops::doctor::survey::Survey;
use crate::ops::doctor::worktrees::led_away;
use crate::store::RecordedPlaces;
use crate::store::files::place::Journal;
use crate::store::files::{fsx, layout, lock};
use crate::system;
use rustix::process::Pid;
use std::fs;
use std::path::{Path, PathBuf};

/// How the lock of a worktree that is being made begins.
const INITIALIZING: &str = "initializing (git-agent ";

pub(super) fn examine(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = abandoned(ctx)?;
    for agent in survey.rows() {
        if agent.state == State::Spawning && made_here(ctx, agent)? && is_left(ctx, agent)? {
            found.push(unfinished(ctx, agent));
        }
    }
    for worktree in &survey.worktrees {
        if let Some(reason) = worktree.lock_reason.as_deref()
            && reason.starts_with(INITIALIZING)
            && is_gone(reason)
            && !has_journal(ctx, &worktree.name)
            && is_locked_as(ctx, &worktree.name, reason)
        {
            found.extend(locked(survey, worktree, reason));
        }
    }
    Ok(found)
}

/// Journals whose owner is gone.
fn abandoned(ctx: &Ctx) -> Result<Vec<DoctorFinding>> {
    let common = ctx.repo.common_dir();
    if !Journal::any(common) {
        return Ok(Vec::new());
    }
    let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
    let journals = Journal::abandoned(common)?;
    let findings = journals.into_iter().map(|(_, record)| {
        let what = match record {
            Some(record) => format!("the spawn of agent {} was interrupted", record.agent),
            None => "a spawn was interrupted before it made anything".to_owned(),
        };
        DoctorFinding::curable(Sign::SpawnAbandoned, what, |ctx| {
            sweep(ctx)?;
            Ok("finished it or took it apart".to_owned())
        })
    });
    Ok(findings.collect())
}

/// A row that no process is completing. Its worktree may be in use all the same: a power loss can take back
/// the event that said it was ready.
fn unfinished(ctx: &Ctx, agent: &Agent) -> DoctorFinding {
    let short = agent.id.short();
    if !is_without_place(ctx, agent) {
        return DoctorFinding::report(
            Sign::SpawnUnfinished,
            format!("agent {short} is half made, and there is something in its worktree"),
            format!("git agent show {short}"),
        );
    }
    let agent = agent.clone();
    let what = format!("agent {short} is half made, and nothing of it is here");
    DoctorFinding::curable(Sign::SpawnUnfinished, what, move |ctx| {
        {
            let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
            if !is_left(ctx, &agent)? || !is_without_place(ctx, &agent) {
                return Ok("it is not half made any more".to_owned());
            }
        }
        // The row is asked once more as it is written, so no lock is needed for that.
        let actor = ctx.actor()?;
        ctx.ledger().append_if(agent.spawn_commit, &actor, ctx.now(), |row| {
            match row.filter(|row| row.state == State::Spawning) {
                Some(row) => row.may(Move::Discard).map(|()| What::Discarded { tip: None }),
                None => Err(Error::new(Code::LostRace, "another process completed it")),
            }
        })?;
        Ok("its row says discarded; a branch of it stays".to_owned())
    })
}

/// The lock of a worktree that is either ready or was never begun.
fn locked(survey: &Survey, worktree: &Worktree, reason: &str) -> Option<DoctorFinding> {
    let what =
        format!("{} is locked as being made by a process that is gone", worktree.path.display());
    let (name, old) = (worktree.name.clone(), reason.to_owned());
    if let Some(agent) = survey
        .owner(worktree)
        // Its row says that the spawn was completed, so only the lock's reason is of before.
        .filter(|row| row.state != State::Spawning)
    {
        let reason = layout::lock_reason(agent.id);
        return Some(DoctorFinding::curable(Sign::LockUnfinished, what, move |ctx| {
            let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
            if is_locked_as(ctx, &name, &old) {
                set_lock(&ctx.repo.admin_dir(&name), &reason)?;
            }
            Ok(format!("its lock says {reason}"))
        }));
    }
    // Without readable rows it is unknown whether the worktree is an agent's.
    survey.agents.as_ref()?;
    let path = worktree.path.clone();
    if !is_empty(&path) {
        let path = shell::path(&path);
        return Some(DoctorFinding::report(
            Sign::LockUnfinished,
            what,
            format!("git worktree unlock {path} && git worktree remove {path}"),
        ));
    }
    Some(DoctorFinding::curable(Sign::LockUnfinished, what, move |ctx| {
        let common = ctx.repo.common_dir();
        let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
        let admin = ctx.repo.admin_dir(&name);
        if !is_empty(&path) || has_journal(ctx, &name) || !is_locked_as(ctx, &name, &old) {
            return Ok("it is in use".to_owned());
        }
        if belongs_to(&path, &admin) {
            fs::remove_file(path.join(".git")).at("could not remove", &path)?;
        }
        // Only a directory without anything in it goes.
        let _ = fs::remove_dir(&path);
        fsx::remove_by_trash(common, &admin)?;
        Ok(format!("removed the empty worktree {name}"))
    }))
}

/// Whether the process that such a lock names has ended, with the machine or by itself.
fn is_gone(reason: &str) -> bool {
    let field = |name: &str| {
        let (_, rest) = reason.split_once(name)?;
        rest.split([',', ')']).next()
    };
    let (Some(pid), Some(boot)) = (field(", pid "), field(", boot ")) else {
        return false;
    };
    let pid = pid.parse().ok().and_then(Pid::from_raw);
    let is_there = || pid.is_some_and(system::is_alive);
    // After a restart every process of before is gone, and its number may be another's.
    system::boot_id().is_some_and(|now| boot != now || !is_there())
}

/// Whether the lock still says so: a spawn that has ended since it was read has changed it.
fn is_locked_as(ctx: &Ctx, name: &str, reason: &str) -> bool {
    untrusted::text(&ctx.repo.admin_dir(name), "locked")
        .is_some_and(|text| text.trim_end() == reason)
}

fn has_journal(ctx: &Ctx, name: &str) -> bool {
    let short = layout::agent_of_worktree(name).unwrap_or("none");
    layout::journals_dir(ctx.repo.common_dir()).join(short).exists()
}

/// Whether a row is still half made while no journal names a process that makes it. The journal is asked
/// first: one that is gone has left its last word in the row.
fn is_left(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    let journals = layout::journals_dir(ctx.repo.common_dir());
    if journals.join(agent.id.short()).exists() {
        return Ok(false);
    }
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    Ok(row.is_some_and(|row| row.state == State::Spawning))
}

/// Whether there is neither an admin directory nor anything at the worktree's place.
fn is_without_place(ctx: &Ctx, agent: &Agent) -> bool {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    let place = RecordedPlaces::new(&ctx.repo).map(|places| places.of(agent));
    let is_gone =
        |place: Option<PathBuf>| place.is_none_or(|path| path.symlink_metadata().is_err());
    admin.symlink_metadata().is_err() && place.is_ok_and(is_gone)
}

/// Whether this clone began the row: another's spawn may be under way on another machine.
fn made_here(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    Ok(ctx.ledger().clone_number()? == Some(agent.clone))
}

/// Whether a directory is not there, or holds nothing but a `.git` file.
fn is_empty(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.all(|entry| entry.is_ok_and(|one| one.file_name() == ".git")),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

// Runs whose end was not recorded, because their supervisor was killed.

pub(super) fn examine_runs(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    for agent in survey.rows() {
        let common = ctx.repo.common_dir();
        let dead = match &agent.run {
            Some(run) if liveness::of_run(common, agent, run)? == Liveness::Dead => {
                Some(run.number())
            }
            _ => None,
        };
        let short = agent.id.short();
        if dead.is_none()
            && let Err(error) = publish::require_taken_over(ctx, agent)
        {
            let command = format!("git agent verify {short}");
            found.push(DoctorFinding::report(Sign::RunRefused, in_one_line(&error), command));
            continue;
        }
        let what = match dead {
            Some(number) => format!("run {number} of agent {short} ended without a record"),
            // Of a clone that moved nothing can be taken over until it is found.
            None if is_unpublished(ctx, agent)? && !is_led_away(ctx, survey, agent) => {
                format!("what a run of agent {short} committed is not published")
            }
            None if liveness::is_left_unjudged(ctx, agent)? => {
                format!("the last run of agent {short} was killed before its work was judged")
            }
            None => continue,
        };
        let agent = agent.clone();
        found.push(DoctorFinding::curable(Sign::RunDead, what, move |ctx| {
            Ok(match crash_recovery::record_crashed_run(ctx, &agent)? {
                Some(buried) => {
                    let warnings = buried.warnings.iter().map(|warning| format!("; {warning}"));
                    let code = buried.outcome.code;
                    format!(
                        "recorded that it ended with status {code}{}",
                        String::from_iter(warnings)
                    )
                }
                None if is_unpublished(ctx, &agent)? => "could not be published".to_owned(),
                None => "recorded what was left, unless a process is at work for it".to_owned(),
            })
        }));
    }
    Ok(found)
}

/// Whether there is a run repository that no process works in.
fn is_unpublished(ctx: &Ctx, agent: &Agent) -> Result<bool> {
    let is_there = publish::run_repo(ctx, agent).is_some_and(|run_repo| run_repo.exists());
    // While a process is at work, what it commits is still on its way.
    Ok(is_there && !lock::is_held(ctx.repo.common_dir(), &layout::live_lock(agent.id))?)
}

fn is_led_away(ctx: &Ctx, survey: &Survey, agent: &Agent) -> bool {
    let worktree = survey.worktree(agent);
    worktree.is_some_and(|it| led_away(ctx, survey, agent, &it.path).is_some())
}

// Worktrees in which check commands ran, left by a `verify` that was killed. None is worked in: it is
// ours by its name, its lock and its `.git` file, and goes unless its HEAD has moved since.

pub(super) fn examine_verify(ctx: &Ctx, _: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    for short in check_worktree::candidates(ctx)? {
        let Some(place) = check_worktree::left_behind(ctx, &short)? else {
            continue;
        };
        let path = place.path.display();
        let who = if layout::is_train_place(&short) {
            "train".to_owned()
        } else {
            format!("verify of agent {short}")
        };
        let what = format!("{path} is what a killed {who} left");
        found.push(if !place.has_moved() {
            DoctorFinding::curable(Sign::VerifyLeft, what, move |ctx| {
                let is_removed = check_worktree::clear(ctx, &short)?;
                let other = (!is_removed).then_some("another process has removed it");
                Ok(other.unwrap_or("removed it").to_owned())
            })
        } else {
            DoctorFinding::report(
                Sign::VerifyLeft,
                format!("{what}, and its HEAD has moved since"),
                format!("git -C {} log --oneline -5", shell::quoted(&path.to_string())),
            )
        });
    }
    Ok(found)
}
