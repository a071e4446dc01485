//! Before a tool runs.

use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
use crate::agents::host_session::SessionPhase;
use crate::domain::tool_call::{HookAnswer, Intent, ToolCall, TouchedPath};
use crate::error::{Error, Result};
use crate::ops::host_hook::call_guard::{CallGuard, places};
use crate::ops::host_hook::session::note;
use crate::ops::host_hook::{directory_of, host_worktree, whereabouts};
use crate::ops::remedy;
use std::path::Path;

/// How many offending paths a reason lists.
const LISTED: usize = 20;

/// Judges a tool call by its intent, whatever event it came with. Inside an agent every file that it
/// would change must be in scope, an unreadable call is denied, and so is starting agents, unless the
/// policy allows that, and entering another worktree. Elsewhere only files in some agent's worktree
/// are judged: a write there is bound by that agent's scope.
///
/// # Errors
/// Whatever stood in the way of knowing the agent or its scope; see [`refusal`].
pub fn pre_tool(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    // Most calls only read. They are answered before anything is opened, because every one of them
    // waits.
    if is_harmless(&call.intent) {
        return Ok(HookAnswer::Allow);
    }
    let cwd = directory_of(env, call);
    match CurrentAgent::find(env, &whereabouts(env, &cwd))? {
        Some(home) => {
            note(env, call, &home, SessionPhase::Working);
            inside(&mut CallGuard::new(home, env)?, &cwd, &call.intent)
        }
        None => {
            host_worktree::note_call(env, call);
            outside(env, &cwd, call)
        }
    }
}

/// What a host is told when [`pre_tool`] failed: no, if the call could have changed something.
pub fn refusal(call: &ToolCall, error: &Error) -> HookAnswer {
    // A failure of ours must not keep an agent from reading.
    if is_harmless(&call.intent) {
        return HookAnswer::Allow;
    }
    let mut reason = format!("git-agent cannot judge this call, so it is denied: {error}");
    for cause in error.causes() {
        reason.push_str(&format!("\ncaused by: {cause}"));
    }
    for hint in error.hints(remedy::command) {
        reason.push_str(&format!("\nhint: {hint}"));
    }
    HookAnswer::Deny { reason }
}

/// Whether nothing about a call needs judging.
fn is_harmless(intent: &Intent) -> bool {
    match intent {
        Intent::Reads | Intent::NoTool | Intent::Unknown { .. } => true,
        // What a shell does is judged by the sandbox and by git's hooks; its words cannot say it.
        Intent::Shell { patched, .. } => patched.is_empty(),
        Intent::Writes(_)
        | Intent::SpawnsAgent { .. }
        | Intent::EntersWorktree
        | Intent::Unreadable { .. } => false,
    }
}

/// The files that a call would change, as far as they are known.
fn touched(intent: &Intent) -> &[TouchedPath] {
    match intent {
        Intent::Writes(touched) => touched,
        Intent::Shell { patched, .. } => patched,
        _ => &[],
    }
}

fn inside(fence: &mut CallGuard, cwd: &Path, intent: &Intent) -> Result<HookAnswer> {
    let agent = fence.home.agent.id.short();
    let reason = match intent {
        Intent::SpawnsAgent { .. } if !fence.home.policy.may_spawn => format!(
            "agent {agent} may not start agents: its role, {}, does not allow it. Do the work yourself, or write \
             into handoffs.md what is left for others to do.",
            fence.home.policy.role
        ),
        Intent::EntersWorktree => format!(
            "agent {agent} works in {} and nowhere else. Stay there.",
            fence.home.root.display()
        ),
        Intent::Unreadable { tool, why } => format!(
            "this {} call cannot be judged, so agent {agent} may not make it: {why}. Name every file by a plain path.",
            tool.as_deref().unwrap_or("tool")
        ),
        _ => {
            let mut offences = Vec::new();
            for touched in touched(intent) {
                offences.extend(fence.objection(cwd, touched)?.map(|why| (touched, why)));
            }
            if offences.is_empty() {
                return Ok(HookAnswer::Allow);
            }
            out_of_scope(fence, &offences)
        }
    };
    Ok(HookAnswer::Deny { reason })
}

/// A call from outside of every agent, which may still write into an agent's worktree: a host's
/// subagent often keeps the directory of the session that started it.
fn outside(env: &Env, cwd: &Path, call: &ToolCall) -> Result<HookAnswer> {
    let mut fences: Vec<CallGuard> = Vec::new();
    for touched in touched(&call.intent) {
        // A path that leads nowhere that can be told is refused inside of an agent alone: elsewhere
        // it is no business of ours.
        for place in places(cwd, touched).unwrap_or_default() {
            // Several files of one agent are judged by one guard.
            if fences
                .iter()
                .any(|fence| place.starts_with(&fence.home.root))
            {
                continue;
            }
            if let Some(home) = CurrentAgent::around(&place)? {
                fences.push(CallGuard::new(home, env)?);
            }
        }
    }
    for fence in &mut fences {
        let mut offences = Vec::new();
        for touched in touched(&call.intent) {
            let places = places(cwd, touched).unwrap_or_default();
            if places
                .iter()
                .any(|place| place.starts_with(&fence.home.root))
            {
                offences.extend(fence.objection(cwd, touched)?.map(|why| (touched, why)));
            }
        }
        if !offences.is_empty() {
            let reason = out_of_scope(fence, &offences);
            return Ok(HookAnswer::Deny { reason });
        }
    }
    Ok(HookAnswer::Allow)
}

fn out_of_scope(fence: &CallGuard, offences: &[(&TouchedPath, String)]) -> String {
    let agent = fence.home.agent.id.short();
    let mut reason = format!("agent {agent} may not change:\n");
    for (touched, why) in offences.iter().take(LISTED) {
        let path = touched.path.escape_debug();
        reason.push_str(&format!("  {path}: {why}\n"));
    }
    if offences.len() > LISTED {
        reason.push_str(&format!("  and {} more\n", offences.len() - LISTED));
    }
    reason.push_str(&format!(
        "{}If the task needs more, do not look for a way around: say so in {} and go on with the rest.",
        fence.rules(),
        fence.home.bundle().join("handoffs.md").display(),
    ));
    reason
}
