//! The git hooks of an agent's worktree: which there are, where they stand, how git is led to them.
//!
//! Every agent has a directory of its own, `agents/<id8>/hooks`. Two ways lead there, both in the worktree's own `config.worktree`, so that the repository's
//! configuration stays as it is:
//!
//! - [`Route::Config`], from git 2.54 on: `hook.git-agent-<event>.command` names the shim. Git itself runs
//!   the repository's hooks beside ours.
//! - [`Route::Directory`]: `core.hooksPath` names the directory. It hides the repository's hooks, so
//!   there is a shim for each of them, and our hook runs what it hid (below). Hook managers write into the directory that
//!   this setting names, so it has mode 0555: no file in it can be replaced. For the same reason none can be deleted, so
//!   `rm -rf` of the repository fails: to the system both are a change of the directory.
//!
//! A hook is fast feedback. A process that can write the common dir can remove it; `verify` is what judges.

pub mod inspect;

use crate::domain::value::named::named;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::repo::program::Version;
use crate::git::worktree::populate::inherit_worktree_config;
use crate::store::files::{added, fsx, layout};
pub use inspect::VERSION;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The events in which an agent's worktree is fenced.
pub const EVENTS: [&str; 5] =
    ["pre-commit", "pre-merge-commit", "commit-msg", "reference-transaction", "pre-push"];

/// The hook that has a shim of its own.
const TRANSACTION: &str = "reference-transaction";

/// Settings of the worktree that are no hooks. Housekeeping packs everybody's refs, which a fenced
/// worktree may not: it would fail and leave a `gc.log` that stops `git gc --auto` for everybody.
const QUIET: [(&str, &str); 2] = [("gc.auto", "0"), ("maintenance.auto", "false")];

/// The key that leads git to a directory of hooks.
const HOOKS_PATH: &str = "core.hooksPath";

named! {
    /// How git is led to the shims.
    pub enum Route {
        /// By hooks that the configuration names.
        Config = "config",
        /// By a directory that takes the place of the repository's.
        Directory = "directory",
    }
}

impl Route {
    /// The route that this git follows; an unknown one is taken for old.
    pub fn for_git(version: Option<Version>) -> Route {
        if version >= Some(Version::CONFIG_HOOKS) { Route::Config } else { Route::Directory }
    }
}

/// One agent's worktree, seen as a place for hooks.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// The repository, from whichever worktree.
    pub repo: &'a Repo,
    /// The first eight digits of the agent's id: a hook that finds no row knows no more.
    pub short_id: &'a str,
    /// The top of its worktree, absolute.
    pub worktree: &'a Path,
    /// The user's home, for `~/` in `core.hooksPath`.
    pub home: Option<&'a Path>,
}

impl Site<'_> {
    /// The directory of the shims.
    pub fn directory(&self) -> PathBuf {
        layout::hooks_dir(self.repo.common_dir(), self.short_id)
    }

    /// Whether a path names the directory of the shims. Inside the fence the common directory is a run repository, whose
    /// `agents` is a link to the real one, while the settings were written outside: the two names of one
    /// directory differ, and only what they lead to tells.
    fn is_our_directory(&self, path: &Path) -> bool {
        let ours = self.directory();
        path == ours || ours.canonicalize().is_ok_and(|real| real == path)
    }

    fn admin_name(&self) -> String {
        format!("{}{}", layout::WORKTREE_PREFIX, self.short_id)
    }

    /// What keeps the worktree's own configuration from being read, or written by us.
    fn flaw(&self) -> Option<&'static str> {
        let keys = QUIET.map(|(key, _)| key);
        let keys = [&keys[..], &[HOOKS_PATH]].concat();
        self.repo.worktree_config_flaw(&self.admin_name(), &keys)
    }

    fn setting(&self, key: &str) -> Result<Option<String>> {
        self.repo.worktree_setting(&self.admin_name(), key)
    }
}

/// Writes the shims and leads git to them, in place of what was there. `program` is what they run. The
/// caller holds `spawn.lock`.
///
/// # Errors
/// `io`, `disk-full`, `repo-read-only`, `lost-race` when a configuration file stays locked.
pub fn install(site: &Site<'_>, program: &Path, route: Route) -> Result<()> {
    let repository = names(site)?;
    let mut names: Vec<&str> = EVENTS.to_vec();
    if route == Route::Directory {
        names.extend(repository.iter().filter(|name| !EVENTS.contains(name)));
    }
    // In the configuration's route git runs the repository's hooks, and ours can leave at once.
    let general = route == Route::Directory && repository.contains(&TRANSACTION);
    let mode = match route {
        // No setting leads a hook manager there.
        Route::Config => 0o755,
        // Who else has a share in the repository discards this agent, too, and git looks at its owner's rights alone.
        Route::Directory if site.repo.sharing()?.is_with_group() => 0o575,
        Route::Directory => 0o555,
    };
    write_shims(&site.directory(), mode, &names, |name| {
        inspect::shim_text(name == TRANSACTION && !general, program)
    })?;
    // The shims stand before anything leads git to them.
    added::enable_worktree_config(site.repo)?;
    let admin = site.admin_name();
    if site.flaw().is_some() {
        fsx::set_aside(&site.repo.worktree_config(&admin))?;
        // Sparse patterns and the like come from where they came from at spawn; what cannot be built on stays out.
        inherit_worktree_config(site.repo, &site.repo.admin_dir(&admin))?;
        if site.flaw().is_some() {
            fsx::set_aside(&site.repo.worktree_config(&admin))?;
        }
    }
    site.repo
        // What an older version or another route wrote goes first: hooks of both routes would run
        // twice.
        .remove_worktree_settings(&admin, inspect::SECTION)?;
    let mut settings: Vec<(String, String)> =
        QUIET.map(|(key, value)| (key.into(), value.into())).into();
    match route {
        Route::Config => {
            if site.setting(HOOKS_PATH)?.is_some_and(|path| Path::new(&path) == site.directory()) {
                // Only a path that is ours goes. Another one is the agent's or a hook manager's,
                // and the inspection names it.
                site.repo.remove_worktree_settings(&admin, HOOKS_PATH)?;
            }
            for event in EVENTS {
                settings.push((
                    inspect::shim_key(event, "command"),
                    inspect::quoted(&site.directory().join(event)),
                ));
                settings.push((inspect::shim_key(event, "event"), event.to_owned()));
            }
        }
        Route::Directory => {
            settings.push((HOOKS_PATH.into(), site.directory().to_string_lossy().into_owned()));
        }
    }
    let settings: Vec<(&str, String)> =
        settings.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    site.repo.set_worktree_settings(&admin, &settings)
}

/// The hooks for a commit that the orchestrator makes in the agent's worktree.
#[derive(Clone, Debug)]
pub struct CommitHooks {
    /// The directory of the shims.
    pub shims: PathBuf,
    /// The directory of the repository's own hooks, where there is one that the agent cannot write.
    pub repository: Option<PathBuf>,
}

/// Whether the repository has hooks of its own that a commit of the orchestrator's runs.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn has_own(site: &Site<'_>) -> Result<bool> {
    let own = out_of_reach(site)?;
    let has_hooks = own.is_some_and(|directory| !names_in(&directory).is_empty());
    Ok(has_hooks || site.repo.has_config_section("hook")?)
}

/// Writes shims that run the repository's hooks from a place that the agent cannot write; `directory` must not exist.
/// The agent could have changed the shims that it has, and what leads git to them.
///
/// # Errors
/// `io`, `disk-full`; `git-failed` when a configuration file cannot be read.
pub fn for_commit(site: &Site<'_>, program: &Path, directory: &Path) -> Result<CommitHooks> {
    let repository = out_of_reach(site)?;
    let own = repository.as_deref().map(names_in).unwrap_or_default();
    fsx::create_dir(directory)?;
    let names = EVENTS.iter().chain(own.iter().filter(|name| !EVENTS.contains(name)));
    for name in names {
        let path = directory.join(name);
        // The short shim asks only about the state that can still be refused; a hook of the
        // repository's own wants to hear of all of them.
        let is_short = *name == TRANSACTION && !own.contains(name);
        fs::write(&path, inspect::shim_text(is_short, program)).at("could not write", &path)?;
        set_mode(&path, 0o555)?;
    }
    Ok(CommitHooks { shims: directory.to_owned(), repository })
}

/// Writes the shims of a repository that an agent has of its own; `directory` must not exist. git does not tell a hook in
/// the main worktree of a repository which one that is, so they do.
///
/// # Errors
/// `io`, `disk-full`.
pub fn write_for_clone(directory: &Path, program: &Path) -> Result<()> {
    let text = |name: &str| {
        let text = inspect::shim_text(name == TRANSACTION, program);
        // The line goes after the first one, which names the interpreter.
        text.replacen('\n', "\nGIT_DIR=${GIT_DIR:-.git} && export GIT_DIR\n", 1)
    };
    fsx::create_dir(directory.parent().unwrap_or(directory))?;
    write_shims(directory, 0o555, &EVENTS, text)
}

/// Fills a directory beside the one in use and puts it in its place.
fn write_shims(
    directory: &Path,
    mode: u32,
    names: &[&str],
    text: impl Fn(&str) -> String,
) -> Result<()> {
    // What a link in the place of the agent's directory leads to has other hooks, such as the repository's own.
    directory.parent().map_or(Ok(()), layout::require_no_link)?;
    let new = fsx::unique_name(directory);
    fsx::create_dir(&new)?;
    let mut written: Vec<(String, PathBuf)> = Vec::new();
    for name in names {
        let (path, text) = (new.join(name), text(name));
        // Shims of one text are one file, where the file system has links: it is this agent's alone.
        let same = written.iter().find(|(known, _)| *known == text);
        if same.is_some_and(|(_, same)| fs::hard_link(same, &path).is_ok()) {
            continue;
        }
        fs::write(&path, &text).at("could not write", &path)?;
        set_mode(&path, 0o555)?;
        written.push((text, path));
    }
    // A rename cannot replace a directory that is not empty, so for a moment there are no hooks.
    // They are feedback; the verdict does not depend on them.
    if directory.exists() {
        // Where it is of another user, who shares it, it is open already.
        let _ = set_mode(directory, 0o755);
        fs::remove_dir_all(directory).at("could not remove", directory)?;
    }
    fs::rename(&new, directory).at("could not write", directory)?;
    // The mode comes last: a directory that is not writable cannot be renamed by everybody.
    set_mode(directory, mode)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .at("could not change the mode of", path)
}

// The hooks that the repository has of its own, which an agent's worktree must not lose.

/// Every hook that git knows by its place in the hooks directory (githooks(5)).
pub const KNOWN: [&str; 27] = [
    "applypatch-msg",
    "commit-msg",
    "p4-changelist",
    "p4-post-changelist",
    "p4-pre-submit",
    "p4-prepare-changelist",
    "post-applypatch",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "post-receive",
    "post-rewrite",
    "post-update",
    "pre-applypatch",
    "pre-auto-gc",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "pre-rebase",
    "pre-receive",
    "prepare-commit-msg",
    "proc-receive",
    "push-to-checkout",
    "reference-transaction",
    "sendemail-validate",
    "update",
];

/// The repository's hook of that name which our directory hides; `None` where there is none, or where
/// git runs it without our help.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn hidden_hook(site: &Site<'_>, name: &str) -> Result<Option<PathBuf>> {
    let named = site.setting(HOOKS_PATH)?;
    if named.is_none_or(|path| !site.is_our_directory(Path::new(&path))) {
        return Ok(None);
    }
    let directory = repository_directory(site)?;
    let hook = directory.join(name);
    // A user may have made our directory the repository's own; the shim would then run itself
    // without end.
    Ok((!site.is_our_directory(&directory) && is_executable(&hook)).then_some(hook))
}

/// The names of the hooks that the repository has. A relative `core.hooksPath` may lead to files
/// that git ignores (husky's do) and that a new worktree does not have yet, so the main worktree is
/// asked as well.
///
/// # Errors
/// As [`hidden_hook`].
pub fn names(site: &Site<'_>) -> Result<Vec<&'static str>> {
    let setting = site.repo.repository_hooks_path()?;
    let own = directory(site, setting.as_deref(), site.worktree);
    let is_inside = own.starts_with(site.worktree);
    let mut directories = vec![own];
    if is_inside && let Some(main) = site.repo.main_worktree()? {
        directories.push(directory(site, setting.as_deref(), &main));
    }
    directories.retain(|directory| directory.is_dir());
    let there =
        |name: &&str| directories.iter().any(|directory| is_executable(&directory.join(name)));
    Ok(KNOWN.into_iter().filter(there).collect())
}

/// The names of the hooks in a directory.
fn names_in(directory: &Path) -> Vec<&'static str> {
    let there = |name: &&str| is_executable(&directory.join(name));
    KNOWN.into_iter().filter(there).collect()
}

/// The hook of that name in a directory; `None` where there is none.
pub fn hook_in(directory: &Path, name: &str) -> Option<PathBuf> {
    let hook = directory.join(name);
    is_executable(&hook).then_some(hook)
}

/// The directory of the repository's hooks, where the agent cannot write: the main worktree's, when
/// `core.hooksPath` leads into the worktree that it is looked up from, as husky's does. `None` where there is no such
/// directory.
///
/// # Errors
/// As [`hidden_hook`].
fn out_of_reach(site: &Site<'_>) -> Result<Option<PathBuf>> {
    let setting = site.repo.repository_hooks_path()?;
    let main = site.repo.main_worktree()?;
    let tops = [Some(site.worktree), main.as_deref()];
    let writable =
        [site.worktree.to_owned(), site.repo.admin_dir(&site.admin_name()), site.directory()];
    let is_writable = |directory: &Path| {
        // A link to a place that the agent can write is such a place.
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let directory = real(directory);
        writable.iter().any(|place| directory.starts_with(real(place)))
    };
    let mut directories = tops
        .into_iter()
        .flatten()
        .map(|top| directory(site, setting.as_deref(), top))
        .filter(|directory| directory.is_dir() && !is_writable(directory));
    Ok(directories.next())
}

/// The directory in which git would look for the hooks of that worktree if it were not an agent's.
fn directory(site: &Site<'_>, setting: Option<&str>, top: &Path) -> PathBuf {
    let Some(path) = setting else {
        return site.repo.common_dir().join("hooks");
    };
    match (path.strip_prefix("~/"), site.home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => top.join(path),
    }
}

/// The directory in which git would look for the repository's hooks in this worktree if it were not an agent's.
///
/// # Errors
/// As [`hidden_hook`].
pub fn repository_directory(site: &Site<'_>) -> Result<PathBuf> {
    let setting = site.repo.repository_hooks_path()?;
    Ok(directory(site, setting.as_deref(), site.worktree))
}

/// Whether a path leads to a file that can be executed.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
