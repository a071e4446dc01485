//! `list`, `show`, `log`, `tree`, `path`, `done` and `fail`, as people and scripts meet them.

use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, TASK, describe};
use crate::support::terminal::OnTerminal;
use serde_json::Value;

fn id(report: &Value) -> &str {
    report["agent_id"].as_str().expect("an id")
}

fn refused(repo: &TestRepo, arguments: &[&str], code: &str, status: i32) {
    let output = repo.agent(arguments);
    assert_eq!(output.status.code(), Some(status), "{}", describe(&output));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.starts_with(&format!("error[{code}]: ")), "{error}");
    assert!(output.stdout.is_empty());
}

#[test]
fn an_empty_ledger_lists_nobody() {
    let repo = TestRepo::with_commit();
    let output = repo.agent(&["list"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "(no agents)\n");
    assert_eq!(repo.agent_json(&["list"])["agents"], Value::Array(Vec::new()));
    assert!(repo.agent(&["list", "--format=ndjson"]).stdout.is_empty());
}

#[test]
fn every_way_to_name_an_agent_finds_it() {
    let repo = TestRepo::with_commit();
    let other = repo.spawn();
    let report = repo.spawn_task(TASK, &["--name=fixer"]);
    let worktree = report["worktree_abspath"].as_str().expect("a path");
    let relative = report["worktree_path"].as_str().expect("a path");
    let branch = report["branch"].as_str().expect("a branch");
    let full = format!("refs/heads/{branch}");
    let commit = report["spawn_commit"].as_str().expect("a commit");
    let names = [
        id(&report),
        &id(&report)[..8],
        &id(&report)[..18],
        "fixer",
        branch,
        &full,
        worktree,
        relative,
        commit,
        &commit[..12],
    ];
    for name in names {
        let found = repo.agent_json(&["show", name]);
        assert_eq!(found["agent_id"], report["agent_id"], "{name}");
    }
    assert_ne!(report["agent_id"], other["agent_id"]);
    refused(&repo, &["show", "nobody"], "agent-unknown", 2);
    refused(&repo, &["show", "0"], "agent-unknown", 2);
    repo.spawn_task(TASK, &["--name=fixer"]);
    refused(&repo, &["show", "fixer"], "agent-ambiguous", 2);
}

#[test]
fn done_and_fail_move_an_agent_once() {
    let repo = TestRepo::with_commit();
    let (one, two) = (repo.spawn(), repo.spawn());
    let done = repo.agent_json(&["done", id(&one), "--summary=all green"]);
    assert_eq!((&done["state"], &done["summary"]), (&"done".into(), &"all green".into()));
    let failed = repo.agent_json(&["fail", id(&two), "--reason=no idea"]);
    assert_eq!(failed["state"], "failed");
    refused(&repo, &["done", id(&one)], "agent-state", 3);
    refused(&repo, &["fail", id(&two), "--reason=x"], "agent-state", 3);

    let listed = repo.agent_json(&["list", "--state=done"]);
    assert_eq!(listed["agents"].as_array().expect("rows").len(), 1);
    assert_eq!(listed["agents"][0]["agent_id"], one["agent_id"]);
    let log = repo.agent_json(&["log", id(&one)]);
    let kinds: Vec<_> =
        log["events"].as_array().expect("events").iter().map(|event| &event["event"]).collect();
    assert_eq!(kinds, ["spawning", "spawned", "done"]);
}

#[test]
fn list_filters_by_role_and_dna() {
    let repo = TestRepo::with_commit();
    let (one, two) = (repo.spawn(), repo.spawn_task(SHARED_TASK, &[]));
    let only = |argument: String| {
        let listed = repo.agent_json(&["list", &argument]);
        let rows = listed["agents"].as_array().expect("rows").clone();
        rows.iter().map(|row| row["agent_id"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(only("--role=read-only".into()), std::slice::from_ref(&two["agent_id"]));
    let dna = one["dna"].as_str().expect("dna");
    assert_eq!(only(format!("--dna={}", &dna[..20])), std::slice::from_ref(&one["agent_id"]));
    assert_eq!(only("--dna=sha256:zz".into()), Vec::<Value>::new());
    assert_eq!(only("--all".into()).len(), 2);
    let lines = repo.agent(&["list", "--format=ndjson"]).stdout;
    assert_eq!(String::from_utf8_lossy(&lines).lines().count(), 2);
}

#[test]
fn the_tree_shows_who_asked_for_whom() {
    let repo = TestRepo::with_commit();
    let root = repo.spawn_task(TASK, &["--name=root"]);
    let child = repo.spawn_task(TASK, &["--name=child", "--parent", id(&root)]);
    repo.spawn_task(TASK, &["--name=grandchild", "--parent", id(&child)]);
    repo.spawn_task(TASK, &["--name=second", "--parent", id(&root)]);
    repo.spawn_task(TASK, &["--name=alone"]);
    let text = String::from_utf8(repo.agent(&["tree"]).stdout).expect("UTF-8");
    let shape: Vec<String> = text
        .lines()
        .map(|line| {
            // The ids differ from run to run.
            let words: Vec<_> = line.split(' ').collect();
            let hex = |word: &&&str| word.len() == 8 && word.bytes().all(|b| b.is_ascii_hexdigit());
            let id = words.iter().find(hex).expect("an id");
            line.replace(&format!("{id} "), "").split(" ready").next().expect("a name").to_owned()
        })
        .collect();
    assert_eq!(shape, ["root", "├─ child", "│  └─ grandchild", "└─ second", "alone"]);
    let below = repo.agent_json(&["tree", "child"]);
    assert_eq!(below["agents"].as_array().expect("nodes").len(), 2);
}

#[test]
fn the_invocation_is_ready_to_paste() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let call = repo.agent_json(&["show", id(&report), "--invocation"]);
    assert_eq!(call["subagent_type"], "general-purpose", "a type that hosts have");
    assert_eq!(call.get("isolation"), None, "no second worktree");
    assert_eq!(call["description"], "Add a second function to the library and test it.");
    assert!(call["prompt"].as_str().expect("a prompt").contains("MUST NOT invoke git"));
    let shared = repo.spawn_task(SHARED_TASK, &[]);
    repo.write(".claude/agents/researcher.md", "---\nname: researcher\n---\n");
    let call = repo.agent_json(&["show", id(&shared), "--invocation"]);
    assert_eq!(call["subagent_type"], "researcher", "the project's own");
}

#[test]
fn the_invocation_of_an_agent_type_says_which_it_is() {
    let repo = TestRepo::with_commit();
    repo.write("_bmad/config.toml", "[agents.pm]\nname = \"John\"\n");
    repo.commit_all("a roster");
    let description = |profile: &str| {
        let report = repo.spawn_task(
            &format!("profile = \"{profile}\"\ndescription = \"Plan it\"\n{TASK}"),
            &[],
        );
        let call = repo.agent_json(&["show", id(&report), "--invocation"]);
        call["description"].clone()
    };
    assert_eq!(description("pm"), "pm: Plan it");
    // A persona that the run asks for is in the prompt as well.
    let words = ["run", "Plan it all", "--agent-type=pm", "--name=asked", "--no-verify"];
    let ran = repo.agent(&[&words[..], &["--", "true"]].concat());
    assert!(ran.status.success(), "{}", describe(&ran));
    repo.write(".claude/agents/code-implementer.md", "---\nname: x\n---\n");
    let call = repo.agent_json(&["show", "asked", "--invocation"]);
    assert_eq!(call["description"], "pm: Plan it all");
    assert_eq!(call["subagent_type"], "general-purpose");
    assert_eq!(description("developer"), "Plan it");
}

#[test]
fn path_prints_one_line_for_the_shell() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let output = repo.agent(&["path", id(&report)]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{}\n", report["worktree_abspath"].as_str().expect("a path"))
    );
    let shared = repo.spawn_task(SHARED_TASK, &[]);
    refused(&repo, &["path", id(&shared)], "agent-state", 3);
}

#[test]
fn a_reader_that_goes_away_ends_us_quietly() {
    let repo = TestRepo::with_commit();
    repo.spawn();
    let binary = env!("CARGO_BIN_EXE_git-agent");
    let script = format!("'{binary}' list --format=json | true; exit \"${{PIPESTATUS[0]}}\"");
    let output = crate::support::isolated("bash", &repo.path())
        .args(["-c", &script])
        .output()
        .expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_worktree_that_was_moved_is_where_it_is_now() {
    let agent = crate::verify::Agent::new();
    let repo = &agent.repo;
    let to = repo.path().with_file_name("elsewhere");
    let to = to.to_str().expect("UTF-8");
    let from = agent.worktree.to_str().expect("UTF-8");
    repo.git(["worktree", "move", "-f", "-f", from, to]);
    assert_eq!(repo.agent_json(&["path", &agent.id])["worktree_abspath"], to);
    assert_eq!(repo.agent_json(&["show", &agent.id])["worktree_path"], to);
    let listed = repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["worktree_path"], to, "{listed}");
    assert_eq!(repo.agent_json(&["show", to])["agent_id"], agent.id.as_str());
    std::fs::write(format!("{to}/NOTES.md"), "out of scope\n").expect("write");
    let output = repo.agent(&["check", &agent.id, "--worktree"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(describe(&output).contains("NOTES.md"), "{}", describe(&output));
}

#[test]
fn no_path_is_printed_for_a_worktree_that_is_not_there() {
    let agent = crate::verify::Agent::new();
    let repo = &agent.repo;
    repo.agent_json(&["discard", &agent.id]);
    refused(repo, &["path", &agent.id], "agent-state", 3);
    let said = describe(&repo.agent(&["path", &agent.id]));
    assert!(said.contains("git agent rescue "), "{said}");
    let output = repo.agent(&["path", &agent.id, "--format=json"]);
    crate::verify::refused_json(&output, "agent-state", 3);

    let one = repo.spawn();
    let clone = repo.path().with_file_name("clone");
    let clone = clone.to_str().expect("UTF-8");
    repo.git(["clone", "--quiet", ".", clone]);
    std::fs::remove_dir_all(one["worktree_abspath"].as_str().expect("a path")).expect("removed");
    refused(repo, &["path", id(&one)], "agent-state", 3);
    let there = std::path::Path::new(clone);
    crate::support::git_in(
        there,
        [
            "fetch",
            "--quiet",
            "origin",
            "+refs/notes/agents:refs/notes/agents",
            "+refs/agents/*:refs/agents/*",
        ],
    );
    let output = crate::support::agent::agent_command(there)
        .args(["path", id(&one)])
        .output()
        .expect("starts");
    crate::verify::refused(&output, "agent-state", 3);
    assert!(describe(&output).contains("in another clone"), "{}", describe(&output));
}

#[test]
fn a_summary_too_long_for_a_line_is_kept_whole() {
    let repo = TestRepo::with_commit();
    let one = repo.spawn();
    let long = format!("All of it\n{}\nthe end", "and more ".repeat(600));
    repo.agent_json(&["done", id(&one), "--summary", &long]);
    let log = repo.agent_json(&["log", id(&one)]);
    let said = log["events"].as_array().expect("events").last().expect("one").clone();
    assert_eq!(said["detail"], long.as_str());
    assert_eq!(repo.agent_json(&["show", id(&one)])["summary"], long.as_str());
    let text = String::from_utf8(repo.agent(&["log", id(&one)]).stdout).expect("UTF-8");
    assert!(text.contains("the end"), "{text}");
    let listed = repo.agent_json(&["list"]);
    let short = listed["agents"][0]["summary"].as_str().expect("a text");
    assert!(short.len() < 1024 && short.ends_with('…'), "{short}");

    let blob = said["text_blob"].as_str().expect("a blob");
    let note = repo.git([
        "notes",
        "--ref=agents",
        "show",
        one["spawn_commit"].as_str().expect("a commit"),
    ]);
    assert!(note.lines().all(|line| line.len() < 1024) && note.contains(blob), "{note}");
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(repo.git(["cat-file", "blob", blob]), long);

    let two = repo.spawn();
    repo.agent_json(&["fail", id(&two), "--reason", "short"]);
    let log = repo.agent_json(&["log", id(&two)]);
    let said = log["events"].as_array().expect("events").last().expect("one").clone();
    assert_eq!((&said["detail"], &said["text_blob"]), (&"short".into(), &Value::Null));
    let longer = "x".repeat(5000);
    repo.agent_json(&["reject", id(&two), "--reason", &longer]);
    assert_eq!(repo.agent_json(&["show", id(&two)])["summary"], longer.as_str());
}

#[test]
fn what_came_after_a_persons_last_look_is_marked() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn_task(TASK, &[]);
    let id = id(&agent).to_owned();
    let unseen = || {
        let shown = repo.agent_json(&["show", &id]);
        let events = shown["events"].as_array().expect("events").clone();
        let new = events.into_iter().filter(|event| event["unseen"] == true);
        new.map(|event| event["event"].as_str().expect("a kind").to_owned()).collect::<Vec<_>>()
    };
    let look = || {
        let mut screen = OnTerminal::start(&repo, &["show", &id], 100, 60);
        screen.until(|screen| screen.contains("spawned"));
        let text = screen.screen.screen().contents();
        assert_eq!(screen.child.wait().expect("ends").code(), Some(0));
        text
    };
    // Nobody has looked yet, and a program that reads is no person.
    repo.agent_json(&["mark", "done", &id, "-m", "finished"]);
    assert_eq!(unseen(), [] as [&str; 0]);
    assert!(!look().contains("since you last looked"));
    repo.agent_json(&["mark", "fail", &id, "-m", "it was not"]);
    assert_eq!(unseen(), ["failed"]);
    let text = look();
    assert!(text.contains("1 event since you last looked") && text.contains("* failed"), "{text}");
    assert_eq!(unseen(), [] as [&str; 0]);
}
