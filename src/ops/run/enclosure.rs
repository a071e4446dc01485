//! The sandbox of one run: put up before the command starts, taken down when nothing of it is left.

use crate::agents::ctx::Ctx;
use crate::agents::publish::Published;
use crate::agents::run_repo::RunRepo;
use crate::agents::{liveness, publish};
use crate::domain::agent::Agent;
use crate::domain::sandbox::{Enforcement, Level};
use crate::error::{Code, Error, Result};
use crate::ops::run::fence::Request;
use crate::ops::run::output::Output;
use crate::ops::run::stage::Stage;
use crate::ops::run::{RunPlan, fence};
use crate::proc::sandbox::{self, Outcome, Plan, read_report};
use crate::store::policy;
use crate::wire::path_text::PathText;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What stands around a command.
#[derive(Default)]
pub(super) struct Enclosure {
    fence: Option<Standing>,
    /// What the caller should know.
    pub warnings: Vec<String>,
}

struct Standing {
    level: Level,
    report: PathBuf,
    /// Where it works; a shared agent commits nothing.
    run_repo: Option<RunRepo>,
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
            return Ok(());
        };
        let policy = policy::require(&ctx.repo, agent)?;
        // The answer may go to a place that is not the agent's own.
        let answer = plan.inputs.output.as_ref();
        let mut allow = plan.options.allow_write.clone();
        allow.extend(answer.map(Output::directory_for_agent));
        let mut bounds = fence::bounds(
            ctx,
            &Request {
                agent,
                policy: &policy,
                mode: plan.options.sandbox,
                temporary: stage.scratch.path(),
                spool,
                allow: &allow,
            },
        )?;
        bounds.fence.terminal = plan.options.terminal;
        let run_repo = publish::run_repo(ctx, agent);
        if let Some(run_repo) = &run_repo {
            let branch = agent.branch.as_deref().unwrap_or_default();
            let tip = ctx.repo.tip(branch)?.oid().ok_or_else(|| {
                Error::new(
                    Code::BranchGone,
                    format!(
                        "the branch {branch} of agent {} does not exist",
                        agent.id.short()
                    ),
                )
            })?;
            run_repo.set_up(&ctx.repo, tip)?;
            ctx.reached("run-repo");
        }
        let report = liveness::log(ctx.repo.common_dir(), agent, stage.number, "fence");
        let wrapped = Plan {
            fence: &bounds.fence,
            level,
            report: &report,
        };
        stage.command = sandbox::wrap(ctx.env.require_program()?, &wrapped, &stage.command);
        stage.enclosure = Enclosure {
            fence: Some(Standing {
                level,
                report,
                run_repo,
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
            notes: Vec::new(),
        };
        if let Enforcement::Impossible { why } = &plan.enforcement {
            told.why = Some(why.clone());
        }
        let Some(standing) = &self.fence else {
            return Ok(told);
        };
        if let Some(run_repo) = &standing.run_repo {
            let Published { restored, warnings } = publish::finish(ctx, agent, run_repo)?;
            let text = |path: PathBuf| PathText::from(path.as_os_str().as_bytes());
            told.restored = restored.into_iter().map(text).collect();
            told.notes = warnings;
        }
        match read_report(&standing.report)? {
            Some(Outcome::Refused(why)) => {
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
    /// The worktree's `.git` file, where the command had changed it. It was put back, and what was there has
    /// `.altered` at the end of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<PathText>,
    /// What was not taken over as the command left it, one sentence each; among the run's warnings.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl SandboxReport {
    /// What a person has to look at, one sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let tell = |path: &PathText| warning(&String::from_utf8_lossy(&path.to_bytes()));
        self.restored
            .iter()
            .map(tell)
            .chain(self.notes.iter().cloned())
            .collect()
    }
}

/// What is said of a file that was put back.
pub(super) fn warning(path: &str) -> String {
    format!(
        "the command changed {path}, which leads git to the repository: it was put back, and what was there is \
         {path}.altered"
    )
}
