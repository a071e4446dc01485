//! Several clones of one repository.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe, json_of};
use crate::support::death::ctx_with;
use crate::support::git_in;
use crate::verify::refused;
use chrono::{DateTime, Utc};
use git_agent::ops::ctx::Seams;
use git_agent::ops::spawn::{self, SpawnOptions};
use git_agent::wire::task_file;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A repository, and a clone of it that knows it as `origin`; the repository knows the clone as `there`.
struct Clones {
    here: TestRepo,
    there: PathBuf,
}

impl Clones {
    fn new() -> Clones {
        let here = TestRepo::with_commit();
        let there = here.path().with_file_name("there");
        let url = |path: &Path| format!("file://{}", path.display());
        let to = there.to_str().expect("UTF-8");
        git_in(&here.path(), ["clone", "--quiet", &url(&here.path()), to]);
        here.git(["remote", "add", "there", &url(&there)]);
        Clones { here, there }
    }

    fn there_json(&self, arguments: &[&str]) -> Value {
        let mut command = agent_command(&self.there);
        command.args(arguments).arg("--format=json");
        json_of(command)
    }

    fn spawn_there(&self, arguments: &[&str]) -> Value {
        let task = self.here.task_file(TASK);
        self.there_json(&[&["spawn", task.as_str()], arguments].concat())
    }

    /// Brings the rows of each clone to the other.
    fn unite(&self) {
        let copy = |remote: &str| format!("+refs/notes/agents:refs/notes/{remote}/agents");
        let there = copy("there");
        self.here.git(["fetch", "--quiet", "there", &there]);
        self.here.agent_json(&["unite", "there"]);
        let origin = copy("origin");
        git_in(&self.there, ["fetch", "--quiet", "origin", &origin]);
        self.there_json(&["unite"]);
    }
}

fn text(report: &Value, key: &str) -> String {
    report[key].as_str().expect(key).to_owned()
}

/// Spawns at a moment that the test chooses and gives the short name of the branch.
fn spawn_at(directory: &Path, now: DateTime<Utc>) -> String {
    let seams = Seams {
        clock: Arc::new(move || now),
        ..Seams::real()
    };
    let ctx = ctx_with(directory, seams);
    let draft = task_file::parse("task.toml", TASK.as_bytes());
    let plan = spawn::plan(&ctx, draft, &SpawnOptions::default()).expect("a plan");
    let report = spawn::execute(&ctx, plan).expect("an agent");
    report.branch.expect("a branch")
}

#[test]
fn j5_two_clones_give_two_names_in_one_second() {
    let clones = Clones::new();
    let now = Utc::now();
    let here = spawn_at(&clones.here.path(), now);
    let there = spawn_at(&clones.there, now);
    assert_ne!(here, there);
    let time = now.format("%Y%m%dT%H%M%SZ").to_string();
    for branch in [&here, &there] {
        let (slug, id8) = branch.split_once(&format!("-{time}-")).expect("the time");
        assert_eq!(slug, "agent/add-a-second-function-to-the");
        let agent = if *branch == here {
            clones.here.agent_json(&["show", branch])
        } else {
            clones.there_json(&["show", branch])
        };
        assert_eq!(agent["short_id"], id8);
    }
}

#[test]
fn j5_a_branch_of_two_rows_is_the_agents_whose_spawn_commit_it_holds() {
    let clones = Clones::new();
    let named = ["--branch", "agent/same"];
    let here = clones.here.spawn_task(TASK, &named);
    let there = clones.spawn_there(&named);
    clones.unite();
    let by_name = clones.here.agent_json(&["show", "agent/same"]);
    assert_eq!(by_name["agent_id"], here["agent_id"]);
    let by_name = clones.there_json(&["show", "agent/same"]);
    assert_eq!(by_name["agent_id"], there["agent_id"]);

    // The other clone's agent has no branch here, so no command takes this one's for its own.
    let other = text(&there, "agent_id");
    let judged = clones.here.agent(&["verify", &other]);
    refused(&judged, "branch-gone", 4);
    let list = clones.here.agent_json(&["list"]);
    let tip = |id: &Value| {
        let rows = list["agents"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["agent_id"] == *id);
        row.expect("listed")["tip_oid"].clone()
    };
    assert_eq!(tip(&here["agent_id"]), here["spawn_commit"]);
    assert_eq!(tip(&there["agent_id"]), Value::Null);
    let _ = clones.here.agent(&["discard", &other]);
    let kept = clones.here.git(["rev-parse", "refs/heads/agent/same"]);
    assert_eq!(kept, text(&here, "spawn_commit"));

    // A rebase gives the spawn commit another name, and a trailer still tells whose it is.
    clones.here.write("later.txt", "later\n");
    clones.here.commit_all("later");
    let worktree = PathBuf::from(text(&here, "worktree_abspath"));
    let rebase = [
        "-c",
        "core.hooksPath=/dev/null",
        "rebase",
        "--quiet",
        "main",
    ];
    git_in(&worktree, rebase);
    let by_name = clones.here.agent(&["show", "agent/same", "--format=json"]);
    let by_name: Value = serde_json::from_slice(&by_name.stdout)
        .unwrap_or_else(|_| panic!("{}", describe(&by_name)));
    assert_eq!(by_name["agent_id"], here["agent_id"]);
}
