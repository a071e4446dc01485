//! Agents whose worktree is a repository of its own (`spawn --isolation=clone`), for containers and other users.
//!
//! ```text
//! <worktree>/.git                    a complete repository: objects, branch, index, settings, hooks
//! <worktree>/.git/agents/worktree    names the admin directory, as the .git file of a worktree does
//! <common dir>/worktrees/agent-…     the admin directory, where git and every command of ours look
//! <common dir>/agents/clones/agent-… says that there is such a repository, and which packs it was made with
//! ```
//!
//! The agent works in its clone and nowhere else. Before a command looks at the agent, what the clone has is taken in
//! ([`bring_in`]): objects by their hashes, the branch by compare-and-swap, index and HEAD as data. From there on it is
//! an agent as any other, with the same ledger, verdicts and landings. Nothing of the clone's settings, hooks or alternates
//! is read outside of it.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::run_repo::RunRepo;
use crate::agents::upkeep::publish::{self, TakenOver};
use crate::agents::{life::liveness, place::worktree, upkeep::spool};
use crate::domain::{Agent, AgentId, Oid};
use crate::error::{Error, IoContext, Result};
use crate::git::Identity;
use crate::git::files::admin_dir::CLONE_POINTER;
use crate::git::files::untrusted;
use crate::git::worktree::own_repository::{
    OwnCommit, OwnHistory, OwnRepository, own_repository_in, take_place_of_pointer, write_histories,
};
use crate::store::files::{fsx, layout, lock, place};
use crate::store::hooks;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long another process that takes in what the clone has may keep us waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a clone is made of.
#[derive(Clone, Copy)]
pub struct NewClone<'a> {
    /// The agent.
    pub id: AgentId,
    /// Its worktree, complete but for the repository.
    pub worktree: &'a Path,
    /// The full name of its branch.
    pub branch: &'a str,
    /// The branch's tip.
    pub tip: Oid,
    /// The branch that it started from, and where.
    pub base: Option<(&'a str, Oid)>,
    /// The policy that binds it.
    pub policy: Oid,
    /// Who commits.
    pub who: Option<&'a Identity>,
}

/// Gives a worktree a repository of its own, in place of its `.git` file.
///
/// # Errors
/// Those of [`crate::git::Repo::make_own_repository`]; `io`, `disk-full`.
pub fn make(ctx: &Ctx, new: &NewClone<'_>) -> Result<()> {
    let (repo, short_id) = (&ctx.repo, new.id.short());
    let admin_dir = worktree::admin_dir(repo, new.id);
    // 1. The repository, beside the pointer whose place it takes.
    let made = new.worktree.join(".git.new");
    let hooks_dir = layout::hooks_dir(Path::new(".git"), &short_id);
    let packs = repo.make_own_repository(
        &made,
        &OwnRepository {
            admin_dir: &admin_dir,
            branch: new.branch,
            tip: new.tip,
            base: new.base,
            besides: &[new.policy],
            who: { new.who }.map(|who| (who.name.as_str(), who.email.as_str())),
            hooks: &hooks_dir.to_string_lossy(),
        },
    )?;
    // 2. What is ours in it: the way to the admin directory, hooks, a place for messages.
    let program = ctx.env.program.as_deref().unwrap_or(Path::new("git-agent"));
    hooks::write_for_clone(&layout::hooks_dir(&made, &short_id), program)?;
    fsx::create_dir(&layout::spool_dir(&made, new.id))?;
    let pointer = format!("gitdir: {}\n", admin_dir.display());
    let file = made.join("agents/worktree");
    fs::write(&file, pointer).at("could not write", &file)?;
    // 3. From here on the directory counts as the agent's.
    fsx::create_dir(&layout::clones_dir(repo.common_dir()))?;
    let record = layout::clone_record(repo.common_dir(), new.id);
    // By these names, what the clone was made with is told from what the agent brought.
    fsx::write_private(&record, (packs.join("\n") + "\n").as_bytes())?;
    ctx.reached("clone-made");
    take_place_of_pointer(new.worktree, &made)?;
    let run_repo = RunRepo::of(repo, new.id, new.worktree, new.branch);
    run_repo.set_known_tip(new.tip)
}

/// Gives a clone the agent's row, for commands of ours that are run in it. Nothing is done where there is no clone.
///
/// # Errors
/// Those of the ledger and of git.
pub fn give_row(ctx: &Ctx, id: AgentId, spawn_commit: Oid) -> Result<()> {
    if !is_one(ctx, id) {
        return Ok(());
    }
    let Some(found) = ctx.repo.worktree(&layout::worktree_name(id)) else {
        return Ok(());
    };
    let row = ctx.ledger().lines(spawn_commit)?;
    let scratch = fsx::unique_name(&layout::tmp_dir(ctx.repo.common_dir()).join("row"));
    let own = found.path.join(".git");
    let message = "agent: the row of this clone\n".to_owned();
    let commits = vec![OwnCommit { message, note: Some((spawn_commit, row)) }];
    write_histories(&own, &scratch, &[OwnHistory { name: layout::LEDGER_REF, commits }])
}

/// As [`give_row`], where the spawn was killed before it did that.
///
/// # Errors
/// As [`give_row`].
pub fn give_missing_row(ctx: &Ctx, id: AgentId, spawn_commit: Oid) -> Result<()> {
    let found = ctx.repo.worktree(&layout::worktree_name(id));
    let has_row = |place: &Path| untrusted::text(&place.join(".git"), layout::LEDGER_REF).is_some();
    if found.is_none_or(|found| has_row(&found.path)) {
        return Ok(());
    }
    give_row(ctx, id, spawn_commit)
}

/// Whether an agent's worktree is a clone.
pub fn is_one(ctx: &Ctx, id: AgentId) -> bool {
    layout::clone_record(ctx.repo.common_dir(), id).exists()
}

/// Lets a clone name an admin directory, as where the repository was moved.
///
/// # Errors
/// `io`.
pub fn point(worktree: &Path, admin_dir: &Path) -> Result<()> {
    let pointer = format!("gitdir: {}\n", admin_dir.display());
    untrusted::replace(worktree, Path::new(CLONE_POINTER), pointer.as_bytes())
        .at("could not write", worktree.join(CLONE_POINTER))
}

/// Forgets that there was one, once it is gone.
pub fn forget(common_dir: &Path, id: AgentId) {
    let notes = layout::run_repo(common_dir, id);
    let _ = fs::remove_file(layout::clone_record(common_dir, id));
    for ending in ["tip", "state", "mail"] {
        let _ = fs::remove_file(notes.with_extension(ending));
    }
}

/// Takes in what an agent's clone has, if it has one and something is new there. Gives what the caller should know.
///
/// # Errors
/// `git-failed` for commits that are not complete or not well formed, `lock-timeout`; those of git and the file system.
pub fn bring_in(ctx: &Ctx, agent: &Agent) -> Result<Vec<String>> {
    // A look writes no objects of a clone into the repository.
    if !is_one(ctx, agent.id) || ctx.repo.is_scratch() {
        return Ok(Vec::new());
    }
    match ctx.repo.worktree(&layout::worktree_name(agent.id)) {
        Some(found) => {
            let warnings = bring_in_from(ctx, agent, &found.path)?.warnings;
            // Its messages are in the way of nothing else.
            let _ = spool::exchange(ctx, agent);
            Ok(warnings)
        }
        None => Ok(Vec::new()),
    }
}

/// As [`bring_in`], from the place where the clone is now.
///
/// # Errors
/// As [`bring_in`].
pub fn bring_in_from(ctx: &Ctx, agent: &Agent, place: &Path) -> Result<TakenOver> {
    let nothing = TakenOver { warnings: Vec::new(), is_all: true };
    let Some(branch) = agent.branch.as_deref().filter(|_| is_one(ctx, agent.id)) else {
        return Ok(nothing);
    };
    let run_repo = RunRepo::of(&ctx.repo, agent.id, place, branch);
    // Where a discard has put it aside, or it was deleted by hand, only what was taken in is left.
    if own_repository_in(place).is_none() {
        return Ok(nothing);
    }
    if !run_repo.exists() {
        return Ok(TakenOver { is_all: run_repo.was_all_taken(), ..nothing });
    }
    let common_dir = ctx.repo.common_dir();
    fsx::create_dir(&layout::agent_dir(common_dir, agent.id))?;
    // Two commands at once would each move the branch, and one of them would fail.
    let _taking = lock::hold_for(common_dir, &layout::clone_lock(agent.id), PATIENCE)?;
    publish::publish(ctx, agent, &run_repo).map_err(|error| {
        let place = run_repo.path().display();
        let mut what = format!(
            "what agent {} has in its clone could not be taken in: {error}",
            agent.id.short()
        );
        for cause in error.causes() {
            what.push_str(": ");
            what.push_str(&cause.replace('\n', " "));
        }
        Error::new(error.code(), what)
            .hint(format!("to see what is wrong there, run git --git-dir={place} fsck"))
    })
}

/// Keeps the repository of a clone that cannot be taken in, with whatever can still be read there, and gives its new place.
/// `place` is where the clone is.
///
/// # Errors
/// `io`, as on another file system.
pub fn keep_unread(ctx: &Ctx, agent: &Agent, place: &Path) -> Result<PathBuf> {
    let directory = layout::agent_dir(ctx.repo.common_dir(), agent.id);
    fsx::create_dir(&directory)?;
    let kept = fsx::unique_name(&directory.join("clone.git"));
    fs::rename(place.join(".git"), &kept).at("could not move away", place.join(".git"))?;
    Ok(kept)
}

/// As [`bring_in`], for every clone of this repository whose agent's work may still land. What cannot be taken in is told of, and is in
/// the way of no other agent.
pub fn bring_in_all(ctx: &Ctx) -> Vec<String> {
    let mut warnings = Vec::new();
    for short_id in place::cloned(ctx.repo.common_dir()) {
        let found = ctx.ledger().find(&short_id);
        // A record without a row belongs to no agent whose work could be taken in.
        let Ok(agent) = found.map(|agent| liveness::as_it_stands(ctx, agent)) else {
            continue;
        };
        match bring_in(ctx, &agent) {
            // One clone that cannot be read must not stop a command about another agent.
            Ok(said) => warnings.extend(said),
            Err(error) => warnings.push(error.to_string()),
        }
    }
    warnings
}
