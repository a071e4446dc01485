//! A check decides nothing about a later one: not by what it leaves in its worktree, nor elsewhere.

use super::Fleet;
use std::fs;

/// Agents whose first one brings a test that leaves something, and a check that is green or red, as `then` says, wherever that is
/// found. The test of the third agent fails.
fn fleet(leave: &str, find: &str, then: u8) -> Fleet {
    let mut fleet = Fleet::new();
    fleet.repo.write(".gitignore", "*.o\n__pycache__\n");
    fleet.repo.write(
        "check.sh",
        format!(
            "if {find}; then echo found what an earlier check left; exit {then}; fi
for test in parts/*.sh; do test ! -e $test || sh $test 2> /dev/null; done
if grep -qsx bad parts/*; then echo a part is bad; exit 3; fi
"
        ),
    );
    fleet.repo.commit_all("a check that runs the tests of agents");
    fleet.add(&[("parts/0.sh", &format!("{leave}\n"))]);
    fleet.add(&[("parts/1", "one\n")]);
    fleet.add(&[("parts/2", "bad\n")]);
    fleet.add(&[("parts/3", "three\n")]);
    fleet
}

/// How the check ends in a fresh checkout of what landed.
fn fresh(fleet: &Fleet) -> Option<i32> {
    let place = fleet.repo.path().with_file_name("fresh");
    let path = place.to_str().expect("UTF-8");
    fleet.repo.git(["clone", "--quiet", "--no-local", ".", path]);
    let mut check = std::process::Command::new("sh");
    let ended = check.arg("check.sh").current_dir(&place).status();
    fs::remove_dir_all(&place).expect("removed");
    ended.expect("starts").code()
}

const PLACES: [(&str, &str, &str); 6] = [
    ("an ignored file", "echo x > left.o", "test -e left.o"),
    (
        "a directory that ignores itself",
        "mkdir -p hid; echo '*' > hid/.gitignore; echo x > hid/x",
        "test -e hid/x",
    ),
    ("a pipe", "mkdir -p __pycache__; mkfifo __pycache__/pipe", "test -p __pycache__/pipe"),
    ("the directory of temporary files", "echo x > \"$TMPDIR/x\"", "test -e \"$TMPDIR/x\""),
    (
        "beside the temporary files",
        "echo x > \"$TMPDIR/../x\"; echo x > \"$npm_config_cache/../x\"",
        "test -e \"$TMPDIR/../x\" || test -e \"$npm_config_cache/../x\"",
    ),
    (
        "git's directory of the worktree",
        "echo x > \"$(git rev-parse --git-dir)/x\"; echo x > \"$(git rev-parse --git-common-dir)/x\"",
        "test -e \"$(git rev-parse --git-dir)/x\" || test -e \"$(git rev-parse --git-common-dir)/x\"",
    ),
];

#[test]
fn what_a_check_leaves_makes_no_later_one_green() {
    for (place, leave, find) in PLACES {
        let fleet = fleet(leave, find, 0);
        let (answer, _) = fleet.train(&["--all", "--jobs=1"]);
        let expected = ["landed", "landed", "rejected", "landed"];
        assert_eq!(fleet.outcomes(&answer), expected, "{place}: {answer:#}");
        assert_eq!(fresh(&fleet), Some(0), "{place}");
        fleet.require_sound();
    }
}

#[test]
fn what_a_check_leaves_makes_no_later_one_red() {
    for (place, leave, find) in PLACES {
        let fleet = fleet(leave, find, 4);
        let (answer, _) = fleet.train(&["--all", "--jobs=1"]);
        let expected = ["landed", "landed", "rejected", "landed"];
        assert_eq!(fleet.outcomes(&answer), expected, "{place}: {answer:#}");
        assert_eq!(answer["items"][2]["check"]["output"], "a part is bad\n");
    }
}

#[test]
fn without_a_fence_no_answer_outlives_the_train() {
    let fleet = Fleet::with_parts(&["one"]);
    fleet.repo.git(["branch", "one", "main"]);
    fleet.train(&["--all", "--into=one", "--sandbox=off"]);
    assert_eq!(fleet.checked().len(), 1);
    let mut twin = fleet;
    twin.add(&[("parts/0", "one\n")]);
    let (answer, _) = twin.train(&[&twin.agents[1], "--sandbox=off"]);
    assert_eq!(answer["runs"][0]["why"], "never-run", "{answer:#}");
    assert_eq!(twin.checked().len(), 2);
}
