//! Agents that would start agents, and content that would start programs.

use crate::agents::context::ctx::{Ctx, Env};
use crate::agents::who::current::CurrentAgent;
use crate::agents::who::scope_guard::changed_control_file;
use crate::agents::{place::worktree, who::lookup};
use crate::domain::life::sandbox::Mode;
use crate::domain::{
    Agent, AgentId, Enforcement, Move, Oid, Quoted, State, What, branch_name, value::shell,
};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::Tip;
use crate::git::files::admin_dir::{admin_dir_of_clone, stood_in_for};
use crate::store::{landing::spawn_commit, ledger};
use crate::system::Process;
use std::path::{Path, PathBuf};

/// Refuses a spawn from inside an agent whose policy does not allow it, whether the environment or the
/// directory names that agent. Gives the agent that asks, where one does: it is the parent of what it spawns.
///
/// # Errors
/// `recursion-refused`, also when the agent or its policy cannot be read.
pub fn require_no_recursion(env: &Env) -> Result<Option<AgentId>> {
    if is_person(env) {
        return Ok(None);
    }
    match CurrentAgent::find(env, &[&env.directory]) {
        Ok(None) => Ok(None),
        Ok(Some(home)) => {
            require_may_spawn(&home).map_err(|error| {
                error.hint(way_out(env).unwrap_or(
                    "a person spawns from the main worktree; to see where it is, run git worktree list",
                ))
            })?;
            Ok(Some(home.agent.id))
        }
        Err(error) => Err(Error::new(
            Code::RecursionRefused,
            "this is inside an agent, and whether it may spawn agents cannot be read",
        )
        .because(error)),
    }
}

/// Whether a person asks, who may stand in an agent's worktree, at a terminal. The words of a run are no person's, whatever terminal
/// they make for themselves.
fn is_person(env: &Env) -> bool {
    env.at_terminal && env.agent.is_none() && !env.fenced
}

/// What a person does who is in the shell of an agent: wherever they go there, it stays the agent's.
fn way_out(env: &Env) -> Option<&'static str> {
    let is_shell = env.at_terminal && env.agent.is_some();
    is_shell.then_some("to leave the shell of the agent, run exit")
}

/// Refuses what starts agents, unless the policy allows it.
///
/// # Errors
/// `recursion-refused`.
pub(crate) fn require_may_spawn(home: &CurrentAgent) -> Result<()> {
    if home.policy.may_spawn {
        return Ok(());
    }
    let what = format!("agent {} may not spawn agents", home.agent.id.short());
    Err(Error::new(Code::RecursionRefused, what).hint(format!(
        "to ask for help instead, write it into {} and finish",
        home.bundle().join("handoffs.md").display()
    )))
}

/// Refuses to say how an agent's work ended from inside another agent.
///
/// # Errors
/// As [`require_orchestrator`].
pub(crate) fn require_own(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if CurrentAgent::is_of(&ctx.env, agent) {
        return Ok(());
    }
    require_orchestrator(ctx)
}

/// Refuses an agent what takes back that a person put its work off, or that it failed.
///
/// # Errors
/// `orchestrator-only`.
pub(crate) fn require_undecided(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let has_failed = agent.state == State::Failed && agent.declared;
    if is_person(&ctx.env)
        || !(agent.deferred || has_failed)
        || !CurrentAgent::is_of(&ctx.env, agent)
    {
        return Ok(());
    }
    let id = agent.id.short();
    let how = if has_failed { "has failed" } else { "was put off" };
    let what = format!("agent {id} {how}, and goes on by the word of a person or with a new run");
    Err(Error::new(Code::OrchestratorOnly, what).remedy("to see why", Remedy::Agent(id)))
}

/// Refuses decisions from inside an agent: no agent lands, commits or removes work, its own or another's. A person may.
///
/// # Errors
/// `orchestrator-only`, also when it cannot be read whose worktree this is.
pub(crate) fn require_orchestrator(ctx: &Ctx) -> Result<()> {
    if is_person(&ctx.env) {
        return Ok(());
    }
    let root = main_worktree(ctx);
    let root = root.map_or("<main worktree>".into(), |root| shell::path(&root));
    let refused = |message: String| {
        let to_main = || format!("to decide about an agent from the main worktree, run cd {root}");
        Error::new(Code::OrchestratorOnly, message)
            .hint(way_out(&ctx.env).map_or_else(to_main, str::to_owned))
    };
    match CurrentAgent::find(&ctx.env, &[&ctx.env.directory]) {
        Ok(None) => Ok(()),
        Ok(Some(home)) => Err(refused(format!(
            "this is inside agent {}, which does not decide about agents",
            home.agent.id.short()
        ))),
        // Where that cannot be read, it is refused: an agent could else make it unreadable.
        Err(error) => Err(refused("this is inside an agent".to_owned()).because(error)),
    }
}

/// The top of the main worktree, also where a repository of the agent's own stands in for the shared one.
fn main_worktree(ctx: &Ctx) -> Option<PathBuf> {
    let common = ctx.repo.common_dir();
    let clone = || Some(admin_dir_of_clone(&ctx.env.directory)?.ancestors().nth(2)?.to_owned());
    match stood_in_for(common).map(Path::to_owned).or_else(clone) {
        Some(shared) => shared.parent().filter(|_| shared.ends_with(".git")).map(Path::to_owned),
        None => ctx.repo.main_worktree().ok().flatten(),
    }
}

/// Refuses to change what binds an agent unless its owner asks: the clone that spawned it, from outside of every agent. A
/// process that has left its worktree and emptied its environment is still below the one that was started for the agent.
///
/// # Errors
/// `orchestrator-only`; `agent-state` for an agent of another clone.
pub(crate) fn require_owner(ctx: &Ctx, agent: &Agent) -> Result<()> {
    require_no_agent_above(ctx)?;
    if lookup::is_local(ctx, agent) {
        return Ok(());
    }
    let id = agent.id.short();
    let clone = lookup::clone_id(agent);
    Err(Error::new(
        Code::AgentState,
        format!("agent {id} was spawned in another clone, {clone}, and only there can its policy be amended"),
    )
    .remedy("to see where it is", Remedy::Agent(id)))
}

/// Refuses what no agent may do, whatever it has left behind: its directory, its environment.
///
/// # Errors
/// `orchestrator-only`.
pub(crate) fn require_no_agent_above(ctx: &Ctx) -> Result<()> {
    require_orchestrator(ctx)?;
    // An agent can leave its directory and empty its environment, but not its fence and its
    // ancestors.
    if ctx.env.fenced || ctx.env.spool.is_some() || is_below_an_agent(ctx) {
        let error = Error::new(
            Code::OrchestratorOnly,
            "this was started by an agent, and no agent changes what binds agents",
        );
        return Err(error.hint("to change it, run the command in a shell of your own"));
    }
    Ok(())
}

/// Whether a process above this one was started for an agent, or is a command of ours that runs something.
fn is_below_an_agent(ctx: &Ctx) -> bool {
    let all = Process::all().unwrap_or_default();
    let above = |pid: i32| all.iter().find(|process| process.pid.as_raw_nonzero().get() == pid);
    let mut process = above(rustix::process::getpid().as_raw_nonzero().get());
    // As many steps as there are processes: the list may have been made while they came and went.
    for _ in 0..all.len() {
        process = process.and_then(|process| above(process.parent));
        match process {
            Some(process) if process.is_of_agent(b"GIT_AGENT_ID=", ctx.env.program.as_deref()) => {
                return true;
            }
            Some(_) => {}
            None => break,
        }
    }
    false
}

/// Refuses to judge the whole repository from inside a sandbox: a command there sees no branch and no worktree but its
/// own, and would take those of other agents for lost.
///
/// # Errors
/// `orchestrator-only`.
pub(crate) fn require_whole_view(ctx: &Ctx) -> Result<()> {
    if !ctx.env.fenced {
        return Ok(());
    }
    let what = "inside the sandbox only the agent's own branch and worktree are seen";
    Err(Error::new(Code::OrchestratorOnly, what)
        .remedy("to see what is known of all agents", Remedy::Agents))
}

// Moves of an agent from one state to another, as rows of the ledger.

/// Records what a fenced agent left in its spool about the end of its work.
///
/// # Errors
/// `agent-state` when that was declared already, or the decision about it has been taken; those of the ledger.
pub(crate) fn post_declaration(ctx: &Ctx, agent: &Agent, what: What) -> Result<()> {
    let step = match &what {
        What::Failed { .. } => Move::Fail,
        _ => Move::Done,
    };
    append(ctx, agent, &agent.id.to_string(), step, what)
}

/// Records what moves an agent.
///
/// # Errors
/// `agent-state` when another move came first; those of the ledger.
pub(crate) fn append(ctx: &Ctx, agent: &Agent, by: &str, step: Move, what: What) -> Result<()> {
    // A text that is too long for a line is kept as an object, which the event then names.
    let what = ledger::keep_whole(&ctx.repo, agent, by, what, ctx.now())?;
    let (ledger, key) = (ctx.ledger(), agent.spawn_commit);
    let is_same_landing = |row: &Agent| row.landed == agent.landed;
    let mut events = vec![(key, what)];
    // That it has gone on since a landing is seen in its branch and its worktree, and its row hears of it with the first decision.
    if agent.landed.is_some()
        && agent.state != State::Merged
        && let Some(row) = ledger.agent(key)?.filter(is_same_landing)
        && row.state == State::Merged
    {
        worktree::reopen(ctx, &row)?;
        events.insert(0, (key, What::Reopened {}));
    }
    // The move is judged against the row as it is when it is written, so that of two that race one is
    // told that it came too late.
    ledger.append_each(&events, by, ctx.now(), |what, row| {
        let row = row.unwrap_or(agent);
        match what {
            What::Reopened {} if is_same_landing(row) => row.may(Move::Reopen)?,
            _ => row.may(step)?,
        }
        Ok(what.clone())
    })?;
    Ok(())
}

// Set-up and the hooks of the settings run without a fence, with all rights of the person. So what they say and read has to be what a
// person took over: what HEAD of the main worktree holds, or what this clone was told to start an agent from. A branch that was
// fetched, a row, and an agent's branch after it was built upon are the word of others.

/// HEAD of the main worktree; where that is among the commits of an agent whose work has not landed, as of a person who looks at it, what
/// the agent began from.
///
/// # Errors
/// `head-unborn`; those of the ledger and of reading history.
pub(crate) fn trusted_head(ctx: &Ctx) -> Result<Oid> {
    let repo = &ctx.repo;
    let mut head = repo.main_head()?;
    let mut agents = lookup::agents(ctx)?;
    agents.retain(|agent| agent.state != State::Merged && repo.has_object(agent.spawn_commit));
    let holds = |agent: &Agent, head: Oid| -> Result<bool> {
        let tip = agent.branch.as_ref().map_or(Ok(Tip::Absent), |name| repo.tip(name))?;
        let is_below = match tip {
            // Without its branch nothing says which of the commits above are the agent's.
            Tip::Absent => false,
            // What an agent broke hides none of its commits, and keeps no other from its work.
            Tip::Broken => true,
            Tip::At(tip) => repo.is_ancestor(head, tip).unwrap_or(true),
        };
        Ok(is_below && repo.is_ancestor(agent.spawn_commit, head).unwrap_or(false))
    };
    'below: loop {
        for agent in &agents {
            if holds(agent, head)?
                && let Some(start) = repo.read_commit(agent.spawn_commit)?.parents.first()
            {
                // Which may be another agent's; each step leads down.
                head = *start;
                continue 'below;
            }
        }
        return Ok(head);
    }
}

/// As much of the history of a commit as a person took over: the commit itself, or what it has in common with [`trusted_head`]; `None` where
/// that is nothing.
///
/// # Errors
/// Those of the ledger and of reading history.
pub(crate) fn trusted_part(ctx: &Ctx, commit: Oid) -> Result<Option<Oid>> {
    match trusted_head(ctx) {
        Ok(head) => ctx.repo.merge_base(head, commit),
        Err(error) if error.code() == Code::HeadUnborn => Ok(None),
        Err(error) => Err(error),
    }
}

/// The commit whose settings may start programs for an agent: the one that its settings are of, if this clone was told to start it there.
///
/// # Errors
/// As [`trusted_part`].
pub(crate) fn trusted_settings(ctx: &Ctx, agent: &Agent) -> Result<Option<Oid>> {
    match spawn_commit::settings_commit(&ctx.repo, agent)? {
        Some(at) if !ctx.ledger().is_made_here(agent)? => trusted_part(ctx, at),
        at => Ok(at),
    }
}

/// What a person has to see of an agent that another clone made, before it lands as a commit of this base that has this tree; `None` for
/// nothing. That clone also wrote the policy that allows it.
///
/// # Errors
/// Those of the ledger, the policy and trees; `sandbox-unavailable`.
pub(crate) fn unseen(
    ctx: &Ctx,
    agent: &Agent,
    (target, base, tree): (&str, Oid, Oid),
    mode: Mode,
) -> Result<Option<String>> {
    let why = |why: String| Ok(Some(format!("was made in another clone and {why}")));
    if ctx.ledger().last_with_branch(target)?.is_some() {
        return why(format!("would land on {}, an agent's branch", branch_name(target)));
    }
    let base = ctx.repo.tree_of(base)?;
    if let Some(path) = changed_control_file(&ctx.repo, base, tree)? {
        return why(format!("changes {}, which decides what programs do here", Quoted(&path)));
    }
    let policy = spawn_commit::of_agent(&ctx.repo, agent)?;
    let is_fenced = || {
        let enforcement = ctx.kernel()?.enforcement(mode)?;
        Ok::<_, Error>(matches!(enforcement, Enforcement::Fenced(_)))
    };
    if policy.is_some_and(|policy| !policy.checks.is_empty()) && !is_fenced()? {
        return why("has checks, which would run without a sandbox".to_owned());
    }
    Ok(None)
}
