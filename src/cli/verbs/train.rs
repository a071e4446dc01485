//! `git agent train`

use crate::agents::Ctx;
use crate::cli::input::args::{PushArg, current, one_of};
use crate::cli::out::render::{handle_of, hint_lines};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, HINT, WARN, paint};
use crate::cli::out::ui::{Answer, AsJson, Format, Ui, error_object};
use crate::cli::verbs::run::inputs::host;
use crate::domain::branch_name;
use crate::domain::landing::train::Purpose;
use crate::domain::life::sandbox::Mode;
use crate::domain::work::task::parse_duration;
use crate::error::{Exit, Result};
use crate::hosts::{self, Host};
use crate::ops::config::uncommitted_settings;
use crate::ops::error_report::ErrorReport;
use crate::ops::merge::Method;
use crate::ops::run::Echo;
use crate::ops::solve::solve;
use crate::ops::train::{
    self, ItemReport, Order, RunReason, TrainNews, TrainOptions, TrainOutcome, TrainReport,
    TrainRun,
};
use crate::ops::verify::COMMAND_LIMIT;
use crate::wire::output::path_text::PathText;
use crate::wire::put;
use serde_json::{Value, json};
use std::time::Duration;

/// How many checks run at the same time at most unless the caller says otherwise.
const MOST_JOBS: usize = 4;

/// Land many agents with few check runs; the branch is green at every step
///
/// The agents are stacked in memory and the checks run on the last tree: those of [train] in the repository's settings
/// and those of every agent. If they succeed, all of it lands at once, one commit for each agent. If they fail, the
/// train finds the first agent with which they fail, lands those below it, rejects that agent, and goes on with the
/// others. An agent that conflicts with another waits until that one is decided.
///
/// Exits with 1 if a requested agent has not landed.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TrainArgs {
    /// Agents: ids or prefixes of 4 digits or more, names, branches or worktrees; without one, the agent whose worktree this
    /// is
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Every agent that is done and not deferred
    #[arg(long, conflicts_with = "agents")]
    all: bool,
    /// Land on this branch instead of the one that each agent started from
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    #[command(flatten)]
    push: PushArg,
    /// Land each as one commit without its branch's history
    #[arg(long)]
    squash: bool,
    /// How many checks run at the same time [default: the number of processors, at most 4]
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    /// Stop after this many check runs
    #[arg(long, value_name = "N")]
    max_runs: Option<usize>,
    /// How long one check command may take, such as 90s or 5m [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    /// Run the other check commands after one failed
    #[arg(long)]
    keep_going: bool,
    /// How strictly the sandbox confines the checks
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = one_of(Mode::ALL.map(Mode::as_str), Mode::read))]
    sandbox: Mode,
    /// Let this agent host resolve the conflicts that keep an agent from landing, and try that agent once more
    #[arg(long, value_name = "HOST", value_parser = one_of(hosts::startable().map(Host::name), host))]
    solve_conflicts: Option<&'static dyn Host>,
    /// Say why each check ran or did not
    #[arg(long)]
    explain: bool,
    /// Report progress on standard error even if it is not a terminal
    #[arg(long)]
    watch: bool,
    /// Land the work as it is now, even if a process is at work in the agent; that process goes on
    #[arg(long)]
    now: bool,
    /// Do not run the commands of [hooks] nor the git hooks of [merge]
    #[arg(long)]
    no_hooks: bool,
    /// Run the checks and report which work is good, but land nothing; pr --all --queue then hands the good work to a
    /// forge
    #[arg(long, conflicts_with_all = ["push", "dry_run"])]
    no_land: bool,
    /// Show the order and what would be checked, and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: TrainArgs) -> Result<Exit> {
    if let Some(warning) = uncommitted_settings(ctx)? {
        ui.warn(&warning);
    }
    let pushed = args.push.after_landing(ctx, args.dry_run)?;
    let usual = usual();
    let mut agents = args.agents;
    if agents.is_empty() && !args.all {
        agents.push(current(ctx, ui)?);
    }
    let options = TrainOptions {
        agents,
        into: args.into,
        push: args.push.remote(),
        method: args.squash.then_some(Method::Squash),
        jobs: args.jobs.map_or(usual.jobs, usize::from),
        max_runs: args.max_runs,
        limit: args.timeout.unwrap_or(usual.limit),
        keep_going: args.keep_going,
        sandbox: args.sandbox,
        dry_run: args.dry_run,
        no_land: args.no_land,
        now: args.now,
        no_hooks: args.no_hooks,
        ..usual
    };
    let is_told = args.watch || ui.format() == Format::Text && ui.is_watched();
    let is_streamed = ui.format() == Format::Ndjson;
    let mut hear = |news: &TrainNews<'_>| {
        if is_streamed {
            // If it cannot be written, the answer cannot either.
            let _ = ui.row(&json!(news));
        }
        if is_told {
            ui.say(&told(news));
        }
    };
    let mut report = train::train(ctx, &options, &mut hear)?;
    if let Some(host) = args.solve_conflicts.filter(|_| !args.dry_run) {
        let mut agents = Vec::new();
        for agent in report.conflicting() {
            match solve(ctx, &agent, host, args.now, Echo::default()) {
                Ok(_) => agents.push(agent),
                Err(error) => report.not_solved(&agent, &error),
            }
        }
        if !agents.is_empty() {
            // Only those whose conflicts are resolved ride again; nothing has changed for the
            // others.
            let again = TrainOptions { agents, ..options };
            report.take_over(train::train(ctx, &again, &mut hear)?);
        }
    }
    let exit = match report.misnamed() {
        Some(error) => error.code().exit(),
        None => Exit::answer(report.is_success()),
    };
    report.warnings = pushed.warnings(ctx, ui);
    let warnings = report.warnings.clone();
    ui.answer(&TrainAnswer { report, explain: args.explain })?;
    warnings.iter().for_each(|text| ui.warn(text));
    Ok(exit)
}

/// A train of all agents, as it is unless the caller says otherwise.
pub(in crate::cli) fn usual() -> TrainOptions {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    TrainOptions {
        agents: Vec::new(),
        into: None,
        push: None,
        method: None,
        order: Order::Best,
        jobs: processors.min(MOST_JOBS),
        max_runs: None,
        limit: COMMAND_LIMIT,
        keep_going: false,
        sandbox: Mode::Auto,
        dry_run: false,
        no_land: false,
        now: false,
        no_hooks: false,
    }
}

fn told(news: &TrainNews<'_>) -> String {
    match news {
        TrainNews::Stacked { .. } | TrainNews::Flaky(_) => String::new(),
        TrainNews::Conflict { agent, below, conflicts, lands_on } => {
            let what = match below {
                0 => branch_name(lands_on).to_owned(),
                below => format!("{} + {below}", branch_name(lands_on)),
            };
            let paths: Vec<_> = conflicts.iter().map(shown).collect();
            let paths = paths.join(", ");
            format!("{} conflicts with {what}: {paths}\n", agent.short_id)
        }
        TrainNews::CheckStarted { lands_on, stack, .. } => {
            format!("checking {} ...\n", stack_text(lands_on, stack))
        }
        TrainNews::CheckEnded(run) => format!("{}\n", run_line(run)),
        TrainNews::Landed { agents, lands_on, .. } => {
            format!("{} landed on {}\n", agents.len(), branch_name(lands_on))
        }
        TrainNews::Culprit { agent, .. } => format!("{} rejected\n", agent.short_id),
    }
}

fn shown(path: &PathText) -> String {
    String::from_utf8_lossy(&path.to_bytes()).into_owned()
}

/// The branch and what is stacked on it.
fn stack_text(lands_on: &str, stack: &[String]) -> String {
    let target = branch_name(lands_on);
    match stack {
        [] => target.to_owned(),
        [one] => format!("{target} + {}", &one[..8]),
        [.., last] => format!("{target} + {} up to {}", stack.len(), &last[..8]),
    }
}

/// One check in one line.
fn run_line(run: &TrainRun) -> String {
    let green = match run.green {
        Some(true) => paint(GOOD, "green"),
        Some(false) => paint(BAD, "red"),
        None => paint(WARN, "open"),
    };
    let stack = stack_text(&run.lands_on, &run.stack);
    let seconds = Duration::from_millis(run.duration_ms).as_secs_f32();
    let mut line = format!("{green} {stack} {}", paint(DIM, &format!("({seconds:.1} s)")));
    if let Some(command) = &run.failed {
        line.push_str(&format!(" {command}"));
    }
    line
}

fn why(run: &TrainRun) -> String {
    let needed = match run.purpose {
        Purpose::Whole => "to land all of it at once",
        Purpose::Search => "to find where the red stack turns red",
        Purpose::Aside => "to find a second culprit beside the first",
        Purpose::Again => "to make sure that the red answer was no accident",
        Purpose::Suspect => "to decide about one that a search aside suspects",
        Purpose::Target => {
            "to know whether the target is red without any agent's work, as nothing was green"
        }
        Purpose::Pair => "to know whether a culprit fails alone or together with another agent",
    };
    match run.why {
        RunReason::WasRed if run.purpose != Purpose::Again => {
            format!("ran {needed}; it failed before and may do better")
        }
        RunReason::NeverRun | RunReason::WasRed => format!("ran {needed}"),
        RunReason::KnownGreen => {
            "not run: known to succeed on this tree in this environment".to_owned()
        }
        RunReason::NoCommands => "not run: there are no check commands".to_owned(),
        RunReason::DryRun => format!("not run: would be checked {needed}"),
    }
}

/// The answer, with or without the reasons of each check in its text.
struct TrainAnswer {
    report: TrainReport,
    explain: bool,
}

impl AsJson for TrainAnswer {
    fn json(&self) -> Value {
        let mut value = json!(self.report);
        let items: Value = self.report.items.iter().map(item_json).collect();
        put(&mut value, "items", items);
        value
    }
}

impl Answer for TrainAnswer {
    fn text(&self) -> String {
        let report = &self.report;
        if report.items.is_empty() {
            return "(no agent is done; to end the work of one, run git agent mark done <agent>)\n"
                .to_owned();
        }
        let mut text: String = report.items.iter().map(item_text).collect();
        if self.explain {
            for run in &report.runs {
                text.push_str(&format!("{}\n  {}\n", run_line(run), paint(DIM, &why(run))));
            }
        }
        for flaky in &report.flaky {
            let command = flaky.command.as_deref().unwrap_or("a check");
            let label = paint(WARN, "flaky:");
            let tree = &flaky.tree[..7];
            text.push_str(&format!("{label} {command} failed and then succeeded on tree {tree}\n"));
        }
        for target in report.targets.iter().filter(|target| target.red) {
            let label = paint(BAD, "red:");
            let name = branch_name(&target.refname);
            text.push_str(&format!("{label} the checks fail on {name} without any agent's work\n"));
        }
        text.push_str(&summary(report));
        text
    }

    fn to_see_it(&self) -> Option<String> {
        let mut items = self.report.items.iter();
        let landed = items.any(|item| item.outcome == TrainOutcome::Landed);
        landed.then(|| "git agent list --all".to_owned())
    }

    fn rows(&self) -> Vec<Value> {
        let mut summary = json!(self.report);
        if let Some(summary) = summary.as_object_mut() {
            // Each item has a line of its own.
            summary.remove("items");
        }
        let items = self.report.items.iter().map(item_json).map(|item| named("agent", item));
        items.chain([named("done", summary)]).collect()
    }
}

/// A line of NDJSON that says what it is about.
fn named(event: &str, mut value: Value) -> Value {
    put(&mut value, "event", event);
    value
}

fn item_json(item: &ItemReport) -> Value {
    let mut value = json!(item);
    if let Some(error) = &item.error {
        put(&mut value, "error", error_object(error));
    }
    value
}

fn item_text(item: &ItemReport) -> String {
    let style = match item.outcome {
        TrainOutcome::Landed | TrainOutcome::AlreadyMerged | TrainOutcome::Accepted => GOOD,
        TrainOutcome::Rejected | TrainOutcome::Conflicts | TrainOutcome::Refused => BAD,
        TrainOutcome::Planned | TrainOutcome::Undecided => WARN,
    };
    let who = match &item.short_id {
        Some(short) => handle_of(short, item.name.as_deref()),
        None => item.target.clone(),
    };
    let outcome = paint(style, item.outcome.as_str());
    let mut text = format!("{} {outcome}", paint(BOLD, &who));
    if let Some(commit) = &item.commit {
        text.push_str(&format!(" {}", &commit[..7]));
    }
    if let Some(reason) = &item.reason {
        text.push_str(&format!(" {}", reason.replace('\n', "\n  ")));
    }
    text.push('\n');
    if item.outcome == TrainOutcome::Refused {
        text.extend(item.error.as_ref().map(|error| hint_lines(&ErrorReport::from(error))));
    }
    if let Some(check) = &item.check {
        for line in check.output.lines() {
            text.push_str(&format!("    {line}\n"));
        }
    }
    for warning in &item.warnings {
        text.push_str(&format!("  {} {warning}\n", paint(WARN, "warning:")));
    }
    text
}

fn summary(report: &TrainReport) -> String {
    let count = |is: fn(TrainOutcome) -> bool| {
        let items = report.items.iter();
        items.filter(|item| is(item.outcome)).count()
    };
    let landed = count(|one| matches!(one, TrainOutcome::Landed | TrainOutcome::AlreadyMerged));
    let planned = count(|one| one == TrainOutcome::Planned);
    let accepted = count(|one| one == TrainOutcome::Accepted);
    let left = report.items.len() - landed - planned - accepted;
    let (checks, again) = (report.checks_run, report.checks_again);
    let known = report.checks_known;
    if report.dry_run {
        return format!("would land at most {planned}, {left} not\n");
    }
    let sure = match again {
        0 => String::new(),
        again => format!(" ({again} of them to make sure)"),
    };
    let runs = format!("{checks} check runs{sure}, {known} known before");
    if accepted == 0 {
        return format!("{landed} landed, {left} not; {runs}\n");
    }
    let next = paint(HINT, "to hand them to the queue of the forge:");
    format!("{accepted} accepted, {left} not; {runs}\n{next} git agent pr --all --queue\n")
}
