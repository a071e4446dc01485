//! Directories so deep that no path leads to what is in them.

use super::assert_kept;
use crate::support::death;
use crate::support::git_in;
use crate::verify::Agent;
use git_agent::ops::discard::{self, DiscardOptions};
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// So many directories in one another.
const DEPTH: usize = 5_000;

/// The name of each: with a short one, git looks for long into what it can reach.
const NAME: &str = "a-directory";

/// Makes directories in one another, with a file in the last one and in the middle.
fn dig(top: &Path, deepest: usize) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut here = openat(CWD, top, flags, Mode::empty()).expect("opened");
    for depth in 1..=deepest {
        mkdirat(&here, NAME, Mode::RWXU).expect("made");
        here = openat(&here, NAME, flags, Mode::empty()).expect("opened");
        if depth == deepest / 2 || depth == deepest {
            let flags = OFlags::CREATE | OFlags::WRONLY;
            let file = openat(&here, "file", flags, Mode::RUSR).expect("made");
            write!(File::from(file), "{depth} deep").expect("written");
        }
    }
}

#[test]
fn what_no_path_leads_to_is_kept_and_goes() {
    let agent = Agent::new();
    agent.write("src/beside.rs", "beside\n");
    dig(&agent.worktree, DEPTH);
    dig(&agent.worktree.join(".agent"), DEPTH / 2);
    let ctx = death::ctx(&agent.repo.path(), Arc::new(|_| {}));
    let plan = discard::plan(&ctx, &agent.id, DiscardOptions::default()).expect("a plan");
    let report = discard::execute(&ctx, plan).expect("discarded");
    assert!(!agent.worktree.exists());
    discard::sweep(&ctx, &report.trash);
    let trash = agent.repo.path().join(".git/agents/trash");
    assert_eq!(trash.read_dir().expect("listed").count(), 0);

    let said = report.warnings.join("\n");
    assert!(said.contains("too-deep (2 of them)"), "{said}");
    let git = |words: &[&str]| git_in(&agent.repo.path(), words);
    let depth = |commit: &Option<String>, number: usize| {
        let commit = commit.as_ref().expect("kept");
        let kept = format!("{commit}:too-deep/{number}");
        let path = git(&["show", &format!("{kept}.path")]);
        let below = git(&["ls-tree", "-r", "--name-only", &kept]);
        format!("{path}/{below}").matches('/').count()
    };
    assert_eq!(depth(&report.salvage_commit, 1), DEPTH);
    assert_eq!(depth(&report.salvage_commit, 2), DEPTH / 2);
    assert_eq!(depth(&report.bundle_commit, 1), DEPTH / 2);
    assert_kept(&agent.repo, &["5000 deep", "2500 deep", "1250 deep", "beside\n"], "deep");
    // What is kept comes back.
    let to = agent.repo.path().with_file_name("back");
    agent.repo.agent_json(&["rescue", &agent.id, "--to", to.to_str().expect("UTF-8")]);
    assert!(to.join("too-deep/1.path").exists());
}
