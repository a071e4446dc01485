//! Which agents a train takes, judged but for their check commands, and what becomes of each.

use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::domain::agent::{Agent, State};
use crate::domain::event::Isolation;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::merge::{
    LandingState, MergeOptions, MergePlan, Order, before, concerns_all, execute, judged_plan,
};
use crate::ops::overlap;
use crate::ops::train::TrainOptions;
use crate::ops::train::report::{ItemReport, Outcome};
use crate::ops::train::track::CandidateFate;
use crate::store::ledger::Ledger;
use crate::wire::path_text::PathText;

/// One agent on its way.
pub(super) struct Rider {
    /// What became of it so far.
    pub report: ItemReport,
    /// How it lands; absent once that is settled.
    pub plan: Option<MergePlan>,
    agent: Option<Agent>,
}

/// The agents that were asked for, each judged; in the order of the train where all were.
///
/// # Errors
/// What is no matter of one agent.
pub(super) fn items(ctx: &Ctx, options: &TrainOptions) -> Result<Vec<Rider>> {
    let mut items = if options.agents.is_empty() {
        every(ctx, options)?
    } else {
        let ledger = Ledger::new(&ctx.repo);
        let mut items: Vec<Rider> = Vec::new();
        for who in &options.agents {
            let found = lookup::agent(ctx, &ledger, who);
            let agent = found.as_ref().ok().map(|agent| agent.id);
            let is_named = |item: &Rider| item.agent.as_ref().map(|one| one.id) == agent;
            // One that is named twice is taken once.
            if agent.is_none() || !items.iter().any(is_named) {
                items.push(Rider::new(who, found)?);
            }
        }
        items
    };
    for item in &mut items {
        match item.agent.as_ref().map(require_done) {
            Some(Err(error)) => item.refuse(error),
            _ => item.judge(ctx, options)?,
        }
    }
    Ok(items)
}

/// Every agent that is done and not deferred.
fn every(ctx: &Ctx, options: &TrainOptions) -> Result<Vec<Rider>> {
    let mut agents = lookup::agents(ctx)?;
    let is_ready = |agent: &Agent| {
        let is_shared = agent.isolation == Some(Isolation::Shared);
        agent.state == State::Done && !agent.deferred && !is_shared
    };
    agents.retain(is_ready);
    agents.sort_by_key(|agent| (agent.started, agent.spawn_commit));
    if options.order == Order::Best && agents.len() > 1 {
        let order = overlap::order_of(ctx)?;
        // An agent without a place in it keeps the one among the others, at the end.
        let place = |agent: &Agent| order.iter().position(|id| *id == agent.id.to_string());
        agents.sort_by_key(|agent| place(agent).unwrap_or(usize::MAX));
    }
    let item = |agent: Agent| Rider::new(&agent.id.to_string(), Ok(agent));
    agents.into_iter().map(item).collect()
}

fn require_done(agent: &Agent) -> Result<()> {
    let (short, state) = (agent.id.short(), agent.state);
    if state == State::Done {
        return Ok(());
    }
    Err(Error::new(
        Code::AgentState,
        format!("agent {short} is {state}; a train takes agents that are done"),
    )
    .hint(format!("to judge its work, run git agent verify {short}"))
    .hint(format!(
        "to say that it is done, run git agent done {short}"
    )))
}

/// Judges those that are still to land on this target anew.
///
/// # Errors
/// As [`items`].
pub(super) fn judge_again(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    target: &str,
) -> Result<()> {
    for item in items {
        if { item.plan.iter() }.any(|plan| plan.target == target) {
            item.judge(ctx, options)?;
        }
    }
    Ok(())
}

/// Settles an agent that does not stack on what landed: its verdict is recorded, or it had landed before.
///
/// # Errors
/// As [`items`].
pub(super) fn close_conflict(ctx: &Ctx, options: &TrainOptions, item: &mut Rider) -> Result<()> {
    let conflicts = std::mem::take(&mut item.report.conflicts);
    if !options.dry_run {
        item.judge(ctx, options)?;
    }
    if item.report.outcome == Outcome::AlreadyMerged {
        return Ok(());
    }
    item.plan = None;
    if conflicts.is_empty() {
        let nothing = "it would change nothing on top of what landed before it";
        item.report.reason.get_or_insert(nothing.to_owned());
        return Ok(());
    }
    item.report.outcome = Outcome::Conflicts;
    item.report.conflicts = conflicts;
    item.report.error = None;
    Ok(())
}

impl Rider {
    fn new(target: &str, found: Result<Agent>) -> Result<Rider> {
        let (agent, error) = match found {
            Ok(agent) => (Some(agent), None),
            Err(error) if matches!(error.code().exit(), Exit::No | Exit::Usage | Exit::Refused) => {
                (None, Some(error))
            }
            Err(error) => return Err(error),
        };
        let known = agent.as_ref();
        Ok(Rider {
            report: ItemReport {
                target: target.to_owned(),
                agent_id: known.map(|agent| agent.id.to_string()),
                short_id: known.map(|agent| agent.id.short()),
                name: known.and_then(|agent| Some(agent.name.as_ref()?.to_string())),
                outcome: Outcome::Refused,
                lands_on: None,
                commit: None,
                tree: None,
                conflicts: Vec::new(),
                check: None,
                reason: error.as_ref().map(reason),
                error,
                warnings: Vec::new(),
            },
            plan: None,
            agent,
        })
    }

    /// Judges the work but for its check commands, and plans its landing.
    fn judge(&mut self, ctx: &Ctx, options: &TrainOptions) -> Result<()> {
        let Some(agent) = &self.agent else {
            return Ok(());
        };
        self.plan = None;
        let merge = MergeOptions {
            method: options.method,
            into: options.into.clone(),
            leave_checks: true,
            no_hooks: options.no_hooks,
            ..MergeOptions::default()
        };
        let judged = judged_plan(ctx, &agent.id.to_string(), &merge)
            .and_then(|judged| judged.map_err(|refused| refused.error()))
            .and_then(|plan| {
                if !options.dry_run {
                    before(ctx, &plan)?;
                }
                Ok(plan)
            });
        match judged {
            Ok(plan) if plan.landed.is_some() => self.close_landed(ctx, options, &plan)?,
            Ok(plan) => {
                self.report.lands_on = Some(plan.target.clone());
                self.report.outcome = Outcome::Undecided;
                (self.report.error, self.report.reason) = (None, None);
                self.plan = Some(plan);
            }
            Err(error) if concerns_all(error.code()) => return Err(error),
            Err(error) => self.refuse(error),
        }
        Ok(())
    }

    fn refuse(&mut self, error: Error) {
        self.report.outcome = Outcome::Refused;
        self.report.reason = Some(reason(&error));
        self.report.error = Some(error);
    }

    /// Writes down that the work had landed before.
    fn close_landed(&mut self, ctx: &Ctx, options: &TrainOptions, plan: &MergePlan) -> Result<()> {
        self.report.lands_on = Some(plan.target.clone());
        self.report.outcome = Outcome::AlreadyMerged;
        (self.report.error, self.report.reason) = (None, None);
        self.report.commit = plan.landed.map(|commit| commit.to_hex());
        if !options.dry_run {
            self.report.warnings = execute(ctx, plan)?.warnings;
        }
        Ok(())
    }

    /// Takes over what became of its plan.
    pub(super) fn settle(&mut self, fate: CandidateFate) {
        let report = &mut self.report;
        match fate {
            CandidateFate::Open => return,
            CandidateFate::Conflicts(conflicts) => {
                let paths = { conflicts.iter() }.map(|one| PathText::from(one.path.as_slice()));
                report.conflicts = paths.collect();
                return;
            }
            CandidateFate::Landed(landing) => {
                report.outcome = match landing.outcome {
                    LandingState::AlreadyMerged => Outcome::AlreadyMerged,
                    LandingState::Merged | LandingState::Planned => Outcome::Landed,
                };
                report.commit = landing.commit;
                report.tree = Some(landing.merged_tree);
                report.warnings = landing.warnings;
                report.conflicts.clear();
            }
            CandidateFate::Planned(tree) => {
                report.outcome = Outcome::Planned;
                report.tree = Some(tree.to_hex());
                report.conflicts.clear();
            }
            CandidateFate::Red(check) => {
                report.outcome = Outcome::Rejected;
                report.reason = Some(if check.timed_out {
                    format!("`{}` took too long with its work", check.command)
                } else {
                    let status = check.exit_code;
                    let command = &check.command;
                    format!(
                        "`{command}` ended with status {status} with its work, and with 0 without it"
                    )
                });
                report.check = Some(check);
                report.conflicts.clear();
            }
        }
        self.plan = None;
    }

    /// Leaves it undecided.
    pub(super) fn leave(&mut self, target_is_red: bool) {
        self.plan = None;
        self.report.outcome = Outcome::Undecided;
        self.report.conflicts.clear();
        let why = if target_is_red {
            "the checks fail on the target without any agent's work"
        } else {
            "no more checks may run (--max-runs)"
        };
        self.report.reason = Some(why.to_owned());
    }
}

fn reason(error: &Error) -> String {
    let details = error.details().join("\n");
    if details.is_empty() {
        error.message().to_owned()
    } else {
        format!("{}\n{details}", error.message())
    }
}
