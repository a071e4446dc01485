//! The sandbox of one run: put up before the command starts, taken down when nothing of it is left.

use crate::agents::context::run_repo::RunRepo;
use crate::agents::place::hidden_places::{private_caches, renew_views};
use crate::agents::upkeep::publish::Published;
use crate::agents::upkeep::{hooks, publish};
use crate::agents::{Ctx, life::liveness, stock::layered};
use crate::domain::life::sandbox::{Level, Namespaces};
use crate::domain::{Agent, Enforcement, LayerMount, Oid};
use crate::error::{Code, Error, Remedy, Result};
use crate::git::files::separate::separate;
use crate::ops::run::RunPlan;
use crate::ops::run::fence::{self, FenceRequest};
use crate::ops::run::output::Output;
use crate::ops::run::push_guard::{GitRights, PushGuard};
use crate::ops::run::stage::Stage;
use crate::proc::sandbox::{self, FenceOutcome, Plan, read_report};
use crate::store::files::{fsx, layout};
use crate::store::landing::spawn_commit;
use crate::wire::output::path_text::PathText;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What stands around a command.
#[derive(Default)]
pub(super) struct Enclosure {
    fence: Option<StandingFence>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

struct StandingFence {
    level: Level,
    report: PathBuf,
    /// Where it works; a shared agent commits nothing.
    run_repo: Option<RunRepo>,
    guard: Option<PushGuard>,
    /// Where its branch was, if commits that the user's settings want signed are not.
    unsigned_from: Option<Oid>,
    /// The mount of a layered worktree, which is gone when the command is.
    layer: Option<LayerMount>,
    /// The views of the user's caches, gone as well.
    caches: Vec<LayerMount>,
}

/// Refuses an agent whose files only a mount shows, where there is none.
fn require_mount(ctx: &Ctx, agent: &Agent) -> Result<()> {
    if layered::of(&ctx.repo, agent.id).is_none() {
        return Ok(());
    }
    let what = format!(
        "the worktree of agent {} is layered, which needs the sandbox with all its namespaces",
        agent.id.short()
    );
    Err(Error::new(Code::SandboxUnavailable, what)
        .remedy(layered::ORDINARY, Remedy::Materialize(agent.id.short())))
}

impl Enclosure {
    /// Puts the fence up that the plan asks for, and changes the stage's command and variables accordingly.
    ///
    /// # Errors
    /// Those of [`fence::bounds`]; `agent-state` for an agent without a policy.
    pub(super) fn put_up(
        ctx: &Ctx,
        agent: &Agent,
        plan: &RunPlan,
        stage: &mut Stage,
        spool: &Path,
    ) -> Result<()> {
        let Enforcement::Fenced(level) = plan.enforcement else {
            return require_mount(ctx, agent);
        };
        if level.namespaces != Namespaces::Processes {
            require_mount(ctx, agent)?;
        }
        let policy = spawn_commit::require_policy(&ctx.repo, agent)?;
        // The answer may go to a place that is not the agent's own.
        let answer = plan.inputs.output.as_ref();
        let mut allow = plan.options.allow_write.clone();
        let answer = answer.filter(|answer| !answer.is_in_layer());
        allow.extend(answer.map(Output::directory_for_agent));
        let mut bounds = fence::bounds(
            ctx,
            &FenceRequest {
                agent,
                policy: &policy,
                mode: plan.options.sandbox,
                temporary: stage.scratch.path(),
                spool,
                allow: &allow,
            },
        )?;
        // Below its TMPDIR, so they are open already. What is added to the user's stays with the agent.
        let caches = stage.scratch.path().join("caches");
        fsx::create_dir(&caches)?;
        let kept = layout::caches_dir(ctx.repo.common_dir(), agent.id);
        let caches = private_caches(ctx, &bounds.fence.writable, (&caches, &kept), level)?;
        stage.variables.extend(caches.variables);
        bounds.fence.caches = caches.mounts;
        bounds.fence.terminal = plan.options.terminal;
        // A person may have linked files there since the set-up; inside the fence nothing can be linked across it.
        for worktree in &bounds.fence.own {
            if bounds.fence.layer.is_none() {
                separate(worktree)?;
            }
        }
        let rights = GitRights::of(ctx, &plan.options)?;
        let mut guard = None;
        if !rights.push {
            let (put_up, programs) =
                PushGuard::put_up(ctx, agent, stage.number, level, &mut bounds.fence)?;
            stage.search_first(ctx, &programs);
            guard = Some(put_up);
        }
        stage.without.extend(rights.removed());
        let variables = rights.variables().into_iter();
        let variables = variables.map(|(name, value)| (name.into(), value));
        stage.variables.extend(variables);
        let mut unsigned_from = None;
        // Set up last: from then on the worktree leads to it, and what could fail should have
        // failed before.
        let run_repo = publish::run_repo(ctx, agent);
        if let Some(run_repo) = &run_repo {
            let branch = agent.branch.as_deref().unwrap_or_default();
            let tip = ctx.repo.tip(branch)?.oid().ok_or_else(|| {
                Error::new(
                    Code::BranchGone,
                    format!("the branch {branch} of agent {} does not exist", agent.id.short()),
                )
            })?;
            let mut settings = rights.settings();
            // The index of a layered worktree is read as one file.
            settings.push(("core".into(), "splitIndex", "false"));
            // A fetch brings tags along, which are shared, and our hooks would refuse the whole of it.
            let remotes = ctx.repo.remotes()?.into_iter();
            settings.extend(remotes.map(|name| (format!("remote.{name}"), "tagOpt", "--no-tags")));
            run_repo.set_up(&ctx.repo, tip, &settings)?;
            unsigned_from = ctx.repo.shared_bool("commit.gpgsign")?.then_some(tip);
            let homes =
                hooks::private_homes(ctx, agent.id, &stage.directory, stage.scratch.path())?;
            let homes = homes.into_iter().map(|(name, value)| (name.into(), value));
            stage.variables.extend(homes);
            ctx.reached("run-repo");
        }
        let report = liveness::log(ctx.repo.common_dir(), agent, stage.number, "fence");
        let wrapped = Plan { fence: &bounds.fence, level, report: &report };
        stage.command = sandbox::wrap(ctx.env.require_program()?, &wrapped, &stage.command);
        stage.enclosure = Enclosure {
            fence: Some(StandingFence {
                level,
                report,
                run_repo,
                guard,
                unsigned_from,
                layer: bounds.fence.layer,
                caches: bounds.fence.caches,
            }),
            warnings: bounds.warnings,
        };
        Ok(())
    }

    /// Takes it down: publishes what the command did, and says what was enforced. To be called before any look into
    /// the worktree.
    ///
    /// # Errors
    /// `sandbox-unavailable` when the kernel refused the fence, so that the command never started; `io`.
    pub(super) fn take_down(
        &self,
        ctx: &Ctx,
        agent: &Agent,
        plan: &RunPlan,
    ) -> Result<SandboxReport> {
        let mut told = SandboxReport {
            mode: plan.options.sandbox.as_str(),
            enforced: Some(plan.enforcement.as_str()),
            missing: Vec::new(),
            why: None,
            restored: Vec::new(),
            push_refused: Vec::new(),
            notes: Vec::new(),
            is_left_over: false,
        };
        if let Enforcement::Impossible { why } = &plan.enforcement {
            told.why = Some(why.clone());
        }
        let Some(standing) = &self.fence else {
            return Ok(told);
        };
        // Before anything is acknowledged.
        standing.layer.as_ref().map_or(Ok(()), layered::finish)?;
        if let Some(run_repo) = &standing.run_repo {
            let Published { restored, warnings, is_left_over } =
                publish::finish(ctx, agent, run_repo)?;
            let text = |path: PathBuf| PathText::from(path.as_os_str().as_bytes());
            told.restored = restored.into_iter().map(text).collect();
            (told.notes, told.is_left_over) = (warnings, is_left_over);
        }
        // What was tried is read before the file with it goes.
        if let Some(guard) = &standing.guard {
            told.push_refused = guard.tries();
            guard.take_down();
        }
        // What a mount leaves, no program but root's can read: a copy of the repository by `tar` would end there. What cannot be removed
        // now goes before the next run.
        let _ = renew_views(&standing.caches);
        let branch = agent.branch.as_deref().unwrap_or_default();
        if let Some(before) = standing.unsigned_from
            && ctx.repo.tip(branch)?.oid() != Some(before)
        {
            told.notes.push(
                "commit.gpgsign is set, and the commits of this run are not signed: behind the sandbox no key is in reach"
                    .to_owned(),
            );
        }
        // No report means that the fence was never entered: the command did not get as far as being
        // started.
        match read_report(&standing.report)? {
            Some(FenceOutcome::Refused(why)) => {
                return Err(Error::new(Code::SandboxUnavailable, why));
            }
            Some(_) => {
                told.missing = standing.level.missing();
                told.why = standing.level.why.map(str::to_owned);
            }
            None => told.enforced = None,
        }
        Ok(told)
    }

    /// Where the command works, if that is a repository of its own.
    pub(super) fn run_repo(&self) -> Option<&RunRepo> {
        self.fence.as_ref()?.run_repo.as_ref()
    }
}

/// What the sandbox did, in the answer of `run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxReport {
    /// What was asked for: `auto`, `require`, `strict` or `off`.
    pub mode: &'static str,
    /// `full`, `landlock`, `none` or `off`; null when the command did not get as far as being fenced.
    pub enforced: Option<&'static str>,
    /// What anything but `full` lets through.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<&'static str>,
    /// Why there is none, or less than all, although one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The worktree's `.git` file, where the command had changed it. It was put back, and a warning says where what was
    /// there is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<PathText>,
    /// What the command tried to push, one command line each; all of it was refused.
    #[serde(skip)]
    pub push_refused: Vec<String>,
    /// What was not taken over as the command left it, one sentence each; among the run's warnings.
    #[serde(skip)]
    pub notes: Vec<String>,
    /// Whether what it committed was not taken over; the rest is no more judged than work that cannot be read.
    #[serde(skip)]
    pub is_left_over: bool,
}

impl SandboxReport {
    /// What a person has to look at, one sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let pushes = self.push_refused.iter();
        let pushes =
            pushes.map(|push| format!("the command tried to push, which was refused: {push}"));
        self.notes.iter().cloned().chain(pushes).collect()
    }
}
