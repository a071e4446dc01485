//! The limits that hold in this clone: `[limits]` of the commit that the main worktree is at, and `agent.limits.*`.

use crate::agents::ctx::Ctx;
use crate::domain::limits::{Limit, Limits};
use crate::error::{Code, Error, Result};
use crate::store::repository_settings;

/// Where the settings of a person or a clone stand, in small letters.
pub(crate) const PREFIX: &str = "agent.limits.";

/// Whether running commands end at `costDay`; no limit, so not one of [`Limit`].
const COST_HARD: &str = "agent.limits.costhard";

/// What holds, from both places.
///
/// # Errors
/// `settings-invalid`, `usage` for a bad value of git's configuration, `git-failed`, `repo-corrupt`.
pub(crate) fn load(ctx: &Ctx) -> Result<Limits> {
    let mut limits = repository_settings::of_main_worktree(&ctx.repo)?.limits;
    // Of both places the stricter value holds, so no file of the repository can widen what its user
    // allows.
    for (limit, value) in of_git(ctx)?.each() {
        limits.tighten(limit, value);
    }
    Ok(limits)
}

/// What git's configuration says. A worktree's own is not read: an agent can write that.
///
/// # Errors
/// `usage` for a key or a value that is none, `git-failed`.
pub(crate) fn of_git(ctx: &Ctx) -> Result<Limits> {
    let mut limits = Limits::default();
    let settings = ctx.repo.shared_settings(PREFIX)?;
    for (at, setting) in settings.iter().enumerate() {
        // As in git, the last value of a key counts: those before it are overridden and not judged.
        let later = &settings[at + 1..];
        if setting.key == COST_HARD || later.iter().any(|one| one.key == setting.key) {
            continue;
        }
        let name = &setting.key[PREFIX.len()..];
        let refuse = |wrong: String, help: &str| {
            let key = format!("{PREFIX}{name}");
            Error::new(Code::Usage, format!("{key}: {wrong}; {help}"))
                .hint(format!("to remove it, run git config --unset-all {key}"))
        };
        let limit = Limit::of_git_key(name).map_err(|near| {
            let near = near.map(|near| format!("did you mean {PREFIX}{near}?"));
            let help = near.unwrap_or_else(|| "they are those of [limits]".to_owned());
            refuse("there is no such limit".to_owned(), &help)
        })?;
        let value = { limit.read(&setting.value) }.map_err(|(wrong, help)| refuse(wrong, help))?;
        limits.tighten(limit, value);
    }
    Ok(limits)
}

/// Whether running commands end when the day has cost what it may.
///
/// # Errors
/// `usage` for a value that is neither true nor false, `git-failed`.
pub(crate) fn is_cost_hard(ctx: &Ctx) -> Result<bool> {
    Ok(ctx.repo.shared_flag(COST_HARD)?.unwrap_or(false))
}
