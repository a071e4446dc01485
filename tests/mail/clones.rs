use super::{open, post, receive};
use crate::support::{TestRepo, git_in};
use std::path::PathBuf;

const REFSPECS: [&str; 4] = [
    "+refs/notes/agents:refs/notes/origin/agents",
    "+refs/notes/agents-mail:refs/notes/origin/agents-mail",
    "+refs/agents/mail:refs/agents/remote/origin/mail",
    "+refs/agents/keep:refs/agents/remote/origin/keep",
];

/// A repository and a clone that can fetch from each other.
fn pair() -> (TestRepo, TestRepo) {
    let one = TestRepo::with_commit();
    let two = TestRepo::empty();
    for (from, to) in [(&one, &two), (&two, &one)] {
        let path: PathBuf = to.path();
        from.git(["remote", "add", "origin", path.to_str().expect("UTF-8")]);
    }
    (one, two)
}

fn unite(test: &TestRepo) {
    for refspec in REFSPECS {
        // A side that has not begun one of them has nothing to fetch.
        let _ = crate::support::git_output(&test.path(), ["fetch", "--quiet", "origin", refspec]);
    }
    test.agent_json(&["unite"]);
}

fn tips(test: &TestRepo) -> String {
    git_in(
        &test.path(),
        [
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            "refs/notes/agents*",
            "refs/agents/mail",
            "refs/agents/keep",
        ],
    )
}

#[test]
fn two_mailboxes_that_diverged_become_the_same_one() {
    let (one, two) = pair();
    let (first, second) = (open(&one), open(&two));
    post(&first, &["b"], "common", 0);
    assert_eq!(receive(&first, "b", 1), ["common"]);
    unite(&two);
    assert_eq!(tips(&one), tips(&two), "the one goes on from the other");
    post(&first, &["b"], "from one", 10);
    post(&second, &["b"], "from two", 5);
    post(&second, &["c"], "read in two", 6);
    assert_eq!(receive(&second, "c", 7), ["read in two"]);
    // Each fetches the other as it was before both unite.
    for test in [&one, &two] {
        for refspec in REFSPECS {
            let _ =
                crate::support::git_output(&test.path(), ["fetch", "--quiet", "origin", refspec]);
        }
    }
    one.agent_json(&["unite"]);
    two.agent_json(&["unite"]);
    assert_eq!(tips(&one), tips(&two), "whoever unites makes the same commit");
    assert_eq!(receive(&first, "c", 20), Vec::<String>::new());
    assert_eq!(receive(&first, "b", 20), ["from two", "from one"]);
    post(&second, &["b"], "after", 21);
    assert_eq!(receive(&second, "b", 22), ["from two", "from one", "after"]);
    unite(&one);
    unite(&two);
    assert_eq!(tips(&one), tips(&two));
    assert_eq!(receive(&first, "b", 30), Vec::<String>::new());
}

#[test]
fn who_has_fetched_nothing_is_told_how() {
    let test = TestRepo::with_commit();
    let output = test.agent(&["unite", "upstream"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("run git agent sync upstream"), "{said}");
}

#[test]
fn what_is_told_works_with_a_side_that_has_only_begun() {
    let (one, two) = pair();
    let from = one.path();
    two.git(["remote", "add", "upstream", from.to_str().expect("UTF-8")]);
    two.git(["config", "agent.sync", "all"]);
    // No messages and no receipts, and then nobody who has read one.
    for step in ["a row", "a message"] {
        match step {
            "a row" => drop(one.spawn()),
            _ => drop(post(&open(&one), &["b"], "unread", 0)),
        }
        two.agent_json(&["sync", "upstream"]);
        assert_eq!(tips(&one), tips(&two), "{step}");
    }
}
