//! Who is in whose way: the matrix of `git agent overlap`, and what the worst pairs have in common.

use super::phrases::name;
use super::table::{Table, words};
use super::writer::Html;
use crate::cli::overlap::{
    Kind, in_common, involved, meanings, most_telling_first, rows_of_matrix, worth_a_line,
};
use crate::ops::agent_report::{AgentRef, AgentReport};
use crate::ops::overlap::OverlapReport;
use crate::ops::report::FleetReport;
use std::collections::HashMap;

type Agents<'r> = HashMap<&'r str, &'r AgentReport>;

pub(super) const PAIRS: Table = Table {
    section: "overlap",
    columns: &[words("Agent"), words("With"), words("Both")],
};

/// Whether any two agents have something in common.
pub(super) fn is_any(report: &FleetReport) -> bool {
    let overlap = report.overlap.known();
    overlap.is_some_and(|overlap| !overlap.pairs.is_empty())
}

pub(super) fn write(html: &mut Html, report: &FleetReport) {
    let Some(overlap) = report.overlap.known() else {
        return;
    };
    let agents: Agents<'_> = report
        .agents
        .iter()
        .map(|agent| (agent.agent.agent_id.as_str(), &agent.agent))
        .collect();
    html.element("p", &[("class", "range")], |html| {
        for (kind, meaning) in meanings(overlap) {
            html.element("span", &[("class", "whole")], |html| {
                html.text_element("b", &[("class", class(kind))], kind.sign());
                html.text(&format!(" {meaning}"));
            });
            html.text(" \u{2003}");
        }
    });
    // It scrolls by itself where it is too wide, also by keyboard.
    let frame = [
        ("class", "matrix"),
        ("role", "region"),
        ("tabindex", "0"),
        ("aria-label", "Overlap matrix"),
    ];
    let pairs = most_telling_first(overlap);
    let involved = involved(overlap);
    let rows = rows_of_matrix(&involved, &pairs);
    html.element("div", &frame, |html| matrix(html, overlap, &rows, &agents));
    html.line();
    if let Some(more @ 1..) = involved.len().checked_sub(rows.len()) {
        let text = format!("{more} more overlap with others and have no row.");
        html.text_element("p", &[("class", "range")], &text);
    }
    let listed = worth_a_line(&pairs);
    PAIRS.write(html, listed, |html, pair, column| match column {
        0 => named(html, &agents, &pair.one_id),
        1 => named(html, &agents, &pair.two_id),
        _ => {
            let kind = Kind::of(pair);
            html.text_element("span", &[("class", class(kind))], &in_common(pair));
        }
    });
    if let Some(more @ 1..) = pairs.len().checked_sub(listed.len()) {
        let text =
            format!("… and {more} more pairs; git agent overlap --format json lists them all.");
        html.text_element("p", &[("class", "range")], &text);
    }
}

/// The lower half: rows have names, columns the numbers of the rows.
fn matrix(html: &mut Html, overlap: &OverlapReport, rows: &[&AgentRef], agents: &Agents<'_>) {
    let place: HashMap<&str, usize> = rows
        .iter()
        .enumerate()
        .map(|(index, agent)| (agent.agent_id.as_str(), index))
        .collect();
    let mut cells = HashMap::new();
    for pair in &overlap.pairs {
        if let (Some(one), Some(two)) = (
            place.get(pair.one_id.as_str()),
            place.get(pair.two_id.as_str()),
        ) {
            cells.insert((*one.min(two), *one.max(two)), Kind::of(pair));
        }
    }
    html.element("table", &[], |html| {
        html.element("thead", &[], |html| {
            html.element("tr", &[], |html| {
                html.text_element("td", &[], "");
                for column in 1..rows.len() {
                    html.text_element("th", &[("scope", "col")], &column.to_string());
                }
            });
        });
        html.line();
        html.element("tbody", &[], |html| {
            for (row, agent) in rows.iter().enumerate() {
                html.element("tr", &[], |html| {
                    html.element("th", &[("scope", "row")], |html| {
                        html.text(&format!("{} ", row + 1));
                        named(html, agents, &agent.agent_id);
                    });
                    for column in 0..row {
                        match cells.get(&(column, row)) {
                            Some(kind) => {
                                html.text_element("td", &[("class", class(*kind))], kind.sign())
                            }
                            None => html.text_element("td", &[("class", "none")], "·"),
                        }
                    }
                });
                html.line();
            }
        });
    });
}

fn named(html: &mut Html, agents: &Agents<'_>, agent_id: &str) {
    if let Some(agent) = agents.get(agent_id) {
        name(html, agent);
    }
}

fn class(kind: Kind) -> &'static str {
    match kind {
        Kind::Conflict => "failed",
        Kind::Changes => "rejected",
        Kind::Scopes => "none",
    }
}
