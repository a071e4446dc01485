//! What a fenced command did in its run repository becomes part of the repository.
//!
//! ```text
//! heads (data) ─> objects and those of git-lfs, by hash ─> branch, by compare-and-swap ─> admin directory ─> [end] .git, run repo removed
//! ```
//!
//! Each step may be repeated, so a publication that was killed is done again from the start by the next command that
//! looks. Where a step is refused, the run repository stays and nothing of it is lost.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::run_repo::{Heads, RunRepo, is_logged};
use crate::agents::stock::commands::in_one_line;
use crate::agents::stock::layered::{self, Mounted};
use crate::agents::{context::branch_swap, life::liveness, place::worktree};
use crate::domain::{Agent, Isolation, Oid, branch_name};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Tip;
use crate::git::history::ancestry::Keepable;
use crate::git::objects::quarantine::TakenObjects;
use crate::git::worktree::view::sparse_words_in;
use crate::store::files::{fsx, layout};
use crate::store::{chain::keep, ledger::agent_branch};
use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What came of a publication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Files that the command had changed to lead git elsewhere; they were put back.
    pub restored: Vec<PathBuf>,
    /// What the caller should know, one sentence each.
    pub warnings: Vec<String>,
    /// Whether what the command committed was not taken over.
    pub is_left_over: bool,
}

/// What was taken over of a run repository.
#[derive(Clone, Debug)]
pub struct TakenOver {
    /// What the caller should know, one sentence each.
    pub warnings: Vec<String>,
    /// Whether nothing is left that only the run repository has.
    pub is_all: bool,
}

/// The run repository of an agent with a worktree here; `None` for any other.
pub(crate) fn run_repo(ctx: &Ctx, agent: &Agent) -> Option<RunRepo> {
    let branch = agent.branch.as_deref()?;
    if agent.isolation == Some(Isolation::Shared) {
        return None;
    }
    let worktree = ctx.repo.worktree(&layout::worktree_name(agent.id))?;
    Some(RunRepo::of(&ctx.repo, agent.id, &worktree.path, branch))
}

/// So many refs of a run are named one by one.
const MOST_NAMED: usize = 10;

/// Publishes what is there while the command goes on. Refs that only its run has are kept and named at its end.
///
/// # Errors
/// As [`publish`].
pub(crate) fn publish_meanwhile(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<()> {
    let heads = Heads { others: BTreeMap::new(), ..run_repo.heads() };
    publish_all(ctx, agent, run_repo, &heads).map(drop)
}

/// Publishes what is there.
///
/// # Errors
/// `git-failed` for commits that are not complete or not well formed; those of the ledger's keep chain and the file
/// system.
pub fn publish(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<TakenOver> {
    run_repo.settle(|| {
        let taken = publish_all(ctx, agent, run_repo, &run_repo.heads())?;
        let is_all = taken.is_all;
        Ok((taken, is_all))
    })
}

fn publish_all(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo, heads: &Heads) -> Result<TakenOver> {
    let mut warnings = Vec::new();
    // 1. The objects.
    let branch = agent.branch.as_deref().map(|branch| ctx.repo.tip(branch)).transpose()?;
    let tips: Vec<Oid> = [heads.branch, heads.detached]
        .into_iter()
        .flatten()
        // An earlier attempt may have brought the commit and not all that it leads to.
        .filter(|oid| branch != Some(Tip::At(*oid)))
        .collect();
    let staging = layout::tmp_dir(ctx.repo.common_dir());
    fsx::create_dir(&staging)?;
    let staging = fsx::unique_name(&staging.join("objects"));
    let taken = if run_repo.is_clone() {
        let known = run_repo.known_packs()?;
        ctx.repo.take_missing(&run_repo.objects(), &staging, &known, &tips)?
    } else {
        ctx.repo.take_in(&run_repo.objects(), &staging, &tips)?
    };
    run_repo.take_lfs()?;
    ctx.reached("objects-taken");
    // 2. The branch.
    if let Some(tip) = heads.branch {
        warnings.extend(move_branch(ctx, agent, run_repo, tip)?);
    }
    ctx.reached("branch-moved");
    // 3. Commits that no branch of the repository's has: a stash, a tag, a detached HEAD.
    let detached = heads.detached.filter(|oid| heads.branch != Some(*oid));
    // What a ref names that is no commit, such as a tag, may stand on one.
    let commit_of = |oid: Oid| match ctx.repo.read_commit(oid) {
        Ok(_) => Some(oid),
        Err(_) => ctx.repo.resolve_commit(&oid.to_hex()).ok().map(|found| found.commit),
    };
    let others = heads.others.iter().map(|(name, oid)| (name, commit_of(*oid)));
    let others: BTreeMap<&String, Option<Oid>> = others.collect();
    // What was the repository's own as the run began is there, and may have gone on by a few commits since.
    let is_own = |name: &str, oid: Oid| {
        let now = ctx.repo.tip(name).ok().and_then(|tip| tip.oid());
        now.is_some_and(|now| ctx.repo.line(oid, now).is_some())
    };
    let made = others.iter().filter_map(|(name, oid)| Some((name, (*oid)?)));
    let made = made.filter(|(name, oid)| !is_own(name, *oid)).map(|(_, oid)| oid);
    let unnamed = made.chain(detached.and_then(commit_of));
    // Mostly all that a log names is where the branch is now, or where the agent began, to which the keep chain leads, and git
    // need not be asked.
    let named = agent.branch.as_deref().map(|branch| ctx.repo.tip(branch)).transpose()?;
    let base = agent.base.as_ref().map(|base| base.oid);
    let is_known = |oid: &Oid| {
        named == Some(Tip::At(*oid)) || *oid == agent.spawn_commit || Some(*oid) == base
    };
    let unnamed = unnamed.filter(|oid| !is_known(oid));
    let (fresh, broken) = whole(ctx, unnamed.collect());
    // No branch will name them, so without the keep chain the next `git gc` would remove them.
    if !fresh.is_empty() {
        let kept = keep::keep(&ctx.repo, &fresh, &format!("run {}", agent.id.short()), ctx.now())?;
        let parents = |oid: &Oid| ctx.repo.read_commit(*oid).map_or(Vec::new(), |it| it.parents);
        let below: HashSet<Oid> = fresh.iter().flat_map(parents).collect();
        let is_fresh: HashSet<Oid> = fresh.into_iter().collect();
        // A log names each step, and the last one leads to those before it.
        let is_named = |name: &str, oid: &Oid| {
            is_fresh.contains(oid) && !(is_logged(name) && below.contains(oid))
        };
        let named = others.iter().filter_map(|(name, oid)| Some((name, (*oid)?)));
        let mut named = named.filter(|(name, oid)| is_named(name, oid));
        warnings.extend(named.by_ref().take(MOST_NAMED).map(|(name, oid)| {
            format!("the command made {name}, which only its run had; to have it, run git branch <name> {oid}")
        }));
        let more = named.count();
        if more > 0 {
            warnings.push(format!(
                "the command made {more} more refs, which only its run had; to see what they named, run git log --no-walk {kept}^@"
            ));
        }
    }
    let mut is_all = taken == TakenObjects::All;
    let mut lost = others.iter().filter(|(name, oid)| match oid {
        // Of what was not taken in, all is left in the run repository.
        _ if !is_all => false,
        Some(oid) => broken.contains(oid),
        // A log outlives the objects that garbage collection took.
        None => !is_logged(name),
    });
    warnings.extend(lost.by_ref().take(MOST_NAMED).map(|(name, _)| {
        format!("the command made {name}, which leads to no commit, or to objects that are missing or damaged, so it is not kept")
    }));
    let more = lost.count();
    if more > 0 {
        warnings.push(format!("the command made {more} more refs of which the same is true"));
    }
    // 4. Index, HEAD, reflog. Without all objects they would name some that are missing.
    if is_all {
        let mut in_logs = Keepable::default();
        let left = run_repo.carry_back(&ctx.repo, &mut |named| {
            let found =
                ctx.repo.keepable_beside(heads.branch.unwrap_or(agent.spawn_commit), named)?;
            in_logs.copies.extend(&found.copies);
            Ok(found.copies.into_keys().collect())
        })?;
        if !in_logs.copies.is_empty() {
            let why = format!("run {}", agent.id.short());
            let kept = keep::keep(&ctx.repo, &in_logs.commits(), &why, ctx.now())?;
            warnings.push(format!(
                "the command made commits that lead to objects that are missing or damaged; they are kept without these: to see them, run git log --no-walk {kept}^@"
            ));
        }
        carry_sparse(ctx, agent, run_repo)?;
        // What was staged may be nowhere else.
        is_all = !left.iter().any(|file| file == Path::new("index"));
        warnings.extend(left.iter().map(|file| {
            format!(
                "git cannot use the file {} that the command left; it was not taken over",
                file.display()
            )
        }));
    } else {
        warnings.push(
            "some objects that the command left are damaged; what its commits hold was taken over"
                .into(),
        );
        // With the one from before the run, what its commits brought would look staged to be undone.
        run_repo.carry_index(&ctx.repo)?;
    }
    ctx.reached("admin-carried");
    Ok(TakenOver { warnings, is_all })
}

/// Takes over whether the command made its checkout sparse: else what the index then has without a file would be deleted.
fn carry_sparse(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<()> {
    // By the old idiom the command told its repository, not its worktree.
    let words = sparse_words_in(run_repo.path(), &run_repo.admin_dir());
    let own = worktree::admin_dir(&ctx.repo, agent.id);
    if run_repo.is_clone() || words == sparse_words_in(ctx.repo.common_dir(), &own) {
        return Ok(());
    }
    let words = words.into_iter().map(|(name, is_on)| (name, is_on.to_string()));
    let name = layout::worktree_name(agent.id);
    ctx.repo.set_worktree_settings(&name, &words.collect::<Vec<_>>())
}

/// Publishes what a command left, leads its worktree back and removes the run repository. What cannot be published
/// stays in the run repository, and a warning says so.
///
/// # Errors
/// `io`, `disk-full` when the worktree cannot be led back.
pub fn finish(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo) -> Result<Published> {
    let published = publish(ctx, agent, run_repo);
    // Also where nothing could be published: git in the worktree is to work again, and the run
    // repository stays for the next attempt.
    let restored = run_repo.lead_back()?;
    ctx.reached("led-back");
    let is_left_over = published.is_err();
    let mut warnings: Vec<String> = restored.iter().map(of_restored).collect();
    let earlier = fsx::aside(run_repo.path());
    if earlier.exists() {
        warnings.push(format!(
            "not all that an earlier run left could be taken over; it is kept in {}",
            earlier.display()
        ));
    }
    match published {
        Ok(taken) => {
            warnings.extend(taken.warnings);
            // Noted first: until the worktree has what came to the branch, a commit of it would take that back.
            let branch = agent.branch.as_deref().unwrap_or_default();
            let now = ctx.repo.tip(branch)?;
            if let Some(seen) = run_repo.tip().filter(|seen| now != Tip::At(*seen)) {
                let note = layout::behind(ctx.repo.common_dir(), agent.id);
                fsx::write_private(&note, format!("{seen}\n").as_bytes())?;
            }
            let kept = if taken.is_all {
                run_repo.remove()?;
                None
            } else {
                run_repo.set_aside()?
            };
            warnings.extend(kept.map(|kept| {
                format!("the rest of what the command left is kept in {}", kept.display())
            }));
            warnings.extend(catch_up_noted(ctx, agent).err().map(|error| {
                format!("what came to the agent's branch is not in its worktree: {error}")
            }));
        }
        Err(error) => {
            let why = in_one_line(&error);
            run_repo.note_refused(&why)?;
            warnings.push(format!(
                "what the command committed could not be taken over ({why}); it is kept in {}",
                run_repo.path().display()
            ));
        }
    }
    let restored = restored.into_iter().map(|(file, _)| file).collect();
    Ok(Published { restored, warnings, is_left_over })
}

/// What is said of a `.git` file that was put back.
fn of_restored((file, kept): &(PathBuf, Option<PathBuf>)) -> String {
    let file = file.display();
    let said =
        format!("the command changed {file}, which leads git to the repository: it was put back");
    match kept {
        Some(kept) => format!("{said}, and what was there is {}", kept.display()),
        None => said,
    }
}

/// Makes sure that the last run left nothing that could not be taken over: what is on the branch is then not all of the work.
///
/// # Errors
/// `git-failed`, saying why it could not.
pub(crate) fn require_taken_over(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let Some(run_repo) = run_repo(ctx, agent) else {
        return Ok(());
    };
    match run_repo.refused() {
        None => Ok(()),
        Some(why) => Err(Error::new(
            Code::GitFailed,
            format!(
                "what a run of agent {} committed could not be taken over; it is kept in {}",
                agent.id.short(),
                run_repo.path().display()
            ),
        )
        .because(why)),
    }
}

/// Makes sure that a worktree has what came to its branch while a run worked in it, and brings it there if that was not possible then.
///
/// # Errors
/// Those of bringing it, `run-active`.
pub(crate) fn require_caught_up(ctx: &Ctx, agent: &Agent) -> Result<()> {
    // A look moves nothing.
    if ctx.repo.is_scratch() || !layout::behind(ctx.repo.common_dir(), agent.id).exists() {
        return Ok(());
    }
    let _alone = liveness::lock_at_once(ctx, agent)?;
    catch_up_noted(ctx, agent)
}

/// As [`require_caught_up`], for the holder of the agent's lock.
///
/// # Errors
/// Those of bringing it.
pub(crate) fn catch_up_noted(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let note = layout::behind(ctx.repo.common_dir(), agent.id);
    let Some(seen) = fsx::load_if_there(&note)? else {
        return Ok(());
    };
    let seen = std::str::from_utf8(&seen).ok();
    if let Some(seen) = seen.and_then(|seen| Oid::from_hex(seen.trim_end())) {
        catch_up(ctx, agent, seen)?;
    }
    fs::remove_file(&note).at_if_there("could not remove", &note)?;
    Ok(())
}

/// Brings what came to the branch since a commit to the worktree, which is at that commit but for what is not committed.
///
/// # Errors
/// `target-dirty`, `worktree-busy`; `lost-race` where the branch does not hold the commit.
pub fn catch_up(ctx: &Ctx, agent: &Agent, seen: Oid) -> Result<()> {
    let Some(branch) = agent.branch.as_deref() else {
        return Ok(());
    };
    let Tip::At(now) = ctx.repo.tip(branch)? else {
        return Ok(());
    };
    if now == seen {
        return Ok(());
    }
    let short = agent.id.short();
    // In the mount its files are in their place, as those of a copied worktree are.
    if layered::of(&ctx.repo, agent.id).is_some() {
        let words = ["catch-up", &short, &seen.to_hex()];
        let (output, _) = layered::run_mounted(ctx, agent, &words, Mounted::ForRun)?;
        if output.status.success() {
            return Ok(());
        }
        let what = format!("the layered worktree of agent {short} could not be moved");
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(Error::new(Code::TargetDirty, what).because(said.trim_end()));
    }
    for checkout in ctx.checkouts(branch)? {
        let scratch = branch_swap::index_scratch(&ctx.repo)?;
        let is_at = |commit: Oid| -> Result<bool> {
            Ok(checkout.staged_tree(&ctx.repo)? == ctx.repo.tree_of(commit)?)
        };
        if !ctx.repo.is_ancestor(seen, now)? {
            // A person may have brought it there.
            if is_at(now)? {
                continue;
            }
            let (name, branch) = (branch, branch_name(branch));
            let what = format!(
                "{branch} has moved to {now}, which does not hold {seen}, where the worktree of agent {short} is"
            );
            return Err(Error::new(Code::LostRace, what)
                .hint(format!("to compare the two, run git log --oneline --graph {now} {seen}"))
                .hint(format!("to put the branch back to where its worktree is, run git update-ref {name} {seen} {now}")));
        }
        drop(checkout.carry(&ctx.repo, (seen, now), &scratch, &|_| {})?);
    }
    Ok(())
}

/// Those of the commits that no ref of the repository leads to, whole ones and others: to keep one of those, or to land it, would make git
/// fail in all of the repository.
fn whole(ctx: &Ctx, commits: Vec<Oid>) -> (Vec<Oid>, Vec<Oid>) {
    if let Ok(unnamed) = ctx.repo.require_complete(&commits) {
        return (commits.into_iter().filter(|oid| unnamed.contains(oid)).collect(), Vec::new());
    }
    let (mut whole, mut broken) = (Vec::new(), Vec::new());
    for commit in commits {
        match ctx.repo.require_complete(&[commit]) {
            Ok(unnamed) if unnamed.contains(&commit) => whole.push(commit),
            Ok(_) => {}
            Err(_) => broken.push(commit),
        }
    }
    (whole, broken)
}

/// Moves the agent's branch to where the command has it.
fn move_branch(ctx: &Ctx, agent: &Agent, run_repo: &RunRepo, tip: Oid) -> Result<Option<String>> {
    let Some(branch) = agent.branch.as_deref() else {
        return Ok(None);
    };
    let (now, known) = (ctx.repo.tip(branch)?, run_repo.known_tip());
    // `known == tip` means that the command has not moved its branch. What others have done with
    // the branch meanwhile then stays.
    if now == Tip::At(tip) || known == Some(tip) {
        run_repo.set_known_tip(tip)?;
        return Ok(None);
    }
    // Where the command has taken over what landed on its branch meanwhile, nothing is lost by going on from there.
    let known = match now {
        Tip::At(now) if ctx.repo.is_ancestor(now, tip)? => Some(now),
        _ => known,
    };
    let who = ctx.identities()?.committer;
    let message = format!("agent: run {}", agent.id.short());
    if agent_branch::advance(&ctx.repo, agent, known, tip, (&who, &message))? {
        run_repo.set_known_tip(tip)?;
        return Ok(None);
    }
    // The compare-and-swap was refused, so no branch holds these commits.
    keep::keep(&ctx.repo, &[tip], &format!("run {}", agent.id.short()), ctx.now())?;
    Ok(Some(format!(
        "{branch} was moved by another process while the command ran, so it stays where it is; to have the command's commits, run git branch <name> {tip}"
    )))
}
