//! `git agent merge`

use crate::agents::Ctx;
use crate::cli::input::args::{OwnAgentArg, PushArg, SyncArg};
use crate::cli::out::render::{handle_of, hint_lines};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, WARN, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::State;
use crate::domain::judge::folded_paths::folded;
use crate::error::{Exit, Result};
use crate::ops::config::uncommitted_settings;
use crate::ops::merge::{self, LandingReport, LandingState, MergeOptions, Method};
use crate::ops::train::{self, AllReport, CloseReport, Fate, Order, TrainDecision, TrainOptions};
use crate::wire::output::path_text::PathText;
use serde_json::{Value, json};

/// Land an agent's work, exactly as it was judged
///
/// With --all, exits with 1 if an agent that is done was refused, or if nothing landed while an agent is unfinished
/// or failed.
///
/// pre-commit, commit-msg, pre-merge-commit and post-merge hooks do not run, because a hook could change what was judged;
/// [merge] hooks of the settings can have pre-commit and pre-merge-commit judge what lands. `git agent commit` runs
/// pre-commit and commit-msg as git does, the task's [checks] commands run on the merged tree, and reference-transaction,
/// pre-push and server-side hooks see the branch as usual.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct MergeArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
    /// Land every agent that is done, in the order they were spawned, as a train: see git agent help train
    #[arg(long, conflicts_with = "agent")]
    all: bool,
    /// Order of --all: as they were spawned, or so that most of them land
    #[arg(long, value_enum, default_value_t = OrderArg::Spawned, requires = "all", conflicts_with = "agent", value_name = "ORDER")]
    order: OrderArg,
    /// Make a merge commit; the default unless agent.merge says otherwise
    #[arg(long, group = "method")]
    no_ff: bool,
    /// Land as one commit without the branch's history
    #[arg(long, group = "method")]
    squash: bool,
    /// Fast-forward the branch, or refuse
    #[arg(long, group = "method")]
    ff_only: bool,
    /// Message of the landing commit; several make paragraphs, as in git commit
    #[arg(long, short = 'm', conflicts_with_all = ["all", "ff_only"], value_name = "TEXT",
        value_parser = clap::builder::NonEmptyStringValueParser::new())]
    message: Vec<String>,
    /// Land on this branch instead of the one the agent started from
    #[arg(long, value_name = "BRANCH")]
    into: Option<String>,
    /// Land the work as it is now, even if a process is at work in the agent; that process goes on
    #[arg(long)]
    now: bool,
    /// Do not run before_merge and after_merge of the repository's [hooks], nor the git hooks of [merge]
    #[arg(long)]
    no_hooks: bool,
    /// Judge and show what would land, and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
    #[command(flatten)]
    push: PushArg,
    #[command(flatten)]
    sync: SyncArg,
}

/// An order as the command line names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OrderArg {
    /// As they were spawned.
    Spawned,
    /// So that most of them land.
    Best,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: MergeArgs) -> Result<Exit> {
    if let Some(warning) = uncommitted_settings(ctx)? {
        ui.warn(&warning);
    }
    let exchanges = [args.push.after_landing(ctx, args.dry_run)?, args.sync.clone()];
    args.sync.require_remote(ctx)?;
    let options = MergeOptions {
        method: method(&args),
        into: args.into,
        push: args.push.remote(),
        base_at: None,
        is_fetched: false,
        now: args.now,
        no_hooks: args.no_hooks,
        message: (!args.message.is_empty()).then(|| args.message.join("\n\n")),
        leave_checks: false,
    };
    if args.all {
        let train = TrainOptions {
            method: options.method,
            into: options.into,
            push: options.push,
            order: match args.order {
                OrderArg::Spawned => Order::Spawned,
                OrderArg::Best => Order::Best,
            },
            dry_run: args.dry_run,
            now: args.now,
            no_hooks: args.no_hooks,
            ..super::train::usual()
        };
        return run_all(ctx, ui, &train, &exchanges);
    }
    let agent = args.agent.or_current(ctx, ui)?;
    let mut report = if args.dry_run {
        merge::plan(ctx, &agent, &options)?.report(ctx)
    } else {
        merge::land(ctx, &agent, &options)?
    };
    for sync in &exchanges {
        report.warnings.extend(sync.warnings(ctx, ui));
    }
    ui.answer(&report)?;
    for warning in &report.warnings {
        ui.warn(warning);
    }
    Ok(Exit::Yes)
}

/// Paths, folded where they are many.
fn listed(paths: &[PathText]) -> String {
    let paths: Vec<_> = paths.iter().map(PathText::to_bytes).collect();
    folded(&paths).join(", ")
}

fn run_all(ctx: &Ctx, ui: &mut Ui, options: &TrainOptions, exchanges: &[SyncArg]) -> Result<Exit> {
    let mut report = train::merge_all(ctx, options)?;
    for sync in exchanges {
        report.warnings.extend(sync.warnings(ctx, ui));
    }
    ui.answer(&report)?;
    report.warnings.iter().for_each(|text| ui.warn(text));
    Ok(Exit::answer(report.is_success()))
}

fn method(args: &MergeArgs) -> Option<Method> {
    [(args.no_ff, Method::NoFf), (args.squash, Method::Squash), (args.ff_only, Method::FfOnly)]
        .into_iter()
        .find_map(|(given, method)| given.then_some(method))
}

impl Answer for LandingReport {
    fn text(&self) -> String {
        let verb = match self.outcome {
            LandingState::Planned => paint(WARN, "would merge"),
            LandingState::AlreadyMerged => paint(GOOD, "had already merged"),
            LandingState::Merged => paint(GOOD, "merged"),
        };
        let into = self.target.short();
        let mut text = format!("{verb} {} into {into}", &self.agent_id[..8]);
        if let Some(remote) = &self.remote {
            text.push_str(&format!(" of {remote}"));
        }
        if let Some(commit) = &self.commit {
            text.push_str(&format!(" as {}", paint(BOLD, &commit[..7])));
        }
        // How it came there is not known of a landing by hand or by a forge.
        if self.outcome != LandingState::AlreadyMerged {
            text.push_str(&format!(" {}", paint(DIM, &format!("({})", self.method))));
        }
        text.push_str(&format!("\n  {}\n", self.subject));
        for (what, paths) in [
            ("commits first:", &self.uncommitted_paths),
            ("leaves out, as an editor made it:", &self.editor_files),
        ] {
            if !paths.is_empty() {
                text.push_str(&format!("  {what} {}\n", listed(paths)));
            }
        }
        for worktree in &self.worktrees {
            text.push_str(&format!("  moves along: {worktree}\n"));
        }
        if self.outcome != LandingState::Planned {
            let id = &self.short_id;
            text.push_str(&format!("to remove its worktree and branch: git agent discard {id}\n"));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        (self.outcome != LandingState::Planned)
            .then(|| format!("git agent show --log {}", self.agent_id))
    }
}

impl Answer for AllReport {
    fn text(&self) -> String {
        let close = self.close.as_ref();
        let mut text: String = if self.items.is_empty() {
            "(no agents)\n".to_owned()
        } else {
            // Who is not finished has a line of the close.
            let unfinished = close.map_or(&[][..], |close| &close.unfinished);
            let decided = self.items.iter().filter(|one| !unfinished.contains(&one.agent));
            decided.map(decision_text).collect()
        };
        text.extend(close.map(|close| close_text(close, &self.items)));
        text
    }

    fn to_see_it(&self) -> Option<String> {
        let mut agents = self.items.iter();
        let landed = agents.any(|one| one.outcome == Fate::Landed(LandingState::Merged));
        landed.then(|| "git agent list --all".to_owned())
    }

    fn rows(&self) -> Vec<Value> {
        let close = self.close.iter().map(|close| json!({ "close": close }));
        let agents = self.items.iter().map(|one| json!(one));
        agents.chain(close).collect()
    }
}

/// More agents than this are counted where they are not finished.
const NAMED: usize = 5;

fn close_text(close: &CloseReport, agents: &[TrainDecision]) -> String {
    let mut text = String::new();
    if !close.unfinished.is_empty() {
        let is_unfinished = |one: &&TrainDecision| close.unfinished.contains(&one.agent);
        let mut unfinished = agents.iter().filter(is_unfinished);
        let named: Vec<_> = unfinished.clone().take(NAMED).map(who).collect();
        let label = paint(WARN, "not finished:");
        text.push_str(&format!("{label} {}", named.join(", ")));
        if let Some(more @ 1..) = close.unfinished.len().checked_sub(NAMED) {
            text.push_str(&format!(" and {more} more"));
        }
        text.push('\n');
        let is_idle = |one: &TrainDecision| one.outcome == Fate::Left(State::Idle);
        if close.question.is_none() && unfinished.any(is_idle) {
            text.push_str("to end the work of one, run git agent mark done <agent>\n");
        }
    }
    if let Some(question) = &close.question {
        text.push_str(&format!("{}\n", paint(BOLD, question)));
    }
    for (number, way) in close.ways.iter().enumerate() {
        text.push_str(&format!("  {}. {}\n", number + 1, way.what));
        for command in &way.commands {
            text.push_str(&format!("     {}\n", paint(DIM, command)));
        }
    }
    text
}

/// An agent's id and name.
fn who(one: &TrainDecision) -> String {
    handle_of(&one.agent.short_id, one.agent.name.as_deref())
}

fn decision_text(one: &TrainDecision) -> String {
    let style = match one.outcome {
        Fate::Landed(LandingState::Merged | LandingState::AlreadyMerged) => GOOD,
        Fate::RejectBundle | Fate::NotMerged | Fate::Left(State::Rejected | State::Failed) => BAD,
        Fate::Landed(LandingState::Planned) | Fate::Deferred | Fate::Left(_) => WARN,
    };
    let verdict = paint(style, one.outcome.as_str());
    let mut text = format!("{} {verdict}", paint(BOLD, &who(one)));
    if let Some(commit) = &one.commit {
        text.push_str(&format!(" {}", &commit[..7]));
    }
    if let Some(reason) = &one.reason {
        text.push_str(&format!(" {}", reason.replace('\n', "\n  ")));
    }
    text.push('\n');
    text.extend(one.error.as_ref().map(hint_lines));
    text
}
