//! `task.toml`: from bytes to a [`TaskDraft`], whatever the bytes are.
//!
//! Two forms are accepted. The **plain form** has `role` and `task` (a string) on top; the **kit form** is
//! that of an older tool and has a `[task]` table and the text in `[body]`:
//!
//! | plain form | kit form |
//! |---|---|
//! | `role`, `task` | `[task] role`, `[body] text` |
//! | `name`, `parent` | `[task] agent-id`, `parent-agent` |
//! | `[scope] whitelist`, `denylist` | `[scope] files-whitelist`, `files-denylist` |
//! | `[checks] commands` | `[verification] cargo-check-crates`, `cargo-test-crates`: one `cargo check -p` or `cargo test -p` each |
//! | `[checks] min_tests`, `[scope] no_dep_bump` | `[verification] test-count-min`, `no-dep-bump` |
//! | `[output] fields` | `[output] report-fields-required` |
//! | `base`, `description`, `model`, `briefing`, `system_prompt`, `profile`, `max_iterations` | |
//! | `[bundle] required`, `[output] file`, `allow_overwrite`, `[setup] copy`, `run`, `[run] timeout`, `[limits] cost` | |
//!
//! A file has one form: keys of the other one are problems. Comments are comments, also the
//! header that says not to edit the file by hand.
//!
//! Credentials are refused in every text but `briefing`, which is handed to the agent and never recorded.
//! Lines of the briefing are therefore never shown either.

use crate::domain::value::diagnostic::{Field, Located, Problem, Source};
use crate::domain::value::named::hex;
use crate::domain::work::task::COMMAND_LINE;
use crate::domain::{TaskDraft, value::shell};
use crate::error::{Code, Error, Remedy};
use crate::wire::file::toml_reader::{Document, Key, TomlReader};
use sha2::{Digest, Sha256};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use toml::de::DeValue;

/// The keys that are handed to the agent alone.
const CONFIDENTIAL: [&str; 2] = ["briefing", "system_prompt"];

/// The most bytes of a task file. A reader may stop after one more.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Reads a task file. `name` is its path as given, or `<stdin>`. Never fails: what is wrong with the bytes
/// is among the problems of the draft.
pub fn parse(name: &str, bytes: &[u8]) -> TaskDraft {
    // Before anything is parsed: the length is what bounds the work of a parser that never gives
    // up.
    if bytes.len() > MAX_BYTES {
        let problem = Problem::of_file("the file is larger than 1 MiB")
            .help("a task is up to 4000 characters of text and some settings");
        return TaskDraft::unreadable(Source::new(name, ""), problem);
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let at = error.valid_up_to();
            let problem = Problem::at(at..at + 1, "the file is not UTF-8 from here on")
                .help("save it as UTF-8");
            let mut source = Source::new(name, String::from_utf8_lossy(bytes));
            // Bytes that are no UTF-8 are not parsed, so where the briefing ends is not known.
            hide_lost_briefing(&mut source);
            return TaskDraft::unreadable(source, problem);
        }
    };
    let document = Document::parse(text);
    let mut source = Source::new(name, text);
    // First of all, so that no problem below can quote a line that holds one.
    document.hide_secrets(&mut source);
    if let Some(briefing) = document.root().get("briefing") {
        source.hide(briefing.span());
    }
    if !document.syntax().is_empty() {
        hide_lost_briefing(&mut source);
    }
    if is_kit(&document) { read(&document, source) } else { read_plain(&document, source) }
}

/// What the command line says of a task instead of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskWords {
    /// The task text.
    pub text: String,
    /// The role's name.
    pub role: Option<String>,
    /// Globs that may be touched.
    pub scope: Vec<String>,
    /// Globs that may not.
    pub deny: Vec<String>,
    /// Commands for `verify`.
    pub checks: Vec<String>,
    /// Globs among those that need not match anything yet.
    pub new: Vec<String>,
    /// Whether the bundle is required.
    pub bundle: Option<bool>,
    /// The agent that asks for it.
    pub parent: Option<String>,
    /// The revision to start from.
    pub base: Option<String>,
}

/// Writes the task file that says the same and reads it, so that there is one reader. Where neither the words nor the
/// repository name a role, it is `edit-local`.
pub fn of_words(words: &TaskWords) -> TaskDraft {
    let list = |globs: &[String]| toml::Value::from(globs.to_vec());
    let mut file = toml::Table::new();
    let role = words.role.as_deref().map(toml::Value::from);
    file.extend(role.map(|role| ("role".to_owned(), role)));
    let more = [("parent", &words.parent), ("base", &words.base)];
    for (key, value) in more {
        let value = value.as_deref().map(toml::Value::from);
        file.extend(value.map(|value| (key.to_owned(), value)));
    }
    file.insert("task".to_owned(), words.text.as_str().into());
    let mut section = |name: &str, keys: Vec<(&str, toml::Value)>| {
        if !keys.is_empty() {
            let keys = keys.into_iter().map(|(key, value)| (key.to_owned(), value));
            file.insert(name.to_owned(), toml::Table::from_iter(keys).into());
        }
    };
    let mut scope = Vec::new();
    if !words.scope.is_empty() {
        scope.push(("whitelist", list(&words.scope)));
    }
    if !words.deny.is_empty() {
        scope.push(("denylist", list(&words.deny)));
    }
    section("scope", scope);
    // A list that is absent leaves the settings of the repository in force; an empty one would
    // override them.
    let checks = (!words.checks.is_empty()).then(|| ("commands", list(&words.checks)));
    section("checks", checks.into_iter().collect());
    let required = words.bundle.map(|required| ("required", required.into()));
    section("bundle", required.into_iter().collect());
    TaskDraft {
        fallback_role: Some(FALLBACK_ROLE.to_owned()),
        is_typed: true,
        new_globs: words.new.clone(),
        ..parse(COMMAND_LINE, file.to_string().as_bytes())
    }
}

/// The role of a task that the command line says without one.
const FALLBACK_ROLE: &str = "edit-local";

/// A task file in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parted {
    /// The briefing and the system prompt, as far as there are any.
    pub confidential: Vec<String>,
    /// The file without them. Its comments are gone too where it had any of them, because a comment may repeat them.
    pub rest: Vec<u8>,
}

/// Takes what is confidential out of a task file. Of bytes that are no TOML all is confidential.
pub fn without_confidential(bytes: &[u8]) -> Parted {
    let text = String::from_utf8_lossy(bytes);
    // The strict parser: what the tolerant one leaves out of a broken file could be the
    // confidential part.
    let Ok(mut table) = text.trim_start_matches('\u{feff}').parse::<toml::Table>() else {
        return Parted { confidential: vec![text.into_owned()], rest: Vec::new() };
    };
    let taken = CONFIDENTIAL.iter().filter_map(|key| table.remove(*key));
    let text_of = |value: toml::Value| match value {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    let confidential: Vec<String> = taken.map(text_of).collect();
    let rest = if confidential.is_empty() {
        // Unchanged to the byte, so that the digest is that of the file which the user has.
        bytes.to_vec()
    } else {
        table.to_string().into_bytes()
    };
    Parted { confidential, rest }
}

/// SHA-256 of a task file without what it says in confidence, in hex: the same before and after that is deleted.
pub fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(without_confidential(bytes).rest))
}

/// Whether a path may as well be a task in one word: what has two is taken for a task, and what has an ending or a directory for a file.
fn is_word(path: &Path) -> bool {
    path.extension().is_none() && path.components().count() == 1
}

/// The error of a task file that could not be read at all, one of several `words` where there are more.
pub fn unreadable(path: &Path, words: &[PathBuf], cause: &io::Error) -> Error {
    let error =
        Error::new(Code::TaskUnreadable, format!("could not read task file {}", path.display()))
            .because(cause.to_string());
    let directory = path.parent().unwrap_or(Path::new(""));
    // A directory that is far away is not the one that `mkdir tasks` makes.
    let above = directory.parent().unwrap_or(directory);
    let can_be_made = above.as_os_str().is_empty() || above.is_dir();
    if directory.ends_with("tasks") && !directory.is_dir() && can_be_made {
        return error.hint(
            "to make the directory for task files, run mkdir tasks && git add tasks/.gitkeep",
        );
    }
    match cause.kind() {
        io::ErrorKind::IsADirectory => error.hint("name a file, or `-` for standard input"),
        io::ErrorKind::NotFound if is_word(path) => {
            // What is no file and holds white space is a task as it is.
            let words: Vec<_> = words.iter().map(|word| word.as_os_str().as_bytes()).collect();
            let (purpose, task) = match words.as_slice() {
                [] | [_] => {
                    let word = shell::word(path.as_os_str().as_bytes());
                    ("for a task of one word", format!("-m {word}"))
                }
                several => {
                    let text = several.join(&b' ');
                    ("for a task of several words", shell::word(&text))
                }
            };
            error.remedy(purpose, Remedy::SpawnFrom(task.into()))
        }
        io::ErrorKind::NotFound => {
            error.remedy("for a task without a file", Remedy::SpawnFrom("\"<task>\"".into()))
        }
        _ => error.remedy("for a task on standard input", Remedy::SpawnFrom("-".into())),
    }
}

/// Where a broken file mentions a briefing, how far it reaches is unknown.
fn hide_lost_briefing(source: &mut Source) {
    if let Some(start) = source.text().find("briefing") {
        source.hide(start..source.text().len());
    }
}

fn is_kit(document: &Document<'_>) -> bool {
    let root = document.root();
    // `task` is a text in one form and a table in the other. Without it only the other form has a
    // `body`.
    match root.get("task").map(|task| task.get_ref()) {
        Some(DeValue::Table(_)) => true,
        Some(_) => false,
        None => !root.contains_key("role") && root.contains_key("body"),
    }
}

// The form of the older kit.

/// Every key of this form.
const KEYS: &[Key] = &[
    ("task", "role"),
    ("task", "agent-id"),
    ("task", "parent-agent"),
    ("scope", "files-whitelist"),
    ("scope", "files-denylist"),
    ("verification", "cargo-check-crates"),
    ("verification", "cargo-test-crates"),
    ("verification", "test-count-min"),
    ("verification", "no-dep-bump"),
    ("output", "report-fields-required"),
    ("body", "text"),
];

fn read(document: &Document<'_>, source: Source) -> TaskDraft {
    let mut reader = TomlReader::new(document, KEYS);
    let mut problems = Vec::new();
    let checked = reader.strings(("verification", "cargo-check-crates"));
    let tested = reader.strings(("verification", "cargo-test-crates"));
    let mut checks = commands("cargo check -p", &checked, &mut problems);
    checks.extend(commands("cargo test -p", &tested, &mut problems));
    // Both lists become one, and a problem with it can point to one place only.
    let span = span_of(&checked).or(span_of(&tested)).unwrap_or_default();
    let mut draft = TaskDraft {
        source,
        report_fields: reader.strings(("output", "report-fields-required")),
        min_tests: reader.integer(("verification", "test-count-min")),
        no_dep_bump: reader.boolean(("verification", "no-dep-bump")),
        role: reader.string(("task", "role")),
        name: reader.string(("task", "agent-id")),
        parent: reader.string(("task", "parent-agent")),
        whitelist: reader.strings(("scope", "files-whitelist")),
        denylist: reader.strings(("scope", "files-denylist")),
        checks: Field::Given(Located { value: checks, span }),
        text: reader.string(("body", "text")),
        ..TaskDraft::default()
    };
    draft.problems = reader.finish(("plain", PLAIN_KEYS));
    draft.problems.append(&mut problems);
    draft
}

fn span_of<T>(field: &Field<T>) -> Option<Range<usize>> {
    field.given().map(|located| located.span.clone())
}

/// One command for each crate. The name goes into a shell command, so it is held to cargo's rule.
fn commands(
    command: &str,
    crates: &Field<Vec<Located<String>>>,
    problems: &mut Vec<Problem>,
) -> Vec<Located<String>> {
    let mut commands = Vec::new();
    for name in crates.given().map(|list| list.value.as_slice()).unwrap_or_default() {
        let span = name.span.clone();
        if is_crate_name(&name.value) {
            let value = format!("{command} {}", name.value);
            commands.push(Located { value, span });
        } else {
            let message = format!("`{}` is no crate name", name.value);
            problems.push(Problem::at(span, message));
        }
    }
    commands
}

fn is_crate_name(name: &str) -> bool {
    // Cargo could take a name that begins with a dash for an option.
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
}

// The plain form of a task file.

/// Every key of this form.
const PLAIN_KEYS: &[Key] = &[
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

fn read_plain(document: &Document<'_>, source: Source) -> TaskDraft {
    let mut reader = TomlReader::new(document, PLAIN_KEYS);
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
        problems: reader.finish(("kit", KEYS)),
        ..TaskDraft::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_without_its_briefing_is_the_same_task() {
        let source = "role = \"edit-local\"\nbriefing = \"\"\"\nsay \\\"x\\\"\n\"\"\"\n# x\ntask = \"Do [it] now.\"\n\
                      system_prompt = 'slow'\n[scope]\nwhitelist = [\"src/**\"]\n";
        let parted = without_confidential(source.as_bytes());
        assert_eq!(parted.confidential, ["say \"x\"\n", "slow"]);
        let rest = String::from_utf8(parted.rest).expect("UTF-8");
        assert!(!rest.contains('x') && !rest.contains("slow"), "{rest}");
        let draft = parse("task.toml", rest.as_bytes());
        let text = draft.text.given().map(|text| text.value.as_str());
        assert_eq!(text, Some("Do [it] now."));
        assert!(draft.problems.is_empty(), "{:?}", draft.problems);
    }

    #[test]
    fn a_task_without_anything_confidential_stays_as_it_is() {
        let source = b"# a comment\nrole = 'edit-local'\n";
        assert_eq!(without_confidential(source).rest, source);
        assert!(without_confidential(b"role = ").rest.is_empty());
    }
}
