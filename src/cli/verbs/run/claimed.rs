//! `git agent run --claim`: a run of a task that one clone does and no other.

use crate::agents::life::at_work::waits_for_answer;
use crate::agents::{Ctx, upkeep::half_made};
use crate::cli::input::args::{TaskState, acquire_claim};
use crate::cli::out::terminal::{DIM, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::cli::verbs::run::{RunArgs, echo, show};
use crate::domain::{Agent, AgentId, State};
use crate::error::{Exit, Result};
use crate::ops::run::{self, RunPlan, RunReport};
use crate::ops::sync::claim::{ClaimReport, Heartbeat};
use crate::ops::sync::{self, SyncOptions};

/// Runs a task under a claim. The status is one that a batch engine can act on: 0 for work that was judged acceptable,
/// 3 where another clone has the task, 5 to try again, 124 and above as ever, and 1 for every other end.
pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: RunArgs, key: &str) -> Result<Exit> {
    let remote = args.sync.remote().map(str::to_owned);
    let synchronise = || sync::sync(ctx, &SyncOptions::with(remote.clone()));
    let quiet = args.mode.quiet;
    // Planned first, so that the claim names the agent from the beginning. Whether that fails matters only for a task that
    // is ours to do.
    let asked = args.read(ctx)?;
    let planned = asked.plan_first(ctx);
    let agent = planned.as_ref().ok().map(RunPlan::agent_id);
    let tasks = asked.targets.len();
    let taken = acquire_claim(ctx, "run", tasks, remote.as_deref(), key, agent)?;
    let (mut claim, earlier) = match taken {
        TaskState::Held(claim, earlier) => (*claim, *earlier),
        TaskState::Done(mut report) => {
            // The row of the agent that did it is in another clone until then.
            synchronise()?;
            report.warnings.extend(no_work(ctx, &report)?);
            warn(ui, &report.warnings);
            return ui.done(&report);
        }
    };
    // An earlier attempt in this clone may have come as far as a good verdict.
    let is_over =
        |agent: &Agent| is_acceptable(agent) && !waits_for_answer(ctx.repo.common_dir(), agent);
    if let Some(agent) = earlier.as_ref().filter(|agent| is_over(agent)) {
        let mut report = claim.report(Some(agent.id));
        report.warnings = sync::complete_task(ctx, remote, claim)?;
        warn(ui, &report.warnings);
        return ui.done(&report);
    }
    let begun = echo(ui, quiet).and_then(|echo| {
        let plan = match earlier {
            // It was made of this line, which need not name an agent.
            Some(agent) => asked.plan_again(ctx, &agent),
            None => planned,
        };
        half_made::sweep(ctx)?;
        let plan = plan?;
        claim.note_agent(ctx, plan.agent_id())?;
        Ok((plan, echo))
    });
    let (plan, echo) = match begun {
        Ok(begun) => begun,
        Err(error) => {
            // Nothing has begun, so nothing is to be waited for.
            claim.release(ctx)?;
            return Err(error);
        }
    };
    // A claim holds for less time than a command may take, so it is renewed from here on.
    let heartbeat = Heartbeat::start(ctx, claim)?;
    let echo = super::on_terminal(echo, plan.host());
    let ended = run::execute(ctx, plan, echo);
    // First of all, so that nothing renews a claim that is about to be completed or given up.
    let claim = heartbeat.stop()?;
    if let Err(lost) = claim.require_held() {
        // What was done until then is told to the others, and changes nothing of whose task it is.
        let _ = synchronise();
        let what = "the command that worked on it here was stopped";
        return Err(lost.detail(what.to_owned()));
    }
    let mut report = match ended {
        Ok(report) => report,
        Err(error) => {
            claim.release(ctx)?;
            return Err(error);
        }
    };
    let warnings = match (report.exit_status(), report.waiting) {
        (0, false) => sync::complete_task(ctx, remote, claim)?,
        (0, true) => {
            // It is this clone's for as long as a claim holds, so that the same line ends it once there is an answer.
            synchronise()?;
            Vec::new()
        }
        // Anything but work that was accepted leaves the task to the clone that tries next.
        _ => {
            let warnings = claim.release(ctx)?;
            synchronise()?;
            warnings
        }
    };
    if quiet {
        warn(ui, &warnings);
    }
    report.warnings.extend(warnings);
    show(ui, &report, quiet)?;
    Ok(Exit::Child(status(&report)))
}

/// Warns of what was done to the claim while it was held.
fn warn(ui: &mut Ui, done: &[String]) {
    done.iter().for_each(|text| ui.warn(text));
}

/// The warning of a claim that says done although no row says that the work was accepted: any clone can write that.
fn no_work(ctx: &Ctx, report: &ClaimReport) -> Result<Option<String>> {
    let agent = report
        .agent_id
        .as_deref()
        .and_then(AgentId::parse)
        .map(|id| run::earlier(ctx, id))
        .transpose()?
        .flatten();
    if agent.is_some_and(|agent| is_acceptable(&agent)) {
        return Ok(None);
    }
    let (refname, remote) = (&report.remote_ref, &report.remote);
    Ok(Some(format!(
        "{refname} says that the task is done, and no row says that its work was accepted; \
         to have it done again, run git push {remote} --delete {refname}"
    )))
}

fn is_acceptable(agent: &Agent) -> bool {
    let is_accepted = agent.verdict.as_ref().is_some_and(|verdict| verdict.accepted);
    agent.state == State::Merged || agent.state == State::Done && is_accepted
}

/// What a command of an agent ends with must not look like one of our own reasons.
fn status(report: &RunReport) -> u8 {
    match report.exit_status() {
        0 => u8::from(report.waiting),
        code @ 124.. => code,
        _ => 1,
    }
}

impl Answer for ClaimReport {
    fn text(&self) -> String {
        let by =
            self.agent_id.as_ref().map(|id| format!(" by agent {}", &id[..8])).unwrap_or_default();
        let where_ = format!("{} of {}", self.remote_ref, self.remote);
        let (key, says) = (&self.key, paint(DIM, &where_));
        if self.state == "held" {
            format!("{key} is held by this clone{by}, says {says}\n")
        } else {
            format!("{key} is done already{by}, says {says}\n")
        }
    }
}
