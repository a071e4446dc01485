use super::{Team, seen, team, undo_with};
use crate::support::agent::agent_command;
use crate::support::death::{self, steps_of};
use crate::support::terminal::{Streams, shown};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Asks `undo` about every operation that the list shows, and compares what both say.
fn assert_agreed(team: &Team, when: &str) {
    for one in team.operations() {
        let id = one["operation"].as_str().expect("an id");
        let mut command = agent_command(&team.repo.path());
        command.args(["undo", id, "--dry-run", "--format=json"]);
        let output = command.output().expect("ran");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let by_what = [
            ("undone", "is taken back already"),
            ("built-upon", "was decided about again after"),
            ("built-upon", "has gone on since"),
            ("other-clone", "was done in another clone"),
            ("made-or-ran", "made an agent or ran a command"),
        ];
        let refused = by_what
            .iter()
            .find(|(_, text)| error.contains(text))
            .map_or(Value::Null, |(why, _)| json!(why));
        assert_eq!(one.get("obstacle").unwrap_or(&Value::Null), &refused, "{when}: {one} {error}");
        assert_eq!(one["undoable"], json!(refused.is_null()), "{when}: {one}");
    }
}

/// Dies at each step of taking an operation back, and takes it back after that until the list says that it is.
fn assert_completed(team: &Team, operation: &str, expected: &Value) {
    let mut saved = team.repo.save();
    let what = || Some(operation.to_owned());
    let steps = steps_of(|reached| undo_with(&death::ctx(&team.repo.path(), reached), what()));
    assert_eq!(&seen(team), expected, "without a kill");
    assert_agreed(team, "without a kill");
    saved.restore();
    for step in steps.into_iter().collect::<BTreeSet<_>>() {
        death::die_at("undo::child", &team.repo.path(), &step, &[operation]);
        assert_agreed(team, &step);
        team.repo.agent(&["doctor", "--fix"]);
        assert_agreed(team, &step);
        let is_open = |team: &Team| {
            let listed = team.operations();
            let own = listed.iter().find(|one| one["operation"] == operation);
            own.expect("it is listed")["undoable"] == true
        };
        if is_open(team) {
            team.json(&["undo", operation]);
        }
        assert!(!is_open(team), "{step}");
        assert_eq!(&seen(team), expected, "{step}");
        assert_agreed(team, &step);
        team.assert_sound();
        saved.restore();
    }
}

/// The newest operation of the list.
fn newest(team: &Team) -> String {
    let listed = team.operations();
    listed[0]["operation"].as_str().expect("an id").to_owned()
}

#[test]
fn a_killed_undo_or_redo_of_landings_is_listed_as_it_is_and_completed() {
    let team = team(2);
    let before = seen(&team);
    team.json(&["merge", "--all"]);
    let landed = seen(&team);
    assert_completed(&team, &newest(&team), &before);
    team.json(&["undo"]);
    assert_completed(&team, &newest(&team), &landed);
}

#[test]
fn a_killed_undo_or_redo_of_discards_is_listed_as_it_is_and_completed() {
    let team = team(2);
    let before = seen(&team);
    team.json(&["discard", team.id(0), team.id(1)]);
    let gone = seen(&team);
    let discard = newest(&team);
    assert_completed(&team, &discard, &before);
    team.json(&["undo"]);
    let undo = newest(&team);
    assert_completed(&team, &undo, &gone);
    // The discard that came of it is what is taken back now, and neither of the two before it.
    team.json(&["undo", &undo]);
    assert_eq!(team.refusal(&["undo", &undo]).0, "agent-state");
    assert_eq!(team.refusal(&["undo", &discard]).0, "agent-state");
    team.json(&["undo"]);
    assert_eq!(seen(&team), before);
    assert_agreed(&team, "back");
}

#[test]
fn a_redo_that_stopped_in_the_middle_goes_on_with_the_rest() {
    let team = team(2);
    team.json(&["discard", team.id(0), team.id(1)]);
    let gone = seen(&team);
    team.json(&["undo"]);
    let undo = newest(&team);
    // A file that a process holds locked keeps the second one here.
    let busy = &team.agents[1].1;
    team.repo.git(["-C", busy.to_str().expect("UTF-8"), "switch", "--quiet", "--detach"]);
    let branch = team.json(&["show", team.id(1)])["branch"].clone();
    let branch = branch.as_str().expect("a branch").to_owned();
    let elsewhere = team.repo.path().with_file_name("elsewhere");
    let elsewhere = elsewhere.to_str().expect("UTF-8");
    team.repo.git(["worktree", "add", "--quiet", elsewhere, &branch]);
    assert_eq!(team.refusal(&["undo", &undo]).0, "discard-refused");
    assert_eq!(team.state(0), "discarded");
    assert_eq!(team.state(1), "done");
    assert_agreed(&team, "in the middle");
    team.repo.git(["worktree", "remove", "--force", elsewhere]);
    team.json(&["undo", &undo]);
    assert_eq!(seen(&team), gone);
    assert_agreed(&team, "at the end");
}

#[test]
fn a_landing_is_listed_as_built_upon_while_commits_stand_on_it() {
    let team = team(2);
    team.land(0);
    let landed = team.land(1);
    // The newest landing alone can be moved back.
    assert_agreed(&team, "two landings");
    let first = team.operations()[1].clone();
    assert_eq!(first["events"], json!(["committed", "merged"]));
    assert_eq!(first["obstacle"], "built-upon");
    team.repo.write("README.md", "later work\n");
    team.repo.commit_all("later");
    assert_eq!(team.operations()[0]["obstacle"], "built-upon");
    assert_agreed(&team, "a commit");
    team.repo.git(["reset", "--quiet", "--hard", &landed]);
    assert_eq!(team.operations()[0]["undoable"], true);
    assert_agreed(&team, "without it");
}

#[test]
fn a_narrow_terminal_shows_what_is_taken_back_already() {
    let team = team(1);
    team.land(0);
    team.json(&["undo"]);
    let mut list = agent_command(&team.repo.path());
    let (said, status) = shown(list.args(["undo", "--list"]), (24, 80), Streams::Output);
    assert!(status.success());
    let landing = said.lines().find(|line| line.contains("merged"));
    assert!(landing.is_some_and(|line| line.contains("undone")), "{said}");
}
