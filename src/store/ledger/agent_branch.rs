//! The branch of an agent in this clone: the local one, or the copy that was fetched from a remote.
//!
//! A row names its branch, and rows come from elsewhere: one may name any branch of the user's. Two questions are
//! therefore told apart.
//!
//! - [`local`], [`local_or_fetched`]: where the agent's work can be **read**. The history of such a branch holds the agent's spawn
//!   commit, or the branch bears the agent's own name.
//! - [`OwnBranch`]: which branch may be **moved, deleted, pushed or made again** for the agent. Its name holds the agent's id below
//!   `refs/heads/agent/`, or this clone noted that it made the branch for this agent (`agents/branches`, which no row and no fenced
//!   agent can write); and its history holds the spawn commit or what a rebase made of that. The functions of
//!   `git` that change refs are not to be called with a name from a row: `tests/architecture.rs` lists who may name them.

use crate::domain::{Agent, AgentId, Oid, branch_name};
use crate::error::{Code, Error, Result};
use crate::git::refs::{REMOTE_COPIES, Swap};
use crate::git::{Identity, Repo, Tip};
use crate::store::chain::remote_names;
use crate::store::files::place::is_of_this_clone;
use crate::store::files::{fsx, layout};
pub use crate::store::landing::spawn_commit::AGENTS_BRANCHES;
use crate::store::landing::{landed, spawn_commit};
use crate::store::ledger::Ledger;
use std::collections::HashMap;
use std::path::Path;
use walkdir::WalkDir;

/// How the reflog of a branch begins that a spawn of this clone made.
pub const MADE_BY_SPAWN: &str = "agent: spawn ";

/// A local branch that is proved to be an agent's, as it was when that was proved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnBranch {
    name: String,
    tip: Tip,
    agent: Oid,
}

impl OwnBranch {
    /// The agent's branch; `None` where there is none, and where what the row names is not proved to be the agent's.
    ///
    /// # Errors
    /// `git-failed`, `io`.
    pub fn of(repo: &Repo, agent: &Agent) -> Result<Option<OwnBranch>> {
        let Some(name) = own_name(repo, agent)? else {
            return Ok(None);
        };
        let tip = repo.tip(name)?;
        let is_own = match tip {
            Tip::Absent => false,
            // A file that names nothing has no history to ask; neither has a commit that is lost, unless it is only not here.
            Tip::Broken => true,
            Tip::At(oid) => {
                let is_lost = || !repo.is_shallow() && !repo.is_partial();
                spawn_commit::is_held_by(repo, oid, agent)
                    || repo.read_commit(oid).is_err() && is_lost()
            }
        };
        Ok(is_own.then(|| OwnBranch { name: name.to_owned(), tip, agent: agent.spawn_commit }))
    }

    /// Its full name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it names: never [`Tip::Absent`].
    pub fn tip(&self) -> Tip {
        self.tip
    }

    /// Deletes branches where they still are as they were when they were proved; `false` for one that is not.
    pub fn delete_each(repo: &Repo, branches: &[&OwnBranch]) -> Vec<Result<bool>> {
        let whole = branches.iter().filter_map(|own| Some((own.name(), own.tip.oid()?)));
        // A commit that cannot be read is deleted like a file that names nothing: only its loose file can be broken.
        let (whole, _): (Vec<_>, Vec<_>) =
            whole.partition(|(_, oid)| repo.read_commit(*oid).is_ok());
        let mut deleted = repo.delete_refs(&whole).into_iter();
        let delete = |own: &&OwnBranch| {
            // Its reflog, which may be what proved it, goes with it; a rescue makes the branch again.
            note(repo, own.agent, &own.name)?;
            if whole.iter().any(|(name, _)| *name == own.name) {
                return deleted.next().unwrap_or(Ok(false));
            }
            repo.delete_broken_ref(&own.name, own.tip)
        };
        branches.iter().map(delete).collect()
    }
}

/// Moves the branch of an agent to where its run has it, if it still is where an earlier call has put it (`known`) or, before
/// the first, proved to be the agent's. `false` where it is not.
///
/// # Errors
/// `git-failed`, `io`.
pub fn advance(
    repo: &Repo,
    agent: &Agent,
    known: Option<Oid>,
    new: Oid,
    (who, message): (&Identity, &str),
) -> Result<bool> {
    let Some(name) = own_name(repo, agent)? else {
        return Ok(false);
    };
    // What this clone itself has put there needs no other proof: an agent may go back behind its spawn commit.
    let expected = match known {
        Some(known) => Tip::At(known),
        None => match OwnBranch::of(repo, agent)? {
            Some(own) => own.tip,
            None => return Ok(false),
        },
    };
    Ok(repo.swap_ref(name, expected, new, who, message)? == Swap::Done)
}

/// The full names of the files that name nothing, or a commit that is lost, as a power loss leaves them: of branches of agents, and
/// of the copies of other repositories' branches, which `sync` and every `git fetch` write.
pub fn emptied(repo: &Repo) -> Vec<String> {
    let has_all = !repo.is_shallow() && !repo.is_partial();
    let below = |top: &'static str| {
        let directory = repo.common_dir().join(top);
        let files = WalkDir::new(&directory).into_iter().flatten();
        let files = files.filter(|file| file.file_type().is_file());
        files.filter_map(move |file| {
            let short = file.path().strip_prefix(&directory).ok()?.to_str()?;
            let name = format!("{top}{short}");
            let is_emptied = match repo.tip(&name) {
                // A remote's HEAD names a branch, and what is no ref's at all is its owner's.
                Ok(Tip::Broken) => top == AGENTS_BRANCHES || is_blank(file.path()),
                // The next fetch brings the commits of a copy.
                Ok(Tip::At(oid)) => {
                    top == AGENTS_BRANCHES && has_all && repo.read_commit(oid).is_err()
                }
                _ => false,
            };
            (is_emptied && !name.ends_with(".lock")).then_some(name)
        })
    };
    [AGENTS_BRANCHES, REMOTE_COPIES].into_iter().flat_map(below).collect()
}

/// Whether a file has nothing in it, or the zeros that a disk gives where a length was written and no content.
fn is_blank(file: &Path) -> bool {
    let is_short = file.metadata().is_ok_and(|of| of.len() <= 4096);
    is_short && std::fs::read(file).is_ok_and(|content| content.iter().all(|&byte| byte == 0))
}

/// Has such a file name what its reflog says that it did, or else another commit, and gives that; removes it where neither is there.
/// `newer` is where HEAD of its worktree was last, which counts where it is a descendant of that.
///
/// # Errors
/// `hook-refused`, `git-failed`, `io`.
pub fn mend(
    repo: &Repo,
    name: &str,
    otherwise: Option<Oid>,
    newer: Option<Oid>,
    who: &Identity,
) -> Result<Option<Oid>> {
    let mut known = repo.reflog_oids(name)?.into_iter().chain(otherwise);
    let tip = known.find(|oid| repo.read_commit(*oid).is_ok());
    let stands_on =
        |newer: &Oid, tip| repo.merge_base(*newer, tip).is_ok_and(|base| base == Some(tip));
    let tip = tip.map(|tip| newer.filter(|newer| stands_on(newer, tip)).unwrap_or(tip));
    let lost = repo.tip(name)?;
    match tip {
        Some(tip) => drop(repo.swap_ref(name, lost, tip, who, "agent: repair")?),
        None => drop(repo.delete_broken_ref(name, lost)?),
    }
    Ok(tip)
}

/// The name under which this clone may make the agent's branch; `None` for a name that only a row vouches for.
///
/// # Errors
/// `io`.
pub fn own_name<'a>(repo: &Repo, agent: &'a Agent) -> Result<Option<&'a str>> {
    let Some(name) = agent.branch.as_deref() else {
        return Ok(None);
    };
    let is_own = holds_id(name, agent)
        || is_noted(repo, agent.spawn_commit, name)?
        // Earlier versions noted nothing; the reflog tells as well who made the branch, until it expires.
        || repo.was_made_as(name, agent.spawn_commit, MADE_BY_SPAWN)?;
    Ok(is_own.then_some(name))
}

/// Whether a branch is named as a spawn names them: below `agent/`, with the agent's id at the end, and perhaps a number.
fn holds_id(name: &str, agent: &Agent) -> bool {
    let Some(short) = name.strip_prefix(AGENTS_BRANCHES) else {
        return false;
    };
    let id = format!("-{}", agent.id.short());
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|b| b.is_ascii_digit());
    let numbered = short.rsplit_once('-').filter(|(_, number)| is_number(number));
    // A user's branch may lie deeper below `agent/` and end in the same digits by chance.
    !short.contains('/')
        && (short.ends_with(&id) || numbered.is_some_and(|(it, _)| it.ends_with(&id)))
}

/// Notes that this clone makes a branch for the agent of a spawn commit, before it does. A name that holds the agent's id needs
/// no note, so the file stays short.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub fn note(repo: &Repo, spawn_commit: Oid, name: &str) -> Result<()> {
    let agent = crate::domain::life::id::AgentId::from_spawn_commit(spawn_commit);
    if name.contains(&agent.short()) || is_noted(repo, spawn_commit, name)? {
        return Ok(());
    }
    let path = layout::branches(repo.common_dir());
    fsx::create_dir(&layout::agents_dir(repo.common_dir()))?;
    // It begins with a line feed: what stands before may have been cut short by a power loss.
    fsx::append(&path, format!("\n{spawn_commit} {name}\n").as_bytes())
}

fn is_noted(repo: &Repo, spawn_commit: Oid, name: &str) -> Result<bool> {
    let text = fsx::load_if_there(&layout::branches(repo.common_dir()))?.unwrap_or_default();
    let line = format!("{spawn_commit} {name}");
    Ok(text.split(|&b| b == b'\n').any(|one| one == line.as_bytes()))
}

/// The local branch of an agent, to be read; [`Tip::Absent`] also where the branch of that name is not the agent's.
///
/// # Errors
/// `git-failed`, `repo-corrupt`.
pub fn local(repo: &Repo, agent: &Agent) -> Result<Tip> {
    let Some(branch) = &agent.branch else {
        return Ok(Tip::Absent);
    };
    let tip = repo.tip(branch)?;
    match tip {
        Tip::At(oid) if !is_readable(repo, agent, branch, oid)? => Ok(Tip::Absent),
        _ => Ok(tip),
    }
}

/// The full name and the tip of an agent's branch: the local one, else a copy that was fetched from a remote, which of another clone's agent
/// counts also where a local branch has stayed behind it; `None` where there is neither, and for an agent whose worktree is here and has
/// lost its branch.
///
/// # Errors
/// As [`local`].
pub fn local_or_fetched(repo: &Repo, agent: &Agent) -> Result<Option<(String, Oid)>> {
    let Some(branch) = &agent.branch else {
        return Ok(None);
    };
    let own = local(repo, agent)?.oid();
    // A fetched copy may be older than the work in the worktree, and would pass for it.
    let is_here = repo.admin_dir(&layout::worktree_name(agent.id)).exists();
    if is_here || own.is_some() && is_made_here(repo, agent) {
        return Ok(own.map(|tip| (branch.clone(), tip)));
    }
    // A person who looked at the branch of another clone's agent has one that no fetch moves.
    let is_newer = |tip: Oid| -> Result<bool> {
        Ok(match own {
            Some(own) => own != tip && repo.has_object(tip) && repo.is_ancestor(own, tip)?,
            None => true,
        })
    };
    for (copy, tip) in repo.fetched_branches(branch)? {
        if is_newer(tip)? && is_readable(repo, agent, branch, tip)? {
            return Ok(Some((copy, tip)));
        }
    }
    Ok(own.map(|tip| (branch.clone(), tip)))
}

/// Refuses the work of another clone's agent whose local branch and whose fetched copy have gone apart: either may be what its owner
/// wants to land.
///
/// # Errors
/// `agent-state`; as [`local`].
pub fn require_one_line(repo: &Repo, agent: &Agent) -> Result<()> {
    if is_made_here(repo, agent) {
        return Ok(());
    }
    let (Some(at), Some(branch)) = (local(repo, agent)?.oid(), &agent.branch) else {
        return Ok(());
    };
    for (copy, tip) in repo.fetched_branches(branch)? {
        let is_held = repo.has_object(tip) && is_readable(repo, agent, branch, tip)?;
        if is_held && !repo.is_ancestor(at, tip)? && !repo.is_ancestor(tip, at)? {
            let (own, copy) = (branch_name(branch), copy.trim_start_matches(REMOTE_COPIES));
            let what = format!(
                "{own} here and {copy} have gone apart, and the agent was made in another clone"
            );
            let hint = "to go by what was fetched, and keep what is here by another name";
            let hint = format!("{hint}, run git branch --move {own} {own}-{}", at.short());
            return Err(Error::new(Code::AgentState, what).hint(hint));
        }
    }
    Ok(())
}

/// Whether an agent was spawned in this clone.
pub fn is_made_here(repo: &Repo, agent: &Agent) -> bool {
    let clone = remote_names::load_clone_id(repo.common_dir()).ok().flatten();
    is_of_this_clone(repo.common_dir(), clone, agent)
}

/// Which branch has an agent's work, of those that [`landed::found`] asks, for each of them.
pub fn have_landed<'a>(
    repo: &Repo,
    agents: impl Iterator<Item = &'a Agent>,
) -> HashMap<AgentId, Result<Option<String>>> {
    let mut answers = HashMap::new();
    let mut works = Vec::new();
    for agent in agents {
        match local_or_fetched(repo, agent) {
            Ok(Some((_, tip))) => works.push((agent, tip)),
            Ok(None) => drop(answers.insert(agent.id, Ok(None))),
            Err(error) => drop(answers.insert(agent.id, Err(error))),
        }
    }
    answers.extend(landed::found(repo, &works));
    answers
}

/// Whether what a branch of that name holds is the agent's work: its history holds the spawn commit, or the name is the agent's
/// own and no other agent's row claims the branch with more right, as after `git reset`.
fn is_readable(repo: &Repo, agent: &Agent, branch: &str, tip: Oid) -> Result<bool> {
    if spawn_commit::is_held_by(repo, tip, agent) {
        return Ok(true);
    }
    if own_name(repo, agent)?.is_none() {
        return Ok(false);
    }
    // Asked last, because it takes the rows of other agents.
    let claimants = Ledger::new(repo).agents_with_branch(branch)?;
    let mut others = claimants.iter().filter(|other| other.id != agent.id);
    Ok(!others.any(|other| spawn_commit::is_held_by(repo, tip, other)))
}
