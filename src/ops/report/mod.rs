//! `report`: everything that happened to all agents, gathered for one page.
//!
//! ```text
//! rows of the ledger + where work stands + commits that landed -> FleetReport -> JSON | page
//! ```
//!
//! The same repository gives the same report: nothing in it depends on when it is made, and time ends with
//! the last event.

mod life;
mod save;

pub use life::{LandedCommit, Run, Span, VerdictReport};
pub use save::{SavedReport, save};

use super::agent_report::{AgentReport, Reporter, rfc3339};
use super::event_report::{self, EventReport};
use super::standing::{Places, Standing, survey};
use super::tree::tree;
use crate::domain::agent::{Agent, State};
use crate::error::Result;
use crate::ops::Ctx;
use crate::store::ledger::Ledger;
use chrono::{DateTime, Utc};
use serde::Serialize;

/// The answer of `report`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FleetReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What the repository's directory is called.
    pub repository: String,
    /// The time of the last event, RFC 3339; absent without agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// How many agents are in each state that occurs, in the order of a life.
    pub states: Vec<StateCount>,
    /// Every agent, oldest first.
    pub agents: Vec<ReportedAgent>,
    /// Who asked for whom: depth-first, parents before children.
    pub tree: Vec<TreeEntry>,
}

/// How many agents are in a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StateCount {
    /// The state.
    pub state: &'static str,
    /// How many.
    pub count: usize,
}

/// An agent's place in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TreeEntry {
    /// 0 for those that no agent asked for.
    pub depth: usize,
    /// The agent's id.
    pub agent_id: String,
}

/// One agent's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedAgent {
    /// What the ledger says.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Where its work stands.
    #[serde(flatten)]
    pub standing: Standing,
    /// The states it was in, one after the other.
    pub spans: Vec<Span>,
    /// Every verdict on its work, oldest first.
    pub verdicts: Vec<VerdictReport>,
    /// The commit that its work landed as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landed: Option<LandedCommit>,
    /// Runs of its command, oldest first.
    pub runs: Vec<Run>,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// Gathers everything.
///
/// # Errors
/// Those of the ledger and of listing worktrees.
pub fn report(ctx: &Ctx) -> Result<FleetReport> {
    let ledger = Ledger::new(&ctx.repo);
    let mut agents = ledger.agents()?;
    agents.sort_by_key(|agent| (agent.started, agent.id));
    let until = agents.iter().map(|agent| agent.updated).max();
    let gather = Gather {
        ctx,
        ledger: &ledger,
        reporter: Reporter::new(ctx)?,
        until: until.unwrap_or_default(),
    };
    let places = Places::load(&ctx.repo)?;
    let wanted: Vec<&Agent> = agents.iter().collect();
    let mut reported = Vec::with_capacity(agents.len());
    survey(ctx, &wanted, &places, |index, standing| {
        reported.push(gather.agent(wanted[index], standing)?);
        Ok(())
    })?;
    let tree = tree(ctx, None)?.agents.into_iter().map(|node| TreeEntry {
        depth: node.depth,
        agent_id: node.agent.agent_id,
    });
    let root = ctx.repo.root()?;
    Ok(FleetReport {
        schema: "git-agent.report/1",
        repository: root
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        until: until.map(rfc3339),
        states: states(&agents),
        agents: reported,
        tree: tree.collect(),
    })
}

struct Gather<'a> {
    ctx: &'a Ctx,
    ledger: &'a Ledger<'a>,
    reporter: Reporter,
    until: DateTime<Utc>,
}

impl Gather<'_> {
    fn agent(&self, agent: &Agent, standing: Standing) -> Result<ReportedAgent> {
        let events = self.ledger.events(agent.spawn_commit)?;
        Ok(ReportedAgent {
            agent: self.reporter.agent(agent),
            standing,
            spans: life::spans(agent, &events, self.until),
            verdicts: life::verdicts(&events),
            landed: life::landed(&self.ctx.repo, agent, &events),
            runs: life::runs(&events),
            events: events.iter().map(event_report::event).collect(),
        })
    }
}

fn states(agents: &[Agent]) -> Vec<StateCount> {
    let count = |state: &State| StateCount {
        state: state.as_str(),
        count: agents.iter().filter(|agent| agent.state == *state).count(),
    };
    let counts = State::ALL.iter().map(count);
    counts.filter(|count| count.count > 0).collect()
}
