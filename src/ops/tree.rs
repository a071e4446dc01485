//! `tree`: who asked for whom.
//!
//! Where there are more than fit, the ones that fit are those nearest to a root, found level by level; they are
//! drawn as a tree all the same.

use crate::agents::{Ctx, who::lookup};
use crate::domain::{Agent, AgentId};
use crate::error::Result;
use crate::ops::agent_report::{AgentReport, Reporter};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most agents that one tree shows.
const LIMIT: usize = 1024;

/// The answer of `tree`: parents before children, each with all below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.tree/3")]
pub struct TreeReport {
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
    let root = who.map(|who| lookup::agent(ctx, &ctx.ledger(), who)).transpose()?;
    let mut agents = lookup::agents(ctx)?;
    agents.sort_unstable_by_key(|agent| (agent.started, agent.id));
    let known: BTreeSet<AgentId> = agents.iter().map(|agent| agent.id).collect();
    let mut children = Children::new();
    for agent in &agents {
        // A parent of which no row is here would hide all agents below it.
        let parent = agent.parent.filter(|parent| known.contains(parent));
        children.entry(parent).or_default().push(agent.id);
    }
    let (roots, rest) = match &root {
        Some(root) => (vec![root.id], Vec::new()),
        // Those that no root leads to belong to cycles.
        None => {
            let roots = children.get(&None).cloned().unwrap_or_default();
            (roots, agents.iter().map(|agent| agent.id).collect())
        }
    };
    // One more than is drawn tells whether there are more.
    let near = nearest(&roots, &rest, &children, LIMIT + 1);
    let truncated = near.len() > LIMIT;
    let mut forest = Forest {
        ctx,
        agents: agents.iter().map(|agent| (agent.id, agent)).collect(),
        children: &children,
        left: near.into_iter().take(LIMIT).collect(),
        reporter: Reporter::new(ctx)?,
        nodes: Vec::new(),
    };
    forest.draw_all(&roots, 0);
    forest.draw_all(&rest, 0);
    Ok(TreeReport { agents: forest.nodes, truncated })
}

/// The children of each agent, oldest first; those of `None` have no parent.
type Children = BTreeMap<Option<AgentId>, Vec<AgentId>>;

/// The first so many that are reached from the roots together, level by level, and then from each of the rest;
/// each once.
fn nearest(roots: &[AgentId], rest: &[AgentId], children: &Children, limit: usize) -> Vec<AgentId> {
    let mut reached = BTreeSet::new();
    let mut found = Vec::new();
    let mut queue: VecDeque<AgentId> = roots.iter().copied().collect();
    let mut rest = rest.iter().copied();
    while found.len() < limit {
        let Some(agent) = queue.pop_front().or_else(|| rest.next()) else {
            break;
        };
        if reached.insert(agent) {
            found.push(agent);
            queue.extend(children.get(&Some(agent)).into_iter().flatten());
        }
    }
    found
}

struct Forest<'a> {
    ctx: &'a Ctx,
    agents: BTreeMap<AgentId, &'a Agent>,
    children: &'a Children,
    /// Those still to be drawn.
    left: BTreeSet<AgentId>,
    reporter: Reporter,
    nodes: Vec<Node>,
}

impl Forest<'_> {
    fn draw_all(&mut self, agents: &[AgentId], depth: usize) {
        let those: Vec<AgentId> =
            agents.iter().filter(|one| self.left.contains(one)).copied().collect();
        for (index, id) in those.iter().enumerate() {
            // It may have been drawn as a child of one before it.
            let Some(agent) = self.agents.get(id).filter(|_| self.left.remove(id)) else {
                continue;
            };
            self.nodes.push(Node {
                depth,
                last: depth == 0 || index + 1 == those.len(),
                agent: self.reporter.agent(self.ctx, agent),
            });
            let children = self.children;
            let children = children.get(&Some(*id)).map_or(&[][..], Vec::as_slice);
            self.draw_all(children, depth + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::value::oid::Oid;

    fn id(digit: u8) -> AgentId {
        let oid = Oid::from_slice(&[digit; 20]).expect("20 bytes");
        AgentId::from_spawn_commit(oid)
    }

    /// Pairs of a parent (0 for none) and a child; what is nearest to the roots, then to everybody.
    fn check(pairs: &[(u8, u8)], limit: usize, expected: &[u8]) {
        let mut children = Children::new();
        for (parent, child) in pairs {
            let parent = (*parent > 0).then(|| id(*parent));
            children.entry(parent).or_default().push(id(*child));
        }
        let roots = children.get(&None).cloned().unwrap_or_default();
        let rest: Vec<_> = pairs.iter().map(|(_, child)| id(*child)).collect();
        let expected: Vec<_> = expected.iter().map(|digit| id(*digit)).collect();
        assert_eq!(nearest(&roots, &rest, &children, limit), expected);
    }

    #[test]
    fn what_is_nearest_to_a_root_comes_first_and_cycles_end() {
        let pairs = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (0, 6)];
        check(&pairs, 99, &[1, 6, 2, 5, 3, 4]);
        check(&pairs, 4, &[1, 6, 2, 5]);
        check(&[(2, 1), (1, 2), (2, 3)], 99, &[1, 2, 3]);
        check(&[(0, 1), (3, 2), (2, 3)], 99, &[1, 2, 3]);
        check(&[], 99, &[]);
    }
}
