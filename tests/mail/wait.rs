use super::{open, post};
use crate::support::TestRepo;
use crate::support::agent::agent_command;
use git_agent::store::mailbox::reader::Watch;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_waiting_receiver_is_woken_by_a_message() {
    let test = TestRepo::with_commit();
    let child = agent_command(&test.path())
        .args(["receive", "--agent=b", "--wait", "--format=json"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    post(&open(&test), &["c"], "not for b", 0);
    post(&open(&test), &["b"], "hello", 1);
    let output = child.wait_with_output().expect("ends");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["messages"][0]["summary"], "hello");
}

#[test]
fn whoever_waits_in_vain_is_told_no() {
    let test = TestRepo::with_commit();
    let output = test.agent(&["receive", "--agent=b", "--wait", "--timeout=0s"]);
    assert_eq!(output.status.code(), Some(1));
}

/// Without the kernel's word this wait would take its whole, endless patience in slow looks; it ends with
/// the first of them that follows a message.
#[test]
fn the_kernel_tells_of_what_was_sent_before_the_wait() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let watch = Watch::begin(repo.common_dir());
    post(&repo, &["b"], "hello", 0);
    watch.wait(Duration::MAX);
}

#[test]
fn a_list_is_watched_on_a_terminal_only() {
    let test = TestRepo::with_commit();
    let output = test.agent(&["inbox", "--watch"]);
    assert_eq!(output.status.code(), Some(2));
}
