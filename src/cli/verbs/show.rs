//! `git agent show`, `log` and `path`

use crate::agents::Ctx;
use crate::cli::input::args::{OwnAgentArg, or_current};
use crate::cli::out::format::with_traces;
use crate::cli::out::render::table::{Cell, Table, cut, wrapped};
use crate::cli::out::render::{self, block, seconds, state_of_work, state_style, task, title};
use crate::cli::out::terminal::{BOLD, DIM, HINT, WARN, is_terminal, paint, width};
use crate::cli::out::ui::{Answer, AsJson, Format, Ui};
use crate::cli::verbs::runs;
use crate::cli::verbs::spawn::sparse;
use crate::domain::life::claim::Lease;
use crate::domain::mail::message::plain;
use crate::error::{Exit, Result};
use crate::ops::agent_report::EventReport;
use crate::ops::mail::{self, ConversationReport};
use crate::ops::show::{
    self, CostReport, DiffCountsReport, Invocation, LogReport, PathReport, ShowReport,
};
use crate::ops::status::{Fact, WorkStatus};
use serde_json::{Value, json};

/// What stands in the place of a policy that is not here.
const NOT_KNOWN: &str = "not known in this clone";

/// Where a line ends on wide terminals and where there is none.
const WIDEST: usize = 80;

/// `sha256:` and as many digits as tell it from others; `list --dna` takes a beginning.
const DNA_CHARS: usize = 7 + 13;

/// So many of the usual globs are listed; more hide what this agent has of its own.
const FEW: usize = 3;

/// Show one agent: its state, its scope and what happened to it; or a message and its conversation
#[derive(Debug, clap::Args)]
#[command(arg = with_traces())]
pub(in crate::cli) struct ShowArgs {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch, its worktree, or the commit that its work
    /// landed as; or MSG-…; without one, the agent whose worktree this is
    #[arg(value_name = "AGENT")]
    who: Option<String>,
    /// Print the call for a host's agent tool: type, description, prompt
    #[arg(long)]
    invocation: bool,
    /// Show the agent's events, oldest first
    #[arg(long, conflicts_with_all = ["invocation", "run", "stderr", "follow"])]
    log: bool,
    /// Print what the agent's last run wrote to its standard output
    #[arg(long, conflicts_with_all = ["invocation", "log"])]
    output: bool,
    #[command(flatten)]
    which: runs::OutputArgs,
}

/// Show what happened to an agent, oldest first
#[derive(Debug, clap::Args)]
#[command(arg = with_traces())]
pub(in crate::cli) struct LogArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
}

/// Print where an agent's worktree is
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PathArgs {
    #[command(flatten)]
    agent: OwnAgentArg,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &ShowArgs) -> Result<Exit> {
    let who = or_current(ctx, ui, args.who.as_deref())?;
    // These formats are of what happened, whether or not the option says so.
    if args.log || matches!(ui.format(), Format::AgentTrace | Format::Otlp) {
        return log_of(ctx, ui, &who);
    }
    if args.output || args.which.is_given() {
        return runs::print(ctx, ui, who, &args.which);
    }
    if args.invocation {
        ui.answer(&show::invocation(ctx, &who)?)?;
    } else if mail::is_id(&who) {
        ui.answer(&mail::show_message(ctx, &who)?)?;
    } else {
        let report = show::show(ctx, &who)?;
        ui.answer(&report)?;
        if ui.format() == Format::Text && is_terminal() {
            show::note_look(ctx, &report);
        }
    }
    Ok(Exit::Yes)
}

pub(in crate::cli) fn run_log(ctx: &Ctx, ui: &mut Ui, args: &LogArgs) -> Result<Exit> {
    let who = args.agent.or_current(ctx, ui)?;
    log_of(ctx, ui, &who)
}

fn log_of(ctx: &Ctx, ui: &mut Ui, who: &str) -> Result<Exit> {
    match ui.format() {
        Format::AgentTrace => ui.row(&show::agent_trace(ctx, who)?)?,
        Format::Otlp => ui.row(&show::otlp(ctx, who)?)?,
        _ => ui.answer(&show::log(ctx, who)?)?,
    }
    Ok(Exit::Yes)
}

pub(in crate::cli) fn run_path(ctx: &Ctx, ui: &mut Ui, args: &PathArgs) -> Result<Exit> {
    let report = show::path(ctx, &args.agent.or_current(ctx, ui)?)?;
    if report.layered {
        let id = &report.short_id;
        ui.warn(&format!(
            "the worktree is layered, so its files are not there; to see them, run git agent enter {id}, and to have them there, \
             git agent materialize {id}"
        ));
    }
    ui.done(&report)
}

impl Answer for ConversationReport {
    fn text(&self) -> String {
        let to = format!("To: {}\nSent", plain(&self.message.to.text()));
        let mut text = block(&self.message, &to);
        if self.thread.len() > 1 {
            text.push_str("\nConversation:\n");
            for message in &self.thread {
                let mark = if message.message_id == self.message.message_id { ">" } else { " " };
                text.push_str(&format!(
                    "{mark} {} {} {} -> {}: {}\n",
                    seconds(&message.created),
                    message.message_id,
                    plain(&message.sender()),
                    plain(&message.to.text()),
                    title(message),
                ));
            }
        }
        text
    }
}

impl Answer for ShowReport {
    fn text(&self) -> String {
        let agent = &self.agent;
        let list = |globs: &Option<Option<Vec<String>>>| match globs.as_ref()? {
            Some(globs) => Some(globs.join(" ")),
            None => Some(NOT_KNOWN.to_owned()),
        };
        let base = agent.base.as_ref().map(|base| match &base.refname {
            Some(name) => format!("{name} {}", &base.oid[..7]),
            None => base.oid.clone(),
        });
        let clone = (!agent.local).then(|| format!("{}, not this one", agent.clone_id));
        let lines = [
            ("Agent ID", Some(agent.agent_id.clone())),
            ("Name", agent.name.clone()),
            ("State", Some(paint(state_style(agent.state), &state_of_work(agent, &self.standing)))),
            ("Summary", agent.summary.clone()),
            ("Task", self.task.as_deref().map(lines_of).or_else(|| task(agent))),
            ("Role", agent.role.clone()),
            ("Parent", agent.parent_id.clone()),
            ("Changed", self.diff.and_then(changed)),
            ("Clone", clone),
            ("Branch", agent.branch.clone()),
            ("Worktree", agent.worktree_path.clone()),
            ("Sparse", self.sparse.as_ref().map(sparse)),
            ("Base", base),
            ("May touch", list(&self.whitelist)),
            (
                "Never",
                self.denylist.as_ref().map(|globs| match globs {
                    Some(globs) => never(globs, &self.opened),
                    None => NOT_KNOWN.to_owned(),
                }),
            ),
            ("Checks", checks(&self.checks)),
            ("Ahead", ahead(&self.standing)),
            ("Dirty", dirty(&self.standing)),
            ("Scope", scope(&self.standing)),
            ("Bundle", bundle(&self.standing)),
            ("Verdict", verdict(&self.standing)),
            ("Holds", Some(leases(&agent.leases))),
            ("Cost", cost(self.costs)),
            ("New", unseen(&self.events)),
            ("DNA", agent.dna.as_deref().map(|dna| cut(dna, DNA_CHARS))),
        ];
        let mut text = String::new();
        for (key, value) in lines {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let key = format!("{:10}", format!("{key}:"));
                let value = wrapped(&value, 11, width().min(WIDEST));
                text.push_str(&format!("{} {value}\n", paint(BOLD, &key)));
            }
        }
        for problem in &agent.irregular {
            text.push_str(&format!("{} {problem}\n", paint(WARN, "irregular:")));
        }
        if let Some(claimed) = agent.claimed_state {
            let short = &agent.short_id;
            let how = if claimed == "merged" {
                "if it landed elsewhere, git fetch brings the proof; to see who wrote the row, run git agent show --log"
            } else {
                "to remove it here as well, run git agent discard"
            };
            text.push_str(&format!("{} {how} {short}\n", paint(HINT, "hint:")));
        }
        if self.standing.worktree_gone.known() == Some(&true) {
            let how = match self.standing.tip.known() {
                Some(_) => format!(
                    "what was committed is in its branch; to make the worktree again, run git agent rescue {} --reopen",
                    agent.short_id
                ),
                None => {
                    "its branch is gone, too; to see what is left, run git agent doctor".to_owned()
                }
            };
            text.push_str(&format!("{} {how}\n", paint(HINT, "hint:")));
        }
        if let Some(operation) = seen_until(&self.events) {
            let how = "to see what changed since then, run git agent diff";
            let short = &agent.short_id;
            text.push_str(&format!("{} {how} {short} --since {operation}\n", paint(HINT, "hint:")));
        }
        if !self.last_output.is_empty() {
            text.push_str(&format!("\n{}\n", paint(BOLD, "Last output:")));
            for line in &self.last_output {
                text.push_str(&format!("  {}\n", cut(&plain(line), width().min(WIDEST) - 2)));
            }
        }
        text.push('\n');
        text.push_str(&history(&self.events, width().min(WIDEST)));
        text
    }
}

impl Answer for LogReport {
    fn text(&self) -> String {
        history(&self.events, width())
    }

    fn rows(&self) -> Vec<Value> {
        self.events.iter().map(|event| json!(event)).collect()
    }
}

impl Answer for Invocation {
    fn text(&self) -> String {
        format!("{:#}\n", self.json())
    }
}

impl Answer for PathReport {
    fn text(&self) -> String {
        format!("{}\n", self.worktree_abspath)
    }
}

/// A text of several lines, without what could move the cursor.
fn lines_of(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(plain).collect();
    lines.join("\n")
}

/// The check commands, each apart from the others; nothing where there are none.
fn checks(commands: &Option<Option<Vec<String>>>) -> Option<String> {
    let Some(commands) = commands.as_ref()? else {
        return Some(NOT_KNOWN.to_owned());
    };
    let commands: Vec<_> = commands.iter().map(|command| format!("`{}`", plain(command))).collect();
    Some(commands.join(", "))
}

/// `2 files, +10 -3`; nothing where nothing differs.
fn changed(counts: DiffCountsReport) -> Option<String> {
    let DiffCountsReport { files, insertions, deletions } = counts;
    let noun = if files == 1 { "file" } else { "files" };
    (files > 0).then(|| format!("{files} {noun}, +{insertions} -{deletions}"))
}

/// The globs that an agent must not touch. The defaults, which every agent has, are named as such.
pub(in crate::cli) fn never(globs: &[String], opened: &[String]) -> String {
    let defaults = show::default_denylist();
    let (usual, own): (Vec<_>, Vec<_>) = globs.iter().partition(|glob| defaults.contains(*glob));
    let mut parts: Vec<String> = own.into_iter().cloned().collect();
    parts.extend(match usual.len() {
        0 => None,
        1..=FEW => Some(usual.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ")),
        count => Some(format!("{count} usual globs (--format json lists them)")),
    });
    if !opened.is_empty() {
        parts.push(format!("except {}", opened.join(" ")));
    }
    parts.join(" ")
}

fn ahead(standing: &WorkStatus) -> Option<String> {
    let (ahead, behind) = (standing.ahead.known()?, standing.behind.known()?);
    Some(format!("{ahead} to land, {behind} behind"))
}

fn dirty(standing: &WorkStatus) -> Option<String> {
    counted(&standing.uncommitted, "nothing", "not committed")
}

fn scope(standing: &WorkStatus) -> Option<String> {
    counted(&standing.out_of_scope, "ok", "out of scope")
}

fn counted(fact: &Fact<usize>, none: &str, some: &str) -> Option<String> {
    Some(match fact {
        Fact::NotApplicable => return None,
        Fact::Unknown => "?".to_owned(),
        Fact::Known(0) => none.to_owned(),
        Fact::Known(1) => format!("1 path {some}"),
        Fact::Known(count) => format!("{count} paths {some}"),
    })
}

fn bundle(standing: &WorkStatus) -> Option<String> {
    let bundle = standing.bundle.known()?;
    Some(format!("{} of {} files", bundle.good, bundle.of))
}

fn verdict(standing: &WorkStatus) -> Option<String> {
    let verdict = standing.verdict_word.known().filter(|word| **word != "none")?;
    let codes = standing.findings.known();
    Some(match codes {
        Some(codes) => format!("{verdict}: {}", codes.join(", ")),
        None => (*verdict).to_owned(),
    })
}

/// `$1.20, and $3.40 of the agents that it asked for`
fn cost(costs: CostReport) -> Option<String> {
    let own = costs.cost_usd.map(|cost| format!("${cost:.2}"));
    let Some(below) = costs.children_cost_usd else {
        return own;
    };
    let own = own.unwrap_or_else(|| "$0.00".to_owned());
    Some(format!("{own}, and ${below:.2} of the agents that it asked for"))
}

/// How much of the history came after the last look of a person.
fn unseen(events: &[EventReport]) -> Option<String> {
    let count = events.iter().filter(|event| event.unseen).count();
    let rest = " since you last looked, marked * below";
    (count > 0).then(|| render::counted(count, "event", rest))
}

/// The last command whose events a person has seen, where work was committed or judged since.
fn seen_until(events: &[EventReport]) -> Option<&str> {
    let is_work = |event: &&EventReport| matches!(event.event.as_str(), "committed" | "exited");
    events.iter().find(|event| event.unseen && is_work(event))?;
    let seen = events.iter().rfind(|event| !event.unseen)?;
    seen.operation.as_deref()
}

fn history(events: &[EventReport], width: usize) -> String {
    let mut table = Table::new(vec!["TIME", "EVENT", "BY", "DETAIL"], width);
    for event in events {
        // Fractions of a second are for machines.
        let time = event.recorded_at.split('.').next().unwrap_or_default();
        table.push(vec![
            Cell::painted(DIM, format!("{time}Z")),
            Cell::plain(format!("{}{}", if event.unseen { "* " } else { "" }, event.event)),
            Cell::painted(DIM, event.by.clone()),
            Cell::plain(event.detail.clone().unwrap_or_default()),
        ]);
    }
    table.render()
}

/// `PORT=20123 DB=fix_login_1a2b3c4d`
fn leases(held: &[Lease]) -> String {
    let texts = held.iter().map(|one| format!("{}={}", one.variable, one.value));
    texts.collect::<Vec<_>>().join(" ")
}
