//! A worker of a train: it runs checks one after the other, each in a worktree of its own, so that no check decides how a later one ends.

use crate::agents::check_run::{CheckRequest, CheckRoom};
use crate::agents::check_setup::CheckSetup;
use crate::agents::check_worktree::CheckWorktree;
use crate::agents::ctx::{Ctx, Seed};
use crate::agents::{admission, commands, limits};
use crate::domain::evidence::{CommandRun, RequiredChecks};
use crate::domain::id::Slug;
use crate::domain::lease::WantedLease;
use crate::domain::oid::Oid;
use crate::domain::sandbox::{Enforcement, Mode};
use crate::error::{Code, Error, Result};
use crate::store::{fsx, layout, leases, lock};
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
    /// What each worktree is set up with.
    pub setup: CheckSetup,
}

/// What a worker says of a run: its number, how long it took, and how each command ended.
pub(super) type CheckAnswer = (usize, Duration, Result<Vec<CommandRun>>);

/// One run, for a worker.
pub(super) struct CheckTask {
    pub number: usize,
    pub commit: Oid,
    pub checks: RequiredChecks,
    pub answer: Sender<CheckAnswer>,
}

/// What a worker has for as long as it works: a place for its worktrees, and leases.
struct Station {
    name: String,
    variables: Vec<(Cow<'static, str>, OsString)>,
    common_dir: PathBuf,
    _alone: lock::Guard,
}

impl Station {
    fn enter(ctx: &Ctx, options: &CheckOptions) -> Result<Station> {
        let (alone, name) = claim(ctx)?;
        let common_dir = ctx.repo.common_dir().to_owned();
        // What a killed train held there.
        leases::free(&common_dir, &name)?;
        let held = leases::take(
            &common_dir,
            &name,
            &Slug::from_text("train"),
            &options.leases,
        )?;
        Ok(Station {
            name,
            variables: commands::named(held),
            common_dir,
            _alone: alone,
        })
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        // What cannot be given back now is when the place is used again.
        let _ = leases::free(&self.common_dir, &self.name);
    }
}

/// Runs checks until there are no more to come, each in a room of its own.
pub(super) fn work(seed: &Seed, options: &CheckOptions, tasks: &Receiver<CheckTask>) {
    let Ok(first) = tasks.recv() else {
        return;
    };
    let opened = seed.open().and_then(|ctx| {
        let station = Station::enter(&ctx, options)?;
        Ok((ctx, station))
    });
    let (ctx, station) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The listener stays until it has every answer.
            let _ = { first.answer }.send((first.number, Duration::ZERO, Err(error)));
            return;
        }
    };
    let mut next = Some(first);
    while let Some(task) = next {
        let clock = Instant::now();
        // In the same order as runs, before a worktree is made for it.
        let turn = limits::load(&ctx).and_then(|limits| admission::turn(&ctx, &limits, true));
        let place = turn.and_then(|turn| Ok((turn, CheckWorktree::of(&ctx, &station.name)?)));
        let opened = place.and_then(|(turn, place)| {
            let request = CheckRequest {
                commit: task.commit,
                place: Some(place),
                setup: &options.setup,
                fence: (options.mode, &options.enforcement),
                variables: &station.variables,
            };
            Ok((turn, CheckRoom::open(&ctx, request)?))
        });
        let (room, ran) = match opened {
            Ok((_turn, mut room)) => {
                let ran = room.check(&task.checks, options.limit, options.keep_going);
                (Some(room), ran)
            }
            Err(error) => (None, Err(error)),
        };
        let _ = { task.answer }.send((task.number, clock.elapsed(), ran));
        // The train goes on while the worktree is removed.
        drop(room);
        next = tasks.recv().ok();
    }
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
                // A place where a person works by now is passed over.
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
