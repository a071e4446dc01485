//! `config`: every setting, what it is here, what it is unless set, and where that comes from.
//!
//! Two places have settings: `.config/git-agent.toml` in the base commit says what holds for everyone who works on the
//! repository, git's configuration what holds for a person or a clone.

use crate::agents::{Ctx, life::admission};
use crate::domain::settings::repository_settings::PATH;
use crate::domain::{Limit, Limits, RepositorySettings};
use crate::error::{Code, Result};
use crate::store::settings::{repository_settings, roles};
use crate::wire::file::settings_file::{self, KnownSetting, SetKey, SettingValue};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The answer of `config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.config/2")]
pub struct ConfigReport {
    /// The commit whose settings file counts; absent in a repository without commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Every setting, those of the repository first.
    pub settings: Vec<SettingReport>,
    /// Whether the settings file of the main worktree is not the one that counts.
    pub has_uncommitted: bool,
}

/// One setting.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingReport {
    /// `section.key` of the settings file, or the key of git's configuration.
    pub key: String,
    /// Its value; absent when it is not set.
    pub value: Option<SettingValue>,
    /// What holds where it is not set.
    pub default: &'static str,
    /// `default`, `git-config`, or `file:line`.
    pub source: String,
    /// The setting that is stricter and so holds in its place.
    pub overruled_by: Option<String>,
    /// What it does.
    pub about: &'static str,
}

/// Reads every setting; those of the repository from the commit that `base` names.
///
/// # Errors
/// `base-not-commit`, `settings-invalid`, `repo-corrupt`, `git-failed`.
pub fn config(ctx: &Ctx, base: &str) -> Result<ConfigReport> {
    let commit = match ctx.repo.resolve_commit(base) {
        Ok(resolved) => Some(resolved.commit),
        // git's configuration has settings before there is a commit.
        Err(error) if error.code() == Code::HeadUnborn => None,
        Err(error) => return Err(error),
    };
    let (mut file, mut found) = (None, RepositorySettings::default());
    if let Some(commit) = commit {
        file = repository_settings::read(&ctx.repo, commit)?;
        let roles = roles::load(&ctx.repo, commit)?;
        found = repository_settings::load(&ctx.repo, commit, &roles)?;
    }
    let keys = file.as_deref().map_or_else(Vec::new, settings_file::set_keys);
    let mut settings = Vec::new();
    for setting in &settings_file::repository_settings() {
        // A setting with a placeholder stands once for each key that is set, or for itself.
        let prefix = setting.key.split_once('<').map(|(prefix, _)| prefix);
        let is_it = |key: &str| prefix.map_or(key == setting.key, |prefix| key.starts_with(prefix));
        let before = settings.len();
        for set in keys.iter().filter(|set| is_it(&set.key)) {
            let place = Some(format!("{PATH}:{}", set.line));
            settings.push(report(setting, &set.key, shown(&found, set), place));
        }
        if settings.len() == before {
            settings.push(report(setting, setting.key, None, None));
        }
    }
    for setting in &settings_file::git_settings() {
        settings.extend(of_git(ctx, setting)?);
    }
    overrule(&mut settings, &found.limits, &admission::of_git(ctx)?);
    Ok(ConfigReport {
        commit: commit.map(|commit| commit.to_hex()),
        settings,
        has_uncommitted: repository_settings::uncommitted(&ctx.repo, file.as_deref())?.is_some(),
    })
}

fn report(
    setting: &KnownSetting,
    key: &str,
    value: Option<SettingValue>,
    place: Option<String>,
) -> SettingReport {
    SettingReport {
        key: key.to_owned(),
        value,
        default: setting.default,
        source: place.unwrap_or_else(|| "default".to_owned()),
        overruled_by: None,
        about: setting.about,
    }
}

/// Notes of each limit that is set twice which of the two holds.
fn overrule(settings: &mut [SettingReport], file: &Limits, git: &Limits) {
    for (limit, value) in git.each() {
        let keys = [format!("limits.{limit}"), format!("{}{}", admission::PREFIX, limit.git_key())];
        let Some(other) = file.get(limit).filter(|other| *other != value) else {
            continue;
        };
        let mut both = Limits::default();
        both.tighten(limit, other);
        // Of two values the first of the pair is that of the file.
        let [weaker, stricter] =
            if both.tighten(limit, value) { [&keys[0], &keys[1]] } else { [&keys[1], &keys[0]] };
        for setting in settings.iter_mut().filter(|one| one.key == *weaker) {
            setting.overruled_by = Some(stricter.clone());
        }
    }
}

/// A value as it is shown: limits in their own unit, and a rule for branches as one list.
fn shown(found: &RepositorySettings, set: &SetKey) -> Option<SettingValue> {
    if let Some(limit) = set.key.strip_prefix("limits.") {
        let limit = Limit::parse(limit)?;
        let value = found.limits.get(limit)?;
        return Some(SettingValue::Text(limit.show(value)));
    }
    if let Some(path) = set.key.strip_prefix("project.") {
        let commands = found.projects.find(path)?.commands();
        return Some(SettingValue::List(commands.cloned().collect()));
    }
    let Some(branch) = set.key.strip_prefix("guard.") else {
        return set.value.clone();
    };
    let rule = found.guards.iter().find(|rule| rule.branch.as_str() == branch)?;
    let allowed = rule.scope.iter().map(|glob| glob.as_str().to_owned());
    let denied = rule.deny.iter().map(|glob| format!("!{}", glob.as_str()));
    Some(SettingValue::List(allowed.chain(denied).collect()))
}

/// A setting of git's configuration; one with a placeholder stands once for each key that is set, or for itself.
fn of_git(ctx: &Ctx, setting: &KnownSetting) -> Result<Vec<SettingReport>> {
    let (prefix, many) = match setting.key.split_once('<') {
        Some((prefix, _)) => (prefix.to_lowercase(), true),
        None => (setting.key.to_lowercase(), false),
    };
    let found = ctx.repo.settings(&prefix)?;
    let found: Vec<_> = found.into_iter().filter(|one| many || one.key == prefix).collect();
    let mut keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Ok(vec![report(setting, setting.key, None, None)]);
    }
    let of_key = |key: &str| {
        let mut values: Vec<String> =
            found.iter().filter(|one| one.key == key).map(|one| one.value.clone()).collect();
        // git adds nothing up: where a key may repeat all its values hold, else the last one does.
        let value = if setting.about.ends_with("may repeat") || key.ends_with(".denylist") {
            Some(SettingValue::List(values))
        } else {
            values.pop().map(SettingValue::Text)
        };
        let shown = match key.strip_prefix(admission::PREFIX).map(Limit::of_git_key) {
            // As it is documented: git gives keys in small letters.
            Some(Ok(limit)) => format!("{}{}", admission::PREFIX, limit.git_key()),
            _ if many => key.to_owned(),
            _ => setting.key.to_owned(),
        };
        report(setting, &shown, value, Some("git-config".to_owned()))
    };
    Ok(keys.into_iter().map(of_key).collect())
}

/// What to say where the settings file of the main worktree was changed and not committed.
///
/// # Errors
/// As [`repository_settings::uncommitted`].
pub fn uncommitted_settings(ctx: &Ctx) -> Result<Option<String>> {
    let head = ctx.repo.resolve_commit("HEAD").ok();
    let counting = head.map(|head| repository_settings::read(&ctx.repo, head.commit));
    repository_settings::uncommitted(&ctx.repo, counting.transpose()?.flatten().as_deref())
}
