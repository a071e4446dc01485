use super::{at, open, post, receive};
use crate::support::TestRepo;
use git_agent::store::files::layout::MAIL_REF;

/// A message for `b` as another writer may make one.
fn forged(body: &str, time: &str) -> String {
    format!(
        "x\n\n{body}\n\nMessage-Id: MSG-{}-0000\nType: notify\nPriority: high\nFrom: eve\nTo: b\nHlc: {time}-000-0000\n\
         Nonce: 0011223344556677\nGit-Agent: 1\n",
        time.replace('.', "")
    )
}

/// Puts a commit onto the mailbox that follows these; gives its name.
fn put(test: &TestRepo, message: &str, parents: &[&str]) -> String {
    let tree = test.git(["hash-object", "-t", "tree", "-w", "/dev/null"]);
    let parents = parents.iter().flat_map(|parent| ["-p", parent]);
    let words = ["commit-tree", &tree, "-m", message].into_iter();
    let commit = test.git(words.chain(parents));
    test.git(["update-ref", MAIL_REF, &commit]);
    commit
}

#[test]
fn a_message_without_readable_content_keeps_no_other_from_its_reader() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["b"], "one", 0);
    let time = at(1).format("%Y%m%dT%H%M%S%.6fZ").to_string();
    let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
    for body in ["{\"message\": ", "[]", "\u{1b}[31m", &deep] {
        put(&test, &forged(body, &time), &[MAIL_REF]);
        // Once read as a whole, once from where the last reading ended.
        assert_eq!(test.agent_json(&["inbox", "--agent=b"])["count"], 1);
    }
    post(&repo, &["b"], "two", 2);
    assert_eq!(receive(&repo, "b", 3), ["one", "two"]);
}

#[test]
fn a_message_from_the_year_9999_dates_no_other() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["b"], "one", 0);
    let far = "99991231T235959.999999Z";
    put(&test, &forged(r#"{"message": "far"}"#, far), &[MAIL_REF]);
    for (seconds, text) in [(1, "two"), (2, "three")] {
        post(&repo, &["b"], text, seconds);
        let newest = test.git(["log", "-1", "--format=%B", MAIL_REF]);
        assert!(newest.contains("Message-Id: MSG-2026"), "{newest}");
    }
    let mut received = receive(&repo, "b", 4);
    received.sort();
    assert_eq!(received, ["far", "one", "three", "two"]);
}

#[test]
fn a_history_with_very_many_paths_is_walked_once() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["b"], "one", 0);
    // 2 to the power of 40 ways lead from the top to the bottom.
    let bottom = test.git(["rev-parse", MAIL_REF]);
    let (mut left, mut right) = (bottom.clone(), put(&test, "right", &[&bottom]));
    for _ in 0..40 {
        let below = [left.as_str(), right.as_str()];
        let two = [put(&test, "left", &below), put(&test, "right", &below)];
        [left, right] = two;
    }
    put(&test, "top", &[&left, &right]);
    post(&repo, &["b"], "two", 1);
    assert_eq!(receive(&repo, "b", 2), ["one", "two"]);
}
