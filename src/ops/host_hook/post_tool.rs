//! After a tool ran that can start programs.
//!
//! What a shell writes cannot be read off its command, so the worktree is looked at when it is over. The work is
//! judged as `verify` will judge it, and the agent is told within the same turn. A host may also keep our git hooks
//! from running (one of them takes every hook out of the configuration of its shell), so commits are judged as well.

use crate::agents::context::ctx::{Ctx, Env, Seams};
use crate::agents::life::host_session::SessionPhase;
use crate::agents::who::current::CurrentAgent;
use crate::agents::who::scope_guard::ScopeGuard;
use crate::agents::{context::untrusted, work};
use crate::domain::boundary::tool_call::{HookAnswer, Intent, ToolCall};
use crate::domain::boundary::violation::{BundleRule, Violation};
use crate::domain::life::agent::Agent;
use crate::domain::life::event::Isolation;
use crate::domain::mail::message::plain;
use crate::domain::paths::change::Change;
use crate::domain::paths::path::Quoted;
use crate::domain::paths::removal::out_of_commit;
use crate::error::Result;
use crate::git::changes::touched;
use crate::git::refs::Tip;
use crate::ops::check::{self, Subject};
use crate::ops::host_hook::CallClaim;
use crate::ops::host_hook::session::note;
use crate::ops::host_hook::{directory_of, own_place, whereabouts};
use crate::ops::mail::MessageReport;
use crate::store::files::{fsx, layout};
use crate::store::mailbox::{Mailbox, Open, Reader};
use std::collections::{BTreeMap, HashMap};

/// How many offending paths a reason lists.
const LISTED: usize = 20;

/// Tells an agent what messages came for it, and after a call that can have started programs, what of its work is out of scope.
/// Silent where there is neither, and outside of agents.
///
/// # Errors
/// Those of [`CurrentAgent::find`] and [`check::check`].
pub fn post_tool(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    let directory = directory_of(env, call);
    let Some(home) = CurrentAgent::find(env, &whereabouts(env, &directory))? else {
        return Ok(HookAnswer::Allow);
    };
    let Some(_claim) = CallClaim::take(env, &home, call) else {
        return Ok(HookAnswer::Allow);
    };
    // An agent that cannot be told of its mail can still work.
    let mut reason = news(env, &home).unwrap_or_default();
    if starts_programs(&call.intent) && home.agent.isolation == Some(Isolation::Worktree) {
        note(env, call, &home, SessionPhase::Working);
        reason.push_str(&out_of_scope(env, home)?);
    }
    Ok(if reason.is_empty() { HookAnswer::Allow } else { HookAnswer::Deny { reason } })
}

/// What of an agent's work is out of scope, and what to do about it; nothing where all is in scope.
fn out_of_scope(env: &Env, home: CurrentAgent) -> Result<String> {
    let short_id = home.agent.id.short();
    // The shell may stand elsewhere, so the repository is opened where the work is.
    let there = if home.is_at_work() { Some(home) } else { CurrentAgent::around(&home.root)? };
    let Some(there) = there else {
        return Ok(String::new());
    };
    let ctx = Ctx::new(there.repo, env.clone(), Seams::real());
    let (offences, mends) = offences(&ctx, there.agent)?;
    if offences.is_empty() {
        return Ok(String::new());
    }
    let listed = |lines: &[String]| lines.get(..LISTED).unwrap_or(lines).join("\n  ");
    let mut reason = format!("Out of the scope of agent {}:\n  {}\n", short_id, listed(&offences));
    if offences.len() > LISTED {
        reason.push_str(&format!("  and {} more\n", offences.len() - LISTED));
    }
    reason.push_str(&format!(
        "Undo this before you go on; work that keeps it is rejected. Run:\n  {}\n",
        listed(&mends)
    ));
    Ok(reason)
}

/// Whether a tool can have changed files that its call does not name.
fn starts_programs(intent: &Intent) -> bool {
    match intent {
        Intent::Shell { .. } | Intent::Unknown { .. } | Intent::Unreadable { .. } => true,
        Intent::Reads
        | Intent::NoTool
        | Intent::Writes(_)
        | Intent::SpawnsAgent { .. }
        | Intent::EntersWorktree => false,
    }
}

/// What is out of scope in the worktree and in the agent's commits, one line each, and the commands that take it back.
fn offences(ctx: &Ctx, agent: Agent) -> Result<(Vec<String>, Vec<String>)> {
    let fence = ScopeGuard::around(&ctx.repo, agent)?;
    let (mut lines, mut mends) = (Vec::new(), Vec::new());
    if !is_within_scope(ctx, &fence)? {
        let report = check::check(ctx, None, &Subject::Worktree)?;
        lines.extend(report.violations.iter().map(|found| {
            let path = found.path.to_bytes();
            format!("{} ({}): {}", Quoted(&path), found.change, found.detail)
        }));
        mends.extend(report.violations.into_iter().map(|found| found.fix));
    }
    committed(ctx, &fence, (&mut lines, &mut mends))?;
    Ok((lines, mends))
}

/// Whether every file that may have been touched is in scope, whatever became of it. This is nearly always so, and
/// takes no git and no temporary file; where there is more, such as what a build leaves, git is asked what it ignores.
fn is_within_scope(ctx: &Ctx, fence: &ScopeGuard<'_>) -> Result<bool> {
    let bundle = fence.policy().bundle_dir.as_deref();
    let rules = ctx.ignore_rules()?.without(bundle);
    // A state that cannot be told from the index alone is left to git.
    let Some(touched) = touched(&ctx.repo, &rules)? else {
        return Ok(false);
    };
    let is_in = |changes: &[Change]| Ok(fence.judge(changes, BundleRule::Writable)?.is_empty());
    if !is_in(&touched.tracked)? {
        return Ok(false);
    }
    let mut doubtful = Vec::new();
    for name in &touched.unknown {
        // A directory whose files cannot all be listed cheaply is a case for git's own rules.
        let files = touched.files_at(name);
        if !files.map_or(Ok(false), |files| is_in(&files))? {
            doubtful.push(name.clone());
        }
    }
    if doubtful.is_empty() {
        return Ok(true);
    }
    is_in(&touched.listed(&doubtful, &ctx.temporary_place())?)
}

/// What is out of scope in the commits that only the agent's HEAD has, each by itself, as `verify` judges them.
fn committed(
    ctx: &Ctx,
    fence: &ScopeGuard<'_>,
    (lines, mends): (&mut Vec<String>, &mut Vec<String>),
) -> Result<()> {
    let agent = fence.agent();
    let head = ctx.repo.resolve_commit("HEAD")?.commit;
    // What came with the base was judged where it was made.
    let mut hidden = work::of_its_base(ctx, agent)?;
    hidden.push(agent.spawn_commit);
    // A shallow clone may lack them.
    hidden.retain(|oid| ctx.repo.has_object(*oid));
    let commits = ctx.repo.commits_between(&hidden, head)?;
    let mut first = None;
    let (mut paths, mut parents) = (BTreeMap::new(), HashMap::new());
    for commit in commits {
        parents.insert(commit, ctx.repo.read_commit(commit)?.parents);
        let changes = ctx.repo.commit_changes(commit)?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted)?;
        let line = |found: &Violation| {
            let (path, commit) = (Quoted(&found.path), commit.short());
            format!("{path} ({} in commit {commit}): {}", found.kind, found.reason)
        };
        lines.extend(violations.iter().map(line));
        if !violations.is_empty() {
            // Parents come first.
            first.get_or_insert(commit);
            for found in violations {
                let removal = found.removal();
                paths.entry(found.path).or_insert(removal);
            }
        }
    }
    // The command that `verify` names.
    let paths = paths.iter().map(|(path, removal)| (path.as_slice(), *removal));
    mends.extend(first.map(|first| out_of_commit("", first, &parents, paths)));
    Ok(())
}

// Messages for an agent at work: it is told of each at its next tool call.
//
// They stay unread until the agent receives them, because a host may drop what a hook says. What it was told of is kept in a file that the agent
// could change: then it is told again, or has to look itself.

/// How much of a message is told, in characters; hosts cut off what is longer.
const LONGEST: usize = 2_000;

/// What came since the last look, in words for the agent; nothing where nothing did. Most calls read one ref and one file.
fn news(env: &Env, home: &CurrentAgent) -> Result<String> {
    let Tip::At(tip) = home.repo.tip(layout::MAIL_REF)? else {
        return Ok(String::new());
    };
    let tip = tip.to_string();
    let place = own_place(env, home);
    let known = untrusted::text(&place, layout::TOLD_MESSAGES).unwrap_or_default();
    // Every tool call asks, and nearly always nothing came: one ref and one file tell.
    if known.lines().next() == Some(&tip) {
        return Ok(String::new());
    }
    let mailbox = Mailbox::new(&home.repo);
    let open = mailbox.open(&Reader::agent(&home.agent)?)?;
    let unread: Vec<_> = open.iter().filter(|open| open.read.is_none()).collect();
    // Written anew with what is unread now, so that the file does not grow with messages that were
    // read.
    let mut told = tip;
    let mut text = String::new();
    for open in unread {
        told.push_str(&format!("\n{}", open.id));
        if !known.lines().any(|line| line == open.id.as_str()) {
            text.push_str(&words(&mailbox, open)?);
        }
    }
    fsx::create_dir(&place)?;
    fsx::write_private(&place.join(layout::TOLD_MESSAGES), told.as_bytes())?;
    if !text.is_empty() {
        text.push_str("To mark what you have read, run git-agent receive; to answer, git-agent send --reply-to <id>.\n");
    }
    Ok(text)
}

/// One message.
fn words(mailbox: &Mailbox<'_>, open: &Open) -> Result<String> {
    let message = MessageReport::new(&mailbox.read(open)?, None);
    let payload = plain(&message.payload.to_string());
    let shown: String = payload.chars().take(LONGEST).collect();
    let cut = if shown.len() < payload.len() { " …" } else { "" };
    Ok(format!(
        "A message came for you: [{}] {} from {} ({}): {}\n{shown}{cut}\n",
        message.priority,
        message.kind,
        plain(&message.sender()),
        message.message_id,
        plain(&message.summary),
    ))
}
