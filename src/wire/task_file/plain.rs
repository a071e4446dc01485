//! The plain form of a task file.

use super::super::toml_reader::{Document, Key, Reader};
use super::kit;
use crate::domain::diagnostic::Source;
use crate::domain::task::TaskDraft;

/// Every key of this form.
pub(super) const KEYS: &[Key] = &[
    ("", "role"),
    ("", "task"),
    ("", "name"),
    ("", "parent"),
    ("", "base"),
    ("", "description"),
    ("", "model"),
    ("", "briefing"),
    ("", "system_prompt"),
    ("", "profile"),
    ("", "max_iterations"),
    ("scope", "whitelist"),
    ("scope", "denylist"),
    ("scope", "no_dep_bump"),
    ("checks", "commands"),
    ("checks", "min_tests"),
    ("bundle", "required"),
    ("output", "file"),
    ("output", "allow_overwrite"),
    ("output", "fields"),
    ("setup", "copy"),
    ("setup", "run"),
    ("run", "timeout"),
    ("limits", "cost"),
];

pub(super) fn read(document: &Document<'_>, source: Source) -> TaskDraft {
    let mut reader = Reader::new(document, KEYS);
    TaskDraft {
        source,
        role: reader.string(("", "role")),
        text: reader.string(("", "task")),
        name: reader.string(("", "name")),
        parent: reader.string(("", "parent")),
        base: reader.string(("", "base")),
        description: reader.string(("", "description")),
        model: reader.string(("", "model")),
        briefing: reader.string(("", "briefing")),
        system_prompt: reader.string(("", "system_prompt")),
        profile: reader.string(("", "profile")),
        max_iterations: reader.integer(("", "max_iterations")),
        whitelist: reader.strings(("scope", "whitelist")),
        denylist: reader.strings(("scope", "denylist")),
        no_dep_bump: reader.boolean(("scope", "no_dep_bump")),
        checks: reader.strings(("checks", "commands")),
        min_tests: reader.integer(("checks", "min_tests")),
        bundle_required: reader.boolean(("bundle", "required")),
        output_file: reader.string(("output", "file")),
        output_overwrite: reader.boolean(("output", "allow_overwrite")),
        report_fields: reader.strings(("output", "fields")),
        setup_copy: reader.strings(("setup", "copy")),
        setup_run: reader.strings(("setup", "run")),
        timeout: reader.string(("run", "timeout")),
        max_cost: reader.number(("limits", "cost")),
        problems: reader.finish(("kit", kit::KEYS)),
        ..TaskDraft::default()
    }
}
