//! A check decides nothing about a later one: not by what it leaves in its worktree, nor elsewhere.

use super::Fleet;
use crate::support::git_in;
use std::fs;
use std::path::Path;

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

#[test]
fn the_set_up_of_an_agents_branch_stays_in_the_fence() {
    let mut fleet = Fleet::new();
    fleet.add(&[("parts/0", "one\n")]);
    let lower = fleet.repo.agent_json(&["show", "a0"]);
    let branch = lower["branch"].as_str().expect("a branch");
    let words =
        ["spawn", "-m", "Build upon it.", "--name=upper", "--new=parts/**", "--base", branch];
    let upper = fleet.repo.agent_json(&words);
    let worktree = upper["worktree_abspath"].as_str().expect("a worktree");
    fs::create_dir_all(format!("{worktree}/parts")).expect("made");
    fs::write(format!("{worktree}/parts/1"), "two\n").expect("written");
    fleet.repo.agent_json(&["done", "upper"]);
    fleet.agents.push(upper["agent_id"].as_str().expect("an id").to_owned());
    let third = ["spawn", "-m", "Build upon it.", "--name=third", "--base", branch];
    fleet.repo.agent_json(&third);
    // After someone has looked at the branch and built upon it, it says what runs before checks.
    let below = lower["worktree_abspath"].as_str().expect("a worktree").to_owned();
    let escaped = fleet.repo.path().with_file_name("escaped");
    let setup =
        format!("[pool]\nsize = 1\n[setup]\nrun = [\"touch {} || true\"]\n", escaped.display());
    let settings = format!("{below}/.config/git-agent.toml");
    let all = fs::read_to_string(&settings).expect("read") + &setup;
    fs::write(&settings, all).expect("written");
    let words = ["-c", "core.hooksPath=/dev/null", "commit", "--quiet", "-am", "a set-up"];
    git_in(Path::new(&below), words);

    let (answer, _) = fleet.train(&["upper"]);
    assert_eq!(answer["items"][0]["outcome"], "landed", "{answer:#}");
    assert_eq!(answer["targets"][0]["ref"], format!("refs/heads/{branch}"), "{answer:#}");
    assert!(!escaped.exists(), "no command of unjudged work runs without the fence");
    // Nor where one that was built upon it is tried again, or a person looks at it in the main worktree.
    fleet.repo.agent_json(&["mark", "fail", "third", "-m", "again"]);
    fleet.repo.agent_json(&["retry", "third"]);
    fleet.repo.git(["checkout", "--quiet", "--detach", branch]);
    fleet.repo.agent(&["pool", "fill"]);
    assert!(!escaped.exists(), "no command of unjudged work runs without the fence");
}
