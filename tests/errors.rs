//! Every error code: its name, its exit status, its line in the documentation.

use crate::docs::generated::table_up_to_date;
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use git_agent::error::{Code, Error};
use git_agent::ops::error_report;
use serde_json::Value;

#[test]
fn the_documentation_lists_every_code() {
    let mut rows = String::new();
    for code in Code::ALL {
        let exit = code.exit().code();
        rows.push_str(&format!("| `{code}` | {exit} | {} |\n", code.meaning()));
    }
    let head = "| code | exit | what it means |\n|---|---|---|\n";
    table_up_to_date("docs/errors.md", head, &rows);
}

#[test]
fn an_error_knows_what_is_below_it() {
    let error = Error::io("could not read a", std::io::Error::other("broken"))
        .hint("run git fsck")
        .detail("a block");
    assert_eq!(error.code(), Code::Io);
    assert_eq!(error.causes(), ["broken"]);
    assert_eq!(
        (error.hints(error_report::remedy_command), error.details()),
        (vec!["run git fsck".to_owned()], &["a block".to_owned()][..])
    );
}

#[test]
fn what_is_not_for_people_is_not_what_they_meant() {
    let repo = TestRepo::with_commit();
    for (typed, hidden) in [
        ("keep", "sweep"),
        ("ward", "supervisor"),
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
    let all = describe(&repo.agent(&["--format=json"]));
    for hidden in ["sweep", "supervise", "supervisor", "launch", "fenced", "complete"] {
        let mut words = all.split(|c: char| !c.is_ascii_alphabetic());
        assert!(!words.any(|word| word == hidden), "{all}");
    }
    insta::assert_snapshot!(describe(&repo.agent(&["comit"])), @r"
    ------- stderr -------
    error[usage]: unrecognized subcommand 'comit'
    hint: a similar subcommand exists: 'commit'
    hint: usage: git agent [OPTIONS] <COMMAND>
    hint: to see what it takes, run git agent -h
    [exit status: 2]
    ");
}

#[test]
fn misuse_is_an_error_like_any_other() {
    let repo = TestRepo::with_commit();
    let text = |arguments: &[&str]| describe(&repo.agent(arguments));
    insta::assert_snapshot!(text(&["merge"]), @r"
    ------- stderr -------
    error[usage]: no agent is named, and this is no agent's worktree
    hint: to see the agents there are, run git agent list --all
    [exit status: 2]
    ");
    insta::assert_snapshot!(text(&["list", "--state=runing"]), @r"
    ------- stderr -------
    error[usage]: invalid value 'runing' for '--state <STATE>': the states are spawning, ready, running, waiting, idle, done, failed, merged, rejected, discarded
    hint: a similar value exists: 'running'
    hint: to see what it takes, run git agent list -h
    [exit status: 2]
    ");
    insta::assert_snapshot!(text(&["list", "--json"]), @r"
    ------- stderr -------
    error[usage]: unexpected argument '--json' found
    hint: usage: git agent list [OPTIONS]
    hint: for JSON, run git agent list --format=json
    hint: to see what it takes, run git agent list -h
    [exit status: 2]
    ");
    insta::assert_snapshot!(text(&["discard", "--all"]), @r"
    ------- stderr -------
    error[usage]: unexpected argument '--all' found
    hint: usage: git agent discard [OPTIONS] [AGENT]...
    hint: to see what it takes, run git agent discard -h
    [exit status: 2]
    ");
    for arguments in [
        &["bogus", "--format=json"][..],
        &["--format", "json", "bogus"],
        &["merge", "--format", "ndjson"],
        &["log", "--format=json"],
        &["merge", "--squash", "--no-ff", "x", "--format=json"],
        &["run", "--bogus", "--format=json", "--", "true"],
        &["hooks", "--format=json"],
        &["--format=json", "hooks"],
        &["--format=json"],
    ] {
        let output = repo.agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(output.stdout.is_empty());
        let error: Value = serde_json::from_slice(&output.stderr)
            .unwrap_or_else(|_| panic!("one JSON object: {}", describe(&output)));
        assert_eq!(error["error"]["code"], "usage", "{error}");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(!message.is_empty() && !message.contains('\n'), "{error}");
        assert!(!message.contains("sweep"), "{error}");
        let hints = error["error"]["hints"].as_array().expect("hints");
        assert!(hints.iter().all(|hint| hint != "usage: "), "{error}");
    }
}

#[test]
fn help_and_version_are_answers_in_every_format() {
    let repo = TestRepo::with_commit();
    for (arguments, begin) in [
        (&["--version", "--format=json"][..], "git-agent "),
        (&["--format=json", "-h"], "Gives every coding agent"),
        (&["merge", "--help"], "Land an agent's work"),
        (&["help", "merge"], "Land an agent's work"),
    ] {
        let output = repo.agent(arguments);
        assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.starts_with(begin), "{said}");
    }
}

#[test]
fn texts_without_words_are_refused() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    for arguments in [
        &["fail", id, "-m", ""][..],
        &["fail", id, "-m", " \n"],
        &["reject", id, "-m", ""],
        &["defer", id, "-m", ""],
        &["unite", ""],
    ] {
        let output = repo.agent(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
        assert!(describe(&output).contains("it takes some words"));
    }
    assert_eq!(repo.agent_json(&["show", id])["state"], "ready");
}

#[test]
fn a_git_dir_that_is_none_is_named() {
    let repo = TestRepo::with_commit();
    let output = agent_command(&repo.path())
        .env("GIT_DIR", "/nowhere/at/all")
        .arg("list")
        .output()
        .expect("git-agent starts");
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let said = describe(&output);
    assert!(said.contains("hint: GIT_DIR is /nowhere/at/all;"), "{said}");
}
