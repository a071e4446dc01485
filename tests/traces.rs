use crate::support::agent::TASK;
use crate::support::git_output;
use crate::verify::Agent;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Judges a value by a schema that is kept with the fixtures.
pub fn judged_by(schema: &str, value: &Value) {
    let path = format!("{}/fixtures/schemas/{schema}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = fs::read(path).expect("the schema");
    let schema: Value = serde_json::from_slice(&schema).expect("JSON");
    let validator =
        jsonschema::options().should_validate_formats(true).build(&schema).expect("a schema");
    let problems: Vec<String> = validator
        .iter_errors(value)
        .map(|problem| format!("{}: {problem}", problem.instance_path()))
        .collect();
    assert!(problems.is_empty(), "{problems:#?}\n{value:#}");
}

fn log(agent: &Agent, format: &str) -> Value {
    let words = ["log", &agent.id, &format!("--format={format}")];
    let output = agent.repo.agent(&words);
    assert!(output.status.success(), "{output:?}");
    let answer = serde_json::from_slice(&output.stdout).expect("JSON");
    judged_by(if format == "otlp" { "otlp-traces" } else { format }, &answer);
    answer
}

/// Path and line of every line that a record says the agent wrote.
fn lines_of(record: &Value) -> BTreeSet<(String, u64)> {
    let mut lines = BTreeSet::new();
    for file in record["files"].as_array().expect("files") {
        let path = file["path"].as_str().expect("a path");
        for range in file["conversations"][0]["ranges"].as_array().expect("ranges") {
            let end = |key: &str| range[key].as_u64().expect("a number");
            let all = end("start_line")..=end("end_line");
            lines.extend(all.map(|line| (path.to_owned(), line)));
        }
    }
    lines
}

/// The same as `git blame` tells it: the lines of these commits.
fn blamed(agent: &Agent, revision: &str, files: &[&str], not: &str) -> BTreeSet<(String, u64)> {
    let mut lines = BTreeSet::new();
    for file in files {
        let range = format!("{not}..{revision}");
        let words = ["blame", "--line-porcelain", &range, "--", file];
        let output = git_output(&agent.repo.path(), words);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut is_boundary = false;
        let mut number = 0;
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            if words[0].len() == 40 && words.len() >= 3 {
                is_boundary = false;
                number = words[2].parse().expect("a number");
            } else if line == "boundary" {
                is_boundary = true;
            } else if line.starts_with('\t') && !is_boundary {
                lines.insert(((*file).to_owned(), number));
            }
        }
    }
    lines
}

#[test]
fn a_trace_record_names_the_lines_that_git_blames_on_the_agent() {
    let agent = Agent::of_task(TASK);
    let base = agent.repo.git(["rev-parse", "main"]);
    agent.write("src/lib.rs", "//! More.\npub fn one() -> u32 {\n    1\n}\n\nfn three() {}\n");
    agent.commit("one");
    agent.write("src/two.rs", "fn two() {}\nfn too() {}\n");
    agent.write("src/data.bin", b"\0\0\n\0");
    agent.commit("two");
    let files = ["src/lib.rs", "src/two.rs"];
    // The target goes on, and the agent merges it.
    agent.repo.write("src/other.rs", "fn other() {}\n");
    agent.repo.commit_all("of others");
    agent.git(&["merge", "--quiet", "--no-edit", "main"]);
    let record = log(&agent, "agent-trace");
    let tip = agent.repo.git(["rev-parse", &agent.branch]);
    assert_eq!(record["vcs"]["revision"], tip);
    let expected = blamed(&agent, &tip, &files, &base);
    assert_eq!(expected.len(), 5);
    assert_eq!(lines_of(&record), expected);
    agent.repo.agent_json(&["merge", &agent.id, "--squash"]);
    let landed = log(&agent, "agent-trace");
    let main = agent.repo.git(["rev-parse", "main"]);
    assert_eq!(landed["vcs"]["revision"], main);
    assert_ne!(landed["id"], record["id"]);
    assert_eq!(lines_of(&landed), blamed(&agent, &main, &files, &base));
    assert_eq!(log(&agent, "agent-trace"), landed, "the same each time");
}

#[test]
fn a_life_is_a_span_with_a_span_for_each_run() {
    let agent = Agent::of_task(TASK);
    agent.write("src/two.rs", "fn two() {}\n");
    agent.commit("two");
    let model_of = |record: &Value| {
        let conversation = &record["files"][0]["conversations"][0];
        conversation["contributor"]["model_id"].clone()
    };
    for (script, model, expected) in [
        ("true", "a/model-1", Value::from("a/model-1")),
        // Which of two models wrote a line is not known.
        ("exit 3", "model-2", Value::Null),
    ] {
        let words = [
            "run",
            &agent.id,
            "--model",
            model,
            "--no-verify",
            "--sandbox=off",
            "--",
            "sh",
            "-c",
            script,
        ];
        agent.repo.agent(&words);
        assert_eq!(model_of(&log(&agent, "agent-trace")), expected);
    }
    let answer = log(&agent, "otlp");
    let spans = answer["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array();
    let spans = spans.expect("spans");
    assert_eq!(spans.len(), 3, "{answer:#}");
    let id = agent.id.replace('-', "");
    assert!(spans.iter().all(|span| span["traceId"] == id));
    assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
    let codes: Vec<_> = spans.iter().map(|span| span["status"]["code"].clone()).collect();
    assert_eq!(codes, [2, 1, 2]);
    let events = agent.repo.agent_json(&["log", &agent.id])["events"].clone();
    let told = spans[0]["events"].as_array().expect("events");
    assert_eq!(told.len(), events.as_array().expect("events").len());
    let ids: BTreeSet<_> = spans.iter().map(|span| span["spanId"].to_string()).collect();
    assert_eq!(ids.len(), 3);
    // Other commands do not have these formats.
    let output = agent.repo.agent(&["list", "--format=otlp"]);
    crate::verify::refused_json(&output, "usage", 2);
}
