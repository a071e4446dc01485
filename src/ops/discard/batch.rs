//! Agents that are removed together.
//!
//! Every step is done for all of them before the next one begins, but for the worktrees, which go into the trash one after
//! the other. So what they have in common is written once: the keep chain and the ledger grow by one step each, `packed-refs` is
//! rewritten once, and the other worktrees are looked at once. An agent for which a step fails leaves, and the others go
//! on. A kill leaves of each agent what a kill of its own discard would leave.

use crate::agents::Ctx;
use crate::domain::AgentId;
use crate::error::{Code, Error, Result};
use crate::ops::discard::{DiscardOptions, DiscardPlan, DiscardReport, WorktreeSnapshot};
use crate::ops::discard::{plan_among, remove};
use std::fs;

/// As many agents go together.
const MOST: usize = 32;

/// No further one joins those whose indexes have so many bytes: nothing can land while their worktrees are read.
const HEAVY: u64 = 1 << 20;

/// Agents that may go together.
#[derive(Default)]
struct RemovalGroup {
    plans: Vec<DiscardPlan>,
    /// The bytes of their indexes.
    weight: u64,
}

impl RemovalGroup {
    /// Looks at one that may join, with the worktrees as they are before any of these goes.
    fn plan(
        &self,
        ctx: &Ctx,
        name: &str,
        options: DiscardOptions,
        around: &mut WorktreeSnapshot,
    ) -> Result<DiscardPlan> {
        // What was read for one group is as old as its first agent, and no older.
        if self.plans.is_empty() {
            around.refresh(ctx)?;
        }
        plan_among(ctx, name, options, around)
    }

    fn add(&mut self, plan: DiscardPlan) {
        let index = plan.site.place.as_ref().map(|place| place.admin_dir.join("index"));
        // The index grows with the files of the worktree, and so does what all of the group hold in
        // memory.
        let index = index.and_then(|index| fs::metadata(index).ok());
        self.weight += index.map_or(0, |index| index.len());
        self.plans.push(plan);
    }

    fn is_full(&self) -> bool {
        self.plans.len() == MOST || self.weight >= HEAVY
    }

    fn has(&self, agent: AgentId) -> bool {
        self.plans.iter().any(|plan| plan.agent.id == agent)
    }

    /// Removes them, and tells of each.
    fn remove(
        &mut self,
        ctx: &Ctx,
        around: &mut WorktreeSnapshot,
        on: &mut dyn FnMut(Result<DiscardReport>),
    ) {
        let plans = std::mem::take(self).plans;
        if !plans.is_empty() {
            remove::execute_together(ctx, plans, around).into_iter().for_each(on);
        }
    }
}

/// Carries out many plans and tells of each, in their order.
pub(in crate::ops) fn execute_each(
    ctx: &Ctx,
    plans: impl IntoIterator<Item = DiscardPlan>,
    around: &mut WorktreeSnapshot,
    on: &mut dyn FnMut(Result<DiscardReport>),
) {
    let mut group = RemovalGroup::default();
    for plan in plans {
        group.add(plan);
        if group.is_full() {
            group.remove(ctx, around, on);
        }
    }
    group.remove(ctx, around, on);
}

/// Plans and carries out the discards of several agents, and tells of each, in their order. One that fails does not stop
/// the others.
pub fn discard_each(
    ctx: &Ctx,
    names: &[String],
    options: DiscardOptions,
    on: &mut dyn FnMut(Result<DiscardReport>),
) {
    let mut around = WorktreeSnapshot::default();
    let mut group = RemovalGroup::default();
    let activity = (names.len() > 1).then(|| ctx.activity("removing agents"));
    for (index, name) in names.iter().enumerate() {
        if let Some(activity) = &activity {
            activity.now(&format!("removing agent {} of {}", index + 1, names.len()));
        }
        let mut plan = group.plan(ctx, name, options, &mut around);
        let is_new = |plan: &DiscardPlan| !group.has(plan.agent.id);
        if !group.plans.is_empty() && !plan.as_ref().is_ok_and(is_new) {
            // What is in its way may be one of those before it.
            group.remove(ctx, &mut around, on);
            plan = group.plan(ctx, name, options, &mut around);
        }
        match plan {
            Ok(plan) => group.add(plan),
            Err(error) => on(Err(error)),
        }
        if group.is_full() {
            group.remove(ctx, &mut around, on);
        }
    }
    group.remove(ctx, &mut around, on);
}

/// Agents at the same step.
pub(super) struct RemovalBatch<T> {
    going: Vec<(usize, T)>,
    ended: Vec<(usize, RemovalEnd)>,
}

/// How it ended for one of them.
pub(super) enum RemovalEnd {
    /// All is done.
    Over(Box<DiscardReport>),
    /// A step failed.
    Failed(Error),
}

impl From<Error> for RemovalEnd {
    fn from(error: Error) -> RemovalEnd {
        RemovalEnd::Failed(error)
    }
}

impl<T> RemovalBatch<T> {
    pub(super) fn new(all: Vec<T>) -> RemovalBatch<T> {
        RemovalBatch { going: all.into_iter().enumerate().collect(), ended: Vec::new() }
    }

    /// Does a step for each of them.
    pub(super) fn each<U>(
        mut self,
        mut step: impl FnMut(T) -> Result<U, RemovalEnd>,
    ) -> RemovalBatch<U> {
        let mut going = Vec::new();
        for (index, one) in self.going {
            match step(one) {
                Ok(next) => going.push((index, next)),
                Err(ended) => self.ended.push((index, ended)),
            }
        }
        let ended = self.ended;
        RemovalBatch { going, ended }
    }

    /// Does a step for all of them at once, and where that fails for each alone. `give_up` undoes what was done for one for
    /// which it fails, and gives the reason.
    pub(super) fn together(
        self,
        step: impl Fn(&[&T]) -> Result<()>,
        give_up: impl Fn(&T, Error) -> Error,
    ) -> RemovalBatch<T> {
        let all: Vec<&T> = self.going().collect();
        match step(&all) {
            Ok(()) => self,
            // To wait again for each would take that much longer.
            Err(error) if all.len() < 2 || error.code() == Code::LockTimeout => {
                self.fail_after(error, give_up)
            }
            // Together it failed for one of them, and the error does not say for which.
            Err(_) => self.each(|one| match step(&[&one]) {
                Ok(()) => Ok(one),
                Err(error) => Err(give_up(&one, error).into()),
            }),
        }
    }

    /// Ends it for all of them.
    pub(super) fn fail<U>(self, error: Error) -> RemovalBatch<U> {
        self.fail_after(error, |_, error| error)
    }

    fn fail_after<U>(self, error: Error, give_up: impl Fn(&T, Error) -> Error) -> RemovalBatch<U> {
        let copy = error.repeated();
        let mut error = Some(error);
        self.each(|one| {
            let error = error.take().unwrap_or_else(|| copy.repeated());
            Err(give_up(&one, error).into())
        })
    }

    /// Those that are left.
    pub(super) fn going(&self) -> impl Iterator<Item = &T> {
        self.going.iter().map(|(_, one)| one)
    }

    /// Whether none is left.
    pub(super) fn is_over(&self) -> bool {
        self.going.is_empty()
    }

    /// How it ended for each, in the order in which they began.
    pub(super) fn results(mut self) -> Vec<Result<DiscardReport>> {
        self.ended.sort_unstable_by_key(|(index, _)| *index);
        let ended = self.ended.into_iter().map(|(_, ended)| ended);
        ended
            .map(|ended| match ended {
                RemovalEnd::Over(report) => Ok(*report),
                RemovalEnd::Failed(error) => Err(error),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// How often the step was tried, and which of three ended.
    fn tried(code: Code, count: usize) -> (usize, Vec<usize>) {
        let tries = Cell::new(0);
        let step = |all: &[&usize]| {
            tries.set(tries.get() + 1);
            let fails = all.contains(&&1);
            let error = || Err(Error::new(code, "it fails for 1"));
            if fails { error() } else { Ok(()) }
        };
        let all = RemovalBatch::new((1..=count).collect());
        let left = all.together(step, |_, error| error);
        let ended = left.ended.iter().map(|(index, _)| *index).collect();
        assert_eq!(left.going.len() + left.ended.len(), count);
        (tries.get(), ended)
    }

    #[test]
    fn what_fails_for_one_is_done_for_the_others() {
        assert_eq!(tried(Code::Io, 3), (4, vec![0]));
        assert_eq!(tried(Code::Io, 1), (1, vec![0]));
        assert_eq!(tried(Code::LockTimeout, 3), (1, vec![0, 1, 2]));
    }
}
