//! Every case fills one worktree by `git worktree add` and one by us, from the same commit, and lets
//! git compare the two.

/// Populating, and what it is compared with.
mod oracle;
/// The tree as the main worktree's index has it.
mod proven;
/// Spawns under a umask and on a full disk.
mod surroundings;

use crate::support::{TestRepo, git_in, git_output};
use git_agent::domain::value::oid::Oid;
use git_agent::error::Code;
use oracle::{Pair, bare_clone, check, populate_new, varied};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn a_clean_source_gives_every_file() {
    let repo = varied();
    let Pair { outcome, .. } = check(&repo.path());
    assert_eq!(outcome.source, Some(repo.path()));
    assert_eq!(
        (outcome.copied, outcome.checked_out),
        (11, 4),
        "symlinks and the empty file are not copied"
    );
}

#[test]
fn a_bare_repository_gives_every_file_from_objects() {
    let repo = varied();
    let Pair { ours, outcome, .. } = check(&bare_clone(&repo));
    assert_eq!((outcome.copied, outcome.checked_out), (0, 15));
    assert!(outcome.source.is_none() && !outcome.via_git);
    // The extension is there and git agrees with it: nothing is left to compute.
    let index = git_in(&ours, ["rev-parse", "--git-path", "index"]);
    let index = fs::read(ours.join(index)).expect("index");
    assert!(index.windows(4).any(|window| window == b"TREE"));
}

#[test]
fn a_linked_worktree_serves_a_bare_repository() {
    let repo = varied();
    let bare = bare_clone(&repo);
    git_in(&bare, ["worktree", "add", "--quiet", "--detach", "../linked"]);
    let outcome = check(&bare).outcome;
    assert_eq!(outcome.source, Some(bare.with_file_name("linked")));
    assert_eq!(outcome.copied, 11);
}

#[test]
fn nothing_dirty_leaks_from_the_source() {
    let repo = varied();
    let top = repo.path();
    repo.write("README.md", "# Tesy\n");
    // Same size, and the old time put back: only the content tells.
    let touched = top.join("a0");
    let time = fs::metadata(&touched).and_then(|meta| meta.modified()).expect("time");
    fs::write(&touched, "sorts after b/").expect("write");
    let file = fs::File::options().write(true).open(&touched).expect("open");
    file.set_modified(time).expect("set the time");
    repo.write("a.b", "staged");
    repo.git(["add", "a.b"]);
    fs::remove_file(top.join("empty")).expect("remove");
    fs::remove_file(top.join("tool.sh")).expect("remove");
    symlink("/etc/passwd", top.join("tool.sh")).expect("symlink");
    fs::write(top.join("large"), vec![8; 300 << 10]).expect("write");
    // A directory replaced by a symlink to one outside that holds the same names.
    let outside = top.with_file_name("outside");
    fs::rename(top.join("deep"), &outside).expect("rename");
    symlink("../outside", top.join("deep")).expect("symlink");
    // A pipe that nobody writes to: opening or reading it like a file would block for ever.
    fs::remove_file(top.join("a/one")).expect("remove");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        top.join("a/one"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("a pipe");
    let outcome = check(&top).outcome;
    assert_eq!((outcome.copied, outcome.checked_out), (4, 11));
}

#[test]
fn an_index_that_lies_about_the_source_is_not_believed() {
    let repo = varied();
    repo.write("README.md", "# Evil\n");
    let honest = repo.git(["rev-parse", "HEAD:README.md"]);
    // Git is told that the changed file, stat and all, is the committed blob.
    repo.git(["update-index", "--cacheinfo", &format!("100644,{honest},README.md")]);
    repo.git(["update-index", "--assume-unchanged", "README.md"]);
    let Pair { ours, .. } = check(&repo.path());
    assert_eq!(fs::read_to_string(ours.join("README.md")).expect("file"), "# Test\n");
}

#[test]
fn a_source_checked_out_under_other_settings_is_not_copied() {
    let repo = varied();
    repo.write("README.md", "# Test\r\n");
    let readme = fs::File::options().write(true).open(repo.path().join("README.md"));
    let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
    let stepped_back = readme.and_then(|file| file.set_modified(long_ago));
    stepped_back.expect("set the time");
    repo.git(["-c", "core.autocrlf=true", "add", "README.md"]);
    assert_eq!(repo.git(["status", "--porcelain"]), "", "to git it is clean");
    let outcome = check(&repo.path()).outcome;
    assert_eq!((outcome.copied, outcome.checked_out), (10, 5));
}

#[test]
fn attributes_are_obeyed() {
    let cases = [
        ("* text=auto eol=crlf\n", false),
        ("*.rs text eol=crlf\n*.md -text\n", false),
        ("*.md ident\n", true),
        ("*.txt working-tree-encoding=UTF-16LE-BOM\n", true),
        ("*.rs filter=rot\n", false),
    ];
    for (attributes, via_git) in cases {
        let repo = TestRepo::with_commit();
        repo.git(["config", "filter.rot.clean", "tr a-z n-za-m"]);
        repo.git(["config", "filter.rot.smudge", "tr a-z n-za-m"]);
        repo.write(".gitattributes", attributes);
        repo.write("README.md", "$Id$\n");
        repo.write("utf16.txt", b"\xff\xfeh\0i\0\n\0");
        repo.commit_all("attributes");
        let outcome = check(&repo.path()).outcome;
        assert_eq!(outcome.via_git, via_git, "{attributes}");
    }
}

#[test]
fn attributes_outside_the_tree_are_obeyed() {
    let repo = TestRepo::with_commit();
    let everywhere = repo.path().with_file_name("attributes");
    let path = everywhere.to_str().expect("UTF-8");
    repo.git(["config", "core.attributesFile", path]);
    repo.git(["config", "filter.rot.smudge", "tr a-z n-za-m"]);
    let here = repo.path().join(".git/info/attributes");
    for file in [&everywhere, &here] {
        for line in [
            "*.md eol=crlf\n",
            "*.md ident\n",
            "*.md filter=rot\n",
            "[attr]odd eol=crlf\n*.md odd\n",
        ] {
            fs::write(file, line).expect("write");
            let converted = check(&repo.path());
            assert!(converted.outcome.via_git || converted.outcome.copied == 2, "{line}");
            for worktree in [converted.ours, converted.theirs] {
                let top = worktree.to_str().expect("UTF-8");
                repo.git(["worktree", "remove", "--force", "--force", top]);
            }
        }
        fs::remove_file(file).expect("removed");
    }
}

#[test]
fn settings_are_obeyed() {
    let cases = [
        (&[("core.autocrlf", "true")][..], false),
        (&[("core.autocrlf", "input"), ("core.eol", "crlf")], false),
        (&[("core.symlinks", "false")], false),
        (&[("core.fileMode", "false")], false),
        (&[("core.checkStat", "minimal")], false),
        (&[("core.trustctime", "false")], false),
        (&[("index.version", "4")], false),
        (&[("core.splitIndex", "true")], true),
        (&[("core.sharedRepository", "group")], true),
        (&[("remote.origin.promisor", "true")], true),
        (&[("core.attributesFile", "../attributes")], true),
        (&[("attr.tree", "HEAD")], true),
    ];
    for (settings, via_git) in cases {
        let repo = varied();
        for (key, value) in settings {
            repo.git(["config", key, value]);
        }
        let outcome = check(&repo.path()).outcome;
        assert_eq!(outcome.via_git, via_git, "{settings:?}");
    }
}

#[test]
fn replaced_objects_are_left_to_git() {
    let repo = varied();
    let blob = repo.git(["rev-parse", "HEAD:a0"]);
    let other = repo.git(["rev-parse", "HEAD:a.b"]);
    repo.git(["replace", &blob, &other]);
    let outcome = populate_new(&repo.path(), "ours").expect("populate").1;
    assert!(outcome.via_git);
}

#[test]
fn sparse_checkout_is_inherited() {
    for cone in ["--cone", "--no-cone"] {
        let repo = varied();
        repo.git(["sparse-checkout", "set", cone, "src"]);
        let Pair { ours, theirs, outcome } = check(&repo.path());
        assert!(outcome.via_git && !ours.join("deep").exists());
        let list = ["sparse-checkout", "list"];
        assert_eq!(git_in(&ours, list), git_in(&theirs, list));
    }
}

#[test]
fn a_linked_worktrees_hooks_and_place_are_not_inherited() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "extensions.worktreeConfig", "true"]);
    repo.git(["worktree", "add", "--quiet", "--detach", "../linked"]);
    let linked = repo.path().with_file_name("linked");
    for (key, value) in [("core.hooksPath", "/fence"), ("hook.x.command", "true"), ("a.b", "c")] {
        git_in(&linked, ["config", "--worktree", key, value]);
    }
    let (ours, _) = populate_new(&linked, "ours").expect("populate");
    let kept = git_in(&ours, ["config", "--worktree", "--list"]);
    assert_eq!(kept, "a.b=c");
}

#[test]
fn submodules_are_empty_directories() {
    let library = TestRepo::with_commit();
    let repo = TestRepo::with_commit();
    let url = library.path();
    let url = url.to_str().expect("UTF-8");
    let words = ["-c", "protocol.file.allow=always", "submodule", "add", "--quiet", url, "lib/sub"];
    repo.git(words);
    repo.commit_all("submodule");
    let Pair { ours, outcome, .. } = check(&repo.path());
    assert_eq!(fs::read_dir(ours.join("lib/sub")).expect("directory").count(), 0);
    assert_eq!(outcome.warnings.len(), 1);
}

#[test]
fn an_empty_tree_is_an_empty_worktree() {
    let repo = TestRepo::empty();
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "nothing"]);
    let outcome = check(&repo.path()).outcome;
    assert_eq!((outcome.copied, outcome.checked_out), (0, 0));
}

#[test]
fn unsafe_names_are_refused_before_anything_is_written() {
    for name in [".git", "..", ".GIT", "git~1", ".git::$INDEX_ALLOCATION"] {
        let repo = TestRepo::with_commit();
        let blob = Oid::from_hex(&repo.git(["rev-parse", "HEAD:README.md"])).expect("an oid");
        let mut tree = b"100644 +fine\0".to_vec();
        tree.extend_from_slice(blob.as_bytes());
        tree.extend_from_slice(format!("100644 {name}\0").as_bytes());
        tree.extend_from_slice(blob.as_bytes());
        fs::write(repo.path().join("tree"), tree).expect("write");
        let words = ["hash-object", "-t", "tree", "-w", "--literally", "tree"];
        let tree = repo.git(words);
        let commit = repo.git(["commit-tree", "-m", "unsafe", &tree]);
        repo.git(["update-ref", "HEAD", &commit]);
        let error = populate_new(&repo.path(), "ours").expect_err(name);
        assert_eq!(error.code(), Code::PathInvalid, "{name}: {error}");
        let ours = repo.path().with_file_name("ours");
        assert_eq!(fs::read_dir(ours).expect("directory").count(), 1, "only .git");
    }
}

#[test]
fn a_missing_blob_is_named() {
    let repo = TestRepo::with_commit();
    let blob = repo.git(["rev-parse", "HEAD:README.md"]);
    fs::remove_file(repo.path().join("README.md")).expect("remove");
    let object = repo.path().join(".git/objects").join(&blob[..2]).join(&blob[2..]);
    fs::remove_file(object).expect("remove");
    let error = populate_new(&repo.path(), "ours").expect_err("blob is gone");
    assert_eq!(error.code(), Code::RepoCorrupt);
    assert!(error.message().contains(&blob) && error.message().contains("README.md"));
}

#[test]
fn a_failing_required_filter_fails() {
    let repo = TestRepo::with_commit();
    repo.git(["config", "filter.broken.clean", "cat"]);
    repo.git(["config", "filter.broken.smudge", "false"]);
    repo.git(["config", "filter.broken.required", "true"]);
    repo.write(".gitattributes", "*.md filter=broken\n");
    repo.git(["add", ".gitattributes"]);
    repo.git(["commit", "--quiet", "-m", "filter"]);
    let error = populate_new(&repo.path(), "ours").expect_err("the filter fails");
    assert_eq!(error.code(), Code::GitFailed);
}

#[test]
fn an_edit_of_the_same_size_is_seen() {
    let repo = varied();
    let (ours, _) = populate_new(&repo.path(), "ours").expect("populate");
    fs::write(ours.join("a0"), "sorts after b/").expect("write");
    assert_eq!(git_in(&ours, ["status", "--porcelain"]).trim(), "M a0");
    let refused = git_output(&ours, ["diff", "--quiet"]);
    assert_eq!(refused.status.code(), Some(1));
}
