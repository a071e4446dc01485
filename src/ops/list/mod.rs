//! `list`: the agents of a repository and where their work stands.
//!
//! The rows come from the ledger alone and are there at once; what stands in worktrees is looked at by a
//! few threads, and each agent is handed on as soon as it and those before it are known.

mod ci;

pub use ci::{CiReport, CiStates};

use super::agent_report::{AgentReport, Reporter};
use super::status::{Fact, OverlapCount, OverlapSet, Places, WorkStatus, survey};
use crate::agents::life::at_work::shown_state;
use crate::agents::{Ctx, who::lookup};
use crate::domain::value::named::named;
use crate::domain::{Agent, State};
use crate::error::{Code, Result};
use crate::store::{files::layout, settings::roles};
use globset::GlobMatcher;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::HashSet;

const SCHEMA: &str = "git-agent.list/3";

/// Which agents are wanted, and in what order.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Also those that are discarded, or landed with no work since.
    pub all: bool,
    /// Only those in this state; implies `all`.
    pub state: Option<State>,
    /// Only those in this role.
    pub role: Option<String>,
    /// Only those with a DNA that begins like this.
    pub dna: Option<String>,
    /// Only those that this agent asked for, whatever it goes by.
    pub parent: Option<String>,
    /// Only those whose alias matches.
    pub name: Option<GlobMatcher>,
    /// Their order.
    pub sort: Sort,
    /// Leave out what the ledger does not know.
    pub fast: bool,
    /// What the forge said, if it was asked.
    pub ci: Option<CiStates>,
}

/// The answer of `list`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// The agents, in the order that was asked for.
    pub agents: Vec<ListedAgent>,
    /// What the caller should know, such as why the forge's checks are unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// An agent and where its work stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedAgent {
    /// What the ledger says.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// What there is.
    #[serde(flatten)]
    pub standing: WorkStatus,
    /// Its pull request and what the forge's checks say about it; absent where there is none or the forge was not asked.
    #[serde(skip_serializing_if = "Fact::is_absent")]
    pub ci: Fact<CiReport>,
    /// What the caller should know, where no report around it says that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl ListedAgent {
    /// Whether it is in the state that is wanted, which only a look at its work can tell of some.
    pub(in crate::ops) fn is_wanted(&self, options: &ListOptions) -> bool {
        match options.state {
            Some(state) => self.agent.state == state.as_str(),
            None => options.all || self.agent.state != State::Merged.as_str(),
        }
    }

    pub(in crate::ops) fn new(
        agent: AgentReport,
        standing: WorkStatus,
        options: &ListOptions,
    ) -> ListedAgent {
        let branch = agent.branch.as_deref();
        let ci = options.ci.as_ref();
        ListedAgent {
            ci: ci.map_or(Fact::NotApplicable, |ci| ci.of(branch)),
            warnings: Vec::new(),
            agent: AgentReport { state: standing.state_of(agent.state), ..agent },
            standing,
        }
    }
}

/// All that are wanted.
///
/// # Errors
/// As [`each`].
pub fn list(ctx: &Ctx, options: &ListOptions) -> Result<ListReport> {
    let mut agents = Vec::new();
    each(ctx, options, |agent| {
        agents.push(agent);
        Ok(())
    })?;
    OverlapSet::fill(&mut agents, |agent| &mut agent.standing);
    let problem = options.ci.as_ref().and_then(|ci| ci.problem.clone());
    Ok(ListReport { schema: SCHEMA, agents, warnings: problem.into_iter().collect() })
}

/// Hands on one agent after the other and then, in the same order, with whom each overlaps, which is known
/// only when all are.
///
/// # Errors
/// As [`each`].
pub fn all(
    ctx: &Ctx,
    options: &ListOptions,
    mut on: impl FnMut(ListedAgent),
) -> Result<Vec<Fact<OverlapCount>>> {
    let mut crowd = OverlapSet::default();
    each(ctx, options, |mut agent| {
        crowd.add(&mut agent.standing);
        on(agent);
        Ok(())
    })?;
    Ok(crowd.count())
}

/// Hands on one agent after the other, as early as the order allows.
///
/// # Errors
/// Those of the ledger and of [`crate::git::Repo::worktrees`]; `agent-unknown`, `agent-ambiguous` for the
/// parent; what `on` fails with.
pub fn each(
    ctx: &Ctx,
    options: &ListOptions,
    mut on: impl FnMut(ListedAgent) -> Result<()>,
) -> Result<()> {
    let agents = select(ctx, options)?;
    let reporter = Reporter::new(ctx)?;
    let mut on = |agent: ListedAgent| {
        if agent.is_wanted(options) { on(agent) } else { Ok(()) }
    };
    // The rows alone say enough then, so no worktree is opened.
    if options.fast {
        return agents.iter().try_for_each(|agent| {
            let report = reporter.row(agent);
            on(ListedAgent::new(report, WorkStatus::default(), options))
        });
    }
    let places = Places::load(&ctx.repo)?;
    let wanted: Vec<&Agent> = agents.iter().collect();
    let row = |agent: &Agent, standing| {
        let report = reporter.agent_at(agent, places.of(agent));
        ListedAgent::new(report, standing, options)
    };
    if !matches!(options.sort, Sort::Activity | Sort::State) {
        return survey(ctx, &wanted, &places, |agent, standing| on(row(agent, standing)));
    }
    // When an agent was last at work, and whether it is idle, is known only after all were looked at.
    let mut rows = Vec::with_capacity(wanted.len());
    survey(ctx, &wanted, &places, |agent, standing| {
        rows.push(row(agent, standing));
        Ok(())
    })?;
    if options.sort == Sort::Activity {
        by_activity(&mut rows);
    } else {
        rows.sort_by_key(|row| State::parse(row.agent.state));
    }
    rows.into_iter().try_for_each(on)
}

// Which agents are listed, and in what order.

named! {
    /// The order of a list.
    #[derive(Default)]
    pub enum Sort {
        /// Oldest first.
        #[default]
        Age = "age",
        /// In the order of a life, oldest first within a state.
        State = "state",
        /// By alias; those without one come last, oldest first.
        Name = "name",
        /// Those that were at work last come first.
        Activity = "activity",
        /// Those whose last session cost most come first; those of which no cost is known come last, oldest first.
        Cost = "cost",
    }
}

/// Refuses a role that no agent has and that there is not: a slip would else look like a role without agents.
fn require_role(ctx: &Ctx, role: &str, agents: &[Agent]) -> Result<()> {
    if agents.iter().any(|agent| agent.role.as_deref() == Some(role)) {
        return Ok(());
    }
    match ctx.repo.resolve_commit("HEAD") {
        Ok(head) => roles::load(&ctx.repo, head.commit)?.require(role).map(drop),
        Err(error) if error.code() == Code::HeadUnborn => Ok(()),
        Err(error) => Err(error),
    }
}

/// The agents that are wanted, sorted as far as the ledger knows.
pub(super) fn select(ctx: &Ctx, options: &ListOptions) -> Result<Vec<Agent>> {
    let parent = match &options.parent {
        Some(who) => Some(lookup::agent(ctx, &ctx.ledger(), who)?.id),
        None => None,
    };
    let common_dir = ctx.repo.common_dir();
    let mut agents = lookup::agents(ctx)?;
    // Of those that have landed, only one that still has a worktree or a branch may hold more than that.
    let is_asked = !options.fast && agents.iter().any(|agent| agent.state == State::Merged);
    let (worktrees, branches) = if is_asked && !options.all {
        let names = ctx.repo.worktrees()?.into_iter().map(|worktree| worktree.name);
        // Refs that cannot be listed are a matter of the doctor's.
        (names.collect(), ctx.repo.local_branches().unwrap_or_default())
    } else {
        <(HashSet<String>, HashSet<String>)>::default()
    };
    let may_hold_more = |agent: &Agent| {
        let has_branch = || agent.branch.as_ref().is_some_and(|name| branches.contains(name));
        agent.state == State::Merged
            && (worktrees.contains(&layout::worktree_name(agent.id)) || has_branch())
    };
    if let Some(role) = &options.role {
        require_role(ctx, role, &agents)?;
    }
    agents.retain(|agent| {
        let state = match options.state {
            // Whether it is idle is known only once its worktree was looked at, which `is_wanted`
            // waits for.
            Some(state) => {
                let recorded = shown_state(common_dir, agent);
                let may_be_idle = recorded == State::Ready || may_hold_more(agent);
                recorded == state || state == State::Idle && may_be_idle
            }
            None => options.all || shown_state(common_dir, agent).is_open() || may_hold_more(agent),
        };
        let role = options.role.is_none() || agent.role == options.role;
        let dna = options.dna.as_ref().is_none_or(|dna| {
            // It may be given as `show` prints it, or as its digits.
            let hex = dna.trim_start_matches("sha256:");
            let own = agent.dna.as_deref().unwrap_or_default();
            own.trim_start_matches("sha256:").starts_with(hex)
        });
        let name = options.name.as_ref().is_none_or(|glob| {
            let name = agent.name.as_ref();
            name.is_some_and(|name| glob.is_match(name.as_str()))
        });
        state && role && dna && name && (parent.is_none() || agent.parent == parent)
    });
    agents.sort_by_cached_key(|agent| (agent.started, agent.id));
    match options.sort {
        Sort::Age => {}
        Sort::State => agents.sort_by_cached_key(|agent| agent.state),
        Sort::Name => agents.sort_by_cached_key(|agent| {
            let name = agent.name.as_ref().map(ToString::to_string);
            // Those without a name come last.
            (name.is_none(), name)
        }),
        Sort::Activity => agents.sort_by_cached_key(|agent| Reverse(agent.updated)),
        // A cost is no key that can be cached: floating numbers have no order of their own.
        Sort::Cost => agents.sort_by(|one, other| cost(other).total_cmp(&cost(one))),
    }
    Ok(agents)
}

/// What an agent's last session cost; less than nothing where that is not known.
fn cost(agent: &Agent) -> f64 {
    let end = agent.run.as_ref().and_then(|run| run.end.as_ref());
    let known = end.and_then(|(exited, _)| exited.session.cost_usd());
    known.unwrap_or(-1.0)
}

/// Puts those first that were at work last.
pub(super) fn by_activity(rows: &mut [ListedAgent]) {
    rows.sort_by_key(|row| {
        // The times are of one width, so that their texts sort as they do.
        let active = row.standing.active_at.known();
        Reverse(active.unwrap_or(&row.agent.updated_at).clone())
    });
}
