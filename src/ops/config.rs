//! `config`: every setting, what it is here, what it is unless set, and where that comes from.
//!
//! Two places have settings: `.config/git-agent.toml` in the base commit says what holds for everyone who works on the
//! repository, git's configuration what holds for a person or a clone.

use crate::agents::ctx::Ctx;
use crate::agents::limits;
use crate::domain::limits::{Limit, Limits};
use crate::domain::message::{Kind, Retention};
use crate::domain::repository_settings::{HookMoment, PATH, RepositorySettings};
use crate::domain::task::duration_text;
use crate::error::{Code, Result};
use crate::store::{repository_settings, roles};
use crate::wire::settings_file;
use chrono::TimeDelta;
use serde::Serialize;

/// What is known of a setting without a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSetting {
    /// `section.key` of the settings file, or the key of git's configuration.
    pub key: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// The settings of a repository, in `.config/git-agent.toml`.
pub const REPOSITORY: &[KnownSetting] = &[
    setting(
        "defaults.role",
        "none; `edit-local` with `spawn -m`",
        "Role of a task that names none",
    ),
    setting(
        "defaults.scope",
        "none",
        "Whitelist of a task that has none",
    ),
    setting(
        "defaults.deny",
        "none",
        "Globs that no task may touch, in addition to its own denylist and its role's",
    ),
    setting(
        "defaults.base",
        "`HEAD`",
        "Revision to start from; read from the commit at `HEAD`",
    ),
    setting("defaults.timeout", "`5m`", "How long a run may take"),
    setting(
        "defaults.no_dep_bump",
        "`false`",
        "Whether work may neither add nor remove nor change dependencies",
    ),
    setting(
        "bundle.required",
        "`true` for a role with a worktree",
        "Whether work lands only with a complete bundle",
    ),
    setting(
        "checks.commands",
        "none",
        "Commands that `verify` runs for every task, before the task's own",
    ),
    setting(
        "checks.min_tests",
        "none",
        "How many tests have to pass in the checks of every task; a task may ask for more",
    ),
    setting(
        "setup.copy",
        "none",
        "Ignored files of the main worktree that a new worktree gets, beside those that `.worktreeinclude` matches",
    ),
    setting(
        "setup.run",
        "none",
        "Commands that are run in a new worktree before the agent starts",
    ),
    setting(
        "worktree.layered",
        "`off`",
        "Whether agents share the files of a base and each keeps what it changes alone: `off`, `auto` (where that can be had) or `on`",
    ),
    setting(
        "pool.size",
        "`0`",
        "How many worktrees are kept checked out and set up, for spawns to claim",
    ),
    setting(
        "lease.<VARIABLE>",
        "none",
        "Value of its own that each agent gets in that environment variable: `port`, `slug`, `number` or `loopback`",
    ),
    setting(
        "limits.disk_free",
        "none",
        "Space that stays free on the file system of the worktrees, such as `20G`: `spawn` is refused below it. `[limits]` is read from the commit that the main worktree is at",
    ),
    setting(
        "limits.disk",
        "none",
        "What agents may take on disk together: `spawn` is refused above it",
    ),
    setting(
        "limits.agents",
        "none",
        "How many agents of the clone may have a worktree: `spawn` is refused above it",
    ),
    setting(
        "limits.jobs",
        "none",
        "How many commands work for agents at the same time, in all commands of the clone; others wait",
    ),
    setting(
        "limits.memory",
        "what `memory_total` says",
        "Memory of one run, such as `4G`; the run ends above it",
    ),
    setting(
        "limits.pids",
        "none",
        "Processes and threads of one run; the run ends above it",
    ),
    setting(
        "limits.memory_total",
        "none",
        "Memory of all runs at the same time; a run whose `memory` does not fit waits",
    ),
    setting(
        "limits.cost",
        "none",
        "What one run may cost, in US dollars, where its host can limit that",
    ),
    setting(
        "limits.cost_day",
        "none",
        "What the runs of one day (UTC) may cost, in US dollars; others wait for the next day",
    ),
    setting(
        "hooks.after_spawn",
        "none",
        "Commands that are run in the main worktree once a new agent is ready",
    ),
    setting(
        "hooks.before_merge",
        "none",
        "Commands that are run in the main worktree before work lands; nothing lands if one fails",
    ),
    setting(
        "hooks.after_merge",
        "none",
        "Commands that are run in the main worktree after work has landed",
    ),
    setting(
        "hooks.before_discard",
        "none",
        "Commands that are run in the main worktree before a worktree is removed; it stays if one fails",
    ),
    setting(
        "merge.method",
        "`no-ff`",
        "How work lands: `no-ff`, `squash` or `ff-only`",
    ),
    setting(
        "merge.subject",
        "`merge({id}): {summary}`; `{summary}` for `squash`",
        "Subject of a landing commit and of the commit made of uncommitted work; the fields are `{summary}`, `{type}`, `{id}`, `{name}`, `{role}`, `{branch}`",
    ),
    setting(
        "merge.hooks",
        "none",
        "Git hooks of the repository, `pre-commit` or `pre-merge-commit`, that are run in the sandbox on what lands; read from the target's tip",
    ),
    setting(
        "train.checks",
        "none",
        "Commands that `train` runs on what lands, before those of the agents; read from the target's tip",
    ),
    setting(
        "messages.active",
        "100",
        "How many messages of a reader stay before `inbox --expire` archives the oldest that were handed out",
    ),
    setting(
        "messages.archive_after",
        "7d",
        "When `inbox --expire` archives a message that was handed out and never acknowledged",
    ),
    setting(
        "messages.delete_after",
        "30d",
        "When `inbox --expire` deletes a message that all have archived",
    ),
    setting(
        "messages.require",
        "none",
        "Further fields that messages need, as `handoff.deadline`",
    ),
    setting(
        "messages.handoff",
        "high",
        "The priority of a message of type handoff that names none",
    ),
    setting(
        "messages.review",
        "medium",
        "The priority of a message of type review that names none",
    ),
    setting(
        "messages.clarify",
        "high",
        "The priority of a message of type clarify that names none",
    ),
    setting(
        "messages.escalate",
        "critical",
        "The priority of a message of type escalate that names none",
    ),
    setting(
        "messages.notify",
        "low",
        "The priority of a message of type notify that names none",
    ),
    setting(
        "messages.collaborate",
        "medium",
        "The priority of a message of type collaborate that names none",
    ),
    setting(
        "guard.<BRANCH>",
        "none",
        "What branches that match a glob may touch, for `guard`: a table `[[guard]]` with `branch`, and `scope`, `deny` or both",
    ),
];

/// The settings of a person or a clone, in git's configuration.
pub const GIT: &[KnownSetting] = &[
    setting(
        "agent.worktreeDir",
        "`.claude/worktrees/agent-{id}`",
        "Where worktrees are made; the fields are `{root}`, `{repo}`, `{id}`, `{slug}`, `{branch}`",
    ),
    setting(
        "agent.bundleDir",
        "`.agent`",
        "Directory of the bundle inside a worktree",
    ),
    setting(
        "agent.outputDir",
        "`output` in the bundle",
        "Directory of answers that go into files",
    ),
    setting(
        "agent.merge",
        "what `merge.method` says",
        "How work lands in this clone: `no-ff`, `squash` or `ff-only`",
    ),
    setting(
        "agent.trailer",
        "none",
        "Trailer of landing commits besides `Agent-Id`, such as `Assisted-by: claude:opus`, with the fields of `merge.subject`; may repeat",
    ),
    setting(
        "agent.sign",
        "`false`",
        "Whether the events that this clone records are signed, as git signs commits",
    ),
    setting(
        "agent.run.allowWrite",
        "none",
        "Further places where the command of a run may write; may repeat",
    ),
    setting(
        "agent.push",
        "`false`",
        "Whether the command of a run may push, with your credentials",
    ),
    setting(
        "agent.fetchCredentials",
        "`false`",
        "Whether its git may fetch with your credentials: SSH agent, askpass and credential helpers",
    ),
    setting(
        "agent.remote",
        "`origin`, or the only remote",
        "Remote that `sync` exchanges with",
    ),
    setting(
        "agent.sync",
        "`ledger branches`",
        "What `sync` exchanges: `ledger`, `branches` (of live agents), `keep`, `mail`, or `all`",
    ),
    setting(
        "agent.refPrefix",
        "none",
        "Place of our refs on remotes that take branches only, such as `refs/heads/agent-sync`",
    ),
    setting(
        "agent.claimTtl",
        "`60s`",
        "How long a claim on a task holds without a sign of life",
    ),
    setting(
        "agent.limits.<limit>",
        "none",
        "As `limits.<limit>`, for a person or a clone: `diskFree`, `costDay`, …; the stricter of both holds. With `costHard` set to true, running commands end too when the day has cost `costDay`",
    ),
    setting(
        "agent.role.<name>.<key>",
        "what the role says",
        "Adjusts a role: `subagentType`, `isolation`, `spawnable`, `denylist`",
    ),
];

const fn setting(key: &'static str, default: &'static str, about: &'static str) -> KnownSetting {
    KnownSetting {
        key,
        default,
        about,
    }
}

/// The answer of `config`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConfigReport {
    /// `git-agent.config/2`
    pub schema: &'static str,
    /// The commit whose settings file counts; absent in a repository without commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Every setting, those of the repository first.
    pub settings: Vec<SettingReport>,
    /// Whether the settings file of the main worktree is not the one that counts.
    pub has_uncommitted: bool,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettingReport {
    /// `section.key` of the settings file, or the key of git's configuration.
    pub key: String,
    /// Its value; absent when it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<SettingValue>,
    /// What holds where it is not set.
    pub default: &'static str,
    /// `default`, `git-config`, or `file:line`.
    pub source: String,
    /// The setting that is stricter and so holds in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overruled_by: Option<String>,
    /// What it does.
    pub about: &'static str,
}

/// A value in the type that the setting has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

/// Reads every setting; those of the repository from the commit that `base` names.
///
/// # Errors
/// `base-not-commit`, `settings-invalid`, `repo-corrupt`, `git-failed`.
pub fn config(ctx: &Ctx, base: &str) -> Result<ConfigReport> {
    let commit = match ctx.repo.resolve_commit(base) {
        Ok(resolved) => Some(resolved.commit),
        Err(error) if error.code() == Code::HeadUnborn => None,
        Err(error) => return Err(error),
    };
    let (mut file, mut found) = (None, RepositorySettings::default());
    if let Some(commit) = commit {
        file = repository_settings::read(&ctx.repo, commit)?;
        let roles = roles::load(&ctx.repo, commit)?;
        found = repository_settings::load(&ctx.repo, commit, &roles)?;
    }
    let lines = file
        .as_deref()
        .map(settings_file::lines)
        .unwrap_or_default();
    let mut settings = Vec::new();
    for setting in REPOSITORY {
        // A setting with a placeholder stands once for each key that is set, or for itself.
        let prefix = setting.key.split_once('<').map(|(prefix, _)| prefix);
        let is_it = |key: &str| prefix.map_or(key == setting.key, |prefix| key.starts_with(prefix));
        let before = settings.len();
        for (key, line) in lines.iter().filter(|(key, _)| is_it(key)) {
            let place = Some(format!("{PATH}:{line}"));
            settings.push(report(setting, key, value_of(&found, key), place));
        }
        if settings.len() == before {
            settings.push(report(setting, setting.key, None, None));
        }
    }
    for setting in GIT {
        settings.extend(of_git(ctx, setting)?);
    }
    overrule(&mut settings, &found.limits, &limits::of_git(ctx)?);
    Ok(ConfigReport {
        schema: "git-agent.config/2",
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
        let keys = [
            format!("limits.{limit}"),
            format!("{}{}", limits::PREFIX, limit.git_key()),
        ];
        let Some(other) = file.get(limit).filter(|other| *other != value) else {
            continue;
        };
        let mut both = Limits::default();
        both.tighten(limit, other);
        // Of two values the first of the pair is that of the file.
        let [weaker, stricter] = if both.tighten(limit, value) {
            [&keys[0], &keys[1]]
        } else {
            [&keys[1], &keys[0]]
        };
        for setting in settings.iter_mut().filter(|one| one.key == *weaker) {
            setting.overruled_by = Some(stricter.clone());
        }
    }
}

fn value_of(found: &RepositorySettings, key: &str) -> Option<SettingValue> {
    let text = |value: &Option<String>| value.clone().map(SettingValue::Text);
    let list = |value: Option<&Vec<String>>| value.cloned().map(SettingValue::List);
    match key {
        "defaults.role" => text(&found.role),
        "defaults.scope" => list(found.scope.as_ref()),
        "defaults.deny" => {
            let globs = found.deny.iter().map(|glob| glob.as_str().to_owned());
            Some(SettingValue::List(globs.collect()))
        }
        "defaults.base" => text(&found.base),
        "defaults.timeout" => text(&found.timeout),
        "bundle.required" => found.bundle_required.map(SettingValue::Flag),
        "checks.commands" => list(Some(&found.checks)),
        "checks.min_tests" => found
            .min_tests
            .map(|wanted| SettingValue::Text(wanted.to_string())),
        "defaults.no_dep_bump" => Some(SettingValue::Flag(found.no_dep_bump)),
        "setup.copy" => list(found.setup_copy.as_ref()),
        "setup.run" => list(found.setup_run.as_ref()),
        "worktree.layered" => Some(SettingValue::Text(found.layered.to_string())),
        "pool.size" => Some(SettingValue::Text(found.pool_size.to_string())),
        "merge.method" => text(&found.merge_method),
        "merge.subject" => text(&found.merge_subject),
        "merge.hooks" => list(Some(&found.merge_hooks)),
        "train.checks" => list(Some(&found.train_checks)),
        _ if key.starts_with("messages.") => message_setting(found, &key["messages.".len()..]),
        _ if key.starts_with("limits.") => {
            let limit = Limit::parse(&key["limits.".len()..])?;
            let value = found.limits.get(limit)?;
            Some(SettingValue::Text(limit.show(value)))
        }
        _ if key.starts_with("lease.") => {
            let mut leases = found.leases.iter();
            let lease = leases.find(|lease| key.strip_prefix("lease.") == Some(&lease.variable));
            lease.map(|lease| SettingValue::Text(lease.kind.as_str().to_owned()))
        }
        _ if key.starts_with("guard.") => {
            let mut guards = found.guards.iter();
            let rule = guards.find(|rule| key.strip_prefix("guard.") == Some(rule.branch.as_str()));
            rule.map(|rule| {
                let allowed = rule.scope.iter().map(|glob| glob.as_str().to_owned());
                let denied = rule.deny.iter().map(|glob| format!("!{}", glob.as_str()));
                SettingValue::List(allowed.chain(denied).collect())
            })
        }
        _ => {
            let moments = HookMoment::ALL.into_iter();
            let mut moments =
                moments.filter(|moment| key.strip_prefix("hooks.") == Some(moment.as_str()));
            list(moments.next().and_then(|moment| found.hooks.get(&moment)))
        }
    }
}

/// A setting of git's configuration; one with a placeholder stands once for each key that is set, or for itself.
fn of_git(ctx: &Ctx, setting: &KnownSetting) -> Result<Vec<SettingReport>> {
    let (prefix, many) = match setting.key.split_once('<') {
        Some((prefix, _)) => (prefix.to_lowercase(), true),
        None => (setting.key.to_lowercase(), false),
    };
    let found = ctx.repo.settings(&prefix)?;
    let found: Vec<_> = found
        .into_iter()
        .filter(|one| many || one.key == prefix)
        .collect();
    let mut keys: Vec<&str> = found.iter().map(|one| one.key.as_str()).collect();
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() {
        return Ok(vec![report(setting, setting.key, None, None)]);
    }
    let of_key = |key: &str| {
        let values = found.iter().filter(|one| one.key == key);
        let mut values: Vec<String> = values.map(|one| one.value.clone()).collect();
        let value = if setting.about.ends_with("may repeat") || key.ends_with(".denylist") {
            Some(SettingValue::List(values))
        } else {
            values.pop().map(SettingValue::Text)
        };
        let shown = match key.strip_prefix(limits::PREFIX).map(Limit::of_git_key) {
            // As it is documented: git gives keys in small letters.
            Some(Ok(limit)) => format!("{}{}", limits::PREFIX, limit.git_key()),
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

/// What a repository says of messages, where it says it.
fn message_setting(found: &RepositorySettings, key: &str) -> Option<SettingValue> {
    let (rules, usual) = (&found.messages, Retention::default());
    let span = |own: TimeDelta, usual: TimeDelta| {
        let own = own.to_std().ok().filter(|_| own != usual)?;
        Some(SettingValue::Text(duration_text(own)))
    };
    match key {
        "active" => (rules.retention.active != usual.active)
            .then(|| SettingValue::Text(rules.retention.active.to_string())),
        "archive_after" => span(rules.retention.archive_after, usual.archive_after),
        "delete_after" => span(rules.retention.delete_after, usual.delete_after),
        "require" => {
            let fields = rules.required.iter();
            let fields = fields
                .flat_map(|(kind, names)| names.iter().map(move |name| format!("{kind}.{name}")));
            Some(fields.collect::<Vec<_>>())
                .filter(|list| !list.is_empty())
                .map(SettingValue::List)
        }
        kind => {
            let priority = rules.priorities.get(&Kind::parse(kind)?)?;
            Some(SettingValue::Text(priority.to_string()))
        }
    }
}
