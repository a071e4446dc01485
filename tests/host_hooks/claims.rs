//! Hooks that stand in the project's settings and in its user's: a host calls both with one payload.

use super::{Agent, agent, assert_allowed, denied, hook, write_call};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

/// Where the calls of an agent are claimed.
fn places(agent: &Agent) -> impl Iterator<Item = PathBuf> {
    let state = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
    (0..16).map(move |place| state.join(format!("run/answered-{place}")))
}

#[test]
fn of_two_equal_calls_with_a_mark_one_is_answered() {
    let agent = agent();
    let top = &agent.worktree;
    let call = |mark: &str, value: &str| {
        let mut call = write_call(top, "docs/evil.md");
        call[mark] = json!(value);
        hook(top, "pre-tool", &call)
    };
    for mark in ["tool_use_id", "timestamp"] {
        denied(&call(mark, "1"), "the first");
        assert_allowed(&call(mark, "1"), "the same call");
        denied(&call(mark, "2"), "another call");
    }
    // Nothing says that these are one call.
    denied(&hook(top, "pre-tool", &write_call(top, "docs/evil.md")), "once");
    denied(&hook(top, "pre-tool", &write_call(top, "docs/evil.md")), "again");
}

#[test]
fn what_an_agent_puts_in_the_place_of_a_claim_leads_nowhere() {
    let agent = agent();
    let top = &agent.worktree;
    let victim = top.join("victim");
    fs::write(&victim, "mine").expect("written");
    for place in places(&agent) {
        fs::create_dir_all(place.parent().expect("a directory")).expect("made");
        symlink(&victim, place).expect("linked");
    }
    let mut call = write_call(top, "docs/evil.md");
    call["tool_use_id"] = json!("1");
    denied(&hook(top, "pre-tool", &call), "once");
    denied(&hook(top, "pre-tool", &call), "again");
    assert_eq!(fs::read(&victim).expect("readable"), b"mine");
}

#[test]
fn while_one_answers_the_other_of_two_equal_calls_is_silent() {
    let agent = agent();
    let top = &agent.worktree;
    let call = json!({"hook_event_name": "SessionStart", "cwd": top, "source": "compact"});
    let said = || hook(top, "session-start", &call).stdout.len();
    assert!(said() > 0, "the first");
    assert!(said() > 0, "another call, after the first was answered");
    // As the process that answers holds it.
    let place = places(&agent).find(|place| place.is_file()).expect("a place");
    let held = fs::File::open(place).expect("opened");
    held.lock().expect("locked");
    assert_eq!(said(), 0, "the other of two");
    held.unlock().expect("unlocked");
    assert!(said() > 0, "after that");
}
