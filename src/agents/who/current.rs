//! Which agent a process works for, told by the environment or by the place it stands in.
//!
//! `GIT_AGENT_ID` says it outright. Without it, the directories above are asked: an agent's worktree
//! has a `.git` file that names an admin directory `agent-<id8>`, that directory names the worktree
//! back, and the ledger knows the agent. Hosts call the worktrees of their own subagents
//! `agent-<8 hex digits>` too, so the name alone proves nothing.
//!
//! Where no such `.git` file is above, no repository is opened: the answer for everybody else costs a
//! few look-ups. A nested repository, or a `.git` file that an agent forged below its worktree, does not
//! hide the worktree around it.

use crate::agents::context::ctx::{Ctx, Env};
use crate::agents::context::real_path::real_path;
use crate::agents::{context::untrusted, place::worktree};
use crate::domain::{Agent, AgentId};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::{admin_dir_of_clone, clone_name};
use crate::store::{Ledger, files::layout, landing::spawn_commit};
use crate::wire::row::policy::Policy;
use std::fs;
use std::path::{Path, PathBuf};

/// An agent with what binds it and where it works.
pub struct CurrentAgent {
    /// The repository, seen from the agent's directory where that was asked about.
    pub repo: Repo,
    /// The agent.
    pub agent: Agent,
    /// What it may do.
    pub policy: Policy,
    /// Its worktree, or for a shared agent the repository's root; free of symlinks.
    pub root: PathBuf,
}

impl CurrentAgent {
    /// The agent that this environment names, else the one whose worktree one of the directories is
    /// in. `None` outside of agents.
    ///
    /// # Errors
    /// `agent-unknown` for an agent that the ledger does not know, `agent-state` for a half-made one,
    /// and those of opening the repository and reading the ledger.
    pub fn find(env: &Env, directories: &[&Path]) -> Result<Option<CurrentAgent>> {
        if let Some(id) = &env.agent {
            return CurrentAgent::named(id, directories).map(Some);
        }
        for directory in directories {
            if let Some(home) = CurrentAgent::around(directory)? {
                return Ok(Some(home));
            }
        }
        Ok(None)
    }

    /// Whether this process works for that agent. Where that cannot be told, it does not.
    pub(crate) fn is_of(env: &Env, agent: &Agent) -> bool {
        let home = CurrentAgent::find(env, &[&env.directory]);
        home.is_ok_and(|home| home.is_some_and(|home| home.agent.id == agent.id))
    }

    /// The agent whose worktree a path is in; the path need not exist.
    ///
    /// # Errors
    /// As [`CurrentAgent::find`].
    pub fn around(path: &Path) -> Result<Option<CurrentAgent>> {
        let Some(path) = real_path(path) else {
            return Ok(None);
        };
        for top in path.ancestors() {
            let pointer = top.join(".git");
            let Some(id8) = agent_named_by(&pointer) else {
                continue;
            };
            // Where it has a repository of its own, the one that it was made from is asked, unless that is not at hand.
            let shared = pointer.is_dir().then(|| admin_dir_of_clone(top)).flatten();
            let repo = Repo::open_git_dir(shared.as_ref().unwrap_or(&pointer))?;
            // A `.git` file can name any admin directory; the worktree counts where that one names
            // it back.
            if repo.workdir().and_then(real_path).as_deref() != Some(top) {
                continue;
            }
            match Ledger::new(&repo).find(&id8) {
                Ok(agent) if agent.id.short() == id8 => {
                    return CurrentAgent::load(repo, agent, Some(top)).map(Some);
                }
                Err(error) if error.code() != Code::AgentUnknown => return Err(error),
                // No row, and yet we keep state for it: the ledger is not what it was.
                Err(error) if layout::agents_dir(repo.common_dir()).join(&id8).is_dir() => {
                    return Err(error);
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn named(id: &str, directories: &[&Path]) -> Result<CurrentAgent> {
        // The error of the last directory is told, as it says most about why none of them knew the
        // agent.
        let mut unknown = Error::new(
            Code::AgentUnknown,
            format!("GIT_AGENT_ID names {id}, and there is no repository here that knows it"),
        );
        for directory in directories {
            let found = Repo::open(directory).and_then(|repo| {
                let agent = Ledger::new(&repo).find(id)?;
                CurrentAgent::load(repo, agent, None)
            });
            match found {
                Ok(home) => return Ok(home),
                Err(error) => unknown = error,
            }
        }
        Err(unknown)
    }

    fn load(repo: Repo, agent: Agent, top: Option<&Path>) -> Result<CurrentAgent> {
        let policy = spawn_commit::require_policy(&repo, &agent)?;
        let own = repo.current_worktree_name() == Some(layout::worktree_name(agent.id));
        let root = match top {
            Some(top) => top.to_owned(),
            // A worktree that was moved is where git says, not where the ledger remembers it.
            None if own => repo.workdir().unwrap_or(repo.git_dir()).to_owned(),
            None => match worktree::find(&repo, &agent) {
                Some(worktree) => worktree,
                None => repo.root()?,
            },
        };
        let root = fs::canonicalize(&root).at("could not resolve", &root)?;
        Ok(CurrentAgent { repo, agent, policy, root })
    }

    /// Whether the repository was opened from the agent's own worktree.
    pub(crate) fn is_at_work(&self) -> bool {
        let own = layout::worktree_name(self.agent.id);
        let top = self.repo.workdir().and_then(real_path);
        self.repo.current_worktree_name() == Some(own) && top.as_deref() == Some(&self.root)
    }

    /// The directory of the six files: always the agent's to write.
    pub fn bundle(&self) -> PathBuf {
        layout::bundle(self.repo.common_dir(), self.agent.id, &self.policy, &self.root)
    }

    /// What we keep for the agent in the common dir.
    pub fn state(&self) -> PathBuf {
        layout::agent_dir(self.repo.common_dir(), self.agent.id)
    }
}

/// The agent that this process works for.
///
/// # Errors
/// `usage` where it works for none; those of [`CurrentAgent::find`].
pub fn require_current(ctx: &Ctx) -> Result<AgentId> {
    let home = CurrentAgent::find(&ctx.env, &[&ctx.env.directory])?;
    let id = home.map(|home| home.agent.id);
    id.ok_or_else(|| {
        Error::new(Code::Usage, "no agent is named, and this is no agent's worktree")
            .remedy("to see the agents there are", Remedy::Agents)
    })
}

/// The `<id8>` of the admin directory that a `.git` file names, when it is called as ours are.
fn agent_named_by(pointer: &Path) -> Option<String> {
    if let Some(name) = clone_name(pointer) {
        return layout::agent_of_worktree(&name).map(str::to_owned);
    }
    // Reading a FIFO would hang, and most hosts let a call through when a hook hangs.
    let text = untrusted::text(pointer.parent()?, ".git")?;
    let admin = Path::new(text.strip_prefix("gitdir: ")?.trim_end());
    let id8 = layout::agent_of_worktree(admin.file_name()?.to_str()?)?;
    let listed = admin.parent()?.file_name()? == "worktrees";
    listed.then(|| id8.to_owned())
}
