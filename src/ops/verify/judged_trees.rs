//! What is judged: the work as trees, with what committing the rest would make of it, and every path that it touches.

use crate::agents::upkeep::hooks::inspection;
use crate::agents::work::simulated;
use crate::agents::work::uncommitted::{Snapshot, snapshot};
use crate::agents::{AgentWorktree, Ctx, context::untrusted, upkeep::own_checkout};
use crate::domain::judge::evidence::{ChangePlace, HeadElsewhere, Touch, WorktreeFacts};
use crate::domain::{Agent, Change, Oid, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::history::ancestry::{Divergence, Lineage};
use crate::git::landing::unfinished;
use crate::git::uncommitted::Uncommitted;
use crate::git::{MergeResult, Repo};
use crate::ops::verify::landing::LandingSubject;
use crate::wire::row::policy::Policy;

/// Every change of every commit, then what is staged, then what is not. What a merge brings is not the
/// agent's doing; what it adds to the merge that git would have made is. `stands_for` gives, for what a merge brings and what it is
/// brought into, the commit that is merged for the latter.
pub(super) fn touches(
    repo: &Repo,
    divergence: &Divergence,
    work: &JudgedTrees,
    stands_for: impl Fn(Oid, Oid) -> Result<Oid>,
) -> Result<Vec<Touch>> {
    let mut touches = Vec::new();
    let mut add = |place, changes: Vec<Change>| {
        touches.extend(changes.into_iter().map(|change| Touch { change, place }));
    };
    for lineage in &divergence.ahead {
        let tree = repo.tree_of(lineage.oid)?;
        let before = before(repo, lineage, &stands_for)?;
        add(ChangePlace::Commit(lineage.oid), repo.sound_changes(before.as_slice(), tree)?);
    }
    add(ChangePlace::Index, work.staged.clone());
    // What a merge brings that is not committed yet is no more the agent's doing.
    let before: Vec<Oid> =
        std::iter::once(work.tip_tree).chain(work.merged.iter().copied()).collect();
    let changes = repo.sound_changes(&before, work.tree)?;
    add(ChangePlace::Worktree, changes);
    Ok(touches)
}

/// The tree that a commit is compared with; `None` for a first commit.
fn before(
    repo: &Repo,
    lineage: &Lineage,
    stands_for: &impl Fn(Oid, Oid) -> Result<Oid>,
) -> Result<Option<Oid>> {
    let Some((first, rest)) = lineage.parents.split_first() else {
        return Ok(None);
    };
    let (mut onto, mut before) = (*first, repo.tree_of(*first)?);
    for (count, theirs) in rest.iter().enumerate() {
        before = match repo.merge(stands_for(*theirs, onto)?, *theirs)?.result {
            MergeResult::Clean { tree } => tree,
            MergeResult::Conflicts { tree: Some(tree), .. } if rest.len() == 1 => tree,
            // What git cannot merge is compared with the first one, so all that the others bring counts as touched.
            _ => return Ok(Some(repo.tree_of(*first)?)),
        };
        // Several are merged one after the other, as git does it.
        if count + 1 < rest.len() {
            onto = simulated(repo, before, &[onto, *theirs])?;
        }
    }
    Ok(Some(before))
}

/// What is judged, as trees.
pub(super) struct JudgedTrees {
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

impl JudgedTrees {
    /// Reads the work; `twice` where something works on it meanwhile.
    ///
    /// # Errors
    /// `lost-race` when a file changed from one reading to the next, or the worktree went away; those of git and the file system.
    pub(super) fn gather(
        ctx: &Ctx,
        subject: &LandingSubject,
        policy: &Policy,
        twice: bool,
    ) -> Result<JudgedTrees> {
        let Some(place) = &subject.worktree else {
            return JudgedTrees::of_commit(&ctx.repo, subject.tip);
        };
        let tip_tree = ctx.repo.tree_of(subject.tip)?;
        let bundle = policy.bundle_dir.as_deref();
        place.undisturbed(|| {
            let Snapshot { staged, found, from_setup, droppings } =
                snapshot(ctx, &subject.agent, subject.tip, place, bundle, true)?;
            if twice {
                let again = snapshot(ctx, &subject.agent, subject.tip, place, bundle, true)?;
                if (again.found.tree, &again.staged) != (found.tree, &staged) {
                    return Err(changed(&subject.agent));
                }
            }
            if !staged.is_empty() {
                require_staged(ctx, &subject.agent, place)?;
            }
            Ok(JudgedTrees {
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
    pub(super) fn of_commit(repo: &Repo, tip: Oid) -> Result<JudgedTrees> {
        let tip_tree = repo.tree_of(tip)?;
        Ok(JudgedTrees {
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
        if self.tree == self.tip_tree { Ok(tip) } else { simulated(repo, self.tree, &[tip]) }
    }
}

/// Fails where the index names what is missing: work that lands is staged first, which git refuses then.
fn require_staged(ctx: &Ctx, agent: &Agent, place: &AgentWorktree) -> Result<()> {
    // Most of what it names, that of the main worktree does as well.
    let (index, known) = (place.admin_dir.join("index"), ctx.repo.common_dir().join("index"));
    if ctx.repo.has_all_of_index(&place.admin_dir, &index, &known) {
        return Ok(());
    }
    let what = format!("the index of agent {} names objects that are missing", agent.id.short());
    let path = shell::path(&place.path);
    Err(Error::new(Code::RepoCorrupt, what).hint(format!("to see them, run git -C {path} fsck")))
}

fn changed(agent: &Agent) -> Error {
    let short = agent.id.short();
    let what = format!("a file of agent {short} changed while its work was read");
    Error::new(Code::LostRace, what)
        .hint(format!("to take what is there once it is at rest, run git agent wait {short}"))
}

fn facts(
    ctx: &Ctx,
    subject: &LandingSubject,
    place: &AgentWorktree,
    uncommitted: Uncommitted,
) -> Result<WorktreeFacts> {
    let head = untrusted::text(&place.admin_dir, "HEAD").unwrap_or_default();
    let head = head.trim_end();
    // A detached HEAD names a commit, which is no branch of its.
    let on = head.strip_prefix("ref: ").unwrap_or(head);
    // Which git runs here says nothing about what the agent did, so none is asked for its version.
    let hooks = inspection(ctx, &subject.agent, None)?;
    let hooks = hooks.map(|inspection| inspection.problems).unwrap_or_default();
    let altered = hooks.iter().filter(|problem| problem.is_tampering());
    let mut nested = uncommitted.nested;
    nested.extend(embedded(&ctx.repo, subject, uncommitted.tree)?);
    Ok(WorktreeFacts {
        hooks: altered.map(ToString::to_string).collect(),
        linked: belongs_to(&place.path, &place.admin_dir),
        head_elsewhere: head_elsewhere(&ctx.repo, subject, on)?,
        in_progress: unfinished(&place.admin_dir),
        unmerged: uncommitted.unmerged,
        nested,
        refused: uncommitted.refused,
        submodules: uncommitted.submodules,
        unreadable: uncommitted.unreadable,
    })
}

/// Repositories inside the worktree that the work adds as links to a commit (git-add(1): embedded repositories). `.gitmodules` does
/// not say where such a commit is to be had from, so no clone has what is in it.
fn embedded(repo: &Repo, subject: &LandingSubject, tree: Option<Oid>) -> Result<Vec<Vec<u8>>> {
    let after = tree.map_or_else(|| repo.tree_of(subject.tip), Ok)?;
    // What came from the target is its own.
    let before = subject.agent.base.iter().map(|base| base.oid).chain(subject.base);
    repo.unnamed_gitlinks(&before.map(|oid| repo.tree_of(oid)).collect::<Result<Vec<_>>>()?, after)
}

/// Where HEAD is, if not on the agent's branch, and the way back, on which no commit is left behind.
fn head_elsewhere(
    repo: &Repo,
    subject: &LandingSubject,
    on: &str,
) -> Result<Option<HeadElsewhere>> {
    if subject.agent.branch.as_deref().is_none_or(|branch| branch == on) {
        return Ok(None);
    }
    let command = own_checkout::way_back(repo, &subject.agent, on)?;
    let command = format!("git {}", command.join(" && git "));
    Ok(Some(HeadElsewhere { on: on.to_owned(), command }))
}
