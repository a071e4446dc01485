//! Conflicts of an update that are left in the agent's worktree, and their end.
//!
//! ```text
//! leave    files and index ─> MERGE_HEAD ─> sides in the index ─> AUTO_MERGE ─> note in the row
//! resolve  a person edits the files, or the agent in its next run, which is told of them
//! conclude resolved, in scope ─> merge commit ─> [ref lock: index, ref] ─> MERGE_HEAD goes ─> row
//! ```
//!
//! The worktree is as `git merge` leaves it, and the merge may be ended by `git commit` or `git merge --abort` as well. `AUTO_MERGE` is
//! written last, so where it is missing the rest is done again; `MERGE_HEAD` is removed last, so where the branch holds its
//! commit already nothing but clearing up is left.

use super::{UpdateOptions, UpdatePlan, UpdateReport, UpdateWay, require_in_scope, texts};
use crate::agents::context::branch_swap::index_scratch;
use crate::agents::context::ctx::Ctx;
use crate::agents::place::worktree::{self, AgentWorktree};
use crate::agents::upkeep::merge_conflict::UnfinishedMerge;
use crate::agents::upkeep::own_checkout::checkout_on_branch;
use crate::agents::who::scope_guard::ScopeGuard;
use crate::agents::work::{self, uncommitted};
use crate::domain::boundary::violation::BundleRule;
use crate::domain::judge::folded_paths::folded;
use crate::domain::life::agent::{Agent, State};
use crate::domain::life::event::What;
use crate::domain::value::oid::Oid;
use crate::error::{Code, Error, ErrorFacts, IoContext, Remedy, Result};
use crate::git::landing::{Checkout, ConflictedMerge};
use crate::ops::error_report::{command_to_go_on, git_words};
use crate::proc::signals::Deferred;
use crate::store::files::fsx;
use std::collections::HashSet;
use std::fs;
use std::io::ErrorKind;

/// The steps of leaving conflicts, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`], after those of
/// moving files and index.
pub const CONFLICT_STEPS: [&str; 4] = ["head-written", "conflicts-staged", "left", "noted"];

/// Those of committing what was resolved.
pub const RESOLVED_STEPS: [&str; 5] = ["merged", "indexed", "moved", "cleared", "recorded"];

/// What git keeps in the admin directory while a merge waits; `MERGE_HEAD` goes last.
const FILES: [&str; 5] = ["MERGE_MSG", "MERGE_MODE", "MERGE_RR", "AUTO_MERGE", "MERGE_HEAD"];

/// What is to be done about a merge that waits in the worktree, where there is one.
///
/// # Errors
/// `update-conflicts`, naming the paths that are not resolved, unless they may stay; `out-of-scope`; those of git.
pub(super) fn pending(
    ctx: &Ctx,
    agent: &Agent,
    tip: Oid,
    options: UpdateOptions,
) -> Result<Option<UpdateWay>> {
    let Some(unfinished) = UnfinishedMerge::of(ctx, agent)? else {
        return is_committed(ctx, agent, tip);
    };
    let short = agent.id.short();
    let fence = ScopeGuard::around(&ctx.repo, agent.clone())?;
    let place = &unfinished.place;
    let own = AgentWorktree::new(&place.top, &place.git_dir);
    let work =
        own.undisturbed(|| uncommitted::work_to_commit(ctx, &fence, &place.top, &place.git_dir))?;
    let unresolved = unresolved(ctx, &unfinished, work.1)?;
    let git = git_words(&place.git_place());
    if !unresolved.is_empty() {
        if options.conflicts {
            return Ok(Some(UpdateWay::Wait(Box::new(unfinished), unresolved)));
        }
        let what = format!("a merge into agent {short} is not resolved yet");
        return Err(refusal(what, unresolved)
            .hint(format!("to let the agent do it, run {}", command_to_go_on(agent)))
            .hint(format!("to keep a file without markers as it is, run {git} add <path>"))
            .hint(format!("to take the merge back, run {git} merge --abort")));
    }
    // What conflicts may be changed for this; all else is as the target has it, or in scope.
    let conflicting: HashSet<Vec<u8>> = unfinished.paths().into_iter().collect();
    let mut changes = ctx.repo.tree_changes(&[unfinished.merge.tree], work.1)?;
    changes.retain(|change| !conflicting.contains(&change.path));
    let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
    if let Some(first) = violations.first() {
        let paths: Vec<_> = violations.iter().map(|one| one.path.clone()).collect();
        let what = format!("resolving the merge, agent {short} changed what is out of its scope");
        return Err(Error::new(Code::OutOfScope, what)
            .detail(listed(&paths))
            .hint(format!(
                "to have a path as it was merged, run {git} checkout AUTO_MERGE -- {}",
                crate::domain::value::shell::quoted(&String::from_utf8_lossy(&first.path))
            ))
            .facts(ErrorFacts { paths, ..ErrorFacts::default() }));
    }
    require_in_scope(ctx, agent, unfinished.theirs, work.1)?;
    Ok(Some(UpdateWay::Resolved(Box::new(unfinished), work.1)))
}

/// Whether the branch holds the merge already, and only the files of it are left.
fn is_committed(ctx: &Ctx, agent: &Agent, tip: Oid) -> Result<Option<UpdateWay>> {
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    if !admin_dir.join("MERGE_HEAD").exists() {
        return Ok(None);
    }
    let place = checkout_on_branch(ctx, agent)?;
    if let Some(theirs) = place.merge_head().filter(|theirs| ctx.repo.has_object(*theirs))
        && ctx.repo.is_ancestor(theirs, tip)?
    {
        return Ok(Some(UpdateWay::Clear(place, theirs)));
    }
    // A merge of something else, or one that does not conflict, is ended by the one who began it.
    let give_up = Remedy::GitIn(place.git_place(), vec!["merge --abort".to_owned()]);
    Err(place.busy().remedy("to give that merge up", give_up))
}

/// The paths that still conflict in the tree that committing the worktree would make: by their markers, or, where a conflict has
/// none, because neither file nor index say what became of it.
fn unresolved(ctx: &Ctx, unfinished: &UnfinishedMerge, tree: Oid) -> Result<Vec<Vec<u8>>> {
    let (repo, merge) = (&ctx.repo, &unfinished.merge);
    let theirs = repo.tree_of(unfinished.theirs)?;
    // A file of the target may hold such lines by right, for example one about git.
    let marked = repo.added_conflict_markers(theirs, tree, unfinished.theirs)?;
    let marked: HashSet<Vec<u8>> = marked.into_iter().map(|(path, _)| path).collect();
    let changed: HashSet<Vec<u8>> = repo.changed_paths(merge.tree, tree)?;
    let is_whole = unfinished.place.git_dir.join("AUTO_MERGE").exists();
    let unmerged: HashSet<Vec<u8>> = unfinished.place.unmerged_paths()?.into_iter().collect();
    let mut paths = unfinished.paths();
    paths.retain(|path| {
        let is_untouched = !changed.contains(path);
        marked.contains(path) || is_untouched && (unmerged.contains(path) || !is_whole)
    });
    Ok(paths)
}

impl UpdatePlan {
    /// Leaves the conflicts in the worktree.
    pub(super) fn leave(&self, ctx: &Ctx, merge: &ConflictedMerge) -> Result<UpdateReport> {
        let place = self.place(ctx)?;
        // Index and files go to the tree with the markers as they would for a landing: a kill before the note is gone moves
        // them back.
        let marked = work::simulated(&ctx.repo, merge.tree, &[self.tip])?;
        let reached = |step: &str| ctx.reached(step);
        let way = (self.tip, marked);
        let _deferred = Deferred::hold()?;
        let note = place.carry(&ctx.repo, way, &index_scratch(&ctx.repo)?, &reached)?;
        // Before `MERGE_HEAD`, by which git takes the merge for begun, come the files that it then
        // reads.
        let write =
            |name: &str, content: &[u8]| fsx::write_atomic(&place.git_dir.join(name), content);
        write("MERGE_MSG", self.message().as_bytes())?;
        write("MERGE_MODE", b"no-ff")?;
        write("MERGE_HEAD", format!("{}\n", self.target_tip).as_bytes())?;
        ctx.reached(CONFLICT_STEPS[0]);
        drop(note);
        self.stage_conflicts(ctx, &place, merge)
    }

    /// Does what is left to do of leaving conflicts, if anything.
    pub(super) fn complete(&self, ctx: &Ctx, unfinished: &UnfinishedMerge) -> Result<UpdateReport> {
        let place = &unfinished.place;
        // It is written last, so nothing is left to be done.
        if place.git_dir.join("AUTO_MERGE").exists() {
            return Ok(UpdateReport { outcome: "conflicts", ..self.report() });
        }
        place.forget_landing()?;
        self.stage_conflicts(ctx, place, &unfinished.merge)
    }

    fn stage_conflicts(
        &self,
        ctx: &Ctx,
        place: &Checkout,
        merge: &ConflictedMerge,
    ) -> Result<UpdateReport> {
        place.stage_conflicts(merge)?;
        ctx.reached(CONFLICT_STEPS[1]);
        if let Some(note) = place.rerere_note() {
            fsx::write_atomic(&place.git_dir.join("MERGE_RR"), &note)?;
        }
        let tree = format!("{}\n", merge.tree);
        fsx::write_atomic(&place.git_dir.join("AUTO_MERGE"), tree.as_bytes())?;
        ctx.reached(CONFLICT_STEPS[2]);
        // Work that counts as done is so no more. A row of the tip says that, for what was judged lands no more.
        if matches!(self.agent.state, State::Done | State::Merged) {
            let tree = ctx.repo.tree_of(self.tip)?;
            let commit = self.tip;
            self.record(ctx, What::Committed { commit, tree })?;
        }
        let paths: Vec<_> = merge.conflicts.iter().map(|one| one.path.clone()).collect();
        let text = format!(
            "conflicts with {} are to be resolved: {}",
            self.target_tip.short(),
            folded(&paths).join(", ")
        );
        self.record(ctx, What::Noted { text })?;
        ctx.reached(CONFLICT_STEPS[3]);
        Ok(UpdateReport { outcome: "conflicts", conflicts: texts(paths.iter()), ..self.report() })
    }

    /// Clears up behind a commit that a kill kept from being recorded.
    pub(super) fn clear(&self, ctx: &Ctx, place: &Checkout) -> Result<UpdateReport> {
        end_merge(place)?;
        let (commit, tree) = (self.tip, ctx.repo.tree_of(self.tip)?);
        self.record(ctx, What::Committed { commit, tree })?;
        Ok(UpdateReport { outcome: "updated", commit: Some(commit.to_hex()), ..self.report() })
    }
}

/// Removes what says that something is being merged.
pub(super) fn end_merge(place: &Checkout) -> Result<()> {
    for name in FILES {
        let path = place.git_dir.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(error).at("could not remove", &path);
            }
            _ => {}
        }
    }
    Ok(())
}

/// The error that names paths in conflict.
pub(super) fn refusal(what: String, paths: Vec<Vec<u8>>) -> Error {
    Error::new(Code::UpdateConflicts, what)
        .detail(listed(&paths))
        .facts(ErrorFacts { conflicts: paths, ..ErrorFacts::default() })
}

fn listed(paths: &[Vec<u8>]) -> String {
    let lines = folded(paths).into_iter().map(|line| format!("  {line}"));
    lines.collect::<Vec<_>>().join("\n")
}
