//! When a command may begin to work for an agent: its turn among all commands of the clone, what the day may still
//! cost, and the limits that say so.

use crate::agents::context::ctx::Ctx;
use crate::domain::life::limits::usd;
use crate::domain::{Limit, Limits};
use crate::error::{Code, Error, Remedy, Result};
use crate::proc::signals::Interrupts;
use crate::store::files::tickets::Ticket;
use crate::store::settings::repository_settings;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use std::path::Path;
use std::time::Duration;

/// How often the next in line looks whether there is room: no lock can be waited for that one of several gives back.
const LOOK: Duration = Duration::from_millis(50);

/// A command that is so far behind looks this many times less often, so that a long queue takes no processor time.
const RAREST: usize = 20;

/// How often the cost of the day is added up again, which takes reading rows.
const COST_LOOK: Duration = Duration::from_secs(5);

/// How often it is asked meanwhile whether this command was told to end.
const TICK: Duration = Duration::from_millis(200);

/// Leave to begin, until it is dropped.
#[derive(Debug)]
pub(crate) struct Admission {
    ticket: Option<Ticket>,
}

impl Admission {
    /// The file by which a supervisor holds the place as well.
    pub(crate) fn ticket(&self) -> Option<&Path> {
        self.ticket.as_ref().map(Ticket::path)
    }
}

/// Waits until a command may begin, in the order in which commands of this clone came; where it `may_wait` not, or is itself the
/// command of a run, it ends in place of waiting.
///
/// # Errors
/// `limit-reached`; `lock-timeout`, `repo-corrupt`, `io`.
pub(crate) fn admit(ctx: &Ctx, limits: &Limits, may_wait: bool) -> Result<Admission> {
    let ticket = turn(ctx, limits, may_wait)?;
    // After the turn, so that what the commands before it cost is counted.
    wait_for_budget(ctx, limits, may_wait && is_first(ctx))?;
    Ok(Admission { ticket })
}

/// As [`admit`], for a command that costs nothing.
///
/// # Errors
/// As [`admit`].
pub(crate) fn turn(ctx: &Ctx, limits: &Limits, may_wait: bool) -> Result<Option<Ticket>> {
    require_possible(limits)?;
    let is_counted = limits.get(Limit::Jobs).or(limits.get(Limit::MemoryTotal));
    if is_counted.is_none() {
        return Ok(None);
    }
    let memory = limits.memory_of_run().unwrap_or(0);
    let mut ticket = Ticket::take(ctx.repo.common_dir(), memory)?;
    // The place in the queue is taken before the wait, so that commands begin in the order in which
    // they came.
    wait_for_turn(ctx, limits, &mut ticket, may_wait && is_first(ctx))?;
    Ok(Some(ticket))
}

/// Whether this is no command of a run. The run around it holds a place until it is over: to wait for that would be to wait for ever.
fn is_first(ctx: &Ctx) -> bool {
    // A command inside of a run would wait for the room that its own run takes.
    ctx.env.depth == 0
}

/// A run that is larger than what all have together never begins.
fn require_possible(limits: &Limits) -> Result<()> {
    let (one, all) = (Limit::Memory, Limit::MemoryTotal);
    match (limits.get(one), limits.get(all)) {
        (Some(own), Some(total)) if own > total => Err(Error::new(
            Code::LimitReached,
            format!(
                "no run can begin: `{one}` of one is {}, and `{all}` of all is {}",
                one.show(own),
                all.show(total)
            ),
        )
        .remedy("to see what holds", Remedy::Settings)),
        _ => Ok(()),
    }
}

fn wait_for_turn(ctx: &Ctx, limits: &Limits, ticket: &mut Ticket, may_wait: bool) -> Result<()> {
    let mut shown = None;
    loop {
        let ahead = ticket.ahead()?;
        let Some((limit, room)) = limits.obstacle(&ahead) else {
            return Ok(());
        };
        let before = ahead.len();
        let what = format!(
            "{before} {} before this one, and `{limit}` is {}",
            if before == 1 { "run is" } else { "runs are" },
            limit.show(limits.get(limit).unwrap_or(0))
        );
        require_patience(may_wait, &what)?;
        shown.get_or_insert_with(|| ctx.activity("")).now(&format!("waiting: {what}"));
        // The further behind, the more seldom it looks: only the next ones have to be quick.
        let behind = before.saturating_sub(room).clamp(1, RAREST);
        std::thread::sleep(LOOK * u32::try_from(behind).unwrap_or(1));
    }
}

fn wait_for_budget(ctx: &Ctx, limits: &Limits, may_wait: bool) -> Result<()> {
    let mut shown = None;
    while let Some(what) = exhausted(ctx, limits)? {
        require_patience(may_wait, &what)?;
        let tomorrow = next_day(ctx.now());
        let what = format!("waiting until {} UTC: {what}", tomorrow.format("%F %R"));
        shown.get_or_insert_with(|| ctx.activity("")).now(&what);
        let mut left = COST_LOOK;
        // In short pieces, so that a request to end is noticed at once.
        while !left.is_zero() {
            require_patience(may_wait, &what)?;
            std::thread::sleep(TICK);
            left = left.saturating_sub(TICK);
        }
    }
    Ok(())
}

/// What the day has cost, where that is as much as it may.
///
/// # Errors
/// `repo-corrupt`, `io`.
pub(crate) fn exhausted(ctx: &Ctx, limits: &Limits) -> Result<Option<String>> {
    let Some(most) = limits.get(Limit::CostDay) else {
        return Ok(None);
    };
    let spent = ctx.ledger().cost_of_day(today(ctx))?;
    Ok((spent >= most).then(|| {
        let (spent, most) = (usd(spent), usd(most));
        format!("the runs of today cost {spent}, and `{}` is {most}", Limit::CostDay)
    }))
}

/// Today, by UTC, as rows have it.
pub(crate) fn today(ctx: &Ctx) -> NaiveDate {
    ctx.now().date_naive()
}

fn next_day(now: DateTime<Utc>) -> DateTime<Utc> {
    let day = now.date_naive() + TimeDelta::days(1);
    day.and_time(chrono::NaiveTime::MIN).and_utc()
}

/// Refuses to wait where that was not wanted, or where this process was asked to end meanwhile.
fn require_patience(may_wait: bool, what: &str) -> Result<()> {
    let refuse = |text: String| {
        let error = Error::new(Code::LimitReached, text);
        Err(error.remedy("to see what is at work", Remedy::Running))
    };
    match (may_wait, Interrupts::is_any_received()) {
        (true, false) => Ok(()),
        (false, _) => refuse(format!("the run does not begin: {what}")),
        (true, true) => refuse(format!("asked to end while the run waited: {what}")),
    }
}

// The limits that hold in this clone: `[limits]` of the commit that the main worktree is at, and `agent.limits.*`.

/// Where the settings of a person or a clone stand, in small letters.
pub(crate) const PREFIX: &str = "agent.limits.";

/// Whether running commands end at `costDay`; no limit, so not one of [`Limit`].
const COST_HARD: &str = "agent.limits.costhard";

/// What holds, from both places.
///
/// # Errors
/// `settings-invalid`, `usage` for a bad value of git's configuration, `git-failed`, `repo-corrupt`.
pub(crate) fn load(ctx: &Ctx) -> Result<Limits> {
    let mut limits = repository_settings::of_main_worktree(&ctx.repo)?.limits;
    // Of both places the stricter value holds, so no file of the repository can widen what its user
    // allows.
    for (limit, value) in of_git(ctx)?.each() {
        limits.tighten(limit, value);
    }
    Ok(limits)
}

/// What git's configuration says. A worktree's own is not read: an agent can write that.
///
/// # Errors
/// `usage` for a key or a value that is none, `git-failed`.
pub(crate) fn of_git(ctx: &Ctx) -> Result<Limits> {
    let mut limits = Limits::default();
    let settings = ctx.repo.shared_settings(PREFIX)?;
    for (at, setting) in settings.iter().enumerate() {
        // As in git, the last value of a key counts: those before it are overridden and not judged.
        let mut later = settings.iter().skip(at + 1);
        if setting.key == COST_HARD || later.any(|one| one.key == setting.key) {
            continue;
        }
        let name = &setting.key[PREFIX.len()..];
        let refuse = |wrong: String, help: &str| {
            let key = format!("{PREFIX}{name}");
            Error::new(Code::Usage, format!("{key}: {wrong}; {help}"))
                .hint(format!("to remove it, run git config --unset-all {key}"))
        };
        let limit = Limit::of_git_key(name).map_err(|near| {
            let near = near.map(|near| format!("did you mean {PREFIX}{near}?"));
            let help = near.unwrap_or_else(|| "they are those of [limits]".to_owned());
            refuse("there is no such limit".to_owned(), &help)
        })?;
        let value = limit.read(&setting.value).map_err(|(wrong, help)| refuse(wrong, help))?;
        limits.tighten(limit, value);
    }
    Ok(limits)
}

/// Whether running commands end when the day has cost what it may.
///
/// # Errors
/// `usage` for a value that is neither true nor false, `git-failed`.
pub(crate) fn is_cost_hard(ctx: &Ctx) -> Result<bool> {
    Ok(ctx.repo.shared_flag(COST_HARD)?.unwrap_or(false))
}
