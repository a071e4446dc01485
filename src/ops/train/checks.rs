//! Running checks on trees: a few at the same time, and none whose answer is known.

use crate::agents::checks::check_memory::{CheckMemory, Question};
use crate::agents::checks::check_run::{CheckRequest, CheckRoom};
use crate::agents::checks::check_worktree::{CheckSetup, CheckWorktree};
use crate::agents::context::ctx::Seed;
use crate::agents::{Ctx, life::admission, stock::commands};
use crate::domain::judge::evidence::CommandEnd;
use crate::domain::landing::train::Purpose;
use crate::domain::life::claim::WantedLease;
use crate::domain::life::event::Verified;
use crate::domain::life::sandbox::Mode;
use crate::domain::{
    AgentId, CommandRun, Enforcement, Oid, RepositorySettings, RequiredChecks, Slug,
};
use crate::error::{Code, Error, Result};
use crate::ops::train::report::{FailedCheck, FlakyReport, RunReason, TrainRun};
use crate::ops::train::{TrainNews, TrainOptions};
use crate::store::files::{fsx, layout, leases, lock};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// The checks of one train.
pub(super) struct Checks<'scope, 'env> {
    options: CheckOptions,
    max_runs: Option<usize>,
    is_rehearsal: bool,
    memory: CheckMemory,
    seed: Seed,
    scope: &'scope Scope<'scope, 'env>,
    /// One for each job, from its first check on.
    workers: Vec<Sender<CheckTask>>,
    failures: BTreeMap<Question, FailedCheck>,
    done: Done,
}

/// What was checked.
#[derive(Default)]
pub(super) struct Done {
    pub runs: Vec<TrainRun>,
    pub flaky: Vec<FlakyReport>,
    pub run: usize,
    pub again: usize,
    pub known: usize,
    /// What the fence around them was.
    pub sandbox: &'static str,
}

/// A stack that is to be checked.
pub(super) struct Stacked {
    pub lands_on: String,
    pub commit: Oid,
    pub tree: Oid,
    pub agents: Vec<String>,
    pub checks: RequiredChecks,
    pub purpose: Purpose,
}

/// How commands ran; nothing of it where none did.
#[derive(Default)]
struct Ran {
    /// The first that failed.
    failed: Option<String>,
    taken: Duration,
    is_layered: bool,
}

/// Checks that are under way.
pub(super) struct Round<'s> {
    stacks: &'s [Stacked],
    reasons: Vec<RunReason>,
    answers: Receiver<CheckAnswer>,
}

impl<'scope, 'env> Checks<'scope, 'env> {
    /// # Errors
    /// `sandbox-unavailable` when the caller insists on a fence and the kernel has none.
    pub(super) fn new(
        ctx: &Ctx,
        options: &TrainOptions,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Result<Checks<'scope, 'env>> {
        let enforcement = ctx.kernel()?.enforcement(options.sandbox)?;
        let memory = CheckMemory::open(ctx, &enforcement)?;
        Ok(Checks {
            done: Done { sandbox: enforcement.as_str(), ..Done::default() },
            options: CheckOptions {
                limit: options.limit,
                keep_going: options.keep_going,
                mode: options.sandbox,
                enforcement,
                leases: Vec::new(),
                setup: CheckSetup::default(),
                settings: None,
            },
            max_runs: options.max_runs,
            is_rehearsal: options.dry_run,
            memory,
            seed: ctx.seed(),
            scope,
            workers: Vec::new(),
            failures: BTreeMap::new(),
        })
    }

    /// Says what commands hold values of their own in, and what their worktrees are set up with, before the first of them runs: the
    /// settings of this commit.
    ///
    /// # Errors
    /// `settings-invalid`.
    pub(super) fn want(&mut self, ctx: &Ctx, settings: &RepositorySettings, at: Oid) -> Result<()> {
        let setup = CheckSetup::of(ctx, settings, at)?;
        // Each target has settings of its own, and the set-up of a check is that of its target.
        if self.options.leases != settings.leases || self.options.setup != setup {
            // Workers have what an earlier target asked for.
            self.workers.clear();
        }
        self.options.leases.clone_from(&settings.leases);
        self.memory.set_up_with(&setup);
        self.options.setup = setup;
        // Set-up commands may use the values that each worker has of its own.
        self.options.settings = settings.leases.is_empty().then_some(at);
        Ok(())
    }

    /// Remembers that the checks succeeded in a stack with this work.
    pub(super) fn keep_train_tree(&self, agent: AgentId, verdict: &Verified, tree: Oid) {
        let judged = [verdict.tree, verdict.base, verdict.policy];
        self.memory.keep_train_tree(agent, &judged, tree);
    }

    pub(super) fn finish(self) -> Done {
        self.done
    }

    /// The command that failed on a stack when it was last checked.
    pub(super) fn failure(&self, stack: &Stacked) -> Option<FailedCheck> {
        let question = self.memory.question(stack.tree, &stack.checks);
        self.failures.get(&question).cloned()
    }

    /// Starts the checks that are needed to know whether each stack is green; `None` where that would take more runs than
    /// there may be.
    pub(super) fn begin<'s>(
        &mut self,
        stacks: &'s [Stacked],
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) -> Option<Round<'s>> {
        let reasons: Vec<RunReason> = stacks.iter().map(|stack| self.reason(stack)).collect();
        let wanted = reasons.iter().filter(|reason| reason.is_run()).count();
        if self.max_runs.is_some_and(|most| self.done.run + wanted > most) {
            // Half a round decides nothing, so it is not begun at all.
            return None;
        }
        // All at the same time; the answers come in any order.
        let (sender, answers) = mpsc::channel();
        let mut worker = 0;
        for (number, (stack, reason)) in stacks.iter().zip(&reasons).enumerate() {
            if reason.is_run() {
                let task = CheckTask {
                    number,
                    commit: stack.commit,
                    checks: stack.checks.clone(),
                    answer: sender.clone(),
                };
                tell(&TrainNews::CheckStarted {
                    lands_on: &stack.lands_on,
                    tree: &stack.tree.to_hex(),
                    stack: &stack.agents,
                    purpose: stack.purpose,
                    why: *reason,
                });
                self.give(worker, task);
                worker += 1;
            }
        }
        Some(Round { stacks, reasons, answers })
    }

    /// Waits for the checks: whether each stack is green.
    ///
    /// # Errors
    /// What keeps a check from running: those of making a worktree and of starting a command.
    pub(super) fn end(
        &mut self,
        round: Round<'_>,
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) -> Result<Vec<bool>> {
        let Round { stacks, reasons, answers } = round;
        let mut asked = Vec::new();
        for (stack, reason) in stacks.iter().zip(reasons) {
            // In a rehearsal every check counts as green, to show how far the train could come.
            asked.push((stack, reason, (!reason.is_run()).then_some(true)));
            if !reason.is_run() {
                self.note_known(stack, reason, tell);
            }
        }
        for (number, taken, answer) in answers {
            if let Some((stack, reason, green)) = asked.get_mut(number) {
                *green = Some(self.note_run(stack, *reason, taken, &answer?, tell));
            }
        }
        let whole: Option<Vec<bool>> = asked.into_iter().map(|(.., green)| green).collect();
        whole.ok_or_else(|| Error::bug("a check has no answer"))
    }

    fn reason(&self, stack: &Stacked) -> RunReason {
        let question = self.memory.question(stack.tree, &stack.checks);
        let known = self.memory.recall(&question);
        match known {
            _ if stack.checks.commands.is_empty() => RunReason::NoCommands,
            Some(true) => RunReason::KnownGreen,
            _ if self.is_rehearsal => RunReason::DryRun,
            // A red answer is never taken from memory alone: the check may be flaky, and rejecting
            // needs it twice.
            Some(false) => RunReason::WasRed,
            None => RunReason::NeverRun,
        }
    }

    fn note_known(
        &mut self,
        stack: &Stacked,
        why: RunReason,
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) {
        let is_known = why == RunReason::KnownGreen;
        self.done.known += usize::from(is_known);
        let green = (why != RunReason::DryRun).then_some(true);
        self.note(stack, why, green, Ran::default(), tell);
    }

    fn note_run(
        &mut self,
        stack: &Stacked,
        why: RunReason,
        taken: Duration,
        runs: &[CommandRun],
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) -> bool {
        self.done.run += 1;
        self.done.again += usize::from(!stack.purpose.is_bounded());
        let failed = runs.iter().find(|run| !run.is_success());
        let is_green = failed.is_none();
        let question = self.memory.question(stack.tree, &stack.checks);
        // The same commands on the same tree gave two answers.
        if is_green && why == RunReason::WasRed {
            let earlier = self.failures.get(&question);
            let flaky = FlakyReport {
                tree: stack.tree.to_hex(),
                stack: stack.agents.clone(),
                command: earlier.map(|check| check.command.clone()),
            };
            if !self.done.flaky.contains(&flaky) {
                tell(&TrainNews::Flaky(&flaky));
                self.done.flaky.push(flaky);
            }
        }
        if let Some(failed) = failed {
            let report = report_of(failed, runs, stack.tree);
            self.failures.insert(question.clone(), report);
        }
        // How long a command took that failed says little about how long it takes.
        for run in runs.iter().filter(|run| run.is_success()) {
            self.memory.keep_time(&run.command, run.took);
        }
        self.memory.keep(question, is_green);
        let ran = Ran {
            failed: failed.map(|failed| failed.command.clone()),
            taken,
            is_layered: runs.iter().any(|run| run.is_layered),
        };
        self.note(stack, why, Some(is_green), ran, tell);
        is_green
    }

    fn note(
        &mut self,
        stack: &Stacked,
        why: RunReason,
        green: Option<bool>,
        ran: Ran,
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) {
        let run = TrainRun {
            lands_on: stack.lands_on.clone(),
            tree: stack.tree.to_hex(),
            stack: stack.agents.clone(),
            commands: stack.checks.commands.clone(),
            green,
            purpose: stack.purpose,
            why,
            failed: ran.failed,
            duration_ms: u64::try_from(ran.taken.as_millis()).unwrap_or(u64::MAX),
            layered: ran.is_layered,
        };
        tell(&TrainNews::CheckEnded(&run));
        self.done.runs.push(run);
    }

    /// Gives a task to the worker of this number. One that is gone sends no answer, which `end` notices.
    fn give(&mut self, number: usize, task: CheckTask) {
        while self.workers.len() <= number {
            let (sender, tasks) = mpsc::channel();
            let (seed, options) = (self.seed.clone(), self.options.clone());
            // A worker keeps its repository open, so one is made for each check that runs at a time
            // and no more.
            self.scope.spawn(move || work(&seed, &options, &tasks));
            self.workers.push(sender);
        }
        if let Some(worker) = self.workers.get(number) {
            let _ = worker.send(task);
        }
    }
}

/// What the answer says of a failure: with the output of every command that failed, where several did.
fn report_of(failed: &CommandRun, runs: &[CommandRun], tree: Oid) -> FailedCheck {
    let all = runs.iter().filter(|run| !run.is_success());
    let outputs: Vec<&str> = all.map(|run| run.output.as_str()).collect();
    FailedCheck {
        command: failed.command.clone(),
        // As `timeout` ends, which every shell script knows.
        exit_code: failed.end.status().unwrap_or(124),
        timed_out: matches!(failed.end, CommandEnd::TimedOut(_)),
        how: failed.end.to_string(),
        tree: tree.to_hex(),
        output: outputs.join("\n"),
        setup: failed.is_setup,
    }
}

// A worker of a train: it runs checks one after the other, each in a worktree of its own, so that no check decides how a later one ends.

/// How many check worktrees of trains there may be in one clone.
const PLACES: usize = 99;

/// How commands are run.
#[derive(Clone)]
struct CheckOptions {
    pub limit: Duration,
    pub keep_going: bool,
    pub mode: Mode,
    pub enforcement: Enforcement,
    /// What each worker holds values of its own in.
    pub leases: Vec<WantedLease>,
    /// What each worktree is set up with.
    pub setup: CheckSetup,
    /// The commit that says so; of it a base is made for all of them.
    pub settings: Option<Oid>,
}

/// What a worker says of a run: its number, how long it took, and how each command ended.
type CheckAnswer = (usize, Duration, Result<Vec<CommandRun>>);

/// One run, for a worker.
struct CheckTask {
    pub number: usize,
    pub commit: Oid,
    pub checks: RequiredChecks,
    pub answer: Sender<CheckAnswer>,
}

/// What a worker has for as long as it works: a place for its worktrees, and leases.
struct Station {
    name: String,
    variables: Vec<(Cow<'static, str>, OsString)>,
    common_dir: PathBuf,
    _alone: lock::Guard,
}

impl Station {
    fn enter(ctx: &Ctx, options: &CheckOptions) -> Result<Station> {
        let (alone, name) = claim(ctx)?;
        let common_dir = ctx.repo.common_dir().to_owned();
        // What a killed train held there.
        leases::free(&common_dir, &name)?;
        let held = leases::take(&common_dir, &name, &Slug::from_text("train"), &options.leases)?;
        Ok(Station { name, variables: commands::named(held), common_dir, _alone: alone })
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        // What cannot be given back now is when the place is used again.
        let _ = leases::free(&self.common_dir, &self.name);
    }
}

/// Runs checks until there are no more to come, each in a room of its own.
fn work(seed: &Seed, options: &CheckOptions, tasks: &Receiver<CheckTask>) {
    let Ok(first) = tasks.recv() else {
        return;
    };
    let opened = seed.open().and_then(|ctx| {
        let station = Station::enter(&ctx, options)?;
        Ok((ctx, station))
    });
    let (ctx, station) = match opened {
        Ok((ctx, station)) => {
            // The first worker makes it, and the others wait. Without one, each check sets up a worktree of its own.
            if let Some(commit) = options.settings
                && let Err(error) = options.setup.make_base(&ctx, commit)
            {
                tracing::debug!(%error, "no base for checks");
            }
            (ctx, station)
        }
        Err(error) => {
            // The listener stays until it has every answer.
            let _ = first.answer.send((first.number, Duration::ZERO, Err(error)));
            return;
        }
    };
    let mut next = Some(first);
    while let Some(task) = next {
        let clock = Instant::now();
        // In the same order as runs, before a worktree is made for it.
        let turn = admission::load(&ctx).and_then(|limits| admission::turn(&ctx, &limits, true));
        let place = turn.and_then(|turn| Ok((turn, CheckWorktree::of(&ctx, &station.name)?)));
        let opened = place.and_then(|(turn, place)| {
            let request = CheckRequest {
                for_commands: true,
                commit: task.commit,
                place: Some(place),
                setup: &options.setup,
                fence: (options.mode, &options.enforcement),
                variables: &station.variables,
            };
            Ok((turn, CheckRoom::open(&ctx, request)?))
        });
        let (room, ran) = match opened {
            Ok((_turn, mut room)) => {
                let ran = room.check(&task.checks, options.limit, options.keep_going);
                (Some(room), ran)
            }
            Err(error) => (None, Err(error)),
        };
        let _ = task.answer.send((task.number, clock.elapsed(), ran));
        // Its listener waits until every answer has come, and none that holds on to this can come.
        drop(task.answer);
        // The train goes on while the worktree is removed.
        drop(room);
        next = tasks.recv().ok();
    }
}

/// A place for check worktrees that no other train uses, and the lock that keeps it.
fn claim(ctx: &Ctx) -> Result<(lock::Guard, String)> {
    let common = ctx.repo.common_dir();
    for number in 1..=PLACES {
        let name = layout::train_place(number);
        fsx::create_dir(&layout::agents_dir(common).join(&name))?;
        match lock::hold_for(common, &layout::verify_lock(&name), Duration::ZERO) {
            Err(error) if error.code() == Code::LockTimeout => {}
            held => {
                let held = held?;
                // A place where a person works by now is passed over.
                if CheckWorktree::of(ctx, &name)?.is_free(&ctx.repo) {
                    return Ok((held, name));
                }
            }
        }
    }
    let what = format!("all {PLACES} places for checks of trains are taken");
    Err(Error::new(Code::LockTimeout, what))
}
