//! What an agent reports by the rules of its role, and what an audit means for the agent that it is about.

use super::{Agent, codes, report};
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::Value;

/// As the kit's auditor and merger write them.
const FAIL: &str = include_str!("../../fixtures/reports/auditor-fail.md");
const PASS: &str = include_str!("../../fixtures/reports/auditor-pass.md");
const MERGER: &str = include_str!("../../fixtures/reports/merger.md");

/// A worker that has finished a commit.
fn worker() -> Agent {
    let agent = Agent::new();
    finish(&agent, "src/two.rs", "pub fn two() {}\n");
    agent
}

fn finish(agent: &Agent, path: &str, content: &str) -> String {
    agent.write(path, content);
    let tip = agent.commit("work");
    agent.repo.agent(&["done", &agent.id, "-m", "work"]);
    tip
}

fn filled(text: &str, agent: &str, sha: &str) -> String {
    text.replace("{agent}", agent).replace("{sha}", sha)
}

/// Spawns an agent of a role.
fn spawned(repo: &TestRepo, role: &str, more: &[&str]) -> String {
    let task = format!("Look at the work of another agent as its {role} does.");
    let arguments = ["spawn", task.as_str(), "--role", role];
    let report = repo.agent_json(&[&arguments[..], more].concat());
    report["agent_id"].as_str().expect("an id").to_owned()
}

/// Lets it end with that answer, and judges it.
fn answers(repo: &TestRepo, id: &str, text: &str) -> Value {
    let path = repo.path().with_file_name("answer.md");
    std::fs::write(&path, text).expect("written");
    let path = path.to_str().expect("UTF-8");
    let run = repo.agent(&["run", id, "--", "cat", path]);
    assert!(run.status.code().is_some_and(|status| status < 2), "{}", describe(&run));
    report(&super::run_in(&repo.path(), id, &["--format=json"]))
}

/// The codes of an auditor's own verdict after it has answered so.
fn audit(worker: &Agent, text: &str) -> Vec<String> {
    let auditor = spawned(&worker.repo, "auditor", &["--parent", &worker.id]);
    codes(&answers(&worker.repo, &auditor, text))
}

fn tip(agent: &Agent) -> String {
    agent.git(&["rev-parse", "HEAD"])
}

/// What the worker's row says of audits.
fn audits(agent: &Agent) -> Vec<String> {
    let row = agent.repo.agent_json(&["show", &agent.id]);
    let spawn = row["spawn_commit"].as_str().expect("a commit");
    let note = agent.repo.git(["notes", "--ref=agents", "show", spawn]);
    let lines = note.lines().filter(|line| line.contains("\"e\":\"audited\""));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_failed_audit_stands_until_a_later_tip_is_passed() {
    let worker = worker();
    let first = tip(&worker);
    assert_eq!(codes(&worker.verify(&[])), [""; 0]);
    assert_eq!(audit(&worker, &filled(FAIL, &worker.id, &first)), [""; 0]);
    let verdict = worker.verify(&[]);
    assert_eq!(codes(&verdict), ["audit.failed"], "{verdict}");
    for arguments in [&["merge", &worker.id][..], &["train", &worker.id], &["merge", "--all"]] {
        // A rejecting verdict has taken back that it is done.
        worker.repo.agent(&["done", &worker.id, "-m", "work"]);
        let output = worker.repo.agent(arguments);
        let said = String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat())
            .into_owned();
        assert!(!output.status.success() && said.contains("audit"), "{arguments:?}: {said}");
    }
    // Another opinion of the same work clears nothing, and neither does new work that nobody has audited.
    assert_eq!(audit(&worker, &filled(PASS, &worker.id, &first)), [""; 0]);
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    let second = finish(&worker, "src/two.rs", "pub fn two() -> u8 { 2 }\n");
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    assert_eq!(audit(&worker, &filled(PASS, &worker.id, &second)), [""; 0]);
    assert_eq!(codes(&worker.verify(&[])), [""; 0]);
    // What failed is not passed by way of something else.
    finish(&worker, "src/two.rs", "pub fn two() {}\n");
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    worker.git(&["reset", "--hard", "--quiet", &second]);
    assert_eq!(audits(&worker).len(), 3);
    worker.repo.agent_json(&["merge", &worker.id]);
    worker.repo.git(["fsck", "--strict"]);
    let log = worker.repo.agent_json(&["show", "--log", &worker.id]).to_string();
    assert!(log.contains("audited"), "{log}");
}

#[test]
fn uncommitted_work_is_audited_by_its_tree() {
    let worker = Agent::new();
    worker.write("src/two.rs", "pub fn two() {}\n");
    let verdict = worker.verify(&["--no-commands"]);
    let tree = verdict["tree"].as_str().expect("a tree");
    assert_eq!(audit(&worker, &filled(FAIL, &worker.id, tree)), [""; 0]);
    // That it is committed makes nothing new of it.
    let first = finish(&worker, "src/two.rs", "pub fn two() {}\n");
    assert_eq!(audit(&worker, &filled(PASS, &worker.id, &first)), [""; 0]);
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
}

#[test]
fn a_person_accepts_and_no_agent_does() {
    let worker = worker();
    let accept = ["mark", "accept", &worker.id, "-m", "a false alarm"];
    let early = worker.repo.agent(&accept);
    assert_eq!(early.status.code(), Some(3), "{}", describe(&early));
    audit(&worker, &filled(FAIL, &worker.id, &tip(&worker)));
    let auditor = spawned(&worker.repo, "auditor", &["--parent", &worker.id]);
    for id in [&worker.id, &auditor] {
        let mut inside = agent_command(&worker.repo.path());
        let output = inside.args(accept).env("GIT_AGENT_ID", id).output().expect("starts");
        assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    }
    // By its place, and below a run that leaves its place and empties its environment.
    let output = agent_command(&worker.worktree).args(accept).output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    let root = worker.repo.path();
    let program = env!("CARGO_BIN_EXE_git-agent");
    let script = format!(
        "cd {} && exec env -u GIT_AGENT_ID -u GIT_AGENT_SPOOL -u GIT_AGENT_FENCED {program} mark accept {} -m mine",
        root.display(),
        worker.id
    );
    for sandbox in ["off", "auto"] {
        let arguments =
            ["run", &worker.id, "--no-verify", "--sandbox", sandbox, "--", "sh", "-c", &script];
        let run = worker.repo.agent(&arguments);
        assert!(!run.status.success(), "{sandbox}: {}", describe(&run));
    }
    worker.repo.agent(&["done", &worker.id, "-m", "all good"]);
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    worker.repo.agent_json(&accept);
    assert_eq!(codes(&worker.verify(&[])), [""; 0]);
    // It is a decision like any other.
    worker.repo.agent_json(&["undo", &worker.id]);
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    let list = worker.repo.agent_json(&["undo", "--list"]);
    let undo = list["operations"][0]["operation"].as_str().expect("an id");
    worker.repo.agent_json(&["undo", undo]);
    assert_eq!(codes(&worker.verify(&[])), [""; 0]);
    // What is audited afterwards counts again.
    audit(&worker, &filled(FAIL, &worker.id, &tip(&worker)));
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
}

#[test]
fn hostile_reports_are_rejected_and_recorded_nowhere() {
    let worker = worker();
    let first = tip(&worker);
    let second = finish(&worker, "src/two.rs", "pub fn two() -> u8 { 2 }\n");
    let other = Agent::told_of(
        TestRepo::with_commit(),
        &worker.repo.spawn_task(crate::support::agent::TASK, &[]),
    );
    let pass = filled(PASS, &worker.id, &second);
    let fail = filled(FAIL, &worker.id, &second);
    let missing = ["report.field-missing"; 4];
    for (text, wanted) in [
        (format!("```\n{pass}```\n"), &missing[..]),
        (format!("> {}", pass.replace('\n', "\n> ")), &missing),
        (pass.replace("verdict: PASS", "verdict: PASS\nverdict: FAIL"), &["report.contradiction"]),
        (format!("{pass}Verdict: FAIL\n"), &["report.contradiction"]),
        (pass.replace("PASS", "PASS, but see FAIL"), &["report.value"]),
        (pass.replace(&second, &first), &["report.tip-mismatch"]),
        (pass.replace(&second, &second[..12]), &["report.tip-mismatch"]),
        (pass.replace(&second, &worker.repo.git(["rev-parse", "HEAD"])), &["report.tip-mismatch"]),
        (pass.replace(&second, "HEAD"), &["report.tip-mismatch"]),
        (pass.replace(&worker.id, "nobody"), &["report.agent-unknown"]),
        (pass.replace(&worker.id, &other.id), &["report.agent-unknown"]),
        (format!("{pass}audited-agent: {}\n", other.id), &["report.contradiction"]),
        (fail.replace("[HIGH] ", ""), &["report.tag-missing"]),
        (fail.replace("[HIGH] ", "`[CRITICAL]` "), &["report.tag-missing"]),
        (fail.replace("findings:\n", "findings: 2\n"), &["report.tag-missing"]),
    ] {
        assert_eq!(audit(&worker, &text), wanted, "{text}");
    }
    // What it has audited in one run is not audited anew by naming it again.
    let auditor = spawned(&worker.repo, "auditor", &["--parent", &worker.id]);
    let say = |text: &str| codes(&answers(&worker.repo, &auditor, text));
    assert_eq!(say(&pass), [""; 0]);
    let third = finish(&worker, "src/two.rs", "pub fn two() -> u8 { 3 }\n");
    let again = codes(&report(&super::run_in(&worker.repo.path(), &auditor, &["--format=json"])));
    assert_eq!(again, [""; 0], "what was said then stands");
    assert_eq!(say(&pass), ["report.tip-mismatch"]);
    assert_eq!(say(&pass.replace(&second, &third)), [""; 0]);
    // Itself, which has no other agent to name.
    let alone = spawned(&worker.repo, "auditor", &[]);
    let own = worker.repo.agent_json(&["show", &alone])["spawn_commit"].clone();
    let text = filled(PASS, &alone, own.as_str().expect("a commit"));
    assert_eq!(codes(&answers(&worker.repo, &alone, &text)), ["report.agent-unknown"]);
    assert_eq!(audits(&worker).len(), 2);
    assert_eq!(codes(&worker.verify(&[])), [""; 0]);
}

#[test]
fn a_report_after_a_hundred_megabytes_is_read_from_its_end() {
    let worker = worker();
    let auditor = spawned(&worker.repo, "auditor", &["--parent", &worker.id]);
    let path = worker.repo.path().with_file_name("answer.md");
    std::fs::write(&path, filled(FAIL, &worker.id, &tip(&worker))).expect("written");
    let script = format!(
        "yes 'verdict: PASS' | head -c 100000000; echo; yes noise | head -c 2000000; cat {}",
        path.display()
    );
    let run = worker.repo.agent(&["run", &auditor, "--quiet", "--", "sh", "-c", &script]);
    assert!(run.status.success(), "{}", describe(&run));
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    let kept = worker.repo.path().join(format!(".git/agents/{}/run/answer.out", &auditor[..8]));
    let length = std::fs::metadata(kept).expect("kept").len();
    assert!(length <= 1 << 20, "{length}");
}

#[test]
fn what_agents_start_audits_nothing() {
    let repo = TestRepo::with_commit();
    let leader = "extends = \"edit-local\"\nmay_spawn = true\nrelaxes = [\"may_spawn\"]\n";
    repo.write("roles/leader.toml", leader);
    repo.commit_all("a role");
    let leader =
        Agent::spawned_in(repo, &crate::support::agent::TASK.replace("edit-local", "leader"));
    finish(&leader, "src/two.rs", "pub fn two() {}\n");
    audit(&leader, &filled(FAIL, &leader.id, &tip(&leader)));
    let second = finish(&leader, "src/two.rs", "pub fn two() -> u8 { 2 }\n");
    // By its place, and by its variable with another parent.
    let pass = filled(PASS, &leader.id, &second);
    for (directory, variable) in [(&leader.worktree, None), (&leader.repo.path(), Some(&leader.id))]
    {
        let mut command = agent_command(directory);
        command.args([
            "spawn",
            "Audit what I have done so far.",
            "--role",
            "auditor",
            "--format=json",
        ]);
        command.envs(variable.map(|id| ("GIT_AGENT_ID", id)));
        let report = crate::support::agent::json_of(command);
        let auditor = report["agent_id"].as_str().expect("an id");
        assert_eq!(codes(&answers(&leader.repo, auditor, &pass)), ["audit.not-recorded"]);
    }
    assert_eq!(codes(&leader.verify(&[])), ["audit.failed"]);
    assert_eq!(audits(&leader).len(), 1);
}

#[test]
fn what_another_clone_writes_fails_and_does_not_clear() {
    let worker = worker();
    let first = tip(&worker);
    audit(&worker, &filled(FAIL, &worker.id, &first));
    let line = audits(&worker).remove(0);
    let second = finish(&worker, "src/two.rs", "pub fn two() -> u8 { 2 }\n");
    let tree = worker.git(&["rev-parse", "HEAD^{tree}"]);
    let old = worker.git(&["rev-parse", &format!("{first}^{{tree}}")]);
    let event: Value = serde_json::from_str(&line).expect("JSON");
    let auditor = event["d"]["auditor"].as_str().expect("an id").to_owned();
    let spawn = worker.repo.agent_json(&["show", &worker.id])["spawn_commit"].clone();
    let spawn = spawn.as_str().expect("a commit").to_owned();
    // As a clone that may push the ledger could write it: dated later, of this tip, by the auditor, by a person.
    let pass = line
        .replace("\"t\":\"2", "\"t\":\"3")
        .replace("\"fail\"", "\"pass\"")
        .replace(&first, &second)
        .replace(&old, &tree);
    let person = pass.replace(&format!("\"auditor\":\"{auditor}\","), "");
    assert_ne!(pass, person);
    for forged in [&pass, &person] {
        worker.repo.git(["notes", "--ref=agents", "append", "-m", forged, &spawn]);
        let found = codes(&worker.verify(&[]));
        assert!(found.contains(&"audit.failed".to_owned()), "{forged}");
    }
    // A failure counts, unless its author is no auditor, or is nobody, or the agent itself, even where that is an auditor.
    let other = Agent::new();
    finish(&other, "src/two.rs", "pub fn two() {}\n");
    let spawn = other.repo.agent_json(&["show", &other.id])["spawn_commit"].clone();
    let spawn = spawn.as_str().expect("a commit").to_owned();
    let real = spawned(&other.repo, "auditor", &[]);
    let reader = spawned(&other.repo, "read-only", &[]);
    for (author, stands) in [(&auditor, false), (&other.id, false), (&reader, false), (&real, true)]
    {
        let forged = line.replace(&auditor, author).replace(&worker.id, &other.id);
        other.repo.git(["notes", "--ref=agents", "append", "-m", &forged, &spawn]);
        let found = codes(&other.verify(&[]));
        assert_eq!(found.contains(&"audit.failed".to_owned()), stands, "{forged}: {found:?}");
    }
    let spawn = other.repo.agent_json(&["show", &real])["spawn_commit"].clone();
    let spawn = spawn.as_str().expect("a commit").to_owned();
    let own = line.replace(&auditor, &real).replace(&worker.id, &real);
    other.repo.git(["notes", "--ref=agents", "append", "-m", &own, &spawn]);
    let judged = report(&super::run_in(&other.repo.path(), &real, &["--format=json"]));
    assert!(!codes(&judged).contains(&"audit.failed".to_owned()));
}

#[test]
fn the_rules_of_a_report_are_data_of_the_role() {
    let repo = TestRepo::with_commit();
    let role = "subagent_type = \"critic\"\nshell = \"read-only\"\n[report]\nrequired = [\"coverage\"]\naudit = \"outcome\"\n\
                values.outcome = [\"PASS\", \"FAIL\"]\nnames = { about = \"agent\", at = \"tip\" }\n";
    repo.write("roles/examiner.toml", role);
    repo.commit_all("a role");
    let worker = Agent::spawned_in(repo, crate::support::agent::TASK);
    let tip = finish(&worker, "src/two.rs", "pub fn two() {}\n");
    let examiner = spawned(&worker.repo, "examiner", &[]);
    let text = format!("outcome: FAIL\nabout: {}\nat: {tip}\n", worker.id);
    assert_eq!(codes(&answers(&worker.repo, &examiner, &text)), ["report.field-missing"]);
    assert_eq!(codes(&worker.verify(&[])), [""; 0]);
    assert_eq!(
        codes(&answers(&worker.repo, &examiner, &format!("{text}coverage: 80 %\n"))),
        [""; 0]
    );
    assert_eq!(codes(&worker.verify(&[])), ["audit.failed"]);
    let prompt = format!(".git/agents/{}/prompt.md", &examiner[..8]);
    let prompt = std::fs::read_to_string(worker.repo.path().join(prompt)).expect("a prompt");
    assert!(prompt.contains("- `coverage`"), "{prompt}");
}

#[test]
fn a_merger_names_a_commit_that_holds_the_work() {
    let worker = worker();
    let tip = tip(&worker);
    let base = worker.repo.git(["rev-parse", "HEAD"]);
    let merger = spawned(&worker.repo, "merger", &[]);
    let say = |text: &str| codes(&answers(&worker.repo, &merger, text));
    assert_eq!(say(&filled(MERGER, &worker.id, &base)), ["report.commit-unknown"]);
    assert_eq!(say(&filled(MERGER, &worker.id, "<none>")), ["report.commit-unknown"]);
    assert_eq!(say(&filled(MERGER, &worker.id, &"0".repeat(40))), ["report.commit-unknown"]);
    assert_eq!(say(&filled(MERGER, &merger, &tip)), ["report.agent-unknown"]);
    assert_eq!(
        say(&filled(MERGER, &worker.id, &tip).replace("merge-no-ff", "by hand")),
        ["report.value"]
    );
    assert_eq!(say(&filled(MERGER, &worker.id, &tip)), [""; 0]);
    // A squash of it holds the work as well.
    worker.repo.git(["merge", "--quiet", "--squash", &tip]);
    worker.repo.git(["commit", "--quiet", "-m", "squashed"]);
    let squash = worker.repo.git(["rev-parse", "HEAD"]);
    assert_eq!(say(&filled(MERGER, &worker.id, &squash)), [""; 0]);
}
