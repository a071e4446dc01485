//! When each agent was in which state, on one common axis.

use super::phrases::{duration, name};
use super::writer::Html;
use super::{minute, state};
use crate::domain::agent::State;
use crate::ops::report::{FleetReport, ReportedAgent, Span};
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};

/// Units from the beginning of the axis to its end.
const WIDTH: f64 = 1000.0;
const HEIGHT: &str = "14";
/// What is too short to be seen is drawn as long as this.
const LEAST: f64 = 3.0;
/// How wide the moment of an end is drawn.
const END: f64 = 5.0;

/// Steps of the axis, in seconds; the first that gives few enough is taken.
const STEPS: &[i64] = &[
    1, 5, 15, 60, 300, 900, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 604_800,
    2_592_000,
];
const MOST_STEPS: i64 = 7;

struct Axis {
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
    seconds: f64,
    marks: Vec<DateTime<Utc>>,
}

pub(super) fn write(html: &mut Html, report: &FleetReport) {
    let axis = Axis::of(report);
    let (begin, end) = (rfc3339(axis.begin), rfc3339(axis.end));
    let range = format!("{} to {}", minute(&begin), minute(&end));
    html.text_element("p", &[("class", "range")], &range);
    legend(html, report);
    html.element(
        "table",
        &[("class", "timeline"), ("role", "table")],
        |html| {
            html.element("thead", &[("role", "rowgroup")], |html| {
                html.element("tr", &[("role", "row")], |html| {
                    let heading = [("role", "columnheader"), ("scope", "col")];
                    html.text_element("th", &heading, "Agent");
                    html.element("th", &heading, |html| axis.write(html));
                    html.text_element("th", &heading, "Time");
                });
            });
            html.line();
            html.element("tbody", &[("role", "rowgroup")], |html| {
                for agent in &report.agents {
                    html.element("tr", &[("role", "row")], |html| row(html, agent, &axis));
                    html.line();
                }
            });
        },
    );
}

/// What the colours and heights of [`piece`] stand for, of the states that occur.
fn legend(html: &mut Html, report: &FleetReport) {
    let spans = || report.agents.iter().flat_map(|agent| &agent.spans);
    html.element("p", &[("class", "legend")], |html| {
        for known in State::ALL.map(State::as_str) {
            if spans().any(|span| span.state == known) {
                state(html, known);
                html.text(" ");
            }
        }
        html.text("Thick is work, thin waits for a decision, a stroke across is an end.");
    });
}

fn row(html: &mut Html, agent: &ReportedAgent, axis: &Axis) {
    html.element("th", &[("role", "rowheader"), ("scope", "row")], |html| {
        name(html, &agent.agent);
    });
    html.element("td", &[("role", "cell")], |html| bar(html, agent, axis));
    html.element("td", &[("role", "cell"), ("class", "number")], |html| {
        if let (Some(first), Some(last)) = (agent.spans.first(), agent.spans.last()) {
            html.text(&duration(last.end - first.begin));
        }
    });
}

fn bar(html: &mut Html, agent: &ReportedAgent, axis: &Axis) {
    let told: Vec<_> = agent.spans.iter().map(told).collect();
    let attributes = [
        ("role", "img"),
        ("aria-label", &*told.join(", ")),
        ("viewBox", "0 0 1000 14"),
        ("preserveAspectRatio", "none"),
    ];
    html.element("svg", &attributes, |html| {
        for span in &agent.spans {
            piece(html, span, axis);
        }
    });
}

fn piece(html: &mut Html, span: &Span, axis: &Axis) {
    let (from, to) = (axis.position(span.begin), axis.position(span.end));
    let is_end = span.begin == span.end;
    let width = if is_end { END } else { (to - from).max(LEAST) };
    // Nothing is drawn beyond the end of the axis.
    let x = coordinate(from.min(WIDTH - width));
    // A moment, work, and work that waits for a decision.
    let (y, height) = match span.state {
        _ if is_end => ("0", HEIGHT),
        "spawning" | "ready" | "running" | "waiting" | "idle" => ("3", "8"),
        _ => ("5.5", "3"),
    };
    let class = format!("bar {}", span.state);
    let attributes = [
        ("class", &*class),
        ("x", &*x),
        ("y", y),
        ("width", &*coordinate(width)),
        ("height", height),
    ];
    html.element("rect", &attributes, |html| {
        html.text_element("title", &[], &told(span));
    });
}

/// A stretch of time in words.
fn told(span: &Span) -> String {
    if span.begin == span.end {
        format!("{} {}", span.state, minute(&span.entered_at))
    } else {
        format!(
            "{} {} for {}",
            span.state,
            minute(&span.entered_at),
            duration(span.end - span.begin)
        )
    }
}

impl Axis {
    fn of(report: &FleetReport) -> Axis {
        let spans = || report.agents.iter().flat_map(|agent| &agent.spans);
        let begin = spans().map(|span| span.begin).min().unwrap_or_default();
        let end = spans().map(|span| span.end).max().unwrap_or(begin);
        let seconds = (end - begin).num_seconds().max(1);
        let fits = |step: &&i64| seconds / **step <= MOST_STEPS;
        let step = STEPS.iter().find(fits).copied();
        let step = step.unwrap_or(seconds / MOST_STEPS);
        let first = (begin.timestamp() / step + 1) * step;
        let marks = (0..=MOST_STEPS)
            .filter_map(|index| DateTime::from_timestamp(first + index * step, 0))
            .filter(|mark| *mark < end)
            .collect();
        Axis {
            begin,
            end,
            seconds: seconds_of(end - begin).max(1e-6),
            marks,
        }
    }

    fn position(&self, time: DateTime<Utc>) -> f64 {
        seconds_of(time - self.begin) / self.seconds * WIDTH
    }

    /// The times of the marks. Each is also a line through all rows below.
    fn write(&self, html: &mut Html) {
        html.element("span", &[("class", "axis")], |html| {
            for mark in &self.marks {
                let share = self.position(*mark) / WIDTH * 100.0;
                let whole_day = mark.timestamp() % 86_400 == 0;
                let format = match (whole_day, self.seconds < 360.0) {
                    (true, _) => "%b %-d",
                    (_, true) => "%H:%M:%S",
                    _ => "%H:%M",
                };
                let style = format!("left:{share:.2}%");
                // A label that would stick out at the end is left out; the line is there.
                let label = if share > 92.0 {
                    String::new()
                } else {
                    mark.format(format).to_string()
                };
                html.text_element("span", &[("style", &style)], &label);
            }
        });
    }
}

fn rfc3339(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a picture is a thousand units wide"
)]
fn seconds_of(delta: TimeDelta) -> f64 {
    delta.num_milliseconds() as f64 / 1000.0
}

fn coordinate(value: f64) -> String {
    format!("{value:.1}")
}
