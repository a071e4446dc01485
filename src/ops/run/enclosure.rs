//! The sandbox of one run: put up before the command starts, taken down when nothing of it is left.

use super::fence::{self, Request};
use super::output::Output;
use super::seal::{self, Seal};
use super::stage::Stage;
use super::{RunPlan, record};
use crate::domain::agent::Agent;
use crate::domain::event::Isolation;
use crate::domain::sandbox::{Enforcement, Level};
use crate::error::{Code, Error, Result};
use crate::ops::Ctx;
use crate::proc::sandbox::{self, Outcome, Plan, read_report};
use crate::store::policy;
use crate::wire::path_text::PathText;
use serde::Serialize;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Git's settings for a command behind a fence, as variables: housekeeping would pack everybody's refs, which
/// the fence refuses.
const GIT_SETTINGS: [(&str, &str); 5] = [
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "gc.auto"),
    ("GIT_CONFIG_VALUE_0", "0"),
    ("GIT_CONFIG_KEY_1", "maintenance.auto"),
    ("GIT_CONFIG_VALUE_1", "false"),
];

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
    /// How the files were that lead git to its settings, and where that is written down; a shared agent
    /// cannot write any.
    seal: Option<(Seal, PathBuf)>,
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
        let answer = plan.commission.output.as_ref();
        let mut allow = plan.options.allow_write.clone();
        allow.extend(answer.map(Output::directory_of_file));
        let bounds = fence::bounds(
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
        let seal = match agent.isolation {
            Some(Isolation::Shared) => None,
            _ => {
                let seal = Seal::of(ctx, agent, &stage.directory)?;
                let note = record::log(ctx.repo.common_dir(), agent, stage.number, "seal");
                seal.keep(&note)?;
                Some((seal, note))
            }
        };
        let report = record::log(ctx.repo.common_dir(), agent, stage.number, "fence");
        let wrapped = Plan {
            fence: &bounds.fence,
            level,
            report: &report,
        };
        stage.command = sandbox::wrap(ctx.env.require_program()?, &wrapped, &stage.command);
        let settings = GIT_SETTINGS.map(|(name, value)| (name, OsString::from(value)));
        stage.variables.extend(settings);
        stage.enclosure = Enclosure {
            fence: Some(Standing {
                level,
                report,
                seal,
            }),
            warnings: bounds.warnings,
        };
        Ok(())
    }

    /// Takes it down: puts back what leads git to its settings, and says what was enforced. To be called
    /// before any git of ours runs in the worktree.
    ///
    /// # Errors
    /// `sandbox-unavailable` when the kernel refused the fence, so that the command never started; `io`.
    pub(super) fn take_down(&self, plan: &RunPlan) -> Result<SandboxReport> {
        let mut told = SandboxReport {
            mode: plan.options.sandbox.as_str(),
            enforced: Some(plan.enforcement.as_str()),
            missing: &[],
            why: None,
            restored: Vec::new(),
        };
        if let Enforcement::Impossible { why } = &plan.enforcement {
            told.why = Some(why.clone());
        }
        let Some(standing) = &self.fence else {
            return Ok(told);
        };
        if let Some((seal, note)) = &standing.seal {
            let restored = seal.restore()?;
            seal::forget(note);
            let text = |path: PathBuf| PathText::from(path.as_os_str().as_bytes());
            told.restored = restored.into_iter().map(text).collect();
        }
        match read_report(&standing.report)? {
            Some(Outcome::Fenced) => told.missing = standing.level.missing(),
            Some(Outcome::Refused(why)) => {
                return Err(Error::new(Code::SandboxUnavailable, why));
            }
            None => told.enforced = None,
        }
        Ok(told)
    }
}

/// What the sandbox did, in the answer of `run`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxReport {
    /// What was asked for: `auto`, `require`, `strict` or `off`.
    pub mode: &'static str,
    /// `full`, `partial`, `none` or `off`; null when the command did not get as far as being fenced.
    pub enforced: Option<&'static str>,
    /// What `partial` lets through.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub missing: &'static [&'static str],
    /// Why there is none although one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Files that the command had changed so that git would read other settings. They were put back, and
    /// what was there has `.altered` at the end of its name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<PathText>,
}

impl SandboxReport {
    /// What a person has to look at, one sentence each.
    pub(super) fn warnings(&self) -> Vec<String> {
        let tell = |path: &PathText| warning(&String::from_utf8_lossy(&path.to_bytes()));
        self.restored.iter().map(tell).collect()
    }
}

/// What is said of a file that was put back.
pub(super) fn warning(path: &str) -> String {
    format!(
        "the command changed {path}, which leads git to its settings: it was put back, and what was there is \
         {path}.altered"
    )
}
