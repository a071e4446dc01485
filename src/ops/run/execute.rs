//! The steps of a run.

use crate::agents::context::run_repo::RunRepo;
use crate::agents::life::admission::Admission;
use crate::agents::life::{admission, at_work, host_session, liveness};
use crate::agents::upkeep::spool::{Notice, has_unheard_answer, notify, post_spool_serving};
use crate::agents::upkeep::{crash_recovery, publish};
use crate::agents::{AgentWorktree, Ctx, CurrentAgent, place::worktree};
use crate::domain::life::event::Started;
use crate::domain::life::run::Outcome;
use crate::domain::{Agent, Ending, HostSession, Isolation, Move, Run, State, Verdict, What};
use crate::error::{Code, Error, IoContext, Result};
use crate::hosts;
use crate::ops::run::cost_watch::{CostWatch, SessionBudget};
use crate::ops::run::lead::Lead;
use crate::ops::run::report::{self, Ended, RunReport, StartReport};
use crate::ops::run::stage::Stage;
use crate::ops::run::{RunPlan, Worker, require_command};
use crate::ops::spawn::{self, SpawnReport};
use crate::ops::verify::{self, Recording, VerifyOptions};
use crate::ops::{commit, mail, mounted};
use crate::proc::capture::{Capture, capture};
use crate::proc::signals::Interrupts;
use crate::proc::supervisor::{self, SupervisedCommand};
use crate::proc::terminal::{self, Terminal};
use crate::store::files::lock::Guard;
use crate::store::mailbox::{Mailbox, reader, spool};
use crate::store::{files::layout, landing::spawn_commit};
use crate::wire::row::policy::Policy;
use crate::wire::row::request::SpooledRequest;
use serde_json::json;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the supervisor counts down from where there is no time limit: ten years.
const UNLIMITED: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What is done when a command has begun to work.
pub type Begun<'a> = Box<dyn FnOnce(&StartReport) + 'a>;

/// Who hears of a run while it goes on: where the command's streams are copied to as they come, and what is
/// done when it has begun.
#[derive(Default)]
pub struct Echo<'a> {
    /// Its standard output.
    pub out: Option<Box<dyn Write + Send>>,
    /// Its standard error.
    pub err: Option<Box<dyn Write + Send>>,
    /// Called once the command works and the ledger says so.
    pub begun: Option<Begun<'a>>,
}

/// Carries out a plan and waits for the end. The calling thread is the one that the command's life hangs on.
///
/// # Errors
/// `command-not-found`; those of [`spawn::execute`]; `run-active`, `agent-state`, and those of the ledger and the file system. A
/// command that fails is no error.
pub fn execute(ctx: &Ctx, mut plan: RunPlan, echo: Echo<'_>) -> Result<RunReport> {
    // Asked before an agent is made that nothing could then run for.
    require_command(ctx, &plan.inputs.command)?;
    // Before anything is made or locked: who waits keeps nothing from others, and leaves nothing when it is ended meanwhile. A person
    // who sits at a terminal does not wait.
    let may_begin = if plan.options.terminal {
        None
    } else {
        Some(admission::admit(ctx, &plan.limits, !plan.options.no_wait)?)
    };
    let (id, made) = match &plan.worker {
        Worker::Known(agent) => (agent.spawn_commit, None),
        Worker::New(spawn) => {
            let commit = spawn.commit.oid;
            (commit, Some(spawn::execute(ctx, (**spawn).clone())?))
        }
    };
    let agent = ctx.ledger().agent(id)?;
    let agent = agent.ok_or_else(|| Error::bug("an agent that was found or made has a row"))?;
    let ticket = may_begin.as_ref().and_then(Admission::ticket);
    let waited = reader::askers(ctx.repo.common_dir());
    let ended = work(ctx, &mut plan, &agent, (echo, ticket), made);
    let mut report = ended.map_err(|error| match &plan.worker {
        Worker::Known(_) => error,
        Worker::New(_) => {
            let id = agent.id.short();
            error.hint(format!("to start the agent that was made, run git agent run {id} -- …"))
        }
    })?;
    // Another run is not kept waiting by this one any more, and has its place.
    drop(may_begin);
    if !(ctx.env.fenced || plan.options.terminal) {
        let untold = go_on(ctx, &agent).unwrap_or_else(|error| Some(error.to_string()));
        report.warnings.extend(untold);
        // What answers from behind a fence begins no run: two agents that ask each other would never end.
        report.warnings.extend(mail::answered_since(ctx, &waited, Some(&agent)));
    }
    Ok(report)
}

/// Lets an agent go on that asked, and was answered after it could hear of it: who answered saw it at work, and woke it not. Asked
/// when the agent's lock is free again: who answers from now on sees that it sleeps. Gives what the caller should know.
fn go_on(ctx: &Ctx, agent: &Agent) -> Result<Option<String>> {
    let common_dir = ctx.repo.common_dir();
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    let asked = row.filter(|row| row.asked && row.state == State::Idle);
    let asked = asked.filter(|row| !at_work::waits_for_answer(common_dir, row));
    let Some(agent) = asked else { return Ok(None) };
    let ids = reader::answers(common_dir, &agent);
    let answers = Mailbox::new(&ctx.repo).messages(&ids)?;
    if answers.is_empty() {
        return Ok(None);
    }
    let may_wake = ids.iter().any(|id| reader::may_wake(common_dir, &agent, id));
    if !may_wake || !hosts::has_session(&agent) {
        return Ok(Some(mail::is_answered(&agent)));
    }
    let letters: Vec<_> = answers.values().map(|message| &message.letter).collect();
    let untold = mail::wake(ctx, &agent, &letters)?;
    Ok(untold.or_else(|| {
        let id = agent.id.short();
        Some(format!("agent {id} was answered as its run ended, and goes on in the background"))
    }))
}

fn work(
    ctx: &Ctx,
    plan: &mut RunPlan,
    agent: &Agent,
    (echo, ticket): (Echo<'_>, Option<&Path>),
    made: Option<SpawnReport>,
) -> Result<RunReport> {
    // One run at a time; the end of a crashed one is recorded first.
    // Held until the verdict is recorded, so that no other run begins on work that is about to be
    // judged.
    let lock = liveness::lock_after_landing(ctx, agent)?;
    let buried = crash_recovery::record_crashed_run_locked(ctx, agent, &lock)?;
    publish::catch_up_noted(ctx, agent)?;
    let row = ctx.ledger().agent(agent.spawn_commit)?;
    let agent = row.as_ref().unwrap_or(agent);
    // A run after a landing makes the agent live again, with its lock and its values.
    worktree::reopen(ctx, agent)?;
    ctx.reached("locked");
    // The place of the answer is taken before the fence is worked out, which opens it.
    if let Some(output) = &mut plan.inputs.output {
        output.enter_layer(ctx, agent.id)?;
        output.prepare()?;
        output.stage(ctx)?;
    }
    // Everything that the command needs.
    let stage = Stage::prepare(ctx, agent, plan)?;
    let run_repo = stage.enclosure.run_repo();
    let lead = Lead::of(ctx, agent, plan, run_repo)?;
    let postman = Postman::start(ctx, agent, run_repo, lead)?;
    // The command, from its start to its end.
    let ended = watch(ctx, plan, agent, &stage, (&lock, ticket), (echo, postman), made.as_ref());
    // After a failure between the set-up and the start the worktree must not lead to the run
    // repository any more.
    if let Some(run_repo) = stage.enclosure.run_repo().filter(|run_repo| run_repo.exists()) {
        // The command did not get as far as being started.
        publish::finish(ctx, agent, run_repo)?;
    }
    let ended = ended?;
    // What came of it: the answer file, then the verdict.
    let mut report = RunReport::new(ctx, agent, plan, &stage, &ended, made);
    report.warnings.extend(buried.map(|run| run.warnings).unwrap_or_default());
    let uncounted = plan.inputs.uncounted_cost(&ended.session);
    report.warnings.extend(uncounted);
    if let Some(output) = &mut plan.inputs.output {
        report.answered(output);
        output.release();
    }
    let policy = spawn_commit::of_agent(&ctx.repo, agent)?;
    if policy.as_ref().is_some_and(Policy::asks_for_a_report) {
        let file = report.output_file.clone().flatten();
        report::keep_answer(
            ctx,
            agent,
            &ended.told,
            &stage,
            file.as_deref().map(std::path::Path::new),
        )?;
    }
    if ended.outcome.is_success() && is_judged(plan, agent, policy.as_ref()) {
        if plan.options.commit && !ended.interrupted {
            let refused = commit_work(ctx, agent).err();
            report.warnings.extend(refused.map(|error| error.to_string()));
        }
        let verdict = if ended.interrupted {
            Err(Error::new(Code::AgentState, "a signal came when its command had ended"))
        } else if ended.sandbox.is_left_over {
            Err(Error::new(Code::GitFailed, "what the command committed was not taken over"))
        } else if agent.branch.is_some() && AgentWorktree::of(&ctx.repo, agent.id).is_none() {
            // Only what it committed could be judged, and the rest may be lost.
            Err(worktree::gone(agent))
        } else {
            judge(ctx, agent)
        };
        let unjudged = match &verdict {
            Err(error) => Some(error.to_string()),
            // Such a verdict is about no commit, so none was recorded.
            Ok(verdict) => verdict.unreadable().map(str::to_owned),
        };
        if let Some(reason) = unjudged {
            let untold = crash_recovery::tell_unjudged(ctx, agent, &reason).err();
            report.warnings.extend(untold.map(|error| error.to_string()));
        }
        report.judged(verdict);
    }
    liveness::owe_no_verdict(ctx.repo.common_dir(), agent, report.run);
    // What it said of itself, which is recorded by now.
    // The command may have declared `done` or `fail`, which counts more than its status.
    let now = ctx.ledger().agent(agent.spawn_commit)?;
    let had_failed = agent.state == State::Failed;
    let agent = now.as_ref().unwrap_or(agent);
    // What was said before a person looked into it is nothing new.
    if !(plan.options.terminal && had_failed) {
        report.declared(agent);
    }
    let waits = at_work::waits_for_answer(ctx.repo.common_dir(), agent);
    report.waiting = waits || agent.asked;
    let kept = liveness::keep_report(ctx.repo.common_dir(), agent, report.run, &json!(report));
    report.warnings.extend(kept.err().map(|error| error.to_string()));
    ctx.reached("verified");
    if !ctx.env.fenced {
        let state = if waits { State::Waiting } else { agent.state };
        notify(&ctx.repo, Notice::End, agent, state.as_str());
    }
    Ok(report)
}

/// Runs the command between its two events.
fn watch(
    ctx: &Ctx,
    plan: &RunPlan,
    agent: &Agent,
    stage: &Stage,
    (lock, ticket): (&Guard, Option<&Path>),
    (mut echo, postman): (Echo<'_>, Postman),
    made: Option<&SpawnReport>,
) -> Result<Ended> {
    let streams = Streams::open(plan, stage, &mut echo)?;
    let supervised = SupervisedCommand {
        program: ctx.env.require_program()?,
        command: &stage.command,
        directory: &stage.directory,
        variables: &stage.variables,
        without: &stage.without,
        input: stage.input.as_deref(),
        limit: plan.limit.unwrap_or(UNLIMITED),
        scratch: Some(stage.scratch.path()),
        ticket,
        bounds: plan.bounds,
        builds: stage.builds.as_ref(),
        slate: lock.file(),
        terminal: streams.terminal.is_some(),
        stdout: streams.stdout,
        stderr: streams.stderr,
    };
    let (host, model) = (plan.inputs.host, plan.inputs.task().model.as_deref());
    let price = host.map(|host| host_session::price(ctx, host, model));
    let price = price.transpose()?.flatten();
    let budget = host.zip(plan.inputs.task().max_cost).map(|(host, most)| SessionBudget {
        host,
        run: (stage.number, stage.description.clone()),
        price,
        most,
    });
    let cost = CostWatch::start(ctx, agent, &plan.limits, budget)?;
    ctx.reached("prepared");
    // What an earlier run noted in the file of the lock must not be taken for the end of this one.
    supervisor::blank(lock.file())?;
    // From here on a signal ends the command first, so that its end is recorded.
    let interrupts = Interrupts::hold()?;
    if plan.options.background {
        liveness::leave_uncollected(ctx.repo.common_dir(), agent, stage.number)?;
    }
    if !plan.options.no_verify {
        liveness::owe_verdict(ctx.repo.common_dir(), agent, stage.number)?;
    }
    // The event comes first, so that a killed supervisor leaves a run to complete.
    let run = started(ctx, plan, agent, stage)?;
    reader::forget_answers(ctx.repo.common_dir(), agent);
    // The message for a session that goes on answers what it asked.
    if plan.options.message.is_some() {
        reader::close(ctx.repo.common_dir(), agent);
    }
    ctx.reached("started");
    let (started, clock) = (ctx.now(), Instant::now());
    let outcome = supervisor::start(supervised, Some(&interrupts)).and_then(|supervisor| {
        ctx.reached("launched");
        if let Some(begun) = echo.begun {
            begun(&StartReport::new(ctx, agent, &run, made));
        }
        let attached = streams.terminal.map(Terminal::attach).transpose();
        // Where the terminal cannot be led to the command, the command ends with this process.
        attached.and_then(|_attached| supervisor.wait())
    });
    // What the command made becomes the agent's work. From here on nothing else publishes.
    let unsent = postman.finish(ctx, agent);
    let places = [&layout::runs_dir(ctx.repo.common_dir(), agent.id), stage.scratch.path()];
    let is_unheard = has_unheard_answer(ctx, agent, &places);
    let mut sandbox = stage.enclosure.take_down(ctx, agent, plan);
    if let Ok(sandbox) = &mut sandbox {
        sandbox.notes.extend(unsent);
    }
    ctx.reached("ended");
    // After the supervisor: nothing that holds the other ends of the pipes is left, so both end.
    let (out, err) = (streams.out.finish(), streams.err.finish());
    let run = (stage.number, stage.description.as_str());
    let told = host.map(|host| host_session::told(ctx.repo.common_dir(), agent, run, host));
    let told = told.unwrap_or_default();
    let mut session = host_session::session(ctx, agent, &told, price)?;
    // A host that is briefed keeps no session, so there is none to go on with.
    session.id = session.id.filter(|_| plan.inputs.task().briefing.is_none());
    // Without an answer of the supervisor it is unknown how the command ended, but the row gets an
    // end all the same.
    let lived = *outcome.as_ref().unwrap_or(&Outcome::LOST);
    let was_stopped = cost.is_some_and(|cost| cost.has_ended_it());
    let outcome_of_run = outcome_of(plan, lived, was_stopped, &session);
    let bytes = out.bytes + err.bytes;
    let of_row = session.clone();
    let end = (outcome_of_run, is_unheard);
    crash_recovery::exited(ctx, agent, stage.number, end, Some(bytes), of_row)?;
    ctx.reached("exited");
    // Only now: an error must not keep the end out of the row.
    outcome?;
    Ok(Ended {
        outcome: outcome_of_run,
        started,
        ended: ctx.now(),
        duration: clock.elapsed(),
        interrupted: interrupts.received().is_some(),
        out,
        err,
        sandbox: sandbox?,
        told,
        session,
    })
}

/// The command's streams: both go to a log and to the caller.
struct Streams {
    out: Capture,
    err: Capture,
    stdout: Stdio,
    stderr: Stdio,
    /// What both of the command's ends lead to, where a person works with it.
    terminal: Option<Terminal>,
}

impl Streams {
    fn open(plan: &RunPlan, stage: &Stage, echo: &mut Echo<'_>) -> Result<Streams> {
        let fail = |error| Error::io("could not make a pipe", error);
        // Logs outlive the run and are shown by other commands, so the credentials of a briefing are taken out
        // before a line is written.
        let redactor = plan.inputs.redactor();
        let (err_end, stderr) = std::io::pipe().map_err(fail)?;
        let err = capture(err_end, &stage.stderr, redactor.clone(), echo.err.take())?;
        if !plan.options.terminal {
            let (out_end, stdout) = std::io::pipe().map_err(fail)?;
            return Ok(Streams {
                out: capture(out_end, &stage.stdout, redactor, echo.out.take())?,
                err,
                stdout: stdout.into(),
                stderr: stderr.into(),
                terminal: None,
            });
        }
        let terminal = Terminal::new()?;
        let screen: Box<dyn Write + Send> = Box::new(terminal::screen()?);
        Ok(Streams {
            out: capture(terminal.output()?, &stage.stdout, redactor, Some(screen))?,
            err,
            stdout: terminal.inside()?.into(),
            stderr: terminal.inside()?.into(),
            terminal: Some(terminal),
        })
    }
}

/// How a run ended, by how its command did: the limit on costs has a status of its own.
fn outcome_of(plan: &RunPlan, lived: Outcome, was_stopped: bool, session: &HostSession) -> Outcome {
    let is_exit = lived.ending == Ending::Exit;
    let code = if plan.options.any_status && is_exit { 0 } else { lived.code };
    // A host that ends itself at the limit does so with a status of its own, a moment before we would have ended it.
    let most = plan.inputs.host.and(plan.inputs.task().max_cost);
    let is_overspent = session.cost_usd().zip(most).is_some_and(|(cost, most)| cost > most);
    if (was_stopped && lived.ending == Ending::Stopped) || (is_overspent && is_exit && code != 0) {
        return Outcome::LIMIT_COST;
    }
    Outcome { code, ..lived }
}

fn started(ctx: &Ctx, plan: &RunPlan, agent: &Agent, stage: &Stage) -> Result<Run> {
    let (ledger, began) = (ctx.ledger(), ctx.now());
    let started = Started {
        run: Some(stage.number),
        command: ctx.public_text(&stage.description, Some(&stage.directory))?,
        pid: std::process::id(),
        limit_ms: plan.limit.and_then(|limit| u64::try_from(limit.as_millis()).ok()),
        sandbox: Some(plan.enforcement.as_str().to_owned()),
        // A line of a row is short, and read by other programs.
        model: { plan.inputs.task().model.clone() }.filter(|model| HostSession::is_id(model)),
        by_hand: plan.options.terminal,
    };
    // An agent that may start others does so in its own name, wherever it is called.
    let starter = CurrentAgent::find(&ctx.env, &[&ctx.env.directory]);
    let by = match starter {
        Ok(Some(home)) if home.policy.may_spawn => home.agent.id.to_string(),
        _ => ctx.actor()?,
    };
    // Asked again under the lock of the ledger: the agent may have been decided about since the
    // plan.
    ledger.append_if(agent.spawn_commit, &by, began, |row| {
        row.unwrap_or(agent).may(Move::Start)?;
        Ok(What::Started(started.clone()))
    })?;
    Ok(Run { started, began, end: None, is_lost: false })
}

/// A shared agent has nothing to land, so there are only its bundle and its answer to judge.
fn is_judged(plan: &RunPlan, agent: &Agent, policy: Option<&Policy>) -> bool {
    if plan.options.no_verify || agent.isolation == Some(Isolation::Worktree) {
        return !plan.options.no_verify;
    }
    policy.is_some_and(|policy| policy.bundle_required || policy.asks_for_a_report())
}

/// Commits the agent's work. What is out of scope stops it, and the verdict names that.
fn commit_work(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if agent.isolation != Some(Isolation::Worktree) {
        return Ok(());
    }
    let summary = agent.description.as_deref().unwrap_or("what it changed");
    let id = agent.id.to_string();
    match commit::commit(ctx, &id, summary, false) {
        // With hooks, which look at files. The run is still ours, and nothing can begin in between.
        Err(error) if error.needs_mount_of().is_some() => mounted::commit(ctx, agent, summary),
        Err(error) if !matches!(error.code(), Code::NothingToLand | Code::OutOfScope) => Err(error),
        _ => Ok(()),
    }
}

fn judge(ctx: &Ctx, agent: &Agent) -> Result<Verdict> {
    let options = VerifyOptions {
        agent: Some(agent.id.to_string()),
        // The command is over: this is our verdict, wherever we were started.
        recording: Recording::Always,
        ..VerifyOptions::default()
    };
    verify::verify(ctx, &options)
}

// Sending what an agent leaves in its spool, and publishing what it commits, while it works.

/// How long a message lies in the spool at most. Looking into an empty directory costs microseconds.
const POST_ROUND: Duration = Duration::from_millis(100);

/// A thread that looks into the spool again and again.
struct Postman {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    /// Carries out what the agent asks for, where it may ask.
    lead: Option<Arc<Lead>>,
}

impl Drop for Postman {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A thread that panicked has posted nothing that it did not also remove.
        drop(self.thread.take().map(JoinHandle::join));
        // Only now does nothing come after what is ended here.
        self.lead.take().inspect(|lead| lead.finish());
    }
}

impl Postman {
    /// Begins to look.
    ///
    /// # Errors
    /// `io` when there can be no more threads.
    pub(super) fn start(
        ctx: &Ctx,
        agent: &Agent,
        run_repo: Option<&RunRepo>,
        lead: Option<Arc<Lead>>,
    ) -> Result<Postman> {
        let (stop, stopped) = mpsc::channel();
        let common = ctx.repo.common_dir().to_owned();
        let (seed, agent) = (ctx.seed(), agent.clone());
        let directory = layout::spool_dir(&common, agent.id);
        let run_repo = run_repo.cloned();
        let mut published = run_repo.as_ref().and_then(RunRepo::known_tip);
        let mut followed = run_repo.as_ref().map(RunRepo::followed);
        let serving = lead.clone();
        let rounds = move || {
            // The channel is closed to end the thread, which is noticed without waiting for the
            // round to end.
            while stopped.recv_timeout(POST_ROUND) == Err(RecvTimeoutError::Timeout) {
                if spool::is_waiting(&common, agent.id) {
                    // What cannot be posted now is tried again, in the end by `doctor`.
                    let take =
                        serving.as_ref().map(|lead| move |asked, name| lead.take(asked, name));
                    let serve = take.as_ref().map(|take| take as &dyn Fn(SpooledRequest, String));
                    drop(seed.open().and_then(|ctx| post_spool_serving(&ctx, &agent, serve)));
                }
                if let (Some(run_repo), Some(refs)) = (&run_repo, &mut followed) {
                    run_repo.follow(refs);
                }
                let tip = run_repo.as_ref().and_then(RunRepo::tip);
                if let (Some(run_repo), true) = (&run_repo, tip.is_some() && tip != published) {
                    // What cannot be published now is published at the end, or said to be in the way then.
                    drop(
                        seed.open()
                            .and_then(|ctx| publish::publish_meanwhile(&ctx, &agent, run_repo)),
                    );
                    published = tip;
                }
            }
        };
        let thread = std::thread::Builder::new().name("postman".into());
        let thread = thread.spawn(rounds).at("could not watch", directory)?;
        Ok(Postman { stop: Some(stop), thread: Some(thread), lead })
    }

    /// Ends, and posts what is left, with a sentence where that is too much. The agent has ended too, so nothing is added.
    pub(super) fn finish(self, ctx: &Ctx, agent: &Agent) -> Option<String> {
        drop(self);
        // Asked again after the last posting, which has a time limit of its own.
        let is_waiting = || spool::is_waiting(ctx.repo.common_dir(), agent.id);
        if is_waiting() {
            drop(post_spool_serving(ctx, agent, None));
        }
        is_waiting().then(|| {
            let what = "the command left more messages than could be sent, and the rest is kept";
            format!("{what}; to send more of them, run git agent doctor --fix")
        })
    }
}
