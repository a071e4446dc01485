//! `commit`: the orchestrator commits an agent's work, as far as it is in scope.
//!
//! ```text
//! staged by the agent? those paths : everything that verify would judge -> ScopeGuard -> git commit
//! ```
//!
//! Git itself commits, in the agent's worktree and with the repository's hooks. Where there are none, and no setting that
//! has a say in it, the commit of work that was not staged is written without starting git. Work that was not staged
//! is staged first: after a kill in between it is found staged, and running this again commits it.
//! Deliberately absent: judging what an agent hides from git, which `verify` does.

use crate::agents::context::ctx::REPOSITORY_HOOKS;
use crate::agents::upkeep::own_checkout::own_checkout;
use crate::agents::upkeep::{crash_recovery, hooks};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::work::tip_of;
use crate::agents::{
    AgentWorktree, Ctx, ScopeGuard, life::at_work, place::worktree, stock::layered, who::lookup,
    work,
};
use crate::domain::boundary::violation::Reason;
use crate::domain::judge::folded_paths::folded;
use crate::domain::{Agent, BundleRule, Change, ChangeKind, Move, Oid, Quoted, State, What};
use crate::error::{Code, Error, ErrorFacts, IoContext, Result};
use crate::git::changes::Staging;
use crate::git::config::Identities;
use crate::git::record::commit::ToCommit;
use crate::git::{Checkout, Repo, record::commit};
use crate::store::files::{fsx, layout};
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The steps of committing work that was not staged, in order, under the names given to
/// [`crate::agents::context::ctx::Seams::reached`]. A kill after the second leaves a tip that the row does not name, like
/// one that the agent made itself: landing judges it first.
pub const STEPS: [&str; 3] = ["staged", "committed", "recorded"];

/// What was committed: `git-agent.commit/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.commit/1")]
pub struct CommitReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The new commit.
    pub commit: String,
    /// Its tree.
    pub tree: String,
    /// The paths that were asked of git.
    pub paths: Vec<PathText>,
    /// The paths that were left out because they are out of scope.
    pub left_out: Vec<PathText>,
}

/// Commits what is in scope. What is not makes it refuse, unless `in_scope_only`.
///
/// # Errors
/// `agent-unknown`, `agent-state`, `orchestrator-only`; `out-of-scope`, naming the paths;
/// `nothing-to-land`; `commit-refused` with what the hooks said; `worktree-busy`; `agent-busy` during a run.
pub fn commit(ctx: &Ctx, who: &str, message: &str, in_scope_only: bool) -> Result<CommitReport> {
    require_orchestrator(ctx)?;
    if message.trim().is_empty() {
        return Err(Error::new(Code::Usage, "the message is empty")
            .hint("to give one, run git agent commit -m <text>"));
    }
    // Whose work, and whether it can still take a commit.
    let ledger = ctx.ledger();
    let agent = crash_recovery::at_rest(ctx, lookup::agent(ctx, &ledger, who)?)?;
    require_open(&agent)?;
    lookup::require_worktree_here(ctx, &agent)?;
    at_work::require_no_run(ctx, &agent)?;
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    let agent = fence.agent();
    let place = own_checkout(ctx, agent)?;
    let tip = tip_of(ctx, agent)?;
    // What there is to commit, and which part of it is in scope.
    let (changes, work) = to_commit(ctx, &fence, &place)?;
    let (inside, outside) = divide(&fence, changes)?;
    if !outside.is_empty() && !in_scope_only {
        return Err(out_of_scope(&fence, &outside));
    }
    if inside.is_empty() {
        return Err(nothing_in_scope(agent, work.is_none()));
    }
    // Work after a landing makes the agent live again, before anything of it is committed.
    worktree::reopen(ctx, agent)?;
    let identities = ctx.identities()?;
    let trailer = format!("Agent-Id: {}", agent.id);
    let commit = match work {
        Some(work) if outside.is_empty() && is_plain(ctx, agent, &place, message)? => {
            place.stage_from(&ctx.repo, work, &inside)?;
            ctx.reached("staged");
            let message = commit::appended_trailer(&commit::tidied_trailer(message)?, &trailer);
            let new = (tip, work);
            place
                .commit_staged(&ctx.repo, new, &message, &identities)
                .inspect_err(|_| drop(unstage(ctx, &place, tip)))?
        }
        work => {
            by_git(ctx, agent, &place, (&inside, &outside, work), (message, &trailer), &identities)?
        }
    };
    ctx.reached("committed");
    // The row.
    let tree = ctx.repo.tree_of(commit)?;
    let what = What::Committed { commit, tree };
    // The commit is made whatever the row says by now; a row that takes no commit any more must not
    // get one.
    ledger.append_if(agent.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
        row.unwrap_or(agent).may(Move::Reopen)?;
        Ok(what.clone())
    })?;
    ctx.reached("recorded");
    let texts = |paths: &[Vec<u8>]| paths.iter().map(|p| PathText::from(p.as_slice())).collect();
    Ok(CommitReport {
        agent_id: agent.id.to_string(),
        short_id: agent.id.short(),
        commit: commit.to_hex(),
        tree: tree.to_hex(),
        paths: texts(&inside),
        left_out: texts(&outside),
    })
}

/// Refuses an agent that takes no commits any more.
fn require_open(agent: &Agent) -> Result<()> {
    let (short, state) = (agent.id.short(), agent.state);
    if state == State::Discarded {
        let what = format!("agent {short} is {state} and takes no commits");
        return Err(Error::new(Code::AgentState, what)
            .hint(format!("to see its history, run git agent show --log {short}")));
    }
    agent.may(Move::Reopen)
}

/// The changes that are staged, else all that there are, with the tree that committing them makes. What an agent has staged is what
/// it means to commit, so the rest is left alone then.
fn to_commit(
    ctx: &Ctx,
    fence: &ScopeGuard<'_>,
    place: &Checkout,
) -> Result<(Vec<Change>, Option<Oid>)> {
    // Were a `discard` to put the worktree aside meanwhile, all its files would look deleted.
    AgentWorktree::new(&place.top, &place.git_dir).undisturbed(|| {
        let staged = Repo::open_git_dir(&place.git_dir)?.staged_changes(&Staging::default())?;
        if !staged.is_empty() {
            return Ok((staged, None));
        }
        work::uncommitted::work_to_commit(ctx, fence, &place.top, &place.git_dir)
            .map(|(changes, tree)| (changes, Some(tree)))
    })
}

fn nothing_in_scope(agent: &Agent, is_staged: bool) -> Error {
    let short = agent.id.short();
    let what = if is_staged {
        format!("nothing that is staged by agent {short} is in scope")
    } else {
        format!("agent {short} has nothing in scope to commit")
    };
    // Also where the worktree is layered, and a git outside of its mount would find nothing.
    Error::new(Code::NothingToLand, what)
        .hint(format!("to see what is in its worktree, run git agent diff {short}"))
}

/// Whether a commit is what we make of it: no hook of the repository's is asked, and no setting changes the message,
/// its encoding or its trailers, or wants a signature.
fn is_plain(ctx: &Ctx, agent: &Agent, place: &Checkout, message: &str) -> Result<bool> {
    let mut lines = message.lines().map(str::to_ascii_lowercase);
    // git adds a trailer only where it is not there yet, by rules of its own.
    if lines.any(|line| line.starts_with("agent-id:")) {
        return Ok(false);
    }
    let repo = &ctx.repo;
    for key in ["commit.cleanup", "i18n.commitEncoding"] {
        if repo.config_string(key)?.is_some() {
            return Ok(false);
        }
    }
    let is_signed = repo.config_bool("commit.gpgSign")? == Some(true);
    let is_git_needed = is_signed
        || repo.has_config_section("trailer")?
        || hooks::has_own(ctx, agent.id, &place.top)?;
    Ok(!is_git_needed)
}

/// Refuses a message of which git leaves nothing: the trailer would be its subject.
fn require_message(ctx: &Ctx, message: &str) -> Result<()> {
    // Of a message that is not edited git takes out comments only where it is told to.
    let cleanup = ctx.repo.config_string("commit.cleanup")?;
    if cleanup.as_deref() != Some("strip") || !commit::is_comment(ctx.repo.common_dir(), message)? {
        return Ok(());
    }
    let what = "the message is empty without its comments, which commit.cleanup takes out";
    Err(Error::new(Code::Usage, what)
        .hint("to keep lines that begin as comments, run git config commit.cleanup whitespace"))
}

/// Lets the index hold what the branch does.
fn unstage(ctx: &Ctx, place: &Checkout, tip: Oid) -> Result<()> {
    place.stage(ctx.repo.tree_of(tip)?)
}

/// Has git commit, with the hooks of the repository that may run. Work that was not staged is staged first.
fn by_git(
    ctx: &Ctx,
    agent: &Agent,
    place: &Checkout,
    (inside, outside, work): (&Paths, &Paths, Option<Oid>),
    (message, trailer): (&str, &str),
    identities: &Identities,
) -> Result<Oid> {
    // The message, with the agent's id.
    let scratch = CommitScratch::new(ctx)?;
    fs::write(&scratch.message, format!("{}\n", message.trim_end()))
        .at("could not write", &scratch.message)?;
    require_message(ctx, message)?;
    commit::set_trailer(ctx.repo.common_dir(), &scratch.message, trailer)?;
    // The hooks.
    if hooks::has_own(ctx, agent.id, &place.top)? {
        layered::require_files(ctx, agent)?;
    }
    // Hooks for this one commit, in a directory that the agent cannot write, in place of those of
    // its worktree.
    let room = place.view.as_ref().map(|view| view.room().join("hooks"));
    let hooks = room.map(|room| hooks::for_commit(ctx, agent.id, &place.top, &room)).transpose()?;
    let repository = hooks.as_ref().and_then(|hooks| hooks.repository.clone());
    let environment = [(REPOSITORY_HOOKS, repository.unwrap_or_default())];
    let to_commit = |index| ToCommit {
        message: &scratch.message,
        index,
        hooks: hooks.as_ref().map(|hooks| hooks.shims.as_path()),
        environment: &environment,
    };
    if let Some(work) = work {
        let before = place.staged_tree(&ctx.repo)?;
        place.stage_from(&ctx.repo, work, inside)?;
        ctx.reached("staged");
        // Nothing was staged before a hook said no, so nothing is afterwards.
        return place
            .commit(&ctx.repo, &to_commit(None), identities)
            .inspect_err(|_| drop(place.stage(before)));
    }
    let index = (!outside.is_empty()).then_some(scratch.index.as_path());
    if let Some(index) = index {
        place.index_without(outside, index)?;
    }
    place.commit(&ctx.repo, &to_commit(index), identities)
}

type Paths = Vec<Vec<u8>>;

/// The paths that may be committed, and those that may not.
fn divide(fence: &ScopeGuard<'_>, changes: Vec<Change>) -> Result<(Paths, Paths)> {
    let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
    let refused = |path: &[u8]| violations.iter().any(|violation| violation.path == path);
    let (inside, outside): (Vec<_>, Vec<_>) = changes
        .into_iter()
        // What has been looked at is untracked only where no commit can hold it.
        .partition(|change| change.kind != ChangeKind::Untracked && !refused(&change.path));
    let paths = |changes: Vec<Change>| changes.into_iter().map(|change| change.path).collect();
    Ok((paths(inside), paths(outside)))
}

fn out_of_scope(fence: &ScopeGuard<'_>, paths: &[Vec<u8>]) -> Error {
    let short = fence.agent().id.short();
    let (unseen, seen): (Vec<_>, Vec<_>) =
        paths.iter().cloned().partition(|path| path.ends_with(b"/"));
    let unseen = unseen.iter().map(|path| format!("{}: {}", Quoted(path), Reason::Unseen));
    let lines = folded(&seen).into_iter().chain(unseen);
    let lines: Vec<_> = lines.map(|line| format!("  {line}")).collect();
    Error::new(
        Code::OutOfScope,
        format!("agent {short} may not commit {} of its paths", paths.len()),
    )
    .detail(lines.join("\n"))
    .facts(ErrorFacts { paths: paths.to_vec(), ..ErrorFacts::default() })
    .hint(format!("to see the rules, run git agent check {short} --worktree"))
    .hint(format!("to commit the rest, run git agent commit {short} --in-scope-only -m <message>"))
}

/// Files that are gone when it is over.
struct CommitScratch {
    message: PathBuf,
    index: PathBuf,
}

impl CommitScratch {
    fn new(ctx: &Ctx) -> Result<CommitScratch> {
        let directory = layout::tmp_dir(ctx.repo.common_dir());
        fs::create_dir_all(&directory).at("could not make", &directory)?;
        let unique = |name: &str| fsx::unique_name(Path::new(&directory.join(name)));
        Ok(CommitScratch { message: unique("message"), index: unique("index") })
    }
}

impl Drop for CommitScratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.message);
        let _ = fs::remove_file(&self.index);
    }
}
