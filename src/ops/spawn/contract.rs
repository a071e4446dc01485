//! What a spawn is asked and what it has decided to do.

use crate::agents::place::ignored_files::WantedFiles;
use crate::agents::{Ctx, life::admission, stock::disk};
use crate::domain::life::claim::WantedLease;
use crate::domain::life::event::Base;
use crate::domain::work::dna::Dna;
use crate::domain::work::persona::Character;
use crate::domain::work::prompt::Brief;
use crate::domain::{AgentId, AgentName, Layering, Limit, Limits, Oid, RepoPath, Role, Slug, Task};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::NewCommit;
use crate::git::config::Identities;
use crate::ops::agent_report::short_branch;
use crate::ops::spawn::adopt::AdoptedWorktree;
use crate::ops::spawn::start::Start;
use crate::store::files::{fsx, layout};
use crate::wire::row::journal::SpawnJournal;
use crate::wire::row::policy::{self, Policy};
use chrono::{DateTime, Utc};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What the caller asked for besides the task itself.
#[derive(Clone, Debug, Default)]
pub struct SpawnOptions {
    /// The revision to start from; replaces the task's own.
    pub base: Option<String>,
    /// Where it starts that others wrote; replaces `base`.
    pub start: Option<Start>,
    /// Starts from HEAD and what is uncommitted in the caller's worktree.
    pub with_changes: bool,
    /// The alias; replaces the task's own.
    pub name: Option<String>,
    /// The agent that gives up its name to this one.
    pub succeeds: Option<AgentId>,
    /// The parent agent; replaces the task's own.
    pub parent: Option<String>,
    /// The branch's name instead of one made from the task.
    pub branch: Option<String>,
    /// The worktree's place instead of the configured one.
    pub path: Option<PathBuf>,
    /// The linked worktree that the agent gets, in the place of a new one.
    pub adopt: Option<PathBuf>,
    /// Leaves the default denylist out.
    pub no_default_deny: bool,
    /// Leaves `post-checkout` and `after_spawn` out.
    pub no_hooks: bool,
    /// Refuses where a live agent may touch what this one may.
    pub exclusive: bool,
    /// Gives the worktree a repository of its own.
    pub clone: bool,
    /// Leaves out of the worktree what is in none of the scope's directories.
    pub sparse: bool,
    /// The projects that a sparse worktree holds, in the place of the scope's directories.
    pub sparse_projects: Vec<String>,
    /// Directories that it holds besides.
    pub cone: Option<BTreeSet<String>>,
    /// Whether the worktree is layered over a base that agents share; the repository's settings say so where this does not.
    pub layered: Option<Layering>,
    /// What holds where neither says so.
    pub layered_by_default: Layering,
}

/// A spawn that only needs doing.
#[derive(Clone, Debug)]
pub struct SpawnPlan {
    /// The agent's id, which is made from the spawn commit.
    pub id: AgentId,
    /// What the agent is called.
    pub called: AgentNames,
    /// The checked task.
    pub task: Task,
    /// The task as it was given.
    pub given: GivenTask,
    /// The role it runs in.
    pub role: Role,
    /// The denylist that binds, in words.
    pub denied: Vec<String>,
    /// A tracked control file, where a scope of everything leaves out all of them.
    pub kept_out: Option<RepoPath>,
    /// Who it is told to be.
    pub character: Character,
    /// Where it starts.
    pub base: Base,
    /// The commit whose settings and roles hold: the base, unless others wrote that.
    pub settings_at: Oid,
    /// The spawn commit, which binds the agent.
    pub commit: PlannedCommit,
    /// Who spawns.
    pub spawner: Spawner,
    /// Where it works.
    pub place: PlannedPlace,
    /// What is put there for it, and run.
    pub setup: PlannedSetup,
    /// Whether no other agent may be allowed to touch the same.
    pub exclusive: bool,
    /// What the caller should know, though nothing stands in the way.
    pub warnings: Vec<String>,
}

/// What an agent is called.
#[derive(Clone, Debug)]
pub struct AgentNames {
    /// The alias.
    pub name: Option<AgentName>,
    /// The agent that gives up that alias to this one.
    pub succeeds: Option<AgentId>,
    /// What stands for it in names that are made for it.
    pub slug: Slug,
    /// The first 60 characters of the task, or its own description.
    pub description: String,
}

/// A task file.
#[derive(Clone, Debug)]
pub struct GivenTask {
    /// What it says.
    pub source: String,
    /// Its path as it was given, or `<stdin>`.
    pub file: String,
}

/// A commit on top of the base that changes nothing and carries the policy.
#[derive(Clone, Debug)]
pub struct PlannedCommit {
    /// Its name, which `execute` must get when it writes the commit.
    pub oid: Oid,
    /// The tree of the base.
    pub tree: Oid,
    /// The fingerprint of role, task and scope.
    pub dna: Dna,
    /// The policy that will bind, but for the hash of the specification, which names the agent's id.
    pub terms: Policy,
    /// The terms as the commit carries them, in its header `agent-policy`.
    pub header: String,
    /// Its message.
    pub message: String,
}

impl PlannedCommit {
    /// What git is given to write.
    pub(super) fn new_commit<'a>(&'a self, base: &'a Base, who: &'a Identities) -> NewCommit<'a> {
        NewCommit {
            tree: self.tree,
            parents: std::slice::from_ref(&base.oid),
            author: &who.author,
            committer: &who.committer,
            header: Some((policy::HEADER, &self.header)),
            message: &self.message,
        }
    }
}

/// Who spawns.
#[derive(Clone, Debug)]
pub struct Spawner {
    /// The parent.
    pub parent: Option<AgentId>,
    /// Who the ledger says did it.
    pub actor: String,
    /// Who git says did it.
    pub identities: Identities,
}

/// Where an agent works.
#[derive(Clone, Debug)]
pub struct PlannedPlace {
    /// The full name of the branch that is wanted; absent when shared.
    pub branch: Option<String>,
    /// When it was planned; a branch name that was made up has that second in it.
    pub planned: DateTime<Utc>,
    /// The absolute path of the worktree; absent when shared.
    pub worktree: Option<PathBuf>,
    /// The same for people: relative to the root when inside it.
    pub shown: Option<String>,
    /// Whether the caller said where the worktree goes.
    pub is_chosen: bool,
    /// The bundle's directory relative to the worktree.
    pub bundle_dir: String,
    /// Whether the worktree gets a repository of its own.
    pub clone: bool,
    /// Whether the worktree is layered over a base that agents share.
    pub layered: Layering,
    /// The directories that the worktree holds besides the files at its top; absent where it holds everything.
    pub cone: Option<BTreeSet<String>>,
    /// The worktree that was there before, where the agent gets one.
    pub adopted: Option<AdoptedWorktree>,
}

/// What is put into a worktree, and run there.
#[derive(Clone, Debug)]
pub struct PlannedSetup {
    /// The patterns of a `.worktreeinclude`, unless the task says itself what to copy.
    pub include: Option<Vec<u8>>,
    /// Commands that set up the projects that the agent may touch, after those of the task.
    pub projects: Vec<String>,
    /// The values that the agent gets of its own.
    pub leases: Vec<WantedLease>,
    /// How many warm worktrees the repository wants to have.
    pub pool_size: usize,
    /// Whether hooks run.
    pub hooks: bool,
    /// Commands that are run once the agent is ready.
    pub after_spawn: Vec<String>,
}

impl SpawnPlan {
    /// The first commit that the agent's branch is at.
    pub(super) fn tip(&self) -> Oid {
        let adopted = self.place.adopted.as_ref();
        adopted.map_or(self.commit.oid, |adopted| adopted.tip)
    }

    /// Whether others wrote what the agent starts from, so that nothing of it is obeyed, and nothing is made of it for other agents.
    pub(super) fn is_of_others(&self) -> bool {
        self.settings_at != self.base.oid
    }

    /// All commands that set its worktree up.
    pub(super) fn setup_commands(&self) -> Vec<String> {
        [self.task.setup_run.as_slice(), &self.setup.projects].concat()
    }

    /// The ignored files that the worktree gets.
    pub(super) fn wanted_files(&self) -> WantedFiles<'_> {
        WantedFiles { copy: &self.task.setup_copy, include: self.setup.include.as_deref() }
    }

    /// The short name of the branch that is wanted.
    pub fn short_branch(&self) -> Option<String> {
        self.place.branch.as_deref().map(short_branch)
    }

    /// The directory of the six files, absolute.
    pub(in crate::ops) fn bundle_path(&self, ctx: &Ctx) -> Result<PathBuf> {
        let (common, terms) = (ctx.repo.common_dir(), &self.commit.terms);
        Ok(layout::bundle(common, self.id, terms, &self.directory(ctx)?))
    }

    /// The same as text, where it is outside of a worktree and of what we keep for the agent.
    pub(super) fn shared_bundle(&self, ctx: &Ctx) -> Result<Option<String>> {
        let is_apart = self.place.worktree.is_none() && self.commit.terms.bundle_dir.is_some();
        let path = is_apart.then(|| self.bundle_path(ctx)).transpose()?;
        Ok(path.map(|path| path.to_string_lossy().into_owned()))
    }

    /// Where the agent works, absolute.
    pub(in crate::ops) fn directory(&self, ctx: &Ctx) -> Result<PathBuf> {
        match &self.place.worktree {
            Some(worktree) => Ok(worktree.clone()),
            None => ctx.repo.root(),
        }
    }

    /// What the agent's texts are made of.
    pub(super) fn brief<'a>(&'a self, directory: &'a str, bundle: &'a str) -> Brief<'a> {
        Brief {
            id: self.id,
            role: &self.role,
            task: &self.task,
            denied: &self.denied,
            directory,
            bundle_directory: bundle,
            bundle_required: self.commit.terms.bundle_required,
            cone: self.place.cone.as_ref(),
            character: &self.character,
            // `run` decides on the place of the answer; otherwise the process that starts the agent reads what it says.
            output_file: None,
        }
    }
}

// Whether there is room for new agents.

/// Refuses agents for which a limit leaves no room. `under_way` are the spawns that have begun, which the caller keeps from growing by
/// `spawn.lock`, or else asks again under it.
///
/// # Errors
/// `limit-reached`, with the number that would fit; those of the limits; `io`.
pub(super) fn require_room(
    ctx: &Ctx,
    plans: &[&SpawnPlan],
    under_way: &[SpawnJournal],
) -> Result<()> {
    let wanted = plans.iter().filter(|plan| plan.place.worktree.is_some()).count();
    if wanted == 0 {
        return Ok(());
    }
    let limits = admission::load(ctx)?;
    require_agents(ctx, &limits, wanted, under_way)?;
    require_space(ctx, &limits, plans, wanted)
}

/// Compares what the new worktrees take with what is free, and with what those that are there leave of what agents may take.
fn require_space(ctx: &Ctx, limits: &Limits, plans: &[&SpawnPlan], wanted: usize) -> Result<()> {
    let [free, most] = [Limit::DiskFree, Limit::Disk].map(|limit| limits.get(limit));
    let place =
        plans.iter().find_map(|plan| Some((plan.base.oid, plan.place.worktree.as_deref()?)));
    let (Some((base, place)), true) = (place, free.is_some() || most.is_some()) else {
        return Ok(());
    };
    // Where that is not known, as in a partial clone, one that begins below the limit may pass it.
    let each = ctx.repo.disk_use(ctx.repo.tree_of(base)?)?;
    let each = each.unwrap_or(0).max(1);
    let require = |limit: Limit, value: u64, room: u64, now: String| {
        let fit = usize::try_from(room / each).unwrap_or(usize::MAX);
        if wanted <= fit {
            return Ok(());
        }
        let (each, value) = (limit.show(each), limit.show(value));
        let why = format!("{now}, a worktree takes {each}, and `{limit}` is {value}");
        Err(reached(wanted, fit, why))
    };
    if let Some(least) = free {
        let (there, limit) = (fsx::free_space(place)?, Limit::DiskFree);
        let now = format!("{} are free on the disk", limit.show(there));
        require(limit, least, there.saturating_sub(least), now)?;
    }
    if let Some(most) = most {
        let (taken, limit) = (disk::measured(ctx)?, Limit::Disk);
        let now = format!("agents take {}", limit.show(taken));
        require(limit, most, most.saturating_sub(taken), now)?;
    }
    Ok(())
}

fn require_agents(
    ctx: &Ctx,
    limits: &Limits,
    wanted: usize,
    under_way: &[SpawnJournal],
) -> Result<()> {
    let Some(most) = limits.get(Limit::Agents) else {
        return Ok(());
    };
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // A spawn is first in its journal and then has an admin directory, so an agent is in one of them at every moment.
    let worktrees = ctx.repo.worktrees()?;
    let there = worktrees.iter().filter_map(|one| layout::agent_of_worktree(&one.name));
    let begun =
        under_way.iter().filter(|one| one.worktree.is_some()).filter_map(|one| one.agent.get(..8));
    let there: BTreeSet<&str> = there.chain(begun).collect();
    let fit = most.saturating_sub(there.len());
    if wanted <= fit {
        return Ok(());
    }
    let has = there.len();
    Err(reached(wanted, fit, format!("{has} have a worktree, and `{}` is {most}", Limit::Agents)))
}

/// What is said where fewer fit than are wanted.
fn reached(wanted: usize, fit: usize, why: String) -> Error {
    let what = match wanted {
        1 => "the agent does not fit".to_owned(),
        _ => format!("of {wanted} agents, {fit} would fit"),
    };
    Error::new(Code::LimitReached, format!("{what}: {why}"))
        .remedy("to remove those that have landed", Remedy::Collect)
        .remedy("to see all of them", Remedy::Agents)
}
