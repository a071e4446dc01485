//! Keeps a fenced command from pushing, and its git from the credentials of the person who started it.
//!
//! A hook does not do: `--no-verify`, `core.hooksPath` and an emptied environment leave it out, and none runs in a repository
//! that the command cloned. So the guard is git itself: a script (`hooks/fence/git`), which writes what was tried to a file.
//! Where the fence has a mount namespace, the script lies over every git that can be found, so a path, a cleared environment
//! or a copy of the file lead to it; there it is in memory, because a file for each program would take a run longer than its
//! namespaces. Elsewhere it comes first on `PATH`, and a setting sends pushes of a git that was called by its path to a helper
//! that does not exist; a program that wants to gets past both.
//!
//! The same script lets `git mv` move a directory of a layered worktree's base, which its mount cannot rename.
//!
//! Neither stops a program that speaks git's protocol by itself. What such a program would need are credentials, and those
//! that variables and settings lead to are not there.

use crate::agents::{Ctx, context::untrusted, life::liveness};
use crate::domain::life::sandbox::{GitGuard, Level, Namespaces};
use crate::domain::{Agent, Fence};
use crate::error::{IoContext, Result};
use crate::ops::run::RunOptions;
use crate::proc::sandbox::{NOWHERE, write_guard};
use crate::store::files::{fsx, layout};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Programs that push, or do so when they are told.
const PROGRAMS: [&str; 9] = [
    "git",
    "git-push",
    "git-send-pack",
    "git-http-push",
    "git-remote-http",
    "git-remote-https",
    "git-remote-ftp",
    "git-remote-ftps",
    "git-lfs",
];

/// Where programs are without a `PATH` (execvp(3)), and where a git of one's own making usually is.
const USUAL: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// Where git keeps its parts, from the directory that `git` is in.
const PARTS: [&str; 2] = ["../lib/git-core", "../libexec/git-core"];

/// Variables that lead to an SSH agent, or to a program that knows a password.
const CREDENTIALS: [&str; 14] = [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_PROXY_SSH_COMMAND",
    "GPG_AGENT_INFO",
    "VSCODE_GIT_ASKPASS_MAIN",
    "VSCODE_GIT_ASKPASS_NODE",
    "VSCODE_GIT_ASKPASS_EXTRA_ARGS",
    "VSCODE_GIT_IPC_HANDLE",
];

/// Set where the command may push, so that our `pre-push` hook lets it.
const ALLOWED: &str = "GIT_AGENT_ALLOW_PUSH";

/// The longest list of tries that is read, in bytes, and the most of them that are told.
const LONGEST: u64 = 64 * 1024;
const MOST: usize = 20;
/// The longest try that is told, in characters.
const LONGEST_TRY: usize = 200;

/// What a fenced command's git may do besides working in its worktree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GitRights {
    /// Push.
    pub push: bool,
    /// Use the person's credentials.
    pub credentials: bool,
}

impl GitRights {
    /// What the caller and the settings allow. The settings of the agent's own worktree do not count, and no file of the
    /// repository has a say.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read, `usage` for a value that is neither true nor false.
    pub(super) fn of(ctx: &Ctx, options: &RunOptions) -> Result<GitRights> {
        // Settings that all worktrees share: in its own worktree an agent could allow itself to
        // push.
        let push = options.allow_push || ctx.repo.shared_flag("agent.push")? == Some(true);
        Ok(GitRights {
            push,
            credentials: push || ctx.repo.shared_flag("agent.fetchcredentials")? == Some(true),
        })
    }

    /// Variables that the command does not get.
    pub(super) fn removed(self) -> &'static [&'static str] {
        if self.credentials { &[] } else { &CREDENTIALS }
    }

    /// The settings of its git, section, name and value. Signing needs a key and an agent that are out of reach, and would
    /// stop every commit.
    pub(super) fn settings(self) -> Vec<(String, &'static str, &'static str)> {
        let mut settings = vec![("commit", "gpgSign", "false"), ("tag", "gpgSign", "false")];
        if !self.credentials {
            settings.extend([
                // An empty value clears the list of those that the settings before it have.
                ("credential", "helper", ""),
                ("core", "askPass", ""),
                // `IdentityAgent` of a person's ssh configuration leads to an agent without any variable.
                ("core", "sshCommand", "ssh -o BatchMode=yes -o IdentityAgent=none"),
            ]);
        }
        let mut settings: Vec<_> = settings
            .into_iter()
            .map(|(section, name, value)| (section.to_owned(), name, value))
            .collect();
        if !self.push {
            // Every URL begins with nothing.
            settings.push((format!("url.{NOWHERE}::"), "pushInsteadOf", ""));
        }
        settings
    }

    /// The same as variables, which reach repositories that the command makes. A host may set them anew, so
    /// the run repository has them too.
    pub(super) fn variables(self) -> Vec<(String, OsString)> {
        let settings = self.settings();
        let mut variables =
            vec![("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string().into())];
        for (number, (section, name, value)) in settings.into_iter().enumerate() {
            let key = format!("{section}.{name}").into();
            variables.push((format!("GIT_CONFIG_KEY_{number}"), key));
            variables.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
        }
        if self.push {
            variables.push((ALLOWED.to_owned(), "1".into()));
        }
        variables
    }
}

/// The guard of one run.
#[derive(Debug)]
pub(super) struct PushGuard(GitGuard);

impl PushGuard {
    /// Adds it to the fence of a run. Gives the directory for `PATH`, too.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn put_up(
        ctx: &Ctx,
        agent: &Agent,
        number: u32,
        level: Level,
        fence: &mut Fence,
    ) -> Result<(PushGuard, PathBuf)> {
        let own = layout::agent_dir(ctx.repo.common_dir(), agent.id);
        let own = fs::canonicalize(&own).at("could not resolve", &own)?;
        let tries = liveness::log(ctx.repo.common_dir(), agent, number, "pushes");
        fsx::write_private(&tries, b"")?;
        let tries = fs::canonicalize(&tries).at("could not resolve", &tries)?;
        let guard = GitGuard {
            place: own.join("guard"),
            programs: programs(ctx, &fence.writable),
            tries,
            agent: agent.id.short(),
        };
        if level.namespaces == Namespaces::None {
            // What a run left that was killed.
            take_away(&guard.place)?;
            fsx::create_dir(&guard.place)?;
            write_guard(&guard, fence.layer.is_some()).at("could not fill", &guard.place)?;
        }
        // The script runs inside the fence and has to write down what was tried.
        fence.writable.push(guard.tries.clone());
        fence.guard = Some(guard.clone());
        let search = guard.search();
        Ok((PushGuard(guard), search))
    }

    /// What the command tried, as it was typed, without the secrets of URLs; each once.
    pub(super) fn tries(&self) -> Vec<String> {
        let found = untrusted::read_at(&self.0.tries, LONGEST).unwrap_or_default();
        let mut tries: Vec<String> = Vec::new();
        for found in String::from_utf8_lossy(&found).split_terminator('\u{1e}') {
            let words = found.split_whitespace().map(without_secret);
            let words = words.collect::<Vec<_>>().join(" ");
            let text: String =
                words.chars().filter(|c| !c.is_control()).take(LONGEST_TRY).collect();
            if !text.is_empty() && !tries.contains(&text) && tries.len() < MOST {
                tries.push(text);
            }
        }
        tries
    }

    /// Removes what it made. The run is over whether this succeeds or not.
    pub(super) fn take_down(&self) {
        let _ = take_away(&self.0.place);
        let _ = fs::remove_file(&self.0.tries);
    }
}

fn take_away(place: &Path) -> Result<()> {
    fs::remove_dir_all(place).at_if_there("could not remove", place)?;
    Ok(())
}

/// A word without the name and the password that a URL has before `@`.
fn without_secret(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    match host.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{host}/{path}"),
        None => word.to_owned(),
    }
}

/// The files of git's programs on this machine, each once, the first `git` of `PATH` first. Those that the command may write
/// are its own. A file of another name is a program for many, such as that of a version manager, and stays.
fn programs(ctx: &Ctx, writable: &[PathBuf]) -> Vec<PathBuf> {
    let usual = USUAL.iter().map(Path::new);
    let search = ctx.env.search.iter().map(PathBuf::as_path).chain(usual);
    let mut directories: Vec<PathBuf> = Vec::new();
    let mut add = |directory: PathBuf| {
        let directory = fs::canonicalize(&directory).unwrap_or(directory);
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    };
    for directory in search {
        let Ok(git) = fs::canonicalize(directory.join("git")) else {
            continue;
        };
        add(directory.to_owned());
        let home = git.parent().unwrap_or(Path::new("/"));
        add(home.to_owned());
        for parts in PARTS {
            add(home.join(parts));
        }
    }
    let mut programs: Vec<PathBuf> = Vec::new();
    for directory in directories {
        // Most names are nowhere, and to resolve one, each directory above it is looked at.
        let there = PROGRAMS.iter().map(|name| directory.join(name));
        for path in there.filter(|path| fs::symlink_metadata(path).is_ok()) {
            let Ok(file) = fs::canonicalize(path) else {
                continue;
            };
            let is_git = file.file_name().is_some_and(|found| {
                found.as_bytes() == b"git" || found.as_bytes().starts_with(b"git-")
            });
            // Mounting over a file that the command may write would change what it is allowed to
            // change.
            let is_own = writable.iter().any(|place| file.starts_with(place));
            if is_git && !is_own && file.is_file() && !programs.contains(&file) {
                programs.push(file);
            }
        }
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_told_without_what_lets_one_in() {
        let check = |word: &str, expected: &str| assert_eq!(without_secret(word), expected);
        check("https://me:token@host.example/a@b", "https://host.example/a@b");
        check("https://host.example/a", "https://host.example/a");
        check("git@host.example:a", "git@host.example:a");
        check("main", "main");
    }
}
