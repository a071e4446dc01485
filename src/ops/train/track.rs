//! Stacks of agents' work on a target, as commits that no ref names, and landing them.

use crate::agents::context::branch_swap::moved;
use crate::agents::who::scope_guard::Scopes;
use crate::agents::work::{AsItLands, as_it_lands, simulated};
use crate::agents::{Ctx, ScopeGuard, place::projects, who::authority};
use crate::domain::judge::evidence::{Conflict, TestBound};
use crate::domain::landing::train::{Culprit, Purpose, Track, WantedCheck};
use crate::domain::life::event::Verified;
use crate::domain::life::sandbox::Layering;
use crate::domain::settings::project::Projects;
use crate::domain::{AgentId, FindingCode, Move, Oid, RequiredChecks, What};
use crate::error::{Code, Error, Result};
use crate::git::history::merge::{Stack, StackMerger};
use crate::git::{MergeResult, Repo};
use crate::ops::agent_report::AgentRef;
use crate::ops::merge::{LandingReport, MergePlan, Method, execute_stack};
use crate::ops::train::checks::{Checks, Stacked};
use crate::ops::train::report::{FailedCheck, TrainTarget};
use crate::ops::train::{TrainNews, TrainOptions};
use crate::store::settings::{repository_settings, roles};
use crate::wire::output::path_text::PathText;
use crate::wire::row::policy::Policy;
use std::collections::HashMap;

/// What became of one plan.
pub(super) enum CandidateFate {
    /// Nothing yet.
    Open,
    /// It landed.
    Landed(Box<LandingReport>),
    /// It would land, with this tree.
    Planned(Oid),
    /// It is green, with this tree, and lands elsewhere.
    Accepted(Oid),
    /// It is red, on its own or only together with this agent.
    Red(FailedCheck, Option<AgentRef>),
    /// It conflicts.
    Conflicts(Vec<Conflict>),
}

/// An agent of a train.
struct TrainCandidate<'a> {
    plan: MergePlan,
    /// The commit that holds all of the work.
    work: Oid,
    checks: RequiredChecks,
    /// What the agent may touch.
    guard: ScopeGuard<'a>,
    fate: CandidateFate,
}

impl<'a> TrainCandidate<'a> {
    /// One that is to land on the ground.
    fn read(
        ctx: &'a Ctx,
        plan: MergePlan,
        ground: &Stack,
        scopes: &Scopes,
    ) -> Result<TrainCandidate<'a>> {
        let (repo, base) = (&ctx.repo, ground.commit);
        let work = plan.work.commit(repo)?;
        let work = match plan.method {
            // That one lands as it is, or not at all.
            Method::FfOnly => work,
            Method::NoFf | Method::Squash => match as_it_lands(ctx, &plan.agent, base, work)? {
                AsItLands::Commit(stand_in) => stand_in,
                // It was judged to merge, so what conflicts by now is another target.
                AsItLands::Merged(merge) => {
                    let tree = merge.result.clean().ok_or_else(|| moved(&plan.target))?;
                    simulated(repo, tree, &[base])?
                }
            },
        };
        let guard = ScopeGuard::among(repo, plan.agent.clone(), scopes)?;
        let mut candidate = TrainCandidate {
            checks: guard.policy().required_checks(),
            plan,
            work,
            guard,
            fate: CandidateFate::Open,
        };
        let projects = projects::bound(repo, candidate.guard.policy())?;
        candidate.add_checks(repo, &projects, ground)?;
        Ok(candidate)
    }

    /// Adds the checks of the projects that its work touches.
    fn add_checks(&mut self, repo: &Repo, projects: &Projects, ground: &Stack) -> Result<()> {
        let tree = self.plan.work.tree;
        let projects = projects::checks_of(repo, projects, ground.tree, tree)?;
        self.checks.count(&projects.commands);
        self.checks.add(&projects);
        Ok(())
    }
}

/// A candidate by its number. It borrows no more than the candidates, so that the caller can tell what happens.
fn numbered<'t, 'a>(
    candidates: &'t [TrainCandidate<'a>],
    number: usize,
) -> Result<&'t TrainCandidate<'a>> {
    candidates.get(number).ok_or_else(unknown)
}

fn unknown() -> Error {
    Error::bug("a number that no candidate of the train has")
}

/// The plans of one train for one target.
pub(super) struct Stacking<'a, 'scope, 'env> {
    ctx: &'a Ctx,
    target: String,
    candidates: Vec<TrainCandidate<'a>>,
    /// The checks of the repository.
    shared: RequiredChecks,
    merger: StackMerger<'a>,
    /// What came out of each merge.
    merged: HashMap<(Oid, usize), Option<(Oid, Oid)>>,
    conflicts: HashMap<usize, Vec<Conflict>>,
    /// The target as the train sees it, the commit it is at, and what has to be done until both are the same.
    ground: Stack,
    tip: Oid,
    before: Oid,
    pending: Vec<Settlement>,
    /// The plan because of which a stack did not land, as far as it is one of them.
    blamed: Option<usize>,
    /// Whether another process moved the target, so that nothing lands on it any more.
    has_moved: bool,
    is_rehearsal: bool,
    no_land: bool,
    checks: &'a mut Checks<'scope, 'env>,
    tell: &'a mut dyn FnMut(&TrainNews<'_>),
}

impl<'a, 'scope, 'env> Stacking<'a, 'scope, 'env> {
    /// Plans for one target, all judged against the same tip of it.
    ///
    /// # Errors
    /// `settings-invalid`; those of reading policies and objects.
    pub(super) fn new(
        ctx: &'a Ctx,
        options: &TrainOptions,
        plans: Vec<MergePlan>,
        checks: &'a mut Checks<'scope, 'env>,
        tell: &'a mut dyn FnMut(&TrainNews<'_>),
    ) -> Result<Stacking<'a, 'scope, 'env>> {
        let repo = &ctx.repo;
        let Some(first) = plans.first() else {
            return Err(Error::bug("a train without agents"));
        };
        let (base, target) = (first.base, first.target.clone());
        let ground = Stack { commit: base, tree: repo.tree_of(base)?, members: Vec::new() };
        let scopes = Scopes::default();
        let candidates =
            plans.into_iter().map(|plan| TrainCandidate::read(ctx, plan, &ground, &scopes));
        let mut candidates = candidates.collect::<Result<Vec<_>>>()?;
        // Where one of them works on a pull request, the target is its branch, and decides nothing.
        let mut policies = candidates.iter().map(|one| one.guard.policy());
        let at = policies.clone().find_map(Policy::settings).unwrap_or(base);
        let roles = roles::load(repo, at)?;
        let mut settings = repository_settings::load(repo, at, &roles)?;
        if policies.any(Policy::is_of_fork) {
            // Files of the user, warm worktrees and bases are not for what strangers wrote.
            (settings.setup_copy, settings.include, settings.pool_size) = (None, None, 0);
            settings.layered = Some(Layering::Off);
        }
        checks.want(ctx, &settings, at)?;
        // Projects that the target has by now are checked as well as those that an agent started with.
        for candidate in &mut candidates {
            candidate.add_checks(repo, &settings.projects, &ground)?;
        }
        let mut shared =
            RequiredChecks { commands: settings.train_checks, ..RequiredChecks::default() };
        shared.add(&RequiredChecks {
            test_bounds: TestBound::new(&settings.checks, settings.min_tests).into_iter().collect(),
            commands: settings.checks,
            ..RequiredChecks::default()
        });
        let works: Vec<Oid> = candidates.iter().map(|one| one.work).collect();
        Ok(Stacking {
            ctx,
            merger: StackMerger::new(repo, base, &works)?,
            target,
            candidates,
            shared,
            merged: HashMap::new(),
            conflicts: HashMap::new(),
            tip: base,
            before: base,
            pending: Vec::new(),
            ground,
            blamed: None,
            has_moved: false,
            is_rehearsal: options.dry_run,
            no_land: options.no_land,
            checks,
            tell,
        })
    }

    /// The target alone.
    pub(super) fn start(&self) -> Stack {
        self.ground.clone()
    }

    /// The plan because of which a stack did not land.
    pub(super) fn blamed(&self) -> Option<usize> {
        self.blamed
    }

    /// What became of each plan, and where the target is.
    pub(super) fn finish(mut self) -> (Vec<CandidateFate>, TrainTarget) {
        for (number, candidate) in self.candidates.iter_mut().enumerate() {
            // A conflict with a stack that was given up is none with what landed.
            if let CandidateFate::Open = candidate.fate
                && let Some(conflicts) = self.conflicts.remove(&number)
            {
                candidate.fate = CandidateFate::Conflicts(conflicts);
            }
        }
        let first = self.candidates.first().map(|one| &one.plan);
        let there = first.and_then(|plan| plan.remote.as_ref());
        let report = TrainTarget {
            refname: self.target,
            remote: there.map(|there| there.remote.clone()),
            before: self.before.to_hex(),
            oid: self.tip.to_hex(),
            red: false,
        };
        let fates = self.candidates.into_iter().map(|one| one.fate);
        (fates.collect(), report)
    }

    /// Merges the work of a plan on top of a commit: the commit that would land, and its tree.
    fn merge(&mut self, below: &Stack, candidate: usize) -> Result<Option<(Oid, Oid)>> {
        let repo = &self.ctx.repo;
        let TrainCandidate { plan, work, guard, .. } = numbered(&self.candidates, candidate)?;
        // What is in scope on the target may not be on top of other work that moves files.
        let is_in_scope =
            |tree| -> Result<bool> { Ok(guard.judge_landing(below.tree, tree)?.is_empty()) };
        if plan.method == Method::FfOnly {
            // A branch that is only moved has to hold all that is below it.
            let is_ahead = repo.merge_base(below.commit, *work)? == Some(below.commit);
            let can_land = is_ahead && is_in_scope(plan.work.tree)?;
            return Ok(can_land.then_some((*work, plan.work.tree)));
        }
        let tree = match self.merger.merge(below, candidate)?.result {
            // There is nothing to land any more, which judging it again shows.
            MergeResult::Clean { tree } if tree == below.tree => return Ok(None),
            MergeResult::Clean { tree } if !is_in_scope(tree)? => return Ok(None),
            MergeResult::Clean { tree } => tree,
            MergeResult::Conflicts { conflicts, .. } => {
                let paths = conflicts.iter().map(|one| PathText::from(one.path.as_slice()));
                (self.tell)(&TrainNews::Conflict {
                    agent: AgentRef::of(&plan.agent),
                    lands_on: &plan.target,
                    below: below.members.len(),
                    conflicts: paths.collect(),
                });
                self.conflicts.insert(candidate, conflicts);
                return Ok(None);
            }
            MergeResult::Unrelated => return Ok(None),
        };
        // With the parents of the landing commit, so that what is checked is what lands.
        let parents: &[Oid] = match plan.method {
            Method::Squash => &[below.commit],
            Method::NoFf | Method::FfOnly => &[below.commit, *work],
        };
        Ok(Some((simulated(repo, tree, parents)?, tree)))
    }

    fn stacked(&self, stack: &Stack, purpose: Purpose) -> Result<Stacked> {
        let (mut checks, mut agents) = (self.shared.clone(), Vec::new());
        let members = stack.members.iter().map(|member| numbered(&self.candidates, *member));
        let members: Vec<&TrainCandidate<'_>> = members.collect::<Result<_>>()?;
        // The repository's bound counts the tests of every project that is checked, as that of an agent does of its own.
        for candidate in &members {
            checks.count(candidate.checks.projects.keys());
        }
        for candidate in members {
            // What any of them requires has to hold for the stack as a whole.
            checks.add(&candidate.checks);
            agents.push(candidate.plan.agent.id.to_string());
        }
        Ok(Stacked {
            lands_on: self.target.clone(),
            commit: stack.commit,
            tree: stack.tree,
            agents,
            checks,
            purpose,
        })
    }

    /// Whether stacks are green. What was decided before is carried out while the checks run.
    fn ask(&mut self, stacked: &[Stacked]) -> Result<Option<Vec<bool>>> {
        let round = self.checks.begin(stacked, self.tell);
        let settled = self.settle();
        // What runs is waited for in any case: its answer is remembered.
        let answers = round.map(|round| self.checks.end(round, self.tell));
        settled?;
        let answers = answers.transpose()?;
        self.ctx.reached("checked");
        Ok(answers)
    }
}

impl Track for Stacking<'_, '_, '_> {
    type Stack = Stack;
    type Error = Error;

    fn push(&mut self, stack: &Stack, candidate: usize) -> Result<Option<Stack>> {
        // A search asks for the same stacks again and again.
        let key = (stack.commit, candidate);
        let merged = match self.merged.get(&key) {
            Some(merged) => *merged,
            None => {
                let merged = self.merge(stack, candidate)?;
                if let Some((_, tree)) = merged {
                    let plan = &numbered(&self.candidates, candidate)?.plan;
                    (self.tell)(&TrainNews::Stacked {
                        agent: AgentRef::of(&plan.agent),
                        lands_on: &plan.target,
                        below: stack.members.len(),
                        tree: &tree.to_hex(),
                    });
                }
                self.merged.insert(key, merged);
                merged
            }
        };
        Ok(merged.map(|(commit, tree)| {
            let mut members = stack.members.clone();
            members.push(candidate);
            Stack { commit, tree, members }
        }))
    }

    fn check(&mut self, questions: &[WantedCheck<Stack>]) -> Result<Option<Vec<bool>>> {
        let stacked = questions.iter();
        let stacked = stacked.map(|question| self.stacked(&question.stack, question.purpose));
        self.ask(&stacked.collect::<Result<Vec<Stacked>>>()?)
    }

    fn has_moved(&self) -> bool {
        self.has_moved
    }

    fn land(&mut self, stack: &Stack, candidates: &[usize]) -> Result<()> {
        let mut layers = Vec::new();
        let mut at = self.ground.clone();
        for candidate in candidates {
            let Some(next) = self.push(&at, *candidate)? else {
                return Err(Error::bug("what was stacked does not stack any more"));
            };
            at = next;
            layers.push((*candidate, at.tree));
        }
        // The commits are made of the same parts each time, so another name would mean another
        // tree.
        if at.commit != stack.commit {
            return Err(Error::bug("another stack lands than was checked"));
        }
        self.ground = at;
        if self.is_rehearsal {
            for (candidate, tree) in layers {
                self.decide(candidate, CandidateFate::Planned(tree))?;
            }
        } else {
            // Carried out by `settle`, while the next checks run.
            self.pending.push(Settlement::Land(layers));
        }
        Ok(())
    }

    fn reject(&mut self, culprit: &Culprit<Stack>) -> Result<()> {
        let stacked = self.stacked(&culprit.red, Purpose::Again)?;
        let check = self
            .checks
            .failure(&stacked)
            .ok_or_else(|| Error::bug("a red stack has no failed check"))?;
        self.pending.push(Settlement::Reject(
            culprit.candidate,
            culprit.red.tree,
            check,
            culprit.partner,
        ));
        Ok(())
    }
}

// Carrying out what a train decided: green stacks land, and the rows of culprits say why they are rejected.

/// What was decided, and is carried out while the next checks run.
enum Settlement {
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
    pub(super) fn settle(&mut self) -> Result<()> {
        let mut failure = None;
        for settlement in std::mem::take(&mut self.pending) {
            match settlement {
                // What stands on a stack that did not land cannot land either.
                Settlement::Land(_) if self.has_moved || failure.is_some() => {}
                Settlement::Land(layers) if self.no_land => self.accept_now(layers)?,
                Settlement::Land(layers) => match self.land_now(&layers) {
                    // Another process moved the target, and all that is stacked stands on where it
                    // was.
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

    /// Records that work is green without landing it: each verdict is about the target as it is, and names the tree with what is below.
    fn accept_now(&mut self, layers: Vec<(usize, Oid)>) -> Result<()> {
        let Some((_, top)) = layers.last().copied() else {
            return Ok(());
        };
        for (candidate, tree) in layers {
            let plan = &numbered(&self.candidates, candidate)?.plan;
            let verdict = green(plan, tree);
            self.checks.keep_train_tree(plan.agent.id, &verdict, top);
            self.record(candidate, Move::Accept, verdict)?;
            self.decide(candidate, CandidateFate::Accepted(tree))?;
        }
        Ok(())
    }

    fn land_now(&mut self, layers: &[(usize, Oid)]) -> Result<()> {
        // The plans were judged where the target was then; stacks of this train have moved it
        // since, and the trees are theirs.
        let plan = |(candidate, merged_tree): &(usize, Oid)| {
            let mut plan = numbered(&self.candidates, *candidate)?.plan.clone();
            (plan.base, plan.merged_tree) = (self.tip, *merged_tree);
            // What the plan was judged without, the checks of the stack have said since.
            if !plan.is_checked {
                plan.verdict = green(&plan, *merged_tree);
                plan.is_checked = true;
            }
            Ok(plan)
        };
        let plans: Vec<MergePlan> = layers.iter().map(plan).collect::<Result<_>>()?;
        let landed = execute_stack(self.ctx, &plans).map_err(|(at, error)| {
            let layer = at.and_then(|at| layers.get(at));
            self.blamed = layer.map(|(candidate, _)| *candidate);
            error
        });
        for ((candidate, _), report) in layers.iter().zip(landed?) {
            if let Some(commit) = report.commit.as_deref().and_then(Oid::from_hex) {
                self.tip = commit;
            }
            self.decide(*candidate, CandidateFate::Landed(Box::new(report)))?;
        }
        let ids = plans.iter().map(|plan| plan.agent.id.to_string());
        (self.tell)(&TrainNews::Landed {
            agents: ids.collect(),
            lands_on: &self.target,
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
        let partner = partner.map(|partner| numbered(&self.candidates, partner)).transpose()?;
        let partner = partner.map(|partner| &partner.plan.agent);
        if !self.is_rehearsal {
            self.record_red(candidate, tree, &check, partner.map(|agent| agent.id))?;
        }
        let partner = partner.map(AgentRef::of);
        let plan = &numbered(&self.candidates, candidate)?.plan;
        (self.tell)(&TrainNews::Culprit {
            agent: AgentRef::of(&plan.agent),
            lands_on: &plan.target,
            check: &check,
            fails_with: partner.as_ref(),
        });
        self.decide(candidate, CandidateFate::Red(check, partner))?;
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
        let plan = &numbered(&self.candidates, candidate)?.plan;
        let verdict = Verified {
            accepted: false,
            // The verdict is about the target as this train has left it.
            base: self.tip,
            merged_tree: Some(tree),
            findings: [check.finding(), FindingCode::TrainRejected]
                .map(|code| code.name().to_owned())
                .into(),
            fails_with,
            into: Some(plan.target.clone()),
            ..plan.verdict.clone()
        };
        self.record(candidate, Move::Reject, verdict)
    }

    fn decide(&mut self, candidate: usize, fate: CandidateFate) -> Result<()> {
        let candidate = self.candidates.get_mut(candidate).ok_or_else(unknown)?;
        candidate.fate = fate;
        Ok(())
    }

    fn record(&self, candidate: usize, step: Move, verdict: Verified) -> Result<()> {
        let (by, plan) = (self.ctx.actor()?, &numbered(&self.candidates, candidate)?.plan);
        match authority::append(self.ctx, &plan.agent, &by, step, What::Verified(verdict)) {
            // It was decided about meanwhile; the answer stands, the row needs none.
            Err(error) if error.code() == Code::AgentState => Ok(()),
            other => other,
        }
    }
}

/// The verdict by which the row says that the checks passed with this agent's work, and with which tree.
fn green(plan: &MergePlan, tree: Oid) -> Verified {
    let into = Some(plan.target.clone());
    Verified { merged_tree: Some(tree), into, ..plan.verdict.clone() }
}
