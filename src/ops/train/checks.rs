//! Running checks on trees: a few at the same time, each worker in a worktree of its own that it keeps from one run to the
//! next, so that builds take up where the last one ended.

use crate::agents::check_worktree::{CheckStage, CheckWorktree, run_checks};
use crate::agents::ctx::{Ctx, Seed};
use crate::domain::evidence::{CommandEnd, CommandRun};
use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::ops::train::memory::{Memory, Question};
use crate::ops::train::report::{FailedCheck, FlakyReport, RunReason, TrainRun};
use crate::ops::train::{TrainNews, TrainOptions};
use crate::store::{fsx, layout, lock};
use std::collections::BTreeMap;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// How many check worktrees of trains there may be in one clone.
const PLACES: usize = 99;

/// The checks of one train.
pub(super) struct Checks<'scope, 'env> {
    options: CheckOptions,
    max_runs: Option<usize>,
    is_rehearsal: bool,
    memory: Memory,
    seed: Seed,
    scope: &'scope Scope<'scope, 'env>,
    /// One for each job, from its first check on.
    workers: Vec<Sender<CheckTask>>,
    failures: BTreeMap<Question, FailedCheck>,
    done: Done,
}

/// How commands are run.
#[derive(Clone, Copy)]
struct CheckOptions {
    limit: Duration,
    keep_going: bool,
}

/// What was checked.
#[derive(Default)]
pub(super) struct Done {
    pub runs: Vec<TrainRun>,
    pub flaky: Vec<FlakyReport>,
    pub run: usize,
    pub known: usize,
}

/// A stack that is to be checked.
pub(super) struct Stacked {
    pub lands_on: String,
    pub commit: Oid,
    pub tree: Oid,
    pub agents: Vec<String>,
    pub commands: Vec<String>,
}

/// One run, for a worker.
struct CheckTask {
    number: usize,
    commit: Oid,
    commands: Vec<String>,
    answer: Sender<(usize, Duration, Result<Vec<CommandRun>>)>,
}

impl<'scope, 'env> Checks<'scope, 'env> {
    pub(super) fn new(
        ctx: &Ctx,
        options: &TrainOptions,
        scope: &'scope Scope<'scope, 'env>,
    ) -> Checks<'scope, 'env> {
        Checks {
            options: CheckOptions {
                limit: options.limit,
                keep_going: options.keep_going,
            },
            max_runs: options.max_runs,
            is_rehearsal: options.dry_run,
            memory: Memory::open(ctx),
            seed: ctx.seed(),
            scope,
            workers: Vec::new(),
            failures: BTreeMap::new(),
            done: Done::default(),
        }
    }

    pub(super) fn finish(self) -> Done {
        self.done
    }

    /// The command that failed on a stack when it was last checked.
    pub(super) fn failure(&self, stack: &Stacked) -> Option<FailedCheck> {
        let question = self.memory.question(stack.tree, &stack.commands);
        self.failures.get(&question).cloned()
    }

    /// Whether each stack is green; `None` where that would take more runs than there may be.
    ///
    /// # Errors
    /// What keeps a check from running: those of making a worktree and of starting a command.
    pub(super) fn ask(
        &mut self,
        stacks: &[Stacked],
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) -> Result<Option<Vec<bool>>> {
        let reasons: Vec<RunReason> = stacks.iter().map(|stack| self.reason(stack)).collect();
        let is_run = |reason: &RunReason| matches!(reason, RunReason::NeverRun | RunReason::WasRed);
        let wanted = reasons.iter().filter(|reason| is_run(reason)).count();
        if self
            .max_runs
            .is_some_and(|most| self.done.run + wanted > most)
        {
            return Ok(None);
        }
        // All at the same time; the answers come in any order.
        let (sender, answers) = mpsc::channel();
        let mut worker = 0;
        for (number, stack) in stacks.iter().enumerate() {
            if is_run(&reasons[number]) {
                let task = CheckTask {
                    number,
                    commit: stack.commit,
                    commands: stack.commands.clone(),
                    answer: sender.clone(),
                };
                tell(&TrainNews::CheckStarted {
                    lands_on: &stack.lands_on,
                    tree: &stack.tree.to_hex(),
                    stack: &stack.agents,
                    why: reasons[number],
                });
                // A worker that is gone sends no answer, which is noticed below.
                let _ = self.worker(worker).send(task);
                worker += 1;
            }
        }
        drop(sender);
        let mut green: Vec<Option<bool>> = reasons.iter().map(|_| Some(true)).collect();
        for (number, reason) in reasons.iter().enumerate() {
            if is_run(reason) {
                green[number] = None;
            } else {
                self.note_known(&stacks[number], *reason, tell);
            }
        }
        for (number, taken, answer) in answers {
            let (stack, reason) = (&stacks[number], reasons[number]);
            green[number] = Some(self.note_run(stack, reason, taken, &answer?, tell));
        }
        let whole: Option<Vec<bool>> = green.into_iter().collect();
        whole
            .map(Some)
            .ok_or_else(|| Error::bug("a check has no answer"))
    }

    fn reason(&self, stack: &Stacked) -> RunReason {
        let question = self.memory.question(stack.tree, &stack.commands);
        let known = self.memory.recall(&question);
        match known {
            _ if stack.commands.is_empty() => RunReason::NoCommands,
            Some(true) => RunReason::KnownGreen,
            _ if self.is_rehearsal => RunReason::DryRun,
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
        self.note(stack, why, green, None, Duration::ZERO, tell);
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
        let failed = { runs.iter() }.find(|run| run.end != CommandEnd::Status(0));
        let is_green = failed.is_none();
        let question = self.memory.question(stack.tree, &stack.commands);
        if is_green && why == RunReason::WasRed {
            let earlier = self.failures.get(&question);
            let flaky = FlakyReport {
                tree: stack.tree.to_hex(),
                stack: stack.agents.clone(),
                command: earlier.map(|check| check.command.clone()),
            };
            tell(&TrainNews::Flaky(&flaky));
            self.done.flaky.push(flaky);
        }
        if let Some(failed) = failed {
            let report = report_of(failed, runs, stack.tree);
            self.failures.insert(question.clone(), report);
        }
        self.memory.keep(question, is_green);
        let command = failed.map(|failed| failed.command.clone());
        self.note(stack, why, Some(is_green), command, taken, tell);
        is_green
    }

    fn note(
        &mut self,
        stack: &Stacked,
        why: RunReason,
        green: Option<bool>,
        failed: Option<String>,
        taken: Duration,
        tell: &mut dyn FnMut(&TrainNews<'_>),
    ) {
        let run = TrainRun {
            lands_on: stack.lands_on.clone(),
            tree: stack.tree.to_hex(),
            stack: stack.agents.clone(),
            commands: stack.commands.clone(),
            green,
            why,
            failed,
            duration_ms: u64::try_from(taken.as_millis()).unwrap_or(u64::MAX),
        };
        tell(&TrainNews::CheckEnded(&run));
        self.done.runs.push(run);
    }

    fn worker(&mut self, number: usize) -> &Sender<CheckTask> {
        while self.workers.len() <= number {
            let (sender, tasks) = mpsc::channel();
            let (seed, options) = (self.seed.clone(), self.options);
            self.scope.spawn(move || work(&seed, options, &tasks));
            self.workers.push(sender);
        }
        &self.workers[number]
    }
}

/// What the answer says of a failure: with the output of every command that failed, where several did.
fn report_of(failed: &CommandRun, runs: &[CommandRun], tree: Oid) -> FailedCheck {
    let (exit_code, timed_out) = match failed.end {
        CommandEnd::Status(status) => (status, false),
        CommandEnd::TimedOut(_) => (124, true),
    };
    let all = { runs.iter() }.filter(|run| run.end != CommandEnd::Status(0));
    let outputs: Vec<&str> = all.map(|run| run.output.as_str()).collect();
    FailedCheck {
        command: failed.command.clone(),
        exit_code,
        timed_out,
        tree: tree.to_hex(),
        output: outputs.join("\n"),
    }
}

/// Runs checks until there are no more to come, in one worktree.
fn work(seed: &Seed, options: CheckOptions, tasks: &Receiver<CheckTask>) {
    let Ok(first) = tasks.recv() else {
        return;
    };
    let opened = seed.open().and_then(|ctx| {
        let place = claim(&ctx)?;
        Ok((ctx, place))
    });
    let (ctx, (_alone, name)) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            // The listener stays until it has every answer.
            let _ = { first.answer }.send((first.number, Duration::ZERO, Err(error)));
            return;
        }
    };
    let mut stage: Option<CheckStage<'_>> = None;
    let mut next = Some(first);
    while let Some(task) = next {
        let clock = Instant::now();
        let ran = prepared(&ctx, stage.take(), &name, task.commit).and_then(|ready| {
            let stage = stage.insert(ready);
            let CheckOptions { limit, keep_going } = options;
            run_checks(&ctx, &task.commands, stage.path(), limit, keep_going)
        });
        let _ = { task.answer }.send((task.number, clock.elapsed(), ran));
        next = tasks.recv().ok();
    }
}

/// The worktree with that commit: the one of the last run where there is one and it can be moved, else a new one.
fn prepared<'c>(
    ctx: &'c Ctx,
    stage: Option<CheckStage<'c>>,
    name: &str,
    commit: Oid,
) -> Result<CheckStage<'c>> {
    if let Some(stage) = stage
        && stage.move_to(commit).is_ok()
    {
        return Ok(stage);
    }
    CheckStage::build(ctx, CheckWorktree::of(ctx, name)?, commit)
}

/// A place for check worktrees that no other train uses, and the lock that keeps it.
fn claim(ctx: &Ctx) -> Result<(lock::Guard, String)> {
    let common = ctx.repo.common_dir();
    for number in 1..=PLACES {
        let name = layout::train_place(number);
        fsx::create_dir(&layout::agents_dir(common).join(&name))?;
        match lock::hold_for(common, &layout::verify_lock(&name), Duration::ZERO) {
            Err(error) if error.code() == Code::LockTimeout => {}
            held => return Ok((held?, name)),
        }
    }
    Err(Error::new(
        Code::LockTimeout,
        format!("{PLACES} checks of trains run in this clone already"),
    ))
}
