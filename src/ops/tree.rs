//! `tree`: who asked for whom.

use super::agent_report::{AgentReport, Reporter};
use crate::domain::agent::Agent;
use crate::domain::id::AgentId;
use crate::error::Result;
use crate::ops::{Ctx, show};
use crate::store::ledger::Ledger;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The most agents that one tree shows.
const LIMIT: usize = 1024;

/// The answer of `tree`: depth-first, parents before children.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agents in the order they are drawn.
    pub agents: Vec<Node>,
    /// Whether there are more than fit.
    pub truncated: bool,
}

/// An agent and how deep it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// 0 for those without a parent.
    pub depth: usize,
    /// Whether it is the last of its parent's children, for drawing.
    #[serde(skip)]
    pub last: bool,
    /// The agent.
    #[serde(flatten)]
    pub agent: AgentReport,
}

/// The whole forest, or the tree below one agent.
///
/// Parents are what task files said, so a cycle is possible; each agent is shown once, and those in a
/// cycle hang from its oldest member.
///
/// # Errors
/// Those of the ledger; `agent-unknown` when a root is named.
pub fn tree(ctx: &Ctx, who: Option<&str>) -> Result<TreeReport> {
    let ledger = Ledger::new(&ctx.repo);
    let root = who.map(|who| show::find(ctx, &ledger, who)).transpose()?;
    let mut agents = ledger.agents()?;
    agents.sort_by_key(|agent| (agent.started, agent.id));
    let known: BTreeSet<AgentId> = agents.iter().map(|agent| agent.id).collect();
    let mut children: BTreeMap<Option<AgentId>, Vec<&Agent>> = BTreeMap::new();
    for agent in &agents {
        let parent = agent.parent.filter(|parent| known.contains(parent));
        children.entry(parent).or_default().push(agent);
    }
    let mut forest = Forest {
        children: &children,
        reporter: Reporter::new(ctx)?,
        drawn: BTreeSet::new(),
        nodes: Vec::new(),
    };
    match &root {
        Some(root) => forest.draw(root, 0, true),
        None => {
            forest.draw_children(None, 0);
            // What is left belongs to cycles.
            for agent in &agents {
                forest.draw(agent, 0, true);
            }
        }
    }
    let truncated = forest.nodes.len() > LIMIT;
    forest.nodes.truncate(LIMIT);
    Ok(TreeReport {
        schema: "git-agent.tree/1",
        agents: forest.nodes,
        truncated,
    })
}

struct Forest<'a> {
    children: &'a BTreeMap<Option<AgentId>, Vec<&'a Agent>>,
    reporter: Reporter,
    drawn: BTreeSet<AgentId>,
    nodes: Vec<Node>,
}

impl Forest<'_> {
    fn draw(&mut self, agent: &Agent, depth: usize, last: bool) {
        // One more than the limit is drawn, so that a cut can be told.
        if self.nodes.len() > LIMIT || !self.drawn.insert(agent.id) {
            return;
        }
        self.nodes.push(Node {
            depth,
            last,
            agent: self.reporter.agent(agent),
        });
        self.draw_children(Some(agent.id), depth + 1);
    }

    fn draw_children(&mut self, parent: Option<AgentId>, depth: usize) {
        let children = self.children.get(&parent).map_or(&[][..], Vec::as_slice);
        for (index, child) in children.iter().enumerate() {
            self.draw(child, depth, index + 1 == children.len());
        }
    }
}
