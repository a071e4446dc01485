//! Whole sections of git's configuration, where the names of the keys are not known beforehand.

pub mod file;
pub mod identity;
pub(in crate::git) mod programs;
pub(in crate::git) mod sharing;
pub mod worktree;

use super::Repo;
use super::repo::failed;
use crate::error::{Code, Error, Result};

/// One line of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The full key: section and name in lower case, the subsection as it is written.
    pub key: String,
    /// The value; `true` for a key that stands alone, as git reads it.
    pub value: String,
}

impl Repo {
    /// Every setting whose key starts with `prefix`, from the least to the most specific file, so
    /// that the last one of a key is the one that counts. Lines that are not UTF-8 are left out.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub fn settings(&self, prefix: &str) -> Result<Vec<Setting>> {
        self.settings_where(prefix, |_| true)
    }

    /// Whether the last value of a key is true; only a key in small letters is found. As [`Repo::shared_settings`], so no
    /// worktree decides for itself.
    ///
    /// # Errors
    /// As [`Repo::settings`].
    pub fn shared_bool(&self, key: &str) -> Result<bool> {
        let settings = self.shared_settings(key)?;
        let last = settings.iter().rfind(|setting| setting.key == key);
        Ok(last.is_some_and(|last| git2::Config::parse_bool(&*last.value).unwrap_or(false)))
    }

    /// As [`Repo::settings`], without those of the current worktree's own `config.worktree`, which an
    /// agent can write where that is its worktree.
    ///
    /// # Errors
    /// As [`Repo::settings`].
    pub fn shared_settings(&self, prefix: &str) -> Result<Vec<Setting>> {
        self.settings_where(prefix, |level| level != git2::ConfigLevel::Worktree)
    }

    /// As [`Repo::settings`], as the repository's own file has them.
    ///
    /// # Errors
    /// As [`Repo::settings`].
    pub fn own_settings(&self, prefix: &str) -> Result<Vec<Setting>> {
        self.settings_where(prefix, |level| level == git2::ConfigLevel::Local)
    }

    /// A setting that is on or off, given in lower case, by [`Repo::shared_settings`].
    ///
    /// # Errors
    /// `usage` where it is neither; as [`Repo::settings`].
    pub fn shared_flag(&self, key: &str) -> Result<Option<bool>> {
        let settings = self.shared_settings(key)?;
        let last = { settings.into_iter() }.rfind(|setting| setting.key == key);
        let flag = last.map(|setting| {
            git2::Config::parse_bool(setting.value.as_str()).map_err(|_| {
                let what = format!("{key}: `{}` is neither true nor false", setting.value);
                Error::new(Code::Usage, what)
                    .hint(format!("to have the default, run git config --unset {key}"))
            })
        });
        flag.transpose()
    }

    fn settings_where(
        &self,
        prefix: &str,
        counts: impl Fn(git2::ConfigLevel) -> bool,
    ) -> Result<Vec<Setting>> {
        let config = self.inner.config();
        let config = config.map_err(|error| failed("could not read the configuration", error))?;
        settings_of(&config, prefix, counts)
    }

    /// The text of a `config` for a stand-in of the repository, which includes the repository's own.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn including_config(&self, settings: &[(String, &str, &str)]) -> Result<String> {
        let version = self.config_string("core.repositoryFormatVersion")?;
        let mut text = format!(
            "[core]\n\trepositoryformatversion = {}\n",
            version.as_deref().unwrap_or("0")
        );
        // Git reads these before it looks into other files.
        let mut extensions = String::new();
        for setting in self.shared_settings("extensions.")? {
            let name = setting.key.trim_start_matches("extensions.");
            extensions.push_str(&format!("\t{name} = {}\n", quoted(&setting.value)));
        }
        if !extensions.is_empty() {
            text.push_str("[extensions]\n");
            text.push_str(&extensions);
        }
        let shared = self.common_dir().join("config");
        let shared = quoted(&shared.to_string_lossy());
        text.push_str(&format!("[include]\n\tpath = {shared}\n"));
        // What comes last wins.
        for (section, name, value) in settings {
            let section = match section.split_once('.') {
                Some((section, part)) => format!("{section} {}", quoted(part)),
                None => section.clone(),
            };
            text.push_str(&format!("[{section}]\n\t{name} = {}\n", quoted(value)));
        }
        Ok(text)
    }

    /// Adds a value to a key of the repository's own configuration that may have several.
    ///
    /// # Errors
    /// `lost-race` while another process holds the file's lock, `git-failed`.
    pub fn add_setting(&self, key: &str, value: &str) -> Result<()> {
        self.replace_config(&self.common_dir().join("config"), |copy| {
            file::change(copy, &["--add", key, value])
        })
    }
}

/// The settings of a configuration whose keys start with `prefix`, of the levels that count.
fn settings_of(
    config: &git2::Config,
    prefix: &str,
    counts: impl Fn(git2::ConfigLevel) -> bool,
) -> Result<Vec<Setting>> {
    let what = "could not read the configuration";
    let entries = config.entries(None).map_err(|error| failed(what, error))?;
    let mut settings = Vec::new();
    entries
        .for_each(|entry| {
            let Some(key) = entry.name().ok().filter(|key| key.starts_with(prefix)) else {
                return;
            };
            if !counts(entry.level()) {
                return;
            }
            let value = if entry.has_value() {
                entry.value().ok()
            } else {
                Some("true")
            };
            settings.extend(value.map(|value| Setting {
                key: key.to_owned(),
                value: value.to_owned(),
            }));
        })
        .map_err(|error| failed(what, error))?;
    Ok(settings)
}

/// A value as a configuration file takes it, whatever is in it.
pub(in crate::git) fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        text.replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', "\\n")
    )
}
