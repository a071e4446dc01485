//! When a session starts.

use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
use crate::agents::host_session::{self, SessionPhase};
use crate::agents::notify::{Notice, notify};
use crate::domain::agent::State;
use crate::domain::message::plain;
use crate::domain::prompt;
use crate::domain::tool_call::{HookAnswer, ToolCall};
use crate::error::Result;
use crate::ops::host_hook::{directory_of, whereabouts};
use crate::ops::mail::MessageReport;
use crate::store::mailbox::{Mailbox, Reader};

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
            policy.denylist.iter().map(String::as_str),
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
            notify(
                &home.repo,
                Notice::Waiting,
                &home.agent,
                State::Waiting.as_str(),
            );
        }
        Ok(_) => {}
        Err(error) => tracing::debug!(%error, "what the session does is not noted"),
    }
}

/// Notes that a session, or the subagent that a stop is about, waits for its next prompt. A subagent of which nothing is known is
/// the only one that works there: it was given this worktree.
pub(super) fn note_stop(env: &Env, call: &ToolCall, home: &CurrentAgent) {
    let (common_dir, id) = (home.repo.common_dir(), home.agent.id);
    let whole = ToolCall {
        subagent: None,
        ..call.clone()
    };
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
