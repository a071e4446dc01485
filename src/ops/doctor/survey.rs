//! What several families look at, read once.

use crate::agents::Ctx;
use crate::domain::{Agent, Isolation, State};
use crate::git::repo::program;
use crate::git::repo::program::Version;
use crate::git::worktree::Worktree;
use crate::ops::install_shell::ShellFile;
use crate::store::RecordedPlaces;
use crate::store::files::place::is_of_this_clone;
use crate::store::files::{layout, lock};
use std::path::PathBuf;

/// The repository at one moment.
pub(super) struct Survey {
    /// Every agent; `None` when the ledger cannot be read, which the ledger's family reports.
    pub agents: Option<Vec<Agent>>,
    /// Where worktrees were made; `None` when the root cannot be found, which the settings' family reports.
    pub places: Option<RecordedPlaces>,
    common_dir: PathBuf,
    /// The number of this clone, where it has one.
    clone: Option<u16>,
    /// Every linked worktree.
    pub worktrees: Vec<Worktree>,
    /// The user's git; `None` when there is none.
    pub git: Option<Version>,
    /// What belongs to this version: man pages and completions.
    pub shell: Vec<ShellFile>,
}

impl Survey {
    pub(super) fn take(ctx: &Ctx, shell: &[ShellFile]) -> Survey {
        // A worktree has its row first, so whatever is listed here has one that is read after.
        let worktrees = ctx.repo.worktrees().unwrap_or_default();
        Survey {
            agents: ctx.ledger().agents().ok(),
            worktrees,
            common_dir: ctx.repo.common_dir().to_owned(),
            clone: ctx.ledger().clone_number().ok().flatten(),
            places: RecordedPlaces::new(&ctx.repo).ok(),
            shell: shell.to_vec(),
            git: program::ask_version(&ctx.env.directory)
                .ok()
                .and_then(program::VersionQuestion::answer),
        }
    }

    /// The agents, none where they cannot be read.
    pub(super) fn rows(&self) -> &[Agent] {
        self.agents.as_deref().unwrap_or_default()
    }

    /// The agents whose worktrees may be in use.
    pub(super) fn live(&self) -> impl Iterator<Item = &Agent> {
        self.rows().iter().filter(|agent| {
            agent.state.is_open()
                && agent.state != State::Spawning
                && agent.isolation == Some(Isolation::Worktree)
        })
    }

    /// Whether an agent is as it was surveyed and no process of ours works for it. Otherwise what is gone may have been
    /// removed meanwhile.
    pub(super) fn is_at_rest(&self, ctx: &Ctx, agent: &Agent) -> bool {
        let is_same = |row: Option<Agent>| row.is_some_and(|row| row.state == agent.state);
        let is_held = lock::is_held(&self.common_dir, &layout::live_lock(agent.id));
        // A process that ends between the two questions has written the row before.
        !is_held.unwrap_or(false) && ctx.ledger().agent(agent.spawn_commit).is_ok_and(is_same)
    }

    /// Whether an agent was spawned in this clone, and not in one whose ledger was fetched.
    pub(super) fn is_local(&self, agent: &Agent) -> bool {
        is_of_this_clone(&self.common_dir, self.clone, agent)
    }

    /// The worktree of an agent, as git knows it.
    pub(super) fn worktree(&self, agent: &Agent) -> Option<&Worktree> {
        let name = layout::worktree_name(agent.id);
        self.worktrees.iter().find(|worktree| worktree.name == name)
    }

    /// The agent whose admin directory has this name.
    pub(super) fn owner(&self, worktree: &Worktree) -> Option<&Agent> {
        let short = layout::agent_of_worktree(&worktree.name)?;
        self.rows().iter().find(|agent| agent.id.short() == short)
    }
}
