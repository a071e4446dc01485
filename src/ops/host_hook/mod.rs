//! What an agent host is told before and after a tool runs, when a session starts, when an agent wants to
//! end, and when it wants a worktree.
//!
//! Flow: payload -> [`ToolCall`] -> [`CurrentAgent`] of the agent ->
//! [`HookAnswer`](crate::domain::boundary::tool_call::HookAnswer). A call that changes no file and starts no agent is allowed before
//! anything is looked at. Without an agent the answer is silence: the same registration serves a
//! person's own session in the main worktree.
//!
//! This is fast feedback in the place where the agent acts. A shell can do what it likes; the commit hooks
//! and `verify` see that.

mod call_claim;
mod post_tool;
mod pre_tool;
mod session;
mod worktree;

use crate::agents::context::ctx::Env;
use crate::agents::who::current::CurrentAgent;
use crate::domain::boundary::tool_call::ToolCall;
pub use crate::ops::host_hook::session::stop;
pub use crate::ops::host_hook::worktree::subagent_start;
use crate::store::files::layout;
use call_claim::CallClaim;
pub use post_tool::post_tool;
pub use pre_tool::{pre_tool, refusal};
pub use session::{phase, session_end, session_start};
use std::path::{Path, PathBuf};
pub use worktree::{worktree_create, worktree_remove};

/// Where a hook keeps what it has to know of its earlier calls: in the private directory of a fenced run, else among what we keep for the agent.
fn own_place(env: &Env, home: &CurrentAgent) -> PathBuf {
    if env.fenced {
        env.temporary_place().to_owned()
    } else {
        layout::runs_dir(home.repo.common_dir(), home.agent.id)
    }
}

/// Where a call takes place: the host's directory if the payload names it, else our own.
fn directory_of(env: &Env, call: &ToolCall) -> PathBuf {
    call.cwd.as_deref().map_or_else(|| env.directory.clone(), PathBuf::from)
}

/// The directories by which an agent is recognised. A shell of the host may have left the worktree, so
/// that the host's idea of the directory alone would open the fence.
fn whereabouts<'a>(env: &'a Env, directory: &'a Path) -> [&'a Path; 2] {
    [directory, &env.directory]
}
