//! `verify`: may this agent's work land?
//!
//! ```text
//! who, tip, base ─> Subject ─┐
//! policy of the ledger ──────┼─> Work, Bundle ─> Evidence ─> judge() ─> [Finding] ─> Verdict ─> event
//! git's answers, or facts ───┘
//! ```
//!
//! Nothing is believed: what binds is the policy that the `spawned` event names, and what is judged are
//! objects. Uncommitted work is judged as the commit that committing it would make. The
//! answer is made of oids alone, so the same state gives the same answer. It is worked out each time; what is
//! remembered are facts about objects (`facts`). Nothing in the worktree is changed and no hook runs.
//!
//! Deliberately absent: landing, which is `merge`'s, and the state of the agent's hooks.

mod attest;
mod guard;
mod history;
mod judged_trees;
mod landing;
mod origin;
mod parts;
mod report;
mod reported;

use crate::agents::context::untrusted;
use crate::agents::who::authority::require_own;
use crate::agents::work::bundle::{self, Bundle};
use crate::agents::work::{AsItLands, as_it_lands, base_of, stacked, to_merge};
use crate::agents::{
    Ctx, CurrentAgent, ScopeGuard, Scratch, life::at_work, place::projects, who::lookup,
};
use crate::domain::judge::evidence::{
    ChangePlace, Commands, Conflict, Contract, LedgerFacts, NoWorktree, RowEvidence,
};
use crate::domain::judge::judge;
use crate::domain::life::report::standing;
use crate::domain::{BundleRule, Change, Evidence, Finding, FindingCode, Move, Oid, Verdict, What};
use crate::error::{Code, Error, Result};
use crate::git::history::gained::shallow_parents_absent;
use crate::git::history::merge::Merge;
use crate::git::{MergeResult, Repo};
use crate::ops::verify::judged_trees::JudgedTrees;
use crate::ops::verify::landing::{LandingSubject, is_foreign};
use crate::store::chain::facts::Facts;
use crate::store::{landing::spawn_commit, ledger::agent_branch};
use crate::wire::output::path_text::ConflictReport;
pub use attest::{AttestedOptions, AttestedReport, StatementReport, attest, attested};
pub use guard::{GuardOptions, GuardReport, RuleReport, guard};
pub use parts::{CiAnswer, CommitPartReport, PartsReport, verify_ci};
pub use report::{FindingReport, MergeReport, VerifyReport, save};
use reported::Reported;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

/// How long one check command may take unless the caller says otherwise.
pub const COMMAND_LIMIT: Duration = Duration::from_secs(600);

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct VerifyOptions {
    /// The agent, by whatever it goes by; may be left out with `ci`.
    pub agent: Option<String>,
    /// Where its worktree is said to be.
    pub worktree: Option<PathBuf>,
    /// The revision to land on instead of the branch it started from.
    pub base: Option<String>,
    /// The commit that this branch is taken to be at, so that several agents are judged against the same one while others move it.
    pub base_at: Option<Oid>,
    /// The revision to judge instead of the branch and its worktree.
    pub tip: Option<String>,
    /// Find the agent by the spawn commit on the branch of `tip`, or of HEAD, and write nothing.
    pub ci: bool,
    /// Leave the check commands out.
    pub no_commands: bool,
    /// Run the check commands on exactly what would land, whatever the settings say of results from elsewhere.
    pub fresh: bool,
    /// Run the check commands although they succeeded on the same before: what they depend on may have changed without a trace here.
    pub again: bool,
    /// Takes over the results of a train that landed nothing, in which the same work was green on the same commit.
    pub by_train: bool,
    /// How long one command may take; [`COMMAND_LIMIT`] when absent.
    pub limit: Option<Duration>,
    /// Which verdicts are recorded.
    pub recording: Recording,
    /// Read the worktree twice, and judge nothing that changed meanwhile: something works in it.
    pub twice: bool,
}

/// Which verdicts become events, and so move the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Recording {
    /// Those of finished work, but for those of an agent on its own work: looking changes nothing.
    #[default]
    ByOthers,
    /// As the one before, of unfinished work too: the caller asked for that.
    Requested,
    /// Every one.
    Always,
    /// None, but what a verdict by which the work can land rests on is kept: the landing records that verdict.
    ByLanding,
    /// None.
    Never,
}

impl VerifyOptions {
    /// Why no worktree is looked for; `None` where one is.
    fn no_worktree(&self) -> Option<NoWorktree> {
        match (self.ci, &self.tip) {
            (true, _) => Some(NoWorktree::BranchOnly),
            (false, Some(_)) => Some(NoWorktree::CommitNamed),
            (false, None) => None,
        }
    }
}

/// Everything that was gathered before anything is judged.
struct Case<'r> {
    subject: LandingSubject,
    fence: ScopeGuard<'r>,
    policy: Oid,
    started: Oid,
    work: JudgedTrees,
    bundle: Bundle,
    ledger: LedgerFacts,
}

/// Judges an agent's work and records the verdict.
///
/// # Errors
/// `agent-unknown`, `agent-state` for one that is half made; `orchestrator-only` to record a verdict from inside another agent; `branch-gone`, `worktree-foreign`,
/// `base-not-commit`, `history-incomplete`, `repo-corrupt`; those of git and the file system.
pub fn verify(ctx: &Ctx, options: &VerifyOptions) -> Result<Verdict> {
    // What is asked for is a decision, which moves the agent.
    if let (Recording::Requested, false, Some(who)) =
        (options.recording, options.ci, &options.agent)
    {
        require_own(ctx, &lookup::agent(ctx, &ctx.ledger(), who)?)?;
    }
    let is_for_itself =
        options.ci || options.recording == Recording::Never || judges_itself(ctx, options);
    // A rehearsal reads on what was written here.
    if is_for_itself && !ctx.repo.is_scratch() {
        // What git is asked about exists for as long as this takes, and not in the repository, which a sandbox may have
        // closed to an agent that judges itself.
        let scratch = Scratch::make(ctx, "verify")?;
        let apart = ctx.with_scratch_objects(scratch.path())?;
        return verify_in(&apart, options);
    }
    verify_in(ctx, options)
}

/// Whether an agent in a run of ours judges its own work, so that nothing is recorded.
fn judges_itself(ctx: &Ctx, options: &VerifyOptions) -> bool {
    let Some(who) = options.agent.as_deref().filter(|_| ctx.env.agent.is_some()) else {
        return false;
    };
    let agent = lookup::agent(ctx, &ctx.ledger(), who);
    let own = agent.is_ok_and(|agent| CurrentAgent::is_of(&ctx.env, &agent));
    own && matches!(options.recording, Recording::ByOthers | Recording::Requested)
}

fn verify_in(ctx: &Ctx, options: &VerifyOptions) -> Result<Verdict> {
    let subject = LandingSubject::resolve(ctx, options);
    ctx.logged("subject");
    let verdict = subject.and_then(|subject| judged(ctx, options, subject));
    verdict.or_else(|error| {
        let error = if error.is_absence() {
            shallow_parents_absent("an object that the verdict depends on").because(error)
        } else {
            error
        };
        unreadable(ctx, options, error)
    })
}

fn judged(ctx: &Ctx, options: &VerifyOptions, subject: LandingSubject) -> Result<Verdict> {
    let case = gather(ctx, subject, options.twice)?;
    ctx.logged("evidence of the work");
    let reported = reported::read(ctx, &case)?;
    let verdict = decide(ctx, options, &case, &reported)?;
    ctx.logged("judged");
    // The clone that an agent was spawned in says how it stands.
    if !options.ci && !case.subject.is_foreign {
        record(ctx, options.recording, &case, &verdict, &reported)?;
        ctx.logged("recorded");
    }
    Ok(verdict)
}

fn gather(ctx: &Ctx, subject: LandingSubject, twice: bool) -> Result<Case<'_>> {
    let agent = &subject.agent;
    // In a shallow clone the base may be missing. That is no fault of the work, so it is an error
    // and no verdict.
    if let Some(base) = &agent.base {
        ctx.repo.require_commit(base.oid)?;
    }
    let fence = ScopeGuard::around(&ctx.repo, agent.clone())?;
    let started = Oid::from_hex(&fence.policy().base_oid);
    let (Some(policy), Some(started)) = (agent.binding_policy(), started) else {
        return Err(Error::bug("a fence has a policy and a base"));
    };
    Ok(Case {
        work: JudgedTrees::gather(ctx, &subject, fence.policy(), twice)?,
        bundle: bundle::read(ctx, agent, subject.directory(), fence.policy())?,
        ledger: ledger_facts(ctx, &subject)?,
        subject,
        fence,
        policy,
        started,
    })
}

fn ledger_facts(ctx: &Ctx, subject: &LandingSubject) -> Result<LedgerFacts> {
    let agent = &subject.agent;
    let (irregular, mut disorder) = if agent.origin_in_doubt {
        (agent.irregular.clone(), Vec::new())
    } else {
        (Vec::new(), agent.irregular.clone())
    };
    let links = ctx.ledger().broken_links(agent.spawn_commit)?;
    if links.unknown > 0 {
        let unknown = links.unknown;
        disorder.push(format!("{unknown} of the row's lines follow a line that was never in it"));
    }
    Ok(LedgerFacts {
        irregular,
        disorder,
        row: subject.row,
        altered: subject.altered.clone(),
        broken_links: links.removed + usize::from(ctx.ledger().was_cut(agent.spawn_commit)?),
    })
}

impl Case<'_> {
    /// What is remembered here; `None` where nothing may be written, and for an agent of another clone.
    fn facts(&self, ctx: &Ctx) -> Option<Facts> {
        if ctx.repo.is_scratch() || self.subject.is_foreign {
            return None;
        }
        Facts::open(ctx.repo.common_dir())
    }

    fn contract(&self, repo: &Repo) -> Result<Contract> {
        let policy = self.fence.policy();
        // Where projects are checked, work that touches none of them has nothing to count.
        let min_tests = policy.min_tests.filter(|_| policy.checks.is_empty());
        let uncounted_tests = match min_tests {
            Some(_) if projects::bound(repo, policy)?.have_checks() => 0,
            wanted => wanted.unwrap_or(0),
        };
        Ok(Contract {
            agent: Some(self.subject.agent.id),
            boundary: self.fence.boundary().clone(),
            bundle_required: policy.bundle_required,
            spec_sha: policy.spec_sha.clone(),
            report: policy.report_rules(),
            uncounted_tests,
        })
    }
}

fn decide(
    ctx: &Ctx,
    options: &VerifyOptions,
    case: &Case<'_>,
    reported: &Reported,
) -> Result<Verdict> {
    let (subject, work) = (&case.subject, &case.work);
    // What is known without looking at history.
    let mut evidence = Evidence {
        ledger: case.ledger.clone(),
        bundle: case.bundle.artefacts.clone(),
        bundle_out_of_reach: case.bundle.is_out_of_reach,
        worktree: work.worktree.clone(),
        no_worktree: subject.no_worktree,
        merge_commit: subject.merge_commit,
        ..Evidence::default()
    };
    evidence.answer.clone_from(&reported.answer);
    if subject.row == RowEvidence::Present {
        let audits = ctx.ledger().audits(&subject.agent)?;
        evidence.failed_audit = standing(&audits, work.tree).cloned();
        evidence.rejected_by_train = reported::is_rejected_by_train(ctx, case);
    }
    if subject.has_branch() {
        add_history(ctx, case, &mut evidence)?;
        ctx.logged("history and landing");
    }
    // The judgement, and with it whether check commands are worth running.
    let contract = case.contract(&ctx.repo)?;
    // The checks of a train are among those that are left out: the next train runs them again.
    let leaves_train = evidence.rejected_by_train && options.no_commands;
    if leaves_train {
        evidence.rejected_by_train = false;
        evidence.commands = Commands::Skipped;
    }
    let mut findings = judge(&contract, &evidence);
    // No commands are run on work that must not land anyway.
    if !leaves_train && !findings.iter().any(Finding::rejects) {
        evidence.commands = report::run(ctx, options, case, &evidence)?;
        ctx.logged("check commands");
        if evidence.commands != Commands::None {
            findings = judge(&contract, &evidence);
        }
    }
    Ok(Verdict {
        agent: subject.agent.id,
        tip: subject.tip,
        tree: work.tree,
        base_ref: subject.base_ref.clone(),
        base: subject.base.unwrap_or(case.started),
        bundle_required: contract.bundle_required,
        bundle: case.bundle.tree,
        policy: case.policy,
        uncommitted: ctx.repo.tree_changes(&[work.tip_tree], work.tree)?.len(),
        ignored: work.ignored,
        from_setup: work.from_setup,
        droppings: work.droppings.clone(),
        landing: evidence.landing,
        commands: evidence.commands,
        findings,
    })
}

/// Adds the history of the work, every path that it touches, and how git would merge it.
fn add_history(ctx: &Ctx, case: &Case<'_>, evidence: &mut Evidence) -> Result<()> {
    let (repo, subject, work) = (&ctx.repo, &case.subject, &case.work);
    // What the work was built upon, where that has landed by now: the work is judged as if it stood on the base.
    let below = match subject.base {
        Some(base) if subject.row == RowEvidence::Present => {
            stacked::landed_below(ctx, &subject.agent, base)?
        }
        _ => None,
    };
    let divergence = match (below, subject.base) {
        (Some(_), Some(base)) => Cow::Owned(repo.divergence(base, subject.tip, below)?),
        _ => subject.divergence(repo, case.started)?,
    };
    let is_above_landed = below.is_some();
    let history = history::provenance(ctx, subject, case.started, &divergence, is_above_landed)?;
    // Commits of others are for their authors, and of a branch that is named the server says what it takes.
    if !matches!(subject.no_worktree, NoWorktree::BranchOnly | NoWorktree::CommitNamed) {
        let ahead = divergence.ahead.iter().map(|lineage| lineage.oid);
        let mut own = ahead.filter(|oid| !history.foreign.contains(oid));
        own.try_for_each(|oid| repo.require_sound_commit(oid))?;
    }
    evidence.history = Some(history);
    evidence.parents = divergence.parents();
    evidence.touches = judged_trees::touches(repo, &divergence, work, |theirs, ours| {
        to_merge(ctx, &subject.agent, theirs, ours)
    })?;
    // What is staged and in no file any more is judged, and does not land.
    let mut places = evidence.touches.iter().map(|touch| touch.place);
    let touched = places.any(|place| place != ChangePlace::Index);
    let merge = |ours, theirs| merged(ctx, case, ours, theirs);
    let landing = landing::work_out(repo, &subject.lands(), work, &divergence, touched, merge)?;
    let base = subject.base.unwrap_or(case.started);
    let by_landing = landing::touches(repo, &landing, base)?;
    evidence.touches.extend(by_landing);
    let changes: Vec<Change> = evidence.touches.iter().map(|touch| touch.change.clone()).collect();
    let base_tree = repo.tree_of(base)?;
    evidence.other_names = case.fence.other_names(&changes, Some(base_tree))?;
    evidence.marked = landing::added_markers(repo, &landing, base)?;
    if case.fence.policy().no_dep_bump {
        evidence.dependencies = landing::dependencies(repo, &landing, base, &evidence.touches)?;
    }
    evidence.landing = Some(landing);
    Ok(())
}

/// The merge of the work into what it lands on. What is of others in it does not land: changes that their owner has not committed,
/// and work below it that has landed in another form.
fn merged(ctx: &Ctx, case: &Case<'_>, ours: Oid, theirs: Oid) -> Result<Merge> {
    match as_it_lands(ctx, &case.subject.agent, ours, theirs)? {
        AsItLands::Merged(merge) => Ok(merge),
        AsItLands::Commit(theirs) => {
            merge(case.facts(ctx).as_ref(), &case.fence, &ctx.repo, ours, theirs)
        }
    }
}

// What is kept of a verdict.

/// Keeps the bundle and adds the verdict to the agent's row, unless it says so already, is about
/// another commit than the branch's, or accepts what was only half judged. `recording` may ask for less.
fn record(
    ctx: &Ctx,
    recording: Recording,
    case: &Case<'_>,
    verdict: &Verdict,
    said: &Reported,
) -> Result<()> {
    let subject = &case.subject;
    let agent = &subject.agent;
    let is_wanted = match recording {
        Recording::Always => true,
        Recording::ByOthers => {
            agent.finished
                && !CurrentAgent::is_of(&ctx.env, agent)
                && at_work::at_work(ctx, agent).is_none()
        }
        Recording::Requested => !CurrentAgent::is_of(&ctx.env, agent),
        Recording::ByLanding => verdict.can_land(),
        Recording::Never => false,
    };
    // A row begins with its spawn, in the clone that spawns.
    if !is_wanted || subject.row != RowEvidence::Present {
        return Ok(());
    }
    case.fence.keep_facts();
    // Kept before the verdict that names it.
    if let Some(tree) = case.bundle.tree {
        bundle::keep(ctx, &subject.agent, tree)?;
    }
    // Before the verdict, so that a kill between the two leaves nothing unsaid: judging again says it.
    if let Some((audited, audit)) = said.audit.as_ref().filter(|_| verdict.is_accepted()) {
        reported::record(ctx, audited, audit)?;
    }
    if recording == Recording::ByLanding {
        return Ok(());
    }
    let recorded = verdict.recorded();
    let step = if recorded.accepted { Move::Accept } else { Move::Reject };
    let branch = agent_branch::local(&ctx.repo, agent)?;
    let elsewhere = branch.oid().is_some_and(|tip| tip != subject.tip);
    let half = recorded.accepted && verdict.is_partial();
    let known = agent.verdict.as_ref() == Some(&recorded);
    if elsewhere || half || known || agent.may(step).is_err() {
        return Ok(());
    }
    let what = What::Verified(recorded);
    let appended = ctx.ledger().append_if(agent.spawn_commit, &ctx.actor()?, ctx.now(), |row| {
        row.unwrap_or(agent).may(step)?;
        Ok(what.clone())
    });
    match appended {
        // It landed or was discarded while it was judged; the answer stands, the row needs none.
        Err(error) if error.code() == Code::AgentState => Ok(()),
        other => other.map(|_| ()),
    }
}

// What verify remembers from one time to the next: facts about objects, never a verdict.
//
// A remembered merge says which tree lands, so more than its seal is asked for: all that it changes must be
// within the agent's scope. Of a merge that is not (git may move a new file along with a directory that the
// base renamed), and of one whose trees are gone, git is asked again.

const MERGE: &str = "merge";

/// What git answered for two commits.
#[derive(Serialize, Deserialize)]
struct KeptMerge {
    tree: String,
    conflicts: Vec<ConflictReport>,
}

/// What git makes of merging `theirs` into `ours`.
///
/// # Errors
/// As [`Repo::merge`].
fn merge(
    facts: Option<&Facts>,
    fence: &ScopeGuard<'_>,
    repo: &Repo,
    ours: Oid,
    theirs: Oid,
) -> Result<Merge> {
    let rules = facts.map(|_| repo.merge_rules()).transpose()?.unwrap_or_default();
    let question = [ours.to_hex(), theirs.to_hex(), rules];
    let known = facts.and_then(|facts| facts.load(MERGE, &question));
    if let Some(merge) = known.and_then(|bytes| believable(&bytes, fence, repo, ours)) {
        return Ok(merge);
    }
    let merge = repo.merge(ours, theirs)?;
    if let (Some(facts), Some(answer)) = (facts, kept(&merge)) {
        facts.store(MERGE, &question, &answer);
    }
    Ok(merge)
}

fn kept(merge: &Merge) -> Option<Vec<u8>> {
    let kept = match &merge.result {
        // Another version of git may know better.
        _ if merge.approximate => return None,
        MergeResult::Clean { tree } => KeptMerge { tree: tree.to_hex(), conflicts: Vec::new() },
        MergeResult::Conflicts { tree, conflicts } => KeptMerge {
            tree: tree.as_ref()?.to_hex(),
            conflicts: conflicts.iter().map(ConflictReport::from).collect(),
        },
        MergeResult::Unrelated => return None,
    };
    serde_json::to_vec(&kept).ok()
}

/// The merge that a file holds, unless it would bring what the agent may not touch.
fn believable(bytes: &[u8], fence: &ScopeGuard<'_>, repo: &Repo, ours: Oid) -> Option<Merge> {
    let kept: KeptMerge = serde_json::from_slice(bytes).ok()?;
    let tree = Oid::from_hex(&kept.tree)?;
    // Only a clean merge says what lands, so only its changes are held against the scope.
    let result = if kept.conflicts.is_empty() {
        let before = repo.read_commit(ours).ok()?.tree;
        let changes = repo.tree_changes(&[before], tree).ok()?;
        let violations = fence.judge(&changes, BundleRule::NeverCommitted).ok()?;
        if !violations.is_empty() {
            return None;
        }
        MergeResult::Clean { tree }
    } else {
        let conflicts = kept
            .conflicts
            .into_iter()
            .map(|one| Conflict { path: one.path.to_bytes(), kinds: one.kinds });
        MergeResult::Conflicts { tree: Some(tree), conflicts: conflicts.collect() }
    };
    Some(Merge { result, approximate: false })
}

// The verdict on work that cannot be read: a branch, an object, an index or a file that an agent left broken is a
// reason to reject its work, not a failure of the program.

/// Gives the rejecting verdict where judging failed because of the agent's own state, and the error where it did not.
/// Nothing is recorded: the verdict is about no commit.
///
/// # Errors
/// The one that it was given.
fn unreadable(ctx: &Ctx, options: &VerifyOptions, error: Error) -> Result<Verdict> {
    match of_agent(ctx, options, &error) {
        Some(verdict) => Ok(verdict),
        None => Err(error),
    }
}

fn of_agent(ctx: &Ctx, options: &VerifyOptions, error: &Error) -> Option<Verdict> {
    // A commit that the caller names may be anything, and neither the base of a layer is the agent's nor who the caller is.
    let is_ours = error.code() == Code::LayerInvalid || ctx.repo.identities(0).is_err();
    let is_named = options.ci || options.tip.is_some();
    if !untrusted::is_of_an_agent(error) || is_ours || is_named {
        return None;
    }
    let ledger = ctx.ledger();
    let agent = lookup::agent(ctx, &ledger, options.agent.as_deref()?).ok()?;
    // Objects that were never fetched are no fault of the agent.
    let is_whole = !ctx.repo.is_shallow() && !ctx.repo.is_partial();
    if !is_whole || is_foreign(ctx, &ledger, &agent).ok()? {
        return None;
    }
    let policy = spawn_commit::if_here(&ctx.repo, &agent).ok()??;
    let base = agent.base.as_ref()?.oid;
    let (base_ref, base_tip) = base_of(ctx, &agent, options.base.as_deref()).ok()?;
    let base_tip = base_tip.unwrap_or(base);
    // Where these cannot be read, the repository is damaged, and not the agent's work.
    for commit in [base, base_tip, agent.spawn_commit] {
        let tree = ctx.repo.read_commit(commit).ok()?.tree;
        ctx.repo.read_tree(tree).ok()?;
    }
    let tip = agent.branch.as_ref().and_then(|branch| ctx.repo.tip(branch).ok()?.oid());
    let commit = match tip.and_then(|tip| ctx.repo.read_commit(tip).ok()) {
        Some(commit) => commit,
        None => ctx.repo.read_commit(agent.spawn_commit).ok()?,
    };
    let mut message = error.message().to_owned();
    for cause in error.causes() {
        message.push_str(": ");
        message.push_str(&cause.replace('\n', " "));
    }
    let id = agent.id.short();
    // libgit2 and git give the words of the system and no number.
    let (fix, remedy) = match error.first_hint() {
        Some((hint, remedy)) => (hint.to_owned(), remedy),
        // A discard would have to read it as well.
        None if message.contains("Permission denied") => {
            ("let its owner read it: chmod u+rwX <path>".to_owned(), None)
        }
        None => (format!("mend it, or keep what can be read: git agent discard {id}"), None),
    };
    let finding = Finding::new(FindingCode::WorkUnreadable, message, fix);
    let finding = Finding { remedy: remedy.cloned(), ..finding };
    Some(Verdict {
        agent: agent.id,
        tip: commit.oid,
        tree: commit.tree,
        base_ref,
        base: base_tip,
        bundle_required: policy.bundle_required,
        bundle: None,
        policy: agent.binding_policy()?,
        uncommitted: 0,
        ignored: None,
        from_setup: None,
        droppings: Vec::new(),
        landing: None,
        commands: Commands::None,
        findings: vec![finding],
    })
}
