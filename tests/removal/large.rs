//! Files that are too long to be read when a worktree goes.

use crate::support::TestRepo;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Ten gigabytes, of which the disk holds a few bytes.
const LENGTH: u64 = 10 << 30;

struct Agent {
    repo: TestRepo,
    id: String,
    worktree: PathBuf,
}

/// An agent whose worktree has a tracked file, `data.bin`.
fn agent() -> Agent {
    let repo = TestRepo::with_commit();
    repo.write("data.bin", "small\n");
    repo.write(".gitignore", "*.tmp\n");
    repo.commit_all("data");
    let report = repo.spawn();
    let text = |key: &str| report[key].as_str().expect("a text").to_owned();
    Agent { id: text("agent_id"), worktree: text("worktree_abspath").into(), repo }
}

/// A file with a few bytes at its end, so that reading it is no matter of its length alone.
fn grow(path: &Path) {
    use std::os::unix::fs::FileExt;
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    let file = File::create(path).expect("made");
    file.set_len(LENGTH).expect("grown");
    file.write_all_at(b"the end", LENGTH - 7).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o640)).expect("set");
}

fn is_whole(path: &Path) -> bool {
    use std::os::unix::fs::FileExt;
    let mut end = [0; 7];
    let file = File::open(path);
    file.is_ok_and(|file| file.read_exact_at(&mut end, LENGTH - 7).is_ok()) && &end == b"the end"
}

/// How much the objects of a repository take of the disk, in bytes.
fn objects(repo: &TestRepo) -> u64 {
    let files = walkdir::WalkDir::new(repo.path().join(".git/objects")).into_iter();
    files.map(|file| file.expect("readable").metadata().expect("there").len()).sum()
}

fn paths(report: &Value, key: &str) -> Vec<String> {
    let files = report[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut paths: Vec<_> =
        files.iter().map(|file| file["path"].as_str().expect("a path").to_owned()).collect();
    paths.sort();
    paths
}

#[test]
fn a_discard_moves_large_files_and_reads_none() {
    let agent = agent();
    grow(&agent.worktree.join("data.bin"));
    grow(&agent.worktree.join("new/deep/model.bin"));
    grow(&agent.worktree.join("ignored.tmp"));
    fs::write(agent.worktree.join("small.txt"), "small\n").expect("written");
    let inode = fs::metadata(agent.worktree.join("data.bin")).expect("there").ino();
    let before = objects(&agent.repo);
    let report = agent.repo.agent_json(&["discard", &agent.id, "--with-ignored"]);
    let all = ["data.bin", "ignored.tmp", "new/deep/model.bin"];
    assert_eq!(paths(&report, "set_aside"), all, "{report:#}");
    assert!(objects(&agent.repo) - before < 1 << 20);
    assert!(!agent.worktree.exists());
    let listed = agent.repo.agent_json(&["gc"]);
    assert_eq!(paths(&listed, "large"), all, "{listed:#}");
    assert_eq!(listed["large"][0]["mode"], "0640");
    assert_eq!(listed["large"][0]["size_bytes"], LENGTH);
    // They are in the way of an uninstall, and a branch cannot hold them.
    let refused = agent.repo.agent(&["uninstall", "--yes"]);
    assert_eq!(refused.status.code(), Some(3));
    let branch = agent.repo.agent_json(&["rescue", &agent.id, "--branch", "back"]);
    assert!(branch["warnings"].to_string().contains("64 MiB"), "{branch}");
    // Copies go elsewhere, and the very files back to the agent.
    let to = agent.repo.path().with_file_name("rescued");
    let place = to.to_str().expect("UTF-8");
    agent.repo.agent_json(&["rescue", &agent.id, "--to", place]);
    for path in all {
        assert!(is_whole(&to.join(path)), "{path}");
        let copy = fs::metadata(to.join(path)).expect("there");
        assert!(copy.blocks() < 4096, "{path} takes {} blocks", copy.blocks());
        assert_eq!(copy.mode() & 0o777, 0o640, "{path}");
    }
    assert_eq!(fs::read_to_string(to.join("small.txt")).expect("there"), "small\n");
    let without = agent.repo.agent_json(&["uninstall", "--ledger"]);
    let kept = &without["lost"]["set_aside"];
    assert!(kept.to_string().contains("/large"), "{without:#}");
    agent.repo.agent_json(&["rescue", &agent.id, "--reopen"]);
    for path in all {
        assert!(is_whole(&agent.worktree.join(path)), "{path}");
    }
    assert_eq!(fs::metadata(agent.worktree.join("data.bin")).expect("there").ino(), inode);
    assert_eq!(paths(&agent.repo.agent_json(&["gc"]), "large"), Vec::<String>::new());
}

#[test]
fn a_reopened_agent_has_its_large_files_and_a_refused_discard_gives_them_back() {
    let agent = agent();
    grow(&agent.worktree.join("new.bin"));
    // What no salvage can hold is a refusal.
    let nested = agent.worktree.join("nested");
    fs::create_dir_all(&nested).expect("made");
    crate::support::git_in(&nested, ["init", "--quiet"]);
    fs::write(nested.join("file"), "text").expect("written");
    let refused = agent.repo.agent(&["discard", &agent.id]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(is_whole(&agent.worktree.join("new.bin")));
    fs::remove_dir_all(&nested).expect("removed");
    agent.repo.agent_json(&["discard", &agent.id]);
    agent.repo.agent_json(&["rescue", &agent.id, "--reopen"]);
    assert!(is_whole(&agent.worktree.join("new.bin")));
}
