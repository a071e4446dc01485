//! `.config/git-agent.toml`: the settings of a repository, from bytes to a [`SettingsDraft`].
//!
//! Each key is declared once, in `settings.txt`: the reader, `config` and the documentation take it from there.
//!
//! Unknown sections and keys are problems, so that a slip never passes for a setting.

use super::toml_reader::{ANY, Document, Key, TomlReader, whole};
use crate::domain::boundary::guard::GuardDraft;
use crate::domain::mail::message::Kind;
use crate::domain::settings::project::ProjectDraft;
use crate::domain::settings::repository_settings::{HookMoment, SettingsDraft};
use crate::domain::value::diagnostic::{Problem, Source};
use crate::domain::{Limit, TaskDraft};
use serde::Serialize;
use toml::Spanned;
use toml::de::DeValue;

/// The settings of a repository and, after an empty line, those of git's configuration: key, default and meaning of each.
const TABLE: &str = include_str!("settings.txt");

/// What is known of a setting without a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSetting {
    /// `section.key` of the settings file, or the key of git's configuration.
    pub key: &'static str,
    /// What holds where it is not set.
    pub default: &'static str,
    /// What it does, in one sentence.
    pub about: &'static str,
}

/// The settings of a repository, in `.config/git-agent.toml`, in the order of the documentation.
pub fn repository_settings() -> Vec<KnownSetting> {
    let rows = TABLE.lines().take_while(|row| !row.is_empty());
    rows.filter_map(known_setting).collect()
}

/// The settings of a person or a clone, in git's configuration.
pub fn git_settings() -> Vec<KnownSetting> {
    let rows = TABLE.lines().skip_while(|row| !row.is_empty());
    rows.filter_map(known_setting).collect()
}

fn known_setting(row: &'static str) -> Option<KnownSetting> {
    let mut cells = row.split(" | ");
    Some(KnownSetting { key: cells.next()?, default: cells.next()?, about: cells.next()? })
}

/// The keys that a settings file may have. Rules for branches are no section but a list at its top.
fn file_keys() -> Vec<Key> {
    let keys = repository_settings().into_iter();
    let keys = keys.filter_map(|setting| setting.key.split_once('.'));
    keys.map(|(section, key)| match section {
        GUARD => ("", GUARD),
        PROJECT => ("", PROJECT),
        _ => (section, key),
    })
    .collect()
}

/// The list of rules for branches that `git agent` did not make.
const GUARD: &str = "guard";

/// The keys of one rule.
const GUARD_KEYS: &[Key] = &[("", "branch"), ("", "scope"), ("", "deny")];

/// The list of the projects of a repository.
const PROJECT: &str = "project";

/// The keys of one project.
const PROJECT_KEYS: &[Key] =
    &[("", "path"), ("", "depends"), ("setup", "copy"), ("setup", "run"), ("checks", "commands")];

/// Reads a settings file. `name` is what its messages call it. Never fails: what is wrong with the bytes is
/// among the problems of the draft.
pub fn parse(name: &str, bytes: &[u8]) -> SettingsDraft {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            let problem = Problem::at(at..at + 1, "the file is not UTF-8 from here on")
                .help("save it as UTF-8");
            let source = Source::new(name, String::from_utf8_lossy(bytes));
            return SettingsDraft {
                task: TaskDraft::unreadable(source, problem),
                ..SettingsDraft::default()
            };
        }
    };
    let document = Document::parse(text);
    let mut source = Source::new(name, text);
    document.hide_secrets(&mut source);
    let keys = file_keys();
    let mut reader = TomlReader::new(&document, &keys);
    let mut draft = SettingsDraft {
        task: TaskDraft {
            source,
            role: reader.string(("defaults", "role")),
            whitelist: reader.strings(("defaults", "scope")),
            denylist: reader.strings(("defaults", "deny")),
            base: reader.string(("defaults", "base")),
            timeout: reader.string(("defaults", "timeout")),
            bundle_required: reader.boolean(("bundle", "required")),
            checks: reader.strings(("checks", "commands")),
            min_tests: reader.integer(("checks", "min_tests")),
            no_dep_bump: reader.boolean(("defaults", "no_dep_bump")),
            setup_copy: reader.strings(("setup", "copy")),
            setup_run: reader.strings(("setup", "run")),
            ..TaskDraft::default()
        },
        merge_method: reader.string(("merge", "method")),
        merge_subject: reader.string(("merge", "subject")),
        merge_hooks: reader.strings(("merge", "hooks")),
        layered: reader.string(("worktree", "layered")),
        pool_size: reader.integer(("pool", "size")),
        train_checks: reader.strings(("train", "checks")),
        leases: reader.texts_of("lease"),
        limits: Limit::ALL
            .into_iter()
            .map(|limit| (limit, reader.amount(("limits", limit.as_str()))))
            .collect(),
        hooks: HookMoment::ALL
            .into_iter()
            .map(|moment| (moment, reader.strings(("hooks", moment.as_str()))))
            .collect(),
        active: reader.integer(("messages", "active")),
        archive_after: reader.string(("messages", "archive_after")),
        delete_after: reader.string(("messages", "delete_after")),
        message_fields: reader.strings(("messages", "require")),
        priorities: Kind::ALL
            .into_iter()
            .map(|kind| (kind, reader.string(("messages", kind.as_str()))))
            .collect(),
        guards: reader.tables(GUARD, GUARD_KEYS, |rule, span| GuardDraft {
            branch: rule.string(("", "branch")),
            scope: rule.strings(("", "scope")),
            deny: rule.strings(("", "deny")),
            span,
        }),
        projects: reader.tables(PROJECT, PROJECT_KEYS, |project, span| ProjectDraft {
            path: project.string(("", "path")),
            depends: project.strings(("", "depends")),
            setup_copy: project.strings(("setup", "copy")),
            setup_run: project.strings(("setup", "run")),
            checks: project.strings(("checks", "commands")),
            span,
        }),
        reuse: reader.string(("checks", "reuse")),
    };
    // There is no other form of this file whose keys could be meant.
    draft.task.problems = reader.finish(("", &[]));
    draft
}

/// A value in the type that the setting has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum SettingValue {
    /// Yes or no.
    Flag(bool),
    /// A text.
    Text(String),
    /// Several texts.
    List(Vec<String>),
}

impl SettingValue {
    /// As it is written in the file; a number is a text. `None` for what no setting is.
    fn written(value: &DeValue<'_>) -> Option<SettingValue> {
        Some(match value {
            DeValue::Boolean(truth) => SettingValue::Flag(*truth),
            // The limits allow a number and a number with its unit, so both are told alike.
            DeValue::Integer(number) => SettingValue::Text(whole(number)?.to_string()),
            DeValue::String(text) => SettingValue::Text(text.to_string()),
            DeValue::Array(items) => {
                let texts = items.iter().filter_map(|item| item.get_ref().as_str());
                SettingValue::List(texts.map(str::to_owned).collect())
            }
            _ => return None,
        })
    }
}

/// A setting that a file has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetKey {
    /// `section.key`. A rule goes by the branches that it is for.
    pub key: String,
    /// The line that it is on, from 1.
    pub line: usize,
    /// Its value; `None` for a rule.
    pub value: Option<SettingValue>,
}

/// The settings that a file has.
pub fn set_keys(bytes: &[u8]) -> Vec<SetKey> {
    let text = String::from_utf8_lossy(bytes);
    let document = Document::parse(&text);
    let set_key = |key: String, value: &Spanned<DeValue<'_>>| {
        let before = text.bytes().take(value.span().start);
        SetKey {
            key,
            line: before.filter(|byte| *byte == b'\n').count() + 1,
            value: SettingValue::written(value.get_ref()),
        }
    };
    let mut set = Vec::new();
    for (section, key) in file_keys() {
        let table = document.root().get(section).map(|table| table.get_ref());
        let Some(DeValue::Table(table)) = table else {
            continue;
        };
        // A section that takes any key lists those that are there.
        let found = table.iter().filter(|(name, _)| key == ANY || name.get_ref() == key);
        set.extend(found.map(|(name, value)| {
            let key = format!("{section}.{}", name.get_ref());
            set_key(key, value)
        }));
    }
    for (list, named_by) in [(GUARD, "branch"), (PROJECT, "path")] {
        let tables = document.root().get(list).map(|tables| tables.get_ref());
        let Some(DeValue::Array(tables)) = tables else {
            continue;
        };
        for table in tables.iter() {
            if let DeValue::Table(table) = table.get_ref()
                && let Some(key) = table.get(named_by)
                && let DeValue::String(name) = key.get_ref()
            {
                set.push(set_key(format!("{list}.{name}"), key));
            }
        }
    }
    set
}
