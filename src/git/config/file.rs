//! Single files of the configuration, for telling what is shared from what is one worktree's.

use super::worktree::set;
use crate::domain::named::named;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::lock_file::LockFile;
use crate::git::files::untrusted;
use crate::git::refs::{lost_to, patiently};
use crate::git::repo::{failed, string};
use crate::git::{Repo, command};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// The longest configuration file that is changed, in bytes.
const LONGEST_CONFIG: u64 = 1 << 24;

named! {
    /// A configuration file of the repository, by its name below the common dir. The one that counts last is last.
    pub enum ConfigFile {
        /// What holds for every worktree.
        Shared = "config",
        /// What holds for the main worktree alone.
        Main = "config.worktree",
    }
}

impl Repo {
    /// A setting as that file alone has it; `None` when unset or when there is no such file.
    ///
    /// # Errors
    /// `git-failed` when the file cannot be read.
    pub fn setting_in(&self, file: ConfigFile, key: &str) -> Result<Option<String>> {
        let path = self.config_path(file);
        if !path.exists() {
            return Ok(None);
        }
        let read = git2::Config::open(&path).and_then(|config| string(&config, key));
        read.map_err(|error| failed(&format!("could not read {}", path.display()), error))
    }

    /// Takes a setting out of that file, with all its values.
    ///
    /// # Errors
    /// `lost-race` while another process holds the file's lock, `git-failed`.
    pub fn unset_in(&self, file: ConfigFile, key: &str) -> Result<()> {
        let path = self.config_path(file);
        self.replace_config(&path, |copy| change(copy, &["--unset-all", key]))
    }

    /// Removes a section of the repository's own configuration. Git does it, in a copy, so that its lock is one that is
    /// cleared if it is killed.
    ///
    /// # Errors
    /// As [`Repo::unset_in`], also when there is no such section.
    pub fn remove_config_section(&self, section: &str) -> Result<()> {
        self.replace_config(&self.config_path(ConfigFile::Shared), |copy| {
            let words = ["config", "--file"].map(OsStr::new);
            let section = ["--remove-section", section].map(OsStr::new);
            let words = words.into_iter().chain([copy.as_os_str()]).chain(section);
            command::run(self.common_dir(), words).map(drop)
        })
    }

    /// Removes a value of a key of the repository's own configuration, with its section where nothing else is in it.
    ///
    /// # Errors
    /// As [`Repo::unset_in`], also when the key has no such value.
    pub fn remove_setting(&self, key: &str, value: &str) -> Result<()> {
        self.replace_config(&self.config_path(ConfigFile::Shared), |copy| {
            change(copy, &["--fixed-value", "--unset-all", key, value])
        })
    }

    /// Sets keys of a configuration file and removes another key, with its section where nothing else is in it.
    ///
    /// # Errors
    /// As [`Repo::unset_in`].
    pub(in crate::git) fn set_and_unset(
        &self,
        path: &Path,
        settings: &[(String, String)],
        key: &str,
    ) -> Result<()> {
        self.replace_config(path, |copy| {
            let written = git2::Config::open(copy).and_then(|mut config| {
                { settings.iter() }.try_for_each(|(key, value)| set(&mut config, key, value))
            });
            written
                .map_err(|error| failed(&format!("could not write {}", path.display()), error))?;
            change(copy, &["--unset-all", key])
        })
    }

    /// Changes a configuration file, which need not be there, as a whole: `change` sees a copy, which then takes its place.
    ///
    /// # Errors
    /// `lost-race` while another process holds the file's lock, `git-failed`, `io`.
    pub(in crate::git) fn edit_config(
        &self,
        path: &Path,
        change: impl FnOnce(&mut git2::Config) -> std::result::Result<(), git2::Error>,
    ) -> Result<()> {
        self.replace_config(path, |copy| {
            let changed = git2::Config::open(copy).and_then(|mut config| change(&mut config));
            changed.map_err(|error| failed(&format!("could not write {}", path.display()), error))
        })
    }

    /// As [`Repo::edit_config`], for a change to a file.
    pub(super) fn replace_config(
        &self,
        path: &Path,
        edit: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<()> {
        let what = format!("could not write {}", path.display());
        // A link is followed, as git does, but not where an agent may have made it.
        let is_shared = path.parent() == Some(self.common_dir());
        let path = { is_shared.then(|| fs::canonicalize(path).ok()) }
            .flatten()
            .unwrap_or(path.to_owned());
        let mut lock_path = path.clone().into_os_string();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let lock = patiently(&lock_path, || LockFile::take(self.common_dir(), &lock_path));
        let lock = lock.map_err(|error| lost_to(&what, error))?;
        let copy = lock.beside();
        let mut mode = None;
        if path.exists() {
            let content = untrusted::read_at(&path, LONGEST_CONFIG);
            let content = content.ok_or_else(|| unusable(&path))?;
            fs::write(&copy, content).at("could not write", &copy)?;
            mode = Some(
                fs::metadata(&path)
                    .at("could not read", &path)?
                    .permissions(),
            );
        }
        edit(&copy)?;
        let content = untrusted::read_at(&copy, LONGEST_CONFIG).unwrap_or_default();
        lock.publish_by(|mut body| {
            mode.map_or(Ok(()), |mode| body.set_permissions(mode))?;
            std::io::Write::write_all(&mut body, &content)
        })
    }

    fn config_path(&self, file: ConfigFile) -> PathBuf {
        self.common_dir().join(file.as_str())
    }
}

/// Changes a copy of a file that the user writes, too. Git does it, because libgit2 repeats the comment of a section's heading when it adds a key,
/// and leaves the heading of an empty section.
pub(super) fn change(copy: &Path, words: &[&str]) -> Result<()> {
    let file = ["config".as_ref(), "--file".as_ref(), copy.as_os_str()];
    let words = file.into_iter().chain(words.iter().map(OsStr::new));
    // Outside of the repository, whose worktree may lead nowhere.
    command::run(Path::new("/"), words).map(drop)
}

fn unusable(path: &Path) -> Error {
    let shown = path.display();
    Error::new(
        Code::GitFailed,
        format!("{shown} is no file that git can use"),
    )
    .hint(format!("to see what it is, run ls -l {shown}"))
}
