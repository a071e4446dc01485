//! One run as the ledger tells it: the keys of `git-agent.run/2` that are known of every run.

use crate::agents::{Ctx, life::liveness};
use crate::domain::life::event::Exited;
use crate::domain::{Agent, Ending, Run};
use crate::ops::agent_report::{SessionReport, rfc3339};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The status of a run whose command ended well.
pub(in crate::ops) const SUCCESS: &str = "success";

/// A run in JSON. Absent means not applicable.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.run/2")]
pub struct RunRow {
    /// `running`, `success` for a command that ended with status 0, else `failed`.
    pub status: &'static str,
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The agent's alias.
    pub name: Option<String>,
    /// The number of the run among those of its agent.
    pub run: u32,
    /// The command, shortened, with its placeholders.
    pub command: String,
    /// The status as a shell gives it; absent while the command works.
    pub exit_code: Option<u8>,
    /// What ended it: `exit`, `signal`, `timeout`, `stopped` or `lost`.
    pub ended: Option<&'static str>,
    /// When it began, RFC 3339.
    pub started_at: String,
    /// When it ended, RFC 3339.
    pub ended_at: Option<String>,
    /// The process that supervises it; absent when it is over.
    pub pid: Option<u32>,
    /// How long the command may take, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// How much of that is left, in milliseconds; absent when the command is over.
    pub left_ms: Option<u64>,
    /// What the sandbox enforces.
    pub sandbox: Option<Fenced>,
    /// What its host told of its session.
    #[serde(flatten)]
    pub session: SessionReport,
    /// Null where its command ended well and what was to judge the work was killed.
    pub verdict: Option<Option<&'static str>>,
    /// The log of its standard output, absolute.
    pub stdout_path: String,
    /// The log of its standard error, absolute.
    pub stderr_path: String,
    /// Seconds since it began, for people.
    #[serde(skip)]
    pub age_seconds: i64,
}

/// What a run's row tells of its sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fenced {
    /// `full`, `partial`, `none` or `off`.
    pub enforced: String,
}

impl RunRow {
    /// What is known of a run; the caller knows whether a process is at work for it.
    pub(in crate::ops) fn of(ctx: &Ctx, agent: &Agent, run: &Run, works: bool) -> RunRow {
        let common = ctx.repo.common_dir();
        let path = |stream| {
            let path = liveness::log(common, agent, run.number(), stream);
            path.to_string_lossy().into_owned()
        };
        let end = run.end.as_ref();
        let facts = end.map(|(facts, _)| facts);
        let succeeded = facts.is_some_and(Exited::is_success);
        RunRow {
            status: match (works, succeeded) {
                (true, _) => "running",
                (false, true) => SUCCESS,
                (false, false) => "failed",
            },
            agent_id: agent.id.to_string(),
            short_id: agent.id.short(),
            name: agent.name.as_ref().map(ToString::to_string),
            run: run.number(),
            command: run.started.command.clone(),
            exit_code: facts.map(|facts| facts.code),
            ended: facts.and_then(|facts| facts.ended).map(Ending::as_str),
            started_at: rfc3339(run.began),
            ended_at: end.map(|(_, time)| rfc3339(*time)),
            // Once the run is over its number may be that of another process.
            pid: works.then_some(run.started.pid),
            timeout_ms: run.started.limit_ms,
            left_ms: match end {
                None if works => run.started.limit_ms.map(|limit| left(run, limit, ctx.now())),
                _ => None,
            },
            sandbox: run.started.sandbox.clone().map(|enforced| Fenced { enforced }),
            session: facts.map(|facts| SessionReport::from(&facts.session)).unwrap_or_default(),
            verdict: None,
            stdout_path: path("out"),
            stderr_path: path("err"),
            age_seconds: (ctx.now() - run.began).num_seconds().max(0),
        }
    }
}

fn left(run: &Run, limit: u64, now: DateTime<Utc>) -> u64 {
    let limit = TimeDelta::milliseconds(i64::try_from(limit).unwrap_or(i64::MAX));
    // A clock that was set back has the run begin later.
    let left = (limit - (now - run.began).max(TimeDelta::zero())).num_milliseconds();
    u64::try_from(left).unwrap_or(0)
}
