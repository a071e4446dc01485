//! Who overlaps with whom, at a glance.

use super::Kind;
use crate::cli::render::table::cut;
use crate::cli::style::{BOLD, DIM, paint};
use crate::ops::agent_report::AgentRef;
use crate::ops::overlap::PairReport;
use std::collections::HashMap;

/// How much of an alias stands in front of a row.
pub(super) const NAME_WIDTH: usize = 12;

/// The lower half of the matrix, in as many bands of columns as the width asks for. Rows have names,
/// columns the numbers of the rows.
pub(super) fn matrix(agents: &[&AgentRef], pairs: &[PairReport], width: usize) -> String {
    let place: HashMap<&str, usize> = agents
        .iter()
        .enumerate()
        .map(|(index, agent)| (agent.agent_id.as_str(), index))
        .collect();
    let mut cells: HashMap<(usize, usize), Kind> = HashMap::new();
    for pair in pairs {
        if let (Some(one), Some(two)) = (
            place.get(pair.one_id.as_str()),
            place.get(pair.two_id.as_str()),
        ) {
            cells.insert((*one.min(two), *one.max(two)), Kind::of(pair));
        }
    }
    let digits = agents.len().to_string().len();
    let names = agents.iter().filter_map(|agent| agent.name.as_ref());
    let name_width = names
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0)
        .min(NAME_WIDTH);
    let label_width = digits + 1 + 8 + 1 + name_width + usize::from(name_width > 0);
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
        for (row, agent) in agents.iter().enumerate().skip(band[0]) {
            let name = cut(agent.name.as_deref().unwrap_or_default(), name_width);
            let mut line = format!(
                "{:>digits$} {} {name:name_width$}",
                row + 1,
                paint(BOLD, &agent.short_id)
            );
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
