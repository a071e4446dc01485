//! The check commands, run in a worktree of the merge as it would be.
//!
//! The worktree stands beside those of the agents, not in the git dir, where test runners look for no
//! tests. An OS lock per agent keeps every other verify away from its place, so what a verify made and is
//! still there was left by a killed one and is removed first. Anything else there stays.

use crate::agents::check_memory::{CheckMemory, Question};
use crate::agents::check_run::{CheckRequest, CheckRoom};
use crate::agents::check_setup::CheckSetup;
use crate::agents::check_worktree::CheckWorktree;
use crate::agents::commands;
use crate::agents::ctx::Ctx;
use crate::agents::projects;
use crate::agents::work::simulated;
use crate::domain::evidence::{CommandEnd, CommandRun, Commands, Evidence, Outcome};
use crate::domain::oid::Oid;
use crate::domain::sandbox::Mode;
use crate::error::Result;
use crate::ops::verify::{COMMAND_LIMIT, Case, VerifyOptions};
use crate::proc::sandbox;
use crate::store::{fsx, layout, lock};
use std::time::Duration;

/// Runs the commands of the policy one after the other, until one fails.
pub(super) fn run(
    ctx: &Ctx,
    options: &VerifyOptions,
    case: &Case<'_>,
    evidence: &Evidence,
) -> Result<Commands> {
    let outcome = evidence.landing.as_ref().map(|landing| &landing.outcome);
    let Some(
        Outcome::Clean { tree } | Outcome::FastForward { tree } | Outcome::OutOfReach { tree },
    ) = outcome
    else {
        return Ok(Commands::None);
    };
    let policy = case.fence.policy();
    let base = case.subject.base.unwrap_or(case.started);
    let before = ctx.repo.read_commit(base)?.tree;
    let projects = projects::bound(&ctx.repo, policy)?;
    // The commands of the whole repository come first, as they always ran.
    let mut checks = policy.required_checks();
    let is_by_project = checks.commands.is_empty();
    checks.add(&projects::checks_of(&ctx.repo, &projects, before, *tree)?);
    if checks.commands.is_empty() {
        return Ok(Commands::None);
    }
    if options.no_commands {
        return Ok(Commands::Skipped);
    }
    // The same each time, so that what is remembered of it is found again.
    let commit = simulated(&ctx.repo, *tree, &[base, case.subject.tip])?;
    let setup = CheckSetup::for_work(ctx, policy, base)?;
    // The merged tree is the agent's work: what runs in it runs behind the fence that a run has by itself.
    let enforcement = sandbox::enforcement(Mode::Auto, ctx.env.require_program()?)?;
    let remembers = !ctx.repo.is_scratch() && !case.subject.is_foreign;
    let mut memory = CheckMemory::open(ctx, &enforcement)?;
    memory.set_up_with(&setup);
    let question = memory.question(commit, &checks);
    let known = |question: &Question, from: Option<Oid>| {
        let mut tests = memory.recall_tests(question).into_iter();
        let commands = checks.commands.iter();
        let runs = commands.map(|command| CommandRun {
            project: checks.projects.get(command).cloned(),
            taken_over_from: from,
            ..success(command, tests.next().flatten())
        });
        Commands::Ran(runs.collect())
    };
    if remembers && memory.recall(&question) == Some(true) {
        return Ok(known(&question, None));
    }
    let agent = case.subject.agent.id;
    // A command of the whole repository reads all of it, and who reads a signature takes the checks for run on what is signed.
    let reuses = setup.reuses_checks && remembers && is_by_project && !options.fresh;
    if reuses
        && ctx.repo.config_bool("agent.sign")? != Some(true)
        && let Some(checked) = memory.green_tree(agent, &checks)
        && ctx.repo.is_at_hand(checked)
        && projects::is_apart(&ctx.repo, &projects, before, checked, *tree)?
    {
        return Ok(known(&question, Some(checked)));
    }
    // Where nothing may be written, or is to be left, the commit is checked out apart.
    let mut _alone = None;
    let mut place = None;
    if remembers {
        let common = ctx.repo.common_dir();
        let id = case.subject.agent.id;
        let short = id.short();
        fsx::create_dir(&layout::agent_dir(common, id))?;
        _alone = Some(lock::hold(common, &layout::verify_lock(&short))?);
        place = Some(CheckWorktree::of(ctx, &short)?);
    }
    let request = CheckRequest {
        commit,
        place,
        setup: &setup,
        fence: (Mode::Auto, &enforcement),
        variables: &commands::leased(ctx, case.subject.agent.id)?,
    };
    let limit = options.limit.unwrap_or(COMMAND_LIMIT);
    let runs = CheckRoom::open(ctx, request)?.check(&checks, limit, false)?;
    // A failure is not remembered: the machine may have been the reason.
    if remembers && runs.iter().all(CommandRun::is_success) {
        memory.keep_tests(&question, &runs);
        memory.keep_green_tree(agent, &checks, *tree);
        memory.keep(question, true);
    }
    Ok(Commands::Ran(runs))
}

fn success(command: &str, tests: Option<u64>) -> CommandRun {
    CommandRun {
        command: command.to_owned(),
        end: CommandEnd::Status(0),
        output: String::new(),
        is_setup: false,
        took: Duration::ZERO,
        tests,
        project: None,
        taken_over_from: None,
    }
}
