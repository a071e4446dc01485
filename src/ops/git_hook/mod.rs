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

use crate::agents::context::ctx::WITHIN_HOOK;
use crate::agents::{Ctx, ScopeGuard, context::untrusted, who::scope_guard, work};
use crate::domain::value::ref_update::{Owner, RefUpdate, Target};
use crate::domain::{Agent, BundleRule, Oid, Quoted, Violation};
use crate::error::{Code, Error, ErrorFacts, Exit, IoContext, Result};
use crate::git::refs::REMOTE_COPIES;
use crate::git::{Tip, record::commit};
use crate::ops::host_trust;
use crate::proc::launch;
use crate::store::hooks::Site;
use crate::store::{files::layout, hooks};
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::Path;

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
pub fn run(ctx: &Ctx, mut call: Call<'_>) -> Result<Exit> {
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
    match judge(ctx, &short_id, &mut call, input.as_deref().unwrap_or_default()) {
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
        Some(directory) => hooks::hook_in(directory, call.name),
        None => hooks::hidden_hook(&site, call.name)?,
    };
    match hook {
        Some(hook) => launch::run(&hook, call.arguments, input.as_deref(), WITHIN_HOOK),
        None => Ok(Exit::Yes),
    }
}

/// Whether git may go on after this hook could not tell.
///
/// A commit can be made again; a ref that cannot be moved leaves a rebase or a merge half done.
pub fn may_pass(hook: &str) -> bool {
    !matches!(hook, "pre-commit" | "pre-merge-commit" | "pre-push")
}

fn judge(ctx: &Ctx, short_id: &str, call: &mut Call<'_>, input: &[u8]) -> Result<()> {
    let is_state = |state: &str| call.arguments.first().is_some_and(|given| given == state);
    match call.name {
        "pre-commit" | "pre-merge-commit" => {
            let agent = require_agent(ctx)?;
            let worktree = ctx.repo.workdir().unwrap_or(&ctx.env.directory);
            if let Some(text) = host_trust::unheard(ctx, agent.id, worktree) {
                (call.warn)(&text);
            }
            require_staged_in_scope(ctx, agent)
        }
        "commit-msg" => add_trailer(ctx, &require_agent(ctx)?, call.arguments),
        "reference-transaction" if is_state("prepared") => judge_transaction(ctx, input),
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

// `commit-msg`: every commit of an agent says whose it is.

/// What git puts above the part of the file that is not the message (`commit --verbose`).
const SCISSORS: &str = "------------------------ >8 ------------------------";

/// Adds `Agent-Id` to the message file that git names.
///
/// # Errors
/// `io`, `git-failed`.
fn add_trailer(ctx: &Ctx, agent: &Agent, arguments: &[OsString]) -> Result<()> {
    let file = arguments.first().ok_or_else(|| Error::bug("git names the message file"))?;
    let file = ctx.absolute(Path::new(file));
    let message = std::fs::read(&file).at("could not read", &file)?;
    let comment = match ctx.repo.config_string("core.commentString")? {
        None => ctx.repo.config_string("core.commentChar")?,
        text => text,
    };
    let comment = comment.filter(|mark| mark != "auto").unwrap_or_else(|| "#".to_owned());
    // An empty message is how a person calls a commit off.
    if is_empty(&String::from_utf8_lossy(&message), &comment) {
        return Ok(());
    }
    // Settings for trailers can name programs, and those of the worktree are the agent's.
    commit::add_trailer(ctx.repo.common_dir(), &file, &format!("Agent-Id: {}", agent.id))
}

fn is_empty(message: &str, comment: &str) -> bool {
    message
        .lines()
        .take_while(|line| !line.ends_with(SCISSORS))
        .all(|line| line.trim().is_empty() || line.starts_with(comment))
}

// `reference-transaction`: the hook that `--no-verify` does not skip, and that rebase, revert and
// `update-ref` run too.

/// Judges a transaction that is prepared: `input` is what git wrote to the hook.
///
/// # Errors
/// `hook-refused`; whatever kept the agent's row from being read.
fn judge_transaction(ctx: &Ctx, input: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(input);
    let mut updates: Vec<RefUpdate> = text.lines().filter_map(RefUpdate::parse).collect();
    // Most transactions are about HEAD and its like alone, and need no row.
    updates.retain(|update| update.owner("") != Owner::Worktree);
    // Behind a fence the copies of a remote's refs are the run's own and end with it: a fetch may move them.
    if ctx.env.fenced {
        updates.retain(|update| !update.name.starts_with(REMOTE_COPIES));
    }
    // What a run puts aside is kept when it ends. Elsewhere a stash is the user's, like all of the worktrees, and tools that hooks
    // start, such as lint-staged, put one there while they work.
    if ctx.env.fenced || ctx.env.within_hook {
        updates.retain(|update| update.name != "refs/stash");
    }
    // What git itself put aside for a rebase or a merge, and could not put back: refused, no ref would hold it.
    let is_autostash = |update: &RefUpdate| match update.new {
        Target::At(oid) => update.name == "refs/stash" && autostashes(ctx).contains(&oid.to_hex()),
        _ => false,
    };
    updates.retain(|update| !is_autostash(update));
    if updates.is_empty() {
        return Ok(());
    }
    let agent = require_agent(ctx)?;
    let branch = agent.branch.as_deref().unwrap_or_default();
    for update in &updates {
        // An agent's tools may make refs of their own, such as a stash; deleting or redirecting one
        // is refused, because what it held is lost.
        match (update.owner(branch), &update.new) {
            (Owner::Worktree, _) | (Owner::Tool, Target::At(_)) => {}
            (Owner::Branch, Target::At(tip)) => require_in_scope(ctx, &agent, branch, *tip)?,
            (Owner::Branch, Target::Gone | Target::Other) => {
                return Err(refuse(&agent, &format!("delete or redirect its own branch {branch}")));
            }
            (Owner::Others | Owner::Tool, _) => {
                let verb = if update.new == Target::Gone { "delete" } else { "move" };
                return Err(refuse(&agent, &format!("{verb} {}", update.name)));
            }
        }
    }
    Ok(())
}

/// The commits of changes that git has put aside in this worktree for what it is doing (`--autostash`), in hexadecimal digits.
fn autostashes(ctx: &Ctx) -> Vec<String> {
    let files = ["rebase-merge/autostash", "rebase-apply/autostash", "MERGE_AUTOSTASH"];
    let texts = files.iter().filter_map(|file| untrusted::text(ctx.repo.git_dir(), file));
    texts.map(|text| text.trim_end().to_owned()).collect()
}

/// Judges what is new on the agent's branch. What the base's branch has, here or as it was last fetched,
/// is not the agent's doing: a rebase or a merge brings it along.
fn require_in_scope(ctx: &Ctx, agent: &Agent, branch: &str, tip: Oid) -> Result<()> {
    let mut hidden = work::of_its_base(ctx, agent)?;
    // What the branch has already was judged when it came there.
    if let Tip::At(oid) = ctx.repo.tip(branch)? {
        hidden.push(oid);
    }
    hidden.retain(|oid| ctx.repo.has_object(*oid));
    match require_commits_in_scope(ctx, agent.clone(), &hidden, tip) {
        // A shallow clone that fetched the base's branch anew does not know how that leads to the base.
        Err(error) if error.code() == Code::HistoryIncomplete => {
            let base: Vec<Oid> = agent.base.iter().map(|base| base.oid).collect();
            require_commits_in_scope(ctx, agent.clone(), &base, tip)
        }
        answer => answer,
    }
}

fn refuse(agent: &Agent, what: &str) -> Error {
    let short = agent.id.short();
    let branch = agent.branch.as_deref().unwrap_or("none");
    Error::new(Code::HookRefused, format!("agent {short} may not {what}")).hint(format!(
        "the only ref it moves is {branch}; to have anything else done, write it into handoffs.md"
    ))
}

// How a hook says what is out of an agent's scope.

/// How many paths one message names.
const NAMED: usize = 20;

/// Checks what the next commit would hold.
///
/// # Errors
/// `hook-refused`, naming the paths; those of [`ScopeGuard::around`] and of reading the index.
fn require_staged_in_scope(ctx: &Ctx, agent: Agent) -> Result<()> {
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    let changes = ctx.repo.staged_changes(&ctx.env.staging)?;
    let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
    require_none(fence.agent(), "staged", &violations)
}

/// Checks every commit that `tip` has and `hidden` have not, each by itself: what a later commit takes
/// back was done all the same.
///
/// # Errors
/// As [`require_staged_in_scope`].
fn require_commits_in_scope(ctx: &Ctx, agent: Agent, hidden: &[Oid], tip: Oid) -> Result<()> {
    let commits = ctx.repo.commits_between(hidden, tip)?;
    if commits.is_empty() {
        return Ok(());
    }
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    for commit in commits {
        let changes = ctx.repo.commit_changes(commit)?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
        let what = format!("touched by commit {}", commit.short());
        require_none(fence.agent(), &what, &violations)?;
    }
    Ok(())
}

fn require_none(agent: &Agent, what: &str, violations: &[Violation]) -> Result<()> {
    if violations.is_empty() {
        return Ok(());
    }
    let line = |violation: &Violation| {
        let path = Quoted(&violation.path);
        format!("  {path} ({}): {}", violation.kind, violation.reason)
    };
    let mut lines: Vec<String> = violations.iter().take(NAMED).map(line).collect();
    if violations.len() > NAMED {
        lines.push(format!("  and {} more", violations.len() - NAMED));
    }
    let short = agent.id.short();
    let noun = if violations.len() == 1 { "path is" } else { "paths are" };
    Err(Error::new(
        Code::HookRefused,
        format!("{} {noun} {what} and out of the scope of agent {short}", violations.len()),
    )
    .detail(lines.join("\n"))
    .facts(ErrorFacts {
        paths: violations.iter().map(|one| one.path.clone()).collect(),
        ..ErrorFacts::default()
    })
    .hint("to take a path out of the commit, run git restore --staged -- <path>")
    .hint(format!("to see what the agent may touch, run git agent show {short}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_comments_is_empty() {
        let check = |message: &str, expected: bool| {
            assert_eq!(is_empty(message, "#"), expected, "{message:?}")
        };
        check("", true);
        check("\n# Please enter\n#\n", true);
        check(&format!("\n# {SCISSORS}\ndiff --git a/a b/a\n"), true);
        check("fix it\n# Please enter\n", false);
    }
}
