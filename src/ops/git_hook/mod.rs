//! What git's hooks do in an agent's worktree: judge first, then run the hook that ours hides.
//!
//! | hook | what it does | when it cannot tell |
//! |---|---|---|
//! | `pre-commit`, `pre-merge-commit` | refuses staged paths out of scope | refuses |
//! | `commit-msg` | adds the trailer `Agent-Id`, once | warns |
//! | `reference-transaction` | refuses refs that are not the agent's, and commits out of scope; in a sandbox, clears up after picks | lets pass, warns |
//! | `pre-push` | refuses | refuses |
//!
//! Outside an agent's worktree they do nothing at all. `verify` judges what they let pass.

mod commit_msg;
mod transaction;

use crate::agents::ctx::Ctx;
use crate::agents::scope_guard;
use crate::domain::agent::Agent;
use crate::domain::ref_update::RefUpdate;
use crate::error::{Code, Error, Exit, IoContext, Result};
use crate::proc::relay;
use crate::store::hooks::{Site, chain};
use crate::store::layout;
use std::ffi::OsString;
use std::fs;
use std::io::Read;

/// One call of a hook by git.
pub struct Call<'a> {
    /// The hook's name.
    pub name: &'a str,
    /// What git passes to it.
    pub arguments: &'a [OsString],
    /// What git writes to it.
    pub input: &'a mut dyn Read,
    /// Told what needs attention though git goes on.
    pub warn: &'a mut dyn FnMut(&str),
}

/// Answers a hook: success lets git go on.
///
/// # Errors
/// `hook-refused` with the reason; what else went wrong where the hook must not let that pass.
pub fn run(ctx: &Ctx, call: Call<'_>) -> Result<Exit> {
    let Some(short_id) = current_agent(ctx) else {
        return Ok(Exit::Yes);
    };
    let mut input = None;
    // These two are told on standard input what changes; others, such as `pre-commit`, may read a
    // terminal there.
    if matches!(call.name, "reference-transaction" | "pre-push") {
        let mut bytes = Vec::new();
        call.input
            .read_to_end(&mut bytes)
            .map_err(|source| Error::io("could not read what git says", source))?;
        input = Some(bytes);
    }
    match judge(ctx, &short_id, &call, input.as_deref().unwrap_or_default()) {
        Err(error) if may_pass(call.name) && error.code() != Code::HookRefused => {
            (call.warn)(&format!("the {} hook could not judge: {error}", call.name));
        }
        other => other?,
    }
    // Our own judgement first: the repository's hook may change files, and sees nothing that is
    // refused.
    let site = Site {
        repo: &ctx.repo,
        short_id: &short_id,
        worktree: ctx.repo.workdir().unwrap_or(&ctx.env.directory),
        home: ctx.env.home.as_deref(),
    };
    let hook = match &ctx.env.repository_hooks {
        // The orchestrator commits, and says which hooks the agent cannot have written.
        Some(directory) => chain::hook_in(directory, call.name),
        None => chain::hidden_hook(&site, call.name)?,
    };
    match hook {
        Some(hook) => relay::run(&hook, call.arguments, input.as_deref()),
        None => Ok(Exit::Yes),
    }
}

/// Whether git may go on after this hook could not tell.
///
/// A commit can be made again; a ref that cannot be moved leaves a rebase or a merge half done.
pub fn may_pass(hook: &str) -> bool {
    !matches!(hook, "pre-commit" | "pre-merge-commit" | "pre-push")
}

fn judge(ctx: &Ctx, short_id: &str, call: &Call<'_>, input: &[u8]) -> Result<()> {
    let is_state = |state: &str| call.arguments.first().is_some_and(|given| given == state);
    match call.name {
        "pre-commit" | "pre-merge-commit" => {
            transaction::require_staged_in_scope(ctx, require_agent(ctx)?)
        }
        "commit-msg" => commit_msg::add_trailer(ctx, &require_agent(ctx)?, call.arguments),
        "reference-transaction" if is_state("prepared") => transaction::judge(ctx, input),
        "reference-transaction" if is_state("committed") => clear(ctx, input),
        "pre-push" if ctx.env.allow_push => Ok(()),
        "pre-push" => Err(Error::new(
            Code::HookRefused,
            format!("agent {short_id} does not push"),
        )
        .hint(format!(
            "the orchestrator lands its work: git agent verify {short_id} && git agent merge {short_id}"
        ))),
        _ => Ok(()),
    }
}

/// The agent whose worktree this is, by the first digits of its id. A worktree may bear such a name and
/// be another tool's; ours has files in the common dir.
fn current_agent(ctx: &Ctx) -> Option<String> {
    let name = ctx.repo.current_worktree_name()?;
    let short_id = layout::agent_of_worktree(&name)?;
    let hooks = layout::hooks_dir(ctx.repo.common_dir(), short_id);
    hooks.is_dir().then(|| short_id.to_owned())
}

fn require_agent(ctx: &Ctx) -> Result<Agent> {
    scope_guard::agent_here(&ctx.repo)?
        .ok_or_else(|| Error::bug("a hook judges in an agent's worktree alone"))
}

// What git cannot clear away behind a fence.
//
// `CHERRY_PICK_HEAD` and its like count as refs, and whatever deletes a ref locks the `packed-refs` of the
// common dir first, which a fence refuses. Git goes on without deleting it, and the pick of a rebase
// then looks unfinished: the next commit would take its author, and amending would be refused.

/// What a pick, a revert or a merge leaves beside `HEAD` until it is over.
const LEFTOVERS: [&str; 3] = ["CHERRY_PICK_HEAD", "REVERT_HEAD", "AUTO_MERGE"];

/// Deletes them when `HEAD` has moved: git does so when a commit concludes a pick and when a reset gives
/// it up, and in between `HEAD` stays. `input` is what git wrote to the hook.
///
/// # Errors
/// `io`.
fn clear(ctx: &Ctx, input: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(input);
    let mut updates = text.lines().filter_map(RefUpdate::parse);
    if !ctx.env.fenced || !updates.any(|update| update.name == "HEAD") {
        return Ok(());
    }
    for name in LEFTOVERS {
        let path = ctx.repo.git_dir().join(name);
        fs::remove_file(&path).at_if_there("could not remove", &path)?;
    }
    Ok(())
}
