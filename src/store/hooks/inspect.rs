//! Whether the hooks of an agent's worktree are as we put them there.

use crate::domain::value::shell;
use crate::error::Result;
use crate::git::repo::program::Version;
use crate::store::hooks::{self, EVENTS, HOOKS_PATH, Route, Site, TRANSACTION};
use std::fmt;
use std::path::{Path, PathBuf};

/// What is wrong with the hooks of a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookProblem {
    /// Nothing leads git to our hooks.
    NotInstalled,
    /// Git does not read the worktree's configuration.
    ExtensionOff,
    /// The worktree's own configuration is not one that could lead git anywhere.
    Unusable(&'static str),
    /// Something else leads git away from our hooks.
    LedAway {
        /// The setting.
        key: String,
        /// Its value.
        value: String,
    },
    /// The git that is there now passes over hooks of the configuration.
    TooOld,
    /// A shim is not there.
    Missing(String),
    /// A shim is not what we wrote.
    Altered(String),
    /// A shim is of another version of ours.
    Outdated {
        /// The hook.
        name: String,
        /// The version.
        version: u32,
    },
    /// The repository got a hook that our directory hides.
    Hidden(String),
    /// A shim runs a program that is gone.
    ProgramGone(PathBuf),
}

impl HookProblem {
    /// Whether an agent must have done it: the rest comes with time and with other programs.
    pub fn is_tampering(&self) -> bool {
        match self {
            HookProblem::NotInstalled
            | HookProblem::ExtensionOff
            | HookProblem::Unusable(_)
            | HookProblem::LedAway { .. }
            | HookProblem::Missing(_)
            | HookProblem::Altered(_) => true,
            HookProblem::TooOld
            | HookProblem::Outdated { .. }
            | HookProblem::Hidden(_)
            | HookProblem::ProgramGone(_) => false,
        }
    }

    /// The stable word for machines.
    pub fn code(&self) -> &'static str {
        match self {
            HookProblem::NotInstalled => "not-installed",
            HookProblem::ExtensionOff => "extension-off",
            HookProblem::Unusable(_) => "config-unusable",
            HookProblem::LedAway { .. } => "led-away",
            HookProblem::TooOld => "git-too-old",
            HookProblem::Missing(_) => "missing",
            HookProblem::Altered(_) => "altered",
            HookProblem::Outdated { .. } => "outdated",
            HookProblem::Hidden(_) => "hidden",
            HookProblem::ProgramGone(_) => "program-gone",
        }
    }
}

impl fmt::Display for HookProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookProblem::NotInstalled => f.write_str("nothing leads git to the agent's hooks"),
            HookProblem::ExtensionOff => f.write_str(
                "extensions.worktreeConfig is off, so git does not read the worktree's configuration",
            ),
            HookProblem::Unusable(why) => write!(f, "the worktree's own configuration {why}"),
            HookProblem::LedAway { key, value } => {
                write!(f, "the worktree's own configuration sets {key} to `{value}`")
            }
            HookProblem::TooOld => f.write_str("this git is older than 2.54 and passes over hooks of the configuration"),
            HookProblem::Missing(name) => write!(f, "the {name} shim is missing"),
            HookProblem::Altered(name) => write!(f, "the {name} shim was altered"),
            HookProblem::Outdated { name, version } => {
                write!(f, "the {name} shim is of version {version}, not {}", VERSION)
            }
            HookProblem::Hidden(name) => {
                write!(f, "the repository's {name} hook is newer than the agent and does not run here")
            }
            HookProblem::ProgramGone(path) => write!(f, "the shims run {}, which is gone", path.display()),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// How git is led to the hooks; `None` when it is not.
    pub route: Option<Route>,
    /// Everything that is wrong, each thing once.
    pub problems: Vec<HookProblem>,
}

/// Looks at the shims and at what leads git to them. `git` is the version that would run them;
/// without one that question stays open.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read; what is merely missing is a problem, no error.
pub fn inspect(site: &Site<'_>, git: Option<Version>) -> Result<Inspection> {
    let mut problems = Vec::new();
    let route = route(site, &mut problems)?;
    if !site.repo.reads_worktree_config()? {
        problems.push(HookProblem::ExtensionOff);
    }
    if route == Some(Route::Config) && git.is_some_and(|git| git < Version::CONFIG_HOOKS) {
        problems.push(HookProblem::TooOld);
    }
    let repository = hooks::names(site)?;
    let directory = site.directory();
    for name in EVENTS {
        let is_general =
            name != TRANSACTION || (route == Some(Route::Directory) && repository.contains(&name));
        problems.extend(shim_problem(&directory, name, is_general));
    }
    if route == Some(Route::Directory) {
        for name in repository.into_iter().filter(|name| !EVENTS.contains(name)) {
            problems.extend(match shim_problem(&directory, name, true) {
                // The shims were complete when they were written, so a missing one means that the
                // repository's hook came later.
                Some(HookProblem::Missing(name)) => Some(HookProblem::Hidden(name)),
                other => other,
            });
        }
    }
    problems.dedup();
    Ok(Inspection { route, problems })
}

fn route(site: &Site<'_>, problems: &mut Vec<HookProblem>) -> Result<Option<Route>> {
    if let Some(why) = site.flaw() {
        problems.push(HookProblem::Unusable(why));
        return Ok(None);
    }
    let named = site.setting(HOOKS_PATH)?;
    if named.as_deref().is_some_and(|named| site.is_our_directory(Path::new(named))) {
        return Ok(Some(Route::Directory));
    }
    // A fenced command sees our directory through a link, and the settings name where that leads.
    let directory = site.directory();
    let places = [directory.canonicalize().unwrap_or(directory.clone()), directory];
    let mut found = 0;
    for event in EVENTS {
        let commands = places.iter().map(|place| quoted(&place.join(event)));
        let expected = [
            ("command", commands.collect()),
            ("event", vec![event.to_owned()]),
            ("enabled", Vec::new()),
        ];
        for (name, expected) in expected {
            let key = shim_key(event, name);
            match site.setting(&key)? {
                Some(value) if expected.contains(&value) => found += 1,
                Some(value) => problems.push(HookProblem::LedAway { key, value }),
                None => {}
            }
        }
        // Git can be told to leave a whole event out.
        let key = format!("hook.{event}.enabled");
        if let Some(value) = site.setting(&key)? {
            problems.push(HookProblem::LedAway { key, value });
        }
    }
    if found == 2 * EVENTS.len() {
        return Ok(Some(Route::Config));
    }
    problems.push(match named {
        Some(value) => HookProblem::LedAway { key: HOOKS_PATH.to_owned(), value },
        None => HookProblem::NotInstalled,
    });
    Ok(None)
}

fn shim_problem(directory: &Path, name: &str, is_general: bool) -> Option<HookProblem> {
    let name = name.to_owned();
    let text = match std::fs::read(directory.join(&name)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some(HookProblem::Missing(name));
        }
        // A file that cannot be read has no text of ours, so it counts as altered.
        other => other.unwrap_or_default(),
    };
    let mode_is_right = hooks::is_executable(&directory.join(&name));
    match recognise_shim(&String::from_utf8_lossy(&text)) {
        InstalledShim::Version(version) => Some(HookProblem::Outdated { name, version }),
        InstalledShim::Foreign => Some(HookProblem::Altered(name)),
        InstalledShim::Ours { .. } if !mode_is_right => Some(HookProblem::Altered(name)),
        // The short shim would keep the repository's own hook from most states.
        InstalledShim::Ours { transaction: true, .. } if is_general => {
            Some(HookProblem::Hidden(name))
        }
        InstalledShim::Ours { program, .. } => {
            let program = PathBuf::from(program);
            // A program that is named without a path is found by PATH when the hook runs.
            (program.is_absolute() && !hooks::is_executable(&program))
                .then_some(HookProblem::ProgramGone(program))
        }
    }
}

// The texts of the shims, as `hooks/git/` has them, with the one thing filled in that differs: the
// program they run.

/// For every hook.
const GENERAL: &str = include_str!("../../../hooks/git/shim");
/// For `reference-transaction`, where the repository has none of its own.
const TRANSACTION_SHIM: &str = include_str!("../../../hooks/git/reference-transaction");

/// The version in the second line of every shim; it grows whenever a text changes.
pub const VERSION: u32 = 3;

/// Where the settings of the configuration's route begin.
pub(super) const SECTION: &str = "hook.git-agent-";

const PROGRAM: &str = "program=";
const PLACE: &str = "@program@";

/// A setting of one event's hook. Each event has a hook of its own, because git does not tell a hook
/// which event it runs for.
pub(super) fn shim_key(event: &str, name: &str) -> String {
    format!("{SECTION}{event}.{name}")
}

/// The shim that runs `program`.
pub(super) fn shim_text(transaction: bool, program: &Path) -> String {
    template(transaction).replace(PLACE, &quoted(program))
}

fn template(transaction: bool) -> &'static str {
    if transaction { TRANSACTION_SHIM } else { GENERAL }
}

/// What an installed shim is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum InstalledShim {
    /// One of ours, as this version writes it, and the program it runs.
    Ours {
        /// Whether it is the one for `reference-transaction` alone.
        transaction: bool,
        /// What it runs.
        program: String,
    },
    /// One of ours, of another version.
    Version(u32),
    /// Anything else.
    Foreign,
}

/// Recognises an installed shim by every byte of it but the program's path.
pub(super) fn recognise_shim(text: &str) -> InstalledShim {
    let program = text.lines().find_map(|line| line.strip_prefix(PROGRAM)).unwrap_or_default();
    for transaction in [false, true] {
        // Compared as a whole, and not by a mark in the text: a shim that keeps the mark and does
        // nothing would else pass.
        if !program.is_empty() && template(transaction).replace(PLACE, program) == text {
            return InstalledShim::Ours { transaction, program: unquote(program) };
        }
    }
    let version = text
        .split_once("git-agent git hook, version ")
        .and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
    match version {
        Some(version) if version != VERSION => InstalledShim::Version(version),
        _ => InstalledShim::Foreign,
    }
}

/// A path as one word of sh.
pub(super) fn quoted(path: &Path) -> String {
    shell::quoted(&path.to_string_lossy())
}

fn unquote(word: &str) -> String {
    word.trim_matches('\'').replace(r"'\''", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shims_carry_the_version_and_one_place() {
        for template in [GENERAL, TRANSACTION_SHIM] {
            let second = template.lines().nth(1).expect("a second line");
            assert!(
                second.starts_with(&format!("# git-agent git hook, version {VERSION}.")),
                "{second}"
            );
            assert_eq!(template.matches(PLACE).count(), 1);
        }
    }

    #[test]
    fn shims_are_recognised_by_their_bytes() {
        let program = Path::new("/opt/it's here/git-agent");
        for transaction in [false, true] {
            let text = shim_text(transaction, program);
            let expected =
                InstalledShim::Ours { transaction, program: program.display().to_string() };
            assert_eq!(recognise_shim(&text), expected);
            assert_eq!(recognise_shim(&text.replace("exit 1", "exit 0")), InstalledShim::Foreign);
            assert_eq!(
                recognise_shim(&text.replace(&format!("version {VERSION}."), "version 7.")),
                InstalledShim::Version(7)
            );
        }
        assert_eq!(recognise_shim("#!/bin/sh\nexit 0\n"), InstalledShim::Foreign);
    }
}
