//! `git agent list` and `git agent tree`

use crate::agents::Ctx;
use crate::cli::input::args::{choices, one_of, states};
use crate::cli::out::render::table::{Cell, Table, age, cut};
use crate::cli::out::render::{
    BY_NEED, NO_AGENTS, handle, state, state_of_work, state_style, task,
};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, WARN, paint, width};
use crate::cli::out::ui::{Answer, AsJson, Format, Ui};
use crate::cli::verbs::{board, runs};
use crate::domain::State;
use crate::error::{Exit, Result};
use crate::ops::list::{self, CiReport, CiStates, ListOptions, ListReport, ListedAgent, Sort};
use crate::ops::status::{BundleCount, Fact, OverlapCount, WorkStatus};
use crate::ops::tree::{self, Node, TreeReport};
use crate::ops::usage::UsageReport;
use crate::ops::{pool, usage};
use globset::{Glob, GlobMatcher};
use serde_json::{Value, json};
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// List the agents whose work is neither discarded nor landed as a whole, oldest first, with its state
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListArgs {
    /// Also list agents that are landed or discarded
    #[arg(long, short)]
    all: bool,
    /// Only agents in this state
    #[arg(long, value_parser = states(), value_name = "STATE")]
    state: Option<State>,
    /// Only agents in this role
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Only agents whose DNA, the hash of role, task and scope, begins like this: earlier agents of the same task
    #[arg(long, value_name = "DNA")]
    dna: Option<String>,
    /// Only agents that this agent asked for
    #[arg(long, value_name = "AGENT")]
    parent: Option<String>,
    /// Only agents with a name that matches
    #[arg(long, value_parser = parse_glob, value_name = "GLOB")]
    name: Option<GlobMatcher>,
    /// Sort key; activity puts the latest first, cost the most expensive
    #[arg(long, value_parser = one_of(Sort::ALL.map(Sort::as_str), parse_sort), default_value = "age", hide_default_value = true, value_name = "KEY")]
    sort: Sort,
    /// Skip the status of worktrees: show only what the ledger records
    #[arg(long)]
    fast: bool,
    /// Show the forge's checks, reviews and queue for each agent's branch; needs gh or glab
    #[arg(long, conflicts_with = "watch")]
    ci: bool,
    /// List the active runs instead
    #[arg(long, conflicts_with_all = ["all", "state", "role", "dna", "parent", "name", "sort", "fast", "ci", "watch"])]
    runs: bool,
    /// Print one line for a prompt or a status line: the number of agents in each state; nothing if there are none
    #[arg(long, conflicts_with_all = ["all", "state", "sort", "ci", "watch", "runs"])]
    line: bool,
    /// Open the board, a live screen, with these agents; see git agent help board
    #[arg(long, short)]
    watch: bool,
    /// Seconds between two refreshes of --watch
    #[arg(long, value_parser = parse_interval, default_value = "1", requires = "watch", value_name = "SECONDS")]
    interval: Duration,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: ListArgs) -> Result<Exit> {
    if args.runs {
        return runs::run_ps(ctx, ui, &runs::PsArgs {});
    }
    let ci = args.ci.then(|| {
        let _activity = ui.activity("waiting for the forge");
        CiStates::ask(ctx, args.all || args.state.is_some())
    });
    if let Some(problem) = ci.as_ref().and_then(|ci| ci.problem.as_deref()) {
        ui.warn(problem);
    }
    let options = ListOptions {
        all: args.all,
        state: args.state,
        role: args.role,
        dna: args.dna,
        parent: args.parent,
        name: args.name,
        sort: args.sort,
        // A prompt is drawn after every command, so no worktree is looked at for it.
        fast: args.fast || args.line,
        ci,
    };
    if args.watch {
        return board::open(ctx, ui, options, args.interval);
    }
    if args.line {
        return ui.done(&counted(ctx, &options)?);
    }
    match ui.format() {
        Format::Ndjson => list::each(ctx, &options, |mut agent| {
            // Each line stands alone.
            let problem = options.ci.as_ref().and_then(|ci| ci.problem.clone());
            agent.warnings.extend(problem);
            ui.row(&json!(agent))
        })?,
        Format::Text => {
            let mut listing = AgentList::new();
            let overlaps = list::all(ctx, &options, |agent| listing.push(&agent))?;
            listing.add(&overlaps);
            let warm = warm_worktrees(pool::count(ctx)?);
            // Settings that cannot be used are no reason to hide the agents.
            let usage = if args.fast { Ok(None) } else { usage::notable(ctx) };
            let sentence = usage.as_ref().ok().and_then(Option::as_ref).map(UsageReport::sentence);
            let sentence = sentence.map(|text| format!("{text}\n")).unwrap_or_default();
            ui.print(&format!("{}{warm}{sentence}", listing.text()))?;
            if let Err(error) = usage {
                ui.warn(&format!("{error}; to see what is wrong, run git agent doctor"));
            }
        }
        _ => ui.answer(&list::list(ctx, &options)?)?,
    }
    Ok(Exit::Yes)
}

/// How many agents are in which state, those that a person has to see to first.
struct CountedStates(Vec<(usize, &'static str)>);

impl AsJson for CountedStates {
    fn json(&self) -> Value {
        let count = |(count, state): &(usize, &str)| json!({ "state": state, "count": count });
        let states: Vec<Value> = self.0.iter().map(count).collect();
        json!({ "schema": "git-agent.list-line/1", "states": states })
    }
}

impl Answer for CountedStates {
    /// Nothing at all for no agents, so that a prompt shows nothing.
    fn text(&self) -> String {
        let parts: Vec<String> =
            self.0.iter().map(|(count, state)| format!("{count} {state}")).collect();
        match parts.as_slice() {
            [] => String::new(),
            parts => format!("{}\n", parts.join(", ")),
        }
    }
}

fn counted(ctx: &Ctx, options: &ListOptions) -> Result<CountedStates> {
    let mut states = Vec::new();
    list::each(ctx, options, |agent| {
        states.push(agent.agent.state);
        Ok(())
    })?;
    let counts = BY_NEED
        .map(State::as_str)
        .map(|state| (states.iter().filter(|it| **it == state).count(), state));
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    Ok(CountedStates(counts.collect()))
}

/// A line about the worktrees that wait for agents; none where there are none.
fn warm_worktrees(count: usize) -> String {
    let counted = match count {
        0 => return String::new(),
        1 => "1 warm worktree waits".to_owned(),
        count => format!("{count} warm worktrees wait"),
    };
    format!("{counted} for agents; to see the pool, run git agent setup pool\n")
}

fn parse_sort(word: &str) -> std::result::Result<Sort, String> {
    Sort::parse(word).ok_or_else(|| choices("keys", Sort::ALL.map(Sort::as_str)))
}

fn parse_glob(text: &str) -> std::result::Result<GlobMatcher, String> {
    let glob = Glob::new(text).map_err(|error| error.kind().to_string())?;
    Ok(glob.compile_matcher())
}

fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds >= 0.1);
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval.ok_or_else(|| "it takes a number of seconds, 0.1 or more".to_owned())
}

const TITLES: &[&str] = &[
    "AGENT", "STATE", "CLONE", "ROLE", "SCOPE", "AHEAD", "DIRTY", "BUNDLE", "VERDICT", "OVERLAP",
    "CI", "AGE", "TASK",
];

/// What yields where the terminal is narrow, the first one first. Who it is, where it stands and what it
/// is about always stay.
const YIELDING: &[&str] =
    &["ROLE", "BUNDLE", "AGE", "AHEAD", "OVERLAP", "DIRTY", "SCOPE", "VERDICT", "CI", "CLONE"];

/// An id and the first twelve characters of a name, as the matrix of overlaps shows them.
const LEAST_HANDLE: usize = 8 + 1 + 12;

impl Answer for ListReport {
    fn text(&self) -> String {
        let mut listing = AgentList::new();
        self.agents.iter().for_each(|agent| listing.push(agent));
        listing.text()
    }

    fn json_text(&self) -> String {
        // One agent after the other: as one value, 100,000 of them take 260 MiB more.
        let agents: Vec<String> = self.agents.iter().map(|a| json!(a).to_string()).collect();
        let schema = json!(self.schema);
        let warnings = match self.warnings.as_slice() {
            [] => String::new(),
            warnings => format!(",\"warnings\":{}", json!(warnings)),
        };
        format!("{{\"agents\":[{}],\"schema\":{schema}{warnings}}}\n", agents.join(","))
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|agent| json!(agent)).collect()
    }
}

/// A list for people that grows agent by agent, of which it keeps no more than is shown.
pub(in crate::cli) struct AgentList {
    table: Table,
    looks: Vec<FactStyle>,
}

impl AgentList {
    pub(in crate::cli) fn new() -> AgentList {
        let table = Table::new(TITLES.to_vec(), width()).yielding(YIELDING);
        AgentList { table: table.shrinking("AGENT", LEAST_HANDLE), looks: Vec::new() }
    }

    pub(in crate::cli) fn push(&mut self, agent: &ListedAgent) {
        self.table.push(cells(agent));
        self.looks.push(FactStyle::of(agent));
    }

    /// Fills in with whom each overlaps, which is known last.
    pub(in crate::cli) fn add(&mut self, overlaps: &[Fact<OverlapCount>]) {
        let looks = self.looks.iter();
        let cells = looks.zip(overlaps).map(|(look, count)| look.overlap(count));
        self.table.fill("OVERLAP", cells);
    }

    pub(in crate::cli) fn text(&self) -> String {
        if self.table.is_empty() {
            return NO_AGENTS.to_owned();
        }
        self.table.render()
    }
}

fn cells(row: &ListedAgent) -> Vec<Cell> {
    let (agent, standing) = (&row.agent, &row.standing);
    let clone = if agent.local { "" } else { agent.clone_id.as_str() };
    let look = FactStyle::of(row);
    vec![
        Cell::painted(BOLD, handle(agent)),
        Cell::painted(state_style(agent.state), state_of_work(agent, standing)),
        Cell::painted(DIM, clone),
        Cell::plain(agent.role.clone().unwrap_or_default()),
        look.fact(&standing.out_of_scope, |out| match out {
            0 => Cell::painted(DIM, "ok"),
            out => Cell::painted(BAD, format!("{out} out")),
        }),
        look.ahead(standing),
        look.fact(&standing.uncommitted, |dirty| match dirty {
            0 => Cell::plain(""),
            dirty => Cell::painted(WARN, dirty.to_string()),
        }),
        look.fact(&standing.bundle, |BundleCount { good, of }| {
            let style = if good == of { GOOD } else { DIM };
            Cell::painted(style, format!("{good}/{of}"))
        }),
        look.fact(&standing.verdict_word, |verdict| match *verdict {
            "none" => Cell::plain(""),
            "accepted" | "landed" => Cell::painted(GOOD, *verdict),
            "rejected" => Cell::painted(BAD, "rejected"),
            other => Cell::painted(WARN, other),
        }),
        look.overlap(&standing.overlap),
        row.ci.known().map_or(Cell::plain(""), |ci| checks(ci, standing)),
        Cell::painted(DIM, age(agent.age_seconds)),
        Cell::plain(task(agent).unwrap_or_default()),
    ]
}

/// `failed 1/12` where one of twelve checks failed; `old` says that they are not about the branch's tip.
fn checks(ci: &CiReport, standing: &WorkStatus) -> Cell {
    let (style, mut text) = match ci.checks {
        "passed" => (GOOD, "passed".to_owned()),
        "failed" => (BAD, format!("failed {}/{}", ci.failed, ci.total)),
        "pending" => (WARN, format!("pending {}/{}", ci.pending, ci.total)),
        _ => (DIM, "no checks".to_owned()),
    };
    if standing.tip.known().is_some_and(|tip| *tip != ci.commit) {
        text.push_str(" (old)");
    }
    let queued = match &ci.queue {
        Some(place) if place.state == "queued" => Some(format!("queued as {}", place.position)),
        Some(place) => Some(format!("queued as {} ({})", place.position, place.state)),
        None => ci.queued.then(|| "queued".to_owned()),
    };
    let said = [ci.review.map(str::to_owned), queued].into_iter().flatten();
    said.for_each(|word| text.push_str(&format!(", {word}")));
    if ci.state != "open" {
        text.push_str(&format!(" ({})", ci.state));
    }
    Cell::painted(style, text)
}

/// How facts about one agent look.
struct FactStyle {
    /// Whether the agent lives in this clone. Of another clone's agent nothing but its branch can be known here, so
    /// that is no question mark.
    local: bool,
}

impl FactStyle {
    fn of(row: &ListedAgent) -> FactStyle {
        FactStyle { local: row.agent.local }
    }

    /// `+2 -1`: two commits to land, one that the target has gained.
    fn ahead(&self, standing: &WorkStatus) -> Cell {
        match (&standing.ahead, &standing.behind) {
            (Fact::Known(ahead), Fact::Known(0)) => Cell::plain(format!("+{ahead}")),
            (Fact::Known(ahead), Fact::Known(behind)) => Cell::plain(format!("+{ahead} -{behind}")),
            (Fact::NotApplicable, _) => Cell::plain(""),
            _ => self.unknown(),
        }
    }

    fn fact<T>(&self, fact: &Fact<T>, known: impl Fn(&T) -> Cell) -> Cell {
        match fact {
            Fact::NotApplicable => Cell::plain(""),
            Fact::Unknown => self.unknown(),
            Fact::Known(value) => known(value),
        }
    }

    fn overlap(&self, count: &Fact<OverlapCount>) -> Cell {
        self.fact(count, |overlap| Cell::painted(WARN, overlap.agents.to_string()))
    }

    fn unknown(&self) -> Cell {
        Cell::painted(DIM, if self.local { "?" } else { "" })
    }
}

// `git agent tree`

/// Show agents as a tree: which one asked for which other
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct TreeArgs {
    /// Show only the tree below this agent
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

pub(in crate::cli) fn run_tree(ctx: &Ctx, ui: &mut Ui, args: &TreeArgs) -> Result<Exit> {
    ui.done(&tree::tree(ctx, args.agent.as_deref())?)
}

impl Answer for TreeReport {
    fn text(&self) -> String {
        if self.agents.is_empty() {
            return NO_AGENTS.to_owned();
        }
        // Whether the ancestor at each depth has a sibling below, so that its line goes on.
        let mut open: Vec<bool> = Vec::new();
        let mut text = String::new();
        for node in &self.agents {
            open.truncate(node.depth);
            let lines = branch_lines(node, &open);
            open.push(!node.last);
            let agent = &node.agent;
            let (name, state) = (handle(agent), state(agent));
            // Of the task, which is last, as much as fits.
            let before = lines.width() + name.width() + state.width() + 2;
            let room = width().saturating_sub(before).max(12);
            text.push_str(&format!(
                "{lines}{} {} {}\n",
                paint(BOLD, &name),
                paint(state_style(agent.state), &state),
                cut(agent.description.as_deref().unwrap_or_default(), room)
            ));
        }
        if self.truncated {
            text.push_str("… and more\n");
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|node| json!(node)).collect()
    }
}

fn branch_lines(node: &Node, open: &[bool]) -> String {
    if node.depth == 0 {
        return String::new();
    }
    let ancestors = open.iter().skip(1);
    let mut text: String = ancestors.map(|goes_on| if *goes_on { "│  " } else { "   " }).collect();
    text.push_str(if node.last { "└─ " } else { "├─ " });
    text
}
