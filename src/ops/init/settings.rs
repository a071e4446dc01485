//! The settings that `init` adds to the repository's own configuration on request.

use super::Action;
use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::store::{added, layout, lock};

/// What the alias stands for. The excludes hold for what follows them; `--single-worktree` leaves out where agents'
/// worktrees are.
const LOG: &str = "log --graph --oneline --single-worktree --exclude='refs/agents/*' --exclude='refs/notes/agents*' \
                   --exclude='refs/heads/agent/*' --all";

/// What becomes of one value of one key.
#[derive(Clone, Debug)]
pub(super) struct SettingChange {
    key: String,
    value: &'static str,
    pub(super) action: Action,
}

impl SettingChange {
    fn new(key: &str, value: &'static str, is_there: bool, remove: bool) -> SettingChange {
        SettingChange {
            key: key.to_owned(),
            value,
            action: match (is_there, remove) {
                (false, false) => Action::Created,
                (true, true) => Action::Deleted,
                _ => Action::Unchanged,
            },
        }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// `lost-race`, `git-failed`.
    pub(super) fn execute(&self, ctx: &Ctx) -> Result<()> {
        let common_dir = ctx.repo.common_dir();
        match self.action {
            Action::Created => {
                let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
                // First, so that no kill leaves a setting of ours that looks like the user's.
                added::note(common_dir, added::BY_INIT, self.line().as_bytes())?;
                let config = common_dir.join("config");
                added::changing(common_dir, &config, || {
                    ctx.repo.add_setting(&self.key, self.value)
                })
            }
            Action::Deleted => ctx.repo.remove_setting(&self.key, self.value),
            Action::Updated | Action::Unchanged => Ok(()),
        }
    }

    /// Leaves a value alone that `init` did not add.
    pub(super) fn unless_of_the_user(mut self, ctx: &Ctx) -> Result<SettingChange> {
        let noted = added::load(ctx.repo.common_dir(), added::BY_INIT)?;
        let line = self.line();
        let is_ours = noted
            .split_inclusive(|&byte| byte == b'\n')
            .any(|noted| noted == line.as_bytes());
        if self.action == Action::Deleted && !is_ours {
            self.action = Action::Unchanged;
        }
        Ok(self)
    }

    fn line(&self) -> String {
        format!("{} {}\n", self.key.to_ascii_lowercase(), self.value)
    }
}

/// The setting by which `git log` shows the ledger.
pub(super) fn notes(ctx: &Ctx, remove: bool) -> Result<SettingChange> {
    // What the user set for all repositories is not ours to remove.
    let set = if remove {
        ctx.repo.own_settings("notes.displayref")?
    } else {
        ctx.repo.settings("notes.displayref")?
    };
    let is_there = set
        .iter()
        .any(|setting| setting.value == layout::LEDGER_REF);
    let key = "notes.displayRef";
    Ok(SettingChange::new(
        key,
        layout::LEDGER_REF,
        is_there,
        remove,
    ))
}

/// The alias for a log without our refs. An alias of ours is removed whatever its name is.
///
/// # Errors
/// `usage` where the name cannot be that of an alias, or is that of another one.
pub(super) fn log_alias(ctx: &Ctx, name: &str, remove: bool) -> Result<SettingChange> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.bytes().all(is_name) {
        let what =
            format!("`{name}` cannot be the name of an alias: git takes letters, digits and `-`");
        return Err(Error::new(Code::Usage, what)
            .hint("to have it as git lg, run git agent init --log-alias"));
    }
    let key = format!("alias.{name}");
    if remove {
        let own = ctx.repo.own_settings("alias.")?;
        let ours = own.into_iter().find(|alias| alias.value == LOG);
        let key = ours.as_ref().map_or(key.as_str(), |alias| &alias.key);
        return Ok(SettingChange::new(key, LOG, ours.is_some(), remove));
    }
    let aliases = ctx.repo.settings("alias.")?;
    let known = { aliases.iter() }.find(|alias| alias.key.eq_ignore_ascii_case(&key));
    if let Some(other) = known.filter(|alias| alias.value != LOG) {
        return Err(Error::new(
            Code::Usage,
            format!("{key} stands for `{}` already", other.value),
        )
        .hint(format!(
            "to take another name, run git agent init --log-alias={name}-agents"
        )));
    }
    Ok(SettingChange::new(&key, LOG, known.is_some(), remove))
}
