//! `[setup]`: ignored files brought into the new worktree, and commands run in it, before the agent is
//! declared ready.

use super::contract::SpawnPlan;
use crate::domain::path::RepoPath;
use crate::domain::scope::Scope;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::command;
use crate::ops::Ctx;
use crate::proc::{self, End, Job};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How long one set-up command may take: dependencies are often fetched from far away.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// Copies and runs what the task asks for.
///
/// # Errors
/// `io` when a file cannot be copied; `git-failed` when a command fails, with what it said. Either
/// undoes the spawn.
pub(super) fn set_up(ctx: &Ctx, plan: &SpawnPlan, worktree: &Path) -> Result<()> {
    if let Some(root) = ctx.repo.main_worktree()?
        && !plan.task.setup_copy.is_empty()
    {
        copy_ignored(&root, worktree, plan)?;
    }
    for text in &plan.task.setup_run {
        run(ctx, text, worktree)?;
    }
    Ok(())
}

/// Copies the ignored files of the main worktree that match; nothing that is there already is replaced.
fn copy_ignored(root: &Path, worktree: &Path, plan: &SpawnPlan) -> Result<()> {
    let wanted = Scope::new(&plan.task.setup_copy, &[])
        .map_err(|rule| Error::new(Code::TaskInvalid, rule))?;
    let arguments = [
        "ls-files",
        "-z",
        "--others",
        "--ignored",
        "--exclude-standard",
    ];
    let listed = command::run(root, arguments)?;
    for name in listed.split(|&b| b == 0) {
        let Ok(path) = RepoPath::parse(name) else {
            continue;
        };
        let place = Path::new(OsStr::from_bytes(name));
        let (from, to) = (root.join(place), worktree.join(place));
        let is_file = fs::symlink_metadata(&from).is_ok_and(|metadata| metadata.is_file());
        if !is_file || !wanted.decide(&path).is_allowed() || to.symlink_metadata().is_ok() {
            continue;
        }
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent).at("could not make", parent)?;
        }
        fs::copy(&from, &to).at("could not copy", &from)?;
    }
    Ok(())
}

fn run(ctx: &Ctx, text: &str, worktree: &Path) -> Result<()> {
    let finished = proc::run(&Job {
        program: ctx.env.require_program()?,
        script: text,
        directory: worktree,
        limit: LIMIT,
    })?;
    let how = match finished.end {
        End::Status(0) => return Ok(()),
        End::Status(code) => format!("ended with status {code}"),
        End::TimedOut => format!("took longer than {} s", LIMIT.as_secs()),
    };
    Err(Error::new(
        Code::SetupFailed,
        format!("the setup command `{text}` {how}"),
    )
    .because(finished.output.trim().to_owned())
    .hint("to see it fail by hand, run it in a worktree of the same commit"))
}
