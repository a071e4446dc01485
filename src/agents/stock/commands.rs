//! Commands that the base commit of an agent asks for: `[setup] run`, and `[hooks]` at other moments.
//!
//! The base commit is what the user started the agent from, so its commands are trusted as a `Makefile` or a hook of the
//! repository is, and run outside the sandbox; of an agent that another clone made, as much of it as HEAD here holds. They
//! are read from the objects of that commit and from nowhere else. Set-up commands run in the new worktree, which no agent has had yet. Hooks run in the main worktree, so that no file of the
//! agent's decides what they do; a variable names the agent's worktree.

use crate::agents::context::ctx::{Ctx, HOOK_DEPTH};
use crate::agents::place::hidden_places::{Variable, renew_views};
use crate::agents::{life::admission, who::authority};
use crate::domain::life::claim::Lease;
use crate::domain::settings::repository_settings::HookMoment;
use crate::domain::{Agent, AgentId};
use crate::error::{Code, Error, Result};
use crate::git::core::command::WHOLE_INDEX;
use crate::git::files::separate::separate;
use crate::proc::sandbox::Plan;
use crate::proc::supervisor::TreeBounds;
use crate::proc::{self, End, Job};
use crate::store::settings::{repository_settings, roles};
use crate::store::{RecordedPlaces, files::leases};
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long one command may take: dependencies are often fetched from far away.
pub(crate) const LIMIT: Duration = Duration::from_secs(15 * 60);

/// What `GIT_AGENT_HOOK` says in a set-up command.
const SETUP: &str = "setup";

/// The agent that commands are run for, as they see it. None of the variables makes the command look like the agent's own.
pub(crate) struct CommandSubject<'a> {
    /// The agent; absent where a worktree is set up before there is one.
    pub id: Option<AgentId>,
    /// Its branch, full name.
    pub branch: Option<&'a str>,
    /// Its worktree.
    pub worktree: Option<&'a Path>,
}

/// The fence that commands run behind, and what they get beside their own variables there.
pub(crate) struct FencedPlace<'f> {
    pub plan: Plan<'f>,
    pub variables: &'f [Variable],
}

/// Runs the commands of `[setup]` in a new worktree, one after the other, until one fails.
///
/// # Errors
/// `setup-failed` with what the command wrote, `io`.
pub(crate) fn set_up(
    ctx: &Ctx,
    subject: &CommandSubject<'_>,
    commands: &[String],
    worktree: &Path,
    fence: Option<&FencedPlace<'_>>,
) -> Result<()> {
    let failed = |command: &str, how: &str| {
        Error::new(Code::SetupFailed, format!("the setup command `{command}` {how}"))
            .hint("to see it fail by hand, run it in a worktree of the same commit")
    };
    run(ctx, SETUP, subject, commands, (worktree, fence), failed)?;
    if !commands.is_empty() {
        // An agent that writes in its own worktree must not write into what was linked there.
        separate(worktree)?;
    }
    Ok(())
}

/// So many commands of `[hooks]` may run inside each other. One that calls what runs it would never end.
const MOST_HOOKS: u32 = 4;

/// Runs the commands of a hook in the main worktree, one after the other, until one fails.
///
/// # Errors
/// `hook-failed` with what the command wrote, `io`.
pub(crate) fn run_hook(
    ctx: &Ctx,
    moment: HookMoment,
    subject: &CommandSubject<'_>,
    commands: &[String],
) -> Result<()> {
    let failed = |command: &str, how: &str| {
        let moment = moment.as_str();
        let short = subject.id.map(AgentId::short).unwrap_or_default();
        let what = format!("the {moment} command `{command}` for agent {short} {how}");
        Error::new(Code::HookFailed, what)
            .hint("to go on without the commands of [hooks], pass --no-hooks")
    };
    if let Some(command) = commands.first().filter(|_| ctx.env.hook_depth >= MOST_HOOKS) {
        return Err(failed(command, &format!("is inside of {MOST_HOOKS} others")));
    }
    let root = ctx.repo.root()?;
    let place = (root.as_path(), None);
    run(ctx, moment.as_str(), subject, commands, place, failed)
}

/// Runs the commands that the base commit of a spawned agent has for a moment, in the main worktree; as much of that as is trusted. Gives
/// whether there are any.
///
/// # Errors
/// As [`run_hook`]; `settings-invalid`, `repo-corrupt` and `history-incomplete` where the base commit's settings cannot be read.
pub(crate) fn run_hook_of(ctx: &Ctx, moment: HookMoment, agent: &Agent) -> Result<bool> {
    let Some(at) = authority::trusted_settings(ctx, agent)? else {
        return Ok(false);
    };
    // Most repositories have no settings, and then no roles have to be read for them.
    if repository_settings::read(&ctx.repo, at)?.is_none() {
        return Ok(false);
    }
    let roles = roles::load(&ctx.repo, at)?;
    let settings = repository_settings::load(&ctx.repo, at, &roles)?;
    let Some(commands) = settings.hooks.get(&moment) else {
        return Ok(false);
    };
    let worktree: Option<PathBuf> = RecordedPlaces::new(&ctx.repo)?.of(agent);
    let subject = CommandSubject {
        id: Some(agent.id),
        branch: agent.branch.as_deref(),
        worktree: worktree.as_deref(),
    };
    run_hook(ctx, moment, &subject, commands).map(|()| !commands.is_empty())
}

/// The variables that an agent holds values of its own in.
///
/// # Errors
/// `io`.
pub(crate) fn leased(ctx: &Ctx, id: AgentId) -> Result<Vec<(Cow<'static, str>, OsString)>> {
    Ok(named(leases::of(ctx.repo.common_dir(), id)?))
}

/// Leases as variables.
pub(crate) fn named(leases: Vec<Lease>) -> Vec<(Cow<'static, str>, OsString)> {
    let leases = leases.into_iter();
    let named = leases.map(|lease| (lease.variable.into(), lease.value.into()));
    named.collect()
}

/// What a command that failed said, in one line for a warning.
pub(crate) fn in_one_line(error: &Error) -> String {
    let causes = error.causes().into_iter();
    let lines = std::iter::once(error.to_string()).chain(causes);
    lines.collect::<Vec<_>>().join(": ").replace('\n', " ")
}

fn run(
    ctx: &Ctx,
    moment: &'static str,
    subject: &CommandSubject<'_>,
    commands: &[String],
    (directory, fence): (&Path, Option<&FencedPlace<'_>>),
    failed: impl Fn(&str, &str) -> Error,
) -> Result<()> {
    let mut variables = variables(ctx, moment, subject)?;
    variables.extend(fence.iter().flat_map(|fence| fence.variables.to_vec()));
    for script in commands {
        if let Some(own) = fence {
            renew_views(&own.plan.fence.caches)?;
        }
        let _activity = ctx.activity(&format!("running the {moment} command `{script}`"));
        let finished = proc::run(&Job {
            program: ctx.env.require_program()?,
            script,
            directory,
            variables: &variables,
            limit: LIMIT,
            bounds: TreeBounds::of(&admission::load(ctx)?),
            fence: fence.map(|fence| fence.plan),
        })?;
        let how = match finished.end {
            End::Status(0) => continue,
            End::Status(code) => format!("ended with status {code}"),
            End::TimedOut => format!("took longer than {} s", LIMIT.as_secs()),
        };
        // The commands that follow rely on the ones before them.
        return Err(failed(script, &how).because(finished.output.trim().to_owned()));
    }
    Ok(())
}

/// What set-up commands get in a worktree that is no agent's.
///
/// # Errors
/// Those of finding the root of the repository.
pub(crate) fn setup_variables(
    ctx: &Ctx,
    worktree: &Path,
) -> Result<Vec<(Cow<'static, str>, OsString)>> {
    let subject = CommandSubject { id: None, branch: None, worktree: Some(worktree) };
    variables(ctx, SETUP, &subject)
}

fn variables(
    ctx: &Ctx,
    moment: &'static str,
    subject: &CommandSubject<'_>,
) -> Result<Vec<(Cow<'static, str>, OsString)>> {
    let mut variables: Vec<(Cow<'static, str>, OsString)> = vec![
        ("GIT_AGENT_HOOK".into(), moment.into()),
        ("GIT_AGENT_HOOK_ROOT".into(), ctx.repo.root()?.into()),
        (HOOK_DEPTH.into(), (ctx.env.hook_depth + 1).to_string().into()),
    ];
    if moment == SETUP {
        // Copies of the index that they leave become those of other worktrees.
        let whole = WHOLE_INDEX.into_iter();
        variables.extend(whole.map(|(name, value)| (name.into(), value.into())));
    }
    let branch = subject.branch.map(OsString::from);
    let worktree = subject.worktree.map(OsString::from);
    variables.extend(branch.map(|branch| ("GIT_AGENT_HOOK_BRANCH".into(), branch)));
    variables.extend(worktree.map(|path| ("GIT_AGENT_HOOK_WORKTREE".into(), path)));
    if let Some(id) = subject.id {
        variables.push(("GIT_AGENT_HOOK_ID".into(), id.to_string().into()));
        variables.extend(leased(ctx, id)?);
    }
    Ok(variables)
}
