//! Carrying out what a train decided: green stacks land, and the rows of culprits say why they are rejected.

use super::CandidateFate;
use super::Stacking;
use crate::agents::moves;
use crate::domain::agent::Move;
use crate::domain::event::{Verified, What};
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::{Code, Result};
use crate::ops::agent_report::AgentRef;
use crate::ops::merge::{MergePlan, execute_stack};
use crate::ops::train::TrainNews;
use crate::ops::train::report::FailedCheck;

/// What was decided, and is carried out while the next checks run.
pub(super) enum Settlement {
    /// Candidates land, each with the tree that its landing makes.
    Land(Vec<(usize, Oid)>),
    /// A candidate is rejected: the check fails on this tree, and without that other candidate it does not.
    Reject(usize, Oid, FailedCheck, Option<usize>),
}

impl Stacking<'_, '_, '_> {
    /// Carries out what was decided. Once the target was moved by another process nothing lands any more; what was found out about culprits
    /// holds all the same, so that they are not looked for again.
    ///
    /// # Errors
    /// What keeps a stack from landing; nothing that comes after it lands then.
    pub(in crate::ops::train) fn settle(&mut self) -> Result<()> {
        let mut failure = None;
        for settlement in std::mem::take(&mut self.pending) {
            match settlement {
                Settlement::Land(_) if self.has_moved || failure.is_some() => {}
                Settlement::Land(layers) => match self.land_now(&layers) {
                    Err(error) if error.code() == Code::LostRace => self.has_moved = true,
                    landed => failure = landed.err(),
                },
                Settlement::Reject(candidate, tree, check, partner) => {
                    self.reject_now(candidate, tree, check, partner)?;
                }
            }
        }
        failure.map_or(Ok(()), Err)
    }

    fn land_now(&mut self, layers: &[(usize, Oid)]) -> Result<()> {
        let plan = |(candidate, merged_tree): &(usize, Oid)| MergePlan {
            base: self.tip,
            merged_tree: *merged_tree,
            ..self.plans[*candidate].clone()
        };
        let plans: Vec<MergePlan> = layers.iter().map(plan).collect();
        let landed = execute_stack(self.ctx, &plans).map_err(|(at, error)| {
            self.blamed = at.map(|at| layers[at].0);
            error
        });
        for ((candidate, _), report) in layers.iter().zip(landed?) {
            if let Some(commit) = report.commit.as_deref().and_then(Oid::from_hex) {
                self.tip = commit;
            }
            self.fates[*candidate] = CandidateFate::Landed(Box::new(report));
        }
        let ids = plans.iter().map(|plan| plan.agent.id.to_string());
        (self.tell)(&TrainNews::Landed {
            agents: ids.collect(),
            lands_on: &self.plans[0].target,
            oid: &self.tip.to_hex(),
        });
        Ok(())
    }

    fn reject_now(
        &mut self,
        candidate: usize,
        tree: Oid,
        check: FailedCheck,
        partner: Option<usize>,
    ) -> Result<()> {
        let partner = partner.map(|partner| &self.plans[partner].agent);
        if !self.is_rehearsal {
            self.record_red(candidate, tree, &check, partner.map(|agent| agent.id))?;
        }
        let partner = partner.map(AgentRef::of);
        let plan = &self.plans[candidate];
        (self.tell)(&TrainNews::Culprit {
            agent_id: &plan.agent.id.to_string(),
            lands_on: &plan.target,
            check: &check,
            fails_with: partner.as_ref(),
        });
        self.fates[candidate] = CandidateFate::Red(check, partner);
        self.ctx.reached("rejected");
        Ok(())
    }

    /// The verdict by which the row says that the checks failed with this agent's work.
    fn record_red(
        &self,
        candidate: usize,
        tree: Oid,
        check: &FailedCheck,
        fails_with: Option<AgentId>,
    ) -> Result<()> {
        let plan = &self.plans[candidate];
        let verdict = Verified {
            accepted: false,
            base: self.tip,
            merged_tree: Some(tree),
            findings: vec![check.finding().name().to_owned()],
            fails_with,
            ..plan.verdict.clone()
        };
        let by = self.ctx.actor()?;
        let appended = moves::append(
            self.ctx,
            &plan.agent,
            &by,
            Move::Reject,
            What::Verified(verdict),
        );
        match appended {
            // It was decided about meanwhile; the answer stands, the row needs none.
            Err(error) if error.code() == Code::AgentState => Ok(()),
            other => other,
        }
    }
}
