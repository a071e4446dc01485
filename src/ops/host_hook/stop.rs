//! When an agent wants to end.
//!
//! Its work is judged as `verify` judges it, and what rejects it goes back to the agent, which can still mend it. An
//! agent that can never end is worse than one that ends too early, so it is sent back three times at most. The count
//! is a file that the agent could change: this is feedback, and the verdict comes after the run.

use super::bundle;
use super::host_worktree;
use super::own_place;
use super::session::{home_of, note_stop};
use crate::agents::ctx::{Ctx, Env, Seams};
use crate::agents::current::CurrentAgent;
use crate::agents::untrusted;
use crate::domain::event::Isolation;
use crate::domain::evidence::{CommandEnd, Commands};
use crate::domain::finding::{Finding, Verdict};
use crate::domain::tool_call::{HookAnswer, HookEvent, ToolCall};
use crate::error::Result;
use crate::git::Repo;
use crate::ops::verify::{self, Recording, VerifyOptions};
use crate::store::fsx;
use std::path::Path;
use std::time::Duration;

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
    if host_worktree::ends_unused(env, call, &home.repo, &home.agent) {
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
    let known = count
        .parent()
        .and_then(|place| untrusted::text(place, COUNT));
    let known = known.and_then(|text| text.trim().parse::<u32>().ok());
    known
        .filter(|_| again)
        .map_or(1, |known| known.saturating_add(1))
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
    let lacking = if home.policy.bundle_required {
        bundle::lacking(&home.bundle())
    } else {
        Vec::new()
    };
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
            let end = lines[lines.len().saturating_sub(LISTED)..].join("\n");
            text.push_str(&format!(
                "the end of the output of `{}`:\n{end}\n",
                run.command
            ));
        }
    }
    text
}
