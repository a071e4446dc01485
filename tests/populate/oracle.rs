//! The repositories to populate from, and git's own worktree to compare with.

use crate::support::{TestRepo, git_in, git_output};
use git_agent::domain::value::oid::Oid;
use git_agent::error::Error;
use git_agent::git::Repo;
use git_agent::git::worktree::populate::{Populated, Request, populate};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Two new worktrees of one commit, siblings so that relative symlinks mean the same.
pub(super) struct Pair {
    pub(super) ours: PathBuf,
    pub(super) theirs: PathBuf,
    pub(super) outcome: Populated,
}

/// A linked worktree as spawn makes it before populating: `.git` and admin dir, no index.
fn unpopulated(repository: &Path, name: &str) -> (PathBuf, PathBuf) {
    let worktree = repository.with_file_name(name);
    let top = worktree.to_str().expect("UTF-8");
    let words = ["worktree", "add", "--quiet", "--detach", "--no-checkout", "--lock"];
    git_in(repository, words.iter().chain([&top]));
    let admin_dir = PathBuf::from(git_in(&worktree, ["rev-parse", "--absolute-git-dir"]));
    for made_by_git in ["index", "config.worktree", "info/sparse-checkout"] {
        let _ = fs::remove_file(admin_dir.join(made_by_git));
    }
    (worktree, admin_dir)
}

pub(super) fn populate_new(repository: &Path, name: &str) -> Result<(PathBuf, Populated), Error> {
    let (worktree, admin_dir) = unpopulated(repository, name);
    let commit = git_in(&worktree, ["rev-parse", "HEAD"]);
    let outcome = populate(&Request {
        repo: &Repo::open(repository)?,
        worktree: &worktree,
        admin_dir: &admin_dir,
        commit: Oid::from_hex(&commit).expect("an oid"),
        threads: 2,
        observer: &|_, _| {},
    })?;
    Ok((worktree, outcome))
}

/// Populates a worktree and requires that it is what git makes.
pub(super) fn check(repository: &Path) -> Pair {
    let (ours, outcome) = populate_new(repository, "ours").expect("populate");
    let theirs = repository.with_file_name("theirs");
    let top = theirs.to_str().expect("UTF-8");
    git_in(repository, ["worktree", "add", "--quiet", "--detach", top]);
    assert_same_files(&ours, &theirs);
    if !outcome.via_git {
        assert_stat_is_recorded(&ours);
    }
    assert_eq!(git_in(&ours, ["status", "--porcelain"]), "");
    for question in [&["ls-files", "--stage", "-v"][..], &["write-tree"], &["ls-files", "--eol"]] {
        let answer = git_in(&ours, question);
        assert_eq!(answer, git_in(&theirs, question), "{question:?}");
    }
    git_in(&ours, ["diff", "--cached", "--quiet"]);
    git_in(&ours, ["fsck", "--strict", "--no-dangling"]);
    Pair { ours, theirs, outcome }
}

/// Same names, kinds, content and modes below two directories.
pub(super) fn assert_same_files(one: &Path, two: &Path) {
    let list = |top: &Path| {
        let mut found = Vec::new();
        for entry in walkdir::WalkDir::new(top).sort_by_file_name() {
            let entry = entry.expect("readable");
            let name = entry.path().strip_prefix(top).expect("below").to_owned();
            if name == Path::new(".git") {
                continue;
            }
            let meta = entry.metadata().expect("stat");
            let content = if meta.is_symlink() {
                let target = fs::read_link(entry.path()).expect("symlink");
                target.as_os_str().as_bytes().to_owned()
            } else if meta.is_file() {
                fs::read(entry.path()).expect("readable")
            } else {
                Vec::new()
            };
            found.push((name, meta.mode(), content));
        }
        found
    };
    assert_eq!(list(one), list(two));
}

/// What the index records of every entry is what lstat says, and every modification second is below
/// the index's own: git need not open a single file to find the worktree clean.
fn assert_stat_is_recorded(worktree: &Path) {
    let git_dir = PathBuf::from(git_in(worktree, ["rev-parse", "--absolute-git-dir"]));
    // Asked before any command may refresh the index: `--debug` only prints what is stored.
    let index = fs::metadata(git_dir.join("index")).expect("index").mtime();
    let answer = git_output(worktree, ["ls-files", "--debug", "-z"]).stdout;
    let mut path = &[][..];
    for piece in answer.split(|&byte| byte == 0) {
        // The entry's five lines come after its name and before the next one's.
        let lines = piece.split_inclusive(|&byte| byte == b'\n');
        let length = lines.take(5).map(<[u8]>::len).sum::<usize>();
        let (recorded, next) = piece.split_at(if path.is_empty() { 0 } else { length });
        if !path.is_empty() {
            let file = worktree.join(std::ffi::OsStr::from_bytes(path));
            let meta = fs::symlink_metadata(&file).expect("a file");
            assert!(meta.is_dir() || meta.mtime() < index, "{file:?} is racy");
            if !meta.is_dir() {
                let times = [
                    ("ctime", meta.ctime(), meta.ctime_nsec()),
                    ("mtime", meta.mtime(), meta.mtime_nsec()),
                ]
                .map(|(name, seconds, nanoseconds)| format!("  {name}: {seconds}:{nanoseconds}"));
                let now = format!(
                    "{}\n{}\n  dev: {}\tino: {}\n  uid: {}\tgid: {}\n  size: {}\tflags: 0\n",
                    times[0],
                    times[1],
                    meta.dev() as u32,
                    meta.ino() as u32,
                    meta.uid(),
                    meta.gid(),
                    meta.size() as u32,
                );
                assert_eq!(String::from_utf8_lossy(recorded), now, "{file:?}");
            }
        }
        path = next;
    }
}

/// A repository with nested directories, exec bits, symlinks of all sorts and names of all sorts.
pub(super) fn varied() -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write("a.b", "sorts before a/");
    repo.write("a/one", "sorts after a.b");
    repo.write("a0", "sorts after a/");
    repo.write("deep/er/and/deeper/file", "deep\n");
    repo.write("empty", "");
    repo.write("large", vec![7; 300 << 10]);
    repo.write("line\nfeed", "newline in the name");
    let latin1 = std::ffi::OsStr::from_bytes(b"not-utf8-\xe9");
    fs::write(repo.path().join(latin1), "latin-1 name").expect("write");
    repo.write("tool.sh", "#!/bin/sh\n");
    let tool = repo.path().join("tool.sh");
    fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).expect("chmod");
    for (target, name) in [("nowhere", "dangling"), ("deep/er", "to-dir"), ("a0", "to-file")] {
        symlink(target, repo.path().join(name)).expect("symlink");
    }
    repo.commit_all("varied");
    repo
}

pub(super) fn bare_clone(repo: &TestRepo) -> PathBuf {
    let bare = repo.path().with_file_name("bare.git");
    let words = ["clone", "--quiet", "--bare", ".", "../bare.git"];
    repo.git(words);
    bare
}
