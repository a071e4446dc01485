//! Single files of the configuration, for telling what is shared from what is one worktree's.

use super::Repo;
use super::refs::retry_locked;
use super::repo::failed;
use crate::error::Result;
use std::path::PathBuf;

/// A configuration file of the repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFile {
    /// `config`: what holds for every worktree.
    Shared,
    /// `config.worktree` of the common dir: what holds for the main worktree alone.
    Main,
}

impl ConfigFile {
    /// Both, the one that counts last.
    pub const ALL: [ConfigFile; 2] = [ConfigFile::Shared, ConfigFile::Main];

    /// The name below the common dir.
    pub fn name(self) -> &'static str {
        match self {
            ConfigFile::Shared => "config",
            ConfigFile::Main => "config.worktree",
        }
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
        let read = git2::Config::open(&path).and_then(|config| config.get_string(key));
        match read {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(failed(&format!("could not read {}", path.display()), error)),
        }
    }

    /// Takes a setting out of that file, with all its values.
    ///
    /// # Errors
    /// `lost-race` while another process holds the file's lock, `git-failed`.
    pub fn unset_in(&self, file: ConfigFile, key: &str) -> Result<()> {
        let path = self.config_path(file);
        let fail = |error| failed(&format!("could not write {}", path.display()), error);
        let mut config = git2::Config::open(&path).map_err(fail)?;
        retry_locked(|| config.remove_multivar(key, ".*")).map_err(fail)
    }

    fn config_path(&self, file: ConfigFile) -> PathBuf {
        self.common_dir().join(file.name())
    }
}
