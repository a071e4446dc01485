//! Agents in the worktrees that a host asks for.
//!
//! A host names its request as it likes, and several requests at once come in no order. So a call of its agent tool that names a
//! waiting agent in its prompt is noted in that agent's directory ([`note_call`]), a request of the same session is given any
//! agent that was noted ([`hand_out`]), and the subagent is told the prompt of the agent in whose worktree it finds itself
//! ([`subagent_start`]): which of them got which does not matter. A request without such a call becomes a new agent, where the
//! settings of the repository say what an agent may touch ([`spawn_for`]). What that agent left unchanged goes when the host is done
//! with it ([`discard_unused`]).

use crate::agents::ctx::{Ctx, Env, Seams};
use crate::agents::{lookup, worktree};
use crate::domain::agent::{Agent, State};
use crate::domain::event::Isolation;
use crate::domain::id::{AgentId, AgentName};
use crate::domain::sandbox::Layering;
use crate::domain::tool_call::{HookAnswer, Intent, ToolCall};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::hosts;
use crate::ops::discard::{self, DiscardOptions};
use crate::ops::host_hook::directory_of;
use crate::ops::host_hook::session::{home_of, session_start};
use crate::ops::spawn::{self, SpawnOptions};
use crate::ops::status;
use crate::store::ledger::Ledger;
use crate::store::{briefing, fsx, layout, repository_settings, roles};
use crate::wire::task_file::{self, TaskWords};
use std::fs;
use std::path::PathBuf;

/// Names the session that called the agent, below the agent's directory.
const CALLED: &str = "called";
/// Names the host's subagent or session that the agent was made for, or that it was given to.
const HANDED_OUT: &str = "handed-out";
/// There where the agent was made because a host asked for a worktree.
const HOST_MADE: &str = "host-made";

/// What a host puts before the name of a subagent that it asks a worktree for.
const SUBAGENT: &str = "agent-";

/// The longest prompt that a subagent is told, in bytes; hosts cut off what is longer.
const LONGEST_TOLD: usize = 9_000;

/// Notes that a session calls its agent tool for a waiting agent, isolated in a worktree. Where that cannot be noted, the
/// request for the worktree is answered as any other.
pub(super) fn note_call(env: &Env, call: &ToolCall) {
    let Intent::SpawnsAgent {
        isolation: Some(isolation),
        prompt: Some(prompt),
        ..
    } = &call.intent
    else {
        return;
    };
    let Some(session) = call.session.as_ref().filter(|_| isolation == "worktree") else {
        return;
    };
    // A prompt is free text, so the id is found by its form alone.
    let words = prompt.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    let Some(id) = words
        .filter(|word| word.len() == 36)
        .find_map(AgentId::parse)
    else {
        return;
    };
    let noted = Repo::open(&directory_of(env, call)).and_then(|repo| {
        let agent = Ledger::new(&repo).find(&id.to_string())?;
        if !is_waiting(&agent) {
            return Ok(());
        }
        let directory = layout::agent_dir(repo.common_dir(), agent.id);
        fsx::write_private(&directory.join(CALLED), session.as_bytes())
    });
    let _ = noted;
}

/// Whether an agent was spawned and no run of it was started yet.
fn is_waiting(agent: &Agent) -> bool {
    agent.state == State::Ready
        && agent.run.is_none()
        && agent.isolation == Some(Isolation::Worktree)
}

/// The worktree of an agent that the session of this request called for, if one is left.
///
/// # Errors
/// Those of the ledger.
pub(super) fn hand_out(repo: &Repo, call: &ToolCall, name: &str) -> Result<Option<PathBuf>> {
    let Some(session) = &call.session else {
        return Ok(None);
    };
    let common = repo.common_dir();
    for agent in Ledger::new(repo).agents()? {
        let directory = layout::agent_dir(common, agent.id);
        let called = directory.join(CALLED);
        // Another session's request must not get what was meant for this one.
        if !is_waiting(&agent) || fs::read(&called).ok().as_deref() != Some(session.as_bytes()) {
            continue;
        }
        let place = worktree::find(repo, &agent).filter(|path| path.join(".git").exists());
        // Of several requests one takes it.
        if place.is_some() && fs::remove_file(&called).is_ok() {
            fsx::write_private(&directory.join(HANDED_OUT), name.as_bytes())?;
            return Ok(place);
        }
    }
    Ok(None)
}

/// A new agent for a request that names none, and its worktree; nothing where the settings at `HEAD` do not say what an
/// agent may touch.
///
/// # Errors
/// Those of [`spawn::plan`] and [`spawn::execute`].
pub(super) fn spawn_for(ctx: &Ctx, name: &str, parent: Option<AgentId>) -> Result<Option<PathBuf>> {
    let head = ctx.repo.resolve_commit("HEAD")?.commit;
    let settings = repository_settings::load(&ctx.repo, head, &roles::load(&ctx.repo, head)?)?;
    if settings.scope.is_none() {
        return Ok(None);
    }
    let is_subagent = name.starts_with(SUBAGENT);
    let asker = if is_subagent { "subagent" } else { "session" };
    let draft = task_file::of_words(&TaskWords {
        text: format!(
            "Do what the {asker} of the agent host is asked for, which called itself {name}."
        ),
        // A host's subagent was never told of the six files, so they are asked of it only where the
        // settings do.
        bundle: settings.bundle_required.is_none().then_some(false),
        ..TaskWords::default()
    });
    // A subagent's name is made by the host and says nothing to a reader.
    let alias = AgentName::parse(&name.replace('/', "-")).ok();
    let options = SpawnOptions {
        name: alias.filter(|_| !is_subagent).map(|name| name.to_string()),
        parent: parent.map(|id| id.to_string()),
        // The host works there without a mount of ours.
        layered: Some(Layering::Off),
        ..SpawnOptions::default()
    };
    let plan = spawn::plan(ctx, draft, &options)?;
    let (id, place) = (plan.id, plan.directory(ctx)?);
    spawn::execute(ctx, plan)?;
    let directory = layout::agent_dir(ctx.repo.common_dir(), id);
    fsx::write_private(&directory.join(HANDED_OUT), name.as_bytes())?;
    fsx::write_private(&directory.join(HOST_MADE), b"")?;
    Ok(Some(place))
}

/// Tells a subagent in an agent's worktree what the agent is to do.
///
/// # Errors
/// Those of finding the agent, `io`.
pub fn subagent_start(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let Some(home) = home_of(env, call)? else {
        return Ok(HookAnswer::Allow);
    };
    let directory = layout::agent_dir(home.repo.common_dir(), home.agent.id);
    let prompt = directory.join(briefing::PROMPT);
    let told = match session_start(env, call)? {
        HookAnswer::Say { stdout } => stdout,
        _ => String::new(),
    };
    let given = directory.join(HANDED_OUT).exists() && !directory.join(HOST_MADE).exists();
    let text = if given && prompt.exists() {
        let text = fs::read_to_string(&prompt).at("could not read", &prompt)?;
        if text.len() > LONGEST_TOLD {
            let shown = prompt.display();
            format!(
                "{told}\nYour task is in {shown}. Read it whole before you begin. It takes the place of any other.\n"
            )
        } else {
            format!(
                "This is your task, and takes the place of any other that you were given.\n\n{text}"
            )
        }
    } else {
        told
    };
    let stdout = hosts::subagent_context(&text);
    Ok(HookAnswer::Say { stdout })
}

/// Discards an agent that was made for a host, if that is done with it and nothing was changed. `asker` is what asked for the
/// worktree; without one it is enough that the agent was made for a host. Gives whether it is gone.
///
/// # Errors
/// Those of reading the work and of discarding it.
pub(super) fn discard_unused(
    env: &Env,
    repo: &Repo,
    agent: &Agent,
    asker: Option<&str>,
) -> Result<bool> {
    let directory = layout::agent_dir(repo.common_dir(), agent.id);
    let own =
        |name: &str| fs::read(directory.join(HANDED_OUT)).is_ok_and(|held| held == name.as_bytes());
    if !directory.join(HOST_MADE).exists() || asker.is_some_and(|name| !own(name)) {
        return Ok(false);
    }
    // From outside of the worktree: no agent discards itself.
    let root = repo.root()?;
    let env = Env {
        directory: root.clone(),
        ..env.clone()
    };
    let ctx = Ctx::new(Repo::open(&root)?, env, Seams::real());
    if !lookup::is_local(&ctx, agent) {
        return Ok(false);
    }
    let work = status::of(&ctx, agent);
    // What cannot be determined counts as used.
    let is_unused = work.uncommitted.known() == Some(&0) && work.ahead.known() == Some(&0);
    if !is_unused {
        return Ok(false);
    }
    let plan = discard::plan(&ctx, &agent.id.to_string(), DiscardOptions::default())?;
    discard::execute(&ctx, plan)?;
    Ok(true)
}

/// Whether a stop ends the subagent that an agent was made for, and nothing was changed: then the agent goes.
pub(super) fn ends_unused(env: &Env, call: &ToolCall, repo: &Repo, agent: &Agent) -> bool {
    let Some(subagent) = &call.subagent else {
        return false;
    };
    let asker = format!("{SUBAGENT}{subagent}");
    // What cannot be removed stays, and is judged as it is.
    discard_unused(env, repo, agent, Some(&asker)).unwrap_or(false)
}
