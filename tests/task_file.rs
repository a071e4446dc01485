//! Task files: what is accepted, and the whole report of what is not.
//!
//! Every file in `fixtures/tasks/invalid` breaks one rule (or shows several at once) and has the report that
//! a user would see as a snapshot.

use git_agent::domain::life::id::AgentName;
use git_agent::domain::paths::glob::Glob;
use git_agent::domain::work::role::{InvalidRole, RoleSet};
use git_agent::domain::work::task::{Task, TaskOptions, Warning};
use git_agent::error::{Code, Error};
use git_agent::ops::error_report;
use git_agent::wire::file::task_file::{self, MAX_BYTES};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What no output may ever show; every secret of the fixtures contains it.
const NEVER_SHOWN: &str = "HUNTER2";

fn roles() -> RoleSet {
    RoleSet::built_in()
}

fn check(name: &str, bytes: &[u8]) -> Result<(Task, Vec<Warning>), Error> {
    let draft = task_file::parse(name, bytes);
    Ok(draft.check(&roles(), TaskOptions::default())?)
}

#[test]
fn a_role_whose_definition_is_broken_is_not_called_unknown() {
    let roles = roles().with(
        Vec::new(),
        vec![InvalidRole {
            name: "custom".into(),
            path: "roles/custom.toml".into(),
            problems: vec!["it extends itself".into()],
        }],
    );
    let draft = task_file::parse("f", b"role = 'custom'\n");
    let error = Error::from(draft.check(&roles, TaskOptions::default()).expect_err("refused"));
    assert!(error.details()[0].contains("`custom` cannot be used: roles/custom.toml is invalid"));
    assert!(error.details()[0].ends_with("it extends itself"));
}

/// Everything of an error that a user can get to see.
fn report(error: &Error) -> String {
    let mut text = format!("error[{}]: {}\n", error.code(), error.message());
    for detail in error.details() {
        let _ = write!(text, "\n{detail}\n");
    }
    for cause in error.causes() {
        let _ = write!(text, "\ncaused by: {cause}\n");
    }
    for hint in error.hints(error_report::remedy_command) {
        let _ = write!(text, "\nhint: {hint}\n");
    }
    text
}

fn fixtures(kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tasks").join(kind);
    let entries = std::fs::read_dir(directory).expect("fixtures");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("fixture").path()).collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), std::fs::read(path).expect("fixture"));
    paths.into_iter().map(read).collect()
}

fn valid(name: &str) -> (Task, Vec<Warning>) {
    let (_, bytes) = fixtures("valid")
        .into_iter()
        .find(|(path, _)| path.file_stem().is_some_and(|stem| stem == name))
        .expect("fixture");
    check(name, &bytes).expect("valid")
}

#[test]
fn every_invalid_fixture_gets_its_whole_report() {
    for (path, bytes) in fixtures("invalid") {
        let name = path.file_stem().expect("name").to_string_lossy().into_owned();
        let error = check(&format!("tasks/{name}.toml"), &bytes).expect_err(&name);
        let report = report(&error);
        assert!(!report.contains(NEVER_SHOWN), "{report}");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!(format!("task-{name}"), report);
        });
    }
}

#[test]
fn every_valid_fixture_passes() {
    for (path, bytes) in fixtures("valid") {
        if let Err(error) = check("task.toml", &bytes) {
            panic!("{}: {}", path.display(), report(&error));
        }
    }
}

#[test]
fn the_plain_form_says_everything() {
    let (task, warnings) = valid("everything");
    let text = |text: &str| Some(text.to_owned());
    let globs = |globs: &[&str]| {
        let globs = globs.iter().map(|glob| Glob::parse(glob).expect("glob"));
        globs.collect::<Vec<_>>()
    };
    let expected = Task {
        role: "edit-shared".into(),
        text: "Add a --verbose flag to the list command, and test it.".into(),
        whitelist: globs(&["crates/cli/**", "Cargo.toml"]),
        denylist: Some(Vec::new()),
        name: AgentName::parse("verbose-flag").ok(),
        parent: text("6a48ca7b"),
        base: text("main"),
        description: text("List says more when asked to"),
        model: text("sonnet"),
        briefing: text("The registry token is ghp_onlyTheAgentSeesThis; use it for reading only."),
        system_prompt: text("Write plain sentences.\nPrefer small functions."),
        profile: text("developer"),
        max_iterations: Some(20),
        checks: vec!["cargo test".into(), "cargo clippy".into()],
        min_tests: Some(12),
        no_dep_bump: true,
        bundle_required: Some(false),
        output_file: text("reports/verbose.md"),
        output_overwrite: true,
        report_fields: vec!["summary".into()],
        setup_copy: globs(&[".env.example", "node_modules/**"]),
        setup_run: vec!["npm ci".into()],
        timeout: Some(Duration::from_secs(5_400)),
        max_cost: Some(2.5),
    };
    assert_eq!(task, expected);
    assert_eq!(warnings, []);
}

#[test]
fn the_kit_form_says_the_same_in_its_words() {
    let (task, warnings) = valid("kit");
    assert_eq!(task.role, "edit-local");
    assert_eq!(task.text, "Add a --verbose flag to the list command and test it.");
    assert_eq!(task.name.as_ref().map(|name| name.as_str()), Some("ag-edit-local-18f2a-7b3c"));
    assert_eq!(task.parent.as_deref(), Some("agent/plan-the-release"));
    assert_eq!(task.whitelist[0].as_str(), "crates/cli/**");
    assert_eq!(task.denylist.as_ref().map(Vec::len), Some(1));
    assert_eq!(task.checks, ["cargo check -p cli", "cargo test -p cli", "cargo test -p core_api"]);
    assert_eq!((task.min_tests, task.no_dep_bump), (Some(3), false));
    assert_eq!(task.report_fields, ["files-written"]);
    assert_eq!(warnings, []);
}

#[test]
fn a_byte_order_mark_and_crlf_leave_no_trace() {
    let (task, _) = valid("byte-order-mark");
    assert_eq!(task.text, "List every place that reads\nthe environment, please.");
    assert_eq!(task.denylist, None);
}

#[test]
fn doubtful_tasks_pass_with_warnings_in_order() {
    let (task, warnings) = valid("warnings");
    assert_eq!(task.whitelist.len(), 1);
    let warnings: Vec<_> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "warnings:4:6: the task text speaks of `git add`; agents must not run git",
            "warnings:4:28: the task text speaks of `git commit`; agents must not run git",
            "warnings:7:24: glob `src/**` is in the whitelist twice",
        ]
    );
}

#[test]
fn the_text_may_have_20_to_4000_characters() {
    let with_text = |text: &str| {
        let file = format!("role='edit-local'\ntask='''{text}'''\nscope.whitelist=['a/**']");
        check("f", file.as_bytes())
    };
    for (length, warnings) in [(20, Some(0)), (2000, Some(0)), (2001, Some(1)), (4000, Some(1))] {
        let text = format!("ä {}", "ö".repeat(length - 2));
        let given = with_text(&text).map(|(_, warnings)| warnings.len()).ok();
        assert_eq!(given, warnings, "{length}");
    }
    assert!(with_text(&format!("ä {}", "ö".repeat(17))).is_err());
    assert!(with_text(&format!("ä {}", "ö".repeat(3999))).is_err());
}

#[test]
fn the_draft_names_its_base_before_the_rules_are_applied() {
    let draft = task_file::parse("f", b"role = 'nobody'\nbase = 'v1.0'\n");
    assert_eq!(draft.base(), Some("v1.0"));
    let broken = task_file::parse("f", b"\xff\xfe");
    assert_eq!(broken.base(), None);
}

#[test]
fn dropping_the_default_denylist_is_refused_for_roles_that_edit() {
    let options = TaskOptions { no_default_deny: true };
    let of = |role: &str| {
        let file =
            format!("role='{role}'\ntask='Look at every file there is.'\nscope.whitelist=['a/**']");
        task_file::parse("f", file.as_bytes()).check(&roles(), options)
    };
    assert!(of("explorer").is_ok());
    let error = Error::from(of("edit-local").expect_err("refused"));
    assert_eq!(error.code(), Code::TaskInvalid);
    assert_eq!(
        error.details(),
        [
            "f: `--no-default-deny` is refused for roles that edit\n  = the default denylist keeps secrets and build output out of reach"
        ]
    );
}

#[test]
fn a_file_of_more_than_a_mebibyte_is_not_read() {
    let mut bytes = std::fs::read(&fixtures("valid")[0].0).expect("fixture");
    bytes.push(b'#');
    bytes.resize(MAX_BYTES, b' ');
    assert!(check("f", &bytes).is_ok());
    bytes.push(b' ');
    let error = check("f", &bytes).expect_err("too large");
    assert!(error.details()[0].starts_with("f: the file is larger than 1 MiB"));
}

#[test]
fn hopeless_files_of_a_mebibyte_get_a_short_report() {
    let lines = "x = \n".repeat(MAX_BYTES / 5);
    let brackets = "]".repeat(MAX_BYTES);
    let nested = format!("a = {}", "[".repeat(MAX_BYTES - 4));
    let dotted = format!("a{} = 1", ".a".repeat(MAX_BYTES / 2 - 3));
    let keys = (0..60_000).fold(String::new(), |text, n| text + &format!("k{n}=1\n"));
    for file in [lines, brackets, nested, dotted, keys] {
        let error = check("f", file.as_bytes()).expect_err("hopeless");
        assert!(error.details().len() <= 21);
        assert!(report(&error).len() < 20_000);
    }
}

#[test]
fn brackets_that_are_never_closed_are_one_problem() {
    let error = check("f", b"x = [[[[[[[[\n").expect_err("refused");
    assert_eq!(error.details().len(), 1, "{}", report(&error));
}

#[test]
fn a_missing_tasks_directory_is_named_with_the_command_that_makes_it() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let hint = |path: &Path| {
        let cause = std::fs::read(path).expect_err("unreadable");
        let error = task_file::unreadable(path, &[], &cause);
        assert_eq!(error.code(), Code::TaskUnreadable);
        assert_eq!(error.causes(), [cause.to_string()]);
        error.hints(error_report::remedy_command)[0].clone()
    };
    let task = directory.path().join("tasks/6a48ca7b.toml");
    assert!(hint(&task).ends_with("mkdir tasks && git add tasks/.gitkeep"));
    std::fs::create_dir(directory.path().join("tasks")).expect("directory");
    assert!(!hint(&task).contains("mkdir"));
    assert!(hint(directory.path()).contains("standard input"));
    // One word is a file's name or a short task; what has an ending or a directory is a file's.
    let no_file = |name| hint(Path::new(name));
    assert!(no_file("proofread").ends_with("git agent spawn -m proofread"));
    for name in ["no-such.toml", "./proofread"] {
        assert!(no_file(name).ends_with("git agent spawn \"<task>\""), "{name}");
    }
}

/// A secret of each kind.
fn secret() -> impl Strategy<Value = String> {
    let marker = prop::sample::select(vec![
        "sk-",
        "ghp_",
        "Bearer ",
        "AKIA",
        "xoxb-",
        "-----BEGIN ",
        "12:AAG",
    ]);
    marker.prop_map(|marker| format!("{marker}{NEVER_SHOWN}"))
}

/// A valid file with some bytes cut out and others put in.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let files: Vec<Vec<u8>> = fixtures("valid").into_iter().map(|(_, bytes)| bytes).collect();
    let pieces = vec![
        "\"",
        "'''",
        "\n",
        "[",
        "]",
        "=",
        "{",
        "scope",
        "\\u0073k-abc",
        "\u{feff}",
        "修",
        "\t",
        "#",
    ];
    (
        prop::sample::select(files),
        any::<prop::sample::Index>(),
        0usize..30,
        prop::sample::select(pieces),
    )
        .prop_map(|(mut file, at, length, piece)| {
            let start = at.index(file.len());
            let end = (start + length).min(file.len());
            file.splice(start..end, piece.bytes());
            file
        })
}

proptest! {
    #[test]
    fn any_bytes_get_an_answer(bytes: Vec<u8>) {
        let _ = check("f", &bytes).map_err(|error| report(&error));
    }

    #[test]
    fn any_mutation_of_a_valid_file_gets_an_answer(bytes in mutated()) {
        if let Err(error) = check("f", &bytes) {
            prop_assert!(!error.details().is_empty());
            prop_assert!(!report(&error).contains("ghp_"));
        }
    }

    #[test]
    fn a_secret_anywhere_in_a_file_is_never_shown(secret in secret(), at: prop::sample::Index, bytes in mutated()) {
        let mut text = String::from_utf8_lossy(&bytes).into_owned();
        let boundaries: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        // A blank before it, because `mask-…` is none.
        text.insert_str(boundaries[at.index(boundaries.len())], &format!(" {secret}"));
        let shown = match check("f", text.as_bytes()) {
            Ok((_, warnings)) => warnings.iter().map(ToString::to_string).collect(),
            Err(error) => report(&error),
        };
        prop_assert!(!shown.contains(NEVER_SHOWN), "{}", shown);
    }

    #[test]
    fn a_secret_in_the_task_text_is_refused(secret in secret(), before in "[a-z ]{20}", after in "[a-z ]{0,20}") {
        let file = format!("role='edit-local'\ntask='''{before} {secret} {after}'''\nscope.whitelist=['a/**']");
        let error = check("f", file.as_bytes()).expect_err("refused");
        prop_assert!(report(&error).contains("holds what looks like"));
        prop_assert!(!report(&error).contains(NEVER_SHOWN));
    }
}

#[test]
fn timeouts_are_up_to_a_day() {
    for (timeout, accepted) in [("24h", true), ("1s", true), ("0s", false), ("86401s", false)] {
        let file = format!(
            "role='explorer'\ntask='Look at every file there is.'\nscope.whitelist=['a/**']\nrun.timeout='{timeout}'"
        );
        assert_eq!(check("f", file.as_bytes()).is_ok(), accepted, "{timeout}");
    }
}
