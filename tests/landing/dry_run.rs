//! A plan writes nothing: not a row, not an object, not the refreshed copy of an index.

use super::{answer, ready, run};
use crate::support::{assert_unchanged, snapshot};
use crate::verify::{Agent, refused};

/// Compares every file of the repository before and after.
fn assert_writes_nothing(agent: &Agent, what: &str, check: impl FnOnce()) {
    let before = snapshot(&agent.repo.path());
    check();
    assert_unchanged(&before, &snapshot(&agent.repo.path()), what);
}

#[test]
fn a_rehearsed_landing_writes_nothing() {
    let agent = ready();
    // The first look at a repository makes the directories of its state.
    answer(&agent, "show", &[]);
    assert_writes_nothing(&agent, "merge --dry-run", || {
        let planned = answer(&agent, "merge", &["--dry-run"]);
        assert_eq!(planned["outcome"], "planned");
    });
    // Of a file that was only touched, git would note in the index that it is unchanged.
    let readme = agent.repo.path().join("README.md");
    let text = std::fs::read(&readme).expect("read");
    std::fs::write(&readme, text).expect("write");
    assert_writes_nothing(&agent, "merge --dry-run on a touched file", || {
        answer(&agent, "merge", &["--dry-run"]);
    });
}

#[test]
fn a_rehearsal_says_what_stops_it_and_writes_nothing() {
    let agent = ready();
    agent.write("elsewhere.txt", "out of scope\n");
    answer(&agent, "show", &[]);
    assert_writes_nothing(&agent, "a refused merge --dry-run", || {
        refused(&run(&agent, "merge", &["--dry-run"]), "not-accepted", 3);
    });
}

#[test]
fn a_rehearsed_discard_writes_nothing() {
    let agent = ready();
    answer(&agent, "show", &[]);
    assert_writes_nothing(&agent, "discard --dry-run", || {
        answer(&agent, "discard", &["--dry-run"]);
    });
}
