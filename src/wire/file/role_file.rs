//! A role file: `roles/<name>.toml`, read into a draft.
//!
//! ```toml
//! extends = "edit-local"            # a built-in role or another file
//! relaxes = ["dist/**"]             # inherited denylist globs, "edits", "shell", "may_spawn"
//! description = "Builds the site"
//! subagent_type = "code-implementer"
//! isolation = "worktree"            # or "shared"
//! spawnable = true
//! edits = true
//! shell = "test-runners"            # or "none", "read-only", "any"
//! may_spawn = false
//! default_denylist = ["docs/**"]    # united with what is inherited
//! preamble = "Keep the links working."
//! [pipeline]
//! handoff = "auditor"
//! [report]                          # what its agents have to report; adds to what is inherited
//! required = ["verdict", "audited-agent", "body-sha", "findings"]
//! tags = ["HIGH", "LOW"]            # one in brackets at each of the `findings`
//! values.verdict = ["PASS", "FAIL"]
//! names.audited-agent = "agent"     # or "tip" of that agent, or "commit" that holds its work
//! names.body-sha = "tip"
//! audit = "verdict"                 # the field whose FAIL stands against that agent
//! ```
//!
//! Every key is optional. The name is the file's, so that two files cannot claim one role. Only the
//! form is judged here; what the keys mean together is for [`crate::domain::work::role`].

use crate::domain::work::role::{RoleDraft, Shell};
use crate::domain::{Glob, Isolation, ReportRules};
use crate::wire::file::toml_reader::position;
use crate::wire::output::answer::ReportTable;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleFile {
    extends: Option<String>,
    #[serde(default)]
    relaxes: Vec<String>,
    #[serde(alias = "subagent-type")]
    subagent_type: Option<String>,
    isolation: Option<Spanned<String>>,
    spawnable: Option<bool>,
    edits: Option<bool>,
    shell: Option<Spanned<String>>,
    #[serde(alias = "may-spawn")]
    may_spawn: Option<bool>,
    #[serde(default, alias = "default-denylist")]
    default_denylist: Vec<Spanned<String>>,
    description: Option<String>,
    preamble: Option<String>,
    #[serde(default)]
    pipeline: Pipeline,
    report: Option<Spanned<ReportTable>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pipeline {
    handoff: Option<String>,
}

/// Reads a role file. `path` is its place in the commit, for messages; `data` is its content.
///
/// # Errors
/// Every problem of its form, each as `path:line:column: what is wrong`.
pub fn parse(name: &str, path: &str, data: &[u8]) -> Result<RoleDraft, Vec<String>> {
    let text = std::str::from_utf8(data).map_err(|error| {
        vec![format!("{path}: it is not UTF-8 at byte {}", error.valid_up_to() + 1)]
    })?;
    // Editors on Windows write a mark of the byte order. It is no part of the text, and columns
    // count from behind it.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let at = |span: Range<usize>, message: &str| {
        let (line, column) = position(text, span.start);
        format!("{path}:{line}:{column}: {message}")
    };
    let file: RoleFile = toml::from_str(text).map_err(|error| {
        let message = error.message().replace('\n', ": ");
        vec![at(error.span().unwrap_or(0..0), &message)]
    })?;

    // From here on all problems are gathered, so that a role is mended in one round.
    let mut problems = Vec::new();
    let isolation = file.isolation.as_ref().and_then(|word| {
        let isolation = Isolation::parse(word.get_ref());
        if isolation.is_none() {
            problems.push(at(word.span(), "`isolation` is \"worktree\" or \"shared\""));
        }
        isolation
    });
    let shell = file.shell.as_ref().and_then(|word| {
        let shell = Shell::parse(word.get_ref());
        if shell.is_none() {
            let levels = Shell::ALL.map(Shell::as_str).join("\", \"");
            problems.push(at(word.span(), &format!("`shell` is one of \"{levels}\"")));
        }
        shell
    });
    let mut default_denylist = Vec::new();
    for text in &file.default_denylist {
        match Glob::parse(text.get_ref()) {
            Ok(glob) => default_denylist.push(glob),
            Err(problem) => problems.push(at(text.span(), &problem)),
        }
    }
    let report = file.report.as_ref().map(|table| {
        let rules = table.get_ref().rules();
        rules.unwrap_or_else(|problem| {
            problems.push(at(table.span(), &problem));
            // It stands in only until the problems below end the reading.
            ReportRules::default()
        })
    });
    // A role that is half understood may allow more than it says, so nothing of it is used.
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(RoleDraft {
        name: name.to_owned(),
        path: path.to_owned(),
        extends: file.extends,
        relaxes: file.relaxes,
        subagent_type: file.subagent_type,
        isolation,
        spawnable: file.spawnable,
        edits: file.edits,
        shell,
        may_spawn: file.may_spawn,
        default_denylist,
        handoff: file.pipeline.handoff,
        description: file.description,
        preamble: file.preamble,
        report: report.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_name_file_line_and_column() {
        let check = |text: &[u8], expected: &[&str]| {
            let problems = parse("x", "roles/x.toml", text).expect_err("invalid");
            assert_eq!(problems.len(), expected.len(), "{problems:?}");
            for (problem, start) in problems.iter().zip(expected) {
                assert!(problem.starts_with(start), "{problem}\nis not\n{start}");
            }
        };
        check(
            b"extends = \"explorer\"\nextend = 1\n",
            &["roles/x.toml:2:1: unknown field `extend`, expected one of `extends`"],
        );
        check(
            b"spawnable = \"yes\"",
            &["roles/x.toml:1:13: invalid type: string \"yes\", expected a boolean"],
        );
        check(b"[pipeline]\nnext = \"x\"", &["roles/x.toml:2:1: unknown field `next`"]);
        check(b"[report]\nrequires = []", &["roles/x.toml:2:1: unknown field `requires`"]);
        check(
            b"[report]\nnames.tip = \"sha\"",
            &["roles/x.toml:1:1: `report.names.tip` is \"agent\", \"tip\" or \"commit\""],
        );
        check(b"edits = ", &["roles/x.toml:1:"]);
        check(b"# caf\xe9", &["roles/x.toml: it is not UTF-8 at byte 6"]);
        check(
            b"isolation = \"both\"\nshell = \"bash\"\ndefault_denylist = [\"a/**\", \"/etc\"]",
            &[
                "roles/x.toml:1:13: `isolation` is \"worktree\" or \"shared\"",
                "roles/x.toml:2:9: `shell` is one of \"none\", \"read-only\", \"test-runners\", \"any\"",
                "roles/x.toml:3:29: glob `/etc` is absolute",
            ],
        );
    }
}
