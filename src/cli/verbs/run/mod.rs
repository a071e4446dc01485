//! `git agent run`, and the hidden verbs by which this program starts itself for it: `supervise` goes on
//! without the caller, `supervisor` watches over the command, `launch` and `fenced` become it.

pub(in crate::cli) mod answer;
mod batch;
mod claimed;
pub(in crate::cli) mod inputs;
pub(in crate::cli) mod supervisor;

use crate::agents::who::assignment::PromptWish;
use crate::agents::{Ctx, upkeep::half_made};
use crate::cli::input::args::{LayeredArg, SyncArg, at_least_one, one_of, require_one_input};
use crate::cli::input::typed_task::{StartArgs, TypedTaskArgs, is_task_text};
use crate::cli::out::render::table::{cut, wrapped};
use crate::cli::out::terminal::{is_terminal, width};
use crate::cli::out::ui::{Format, Ui};
use crate::cli::verbs::run::inputs::{RunsAsked, some_time};
use crate::cli::verbs::spawn::proposed_host;
use crate::domain::life::sandbox::Mode;
use crate::domain::value::shell;
use crate::error::{Code, Error, Exit, Result};
use crate::hosts::Host;
use crate::hosts::output::{Pieces, Shown};
use crate::ops::run::output::OutputWish;
use crate::ops::run::{self, Echo, RunOptions, RunReport, RunTarget};
use crate::ops::spawn::{self, SpawnOptions};
use inputs::CommissionArgs;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Run a command for an agent in its worktree, wait for it, record it and judge the work
#[derive(Debug, clap::Args)]
#[command(after_help = PLACEHOLDERS)]
pub(in crate::cli) struct RunArgs {
    /// Texts of tasks, in quotes; task files, `-` for standard input; or agents: id, name, branch or worktree
    #[arg(
        id = "tasks",
        required_unless_present_any = ["message", "pr", "issue"],
        value_name = "TASK|AGENT"
    )]
    targets: Vec<String>,
    /// Name that the agent gets, shown beside its id
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    start: StartArgs,
    #[command(flatten)]
    mode: ExecutionMode,
    /// How long the command may take; without it the task's own limit, else 5m for a command and none for a host
    #[arg(long, value_name = "DURATION", value_parser = some_time)]
    timeout: Option<Duration>,
    /// How strictly the sandbox confines the command
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(Mode::ALL.map(Mode::as_str), Mode::read))]
    sandbox: Mode,
    /// Let the command also write this file, or this directory and everything below it; repeatable
    #[arg(long, value_name = "PATH")]
    allow_write: Vec<PathBuf>,
    /// Let the command push with your credentials; without this, every push is refused
    #[arg(long)]
    allow_push: bool,
    /// Do not judge the work when the command succeeded
    #[arg(long)]
    no_verify: bool,
    /// After accepted work, go on with an agent of the next role, which `[pipeline] handoff` of the role names, and the
    /// same command
    #[arg(long, conflicts_with_all = ["background", "jobs", "best_of", "no_verify", "claim"])]
    pipeline: bool,
    #[command(flatten)]
    layered: LayeredArg,
    /// Show what would be run and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
    /// Work on the task only if no other clone does or has done it; KEY names the task on the remote of --sync
    #[arg(long, value_name = "KEY", requires = "sync", conflicts_with_all = ["background", "jobs", "best_of", "no_verify", "dry_run"])]
    claim: Option<String>,
    #[command(flatten)]
    sync: SyncArg,
    #[command(flatten)]
    inputs: CommissionArgs,
    // After the options above, because its heading of the help counts for all that follow.
    #[command(flatten)]
    typed: TypedTaskArgs,
    /// Command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl RunArgs {
    /// Refuses to begin without a command and without a host.
    fn require_worker(&self, ctx: &Ctx) -> Result<()> {
        if !self.command.is_empty() || !self.inputs.host.is_empty() || self.inputs.resume {
            return Ok(());
        }
        let what = "neither a host nor a command is named to do the task";
        // A command typed without `--` reads as more tasks; single words alone read as the text of one.
        let is_agent = |word: &String| ctx.ledger().find(word).is_ok();
        let is_task = |word: &String| word.contains(char::is_whitespace) || is_agent(word);
        let is_other = |word: &String| is_task(word) || ctx.absolute(Path::new(word)).exists();
        let (targets, command) = match self.targets.split_at_checked(1) {
            Some((first, rest))
                if first.iter().all(is_task)
                    && rest.first().is_some_and(|word| !is_other(word)) =>
            {
                (first, shell::line(rest))
            }
            _ => (&*self.targets, "<command>".to_owned()),
        };
        let task = inputs::as_meant(ctx, targets);
        let host = proposed_host(ctx);
        Err(Error::new(Code::Usage, what)
            .hint(format!("for an agent host, run git agent run {task} --host {host}"))
            .hint(format!("for a command, run git agent run {task} -- {command}")))
    }

    fn read(self, ctx: &Ctx) -> Result<RunsAsked> {
        let (made, texts) = self.start.read(ctx)?;
        let options = RunOptions {
            limit: self.timeout,
            sandbox: self.sandbox,
            allow_write: self.allow_write,
            allow_push: self.allow_push,
            no_verify: self.no_verify,
            // What is not committed does not travel.
            commit: self.sync.remote().is_some(),
            background: self.mode.background,
            made: SpawnOptions { layered: self.layered.layered, ..made },
            no_wait: self.mode.no_wait,
            ..RunOptions::default()
        };
        let hosts = self.inputs.host.clone();
        if hosts.len() > 1 && self.mode.best_of().is_none() {
            let what = "several hosts are given, and one agent has one";
            return Err(Error::new(Code::Usage, what)
                .hint("to let several hosts do one task, add --best-of <n>"));
        }
        require_one_input(self.targets.iter().map(AsRef::as_ref))?;
        let (mut targets, mut typed) = (self.targets, self.typed);
        let mut message = None;
        if self.inputs.resume {
            // What the session is told, and no task.
            message = typed.message();
            typed.message.clear();
        } else {
            typed.require_no_message_beside(&targets)?;
            targets.extend(typed.message());
            let is_message = typed.message().is_some();
            let typed_ones =
                targets.iter_mut().filter(|text| is_message || is_task_text(ctx, text));
            typed_ones.for_each(|text| *text = texts.task(Some(text)));
            if targets.is_empty() {
                targets.push(texts.task(None));
            }
        }
        if targets.len() > 1 && self.name.is_some() {
            let what = "--name names one agent, but several tasks are given";
            return Err(Error::new(Code::Usage, what)
                .hint("to name each agent, set `name` in its task file"));
        }
        Ok(RunsAsked {
            targets,
            name: self.name,
            start: self.start,
            typed,
            options: RunOptions { message, ..self.inputs.add_to(ctx, options)? },
            hosts,
            command: self.command,
        })
    }
}

const PLACEHOLDERS: &str = "\
In the command, {prompt}, {prompt_file}, {model}, {max_iterations}, {worktree}, {id} and {session} are replaced by \
their values. The prompt is on standard input unless {prompt} or {prompt_file} is used.";

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: RunArgs) -> Result<Exit> {
    args.require_worker(ctx)?;
    let quiet = args.mode.quiet;
    // Before anything runs: a slip in the name would be found when the work is done.
    args.sync.require_remote(ctx)?;
    if args.dry_run {
        return args.read(ctx)?.outline(ctx, ui);
    }
    if quiet {
        ui.be_quiet();
    }
    // A program that asks for JSON reads the answer, also where a person is to be shown nothing.
    let quiet = quiet && ui.format() == Format::Text;
    if let Some(key) = args.claim.clone() {
        return claimed::run(ctx, ui, args, &key);
    }
    match args.mode.way(&args.targets)? {
        RunWay::Together { jobs } => {
            // A board shows what becomes of each.
            ui.be_quiet();
            let sync = args.sync.clone();
            let best_of = args.mode.best_of();
            let asked = args.read(ctx)?;
            asked.require_one_known(ctx)?;
            let exit = batch::run(ctx, ui, asked, (jobs, best_of), quiet)?;
            return Ok(sync.after_run(ctx, ui, exit));
        }
        RunWay::Background => return supervisor::start(ctx, ui, quiet),
        RunWay::Plain => {}
    }
    let sync = args.sync.clone();
    let is_pipeline = args.pipeline;
    let asked = args.read(ctx)?;
    let mut report = start(ctx, &asked, echo(ui, quiet)?)?;
    let mut exit = Exit::Child(report.exit_status());
    if is_pipeline {
        // What is over stays told: the report of the runs until then follows the error.
        if let Err(error) = hand_on(ctx, ui, &asked, &mut report, quiet) {
            exit = ui.fail(&error);
        } else if let Some(last) = report.handoffs.last() {
            exit = Exit::Child(last.exit_status());
        }
    }
    // People have been told of each as it ended.
    if report.handoffs.is_empty() || ui.format() != Format::Text {
        show(ui, &report, quiet)?;
    }
    Ok(sync.after_run(ctx, ui, exit))
}

/// Lets one agent after the other take over, as long as the last one was accepted and its role hands on.
fn hand_on(
    ctx: &Ctx,
    ui: &mut Ui,
    asked: &RunsAsked,
    first: &mut RunReport,
    quiet: bool,
) -> Result<()> {
    loop {
        let last = first.handoffs.last().unwrap_or(first);
        let is_over = last.is_accepted() && !last.waiting;
        let draft = if is_over { spawn::handed_on(ctx, &last.agent_id)? } else { None };
        let Some((draft, start)) = draft else {
            return Ok(());
        };
        if first.handoffs.is_empty() && ui.format() == Format::Text {
            show(ui, first, quiet)?;
        }
        // What was asked of the first agent alone does not go with it.
        let options = RunOptions {
            made: SpawnOptions {
                layered: asked.options.made.layered,
                start,
                ..SpawnOptions::default()
            },
            resume: false,
            prompt: PromptWish::default(),
            output: OutputWish::default(),
            ..asked.options.clone()
        };
        let target = RunTarget::Task(Box::new(draft));
        let plan = run::plan(ctx, target, asked.command.clone(), options)?;
        let echo = on_terminal(echo(ui, quiet)?, plan.host());
        let report = run::execute(ctx, plan, echo)?;
        if ui.format() == Format::Text {
            show(ui, &report, quiet)?;
        }
        first.handoffs.push(report);
    }
}

/// Where the command's output goes: standard output belongs to the command, or to the machine that reads the report.
pub(in crate::cli) fn echo(ui: &Ui, quiet: bool) -> Result<Echo<'static>> {
    if ui.format() == Format::Text && !quiet { ui.echo() } else { Ok(Echo::default()) }
}

/// On a terminal a person is shown what a host does; where a program reads, it gets what the host writes.
pub(in crate::cli) fn on_terminal<'a>(
    mut echo: Echo<'a>,
    host: Option<&'static dyn Host>,
) -> Echo<'a> {
    if let Some(host) = host.filter(|_| is_terminal()) {
        let view =
            |out| -> Box<dyn Write + Send> { Box::new(SessionView::new(host, out, width())) };
        echo.out = echo.out.take().map(view);
    }
    echo
}

/// Tells people how a run ended, or answers a machine.
pub(in crate::cli) fn show(ui: &mut Ui, report: &RunReport, quiet: bool) -> Result<()> {
    let spoken = ui.format() == Format::Text;
    if spoken && !quiet {
        report.warnings.iter().for_each(|text| ui.warn(text));
        ui.tell(report);
    } else if !spoken {
        ui.answer(report)?;
    }
    Ok(())
}

fn one(ctx: &Ctx, args: RunArgs, echo: Echo<'_>) -> Result<RunReport> {
    start(ctx, &args.read(ctx)?, echo)
}

fn start(ctx: &Ctx, asked: &RunsAsked, echo: Echo<'_>) -> Result<RunReport> {
    let plan = asked.plan_first(ctx)?;
    // After the plan, so that a slip of the caller changes nothing.
    half_made::sweep(ctx)?;
    let echo = on_terminal(echo, plan.host());
    run::execute(ctx, plan, echo)
}

// The options of `git agent run` that say how the caller takes part.

/// How many run at the same time by default.
const JOBS: usize = 4;

/// How the caller takes part in a run.
#[derive(Debug, clap::Args)]
struct ExecutionMode {
    /// Return once the command has started; use wait, show --output and stop afterwards
    #[arg(long, short, conflicts_with = "jobs")]
    background: bool,
    /// Fail with status 3 instead of waiting when a limit of the clone is reached
    #[arg(long)]
    no_wait: bool,
    /// How many to run at the same time when there are several
    #[arg(long, short, value_name = "N", value_parser = at_least_one)]
    jobs: Option<usize>,
    /// Let N agents do the task and name the best one, ready to land; several tasks and hosts take turns
    #[arg(long, value_name = "N", conflicts_with_all = ["background", "no_verify"], value_parser = clap::value_parser!(u16).range(2..=64))]
    best_of: Option<u16>,
    /// Show neither the command's output nor the report
    #[arg(long, short)]
    quiet: bool,
}

/// What that comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunWay {
    /// One run, which the caller watches.
    Plain,
    /// One run, which goes on without the caller.
    Background,
    /// Several.
    Together {
        /// So many at the same time.
        jobs: usize,
    },
}

impl ExecutionMode {
    /// How many agents compete.
    fn best_of(&self) -> Option<usize> {
        self.best_of.map(usize::from)
    }

    /// For these targets.
    fn way(&self, targets: &[String]) -> Result<RunWay> {
        let several = targets.len() > 1 || self.best_of.is_some();
        match (self.background, self.jobs) {
            (true, _) if several => Err(Error::new(
                Code::Usage,
                "--background is for one run, and several are asked for",
            )
            .hint("to start several, run git agent run --background for each")),
            (true, _) => Ok(RunWay::Background),
            (false, Some(jobs)) => Ok(RunWay::Together { jobs }),
            (false, None) if several => Ok(RunWay::Together { jobs: JOBS }),
            (false, None) => Ok(RunWay::Plain),
        }
    }
}

// A host's session on a terminal: what the agent says and does, line by line, in the place of the JSON that the host writes.

/// A longer line is nothing that a person would read, and is not kept until it ends.
const LONGEST_LINE: usize = 4 << 20;

/// Takes what a host writes and shows it on a terminal of this width.
struct SessionView {
    to: Box<dyn Write + Send>,
    host: &'static dyn Host,
    width: usize,
    /// The beginning of a line whose end is still to come.
    line: Vec<u8>,
    pieces: Pieces,
}

impl SessionView {
    fn new(host: &'static dyn Host, to: Box<dyn Write + Send>, width: usize) -> Self {
        let line = Vec::new();
        SessionView { to, host, width, line, pieces: Pieces::default() }
    }

    fn show(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        if line.len() > LONGEST_LINE {
            return Ok(());
        }
        let line = String::from_utf8_lossy(&line);
        for shown in self.host.shown(line.trim_end()) {
            for whole in self.pieces.push(shown) {
                self.draw(whole)?;
            }
        }
        Ok(())
    }

    fn draw(&mut self, shown: Shown) -> io::Result<()> {
        let text = match shown {
            Shown::Said(words) | Shown::Piece(words) => wrapped(&words, 0, self.width),
            Shown::Did(what) => cut(&format!("  > {what}"), self.width),
        };
        self.to.write_all(format!("{text}\n").as_bytes())
    }
}

impl Write for SessionView {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            // It grows just beyond the limit, by which its end is known to be too long to be shown.
            if self.line.len() <= LONGEST_LINE {
                self.line.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.show()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for SessionView {
    fn drop(&mut self) {
        // What a host wrote last need not end its line.
        let _ = self.show();
        if let Some(rest) = self.pieces.rest() {
            let _ = self.draw(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Screen(Arc<Mutex<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("alive").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_come_in_pieces_are_shown_whole() {
        let host = crate::hosts::startable().next().expect("a host");
        let screen = Screen::default();
        let mut view = SessionView::new(host, Box::new(screen.clone()), 20);
        for piece in ["a te", "xt of several words\n\nlast ", "one"] {
            view.write_all(piece.as_bytes()).expect("written");
        }
        // Nothing of a line without measure is kept.
        drop(view);
        let text = String::from_utf8(screen.0.lock().expect("alive").clone()).expect("UTF-8");
        assert_eq!(text, "a text of several\nwords\n\nlast one\n");
    }
}
