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

use crate::agents::ctx::Ctx;
use crate::agents::work::is_live;
use crate::agents::{liveness, lookup};
use crate::domain::agent::{Agent, State};
use crate::domain::event::{Event, Exited, What};
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::ops::agent_report::{AgentReport, Reporter, rfc3339};
use crate::ops::event_report;
use crate::ops::event_report::EventReport;
use crate::ops::overlap::{OverlapOptions, OverlapReport, overlap};
use crate::ops::status::{Fact, OverlapSet, Places, WorkStatus, survey};
use crate::ops::tree::tree;
use crate::store::ledger::Ledger;
use crate::store::mailbox::{Mailbox, Reader, Tally};
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// The answer of `report`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FleetReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What the repository's directory is called.
    pub repository: String,
    /// The time of the last event, RFC 3339; absent without agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<String>,
    /// How many agents are in each state that occurs, in the order of a life.
    pub states: Vec<StateCount>,
    /// Every agent, oldest first.
    pub agents: Vec<ReportedAgent>,
    /// Who asked for whom: depth-first, parents before children.
    pub tree: Vec<TreeEntry>,
    /// Which live agents get in each other's way, as `overlap` answers; absent unless there are two, null when it
    /// could not be found out.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub overlap: Fact<OverlapReport>,
    /// Who won where several agents did one task; absent where none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tournaments: Vec<TournamentOutcome>,
}

/// How many messages an agent has, of those that the mailbox still holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MailTally {
    /// Sent by it.
    pub sent: usize,
    /// For it, and handed to it.
    pub received: usize,
    /// For it, and not handed to it yet.
    pub pending: usize,
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
    /// The first eight hex digits of the id.
    pub short_id: String,
}

/// One agent's life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedAgent {
    /// What the ledger says.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Where its work stands.
    #[serde(flatten)]
    pub standing: WorkStatus,
    /// The states it was in, one after the other.
    pub spans: Vec<Span>,
    /// Every verdict on its work, oldest first.
    pub verdicts: Vec<VerdictReport>,
    /// The commit that its work landed as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub landed: Option<LandedCommit>,
    /// Runs of its command, oldest first.
    pub runs: Vec<Run>,
    /// Its messages.
    pub mail: MailTally,
    /// What happened, oldest first.
    pub events: Vec<EventReport>,
}

/// A tournament, as far as its agents are known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TournamentOutcome {
    /// The first eight hex digits of the winner's id; absent where no work could land.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub winner: Option<String>,
    /// Every agent that took part, best first.
    pub agents: Vec<Competitor>,
}

/// An agent that took part in a tournament.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Competitor {
    /// The first eight hex digits of its id.
    pub short_id: String,
    /// Its place, from 1.
    pub place: u32,
    /// Whether its work could land.
    pub accepted: bool,
    /// The agent host that did it; absent for a command of the caller's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// Gathers everything.
///
/// # Errors
/// Those of the ledger and of listing worktrees.
pub fn report(ctx: &Ctx) -> Result<FleetReport> {
    let ledger = Ledger::new(&ctx.repo);
    let mut agents = lookup::agents(ctx)?;
    agents.sort_by_key(|agent| (agent.started, agent.id));
    let lost: Vec<Option<Lost>> = agents
        .iter()
        .map(|agent| liveness::unrecorded_end(ctx.repo.common_dir(), agent))
        .collect();
    let times = lost.iter().flatten().map(|(_, time)| *time);
    let until = agents.iter().map(|agent| agent.updated).chain(times).max();
    let rows = ledger.select(|spawn_commit, events| Some((spawn_commit, events.to_owned())))?;
    let gather = Gather {
        ctx,
        rows: rows.into_iter().collect(),
        reporter: Reporter::new(ctx)?,
        until: until.unwrap_or_default(),
        mail: mail(ctx, &agents)?,
        lost,
    };
    let places = Places::load(&ctx.repo)?;
    let wanted: Vec<&Agent> = agents.iter().collect();
    let mut reported = Vec::with_capacity(agents.len());
    survey(ctx, &wanted, &places, |index, standing| {
        reported.push(gather.agent(wanted[index], index, standing));
        Ok(())
    })?;
    OverlapSet::fill(&mut reported, |agent| &mut agent.standing);
    let tree = tree(ctx, None)?.agents.into_iter().map(|node| TreeEntry {
        depth: node.depth,
        agent_id: node.agent.agent_id,
        short_id: node.agent.short_id,
    });
    let root = ctx.repo.root()?;
    Ok(FleetReport {
        schema: "git-agent.report/3",
        repository: root
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        last_event_at: until.map(rfc3339),
        states: states(&agents),
        agents: reported,
        tree: tree.collect(),
        overlap: overlaps(ctx, &agents),
        tournaments: gather.tournaments(&agents),
    })
}

struct Gather<'a> {
    ctx: &'a Ctx,
    /// The events of every row.
    rows: HashMap<Oid, Vec<Event>>,
    reporter: Reporter,
    until: DateTime<Utc>,
    /// For each agent, in order.
    mail: Vec<MailTally>,
    /// For each agent, in order: the end of its last run, where the ledger has none.
    lost: Vec<Option<Lost>>,
}

/// How a run ended whose supervisor was killed, and when.
type Lost = (Exited, DateTime<Utc>);

impl Gather<'_> {
    fn events(&self, agent: &Agent) -> &[Event] {
        { self.rows.get(&agent.spawn_commit) }.map_or(&[], Vec::as_slice)
    }

    /// The tournaments that agents took part in, each with the places that their rows say.
    fn tournaments(&self, agents: &[Agent]) -> Vec<TournamentOutcome> {
        let mut places: BTreeMap<&str, Vec<Competitor>> = BTreeMap::new();
        for agent in agents {
            for event in self.events(agent) {
                if let What::Competed(facts) = &event.what {
                    places.entry(&facts.best).or_default().push(Competitor {
                        short_id: agent.id.short(),
                        place: facts.place,
                        accepted: facts.accepted,
                        host: facts.host.clone(),
                    });
                }
            }
        }
        let outcome = |mut agents: Vec<Competitor>| {
            agents.sort_by_key(|one| one.place);
            let winner = { agents.first() }.filter(|one| one.place == 1 && one.accepted);
            TournamentOutcome {
                winner: winner.map(|one| one.short_id.clone()),
                agents,
            }
        };
        places.into_values().map(outcome).collect()
    }

    fn agent(&self, agent: &Agent, index: usize, standing: WorkStatus) -> ReportedAgent {
        let events = self.events(agent);
        let lost = self.lost[index].as_ref();
        let report = self.reporter.agent(agent);
        ReportedAgent {
            agent: AgentReport {
                state: standing.state_of(report.state),
                ..report
            },
            standing,
            spans: life::spans(agent, events, lost, self.until),
            verdicts: life::verdicts(events),
            landed: life::landed(&self.ctx.repo, agent, events),
            runs: life::runs(events, lost),
            mail: self.mail[index],
            events: { events.iter() }
                .map(|event| event_report::event(&self.ctx.repo, event))
                .collect(),
        }
    }
}

fn mail(ctx: &Ctx, agents: &[Agent]) -> Result<Vec<MailTally>> {
    let readers: Vec<Reader> = agents.iter().map(Reader::agent).collect::<Result<_>>()?;
    let tallies = Mailbox::new(&ctx.repo).tally(&readers)?.into_iter();
    let told = |tally: Tally| MailTally {
        sent: tally.sent,
        received: tally.received,
        pending: tally.pending,
    };
    Ok(tallies.map(told).collect())
}

/// What is not known about overlaps does not keep the rest of a report back.
fn overlaps(ctx: &Ctx, agents: &[Agent]) -> Fact<OverlapReport> {
    if agents.iter().filter(|agent| is_live(agent)).count() < 2 {
        return Fact::NotApplicable;
    }
    let everything = OverlapOptions {
        scopes: true,
        changes: true,
        merge: true,
        ..OverlapOptions::default()
    };
    overlap(ctx, &everything).map_or(Fact::Unknown, Fact::Known)
}

fn states(agents: &[Agent]) -> Vec<StateCount> {
    let count = |state: &State| StateCount {
        state: state.as_str(),
        count: agents.iter().filter(|agent| agent.state == *state).count(),
    };
    let counts = State::ALL.iter().map(count);
    counts.filter(|count| count.count > 0).collect()
}
