//! A worker of a train: it runs checks one after the other in a worktree that it keeps, so that builds take up where the
//! last one ended.

use crate::agents::check_run::{CheckFence, CheckRun, run_checks};
use crate::agents::check_worktree::{CheckStage, CheckWorktree};
use crate::agents::ctx::{Ctx, Seed};
use crate::agents::scratch::Scratch;
use crate::agents::{commands, pool};
use crate::domain::evidence::CommandRun;
use crate::domain::id::Slug;
use crate::domain::lease::WantedLease;
use crate::domain::oid::Oid;
use crate::domain::sandbox::{Enforcement, Mode};
use crate::error::{Code, Error, Result};
use crate::store::{fsx, layout, leases, lock};
use crate::wire::slot::SlotRecord;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// How many check worktrees of trains there may be in one clone.
const PLACES: usize = 99;

/// How commands are run.
#[derive(Clone)]
pub(super) struct CheckOptions {
    pub limit: Duration,
    pub keep_going: bool,
    pub mode: Mode,
    pub enforcement: Enforcement,
    /// What each worker holds values of its own in.
    pub leases: Vec<WantedLease>,
    /// What was done in the warm worktrees that will do, as [`pool::wanted_setup`] has it.
    pub setup: Option<String>,
}

/// What a worker says of a run: its number, how long it took, and how each command ended.
pub(super) type CheckAnswer = (usize, Duration, Result<Vec<CommandRun>>);

/// One run, for a worker.
pub(super) struct CheckTask {
    pub number: usize,
    pub commit: Oid,
    pub commands: Vec<String>,
    pub answer: Sender<CheckAnswer>,
}

/// What a worker has for as long as it works: a place for its worktree, temporary files, leases.
struct Room {
    name: String,
    temporary: Scratch,
    variables: Vec<(Cow<'static, str>, OsString)>,
    common_dir: PathBuf,
    _alone: lock::Guard,
}

impl Room {
    fn enter(ctx: &Ctx, options: &CheckOptions) -> Result<Room> {
        let (alone, name) = claim(ctx)?;
        let temporary = Scratch::make(ctx, "checks")?;
        let common_dir = ctx.repo.common_dir().to_owned();
        // What a killed train held there.
        leases::free(&common_dir, &name)?;
        let held = leases::take(
            &common_dir,
            &name,
            &Slug::from_text("train"),
            &options.leases,
        )?;
        let mut variables = commands::named(held);
        variables.push(("TMPDIR".into(), temporary.path().into()));
        Ok(Room {
            name,
            temporary,
            variables,
            common_dir,
            _alone: alone,
        })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // What cannot be given back now is when the place is used again.
        let _ = leases::free(&self.common_dir, &self.name);
    }
}

/// Runs checks until there are no more to come, in one worktree.
pub(super) fn work(seed: &Seed, options: &CheckOptions, tasks: &Receiver<CheckTask>) {
    let Ok(first) = tasks.recv() else {
        return;
    };
    let opened = seed.open().and_then(|ctx| {
        let room = Room::enter(&ctx, options)?;
        Ok((ctx, room))
    });
    let (ctx, room) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The listener stays until it has every answer.
            let _ = { first.answer }.send((first.number, Duration::ZERO, Err(error)));
            return;
        }
    };
    let mut stage: Option<CheckStage<'_>> = None;
    let mut next = Some(first);
    while let Some(task) = next {
        let clock = Instant::now();
        let setup = options.setup.as_deref();
        let ready = prepared(&ctx, stage.take(), (&room.name, setup), task.commit);
        let ran = ready.and_then(|ready| {
            let stage = stage.insert(ready);
            let places = [stage.path(), room.temporary.path()];
            let enforced = (options.mode, &options.enforcement);
            let fence = CheckFence::around(&ctx, enforced, &places)?;
            let how = CheckRun {
                limit: options.limit,
                keep_going: options.keep_going,
                fence: fence.as_ref(),
                variables: &room.variables,
            };
            run_checks(&ctx, &task.commands, stage.path(), how)
        });
        let _ = { task.answer }.send((task.number, clock.elapsed(), ran));
        next = tasks.recv().ok();
    }
}

/// The worktree with that commit: the one of the last run if there is one and it can be moved, else one of the pool, else a
/// new one.
fn prepared<'c>(
    ctx: &'c Ctx,
    stage: Option<CheckStage<'c>>,
    (name, setup): (&str, Option<&str>),
    commit: Oid,
) -> Result<CheckStage<'c>> {
    if let Some(stage) = stage
        && stage.move_to(commit).is_ok()
    {
        return Ok(stage);
    }
    // One that cannot be moved to an agent's place is of less use to others.
    let rate = |record: &SlotRecord| {
        (Some(record.setup.as_str()) == setup).then_some(u32::from(!record.pinned))
    };
    // A pool that fails is one without worktrees.
    let slot = setup.and_then(|_| pool::claim(ctx, |_, record| rate(record)).ok()?);
    if let Some(stage) = slot.and_then(|slot| CheckStage::from_slot(ctx, slot, commit).ok()) {
        return Ok(stage);
    }
    CheckStage::build(ctx, CheckWorktree::of(ctx, name)?, commit)
}

/// A place for check worktrees that no other train uses, and the lock that keeps it.
fn claim(ctx: &Ctx) -> Result<(lock::Guard, String)> {
    let common = ctx.repo.common_dir();
    for number in 1..=PLACES {
        let name = layout::train_place(number);
        fsx::create_dir(&layout::agents_dir(common).join(&name))?;
        match lock::hold_for(common, &layout::verify_lock(&name), Duration::ZERO) {
            Err(error) if error.code() == Code::LockTimeout => {}
            held => {
                let held = held?;
                if CheckWorktree::of(ctx, &name)?.is_free(&ctx.repo) {
                    return Ok((held, name));
                }
            }
        }
    }
    Err(Error::new(
        Code::LockTimeout,
        format!("all {PLACES} places for checks of trains are taken"),
    ))
}
