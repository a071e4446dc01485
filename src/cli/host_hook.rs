//! `git agent hook pre-tool` and its sisters, which agent hosts call.

use super::ui::Ui;
use crate::domain::tool_call::HookAnswer;
use crate::error::{Exit, Result};
use crate::ops::ctx::Env;
use crate::ops::host_hook;
use crate::wire::hook_payload::LONGEST_PAYLOAD;
use std::io::Read;

/// The hooks of agent hosts; each reads the host's payload on standard input.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub(super) enum HostHook {
    /// Before a tool runs: status 2 and a reason when the agent may not do that
    PreTool,
    /// When a session starts: what the agent may touch and has to leave behind
    SessionStart,
    /// When an agent wants to end: status 2 and a list while its bundle is not complete
    Stop,
    /// Make the worktree that the host wants and print its path
    WorktreeCreate,
    /// Remove a worktree that the host is done with, unless something would be lost
    WorktreeRemove,
}

pub(super) fn run(ui: &mut Ui, hook: HostHook) -> Result<Exit> {
    let payload = read_payload();
    let answer = Env::of_process().and_then(|env| match hook {
        HostHook::PreTool => host_hook::pre_tool(&env, &payload),
        HostHook::SessionStart => host_hook::session_start(&env, &payload),
        HostHook::Stop => host_hook::stop(&env, &payload),
        HostHook::WorktreeCreate => host_hook::worktree_create(&env, &payload),
        HostHook::WorktreeRemove => host_hook::worktree_remove(&env, &payload),
    });
    match (answer, hook) {
        (Ok(answer), _) => speak(ui, &answer),
        (Err(error), HostHook::PreTool) => speak(ui, &host_hook::refusal(&payload, &error)),
        // Never 2, which hosts take for a denial.
        (Err(error), _) => {
            let _ = ui.fail(&error);
            Ok(Exit::Environment)
        }
    }
}

fn speak(ui: &mut Ui, answer: &HookAnswer) -> Result<Exit> {
    ui.print(answer.stdout())?;
    ui.explain(answer.stderr());
    Ok(match answer {
        HookAnswer::Deny { .. } => Exit::Denied,
        HookAnswer::Allow | HookAnswer::Say { .. } => Exit::Yes,
    })
}

/// Standard input, one byte beyond what is still read. What cannot be read to its end is judged as it
/// is: cut off, it is no payload.
fn read_payload() -> Vec<u8> {
    let mut payload = Vec::new();
    let longest = LONGEST_PAYLOAD as u64 + 1;
    let _ = std::io::stdin()
        .lock()
        .take(longest)
        .read_to_end(&mut payload);
    payload
}
