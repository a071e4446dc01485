//! Documentation that is made from the code. `UPDATE_DOCS=1` rewrites what is out of date.

use crate::support::agent::agent_command;
use git_agent::domain::judge::finding::FindingCode;
use git_agent::wire::file::settings_file::{self, KnownSetting};
use std::collections::HashMap;
use std::env;
use std::fs;

/// Compares a file of the repository with what it has to hold, or writes it where `UPDATE_DOCS` is set.
pub fn up_to_date(name: &str, expected: &str) {
    let path = super::root().join(name);
    let found = fs::read_to_string(&path).unwrap_or_default();
    if found == expected {
        return;
    }
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        return fs::write(&path, expected).expect("the page is written");
    }
    let differs = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    panic!(
        "{name} is out of date; run UPDATE_DOCS=1 cargo test --locked --test suite -- docs:: readme:: schema:: the_documentation\n\
         the first difference is {differs:#?}"
    );
}

/// Compares the table of a page that begins with `head` with these rows, or writes it.
pub fn table_up_to_date(name: &str, head: &str, rows: &str) {
    let page = fs::read_to_string(super::root().join(name)).expect("the page");
    let (before, rest) = page.split_once(head).expect("the head of the table");
    let old = rest.split_inclusive('\n');
    let old: usize = old.take_while(|line| line.starts_with('|')).map(str::len).sum();
    up_to_date(name, &format!("{before}{head}{rows}{}", &rest[old..]));
}

/// The reference of all commands, relative to the repository.
pub const COMMANDS: &str = "docs/commands.md";

/// What stands above the reference.
const COMMANDS_HEAD: &str = "\
# Commands

Every command with what it takes, as `git agent help <command>` prints it. This page is made from the program; what commands are for, and how they work
together, is on the pages that [start.md](start.md#where-to-go-next) names.

Earlier names of what is now part of another command keep working, with the same answers: `ps` is `list --runs`, `log` and `logs` are `show --log` and
`show --output`, `done`, `fail`, `reject` and `defer` stand below `mark`, `ledger` and `hooks` below `doctor`, `config` and `pool` below `setup`, and
`install-shell` is `setup shell`.
";

#[test]
fn every_command_is_in_the_reference() {
    let help = |words: &[&str]| -> String {
        let nowhere = tempfile::tempdir().expect("temporary directory");
        let mut command = agent_command(nowhere.path());
        let output = command.arg("help").args(words).output().expect("starts");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let mut commands = crate::shell::commands();
    commands.sort();
    let mut page = COMMANDS_HEAD.to_owned();
    for line in help(&["--all"]).lines() {
        let title = line.strip_suffix(':').filter(|title| !title.starts_with(' '));
        if let Some(title) = title {
            page.push_str(&format!("\n## To {title}\n"));
        }
        let verb = line.strip_prefix("  ").and_then(|row| row.split(' ').next());
        if let Some(verb) = verb.filter(|verb| !verb.is_empty()) {
            // What stands below a verb, such as `mark done`, follows it.
            let paths = commands.iter().filter(|path| path[0] == verb);
            for path in paths {
                let words: Vec<_> = path.iter().map(String::as_str).collect();
                let (title, text) = (words.join(" "), help(&words));
                page.push_str(&format!("\n### {title}\n\n```text\n{}\n```\n", text.trim_end()));
            }
        }
    }
    up_to_date(COMMANDS, &page);
}

const FINDINGS: &str = "docs/findings.md";
const HEAD: &str = "| code | severity | what it means | what to do |\n|---|---|---|---|\n";

/// What the page advises for each code: the one column that is written by hand.
fn advice(page: &str) -> HashMap<&str, &str> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.trim_matches(['|', ' ']).split(" | "));
    cells
        .filter_map(|mut cells| {
            let code = cells.next()?.trim_matches('`');
            Some((code, cells.nth(2)?))
        })
        .collect()
}

#[test]
fn every_setting_has_a_row() {
    let rows = |settings: &[KnownSetting]| {
        let row =
            |one: &KnownSetting| format!("| `{}` | {} | {} |\n", one.key, one.default, one.about);
        settings.iter().map(row).collect::<String>()
    };
    let page = "docs/settings.md";
    let head = |word: &str| format!("| {word} | default | what it does |\n|---|---|---|\n");
    table_up_to_date(page, &head("key"), &rows(&settings_file::repository_settings()));
    table_up_to_date(page, &head("setting"), &rows(&settings_file::git_settings()));
}

#[test]
fn every_finding_has_a_row_that_says_what_to_do() {
    let page = fs::read_to_string(super::root().join(FINDINGS)).expect("the page of findings");
    let advice = advice(&page);
    let mut rows = String::new();
    let mut missing = Vec::new();
    for code in FindingCode::ALL {
        let advice = advice.get(code.name()).copied().unwrap_or_default();
        let (severity, meaning) = (code.severity().as_str(), code.meaning());
        rows.push_str(&format!("| `{code}` | {severity} | {meaning} | {advice} |\n"));
        if advice.trim().is_empty() {
            missing.push(code.name());
        }
    }
    table_up_to_date(FINDINGS, HEAD, &rows);
    assert!(
        missing.is_empty(),
        "{FINDINGS}: write into the last column what to do about {missing:?}"
    );
}
