//! What other programs call: `hook`, by git and by agent hosts, and `mcp`.

use crate::agents::life::host_session::SessionPhase;
use crate::agents::{Ctx, Env};
use crate::cli::out::ui::Ui;
use crate::domain::boundary::tool_call::HookAnswer;
use crate::error::{Exit, Result};
use crate::hosts::payload::{self, HookPayload, LONGEST_PAYLOAD};
use crate::ops::mcp::become_server;
use crate::ops::{git_hook, host_hook};
use clap::Subcommand;
use std::ffi::OsString;
use std::io::Read;

/// Answer a hook (internal: called by git and agent hosts)
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct HookArgs {
    #[command(subcommand)]
    caller: Caller,
}

#[derive(Debug, Subcommand)]
enum Caller {
    Git(GitHookArgs),
    #[command(flatten)]
    Host(HostHook),
}

/// Answer a git hook in an agent's worktree; allow everything elsewhere
#[derive(Debug, clap::Args)]
struct GitHookArgs {
    /// Hook's name, such as pre-commit
    #[arg(value_name = "HOOK")]
    name: String,
    /// What git passes to the hook
    #[arg(value_name = "ARG", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Runs before any repository is opened: a hook is called in places that have none.
pub(in crate::cli) fn run(ui: &mut Ui, args: HookArgs) -> Result<Exit> {
    match args.caller {
        Caller::Git(args) => run_git(ui, &args),
        Caller::Host(hook) => run_host(ui, hook),
    }
}

fn run_git(ui: &mut Ui, args: &GitHookArgs) -> Result<Exit> {
    let ctx = match Ctx::of_process() {
        Err(error) if git_hook::may_pass(&args.name) => {
            ui.warn(&format!("the {} hook could not judge: {error}", args.name));
            return Ok(Exit::Yes);
        }
        other => other?,
    };
    let call = git_hook::Call {
        name: &args.name,
        arguments: &args.arguments,
        input: &mut std::io::stdin(),
        warn: &mut |text| ui.warn(text),
    };
    git_hook::run(&ctx, call)
}

// `git agent hook pre-tool` and its sisters, which agent hosts call.

/// The hooks of agent hosts; each reads the host's payload on standard input.
#[derive(Clone, Copy, Debug, clap::Subcommand)]
pub(in crate::cli) enum HostHook {
    /// Before a tool runs: status 2 and a reason when the agent may not do that
    PreTool,
    /// After a tool that may have started programs: status 2 and a list when the work is out of scope
    PostTool,
    /// When a session starts: what the agent may touch and has to leave behind
    SessionStart,
    /// When a session gets a prompt: record that it is at work
    Prompt,
    /// When a session waits for an answer or a permission
    Notification,
    /// When a session is over
    SessionEnd,
    /// When a host's subagent starts: its task, in JSON, if it works in an agent's worktree
    SubagentStart,
    /// When an agent wants to end: status 2 and a list while its work is not acceptable, three times at most
    Stop,
    /// Make the worktree that the host wants and print its path
    WorktreeCreate,
    /// Remove a worktree that the host is done with, unless something would be lost
    WorktreeRemove,
}

fn run_host(ui: &mut Ui, hook: HostHook) -> Result<Exit> {
    let payload = payload::read(&read_input());
    let call = &payload.call;
    let answer = Env::of_process().and_then(|env| match hook {
        HostHook::PreTool => host_hook::pre_tool(&env, call),
        HostHook::PostTool => host_hook::post_tool(&env, call),
        HostHook::SessionStart => host_hook::session_start(&env, call),
        HostHook::Prompt => host_hook::phase(&env, call, SessionPhase::Working),
        HostHook::Notification => host_hook::phase(&env, call, SessionPhase::Waiting),
        HostHook::SessionEnd => host_hook::session_end(&env, call),
        HostHook::SubagentStart => host_hook::subagent_start(&env, call),
        HostHook::Stop => host_hook::stop(&env, call),
        HostHook::WorktreeCreate => host_hook::worktree_create(&env, call),
        HostHook::WorktreeRemove => host_hook::worktree_remove(&env, call),
    });
    match (answer, hook) {
        (Ok(answer), _) => speak(ui, &payload, &answer),
        // Before a tool an error is a denial: what cannot be judged does not run.
        (Err(error), HostHook::PreTool) => speak(ui, &payload, &host_hook::refusal(call, &error)),
        // Never 2, which hosts take for a denial.
        (Err(error), _) => {
            let _ = ui.fail(&error);
            Ok(Exit::Environment)
        }
    }
}

fn speak(ui: &mut Ui, payload: &HookPayload, answer: &HookAnswer) -> Result<Exit> {
    if let Some(addition) = payload.addition(answer.stderr()).filter(|_| answer.status() != 0) {
        ui.print(&addition)?;
        return Ok(Exit::Yes);
    }
    ui.explain(answer.stderr());
    match answer {
        HookAnswer::Deny { .. } => {
            ui.print(&payload.denial(answer.stderr()))?;
            Ok(Exit::Denied)
        }
        HookAnswer::Allow | HookAnswer::Say { .. } => {
            ui.print(answer.stdout())?;
            Ok(Exit::Yes)
        }
    }
}

/// Standard input, one byte beyond what is still read. What cannot be read to its end is judged as it
/// is: cut off, it is no payload.
fn read_input() -> Vec<u8> {
    let mut payload = Vec::new();
    let longest = LONGEST_PAYLOAD as u64 + 1;
    let _ = std::io::stdin().lock().take(longest).read_to_end(&mut payload);
    payload
}

// `git agent mcp`

/// Serve the agents of this repository to a client of the Model Context Protocol, over standard input and output
///
/// The server is `git-agent-mcp`, a program beside this one or on PATH. Its tools are spawn, run, wait, list, show, diff, verify, merge and send.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct McpArgs {}

/// Needs no repository: each tool says for itself that there is none.
pub(in crate::cli) fn run_mcp() -> Result<Exit> {
    match become_server(&Env::of_process()?)? {}
}
