//! The program as it is installed, the hooks of agents' worktrees, and settings that other programs leave behind
//! and that turn a repository with worktrees against its user. A setting is taken away only where it cannot be
//! meant, and never one of the user's own file.

use crate::agents::upkeep::hooks::inspection;
use crate::agents::{Ctx, place::worktree};
use crate::domain::Agent;
use crate::domain::judge::diagnosis::Sign;
use crate::error::{Code, Result};
use crate::git::Repo;
use crate::git::config::ConfigFile;
use crate::git::repo::program::Version;
use crate::hosts::settings::Distrust;
use crate::hosts::{self, WORKTREE_DIR};
use crate::ops::doctor::DoctorFinding;
use crate::ops::doctor::survey::Survey;
use crate::ops::host_trust;
use crate::ops::install_shell::{self, PageState};
use crate::ops::{hooks, usage};
use crate::store::files::{added, layout, lock};
use std::fs;
use std::path::{Path, PathBuf};

const BARE: &str = "core.bare";
const WORKTREE: &str = "core.worktree";
const HOOKS_PATH: &str = "core.hooksPath";
const PRUNE: &str = "gc.pruneExpire";

pub(super) fn examine(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let repo = &ctx.repo;
    let mut found = Vec::new();
    let extension = repo.reads_worktree_config()?;
    for file in ConfigFile::ALL {
        let in_file = |key: &str| repo.setting_in(file, key);
        let is_bare = in_file(BARE)?.is_some_and(|value| is_true(&value));
        if is_bare && has_main_worktree(repo) {
            found.push(unset(Sign::MainIsBare, file, BARE, "true"));
        } else if is_bare && extension && file == ConfigFile::Shared {
            found.push(shared(BARE));
        }
        if let Some(value) = in_file(WORKTREE)? {
            let place = repo.common_dir().join(&value);
            // Either may be written by way of a link.
            let leads_to = |path: &Path| real(path) == real(&place);
            let leads_away = || survey.worktrees.iter().any(|one| leads_to(&one.path));
            // git would take the worktree of an agent for the main one.
            if has_main_worktree(repo) && (!place.is_dir() || leads_away()) {
                found.push(unset(Sign::MainLedAway, file, WORKTREE, &value));
            } else if !place.is_dir() {
                found.push(DoctorFinding::report(
                    Sign::MainLedAway,
                    format!("{} sets {WORKTREE} to {value}, which is not there", file.as_str()),
                    unset_command(repo, file, WORKTREE),
                ));
            } else if extension && file == ConfigFile::Shared {
                found.push(shared(WORKTREE));
            }
        }
        let hooks = in_file(HOOKS_PATH)?;
        if let Some(value) = hooks
            && Path::new(&value).starts_with(layout::agents_dir(repo.common_dir()))
        {
            found.push(unset(Sign::HooksLedAway, file, HOOKS_PATH, &value));
        }
    }
    found.extend(survey.live().flat_map(|agent| led_away(repo, agent)));
    let config = "git agent setup config";
    found.extend(match usage::notable(ctx) {
        Ok(usage) => usage.map(|usage| {
            let limits = match usage.limits.as_slice() {
                [] => "no limit is set".to_owned(),
                limits => format!("the limits are: {}", limits.join(", ")),
            };
            let what = format!("{}; {limits}", usage.sentence());
            DoctorFinding::report(Sign::LimitsHold, what, config)
        }),
        Err(error) if matches!(error.code(), Code::SettingsInvalid | Code::Usage) => {
            let details = error.details().iter().map(|line| line.trim());
            let what: Vec<&str> = [error.message()].into_iter().chain(details).collect();
            Some(DoctorFinding::report(Sign::SettingsUnusable, what.join("; "), config))
        }
        Err(error) => return Err(error),
    });
    if let Ok(Some(main)) = repo.main_worktree() {
        let registered =
            hosts::registrations().filter(|known| host_trust::is_registered(known, &main));
        let distrusted =
            registered.filter_map(|known| host_trust::distrust(&ctx.env, &known, Some(&main)));
        found.extend(distrusted.map(|Distrust { what, command }| {
            DoctorFinding::report(Sign::HostDistrusts, what, command)
        }));
    }
    let passed_over = survey.live().any(|agent| {
        let admin = worktree::admin_dir(repo, agent.id);
        admin.join("config.worktree").exists()
    });
    if !extension && passed_over {
        found.push(DoctorFinding::curable(
            Sign::WorktreeConfigOff,
            "extensions.worktreeConfig is off and agents' worktrees have settings of their own",
            |ctx| enable(ctx, "extensions.worktreeConfig is on"),
        ));
    }
    found.extend(pruning(repo)?);
    Ok(found)
}

fn pruning(repo: &Repo) -> Result<Option<DoctorFinding>> {
    let at_once = |value: Option<String>| value.is_some_and(|value| value.trim() == "now");
    if at_once(repo.setting_in(ConfigFile::Shared, PRUNE)?) {
        return Ok(Some(unset(Sign::PrunesAtOnce, ConfigFile::Shared, PRUNE, "now")));
    }
    // What the user set for every repository is not ours to take away.
    Ok(at_once(repo.config_string(PRUNE)?).then(|| {
        DoctorFinding::report(
            Sign::PrunesAtOnce,
            format!("a configuration file of the user or the system sets {PRUNE} to now"),
            format!("git config --global --unset-all {PRUNE}"),
        )
    }))
}

/// A setting that cannot be meant: it is taken out while it still says the same.
fn unset(sign: Sign, file: ConfigFile, key: &'static str, value: &str) -> DoctorFinding {
    let before = value.to_owned();
    let what = format!("{} sets {key} to {value}", file.as_str());
    DoctorFinding::curable(sign, what, move |ctx| {
        // The file may have been changed since it was read, by a spawn or by the user.
        let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
        let same = |now: String| now == before || (is_true(&now) && is_true(&before));
        if ctx.repo.setting_in(file, key)?.is_some_and(same) {
            ctx.repo.unset_in(file, key)?;
        }
        Ok(format!("took {key} = {before} out of {}", file.as_str()))
    })
}

/// What an agent's worktree says of itself that keeps git from working there. Git writes neither.
fn led_away(repo: &Repo, agent: &Agent) -> Vec<DoctorFinding> {
    let name = layout::worktree_name(agent.id);
    // A file that cannot be read is told with the hooks.
    if repo.worktree_config_flaw(&name, &[]).is_some() {
        return Vec::new();
    }
    let told = |key: &'static str| {
        let value = repo.worktree_setting(&name, key).ok().flatten()?;
        if key == BARE && !is_true(&value) {
            return None;
        }
        let name = name.clone();
        let what = format!("the worktree of agent {} sets {key} to {value}", agent.id.short());
        let cure = move |ctx: &Ctx| {
            let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
            ctx.repo.remove_worktree_settings(&name, key)?;
            Ok(format!("took {key} = {value} out of its config.worktree"))
        };
        Some(DoctorFinding::curable(Sign::WorktreeLedAway, what, cure))
    };
    [BARE, WORKTREE].into_iter().filter_map(told).collect()
}

/// What git itself would have moved when the extension was switched on.
fn shared(key: &str) -> DoctorFinding {
    let what = format!("config sets {key} for every worktree");
    DoctorFinding::curable(Sign::PlaceShared, what, |ctx| {
        enable(ctx, "moved it to the main worktree's config.worktree")
    })
}

fn enable(ctx: &Ctx, outcome: &str) -> Result<String> {
    let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
    added::enable_worktree_config(&ctx.repo)?;
    Ok(outcome.to_owned())
}

fn unset_command(repo: &Repo, file: ConfigFile, key: &str) -> String {
    let path = repo.common_dir().join(file.as_str());
    format!("git config --file '{}' --unset-all {key}", path.display())
}

/// Whether files are checked out beside the git dir. A bare repository has no index, and one that was
/// made bare on purpose has nothing beside its git dir.
fn has_main_worktree(repo: &Repo) -> bool {
    let common = repo.common_dir();
    let beside = common.parent().map(fs::read_dir);
    let files = beside.and_then(Result::ok).into_iter().flatten().flatten();
    let mut names = files.map(|entry| entry.file_name());
    // A bare repository has another name, no index, and no files beside it; one sign alone may
    // deceive.
    common.ends_with(".git")
        && common.join("index").is_file()
        && names.any(|name| name != ".git" && !Path::new(WORKTREE_DIR).starts_with(&name))
}

fn is_true(value: &str) -> bool {
    matches!(value.trim().to_ascii_lowercase().as_str(), "true" | "yes" | "on" | "1")
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

// The programs around us: git itself, man, and the user's shell.

/// The first git with `merge-tree --write-tree`, which decides whether work merges.
const OLDEST: Version = Version { major: 2, minor: 38 };

/// The first git that reads attributes from a commit, and so knows merge drivers without a worktree. 2.41 and 2.42
/// know the setting too, but their `git merge-tree` crashes with it.
const ATTRIBUTE_SOURCE: Version = Version { major: 2, minor: 43 };

/// The command that brings pages and completions up to date.
const INSTALL: &str = "git agent setup shell";

pub(super) fn examine_program(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    match survey.git {
        None => {
            found.push(DoctorFinding::report(Sign::GitMissing, "git does not start", "git version"))
        }
        Some(version) if version < OLDEST => found.push(DoctorFinding::report(
            Sign::GitTooOld,
            format!("git is of version {}.{}", version.major, version.minor),
            "git version",
        )),
        Some(version) => found.extend(fallback(version, ctx.repo.is_bare()?)),
    }
    found.extend(page(ctx, survey)?);
    found.extend(completion(ctx, survey));
    Ok(found)
}

/// What `git agent --help` would show.
fn page(ctx: &Ctx, survey: &Survey) -> Result<Option<DoctorFinding>> {
    let (sign, what) = match install_shell::find_page(&ctx.env, &survey.shell)? {
        PageState::There => return Ok(None),
        PageState::Missing => (Sign::ManPageMissing, "man finds no page git-agent(1)".to_owned()),
        PageState::Outdated(path) => {
            (Sign::ManPageOutdated, format!("{} is of another version", path.display()))
        }
    };
    Ok(Some(DoctorFinding::report(sign, what, INSTALL)))
}

/// What completes `git agent <TAB>` in the user's own shell.
fn completion(ctx: &Ctx, survey: &Survey) -> Option<DoctorFinding> {
    // Only of the shell that the user has: the completion of another one is not missed.
    let shell = ctx.env.shell.as_deref()?.file_name()?.to_str()?;
    let mut files = survey.shell.iter();
    let file = files.find(|file| file.part.as_str() == shell)?;
    let (sign, what) = match install_shell::installed(&ctx.env, file) {
        Some((true, _)) => return None,
        Some((false, path)) => {
            (Sign::CompletionOutdated, format!("{} is of another version", path.display()))
        }
        None => (Sign::CompletionMissing, format!("{shell} has no completion of git agent")),
    };
    Some(DoctorFinding::report(sign, what, format!("{INSTALL} --{shell}")))
}

/// What is done otherwise with a git that is not too old, only older.
fn fallback(version: Version, is_bare: bool) -> Option<DoctorFinding> {
    let mut cases = vec![
        (
            Version::CONFIG_HOOKS,
            "agents' worktrees have a hooks directory of their own instead of hooks in the configuration",
        ),
        (ATTRIBUTE_SOURCE, "merges are judged without .gitattributes, so without merge drivers"),
    ];
    if is_bare {
        let what = "git checks out the branch that HEAD of a bare repository names in no linked worktree, once there are agents";
        cases.push((Version::BARE_IN_WORKTREE_CONFIG, what));
    }
    let falls: Vec<_> = cases
        .iter()
        .filter(|(since, _)| version < *since)
        .map(|(since, what)| format!("before {}.{} {what}", since.major, since.minor))
        .collect();
    let git = format!("git is of version {}.{}", version.major, version.minor);
    (!falls.is_empty()).then(|| {
        let what = format!("{git}: {}", falls.join("; "));
        DoctorFinding::report(Sign::GitFallsBack, what, "git version")
    })
}

// The git hooks of the worktrees that agents may be at work in.

pub(super) fn examine_hooks(ctx: &Ctx, survey: &Survey) -> Result<Vec<DoctorFinding>> {
    let mut found = Vec::new();
    for agent in survey.live() {
        let is_there = survey.worktree(agent).is_some_and(|worktree| worktree.path.is_dir());
        if !is_there {
            continue;
        }
        let Some(seen) = inspection(ctx, agent, survey.git)? else {
            continue;
        };
        // Asked last, because the agent may have been discarded between the survey and the look.
        if seen.problems.is_empty() || !survey.is_at_rest(ctx, agent) {
            continue;
        }
        let problems: Vec<_> = seen.problems.iter().map(ToString::to_string).collect();
        let what = format!("agent {}: {}", agent.id.short(), problems.join("; "));
        let id = agent.id.to_string();
        found.push(DoctorFinding::curable(Sign::HooksInert, what, move |ctx| {
            hooks::repair(ctx, Some(&id))?;
            Ok("wrote the hooks anew".to_owned())
        }));
    }
    Ok(found)
}
