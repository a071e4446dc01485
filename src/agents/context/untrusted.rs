//! The one road into places that an agent can write: worktree, admin directory, spool, nested repositories.
//!
//! - Files are opened as data ([`read`], [`open`], [`files`]).
//! - Git looks through a stand-in that we own ([`WorktreeView`]), so that no setting of the agent's is read.
//! - Nested repositories are compared without starting git under their settings ([`gitlinks`]).
//!
//! What does the work is in the layer below, where git is started.

use crate::domain::branch_name;
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Checkout, Repo};
use crate::store::files::layout;
use std::path::Path;

pub use crate::git::changes::gitlinks;
pub use crate::git::files::untrusted::{
    are_equal, copy_as_old, files, files_except, log, names, open, open_at, read, read_at, remove,
    replace, text,
};
pub use crate::git::worktree::view::WorktreeView;

/// The worktrees that have a branch checked out, those of agents through a view. `scratch` is a directory that agents
/// cannot write. That of the agent that asked for this from inside its fence is left out: its command has a repository of its own, and takes
/// over itself what comes to the branch.
///
/// # Errors
/// As [`crate::git::Repo::checkouts`] and [`WorktreeView::make`]; `agent-busy` where a fenced command of any other agent works in one.
pub fn checkouts(
    repo: &Repo,
    branch: &str,
    scratch: &Path,
    asked_by: Option<&String>,
) -> Result<Vec<Checkout>> {
    let mut found = Vec::new();
    for checkout in repo.checkouts(branch)? {
        let name = checkout.git_dir.file_name().and_then(|name| name.to_str());
        let id8 = name.and_then(layout::agent_of_worktree).map(str::to_owned);
        let Some(id8) = id8 else {
            found.push(checkout);
            continue;
        };
        let run_repo = layout::agents_dir(repo.common_dir()).join(&id8).join("run-repo/worktrees");
        if !run_repo.exists() {
            found.push(checkout.through_view(repo, scratch)?);
        } else if asked_by != Some(&id8) {
            return Err(target_busy(branch, id8));
        }
    }
    Ok(found)
}

/// The error for a branch in whose worktree a fenced command works. It goes on from the branch as it knows it, so its next commit would
/// take back what came to the branch meanwhile.
fn target_busy(branch: &str, id8: String) -> Error {
    let branch = branch_name(branch);
    let what = format!("a run of agent {id8} is at work on {branch}, so the branch does not move");
    Error::new(Code::AgentBusy, what)
        .remedy("to wait until it is over", Remedy::Wait(id8.clone()))
        .remedy("to end it", Remedy::Stop(id8))
        .remedy("to take over what a killed one left", Remedy::Repair)
}

/// Whether an error says that an agent's state cannot be read, and not that nothing can be written or that another
/// process is at work.
pub(crate) fn is_of_an_agent(error: &Error) -> bool {
    let codes = [
        Code::BaseNotCommit,
        Code::FileTooLong,
        Code::GitFailed,
        Code::HistoryIncomplete,
        Code::Io,
        Code::LayerInvalid,
        Code::RepoCorrupt,
        Code::RepoNotFound,
        Code::RepoUnsupportedFormat,
    ];
    codes.contains(&error.code())
}
