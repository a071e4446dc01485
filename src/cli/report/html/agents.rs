//! The agents themselves: how they are named, who asked for whom, and everything about each.

use super::phrases::{anchor, mail, name, short};
use super::writer::Html;
use super::{minute, state};
use crate::ops::agent_report::AgentReport;
use crate::ops::report::{FleetReport, MailTally, ReportedAgent, TreeEntry};
use std::collections::BTreeMap;

/// Whether any agent asked for another.
pub(super) fn has_children(report: &FleetReport) -> bool {
    report.tree.iter().any(|entry| entry.depth > 0)
}

/// Parents with their children below them.
pub(super) fn tree(html: &mut Html, report: &FleetReport) {
    let agents: BTreeMap<&str, &ReportedAgent> = report
        .agents
        .iter()
        .map(|agent| (agent.agent.agent_id.as_str(), agent))
        .collect();
    let mut rest = report.tree.as_slice();
    list(html, &agents, &mut rest, 0);
}

/// The entries at one depth, each with those below it; takes them from the front.
fn list(
    html: &mut Html,
    agents: &BTreeMap<&str, &ReportedAgent>,
    rest: &mut &[TreeEntry],
    depth: usize,
) {
    html.element("ul", &[("class", "tree")], |html| {
        while let Some((first, others)) = rest.split_first()
            && first.depth >= depth
        {
            *rest = others;
            html.element("li", &[], |html| {
                if let Some(agent) = agents.get(first.agent_id.as_str()) {
                    entry(html, &agent.agent);
                }
                if rest.first().is_some_and(|next| next.depth > depth) {
                    list(html, agents, rest, depth + 1);
                }
            });
            html.line();
        }
    });
}

fn entry(html: &mut Html, agent: &AgentReport) {
    name(html, agent);
    html.text(" ");
    state(html, agent.state);
    html.text(" ");
    html.text(agent.description.as_deref().unwrap_or_default());
}

/// Everything about each agent, folded in.
pub(super) fn write(html: &mut Html, report: &FleetReport) {
    for agent in &report.agents {
        html.element(
            "details",
            &[("id", &anchor(&agent.agent.agent_id))],
            |html| {
                html.element("summary", &[], |html| {
                    html.text_element("code", &[], &agent.agent.short_id);
                    html.text(" ");
                    if let Some(name) = &agent.agent.name {
                        html.text_element("b", &[], name);
                        html.text(" ");
                    }
                    state(html, agent.agent.state);
                    html.text(" ");
                    html.text(agent.agent.description.as_deref().unwrap_or_default());
                });
                facts(html, agent);
                history(html, agent);
            },
        );
        html.line();
    }
}

fn facts(html: &mut Html, reported: &ReportedAgent) {
    let agent = &reported.agent;
    let base = agent.base.as_ref().map(|base| match &base.refname {
        Some(name) => format!("{name} {}", short(&base.oid)),
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
    ];
    html.element("dl", &[], |html| {
        for (key, value) in facts {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                html.text_element("dt", &[], key);
                html.text_element("dd", &[], &value);
            }
        }
        if reported.mail != MailTally::default() {
            html.text_element("dt", &[], "Mail");
            html.element("dd", &[], |html| mail(html, &reported.mail));
        }
        for problem in &agent.irregular {
            html.text_element("dt", &[("class", "failed")], "Irregular");
            html.text_element("dd", &[], problem);
        }
    });
}

fn history(html: &mut Html, agent: &ReportedAgent) {
    html.element("ul", &[("class", "events")], |html| {
        for event in &agent.events {
            html.element("li", &[], |html| {
                html.text(&minute(&event.recorded_at));
                html.text(" ");
                html.text_element("b", &[], &event.event);
                html.text(&format!(" by {} ", event.by));
                html.text(event.detail.as_deref().unwrap_or_default());
            });
            html.line();
        }
    });
}
