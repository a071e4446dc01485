//! What `git agent run` is about: an agent or a new task, and what it is told besides that.

use crate::agents::who::assignment::PromptWish;
use crate::agents::who::persona::CharacterWish;
use crate::agents::{Ctx, who::lookup};
use crate::cli::input::args::one_of;
use crate::cli::input::typed_task::{StartArgs, TypedTaskArgs, is_task_text};
use crate::cli::out::ui::Ui;
use crate::cli::verbs::spawn::read_task;
use crate::domain::value::diagnostic::{Field, Located};
use crate::domain::work::task::parse_duration;
use crate::domain::{Agent, value::shell};
use crate::error::{Code, Error, Exit, IoContext, Result};
use crate::hosts::{self, Host};
use crate::ops::run::batch::Batch;
use crate::ops::run::output::OutputWish;
use crate::ops::run::{self, RunOptions, RunPlan, RunTarget};
use crate::ops::spawn;
use crate::wire::file::task_file::MAX_BYTES;
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Prompt and host")]
pub(super) struct CommissionArgs {
    /// Start this agent host; arguments after -- are added to its command line. Repeatable with --best-of
    #[arg(long, value_name = "HOST", value_parser = one_of(hosts::startable().map(Host::name), host))]
    pub host: Vec<&'static dyn Host>,
    /// Persona from the project's roster, or from that of --agent-manifest
    #[arg(long, value_name = "NAME")]
    agent_type: Option<String>,
    /// Roster file: agent-manifest.csv or config.toml
    #[arg(long, value_name = "PATH", requires = "agent_type")]
    agent_manifest: Option<PathBuf>,
    /// Built-in persona instead of the task's: secretary, server_admin or developer
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Text to add to the role's own, instead of the task's
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// File with context that may hold credentials, instead of the task's; @- is standard input
    #[arg(long, value_name = "@FILE")]
    briefing: Option<String>,
    /// File for the agent's answer, below the output directory
    #[arg(long, value_name = "FILE")]
    output: Option<String>,
    /// Overwrite the file if it exists
    #[arg(long)]
    allow_overwrite: bool,
    /// Model to ask the host for, instead of the task's
    #[arg(long)]
    model: Option<String>,
    /// Continue the last session of the agent's host, also after a time limit, a stop or a kill; -m gives it a new
    /// instruction
    #[arg(long, requires = "tasks")]
    pub resume: bool,
    /// Most that the session may cost, in US dollars, instead of the task's limit
    #[arg(long, value_name = "USD", requires = "host", value_parser = some_money)]
    max_cost: Option<f64>,
    /// Most turns of the agent, instead of the task's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_iterations: Option<u32>,
}

impl CommissionArgs {
    /// The options, with what was given here.
    ///
    /// # Errors
    /// `usage` for a briefing that is no file, `io`.
    pub(super) fn add_to(self, ctx: &Ctx, options: RunOptions) -> Result<RunOptions> {
        let briefing = self.briefing.as_deref().map(|from| briefing(ctx, from));
        Ok(RunOptions {
            host: self.host.first().copied(),
            resume: self.resume,
            prompt: PromptWish {
                character: CharacterWish {
                    manifest: self.agent_manifest,
                    agent_type: self.agent_type,
                    profile: self.profile,
                },
                briefing: briefing.transpose()?,
                system_prompt: self.system_prompt,
                model: self.model,
                max_iterations: self.max_iterations,
                max_cost: self.max_cost,
                most_cost: None,
            },
            output: OutputWish { file: self.output, allow_overwrite: self.allow_overwrite },
            ..options
        })
    }
}

/// Reads an amount that is more than nothing.
fn some_money(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(amount) if amount > 0.0 && f64::is_finite(amount) => Ok(amount),
        _ => Err("it takes an amount such as 2.50".to_owned()),
    }
}

fn briefing(ctx: &Ctx, from: &str) -> Result<String> {
    let Some(file) = from.strip_prefix('@') else {
        return Err(Error::new(
            Code::Usage,
            "a briefing is not given as a word of the command line, which every process can read",
        )
        .hint("write it into a file and pass --briefing @<file>"));
    };
    // One byte more tells that the file is larger.
    let limit = MAX_BYTES as u64 + 1;
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(limit).read_to_string(&mut text),
        _ => std::fs::File::open(ctx.absolute(Path::new(file)))
            .and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    read.at("could not read the briefing", file)?;
    if text.len() > MAX_BYTES {
        Err(Error::new(Code::Usage, "the briefing is larger than 1 MiB")
            .hint("keep what is long in a file and name that in the briefing"))
    } else {
        Ok(text)
    }
}

pub(in crate::cli) fn host(word: &str) -> Result<&'static dyn Host, String> {
    let names: Vec<_> = hosts::startable().map(Host::name).collect();
    let host = hosts::startable().find(|host| host.name() == word);
    host.ok_or_else(|| format!("`{word}` is none of {}", names.join(", ")))
}

// What a `run` is asked for.

/// The same command for one target or more.
pub(super) struct RunsAsked {
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

impl RunsAsked {
    /// The run for one of the targets.
    pub(super) fn plan(&self, ctx: &Ctx, name: &str) -> Result<RunPlan> {
        let target = self.target(ctx, name)?;
        let is_agent = matches!(target, RunTarget::Agent(_));
        run::plan(ctx, target, self.command.clone(), self.options.clone())
            .map_err(|error| if is_agent { self.with_quotes(ctx, error) } else { error })
    }

    /// Another run of an agent that was made of the only target.
    pub(super) fn plan_again(&self, ctx: &Ctx, agent: &Agent) -> Result<RunPlan> {
        let target = RunTarget::Agent(agent.id.to_string());
        run::plan(ctx, target, self.command.clone(), self.options.clone())
    }

    /// Beside an unknown agent, what to type where a task was meant.
    fn with_quotes(&self, ctx: &Ctx, error: Error) -> Error {
        if error.code() != Code::AgentUnknown {
            return error;
        }
        let text = as_meant(ctx, &self.targets);
        let words = if self.targets.len() > 1 { "several words" } else { "one word" };
        error.hint(format!("for a task of {words}, run git agent run {text} …"))
    }

    /// Refuses several words of which none names an agent or a task: the quotes were left out. Nothing is read, because a task on
    /// standard input can be read once.
    ///
    /// # Errors
    /// `agent-unknown`.
    pub(super) fn require_one_known(&self, ctx: &Ctx) -> Result<()> {
        let [first, _, ..] = self.targets.as_slice() else {
            return Ok(());
        };
        if self.targets.iter().any(|name| is_known(ctx, name)) {
            return Ok(());
        }
        let found = lookup::agent(ctx, &ctx.ledger(), first);
        found.map_err(|error| self.with_quotes(ctx, error)).map(|_| ())
    }

    /// The run for the first of the targets.
    pub(super) fn plan_first(&self, ctx: &Ctx) -> Result<RunPlan> {
        let name = self.targets.first();
        self.plan(ctx, name.ok_or_else(|| Error::bug("a run without a target"))?)
    }

    /// Shows what would be run.
    pub(super) fn outline(&self, ctx: &Ctx, ui: &mut Ui) -> Result<Exit> {
        for name in &self.targets {
            let outline = self.plan(ctx, name)?.outline(ctx)?;
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
                RunTarget::Task(task) => tasks.push(*task),
                RunTarget::Agent(_) => {
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
        for (number, task) in tasks.iter().cycle().take(count).enumerate() {
            let mut task = task.clone();
            // A name belongs to one agent.
            if let (Field::Given(name), round @ 1..) = (&mut task.name, number / tasks.len()) {
                name.value = format!("{}-{}", name.value, round + 1);
            }
            batch.targets.push(Ok(RunTarget::Task(Box::new(task))));
            // Without hosts a command is run, and there is nothing to take turns.
            batch.hosts.extend(self.hosts.iter().cycle().nth(number / tasks.len()));
        }
        let names = self.targets.iter().cycle().take(count);
        self.targets = names.cloned().collect();
        Ok(batch)
    }

    /// A task file is a file, or is called like one; what holds white space and is no file is the text of a task.
    fn target(&self, ctx: &Ctx, text: &str) -> Result<RunTarget> {
        let mut target = self.unnamed(ctx, text)?;
        let RunTarget::Task(draft) = &mut target else {
            let name = self.name.as_ref().map(|_| "--name");
            return match name.or(self.start.given()) {
                None => Ok(target),
                Some(option) if !is_known(ctx, text) => {
                    let what =
                        format!("{option} is for an agent that is made, and {text} is no task");
                    let word = shell::word(text.as_bytes());
                    Err(Error::new(Code::Usage, what)
                        .hint(format!("for a task of one word, run git agent run -m {word} …")))
                }
                Some(option) => {
                    let what = format!("{option} is for an agent that is made, and {text} is one");
                    Err(Error::new(Code::Usage, what))
                }
            };
        };
        if let Some(name) = &self.name {
            // Said of the option, not of a line of the task.
            spawn::parse_name(name, spawn::BY_OPTION)?;
            let value = name.clone();
            draft.name = Field::Given(Located::unplaced(value));
        }
        Ok(target)
    }

    fn unnamed(&self, ctx: &Ctx, text: &str) -> Result<RunTarget> {
        // A message is the text of the task even if it is one word, or called like a file.
        if self.typed.message().is_some() || is_task_text(ctx, text) {
            return Ok(RunTarget::Task(Box::new(self.typed.draft(ctx, text)?)));
        }
        self.typed.require_unused(text)?;
        let path = Path::new(text);
        // A file that is called like an agent is not meant, unless its directory is named, too.
        let is_agent = || !text.contains('/') && lookup::agent(ctx, &ctx.ledger(), text).is_ok();
        let is_task = is_called_like_a_task(text) || ctx.absolute(path).is_file() && !is_agent();
        if !is_task {
            return Ok(RunTarget::Agent(text.to_owned()));
        }
        self.start.require_no_issue()?;
        Ok(RunTarget::Task(Box::new(read_task(ctx, path, &[])?)))
    }
}

/// Whether it names a task or an agent, or could mean more than one agent.
fn is_known(ctx: &Ctx, name: &str) -> bool {
    let is_unknown = |error: Error| error.code() == Code::AgentUnknown;
    is_task_text(ctx, name)
        || is_called_like_a_task(name)
        || ctx.absolute(Path::new(name)).is_file()
        || !lookup::agent(ctx, &ctx.ledger(), name).is_err_and(is_unknown)
}

/// Whether it means a task file, or standard input, whatever there is.
fn is_called_like_a_task(name: &str) -> bool {
    name == "-" || name.ends_with(".toml")
}

/// The targets as they are to be typed: words that name no agent are the text of a task.
pub(super) fn as_meant(ctx: &Ctx, targets: &[String]) -> String {
    match targets {
        [] => "'<task>'".to_owned(),
        [word] if !is_known(ctx, word) => format!("-m {}", shell::word(word.as_bytes())),
        several if !several.iter().any(|name| is_known(ctx, name)) => {
            shell::word(several.join(" ").as_bytes())
        }
        known => shell::line(known),
    }
}

/// Reads a time that is more than none.
pub(super) fn some_time(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err("a command needs more time than none".to_owned()),
        limit => Ok(limit),
    }
}
