//! Which agents are listed, and in what order.

use crate::agents::at_work::shown_state;
use crate::agents::ctx::Ctx;
use crate::agents::lookup;
use crate::domain::agent::{Agent, State};
use crate::domain::named::named;
use crate::error::Result;
use crate::ops::list::{ListOptions, ListedAgent};
use crate::store::ledger::Ledger;
use std::cmp::Reverse;

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

/// The agents that are wanted, sorted as far as the ledger knows.
pub(super) fn select(ctx: &Ctx, options: &ListOptions) -> Result<Vec<Agent>> {
    let ledger = Ledger::new(&ctx.repo);
    let parent = match &options.parent {
        Some(who) => Some(lookup::agent(ctx, &ledger, who)?.id),
        None => None,
    };
    let common_dir = ctx.repo.common_dir();
    let mut agents = lookup::agents(ctx)?;
    agents.retain(|agent| {
        let state = match options.state {
            Some(state) => may_be(shown_state(common_dir, agent), state),
            None => options.all || shown_state(common_dir, agent).is_open(),
        };
        let role = options.role.is_none() || agent.role == options.role;
        let dna = options.dna.as_ref().is_none_or(|dna| {
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
            (name.is_none(), name)
        }),
        Sort::Activity => agents.sort_by_cached_key(|agent| Reverse(agent.updated)),
        Sort::Cost => agents.sort_by(|one, other| cost(other).total_cmp(&cost(one))),
    }
    Ok(agents)
}

/// Whether an agent that is recorded in one state may turn out to be in another once its work is looked at.
fn may_be(recorded: State, wanted: State) -> bool {
    recorded == wanted || (recorded, wanted) == (State::Ready, State::Idle)
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
