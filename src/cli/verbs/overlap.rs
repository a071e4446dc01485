//! `git agent overlap`

use crate::agents::Ctx;
use crate::cli::out::render::handle_of;
use crate::cli::out::render::table::cut;
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, WARN, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::Quoted;
use crate::error::{Exit, Result};
use crate::ops::agent_report::AgentRef;
use crate::ops::overlap::{self, MergeState, OrderStep, OverlapOptions, OverlapReport, PairReport};
use crate::wire::output::path_text::PathText;
use anstyle::Style;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use unicode_width::UnicodeWidthStr;

/// Show which live agents overlap: in their scopes, in the paths that they changed, in merge conflicts
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct OverlapArgs {
    /// One agent to compare with all others, or several to compare with each other
    #[arg(value_name = "AGENT")]
    agents: Vec<String>,
    /// Compare their scopes
    #[arg(long)]
    scopes: bool,
    /// Compare the paths that they changed since their bases, committed or not
    #[arg(long)]
    changes: bool,
    /// Try to merge those that changed paths near each other
    #[arg(long)]
    merge: bool,
    /// Find the order in which most finished agents can land
    #[arg(long)]
    order: bool,
    /// Exit with 1 if merges conflict; where none is tried, if paths are shared, else if scopes meet
    #[arg(long)]
    check: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: OverlapArgs) -> Result<Exit> {
    let everything = !(args.scopes || args.changes || args.merge || args.order);
    let report = overlap::overlap(
        ctx,
        &OverlapOptions {
            agents: args.agents,
            scopes: args.scopes || everything,
            changes: args.changes || everything,
            merge: args.merge || everything,
            order: args.order,
        },
    )?;
    ui.answer(&report)?;
    Ok(Exit::answer(!args.check || !report.has_collision()))
}

/// More pairs than this are not listed for people.
const LISTED_PAIRS: usize = 40;

/// Pairs that only might meet are listed as long as there are no more lines than this: every pair of agents may touch
/// the same documentation.
const LISTED_SCOPES: usize = 10;

/// More agents than this are not listed in a line.
const LISTED_IDS: usize = 3;

impl Answer for OverlapReport {
    fn text(&self) -> String {
        if self.agents.is_empty() {
            return "(no agents)\n".to_owned();
        }
        let mut text = String::new();
        if !self.compared.is_empty() {
            text.push_str(&self.comparison(width()));
        }
        for problem in &self.problems {
            let who = problem.agent_id.get(..8).unwrap_or_default();
            text.push_str(&format!("{} {who}: {}\n", paint(WARN, "unknown:"), problem.message));
        }
        if let Some(order) = &self.order {
            text.push_str(&order_text(order));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        let steps = self.order.iter().flatten().map(|step| json!(step));
        self.pairs.iter().map(|pair| json!(pair)).chain(steps).collect()
    }
}

impl OverlapReport {
    fn comparison(&self, width: usize) -> String {
        let involved = involved(self);
        let others = self.agents.len() - involved.len();
        // What could not be found out follows.
        let known = match self.problems.as_slice() {
            [] => "",
            _ => ", as far as is known",
        };
        if involved.is_empty() {
            return match others {
                1 => "no overlap: there is one live agent\n".to_owned(),
                count => format!("no overlap among {count} agents{known}\n"),
            };
        }
        let pairs = most_telling_first(self);
        let rows = rows_of_matrix(&involved, &pairs);
        let mut text = matrix(&rows, &self.pairs, width);
        text.push_str(&self.legend());
        if let Some(more @ 1..) = involved.len().checked_sub(rows.len()) {
            text.push_str(&format!("{more} more overlap with others and have no row\n"));
        }
        if others > 0 {
            let noun = if others == 1 { "agent overlaps" } else { "agents overlap" };
            text.push_str(&format!("{others} more {noun} with no other{known}\n"));
        }
        text.push('\n');
        let listed = worth_a_line(&pairs);
        for pair in listed {
            text.push_str(&pair_line(pair, &involved, width));
        }
        if let Some(more @ 1..) = pairs.len().checked_sub(listed.len()) {
            text.push_str(&format!("… and {more} more; --format json lists them all\n"));
        }
        text
    }

    fn legend(&self) -> String {
        let parts: Vec<String> =
            meanings(self).map(|(kind, meaning)| format!("{} {meaning}", kind.letter())).collect();
        format!("{}\n", parts.join("   "))
    }
}

/// The agents that overlap with any other.
fn involved(report: &OverlapReport) -> Vec<&AgentRef> {
    let pairs = report.pairs.iter();
    let ids: BTreeSet<&str> =
        pairs.flat_map(|pair| [pair.one_id.as_str(), pair.two_id.as_str()]).collect();
    let agents = report.agents.iter().map(|live| &live.agent);
    agents.filter(|agent| ids.contains(agent.agent_id.as_str())).collect()
}

/// The pairs, those whose merge conflicts before those that only might meet.
pub(in crate::cli) fn most_telling_first(report: &OverlapReport) -> Vec<&PairReport> {
    let mut pairs: Vec<&PairReport> = report.pairs.iter().collect();
    pairs.sort_by_key(|pair| OverlapKind::of(pair));
    pairs
}

/// Those of the pairs, in this order, that are listed for people.
pub(in crate::cli) fn worth_a_line<'p, 'r>(pairs: &'p [&'r PairReport]) -> &'p [&'r PairReport] {
    let met = pairs.partition_point(|pair| OverlapKind::of(pair) != OverlapKind::Scopes);
    let count = met.clamp(LISTED_SCOPES, LISTED_PAIRS);
    pairs.get(..count).unwrap_or(pairs)
}

/// A matrix of more agents tells nothing at a glance, and grows with their square.
const MATRIX_ROWS: usize = 40;

/// The agents that have a row in the matrix: all that overlap with another one or, where these are too many, those of the
/// most telling `pairs`.
fn rows_of_matrix<'r>(involved: &[&'r AgentRef], pairs: &[&PairReport]) -> Vec<&'r AgentRef> {
    if involved.len() <= MATRIX_ROWS {
        return involved.to_vec();
    }
    let mut chosen = BTreeSet::new();
    for id in pairs.iter().flat_map(|pair| [&pair.one_id, &pair.two_id]) {
        if chosen.len() < MATRIX_ROWS {
            chosen.insert(id.as_str());
        }
    }
    let is_chosen = |agent: &&&AgentRef| chosen.contains(agent.agent_id.as_str());
    involved.iter().filter(is_chosen).copied().collect()
}

/// What the signs mean, of those that were asked for.
pub(in crate::cli) fn meanings(
    report: &OverlapReport,
) -> impl Iterator<Item = (OverlapKind, &'static str)> {
    let meanings = [
        ("merge", OverlapKind::Conflict, "their merge conflicts"),
        ("changes", OverlapKind::Changes, "touched the same path"),
        ("scopes", OverlapKind::Scopes, "may touch the same path"),
    ];
    let compared = meanings.into_iter().filter(|(name, ..)| report.compared.contains(name));
    compared.map(|(_, kind, meaning)| (kind, meaning))
}

fn pair_line(pair: &PairReport, agents: &[&AgentRef], width: usize) -> String {
    let handle = |id: &str| {
        let agent = agents.iter().find(|agent| agent.agent_id == id);
        let name = agent.and_then(|agent| agent.name.as_deref());
        let name = name.map(|name| cut(name, NAME_WIDTH));
        handle_of(id.get(..8).unwrap_or_default(), name.as_deref())
    };
    let who = format!("{} {}", handle(&pair.one_id), handle(&pair.two_id));
    // However narrow the terminal is, a line tells something.
    let room = width.saturating_sub(who.width() + 3).max(12);
    let line = cut(&in_common(pair), room);
    format!("{} {who} {line}\n", OverlapKind::of(pair).letter())
}

fn order_text(order: &[OrderStep]) -> String {
    if order.is_empty() {
        return "nothing is ready to land\n".to_owned();
    }
    let mut text = String::new();
    let mut target = None;
    for (index, step) in order.iter().enumerate() {
        if target != Some(&step.target) {
            target = Some(&step.target);
            let shown = step.target.short();
            text.push_str(&format!("landing order on {}\n", paint(BOLD, shown)));
        }
        let style = if step.state == MergeState::Clean { GOOD } else { BAD };
        let state = paint(style, step.state.as_str());
        let name = step.agent.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        let (number, id) = (index + 1, paint(BOLD, &step.agent.short_id));
        let mut why = step.why.clone();
        if !step.conflicts_with.is_empty() {
            why.push_str(&format!(": {}", id_list(&step.conflicts_with)));
        }
        if !step.conflicts.is_empty() {
            why.push_str(&format!("; in {}", conflict_list(&step.conflicts)));
        }
        text.push_str(&format!("{number:>3} {id}{name} {state}, {why}\n"));
    }
    text
}

/// The first of some agents, and how many there are besides.
fn id_list(agents: &[AgentRef]) -> String {
    let ids: Vec<&str> = agents.iter().map(|agent| agent.short_id.as_str()).collect();
    match ids.len().checked_sub(LISTED_IDS) {
        None | Some(0) => ids.join(", "),
        Some(more) => {
            let ids = ids.get(..LISTED_IDS).unwrap_or(&ids);
            format!("{} and {more} more", ids.join(", "))
        }
    }
}

// Who overlaps with whom, at a glance.

/// How much of an alias stands in front of a row.
const NAME_WIDTH: usize = 12;

/// The lower half of the matrix, in as many bands of columns as the width asks for. Rows have names,
/// columns the numbers of the rows.
fn matrix(agents: &[&AgentRef], pairs: &[PairReport], width: usize) -> String {
    let place: HashMap<&str, usize> =
        agents.iter().enumerate().map(|(index, agent)| (agent.agent_id.as_str(), index)).collect();
    let mut cells: HashMap<(usize, usize), OverlapKind> = HashMap::new();
    for pair in pairs {
        if let (Some(one), Some(two)) =
            (place.get(pair.one_id.as_str()), place.get(pair.two_id.as_str()))
        {
            cells.insert((*one.min(two), *one.max(two)), OverlapKind::of(pair));
        }
    }
    let digits = agents.len().to_string().len();
    let names = agents.iter().filter_map(|agent| agent.name.as_ref());
    let name_width = names.map(|name| name.chars().count()).max().unwrap_or(0).min(NAME_WIDTH);
    let label_width = digits + 1 + 8 + 1 + name_width + usize::from(name_width > 0);
    // A cell is a sign with a blank before it.
    let per_band = (width.saturating_sub(label_width) / 2).max(1);
    let columns: Vec<usize> = (0..agents.len().saturating_sub(1)).collect();
    let mut text = String::new();
    for band in columns.chunks(per_band) {
        for digit in 0..digits {
            let mut line = " ".repeat(label_width);
            for column in band {
                let number = format!("{:>digits$}", column + 1);
                line.push_str(&format!(" {}", &number[digit..=digit]));
            }
            text.push_str(&format!("{}\n", line.trim_end()));
        }
        let first = band.first().copied().unwrap_or(0);
        for (row, agent) in agents.iter().enumerate().skip(first) {
            let name = cut(agent.name.as_deref().unwrap_or_default(), name_width);
            let mut line =
                format!("{:>digits$} {} {name:name_width$}", row + 1, paint(BOLD, &agent.short_id));
            line.push_str(if name_width > 0 { " " } else { "" });
            for column in band.iter().filter(|column| **column < row) {
                let cell = cells.get(&(*column, row));
                let cell = cell.map_or_else(|| paint(DIM, "·"), |kind| kind.letter());
                line.push_str(&format!(" {cell}"));
            }
            text.push_str(&format!("{}\n", line.trim_end()));
        }
    }
    text
}

// Two agents that overlap: how bad it is, and in what.

/// What two agents have in common, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum OverlapKind {
    Conflict,
    Changes,
    Scopes,
}

impl OverlapKind {
    pub(in crate::cli) fn of(pair: &PairReport) -> OverlapKind {
        if pair.conflicts() {
            OverlapKind::Conflict
        } else if pair.changes.is_some() {
            OverlapKind::Changes
        } else {
            OverlapKind::Scopes
        }
    }

    /// As it stands in a matrix.
    pub(in crate::cli) fn sign(self) -> &'static str {
        match self {
            OverlapKind::Conflict => "x",
            OverlapKind::Changes => "c",
            OverlapKind::Scopes => "s",
        }
    }

    fn letter(self) -> String {
        let style = match self {
            OverlapKind::Conflict => BAD,
            OverlapKind::Changes => WARN,
            OverlapKind::Scopes => Style::new(),
        };
        paint(style, self.sign())
    }
}

/// What two agents did or may do to the same paths.
pub(in crate::cli) fn in_common(pair: &PairReport) -> String {
    let owners = pair.owners.iter().map(|owners| format!(" (owned by @{})", owners.join(", @")));
    let owners: String = owners.collect();
    let what = match (&pair.merge, &pair.changes, &pair.scopes) {
        (Some(merge), _, _) if pair.conflicts() => {
            if merge.conflicts.is_empty() {
                "have no common history".to_owned()
            } else {
                format!("conflict in {}", conflict_list(&merge.conflicts))
            }
        }
        (merge, Some(changes), _) => {
            let count = changes.paths.len();
            let clean = if merge.is_some() { ", merge cleanly" } else { "" };
            format!("touched {}{clean}", path_list(&changes.paths, count))
        }
        (_, None, Some(scopes)) if scopes.tracked > 0 => {
            format!("may touch {}", path_list(&scopes.examples, scopes.tracked))
        }
        (_, None, Some(scopes)) => match &scopes.example {
            Some(path) => format!("may write new files such as {}", Quoted(&path.to_bytes())),
            None => "may write the same new files".to_owned(),
        },
        (_, None, None) => String::new(),
    };
    what + &owners
}

/// The first of some paths, and how many there are besides.
fn path_list(paths: &[PathText], count: usize) -> String {
    let first = paths.first().map(PathText::to_bytes).unwrap_or_default();
    match count {
        0 | 1 => Quoted(&first).to_string(),
        _ => format!("{} and {} more", Quoted(&first), count - 1),
    }
}

fn conflict_list(conflicts: &[PathText]) -> String {
    path_list(conflicts, conflicts.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::overlap::{LiveAgent, ScopesReport};

    /// What `overlap --scopes` finds among so many agents that may all touch the same.
    fn crowd(count: usize) -> OverlapReport {
        let id = |number: usize| format!("{number:08x}-0000-8000-8000-000000000000");
        let agents = (0..count).map(|number| LiveAgent {
            agent: AgentRef { agent_id: id(number), short_id: format!("{number:08x}"), name: None },
            state: "running",
            deferred: false,
            edits: true,
            target: None,
            touched: None,
        });
        let pairs = (0..count).flat_map(|one| (one + 1..count).map(move |two| (one, two)));
        OverlapReport {
            compared: vec!["scopes"],
            agents: agents.collect(),
            pairs: pairs
                .map(|(one, two)| PairReport {
                    owners: None,
                    one_id: id(one),
                    two_id: id(two),
                    scopes: Some(ScopesReport { tracked: 1, examples: Vec::new(), example: None }),
                    changes: None,
                    merge: None,
                })
                .collect(),
            order: None,
            problems: Vec::new(),
        }
    }

    #[test]
    fn a_crowd_is_told_in_a_text_that_does_not_grow_with_its_square() {
        let length = |count| crowd(count).comparison(usize::MAX).len();
        let (few, many) = (length(MATRIX_ROWS), length(8 * MATRIX_ROWS));
        assert!(many < few + 1000, "{few} bytes become {many}");
        let text = crowd(MATRIX_ROWS + 2).comparison(usize::MAX);
        assert!(text.contains("2 more overlap with others and have no row"), "{text}");
        assert!(!crowd(MATRIX_ROWS).comparison(usize::MAX).contains("no row"));
        assert_eq!(text.matches("may touch ").count(), 1 + LISTED_SCOPES);
    }
}
