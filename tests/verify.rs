//! `verify`, end to end.

/// Verdicts that are signed.
mod attest;
/// What one agent reports of another, and what that means for it.
mod audits;
/// The six files and how they go wrong.
mod bundle;
/// The check commands.
mod commands;
/// What a task asks for beyond commands that succeed.
mod demands;
/// The action under the events of queues and forks.
mod events;
/// Branches that `git agent` did not make, and conflict markers.
mod guard;
/// How work lands, held to git's own answers.
mod landing;
/// Checks over a frozen base.
mod layers;
/// What forges make of agents' branches.
mod parts;
/// Other repositories: pruned, bare, shallow, CI.
mod places;
/// Files, directories and symlinks in each other's place.
mod replaced;
/// What was touched and where it comes from; tricks that must not work.
mod scope;
/// The quick look at a worktree, against git's.
mod survey;
/// What git does not look into.
mod unseen;
/// The verdict itself: recorded, repeated, cached.
mod verdict;

use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::support::{PAST_HOOKS, TestRepo, git_in};
use serde_json::Value;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A repository with one agent whose bundle is complete.
pub struct Agent {
    pub repo: TestRepo,
    pub id: String,
    pub worktree: PathBuf,
    pub branch: String,
}

impl Agent {
    pub fn new() -> Agent {
        Agent::of_task(TASK)
    }

    pub fn of_task(task: &str) -> Agent {
        Agent::spawned_in(TestRepo::with_commit(), task)
    }

    pub fn spawned_in(repo: TestRepo, task: &str) -> Agent {
        Agent::spawned_with(repo, task, &[])
    }

    /// As [`Agent::spawned_in`], with more arguments for the spawn.
    pub fn spawned_with(repo: TestRepo, task: &str, arguments: &[&str]) -> Agent {
        let report = repo.spawn_task(task, arguments);
        let agent = Agent::told_of(repo, &report);
        for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
            agent.write(&format!(".agent/{name}"), "written\n");
        }
        agent.write(".agent/progress.json", "{\"status\": \"done\"}\n");
        agent
    }

    /// The agent that a spawn answered.
    pub fn told_of(repo: TestRepo, report: &Value) -> Agent {
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        Agent {
            id: text("agent_id"),
            worktree: text("worktree_abspath").into(),
            branch: text("branch"),
            repo,
        }
    }

    /// The same agent as earlier versions spawned it: its spawn commit carries no policy.
    #[must_use]
    pub fn without_policy_in_spawn_commit(mut self) -> Agent {
        (self.id, _) = self.repo.without_policy_in_spawn_commit(&self.id);
        self
    }

    /// Writes a file of the worktree.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.worktree.join(name);
        let made = std::fs::create_dir_all(path.parent().expect("below"));
        // The place of a layered worktree is closed to all but root, and a command of its agent sees the files.
        if made.as_ref().is_err_and(|error| error.kind() == ErrorKind::PermissionDenied) {
            let content = str::from_utf8(content.as_ref()).expect("a text");
            let script = "mkdir -p \"$(dirname \"$0\")\" && printf %s \"$1\" >\"$0\"";
            let words = ["run", &self.id, "--no-verify", "--", "sh", "-c", script, name, content];
            let written = self.repo.agent(&words);
            assert!(written.status.success(), "{}", describe(&written));
            return;
        }
        made.expect("directories");
        std::fs::write(path, content).expect("write");
    }

    /// Runs git in the worktree.
    pub fn git(&self, arguments: &[&str]) -> String {
        // The judge believes no hook, so it is tried with what an agent gets past them.
        git_in(&self.worktree, [&PAST_HOOKS[..], arguments].concat())
    }

    /// Commits everything in the worktree.
    pub fn commit(&self, message: &str) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--no-verify", "-m", message]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Runs `verify` with more arguments.
    pub fn run(&self, arguments: &[&str]) -> Output {
        run_in(&self.repo.path(), &self.id, arguments)
    }

    /// Verifies, whatever comes out.
    pub fn verify(&self, arguments: &[&str]) -> Value {
        // Recorded, as that of finished work is.
        let record: &[&str] = if arguments.contains(&"--ci") { &[] } else { &["--record"] };
        report(&self.run(&[arguments, record, &["--format=json"]].concat()))
    }

    /// Verifies and gives the codes found.
    pub fn codes(&self) -> Vec<String> {
        codes(&self.verify(&[]))
    }
}

pub fn run_in(directory: &Path, id: &str, arguments: &[&str]) -> Output {
    agent_command(directory)
        .args(["verify", id])
        .args(arguments)
        .output()
        .expect("git-agent starts")
}

/// The report on standard output, whose verdict the status must repeat.
pub fn report(output: &Output) -> Value {
    let report = answer_of(output);
    // `guard` lets a branch pass for which there is no rule, with null.
    let status = if report["verdict"] == "reject" { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(status), "{}", describe(output));
    report
}

pub fn codes(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("findings").iter();
    findings.map(|finding| finding["code"].as_str().expect("a code").to_owned()).collect()
}

pub fn refused(output: &Output, code: &str, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}", describe(output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with(&format!("error[{code}]: ")), "{error}");
    assert!(output.stdout.is_empty());
}

/// As [`refused`] where the error is written as JSON.
pub fn refused_json(output: &Output, code: &str, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}", describe(output));
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    crate::schema::judge_named(&error);
    assert_eq!(error["error"]["code"], code);
}
