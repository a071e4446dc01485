//! How agents look: in a table, alone, as a tree.

use super::table::{Cell, Table};
use crate::cli::style::{BAD, BOLD, DIM, GOOD, HINT, WARN, paint};
use crate::cli::terminal::width;
use crate::cli::ui::Answer;
use crate::ops::agent_report::AgentReport;
use crate::ops::event_report::EventReport;
use crate::ops::show::Invocation;
use crate::ops::show::LogReport;
use crate::ops::show::PathReport;
use crate::ops::show::ShowReport;
use crate::ops::status::Fact;
use crate::ops::status::WorkStatus;
use crate::ops::tree::Node;
use crate::ops::tree::TreeReport;
use anstyle::Style;
use serde_json::{Value, json};

pub(super) const NO_AGENTS: &str = "(no agents)\n";

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
            text.push_str(&branch_lines(node, &open));
            open.push(!node.last);
            let agent = &node.agent;
            text.push_str(&format!(
                "{} {} {}\n",
                paint(BOLD, &handle(agent)),
                paint(state_style(agent.state), &state(agent)),
                agent.description.as_deref().unwrap_or_default()
            ));
        }
        if self.truncated {
            text.push_str("… and more\n");
        }
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|node| json!(node)).collect()
    }
}

impl Answer for ShowReport {
    fn text(&self) -> String {
        let agent = &self.agent;
        let list = |globs: &Option<Option<Vec<String>>>| match globs.as_ref()? {
            Some(globs) => Some(globs.join(" ")),
            None => Some("not known in this clone".to_owned()),
        };
        let base = agent.base_oid.as_ref().map(|oid| match &agent.base_ref {
            Some(name) => format!("{name} {}", &oid[..7]),
            None => oid.clone(),
        });
        let clone = (!agent.local).then(|| format!("{}, not this one", agent.clone_id));
        let lines = [
            ("Agent ID", Some(agent.agent_id.clone())),
            ("Name", agent.name.clone()),
            (
                "State",
                Some(paint(state_style(agent.state), &state(agent))),
            ),
            ("Summary", agent.summary.clone()),
            ("Task", agent.description.clone()),
            ("Role", agent.role.clone()),
            ("Parent", agent.parent_id.clone()),
            ("Clone", clone),
            ("Branch", agent.branch.clone()),
            ("Worktree", agent.worktree_path.clone()),
            ("Base", base),
            ("May touch", list(&self.whitelist)),
            ("Never", list(&self.denylist)),
            ("Checks", list(&self.checks)),
            ("Ahead", ahead(&self.standing)),
            ("Dirty", dirty(&self.standing)),
            ("Scope", scope(&self.standing)),
            ("Bundle", bundle(&self.standing)),
            ("Verdict", verdict(&self.standing)),
            ("DNA", agent.dna.clone()),
        ];
        let mut text = String::new();
        for (key, value) in lines {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                let key = format!("{:10}", format!("{key}:"));
                text.push_str(&format!("{} {value}\n", paint(BOLD, &key)));
            }
        }
        for problem in &agent.irregular {
            text.push_str(&format!("{} {problem}\n", paint(WARN, "irregular:")));
        }
        if let Some(claimed) = agent.claimed_state {
            let short = &agent.short_id;
            let how = if claimed == "merged" {
                "if it landed elsewhere, git fetch brings the proof; to see who wrote the row, run git agent log"
            } else {
                "to remove it here as well, run git agent discard"
            };
            text.push_str(&format!("{} {how} {short}\n", paint(HINT, "hint:")));
        }
        text.push('\n');
        text.push_str(&history(&self.events));
        text
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for LogReport {
    fn text(&self) -> String {
        history(&self.events)
    }

    fn json(&self) -> Value {
        json!(self)
    }

    fn rows(&self) -> Vec<Value> {
        self.events.iter().map(|event| json!(event)).collect()
    }
}

impl Answer for Invocation {
    fn text(&self) -> String {
        format!("{:#}\n", self.json())
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for PathReport {
    fn text(&self) -> String {
        format!("{}\n", self.worktree_abspath)
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

fn ahead(standing: &WorkStatus) -> Option<String> {
    let (ahead, behind) = (standing.ahead.known()?, standing.behind.known()?);
    Some(format!("{ahead} to land, {behind} behind"))
}

fn dirty(standing: &WorkStatus) -> Option<String> {
    counted(&standing.dirty, "nothing", "not committed")
}

fn scope(standing: &WorkStatus) -> Option<String> {
    counted(&standing.out_of_scope, "ok", "out of scope")
}

fn counted(fact: &Fact<usize>, none: &str, some: &str) -> Option<String> {
    Some(match fact {
        Fact::NotApplicable => return None,
        Fact::Unknown => "?".to_owned(),
        Fact::Known(0) => none.to_owned(),
        Fact::Known(1) => format!("1 path {some}"),
        Fact::Known(count) => format!("{count} paths {some}"),
    })
}

fn bundle(standing: &WorkStatus) -> Option<String> {
    let bundle = standing.bundle.known()?;
    Some(format!("{} of {} files", bundle.good, bundle.of))
}

fn verdict(standing: &WorkStatus) -> Option<String> {
    let verdict = standing.verdict.known().filter(|word| **word != "none")?;
    let codes = standing.verdict_findings.known();
    Some(match codes {
        Some(codes) => format!("{verdict}: {}", codes.join(", ")),
        None => (*verdict).to_owned(),
    })
}

fn history(events: &[EventReport]) -> String {
    let mut table = Table::new(vec!["TIME", "EVENT", "BY", "DETAIL"], width());
    for event in events {
        // Fractions of a second are for machines.
        let time = event.time.split('.').next().unwrap_or_default();
        table.push(vec![
            Cell::painted(DIM, format!("{time}Z")),
            Cell::plain(event.event.clone()),
            Cell::painted(DIM, event.by.clone()),
            Cell::plain(event.detail.clone().unwrap_or_default()),
        ]);
    }
    table.render()
}

fn branch_lines(node: &Node, open: &[bool]) -> String {
    if node.depth == 0 {
        return String::new();
    }
    let ancestors = open.iter().skip(1);
    let mut text: String = ancestors
        .map(|goes_on| if *goes_on { "│  " } else { "   " })
        .collect();
    text.push_str(if node.last { "└─ " } else { "├─ " });
    text
}

pub(super) fn handle(agent: &AgentReport) -> String {
    handle_of(&agent.short_id, agent.name.as_deref())
}

/// An agent's short id and its name.
pub(super) fn handle_of(short_id: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{short_id} {name}"),
        None => short_id.to_owned(),
    }
}

pub(super) fn state(agent: &AgentReport) -> String {
    if let Some(claimed) = agent.claimed_state {
        return format!("{} (claimed {claimed})", agent.state);
    }
    let run = agent.run.as_ref().map(|run| run.state);
    match (agent.deferred, run) {
        (true, _) => format!("{} (deferred)", agent.state),
        (false, Some("running")) => format!("{} (at work)", agent.state),
        (false, Some("dead")) => format!("{} (run died)", agent.state),
        _ => agent.state.to_owned(),
    }
}

pub(super) fn state_style(state: &str) -> Style {
    match state {
        "done" | "merged" => GOOD,
        "failed" | "rejected" => BAD,
        "spawning" => WARN,
        _ => Style::new(),
    }
}
