//! The page of `report --html`: one file, no script, nothing from elsewhere. `page.html` is its markup, `style.css` its
//! look; here is what they need to know.
//!
//! Widths follow the screen: on a phone, rows of tables become cards. Light and dark follow the reader's
//! setting. Every state has one colour and is always also written as a word.

use crate::cli::out::render::table::cut;
use crate::cli::out::render::{BY_NEED, task};
use crate::cli::verbs::overlap::{OverlapKind, meanings, most_telling_first, worth_a_line};
use crate::domain::State;
use crate::domain::value::named::turns_direction;
use crate::ops::agent_report::AgentReport;
use crate::ops::overlap::{OverlapReport, PairReport};
use crate::ops::report::{FleetReport, LandedCommit, ReportedAgent, RunSummary, Span, TreeEntry};
use crate::ops::status::{Fact, WorkStatus};
use askama::Template;
use chrono::{DateTime, TimeDelta, Utc};
use std::collections::HashMap;
use std::f64::consts::{FRAC_PI_2, TAU};
use std::fmt::{Display, Result, Write};

/// What the first lines of every page hold.
pub(super) const MARK: &str = "<meta name=\"generator\" content=\"git-agent\">";

/// The sections whose tables become cards on a narrow screen, with the titles of their columns.
const TABLES: [(&str, &[&str]); 6] = [
    ("needs", &["Agent", "State", "For", "Why", "Task"]),
    (
        "work",
        &["Agent", "State", "For", "Changed", "Cost", "Ran", "Scope", "Ahead", "Verdict", "Task"],
    ),
    ("overlap", &["Agent", "With", "Both"]),
    ("verdicts", &["Agent", "Time", "Verdict", "Judged", "Findings"]),
    ("landed", &["Agent", "Time", "Commit", "On", "Subject"]),
    ("runs", &["Agent", "Began", "Took", "Status", "Command"]),
];
/// Those of them that hold numbers, which stand below each other.
const NUMBERS: [&str; 7] = ["For", "Changed", "Cost", "Ran", "Ahead", "Took", "Status"];
/// What stands in a cell about which there is nothing to say. A phone leaves such cells out.
const NOTHING: &str = "–";

/// Units from the beginning of the axis to its end.
const WIDTH: f64 = 1000.0;
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

/// The whole page, which a browser reads again after so many seconds.
pub(super) fn page(report: &FleetReport, reload: Option<u32>) -> String {
    let agents = report.agents.iter().map(|agent| (agent.agent.agent_id.as_str(), &agent.agent));
    let page = FleetPage {
        title: format!("Agents of {}", report.repository),
        sections: FleetPage::sections(report),
        axis: Axis::of(report),
        overlap: report.overlap.known().map(Overlap::of),
        agents: agents.collect(),
        reload,
        report,
    };
    // Writing into a string cannot fail, and no filter of ours does.
    page.render().unwrap_or_default()
}

#[derive(Template)]
#[template(path = "page.html")]
struct FleetPage<'r> {
    title: String,
    report: &'r FleetReport,
    /// The parts that have anything in them: their ids and headings.
    sections: Vec<(&'static str, &'static str)>,
    axis: Axis,
    overlap: Option<Overlap<'r>>,
    agents: HashMap<&'r str, &'r AgentReport>,
    reload: Option<u32>,
}

impl FleetPage<'_> {
    fn sections(report: &FleetReport) -> Vec<(&'static str, &'static str)> {
        let any = |is: fn(&ReportedAgent) -> bool| report.agents.iter().any(is);
        let overlaps = report.overlap.known().is_some_and(|overlap| !overlap.pairs.is_empty());
        let is_nested = report.tree.iter().any(|entry| entry.depth > 0);
        let sections = [
            (!FleetPage::needs(report).is_empty(), "needs", "Needs you"),
            (!FleetPage::open(report).is_empty(), "work", "Work in progress"),
            (overlaps, "overlap", "In each other's way"),
            (true, "timeline", "Timeline"),
            (is_nested, "tree", "Who asked for whom"),
            (any(|agent| !agent.verdicts.is_empty()), "verdicts", "Verdicts"),
            (any(|agent| agent.landed.is_some()), "landed", "Landed"),
            (any(|agent| !agent.runs.is_empty()), "runs", "Runs"),
            (true, "agents", "Every agent"),
        ];
        let there = sections.into_iter().filter(|(is_there, ..)| *is_there);
        there.map(|(_, id, heading)| (id, heading)).collect()
    }

    /// Agents that do not go on before a person decides something, and what that is; who waits longest comes first.
    fn needs(report: &FleetReport) -> Vec<(&ReportedAgent, &'static str)> {
        let mut needs: Vec<_> = report
            .agents
            .iter()
            .filter_map(|agent| Some((agent, agent.standing.need(&agent.agent)?)))
            .collect();
        needs.sort_by_key(|(agent, _)| agent.spans.last().map(|span| span.begin));
        needs
    }

    fn task(agent: &AgentReport) -> String {
        task(agent).unwrap_or_default()
    }

    /// How long an agent has been in its state.
    fn since(agent: &ReportedAgent) -> String {
        let last = agent.spans.last();
        last.map_or_else(String::new, |span| duration(span.end - span.begin))
    }

    /// Agents for which there is still something to do, by their states.
    fn open(report: &FleetReport) -> Vec<&ReportedAgent> {
        let order = BY_NEED.map(State::as_str);
        let place = |agent: &ReportedAgent| order.iter().position(|it| *it == agent.agent.state);
        let mut open: Vec<_> =
            report.agents.iter().filter(|agent| place(agent).is_some()).collect();
        open.sort_by_key(|agent| place(agent));
        open
    }

    /// `3f +10 −2`: files and lines that were changed.
    fn changed(agent: &ReportedAgent) -> String {
        let diff = agent.diff.filter(|diff| diff.files > 0);
        diff.map_or(NOTHING.to_owned(), |diff| {
            format!("{}f +{} −{}", diff.files, diff.insertions, diff.deletions)
        })
    }

    /// What all of an agent's runs cost, as far as their hosts said.
    fn cost(agent: &ReportedAgent) -> String {
        let costs = agent.runs.iter().filter_map(|run| run.session.cost_usd);
        let cost = costs.reduce(|sum, cost| sum + cost);
        cost.map_or(NOTHING.to_owned(), |cost| format!("${cost:.2}"))
    }

    /// How long all of an agent's runs took, of which the last may go on.
    fn ran(&self, agent: &ReportedAgent) -> String {
        let took = |run: &RunSummary| match run.duration_ms {
            Some(took) => TimeDelta::milliseconds(took),
            None => DateTime::parse_from_rfc3339(&run.started_at)
                .map_or(TimeDelta::zero(), |began| self.axis.end - began.to_utc()),
        };
        let ran = agent.runs.iter().map(took).reduce(|sum, took| sum + took);
        ran.map_or(NOTHING.to_owned(), duration)
    }

    /// The states that any agent was in, in the order of a life.
    fn occurring(report: &FleetReport) -> Vec<&'static str> {
        let mut spans = Vec::new();
        spans.extend(report.agents.iter().flat_map(|agent| &agent.spans));
        let occurs = |state: &&str| spans.iter().any(|span| span.state == *state);
        State::ALL.map(State::as_str).into_iter().filter(occurs).collect()
    }

    /// Each entry of the tree, and how deep the next one is.
    fn tree(report: &FleetReport) -> Vec<(&TreeEntry, usize)> {
        let next = report.tree.iter().skip(1).map(|entry| entry.depth).chain([0]);
        report.tree.iter().zip(next).collect()
    }

    fn landed(report: &FleetReport) -> Vec<(&AgentReport, &LandedCommit)> {
        let agents = report.agents.iter();
        let mut landed: Vec<_> =
            agents.filter_map(|agent| Some((&agent.agent, agent.landed.as_ref()?))).collect();
        landed.sort_by_key(|(_, landed)| &landed.landed_at);
        landed
    }

    fn history(agent: &ReportedAgent) -> String {
        agent.spans.iter().map(told).collect::<Vec<_>>().join(", ")
    }

    fn lifetime(agent: &ReportedAgent) -> String {
        let ends = agent.spans.first().zip(agent.spans.last());
        ends.map_or_else(String::new, |(first, last)| duration(last.end - first.begin))
    }

    fn took(run: &RunSummary) -> String {
        let took = run.duration_ms.map(TimeDelta::milliseconds);
        took.map_or_else(|| "?".to_owned(), duration)
    }

    /// What there is of mail: 2 sent, 1 pending.
    fn mail(agent: &ReportedAgent) -> Vec<(usize, &'static str)> {
        let mail = &agent.mail;
        let counts = [(mail.sent, "sent"), (mail.received, "received"), (mail.pending, "pending")];
        counts.into_iter().filter(|(count, _)| *count > 0).collect()
    }

    fn facts(reported: &ReportedAgent) -> Vec<(&'static str, String)> {
        let (agent, standing) = (&reported.agent, &reported.standing);
        let base = agent.base.as_ref().map(|base| match &base.refname {
            Some(name) => format!("{name} {}", FleetPage::short(&base.oid)),
            None => base.oid.clone(),
        });
        let facts = [
            ("Agent ID", Some(agent.agent_id.clone())),
            ("Role", agent.role.clone()),
            ("Isolation", agent.isolation.map(str::to_owned)),
            ("Parent", agent.parent_id.clone()),
            ("Branch", agent.branch.clone()),
            ("Base", base),
            ("Summary", agent.summary.clone()),
            ("DNA", agent.dna.clone()),
            (
                "Not committed",
                standing
                    .uncommitted
                    .known()
                    .filter(|count| **count > 0)
                    .map(|count| format!("{count} paths")),
            ),
            (
                "Bundle",
                standing
                    .bundle
                    .known()
                    .map(|bundle| format!("{} of {} files", bundle.good, bundle.of)),
            ),
        ];
        let known = facts.into_iter().filter_map(|(key, value)| Some((key, value?)));
        known.filter(|(_, value)| !value.is_empty()).collect()
    }

    /// A fact in a cell: a dash where it does not apply, a question mark where it is unknown.
    fn told<T: Display>(fact: &Fact<T>) -> String {
        match fact {
            Fact::NotApplicable => NOTHING.to_owned(),
            Fact::Unknown => "?".to_owned(),
            Fact::Known(value) => value.to_string(),
        }
    }

    /// `+2 −1`: two commits to land, one that the target has gained.
    fn ahead(standing: &WorkStatus) -> String {
        match (&standing.ahead, &standing.behind) {
            (Fact::Known(ahead), Fact::Known(behind @ 1..)) => format!("+{ahead} −{behind}"),
            (Fact::Known(ahead), Fact::Known(_)) => format!("+{ahead}"),
            (ahead, _) => FleetPage::told(ahead),
        }
    }

    fn verdict_class(word: &str) -> &'static str {
        match word {
            "accepted" => "done",
            "rejected" => "failed",
            "stale" => "rejected",
            _ => "none",
        }
    }

    /// An oid as people read it.
    fn short(oid: &str) -> &str {
        oid.get(..7).unwrap_or(oid)
    }

    /// `2026-11-21 10:15` of an RFC 3339 time.
    fn minute(time: &str) -> String {
        time.chars().take(16).collect::<String>().replace('T', " ")
    }
}

impl OverlapKind {
    fn class(self) -> &'static str {
        match self {
            OverlapKind::Conflict => "failed",
            OverlapKind::Changes => "rejected",
            OverlapKind::Scopes => "none",
        }
    }
}

/// What the pairs of `git agent overlap` have in common, the worst first.
struct Overlap<'r> {
    meanings: Vec<(OverlapKind, &'static str)>,
    listed: Vec<&'r PairReport>,
    more_pairs: usize,
}

impl<'r> Overlap<'r> {
    fn of(overlap: &'r OverlapReport) -> Overlap<'r> {
        let pairs = most_telling_first(overlap);
        let listed = worth_a_line(&pairs).to_vec();
        Overlap {
            meanings: meanings(overlap).collect(),
            more_pairs: pairs.len() - listed.len(),
            listed,
        }
    }
}

/// Who meets whom, in one look: the agents on a ring, a line for each pair.
struct RingPicture {
    width: f64,
    height: f64,
    lines: Vec<GraphLine>,
    dots: Vec<GraphDot>,
}

struct GraphLine {
    class: &'static str,
    from: Point,
    to: Point,
}

struct GraphDot {
    at: Point,
    label: Point,
    anchor: &'static str,
    text: String,
}

/// Where something is drawn, to a tenth of a unit.
type Point = (String, String);

/// The names of more agents would cover each other.
const MOST_DOTS: usize = 16;

impl Overlap<'_> {
    /// The agents of the listed pairs on a ring; `None` for one pair, which a line of text says, and for too many agents.
    fn graph(&self, agents: &HashMap<&str, &AgentReport>) -> Option<RingPicture> {
        let ids = self.listed.iter().flat_map(|pair| [&pair.one_id, &pair.two_id]);
        let mut ring: Vec<&str> = Vec::new();
        for id in ids {
            if !ring.contains(&id.as_str()) {
                ring.push(id);
            }
        }
        if !(3..=MOST_DOTS).contains(&ring.len()) {
            return None;
        }
        let (width, height) = (540.0, 240.0);
        let turn = TAU / f64::from(u32::try_from(ring.len()).ok()?);
        let angle = |place: u32| f64::from(place) * turn - FRAC_PI_2;
        let point = |angle: f64, (x, y): (f64, f64)| -> Point {
            let at = |middle: f64, radius: f64| format!("{:.1}", middle / 2.0 + radius);
            (at(width, x * angle.cos()), at(height, y * angle.sin()))
        };
        let dots: Vec<GraphDot> = ring
            .iter()
            .zip(0..)
            .map(|(id, place)| {
                let angle = angle(place);
                GraphDot {
                    at: point(angle, (150.0, 100.0)),
                    label: point(angle, (160.0, 114.0)),
                    anchor: match angle.cos() {
                        right if right > 0.1 => "start",
                        left if left < -0.1 => "end",
                        _ => "middle",
                    },
                    text: { agents.get(id) }.map_or_else(String::new, |agent| {
                        cut(agent.name.as_deref().unwrap_or(&agent.short_id), 14)
                    }),
                }
            })
            .collect();
        let of = |id: &str| {
            let place = ring.iter().position(|one| *one == id)?;
            Some(dots.get(place)?.at.clone())
        };
        let line = |pair: &&PairReport| {
            Some(GraphLine {
                class: OverlapKind::of(pair).class(),
                from: of(&pair.one_id)?,
                to: of(&pair.two_id)?,
            })
        };
        // What is worst is drawn last, above the others.
        let lines = self.listed.iter().rev().filter_map(line).collect();
        Some(RingPicture { width, height, lines, dots })
    }
}

/// When each agent was in which state, on one common axis.
struct Axis {
    begin: DateTime<Utc>,
    end: DateTime<Utc>,
}

/// A state of an agent as it is drawn.
struct DrawnSpan {
    state: &'static str,
    told: String,
    x: String,
    y: &'static str,
    width: String,
    height: &'static str,
}

impl Axis {
    fn of(report: &FleetReport) -> Axis {
        let spans = || report.agents.iter().flat_map(|agent| &agent.spans);
        let begin = spans().map(|span| span.begin).min().unwrap_or_default();
        let end = spans().map(|span| span.end).max().unwrap_or(begin);
        Axis { begin, end }
    }

    fn range(&self) -> String {
        let minute = |time: DateTime<Utc>| time.format("%Y-%m-%d %H:%M");
        format!("{} to {}", minute(self.begin), minute(self.end))
    }

    fn position(&self, time: DateTime<Utc>) -> f64 {
        // All of it may have happened at one moment.
        seconds(time - self.begin) / seconds(self.end - self.begin).max(1e-6) * WIDTH
    }

    /// Where the marks are, in hundredths of the whole, with their times. Each is also a line through all rows below.
    fn marks(&self) -> Vec<(String, String)> {
        let seconds = (self.end - self.begin).num_seconds().max(1);
        let step = STEPS
            .iter()
            .find(|step| seconds / **step <= MOST_STEPS)
            .copied()
            .unwrap_or(seconds / MOST_STEPS);
        let first = (self.begin.timestamp() / step + 1) * step;
        let marks =
            (0..=MOST_STEPS).filter_map(|index| DateTime::from_timestamp(first + index * step, 0));
        let label = |mark: DateTime<Utc>| {
            let share = self.position(mark) / WIDTH * 100.0;
            let format = match (mark.timestamp() % 86_400 == 0, seconds < 360) {
                // A label that would stick out at the end is left out; the line is there.
                _ if share > 92.0 => "",
                (true, _) => "%b %-d",
                (_, true) => "%H:%M:%S",
                _ => "%H:%M",
            };
            (format!("{share:.2}"), mark.format(format).to_string())
        };
        marks.filter(|mark| *mark < self.end).map(label).collect()
    }

    fn pieces(&self, agent: &ReportedAgent) -> Vec<DrawnSpan> {
        let piece = |span: &Span| {
            let (from, to) = (self.position(span.begin), self.position(span.end));
            let is_end = span.begin == span.end;
            let width = if is_end { END } else { (to - from).max(LEAST) };
            // A moment, work, and work that waits for a decision.
            let (y, height) = match span.state {
                _ if is_end => ("0", "14"),
                "spawning" | "ready" | "running" | "waiting" | "idle" => ("3", "8"),
                _ => ("5.5", "3"),
            };
            // Nothing is drawn beyond the end of the axis.
            let x = format!("{:.1}", from.min(WIDTH - width));
            let width = format!("{width:.1}");
            DrawnSpan { state: span.state, told: told(span), x, y, width, height }
        };
        agent.spans.iter().map(piece).collect()
    }
}

/// A stretch of time in words.
fn told(span: &Span) -> String {
    let entered = format!("{} {}", span.state, FleetPage::minute(&span.entered_at));
    if span.begin == span.end {
        return entered;
    }
    format!("{entered} for {}", duration(span.end - span.begin))
}

/// How long something took, in at most two units: `45s`, `12m`, `3h 5m`, `9d 4h`.
fn duration(delta: TimeDelta) -> String {
    let seconds = delta.num_seconds().max(0);
    let (large, letter, small, small_letter) = match seconds {
        ..60 => (seconds, "s", 0, ""),
        60..3_600 => (seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => (seconds / 3_600, "h", seconds % 3_600 / 60, "m"),
        _ => (seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    };
    match small {
        0 => format!("{large}{letter}"),
        small => format!("{large}{letter} {small}{small_letter}"),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a picture is a thousand units wide")]
fn seconds(delta: TimeDelta) -> f64 {
    delta.num_milliseconds() as f64 / 1000.0
}

/// Escapes text of any kind (`askama.toml` names it). HTML knows no way to write control characters, and text that turns
/// around lies about what it says: both are shown as what cannot be shown.
#[derive(Clone, Copy)]
pub(super) struct Visible;

impl askama::filters::Escaper for Visible {
    fn write_escaped_str<W: Write>(&self, mut out: W, text: &str) -> Result {
        text.chars().try_for_each(|c| match c {
            '&' => out.write_str("&amp;"),
            '<' => out.write_str("&lt;"),
            '>' => out.write_str("&gt;"),
            '"' => out.write_str("&quot;"),
            '\'' => out.write_str("&#39;"),
            '\n' | '\t' => out.write_char(c),
            c if c.is_control() || turns_direction(c) => out.write_char('\u{fffd}'),
            c => out.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use askama::filters::Escaper;

    #[test]
    fn text_stays_text() {
        let mut out = String::new();
        let text = "a\"><script></style> & 'x' \u{0}\u{202e}\u{200f}\u{061c}";
        Visible.write_escaped_str(&mut out, text).expect("written");
        let safe = "a&quot;&gt;&lt;script&gt;&lt;/style&gt; &amp; &#39;x&#39; \u{fffd}\u{fffd}\u{fffd}\u{fffd}";
        assert_eq!(out, safe);
    }
}
