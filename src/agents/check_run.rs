//! Running check commands, behind a fence where the caller wants one.

use crate::agents::ctx::Ctx;
use crate::agents::hidden_places;
use crate::agents::open_places::open_places;
use crate::domain::evidence::{CommandEnd, CommandRun};
use crate::domain::sandbox::{Enforcement, Fence, Level, Mode};
use crate::error::{IoContext, Result};
use crate::proc::sandbox::Plan;
use crate::proc::{self, End, Job};
use crate::store::{fsx, layout};
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How check commands run.
#[derive(Clone, Copy)]
pub(crate) struct CheckRun<'a> {
    /// How long each may take.
    pub limit: Duration,
    /// Whether those after one that failed run, too.
    pub keep_going: bool,
    /// The fence around them, if there is one.
    pub fence: Option<&'a CheckFence>,
    /// Variables that they get beside ours.
    pub variables: &'a [(Cow<'static, str>, OsString)],
}

/// What check commands may write, and where the kernel's answer is kept while one runs.
pub(crate) struct CheckFence {
    fence: Fence,
    level: Level,
    report: PathBuf,
}

impl CheckFence {
    /// A fence that opens these places, and those that the settings open for every run; `None` where there is none.
    ///
    /// # Errors
    /// `usage` for a place in the settings that does not exist; `io`.
    pub(crate) fn around(
        ctx: &Ctx,
        (mode, enforcement): (Mode, &Enforcement),
        own: &[&Path],
    ) -> Result<Option<CheckFence>> {
        let Enforcement::Fenced(level) = enforcement else {
            return Ok(None);
        };
        let mut writable = open_places(ctx, &[])?;
        for place in own {
            writable.push(fs::canonicalize(place).at("could not resolve", place)?);
        }
        writable.sort();
        writable.dedup();
        let temporary = layout::tmp_dir(ctx.repo.common_dir());
        fsx::create_dir(&temporary)?;
        let mut fence = Fence {
            writable,
            unix_sockets: mode != Mode::Strict,
            ..Fence::default()
        };
        hidden_places::hide(ctx, None, ctx.env.require_program()?, &mut fence)?;
        Ok(Some(CheckFence {
            fence,
            level: *level,
            report: fsx::unique_name(&temporary.join("fence")),
        }))
    }
}

impl Drop for CheckFence {
    fn drop(&mut self) {
        // What is left there is swept like any other temporary file.
        let _ = fs::remove_file(&self.report);
    }
}

/// Runs commands in a directory, one after the other, until one fails, or all of them with `keep_going`.
///
/// # Errors
/// `io` when one cannot be started; `sandbox-unavailable` when the kernel refused the fence.
pub(crate) fn run_checks(
    ctx: &Ctx,
    checks: &[String],
    directory: &Path,
    how: CheckRun<'_>,
) -> Result<Vec<CommandRun>> {
    let program = ctx.env.require_program()?;
    let mut runs = Vec::new();
    for script in checks {
        let _activity = ctx.activity(&format!("running the check `{script}`"));
        let finished = proc::run(&Job {
            program,
            script,
            directory,
            variables: how.variables,
            limit: how.limit,
            fence: how.fence.map(|standing| Plan {
                fence: &standing.fence,
                level: standing.level,
                report: &standing.report,
            }),
        })?;
        let end = match finished.end {
            End::Status(status) => CommandEnd::Status(status),
            End::TimedOut => CommandEnd::TimedOut(how.limit),
        };
        runs.push(CommandRun {
            command: script.clone(),
            end,
            output: finished.output,
        });
        if end != CommandEnd::Status(0) && !how.keep_going {
            break;
        }
    }
    Ok(runs)
}
