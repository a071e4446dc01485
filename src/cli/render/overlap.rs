//! How overlaps look: a matrix, the pairs below it, and a landing order.

mod matrix;

use super::table::cut;
use crate::cli::style::{BAD, BOLD, GOOD, WARN, paint};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::domain::path::Quoted;
use crate::ops::overlap::{Named, OverlapReport, PairReport, Step};
use crate::ops::verify::ConflictReport;
use crate::wire::path_text::PathText;
use anstyle::Style;
use serde_json::{Value, json};

/// More pairs than this are not listed for people.
const LISTED_PAIRS: usize = 40;
/// More agents than this are not listed in a line.
const LISTED_IDS: usize = 3;

/// What two agents have in common, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Conflict,
    Changes,
    Scopes,
}

impl Kind {
    fn of(pair: &PairReport) -> Kind {
        if pair.conflicts() {
            Kind::Conflict
        } else if pair.changes.is_some() {
            Kind::Changes
        } else {
            Kind::Scopes
        }
    }

    fn letter(self) -> String {
        let (style, letter) = match self {
            Kind::Conflict => (BAD, "x"),
            Kind::Changes => (WARN, "c"),
            Kind::Scopes => (Style::new(), "s"),
        };
        paint(style, letter)
    }
}

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
            text.push_str(&format!(
                "{} {who}: {}\n",
                paint(WARN, "unknown:"),
                problem.message
            ));
        }
        if let Some(order) = &self.order {
            text.push_str(&order_text(order));
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        let steps = self.order.iter().flatten().map(|step| json!(step));
        self.pairs
            .iter()
            .map(|pair| json!(pair))
            .chain(steps)
            .collect()
    }
}

impl OverlapReport {
    fn comparison(&self, width: usize) -> String {
        let involved: Vec<&Named> = self
            .agents
            .iter()
            .map(|live| &live.agent)
            .filter(|agent| {
                let id = &agent.agent_id;
                self.pairs
                    .iter()
                    .any(|pair| pair.one == *id || pair.two == *id)
            })
            .collect();
        let others = self.agents.len() - involved.len();
        if involved.is_empty() {
            return match others {
                1 => "no overlap: there is one live agent\n".to_owned(),
                count => format!("no overlap among {count} agents\n"),
            };
        }
        let mut text = matrix::matrix(&involved, &self.pairs, width);
        text.push_str(&self.legend());
        if others > 0 {
            let noun = if others == 1 {
                "agent overlaps"
            } else {
                "agents overlap"
            };
            text.push_str(&format!("{others} more {noun} with nobody\n"));
        }
        text.push('\n');
        let mut pairs: Vec<&PairReport> = self.pairs.iter().collect();
        pairs.sort_by_key(|pair| Kind::of(pair));
        for pair in pairs.iter().take(LISTED_PAIRS) {
            text.push_str(&pair_line(pair, width));
        }
        if let Some(more @ 1..) = pairs.len().checked_sub(LISTED_PAIRS) {
            text.push_str(&format!(
                "… and {more} more; --format json lists them all\n"
            ));
        }
        text
    }

    fn legend(&self) -> String {
        let meanings = [
            ("merge", Kind::Conflict, "their merge conflicts"),
            ("changes", Kind::Changes, "touched the same path"),
            ("scopes", Kind::Scopes, "may touch the same path"),
        ];
        let compared = meanings
            .iter()
            .filter(|(name, ..)| self.compared.contains(name));
        let parts: Vec<String> = compared
            .map(|(_, kind, meaning)| format!("{} {meaning}", kind.letter()))
            .collect();
        format!("{}\n", parts.join("   "))
    }
}

fn pair_line(pair: &PairReport, width: usize) -> String {
    let short = |id: &str| id.get(..8).unwrap_or_default().to_owned();
    let what = match (&pair.merge, &pair.changes, &pair.scopes) {
        (Some(merge), _, _) if pair.conflicts() => match merge.conflicts.is_empty() {
            true => "have no common history".to_owned(),
            false => format!("conflict in {}", conflict_list(&merge.conflicts)),
        },
        (merge, Some(changes), _) => {
            let count = changes.paths.len();
            let clean = if merge.is_some() {
                ", merge cleanly"
            } else {
                ""
            };
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
    let line = cut(&what, width.saturating_sub(20).max(12));
    format!(
        "{} {} {} {line}\n",
        Kind::of(pair).letter(),
        short(&pair.one),
        short(&pair.two)
    )
}

/// The first of some paths, and how many there are besides.
fn path_list(paths: &[PathText], count: usize) -> String {
    let first = paths.first().map(PathText::to_bytes).unwrap_or_default();
    match count {
        0 | 1 => Quoted(&first).to_string(),
        _ => format!("{} and {} more", Quoted(&first), count - 1),
    }
}

fn conflict_list(conflicts: &[ConflictReport]) -> String {
    let paths: Vec<PathText> = conflicts
        .iter()
        .map(|conflict| conflict.path.clone())
        .collect();
    path_list(&paths, paths.len())
}

fn order_text(order: &[Step]) -> String {
    if order.is_empty() {
        return "nothing is ready to land\n".to_owned();
    }
    let mut text = String::new();
    let mut target = "";
    for (index, step) in order.iter().enumerate() {
        if step.into != target {
            target = &step.into;
            let shown = target.strip_prefix("refs/heads/").unwrap_or(target);
            text.push_str(&format!("landing order on {}\n", paint(BOLD, shown)));
        }
        let state = match step.state.as_str() {
            "clean" => paint(GOOD, "clean"),
            state => paint(BAD, state),
        };
        let name = step
            .agent
            .name
            .as_ref()
            .map(|name| format!(" {name}"))
            .unwrap_or_default();
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
fn id_list(agents: &[Named]) -> String {
    let ids: Vec<&str> = agents.iter().map(|agent| agent.short_id.as_str()).collect();
    match ids.len().checked_sub(LISTED_IDS) {
        None | Some(0) => ids.join(", "),
        Some(more) => format!("{} and {more} more", ids[..LISTED_IDS].join(", ")),
    }
}
