//! Every error code: its name, its exit status, its line in the documentation.

use crate::support::TestRepo;
use crate::support::agent::describe;
use git_agent::error::{Code, Error};

/// The table that `docs/errors.md` must hold.
fn table() -> String {
    let mut table = "| code | exit | what it means |\n|---|---|---|\n".to_owned();
    for code in Code::ALL {
        let exit = code.exit().code();
        table.push_str(&format!("| `{code}` | {exit} | {} |\n", code.meaning()));
    }
    table
}

#[test]
fn the_documentation_lists_every_code() {
    let page = include_str!("../docs/errors.md");
    assert!(
        page.contains(&table()),
        "docs/errors.md must hold this table:\n{}",
        table()
    );
}

#[test]
fn an_error_knows_what_is_below_it() {
    let error = Error::io("could not read a", std::io::Error::other("broken"))
        .hint("run git fsck")
        .detail("a block");
    assert_eq!(error.code(), Code::Io);
    assert_eq!(error.causes(), ["broken"]);
    assert_eq!(
        (error.hints(), error.details()),
        (
            &["run git fsck".to_owned()][..],
            &["a block".to_owned()][..]
        )
    );
}

#[test]
fn what_is_not_for_people_is_not_what_they_meant() {
    let repo = TestRepo::with_commit();
    for (typed, hidden) in [
        ("keep", "sweep"),
        ("ward", "warden"),
        ("lanch", "launch"),
        ("fence", "fenced"),
        ("supervis", "supervise"),
        ("complet", "complete"),
    ] {
        let output = repo.agent(&[typed]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(!said.contains(&format!("'{hidden}'")), "{said}");
    }
    insta::assert_snapshot!(describe(&repo.agent(&["comit"])), @r"
    ------- stderr -------
    error: unrecognized subcommand 'comit'

      tip: a similar subcommand exists: 'commit'

    Usage: git agent [OPTIONS] <COMMAND>

    For more information, try '--help'.
    [exit status: 2]
    ");
}
