//! The agent's work as trees: what its tip holds, and what committing the rest would make of it.

use crate::agents::ctx::Ctx;
use crate::agents::hooks::inspection;
use crate::agents::untrusted;
use crate::agents::work::simulated;
use crate::agents::work::uncommitted::{Snapshot, snapshot};
use crate::agents::worktree::{AgentWorktree, UNFINISHED};
use crate::domain::agent::Agent;
use crate::domain::change::Change;
use crate::domain::evidence::WorktreeFacts;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::belongs_to;
use crate::git::uncommitted::Uncommitted;
use crate::ops::verify::subject::Subject;
use crate::wire::policy::Policy;
use std::fs;
use std::path::Path;

/// What is judged, as trees.
pub(super) struct Trees {
    /// The tip's tree.
    pub tip_tree: Oid,
    /// The trees of what is being merged in the worktree.
    pub merged: Vec<Oid>,
    /// What is staged, whatever the files say.
    pub staged: Vec<Change>,
    /// What committing everything would make; the tip's tree when there is nothing to commit.
    pub tree: Oid,
    /// How many paths of the worktree are left out of that because they are ignored.
    pub ignored: Option<usize>,
    /// How many are left out because they are as setup left them; `None` where setup left none.
    pub from_setup: Option<usize>,
    /// New files that editors left, which are left out too.
    pub droppings: Vec<Vec<u8>>,
    /// The state of the worktree.
    pub worktree: Option<WorktreeFacts>,
}

impl Trees {
    /// Reads the work; `twice` where something works on it meanwhile.
    ///
    /// # Errors
    /// `lost-race` when a file changed from one reading to the next, or the worktree went away; those of git and the file system.
    pub(super) fn gather(
        ctx: &Ctx,
        subject: &Subject,
        policy: &Policy,
        twice: bool,
    ) -> Result<Trees> {
        let Some(place) = &subject.worktree else {
            return Trees::of_commit(&ctx.repo, subject.tip);
        };
        let tip_tree = ctx.repo.read_commit(subject.tip)?.tree;
        let bundle = policy.bundle_dir.as_deref();
        place.undisturbed(|| {
            let Snapshot {
                staged,
                found,
                from_setup,
                droppings,
            } = snapshot(ctx, &subject.agent, subject.tip, place, bundle, true)?;
            if twice {
                let again = snapshot(ctx, &subject.agent, subject.tip, place, bundle, true)?;
                if (again.found.tree, &again.staged) != (found.tree, &staged) {
                    return Err(changed(&subject.agent));
                }
            }
            Ok(Trees {
                tip_tree,
                merged: ctx.repo.merged_trees(&place.admin_dir),
                staged,
                tree: found.tree.unwrap_or(tip_tree),
                ignored: Some(found.ignored.len()),
                from_setup: from_setup.map(|paths| paths.len()),
                droppings,
                worktree: Some(facts(ctx, subject, place, found)?),
            })
        })
    }

    /// What a commit holds, where no worktree is looked at.
    pub(super) fn of_commit(repo: &Repo, tip: Oid) -> Result<Trees> {
        let tip_tree = repo.read_commit(tip)?.tree;
        Ok(Trees {
            tip_tree,
            merged: Vec::new(),
            staged: Vec::new(),
            tree: tip_tree,
            ignored: None,
            from_setup: None,
            droppings: Vec::new(),
            worktree: None,
        })
    }

    /// The commit that would land: the tip, or the one that committing would put on top of it.
    pub(super) fn commit(&self, repo: &Repo, tip: Oid) -> Result<Oid> {
        if self.tree == self.tip_tree {
            Ok(tip)
        } else {
            simulated(repo, self.tree, &[tip])
        }
    }
}

fn changed(agent: &Agent) -> Error {
    let short = agent.id.short();
    let what = format!("a file of agent {short} changed while its work was read");
    Error::new(Code::LostRace, what).hint(format!(
        "to take what is there once it is at rest, run git agent wait {short}"
    ))
}

fn facts(
    ctx: &Ctx,
    subject: &Subject,
    place: &AgentWorktree,
    uncommitted: Uncommitted,
) -> Result<WorktreeFacts> {
    let unfinished = |(file, _): &&(&str, &str)| exists(&place.admin_dir.join(file));
    let mut in_progress: Vec<_> = UNFINISHED
        .iter()
        .filter(unfinished)
        .map(|(_, what)| *what)
        .collect();
    // Several files may say the same of one operation.
    in_progress.dedup();
    let head = untrusted::text(&place.admin_dir, "HEAD").unwrap_or_default();
    let head = head.trim_end();
    // A detached HEAD names a commit, which is no branch of its.
    let on = head.strip_prefix("ref: ").unwrap_or(head);
    // Which git runs here says nothing about what the agent did, so none is asked for its version.
    let hooks = inspection(ctx, &subject.agent, None)?;
    let hooks = hooks
        .map(|inspection| inspection.problems)
        .unwrap_or_default();
    let altered = hooks.iter().filter(|problem| problem.is_tampering());
    Ok(WorktreeFacts {
        hooks: altered.map(ToString::to_string).collect(),
        linked: belongs_to(&place.path, &place.admin_dir),
        head_elsewhere: (subject.agent.branch.as_deref() != Some(on)).then(|| on.to_owned()),
        in_progress,
        unmerged: uncommitted.unmerged,
        nested: uncommitted.nested,
        submodules: uncommitted.submodules,
        unreadable: uncommitted.unreadable,
    })
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
