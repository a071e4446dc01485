//! Agents as they stand: all of them, or the one that is meant, and where it works.

use crate::agents::context::{ctx::Ctx, real_path::real_path};
use crate::agents::{life::liveness, place::worktree};
use crate::domain::landing::forge::{self as forge_url, Forge};
use crate::domain::life::agent::{Agent, State};
use crate::domain::life::event::{Isolation, What};
use crate::domain::value::shell;
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::refs::Tip;
use crate::store::landing::spawn_commit;
use crate::store::ledger::Ledger;
use crate::store::ledger::find::ambiguous;
use crate::store::{files::layout, ledger::agent_branch};
use std::fs;
use std::path::{Path, PathBuf};

/// Every agent as it stands, oldest first.
///
/// # Errors
/// Those of the ledger.
pub(crate) fn agents(ctx: &Ctx) -> Result<Vec<Agent>> {
    let agents = ctx.ledger().agents()?.into_iter();
    Ok(agents
        // A run that died without a record is over for everybody who asks.
        .map(|agent| liveness::as_it_stands(ctx, agent))
        .collect())
}

/// The agent that goes by an id, a name, a branch or a path, as it stands.
///
/// # Errors
/// `agent-unknown`, `agent-ambiguous`, and those of the ledger.
pub(crate) fn agent(ctx: &Ctx, ledger: &Ledger<'_>, who: &str) -> Result<Agent> {
    let agent = recorded(ctx, ledger, who)?;
    Ok(liveness::as_it_stands(ctx, agent))
}

/// As [`agent`], as the ledger has it.
fn recorded(ctx: &Ctx, ledger: &Ledger<'_>, who: &str) -> Result<Agent> {
    let looks_like_path = who.contains('/') || who.starts_with('.');
    let path = ctx.absolute(Path::new(who));
    // Only what looks like a path is taken for one: a directory of the caller's may have an agent's
    // name.
    if looks_like_path && path.is_dir() {
        // git writes real paths into its records.
        let path = fs::canonicalize(&path).at("could not resolve", &path)?;
        // One that was moved goes by the place it is at now.
        let linked = ctx.repo.worktrees()?.into_iter().find(|w| w.path == path);
        let own = linked.as_ref().and_then(|w| layout::agent_of_worktree(&w.name));
        let by_place = own.and_then(|id8| ledger.find(id8).ok());
        let has_worktree = |agent: &Agent| agent.isolation == Some(Isolation::Worktree);
        return match by_place.filter(has_worktree) {
            Some(agent) => Ok(agent),
            None => ledger.find(&path.to_string_lossy()),
        };
    }
    ledger.find(who)
}

/// As [`agent`], and for a revision that goes by no agent's name the agent whose work that commit brought.
pub(crate) fn agent_or_landed(ctx: &Ctx, ledger: &Ledger<'_>, who: &str) -> Result<Agent> {
    // An agent goes before a commit: its id may be the beginning of one.
    let unknown = match agent(ctx, ledger, who) {
        Err(error) if error.code() == Code::AgentUnknown => error,
        answer => return answer,
    };
    let Ok(resolved) = ctx.repo.resolve_commit(who) else {
        return Err(unknown);
    };
    let mut landed = ledger.landed_as(resolved.commit)?;
    match landed.len() {
        0 => Err(unknown),
        1 => Ok(landed.remove(0)),
        _ => Err(ambiguous(who, &landed)),
    }
}

/// The error for an agent whose branch is neither here nor among the copies that were fetched, with the way to have
/// it where there is one.
pub(crate) fn branch_gone(ctx: &Ctx, agent: &Agent) -> Error {
    let id = agent.id.short();
    let branch = agent.branch.as_deref().unwrap_or_default();
    let what =
        if ctx.env.fenced { "is not seen from inside the sandbox" } else { "does not exist" };
    let what = format!("the branch {branch} of agent {id} {what}");
    // Work that goes on in another clone is refused as such; a branch that this clone lost is damage.
    let is_elsewhere = !ctx.env.fenced && agent.state.is_open() && !is_local(ctx, agent);
    let code = if is_elsewhere { Code::AgentState } else { Code::BranchGone };
    let error = Error::new(code, what);
    match agent.state {
        _ if ctx.env.fenced => error.remedy("to see what is known of it", Remedy::History(id)),
        // A spawn that failed was taken apart before any work began.
        State::Discarded if was_never_ready(ctx, agent) => with_failed_spawn(ctx, agent, error),
        // Only a discard puts work away.
        State::Discarded => error.remedy("to get its work back", Remedy::Reopen(id)),
        State::Merged => error.remedy("to see where its work landed", Remedy::History(id)),
        State::Spawning => error.remedy("to see how far it came", Remedy::History(id)),
        _ if is_elsewhere => match ctx.repo.remotes().unwrap_or_default().first() {
            Some(remote) => {
                let short = branch.trim_start_matches("refs/heads/");
                error.hint(format!(
                    "it is in another clone, {}; to fetch it, run git fetch {remote} {branch}:refs/remotes/{remote}/{short}",
                    clone_id(agent)
                ))
            }
            None => error.remedy("to see in which clone it is", Remedy::Agent(id)),
        },
        _ => error.remedy("to see how to make it again", Remedy::Examine),
    }
}

/// Whether a spawn ended before its agent was ready, so that nothing of it was put away.
pub(crate) fn was_never_ready(ctx: &Ctx, agent: &Agent) -> bool {
    let events = ctx.ledger().events(agent.spawn_commit).unwrap_or_default();
    !events.iter().any(|event| matches!(event.what, What::Spawned(_)))
}

/// An error with what there is to do where a spawn failed: its task went with all else that it had made.
pub(crate) fn with_failed_spawn(ctx: &Ctx, agent: &Agent, error: Error) -> Error {
    let policy = spawn_commit::if_here(&ctx.repo, agent).ok().flatten();
    let scope = policy.iter().flat_map(|policy| &policy.whitelist);
    let scope: String =
        scope.map(|glob| format!(" --scope {}", shell::word(glob.as_bytes()))).collect();
    let typed = agent.description.as_ref().filter(|task| !task.contains('\n'));
    let task = typed.map_or_else(
        || "<task.toml>".to_owned(),
        |task| format!("-m {}{scope}", shell::word(task.as_bytes())),
    );
    error
        .remedy("to see why its spawn failed", Remedy::History(agent.id.short()))
        .remedy("to spawn such an agent again", Remedy::SpawnFrom(task.into()))
}

/// The error for an agent whose branch names no commit here: it is broken, or as [`branch_gone`].
pub(crate) fn without_tip(ctx: &Ctx, agent: &Agent) -> Error {
    let name = agent.branch.as_deref().unwrap_or_default();
    match ctx.repo.tip(name) {
        // What its reflog says last cannot be asked of git while the file of the branch is broken.
        Ok(Tip::Broken) => Error::new(Code::RepoCorrupt, format!("{name} names nothing"))
            .remedy("to put it back to where it was", Remedy::Repair),
        _ => branch_gone(ctx, agent),
    }
}

/// Whether an agent was spawned in this clone.
pub(crate) fn is_local(ctx: &Ctx, agent: &Agent) -> bool {
    agent_branch::is_made_here(&ctx.repo, agent)
}

/// Refuses an agent whose worktree is in another clone, before anything is looked for that only that clone has.
///
/// # Errors
/// `agent-state`.
pub(crate) fn require_worktree_here(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let is_shared = agent.isolation == Some(Isolation::Shared);
    // One that was reopened here works here, wherever it was spawned.
    if is_shared || is_local(ctx, agent) || worktree::admin_dir(&ctx.repo, agent.id).exists() {
        return Ok(());
    }
    let id = agent.id.short();
    let clone = clone_id(agent);
    let what = format!("the worktree of agent {id} is in another clone, {clone}");
    Err(Error::new(Code::AgentState, what)
        .remedy("to see where its work stands", Remedy::Agent(id)))
}

/// The four hex digits of the clone that an agent was spawned in.
pub(crate) fn clone_id(agent: &Agent) -> String {
    format!("{:04x}", agent.clone)
}

// The remote that a command means when the user names none.

/// The name of the remote that is meant.
///
/// # Errors
/// `usage` when there is none of that name, or when several could be meant.
pub fn remote_name(ctx: &Ctx, wanted: Option<&str>) -> Result<String> {
    let known = ctx.repo.remotes()?;
    let configured = ctx.repo.config_string("agent.remote")?;
    let named = wanted.map(str::to_owned).or(configured);
    // As git does it: the only remote, or else `origin`.
    let is_usual = |name: &&String| known.len() == 1 || *name == "origin";
    let (name, what) = match named {
        Some(name) if known.contains(&name) => return Ok(name),
        Some(name) => (name.clone(), format!("there is no remote `{name}`")),
        None => match (known.iter().find(is_usual), known.first()) {
            (Some(name), _) => return Ok(name.clone()),
            (None, None) => ("origin".to_owned(), "there is no remote".to_owned()),
            (None, Some(first)) => {
                return Err(Error::new(
                    Code::Usage,
                    format!("which of the remotes {} is not said", known.join(", ")),
                )
                .hint(format!("to choose one for good, run git config agent.remote {first}")));
            }
        },
    };
    // A path or URL has no name under which its refs could be remembered.
    Err(Error::new(Code::Usage, what).hint(if name.contains(['/', ':']) {
        format!("to give it a name, run git remote add hub {name}")
    } else {
        format!("to add it, run git remote add {name} <url>")
    }))
}

/// Refuses a remote that is pushed to in another repository than the one that it is fetched from, as to a fork: work would be judged against
/// the one and land in the other.
///
/// # Errors
/// `usage`; those of reading the configuration.
pub(crate) fn require_one_repository(ctx: &Ctx, remote: &str) -> Result<()> {
    let Some((fetched, pushed)) = ctx.repo.urls_apart(remote)? else {
        return Ok(());
    };
    // Of several, one may take what another refuses.
    let top = ctx.repo.root()?;
    let is_same = |url: &String| {
        let at = place(&top, &fetched).filter(|at| at.exists());
        forge_url::may_be_one(url, &fetched) || at.is_some() && at == place(&top, url)
    };
    if pushed.iter().all(is_same) { Ok(()) } else { Err(pushes_elsewhere(remote)) }
}

/// Refuses a remote of which it is certain that what is pushed is never seen to have come there: another repository of a forge, or another
/// one on this machine.
///
/// # Errors
/// As [`require_one_repository`].
pub(crate) fn require_seen_pushes(ctx: &Ctx, remote: &str) -> Result<()> {
    let Some((fetched, pushed)) = ctx.repo.urls_apart(remote)? else {
        return Ok(());
    };
    let top = ctx.repo.root()?;
    let name = |url: &str| Forge::of_url(url).map(|forge| forge.name().to_ascii_lowercase());
    let here = |url: &str| place(&top, url).filter(|at| at.exists());
    let is_other = |url: &String| match (name(&fetched), name(url)) {
        (Some(one), Some(other)) => one != other,
        _ => here(&fetched).zip(here(url)).is_some_and(|(one, other)| one != other),
    };
    if pushed.iter().all(is_other) { Err(pushes_elsewhere(remote)) } else { Ok(()) }
}

/// Where the repository of a URL is, if that is a path.
fn place(top: &Path, url: &str) -> Option<PathBuf> {
    real_path(&top.join(url.strip_prefix("file://").unwrap_or(url)))
}

fn pushes_elsewhere(remote: &str) -> Error {
    let what =
        format!("the remote `{remote}` is fetched from one repository and pushed to another");
    Error::new(Code::Usage, what)
        .hint("to see both, run git remote -v")
        .hint("to use the one that it pushes to, add a remote for that, and name it")
}
