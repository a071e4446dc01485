//! The private copy of an agent's task, `agents/<id8>/task.toml`, and how much of it is believed.
//!
//! An agent outside of a fence runs as its owner and can write that file. Its spawn commit names the digest of the task, so a
//! copy that was changed is refused as a whole: everything in it, from the globs to the commands of `[setup]`, may be run or
//! obeyed as what the owner said. Agents of earlier versions have no such digest. Of their copies only the text is used, which
//! the fingerprint in the ledger covers, with settings that start no command; what binds comes from the recorded policy.

use crate::agents::context::ctx::Ctx;
use crate::domain::value::diagnostic::{Field, Located};
use crate::domain::work::dna::Dna;
use crate::domain::{Agent, TaskDraft};
use crate::error::{Code, Error, Result};
use crate::store::files::{briefing, fsx, layout};
use crate::store::landing::spawn_commit;
use crate::wire::file::task_file;
use crate::wire::row::policy::Policy;

/// Reads the task of an agent, with what binds the agent now in the place of what the copy says.
///
/// # Errors
/// `agent-state` with one clause as the message where there is no copy or it was changed; those of [`spawn_commit::require_policy`].
pub(crate) fn load(ctx: &Ctx, agent: &Agent) -> Result<TaskDraft> {
    let path = layout::agent_dir(ctx.repo.common_dir(), agent.id).join(briefing::TASK);
    let unknown = |why: &str| Error::new(Code::AgentState, why);
    let source =
        fsx::load_if_there(&path)?.ok_or_else(|| unknown("its task is not in this clone"))?;
    let first = spawn_commit::at_spawn(&ctx.repo, agent)?;
    let first = first.ok_or_else(|| unknown("the ledger does not say how it began"))?;
    let mut draft = task_file::parse(&path.to_string_lossy(), &source);
    // A task without a file may name no role; what it was given is in the policy.
    draft.fallback_role = Some(first.role.clone());
    let changed = || unknown("its task was changed after it was spawned");
    let is_whole = match &first.task_sha {
        Some(known) if *known != task_file::digest(&source) => return Err(changed()),
        Some(_) => true,
        None if !is_text_of(&draft, agent, &first) => return Err(changed()),
        None => false,
    };
    if !is_whole {
        draft.role = given(first.role.clone());
        // The settings of the base, which the agent cannot change, may still ask for a set-up.
        for commands in [&mut draft.setup_copy, &mut draft.setup_run] {
            *commands = absent();
        }
        // The commit is the policy's; a base of the copy could be any.
        draft.base = first.base_ref.clone().map_or_else(absent, given);
        draft.output_file = absent();
    }
    // What was accepted at the spawn is not refused now: the limits of task files do not bind a task that was typed.
    draft.was_accepted = true;
    // A typed task says nothing of the bundle, and what its absence means differs from what it means in a file.
    draft.bundle_required = given(first.bundle_required);
    // The settings of the repository may have said what a typed task does not.
    if !is_whole || agent.amended.is_some() || draft.whitelist.given().is_none() {
        bind(&mut draft, &spawn_commit::require_policy(&ctx.repo, agent)?);
    }
    Ok(draft)
}

/// Whether the text in a copy is the one that the fingerprint in the ledger was made of.
fn is_text_of(draft: &TaskDraft, agent: &Agent, first: &Policy) -> bool {
    let (Some(text), Ok([whitelist, denylist])) = (draft.text.given(), first.globs()) else {
        return false;
    };
    let dna = Dna::of(&first.role, &text.value, &whitelist, &denylist);
    agent.dna.as_deref() == Some(dna.as_str())
}

/// Puts what a policy says in the place of what the task says.
fn bind(draft: &mut TaskDraft, policy: &Policy) {
    let list = |items: &[String]| {
        let located = |value: &String| Located::unplaced(value.clone());
        given(items.iter().map(located).collect())
    };
    draft.whitelist = list(&policy.whitelist);
    draft.denylist = list(&policy.wholly_denied());
    draft.checks = list(&policy.checks);
    draft.bundle_required = given(policy.bundle_required);
    draft.no_dep_bump = given(policy.no_dep_bump);
    draft.report_fields = list(&policy.report_fields);
    if let Some(wanted) = policy.min_tests {
        draft.min_tests = given(wanted.into());
    }
    if let Some(limit) = policy.timeout_ms {
        draft.timeout = given(format!("{}s", limit.div_ceil(1000)));
    }
}

fn given<T>(value: T) -> Field<T> {
    Field::Given(Located::unplaced(value))
}

fn absent<T>() -> Field<T> {
    Field::Absent { key: String::new(), header: None }
}
