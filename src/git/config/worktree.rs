//! The configuration of one worktree: its `config.worktree`, and the extension that makes git read it.

use super::change_file;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::repo::{failed, string};
use rustix::fs::RawMode;
use std::path::{Path, PathBuf};

/// What is true of the main worktree alone: shared, it would make a linked worktree bare or lead it
/// elsewhere.
const PLACE: [&str; 2] = ["core.bare", "core.worktree"];

/// The extension without which git does not look at `config.worktree`.
const EXTENSION: &str = "extensions.worktreeConfig";

impl Repo {
    /// Makes git read `config.worktree`, in the order of git's own `worktree.c: init_worktree_config`:
    /// `core.bare = true` and `core.worktree` go from the shared file to the main worktree's.
    ///
    /// The new place is written before the extension is switched on, with which the old one is cleared,
    /// so that no reader ever finds neither. A repository whose extension is on and which shares one of
    /// them all the same was left half way, and is finished. The caller holds a lock that keeps
    /// its own kind away; other writers of the file are waited for. `before` is told the keys that change, before they do.
    ///
    /// # Errors
    /// `lost-race` when the file stays locked, `git-failed` when it cannot be read or written; those of `before`.
    pub fn enable_worktree_config(&self, before: impl FnOnce(&[&str]) -> Result<()>) -> Result<()> {
        let path = self.common_dir().join("config");
        let shared = open(&path)?;
        let mut moving = Vec::new();
        for key in PLACE {
            let value = string(&shared, key).map_err(|error| unreadable(&path, error))?;
            let is_default = |value: &String| {
                key == "core.bare" && !matches!(git2::Config::parse_bool(value), Ok(true))
            };
            moving.extend(value.filter(|value| !is_default(value)).map(|value| (key, value)));
        }
        let is_on = matches!(shared.get_bool(EXTENSION), Ok(true));
        if is_on && moving.is_empty() {
            return Ok(());
        }
        let moved = moving.iter().map(|(key, _)| *key);
        let changed: Vec<&str> = (!is_on).then_some(EXTENSION).into_iter().chain(moved).collect();
        before(&changed)?;
        let main = self.common_dir().join("config.worktree");
        self.set_all(&main, &moving)?;
        self.replace_config(&path, |shared| {
            change_file(shared, &[EXTENSION, "true"])?;
            moving.iter().try_for_each(|(key, _)| change_file(shared, &["--unset-all", key]))
        })
    }

    /// Undoes [`Repo::enable_worktree_config`], which changed these keys: what went to the main worktree's file goes back.
    /// `false` where a worktree has settings of its own, which git would not read any more; nothing is changed then.
    ///
    /// # Errors
    /// `lost-race` when the file stays locked, `git-failed`, `io`.
    pub fn disable_worktree_config(&self, changed: &[String], is_dry: bool) -> Result<bool> {
        let main = self.common_dir().join("config.worktree");
        let in_main = settings_of(&main)?;
        let is_moved = |key: &str| changed.iter().any(|moved| moved.eq_ignore_ascii_case(key));
        let mut is_needed = !in_main.iter().all(|(key, _)| is_moved(key));
        for worktree in self.worktrees()? {
            is_needed |= !settings_of(&self.worktree_config(&worktree.name))?.is_empty();
        }
        if is_needed || is_dry {
            return Ok(!is_needed);
        }
        let path = self.common_dir().join("config");
        // Where the extension is off already, a kill came between the two steps, and only the file
        // is left to remove.
        if self.reads_worktree_config()? {
            self.set_and_unset(&path, &in_main, EXTENSION)?;
        }
        // After the shared file has the values again: for a moment both have them, and neither
        // never.
        std::fs::remove_file(&main).at_if_there("could not remove", &main)?;
        Ok(true)
    }

    fn set_all<K: AsRef<str>>(&self, path: &Path, settings: &[(K, String)]) -> Result<()> {
        if settings.is_empty() {
            return Ok(());
        }
        self.edit_config(path, |config| {
            settings.iter().try_for_each(|(key, value)| set(config, key.as_ref(), value))
        })
    }

    /// Whether git reads `config.worktree` in this repository.
    ///
    /// # Errors
    /// `git-failed` when the shared configuration cannot be read.
    pub fn reads_worktree_config(&self) -> Result<bool> {
        let shared = open(&self.common_dir().join("config"))?;
        Ok(matches!(shared.get_bool(EXTENSION), Ok(true)))
    }

    /// A setting that a linked worktree has of its own, from the `config.worktree` of its admin
    /// directory alone; the last value where there are several.
    ///
    /// # Errors
    /// `git-failed` when the file cannot be read.
    pub fn worktree_setting(&self, worktree: &str, key: &str) -> Result<Option<String>> {
        let path = self.worktree_config(worktree);
        string(&open(&path)?, key).map_err(|error| unreadable(&path, error))
    }

    /// Why [`Repo::set_worktree_settings`] must not write these keys, or could not: the file is none, or leads
    /// elsewhere; it cannot be read; another file that it takes in sets one of them. `None` when all is well.
    pub fn worktree_config_flaw(&self, worktree: &str, keys: &[&str]) -> Option<&'static str> {
        let path = self.worktree_config(worktree);
        match std::fs::symlink_metadata(&path) {
            Err(_) => return None,
            Ok(metadata) if !metadata.is_file() => return Some("is no plain file"),
            Ok(_) => {}
        }
        let is_ours = |name: &str| keys.iter().any(|key| key.eq_ignore_ascii_case(name));
        let (mut taken_in, mut is_text) = (false, true);
        let read = git2::Config::open(&path).and_then(|config| {
            config.entries(None)?.for_each(|entry| {
                let is_ours = entry.name().is_ok_and(is_ours);
                taken_in |= entry.include_depth() > 0 && is_ours;
                is_text &= !is_ours || !entry.has_value() || entry.value().is_ok();
            })
        });
        match read {
            Err(_) => Some("cannot be read"),
            Ok(()) if !is_text => Some("cannot be read"),
            Ok(()) => taken_in.then_some("takes in another file that sets what is ours"),
        }
    }

    /// Sets what a linked worktree has of its own and leaves the rest of its file as it is.
    ///
    /// # Errors
    /// `lost-race` when the file stays locked, `git-failed`.
    pub fn set_worktree_settings(&self, worktree: &str, settings: &[(&str, String)]) -> Result<()> {
        self.set_all(&self.worktree_config(worktree), settings)
    }

    /// Removes settings of a linked worktree, those whose key starts with `prefix`.
    ///
    /// # Errors
    /// As [`Repo::set_worktree_settings`].
    pub fn remove_worktree_settings(&self, worktree: &str, prefix: &str) -> Result<()> {
        let path = self.worktree_config(worktree);
        if !path.exists() {
            return Ok(());
        }
        let config = open(&path)?;
        let mut keys = Vec::new();
        // libgit2 gives sections and names in lower case.
        let prefix = prefix.to_ascii_lowercase();
        config
            .entries(None)
            .and_then(|entries| {
                entries.for_each(|entry| {
                    let key = entry.name().ok().filter(|key| key.starts_with(&prefix));
                    keys.extend(key.map(str::to_owned));
                })
            })
            .map_err(|error| unreadable(&path, error))?;
        // A key with several values is listed once per value.
        keys.dedup();
        if keys.is_empty() {
            return Ok(());
        }
        self.edit_config(&path, |config| {
            keys.iter().try_for_each(|key| config.remove_multivar(key, ".*"))
        })
    }

    /// `core.hooksPath` as the repository has it without any linked worktree's say: the main worktree's
    /// own, else that of the shared, the user's or the system's file.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub fn repository_hooks_path(&self) -> Result<Option<String>> {
        const KEY: &str = "core.hookspath";
        let main = self.common_dir().join("config.worktree");
        let own = string(&open(&main)?, KEY).map_err(|error| unreadable(&main, error))?;
        // Without the extension git does not look at this file, whatever it says.
        if own.is_some() && self.reads_worktree_config()? {
            return Ok(own);
        }
        let fail = |error| failed("could not read the configuration", error);
        let config = self.inner.config().map_err(fail)?;
        let mut last = None;
        config
            .entries(Some("^core\\.hookspath$"))
            .map_err(fail)?
            .for_each(|entry| {
                // An agent can write the settings of its worktree, and this one names programs.
                if entry.level() != git2::ConfigLevel::Worktree {
                    last = entry.value().ok().map(str::to_owned);
                }
            })
            .map_err(fail)?;
        Ok(last)
    }

    /// The file of a linked worktree's own configuration, which need not be there.
    pub fn worktree_config(&self, worktree: &str) -> PathBuf {
        self.admin_dir(worktree).join("config.worktree")
    }
}

fn open(path: &Path) -> Result<git2::Config> {
    git2::Config::open(path).map_err(|error| unreadable(path, error))
}

/// The settings of a file that need not be there.
fn settings_of(path: &Path) -> Result<Vec<(String, String)>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let read = open(path)?.entries(None).and_then(|entries| {
        entries.for_each(|entry| {
            let value = entry.value().unwrap_or("true");
            found.extend(entry.name().map(|key| (key.to_owned(), value.to_owned())));
        })
    });
    read.map_err(|error| unreadable(path, error))?;
    Ok(found)
}

pub(in crate::git) fn set(
    config: &mut git2::Config,
    key: &str,
    value: &str,
) -> std::result::Result<(), git2::Error> {
    match config.set_str(key, value) {
        // A key with several values is set by taking all of them out first.
        Err(error) if error.class() == git2::ErrorClass::Config => {
            config.remove_multivar(key, ".*")?;
            config.set_str(key, value)
        }
        set => set,
    }
}

fn unreadable(path: &Path, error: git2::Error) -> crate::error::Error {
    failed(&format!("could not read {}", path.display()), error)
}

// `core.sharedRepository`: who else may write a repository, as git-config(1) and git's `setup.c` have it.
//
// Git loosens the modes of what it makes one by one. libgit2 and gitoxide follow the umask alone, so the umask
// is what has to be loosened. The setgid bit, which keeps the group, is handed down by the directories.

/// Bits of a mode for everybody's execution.
const SEARCH: RawMode = 0o111;

impl Repo {
    /// What the repository says of others.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn sharing(&self) -> Result<Sharing> {
        self.config_string("core.sharedRepository").map(Sharing)
    }
}

/// The value of `core.sharedRepository`; `None` where it is not set.
#[derive(Debug)]
pub struct Sharing(Option<String>);

impl Sharing {
    /// The umask with which everything that is made in the repository has the modes that git would give it, where
    /// that is another than `umask`.
    pub fn umask(&self, umask: RawMode) -> Option<RawMode> {
        let wanted = self.0.as_ref().and_then(|word| loosened(word, umask));
        wanted.filter(|wanted| *wanted != umask)
    }

    /// Whether other users, those of the repository's group, may write it.
    pub fn is_with_group(&self) -> bool {
        self.umask(0o077).is_some_and(|umask| umask & 0o020 == 0)
    }
}

/// The umask that the setting asks for; `None` where it asks for nothing, or is none that git knows.
fn loosened(word: &str, umask: RawMode) -> Option<RawMode> {
    let group = Some(umask & !0o070);
    let all = Some(umask & !0o075);
    match word.to_ascii_lowercase().as_str() {
        "umask" => None,
        "group" | "" => group,
        "all" | "world" | "everybody" => all,
        word => match RawMode::from_str_radix(word, 8) {
            Ok(0) => None,
            Ok(1) => group,
            Ok(2) => all,
            // Git refuses a mode that takes reading or writing from the owner.
            Ok(mode) if mode & 0o600 == 0o600 => {
                let files = mode & 0o666;
                // Who may read a directory may search it.
                Some(!(files | ((files >> 2) & SEARCH)) & 0o777)
            }
            Ok(_) => None,
            Err(_) => git2::Config::parse_bool(word).ok()?.then_some(group?),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::loosened;

    #[test]
    fn it_asks_for_what_git_would_do() {
        for (word, umask) in [
            ("umask", None),
            ("false", None),
            ("0", None),
            ("0444", None),
            ("nonsense", None),
            ("group", Some(0o002)),
            ("true", Some(0o002)),
            ("1", Some(0o002)),
            ("ALL", Some(0o002)),
            ("2", Some(0o002)),
            ("0640", Some(0o027)),
            ("0660", Some(0o007)),
        ] {
            assert_eq!(loosened(word, 0o022), umask, "{word}");
        }
        assert_eq!(loosened("all", 0o077), Some(0o002));
        assert_eq!(loosened("group", 0o077), Some(0o007));
    }
}
