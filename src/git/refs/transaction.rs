//! The repository's own hook `reference-transaction`, which is asked before a branch moves and hears what became of it.
//!
//! Git runs the hook for each of its own transactions (githooks(5)). The refs are written by this program here, so it runs the hook
//! in the same way: by `git hook run`, which knows `core.hooksPath` and hooks in the configuration, in the main worktree. Its
//! standard input has a line `<old> <new> <ref>` for each branch, and one for `HEAD` where that is on the branch. Branches below
//! `agent/` are this program's own.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::files::untrusted;
use std::path::{Path, PathBuf};

/// The name of the hook.
const HOOK: &str = "reference-transaction";

/// Branches that are agents' own.
const OF_AGENTS: &str = "refs/heads/agent/";

/// What the name of an agent's admin directory begins with.
const AGENT_WORKTREE: &str = "agent-";

/// What is to become of a ref: where it is, and where it goes. The zero oid stands for no ref.
pub(super) struct RefMove<'r> {
    pub(super) refname: &'r str,
    pub(super) old: Oid,
    pub(super) new: Oid,
}

/// A transaction that the hook allowed. It hears `aborted` where this is dropped before [`RefTransaction::commit`].
#[must_use = "the hook hears that the transaction was aborted when this is dropped"]
pub(super) struct RefTransaction<'r> {
    /// Where to run the hook, and what it reads; `None` where no hook is asked.
    asked: Option<(&'r Repo, PathBuf, String)>,
}

impl Repo {
    /// Asks the hook about refs that are locked and known to be where they should be.
    ///
    /// # Errors
    /// `hook-refused` with what the hook said, and where the hook is in an agent's worktree; `git-missing`, `io`.
    pub(super) fn prepare_refs(&self, moves: &[RefMove<'_>]) -> Result<RefTransaction<'_>> {
        let is_asked = |moved: &&RefMove<'_>| {
            let name = moved.refname;
            name.starts_with("refs/heads/") && !name.starts_with(OF_AGENTS)
        };
        let moves: Vec<_> = moves.iter().filter(is_asked).collect();
        if moves.is_empty() {
            return Ok(RefTransaction { asked: None });
        }
        // In a worktree of an agent the same relative path would lead to a program of the agent's.
        let place = self.main_worktree()?;
        let place = place.unwrap_or_else(|| self.common_dir().to_owned());
        if !self.may_have_shared_hook(&place, HOOK)? {
            return Ok(RefTransaction { asked: None });
        }
        self.require_hooks_out_of_agents_reach(&place)?;
        let head = untrusted::text(self.common_dir(), "HEAD").unwrap_or_default();
        let mut input = String::new();
        for RefMove { refname, old, new } in moves {
            input += &format!("{old} {new} {refname}\n");
            if head.trim_end().strip_prefix("ref: ") == Some(refname) {
                input += &format!("{old} {new} HEAD\n");
            }
        }
        let transaction = RefTransaction {
            asked: Some((self, place, input)),
        };
        // Dropped, it says `aborted`, as git does after a refusal.
        if let Some(complaint) = transaction.run("prepared")? {
            let what = "the hook reference-transaction of the repository refused to move a branch";
            return Err(Error::new(Code::HookRefused, what).because(complaint).hint(
                "to see the hook, run git rev-parse --git-path hooks/reference-transaction",
            ));
        }
        Ok(transaction)
    }

    /// Refuses a directory of hooks in which an agent can write, whatever the settings say.
    fn require_hooks_out_of_agents_reach(&self, place: &Path) -> Result<()> {
        let Some(directory) = self.shared_hooks_dir()? else {
            return Ok(());
        };
        let Ok(directory) = std::fs::canonicalize(place.join(directory)) else {
            return Ok(());
        };
        let mut worktrees = self.worktrees()?.into_iter();
        let of_agent = worktrees.find(|worktree| {
            let top = std::fs::canonicalize(&worktree.path);
            worktree.name.starts_with(AGENT_WORKTREE)
                && top.is_ok_and(|top| directory.starts_with(top))
        });
        match of_agent {
            None => Ok(()),
            Some(worktree) => {
                let (hooks, top) = (directory.display(), worktree.path.display());
                let what = format!(
                    "{hooks}, where the repository's hooks are, is in the worktree {top} of an agent"
                );
                Err(Error::new(Code::HookRefused, what).hint(
                    "to see which setting says so, run git config --show-origin core.hooksPath",
                ))
            }
        }
    }
}

impl RefTransaction<'_> {
    /// Tells the hook that all refs are where they should be. They are, so it has no say any more.
    pub(super) fn commit(mut self) {
        let _ = self.run("committed");
        self.asked = None;
    }

    /// What the hook said if it failed.
    fn run(&self, state: &str) -> Result<Option<String>> {
        let Some((repo, place, input)) = &self.asked else {
            return Ok(None);
        };
        repo.run_hook(place, HOOK, &[state], input.as_bytes())
    }
}

impl Drop for RefTransaction<'_> {
    fn drop(&mut self) {
        let _ = self.run("aborted");
    }
}
