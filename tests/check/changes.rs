//! Staged changes and commits, compared with git's own answer on indexes of every kind.

use crate::support::{TestRepo, git_in, git_output};
use git_agent::domain::paths::change::ChangeKind;
use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::changes::Staging;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

/// What we say: status letter and path.
fn ours(repo: &TestRepo) -> Vec<(char, Vec<u8>)> {
    let repo = Repo::open(&repo.path()).expect("open");
    let changes = repo.staged_changes(&Staging::default()).expect("readable");
    let letters = changes.into_iter().map(|change| {
        let letter = match change.kind {
            ChangeKind::Added => 'A',
            ChangeKind::Deleted => 'D',
            ChangeKind::TypeChanged => 'T',
            _ => 'M',
        };
        (letter, change.path)
    });
    letters.collect()
}

/// What git says.
fn theirs(repo: &TestRepo) -> Vec<(char, Vec<u8>)> {
    let words = ["diff", "--cached", "--name-status", "-z", "--no-renames"];
    let output = git_output(&repo.path(), words).stdout;
    let mut fields = output.split(|&byte| byte == 0);
    let mut changes = Vec::new();
    while let (Some([letter, ..]), Some(path)) = (fields.next(), fields.next()) {
        changes.push((char::from(*letter), path.to_owned()));
    }
    changes.sort_by(|one, two| one.1.cmp(&two.1));
    // Both sides of a conflict are one path to us, and its content is not settled.
    changes.dedup_by(|later, earlier| later.1 == earlier.1);
    changes
}

#[track_caller]
fn agree(repo: &TestRepo, what: &str) -> usize {
    let (ours, theirs) = (ours(repo), theirs(repo));
    assert_eq!(ours, theirs, "{what}");
    ours.len()
}

/// A tree with names that sort badly: `a`, `a.b`, `a/`, `a0`.
fn tangled() -> TestRepo {
    let repo = TestRepo::empty();
    for name in ["a.b", "a/x", "a/y/z", "a0", "b/c/d/e", "b/c/f", "g", "long/"] {
        let name = match name {
            "long/" => format!("long/{}", "n".repeat(250)),
            name => name.to_owned(),
        };
        repo.write(&name, &name);
    }
    symlink("a.b", repo.path().join("link")).expect("linked");
    repo.commit_all("tangled");
    repo
}

#[test]
fn every_kind_of_index_is_read_as_git_reads_it() {
    for setup in [
        &["update-index", "--index-version=2"][..],
        &["update-index", "--index-version=4"],
        &["update-index", "--split-index"],
        &["update-index", "--force-write-index"],
        &["sparse-checkout", "set", "--cone", "--sparse-index", "a"],
        &["-c", "index.skipHash=true", "update-index", "--force-write-index"],
    ] {
        let what = setup.join(" ");
        let repo = tangled();
        repo.git(setup);
        assert_eq!(agree(&repo, &what), 0);
        repo.write("a/y/z", "changed");
        repo.write("a/new/file", "new");
        repo.write("a-b", "before a/ and after a");
        repo.git(["add", "--sparse", "a", "a-b"]);
        repo.git(["rm", "--quiet", "--cached", "--sparse", "a.b", "b/c/f"]);
        fs::remove_file(repo.path().join("a/x")).expect("removed");
        symlink("y/z", repo.path().join("a/x")).expect("linked");
        repo.git(["add", "a/x"]);
        repo.git(["update-index", "--chmod=+x", "a0"]);
        assert_eq!(agree(&repo, &what), 7);
        repo.git(["write-tree"]);
        assert_eq!(agree(&repo, &what), 7);
    }
}

#[test]
fn flags_and_conflicts_are_read_as_git_reads_them() {
    let repo = tangled();
    repo.write("later", "");
    repo.git(["add", "--intent-to-add", "later"]);
    assert_eq!(agree(&repo, "only intended"), 0);
    repo.git(["rm", "--quiet", "--cached", "g"]);
    repo.git(["add", "--intent-to-add", "g"]);
    assert_eq!(agree(&repo, "deleted, and intended again"), 1);
    repo.git(["update-index", "--skip-worktree", "a0"]);
    repo.git(["update-index", "--assume-unchanged", "a.b"]);
    repo.git(["update-index", "--chmod=+x", "a0"]);
    assert_eq!(agree(&repo, "flags hide nothing"), 2);

    let repo = tangled();
    repo.git(["checkout", "--quiet", "-b", "side"]);
    repo.write("g", "side");
    repo.commit_all("side");
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("g", "main");
    repo.commit_all("main");
    assert!(!git_output(&repo.path(), ["merge", "side"]).status.success());
    let repo = Repo::open(&repo.path()).expect("open");
    let changes = repo.staged_changes(&Staging::default()).expect("readable");
    let paths: Vec<_> = changes.iter().map(|change| &change.path[..]).collect();
    assert_eq!(paths, [b"g"], "it differs from all parents");
}

#[test]
fn directories_and_files_that_change_places_are_judged_on_both_sides() {
    let repo = tangled();
    repo.git(["rm", "--quiet", "-r", "a", "g"]);
    repo.write("a", "a file now");
    repo.write("g/h", "a directory now");
    repo.git(["add", "--all"]);
    assert_eq!(agree(&repo, "places changed"), 5);
    let head = repo.commit_all("places changed");
    let opened = Repo::open(&repo.path()).expect("open");
    let head = Oid::from_hex(&head).expect("an oid");
    let changes = opened.commit_changes(head).expect("readable");
    assert_eq!(changes.len(), 5);
    let walked = opened.commits_between(&[], head).expect("readable");
    assert_eq!(walked.len(), 2);
    let first = opened.commit_changes(walked[0]).expect("readable");
    assert!(first.iter().all(|change| change.kind == ChangeKind::Added));
    assert_eq!(first.len(), 9);
    let link = first.iter().find(|change| change.path == b"link");
    assert_eq!(link.and_then(|change| change.link.as_deref()), Some(&b"a.b"[..]));
}

#[test]
fn before_the_first_commit_everything_staged_is_new() {
    let repo = TestRepo::empty();
    assert_eq!(agree(&repo, "no index"), 0);
    repo.write("a/b", "");
    repo.git(["add", "--all"]);
    assert_eq!(agree(&repo, "one file"), 1);
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{},sub", "1".repeat(40))]);
    assert_eq!(agree(&repo, "a submodule"), 2);
}

#[test]
fn a_mode_and_nothing_else_is_told_as_such() {
    let repo = tangled();
    let file = repo.path().join("g");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("mode");
    repo.git(["add", "g"]);
    let opened = Repo::open(&repo.path()).expect("open");
    let changes = opened.staged_changes(&Staging::default()).expect("readable");
    assert_eq!(changes[0].kind, ChangeKind::ModeChanged);
}

#[test]
fn an_index_out_of_order_is_left_to_git() {
    let repo = tangled();
    let index = repo.path().join(".git/index");
    let mut bytes = fs::read(&index).expect("the index");
    let at = bytes.windows(4).position(|window| window == b"a0\0\0").expect("a0");
    bytes[at + 1] = b'!';
    fs::write(&index, bytes).expect("written");
    agree(&repo, "out of order");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_staging_is_seen_as_git_sees_it(steps in proptest::collection::vec((0..4u8, 0..12u8), 1..12)) {
        let repo = tangled();
        for (step, which) in steps {
            let name = format!("{}/{}/{which}", ["a", "b", "c", "b/c"][usize::from(which % 4)], which % 3);
            match step {
                0 => {
                    repo.write(&name, format!("{step}{which}"));
                    repo.git(["add", "--all"]);
                }
                1 => {
                    let _ = git_output(&repo.path(), ["rm", "--quiet", "--cached", &name]);
                }
                2 => {
                    git_in(&repo.path(), ["write-tree"]);
                    git_in(&repo.path(), ["status"]);
                }
                _ => {
                    git_in(&repo.path(), ["commit", "--quiet", "--allow-empty", "-m", "x"]);
                }
            }
            prop_assert_eq!(ours(&repo), theirs(&repo));
        }
    }

    #[test]
    fn no_broken_index_crashes(at in 0..4096usize, byte: u8, cut in 0..4096usize) {
        let repo = TestRepo::with_commit();
        let index = repo.path().join(".git/index");
        let mut bytes = fs::read(&index).expect("the index");
        let length = bytes.len();
        bytes[at % length] = byte;
        if cut % 3 == 0 {
            bytes.truncate(cut % length);
        }
        fs::write(&index, bytes).expect("written");
        let opened = Repo::open(&repo.path()).expect("open");
        // An answer or an error, whichever; what matters is that there is one.
        let _ = opened.staged_changes(&Staging::default());
    }
}
