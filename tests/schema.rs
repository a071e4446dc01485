//! Every JSON answer against its schema, and nothing in an answer that its schema does not know.

use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe, verbs};
use git_agent::wire::output::schema::{answers, schema};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// A repository whose answers are all judged.
struct Judged {
    repo: TestRepo,
    seen: BTreeSet<&'static str>,
    /// The first answer of each name.
    real: BTreeMap<&'static str, Value>,
}

impl Judged {
    fn new() -> Judged {
        Judged { repo: TestRepo::with_commit(), seen: BTreeSet::new(), real: BTreeMap::new() }
    }

    /// Runs a command, whatever its status, and judges what it says as an answer of this name.
    fn answer(&mut self, name: &'static str, arguments: &[&str]) -> Value {
        let output = agent_command(&self.repo.path())
            .arg("--format=json")
            .args(arguments)
            .output()
            .expect("git-agent starts");
        let said = match name {
            "error" => &output.stderr,
            _ => &output.stdout,
        };
        let shown = String::from_utf8_lossy(said);
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer = serde_json::from_slice(said)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {shown}{errors}"));
        judge(name, &strict(name), &answer);
        self.seen.insert(name);
        self.real.entry(name).or_insert_with(|| {
            // A reader's own place, not that of a test.
            let home = self.repo.path();
            let outside = home.parent().expect("a directory").to_string_lossy();
            let text = answer.to_string().replace(&*home.to_string_lossy(), "/home/me/project");
            serde_json::from_str(&text.replace(&*outside, "/home/me")).expect("JSON")
        });
        answer
    }

    fn spawn(&mut self, task: &str) -> String {
        let task = self.repo.task_file(task);
        text(&self.answer("spawn", &["spawn", &task]), "agent_id")
    }

    /// Makes an agent's work complete.
    fn work(&mut self, id: &str, file: &str) {
        let place = text(&self.answer("path", &["path", id]), "worktree_abspath");
        let place = Path::new(&place);
        fs::write(place.join(file), "pub fn two() {}\n").expect("write");
        for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
            fs::write(place.join(".agent").join(name), "text\n").expect("write");
        }
        let progress = place.join(".agent/progress.json");
        fs::write(progress, "{\"status\": \"done\"}").expect("write");
    }
}

fn text(answer: &Value, key: &str) -> String {
    answer[key].as_str().expect("a text").to_owned()
}

/// The schema of an answer, which forbids every key that it does not name.
pub fn strict(name: &str) -> Value {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(keys) => {
                keys.values_mut().for_each(close);
                if keys.get("type") == Some(&json!("object")) {
                    keys.insert("additionalProperties".to_owned(), json!(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let mut schema = schema(name).unwrap_or_else(|| panic!("no schema of {name}"));
    close(&mut schema);
    schema
}

fn validator(name: &str, schema: &Value) -> jsonschema::Validator {
    jsonschema::options()
        .should_validate_formats(true)
        .build(schema)
        .unwrap_or_else(|error| panic!("the schema of {name}: {error}"))
}

/// Judges an answer by the schema that it names, where it names one.
pub fn judge_named(answer: &Value) {
    static KNOWN: Mutex<BTreeMap<String, Arc<jsonschema::Validator>>> = Mutex::new(BTreeMap::new());
    let Some(name) = answer["schema"].as_str() else {
        return;
    };
    let of_name = KNOWN.lock().expect("no panic").get(name).cloned();
    let validator = of_name.unwrap_or_else(|| {
        let made = Arc::new(validator(name, &strict(name)));
        KNOWN.lock().expect("no panic").insert(name.to_owned(), Arc::clone(&made));
        made
    });
    require_valid(name, &validator, answer);
}

pub fn judge(name: &str, schema: &Value, answer: &Value) {
    require_valid(name, &validator(name, schema), answer);
}

fn require_valid(name: &str, validator: &jsonschema::Validator, answer: &Value) {
    let problems = validator.iter_errors(answer);
    let problems: Vec<_> =
        problems.map(|problem| format!("{}: {problem}", problem.instance_path())).collect();
    assert!(problems.is_empty(), "{name}: {problems:#?}\n{answer:#}");
}

#[test]
fn every_answer_is_as_its_schema_says() {
    let mut judged = Judged::new();
    let init = ["init", "--notes", "--log-alias"];
    judged.answer("init", &init);
    judged.answer("uninstall", &["uninstall"]);
    life(&mut judged);
    landings(&mut judged);
    messages(&mut judged);
    around(&mut judged);
    layered(&mut judged);
    let missed: Vec<_> = answers()
        .into_iter()
        .map(|answer| answer.name)
        .filter(|name| !judged.seen.contains(name))
        .collect();
    assert!(missed.is_empty(), "never answered here: {missed:?}");
    let is_allowed = |name: &str, answer: &Value| validator(name, &strict(name)).is_valid(answer);
    crate::docs::json::page_up_to_date(&judged.real, &is_allowed);
}

/// One agent from spawn to rescue.
fn life(judged: &mut Judged) {
    let task = judged.repo.task_file(TASK);
    judged.answer("spawn-plan", &["spawn", &task, "--dry-run"]);
    let place = judged.repo.path().with_file_name("there-before");
    let place = place.to_str().expect("UTF-8");
    judged.repo.git(["worktree", "add", "-q", "-b", "side", place]);
    judged.answer("spawn", &["adopt", place]);
    judged.answer("error", &["show", "parser"]);
    let one = judged.spawn(TASK);
    judged.answer("bundle", &["bundle", &one]);
    let shared = judged.spawn(SHARED_TASK);
    judged.answer("invocation", &["show", &one, "--invocation"]);
    judged.answer("verify", &["verify", &one]);
    judged.work(&one, "src/two.rs");
    judged.answer("check", &["check", &one, "--worktree"]);
    judged.answer("check", &["check", &one, "--path", "README.md"]);
    judged.answer("diff", &["diff", &one]);
    let patched = judged.answer("diff", &["diff", &one, "--patch"]);
    let text = judged.repo.agent(&["diff", &one]).stdout;
    assert_eq!(patched["patch"], String::from_utf8_lossy(&text).as_ref());
    judged.answer("run-plan", &["run", &one, "--dry-run", "--", "true"]);
    judged.answer("run", &["run", &one, "--", "sh", "-c", "echo done"]);
    judged.answer("run", &["run", &task, "--", "false"]);
    judged.answer("run", &["run", &one, "--background", "--", "sleep", "1000"]);
    judged.answer("ps", &["ps"]);
    judged.answer("stop", &["stop", "--kill", &one]);
    judged.answer("wait", &["wait", &one]);
    judged.answer("run-batch", &["run", "--jobs=1", &one, "--", "true"]);
    judged.answer("logs", &["logs", &one]);
    for name in ["show", "log"] {
        judged.answer(name, &[name, &one]);
    }
    judged.answer("list", &["list", "--all"]);
    judged.answer("list-line", &["list", "--line"]);
    judged.answer("help", &["help", "rename"]);
    judged.answer("guard", &["guard", "--base=main", "--deny=src/**"]);
    let ci = ["verify", "--ci", "--base=main", "--tip=main"];
    judged.answer("verify-parts", &ci);
    judged.answer("ledger-verify", &["ledger", "verify"]);
    judged.answer("ledger-verify", &["ledger", "verify", "--signed"]);
    let beside = |name: &str| judged.repo.path().with_file_name(name);
    let (file, signers) = (beside("attestation"), beside("signers"));
    let envelope = json!({"payloadType": "", "payload": "", "signatures": [{"sig": ""}]});
    fs::write(&file, envelope.to_string()).expect("write");
    fs::write(&signers, "").expect("write");
    let words = [file, signers].map(|path| path.display().to_string());
    let words = ["verify", "--attested", &words[0], "--signers", &words[1]];
    judged.answer("attested", &words);
    judged.answer("tree", &["tree"]);
    judged.answer("overlap", &["overlap"]);
    judged.answer("hooks", &["hooks", "status"]);
    judged.answer("move", &["fail", &shared, "--reason", "no"]);
    judged.answer("move", &["defer", &shared, "--reason", "later"]);
    judged.answer("discard", &["discard", &one, "--dry-run"]);
    judged.answer("discard", &["discard", &one]);
    judged.answer("batch", &["discard", &one, &one, "nobody"]);
    judged.answer("batch", &["reject", "nobody", "nobody"]);
    judged.answer("rescue", &["rescue", &one]);
    judged.answer("move", &["reject", &shared]);
}

/// Agents that commit and land.
fn landings(judged: &mut Judged) {
    let two = judged.spawn(TASK);
    judged.work(&two, "src/three.rs");
    judged.answer("commit", &["commit", &two, "-m", "feat: three"]);
    judged.answer("update", &["update", &two]);
    judged.answer("amend", &["amend", &two, "--timeout=1h", "-m", "slow"]);
    judged.answer("rename", &["rename", &two, "second"]);
    judged.answer("merge", &["merge", &two, "--dry-run"]);
    judged.answer("merge", &["merge", &two]);
    judged.answer("operations", &["undo", "--list"]);
    judged.answer("undo", &["undo", "--dry-run"]);
    judged.answer("undo", &["undo"]);
    judged.answer("merge", &["merge", &two]);
    let three = judged.spawn(TASK);
    judged.work(&three, "src/four.rs");
    judged.answer("move", &["done", &three, "--summary", "four"]);
    judged.answer("train", &["train", "--all", "--dry-run"]);
    judged.answer("merge-all", &["merge", "--all"]);
    let four = judged.spawn(TASK);
    judged.work(&four, "src/five.rs");
    judged.answer("move", &["done", &four, "--summary", "five"]);
    let output = judged.repo.agent(&["train", "--no-land", "--format=ndjson", &four]);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let event = serde_json::from_str(lines.lines().next().expect("an event")).expect("JSON");
    // The test of what a train tells judges every event.
    judge("train-event", &strict("train-event"), &event);
    judged.seen.insert("train-event");
    judged.real.insert("train-event", event);
    judged.answer("train", &["train", "nobody", &four]);
    judged.answer("report", &["report"]);
    judged.answer("report-saved", &["report", "--html", "../report.html"]);
    judged.answer("gc", &["gc"]);
}

/// Messages to one and to all, read, acknowledged and swept.
fn messages(judged: &mut Judged) {
    let send = ["send", "--from", "a", "--type", "notify", "--payload", "message=hello"];
    let sent = judged.answer("send", &[&send[..], &["--to", "b"]].concat());
    let id = text(&sent, "message_id");
    judged.answer("message", &["show", &id]);
    judged.answer("inbox", &["inbox", "--agent", "b"]);
    judged.answer("receive", &["receive", "--agent", "b", "--ack", "later"]);
    judged.answer("ack", &["ack", &id, "--agent", "b"]);
    judged.answer("archive", &["archive", "--agent", "b"]);
    for receivers in [&["--to", "b,c"][..], &["--to", "all", "--reply-to", &id]] {
        judged.answer("send", &[&send[..], receivers].concat());
    }
    judged.answer("receive", &["receive", "--agent", "c"]);
    judged.answer("receive", &["receive", "--agent", "c"]);
    judged.answer("expire", &["archive", "--expire", "--dry-run"]);
    let copy = ["update-ref", "refs/notes/origin/agents", "refs/notes/agents"];
    judged.repo.git(copy);
    judged.answer("unite", &["unite"]);
    let hub = judged.repo.path().with_file_name("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    judged.repo.git(["init", "--quiet", "--bare", hub]);
    judged.repo.git(["remote", "add", "origin", hub]);
    judged.answer("sync", &["sync"]);
    judged.repo.git(["push", "--quiet", "origin", "main"]);
    let id = judged.spawn(TASK);
    judged.work(&id, "src/offered.rs");
    judged.answer("commit", &["commit", &id, "-m", "offered"]);
    judged.answer("pr", &["pr", &id, "--dry-run"]);
    let task = judged.repo.task_file(SHARED_TASK);
    let run = ["run", &task, "--claim=x", "--sync=origin", "--", "true"];
    judged.answer("run", &run);
    judged.answer("run-claim", &run);
    let spawn = ["spawn", &task, "--claim=x", "--sync=origin"];
    judged.answer("spawn-claim", &spawn);
}

/// An agent with a layered worktree, where the kernel has them.
fn layered(judged: &mut Judged) {
    let words = ["spawn", "--layered", "Change the library"];
    if judged.repo.agent(&words).status.code() == Some(4) {
        judged.seen.insert("materialize");
        return;
    }
    let one = judged.answer("spawn", &words);
    let one = text(&one, "agent_id");
    judged.answer("path", &["path", &one]);
    judged.answer("pool", &["pool"]);
    judged.answer("materialize", &["materialize", &one]);
    judged.repo.agent(&["discard", "--all"]);
    judged.answer("gc", &["gc"]);
}

/// What is about no agent.
fn around(judged: &mut Judged) {
    judged.answer("roles", &["roles"]);
    judged.answer("config", &["config"]);
    judged.answer("pool", &["pool"]);
    judged.answer("doctor", &["doctor"]);
    judged.answer("init", &["init", "--host", "claude,cursor", "--dry-run"]);
    judged.answer("schemas", &["schema"]);
    judged.answer("install-shell", &["install-shell", "--dry-run"]);
}

#[test]
fn rows_are_what_the_lists_of_the_answer_hold() {
    let mut judged = Judged::new();
    judged.spawn(TASK);
    for (name, verb, item) in [("list", "list", "agents"), ("tree", "tree", "agents")] {
        let output = judged.repo.agent(&[verb, "--format=ndjson"]);
        let row = serde_json::from_slice(&output.stdout).expect("one line");
        let mut schema = strict(name);
        let shape = schema["properties"][item]["items"]["$ref"].take();
        judge(name, &json!({ "$ref": shape, "$defs": schema["$defs"] }), &row);
    }
}

#[test]
fn every_line_of_several_runs_is_as_its_schema_says() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = text(&agent, "agent_id");
    let arguments = ["run", "--jobs=1", &id, "missing.toml", "--format=ndjson"];
    let output = repo.agent(&[&arguments[..], &["--", "true"]].concat());
    let lines = String::from_utf8_lossy(&output.stdout);
    let mut rows: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    judge("run-batch", &strict("run-batch"), &rows.pop().expect("a line"));
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().any(|row| row.get("error").is_some()), "{rows:?}");
    rows.iter().for_each(|row| judge("run", &strict("run"), row));
}

#[test]
fn an_answer_says_under_which_name_its_schema_is() {
    assert_eq!(schema("git-agent.send/1"), schema("send"));
    assert_eq!(schema("git-agent.send/2"), None);
}

/// Keys that may not be used, each with the word that the thing has.
const OTHER_WORDS: [(&str, &str); 12] = [
    ("duration", "duration_ms"),
    ("time", "a word that ends in _at"),
    ("started", "started_at"),
    ("updated", "updated_at"),
    ("dirty", "uncommitted"),
    ("into", "target"),
    ("tip_oid", "tip"),
    ("base_oid", "base"),
    ("base_ref", "base"),
    ("target_oid", "target"),
    ("verdict_findings", "findings"),
    ("weight", "severity"),
];

/// Keys that name an agent beside `agent_id`: references, which have no `short_id` of their own.
const REFERENCES: [&str; 3] = ["parent_id", "one_id", "two_id"];

/// Times whose names are not ours: those of the messages that SEEDS name.
const GIVEN_TIMES: [&str; 1] = ["created"];

#[test]
fn every_answer_uses_one_word_for_one_thing() {
    let mut problems = Vec::new();
    for answer in answers() {
        let schema = schema(answer.name).expect("a schema");
        walk(answer.name, &schema, &mut problems);
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

/// Holds the keys of every object in a schema to the rules.
fn walk(name: &str, schema: &Value, problems: &mut Vec<String>) {
    match schema {
        Value::Object(keys) => {
            if let Some(properties) = keys.get("properties").and_then(Value::as_object) {
                for (key, kind) in properties {
                    problems.extend(wrong(key, kind).map(|why| format!("{name}: {key}: {why}")));
                }
                if properties.contains_key("agent_id") && !properties.contains_key("short_id") {
                    problems.push(format!("{name}: agent_id without short_id"));
                }
            }
            keys.values().for_each(|value| walk(name, value, problems));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(name, item, problems)),
        _ => {}
    }
}

/// Why a key of this kind may not have this name.
fn wrong(key: &str, kind: &Value) -> Option<String> {
    if let Some((_, word)) = OTHER_WORDS.iter().find(|(other, _)| *other == key) {
        return Some(format!("the word is {word}"));
    }
    let text = kind.to_string();
    let refers_to = |shape: &str| text.contains(&format!("#/$defs/{shape}\""));
    let is_time = text.contains("date-time") && !text.contains("properties");
    let is_whole = kind["type"] == "integer";
    let is_agent = text.contains("\"uuid\"") && !text.contains("properties");
    if is_time != key.ends_with("_at") && !GIVEN_TIMES.contains(&key) {
        return Some("a time, and nothing else, ends in _at".to_owned());
    }
    if key.ends_with("_ms") && !text.contains("integer") {
        return Some("what ends in _ms is a whole number".to_owned());
    }
    if ["seconds", "millis", "_time", "_secs", "_oid"].iter().any(|end| key.ends_with(end)) {
        return Some("durations end in _ms, times in _at, and an oid has no ending".to_owned());
    }
    if is_agent && key != "agent_id" && !REFERENCES.contains(&key) {
        return Some("an agent is agent_id and short_id".to_owned());
    }
    if key == "verdict" && (!text.contains("accept") || text.contains("accepted")) {
        return Some("a verdict is accept or reject".to_owned());
    }
    let is_text = kind["type"] == "string";
    if key == "base" && !refers_to("base") || key == "target" && !refers_to("target") && !is_text {
        return Some("it is {ref, oid}".to_owned());
    }
    if key == "tip" && is_whole || key == "conflicts" && !refers_to("path") {
        return Some("tip is an oid, conflicts are paths".to_owned());
    }
    None
}

#[test]
fn errors_tell_codes_and_values() {
    let mut judged = Judged::new();
    let wrong = judged.repo.task_file("role = \"edit-local\"\nwhitelst = 1\n");
    let error = judged.answer("error", &["spawn", &wrong]);
    let problem = &error["error"]["problems"][0];
    assert_eq!((&problem["line"], &problem["column"]), (&json!(2), &json!(1)));
    assert_eq!(problem["key"], "whitelst", "{error:#}");
    assert_eq!(error["error"]["causes"], json!([]), "{error:#}");

    let id = judged.spawn(TASK);
    judged.work(&id, "src/lib.rs");
    judged.repo.write("src/lib.rs", "pub fn theirs() {}\n");
    judged.repo.commit_all("theirs");
    let error = judged.answer("error", &["merge", &id]);
    assert_eq!(error["error"]["findings"], json!(["merge.conflict"]), "{error:#}");
    assert_eq!(error["error"]["conflicts"], json!(["src/lib.rs"]));
    judged.answer("move", &["done", &id]);
    let round = judged.answer("merge-all", &["merge", "--all"]);
    let item = &round["items"][0];
    assert_eq!(item["outcome"], "not-merged", "{round:#}");
    assert_eq!(item["verdict"], "reject");
    assert_eq!(item["findings"], json!(["merge.conflict"]));
    assert_eq!(item["conflicts"], json!(["src/lib.rs"]));
    assert_eq!(item["error"]["code"], "not-accepted");
}

/// Commands that answer nothing in JSON: a terminal, hosts and git read what they say.
const SILENT: [&str; 3] = ["board", "hook", "mcp"];

#[test]
fn every_command_has_a_schema() {
    for verb in verbs() {
        let is_silent = SILENT.contains(&verb.as_str());
        assert_eq!(schema(&verb).is_none(), is_silent, "{verb}");
    }
}

/// The help is the oracle, which clap writes of the same command line.
#[test]
fn the_schema_of_what_a_command_takes_has_each_option_of_its_help() {
    let nowhere = tempfile::tempdir().expect("temporary directory");
    let printed = |arguments: &[&str]| {
        let output = agent_command(nowhere.path()).args(arguments).output();
        let output = output.expect("git-agent starts");
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for verb in verbs().iter().filter(|verb| !verb.contains(' ')) {
        let schema: Value = serde_json::from_str(&printed(&["schema", verb, "--input"]))
            .unwrap_or_else(|error| panic!("{verb}: {error}"));
        validator(verb, &schema);
        let properties = schema["properties"].as_object().expect("an object");
        let help = printed(&[verb, "-h"]);
        let mut options = BTreeSet::new();
        for line in help.lines().map(str::trim).filter(|line| line.starts_with('-')) {
            let long = line.split([' ', '=', '[']).find_map(|word| word.strip_prefix("--"));
            options.extend(long.map(|long| long.replace('-', "_")));
        }
        // These say how the answer is written, and have none of their own.
        for global in ["format", "help", "version"] {
            options.remove(global);
        }
        for option in &options {
            assert!(properties.contains_key(option), "{verb} --{option}");
        }
        for (name, property) in properties {
            let text = property["description"].as_str().unwrap_or_default();
            assert!(!text.is_empty(), "{verb} {name}");
        }
    }
    let spawn: Value =
        serde_json::from_str(&printed(&["schema", "spawn", "--input"])).expect("JSON");
    let kinds =
        ["exclusive", "name", "scope"].map(|name| spawn["properties"][name]["type"].clone());
    assert_eq!(kinds, ["boolean", "string", "array"].map(Value::from));
    let isolation = &spawn["properties"]["isolation"]["enum"];
    assert_eq!(isolation, &json!(["worktree", "clone"]));
    let unknown = agent_command(nowhere.path()).args(["schema", "spwan", "--input"]).output();
    assert_eq!(unknown.expect("git-agent starts").status.code(), Some(2));
}

#[test]
fn a_schema_needs_no_repository() {
    let nowhere = tempfile::tempdir().expect("temporary directory");
    let printed = |arguments: &[&str]| {
        let output = agent_command(nowhere.path()).args(arguments).output();
        let output = output.expect("git-agent starts");
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (status, path) = printed(&["schema", "path"]);
    assert_eq!(status, Some(0));
    insta::assert_snapshot!(path, @r#"
    {
      "$schema": "https://json-schema.org/draft/2020-12/schema",
      "description": "Where an agent's worktree is",
      "properties": {
        "agent_id": {
          "description": "The agent's id",
          "format": "uuid",
          "type": "string"
        },
        "layered": {
          "description": "Whether its files are there in a run alone, or in a shell of `enter`",
          "type": "boolean"
        },
        "schema": {
          "const": "git-agent.path/1"
        },
        "short_id": {
          "description": "The first eight hex digits of the id",
          "type": "string"
        },
        "worktree_abspath": {
          "description": "The worktree, absolute",
          "type": "string"
        },
        "worktree_path": {
          "description": "The worktree relative to the root when inside it, else absolute",
          "type": "string"
        }
      },
      "required": [
        "schema",
        "agent_id",
        "short_id",
        "worktree_path",
        "worktree_abspath"
      ],
      "title": "git-agent.path/1",
      "type": "object"
    }
    "#);
    assert_eq!(printed(&["schema", "spwan"]), (Some(2), String::new()));
    let (_, list) = printed(&["schema"]);
    assert_eq!(list.lines().count(), answers().len() + 1);
}
