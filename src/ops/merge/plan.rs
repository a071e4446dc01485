//! What landing would do, as data; every refusal that can be known beforehand.

use crate::agents::context::branch_swap::{index_scratch, pull};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::work::{simulated, stacked};
use crate::agents::{Ctx, Scratch, life::at_work, own_changes, upkeep::publish, who::lookup};
use crate::domain::judge::evidence::MergeOutcome;
use crate::domain::life::event::Verified;
use crate::domain::{
    Agent, FindingCode, Isolation, Move, Oid, RepositorySettings, State, Verdict, branch_name,
};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::{Checkout, Repo, Tip};
use crate::ops::merge::message::LandingText;
use crate::ops::merge::{
    JudgedPlan, LandingReport, LandingState, MergeOptions, Method, NotAccepted, RemoteTarget,
    remote, require_changes, require_nothing_staged, require_start,
};
use crate::ops::verify::{self, Recording, VerifyOptions};
use crate::store::files::{layout, lock};
use crate::store::landing::{landed, spawn_commit};
use crate::store::ledger::landing_commit::{CommittedWork, FirstParents};
use crate::store::settings::{repository_settings, roles};
use crate::store::{Ledger, ledger::agent_branch};
use std::collections::BTreeSet;

/// One landing, ready to be carried out.
#[derive(Clone, Debug)]
pub struct MergePlan {
    /// Who lands.
    pub agent: Agent,
    /// The agent's branch, full name; the copy fetched from a remote where that is the only one.
    pub branch: String,
    /// The branch to land on, full name.
    pub target: String,
    /// The remote's branch, where the work lands there.
    pub remote: Option<RemoteTarget>,
    /// Where that is.
    pub base: Oid,
    /// What was judged.
    pub work: JudgedWork,
    /// The tree that the target gets.
    pub merged_tree: Oid,
    /// The verdict that accepted it, as the ledger records one.
    pub verdict: Verified,
    /// Whether that verdict is about a branch of this clone and its whole bundle, so that the row gets it with the landing.
    pub is_whole: bool,
    /// Whether the check commands had a say in it.
    pub is_checked: bool,
    /// How it lands.
    pub method: Method,
    /// Whether what is there lands although something works in the agent.
    pub now: bool,
    /// Whether the commands of `[hooks]` run.
    pub hooks: bool,
    /// The repository's own git hooks that have a say in it.
    pub git_hooks: Vec<String>,
    /// What the landing commit says.
    pub text: LandingText,
    /// The worktrees that move along.
    pub checkouts: Vec<Checkout>,
    /// Whether this clone's branch has commits that the remote lacks, so that it cannot follow what lands there.
    pub stays_behind: bool,
    /// How it landed before, when only the row does not say so.
    pub landed: Option<EarlierLanding>,
}

/// An agent's work as it was judged.
#[derive(Clone, Debug)]
pub struct JudgedWork {
    /// Where the agent's branch is.
    pub tip: Oid,
    /// The tip's tree, or the one that committing the rest makes.
    pub tree: Oid,
    /// The paths that are committed first.
    pub uncommitted: Vec<Vec<u8>>,
    /// New files that editors left, which do not land.
    pub droppings: Vec<Vec<u8>>,
}

impl JudgedWork {
    /// The commit that holds all of it: the tip, or one on top of it that no ref names.
    ///
    /// # Errors
    /// `repo-corrupt`, `disk-full`.
    pub(in crate::ops) fn commit(&self, repo: &Repo) -> Result<Oid> {
        if self.tree == repo.tree_of(self.tip)? {
            Ok(self.tip)
        } else {
            simulated(repo, self.tree, &[self.tip])
        }
    }
}

/// A landing that no row tells of.
#[derive(Clone, Debug)]
pub struct EarlierLanding {
    /// The commit that brought the work.
    pub commit: Oid,
    /// What that commit says.
    pub message: String,
    /// What was fetched of the target from a remote, where the work has landed there and not in this clone yet.
    pub copy: Option<String>,
}

/// What landing would do: the work is judged, and nothing is written to the repository, not even the verdict.
///
/// # Errors
/// `agent-unknown`, `agent-state`, `orchestrator-only`; `not-accepted`, naming the findings;
/// `nothing-to-land`, `not-fast-forward`; `target-dirty`, naming the files; `worktree-busy`; those of
/// [`verify::verify`].
pub fn plan(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<MergePlan> {
    if options.push.is_some() {
        // What is fetched stays: no scratch object may be in a ref.
        let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
        remote::fetch_targets(ctx, options, [&agent])?;
    }
    let scratch = Scratch::make(ctx, "merge")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    judged_plan(&apart, who, options)?.accepted()
}

/// Judges the work and plans its landing. The verdict is recorded once it has landed.
///
/// # Errors
/// As [`plan`], but for work that is not accepted: each caller reports that in its own way.
pub fn judged_plan(ctx: &Ctx, who: &str, options: &MergeOptions) -> Result<JudgedPlan> {
    require_orchestrator(ctx)?;
    let ledger = ctx.ledger();
    let mut agent = lookup::agent(ctx, &ledger, who)?;
    require_branch(&agent)?;
    require_landable(ctx, &agent)?;
    if !options.now {
        at_work::require_at_rest(ctx, &agent)?;
    }
    publish::require_caught_up(ctx, &agent)?;
    let place = LandingPlace::find(ctx, &agent, options)?;
    if !ctx.repo.is_scratch() {
        // A landing with `--now` that was killed before its row was written is written down first: only then is it known which
        // part of the work the target has already.
        agent = remote::complete_unrecorded(ctx, &ledger, agent)?;
    }
    let verdict = judge(ctx, &agent, &place, options)?;
    // A caller that runs the checks itself may leave them out here, but nothing else.
    let is_partial =
        if options.leave_checks { verdict.lacks_bundle() } else { verdict.is_partial() };
    if !verdict.is_accepted() || is_partial {
        // That the start was never pushed explains the rejection better than its findings do.
        if let Some(there) = &place.remote {
            let target = (place.target.as_str(), verdict.base);
            require_start(ctx, &agent, &there.remote, target, verdict.tip, |_| Ok(false))?;
        }
        return Ok(JudgedPlan::NotAccepted(Box::new(NotAccepted {
            agent,
            verdict,
            against: place.remote,
        })));
    }
    let agent = as_judged(ctx, &ledger, agent, options)?;
    require_new(ctx, &agent, &verdict)?;
    require_changes(&verdict)?;
    let mut plan = planned(ctx, agent, place, &verdict, options)?;
    // Work that is on the target already, or on the copy of it that was fetched, moves no branch. It still ends in a row that
    // says so, which is why it is planned and not refused. It needs no fast forward and no free worktree either.
    plan.landed = earlier_landing(ctx, &plan, &verdict)?;
    if plan.landed.is_none() {
        require_fast_forward(&ctx.repo, &plan, &verdict)?;
        ctx.logged("judged");
        plan.checkouts = ctx.checkouts(&plan.target)?;
        // What lands on a remote has landed even where this clone's branch cannot follow.
        let blocking = plan.checkouts.iter().filter(|_| plan.remote.is_none());
        for checkout in blocking {
            require_unblocked(ctx, &plan, checkout)?;
        }
        if plan.remote.is_some()
            && let Some(own) = ctx.repo.tip(&plan.target)?.oid()
        {
            plan.stays_behind = !ctx.repo.is_ancestor(own, plan.base)?;
        }
        ctx.logged("planned");
    }
    Ok(JudgedPlan::Lands(Box::new(plan)))
}

/// A shared agent works in the user's worktree: there is nothing to merge.
fn require_branch(agent: &Agent) -> Result<()> {
    if agent.isolation != Some(Isolation::Shared) {
        return Ok(());
    }
    let short = agent.id.short();
    let what = format!("agent {short} is shared and has no branch to merge");
    Err(Error::new(Code::NothingToLand, what))
}

/// The branch that work lands on.
struct LandingPlace {
    /// Its full name in this clone.
    target: String,
    /// The remote that has it, where the work lands there.
    remote: Option<RemoteTarget>,
}

impl LandingPlace {
    /// The place that the caller or the agent's row names, fetched where a remote has it.
    fn find(ctx: &Ctx, agent: &Agent, options: &MergeOptions) -> Result<LandingPlace> {
        let target = target(ctx, agent, options)?;
        let remote = remote::wanted_target(ctx, options, agent, &target)?;
        match &remote {
            None => require_here(ctx, agent, &target)?,
            Some(there) if ctx.repo.is_scratch() || options.is_fetched => {
                there.require_fetched(ctx)?;
            }
            Some(there) => there.fetch(ctx)?,
        }
        Ok(LandingPlace { target, remote })
    }
}

/// The verdict about the agent's tip and the branch to land on, as both are now.
fn judge(
    ctx: &Ctx,
    agent: &Agent,
    place: &LandingPlace,
    options: &MergeOptions,
) -> Result<Verdict> {
    // For a landing on a remote the copy of its branch in this clone is what counts; the push then requires that the remote is
    // still there.
    let base = place.remote.as_ref().map_or(&place.target, |there| &there.copy);
    let wanted = VerifyOptions {
        agent: Some(agent.id.to_string()),
        base: Some(base.clone()),
        base_at: options.base_at,
        no_commands: options.leave_checks,
        twice: options.now,
        recording: if ctx.repo.is_scratch() { Recording::Never } else { Recording::ByLanding },
        ..VerifyOptions::default()
    };
    verify::verify(ctx, &wanted).map_err(|error| overtaken(ctx, agent, error))
}

/// The agent as its row is after it was judged. The checks may have taken minutes: an agent that was rejected, discarded or started
/// anew meanwhile does not land on a verdict of before.
fn as_judged(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    judged: Agent,
    options: &MergeOptions,
) -> Result<Agent> {
    let agent = ledger.agent(judged.spawn_commit)?;
    let agent = agent.unwrap_or_else(|| judged.clone());
    require_landable(ctx, &agent)?;
    agent.require_as_judged(&judged)?;
    if !options.now {
        at_work::require_same_run(&judged, &agent)?;
    }
    Ok(agent)
}

/// Everything that lands is taken from the verdict, nothing from the branch as it is now: what was judged is what lands, and a
/// commit that came since makes the swap of the branch fail.
fn planned(
    ctx: &Ctx,
    agent: Agent,
    place: LandingPlace,
    verdict: &Verdict,
    options: &MergeOptions,
) -> Result<MergePlan> {
    let repo = &ctx.repo;
    let Some(merged_tree) = verdict.merged_tree() else {
        return Err(Error::bug("an accepting verdict names the merged tree"));
    };
    let tip_tree = repo.tree_of(verdict.tip)?;
    require_nothing_staged(ctx, &agent, verdict)?;
    let uncommitted = repo.tree_changes(&[tip_tree], verdict.tree)?.into_iter();
    let settings = repository_settings(ctx, &agent)?;
    let method = method(ctx, &agent, options, &settings)?;
    if method == Method::FfOnly && options.message.is_some() {
        let what = "ff-only, as the settings have it, lands the agent's own commits, and makes none that a message could be for";
        return Err(
            Error::new(Code::Usage, what).hint("to land by a commit, pass --no-ff or --squash")
        );
    }
    let mut text = LandingText::gather(ctx, &agent, method, (verdict.base, verdict.tip))?;
    text.wanted.clone_from(&options.message);
    text.subject = settings.merge_subject;
    let branch = agent_branch::local_or_fetched(repo, &agent)?;
    Ok(MergePlan {
        branch: branch.map(|(name, _)| name).unwrap_or_default(),
        base: verdict.base,
        work: JudgedWork {
            tip: verdict.tip,
            tree: verdict.tree,
            uncommitted: uncommitted.map(|change| change.path).collect(),
            droppings: verdict.droppings.clone(),
        },
        merged_tree,
        is_checked: !verdict.has(FindingCode::CommandsSkipped),
        is_whole: !verdict.lacks_bundle()
            && agent_branch::local(repo, &agent)?.oid() == Some(verdict.tip),
        verdict: verdict.recorded(),
        method,
        now: options.now,
        hooks: !options.no_hooks,
        git_hooks: git_hooks(ctx, &agent, options, verdict.base)?,
        text,
        checkouts: Vec::new(),
        stays_behind: false,
        landed: None,
        target: place.target,
        remote: place.remote,
        agent,
    })
}

/// The landing that brought the work before: found on the target, or on the copy of it that was fetched. Landing what is on the copy
/// here as well would bring the same work twice.
fn earlier_landing(
    ctx: &Ctx,
    plan: &MergePlan,
    verdict: &Verdict,
) -> Result<Option<EarlierLanding>> {
    let repo = &ctx.repo;
    let (top, copy) = match verdict.outcome() {
        Some(MergeOutcome::Landed { .. }) => (plan.base, None),
        _ => match merged_elsewhere(ctx, plan)? {
            Some((copy, top)) => (top, Some(copy)),
            None => return Ok(None),
        },
    };
    let commit = commit_that_brought(repo, plan, top)?;
    let message = repo.read_commit(commit)?.message;
    Ok(Some(EarlierLanding { commit, message, copy }))
}

fn require_fast_forward(repo: &Repo, plan: &MergePlan, verdict: &Verdict) -> Result<()> {
    let is_fast_forward = matches!(verdict.outcome(), Some(MergeOutcome::FastForward { .. }));
    // The branch moves to the very commit, so git is asked, whatever the verdict rests on.
    let leads_there = || repo.is_ancestor(plan.base, plan.work.tip);
    if plan.method != Method::FfOnly || is_fast_forward && leads_there()? {
        return Ok(());
    }
    let short = plan.agent.id.short();
    let what = format!("{} has commits that agent {short} has not", plan.target);
    Err(Error::new(Code::NotFastForward, what)
        .hint(format!("to make a merge commit, run git agent merge {short} --no-ff")))
}

/// As [`Checkout::require_unblocked`]. Files that another landing is about to move are not in the way of this one.
fn require_unblocked(ctx: &Ctx, plan: &MergePlan, checkout: &Checkout) -> Result<()> {
    let look = || {
        let scratch = index_scratch(&ctx.repo)?;
        checkout.require_unblocked(&ctx.repo, plan.base, plan.merged_tree, &scratch)
    };
    match look() {
        Err(error) if error.code() == Code::TargetDirty => {
            lock::wait_until_free(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
            // Where it landed, this one comes too late, and is told so when the target is to move.
            if ctx.repo.tip(&plan.target)? == Tip::At(plan.base) { look() } else { Ok(()) }
        }
        looked => looked,
    }
}

impl MergePlan {
    /// The ref that the work was judged against: the branch, or what was last seen of the remote's.
    pub fn base_ref(&self) -> &str {
        let remote = self.remote.as_ref();
        remote.map_or(&self.target, |there| &there.copy)
    }

    /// What would come of it.
    pub fn report(&self, ctx: &Ctx) -> LandingReport {
        let state = match self.landed {
            Some(_) => LandingState::AlreadyMerged,
            None => LandingState::Planned,
        };
        let mut report = LandingReport::new(ctx, self, state);
        report.warnings.extend(super::untold(ctx, self));
        report
    }
}

/// One that was merged may land again, where its branch is still here.
fn require_landable(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if agent.state == State::Merged && agent_branch::local(&ctx.repo, agent)? == Tip::Absent {
        // This gives the error for an agent that is merged: without its branch nothing can have
        // come since.
        return agent.may(Move::Accept);
    }
    agent.may(Move::Merge)
}

/// Makes sure that an agent that was merged has work that came since.
fn require_new(ctx: &Ctx, agent: &Agent, verdict: &Verdict) -> Result<()> {
    if agent.state != State::Merged {
        return Ok(());
    }
    let is_there = matches!(
        verdict.outcome(),
        Some(MergeOutcome::Landed { .. } | MergeOutcome::Nothing { .. })
    );
    // Another branch may lack what landed on the first one; that did not come since.
    let is_same = || -> Result<bool> {
        // What was taken back there, in whichever way, lands anew.
        if let Some((commit, into)) = &agent.landed
            && verdict.base_ref.as_ref() == Some(into)
            && ctx.repo.has_object(*commit)
            && ctx.repo.is_ancestor(*commit, verdict.base)?
        {
            return Ok(false);
        }
        // So does what neither the remote's branch nor this clone's has any more, as after a push by force.
        if let Some((commit, into)) = &agent.landed
            && let Some(copy) = verdict.base_ref.as_deref()
            && remote::to_push(copy, branch_name(into)).is_some()
            && !remote::holds(ctx, &[into, copy], *commit)?
        {
            return Ok(false);
        }
        let Some(tip) = agent.landed_tip.filter(|tip| ctx.repo.has_object(*tip)) else {
            return Ok(false);
        };
        Ok(ctx.repo.tree_of(tip)? == verdict.tree)
    };
    if is_there {
        return agent.may(Move::Accept);
    }
    if is_same()? {
        return Err(landed_elsewhere(ctx, agent, verdict)?);
    }
    Ok(())
}

/// The error for work that a row calls landed and the branch lacks to which it was to go.
fn landed_elsewhere(ctx: &Ctx, agent: &Agent, verdict: &Verdict) -> Result<Error> {
    let Some((commit, into)) = &agent.landed else {
        return Err(Error::bug("a merged agent must have landed somewhere"));
    };
    let (short, at, branch) = (agent.id.short(), commit.short(), branch_name(into));
    let landed = format!("agent {short} landed on {branch} as {at}");
    if remote::holds(ctx, &[into], *commit)? || verdict.base_ref.as_deref() != Some(into) {
        let error = Error::new(Code::AgentState, format!("{landed}, and has done nothing since"));
        if let Some(hint) = verdict.base_ref.as_deref().and_then(|it| remote::to_push(it, branch)) {
            return Ok(error.hint(hint));
        }
        let is_merge = ctx.repo.read_commit(*commit).is_ok_and(|found| found.parents.len() > 1);
        let of_merge = if is_merge { "-m 1 " } else { "" };
        return Ok(error.hint(format!(
            "to bring that to another branch, run git cherry-pick {of_merge}{at} there"
        )));
    }
    // A forge has merged it, and the branch of this clone has not followed yet.
    for (copy, _) in ctx.repo.fetched_branches(into)? {
        if remote::holds(ctx, &[&copy], *commit)? {
            return Ok(Error::new(Code::AgentState, super::not_pulled(into, &copy))
                .hint(format!("to bring that along, run {}", pull(ctx, into, &copy))));
        }
    }
    Ok(Error::new(Code::AgentState, format!("{landed}, which {branch} does not hold any more"))
        .hint(format!("to land it anew, first run git agent mark done {short}")))
}

/// Why judging failed: a concurrent removal of the agent took away what was to be judged.
fn overtaken(ctx: &Ctx, agent: &Agent, error: Error) -> Error {
    let now = ctx.ledger().agent(agent.spawn_commit);
    let refused = now.ok().flatten();
    let refused = refused.and_then(|now| require_landable(ctx, &now).err());
    refused.unwrap_or(error)
}

/// What another branch to land on is named for.
const ELSEWHERE: &str = "to land on another branch";

/// The branch to land on: what the caller says, else what the agent started from or is aimed at by now.
pub(super) fn target(ctx: &Ctx, agent: &Agent, options: &MergeOptions) -> Result<String> {
    let target = match &options.into {
        Some(name) => super::full_branch(ctx, name)?,
        None => stacked::target_of(ctx, agent)?.unwrap_or_default(),
    };
    if target.starts_with("refs/heads/") && agent.branch.as_ref() != Some(&target) {
        return Ok(target);
    }
    let id = agent.id.short();
    let what = format!("agent {id} has no branch to land on");
    Err(Error::new(Code::NoTarget, what).remedy(ELSEWHERE, Remedy::LandElsewhere(id)))
}

/// Refuses to land on a branch that is not here. That of a pull request is on the remote.
fn require_here(ctx: &Ctx, agent: &Agent, target: &str) -> Result<()> {
    if ctx.repo.tip(target)? != Tip::Absent {
        return Ok(());
    }
    let (id, short) = (agent.id.short(), branch_name(target));
    let what = format!("agent {id} lands on {short}, a branch that is not in this clone");
    let mut error = Error::new(Code::BaseNotCommit, what);
    // Work that was built upon an agent's which was discarded.
    if let Some(below) = ctx.ledger().last_with_branch(target)? {
        error = error.remedy("to bring it back", Remedy::Reopen(below.id.short()));
    }
    // A lead's children have settings apart, too, and its branch was never fetched.
    let is_fetched = !target.starts_with(agent_branch::AGENTS_BRANCHES)
        && spawn_commit::settings_apart(&ctx.repo, agent)?.is_some();
    Err(if is_fetched {
        error.hint(format!(
            "to land on the branch that it was fetched from, run git agent merge {id} --push"
        ))
    } else {
        error.remedy(ELSEWHERE, Remedy::LandElsewhere(id))
    })
}

/// The settings of the repository where the agent started. A clone that lacks that commit has none.
fn repository_settings(ctx: &Ctx, agent: &Agent) -> Result<RepositorySettings> {
    let Some(base) = spawn_commit::settings_commit(&ctx.repo, agent)? else {
        return Ok(RepositorySettings::default());
    };
    let loaded = roles::load(&ctx.repo, base)
        .and_then(|roles| repository_settings::load(&ctx.repo, base, &roles));
    match loaded {
        Err(error) if error.is_absence() => Ok(RepositorySettings::default()),
        other => other,
    }
}

/// The hooks that the target asks for, as it is now: no agent changes them by what it was started from.
fn git_hooks(ctx: &Ctx, agent: &Agent, options: &MergeOptions, target: Oid) -> Result<Vec<String>> {
    // The branch of a pull request is no more trusted as a target than as a base.
    let target = spawn_commit::settings_apart(&ctx.repo, agent)?.unwrap_or(target);
    if options.no_hooks || repository_settings::read(&ctx.repo, target)?.is_none() {
        return Ok(Vec::new());
    }
    let roles = roles::load(&ctx.repo, target)?;
    Ok(repository_settings::load(&ctx.repo, target, &roles)?.merge_hooks)
}

/// What the caller says, else the clone's configuration, else the repository's settings. A branch that holds uncommitted changes of
/// its owner lands as one commit: any other way brings its history along, and the changes with it.
fn method(
    ctx: &Ctx,
    agent: &Agent,
    options: &MergeOptions,
    settings: &RepositorySettings,
) -> Result<Method> {
    if own_changes::below(&ctx.repo, agent)?.is_some() {
        if !matches!(options.method, None | Some(Method::Squash)) {
            own_changes::require_none(&ctx.repo, agent, "lands as one commit only")?;
        }
        return Ok(Method::Squash);
    }
    if let Some(method) = options.method {
        return Ok(method);
    }
    let Some(word) = ctx.repo.config_string("agent.merge")? else {
        let usual = settings.merge_method.as_deref();
        let known = |method: &&Method| Some(method.as_str()) == usual;
        return Ok(Method::ALL.iter().find(known).copied().unwrap_or(Method::NoFf));
    };
    let known = Method::ALL.iter().find(|method| method.as_str() == word);
    known.copied().ok_or_else(|| {
        Error::new(
            Code::Usage,
            format!("the setting agent.merge is `{word}`, not no-ff, squash or ff-only"),
        )
        .hint("to mend it, run git config agent.merge no-ff")
    })
}

/// The commit that brought work that is on the target already: by a landing of ours that was killed, by hand, or by a forge;
/// the target as it is where no single one did.
fn commit_that_brought(repo: &Repo, plan: &MergePlan, top: Oid) -> Result<Oid> {
    let agent = &plan.agent;
    let start = agent.base.as_ref().map(|base| base.oid).filter(|oid| repo.has_object(*oid));
    let work = CommittedWork {
        agent,
        // What was not committed is part of what landed, so a commit that holds it too is looked for.
        tip: plan.work.commit(repo)?,
        start: start.unwrap_or(agent.spawn_commit),
    };
    let line = FirstParents::read(repo, top, BTreeSet::from([work.start]))?;
    Ok(line.brought(repo, work)?.unwrap_or(top))
}

/// What was fetched of the target from a remote, and where that is, if it has all of the work: a forge merged it, and this
/// clone's branch was not pulled since.
fn merged_elsewhere(ctx: &Ctx, plan: &MergePlan) -> Result<Option<(String, Oid)>> {
    let agent = stacked::aimed_one(ctx, &plan.agent);
    let is_usual = agent.base.as_ref().and_then(|base| base.refname.as_ref()) == Some(&plan.target);
    // What is not committed here can be on no remote.
    if plan.remote.is_some() || !plan.work.uncommitted.is_empty() || !is_usual {
        return Ok(None);
    }
    let found = landed::found(&ctx.repo, &[(&agent, plan.work.tip)]);
    let copy = found.into_values().next().and_then(|answer| answer.ok()?);
    let Some(copy) = copy.filter(|copy| *copy != plan.target) else {
        return Ok(None);
    };
    Ok(ctx.repo.tip(&copy)?.oid().map(|top| (copy, top)))
}
