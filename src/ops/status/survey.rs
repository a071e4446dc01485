//! Looking at many agents at once, in order, on a few threads.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::error::Result;
use crate::git::Repo;
use crate::ops::status::Common;
use crate::ops::status::WorkStatus;
use crate::ops::status::standing;
use crate::store::layout;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// More threads than this only get in each other's way at the file system.
const MOST_THREADS: usize = 8;

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
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MOST_THREADS).min(agents.len());
    let next = AtomicUsize::new(0);
    let seed = ctx.seed();
    let (sender, receiver) = mpsc::channel();
    let work = |sender: mpsc::Sender<Result<(usize, WorkStatus)>>| {
        let own = match seed.open() {
            Ok(own) => own,
            Err(error) => {
                // The receiver is gone only when another error came first.
                let _ = sender.send(Err(error));
                return;
            }
        };
        let common = Common::new(&own);
        while let Some(index) = Some(next.fetch_add(1, Ordering::Relaxed))
            && let Some(agent) = agents.get(index)
        {
            let found = standing(&common, agent, places.of(agent));
            if sender.send(Ok((index, found))).is_err() {
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            let sender = sender.clone();
            scope.spawn(|| work(sender));
        }
        // The threads' own senders are left, so that waiting ends with the last of them.
        drop(sender);
        let handed_on = in_order(receiver, &mut on);
        // After an error the rest is not needed.
        next.store(agents.len(), Ordering::Relaxed);
        handed_on
    })
}

fn in_order(
    receiver: mpsc::Receiver<Result<(usize, WorkStatus)>>,
    on: &mut impl FnMut(usize, WorkStatus) -> Result<()>,
) -> Result<()> {
    let mut early = BTreeMap::new();
    let mut due = 0;
    for found in receiver {
        let (index, standing) = found?;
        early.insert(index, standing);
        while let Some(standing) = early.remove(&due) {
            on(due, standing)?;
            due += 1;
        }
    }
    Ok(())
}
