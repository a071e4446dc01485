//! `amend`: another policy for a live agent, by its owner.
//!
//! The steps, each named for the tests that stop the process there:
//!
//! 1. `amendment-kept`: the new policy is a blob that the keep chain holds.
//! 2. `amended`: the event `amended` names it. From here on it binds.
//! 3. `amendment-told`: the prompt for the next session says it.
//!
//! No commit is made, and the private copy of the task stays as it was given: what binds is read from the recorded policy
//! alone. A kill before the second step leaves a blob that nothing names, and after it a prompt that the next run composes anew.

use crate::agents::life::liveness;
use crate::agents::who::assignment::{Assignment, PromptWish, Workplace};
use crate::agents::who::scope_guard::{other_controls, spell_out_directories};
use crate::agents::who::{authority, lookup};
use crate::agents::{Ctx, Scratch, Work, place::worktree};
use crate::domain::boundary::scope::{
    Opened, control_files, deny_control_files, effective_denylist, may_meet,
};
use crate::domain::work::task::TaskOptions;
use crate::domain::work::task::{TIMEOUTS, is_timeout};
use crate::domain::{Agent, Glob, Oid, RoleSet, Task, What};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::worktree::populate;
use crate::ops::agent_report::{AgentReport, Reporter};
use crate::ops::spawn::{denied, misread, require_matched, unmatched};
use crate::store::files::{briefing, layout, lock};
use crate::store::settings::{repository_settings, roles};
use crate::store::{chain::keep, landing::spawn_commit, ledger};
use crate::wire::file::task_file::{self, TaskWords};
use crate::wire::row::policy::{self, Policy};
use serde::Serialize;
use std::collections::HashSet;
use std::time::Duration;

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 3] = ["amendment-kept", "amended", "amendment-told"];

/// What is to change; what is empty stays.
#[derive(Clone, Debug, Default)]
pub struct AmendOptions {
    /// Globs that take the place of the whitelist.
    pub scope: Vec<String>,
    /// Globs that are added to it.
    pub add_scope: Vec<String>,
    /// Globs that are added to it and may match nothing yet.
    pub new: Vec<String>,
    /// Globs that take the place of the denylist, beside the defaults of role and repository.
    pub deny: Vec<String>,
    /// Commands that take the place of the checks.
    pub checks: Vec<String>,
    /// Takes the checks from the settings at the tip of the branch that the work would land on.
    pub checks_of_target: bool,
    /// No bundle is required any more.
    pub no_bundle: bool,
    /// How long a run may take.
    pub timeout: Option<Duration>,
    /// Why.
    pub reason: String,
    /// Changes nothing.
    pub dry_run: bool,
}

/// The answer of `amend`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.amend/1")]
pub struct AmendReport {
    /// The agent after it.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The blob of the policy that binds from now on.
    pub policy: String,
    /// The blob of the one before.
    pub previous_policy: String,
    /// The globs it may touch.
    pub whitelist: Vec<String>,
    /// The globs it must not touch.
    pub denylist: Vec<String>,
    /// The globs of the whitelist that win over the denylist, as they name control files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened: Vec<String>,
    /// Commands that `verify` runs.
    pub checks: Vec<String>,
    /// Whether its work lands only with a complete bundle.
    pub bundle_required: bool,
    /// How long a run may take, in milliseconds, where an amendment says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Gives an agent another policy.
///
/// # Errors
/// `agent-unknown`; `agent-state` for one that is not live or lives in another clone; `agent-busy` while something runs for it;
/// `agent-needs-newer`; `orchestrator-only` from inside of an agent; `task-invalid` for globs and commands that no task may have.
pub fn amend(ctx: &Ctx, who: &str, options: &AmendOptions) -> Result<AmendReport> {
    let ledger = ctx.ledger();
    let agent = lookup::agent(ctx, &ledger, who)?;
    authority::require_owner(ctx, &agent)?;
    ledger::require_no_secret(&options.reason)?;
    require_live(&agent)?;
    let alone = require_at_rest(ctx, &agent)?;
    // Not while it is judged for a landing, or lands.
    let landings = lock::hold(ctx.repo.common_dir(), layout::LANDING_LOCK)?;
    // Read again under both locks.
    let agent = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    require_live(&agent)?;

    let old = spawn_commit::require_policy(&ctx.repo, &agent)?;
    let new = amended(ctx, &agent, &old, options)?;
    let previous =
        agent.binding_policy().ok_or_else(|| Error::bug("a live agent must have a policy"))?;
    if new == old {
        let id = agent.id.short();
        return Err(Error::new(Code::Usage, format!("agent {id} has this policy already"))
            .remedy("to see it", Remedy::Agent(id)));
    }
    let mut warnings = warnings(ctx, &agent, &old, &new);
    let mut blob = previous;
    if !options.dry_run {
        blob = spawn_commit::write_policy(&ctx.repo, &new)?;
        record(ctx, &agent, blob, &options.reason)?;
        ctx.reached(STEPS[1]);
        if let Err(error) = tell(ctx, &agent, blob) {
            warnings
                .push(format!("its prompt was not written anew: {error}; the next run does that"));
        }
        ctx.reached(STEPS[2]);
    }
    let now = ledger.agent(agent.spawn_commit)?.unwrap_or(agent);
    // Who holds an agent's lock makes it look as if it ran.
    drop((landings, alone));
    Ok(AmendReport {
        agent: Reporter::new(ctx)?.agent(ctx, &now),
        dry_run: options.dry_run,
        policy: blob.to_hex(),
        previous_policy: previous.to_hex(),
        opened: new.opened_by(),
        whitelist: new.whitelist,
        denylist: new.denylist,
        checks: new.checks,
        bundle_required: new.bundle_required,
        timeout_ms: new.timeout_ms,
        warnings,
    })
}

fn require_live(agent: &Agent) -> Result<()> {
    agent.require_understood()?;
    if agent.state.is_live() {
        return Ok(());
    }
    let id = agent.id.short();
    let what = format!("agent {id} is {} and cannot be amended", agent.state);
    Err(Error::new(Code::AgentState, what).remedy("to see its history", Remedy::History(id)))
}

/// Makes sure that nothing runs for the agent, as long as the guard lives: a run has read its policy.
fn require_at_rest(ctx: &Ctx, agent: &Agent) -> Result<lock::Guard> {
    liveness::lock_after_landing(ctx, agent).map_err(|error| match error.code() {
        Code::RunActive => {
            let id = agent.id.short();
            Error::new(Code::AgentBusy, format!("something runs for agent {id}"))
                .hint(format!("to end it, run git agent stop {id}"))
                .hint(format!("to wait for its end, run git agent wait {id}"))
        }
        _ => error,
    })
}

/// The policy with the changes in it, checked as those of a task are.
fn amended(ctx: &Ctx, agent: &Agent, old: &Policy, options: &AmendOptions) -> Result<Policy> {
    let base = agent.base.as_ref().ok_or_else(|| Error::bug("a live agent must have a base"))?;
    let roles = roles::load(&ctx.repo, old.settings().unwrap_or(base.oid))?;
    let mut scope = match options.scope.as_slice() {
        [] => old.whitelist.clone(),
        scope => scope.to_vec(),
    };
    let added: Vec<String> = options
        .add_scope
        .iter()
        .chain(&options.new)
        .filter(|glob| !scope.contains(glob))
        .cloned()
        .collect();
    scope.extend(added);
    // The rules of task files hold for what is typed here, too; the text stands in for one that is not looked at.
    let draft = task_file::of_words(&TaskWords {
        text: "A policy that is amended has no task text of its own.".to_owned(),
        role: Some(old.role.clone()),
        scope,
        deny: options.deny.clone(),
        checks: options.checks.clone(),
        bundle: None,
        ..TaskWords::default()
    });
    let checked = draft.check(&roles, TaskOptions::default());
    let (mut task, _) = checked.map_err(|problems| match Error::from(problems) {
        // There is no task to mend, and none to spawn.
        error if error.code() == Code::TaskInvalid => error
            .hint_only("mend the option that says it; a glob is a path from the current directory"),
        error => error,
    })?;
    // What a name stands for shows in the base and in the agent's work. Its uncommitted part is written as a tree that is not kept.
    let scratch = Scratch::make(ctx, "amend")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    let work = Work::look_up(&apart, agent.clone()).and_then(|work| work.tree(&apart));
    let base_tree = apart.repo.tree_of(base.oid)?;
    let trees: Vec<Oid> = [base_tree].into_iter().chain(work.ok()).collect();
    spell_out_directories(&apart.repo, &trees, &mut task.whitelist, false)?;
    let mut seen = HashSet::new();
    task.whitelist.retain(|glob| seen.insert(glob.clone()));
    let is_new = |glob: &&Glob| !old.whitelist.iter().any(|old| old == glob.as_str());
    let typed: Vec<Glob> = task.whitelist.iter().filter(is_new).cloned().collect();
    let unmatched = unmatched(&apart.repo, &trees, &typed, (&[], &Opened::new()))?;
    require_matched(&apart, &trees, &unmatched, &options.new)?;
    let text = |globs: &[Glob]| -> Vec<String> {
        globs.iter().map(|glob| glob.as_str().to_owned()).collect()
    };
    let mut new = Policy { whitelist: text(&task.whitelist), ..old.clone() };
    if new.whitelist != old.whitelist || !options.deny.is_empty() {
        let (mut denylist, controls) = denylist(ctx, agent, old, (&task, options), &roles)?;
        spell_out_directories(&apart.repo, &trees, &mut denylist, true)?;
        let opened = deny_control_files(&mut denylist, controls);
        denylist.sort_unstable();
        denylist.dedup();
        (new.denylist, new.opened) = (text(&denylist), policy::recorded(&opened));
    }
    if options.checks_of_target {
        let target = base.refname.as_deref().unwrap_or("HEAD");
        let tip = ctx.repo.resolve_commit(target).map_err(|error| {
            let id = agent.id.short();
            error
                .hint_only(format!(
                    "to name the checks, run git agent amend {id} --check <command>"
                ))
                .remedy("to land on another branch", Remedy::LandElsewhere(id))
        });
        let tip = tip?.commit;
        // The branch that a pull request lands on is the pull request's.
        let tip = old.settings().unwrap_or(tip);
        let roles = roles::load(&ctx.repo, tip)?;
        let settings = repository_settings::load(&ctx.repo, tip, &roles)?;
        (new.checks, new.min_tests) = (settings.checks, settings.min_tests);
        new.projects_oid = Some(tip.to_hex());
    } else if !options.checks.is_empty() {
        new.checks = task.checks;
    }
    new.bundle_required &= !options.no_bundle;
    if let Some(limit) = options.timeout {
        // The next run would find it in a task file that it refuses.
        if !is_timeout(limit) {
            let what = format!("the timeout is {} s", limit.as_secs());
            return Err(Error::new(Code::Usage, what).hint(TIMEOUTS));
        }
        new.timeout_ms = Some(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
    }
    Ok(new)
}

/// The denylist beside a whitelist that was changed, and the control files that are denied besides. Files that decide what other people's programs run are
/// denied as at the spawn: all that the owner does not name.
fn denylist(
    ctx: &Ctx,
    agent: &Agent,
    old: &Policy,
    (task, options): (&Task, &AmendOptions),
    roles: &RoleSet,
) -> Result<(Vec<Glob>, Opened)> {
    let base = agent.base.as_ref().ok_or_else(|| Error::bug("a live agent must have a base"))?;
    let others = other_controls(&ctx.repo)?;
    // A role that does not edit has no need of them, as at the spawn.
    let (scope, everything) = if old.edits {
        (task.whitelist.as_slice(), vec![Glob::parse("**").map_err(Error::bug)?])
    } else {
        (&[][..], Vec::new())
    };
    let all = control_files(&everything, others.clone());
    let [_, before] = old.globs().map_err(Error::bug)?;
    let (denied, rest): (Vec<Glob>, Vec<Glob>) =
        before.into_iter().partition(|glob| all.contains_key(glob));
    let opened = old.opened_globs().map_err(Error::bug)?;
    let mut controls = control_files(scope, others);
    let is_old = |glob: &Glob| old.whitelist.iter().any(|old| old == glob.as_str());
    // A scope of a task file means what it matches, and goes on to.
    for (control, named) in controls.iter_mut().filter(|(control, _)| !denied.contains(control)) {
        let allowed = scope.iter().filter(|glob| is_old(glob) && may_meet(glob, control));
        let allowed: Vec<Glob> = allowed.filter(|glob| !named.contains(glob)).cloned().collect();
        named.extend(allowed);
    }
    for control in denied {
        // What the owner names now is meant, and what was opened before.
        let is_opened = |glob: &Glob| opened.get(&control).is_some_and(|by| by.contains(glob));
        let is_meant = |glob: &Glob| !is_old(glob) || is_opened(glob);
        if let Some(named) = controls.get_mut(&control) {
            named.retain(is_meant);
            continue;
        }
        let touching = task.whitelist.iter().filter(|glob| may_meet(glob, &control));
        let (meant, others): (Vec<Glob>, Vec<Glob>) = touching.cloned().partition(is_meant);
        // Where all that reaches the control file names it, nothing of it is left to deny.
        if meant.is_empty() || !others.is_empty() {
            controls.insert(control, meant);
        }
    }
    let mut denylist = if options.deny.is_empty() {
        rest
    } else {
        effective_denylist(task.denylist.as_deref(), roles.require(&old.role)?, false)
    };
    let at = old.settings().unwrap_or(base.oid);
    denylist.extend(repository_settings::load(&ctx.repo, at, roles)?.deny);
    Ok((denylist, controls))
}

fn warnings(ctx: &Ctx, agent: &Agent, old: &Policy, new: &Policy) -> Vec<String> {
    let mut warnings = Vec::new();
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    if new.whitelist != old.whitelist && populate::cone_directories(&admin_dir).is_some() {
        let what = "its worktree is sparse and holds the directories of the first scope; to have others in it, run git sparse-checkout add in it";
        warnings.push(what.to_owned());
    }
    let parsed = |globs: &[String]| -> Vec<Glob> {
        globs.iter().filter_map(|glob| Glob::parse(glob).ok()).collect()
    };
    let is_old = |glob: &Glob| old.whitelist.iter().any(|old| old == glob.as_str());
    let mut added = parsed(&new.whitelist);
    added.retain(|glob| !is_old(glob));
    let opened = new.opened_globs().unwrap_or_default();
    let denylist = parsed(&new.denylist);
    warnings.extend(denied(&added, &denylist, &opened));
    let base = agent.base.as_ref().and_then(|base| ctx.repo.read_commit(base.oid).ok());
    let trees: Vec<Oid> = base.iter().map(|base| base.tree).collect();
    let typed = denylist.iter().filter(|glob| !old.denylist.iter().any(|old| old == glob.as_str()));
    // What cannot be read is no reason to refuse what is written already.
    warnings.extend(misread(&ctx.repo, &trees, added.iter().chain(typed)).unwrap_or_default());
    warnings
}

/// Keeps the blob, and names it in the agent's row while it still has the policy that was amended.
fn record(ctx: &Ctx, agent: &Agent, blob: Oid, reason: &str) -> Result<()> {
    let by = ctx.actor()?;
    let what = What::Amended { policy: blob, reason: reason.to_owned(), whole: None };
    // A link of this kind may hold blobs in every version that reads the chain.
    let why = format!("text {}", agent.id);
    keep::keep_with(&ctx.repo, &[], &[("amended.json", blob)], &why, ctx.now())?;
    let what = ledger::keep_whole(&ctx.repo, agent, &by, what, ctx.now())?;
    ctx.reached(STEPS[0]);
    ctx.ledger().append_if(agent.spawn_commit, &by, ctx.now(), |row| {
        let row = row.unwrap_or(agent);
        require_live(row)?;
        // Two amendments at once must not each undo what the other one changed.
        if row.binding_policy() != agent.binding_policy() {
            let id = agent.id.short();
            let what = format!("the policy of agent {id} was amended meanwhile");
            return Err(Error::new(Code::LostRace, what).remedy("to see it", Remedy::Agent(id)));
        }
        Ok(what.clone())
    })?;
    Ok(())
}

/// Writes the agent's prompt anew, where it has one.
pub(super) fn tell(ctx: &Ctx, agent: &Agent, blob: Oid) -> Result<()> {
    let common = ctx.repo.common_dir();
    if !briefing::is_here(common, agent.id) {
        return Ok(());
    }
    let agent = Agent { amended: Some(blob), ..agent.clone() };
    let policy = spawn_commit::require_policy(&ctx.repo, &agent)?;
    let directory = match worktree::find(&ctx.repo, &agent) {
        Some(path) => path,
        None => ctx.repo.root()?,
    };
    let assignment = Assignment::recall(ctx, &agent, &policy, &PromptWish::default())?;
    let place = Workplace::of(ctx, &agent, &policy, directory);
    let prompt = assignment.prompt(agent.id, &place, None);
    briefing::write_prompt(common, agent.id, &prompt).map(drop)
}
