//! Whole sections of git's configuration, where the names of the keys are not known beforehand.

pub(in crate::git) mod programs;
pub mod worktree;

use super::files::lock_file::LockFile;
use super::files::untrusted;
use super::objects::{Identity, NewCommit};
use super::refs::{lost_to, patiently};
use super::repo::{failed, string};
use super::{Repo, core::command};
use crate::domain::value::named::named;
use crate::domain::{Oid, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use worktree::set;

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

    /// Whether one of these settings, which begin with `hook.`, names a hook for an event (git-hook(1)). The hooks of an agent's
    /// worktree are such settings from git 2.54 on, so that there are some says nothing.
    pub(in crate::git) fn name_hook(settings: &[Setting], event: &str) -> bool {
        let is_named = |one: &Setting| one.key.ends_with(".event") && one.value == event;
        settings.iter().any(is_named)
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
        let last = settings.into_iter().rfind(|setting| setting.key == key);
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
        let mut text =
            format!("[core]\n\trepositoryformatversion = {}\n", version.as_deref().unwrap_or("0"));
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
            change_file(copy, &["--add", key, value])
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
            let value = if entry.has_value() { entry.value().ok() } else { Some("true") };
            settings.extend(
                value.map(|value| Setting { key: key.to_owned(), value: value.to_owned() }),
            );
        })
        .map_err(|error| failed(what, error))?;
    Ok(settings)
}

/// A value as a configuration file takes it, whatever is in it.
pub(in crate::git) fn quoted(text: &str) -> String {
    format!(
        "\"{}\"",
        // The backslash first, or those that the other two insert would be doubled.
        text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    )
}

// Who git says we are.

/// Author and committer for a commit of ours.
#[derive(Clone, Debug)]
pub struct Identities {
    /// The author.
    pub author: Identity,
    /// The committer.
    pub committer: Identity,
    /// Whether git has no identity configured and ours stands in.
    pub stand_in: bool,
}

impl Identities {
    /// A commit of these people, without a header of ours.
    pub fn commit<'a>(&'a self, tree: Oid, parents: &'a [Oid], message: &'a str) -> NewCommit<'a> {
        NewCommit {
            committer: &self.committer,
            ..NewCommit::ours(&self.author, tree, parents, message)
        }
    }
}

impl Identity {
    /// This program itself, at a moment in seconds since the epoch: which signs where git has no identity,
    /// and, at moment 0, what is named by its content alone so that the same content is one object.
    pub fn stand_in(seconds: i64) -> Identity {
        Identity {
            name: "git-agent".to_owned(),
            email: "git-agent@localhost".to_owned(),
            seconds,
            offset_minutes: 0,
        }
    }
}

impl Repo {
    /// `user.name` and `user.email`, or the stand-in where one of them is missing; at the epoch
    /// and in UTC, for the caller to set.
    pub fn configured_identity(&self) -> Identity {
        let signature = self.inner.signature();
        let user = signature
            .as_ref()
            .ok()
            .and_then(|signature| Some((signature.name().ok()?, signature.email().ok()?)));
        match user {
            Some((name, email)) => {
                Identity { name: name.to_owned(), email: email.to_owned(), ..Identity::stand_in(0) }
            }
            None => Identity::stand_in(0),
        }
    }

    /// Author and committer as git would choose them from environment and configuration. Where there
    /// is no identity, as on a fresh machine, `git-agent <git-agent@localhost>` stands in: a spawn must
    /// not fail for want of a name, and the caller warns.
    ///
    /// `now` is in seconds since the epoch and used for the stand-in only; git's own choice honours
    /// `GIT_AUTHOR_DATE` and `GIT_COMMITTER_DATE`.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read or names an impossible identity.
    pub fn identities(&self, now: i64) -> Result<Identities> {
        // libgit2 passes over includes that depend on the remotes.
        let is_plain = self.settings("includeif.hasconfig:")?.is_empty();
        match (self.inner.author_from_env(), self.inner.committer_from_env()) {
            (Ok(author), Ok(committer)) if is_plain => Ok(Identities {
                author: plain(&author),
                committer: plain(&committer),
                stand_in: false,
            }),
            (Err(error), _) | (_, Err(error))
                if is_plain && error.code() == git2::ErrorCode::NotFound =>
            {
                let stand_in = Identity::stand_in(now);
                Ok(Identities { author: stand_in.clone(), committer: stand_in, stand_in: true })
            }
            // Git reads more forms of a date than libgit2, and says what is wrong with the rest.
            _ => Ok(Identities {
                author: self.identity_by_git("GIT_AUTHOR_IDENT")?,
                committer: self.identity_by_git("GIT_COMMITTER_IDENT")?,
                stand_in: false,
            }),
        }
    }

    /// One of the identities of git-var(1).
    fn identity_by_git(&self, variable: &str) -> Result<Identity> {
        let mut command = self.plumbing();
        command.args(["var", variable]);
        let said = command::successful(command)?;
        let said = String::from_utf8_lossy(&said);
        parse(said.trim_end()).ok_or_else(|| {
            Error::new(Code::GitFailed, "could not find out who you are")
                .because(said.clone().into_owned())
        })
    }
}

/// Reads `<name> <<email>> <seconds> <zone>`.
fn parse(line: &str) -> Option<Identity> {
    // From the end, because the name comes from the user and may contain either bracket.
    let (who, when) = line.rsplit_once("> ")?;
    let (name, email) = who.split_once(" <")?;
    let (seconds, zone) = when.split_once(' ')?;
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = zone.split_at_checked(2)?;
    let minutes = hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?;
    Some(Identity {
        name: name.to_owned(),
        email: email.to_owned(),
        seconds: seconds.parse().ok()?,
        offset_minutes: if sign == "-" { -minutes } else { minutes },
    })
}

fn plain(signature: &git2::Signature<'_>) -> Identity {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Identity {
        name: text(signature.name_bytes()),
        email: text(signature.email_bytes()),
        seconds: signature.when().seconds(),
        offset_minutes: signature.when().offset_minutes(),
    }
}

// Single files of the configuration, for telling what is shared from what is one worktree's.

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
        self.replace_config(&path, |copy| change_file(copy, &["--unset-all", key]))
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
            change_file(copy, &["--fixed-value", "--unset-all", key, value])
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
                settings.iter().try_for_each(|(key, value)| set(&mut config, key, value))
            });
            written
                .map_err(|error| failed(&format!("could not write {}", path.display()), error))?;
            change_file(copy, &["--unset-all", key])
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
    fn replace_config(&self, path: &Path, edit: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let what = format!("could not write {}", path.display());
        // A link is followed, as git does, but not where an agent may have made it.
        let is_shared = path.parent() == Some(self.common_dir());
        let path =
            is_shared.then(|| fs::canonicalize(path).ok()).flatten().unwrap_or(path.to_owned());
        let mut lock_path = path.clone().into_os_string();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        // Another process has the file for milliseconds, so a short wait is better than an error.
        let lock = patiently(&lock_path, || LockFile::take(self.common_dir(), &lock_path));
        let lock = lock.map_err(|error| lost_to(&what, error))?;
        let copy = lock.beside();
        let mut mode = None;
        if path.exists() {
            let content = untrusted::read_at(&path, LONGEST_CONFIG);
            let content = content.ok_or_else(|| unusable(&path))?;
            fs::write(&copy, content).at("could not write", &copy)?;
            // A file that takes its place would have the mode that the umask gives.
            mode = Some(fs::metadata(&path).at("could not read", &path)?.permissions());
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
fn change_file(copy: &Path, words: &[&str]) -> Result<()> {
    let file = ["config".as_ref(), "--file".as_ref(), copy.as_os_str()];
    let words = file.into_iter().chain(words.iter().map(OsStr::new));
    // Outside of the repository, whose worktree may lead nowhere.
    command::run(Path::new("/"), words).map(drop)
}

fn unusable(path: &Path) -> Error {
    let what = format!("{} is no file that git can use", path.display());
    let word = shell::path(path);
    Error::new(Code::GitFailed, what).hint(format!("to see what it is, run ls -l {word}"))
}
