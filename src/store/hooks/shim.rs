//! The texts of the shims, as `hooks/git/` has them, with the one thing filled in that differs: the
//! program they run.

use crate::domain::shell;
use std::path::Path;

/// For every hook.
const GENERAL: &str = include_str!("../../../hooks/git/shim");
/// For `reference-transaction`, where the repository has none of its own.
const TRANSACTION: &str = include_str!("../../../hooks/git/reference-transaction");

/// The version in the second line of every shim; it grows whenever a text changes.
pub const VERSION: u32 = 3;

/// Where the settings of the configuration's route begin.
pub(super) const SECTION: &str = "hook.git-agent-";

const PROGRAM: &str = "program=";
const PLACE: &str = "@program@";

/// A setting of one event's hook. Each event has a hook of its own, because git does not tell a hook
/// which event it runs for.
pub(super) fn key(event: &str, name: &str) -> String {
    format!("{SECTION}{event}.{name}")
}

/// The shim that runs `program`.
pub(super) fn text(transaction: bool, program: &Path) -> String {
    template(transaction).replace(PLACE, &quote(program))
}

fn template(transaction: bool) -> &'static str {
    if transaction { TRANSACTION } else { GENERAL }
}

/// What an installed shim is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// One of ours, as this version writes it, and the program it runs.
    Ours {
        /// Whether it is the one for `reference-transaction` alone.
        transaction: bool,
        /// What it runs.
        program: String,
    },
    /// One of ours, of another version.
    Version(u32),
    /// Anything else.
    Foreign,
}

/// Recognises an installed shim by every byte of it but the program's path.
pub(super) fn recognise(text: &str) -> Found {
    let program = text
        .lines()
        .find_map(|line| line.strip_prefix(PROGRAM))
        .unwrap_or_default();
    for transaction in [false, true] {
        if !program.is_empty() && template(transaction).replace(PLACE, program) == text {
            return Found::Ours {
                transaction,
                program: unquote(program),
            };
        }
    }
    let version = text
        .split_once("git-agent git hook, version ")
        .and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
    match version {
        Some(version) if version != VERSION => Found::Version(version),
        _ => Found::Foreign,
    }
}

/// A path as one word of sh.
pub(super) fn quote(path: &Path) -> String {
    shell::quoted(&path.to_string_lossy())
}

fn unquote(word: &str) -> String {
    word.trim_matches('\'').replace(r"'\''", "'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shims_carry_the_version_and_one_place() {
        for template in [GENERAL, TRANSACTION] {
            let second = template.lines().nth(1).expect("a second line");
            assert!(
                second.starts_with(&format!("# git-agent git hook, version {VERSION}.")),
                "{second}"
            );
            assert_eq!(template.matches(PLACE).count(), 1);
        }
    }

    #[test]
    fn shims_are_recognised_by_their_bytes() {
        let program = Path::new("/opt/it's here/git-agent");
        for transaction in [false, true] {
            let text = text(transaction, program);
            let expected = Found::Ours {
                transaction,
                program: program.display().to_string(),
            };
            assert_eq!(recognise(&text), expected);
            assert_eq!(recognise(&text.replace("exit 1", "exit 0")), Found::Foreign);
            assert_eq!(
                recognise(&text.replace(&format!("version {VERSION}."), "version 7.")),
                Found::Version(7)
            );
        }
        assert_eq!(recognise("#!/bin/sh\nexit 0\n"), Found::Foreign);
    }
}
