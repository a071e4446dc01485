//! `init`: registers our hooks with agent hosts, and takes them out again.
//!
//! Every file is read and edited in memory first, so a file that cannot be edited stops all of them
//! before anything is written. A second run changes nothing.

mod proposal;

use crate::agents::context::ctx::Ctx;
use crate::agents::context::real_path::real_path;
use crate::agents::context::untrusted;
use crate::domain::settings::repository_settings::PATH;
use crate::domain::value::named::named;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::config::Setting;
use crate::hosts::settings::{HostWorktrees, Registration, Removal};
use crate::hosts::{self, settings as host_settings};
use crate::ops::host_trust;
use crate::store::files::{added, fsx, layout, lock};
use crate::wire::file::messenger_config::{self, section};
pub use proposal::{Proposal, ProposedPart};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::fs;
use std::path::{Path, PathBuf};

/// What is asked for.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// The hosts; none for those that have a directory here.
    pub hosts: Vec<Registration>,
    /// Registers in the user's own settings, which count in every directory of every repository.
    pub of_user: bool,
    /// Also takes over the worktrees that a host makes for its subagents.
    pub worktrees: bool,
    /// Also lets `git log` show the ledger.
    pub notes: bool,
    /// Also makes an alias of this name for `git log --all` without our refs.
    pub log_alias: Option<String>,
    /// Takes over the configuration of the older kit, from this file or where it is found.
    pub from_kit: Option<Option<PathBuf>>,
    /// Takes out instead of putting in.
    pub remove: bool,
    /// Takes out only what `init` put in: a setting that the user had before stays.
    pub only_ours: bool,
}

/// What will be done.
#[derive(Clone, Debug)]
pub struct InitPlan {
    changes: Vec<InitChange>,
    notes: Option<SettingChange>,
    log_alias: Option<SettingChange>,
    remove: bool,
    of_user: bool,
    top: PathBuf,
    proposal: Option<Proposal>,
}

#[derive(Clone, Debug)]
struct InitChange {
    registration: Registration,
    path: PathBuf,
    action: Action,
    /// The whole new file; empty where none is written.
    text: String,
    /// What its user still has to do or know.
    note: Option<String>,
}

/// Reads and decides; changes nothing.
///
/// # Errors
/// `usage` when no host is named and none can be seen, `host-settings-invalid` and `path-exists` for
/// a file that is not ours to edit, `repo-not-found` in a bare repository.
pub fn plan(ctx: &Ctx, options: &InitOptions) -> Result<InitPlan> {
    let own = if options.of_user { ctx.env.home.as_deref() } else { ctx.repo.workdir() };
    let top = own.ok_or_else(|| {
        Error::new(
            Code::RepoNotFound,
            "a bare repository has no directory that an agent host would read",
        )
        .hint("to register in a worktree, run git -C <worktree> agent init")
    })?;
    let top = fs::canonicalize(top).at("could not resolve", top)?;
    if let Some(file) = &options.from_kit {
        return Ok(InitPlan {
            changes: Vec::new(),
            notes: None,
            log_alias: None,
            remove: false,
            of_user: false,
            proposal: Some(proposal(&top, file.as_deref())?),
            top,
        });
    }
    let mut asked = options.hosts.clone();
    let is_whole = asked.is_empty() && !options.notes && options.log_alias.is_none();
    // Who names nothing in particular is new here: the repository is looked at as a whole.
    if is_whole {
        asked =
            hosts::registrations().filter(|known| is_used(&top, known, options.of_user)).collect();
    }
    let proposal = if is_whole && !options.remove && !options.of_user {
        Proposal::of(ctx, &top, asked.is_empty())?
    } else {
        None
    };
    // With settings a repository is set up, and needs no host.
    let is_set_up = !options.remove && !options.of_user && top.join(PATH).is_file();
    let has_nothing = asked.is_empty() && proposal.is_none() && !is_set_up;
    if is_whole && has_nothing && !options.remove {
        let names: Vec<_> = hosts::registrations().map(|known| known.host).collect();
        return Err(Error::new(
            Code::Usage,
            format!(
                "no agent host is set up in {}, and no settings can be proposed for what is there",
                top.display()
            ),
        )
        .hint(format!("to name one, run git agent init --host {}", names.join("|"))));
    }
    let ours = |change: SettingChange| {
        if options.only_ours { change.unless_of_the_user(ctx) } else { Ok(change) }
    };
    // In the order of the table, in whatever order they were named.
    // Where all that is ours goes, no host is named, and what is wrong with a file of another program's is no reason to stop.
    let wanted = hosts::registrations()
        .filter(|known| asked.contains(known))
        .filter(|known| !options.only_ours || may_name_us(&top, known));
    let changes = wanted.map(|registration| change(ctx, &top, registration, options));
    Ok(InitPlan {
        changes: changes.collect::<Result<_>>()?,
        notes: if options.notes { Some(ours(notes(ctx, options.remove)?)?) } else { None },
        log_alias: match &options.log_alias {
            Some(name) => Some(ours(log_alias(ctx, name, options.remove)?)?),
            None => None,
        },
        remove: options.remove,
        of_user: options.of_user,
        proposal,
        top,
    })
}

/// Writes what the plan proposes for the repository, once a person has agreed to it.
///
/// # Errors
/// `io` also where a settings file has been written meanwhile; `git-failed`.
pub fn accept_proposal(ctx: &Ctx, plan: &mut InitPlan) -> Result<()> {
    match &mut plan.proposal {
        Some(proposal) => proposal.write(ctx, &plan.top),
        None => Ok(()),
    }
}

/// Carries out a plan, except for what it proposes.
///
/// # Errors
/// `io`, `disk-full`, `repo-read-only`, `git-failed`.
pub fn execute(ctx: &Ctx, plan: &InitPlan) -> Result<InitReport> {
    let common_dir = ctx.repo.common_dir();
    // What was the user's before is kept for `uninstall`, which leaves files of the user alone.
    let changing = |path: &Path, write: &mut dyn FnMut() -> Result<()>| {
        if plan.of_user { write() } else { added::changing(common_dir, path, write) }
    };
    for change in &plan.changes {
        let (path, text) = (&change.path, change.text.as_bytes());
        match change.action {
            Action::Unchanged => {}
            Action::Deleted => {
                fs::remove_file(path).at("could not remove", path)?;
                // The directories that were made for it; one with anything else in it stays.
                let file = path.strip_prefix(&plan.top).unwrap_or(path);
                let depth = file.components().count();
                for above in path.ancestors().take(depth).skip(1) {
                    if fs::remove_dir(above).is_err() {
                        break;
                    }
                }
            }
            // The user's own file, to the byte, where nothing was changed in it since.
            Action::Updated
                if plan.remove && !plan.of_user && added::put_back(common_dir, path)? => {}
            Action::Created => {
                fsx::create_dir(path.parent().unwrap_or(path))?;
                changing(path, &mut || fsx::write_atomic(path, text))?;
            }
            Action::Updated => {
                // A file that is replaced at once is a new one, and would have the mode of new
                // ones.
                let mode = fs::metadata(path).at("could not read", path)?.permissions();
                let mut write = || {
                    fsx::write_atomic(path, text)?;
                    fs::set_permissions(path, mode.clone()).at("could not set the mode of", path)
                };
                if plan.remove { write()? } else { changing(path, &mut write)? }
            }
        }
    }
    for setting in plan.settings() {
        setting.execute(ctx)?;
    }
    Ok(plan.report())
}

impl InitPlan {
    /// What is proposed for the repository as a whole.
    pub fn proposal(&self) -> Option<&Proposal> {
        self.proposal.as_ref()
    }

    /// Whether everything is as it should be already.
    pub fn is_empty(&self) -> bool {
        let actions = self.changes.iter().map(|change| change.action);
        let settings = self.settings().map(|setting| setting.action);
        actions.chain(settings).all(|action| action == Action::Unchanged)
    }

    /// Whether there is no host and no setting that anything could become of.
    pub fn has_nothing(&self) -> bool {
        self.changes.is_empty() && self.settings().next().is_none()
    }

    /// The same without what becomes of settings of git.
    pub fn without_settings(mut self) -> InitPlan {
        (self.notes, self.log_alias) = (None, None);
        self
    }

    fn settings(&self) -> impl Iterator<Item = &SettingChange> {
        self.notes.iter().chain(&self.log_alias)
    }

    /// What the plan does, as `execute` reports it when it is done.
    pub fn report(&self) -> InitReport {
        let hosts = self.changes.iter().map(|change| {
            let known = &change.registration;
            HostReport {
                host: known.host,
                path: if self.of_user {
                    format!("~/{}", known.of_user)
                } else {
                    known.path.to_owned()
                },
                action: change.action,
                note: change.note.clone(),
            }
        });
        InitReport {
            schema: "git-agent.init/1",
            hosts: hosts.collect(),
            notes: self.notes.as_ref().map(|setting| setting.action),
            log_alias: self.log_alias.as_ref().map(|setting| setting.action),
            proposal: self.proposal.clone(),
        }
    }
}

/// Whether the host's directory is here with anything in it but our own worktrees.
fn is_used(top: &Path, registration: &Registration, of_user: bool) -> bool {
    let above = Path::new(registration.of_user).parent();
    let directory = match above.filter(|_| of_user) {
        // A plugin or a list of hooks lies deeper than the directory of the host.
        Some(above) => {
            above.iter().take(if above.starts_with(".config") { 2 } else { 1 }).collect()
        }
        None => PathBuf::from(registration.directory),
    };
    let entries = fs::read_dir(top.join(directory));
    let mut names = entries.into_iter().flatten().flatten();
    names.any(|entry| entry.file_name() != "worktrees")
}

/// Longer settings, in bytes, are looked at as a whole.
const LONGEST_SETTINGS: u64 = 1 << 24;

/// Whether a host's settings may hold an entry of ours: each names this program, and none is ever written through a link that leads out.
fn may_name_us(top: &Path, registration: &Registration) -> bool {
    let path = real_path(&top.join(registration.path)).filter(|path| path.starts_with(top));
    path.is_some_and(|path| match untrusted::read_at(&path, LONGEST_SETTINGS) {
        Some(text) => {
            let text = String::from_utf8_lossy(&text);
            text.contains("git-agent") || text.contains("git agent")
        }
        None => path.is_file(),
    })
}

fn change(
    ctx: &Ctx,
    top: &Path,
    registration: Registration,
    options: &InitOptions,
) -> Result<InitChange> {
    let folder = (!options.of_user).then_some(top);
    let note = host_trust::note(&ctx.env, &registration, folder).filter(|_| !options.remove);
    let shown = if options.of_user { registration.of_user } else { registration.path };
    let refuse = |why: &str| {
        Error::new(Code::HostSettingsInvalid, format!("could not edit {shown}: {why}"))
            .hint(format!("to see what it is, run ls -l {shown}"))
    };
    // The file behind a symlink is edited, and the symlink kept, where that stays in the worktree.
    let path = real_path(&top.join(shown)).filter(|path| path.starts_with(top));
    let path = path.ok_or_else(|| refuse("it is a symlink that leads out of the worktree"))?;
    let existing = fsx::load_if_there(&path)?;
    let text = existing.map(String::from_utf8).transpose();
    let text = text.map_err(|_| refuse("it is not UTF-8"))?;
    let text = text.as_deref();
    let (action, text) = if options.remove {
        match host_settings::remove(&registration, text)? {
            Removal::Unchanged => (Action::Unchanged, String::new()),
            Removal::Edited(text) => (Action::Updated, text),
            Removal::Delete => (Action::Deleted, String::new()),
        }
    } else {
        let worktrees = if options.worktrees { HostWorktrees::Ours } else { HostWorktrees::Host };
        let merged = host_settings::merge(&registration, text, worktrees)?;
        let action = match (merged.changed, text) {
            (false, _) => Action::Unchanged,
            (true, None) => Action::Created,
            (true, Some(_)) => Action::Updated,
        };
        (action, merged.text)
    };
    Ok(InitChange { registration, path, action, text, note })
}

// What `init` answers.

/// The answer of `init`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InitReport {
    /// `git-agent.init/1`
    pub schema: &'static str,
    /// Each host, in the order of the documentation.
    pub hosts: Vec<HostReport>,
    /// What becomes of `notes.displayRef`; absent when it was not asked about.
    pub notes: Option<Action>,
    /// What becomes of the alias for a log without our refs; absent when it was not asked about.
    pub log_alias: Option<Action>,
    /// What is proposed for a repository without settings; absent where it has some, or something in particular was asked for.
    pub proposal: Option<Proposal>,
}

/// One host in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostReport {
    /// The name used with `--host`.
    pub host: &'static str,
    /// Its settings file, relative to the top of the worktree; `~/` and the path below the home for the user's own.
    pub path: String,
    /// What becomes of the file.
    pub action: Action,
    /// What a person still has to do or know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

named! {
    /// What becomes of a file or a setting.
    pub enum Action {
        /// It was not there.
        Created = "created",
        /// Ours is put beside, or taken from beside, what others have there.
        Updated = "updated",
        /// Nothing else was in it.
        Deleted = "deleted",
        /// It is as it should be.
        Unchanged = "unchanged",
    }
}

// The settings that `init` adds to the repository's own configuration on request.

/// What the alias stands for. The excludes hold for what follows them; `--single-worktree` leaves out where agents'
/// worktrees are.
const LOG: &str = "log --graph --oneline --single-worktree --exclude='refs/agents/*' --exclude='refs/notes/agents*' \
                   --exclude='refs/heads/agent/*' --all";

/// What becomes of one value of one key.
#[derive(Clone, Debug)]
struct SettingChange {
    key: String,
    value: &'static str,
    action: Action,
}

impl SettingChange {
    fn new(key: &str, value: &'static str, is_there: bool, remove: bool) -> SettingChange {
        SettingChange {
            key: key.to_owned(),
            value,
            action: match (is_there, remove) {
                (false, false) => Action::Created,
                (true, true) => Action::Deleted,
                _ => Action::Unchanged,
            },
        }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// `lost-race`, `git-failed`.
    fn execute(&self, ctx: &Ctx) -> Result<()> {
        let common_dir = ctx.repo.common_dir();
        match self.action {
            Action::Created => {
                // Spawns write git's configuration under this lock.
                let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
                // First, so that no kill leaves a setting of ours that looks like the user's.
                added::note(common_dir, added::BY_INIT, self.line().as_bytes())?;
                let config = common_dir.join("config");
                added::changing(common_dir, &config, || ctx.repo.add_setting(&self.key, self.value))
            }
            Action::Deleted => ctx.repo.remove_setting(&self.key, self.value),
            Action::Updated | Action::Unchanged => Ok(()),
        }
    }

    /// Leaves a value alone that `init` did not add.
    fn unless_of_the_user(mut self, ctx: &Ctx) -> Result<SettingChange> {
        let noted = added::load(ctx.repo.common_dir(), added::BY_INIT)?;
        let line = self.line();
        let is_ours =
            noted.split_inclusive(|&byte| byte == b'\n').any(|noted| noted == line.as_bytes());
        if self.action == Action::Deleted && !is_ours {
            self.action = Action::Unchanged;
        }
        Ok(self)
    }

    fn line(&self) -> String {
        format!("{} {}\n", self.key.to_ascii_lowercase(), self.value)
    }
}

/// The setting by which `git log` shows the ledger.
fn notes(ctx: &Ctx, remove: bool) -> Result<SettingChange> {
    // What the user set for all repositories is not ours to remove.
    let set = if remove {
        ctx.repo.own_settings("notes.displayref")?
    } else {
        ctx.repo.settings("notes.displayref")?
    };
    let is_there = set.iter().any(|setting| setting.value == layout::LEDGER_REF);
    let key = "notes.displayRef";
    Ok(SettingChange::new(key, layout::LEDGER_REF, is_there, remove))
}

/// The alias for a log without our refs. An alias of ours is removed whatever its name is.
///
/// # Errors
/// `usage` where the name cannot be that of an alias, or is that of another one.
fn log_alias(ctx: &Ctx, name: &str, remove: bool) -> Result<SettingChange> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !name.starts_with(|first: char| first.is_ascii_alphabetic()) || !name.bytes().all(is_name) {
        let what =
            format!("`{name}` cannot be the name of an alias: git takes letters, digits and `-`");
        return Err(Error::new(Code::Usage, what)
            .hint("to have it as git lg, run git agent init --log-alias"));
    }
    let key = format!("alias.{name}");
    if remove {
        let own = ctx.repo.own_settings("alias.")?;
        // By what it stands for: the user may have given it another name.
        let ours = own.into_iter().find(|alias| alias.value == LOG);
        let key = ours.as_ref().map_or(key.as_str(), |alias| &alias.key);
        return Ok(SettingChange::new(key, LOG, ours.is_some(), remove));
    }
    let aliases = ctx.repo.settings("alias.")?;
    let known = aliases.iter().find(|alias| alias.key.eq_ignore_ascii_case(&key));
    if let Some(other) = known.filter(|alias| alias.value != LOG) {
        return Err(Error::new(Code::Usage, format!("{key} stands for `{}` already", other.value))
            .hint(format!("to take another name, run git agent init --log-alias={name}-agents")));
    }
    // A removal takes one out, so there is one.
    let own = ctx.repo.own_settings("alias.")?;
    let is_other = |alias: &&Setting| alias.value == LOG && !alias.key.eq_ignore_ascii_case(&key);
    if let Some(other) = own.iter().find(is_other) {
        let what = format!("{} is the alias for a log without our refs already", other.key);
        return Err(Error::new(Code::Usage, what)
            .hint("to take it out first, run git agent init --log-alias --remove"));
    }
    Ok(SettingChange::new(&key, LOG, known.is_some(), remove))
}

// What the configuration of an older kit comes to in the settings of the repository, taken over once.

/// The kit's file.
const NAME: &str = "messenger-config.yaml";

/// A configuration is a screenful; anything bigger is something else.
const MOST_BYTES: u64 = 64 * 1024;

/// Where the kit keeps its configuration.
const PLACES: [&str; 8] = [
    "",
    "_bmad",
    "_bmad/_config",
    "_bmad/core",
    "_bmad/core/messenger",
    "_bmad/messenger",
    "_bmad/bmm/messenger",
    "_bmad-output/messenger",
];

/// The settings that the kit's configuration comes to. `file` names it, relative to the top; without it, it is looked for.
///
/// # Errors
/// `path-exists` where the settings say something of messages already; `settings-invalid` for a file that is not there or cannot
/// be read; `io`.
fn proposal(top: &Path, file: Option<&Path>) -> Result<Proposal> {
    let path = file.map(Path::to_owned).or_else(|| found(top));
    let path = path.ok_or_else(|| {
        Error::new(Code::SettingsInvalid, format!("there is no {NAME} to take over"))
            .hint("to name it, run git agent init --from-kit=<file>")
    })?;
    let shown = path.display().to_string();
    let unusable = |why: &str| {
        Error::new(Code::SettingsInvalid, format!("{shown} cannot be taken over: {why}"))
            .hint(format!("to go on without it, write [messages] into {PATH} by hand"))
    };
    let text =
        // A file of the worktree may be a link to anywhere, which is not followed.
        untrusted::read(top, &path, MOST_BYTES).and_then(|bytes| String::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| unusable("it is no text file of at most 64 KiB in this worktree"))?;
    let config = messenger_config::parse(&text).map_err(|problem| unusable(&problem))?;
    let before = fsx::load_if_there(&top.join(PATH))?;
    let existing = String::from_utf8_lossy(before.as_deref().unwrap_or_default());
    let settings: toml::Table =
        existing.parse().map_err(|_| unusable(&format!("{PATH} is no TOML")))?;
    if settings.contains_key("messages") {
        let what = format!("{PATH} has [messages] already, and {shown} is taken over once");
        return Err(Error::new(Code::PathExists, what)
            .hint(format!("to take it over again, remove [messages] from {PATH}")));
    }
    let section = section(&config.rules);
    let mut parts: Vec<ProposedPart> = section
        .lines()
        .skip(1)
        .filter_map(|line| line.split_once(" = "))
        .map(|(key, value)| ProposedPart {
            setting: format!("messages.{key}"),
            value: value.to_owned(),
            because: format!("{shown} says so"),
        })
        .collect();
    parts.extend(config.unknown.iter().map(|kind| ProposedPart {
        setting: format!("messages.{kind}"),
        value: "left out".to_owned(),
        because: "there is no such type of messages here".to_owned(),
    }));
    let file = if section.is_empty() {
        section
    } else {
        format!("# Taken over from {shown}, which is not read any more.\n{section}")
    };
    Ok(Proposal { parts, file, before, ..Proposal::default() })
}

/// The kit's file, by its path from the top.
fn found(top: &Path) -> Option<PathBuf> {
    let mut paths = PLACES.iter().map(|place| Path::new(place).join(NAME));
    paths.find(|path| untrusted::read(top, path, MOST_BYTES).is_some())
}
