//! The built `git-agent`, run as a user would run it.

use super::{TestRepo, isolated};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// A task that every rule accepts.
pub const TASK: &str = r#"role = "edit-local"
task = "Add a second function to the library and test it."
[scope]
whitelist = ["src/**"]
"#;

/// A task for an agent without a worktree.
pub const SHARED_TASK: &str = r#"role = "read-only"
task = "Read the library and say what is missing in it."
[scope]
whitelist = ["src/**"]
"#;

/// A `git-agent` command in a directory, free of the machine's configuration.
pub fn agent_command(directory: &Path) -> Command {
    isolated(env!("CARGO_BIN_EXE_git-agent"), directory)
}

impl TestRepo {
    /// Runs `git-agent` in the main worktree, whatever its status.
    pub fn agent(&self, arguments: &[&str]) -> Output {
        agent_command(&self.path())
            .args(arguments)
            .output()
            .expect("git-agent starts")
    }

    /// Runs `git-agent`, which must succeed, and reads its JSON.
    pub fn agent_json(&self, arguments: &[&str]) -> Value {
        let mut command = agent_command(&self.path());
        command.args(arguments).arg("--format=json");
        json_of(command)
    }

    /// Spawns one agent of [`TASK`] and gives the answer.
    pub fn spawn(&self) -> Value {
        self.spawn_task(TASK, &[])
    }

    /// Spawns one agent of a task, which is kept outside the repository.
    pub fn spawn_task(&self, task: &str, arguments: &[&str]) -> Value {
        let path = self.task_file(task);
        let mut all = vec!["spawn", path.as_str()];
        all.extend(arguments);
        self.agent_json(&all)
    }

    /// Writes a task file beside the repository and gives its path.
    pub fn task_file(&self, task: &str) -> String {
        let path = self.path().with_file_name("task.toml");
        std::fs::write(&path, task).expect("write the task");
        path.to_str().expect("UTF-8").to_owned()
    }
}

/// Runs a command that must succeed and reads its standard output as JSON.
pub fn json_of(mut command: Command) -> Value {
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// All that a command said, for messages and snapshots.
pub fn describe(output: &Output) -> String {
    format!(
        "{}------- stderr -------\n{}[exit status: {}]",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
        output.status.code().unwrap_or(-1)
    )
}
