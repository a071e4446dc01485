//! The git hooks of an agent's worktree: what they refuse, what they let be, and that the repository's
//! own hooks go on working.

/// Whose refs may be moved, and what may be on the agent's branch.
mod fence;
/// The repository's own hooks inside the kernel's fence.
mod fenced;
/// Where the hooks are written, and that this is noticed when it changes.
mod installation;
/// The repository's own hooks.
mod own;

use crate::support::agent::TASK;
use crate::support::{TestRepo, git_output};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A repository with one agent, whose whitelist is `src/**`.
struct Fenced {
    repo: TestRepo,
    report: Value,
    /// The agent's worktree.
    top: PathBuf,
}

impl Fenced {
    fn new() -> Fenced {
        Fenced::on(TestRepo::with_commit())
    }

    fn on(repo: TestRepo) -> Fenced {
        let report = repo.spawn_task(TASK, &[]);
        let top = PathBuf::from(report["worktree_abspath"].as_str().expect("a worktree"));
        Fenced { repo, report, top }
    }

    fn text(&self, key: &str) -> &str {
        self.report[key].as_str().expect("a text")
    }

    fn short_id(&self) -> &str {
        &self.text("agent_id")[..8]
    }

    /// The directory of the shims.
    fn shims(&self) -> PathBuf {
        self.repo.path().join(".git/agents").join(self.short_id()).join("hooks")
    }

    /// Appends to a file of the agent's worktree and stages it.
    fn stage(&self, name: &str) {
        let path = self.top.join(name);
        std::fs::create_dir_all(path.parent().expect("below the top")).expect("directories");
        let mut text = std::fs::read(&path).unwrap_or_default();
        text.extend(b"// more\n");
        std::fs::write(&path, text).expect("write");
        self.allowed(&["add", "--", name]);
    }

    fn git(&self, arguments: &[&str]) -> Output {
        git_output(&self.top, arguments)
    }

    /// Runs git in the agent's worktree, which must succeed; gives all it said.
    #[track_caller]
    fn allowed(&self, arguments: &[&str]) -> String {
        let output = self.git(arguments);
        assert!(output.status.success(), "git {arguments:?}: {}", said(&output));
        said(&output)
    }

    /// Runs git in the agent's worktree, which our hooks must refuse; gives all it said.
    #[track_caller]
    fn refused(&self, arguments: &[&str]) -> String {
        let before = self.repo.git(["for-each-ref"]);
        let output = self.git(arguments);
        let said = said(&output);
        assert!(!output.status.success(), "git {arguments:?} was let through: {said}");
        assert!(said.contains("error[hook-refused]"), "git {arguments:?}: {said}");
        assert_eq!(self.repo.git(["for-each-ref"]), before, "git {arguments:?} moved a ref");
        said
    }

    fn head(&self) -> String {
        self.allowed(&["rev-parse", "HEAD"]).trim().to_owned()
    }
}

fn said(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// Writes an executable script, making its directory.
pub fn script(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("directories");
    let _ = std::fs::remove_file(path);
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).expect("write");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
}
