//! The built `git-agent`, run as a user would run it.

use super::death::ctx_with;
use super::{TestRepo, isolated};
use git_agent::agents::context::ctx::Seams;
use git_agent::domain::life::id::AgentId;
use git_agent::domain::value::oid::Oid;
use git_agent::store::chain::keep;
use git_agent::store::ledger::Ledger;
use git_agent::store::ledger::agent_branch;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

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
        agent_command(&self.path()).args(arguments).output().expect("git-agent starts")
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

    /// Replaces the spawn commit of an agent that was just spawned by the one that earlier versions made, which
    /// carries no policy. Gives the agent's id, which is made from that commit, and the commit.
    pub fn without_policy_in_spawn_commit(&self, agent: &str) -> (String, String) {
        let shown = self.agent_json(&["show", agent]);
        let old = shown["spawn_commit"].as_str().expect("an oid");
        let text = self.git(["cat-file", "commit", old]);
        let lines = text.lines().filter(|line| !line.starts_with("agent-policy "));
        let text = lines.collect::<Vec<_>>().join("\n") + "\n";
        let new = self.write_commit(&text);
        let branch = shown["branch"].as_str();
        for name in branch.iter().map(|branch| format!("refs/heads/{branch}")) {
            self.git(["update-ref", &name, &new, old]);
        }
        let ctx = ctx_with(&self.path(), Seams::real());
        let [old, new] = [old, &new].map(|oid| Oid::from_hex(oid).expect("an oid"));
        keep::keep(&ctx.repo, &[new], "spawn", ctx.now()).expect("kept");
        let ledger = Ledger::new(&ctx.repo);
        for event in ledger.events(old).expect("readable") {
            let written = ledger.append(new, &event.by, event.what, event.at.time());
            written.expect("written");
        }
        self.git(["notes", "--ref=agents", "remove", &old.to_hex()]);
        // The branch keeps its name, which holds the old id.
        for name in branch.iter().map(|branch| format!("refs/heads/{branch}")) {
            agent_branch::note(&ctx.repo, new, &name).expect("noted");
        }
        let [from, to] = [old, new].map(|oid| AgentId::from_spawn_commit(oid).short());
        self.rename_agent_files(&from, &to);
        (AgentId::from_spawn_commit(new).to_string(), new.to_hex())
    }

    /// Writes a commit object and gives its name.
    pub fn write_commit(&self, text: &str) -> String {
        let mut command = isolated("git", &self.path());
        command.args(["hash-object", "-t", "commit", "-w", "--stdin"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("git starts");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(text.as_bytes()).expect("written");
        drop(input);
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "no commit: {text}");
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    }

    /// Gives an agent's admin directory and private files the name that fits another id.
    fn rename_agent_files(&self, from: &str, to: &str) {
        let git_dir = self.path().join(".git");
        let place = |directory: &str, name: &str| git_dir.join(directory).join(name);
        fs::rename(place("agents", from), place("agents", to)).expect("renamed");
        let [from_admin, to_admin] = [from, to].map(|id| format!("agent-{id}"));
        let admin = place("worktrees", &to_admin);
        if fs::rename(place("worktrees", &from_admin), &admin).is_err() {
            return;
        }
        let replace = |path: &Path| {
            let text = fs::read_to_string(path).expect("readable");
            fs::write(path, text.replace(from, to)).expect("written");
        };
        replace(&admin.join("locked"));
        replace(&admin.join("config.worktree"));
        let worktree = fs::read_to_string(admin.join("gitdir")).expect("readable");
        replace(Path::new(worktree.trim_end()));
    }

    /// Writes a task file beside the repository and gives its path.
    pub fn task_file(&self, task: &str) -> String {
        let path = self.path().with_file_name("task.toml");
        std::fs::write(&path, task).expect("write the task");
        path.to_str().expect("UTF-8").to_owned()
    }
}

/// Every command that `git agent help --all` lists.
pub fn verbs() -> Vec<String> {
    let nowhere = tempfile::tempdir().expect("temporary directory");
    let help = agent_command(nowhere.path()).args(["help", "--all"]).output();
    let help = String::from_utf8(help.expect("git-agent starts").stdout).expect("UTF-8");
    let rows = help.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let verbs: Vec<_> = rows.filter(|verb| !verb.is_empty()).map(str::to_owned).collect();
    assert!(verbs.len() > 30, "{help}");
    verbs
}

/// Runs a command that must succeed and reads its standard output as JSON.
pub fn json_of(mut command: Command) -> Value {
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    answer_of(&output)
}

/// The JSON answer of a command, which is as the schema that it names says and has no other keys.
pub fn answer_of(output: &Output) -> Value {
    let answer = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("no JSON: {error}: {}", describe(output)));
    crate::schema::judge_named(&answer);
    answer
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
