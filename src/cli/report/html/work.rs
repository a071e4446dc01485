//! What is being worked on, how it was judged, what landed and what ran.

use super::phrases::{duration, mail, name, short};
use super::table::{Table, numbers, words};
use super::writer::Html;
use super::{minute, state};
use crate::ops::report::{FleetReport, ReportedAgent, Run, VerdictReport};
use crate::ops::status::{Fact, WorkStatus};
use chrono::TimeDelta;

/// States in which there is still something to do.
const OPEN: &[&str] = &[
    "spawning", "ready", "running", "waiting", "idle", "done", "failed", "rejected",
];

fn open(report: &FleetReport) -> impl Iterator<Item = &ReportedAgent> {
    let open = |agent: &&ReportedAgent| OPEN.contains(&agent.agent.state);
    report.agents.iter().filter(open)
}

/// Whether anything is neither landed nor discarded.
pub(super) fn is_any(report: &FleetReport) -> bool {
    open(report).next().is_some()
}

/// Whether any work was ever judged.
pub(super) fn is_any_judged(report: &FleetReport) -> bool {
    let mut agents = report.agents.iter();
    agents.any(|agent| !agent.verdicts.is_empty())
}

/// Whether anything landed.
pub(super) fn has_any_landed(report: &FleetReport) -> bool {
    report.agents.iter().any(|agent| agent.landed.is_some())
}

/// Whether a command of ours ran for any agent.
pub(super) fn has_any_run(report: &FleetReport) -> bool {
    report.agents.iter().any(|agent| !agent.runs.is_empty())
}

pub(super) const WORK: Table = Table {
    section: "work",
    columns: &[
        words("Agent"),
        words("State"),
        words("Scope"),
        numbers("Ahead"),
        numbers("Dirty"),
        numbers("Bundle"),
        words("Verdict"),
        words("Mail"),
        words("Task"),
    ],
};

pub(super) fn in_progress(html: &mut Html, report: &FleetReport) {
    WORK.write(html, open(report), |html, agent, column| {
        let standing = &agent.standing;
        match column {
            0 => name(html, &agent.agent),
            1 => {
                state(html, agent.agent.state);
                html.text(if agent.agent.deferred {
                    " (deferred)"
                } else {
                    ""
                });
            }
            2 => scope(html, standing),
            3 => html.text(&ahead(standing)),
            4 => html.text(&told(&standing.uncommitted, usize::to_string)),
            5 => html.text(&told(&standing.bundle, |bundle| {
                format!("{}/{}", bundle.good, bundle.of)
            })),
            6 => verdict(html, &told(&standing.verdict_word, ToString::to_string)),
            7 => mail(html, &agent.mail),
            _ => html.text(agent.agent.description.as_deref().unwrap_or_default()),
        }
    });
}

fn scope(html: &mut Html, standing: &WorkStatus) {
    match &standing.out_of_scope {
        Fact::Known(0) => html.text("ok"),
        Fact::Known(out) => {
            html.text_element("span", &[("class", "failed")], &format!("{out} out"))
        }
        other => html.text(&told(other, usize::to_string)),
    }
}

/// `+2 −1`: two commits to land, one that the target has gained.
fn ahead(standing: &WorkStatus) -> String {
    match (&standing.ahead, &standing.behind) {
        (Fact::Known(ahead), Fact::Known(0)) => format!("+{ahead}"),
        (Fact::Known(ahead), Fact::Known(behind)) => format!("+{ahead} −{behind}"),
        (ahead, _) => told(ahead, usize::to_string),
    }
}

/// A fact in a cell: a dash where it does not apply, a question mark where it is unknown.
fn told<T>(fact: &Fact<T>, known: impl Fn(&T) -> String) -> String {
    match fact {
        Fact::NotApplicable => "–".to_owned(),
        Fact::Unknown => "?".to_owned(),
        Fact::Known(value) => known(value),
    }
}

/// A verdict as people read it.
fn past(verdict: &str) -> &'static str {
    if verdict == "accept" {
        "accepted"
    } else {
        "rejected"
    }
}

fn verdict(html: &mut Html, word: &str) {
    let class = match word {
        "accepted" => "done",
        "rejected" => "failed",
        "stale" => "rejected",
        _ => "none",
    };
    html.text_element("span", &[("class", class)], word);
}

pub(super) const VERDICTS: Table = Table {
    section: "verdicts",
    columns: &[
        words("Agent"),
        words("Time"),
        words("Verdict"),
        words("Judged"),
        words("Findings"),
    ],
};

pub(super) fn verdicts(html: &mut Html, report: &FleetReport) {
    let rows = report
        .agents
        .iter()
        .flat_map(|agent| agent.verdicts.iter().map(move |verdict| (agent, verdict)));
    VERDICTS.write(html, rows, |html, (agent, judged), column| match column {
        0 => name(html, &agent.agent),
        1 => html.text(&minute(&judged.recorded_at)),
        2 => verdict(html, past(judged.verdict)),
        3 => html.text_element("code", &[], short(&judged.tip)),
        _ => findings(html, judged),
    });
}

fn findings(html: &mut Html, judged: &VerdictReport) {
    if judged.findings.is_empty() {
        html.text("–");
        return;
    }
    html.element("ul", &[("class", "findings")], |html| {
        for finding in &judged.findings {
            html.element("li", &[], |html| {
                html.text_element("code", &[], &finding.code);
                html.text(" ");
                html.text(finding.meaning.unwrap_or_default());
            });
        }
    });
}

pub(super) const LANDED: Table = Table {
    section: "landed",
    columns: &[
        words("Agent"),
        words("Time"),
        words("Commit"),
        words("On"),
        words("Subject"),
    ],
};

pub(super) fn landed(html: &mut Html, report: &FleetReport) {
    let mut rows: Vec<_> = report
        .agents
        .iter()
        .filter_map(|agent| Some((agent, agent.landed.as_ref()?)))
        .collect();
    rows.sort_by_key(|(_, landed)| &landed.landed_at);
    LANDED.write(html, rows, |html, (agent, landed), column| match column {
        0 => name(html, &agent.agent),
        1 => html.text(&minute(&landed.landed_at)),
        2 => html.text_element("code", &[], short(&landed.commit)),
        3 => html.text(landed.target.short()),
        _ => html.text(landed.subject.as_deref().unwrap_or("?")),
    });
}

pub(super) const RUNS: Table = Table {
    section: "runs",
    columns: &[
        words("Agent"),
        words("Began"),
        numbers("Took"),
        numbers("Status"),
        words("Command"),
    ],
};

pub(super) fn runs(html: &mut Html, report: &FleetReport) {
    let rows = report
        .agents
        .iter()
        .flat_map(|agent| agent.runs.iter().map(move |run| (agent, run)));
    RUNS.write(html, rows, |html, (agent, run), column| match column {
        0 => name(html, &agent.agent),
        1 => html.text(&minute(&run.started_at)),
        2 => match run.duration_ms.map(TimeDelta::milliseconds) {
            Some(took) => html.text(&duration(took)),
            None => html.text("?"),
        },
        3 => match run.exit_code {
            Some(0) => html.text("0"),
            Some(code) => html.text_element("span", &[("class", "failed")], &ended(code, run)),
            None => html.text("?"),
        },
        _ => html.text_element("code", &[], &run.command),
    });
}

/// A status that is not 0, with what ended the command where that was not the command itself.
fn ended(code: u8, run: &Run) -> String {
    match run.ended {
        None | Some("exit") => code.to_string(),
        Some(ended) => format!("{code} ({ended})"),
    }
}
