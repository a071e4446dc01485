//! The page of `report --html`: one file, no script, nothing from elsewhere.
//!
//! ```text
//! FleetReport -> head, summary, timeline, tree, work, overlap, verdicts, landed, runs, agents -> one file
//! ```
//!
//! Widths follow the screen: on a phone, rows of tables become cards. Light and dark follow the reader's
//! setting. Every state has one colour and is always also written as a word.

mod agents;
mod overlap;
mod phrases;
mod table;
mod timeline;
mod work;
mod writer;

use crate::ops::report::FleetReport;
use table::Table;
use writer::Html;

/// What the first lines of every page hold.
pub(in crate::cli) const MARK: &str = "<meta name=\"generator\" content=\"git-agent\">";

const STYLE: &str = include_str!("style.css");

/// Every table that becomes cards on a narrow screen.
const TABLES: [&Table; 5] = [
    &work::WORK,
    &overlap::PAIRS,
    &work::VERDICTS,
    &work::LANDED,
    &work::RUNS,
];

/// The whole page.
pub(in crate::cli) fn page(report: &FleetReport) -> String {
    let title = format!("Agents of {}", report.repository);
    let mut html = Html::default();
    html.constant("<!doctype html>\n");
    html.element("html", &[("lang", "en")], |html| {
        html.element("head", &[], |html| head(html, &title));
        html.line();
        html.element("body", &[], |html| {
            html.element("header", &[], |html| summary(html, report, &title));
            html.element("main", &[], |html| sections(html, report));
            html.element("footer", &[], |html| {
                html.text("Written by git agent report. Times are UTC. ");
                html.text("Nothing on this page comes from anywhere else.");
            });
        });
    });
    html.line();
    html.finish()
}

fn head(html: &mut Html, title: &str) {
    html.constant("\n<meta charset=\"utf-8\">\n");
    html.constant(MARK);
    html.constant("\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.constant("\n<meta name=\"color-scheme\" content=\"light dark\">\n");
    html.text_element("title", &[], title);
    html.line();
    html.element("style", &[], |html| {
        html.constant(STYLE);
        html.constant("@media (max-width: 44rem) {\n");
        for table in TABLES {
            table.write_labels(html);
        }
        html.constant("}\n");
    });
    html.line();
}

fn summary(html: &mut Html, report: &FleetReport, title: &str) {
    html.text_element("h1", &[], title);
    html.element("p", &[("class", "until")], |html| {
        html.text(&match report.agents.len() {
            1 => "1 agent".to_owned(),
            count => format!("{count} agents"),
        });
        if let Some(until) = &report.last_event_at {
            html.text(&format!(", as of {}", minute(until)));
        }
    });
    html.element(
        "ul",
        &[("class", "states"), ("aria-label", "Agents by state")],
        |html| {
            for count in &report.states {
                html.element("li", &[], |html| {
                    html.text_element("b", &[], &count.count.to_string());
                    html.text(" ");
                    state(html, count.state);
                });
            }
        },
    );
    html.line();
}

/// A part of the page: its id, its heading, whether there is anything in it, and what writes it.
type Section = (
    &'static str,
    &'static str,
    fn(&FleetReport) -> bool,
    fn(&mut Html, &FleetReport),
);

const SECTIONS: &[Section] = &[
    ("timeline", "Timeline", |_| true, timeline::write),
    (
        "tree",
        "Who asked for whom",
        agents::has_children,
        agents::tree,
    ),
    ("work", "Work in progress", work::is_any, work::in_progress),
    (
        "overlap",
        "In each other's way",
        overlap::is_any,
        overlap::write,
    ),
    ("verdicts", "Verdicts", work::is_any_judged, work::verdicts),
    ("landed", "Landed", work::has_any_landed, work::landed),
    ("runs", "Runs", work::has_any_run, work::runs),
    ("agents", "Every agent", |_| true, agents::write),
];

fn sections(html: &mut Html, report: &FleetReport) {
    if report.agents.is_empty() {
        let text = "No agent has been spawned here yet.";
        html.text_element("p", &[("class", "empty")], text);
        return;
    }
    let there = || SECTIONS.iter().filter(|section| section.2(report));
    html.element("nav", &[("aria-label", "Sections")], |html| {
        for (id, title, ..) in there() {
            html.text_element("a", &[("href", &format!("#{id}"))], title);
            html.text(" ");
        }
    });
    html.line();
    for (id, title, _, write) in there() {
        let heading = format!("{id}-heading");
        html.element(
            "section",
            &[("id", id), ("aria-labelledby", &heading)],
            |html| {
                html.text_element("h2", &[("id", &heading)], title);
                write(html, report);
            },
        );
        html.line();
    }
}

/// A state as a word in its colour.
fn state(html: &mut Html, state: &str) {
    html.text_element("span", &[("class", &format!("state {state}"))], state);
}

/// `2026-11-21 10:15` of an RFC 3339 time.
fn minute(time: &str) -> String {
    time.chars().take(16).collect::<String>().replace('T', " ")
}
