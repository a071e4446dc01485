//! Where the commits come from, every path that any of them touches, and what is not committed yet.

use crate::agents::hooks::inspection;
use crate::agents::work::simulated;
use crate::agents::work::uncommitted::{Snapshot, snapshot};
use crate::agents::{AgentWorktree, Ctx, lookup, own_checkout, untrusted};
use crate::domain::evidence::{
    BranchHistory, ChangePlace, HeadElsewhere, NoWorktree, Touch, WorktreeFacts,
};
use crate::domain::{Agent, Change, Oid, What, shell};
use crate::error::{Code, Error, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::history::ancestry::{Divergence, Lineage};
use crate::git::landing::unfinished;
use crate::git::refs::REMOTE_COPIES;
use crate::git::uncommitted::Uncommitted;
use crate::git::{Commit, MergeResult, Repo, Tip};
use crate::ops::verify::landing::{LandingSubject, nonce_of};
use crate::store::landed::landed_at;
use crate::store::spawn_commit::{NONCE, SPAWN_SUBJECT};
use crate::store::{agent_branch, replay, spawn_commit};
use crate::wire::policy::Policy;
use std::collections::{HashMap, HashSet};

/// Which commits are the agent's and which are not. `started` is the commit it was spawned from; `is_above_landed` says that what
/// it was built upon has landed, and that `divergence` leaves that out.
pub(super) fn provenance(
    ctx: &Ctx,
    subject: &LandingSubject,
    started: Oid,
    divergence: &Divergence,
    is_above_landed: bool,
) -> Result<BranchHistory> {
    let repo = &ctx.repo;
    let ahead = CommitsAhead::read(ctx, subject, divergence)?;
    let spawn = ahead.spawn(repo, subject)?;
    let mut origin = match spawn {
        Some(spawn) => spawn.parents.first().copied(),
        None => Some(started),
    };
    // In another order than they were made in, some of the agent's own commits are below the one by which it was spawned.
    while let Some(below) = origin.filter(|oid| ahead.names(subject, oid)) {
        origin = repo.read_commit(below)?.parents.first().copied();
    }
    // Changes that their owner has not committed are on no branch; what they were made on is.
    let origin = match subject.below_changes {
        Some(below) if origin == Some(started) => Some(below),
        _ => origin,
    };
    let lost_base = match (subject.base, origin) {
        // What it was built upon is there in another form.
        (Some(base), Some(origin))
            if !is_above_landed && is_lost(repo, subject, divergence, base, origin)? =>
        {
            Some(origin)
        }
        _ => None,
    };
    let (has_spawn_commit, foreign) = match spawn {
        Some(spawn) => {
            let mut foreign = ahead.foreign(ctx, subject, spawn, &HashSet::new())?;
            if !foreign.is_empty() {
                foreign = ahead.foreign(ctx, subject, spawn, &landed_elsewhere(ctx, subject)?)?;
            }
            (true, foreign)
        }
        None => ahead.foreign_since_landing(ctx, subject)?,
    };
    let fork = subject.base.filter(|_| !has_spawn_commit);
    let fork = fork.map_or(Ok(None), |base| repo.merge_base(base, subject.tip))?;
    let lacking: Vec<Oid> = lost_base.iter().chain(&foreign).copied().collect();
    Ok(BranchHistory {
        has_spawn_commit,
        // A commit that was named need not be where the branch is, so nothing is said of where that should be.
        spawn_commit: (subject.no_worktree != NoWorktree::CommitNamed)
            .then_some(subject.agent.spawn_commit),
        fork: fork.filter(|fork| *fork != started),
        has_merges: divergence.ahead.iter().any(|one| one.parents.len() > 1),
        lost_base,
        foreign,
        fetched: fetched(repo, subject, &lacking)?,
    })
}

/// The copy of the base branch from a remote that goes on from it and holds all of these commits, where there are any: the work was rebased
/// onto that, and the branch itself has not followed yet.
fn fetched(repo: &Repo, subject: &LandingSubject, commits: &[Oid]) -> Result<Option<String>> {
    let (Some(name), Some(base), false) = (&subject.base_ref, subject.base, commits.is_empty())
    else {
        return Ok(None);
    };
    'copies: for (copy, tip) in repo.fetched_branches(name)? {
        for commit in commits.iter().chain([&base]) {
            if !repo.is_ancestor(*commit, tip)? {
                continue 'copies;
            }
        }
        return Ok(copy.strip_prefix(REMOTE_COPIES).map(str::to_owned));
    }
    Ok(None)
}

/// The commits that the base lacks, as they were read.
struct CommitsAhead<'a> {
    divergence: &'a Divergence,
    commits: HashMap<Oid, Commit>,
    /// The spawn commits whose text other commits carry: `pr` pushes a branch without its spawn commit.
    carriers: HashMap<Oid, Oid>,
    /// What tells the agent's spawn commit, and what a rebase makes of it, from all others.
    nonce: Option<String>,
}

impl<'a> CommitsAhead<'a> {
    fn read(
        ctx: &Ctx,
        subject: &LandingSubject,
        divergence: &'a Divergence,
    ) -> Result<CommitsAhead<'a>> {
        let repo = &ctx.repo;
        let (mut commits, mut carriers) = (HashMap::new(), HashMap::new());
        for lineage in &divergence.ahead {
            commits.insert(lineage.oid, repo.read_commit(lineage.oid)?);
            let carried = spawn_commit::carried(&repo.read_raw_commit(lineage.oid)?);
            carriers.extend(carried.map(|(spawn, _)| (lineage.oid, spawn)));
        }
        let nonce = nonce_of(ctx, subject.agent.spawn_commit);
        Ok(CommitsAhead { divergence, commits, carriers, nonce })
    }

    /// The agent's spawn commit among them, or what a rebase made of it.
    fn spawn(&self, repo: &Repo, subject: &LandingSubject) -> Result<Option<&'a Lineage>> {
        let original = subject.agent.spawn_commit;
        let is_begin = |lineage: &&Lineage| self.begins(subject, &lineage.oid);
        let spawn = self.divergence.ahead.iter().find(is_begin);
        if let (Some(found), Some(base)) = (spawn, subject.base)
            && found.oid != original
            && repo.has_object(original)
            && repo.is_ancestor(original, base)?
        {
            // A rebase of what has landed already does not make the agent's work new.
            return Ok(None);
        }
        Ok(spawn)
    }

    /// Whether a commit is the agent's spawn commit, stands for it or carries it.
    fn begins(&self, subject: &LandingSubject, oid: &Oid) -> bool {
        let original = subject.agent.spawn_commit;
        // A rebase gives the spawn commit another name and keeps its message.
        let own = self.commits.get(oid).and_then(|commit| commit.trailer(NONCE));
        *oid == original
            || self.carriers.get(oid) == Some(&original)
            || own.is_some() && own == self.nonce.as_deref()
    }

    /// Those that are not the agent's. Commits of a side branch count as the agent's where they name it, or where they `landed` on its
    /// branch. Their paths are judged like those of all others.
    fn foreign(
        &self,
        ctx: &Ctx,
        subject: &LandingSubject,
        spawn: &Lineage,
        landed: &HashSet<Oid>,
    ) -> Result<Vec<Oid>> {
        let mut own = own_line(subject.tip, spawn.oid, self.divergence, |oid| {
            // Of a commit that is not known here nothing below is taken for the agent's.
            let is_spawn = self.commits.get(&oid).is_none_or(|commit| {
                commit.trailer(NONCE).is_some() && commit.message.starts_with(SPAWN_SUBJECT)
            });
            // A rebase on top of the branch that `pr` pushed puts the spawn commit on top of the commit that carries it.
            !landed.contains(&oid)
                && (is_spawn || self.carriers.contains_key(&oid))
                && !self.begins(subject, &oid)
        });
        // A branch that was begun on this one is merged without a commit.
        let theirs = self.of_others(ctx, subject, &own)?;
        own.retain(|oid| !theirs.contains(oid));
        // The branch as it was before a rebase may have been merged into what came of it.
        Ok(self.all_but(|oid| {
            let is_own = own.contains(oid) || self.names(subject, oid);
            is_own || landed.contains(oid) || self.begins(subject, oid)
        }))
    }

    fn all_but(&self, is_own: impl Fn(&Oid) -> bool) -> Vec<Oid> {
        let all = self.divergence.ahead.iter().map(|lineage| lineage.oid);
        all.filter(|oid| !is_own(oid)).collect()
    }

    /// Whether a commit names the agent in its trailer.
    fn names(&self, subject: &LandingSubject, oid: &Oid) -> bool {
        self.named(oid) == Some(subject.agent.id.to_string().as_str())
    }

    fn named(&self, oid: &Oid) -> Option<&str> {
        self.commits.get(oid).and_then(|commit| commit.trailer("Agent-Id"))
    }

    /// Those of the commits that name another agent, whose branch holds them: they are that one's, and no copies of them.
    fn of_others(
        &self,
        ctx: &Ctx,
        subject: &LandingSubject,
        commits: &HashSet<Oid>,
    ) -> Result<HashSet<Oid>> {
        let mut theirs = HashSet::new();
        let named = commits.iter().filter(|oid| !self.names(subject, oid));
        let named: Vec<_> = named.filter_map(|oid| Some((*oid, self.named(oid)?))).collect();
        // As nearly always, and then no row is read.
        if named.is_empty() {
            return Ok(theirs);
        }
        let agents = lookup::agents(ctx)?;
        for (oid, named) in named {
            let Some(other) = agents.iter().find(|other| other.id.to_string() == named) else {
                continue;
            };
            let found = agent_branch::local_or_fetched(&ctx.repo, other)?;
            if found.map_or(Ok(false), |(_, tip)| ctx.repo.is_ancestor(oid, tip))? {
                theirs.insert(oid);
            }
        }
        Ok(theirs)
    }

    /// Whether the work has landed with its spawn commit, and then the commits since that are not the agent's: anyone may have built on
    /// it. What begins at the tip that landed, as the row of that landing names it, is the agent's own. Of a landing by hand or by a
    /// forge there is no row, and what the agent's branch itself has with its name is taken for its own.
    fn foreign_since_landing(
        &self,
        ctx: &Ctx,
        subject: &LandingSubject,
    ) -> Result<(bool, Vec<Oid>)> {
        let repo = &ctx.repo;
        // A branch that was set to the target goes on from what has landed of it.
        let is_set_to_target = match (&subject.agent.landed, subject.base) {
            (Some((landed, _)), Some(base)) if repo.has_object(*landed) => {
                repo.is_ancestor(*landed, subject.tip)? && repo.is_ancestor(*landed, base)?
            }
            _ => false,
        };
        let has_spawn_commit = repo.is_ancestor(subject.agent.spawn_commit, subject.tip)?;
        if !has_spawn_commit && !is_set_to_target {
            return Ok((false, Vec::new()));
        }
        // On any other branch a name is only a claim.
        let branch = subject.agent.branch.as_ref();
        let here = branch.map(|branch| repo.branch_tip(branch)).transpose()?.and_then(Tip::oid);
        let is_its_branch = here == Some(subject.tip)
            || agent_branch::local_or_fetched(repo, &subject.agent)?
                .is_some_and(|(_, tip)| tip == subject.tip);
        let own = if has_spawn_commit || !is_its_branch {
            let mut own = own_since_landing(repo, subject, self.divergence)?;
            let theirs = self.of_others(ctx, subject, &own)?;
            own.retain(|oid| !theirs.contains(oid));
            own
        } else {
            self.on_new_line(repo, subject)?
        };
        let names = |oid: &Oid| is_its_branch && self.names(subject, oid);
        Ok((true, self.all_but(|oid| own.contains(oid) || names(oid))))
    }

    /// The commits of a branch that was set to the target after a landing, and goes on from there. Set to the branch of a person or of
    /// another agent, it brings what is there under their names.
    fn on_new_line(&self, repo: &Repo, subject: &LandingSubject) -> Result<HashSet<Oid>> {
        let (line, _) = first_parents(self.divergence, subject.tip, None);
        let branch = subject.agent.branch.as_deref().unwrap_or_default();
        let copies = repo.fetched_branches(branch)?;
        let is_its = |name: &String| name == branch || copies.iter().any(|(copy, _)| copy == name);
        let mut own = HashSet::new();
        for oid in line {
            if self.names(subject, &oid) || repo.refs_holding(oid)?.iter().all(is_its) {
                own.insert(oid);
            }
        }
        Ok(own)
    }
}

/// The commits by which other agents, as this clone believes their rows, landed on the branch of this one, and those that landed on the
/// base in another form and were not taken back there.
fn landed_elsewhere(ctx: &Ctx, subject: &LandingSubject) -> Result<HashSet<Oid>> {
    let (repo, mut landed) = (&ctx.repo, HashSet::new());
    let (own, base) = (subject.agent.branch.as_ref(), subject.base_ref.as_ref());
    for other in lookup::agents(ctx)? {
        let is_meant = |into: &String| Some(into) == own || Some(into) == base;
        if other.id == subject.agent.id
            || !other.landed.as_ref().is_some_and(|(_, into)| is_meant(into))
        {
            continue;
        }
        for event in ctx.ledger().events(other.spawn_commit)? {
            let What::Merged { commit, into, tip, from: Some(from) } = event.what else {
                continue;
            };
            let is_on_own = Some(&into) == own;
            // A row may claim anything of a branch that others move.
            let is_on_base = || match (subject.base.filter(|_| Some(&into) == base), tip) {
                (Some(at), Some(tip)) => landed_at(repo, vec![(&other, tip, at)]).remove(&other.id),
                _ => None,
            };
            if !is_on_own && !is_on_base().transpose()?.unwrap_or(false) {
                continue;
            }
            // All that was brought then: where the branch was rewritten since, it may hold a part of it.
            for brought in [Some(commit), tip].into_iter().flatten() {
                let is_new = !landed.contains(&brought);
                if is_new && [from, brought].iter().all(|oid| repo.has_object(*oid)) {
                    landed.extend(repo.commits_between(&[from], brought)?);
                }
            }
        }
    }
    Ok(landed)
}

/// Whether the base does not hold what the work was built upon.
fn is_lost(
    repo: &Repo,
    subject: &LandingSubject,
    divergence: &Divergence,
    base: Oid,
    origin: Oid,
) -> Result<bool> {
    // Mostly the base branch has grown from where the agent started, and git need not be asked.
    let mut parents = divergence.behind.iter().flat_map(|one| &one.parents);
    Ok(!parents.any(|parent| *parent == origin)
        && !repo.is_ancestor(origin, base)?
        && !replay::is_held(repo, &subject.agent, base, origin)?)
}

/// The commits that the agent's branch got after what landed of it; none where its first parents do not lead there. A run that
/// went on while its work landed goes on from a commit before the tip that landed.
fn own_since_landing(
    repo: &Repo,
    subject: &LandingSubject,
    divergence: &Divergence,
) -> Result<HashSet<Oid>> {
    let (line, below) = first_parents(divergence, subject.tip, None);
    let landed = subject.agent.landed_tip.filter(|landed| repo.has_object(*landed));
    let is_of_line = match (landed, below) {
        (Some(landed), Some(below)) => {
            repo.is_ancestor(below, landed)?
                && repo.is_ancestor(subject.agent.spawn_commit, below)?
        }
        _ => false,
    };
    Ok(if is_of_line { line.into_iter().collect() } else { HashSet::new() })
}

/// The commits on the agent's branch itself: from the spawn commit `begin` up to the tip, or up to where another agent's
/// branch begins. If the line of first parents does not lead to `begin`, that commit alone.
fn own_line(
    tip: Oid,
    begin: Oid,
    divergence: &Divergence,
    begins_another: impl Fn(Oid) -> bool,
) -> HashSet<Oid> {
    let (line, below) = first_parents(divergence, tip, Some(begin));
    let other = line.iter().rposition(|oid| begins_another(*oid)).map_or(0, |at| at + 1);
    let mut own: HashSet<Oid> = match below {
        Some(below) if below == begin => line.into_iter().skip(other).collect(),
        _ => HashSet::new(),
    };
    own.insert(begin);
    own
}

/// The commits that the base lacks from `tip` along first parents, the newest first, and the commit below them, which is `end` at the
/// latest; `None` where they go down to a first commit.
fn first_parents(divergence: &Divergence, tip: Oid, end: Option<Oid>) -> (Vec<Oid>, Option<Oid>) {
    let ahead = divergence.ahead.iter();
    let first: HashMap<Oid, Option<Oid>> =
        ahead.map(|lineage| (lineage.oid, lineage.parents.first().copied())).collect();
    let (mut line, mut next) = (Vec::new(), Some(tip));
    while let Some(oid) = next.filter(|oid| Some(*oid) != end)
        && let Some(parent) = first.get(&oid)
    {
        line.push(oid);
        next = *parent;
    }
    (line, next)
}

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

// The agent's work as trees: what its tip holds, and what committing the rest would make of it.

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
