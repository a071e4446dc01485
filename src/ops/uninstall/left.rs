//! What agents have left in this clone, and what would be lost with our files and refs.

use super::{Lost, UninstallOptions};
use crate::agents::ctx::Ctx;
use crate::agents::liveness::{self, Liveness};
use crate::agents::{lookup, worktree};
use crate::domain::agent::{Agent, State};
use crate::error::{Code, Error, Result};
use crate::store::agent_branch::OwnBranch;
use crate::store::journal::Journal;
use crate::store::mailbox::{Mailbox, spool};
use crate::store::{briefing, keep, layout};
use std::fs;
use std::path::{Path, PathBuf};

/// Refuses while an agent has a worktree, a branch or a run here, or something that is still to be recorded.
///
/// # Errors
/// `uninstall-refused`; those of the ledger.
pub(super) fn require_nothing(ctx: &Ctx, options: UninstallOptions) -> Result<()> {
    let common_dir = ctx.repo.common_dir();
    let mut lines = Vec::new();
    for agent in lookup::agents(ctx)? {
        if let Some(what) = what_is_left(ctx, &agent)? {
            let (id, state) = (agent.id.short(), agent.state);
            let command = way_out(ctx, &agent)?;
            lines.push(format!("{id} ({state}) has {what}: {command}"));
        }
    }
    let refused = |what: &str| Error::new(Code::UninstallRefused, what);
    if !lines.is_empty() {
        let what = match lines.len() {
            1 => "an agent has something left in this clone".to_owned(),
            count => format!("{count} agents have something left in this clone"),
        };
        return Err(refused(&what)
            .detail(lines.join("\n"))
            .hint("to remove what is provably finished, run git agent gc --yes"));
    }
    if let Some(kept) = only_copies(common_dir, options)?.first() {
        let shown = kept.display();
        return Err(
            refused(&format!("{shown} is the only copy of an agent's work"))
                .hint(format!("to keep it, run mv {shown} <elsewhere>")),
        );
    }
    // The journal of a spawn is the only list of what it has made so far.
    if Journal::any(common_dir) {
        return Err(refused("a spawn is under way or was interrupted")
            .hint("to take spawns apart that were interrupted, run git agent doctor --fix"));
    }
    if let Some(id) = spool::waiting(common_dir).first() {
        return Err(refused(&format!(
            "agent {id} left messages or events that are not recorded yet"
        ))
        .hint("to record them, run git agent doctor --fix"));
    }
    Ok(())
}

/// What lies among our files and nowhere else: repositories of clones that could not be read, and, unless kept work is to go
/// as well, files that were too long to be read.
fn only_copies(common_dir: &Path, options: UninstallOptions) -> Result<Vec<PathBuf>> {
    let directories = fs::read_dir(layout::agents_dir(common_dir))
        .into_iter()
        .flatten()
        .flatten();
    let mut found = Vec::new();
    for directory in directories {
        let entries = fs::read_dir(directory.path())
            .into_iter()
            .flatten()
            .flatten();
        let is_copy =
            |name: &str| name.starts_with("clone.git") || name == "large" && !options.ledger;
        let copies = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_copy));
        found.extend(copies.map(|entry| entry.path()));
    }
    found.sort_unstable();
    Ok(found)
}

/// The tasks and the output of runs that go, one line for each agent that has any.
pub(super) fn files(ctx: &Ctx) -> Result<Vec<String>> {
    let common_dir = ctx.repo.common_dir();
    let mut found = Vec::new();
    for agent in lookup::agents(ctx)? {
        let directory = layout::agent_dir(common_dir, agent.id);
        let names = [briefing::TASK, "run", "sessions"].map(|name| directory.join(name));
        let names = names.iter().filter(|name| name.exists());
        found.extend(names.map(|name| name.to_string_lossy().into_owned()));
    }
    Ok(found)
}

/// What an agent has left in this clone; `None` where that is nothing.
fn what_is_left(ctx: &Ctx, agent: &Agent) -> Result<Option<&'static str>> {
    let is_here = || lookup::is_local(ctx, agent);
    // Either may be there without the other: git's record, and the directory.
    let has_worktree = worktree::admin_dir(&ctx.repo, agent.id).exists()
        || worktree::find(&ctx.repo, agent).is_some_and(|worktree| worktree.exists());
    Ok(if has_worktree {
        Some("a worktree")
    } else if OwnBranch::of(&ctx.repo, agent)?.is_some() {
        Some("a branch")
    } else if agent.state.is_open() && is_here() {
        Some("work that is not decided about")
    } else {
        None
    })
}

/// The command that ends an agent.
fn way_out(ctx: &Ctx, agent: &Agent) -> Result<String> {
    let id = agent.id.short();
    let is_running = match &agent.run {
        Some(run) => liveness::of_run(ctx.repo.common_dir(), agent, run)? == Liveness::Alive,
        None => false,
    };
    Ok(match agent.state {
        _ if is_running => format!("git agent stop {id}"),
        State::Merged => "git agent gc --yes".to_owned(),
        State::Done => format!("git agent merge {id}, or git agent discard {id}"),
        _ => format!("git agent discard {id}"),
    })
}

/// What nothing brings back.
pub(super) fn lost(ctx: &Ctx, options: UninstallOptions) -> Result<Lost> {
    let common_dir = ctx.repo.common_dir();
    let agents = lookup::agents(ctx)?;
    let mut lost = Lost::default();
    for agent in &agents {
        let task = layout::agent_dir(common_dir, agent.id).join(briefing::TASK);
        lost.tasks += usize::from(task.exists());
        if let Some(last) = &agent.run {
            let names = (1..=last.number()).flat_map(|number| {
                ["out", "err"].map(|stream| liveness::log(common_dir, agent, number, stream))
            });
            lost.logs += names.filter(|log| log.exists()).count();
        }
    }
    if options.ledger {
        lost.rows = agents.len();
        lost.messages = !Mailbox::new(&ctx.repo).is_empty()?;
        let kept = keep::passing(&ctx.repo)?;
        lost.kept_commits = kept.iter().map(|link| link.commits.len()).sum();
    }
    Ok(lost)
}
