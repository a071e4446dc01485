//! When a session starts, and when its agent wants to end.

use crate::agents::context::ctx::{Ctx, Env, Seams};
use crate::agents::context::untrusted;
use crate::agents::life::host_session::{self, SessionPhase};
use crate::agents::upkeep::spool::{Notice, notify};
use crate::agents::who::current::CurrentAgent;
use crate::domain::boundary::tool_call::{HookAnswer, HookEvent, ToolCall};
use crate::domain::judge::evidence::{CommandEnd, Commands};
use crate::domain::judge::finding::{Finding, Verdict};
use crate::domain::life::agent::State;
use crate::domain::life::event::Isolation;
use crate::domain::mail::message::plain;
use crate::domain::work::{bundle, prompt};
use crate::error::Result;
use crate::git::Repo;
use crate::ops::host_hook::{CallClaim, directory_of, own_place, whereabouts, worktree};
use crate::ops::mail::MessageReport;
use crate::ops::verify::{self, Recording, VerifyOptions};
use crate::store::files::fsx;
use crate::store::mailbox::{Mailbox, Reader};
use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// How much of a message's summary a session is told, in characters.
const SUMMARY_LIMIT: usize = 500;

/// Tells an agent who it is, where it works, what it may touch, what it has to leave behind and whether
/// there is mail for it: a session that was resumed or compacted may have lost its prompt. Silent outside of agents.
///
/// # Errors
/// Those of [`CurrentAgent::find`].
pub fn session_start(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let Some(home) = home_of(env, call)? else {
        return Ok(HookAnswer::Allow);
    };
    let Some(_claim) = CallClaim::take(env, &home, call) else {
        return Ok(HookAnswer::Allow);
    };
    // One that was compacted in the middle of its work goes on with it.
    if !host_session::is_known(home.repo.common_dir(), home.agent.id, &name_of(call)) {
        note(env, call, &home, SessionPhase::Resting);
    }
    let policy = &home.policy;
    let mut stdout = format!(
        "You are agent {} in the role {}. You work in {} and nowhere else. You {}.\n",
        home.agent.id,
        policy.role,
        home.root.display(),
        prompt::GIT_BAN,
    );
    if !policy.may_spawn {
        stdout.push_str("You must not start other agents.\n");
    }
    stdout.push_str(&format!(
        "\n{}",
        prompt::scope(
            policy.edits,
            policy.whitelist.iter().map(String::as_str),
            &policy.denied_in_words(),
        )
    ));
    if policy.bundle_required {
        let directory = home.bundle();
        stdout.push_str(&prompt::deliverables(&directory.to_string_lossy()));
    }
    // An agent that cannot be told of its mail can still work.
    stdout.push_str(&mail(&home).unwrap_or_default());
    Ok(HookAnswer::Say { stdout })
}

/// How many messages wait for the agent, and the next one; nothing when there is none. Only looked at: a
/// session may be gone before the result is read.
fn mail(home: &CurrentAgent) -> Result<String> {
    let mailbox = Mailbox::new(&home.repo);
    // Only looked at: what a hook says may never reach the model, so nothing is marked as read.
    let open = mailbox.open(&Reader::agent(&home.agent)?)?;
    let Some(first) = open.first() else {
        return Ok(String::new());
    };
    let next = MessageReport::new(&mailbox.read(first)?, None);
    let summary: String = next.summary.chars().take(SUMMARY_LIMIT).collect();
    let count = match open.len() {
        1 => "1 unread message".to_owned(),
        count => format!("{count} unread messages"),
    };
    Ok(format!(
        "\nYou have {count}. Next: [{}] {} from {} ({}):\n{}\nTo read it whole, and the others, run git-agent receive.\n",
        next.priority,
        next.kind,
        plain(&next.sender()),
        next.message_id,
        plain(&summary),
    ))
}

/// Notes what a session does from now on. Silent outside of agents.
///
/// # Errors
/// Those of [`CurrentAgent::find`].
pub fn phase(env: &Env, call: &ToolCall, phase: SessionPhase) -> Result<HookAnswer> {
    if let Some(home) = home_of(env, call)? {
        note(env, call, &home, phase);
        worktree::learn_task(env, call, &home);
    }
    Ok(HookAnswer::Allow)
}

/// Notes that a session is over.
///
/// # Errors
/// Those of [`CurrentAgent::find`], `io`.
pub fn session_end(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    if let Some(home) = home_of(env, call)?
        && !is_in_a_run(env)
    {
        host_session::end(home.repo.common_dir(), home.agent.id, &name_of(call))?;
    }
    Ok(HookAnswer::Allow)
}

/// Notes what a session of an agent does, for commands that ask whether something works in the agent. What cannot be noted
/// keeps no call back.
pub(super) fn note(env: &Env, call: &ToolCall, home: &CurrentAgent, phase: SessionPhase) {
    // The row of a run says more than its host's hooks could.
    if is_in_a_run(env) {
        return;
    }
    let (common_dir, id) = (home.repo.common_dir(), home.agent.id);
    match host_session::note(common_dir, id, &name_of(call), phase) {
        Ok(true) if phase == SessionPhase::Waiting => {
            notify(&home.repo, Notice::Waiting, &home.agent, State::Waiting.as_str());
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "what the session does is not noted"),
    }
}

/// Notes that a session, or the subagent that a stop is about, waits for its next prompt. A subagent of which nothing is known is
/// the only one that works there: it was given this worktree.
fn note_stop(env: &Env, call: &ToolCall, home: &CurrentAgent) {
    let (common_dir, id) = (home.repo.common_dir(), home.agent.id);
    let whole = ToolCall { subagent: None, ..call.clone() };
    let is_own = host_session::is_known(common_dir, id, &name_of(call));
    // A host that tells of no subagent ends the session as a whole.
    let stopped = if is_own { call } else { &whole };
    note(env, stopped, home, SessionPhase::Resting);
}

/// Whether a run of ours works for the agent: its lock says more than any hook.
fn is_in_a_run(env: &Env) -> bool {
    env.agent.is_some() || env.fenced
}

/// By what a session, or a subagent in it, is told from others in the same worktree.
fn name_of(call: &ToolCall) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&call.session), part(&call.subagent))
}

pub(super) fn home_of(env: &Env, call: &ToolCall) -> Result<Option<CurrentAgent>> {
    let directory = directory_of(env, call);
    CurrentAgent::find(env, &whereabouts(env, &directory))
}

// When an agent wants to end.
//
// Its work is judged as `verify` judges it, and what rejects it goes back to the agent, which can still mend it. An
// agent that can never end is worse than one that ends too early, so it is sent back three times at most. The count
// is a file that the agent could change: this is feedback, and the verdict comes after the run.

/// How often an agent is sent back to work before it may end.
const ROUNDS: u32 = 3;

/// How long one check command may take; hosts wait for a hook for ten minutes.
const COMMAND_LIMIT: Duration = Duration::from_secs(300);

/// How many findings, and how many lines of a command's output, an agent is told.
const LISTED: usize = 20;

/// The file in which the rounds of this run are counted.
const COUNT: &str = "stop-rounds";

/// Sends an agent back with what is wrong with its work. The check commands run only in a run of ours: in a session of
/// a person they would run whenever the agent answers. A call that is no stop event is let go.
///
/// # Errors
/// Those of [`CurrentAgent::find`] and of counting the rounds.
pub fn stop(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let HookEvent::Stop { again } = call.event else {
        return Ok(HookAnswer::Allow);
    };
    let Some(home) = home_of(env, call)? else {
        return Ok(HookAnswer::Allow);
    };
    let Some(_claim) = CallClaim::take(env, &home, call) else {
        return Ok(HookAnswer::Allow);
    };
    worktree::learn_task(env, call, &home);
    let answer = answer(env, call, &home, again)?;
    // One that is sent back to work goes on.
    if matches!(answer, HookAnswer::Allow) {
        note_stop(env, call, &home);
    }
    Ok(answer)
}

/// Whether the agent may end.
fn answer(env: &Env, call: &ToolCall, home: &CurrentAgent, again: bool) -> Result<HookAnswer> {
    let is_judged =
        home.agent.isolation == Some(Isolation::Worktree) || home.policy.bundle_required;
    if !is_judged {
        return Ok(HookAnswer::Allow);
    }
    // A subagent that has changed nothing has no work to judge, and its worktree goes.
    if worktree::ends_unused(env, call, &home.repo, &home.agent) {
        return Ok(HookAnswer::Allow);
    }
    let count = own_place(env, home).join(COUNT);
    let round = next_round(&count, again);
    if round > ROUNDS {
        return Ok(HookAnswer::Allow);
    }
    let problems = problems(env, home);
    if problems.is_empty() {
        return Ok(HookAnswer::Allow);
    }
    if keep_count(&count, round).is_err() && again {
        // Without a count it would never end.
        return Ok(HookAnswer::Allow);
    }
    let reason = format!(
        "{problems}Mend this before you end; as it is, the work is rejected. (Round {round} of {ROUNDS}.)"
    );
    Ok(HookAnswer::Deny { reason })
}

/// The number of this round. The first one of a turn is the first again.
fn next_round(count: &Path, again: bool) -> u32 {
    let known = count.parent().and_then(|place| untrusted::text(place, COUNT));
    let known = known.and_then(|text| text.trim().parse::<u32>().ok());
    known.filter(|_| again).map_or(1, |known| known.saturating_add(1))
}

fn keep_count(count: &Path, round: u32) -> Result<()> {
    // An agent that we never ran has no such directory yet.
    if let Some(directory) = count.parent() {
        fsx::create_dir(directory)?;
    }
    fsx::write_private(count, round.to_string().as_bytes())
}

/// What is wrong with the work, in words for the agent; empty where nothing is. Where the judge cannot answer, the
/// bundle alone is looked at.
fn problems(env: &Env, home: &CurrentAgent) -> String {
    let mut text = String::new();
    let lacking = if home.policy.bundle_required { lacking(&home.bundle()) } else { Vec::new() };
    if !lacking.is_empty() {
        text = format!(
            "MISSING for {}:\n  {}\nWrite them in {}.\n",
            home.agent.id,
            lacking.join("\n  "),
            home.bundle().display()
        );
    }
    // A judge that fails says nothing about the work, and must not keep the agent from ending.
    if let Ok(verdict) = judge(env, home) {
        text.push_str(&findings(&verdict, lacking.is_empty()));
    }
    text
}

fn judge(env: &Env, home: &CurrentAgent) -> Result<Verdict> {
    let ctx = Ctx::new(Repo::open(&home.root)?, env.clone(), Seams::real());
    let options = VerifyOptions {
        agent: Some(home.agent.id.to_string()),
        no_commands: env.agent.is_none(),
        limit: Some(COMMAND_LIMIT),
        recording: Recording::Never,
        ..VerifyOptions::default()
    };
    verify::verify(&ctx, &options)
}

/// The findings that reject the work, those about the six files only where they were not told of yet.
fn findings(verdict: &Verdict, with_bundle: bool) -> String {
    let told =
        |finding: &&Finding| finding.rejects() && (with_bundle || !finding.code.is_of_bundle());
    let rejecting: Vec<&Finding> = verdict.findings.iter().filter(told).collect();
    let mut text = String::new();
    for finding in rejecting.iter().take(LISTED) {
        let (code, message, fix) = (finding.code.name(), &finding.message, &finding.fix);
        text.push_str(&format!("{code}: {message}\n  to mend it: {fix}\n"));
    }
    if rejecting.len() > LISTED {
        text.push_str(&format!("and {} more\n", rejecting.len() - LISTED));
    }
    if let Commands::Ran(runs) = &verdict.commands {
        for run in runs.iter().filter(|run| run.end != CommandEnd::Status(0)) {
            let lines: Vec<&str> = run.output.trim_end().lines().collect();
            let end = lines.last_chunk::<LISTED>();
            let end = end.map_or(lines.as_slice(), |end| end.as_slice()).join("\n");
            text.push_str(&format!("the end of the output of `{}`:\n{end}\n", run.command));
        }
    }
    text
}

// What an agent's bundle still lacks, in words for the agent.

/// How much of a file is read.
const LONGEST: u64 = 1 << 20;

/// One line for each of the six files that is not there or says nothing, and for a `progress.json`
/// that does not say that the work is done. Only feedback: `verify` looks harder.
fn lacking(directory: &Path) -> Vec<String> {
    let problem = |name: &str| {
        let path = directory.join(name);
        match fs::symlink_metadata(&path) {
            Err(_) => Some("it is not there"),
            Ok(metadata) if !metadata.is_file() => Some("it is not a regular file"),
            Ok(metadata) if metadata.len() == 0 => Some("it is empty"),
            Ok(_) if is_template(&path, name) => Some("it is still the template"),
            Ok(_) if name == bundle::PROGRESS && !is_done(&path) => {
                Some("its `status` is not \"done\"")
            }
            Ok(_) => None,
        }
    };
    let lines = bundle::FILES.into_iter().filter_map(|(name, content)| {
        let problem = problem(name)?;
        Some(format!("{name}: {problem} ({content})"))
    });
    lines.collect()
}

fn is_done(path: &Path) -> bool {
    let value: Option<Value> =
        beginning(path).and_then(|bytes| serde_json::from_slice(&bytes).ok());
    value.is_some_and(|value| value.get("status").is_some_and(|status| status == "done"))
}

fn is_template(path: &Path, name: &str) -> bool {
    let text = beginning(path).and_then(|bytes| String::from_utf8(bytes).ok());
    text.is_some_and(|text| bundle::is_template(name, &text))
}

fn beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = untrusted::open(path.parent()?, Path::new(path.file_name()?))?;
    let read = file.take(LONGEST).read_to_end(&mut bytes);
    read.is_ok().then_some(bytes)
}
