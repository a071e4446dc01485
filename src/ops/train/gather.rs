//! Which agents a train takes, judged but for their check commands, and what becomes of each.

use crate::agents::checks::check_memory::known_time;
use crate::agents::context::parallel::Queue;
use crate::agents::who::{authority, lookup};
use crate::agents::{Ctx, Work, context::parallel, life::at_work};
use crate::domain::judge::finding::verdict_word;
use crate::domain::{Agent, Isolation, State, branch_name};
use crate::error::{Code, Error, ErrorFacts, Exit, Remedy, Result};
use crate::ops::merge::{
    JudgedPlan, LandingState, MergeOptions, MergePlan, before, concerns_all, execute,
    fetch_targets, judged_plan,
};
use crate::ops::train::report::{FailedCheck, ItemReport, TrainOutcome};
use crate::ops::train::track::CandidateFate;
use crate::ops::train::{Order, TrainOptions};
use crate::ops::{overlap, status};
use crate::store::landing::spawn_commit;
use crate::wire::output::path_text::PathText;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

/// One agent on its way.
pub(super) struct Rider {
    /// What became of it so far.
    pub report: ItemReport,
    /// What was judged: `accept` or `reject`.
    pub verdict: Option<&'static str>,
    /// Whether it is refused for an incomplete bundle.
    pub lacks_bundle: bool,
    /// How it lands; absent once that is settled.
    pub plan: Option<MergePlan>,
    agent: Option<Agent>,
}

/// The agents that were asked for, each judged; in the order of the train where all were.
///
/// # Errors
/// What is no matter of one agent.
pub(super) fn items(ctx: &Ctx, options: &TrainOptions) -> Result<Vec<Rider>> {
    let mut items: Vec<Rider> = Vec::new();
    if options.agents.is_empty() {
        let mut agents = open_agents(ctx)?;
        agents.retain(|agent| is_ready(ctx, agent));
        items = riders(ctx, agents.into_iter())?;
    } else {
        for who in &options.agents {
            let found = lookup::agent(ctx, &ctx.ledger(), who);
            // The caller hears of one in which something is at work before anything lands.
            if let (Ok(agent), false) = (&found, options.now) {
                at_work::require_at_rest(ctx, agent)?;
            }
            let agent = found.as_ref().ok().map(|agent| agent.id);
            let is_named = |item: &Rider| item.agent.as_ref().map(|one| one.id) == agent;
            // One that is named twice is taken once.
            if agent.is_none() || !items.iter().any(is_named) {
                items.push(Rider::new(who, found)?);
            }
        }
    }
    judge_those(ctx, options, &mut items, Rider::is_open)?;
    if options.agents.is_empty() {
        bring_into_order(ctx, options.order, &mut items)?;
    }
    Ok(items)
}

/// Every agent about which nothing is decided, in the order in which they were spawned.
///
/// # Errors
/// Those of reading the ledger.
pub(super) fn open_agents(ctx: &Ctx) -> Result<Vec<Agent>> {
    let agents = lookup::agents(ctx)?.into_iter();
    let mut agents: Vec<Agent> = agents.map(|agent| status::as_shown(ctx, agent)).collect();
    // A spawn that is under way has no work yet.
    agents.retain(|agent| agent.state.is_open() && agent.state != State::Spawning);
    agents.sort_unstable_by_key(|agent| (agent.started, agent.spawn_commit));
    Ok(agents)
}

/// Whether an agent lands without being named: it is done, not deferred, and has a branch.
pub(super) fn is_ready(ctx: &Ctx, agent: &Agent) -> bool {
    // A shared agent has no branch, so nothing of it can land.
    let is_shared = agent.isolation == Some(Isolation::Shared);
    is_done(ctx, agent) && !agent.deferred && !is_shared
}

/// Whether an agent is finished. One that asked something is not, also where its run ended well.
fn is_done(ctx: &Ctx, agent: &Agent) -> bool {
    agent.state == State::Done && !at_work::waits_for_answer(ctx.repo.common_dir(), agent)
}

/// Takes agents that the caller has not named. One that is done by the word of another clone alone, which knows nothing of its worktree,
/// is refused.
///
/// # Errors
/// Those of reading the ledger.
pub(super) fn riders(ctx: &Ctx, agents: impl Iterator<Item = Agent>) -> Result<Vec<Rider>> {
    let agents: Vec<Agent> = agents.collect();
    let done = ctx.ledger().done_by_own_word(&agents)?;
    let ride = |agent: Agent| {
        let short = agent.id.short();
        let is_by_own_word = done.contains(&agent.id);
        let mut rider = Rider::of(agent);
        if !is_by_own_word {
            let what = format!(
                "agent {short} has its worktree here, and only another clone says that it is done"
            );
            rider.refuse(
                Error::new(Code::AgentState, what)
                    .hint(format!("to see its work, run git agent diff {short}"))
                    .hint(format!("to land it, run git agent merge {short}")),
            );
        }
        rider
    };
    Ok(agents.into_iter().map(ride).collect())
}

fn require_done(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if is_done(ctx, agent) {
        return Ok(());
    }
    let (short, state) = (agent.id.short(), status::state(ctx, agent));
    let what = format!("agent {short} is {state}; a train takes agents that are done");
    let error = Error::new(Code::AgentState, what);
    Err(match state {
        State::Merged => error.hint(format!("to clear it away, run git agent discard {short}")),
        State::Discarded => error.remedy("to get its work back", Remedy::Reopen(short)),
        State::Rejected => error.remedy("to try its task again", Remedy::Retry(short)),
        _ => error
            .hint(format!("to judge its work, run git agent verify {short}"))
            .hint(format!("to say that it is done, run git agent mark done {short}")),
    })
}

/// Judges those that are still to land on this target anew, all of them against the commit that it is at now.
///
/// # Errors
/// As [`items`].
pub(super) fn judge_again(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    target: &str,
) -> Result<()> {
    let bound = items.iter().find(|item| item.is_bound_for(target));
    let watched = bound.and_then(|item| item.plan.as_ref());
    let watched = watched.map(|plan| plan.base_ref().to_owned());
    fetch_once(ctx, options, items)?;
    // Read once, so that all are judged against one commit even if the target moves again
    // meanwhile.
    let base = match watched {
        Some(watched) => ctx.repo.tip(&watched)?.oid(),
        None => None,
    };
    let merge = MergeOptions { base_at: base, ..options.of_each() };
    judge_as(ctx, options, &merge, items, |item| item.is_bound_for(target))
}

/// Brings the branch of a remote up to date, once for all agents.
fn fetch_once(ctx: &Ctx, options: &TrainOptions, items: &[Rider]) -> Result<()> {
    // What a fetch brings has to stay, and a rehearsal leaves nothing; it has fetched before.
    if options.push.is_some() && !ctx.repo.is_scratch() {
        let agents = items.iter().filter_map(|item| item.agent.as_ref());
        fetch_targets(ctx, &options.of_each(), agents)?;
    }
    Ok(())
}

/// Judges the work of agents that are done, but for its check commands, a few at the same time, and plans their landings.
///
/// # Errors
/// As [`items`].
pub(super) fn judge_those(
    ctx: &Ctx,
    options: &TrainOptions,
    items: &mut [Rider],
    is_wanted: impl Fn(&Rider) -> bool,
) -> Result<()> {
    fetch_once(ctx, options, items)?;
    judge_as(ctx, options, &options.of_each(), items, is_wanted)
}

fn judge_as(
    ctx: &Ctx,
    options: &TrainOptions,
    merge: &MergeOptions,
    items: &mut [Rider],
    is_wanted: impl Fn(&Rider) -> bool,
) -> Result<()> {
    let mut wanted = Vec::new();
    for (at, item) in items.iter_mut().enumerate() {
        let Some(agent) = item.agent.as_ref().filter(|_| is_wanted(item)) else {
            continue;
        };
        match require_done(ctx, agent) {
            Ok(()) => wanted.push((at, agent.id.to_string())),
            Err(error) => item.refuse(error),
        }
    }
    let seed = ctx.seed();
    let threads = parallel::threads(wanted.len());
    let (activity, count) = (ctx.activity("judging agents"), wanted.len());
    let begun = AtomicUsize::new(0);
    let judge = |queue: &Queue<(usize, String)>, answers: Sender<(usize, Result<JudgedPlan>)>| {
        let mut own = None;
        while let Some((at, id)) = queue.next() {
            let number = begun.fetch_add(1, Ordering::Relaxed) + 1;
            activity.now(&format!("judging agent {number} of {count}"));
            // Opened once for each thread. Where that fails, the next task tries again.
            let judged = match own.take().map_or_else(|| seed.open(), Ok) {
                Ok(ctx) => judged_plan(own.insert(ctx), &id, merge),
                Err(error) => Err(error),
            };
            if answers.send((at, judged)).is_err() {
                return;
            }
        }
    };
    let mut judged: Vec<_> =
        parallel::share(wanted, threads, judge, |told| told.into_iter().collect());
    // The threads answer in any order. What follows takes the agents in the caller's.
    judged.sort_unstable_by_key(|(at, _)| *at);
    for (at, judged) in judged {
        let item = items.get_mut(at).ok_or_else(|| Error::bug("no such agent was judged"))?;
        item.take(ctx, options, judged)?;
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
        // It may have landed by another way while the others were decided about.
        judge_those(ctx, options, std::slice::from_mut(item), |_| true)?;
    }
    if item.report.outcome == TrainOutcome::AlreadyMerged {
        return Ok(());
    }
    item.plan = None;
    if conflicts.is_empty() {
        let nothing = "it would change nothing on top of what landed before it";
        item.report.reason.get_or_insert(nothing.to_owned());
        return Ok(());
    }
    item.report.outcome = TrainOutcome::Conflicts;
    item.report.conflicts = conflicts;
    Ok(())
}

/// Refuses what must not land unless the caller names it, because others had a hand in it.
///
/// # Errors
/// `agent-state`, and those of reading trees.
fn require_harmless(ctx: &Ctx, options: &TrainOptions, plan: &MergePlan) -> Result<()> {
    if plan.landed.is_some() {
        return Ok(());
    }
    let Some(why) = (if ctx.ledger().is_made_here(&plan.agent)? {
        // The branch of this clone is gone, and others can push to the one that was fetched.
        let is_copy = branch_name(&plan.branch) == plan.branch;
        is_copy.then(|| format!("has no branch here but {}, which was fetched", plan.branch))
    } else {
        authority::unseen(
            ctx,
            &plan.agent,
            (&plan.target, plan.base, plan.merged_tree),
            options.sandbox,
        )?
    }) else {
        return Ok(());
    };
    let short = plan.agent.id.short();
    let what = format!("agent {short} {why}, so it lands by its name alone");
    Err(Error::new(Code::AgentState, what)
        .hint(format!("to see its work, run git agent diff {short}"))
        .hint(format!("to land it, run git agent merge {short}")))
}

impl Rider {
    fn new(target: &str, found: Result<Agent>) -> Result<Rider> {
        match found {
            Ok(agent) => {
                let mut rider = Rider::of(agent);
                rider.report.target = target.to_owned();
                Ok(rider)
            }
            // A name that is wrong is one item of the answer; a repository that cannot be read ends
            // the train.
            Err(error) if matches!(error.code().exit(), Exit::No | Exit::Usage | Exit::Refused) => {
                Ok(Rider::unknown(target, Some(error)))
            }
            Err(error) => Err(error),
        }
    }

    fn unknown(target: &str, error: Option<Error>) -> Rider {
        Rider {
            report: ItemReport {
                target: target.to_owned(),
                agent_id: None,
                short_id: None,
                name: None,
                outcome: TrainOutcome::Refused,
                lands_on: None,
                commit: None,
                tree: None,
                conflicts: Vec::new(),
                fails_with: None,
                check: None,
                reason: error.as_ref().map(reason),
                error,
                warnings: Vec::new(),
            },
            verdict: None,
            lacks_bundle: false,
            plan: None,
            agent: None,
        }
    }

    /// One for an agent that is known.
    pub(super) fn of(agent: Agent) -> Rider {
        let mut rider = Rider::unknown(&agent.id.to_string(), None);
        rider.report.agent_id = Some(agent.id.to_string());
        rider.report.short_id = Some(agent.id.short());
        rider.report.name = agent.name.as_ref().map(ToString::to_string);
        rider.agent = Some(agent);
        rider
    }

    /// Whether nothing is against it yet.
    pub(super) fn is_open(&self) -> bool {
        self.report.error.is_none()
    }

    /// Whether this is the agent.
    pub(super) fn is(&self, agent: &Agent) -> bool {
        self.agent.iter().any(|own| own.id == agent.id)
    }

    /// Whether it is still to land on this branch.
    pub(super) fn is_bound_for(&self, target: &str) -> bool {
        self.plan.iter().any(|plan| plan.target == target)
    }

    /// Takes over how its work was judged.
    fn take(
        &mut self,
        ctx: &Ctx,
        options: &TrainOptions,
        judged: Result<JudgedPlan>,
    ) -> Result<()> {
        self.plan = None;
        self.lacks_bundle = false;
        let planned = judged.and_then(|judged| {
            if let JudgedPlan::NotAccepted(refused) = &judged {
                self.lacks_bundle = refused.verdict.bundle_errors().next().is_some();
                self.verdict = Some(verdict_word(refused.verdict.is_accepted()));
            }
            let plan = judged.accepted()?;
            // It may have failed, or been put off, while it was judged, or while an earlier attempt ran its checks.
            if let (Some(taken), None) = (&self.agent, &plan.landed)
                && let Err(error) = plan.agent.require_as_judged(taken)
                && error.code() == Code::AgentState
            {
                return Err(error);
            }
            if options.agents.is_empty() {
                require_harmless(ctx, options, &plan)?;
            }
            self.verdict = Some("accept");
            self.report.lands_on = Some(plan.target.clone());
            if !options.dry_run {
                // Asked before the work is stacked, so that no check is run for work to which the
                // repository objects.
                before(ctx, &plan)?;
                if plan.landed.is_some() {
                    self.report.warnings = execute(ctx, &plan)?.warnings;
                }
            }
            Ok(plan)
        });
        match planned {
            Ok(plan) if plan.landed.is_some() => {
                self.report.outcome = TrainOutcome::AlreadyMerged;
                self.report.commit = plan.landed.map(|landed| landed.commit.to_hex());
                (self.report.error, self.report.reason) = (None, None);
            }
            Ok(plan) => {
                self.report.outcome = TrainOutcome::Undecided;
                (self.report.error, self.report.reason) = (None, None);
                self.plan = Some(plan);
            }
            Err(error) if concerns_all(error.code()) => return Err(error),
            Err(error) => {
                self.refuse(error);
                // What refuses it may be that another train has landed it already.
                self.note_other_train(ctx)?;
            }
        }
        Ok(())
    }

    /// Takes it as landed if another process landed it meanwhile.
    fn note_other_train(&mut self, ctx: &Ctx) -> Result<()> {
        let Some(agent) = &self.agent else {
            return Ok(());
        };
        let row = ctx.ledger().agent(agent.spawn_commit)?;
        if let Some(now) = row.filter(|row| row.state == State::Merged) {
            let report = &mut self.report;
            report.outcome = TrainOutcome::AlreadyMerged;
            report.commit = now.landed.map(|(commit, _)| commit.to_hex());
            (report.error, report.reason) = (None, None);
        }
        Ok(())
    }

    /// Leaves it behind.
    pub(super) fn refuse(&mut self, error: Error) {
        self.plan = None;
        self.report.outcome = TrainOutcome::Refused;
        self.report.reason = Some(reason(&error));
        self.report.error = Some(error);
    }

    /// Takes over what became of its plan.
    pub(super) fn settle(&mut self, fate: CandidateFate) {
        let report = &mut self.report;
        match fate {
            CandidateFate::Open => return,
            CandidateFate::Conflicts(conflicts) => {
                let paths = conflicts.iter().map(|one| PathText::from(one.path.as_slice()));
                report.conflicts = paths.collect();
                return;
            }
            CandidateFate::Landed(landing) => {
                report.outcome = match landing.outcome {
                    LandingState::AlreadyMerged => TrainOutcome::AlreadyMerged,
                    LandingState::Merged | LandingState::Planned => TrainOutcome::Landed,
                };
                report.commit = landing.commit;
                report.tree = Some(landing.merged_tree);
                report.warnings = landing.warnings;
                report.conflicts.clear();
            }
            CandidateFate::Planned(tree) | CandidateFate::Accepted(tree) => {
                report.outcome = if matches!(fate, CandidateFate::Planned(_)) {
                    TrainOutcome::Planned
                } else {
                    TrainOutcome::Accepted
                };
                report.tree = Some(tree.to_hex());
                report.conflicts.clear();
            }
            CandidateFate::Red(check, partner) => {
                let how = &check.how;
                let command = &check.command;
                let what = if check.setup { "the set-up command " } else { "" };
                let why = match partner.as_ref().map(|partner| &partner.short_id) {
                    Some(partner) => format!(
                        "{what}`{command}` {how} with its work and that of agent {partner} together, and succeeds without either"
                    ),
                    None => {
                        format!("{what}`{command}` {how} with its work, and succeeds without it")
                    }
                };
                report.fails_with = partner;
                report.outcome = TrainOutcome::Rejected;
                report.error = Some(rejected(report.short_id.as_deref(), &check, &why));
                report.reason = Some(why);
                report.check = Some(check);
                report.conflicts.clear();
                self.verdict = Some("reject");
            }
        }
        self.plan = None;
    }

    /// Leaves it undecided.
    pub(super) fn leave(&mut self, target_is_red: bool) {
        self.plan = None;
        self.report.outcome = TrainOutcome::Undecided;
        self.report.conflicts.clear();
        let why = if target_is_red {
            "the checks fail on the target without any agent's work"
        } else {
            "no more checks may run (--max-runs)"
        };
        self.report.reason = Some(why.to_owned());
    }
}

/// The error of an agent with whose work a check fails.
fn rejected(short: Option<&str>, check: &FailedCheck, why: &str) -> Error {
    let (short, finding) = (short.unwrap_or_default(), check.finding().name());
    Error::new(
        Code::NotAccepted,
        format!("the checks reject agent {short}, so its work does not land"),
    )
    .detail(format!("  {finding} {why}"))
    .facts(ErrorFacts { findings: vec![finding], ..ErrorFacts::default() })
    .hint(format!("to see how to mend it, run git agent verify {short}"))
}

fn reason(error: &Error) -> String {
    let details = error.details().join("\n");
    if details.is_empty() {
        error.message().to_owned()
    } else {
        format!("{}\n{details}", error.message())
    }
}

// In which order agents land: the one that lets most of them land.

/// Brings judged agents into the order in which they land. Only git objects of what was judged are compared. One that does
/// not land comes after the others.
///
/// # Errors
/// Those of finding the order.
pub(super) fn bring_into_order(ctx: &Ctx, order: Order, items: &mut Vec<Rider>) -> Result<()> {
    if order == Order::Spawned {
        return Ok(());
    }
    let plans = items.iter().filter_map(|item| item.plan.as_ref());
    let works = plans.map(|plan| judged_work(ctx, plan));
    let order = overlap::order_of(ctx, works.collect::<Result<_>>()?)?;
    let mut places: Vec<_> = order.iter().enumerate().map(|(place, work)| (*work, place)).collect();
    // As the agents stand now.
    places.sort_unstable();
    let mut places = places.into_iter().map(|(_, place)| place);
    let place = |item: &Rider| item.plan.as_ref().and_then(|_| places.next());
    let places: Vec<_> = items.iter().map(place).map(|place| place.unwrap_or(usize::MAX)).collect();
    let mut placed: Vec<_> = places.into_iter().zip(items.drain(..)).collect();
    placed.sort_unstable_by_key(|(place, _)| *place);
    items.extend(placed.into_iter().map(|(_, item)| item));
    let lengths = lengths(ctx, items)?.into_iter();
    let mut lengthy: Vec<_> = lengths.zip(items.drain(..)).collect();
    // The sort is stable: agents of the same length stay in the order that was found above.
    lengthy.sort_by_key(|(length, _)| *length);
    items.extend(lengthy.into_iter().map(|(_, item)| item));
    Ok(())
}

/// How long the check commands take that not every agent has, in powers of two of a second, so that agents change places only where it
/// matters. Those whose checks take longer are stacked later: a search in the lower part of a red stack then does not run them. Uber's
/// SubmitQueue lets small changes overtake large ones for the same reason.
fn lengths(ctx: &Ctx, items: &[Rider]) -> Result<Vec<u32>> {
    let mut commands: Vec<Option<Vec<String>>> = Vec::new();
    for item in items {
        commands.push(match &item.plan {
            Some(plan) => {
                let policy = spawn_commit::if_here(&ctx.repo, &plan.agent)?;
                Some(policy.map(|policy| policy.checks).unwrap_or_default())
            }
            None => None,
        });
    }
    let all: Vec<&Vec<String>> = commands.iter().flatten().collect();
    // What all of them have runs once for the stack, and says nothing about one of them.
    let is_own = |command: &&String| !all.iter().all(|others| others.contains(command));
    let length = |commands: &Option<Vec<String>>| match commands {
        Some(commands) => {
            let time = known_time(ctx, commands.iter().filter(is_own));
            // Only how many binary digits the seconds have: times vary, and a small difference is
            // not to break the order.
            u64::BITS - time.as_secs().leading_zeros()
        }
        // One that does not land comes last.
        None => u32::MAX,
    };
    Ok(commands.iter().map(length).collect())
}

/// An agent's work as it was judged, whatever is in its worktree by now.
fn judged_work(ctx: &Ctx, plan: &MergePlan) -> Result<Work> {
    Ok(Work {
        policy: spawn_commit::if_here(&ctx.repo, &plan.agent)?,
        target: Some(plan.target.clone()),
        target_tip: Some(plan.base),
        tip: Some(plan.work.commit(&ctx.repo)?),
        place: None,
        agent: plan.agent.clone(),
    })
}
