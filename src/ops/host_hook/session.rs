//! When a session starts.

use crate::agents::ctx::Env;
use crate::agents::current::CurrentAgent;
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

pub(super) fn home_of(env: &Env, call: &ToolCall) -> Result<Option<CurrentAgent>> {
    let directory = directory_of(env, call);
    CurrentAgent::find(env, &whereabouts(env, &directory))
}
