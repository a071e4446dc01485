//! A bare remote and clones of it, with the commands that tests of several clones repeat.

use super::agent::{agent_command, json_of};
use super::{TestRepo, git_in, git_output};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Output;

/// A bare remote and clones of it, side by side.
pub struct Hub {
    first: TestRepo,
    pub bare: PathBuf,
    pub clones: Vec<PathBuf>,
}

/// The four refs that travel, as every clone and the remote name them.
pub const REFS: [&str; 4] =
    ["refs/notes/agents", "refs/agents/keep", "refs/agents/mail", "refs/notes/agents-mail"];

/// A value of `remote.<name>.uploadpack`: a server that speaks the older protocol only, and has no variables of the clone.
pub const OLD_SERVER: &str = "unset GIT_PROTOCOL GIT_REF_PARANOIA; git-upload-pack";

impl Hub {
    /// A remote with one commit, and so many clones of it.
    pub fn new(clones: usize) -> Hub {
        let first = TestRepo::with_commit();
        let place = first.path().with_file_name("hub.git");
        let bare = place.to_str().expect("UTF-8");
        first.git(["clone", "--quiet", "--bare", ".", bare]);
        let mut hub = Hub { first, bare: place.clone(), clones: Vec::new() };
        for number in 0..clones {
            let name = format!("clone-{number}");
            hub.add(&name, &[]);
        }
        hub
    }

    /// A remote and two clones that send everything and have the row of one agent, `a`, of the first.
    pub fn synchronised() -> (Hub, [PathBuf; 2]) {
        let hub = Hub::new(2);
        hub.send_all();
        let clones = [0, 1].map(|number| hub.clones[number].clone());
        row(&clones[0], "a");
        for clone in &clones {
            json(clone, &["sync"]);
        }
        (hub, clones)
    }

    /// Another clone, made with these options.
    pub fn add(&mut self, name: &str, options: &[&str]) -> PathBuf {
        let place = self.bare.with_file_name(name);
        let url = format!("file://{}", self.bare.display());
        let mut words = vec!["clone", "--quiet"];
        words.extend(options);
        words.extend([url.as_str(), name]);
        git_in(self.bare.parent().expect("a directory"), words);
        self.clones.push(place.clone());
        place
    }

    /// Every clone sends everything.
    pub fn send_all(&self) -> &Hub {
        for clone in &self.clones {
            git_in(clone, ["config", "agent.sync", "all"]);
        }
        self
    }

    /// Where a ref of the remote is; empty for none.
    pub fn remote_tip(&self, name: &str) -> String {
        tip(&self.bare, name)
    }

    /// The names of the outboxes on the remote.
    pub fn outboxes(&self) -> Vec<String> {
        let names = git_in(&self.bare, ["for-each-ref", "--format=%(refname)", "refs/agents/from"]);
        names.lines().map(str::to_owned).collect()
    }

    /// Makes a file of the remote's hooks.
    pub fn hook(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.bare.join("hooks").join(name);
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
        let executable = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, executable).expect("executable");
    }

    /// That this clone and the remote agree on all four refs.
    pub fn assert_equal(&self, clone: &Path) {
        for name in REFS {
            assert_eq!(tip(clone, name), self.remote_tip(name), "{name}");
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        use std::os::unix::fs::PermissionsExt;
        for clone in &self.clones {
            let agents = std::fs::read_dir(clone.join(".git/agents"));
            for agent in agents.into_iter().flatten().flatten() {
                let writable = std::fs::Permissions::from_mode(0o755);
                let _ = std::fs::set_permissions(agent.path().join("hooks"), writable);
            }
        }
        let _ = &self.first;
    }
}

/// Where a ref is; empty for none.
pub fn tip(repo: &Path, name: &str) -> String {
    let output = git_output(repo, ["rev-parse", "--verify", "--quiet", name]);
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn agent(clone: &Path, words: &[&str]) -> Output {
    let output = agent_command(clone).args(words).output();
    output.expect("git-agent starts")
}

pub fn json(clone: &Path, words: &[&str]) -> Value {
    let mut command = agent_command(clone);
    command.args(words).arg("--format=json");
    json_of(command)
}

/// A shared agent, which is a row and nothing else; gives its id.
pub fn row(clone: &Path, name: &str) -> String {
    let spawned = json(
        clone,
        &[
            "spawn",
            "-m",
            "Read the library and say what is missing in it.",
            "--role=read-only",
            "--scope=src/**",
            "--name",
            name,
        ],
    );
    spawned["agent_id"].as_str().expect("an id").to_owned()
}

/// An agent with a worktree, spawned with these further words; gives the answer.
pub fn spawn(clone: &Path, words: &[&str]) -> Value {
    let text = "Add a second function to the library.";
    let task = ["spawn", "-m", text, "--scope=src/**"];
    json(clone, &[&task, words].concat())
}

/// The full name of the branch in an answer of `spawn`.
pub fn branch_of(spawned: &Value) -> String {
    let short = spawned["branch"].as_str().expect("a branch");
    format!("refs/heads/{short}")
}

/// The names of all agents that a clone has rows of, sorted.
pub fn names(clone: &Path) -> Vec<String> {
    let listed = json(clone, &["list", "--all", "--fast"]);
    let agents = listed["agents"].as_array().expect("rows");
    let mut names: Vec<_> =
        agents.iter().map(|row| row["name"].as_str().unwrap_or("-")).map(str::to_owned).collect();
    names.sort();
    names
}

/// The state of a ref in an answer of `sync`.
pub fn state<'v>(report: &'v Value, name: &str) -> &'v str {
    let refs = report["refs"].as_array().expect("refs");
    let one = refs.iter().find(|one| one["ref"] == name);
    one.and_then(|one| one["state"].as_str()).unwrap_or("-")
}
