use super::{line, row, shown, spawn_commit, unite_with};
use crate::support::git_in;
use crate::verify::{Agent, codes};
use serde_json::{Value, json};

const FAR: &str = "99991231T235959.999999Z-000-dead";

fn finished() -> Agent {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent
}

fn doctor(agent: &Agent) -> Vec<String> {
    let output = agent.repo.agent(&["doctor", "--format=json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let findings = report["findings"].as_array().expect("findings").iter();
    let code = |finding: &Value| finding["code"].as_str().expect("a code").to_owned();
    findings.map(code).filter(|code| code.starts_with("ledger.")).collect()
}

fn failed() -> Value {
    json!({"reason": "said elsewhere"})
}

#[test]
fn f18_an_event_of_the_year_9999_dates_no_other_and_is_not_the_last_word() {
    let agent = finished();
    let nearly = FAR.replace("9999Z", "9990Z");
    let lines = [FAR, &nearly, &FAR.replace("dead", "beef")]
        .map(|stamp| line(&agent, stamp, "failed", failed()));
    unite_with(&agent, &lines);
    let before = shown(&agent);
    assert_eq!(before["state"], "failed");
    let said = before["irregular"].to_string();
    assert!(said.contains("is dated 9999-12-31, ahead of the clock"), "{said}");
    assert_eq!(doctor(&agent), ["ledger.clock-ahead"]);

    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    // What somebody said elsewhere stands until a person says otherwise.
    assert_eq!(shown(&agent)["state"], "failed");
    agent.repo.agent_json(&["done", &agent.id]);
    let after = shown(&agent);
    assert_eq!(after["state"], "done", "{after:#}");
    assert!(!after["updated_at"].as_str().expect("a time").starts_with("9999"));
    let stamps =
        row(&agent).into_iter().map(|line| line["t"].as_str().expect("a stamp").to_owned());
    assert_eq!(stamps.filter(|stamp| stamp.starts_with("9999")).count(), 3, "none of ours");
    assert_eq!(doctor(&agent), [""; 0]);

    // Another clone reads the same row.
    let clone = agent.repo.path().with_file_name("clone");
    let (from, to) = (agent.repo.path(), clone.to_str().expect("UTF-8").to_owned());
    git_in(&from, ["clone", "--quiet", ".", &to]);
    for refspec in ["+refs/notes/agents:refs/notes/agents", "+refs/agents/keep:refs/agents/keep"] {
        git_in(&clone, ["fetch", "--quiet", "origin", refspec]);
    }
    let mut command = crate::support::agent::agent_command(&clone);
    command.args(["show", &agent.id, "--format=json"]);
    let there = crate::support::agent::json_of(command);
    for key in ["state", "updated_at", "created_at", "events", "irregular", "summary"] {
        assert_eq!(there[key], after[key], "{key}");
    }

    let landed = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(landed["outcome"], "merged");
    assert_eq!(shown(&agent)["state"], "merged");
}

#[test]
fn f18_a_beginning_that_was_made_up_does_not_block() {
    let agent = finished();
    let row = row(&agent);
    let (spawning, spawned) = (&row[0], &row[1]);
    let facts = |of: &Value, key: &str, value: Value| {
        let mut facts = of["d"].clone();
        facts[key] = value;
        facts
    };
    let wider =
        agent.repo.git(["cat-file", "-p", spawned["d"]["policy"].as_str().expect("a blob")]);
    agent.repo.write("wider", wider.replace("src/**", "**/*"));
    let wider = agent.repo.git(["hash-object", "-w", "wider"]);
    std::fs::remove_file(agent.repo.path().join("wider")).expect("removed");
    let early = "19700101T000000.000000Z-000-dead";
    let now = spawning["t"].as_str().expect("a stamp").replace("-000-", "-001-");
    let last =
        row.last().expect("a line")["t"].as_str().expect("a stamp").replace("-000-", "-002-");
    let lines = [
        line(&agent, early, "failed", failed()),
        line(&agent, early, "spawning", facts(spawning, "role", json!("super"))),
        line(&agent, &now, "spawning", facts(spawning, "branch", json!("refs/heads/main"))),
        line(&agent, &now, "spawned", facts(spawned, "policy", json!(wider))),
        line(&agent, &now, "spawned", facts(spawned, "spec_sha", json!("00"))),
        line(&agent, &last, "spawned", facts(spawned, "excludes", json!([wider]))),
        line(&agent, &last, "spawning", spawning["d"].clone()),
        line(&agent, early, "levitated", json!({})),
    ];
    unite_with(&agent, &lines);
    let shown = shown(&agent);
    assert_eq!(shown["branch"], agent.branch.as_str());
    assert_eq!(shown["role"], "edit-local");
    assert_eq!(shown["whitelist"], json!(["src/**"]));
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    assert!(codes(&verdict).iter().all(|code| code == "ledger.disorder"), "{verdict:#}");
    let told = shown["irregular"].to_string();
    for sentence in
        ["3 more of its events say `spawning`", "2 of its events are dated before it began"]
    {
        assert!(told.contains(sentence), "{told}");
    }
    let landed = agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(landed["outcome"], "merged");
}

#[test]
fn f18_a_line_that_follows_nothing_does_not_block_and_one_that_was_removed_does() {
    let agent = finished();
    let stamp = row(&agent).last().expect("a line")["t"]
        .as_str()
        .expect("a stamp")
        .replace("-000-", "-001-");
    let mut forged: Value =
        serde_json::from_str(&line(&agent, &stamp, "noted", json!({"text": "x"}))).expect("JSON");
    forged["p"] = json!("0123456789abcdef");
    unite_with(&agent, &[forged.to_string()]);
    assert_eq!(agent.codes(), ["ledger.disorder"]);
    let spawn = spawn_commit(&agent);
    let note = agent.repo.git(["notes", "--ref=agents", "show", &spawn]);
    let changed = note.replacen("\"by\":\"C O", "\"by\":\"D O", 1);
    assert_ne!(note, changed);
    let file = agent.repo.path().with_file_name("note");
    std::fs::write(&file, changed).expect("written");
    let file = file.to_str().expect("UTF-8");
    agent.repo.git(["notes", "--ref=agents", "add", "--force", "-F", file, &spawn]);
    assert!(agent.codes().contains(&"ledger.chain".to_owned()));
}
