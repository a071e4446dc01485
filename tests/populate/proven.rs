use super::oracle::{check, populate_new, varied};
use crate::support::TestRepo;
use git_agent::error::Code;
use std::fs;

/// Takes an object away that only a walk over the trees would read.
fn forget_tree(repo: &TestRepo, directory: &str) {
    let tree = repo.git(["rev-parse", &format!("HEAD:{directory}")]);
    let objects = repo.path().join(".git/objects");
    fs::remove_file(objects.join(&tree[..2]).join(&tree[2..])).expect("a loose object");
}

#[test]
fn an_index_that_is_the_tree_saves_reading_it() {
    let repo = varied();
    forget_tree(&repo, "deep/er");
    let (_, outcome) = populate_new(&repo.path(), "ours").expect("populate");
    assert_eq!((outcome.copied, outcome.checked_out), (11, 4));
}

#[test]
fn an_index_that_is_another_tree_does_not() {
    let changes = [
        &["rm", "--cached", "--quiet", "a0"][..],
        &["add", "--chmod=+x", "a0"],
        &["mv", "a0", "a1"],
        &["add", "--intent-to-add", "untracked"],
    ];
    for change in changes {
        let repo = varied();
        repo.write("untracked", "new");
        repo.git(change);
        forget_tree(&repo, "deep/er");
        let error = populate_new(&repo.path(), "ours").expect_err("reads the trees");
        assert_eq!(error.code(), Code::RepoCorrupt, "{change:?}");
    }
}

#[test]
fn flags_of_the_index_stay_behind() {
    for flag in ["--assume-unchanged", "--skip-worktree", "--fsmonitor-valid"] {
        let repo = varied();
        repo.git(["update-index", flag, "a0"]);
        check(&repo.path());
    }
}

#[test]
fn every_form_of_index_is_read_or_passed_over() {
    let forms = [
        &["update-index", "--index-version=4"][..],
        &["update-index", "--split-index"],
        &["update-index", "--untracked-cache"],
        &["-c", "index.skipHash=true", "update-index", "--force-write-index"],
    ];
    for form in forms {
        let repo = varied();
        repo.git(form);
        assert_eq!(check(&repo.path()).outcome.copied, 11, "{form:?}");
    }
    for index in [&b""[..], b"DIRC\0\0\0\x02\xff\xff\xff\xff", b"not an index at all"] {
        let repo = varied();
        fs::write(repo.path().join(".git/index"), index).expect("write");
        let (_, outcome) = populate_new(&repo.path(), "ours").expect("populate");
        assert_eq!(outcome.copied, 11, "{index:?}");
    }
}
