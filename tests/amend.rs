//! `amend`: what binds an agent is what its owner said last, and no agent's word.

use crate::support::agent::{agent_command, describe};
use crate::support::death::{self, Order, ctx};
use crate::support::{TestRepo, git_in};
use git_agent::ops::amend::{self, AmendOptions, STEPS};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const TASK: &str = r#"
role = "edit-local"
name = "worker"
task = "Add a second function to the library and test it."
[scope]
whitelist = ["src/**"]
[checks]
commands = ["true"]
[bundle]
required = false
"#;

struct Agent {
    repo: TestRepo,
    id: String,
    worktree: PathBuf,
}

fn agent_of(task: &str) -> Agent {
    let repo = TestRepo::with_commit();
    repo.write("docs/one.md", "# One\n");
    repo.write("tests/one.rs", "");
    repo.commit_all("directories to name");
    let report = repo.spawn_task(task, &[]);
    let text = |key: &str| report[key].as_str().expect("a text").to_owned();
    Agent { id: text("agent_id"), worktree: text("worktree_abspath").into(), repo }
}

fn agent() -> Agent {
    agent_of(TASK)
}

impl Agent {
    fn amend(&self, words: &[&str]) -> Value {
        self.repo.agent_json(&[&["amend", &self.id][..], words].concat())
    }

    fn verdict(&self) -> Value {
        let output = self.repo.agent(&["verify", &self.id, "--format=json"]);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", describe(&output)))
    }

    fn write(&self, name: &str) {
        let path = self.worktree.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, "pub fn two() {}\n").expect("written");
    }

    fn row(&self) -> String {
        let spawn = self.repo.agent_json(&["show", &self.id])["spawn_commit"].clone();
        let spawn = spawn.as_str().expect("an oid").to_owned();
        self.repo.git(["notes", "--ref=agents", "show", &spawn])
    }

    /// Puts another line at the end of the row, as a program of another version or another clone would.
    fn append(&self, line: &Value) {
        let show = self.repo.agent_json(&["show", &self.id]);
        let spawn = show["spawn_commit"].as_str().expect("an oid");
        let body = format!("{}\n{line}\n", self.row());
        self.repo.git(["notes", "--ref=agents", "add", "--force", "--message", &body, spawn]);
    }

    fn line(&self, kind: &str, facts: &Value) -> Value {
        json!({"t": "20300101T000000.000000Z-000-ffff", "a": self.id, "e": kind, "by": "elsewhere", "d": facts})
    }
}

fn refused(output: &Output, code: &str, status: i32) -> String {
    let said = describe(output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains(&format!("error[{code}]")), "{said}");
    said
}

#[test]
fn every_verb_obeys_the_amended_policy() {
    let agent = agent();
    agent.write("docs/two.md");
    assert_eq!(agent.verdict()["verdict"], "reject");
    let before = git_in(&agent.worktree, ["rev-parse", "HEAD"]);
    let report = agent.amend(&[
        "--add-scope=docs/**",
        "--check=false",
        "--timeout=90s",
        "-m",
        "the docs, too",
    ]);
    assert_eq!(report["whitelist"], json!(["src/**", "docs/**"]));
    assert_eq!((&report["checks"], &report["timeout_ms"]), (&json!(["false"]), &json!(90_000)));
    // No commit is made; the row names who, what and why, and the blob outlives a collection.
    assert_eq!(before, git_in(&agent.worktree, ["rev-parse", "HEAD"]));
    let show = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(show["amended_policy"], report["policy"]);
    assert_eq!(show["whitelist"], report["whitelist"]);
    let event = show["events"].as_array().expect("events").last().expect("one");
    assert_eq!(event["event"], "amended", "{event}");
    assert!(event.to_string().contains("the docs, too"), "{event}");
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    let policy = report["policy"].as_str().expect("an oid");
    assert!(agent.repo.git(["cat-file", "blob", policy]).contains("docs/**"));
    // The scope holds for verify, the hook and the prompt; the checks for verify.
    let verdict = agent.verdict();
    let codes = verdict["findings"].to_string();
    assert!(!codes.contains("scope.") && codes.contains("commands."), "{verdict:#}");
    let check = agent_command(&agent.worktree).args(["check", "--worktree"]).output();
    assert!(check.expect("starts").status.success());
    let prompt = agent.repo.agent_json(&["show", &agent.id, "--invocation"])["prompt"].to_string();
    assert!(prompt.contains("docs/**"), "{prompt}");
    // What runs is told the new scope and stopped at the new limit.
    let run = ["run", &agent.id, "--dry-run", "--format=json", "--", "true"];
    let planned: Value = serde_json::from_slice(&agent.repo.agent(&run).stdout).expect("JSON");
    assert_eq!(planned["timeout_ms"], 90_000, "{planned}");
    // Lists are replaced; the denylist keeps its defaults.
    let report = agent.amend(&["--scope=docs/**", "--check=true", "--deny=docs/secret/**"]);
    assert_eq!(report["whitelist"], json!(["docs/**"]));
    let denied = report["denylist"].to_string();
    assert!(denied.contains("docs/secret/**") && denied.contains("**/.env"), "{denied}");
    agent.write("src/two.rs");
    assert!(agent.verdict()["findings"].to_string().contains("scope."));
    fs::remove_file(agent.worktree.join("src/two.rs")).expect("removed");
    agent.repo.agent_json(&["merge", &agent.id]);
    assert_eq!(agent.repo.git(["show", "main:docs/two.md"]), "pub fn two() {}");
    refused(&agent.repo.agent(&["amend", &agent.id, "--scope=src/**"]), "agent-state", 3);
}

#[test]
fn checks_come_from_the_target_and_a_bundle_can_be_waived() {
    let task = TASK.replace("required = false", "required = true").replace("\"true\"", "\"false\"");
    let agent = agent_of(&task);
    agent.write("src/two.rs");
    assert!(agent.verdict()["findings"].to_string().contains("bundle."));
    agent.repo.write(".config/git-agent.toml", "[checks]\ncommands = [\"test -f src/two.rs\"]\n");
    agent.repo.commit_all("settings");
    let report = agent.amend(&["--checks=target", "--no-bundle"]);
    assert_eq!(report["checks"], json!(["test -f src/two.rs"]));
    assert_eq!(report["bundle_required"], false);
    assert_eq!(agent.verdict()["verdict"], "accept");
}

#[test]
fn what_cannot_be_meant_changes_nothing() {
    let agent = agent();
    let row = agent.row();
    for (words, code, status) in [
        (&["--scope=../x"][..], "task-invalid", 2),
        (&["--deny="], "task-invalid", 2),
        (&["--check= "], "task-invalid", 2),
        (&["--scope=src/**"], "usage", 2),
        (&["--scope=nosuch"], "scope-unmatched", 2),
        (&["--add-scope=scr/lib.rs"], "scope-unmatched", 2),
    ] {
        let words = [&["amend", &agent.id][..], words].concat();
        refused(&agent.repo.agent(&words), code, status);
    }
    let nothing = agent.repo.agent(&["amend", &agent.id]);
    assert_eq!(nothing.status.code(), Some(2), "{}", describe(&nothing));
    let planned = agent.amend(&["--add-scope=docs/**", "--dry-run"]);
    assert_eq!(planned["dry_run"], true);
    assert_eq!(agent.row(), row);
    let said = refused(&agent.repo.agent(&["amend", &agent.id, "--scope=/src"]), "task-invalid", 2);
    assert!(!said.contains("spawn"), "there is a task already: {said}");
}

#[test]
fn no_agent_amends_anything() {
    let agent = agent();
    let other = agent.repo.spawn_task(&TASK.replace("worker", "other"), &[]);
    let other = other["agent_id"].as_str().expect("an id");
    let program = env!("CARGO_BIN_EXE_git-agent");
    let row = agent.row();
    // In its worktree, by its variable, by its spool, and below a run that has emptied its environment.
    let mut inside = agent_command(&agent.worktree);
    inside.args(["amend", &agent.id, "--scope=docs/**"]);
    refused(&inside.output().expect("starts"), "orchestrator-only", 3);
    for variable in ["GIT_AGENT_ID", "GIT_AGENT_SPOOL"] {
        let mut named = agent_command(&agent.repo.path());
        named.args(["amend", &agent.id, "--scope=docs/**"]).env(variable, other);
        refused(&named.output().expect("starts"), "orchestrator-only", 3);
    }
    let root = agent.repo.path();
    let root = root.to_str().expect("UTF-8");
    for sandbox in ["off", "auto"] {
        for target in [&agent.id, other] {
            let script = format!(
                "cd {root} && exec env -u GIT_AGENT_ID -u GIT_AGENT_SPOOL -u GIT_AGENT_FENCED {program} amend {target} --scope='**/*.md'"
            );
            let run = agent.repo.agent(&[
                "run",
                other,
                "--no-verify",
                "--sandbox",
                sandbox,
                "--",
                "sh",
                "-c",
                &script,
            ]);
            assert!(!run.status.success(), "{sandbox} {target}: {}", describe(&run));
        }
    }
    assert_eq!(agent.row(), row);
    let show = agent.repo.agent_json(&["show", other]);
    assert!(show.get("amended_policy").is_none(), "{show}");
}

#[test]
fn nothing_is_amended_while_something_runs() {
    let agent = agent();
    let log = agent.repo.path().with_file_name("go");
    let wait = format!("while ! test -e {}; do sleep 0.05; done", log.display());
    let run = ["run", &agent.id, "--background", "--no-verify", "--", "sh", "-c", &wait];
    let begun = agent.repo.agent(&run);
    assert!(begun.status.success(), "{}", describe(&begun));
    refused(&agent.repo.agent(&["amend", &agent.id, "--scope=docs/**"]), "agent-busy", 3);
    fs::write(&log, "").expect("written");
    agent.repo.agent(&["wait", &agent.id]);
    agent.amend(&["--scope=docs/**"]);
}

#[test]
fn a_row_from_elsewhere_amends_nothing() {
    let agent = agent();
    agent.write("secrets.md");
    let policy = agent.amend(&["--add-scope=docs/**"])["policy"].clone();
    let text = agent.repo.git(["cat-file", "blob", policy.as_str().expect("an oid")]);
    let wide = agent.repo.path().with_file_name("wide");
    fs::write(&wide, text.replace("docs/**", "**/*.md") + "\n").expect("written");
    let blob = agent.repo.git(["hash-object", "-w", wide.to_str().expect("UTF-8")]);
    agent.append(&agent.line("amended", &json!({"policy": blob, "reason": "", "needs": "0.3.0"})));
    let show = agent.repo.agent_json(&["show", &agent.id]);
    // The last amendment of this clone binds, and the other is named.
    assert_eq!(show["amended_policy"], policy, "{show:#}");
    assert!(show["irregular"].to_string().contains("amended"), "{show:#}");
    let verdict = agent.verdict();
    let codes = verdict["findings"].to_string();
    assert!(codes.contains("scope.") && codes.contains("ledger.irregular"), "{verdict:#}");
    // A claim that this clone denies does not hide the amendment.
    let landed =
        json!({"commit": agent.repo.git(["rev-parse", "main"]), "into": "refs/heads/main"});
    agent.append(&agent.line("merged", &landed));
    let show = agent.repo.agent_json(&["show", &agent.id]);
    assert_ne!(show["state"], "merged", "{show:#}");
    let codes = agent.verdict()["findings"].to_string();
    assert!(codes.contains("ledger.irregular"), "{codes}");
}

#[test]
fn an_event_of_a_newer_version_stops_what_cannot_be_taken_back() {
    for kind in ["undone", "amended"] {
        let agent = agent();
        agent.write("src/two.rs");
        assert_eq!(agent.verdict()["verdict"], "accept");
        let facts = json!({"needs": "99.0.0", "policy": "0".repeat(40), "reason": ""});
        agent.append(&agent.line(kind, &facts));
        let row = agent.row();
        // Reading verbs show it and what it needs.
        let show = agent.repo.agent_json(&["show", &agent.id]);
        assert!(show["irregular"].to_string().contains("99.0.0"), "{show:#}");
        for words in [&["list"][..], &["log", &agent.id], &["diff", &agent.id], &["report"]] {
            let output = agent.repo.agent(words);
            assert!(output.status.success(), "{words:?}: {}", describe(&output));
        }
        assert_eq!(agent.verdict()["verdict"], "reject");
        for words in [
            &["merge"][..],
            &["discard"],
            &["discard", "--force"],
            &["reject"],
            &["retry"],
            &["amend", "--scope=docs/**"],
        ] {
            let words = [&words[..1], &[agent.id.as_str()], &words[1..]].concat();
            let said = refused(&agent.repo.agent(&words), "agent-needs-newer", 4);
            assert!(said.contains("99.0.0"), "{said}");
        }
        let trained = agent.repo.agent(&["train", &agent.id]);
        assert!(!trained.status.success(), "{}", describe(&trained));
        agent.repo.agent_json(&["gc", "--yes"]);
        assert!(agent.worktree.join("src/two.rs").exists());
        assert_eq!(agent.row(), row);
        assert!(!agent.repo.git(["ls-tree", "-r", "--name-only", "main"]).contains("two.rs"));
    }
    // One that every version understands is passed over, as before.
    let agent = agent();
    agent.append(&agent.line("celebrated", &json!({"needs": "0.1.0"})));
    agent.append(&agent.line("celebrated", &json!({})));
    agent.write("src/two.rs");
    agent.repo.agent_json(&["merge", &agent.id]);
}

/// Not a test: the process that dies.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let options = AmendOptions { scope: vec!["docs/**".to_owned()], ..AmendOptions::default() };
        let ctx = ctx(&order.directory, order.dying());
        amend::amend(&ctx, &order.words[0], &options).expect("amended");
    }
}

#[test]
fn a_killed_amendment_is_whole_or_was_never_made() {
    for step in STEPS {
        let agent = agent();
        death::die_at("amend::child", &agent.repo.path(), step, &[&agent.id]);
        let show = agent.repo.agent_json(&["show", &agent.id]);
        let is_made = step != STEPS[0];
        assert_eq!(show.get("amended_policy").is_some(), is_made, "{step}");
        let expected = if is_made { "docs/**" } else { "src/**" };
        assert_eq!(show["whitelist"], json!([expected]), "{step}");
        assert!(show.get("irregular").is_none(), "{step}: {show:#}");
        // The next one starts from there.
        let report = agent.amend(&["--add-scope=tests/**"]);
        assert_eq!(report["whitelist"], json!([expected, "tests/**"]), "{step}");
        agent.repo.git(["fsck", "--connectivity-only"]);
    }
}

/// What an agent outside of a fence can write.
fn forge(agent: &Agent, change: impl Fn(&str) -> String) {
    let copy = agent.repo.path().join(format!(".git/agents/{}/task.toml", &agent.id[..8]));
    let text = fs::read_to_string(&copy).expect("a task");
    fs::write(&copy, change(&text)).expect("written");
}

#[test]
fn another_try_takes_nothing_from_a_copy_that_an_agent_can_write() {
    let planted = |root: &Path| root.join("planted");
    for forgery in [
        |text: &str| text.replace("src/**", "**/*"),
        |text: &str| format!("{text}\n[setup]\nrun = [\"touch $GIT_AGENT_HOOK_ROOT/planted\"]\n"),
        |text: &str| text.replace("\"true\"", "\"touch /tmp/planted\""),
        |text: &str| text.replace("Add a second", "Send me the"),
        |text: &str| format!("base = \"HEAD\"\n{text}"),
    ] {
        let agent = agent();
        agent.repo.agent_json(&["fail", &agent.id, "-m", "no"]);
        forge(&agent, forgery);
        let said = refused(&agent.repo.agent(&["retry", &agent.id]), "agent-state", 3);
        assert!(said.contains("changed after it was spawned"), "{said}");
        assert!(!planted(&agent.repo.path()).exists());
        refused(
            &agent.repo.agent(&["run", &agent.id, "--host=claude", "--dry-run"]),
            "agent-state",
            3,
        );
    }
}

#[test]
fn another_try_of_an_old_agent_takes_what_was_recorded() {
    let agent = agent();
    let (id, _) = agent.repo.without_policy_in_spawn_commit(&agent.id);
    let agent = Agent { id, ..agent };
    // Its policy says nothing of the task file, as those of version 0.2.0.
    let row = agent.row();
    let spawned: Value = row
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .find(|line: &Value| line["e"] == "spawned")
        .expect("one");
    let blob = spawned["d"]["policy"].as_str().expect("an oid");
    let file = agent.repo.path().with_file_name("policy");
    // The keys stay in their order, which the digest in the spawn commit is made of.
    let text = agent.repo.git(["cat-file", "blob", blob]);
    let start = text.find(",\"task_sha\"").expect("there");
    let end = start + text[start + 1..].find([',', '}']).expect("an end") + 1;
    fs::write(&file, format!("{}{}\n", &text[..start], &text[end..])).expect("written");
    let old = agent.repo.git(["hash-object", "-w", file.to_str().expect("UTF-8")]);
    let spawn = agent.repo.agent_json(&["show", &agent.id])["spawn_commit"].clone();
    let body = row.replace(blob, &old);
    agent.repo.git([
        "notes",
        "--ref=agents",
        "add",
        "--force",
        "--message",
        &body,
        spawn.as_str().expect("an oid"),
    ]);
    agent.repo.agent_json(&["fail", &agent.id, "-m", "no"]);
    forge(&agent, |text| {
        text.replace("src/**", "**/*").replace("\"true\"", "\"planted\"")
            + "[setup]\nrun = [\"planted\"]\n"
    });
    let again = agent.repo.agent_json(&["retry", &agent.id]);
    let show = agent.repo.agent_json(&["show", again["agent_id"].as_str().expect("an id")]);
    assert_eq!(show["whitelist"], json!(["src/**"]));
    assert_eq!(show["checks"], json!(["true"]));
}

#[test]
fn another_try_of_an_amended_agent_begins_with_what_binds_it() {
    let agent = agent();
    agent.amend(&["--scope=docs/**", "--check=echo checked", "--deny=docs/secret/**"]);
    agent.repo.agent_json(&["fail", &agent.id, "-m", "no"]);
    let again = agent.repo.agent_json(&["retry", &agent.id]);
    let show = agent.repo.agent_json(&["show", again["agent_id"].as_str().expect("an id")]);
    assert_eq!(show["whitelist"], json!(["docs/**"]));
    assert_eq!(show["checks"], json!(["echo checked"]));
    assert!(show["denylist"].to_string().contains("docs/secret/**"));
}

#[test]
fn the_denylist_of_an_agent_that_does_not_edit_stays() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", "read it", "--name=reader", "--role=read-only"]);
    let before = repo.agent_json(&["show", "reader"])["denylist"].clone();
    let amended = repo.agent_json(&["amend", "reader", "--add-scope=src/**"]);
    assert_eq!(amended["denylist"], before);
    assert_eq!(amended["state"], "ready", "nothing runs in it");
}

#[test]
fn what_is_recorded_with_a_decision_holds_no_credential() {
    let agent = agent();
    let token = format!("because of ghp_{}", "0123456789abcdefghijABCDEFGHIJ012345");
    agent.write("src/two.rs");
    for words in [
        &["amend", "--timeout=5m", "--dry-run"][..],
        &["amend", "--timeout=5m"],
        &["mark", "done"],
        &["mark", "fail"],
        &["reject"],
        &["defer"],
    ] {
        let words = [words, &[&agent.id, "-m", &token]].concat();
        let said = refused(&agent.repo.agent(&words), "usage", 2);
        assert!(said.contains("GitHub token"), "{words:?}: {said}");
    }
    assert!(!agent.row().contains("ghp_"), "{}", agent.row());
}

#[test]
fn a_time_limit_that_no_run_can_have_is_refused() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", "do it", "--scope=src", "--name=one"]);
    for time in ["0s", "100h"] {
        let refused = repo.agent(&["amend", "one", "--timeout", time]);
        assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
        assert!(describe(&refused).contains("from `1s` to `24h`"), "{}", describe(&refused));
    }
    let ran = repo.agent(&["run", "one", "--", "true"]);
    assert!(ran.status.success(), "{}", describe(&ran));
}
