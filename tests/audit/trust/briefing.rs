use crate::support::TestRepo;
use crate::support::agent::describe;
use crate::support::git_output;
use crate::verify::Agent;
use std::fs;

/// Stands in every confidential text of these tests.
const MARKER: &str = "marker-of-a-confidential-text";

fn task(more: &str) -> String {
    format!(
        "role = \"edit-local\"\n\
         briefing = \"\"\"\nLog in at \"night\".\n{MARKER} opens the door.\n\"\"\"\n\
         system_prompt = \"Never say {MARKER}.\"\n# {MARKER}\n\
         task = \"Add a second function to the library and test it.\"\n\
         [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n{more}"
    )
}

/// Everything below the common dir that holds the marker: files by their paths, objects loose or packed as one entry.
fn found(repo: &TestRepo) -> Vec<String> {
    let common = repo.path().join(".git");
    let holds = |bytes: &[u8]| bytes.windows(MARKER.len()).any(|it| it == MARKER.as_bytes());
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(&common) {
        // What is in the trash is being deleted meanwhile.
        let Ok(path) = entry.map(walkdir::DirEntry::into_path) else {
            continue;
        };
        if path.is_file() && holds(&fs::read(&path).unwrap_or_default()) {
            let inside = path.strip_prefix(&common).expect("below");
            found.push(inside.to_string_lossy().into_owned());
        }
    }
    let objects = git_output(&repo.path(), ["cat-file", "--batch-all-objects", "--batch"]);
    assert!(objects.status.success(), "{}", describe(&objects));
    assert!(objects.stdout.len() > 1000, "objects were read");
    if holds(&objects.stdout) {
        found.push("an object".to_owned());
    }
    found.sort();
    found
}

/// An agent of the task that has repeated its prompt in its logs, as it stands and in JSON.
fn told() -> Agent {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(&task(""), &[]);
    let agent = Agent::told_of(repo, &report);
    let script = r#"cat >prompt; cat prompt; sed 's/\\/\\\\/g; s/"/\\"/g; s/$/\\n/' prompt >&2; rm prompt
                    echo 'pub fn two() {}' >src/two.rs"#;
    let arguments = ["run", &agent.id, "--no-verify", "--", "sh", "-c", script];
    let output = agent.repo.agent(&arguments);
    assert!(output.status.success(), "{}", describe(&output));
    let id8 = &agent.id[..8];
    let expected = ["prompt.md", "run/1.err", "run/1.json", "run/1.out", "task.toml"];
    let expected = expected.map(|name| format!("agents/{id8}/{name}"));
    let found = found(&agent.repo);
    // What looks like a credential was hidden while it was written, and may have hidden the marker.
    let others: Vec<_> = found.iter().filter(|path| !expected.contains(path)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(found.contains(&expected[0]) && found.contains(&expected[4]), "{found:?}");
    agent
}

fn assert_nothing_left(agent: &Agent, when: &str) {
    assert_eq!(found(&agent.repo), [""; 0], "{when}");
    let log = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
    let log = fs::read_to_string(log.join("run/1.out")).expect("the log stays");
    assert!(log.contains("MUST NOT invoke git"), "{when}: {log}");
}

#[test]
fn u15_a_landed_agent_leaves_nothing_confidential() {
    let agent = told();
    agent.repo.agent_json(&["merge", &agent.id, "--squash"]);
    assert_nothing_left(&agent, "merged");
    // Its task without the briefing is still a task.
    let task = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
    let task = task.join("task.toml");
    let text = fs::read_to_string(&task).expect("the task stays");
    assert!(text.contains("Add a second function"), "{text}");
    let again = agent.repo.agent(&["spawn", task.to_str().expect("UTF-8"), "--dry-run"]);
    assert!(again.status.success(), "{}", describe(&again));
    let refused = agent.repo.agent(&["show", &agent.id, "--invocation"]);
    let said = describe(&refused);
    assert!(said.contains("was deleted when the agent was merged"), "{said}");
    agent.repo.git(["gc", "--quiet"]);
    agent.repo.agent_json(&["gc", "--yes"]);
    assert_nothing_left(&agent, "merged and packed");
}

#[test]
fn u15_a_discarded_agent_leaves_nothing_confidential() {
    let agent = told();
    agent.repo.agent_json(&["discard", &agent.id]);
    assert_nothing_left(&agent, "discarded");
}

#[test]
fn u15_gc_and_doctor_delete_what_was_left() {
    for verb in [&["gc", "--yes"][..], &["doctor", "--fix"]] {
        let agent = told();
        let files = ["prompt.md", "task.toml", "run/1.out"];
        let directory = agent.repo.path().join(".git/agents").join(&agent.id[..8]);
        let kept = files.map(|name| fs::read(directory.join(name)).expect("there"));
        agent.repo.agent_json(&["merge", &agent.id]);
        // As a landing leaves it that was merged by an older version, or while the agent was at work.
        for (name, content) in files.iter().zip(kept) {
            fs::write(directory.join(name), content).expect("written");
        }
        assert_ne!(found(&agent.repo), [""; 0]);
        agent.repo.agent_json(verb);
        assert_nothing_left(&agent, verb[0]);
    }
}

#[test]
fn u15_the_briefing_of_an_earlier_run_leaves_with_the_next() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(crate::support::agent::TASK, &[]);
    let agent = Agent::told_of(repo, &report);
    let run = |arguments: &[&str]| {
        let all = [&["run", &agent.id, "--no-verify"], arguments, &["--", "cat"]].concat();
        let output = agent.repo.agent(&all);
        assert!(output.status.success(), "{}", describe(&output));
    };
    let briefing = agent.repo.path().with_file_name("briefing");
    fs::write(&briefing, format!("Say {MARKER} at the door.\n")).expect("written");
    run(&[&format!("--briefing=@{}", briefing.display())]);
    assert_ne!(found(&agent.repo), [""; 0]);
    run(&[]);
    assert_eq!(found(&agent.repo), [""; 0]);
}

#[test]
fn u15_a_spawn_that_fails_or_dies_leaves_nothing_confidential() {
    let repo = TestRepo::with_commit();
    let failing = repo.task_file(&task("[setup]\nrun = [\"exit 3\"]\n"));
    let output = repo.agent(&["spawn", &failing]);
    crate::verify::refused(&output, "setup-failed", 4);
    assert_eq!(found(&repo), [""; 0], "a failed spawn");
    for step in ["populated", "files", "locked"] {
        let repo = TestRepo::with_commit();
        crate::kill::die_at(&repo, step, &task(""));
        repo.agent_json(&["gc", "--yes"]);
        assert_eq!(found(&repo), [""; 0], "after {step}");
    }
}
