//! `.config/git-agent.toml`: the settings of a repository, from bytes to a [`SettingsDraft`].
//!
//! | section | keys |
//! |---|---|
//! | `[defaults]` | `role`, `scope`, `deny`, `base`, `timeout`, `no_dep_bump` |
//! | `[bundle]` | `required` |
//! | `[checks]` | `commands`, `min_tests` |
//! | `[setup]` | `copy`, `run` |
//! | `[pool]` | `size` |
//! | `[lease]` | any variable |
//! | `[limits]` | those of [`Limit`] |
//! | `[hooks]` | `after_spawn`, `before_merge`, `after_merge`, `before_discard` |
//! | `[merge]` | `method`, `subject`, `hooks` |
//! | `[train]` | `checks` |
//! | `[messages]` | `active`, `archive_after`, `delete_after`, `require`, and a priority by type |
//! | `[[guard]]` | `branch`, `scope`, `deny` |
//!
//! Unknown sections and keys are problems, so that a slip never passes for a setting.

use super::toml_reader::{ANY, Document, Key, Reader};
use crate::domain::diagnostic::{Problem, Source};
use crate::domain::guard::GuardDraft;
use crate::domain::limits::Limit;
use crate::domain::message::Kind;
use crate::domain::repository_settings::{HookMoment, SettingsDraft};
use crate::domain::task::TaskDraft;
use toml::Spanned;
use toml::de::DeValue;

/// Every key.
const KEYS: &[Key] = &[
    ("defaults", "role"),
    ("defaults", "scope"),
    ("defaults", "deny"),
    ("defaults", "base"),
    ("defaults", "timeout"),
    ("defaults", "no_dep_bump"),
    ("bundle", "required"),
    ("checks", "commands"),
    ("checks", "min_tests"),
    ("setup", "copy"),
    ("setup", "run"),
    ("worktree", "layered"),
    ("pool", "size"),
    ("lease", ANY),
    ("limits", "disk_free"),
    ("limits", "disk"),
    ("limits", "agents"),
    ("limits", "jobs"),
    ("limits", "memory"),
    ("limits", "pids"),
    ("limits", "memory_total"),
    ("limits", "cost"),
    ("limits", "cost_day"),
    ("hooks", "after_spawn"),
    ("hooks", "before_merge"),
    ("hooks", "after_merge"),
    ("hooks", "before_discard"),
    ("merge", "method"),
    ("merge", "subject"),
    ("merge", "hooks"),
    ("train", "checks"),
    ("messages", "active"),
    ("messages", "archive_after"),
    ("messages", "delete_after"),
    ("messages", "require"),
    ("messages", "handoff"),
    ("messages", "review"),
    ("messages", "clarify"),
    ("messages", "escalate"),
    ("messages", "notify"),
    ("messages", "collaborate"),
    ("", GUARD),
];

/// The list of rules for branches that `git agent` did not make.
const GUARD: &str = "guard";

/// The keys of one rule.
const GUARD_KEYS: &[Key] = &[("", "branch"), ("", "scope"), ("", "deny")];

/// The keys as `section.key`, in the order of the documentation. A rule goes by the branches that it is for.
pub fn keys() -> impl Iterator<Item = String> {
    KEYS.iter().map(|(section, key)| match *section {
        "" => format!("{key}.<BRANCH>"),
        section => format!("{section}.{key}"),
    })
}

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
    let mut reader = Reader::new(&document, KEYS);
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
    };
    draft.task.problems = reader.finish(("", &[]));
    draft
}

/// The line of each setting that a file has, as `section.key` and a number from 1.
pub fn lines(bytes: &[u8]) -> Vec<(String, usize)> {
    let text = String::from_utf8_lossy(bytes);
    let document = Document::parse(&text);
    let line = |value: &Spanned<DeValue<'_>>| {
        let before = &text.as_bytes()[..value.span().start];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    };
    let mut lines = Vec::new();
    for (section, key) in KEYS {
        let table = document.root().get(*section).map(|table| table.get_ref());
        let Some(DeValue::Table(table)) = table else {
            continue;
        };
        let found = table
            .iter()
            .filter(|(name, _)| *key == ANY || name.get_ref() == *key);
        for (name, value) in found {
            lines.push((format!("{section}.{}", name.get_ref()), line(value)));
        }
    }
    let rules = document.root().get(GUARD).map(|rules| rules.get_ref());
    if let Some(DeValue::Array(rules)) = rules {
        for rule in rules.iter() {
            if let DeValue::Table(rule) = rule.get_ref()
                && let Some(branch) = rule.get("branch")
                && let DeValue::String(glob) = branch.get_ref()
            {
                lines.push((format!("{GUARD}.{glob}"), line(branch)));
            }
        }
    }
    lines
}
