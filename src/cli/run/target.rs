//! What a `run` is asked for.

use crate::agents::ctx::Ctx;
use crate::cli::spawn::read_task;
use crate::cli::typed_task::{StartArgs, TypedTaskArgs, is_task_text};
use crate::cli::ui::Ui;
use crate::domain::diagnostic::{Field, Located};
use crate::domain::id::AgentName;
use crate::domain::task::parse_duration;
use crate::error::{Code, Error, Exit, Result};
use crate::hosts::Host;
use crate::ops::run;
use crate::ops::run::batch::Batch;
use crate::ops::run::{RunOptions, RunPlan, Target};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The same command for one target or more.
pub(super) struct Asked {
    pub targets: Vec<String>,
    /// The name of the agent that is made.
    pub name: Option<String>,
    /// Where that agent starts.
    pub start: StartArgs,
    /// What was said of a task that is typed.
    pub typed: TypedTaskArgs,
    pub command: Vec<OsString>,
    pub options: RunOptions,
    /// The agent hosts; several take turns.
    pub hosts: Vec<&'static dyn Host>,
}

impl Asked {
    /// The run for one of the targets.
    pub(super) fn plan(&self, ctx: &Ctx, name: &str) -> Result<RunPlan> {
        let target = self.target(ctx, name)?;
        run::plan(ctx, target, self.command.clone(), self.options.clone())
    }

    /// Shows what would be run.
    pub(super) fn outline(&self, ctx: &Ctx, ui: &mut Ui) -> Result<Exit> {
        for name in &self.targets {
            let outline = self.plan(ctx, name)?.outline();
            outline.warnings.iter().for_each(|text| ui.warn(text));
            ui.answer(&outline)?;
        }
        Ok(Exit::Yes)
    }

    /// The runs for all of them.
    pub(super) fn batch(&self, ctx: &Ctx, jobs: usize) -> Batch {
        let targets = self.targets.iter().map(|name| self.target(ctx, name));
        Batch {
            targets: targets.collect(),
            command: self.command.clone(),
            options: self.options.clone(),
            hosts: Vec::new(),
            jobs,
        }
    }

    /// So many runs of these tasks. Tasks take turns, and so do hosts after each round of the tasks.
    ///
    /// # Errors
    /// `usage` for an agent in the place of a task; those of reading a task.
    pub(super) fn tournament(&mut self, ctx: &Ctx, jobs: usize, count: usize) -> Result<Batch> {
        let mut tasks = Vec::new();
        for name in &self.targets {
            match self.target(ctx, name)? {
                Target::Task(task) => tasks.push(*task),
                Target::Agent(_) => {
                    let message = format!("--best-of takes tasks, and {name} is no task file");
                    return Err(Error::new(Code::Usage, message));
                }
            }
        }
        let mut batch = Batch {
            targets: Vec::new(),
            command: self.command.clone(),
            options: self.options.clone(),
            hosts: Vec::new(),
            jobs,
        };
        for number in 0..count {
            let mut task = tasks[number % tasks.len()].clone();
            // A name belongs to one agent.
            if let (Field::Given(name), round @ 1..) = (&mut task.name, number / tasks.len()) {
                name.value = format!("{}-{}", name.value, round + 1);
            }
            batch.targets.push(Ok(Target::Task(Box::new(task))));
            // Without hosts a command is run, and there is nothing to take turns.
            let host = (number / tasks.len()).checked_rem(self.hosts.len());
            batch.hosts.extend(host.map(|at| self.hosts[at]));
        }
        let names = self.targets.iter().cycle().take(count);
        self.targets = names.cloned().collect();
        Ok(batch)
    }

    /// A task file is a file, or is called like one; what holds white space and is no file is the text of a task.
    fn target(&self, ctx: &Ctx, text: &str) -> Result<Target> {
        let mut target = self.unnamed(ctx, text)?;
        let Target::Task(draft) = &mut target else {
            let name = self.name.as_ref().map(|_| "--name");
            return match name.or(self.start.given()) {
                None => Ok(target),
                Some(option) => {
                    let what = format!("{option} is for an agent that is made, and {text} is one");
                    Err(Error::new(Code::Usage, what))
                }
            };
        };
        if let Some(name) = &self.name {
            // Said of the option, not of a line of the task.
            AgentName::parse(name).map_err(|rule| {
                let what = format!("`{name}` cannot be an agent's name: {rule}");
                Error::new(Code::Usage, what)
            })?;
            let value = name.clone();
            draft.name = Field::Given(Located::unplaced(value));
        }
        Ok(target)
    }

    fn unnamed(&self, ctx: &Ctx, text: &str) -> Result<Target> {
        // A message is the text of the task even if it is one word, or called like a file.
        if self.typed.message().is_some() || is_task_text(ctx, text) {
            return Ok(Target::Task(Box::new(self.typed.draft(ctx, text)?)));
        }
        self.typed.require_unused(text)?;
        let path = Path::new(text);
        let is_task = text == "-" || text.ends_with(".toml") || ctx.absolute(path).is_file();
        if !is_task {
            return Ok(Target::Agent(text.to_owned()));
        }
        self.start.require_no_issue()?;
        Ok(Target::Task(Box::new(read_task(ctx, path)?)))
    }
}

/// Reads a time that is more than none.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a command needs more time than none".to_owned()),
        limit => Ok(limit),
    }
}
