//! Looking at many agents at once, in order, on a few threads.

use crate::agents::ctx::Ctx;
use crate::agents::histories::Histories;
use crate::agents::parallel::{self, Queue};
use crate::domain::agent::Agent;
use crate::error::Result;
use crate::git::Repo;
use crate::ops::status::{Common, WorkStatus, landings, standing};
use crate::store::layout;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};

/// Where the worktrees of agents are, read once for all of them.
pub(in crate::ops) struct Places(HashMap<String, PathBuf>);

impl Places {
    /// Every linked worktree whose directory is there.
    ///
    /// # Errors
    /// Those of [`Repo::worktrees`].
    pub(in crate::ops) fn load(repo: &Repo) -> Result<Places> {
        let worktrees = repo.worktrees()?.into_iter();
        let there = worktrees.filter(|worktree| worktree.path.is_dir());
        Ok(Places(
            there
                .map(|worktree| (worktree.name, worktree.path))
                .collect(),
        ))
    }

    /// An agent's worktree, when it is in this clone.
    pub(in crate::ops) fn of(&self, agent: &Agent) -> Option<&Path> {
        let name = layout::worktree_name(agent.id);
        self.0.get(&name).map(PathBuf::as_path)
    }
}

/// Looks at every agent and hands each on as soon as it and all before it are known.
///
/// # Errors
/// Those of opening the repository again; what `on` fails with ends it early.
pub(in crate::ops) fn survey(
    ctx: &Ctx,
    agents: &[&Agent],
    places: &Places,
    mut on: impl FnMut(usize, WorkStatus) -> Result<()>,
) -> Result<()> {
    let seed = ctx.seed();
    // For all of them at once: the branch's history is read once.
    let landings = landings(ctx, agents);
    let histories = Histories::of(agents.iter().copied());
    let work = |queue: &Queue<(usize, &Agent)>, found: Sender<Result<(usize, WorkStatus)>>| {
        // A handle on a repository belongs to one thread.
        let own = match seed.open() {
            Ok(own) => own,
            Err(error) => {
                // The listener is gone only when another error came first.
                let _ = found.send(Err(error));
                return;
            }
        };
        let common = Common::new(&own, &histories);
        while let Some((index, agent)) = queue.next() {
            let mut status = standing(&common, agent, places.of(agent));
            status.note_landing(&own, agent, &landings);
            // After an error the rest is not needed.
            if found.send(Ok((index, status))).is_err() {
                return;
            }
        }
    };
    let numbered = agents.iter().copied().enumerate().collect();
    let threads = parallel::threads(agents.len());
    parallel::share(numbered, threads, work, |found| in_order(found, &mut on))
}

fn in_order(
    found: Receiver<Result<(usize, WorkStatus)>>,
    on: &mut impl FnMut(usize, WorkStatus) -> Result<()>,
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut due = 0;
    for status in found {
        let (index, standing) = status?;
        early.insert(index, standing);
        while let Some(standing) = early.remove(&due) {
            on(due, standing)?;
            due += 1;
        }
    }
    Ok(())
}
