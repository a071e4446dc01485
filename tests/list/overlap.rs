//! With whom an agent overlaps, by the same answer as `overlap --changes` gives.

use crate::support::TestRepo;
use crate::support::agent::TASK;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// Four agents: the first two meet in one path, the second and third in another, the last meets nobody.
fn crowd() -> (TestRepo, Vec<String>) {
    let repo = TestRepo::with_commit();
    let spawn = |paths: &[&str]| {
        let report = repo.spawn_task(TASK, &[]);
        let text = |key: &str| report[key].as_str().expect(key).to_owned();
        for path in paths {
            let path = Path::new(&text("worktree_abspath")).join(path);
            std::fs::write(path, "changed\n").expect("write");
        }
        text("agent_id")
    };
    let ids = vec![
        spawn(&["src/lib.rs"]),
        spawn(&["src/lib.rs", "src/new.rs", ".agent/plan.md"]),
        spawn(&["src/new.rs", "src/own.rs", ".agent/plan.md"]),
        spawn(&["src/alone.rs"]),
    ];
    repo.agent_json(&["commit", &ids[2], "--message=work"]);
    (repo, ids)
}

/// How many others `overlap` finds for an agent, and in how many paths.
fn by_overlap(repo: &TestRepo, id: &str) -> Value {
    let output = repo.agent(&["overlap", "--changes", "--format=json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let pairs = report["pairs"].as_array().expect("pairs").iter();
    let own: Vec<&Value> =
        pairs.filter(|pair| pair["one_id"] == id || pair["two_id"] == id).collect();
    let paths = own.iter().flat_map(|pair| {
        let paths = pair["changes"]["paths"].as_array().expect("paths");
        paths.iter().map(Value::to_string)
    });
    let paths: BTreeSet<String> = paths.collect();
    match own.len() {
        0 => Value::Null,
        agents => json!({ "agents": agents, "paths": paths.len() }),
    }
}

#[test]
fn it_counts_what_overlap_finds() {
    let (repo, ids) = crowd();
    let listed = repo.agent_json(&["list"]);
    for (id, row) in ids.iter().zip(listed["agents"].as_array().expect("rows")) {
        assert_eq!(row["agent_id"], id.as_str());
        assert_eq!(row["overlap"], by_overlap(&repo, id), "{id}");
    }
    assert_eq!(listed["agents"][1]["overlap"], json!({ "agents": 2, "paths": 2 }));
    assert_eq!(listed["agents"][3].get("overlap"), None);
    let fast = repo.agent_json(&["list", "--fast"]);
    assert_eq!(fast["agents"][0].get("overlap"), None);
}

#[test]
fn it_is_a_column_while_anybody_meets_anybody() {
    let (repo, ids) = crowd();
    let text = |arguments: &[&str]| {
        let output = repo.agent(arguments);
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let table = text(&["list"]);
    let (header, rest) = table.split_once('\n').expect("a header");
    let column = header.find("OVERLAP").expect("the column");
    let cells: Vec<&str> = rest.lines().map(|line| line[column..column + 7].trim()).collect();
    assert_eq!(cells, ["1", "2", "1", ""]);
    repo.agent_json(&["discard", &ids[1]]);
    assert!(!text(&["list"]).contains("OVERLAP"));
}
